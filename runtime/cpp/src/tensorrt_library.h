// The TensorRT library, found and loaded when first needed; nothing links to it.
#pragma once

#include <NvInferRuntime.h>
#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/result.h>

#include <memory>
#include <string>

#include "delegate_blob.h"

namespace executorch_tensorrt {

struct TensorRTLibrary {
  std::string path;
  Flavour flavour{};
  TensorRTVersion version;
  void* (*create_runtime)(void* logger, int32_t version) = nullptr;

  /// "TensorRT-RTX 1.6.1.120 (/usr/lib/libtensorrt_rtx.so.1)".
  std::string describe() const;
};

/// The library of this flavour; stays loaded for the life of the process. Looked for, in order:
///  1. the path that EXECUTORCH_TENSORRT_LIBRARY names, and then nowhere else;
///  2. in this process, if something has loaded it already;
///  3. on the loader's path (LD_LIBRARY_PATH, ld.so.conf);
///  4. in the folders that the Python wheels install, tensorrt_libs and tensorrt_rtx_libs, beside
///     the package that holds this library or ExecuTorch's (<site-packages>/executorch_tensorrt/lib
///     and <site-packages>/executorch/lib lead to <site-packages>).
/// NotFound, naming where it was looked for and what to install. DelegateInvalidCompatibility where
/// the library that is there is of another flavour, or of a version that this build can not call.
executorch::runtime::Result<const TensorRTLibrary*> tensorrt_library(Flavour flavour);

/// Loads the library at `path` (or of that soname) and asks for its version. NotFound if it can
/// not be loaded, or is no TensorRT library.
executorch::runtime::Result<TensorRTLibrary> load_tensorrt_library(const std::string& path);

/// Whether what this build was compiled against (NvInfer.h) can call a library of that version.
bool can_call(Flavour flavour, const TensorRTVersion& version);

}  // namespace executorch_tensorrt

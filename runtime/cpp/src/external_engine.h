// An engine that is not in its blob but in the program's named data, a .ptd file.
#pragma once

#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/core/result.h>

#include <string>

#include "delegate_blob.h"

namespace executorch_tensorrt {

/// What the blob's engine is called in named data.
std::string external_engine_key(const DelegateBlob& blob);

/// Points blob.engine, which is external, to its bytes in `data` (nullptr: the program has none).
/// They live as long as the buffer. InvalidExternalData, naming the engine and what was found,
/// where it isn't there or has another size.
executorch::runtime::Result<executorch::runtime::FreeableBuffer> load_external_engine(
    DelegateBlob& blob, const executorch::runtime::NamedDataMap* data);

}  // namespace executorch_tensorrt

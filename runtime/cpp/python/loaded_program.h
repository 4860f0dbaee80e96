// A .pte and its methods, loaded; free of Python.
#pragma once

#include <executorch/devtools/etdump/etdump_flatcc.h>
#include <executorch/extension/module/module.h>
#include <executorch/runtime/backend/options.h>
#include <executorch/runtime/core/data_loader.h>
#include <executorch_tensorrt/delegate_info.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace executorch_tensorrt::python {

/// An ExecuTorch error with its text; becomes a Python exception at the binding.
struct RuntimeFailure : std::runtime_error {
  RuntimeFailure(executorch::runtime::Error code, const std::string& text)
      : std::runtime_error(text), code(code) {}
  executorch::runtime::Error code;
};

/// Throws RuntimeFailure unless Ok: `what`, and this library's last error where it reported one.
void check(executorch::runtime::Error error, const std::string& what);

/// Memory that an output lies in, handed to whoever reads it.
using OutputMemory = std::unique_ptr<uint8_t[]>;

/// A tensor that depends no more on the method, which another thread may execute next.
struct TensorOutput {
  executorch::aten::ScalarType dtype;
  std::vector<size_t> shape;
  OutputMemory memory;  // nullptr where the caller gave the memory
};

/// None, a number or a tensor.
using Output = std::variant<std::monostate, int64_t, double, bool, TensorOutput>;

/// Memory of the caller's for an output, on the host or the method's device.
struct GivenMemory {
  void* data;
  size_t bytes;
  /// Where it is known beforehand (DelegateInfo::output_shapes_follow_inputs), and the memory no
  /// larger; else the memory takes placeable_bytes().
  std::optional<std::vector<executorch::aten::SizesType>> shape;
};

class LoadedProgram;

/// One method. Executions of it take turns; those of other methods run beside it.
class LoadedMethod {
 public:
  /// `traced`: keeps an ETDump of its executions.
  LoadedMethod(std::shared_ptr<LoadedProgram> program, const std::string& name,
               std::vector<executorch::runtime::BackendOption> options, bool traced);

  const std::vector<std::shared_ptr<const DelegateInfo>>& delegates() const { return delegates_; }
  /// The method's own state; nullptr where its delegates have none.
  std::shared_ptr<StateSet> state() const;
  executorch::runtime::MethodMeta meta() const { return method_->method_meta(); }

  /// Whether inputs and outputs may lie on the delegate's GPU: no other part of the method, and no
  /// copy into memory that the program planned, touches them.
  bool takes_device_tensors() const { return takes_device_tensors_; }

  /// Bytes of an output at its largest, if it can be written to memory of the caller's: a tensor
  /// that the program planned no memory for, and neither an input nor an output before it.
  std::optional<size_t> placeable_bytes(size_t output) const { return placeable_bytes_.at(output); }

  /// Tensors among the inputs are read where they lie and must live until this returns; on a
  /// stream of the caller's, until it has got there. `given`: none, or one an output.
  std::vector<Output> execute(const std::vector<executorch::runtime::EValue>& inputs,
                              const std::vector<GivenMemory>& given);

  /// What was traced since the method was loaded, or since this was called last.
  std::string take_etdump();

 private:
  // Lends the Method out of the Module, whose own way of executing it allocates on each call.
  class MethodModule : public executorch::extension::Module {
   public:
    using Module::Module;
    executorch::runtime::Method* get(const std::string& name) {
      return methods_.at(name).method.get();
    }
  };

  static MethodModule module_of(const LoadedProgram& program);
  void set_input(size_t index, const executorch::runtime::EValue& value);
  std::optional<size_t> find_placeable_bytes(size_t output) const;
  OutputMemory prepare_output(size_t index);
  void use_given(const GivenMemory& given, size_t index);
  Output take_output(size_t index, const GivenMemory* given, OutputMemory memory);
  bool find_takes_device_tensors() const;

  std::shared_ptr<LoadedProgram> program_;
  std::string name_;
  // Outlives the method, which writes to it.
  std::unique_ptr<executorch::etdump::ETDumpGen> etdump_;
  MethodModule module_;
  executorch::runtime::Method* method_ = nullptr;
  std::vector<std::shared_ptr<const DelegateInfo>> delegates_;
  bool takes_device_tensors_ = false;
  std::vector<std::optional<size_t>> placeable_bytes_;  // one an output
  std::mutex mutex_;
};

class LoadedProgram : public std::enable_shared_from_this<LoadedProgram> {
 public:
  /// `data_path`: a .ptd file that the program's methods find their named data in; "": none.
  static std::shared_ptr<LoadedProgram> from_file(const std::string& path,
                                                  const std::string& data_path);
  /// The bytes must live as long as the program.
  static std::shared_ptr<LoadedProgram> from_bytes(const void* data, size_t size,
                                                   const std::string& data_path);

  std::vector<std::string> method_names() const;
  std::shared_ptr<LoadedMethod> load_method(const std::string& name,
                                            std::vector<executorch::runtime::BackendOption> options,
                                            bool traced);

 private:
  friend class LoadedMethod;
  using NewLoader = std::function<std::unique_ptr<executorch::runtime::DataLoader>()>;
  LoadedProgram(NewLoader new_loader, const std::string& what, const std::string& data_path);

  NewLoader new_loader_;  // of the program's bytes
  std::string data_path_;
  std::unique_ptr<executorch::runtime::DataLoader> loader_;
  std::shared_ptr<executorch::runtime::Program> program_;
};

}  // namespace executorch_tensorrt::python

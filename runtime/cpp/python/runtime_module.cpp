// The Python binding, executorch_tensorrt.runtime._runtime; what wraps it stands in runtime/*.py.
#include <executorch_tensorrt/backend.h>
#include <executorch_tensorrt/optimization_profile_guard.h>
#include <executorch_tensorrt/options.h>
#include <executorch_tensorrt/stream_guard.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "execution.h"
#include "loaded_program.h"
#include "states.h"
#include "tensors.h"
#include "torch_calls.h"

namespace nb = nanobind;
using namespace nanobind::literals;

namespace executorch_tensorrt::python {

namespace {

using executorch::runtime::BackendOption;
using executorch::runtime::Error;

std::unique_ptr<OptimizationProfileGuard> pin_automatic() {
  return std::unique_ptr<OptimizationProfileGuard>(
      new OptimizationProfileGuard(OptimizationProfileGuard::automatic()));
}

BackendOption make_option(const std::string& key,
                          const std::variant<bool, int, std::string>& value) {
  BackendOption option{};
  if (key.size() >= executorch::runtime::kMaxOptionKeyLength) {
    throw RuntimeFailure(Error::InvalidArgument, "option key '" + key + "' is too long");
  }
  std::strcpy(option.key, key.c_str());
  if (const auto* flag = std::get_if<bool>(&value)) {
    option.value = *flag;
  } else if (const auto* number = std::get_if<int>(&value)) {
    option.value = *number;
  } else {
    const auto& text = std::get<std::string>(value);
    std::array<char, executorch::runtime::kMaxOptionValueLength> buffer{};
    if (text.size() >= buffer.size() || text.find('\0') != std::string::npos) {
      throw RuntimeFailure(Error::InvalidArgument,
                           "option " + key + ": a text of " + std::to_string(text.size()) +
                               " bytes; at most " + std::to_string(buffer.size() - 1) + " fit");
    }
    std::memcpy(buffer.data(), text.data(), text.size());
    option.value = buffer;
  }
  return option;
}

/// A loaded program, with the Python bytes that it reads from.
struct PyProgram {
  nb::object bytes;
  std::shared_ptr<LoadedProgram> program;
};

using Options = std::vector<std::pair<std::string, std::variant<bool, int, std::string>>>;

std::shared_ptr<LoadedMethod> load_method(PyProgram& self, const std::string& name,
                                          nb::handle options, bool traced) {
  std::vector<BackendOption> parsed;
  for (const nb::handle item : options) {
    const auto pair = nb::cast<nb::tuple>(item);
    parsed.push_back(make_option(nb::cast<std::string>(pair[0]),
                                 nb::cast<std::variant<bool, int, std::string>>(pair[1])));
  }
  const Unlocked unlocked;
  return self.program->load_method(name, std::move(parsed), traced);
}

/// `profile`: pinned for this call alone; none: as the thread and the program say. `stream`: a CUDA
/// stream's handle, likewise. `given`: none, or for each output a flat array of bytes to write to.
nb::list execute(LoadedMethod& method, nb::handle inputs, const std::optional<Profile>& profile,
                 std::optional<uintptr_t> stream, const std::vector<nb::ndarray<>>& given) {
  const CallInputs call(inputs, method);
  std::vector<GivenMemory> memory;
  for (const auto& array : given) memory.push_back({array.data(), array.nbytes(), std::nullopt});
  std::vector<Output> outputs = execute_unlocked(method, call.values(), memory, {profile, stream});
  nb::list values;
  for (Output& output : outputs) values.append(to_python(std::move(output)));
  return values;
}

nb::dict statistics(const DelegateInfo& info) {
  const DelegateStatistics counts = info.statistics();
  nb::dict per_profile;
  for (size_t i = 0; i < counts.executions_per_profile.size(); ++i) {
    per_profile[nb::str(info.profiles()[i].name.c_str())] = counts.executions_per_profile[i];
  }
  nb::dict result;
  result["executions"] = counts.executions;
  result["failures"] = counts.failures;
  result["executions_per_profile"] = per_profile;
  result["profile_changes"] = counts.profile_changes;
  result["graph_replays"] = counts.graph_replays;
  result["graph_captures"] = counts.graph_captures;
  result["graph_misses"] = counts.graph_misses;
  result["host_synchronizations"] = counts.host_synchronizations;
  result["bytes_staged"] = counts.bytes_staged;
  result["last_profile"] =
      counts.last_profile ? nb::object(nb::str(info.profiles()[*counts.last_profile].name.c_str()))
                          : nb::none();
  return result;
}

nb::list profiles(const DelegateInfo& info) {
  nb::list result;
  for (const ProfileInfo& profile : info.profiles()) {
    nb::dict inputs;
    for (const InputRange& range : profile.inputs) {
      inputs[nb::str(range.input.c_str())] =
          nb::make_tuple(nb::tuple(nb::cast(range.min)), nb::tuple(nb::cast(range.opt)),
                         nb::tuple(nb::cast(range.max)));
    }
    result.append(nb::make_tuple(profile.name, inputs));
  }
  return result;
}

/// For each output: its bytes at its largest, or None where it cannot be written to memory of the
/// caller's.
nb::list placeable_bytes(const LoadedMethod& method) {
  nb::list result;
  for (size_t i = 0; i < method.meta().num_outputs(); ++i) {
    const auto bytes = method.placeable_bytes(i);
    result.append(bytes ? nb::object(nb::int_(*bytes)) : nb::none());
  }
  return result;
}

/// Raises the exception that executorch_tensorrt.runtime.errors has for the code.
void raise(const RuntimeFailure& failure) {
  const nb::object error =
      nb::module_::import_("executorch_tensorrt.runtime.errors")
          .attr("error_for")(executorch::runtime::to_string(failure.code), nb::str(failure.what()));
  PyErr_SetObject(reinterpret_cast<PyObject*>(error.type().ptr()), error.ptr());
}

}  // namespace

NB_MODULE(_runtime, m) {
  nb::set_leak_warnings(false);  // programs may live until the interpreter is gone
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const RuntimeFailure& failure) {
      raise(failure);
    }
  });

  nb::module_::import_("atexit").attr("register")(
      nb::cpp_function(&Unlocked::wait_for_all_at_exit));
  // Of the headers that the library was built with; "" if with none, and so without an engine.
  m.attr("tensorrt_headers_version") = EXECUTORCH_TENSORRT_HEADERS_VERSION;
  m.def("check_registration", [] {
    const Error error = registration_status();
    check(error, std::string("registering ") + kBackendId + " with ExecuTorch");
  });

  nb::class_<DelegateInfo>(m, "Delegate")
      .def_prop_ro("method", &DelegateInfo::method)
      .def_prop_ro("device", &DelegateInfo::device)
      .def_prop_ro("engine", &DelegateInfo::engine)
      .def_prop_ro("engine_id", &DelegateInfo::engine_id)
      .def_prop_ro("whole_method", &DelegateInfo::whole_method)
      .def_prop_ro("output_shapes_follow_inputs", &DelegateInfo::output_shapes_follow_inputs)
      .def_prop_ro("profiles", &profiles)
      .def("statistics", &statistics);

  nb::class_<OptimizationProfileGuard>(m, "OptimizationProfileGuard");
  m.def("pin_profile", &pin, "profile"_a);
  m.def("pin_automatic", &pin_automatic);
  nb::class_<StreamGuard>(m, "StreamGuard");
  m.def(
      "guard_stream",
      [](uintptr_t stream) {
        return std::make_unique<StreamGuard>(reinterpret_cast<void*>(stream));
      },
      "stream"_a);
  m.def("callers_stream", [] {
    const auto stream = StreamGuard::current();
    return stream ? std::optional(reinterpret_cast<uintptr_t>(*stream)) : std::nullopt;
  });

  bind_states(m);

  nb::class_<LoadedMethod>(m, "Method")
      .def("state", &LoadedMethod::state)
      .def("execute", &execute, "inputs"_a, "profile"_a.none(), "stream"_a.none(), "given"_a)
      .def_prop_ro("takes_device_tensors", &LoadedMethod::takes_device_tensors)
      .def_prop_ro("placeable_bytes", &placeable_bytes)
      .def("take_etdump",
           [](LoadedMethod& method) {
             std::string bytes;
             {
               const Unlocked unlocked;
               bytes = method.take_etdump();
             }
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def("delegates", [](const LoadedMethod& method) {
        nb::list result;
        for (const auto& delegate : method.delegates()) {
          result.append(nb::cast(std::const_pointer_cast<DelegateInfo>(delegate)));
        }
        return result;
      });

  nb::class_<TorchCalls>(m, "TorchCalls")
      .def(nb::init<std::shared_ptr<LoadedMethod>, nb::object>(), "method"_a, "torch"_a)
      .def("__call__", &TorchCalls::call, "inputs"_a, "profile"_a.none())
      .def("remember", &TorchCalls::remember, "inputs"_a, "outputs"_a);

  nb::class_<PyProgram>(m, "Program")
      .def_static("from_file",
                  [](const std::string& path, const std::string& data_path) {
                    const Unlocked unlocked;
                    return PyProgram{nb::object(), LoadedProgram::from_file(path, data_path)};
                  })
      .def_static("from_bytes",
                  [](const nb::bytes& bytes, const std::string& data_path) {
                    return PyProgram{
                        bytes, LoadedProgram::from_bytes(bytes.c_str(), bytes.size(), data_path)};
                  })
      .def_prop_ro("method_names",
                   [](const PyProgram& self) { return self.program->method_names(); })
      .def("load_method", &load_method, "name"_a, "options"_a, "traced"_a, nb::keep_alive<0, 1>());
}

}  // namespace executorch_tensorrt::python

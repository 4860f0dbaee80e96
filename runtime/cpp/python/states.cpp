#include "states.h"

#include <executorch_tensorrt/error.h>
#include <executorch_tensorrt/state.h>
#include <executorch_tensorrt/stream_guard.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "execution.h"
#include "loaded_program.h"
#include "tensors.h"

namespace nb = nanobind;
using namespace nanobind::literals;

namespace executorch_tensorrt::python {

namespace {

using executorch::runtime::Error;

StateInfo find(const StateSet& set, const std::string& name) {
  std::string known;
  for (StateInfo& info : set.states()) {
    if (info.name == name) return std::move(info);
    known += (known.empty() ? "" : ", ") + info.name;
  }
  throw nb::key_error(
      ("no state '" + name + "'; states are " + (known.empty() ? "none" : known)).c_str());
}

/// Name, dtype and shape of each.
nb::list states(const StateSet& set) {
  nb::list result;
  for (const StateInfo& info : set.states()) {
    result.append(
        nb::make_tuple(info.name, dtype_name(info.dtype), nb::tuple(nb::cast(info.shape))));
  }
  return result;
}

void reset(StateSet& set) {
  const Unlocked unlocked;
  clear_last_error();
  check(set.reset(), "resetting the state");
}

nb::object read(StateSet& set, const std::string& name) {
  const StateInfo info = find(set, name);
  TensorOutput output{
      info.dtype, {info.shape.begin(), info.shape.end()}, OutputMemory(new uint8_t[info.bytes])};
  {
    const Unlocked unlocked;
    clear_last_error();
    check(set.read(name, output.memory.get(), info.bytes), "reading state '" + name + "'");
  }
  return to_python(std::move(output));
}

std::string describe(executorch::aten::ScalarType dtype, const std::vector<int64_t>& shape) {
  std::string text = std::string(dtype_name(dtype)) + " [";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

/// `stream`: the handle of the CUDA stream on which the value is ready; none: as the thread says.
void write(StateSet& set, const std::string& name, nb::handle value,
           std::optional<uintptr_t> stream) {
  const StateInfo info = find(set, name);
  const GivenTensor given(value, "the value of state '" + name + "'");
  if (given.dtype() != info.dtype || given.shape() != info.shape) {
    throw RuntimeFailure(Error::InvalidArgument,
                         "state '" + name + "' is " + describe(info.dtype, info.shape) +
                             "; it was given " + describe(given.dtype(), given.shape()));
  }
  const auto guard =
      stream ? std::make_unique<StreamGuard>(reinterpret_cast<void*>(*stream)) : nullptr;
  const Unlocked unlocked;
  clear_last_error();
  check(set.write(name, given.data(), info.bytes), "writing state '" + name + "'");
}

std::shared_ptr<StateSet> create(const StateSet& set) {
  const Unlocked unlocked;
  clear_last_error();
  auto created = set.create();
  check(created.error(), "creating a state");
  return std::move(created.get());
}

}  // namespace

void bind_states(nb::module_& module) {
  nb::class_<StateSet>(module, "StateSet")
      .def("states", &states)
      .def("reset", &reset)
      .def("read", &read, "name"_a)
      .def("write", &write, "name"_a, "value"_a, "stream"_a.none())
      .def("create", &create);
  nb::class_<StateGuard>(module, "StateGuard");
  module.def(
      "guard_state",
      [](std::shared_ptr<StateSet> state) {
        return std::make_unique<StateGuard>(std::move(state));
      },
      "state"_a.none());
}

}  // namespace executorch_tensorrt::python

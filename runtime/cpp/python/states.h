// StateSet and StateGuard in Python.
#pragma once

#include <nanobind/nanobind.h>

namespace executorch_tensorrt::python {

void bind_states(nanobind::module_& module);

}  // namespace executorch_tensorrt::python

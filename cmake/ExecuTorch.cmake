# Finds ExecuTorch: its wheel is its C++ SDK.
if(NOT EXECUTORCH_ROOT)
  find_python_package(EXECUTORCH_ROOT executorch)
endif()
if(NOT EXISTS "${EXECUTORCH_ROOT}/lib/libexecutorch.so")
  message(
    FATAL_ERROR
      "ExecuTorch's C++ SDK was not found (looked for lib/libexecutorch.so in '${EXECUTORCH_ROOT}'). "
      "Install it into the build's Python (${Python_EXECUTABLE}): pip install 'executorch>=1.5.1,<1.6', "
      "or pass -DEXECUTORCH_ROOT=<site-packages>/executorch.")
endif()
message(STATUS "ExecuTorch: ${EXECUTORCH_ROOT}")
include(ExecuTorchTargets)

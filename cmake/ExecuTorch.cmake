# ExecuTorch's wheel is its C++ SDK. Its own CMake targets ask for CMake 3.28; these need only its
# layout: lib/*.so and include/.
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

function(import_executorch_library name file)
  add_library(ExecuTorch::${name} SHARED IMPORTED)
  set_target_properties(
    ExecuTorch::${name} PROPERTIES IMPORTED_LOCATION "${EXECUTORCH_ROOT}/lib/${file}")
endfunction()
import_executorch_library(executorch libexecutorch.so)
import_executorch_library(threadpool libexecutorch_threadpool.so)
import_executorch_library(kernels libexecutorch_kernels_optimized.so)
import_executorch_library(xnnpack libexecutorch_backend_xnnpack.so)

set(c10 "${EXECUTORCH_ROOT}/include/executorch/runtime/core/portable_type/c10")
target_include_directories(
  ExecuTorch::executorch SYSTEM INTERFACE "${EXECUTORCH_ROOT}/include" "${c10}")
# ET_EVENT_TRACER_ENABLED as in the wheel: without it delegates' profiling events are lost silently.
target_compile_definitions(
  ExecuTorch::executorch INTERFACE C10_USING_CUSTOM_GENERATED_MACROS ET_EVENT_TRACER_ENABLED)
# For the linker alone, which looks up what the libraries above need.
set_property(
  TARGET ExecuTorch::kernels ExecuTorch::xnnpack APPEND
  PROPERTY IMPORTED_LINK_DEPENDENT_LIBRARIES ExecuTorch::executorch ExecuTorch::threadpool)

# ExecuTorch's shared libraries as targets, from EXECUTORCH_ROOT, the folder of its Python package.
# Used by the build and, installed, by the CMake package. ExecuTorch's own targets ask for CMake 3.28;
# these need only the layout: lib/*.so and include/.
if(TARGET ExecuTorch::executorch)
  return()
endif()

# Kernels and backends register themselves when they are loaded. A program uses no symbol of theirs,
# so a linker that drops unused libraries (--as-needed) must be told to keep them. In the cache, to
# hold wherever the targets are linked.
set(CMAKE_LINK_LIBRARY_USING_executorch_registered
    "LINKER:--push-state,--no-as-needed" "<LINK_ITEM>" "LINKER:--pop-state"
    CACHE INTERNAL "")
set(CMAKE_LINK_LIBRARY_USING_executorch_registered_SUPPORTED TRUE CACHE INTERNAL "")

# The target `name`, which links `library`, also where nothing of it is used.
function(executorch_add_registered name library)
  add_library(${name} INTERFACE IMPORTED)
  set_target_properties(
    ${name} PROPERTIES
    INTERFACE_LINK_LIBRARIES "$<LINK_LIBRARY:executorch_registered,${library}>")
endfunction()

function(executorch_import_library name file)
  add_library(ExecuTorch::${name} SHARED IMPORTED)
  set_target_properties(
    ExecuTorch::${name} PROPERTIES IMPORTED_LOCATION "${EXECUTORCH_ROOT}/lib/${file}")
endfunction()

executorch_import_library(executorch libexecutorch.so)
executorch_import_library(etdump libexecutorch_etdump.so)
executorch_import_library(threadpool libexecutorch_threadpool.so)
executorch_import_library(kernels_library libexecutorch_kernels_optimized.so)
executorch_import_library(xnnpack_library libexecutorch_backend_xnnpack.so)

# ET_EVENT_TRACER_ENABLED as in the wheel: without it delegates' profiling events are lost silently.
set_target_properties(
  ExecuTorch::executorch PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES
    "${EXECUTORCH_ROOT}/include;${EXECUTORCH_ROOT}/include/executorch/runtime/core/portable_type/c10"
  INTERFACE_COMPILE_DEFINITIONS "C10_USING_CUSTOM_GENERATED_MACROS;ET_EVENT_TRACER_ENABLED"
  INTERFACE_COMPILE_FEATURES cxx_std_17)
# For the linker alone, which looks up what the libraries need.
set_target_properties(
  ExecuTorch::etdump ExecuTorch::kernels_library ExecuTorch::xnnpack_library PROPERTIES
  IMPORTED_LINK_DEPENDENT_LIBRARIES "ExecuTorch::executorch;ExecuTorch::threadpool")

executorch_add_registered(ExecuTorch::kernels ExecuTorch::kernels_library)
executorch_add_registered(ExecuTorch::xnnpack ExecuTorch::xnnpack_library)

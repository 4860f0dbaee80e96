# The Python whose site-packages hold ExecuTorch, and for which the binding is built. A build of the
# C++ parts alone, with -DEXECUTORCH_ROOT given, needs none.
set(python_components Interpreter)
if(EXECUTORCH_TENSORRT_BUILD_PYTHON)
  list(APPEND python_components Development.Module)
endif()
if(EXECUTORCH_TENSORRT_BUILD_PYTHON OR NOT EXECUTORCH_ROOT)
  set(Python_FIND_VIRTUALENV FIRST)
  find_package(Python 3.10 REQUIRED COMPONENTS ${python_components})
else()
  find_package(Python 3.10 COMPONENTS ${python_components})
endif()

# The folder of an installed Python package, without importing it; empty where there is none.
function(find_python_package result name)
  set(folder "")
  if(Python_Interpreter_FOUND)
    execute_process(
      COMMAND
        "${Python_EXECUTABLE}" -c
        "import importlib.util as u; s = u.find_spec('${name}'); print(*(s.submodule_search_locations if s else ()), sep=';')"
      OUTPUT_VARIABLE folders
      OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    if(folders)
      list(GET folders 0 folder)
    endif()
  endif()
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

if(EXECUTORCH_TENSORRT_BUILD_PYTHON)
  find_python_package(nanobind_package nanobind)
  list(APPEND CMAKE_PREFIX_PATH "${nanobind_package}/cmake")
endif()

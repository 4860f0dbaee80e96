# -DEXECUTORCH_TENSORRT_SANITIZE=address|thread|undefined, for everything that is built here.
if(EXECUTORCH_TENSORRT_SANITIZE)
  set(sanitizers address thread undefined)
  if(NOT EXECUTORCH_TENSORRT_SANITIZE IN_LIST sanitizers)
    message(FATAL_ERROR "EXECUTORCH_TENSORRT_SANITIZE is '${EXECUTORCH_TENSORRT_SANITIZE}'; "
                        "it is one of ${sanitizers}, or empty.")
  endif()
  add_compile_options(-fsanitize=${EXECUTORCH_TENSORRT_SANITIZE} -fno-omit-frame-pointer -g -O1
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${EXECUTORCH_TENSORRT_SANITIZE})
endif()

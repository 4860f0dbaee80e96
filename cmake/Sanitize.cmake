# -DEXECUTORCH_TENSORRT_SANITIZE=address|thread|undefined, for everything that is built here; fuzzer
# is address and undefined with what libFuzzer is guided by, and takes Clang.
if(EXECUTORCH_TENSORRT_SANITIZE)
  set(sanitizers address thread undefined fuzzer)
  if(NOT EXECUTORCH_TENSORRT_SANITIZE IN_LIST sanitizers)
    message(FATAL_ERROR "EXECUTORCH_TENSORRT_SANITIZE is '${EXECUTORCH_TENSORRT_SANITIZE}'; "
                        "it is one of ${sanitizers}, or empty.")
  endif()
  set(sanitize ${EXECUTORCH_TENSORRT_SANITIZE})
  if(sanitize STREQUAL "fuzzer")
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
      message(FATAL_ERROR "EXECUTORCH_TENSORRT_SANITIZE=fuzzer takes Clang "
                          "(-DCMAKE_CXX_COMPILER=clang++), not ${CMAKE_CXX_COMPILER}.")
    endif()
    set(sanitize fuzzer-no-link,address,undefined)
  endif()
  add_compile_options(-fsanitize=${sanitize} -fno-omit-frame-pointer -g -O1
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${sanitize})
endif()

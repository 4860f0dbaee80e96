# TensorRT and CUDA are loaded when first needed; building takes their headers alone. Defines
# TensorRT::headers and TensorRTHeaders_FOUND.
set(TENSORRT_TAG v11.1 CACHE STRING "Tag of github.com/NVIDIA/TensorRT for the fetched headers")

find_path(
  TENSORRT_INCLUDE_DIR NvInfer.h
  HINTS ${TENSORRT_INCLUDE_DIR} ENV TENSORRT_INCLUDE_DIR
        ${TensorRT_ROOT} ENV TensorRT_ROOT ${TENSORRT_ROOT} ENV TENSORRT_ROOT
  PATHS /opt/tensorrt /usr/local/tensorrt
  PATH_SUFFIXES include ${CMAKE_LIBRARY_ARCHITECTURE}
  DOC "Folder of NvInfer.h")
if(NOT TENSORRT_INCLUDE_DIR AND EXECUTORCH_TENSORRT_FETCH_HEADERS)
  include(FetchContent)
  message(STATUS "Downloading TensorRT's headers (${TENSORRT_TAG})")
  # SOURCE_SUBDIR without a CMakeLists.txt: nothing of it is built.
  FetchContent_Declare(
    tensorrt_oss
    GIT_REPOSITORY https://github.com/NVIDIA/TensorRT.git
    GIT_TAG ${TENSORRT_TAG}
    GIT_SHALLOW ON
    GIT_SUBMODULES ""
    SOURCE_SUBDIR include)
  FetchContent_MakeAvailable(tensorrt_oss)
  set(TENSORRT_INCLUDE_DIR "${tensorrt_oss_SOURCE_DIR}/include")
endif()

find_python_package(nvidia_package nvidia)
# crt/host_defines.h stands for the whole set: a wheel of the runtime's headers alone lacks it.
find_path(
  CUDA_INCLUDE_DIR crt/host_defines.h
  HINTS ${CUDAToolkit_ROOT} ENV CUDAToolkit_ROOT ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda "${nvidia_package}/cu13" "${nvidia_package}/cuda_runtime"
  PATH_SUFFIXES include
  DOC "Folder of cuda.h and cuda_runtime_api.h")

if(TENSORRT_INCLUDE_DIR AND CUDA_INCLUDE_DIR)
  set(TensorRTHeaders_FOUND TRUE)
  file(STRINGS "${TENSORRT_INCLUDE_DIR}/NvInferVersion.h" tensorrt_version
       REGEX "define (TRT|NV_TENSORRT)_(MAJOR|MINOR|PATCH)(_ENTERPRISE)? [0-9]")
  list(TRANSFORM tensorrt_version REPLACE ".* ([0-9]+).*" "\\1")
  list(JOIN tensorrt_version . tensorrt_version)
  message(STATUS "TensorRT headers: ${tensorrt_version}, ${TENSORRT_INCLUDE_DIR}")
  message(STATUS "CUDA headers: ${CUDA_INCLUDE_DIR}")
  add_library(TensorRT::headers INTERFACE IMPORTED)
  target_include_directories(
    TensorRT::headers SYSTEM INTERFACE "${TENSORRT_INCLUDE_DIR}" "${CUDA_INCLUDE_DIR}")
else()
  set(TensorRTHeaders_FOUND FALSE)
  set(missing "")
  if(NOT TENSORRT_INCLUDE_DIR)
    list(APPEND missing "NvInfer.h (pass -DTensorRT_ROOT=<TensorRT>, set TENSORRT_INCLUDE_DIR, or \
-DEXECUTORCH_TENSORRT_FETCH_HEADERS=ON to download the headers)")
  endif()
  if(NOT CUDA_INCLUDE_DIR)
    list(APPEND missing "cuda_runtime_api.h (pass -DCUDAToolkit_ROOT=<CUDA>, set CUDA_HOME, or \
pip install nvidia-cuda-runtime)")
  endif()
  list(JOIN missing " and " missing)
  message(
    WARNING "Building WITHOUT the TensorRT engine: programs will run only through their CPU fallback. "
            "Not found: ${missing}.")
endif()

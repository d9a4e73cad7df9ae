# CUDA, where POLYCONV_CUDA asks for it: the language, the architectures, and polyconv_add_cuda_backend.

include(cuda_arch)
if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc) # where NVIDIA's packages put it, often not in PATH
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

# Spilled registers are a defect of a kernel: they show while building, and are an error where warnings are.
set(polyconv_cuda_warnings -Xcompiler=-Wall,-Wextra -Xptxas=-warn-spills -Wno-deprecated-gpu-targets)
set(polyconv_cuda_errors -Werror=all-warnings)

# Many instances of few kernels: machine code packs to a fifth and less, which nvcc's default leaves undone. Drivers from
# CUDA 12.4 on unpack it, a file's when one of its kernels is first asked for.
set(polyconv_cuda_packing $<$<VERSION_GREATER_EQUAL:${CMAKE_CUDA_COMPILER_VERSION},12.8>:--compress-mode=size>)

# Flags of every target with CUDA code of ours. cudart is static: a plug-in brings its own and fails alone.
function(polyconv_cuda_defaults target)
  target_compile_features(${target} PRIVATE cuda_std_17)
  set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_EXTENSIONS OFF
    CUDA_VISIBILITY_PRESET hidden)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:${polyconv_cuda_warnings};${polyconv_cuda_packing}>"
    "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${POLYCONV_WARNINGS_AS_ERRORS}>>:${polyconv_cuda_errors}>")
  if(POLYCONV_STRESS)
    target_compile_definitions(${target} PRIVATE POLYCONV_STRESS)
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-include '${PROJECT_SOURCE_DIR}/backends/cuda/common/stress.cuh'>")
  endif()
endfunction()

# polyconv_add_cuda_backend(<technique> [SOURCES ...] [ARCHITECTURES ...] [LINK ...])
# The plug-in cuda-<technique> from the calling folder: backend.cpp, kernels/<name>.cu for each name in kernels.inc, and
# SOURCES. ARCHITECTURES replaces the list where the kernels need a certain chip (90a-real for wgmma).
function(polyconv_add_cuda_backend technique)
  cmake_parse_arguments(ARG "" "" "SOURCES;ARCHITECTURES;LINK" ${ARGN})
  set(folder "${CMAKE_CURRENT_SOURCE_DIR}")
  polyconv_kernel_names("${folder}/kernels.inc" names)
  list(TRANSFORM names PREPEND kernels/ OUTPUT_VARIABLE kernels)
  list(TRANSFORM kernels APPEND .cu)
  polyconv_add_backend(cuda-${technique} SOURCES backend.cpp ${kernels} ${ARG_SOURCES}
    LINK polyconv_cuda_common CUDA::cudart_static ${ARG_LINK})
  string(REPLACE "-" "_" target polyconv_cuda_${technique})
  polyconv_cuda_defaults(${target})
  if(ARG_ARCHITECTURES)
    set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${ARG_ARCHITECTURES}")
  endif()
  target_include_directories(${target} PRIVATE "${folder}" "${PROJECT_SOURCE_DIR}/backends/cuda")
  polyconv_cuda_stamp(${target} cuda-${technique})
endfunction()

# Stamps backend.cpp of the calling folder with the plug-in's name and version, and with its architectures for probe():
# "80 90a" machine code, "120+" also what later chips can compile from.
function(polyconv_cuda_stamp target name)
  get_target_property(archs ${target} CUDA_ARCHITECTURES)
  list(TRANSFORM archs REPLACE "^([0-9]+[af]?)$" "\\1+")
  list(TRANSFORM archs REPLACE "-virtual$" "+")
  list(TRANSFORM archs REPLACE "-real$" "")
  string(REPLACE ";" " " archs "${archs}")
  set_property(SOURCE backend.cpp APPEND PROPERTY COMPILE_DEFINITIONS
    "POLYCONV_BACKEND_NAME=\"${name}\"" "POLYCONV_BACKEND_VERSION=\"${PROJECT_VERSION}\""
    "POLYCONV_CUDA_ARCHITECTURES=\"${archs}\"")
endfunction()

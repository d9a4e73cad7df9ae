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
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${POLYCONV_GNU_FLAGS}>>:-Wno-unknown-pragmas>" # unroll, in device code of headers
    "$<$<COMPILE_LANGUAGE:CUDA>:${polyconv_cuda_warnings};${polyconv_cuda_packing}>"
    "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${POLYCONV_WARNINGS_AS_ERRORS}>>:${polyconv_cuda_errors}>")
  if(POLYCONV_STRESS)
    target_compile_definitions(${target} PRIVATE POLYCONV_STRESS)
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-include '${PROJECT_SOURCE_DIR}/backends/cuda/common/stress.cuh'>")
  endif()
endfunction()

# The entry files of the kernels that the calling folder's kernels.inc names: for each the one <name>.cu in the folder or
# anywhere below it, so that a kernel stands beside its parts; <name>.cpp where the file has no device code, which costs
# nvcc two more front ends.
function(polyconv_cuda_kernel_files out)
  set(folder "${CMAKE_CURRENT_SOURCE_DIR}")
  polyconv_kernel_names("${folder}/kernels.inc" names)
  file(GLOB_RECURSE sources RELATIVE "${folder}" CONFIGURE_DEPENDS *.cu *.cpp)
  set(files)
  foreach(name IN LISTS names)
    set(found ${sources})
    list(FILTER found INCLUDE REGEX "(^|/)${name}\\.(cu|cpp)$")
    list(LENGTH found count)
    if(NOT count EQUAL 1)
      string(REPLACE ";" ", " found "${found}")
      message(FATAL_ERROR "polyconv: ${folder}/kernels.inc names ${name}: expected one file ${name}.cu or .cpp there or in a"
        " folder below, found ${count}: ${found}")
    endif()
    list(APPEND files ${found})
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

# Sets `out` to the files among ARGN, and to a source for each instance of a header among them: "weights/last.cuh:f16,f32"
# are two sources, which include weights/last.cuh and say POLYCONV_INSTANCE(f16) and (f32), as that header defines it. So
# they compile side by side.
function(polyconv_cuda_sources out)
  set(files)
  foreach(each IN LISTS ARGN)
    if(NOT each MATCHES "^(.+)\\.cuh:(.+)$")
      list(APPEND files ${each})
      continue()
    endif()
    set(header ${CMAKE_MATCH_1})
    string(REPLACE "," ";" instances ${CMAKE_MATCH_2})
    foreach(instance IN LISTS instances)
      set(file "${CMAKE_CURRENT_BINARY_DIR}/${header}_${instance}.cu")
      file(CONFIGURE OUTPUT "${file}" CONTENT "// Generated: polyconv_cuda_sources.
#include \"${header}.cuh\"
#include \"common/types.hpp\"

namespace polyconv::cuda {
POLYCONV_INSTANCE(${instance})
}
")
      list(APPEND files "${file}")
    endforeach()
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

# polyconv_add_cuda_backend(<technique> [SOURCES ...] [HOPPER ...] [ARCHITECTURES ...] [LINK ...])
# The plug-in cuda-<technique> from the calling folder: backend.cpp, the entry file of each name in kernels.inc, and SOURCES,
# files and instances of headers (polyconv_cuda_sources). ARCHITECTURES replaces the list; HOPPER are sources with
# instructions of exactly 9.0 (wgmma, the TMA).
function(polyconv_add_cuda_backend technique)
  cmake_parse_arguments(ARG "" "" "SOURCES;HOPPER;ARCHITECTURES;LINK" ${ARGN})
  polyconv_cuda_sources(ARG_SOURCES ${ARG_SOURCES})
  polyconv_cuda_sources(ARG_HOPPER ${ARG_HOPPER})
  polyconv_cuda_kernel_files(kernels)
  polyconv_add_backend(cuda-${technique} SOURCES backend.cpp ${kernels} ${ARG_SOURCES}
    LINK polyconv_cuda_common CUDA::cudart_static ${ARG_LINK})
  string(REPLACE "-" "_" target polyconv_cuda_${technique})
  polyconv_cuda_defaults(${target})
  if(ARG_ARCHITECTURES)
    set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${ARG_ARCHITECTURES}")
  endif()
  set(targets ${target})
  if(ARG_HOPPER)
    add_library(${target}_hopper OBJECT ${ARG_HOPPER})
    polyconv_target_defaults(${target}_hopper)
    polyconv_cuda_defaults(${target}_hopper)
    set(chip 90a-real)
    if("90a-virtual" IN_LIST CMAKE_CUDA_ARCHITECTURES)
      set(chip 90a-virtual) # as PTX alone, for a quick look (preset cuda-cut)
    endif()
    set_target_properties(${target}_hopper PROPERTIES CUDA_ARCHITECTURES ${chip})
    target_link_libraries(${target}_hopper PRIVATE polyconv_sdk CUDA::cudart_static)
    target_link_libraries(${target} PRIVATE ${target}_hopper)
    list(APPEND targets ${target}_hopper)
  endif()
  foreach(each IN LISTS targets)
    target_include_directories(${each} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/backends/cuda")
  endforeach()
  polyconv_cuda_stamp(${target} cuda-${technique})
endfunction()

# Matrix instructions begin with chip 80: sets `out` to the architectures that have them, and says so where none has.
function(polyconv_cuda_matrix_architectures technique out)
  set(archs ${CMAKE_CUDA_ARCHITECTURES})
  list(FILTER archs EXCLUDE REGEX "^[1-7][0-9]([^0-9]|$)")
  if(NOT archs)
    message(STATUS "polyconv: without cuda-${technique}: no architecture from 80 on in ${CMAKE_CUDA_ARCHITECTURES}")
  endif()
  set(${out} "${archs}" PARENT_SCOPE)
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

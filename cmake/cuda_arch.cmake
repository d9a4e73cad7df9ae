# Which GPU architectures the CUDA plug-ins are compiled for: sets CMAKE_CUDA_ARCHITECTURES, before CUDA is enabled.
#
# POLYCONV_CUDA_ARCHITECTURES: empty detects, `all` is every generation that the toolkit knows from 75 to 120, anything
# else is a list ("80;90a"). `native` is never passed on: it fails where no GPU is, and it misses the 90a features.

set(POLYCONV_CUDA_ARCHITECTURES "" CACHE STRING
  "GPU architectures, as in 80;90a; empty: that of this machine's GPU, else 90a; all: 75 to 120")

# 9.0 has instructions (wgmma, TMA's tensor cores) that only code for exactly this chip may use.
function(polyconv_arch_of capability out)
  string(REPLACE "." "" arch "${capability}")
  if(arch STREQUAL "90")
    set(arch 90a)
  endif()
  set(${out} "${arch}" PARENT_SCOPE)
endfunction()

# The architectures of the GPUs that answer; empty where none does.
function(polyconv_detect_cuda_arch out)
  set(found)
  find_program(POLYCONV_NVIDIA_SMI nvidia-smi)
  if(POLYCONV_NVIDIA_SMI)
    execute_process(COMMAND "${POLYCONV_NVIDIA_SMI}" --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE answer RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE TIMEOUT 20)
    if(failed EQUAL 0)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${answer}")
      foreach(capability IN LISTS capabilities)
        polyconv_arch_of(${capability} arch)
        list(APPEND found ${arch})
      endforeach()
      list(REMOVE_DUPLICATES found)
    endif()
  endif()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# The generations that the toolkit's nvcc compiles for.
function(polyconv_all_cuda_archs out)
  find_program(POLYCONV_NVCC nvcc HINTS ENV CUDACXX PATHS /usr/local/cuda/bin)
  execute_process(COMMAND "${POLYCONV_NVCC}" --list-gpu-arch OUTPUT_VARIABLE answer ERROR_QUIET)
  set(all)
  foreach(arch 75 80 86 89 90 100 120)
    if(answer MATCHES "compute_${arch}[^0-9]")
      polyconv_arch_of(${arch} name)
      list(APPEND all ${name})
    endif()
  endforeach()
  set(${out} "${all}" PARENT_SCOPE)
endfunction()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  if(POLYCONV_CUDA_ARCHITECTURES STREQUAL "all")
    polyconv_all_cuda_archs(archs)
    list(POP_BACK archs newest)
    list(TRANSFORM archs APPEND -real)
    list(APPEND archs ${newest}) # with PTX, for the chips to come
  elseif(POLYCONV_CUDA_ARCHITECTURES)
    set(archs ${POLYCONV_CUDA_ARCHITECTURES})
    list(TRANSFORM archs REPLACE "^([0-9]+[af]?)$" "\\1-real")
  else()
    polyconv_detect_cuda_arch(archs)
    if(NOT archs)
      set(archs 90a)
    endif()
    list(TRANSFORM archs APPEND -real)
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${archs})
  message(STATUS "polyconv: CUDA for ${archs}")
endif()

# What POLYCONV_CPU_ISAS may name, each with the one that it is built on top of: a list that leaves that one out is refused,
# since its kernels would be left out too, and nobody told. A script as well: cmake -DPOLYCONV_CPU_ISAS=avx512 -P
# cmake/PolyconvCpuIsas.cmake says whether a list is one.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)
endif()

set(polyconv_cpu_isas avx2 avx512 avx512_bf16 amx neon sve256 sve512 neon_dot neon_bf16)
set(avx512_needs avx2)
set(avx512_bf16_needs avx512)
set(amx_needs avx512)
set(sve256_needs neon)
set(sve512_needs sve256)
set(neon_dot_needs neon)
set(neon_bf16_needs neon)

foreach(isa IN LISTS POLYCONV_CPU_ISAS)
  if(NOT isa IN_LIST polyconv_cpu_isas)
    list(JOIN polyconv_cpu_isas ", " known)
    message(FATAL_ERROR "POLYCONV_CPU_ISAS has '${isa}'; expected some of ${known}")
  elseif(${isa}_needs AND NOT ${isa}_needs IN_LIST POLYCONV_CPU_ISAS)
    message(FATAL_ERROR "POLYCONV_CPU_ISAS has '${isa}' without '${${isa}_needs}', which it is built on: name both")
  endif()
endforeach()

# cmake -DOBJDUMP= -DNM= [-Dbaseline= -Davx2= -Davx512=] -P check_objects.cmake: see CMakeLists.txt. Lists are separated
# by |.
cmake_minimum_required(VERSION 3.25)

# The number of instructions of `object` whose text matches `regex`.
function(count_instructions object regex out)
  execute_process(COMMAND ${OBJDUMP} -d --no-show-raw-insn ${object} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "${regex}" found "${text}")
  list(LENGTH found count)
  set(${out} ${count} PARENT_SCOPE)
endfunction()

set(failures "")
macro(fail)
  string(APPEND failures "  " ${ARGN} "\n")
endmacro()

foreach(isa baseline avx2 avx512)
  string(REPLACE "|" ";" objects "${${isa}}")
  set(own 0) # instructions that only this pass may have
  foreach(object IN LISTS objects)
    # AVX needs no wide register: v... is every instruction of its encoding.
    count_instructions("${object}" "\tv[a-z0-9]+[ \t]" vex) # llvm-objdump puts a tab
    count_instructions("${object}" "%zmm" zmm)
    get_filename_component(name "${object}" NAME)
    if(isa STREQUAL "baseline")
      if(vex OR zmm)
        fail("${name} is for every CPU, yet has ${vex} AVX and ${zmm} AVX-512 instructions")
      endif()
      continue()
    endif()
    if(isa STREQUAL "avx2" AND zmm)
      fail("${name} is for AVX2, yet has ${zmm} AVX-512 instructions")
    endif()
    math(EXPR own "${own} + ${zmm}")
    if(isa STREQUAL "avx2")
      math(EXPR own "${own} + ${vex}")
    endif()
    # Weak symbols are what the linker merges between passes.
    execute_process(COMMAND ${NM} -C --defined-only ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "[^\n]* [WVu] [^\n]*(polyconv|std)::[^\n]*" weak "${symbols}")
    foreach(symbol IN LISTS weak)
      if(NOT symbol MATCHES "isa_${isa}::")
        fail("${name} of ${isa} defines a symbol that other passes share: ${symbol}")
      endif()
    endforeach()
  endforeach()
  if(objects AND NOT isa STREQUAL "baseline" AND NOT own)
    fail("the objects for ${isa} have none of its instructions")
  endif()
endforeach()

if(failures)
  message(FATAL_ERROR "\n${failures}")
endif()

# cmake -DNM= -DLIBRARY= -DGOLDEN= -DDECLARED= -P: what libpolyconv exports is what symbols.txt lists and what
# polyconv.h declares, no more and no less. A symbol that goes is an ABI break; one that comes is written down.

cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND "${NM}" -D --defined-only "${LIBRARY}" OUTPUT_VARIABLE output RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${NM} -D ${LIBRARY} failed")
endif()
string(REGEX MATCHALL "[^\n]+" lines "${output}")
set(exported)
foreach(line IN LISTS lines)
  if(NOT line MATCHES " A ") # absolute: the name of a version node
    string(REGEX REPLACE ".* ([^ ]+)$" "\\1" symbol "${line}")
    string(REGEX REPLACE "@.*" "" symbol "${symbol}")
    list(APPEND exported "${symbol}")
  endif()
endforeach()

string(REPLACE "|" ";" declared "${DECLARED}")
file(STRINGS "${GOLDEN}" golden REGEX "^[^#]")

function(compare left why_left right why_right)
  foreach(symbol IN LISTS ${left})
    if(NOT symbol IN_LIST ${right})
      message(SEND_ERROR "${symbol} is ${why_left} but not ${why_right}")
    endif()
  endforeach()
endfunction()

compare(exported "exported" golden "in symbols.txt")
compare(golden "in symbols.txt" exported "exported")
compare(declared "declared in polyconv.h" golden "in symbols.txt")
compare(golden "in symbols.txt" declared "declared in polyconv.h")
list(LENGTH exported count)
message(STATUS "${count} symbols exported")

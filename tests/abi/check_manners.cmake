# cmake -DNM= -DLIBRARY= -P: libpolyconv ends no process and prints on no stream: it refers to none of the functions
# that would. (Its log to stderr, where POLYCONV_LOG asks for it, goes through the operating system's write.)

cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND "${NM}" -D --undefined-only "${LIBRARY}" OUTPUT_VARIABLE output RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${NM} -D ${LIBRARY} failed")
endif()
set(forbidden abort exit _exit _Exit quick_exit __assert_fail printf __printf_chk vprintf __vprintf_chk fprintf
  __fprintf_chk vfprintf __vfprintf_chk puts putchar fputs fputc fwrite putc perror stdout stderr _ZSt4cout _ZSt4cerr
  _ZSt4clog system raise kill)
if(output MATCHES "_ZNSt3__1") # libc++: its streams of files are inline, and write with this
  list(REMOVE_ITEM forbidden fwrite)
endif()
string(REGEX MATCHALL "[^\n]+" lines "${output}")
set(count 0)
foreach(line IN LISTS lines)
  string(REGEX REPLACE ".* ([^ ]+)$" "\\1" symbol "${line}")
  string(REGEX REPLACE "@.*" "" symbol "${symbol}")
  math(EXPR count "${count} + 1")
  if(symbol IN_LIST forbidden)
    message(SEND_ERROR "libpolyconv refers to ${symbol}")
  endif()
endforeach()
if(count EQUAL 0)
  message(FATAL_ERROR "nm shows no undefined symbol of ${LIBRARY}: this check would see nothing")
endif()
message(STATUS "${count} undefined symbols, none of them forbidden")

# cmake -DLINKER= -DOBJCOPY= -DNM= -DNAME= -DOBJECT= -DFILES=a|b -DARCHIVES=c|d -P: one object of a backend's, in which every
# symbol is local but its entry, polyconv_query_<NAME>. See PolyconvStatic.cmake.
cmake_minimum_required(VERSION 3.25)

string(REPLACE "|" ";" files "${FILES}")
string(REPLACE "|" ";" archives "${ARCHIVES}")
set(whole "${OBJECT}.whole")
# Groups (COMDAT) are dissolved: a second backend's group of the same name would be dropped, with its local symbols.
execute_process(COMMAND "${LINKER}" -r --force-group-allocation -o "${whole}" ${files} --start-group ${archives} --end-group
  COMMAND_ERROR_IS_FATAL ANY)
# Variables that the linker would make one over all files ("unique": inline variables, statics of templates) cannot be made
# local by objcopy; they get the backend's name instead.
execute_process(COMMAND "${NM}" --defined-only --extern-only "${whole}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]* u [^\n]+" lines "${symbols}")
set(renamed "polyconv_backend_query_v1 polyconv_query_${NAME}\n")
foreach(line IN LISTS lines)
  string(REGEX REPLACE ".* u " "" symbol "${line}")
  string(APPEND renamed "${symbol} ${symbol}.${NAME}\n")
endforeach()
file(WRITE "${OBJECT}.renamed" "${renamed}")
# In two steps: GNU's objcopy keeps symbols by their new names, llvm's by their old ones.
execute_process(COMMAND "${OBJCOPY}" "--redefine-syms=${OBJECT}.renamed" "${whole}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${OBJCOPY}" --keep-global-symbol=polyconv_query_${NAME} "${whole}" "${OBJECT}"
  COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE "${whole}" "${OBJECT}.renamed")

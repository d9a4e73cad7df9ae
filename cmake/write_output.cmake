# cmake "-DCOMMAND=a|b" -DOUT= -P: writes what a program says into a file.
cmake_minimum_required(VERSION 3.25)
string(REPLACE "|" ";" command "${COMMAND}")
execute_process(COMMAND ${command} OUTPUT_FILE "${OUT}" COMMAND_ERROR_IS_FATAL ANY)

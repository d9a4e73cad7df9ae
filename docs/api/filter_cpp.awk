# filter.awk for polyconv.hpp: a comment of // lines before a declaration, or behind one, is its text.
#   awk -f filter_cpp.awk HEADER
/^\/\/ [a-z_]+\.hpp - / { print "/// @file"; sub(/^\/\//, "///"); header = 1; print; next }
header && /^\/\/   / { if (!code) print "/// @code"; code = 1; sub(/^\/\/   /, "///   "); print; next }
header && /^\/\// { if (code) { print "/// @endcode"; code = 0 } if (/SPDX/) { header = 0; next } sub(/^\/\//, "///"); print; next }
/^\/\/ -+ / { next }
/^ *\/\/ / { sub(/\/\//, "///"); print; next }
/; \/\/ |\{ \/\/ |\} \/\/ / && !/^} \/\/ namespace/ { sub(/ \/\/ /, " ///< "); print; next }
{ print }

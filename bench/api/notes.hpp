// notes.hpp - what backends say of a plan of theirs in the log: "onednn/conv@auto: oneDNN 3.2.0, nhwc brgconv:avx512".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace polyconv::bench {

// From here on what the library logs is looked at for notes. What POLYCONV_LOG asks for goes to stderr as ever.
void keep_notes();

// Makes the library look for its backends, now, and passes on what it warns of meanwhile: settings in the environment
// that it does not understand.
void load_backends();

// Keeps a line of log that is one.
void take_note(const std::string &line);

// The latest note on a kernel, by its full name with or without the config; "" where it says nothing of itself.
std::string note_of(const std::string &kernel);

} // namespace polyconv::bench

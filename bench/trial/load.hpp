// load.hpp - which backends would not come back from being loaded, found out in a process of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace polyconv::bench {

// Lets a child process search for backends and count their devices. While one of them ends the child, or says nothing
// for `seconds`, it is left out (POLYCONV_BACKEND_SKIP, in this process too) and another child tries again. To be
// called before this process searches; does nothing where there are no child processes.
void try_loading(double seconds);

// Why a trial left a backend out; "" where none did.
std::string fate_of(const std::string &backend);

} // namespace polyconv::bench

// tables.hpp - the answers as tables, and read back from them: that is how the page keeps what a GPU said.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "choice.hpp"
#include "kernels.hpp"

// One table a direction, each under its heading.
std::string tables_of(const Part &part, const std::vector<LayerClass> &census, const Answers &answers,
                      const std::vector<Kernel> &kernels);

// The inverse, for a section of the page. Where a table lacks a class, has one that the census has not, or counts other
// layers than the class has, std::runtime_error says which.
Answers answers_in(const std::string &section, const Part &part, const std::vector<LayerClass> &census);

// Every kernel with the cells that it has in the tables, its files and its page.
std::string kernel_table(const std::vector<Kernel> &kernels, const std::vector<Answers> &parts);

// The kernels of the answers that the source has no more.
std::vector<std::string> gone(const Answers &answers, const std::vector<Kernel> &kernels);

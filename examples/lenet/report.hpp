// report.hpp - pictures for people: plain SVG, no script, no font of our own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint.hpp"

namespace lenet {

// Loss, and accuracy of training and test, over the epochs.
std::string learning_curve(const std::string &title, const std::vector<Epoch> &history);

// How often images of each class (rows) were taken for each (columns).
std::string confusion_matrix(const std::string &title, const std::vector<uint8_t> &labels,
                             const std::vector<uint8_t> &guesses, int64_t classes);

} // namespace lenet

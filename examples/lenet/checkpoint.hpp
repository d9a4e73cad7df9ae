// checkpoint.hpp - what a training run is at the end of an epoch, as one file: written beside the old one and renamed
// over it when it is safely on the disk, so that at every moment one whole file is there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "network.hpp"

namespace lenet {

struct Epoch {
  double loss, training_accuracy, accuracy, seconds;
};

struct Checkpoint {
  std::string network; // Network::text
  uint64_t seed = 1;
  int32_t optimiser = 0, batch = 0; // of what goes on by resuming
  double rate = 0;
  int32_t epochs = 0; // the whole run's, on which the rate depends
  int64_t updates = 0;
  std::vector<Epoch> history;       // the epochs done
  std::vector<float> values;        // without the gaps of Spans
  std::vector<float> first, second; // empty in a file of weights alone
  bool half = false;                // write the values as f16
};

// Throws Failure naming the file; what was there stays where writing fails.
void write_checkpoint(const std::string &path, const Checkpoint &checkpoint);

// Throws Failure for a missing, truncated, corrupt or foreign file, and for one of another network.
Checkpoint read_checkpoint(const std::string &path, const Network &network);

// Bytes to a file as above: atomically, unless `path` is a device.
void write_file(const std::string &path, const std::string &bytes);

} // namespace lenet

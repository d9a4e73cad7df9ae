// work.hpp - what is to be measured: problems from the command line, suites and chain files, and whole networks, with
// the overrides and sweeps of the command line applied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "work/sweep.hpp"

namespace polyconv::bench {

// One layer or chain, or a network of such.
struct Work {
  std::string suite;                      // "" from the command line
  std::string name;                       // the layer's in its network, where the suite has names; a chain file's
  std::vector<polyconv_problem> problems; // one for a layer, none for a network
  std::string token;                      // canonical; a chain's joined by " > "; "resnet50@128:nhwc:f16" of a network
  int64_t count = 1;                      // how often it occurs in its network
  std::vector<Work> layers;               // of a network: each distinct one once, in order
  bool batch_fixed = false;               // the suite says that the batch belongs to the problem
  std::string invalid;                    // why an override made the problem invalid; else empty

  bool is_network() const { return !layers.empty(); }
  std::string title() const { return name.empty() ? token : name; } // what a sentence calls a layer
};

// Problems, and what to change about them. Empty means unchanged.
struct WorkRequest {
  std::vector<std::string> tokens;
  std::vector<std::string> suites;   // names or paths
  std::vector<std::string> chains;   // files, or names of those that ship
  std::vector<std::string> networks; // suites, each as one work for every batch, type and layout (network_work.cpp)
  std::vector<long long> batches;
  std::vector<Sweep> sweeps;
  std::vector<std::string> dtypes;     // "f16", "u8-f32-u8"
  std::vector<std::string> layouts;    // "nhwc"
  std::vector<std::string> directions; // "bwd_w"
};

// Parses one token. Error(kUsage) with the library's sentence and `where`.
polyconv_problem parse_problem(const std::string &token, const std::string &where);

std::string format_problem(const polyconv_problem &problem);

// The work of one layer, or of a chain (chain_work.cpp).
Work make_work(const std::vector<polyconv_problem> &layers);

// Reads a token, or those of a chain joined by ">". Error(kUsage).
Work parse_work(const std::string &token, const std::string &where);

// Reads the layers of a chain, one a line, from a file by name ("lenet28") or path. Error(kUsage) naming file and line.
Work load_chain(const std::string &name);

// The chains that ship.
std::vector<std::string> chain_names();

// Sets fields of one layer's token; the layers behind take the sizes and channels that this leaves them. Error(kUsage)
// where that makes no chain.
void change_layer(std::vector<polyconv_problem> &layers, size_t index, const std::vector<std::string> &fields,
                  const std::string &value);

// Everything asked for, each distinct problem of a suite once, with the count of all its rows. Error(kUsage) for a
// token, suite or file that is wrong; an override that makes a problem invalid is left to the row (Work::invalid).
std::vector<Work> collect_work(const WorkRequest &request);

// The networks asked for, and no other of the request's works.
std::vector<Work> collect_networks(const WorkRequest &request);

// The images that a network is run on: the batch of its layers; none where that differs.
std::optional<int64_t> images_of(const Work &network);

} // namespace polyconv::bench

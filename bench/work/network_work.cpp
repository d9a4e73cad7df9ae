// network_work.cpp - a suite as one work: all its layers, one after the other.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/text.hpp"
#include "work/work.hpp"

namespace polyconv::bench {

namespace {

// The parts of a token after its dimensions that every layer has: "nhwc", "f16".
std::vector<std::string> common_parts(const std::vector<Work> &layers) {
  const auto parts_of = [](const Work &layer) {
    std::vector<std::string> parts = split(layer.token, ':');
    parts.erase(parts.begin(), parts.begin() + std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(parts.size())));
    return parts;
  };
  std::vector<std::string> common = parts_of(layers.front());
  for (const Work &layer : layers) {
    const std::vector<std::string> own = parts_of(layer);
    const auto missing = [&](const std::string &part) { return std::find(own.begin(), own.end(), part) == own.end(); };
    common.erase(std::remove_if(common.begin(), common.end(), missing), common.end());
  }
  return common;
}

Work network_of(const std::vector<Work> &layers) {
  Work network;
  network.layers = layers;
  network.suite = layers.front().suite;
  int64_t count = 0;
  for (const Work &layer : layers) {
    count += layer.count;
    if (!layer.invalid.empty() && network.invalid.empty())
      network.invalid = "layer " + layer.title() + ": " + layer.invalid;
  }
  network.name = format(count == 1 ? "%lld layer" : "%lld layers", static_cast<long long>(count));
  network.token = network.suite;
  if (const auto images = images_of(network)) network.token += "@" + std::to_string(*images);
  for (const std::string &part : common_parts(layers)) network.token += ":" + part;
  return network;
}

// One value each, so that each makes a network of its own; one without any where none is asked for.
template <class Value>
std::vector<std::vector<Value>> one_by_one(const std::vector<Value> &values) {
  std::vector<std::vector<Value>> lists;
  lists.reserve(values.size());
  for (const Value &value : values) lists.push_back({value});
  if (lists.empty()) lists.emplace_back();
  return lists;
}

} // namespace

std::vector<Work> collect_networks(const WorkRequest &request) {
  std::vector<Work> networks;
  if (!request.networks.empty() && !request.directions.empty())
    throw Error(kUsage, "--direction is for layers, not for networks: one after the other they go forward");
  for (const std::string &name : request.networks)
    for (const auto &batch : one_by_one(request.batches))
      for (const auto &dtype : one_by_one(request.dtypes))
        for (const auto &layout : one_by_one(request.layouts)) {
          WorkRequest one;
          one.suites = {name};
          one.batches = batch;
          one.dtypes = dtype;
          one.layouts = layout;
          networks.push_back(network_of(collect_work(one)));
        }
  return networks;
}

std::optional<int64_t> images_of(const Work &network) {
  const int64_t batch = network.layers.front().problems.front().batch;
  for (const Work &layer : network.layers)
    if (layer.problems.front().batch != batch) return std::nullopt;
  return batch;
}

} // namespace polyconv::bench

// network.cpp - all layers of a network made ready.
// SPDX-License-Identifier: Apache-2.0
#include "subject/network.hpp"

#include <algorithm>
#include <map>

#include "subject/tensors.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

// What the network wants of one role of the pool: the most that any layer does.
struct Need {
  int64_t bytes = 0;
  int32_t type = 0;
  bool written = false;
};

// Tensors of the network itself belong to one occurrence, those that go through it are shared: what is read by all
// layers that read the type, what is written by all.
std::string role_of(const TensorUse &use, size_t occurrence) {
  if (use.written) return "written " + use.name();
  if (use.per_run()) return use.name() + " of " + polyconv_type_name(use.type);
  return format("%s of occurrence %zu", use.role().c_str(), occurrence);
}

std::map<std::string, Need> needs_of(const Work &network) {
  std::map<std::string, Need> needs;
  size_t occurrence = 0;
  for (const Work &layer : network.layers)
    for (int64_t i = 0; i < layer.count; ++i, ++occurrence)
      for (const TensorUse &use : tensors_of(layer)) {
        Need &need = needs[role_of(use, occurrence)];
        need = {std::max(need.bytes, use.bytes), use.type, use.written};
      }
  return needs;
}

// Does something for one layer; a failure names it.
template <class Step>
void for_layer(const Work &layer, const Step &step) {
  try {
    step();
  } catch (const Unable &unable) {
    throw Unable(unable.status(), "layer " + layer.title() + ": " + unable.what());
  }
}

} // namespace

int64_t network_bytes(const Work &network) {
  int64_t bytes = 0;
  for (const auto &[role, need] : needs_of(network)) bytes += need.bytes;
  return bytes;
}

Network::Network(const polyconv_device *device, const Work &network, const PlanRequest &request, BufferPool &pool,
                 const std::string &workspace, int64_t memory_limit)
    : Runnable(device), network_(network) {
  make_plans(request);
  check_memory(memory_limit);
  make_ready(pool, workspace);
  first_us_ = run(1) * 1e6;
}

void Network::make_plans(const PlanRequest &request) {
  for (const Work &layer : network_.layers) for_layer(layer, [&] { plans_.emplace_back(device(), layer, request); });
}

void Network::check_memory(int64_t memory_limit) const {
  const int64_t bytes = network_bytes(network_) + workspace_bytes() + weights_bytes();
  if (bytes <= memory_limit) return;
  const auto size = [&](size_t i) { return tensor_bytes(network_.layers[i]) + plans_[i].info().workspace_bytes; };
  size_t largest = 0;
  for (size_t i = 0; i < plans_.size(); ++i)
    if (size(i) > size(largest)) largest = i;
  throw Unable("skipped", "tensors, weights and workspace take " + more_than(bytes, memory_limit) +
                              "; the largest layer is " + network_.layers[largest].title());
}

void Network::make_ready(BufferPool &pool, const std::string &workspace) {
  std::map<std::string, void *> pointers; // the pool is asked for each once: growing would move them
  for (const auto &[role, need] : needs_of(network_))
    pointers[role] = pool.get(role, need.bytes, need.type, need.written);
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.workspace = pool.get(workspace, workspace_bytes(), POLYCONV_U8, true);
  buffers.workspace_size = static_cast<size_t>(workspace_bytes());
  for (size_t i = 0; i < plans_.size(); ++i) {
    const Work &layer = network_.layers[i];
    for (int64_t repeat = 0; repeat < layer.count; ++repeat) {
      for (const TensorUse &use : tensors_of(layer)) set_pointer(buffers, use, pointers[role_of(use, runs_.size())]);
      for_layer(layer, [&] { runs_.emplace_back(device(), plans_[i], buffers, stream()); });
    }
  }
}

void Network::submit() {
  for (const Ready &run : runs_) run.submit(stream());
}

std::vector<LayerLine> Network::layers() const {
  std::vector<LayerLine> lines;
  for (size_t i = 0; i < plans_.size(); ++i) {
    const Work &layer = network_.layers[i];
    const polyconv_plan_info &info = plans_[i].info();
    lines.push_back({layer.name, layer.token, layer.count, info.kernel, info.math, info.fallback != 0});
  }
  return lines;
}

std::string Network::kernel() const {
  return kernels_text(layers());
}

std::string Network::math() const {
  std::vector<std::string> modes;
  for (const Planned &plan : plans_)
    if (std::find(modes.begin(), modes.end(), plan.info().math) == modes.end()) modes.emplace_back(plan.info().math);
  return join(modes, ", ");
}

int64_t Network::workspace_bytes() const {
  int64_t bytes = 0;
  for (const Planned &plan : plans_) bytes = std::max(bytes, plan.info().workspace_bytes);
  return bytes;
}

int64_t Network::weights_bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < plans_.size(); ++i) bytes += network_.layers[i].count * plans_[i].weights_bytes();
  return bytes;
}

int32_t Network::threads() const {
  int32_t threads = 0;
  for (const Planned &plan : plans_) threads = std::max(threads, plan.info().threads);
  return threads;
}

double Network::estimate_us() const {
  double us = 0;
  for (size_t i = 0; i < plans_.size(); ++i)
    us += static_cast<double>(network_.layers[i].count) * plans_[i].info().estimate_us;
  return us;
}

double Network::plan_us() const {
  double us = 0;
  for (const Planned &plan : plans_) us += plan.plan_us();
  return us;
}

std::optional<double> Network::pack_us() const {
  std::optional<double> us;
  for (const Ready &run : runs_)
    if (run.pack_us()) us = us.value_or(0) + *run.pack_us();
  return us;
}

} // namespace polyconv::bench

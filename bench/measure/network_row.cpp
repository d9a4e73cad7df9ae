// network_row.cpp - one row of `run --network`: the whole network as one.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "measure/bench_row.hpp"
#include "measure/profile.hpp"
#include "measure/trace.hpp"
#include "result/info.hpp"
#include "subject/network.hpp"

namespace polyconv::bench {

namespace {

// The backend of all layers; "" where there are several.
std::string common_backend(const std::vector<LayerLine> &layers) {
  const std::string first = backend_of(layers.front().kernel);
  const bool same = std::all_of(layers.begin(), layers.end(),
                                [&](const LayerLine &layer) { return backend_of(layer.kernel) == first; });
  return same ? first : "";
}

// Takes the layers as they were planned. Those that were checked were planned for that on their own.
void take_layers(Record &record, const std::vector<LayerLine> &planned) {
  for (size_t i = 0; i < record.layers.size(); ++i) {
    const LayerLine &checked = record.layers[i];
    if (!checked.kernel.empty() && checked.kernel != planned[i].kernel)
      record.check = "none: the check ran " + checked.kernel + " for " + checked.problem;
  }
  record.layers = planned;
  record.fallback = std::any_of(planned.begin(), planned.end(), [](const LayerLine &layer) { return layer.fallback; });
  record.backend = common_backend(planned);
  record.backend_version = version_of(record.backend);
}

} // namespace

void Bench::measure_network(Record &record, const Job &job, Lane &lane) {
  lane.pool.begin(network_bytes(job.work), lane.memory_limit);
  Network network(lane.device, job.work, job.request, lane.pool, "workspace", lane.memory_limit);
  take_layers(record, network.layers());
  record.kernel = network.kernel();
  record.math = network.math();
  if (!network.has_streams()) record.threads = network.threads();
  record.workspace_bytes = network.workspace_bytes();
  record.weights_bytes = network.weights_bytes();
  record.estimate_us = network.estimate_us();
  record.plan_us = network.plan_us();
  record.pack_us = network.pack_us();
  record.first_us = network.first_us();

  time_into(record, job, lane, network);
  wall_into(record, network);
  rates_into(record, job, lane);
  if (settings_.profile) begin("profiling");
  if (settings_.profile)
    record.profile = profile_network(lane.device, job.work, job.request, network, lane.pool, lane.memory_limit);
  if (settings_.trace) begin("tracing");
  for (const Work &layer : job.work.layers) // each once: the network's own memory is its layers' from here on
    if (settings_.trace)
      trace_steps(*settings_.trace, lane.device, job.device, layer, job.request, lane.pool, lane.memory_limit);
  const auto images = images_of(job.work);
  if (images && *images > 0) record.image_us = *record.median_us / static_cast<double>(*images);
}

} // namespace polyconv::bench

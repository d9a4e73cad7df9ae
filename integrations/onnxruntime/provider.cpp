// provider.cpp - claims, compiles and reports. The runtime calls it through the functions of entry.cpp, which catch
// what it throws.
//
// SPDX-License-Identifier: Apache-2.0
#include "provider.hpp"

#include <algorithm>
#include <fstream>
#include <set>

#include "run/gpu_place.hpp"
#include "run/refusal.hpp"
#include "runtime/wall.hpp"

namespace polyconv_ort {
namespace {

// What the runtime calls for one fused node. It keeps the region, and the region what the node needs.
struct Compute : NodeComputeInfo {
  Compute(const Api &runtime, std::shared_ptr<Region> made) : NodeComputeInfo(), api(runtime), region(std::move(made)) {
    version = kOldestApi;
    CreateState = [](NodeComputeInfo *self, OrtNodeComputeContext *, void **state) -> OrtStatus * {
      *state = self;
      return nullptr;
    };
    NodeComputeInfo::Compute = [](NodeComputeInfo *, void *state, OrtKernelContext *context) -> OrtStatus * {
      auto *self = static_cast<polyconv_ort::Compute *>(static_cast<NodeComputeInfo *>(state));
      return guarded(self->api, [&] { self->region->run(context); });
    };
    ReleaseState = [](NodeComputeInfo *, void *) {};
  }
  const Api &api;
  std::shared_ptr<Region> region;
};

} // namespace

void release(NodeComputeInfo *info) {
  delete static_cast<Compute *>(info);
}

Provider::Provider(const Api &api, const EpApi &ep_api, const OrtLogger *logger, Settings settings, Gpu *gpu)
    : Ep(), api_(api), ep_api_(ep_api), logger_(logger), settings_(std::move(settings)) {
  if (!settings_.report.empty() && !std::ofstream(settings_.report, std::ios::app))
    throw Error(kInvalidArgument, "polyconv: option report is \"" + settings_.report + "\", which cannot be written");
  if (gpu)
    place_ = std::make_unique<GpuPlace>(*gpu, settings_);
  else
    place_ = std::make_unique<HostPlace>(api_, settings_);
  require_kernels(*place_);
}

Provider::~Provider() {
  if (settings_.report.empty()) return;
  try {
    std::ofstream(settings_.report) << report();
  } catch (const std::exception &) { // a destructor has nobody to tell; the file is missing
  }
}

void Provider::log(const std::string &line) const {
  OrtStatus *status = api_.Logger_LogMessage(logger_, settings_.log ? kLogWarning : kLogInfo,
                                             ("polyconv: " + line).c_str(), "provider.cpp", 0, "polyconv");
  if (status) api_.ReleaseStatus(status);
}

void Provider::claim(const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
  std::unique_lock<std::mutex> reading(mutex_);
  const Recipes found = recipes(api_, graph, place_->terms(), false, additions_);
  reading.unlock();
  size_t claimed = 0;
  size_t operators = 0;
  for (const Together &region : found.regions) {
    std::vector<const OrtNode *> nodes;
    for (size_t index : region.layers)
      for (const Node &node : found.taken[index].nodes) nodes.push_back(node.get());
    for (size_t index : region.operators)
      for (const Node &node : found.operators[index].nodes) nodes.push_back(node.get());
    operators += region.operators.size();
    const NodeFusionOptions fusion{kOldestApi, true};
    require(api_, ep_api_.EpGraphSupportInfo_AddNodesToFuse(support, nodes.data(), nodes.size(), &fusion));
    claimed += nodes.size();
  }
  for (const Refusal &refusal : found.refused) log("leaves " + refusal.node + ": " + refusal.reason);
  if (claimed > 0 || !found.refused.empty())
    log("takes " + std::to_string(claimed) + " of " + std::to_string(found.nodes) + " nodes, as " +
        std::to_string(found.taken.size()) + " layers in " + std::to_string(found.regions.size()) + " regions with " +
        std::to_string(operators) + " operators between them");
  std::lock_guard<std::mutex> lock(mutex_);
  nodes_ += found.nodes, claimed_ += claimed;
  refused_.insert(refused_.end(), found.refused.begin(), found.refused.end());
}

NodeComputeInfo *Provider::compile(const OrtGraph *graph, const OrtNode *fused) {
  std::unique_lock<std::mutex> reading(mutex_);
  const Recipes found = recipes(api_, graph, place_->terms(), true, additions_);
  reading.unlock();
  size_t taken = 0;
  for (const Recipe &recipe : found.taken) taken += recipe.nodes.size();
  for (const Operator &between : found.operators) taken += between.nodes.size();
  if (found.taken.empty() || taken != found.nodes)
    throw Error(kFail, "polyconv: a fused node of " + std::to_string(found.nodes) + " nodes has " +
                           std::to_string(taken) + " that were claimed" +
                           (found.refused.empty() ? "" : ": " + found.refused[0].reason));
  const Node node(&api_, fused);
  Inputs inputs, outputs;
  for (size_t i = 0; node.input(i); ++i) inputs.emplace(node.input(i).name(), i);
  for (size_t i = 0; node.output(i); ++i) outputs.emplace(node.output(i).name(), i);
  auto region = std::make_shared<Region>(api_, *place_, found, inputs, outputs, settings_);
  auto compute = std::make_unique<Compute>(api_, region);
  std::lock_guard<std::mutex> lock(mutex_);
  regions_.push_back(std::move(region));
  return compute.release();
}

// Into how many threads' work layers are cut, and why; how many of the session's had a part in it, where runs are
// timed.
std::string Provider::told_threads() const {
  int32_t threads = 0;
  std::set<std::thread::id> took_part;
  for (const auto &region : regions_) {
    threads = std::max(threads, region->threads());
    region->hands().add_to(took_part);
  }
  if (threads == 0 || !place_->on_host()) return {};
  const char *const why = settings_.threads == 0            ? "all that the process may use"
                          : settings_.threads_of_affinities ? "as the session's affinities say"
                                                            : "as the option says";
  std::string text = "threads: cut for " + std::to_string(threads) + ", " + why;
  if (!took_part.empty()) text += "; " + std::to_string(took_part.size()) + " had a part in the runs";
  return text + "\n";
}

std::string Provider::report() {
  size_t layers = 0, operators = 0;
  for (const auto &region : regions_) layers += region->layers(), operators += region->operators();
  std::string text = "polyconv " + std::string(polyconv_version()) + ": " + std::to_string(claimed_) + " of " +
                     std::to_string(nodes_) + " nodes, " + std::to_string(layers) + " layers in " +
                     std::to_string(regions_.size()) + " regions with " + std::to_string(operators) +
                     " operators between them\n" + told_threads();
  for (const auto &region : regions_) text += region->report();
  for (const Refusal &refusal : refused_) text += "\nleft " + refusal.node + ": " + refusal.reason + "\n";
  return text;
}

} // namespace polyconv_ort

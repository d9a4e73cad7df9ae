// provider.cpp - claims, compiles and reports. The runtime calls it through the functions of entry.cpp, which catch
// what it throws.
//
// SPDX-License-Identifier: Apache-2.0
#include "provider.hpp"

#include <cstdio>
#include <fstream>

#include "wall.hpp"

namespace polyconv_ort {
namespace {

// What the runtime calls for one fused node. It keeps the layer, and the layer what the node needs.
struct Compute : NodeComputeInfo {
  Compute(const Api &runtime, std::shared_ptr<Layer> made) : NodeComputeInfo(), api(runtime), layer(std::move(made)) {
    version = kOldestApi;
    CreateState = [](NodeComputeInfo *self, OrtNodeComputeContext *, void **state) -> OrtStatus * {
      *state = self;
      return nullptr;
    };
    NodeComputeInfo::Compute = [](NodeComputeInfo *, void *state, OrtKernelContext *context) -> OrtStatus * {
      auto *self = static_cast<polyconv_ort::Compute *>(static_cast<NodeComputeInfo *>(state));
      return guarded(self->api, [&] { self->layer->run(context); });
    };
    ReleaseState = [](NodeComputeInfo *, void *) {};
  }
  const Api &api;
  std::shared_ptr<Layer> layer;
};

} // namespace

void release(NodeComputeInfo *info) {
  delete static_cast<Compute *>(info);
}

Provider::Provider(const Api &api, const EpApi &ep_api, const OrtLogger *logger, Settings settings)
    : Ep(), api_(api), ep_api_(ep_api), logger_(logger), settings_(std::move(settings)) {
  polyconv::Device(); // polyconv is there and finds its CPU: else the session's creation fails with its sentence
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
  const Recipes found = recipes(api_, graph);
  size_t claimed = 0;
  for (const Recipe &recipe : found.taken) {
    std::vector<const OrtNode *> nodes;
    for (const Node &node : recipe.nodes) nodes.push_back(node.get());
    const NodeFusionOptions fusion{kOldestApi, true};
    require(api_, ep_api_.EpGraphSupportInfo_AddNodesToFuse(support, nodes.data(), nodes.size(), &fusion));
    claimed += nodes.size();
  }
  for (const Refusal &refusal : found.refused) log("leaves " + refusal.node + ": " + refusal.reason);
  if (claimed > 0 || !found.refused.empty())
    log("takes " + std::to_string(claimed) + " of " + std::to_string(found.nodes) + " nodes, as " +
        std::to_string(found.taken.size()) + " layers");
  std::lock_guard<std::mutex> lock(mutex_);
  nodes_ += found.nodes, claimed_ += claimed;
  refused_.insert(refused_.end(), found.refused.begin(), found.refused.end());
}

NodeComputeInfo *Provider::compile(const OrtGraph *graph, const OrtNode *fused) {
  const Recipes found = recipes(api_, graph);
  if (found.taken.size() != 1 || found.taken[0].nodes.size() != found.nodes)
    throw Error(kFail, "polyconv: a fused node of " + std::to_string(found.nodes) +
                           " nodes is not the one layer that was claimed" +
                           (found.refused.empty() ? "" : ": " + found.refused[0].reason));
  const Node node(&api_, fused);
  Inputs inputs;
  for (size_t i = 0; node.input(i); ++i) inputs.emplace(node.input(i).name(), i);
  std::string name;
  for (const Node &inner : found.taken[0].nodes)
    if (name.empty() && inner.type().find("Conv") != std::string::npos)
      name = inner.name().empty() ? inner.output(0).name() : inner.name();
  auto layer = std::make_shared<Layer>(api_, found.taken[0], inputs, name, settings_, workspaces_);
  auto compute = std::make_unique<Compute>(api_, layer);
  std::lock_guard<std::mutex> lock(mutex_);
  layers_.push_back(std::move(layer));
  return compute.release();
}

std::string Provider::report() {
  std::string text = "polyconv " + std::string(polyconv_version()) + ": " + std::to_string(claimed_) + " of " +
                     std::to_string(nodes_) + " nodes, " + std::to_string(layers_.size()) + " layers\n";
  for (const auto &layer : layers_) {
    const LayerReport told = layer->report();
    text += "\nlayer " + told.name + "\n  nodes    " + told.text + "\n  runs     " + std::to_string(told.runs) +
            ", plans " + std::to_string(told.plans) + "\n";
    if (settings_.profile && told.runs > 0) {
      char line[64];
      std::snprintf(line, sizeof line, "  time     %.3f ms a run\n",
                    told.seconds * 1e3 / static_cast<double>(told.runs));
      text += line;
    }
    for (const auto &kernel : told.kernels) text += "  kernel   " + kernel.second + " for " + kernel.first + "\n";
  }
  for (const Refusal &refusal : refused_) text += "\nleft " + refusal.node + ": " + refusal.reason + "\n";
  return text;
}

} // namespace polyconv_ort

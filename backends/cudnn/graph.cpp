// graph.cpp - see graph.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"

#include "defects.hpp"

#include <algorithm>
#include <polyconv/sdk/formula.hpp>
#include <polyconv/sdk/kernel.hpp>

namespace polyconv::cudnn {
namespace {

using sdk::kD;

cudnnDataType_t type_of(int32_t type) {
  switch (type) {
    case POLYCONV_F64: return CUDNN_DATA_DOUBLE;
    case POLYCONV_F16: return CUDNN_DATA_HALF;
    case POLYCONV_BF16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

// cuDNN knows two and three axes: depth is left out where nothing has any.
bool has_depth(const polyconv_layer &l) {
  return l.input.size[kD] != 1 || l.weights.size[kD] != 1 || l.output.size[kD] != 1;
}

// The entries of `axes` (N C D H W, or D H W) that the graph has.
std::vector<int64_t> kept(const int64_t *axes, int count, bool depth) {
  std::vector<int64_t> result(axes, axes + count);
  if (!depth) result.erase(result.begin() + (count == 5 ? kD : 0));
  return result;
}

Descriptor tensor(const polyconv_tensor &t, int64_t id, bool depth) {
  Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(t.type));
  d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, kept(t.size, 5, depth));
  d.set(CUDNN_ATTR_TENSOR_STRIDES, kept(t.stride, 5, depth));
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  d.finalize("describing a tensor");
  return d;
}

Descriptor convolution(const polyconv_layer &l, bool depth) {
  const int64_t strides[] = {sdk::formula_stride(l, 0), sdk::formula_stride(l, 1), sdk::formula_stride(l, 2)};
  Descriptor d(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, depth ? 3 : 2);
  d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(l.sum_type));
  d.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  d.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, kept(l.pad_begin, 3, depth));
  d.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, kept(l.pad_end, 3, depth));
  d.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, kept(l.dilation, 3, depth));
  d.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, kept(strides, 3, depth));
  d.finalize("describing the convolution");
  return d;
}

// What cuDNN calls the parts of one direction.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t input, weights, output, convolution, alpha, beta;
};

Names names_of(int32_t direction) {
  switch (direction) {
    case POLYCONV_BACKWARD_DATA:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case POLYCONV_BACKWARD_WEIGHTS:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  }
}

template <class Real>
void set_factors(const Names &names, cudnnBackendAttributeType_t type, Descriptor *operation) {
  operation->set(names.alpha, type, Real{1});
  operation->set(names.beta, type, Real{0});
}

Descriptor operation_graph(cudnnHandle_t handle, const polyconv_layer &l, Order order) {
  const bool depth = has_depth(l);
  const Names names = names_of(l.direction);
  Descriptor operation(names.operation);
  operation.set(names.input, tensor(dense(l.input, order), kInputId, depth));
  operation.set(names.weights, tensor(dense(l.weights, order), kWeightsId, depth));
  operation.set(names.output, tensor(dense(l.output, order), kOutputId, depth));
  operation.set(names.convolution, convolution(l, depth));
  if (l.sum_type == POLYCONV_F64) {
    set_factors<double>(names, CUDNN_TYPE_DOUBLE, &operation);
  } else {
    set_factors<float>(names, CUDNN_TYPE_FLOAT, &operation);
  }
  operation.finalize("describing the operation");
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.finalize("finalising the operation graph");
  return graph;
}

bool notes_allow(const Descriptor &engine, const Rules &rules) {
  for (const cudnnBackendNumericalNote_t note : engine.get<cudnnBackendNumericalNote_t>(
           CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT)) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        if (!rules.tensor_cores) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        if (!rules.reduced_precision) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        if (!rules.nondeterministic) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_FFT:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        if (!rules.transforms) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP: break;
      default: return false; // inputs rounded to another type, and whatever comes with later versions
    }
  }
  return true;
}

bool compiles(const Descriptor &engine) {
  const std::vector<cudnnBackendBehaviorNote_t> notes = engine.get<cudnnBackendBehaviorNote_t>(
      CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  return std::find(notes.begin(), notes.end(), CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != notes.end();
}

Setting knobs_set(const Descriptor &config) {
  Setting knobs;
  for (const Descriptor &choice : config.descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                                     CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS))
    knobs.emplace_back(
        choice.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1).at(0),
        choice.integer(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  return knobs;
}

Descriptor engine_descriptor(const Descriptor &graph, int64_t number) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, number);
  engine.finalize("describing an engine");
  return engine;
}

// One knob of an engine, and its values.
struct Knob {
  cudnnBackendKnobType_t type;
  std::vector<int64_t> values;
};

std::vector<Knob> knobs_of(const Descriptor &engine) {
  constexpr size_t kMostValues = 32; // of one knob
  std::vector<Knob> knobs;
  for (const Descriptor &info : engine.descriptors(CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR)) {
    Knob knob = {info.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, 1).at(0), {}};
    const int64_t most = info.integer(CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE);
    const int64_t step = std::max<int64_t>(1, info.integer(CUDNN_ATTR_KNOB_INFO_STRIDE));
    for (int64_t value = info.integer(CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE);
         value <= most && knob.values.size() < kMostValues; value += step)
      knob.values.push_back(value);
    if (!knob.values.empty()) knobs.push_back(std::move(knob));
  }
  return knobs;
}

// Every combination where they are few, else one knob at a time.
std::vector<Setting> settings_of(const std::vector<Knob> &knobs) {
  constexpr size_t kMostCombinations = 64;
  std::vector<Setting> combinations = {{}}, single;
  for (const Knob &knob : knobs) {
    std::vector<Setting> longer;
    for (const int64_t value : knob.values) {
      single.push_back({{knob.type, value}});
      if (combinations.size() > kMostCombinations) continue;
      for (Setting setting : combinations) {
        setting.emplace_back(knob.type, value);
        longer.push_back(std::move(setting));
      }
    }
    if (!longer.empty()) combinations = std::move(longer);
  }
  return combinations.size() <= kMostCombinations ? combinations : single;
}

Config with_knobs(const Descriptor &engine, int64_t number, const Setting &setting) {
  Descriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  std::vector<Descriptor> choices;
  for (const auto &[type, value] : setting) {
    Descriptor &choice = choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, type);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
    choice.finalize("choosing a knob's value");
  }
  if (!choices.empty()) config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choices);
  config.finalize("configuring an engine");
  return {std::move(config), number, setting, compiles(engine)};
}

} // namespace

const char *order_name(Order order) {
  return order == Order::ChannelsFirst ? "nchw" : "nhwc";
}

polyconv_tensor dense(const polyconv_tensor &tensor, Order order) {
  const int first[] = {4, 3, 2, 1, 0}, last[] = {1, 4, 3, 2, 0};
  polyconv_tensor result = tensor;
  result.offset = 0;
  int64_t stride = 1;
  for (const int axis : order == Order::ChannelsFirst ? first : last) {
    result.stride[axis] = stride;
    stride *= tensor.size[axis];
  }
  return result;
}

bool is_dense(const polyconv_tensor &tensor, Order order) {
  return order == Order::ChannelsFirst ? sdk::channels_first(tensor) : sdk::channels_last(tensor);
}

std::string Config::name() const {
  std::string values;
  for (const auto &[type, value] : knobs)
    values += (values.empty() ? "" : ",") + std::to_string(static_cast<int>(type)) + "=" + std::to_string(value);
  return "eng" + std::to_string(engine) + (values.empty() ? "" : "{" + values + "}");
}

Graph::Graph(cudnnHandle_t handle, const polyconv_layer &layer, Order order)
    : layer_(layer), order_(order), graph_(operation_graph(handle, layer, order)) {}

bool Graph::allowed(const Descriptor &engine, int64_t number, const Rules &rules) const {
  return notes_allow(engine, rules) && tolerated(defects_of(number, layer_, order_), rules);
}

std::vector<Config> Graph::proposals(cudnnBackendHeurMode_t mode, const Rules &rules) const {
  std::vector<Config> allowed_ones;
  try {
    Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    heuristic.finalize("asking a heuristic");
    for (Descriptor &config :
         heuristic.descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) {
      const std::vector<Descriptor> engine =
          config.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      if (engine.empty()) continue;
      const int64_t number = engine[0].integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
      if (!allowed(engine[0], number, rules)) continue;
      Setting knobs = knobs_set(config);
      allowed_ones.push_back({std::move(config), number, std::move(knobs), compiles(engine[0])});
    }
  } catch (const sdk::Error &) { // a heuristic that does not know the problem proposes nothing
  }
  return allowed_ones;
}

int64_t Graph::engine_count() const {
  return graph_.integer(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT);
}

std::vector<Config> Graph::engine(int64_t number, const Rules &rules) const {
  std::vector<Config> found;
  try {
    const Descriptor engine = engine_descriptor(graph_, number);
    if (allowed(engine, number, rules)) found.push_back(with_knobs(engine, number, {}));
  } catch (const sdk::Error &) { // not for this problem
  }
  return found;
}

bool Graph::allows(int64_t number, const Rules &rules) const {
  return allowed(engine_descriptor(graph_, number), number, rules);
}

Config Graph::configured(int64_t number, const Setting &knobs) const {
  return with_knobs(engine_descriptor(graph_, number), number, knobs);
}

std::vector<Config> Graph::variations(int64_t number) const {
  std::vector<Config> found;
  try {
    const Descriptor engine = engine_descriptor(graph_, number);
    for (const Setting &setting : settings_of(knobs_of(engine))) {
      try {
        found.push_back(with_knobs(engine, number, setting));
      } catch (const sdk::Error &) { // values that this engine does not take after all
      }
    }
  } catch (const sdk::Error &) { // no knobs
  }
  return found;
}

Execution::Execution(cudnnHandle_t handle, const Config &config) : plan_(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config.descriptor);
  plan_.finalize("finalising the execution plan");
  workspace_bytes_ = plan_.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
}

Descriptor variant_pack(void *input, void *weights, void *output, void *workspace) {
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::vector<int64_t>{kInputId, kWeightsId, kOutputId});
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::vector<void *>{input, weights, output});
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize("gathering pointers");
  return pack;
}

} // namespace polyconv::cudnn

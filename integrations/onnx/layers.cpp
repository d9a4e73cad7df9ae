// layers.cpp - a problem, its buffers and what follows it, for each convolution of a graph.
//
// SPDX-License-Identifier: Apache-2.0
#include "layers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace polyconv_onnx {
namespace {

struct No : std::runtime_error { // why a convolution has no problem
  using std::runtime_error::runtime_error;
};

constexpr int64_t kMost = POLYCONV_MAX_ELEMENTS;

struct Places { // of a convolution's inputs; -1: it has none
  int weights, bias, input_zero, weights_zero, input_scale, weights_scale, output_scale, output_zero, residual;
};

const std::map<std::string, Places> &convolutions() {
  static const std::map<std::string, Places> places = {{"Conv", {1, 2, -1, -1, -1, -1, -1, -1, -1}},
                                                       {"ConvTranspose", {1, 2, -1, -1, -1, -1, -1, -1, -1}},
                                                       {"ConvInteger", {1, -1, 2, 3, -1, -1, -1, -1, -1}},
                                                       {"QLinearConv", {3, 8, 2, 5, 1, 4, 6, 7, -1}},
                                                       {"com.microsoft:FusedConv", {1, 2, -1, -1, -1, -1, -1, -1, 3}}};
  return places;
}

int32_t type_of(int64_t type) {
  switch (type) {
    case kFloat: return POLYCONV_F32;
    case kFloat16: return POLYCONV_F16;
    case kBfloat16: return POLYCONV_BF16;
    case kDouble: return POLYCONV_F64;
    case kInt8: return POLYCONV_S8;
    case kUint8: return POLYCONV_U8;
    default: throw No("its element type " + std::to_string(type) + " is not one that polyconv convolves");
  }
}

// One of the caller's sizes, into all values of a graph that have it, and of the graphs inside. Returns whether any
// has.
bool give(const polyconv_onnx_size &given, Graph &graph) {
  bool found = false;
  for (auto *values : {&graph.inputs, &graph.told})
    for (auto &value : *values)
      for (size_t i = 0; i < value.second.sizes.size(); ++i)
        if (value.second.names[i] == given.name) value.second.sizes[i] = given.size, found = true;
  for (Node &node : graph.nodes)
    for (Body &body : node.bodies) found = give(given, body.graph) || found;
  return found;
}

// Likewise, or of an axis of an input. Throws where there is none.
void give_or_throw(const polyconv_onnx_size &given, Graph &graph) {
  if (!given.name || given.size < 0 || given.size > kMost)
    throw std::invalid_argument("size " + std::string(given.name ? given.name : "NULL") + " is " +
                                std::to_string(given.size) + ", expected a name, and 0 to 2^48");
  if (given.axis < 0) {
    if (!give(given, graph))
      throw std::invalid_argument("the model has no dimension called " + std::string(given.name));
    return;
  }
  auto input = graph.inputs.find(given.name);
  if (input == graph.inputs.end() || given.axis >= static_cast<int64_t>(input->second.sizes.size()))
    throw std::invalid_argument("the model has no axis " + std::to_string(given.axis) + " of an input called " +
                                given.name);
  input->second.sizes[given.axis] = given.size;
}

// Reads one graph; the bodies inside it have readers of their own.
class Reader {
 public:
  // Layers go to the end of `layers`, and say that they lie `within` these nodes.
  Reader(const Graph &graph, const Scope *outer, std::string within, std::deque<Layer> &layers)
      : scope_(graph, outer), within_(std::move(within)), layers_(layers) {
    for (const Node &node : graph.nodes)
      for (const std::string &name : read_by(node))
        if (!name.empty()) readers_[name].push_back(&node);
  }

  Scope &scope() { return scope_; }

  void read() {
    for (const Node &node : scope_.graph().nodes) {
      if (convolutions().count(node.type)) add(node);
      read_bodies(node);
      infer(node);
    }
  }

 private:
  // Loop and Scan hand values to their bodies, of which the first iteration is read; If's branches have none.
  void read_bodies(const Node &node) {
    std::vector<std::vector<std::optional<Sizes>>> results;
    for (const Body &body : node.bodies) {
      const std::string place = within_ + (within_.empty() ? "" : "/") + node.label() + "/" + body.attribute;
      Reader inside(body.graph, &scope_, place, layers_);
      const std::vector<std::string> &inputs = body.graph.input_order;
      for (size_t i = 0; i < inputs.size(); ++i) hand_in(node, i, inputs.size(), inside.scope(), inputs[i]);
      inside.read();
      results.emplace_back();
      for (const std::string &name : body.graph.output_order) {
        const Sizes *shape = inside.scope().shape(name);
        results.back().push_back(shape ? std::optional<Sizes>(*shape) : std::nullopt);
      }
    }
    if (node.type == "If" && results.size() == 2) // what both branches give
      for (size_t i = 0; i < std::min({node.outputs.size(), results[0].size(), results[1].size()}); ++i)
        if (results[0][i] && results[0][i] == results[1][i]) scope_.set_shape(node.outputs[i], *results[0][i]);
  }

  // Of the body's input number i: Loop has the iteration's number and condition first, as it has the count and the
  // condition, and then what is carried on; Scan has its states, and then slices of tensors.
  void hand_in(const Node &node, size_t i, size_t count, Scope &inside, const std::string &name) const {
    const std::string outer = node.input(i);
    const Sizes *sizes = scope_.shape(outer);
    if (node.type == "Loop" && i >= 2) return inside.hand_in(name, sizes, scope_.type(outer));
    const int64_t scanned = node.attribute("num_scan_inputs", int64_t{0});
    if (node.type != "Scan" || count != node.inputs.size()) return; // Scan of opset 8 has one more
    if (scanned < 0 || scanned > static_cast<int64_t>(count)) return;
    const int64_t slice = static_cast<int64_t>(i) - (static_cast<int64_t>(count) - scanned);
    if (slice < 0 || !sizes) return inside.hand_in(name, sizes, scope_.type(outer));
    const Sizes axes = node.attribute("scan_input_axes", Sizes());
    int64_t axis = slice < static_cast<int64_t>(axes.size()) ? axes[slice] : 0;
    const auto rank = static_cast<int64_t>(sizes->size());
    if (axis < -rank || axis >= rank) return;
    Sizes rest = *sizes;
    rest.erase(rest.begin() + (axis < 0 ? axis + rank : axis));
    inside.hand_in(name, &rest, scope_.type(outer));
  }

  void infer(const Node &node) {
    if (node.outputs.empty()) return;
    const std::string &output = node.outputs[0];
    std::optional<Sizes> shape = output_shape(scope_, node);
    if (shape) scope_.set_shape(output, std::move(*shape));
    for (const std::string &name : node.outputs)
      if (const Sizes *told = scope_.shape(name) ? nullptr : scope_.told(name)) scope_.set_shape(name, *told);
    if (node.type != "Cast" && node.bodies.empty()) scope_.set_type(output, scope_.type(node.input(0)));
  }

  // The sizes of a value, or No with what is missing.
  const Sizes &shape(const char *what, const std::string &value) const {
    if (const Sizes *known = scope_.shape(value)) return *known;
    std::string open;
    const Value *told = scope_.value(value);
    for (size_t i = 0; told && i < told->sizes.size(); ++i)
      if (told->sizes[i] < 0)
        open += (open.empty() ? ": axis " : ", axis ") + std::to_string(i) +
                (told->names[i].empty() ? "" : " (" + told->names[i] + ")");
    throw No(std::string(what) + " " + value + " is of unknown shape" + open);
  }

  const Tensor *constant(const std::string &value) const {
    const Tensor *found = scope_.constant(value);
    return found && found->present() ? found : nullptr;
  }

  void add(const Node &node) {
    layers_.emplace_back();
    Layer &layer = layers_.back();
    layer.name = node.label(), layer.within = within_, layer.operation = node.type, layer.input = node.input(0);
    layer.output = node.outputs.empty() ? std::string() : node.outputs[0];
    polyconv_problem_init(&layer.shown.problem);
    try {
      describe(node, convolutions().at(node.type), layer);
      follow(layer);
      if (polyconv_problem_validate(&layer.shown.problem, 1) != POLYCONV_SUCCESS) throw No(polyconv_last_error());
    } catch (const No &no) {
      layer.reason = no.what();
    } catch (const std::invalid_argument &wrong) { // of geometry.hpp
      layer.reason = wrong.what();
    }
    if (!layer.reason.empty()) polyconv_problem_init(&layer.shown.problem);
    show(layer);
  }

  void describe(const Node &node, const Places &places, Layer &layer) const {
    auto input = [&](int place) { return place < 0 ? std::string() : node.input(static_cast<size_t>(place)); };
    const std::string weights = input(places.weights), bias = input(places.bias);
    const Sizes &sizes = shape("its weights", weights);
    const Geometry geometry = geometry_of(node, sizes.size(), layer.reason);
    if (!layer.reason.empty()) throw No(layer.reason);
    polyconv::Problem problem = convolution(geometry, shape("its input", layer.input), sizes);
    int64_t from = scope_.type(layer.input);
    if (from == kUnknown) from = places.input_zero < 0 ? scope_.type(weights) : scope_.type(input(places.input_zero));
    if (from == kUnknown) from = kUint8; // what most quantised models have
    problem.input_type = type_of(from);
    problem.weights_type = type_of(scope_.type(weights));
    problem.output_type = problem.input_type;
    if (node.type == "ConvInteger") problem.output_type = POLYCONV_S32;
    problem.epilogue.has_bias = !bias.empty();
    if (const Tensor *tensor = constant(weights)) layer.weights = tensor->bytes();
    const int64_t of_bias = from == kInt8 || from == kUint8 ? int64_t{kInt32} : from;
    if (const Tensor *tensor = constant(bias))
      layer.bias = vector_of("its bias", *tensor, of_bias, problem.out_channels);
    layer.residual = input(places.residual);
    problem.epilogue.residual_from = layer.residual.empty() ? POLYCONV_RESIDUAL_NONE : POLYCONV_RESIDUAL_BUFFER;
    if (places.input_zero >= 0) zero_points(input(places.input_zero), input(places.weights_zero), problem, layer);
    if (places.output_scale >= 0)
      scales(input(places.input_scale), input(places.weights_scale), input(places.output_scale),
             input(places.output_zero), problem, layer);
    if (node.type == "com.microsoft:FusedConv") activation_of(node.attribute("activation", std::string()), problem);
    static_cast<polyconv_problem &>(layer.shown.problem) = problem;
  }

  // A constant with a number a channel, as polyconv has it in memory: beside half precision that is f32.
  static std::vector<char> vector_of(const char *what, const Tensor &tensor, int64_t type, int64_t elements) {
    if (tensor.type != type)
      throw No(std::string(what) + " is of element type " + std::to_string(tensor.type) + ", expected " +
               std::to_string(type));
    if (tensor.elements() != elements)
      throw No("tensor " + tensor.name + " has " + std::to_string(tensor.elements()) + " elements, expected " +
               std::to_string(elements));
    if (type != kFloat16 && type != kBfloat16) return tensor.bytes();
    const std::vector<double> values = tensor.values();
    const std::vector<float> floats(values.begin(), values.end());
    const char *first = reinterpret_cast<const char *>(floats.data());
    return {first, first + floats.size() * sizeof(float)};
  }

  static void activation_of(const std::string &name, polyconv_problem &problem) {
    if (name.empty()) return;
    if (name != "Relu" && name != "Sigmoid" && name != "Tanh") throw No("its activation is " + name);
    problem.epilogue.activation = name == "Relu"   ? POLYCONV_ACT_RELU
                                  : name == "Tanh" ? POLYCONV_ACT_TANH
                                                   : POLYCONV_ACT_SIGMOID;
  }

  std::vector<double> numbers(const char *what, const std::string &value) const {
    const Tensor *tensor = constant(value);
    if (!tensor) throw No(std::string(what) + " " + value + " is no constant of the file");
    return tensor->values();
  }

  void zero_points(const std::string &input, const std::string &weights, polyconv_problem &problem,
                   Layer &layer) const {
    if (!input.empty())
      problem.input_zero_point = whole("its input's zero point", single("its input's zero point", input));
    if (weights.empty()) return;
    const std::vector<double> zeros = numbers("its weights' zero point", weights);
    const bool same = std::all_of(zeros.begin(), zeros.end(), [&](double zero) { return zero == zeros[0]; });
    if (zeros.empty()) return;
    if (same)
      problem.weights_zero_point = whole("its weights' zero point", zeros[0]);
    else
      problem.has_weights_zero_points = 1,
      layer.weights_zero_point = vector_of("its weights' zero point", *constant(weights),
                                           problem.weights_type == POLYCONV_S8 ? kInt8 : kUint8, problem.out_channels);
  }

  double single(const char *what, const std::string &value) const {
    const std::vector<double> values = numbers(what, value);
    if (values.size() != 1) throw No(std::string(what) + " " + value + " is not one number");
    return std::clamp(values[0], -3e38, 3e38); // a float's range; what of it makes sense polyconv says
  }

  // Files may say anything of a zero point; whether it is one of its type polyconv asks.
  static int32_t whole(const char *what, double number) {
    if (!(number >= INT32_MIN && number <= INT32_MAX && number == std::trunc(number)))
      throw No(std::string(what) + " is " + std::to_string(number) + ", expected a whole number of 32 bits");
    return static_cast<int32_t>(number);
  }

  void scales(const std::string &input, const std::string &weights, const std::string &output,
              const std::string &output_zero, polyconv_problem &problem, Layer &layer) const {
    const auto input_scale = static_cast<float>(single("its input's scale", input));
    const std::vector<double> each = numbers("its weights' scale", weights);
    if (each.size() != 1 && static_cast<int64_t>(each.size()) != problem.out_channels)
      throw No("its weights have " + std::to_string(each.size()) + " scales, expected 1 or " +
               std::to_string(problem.out_channels));
    if (problem.out_channels > (INT64_C(1) << 24)) throw No("it has too many channels");
    for (int64_t k = 0; k < problem.out_channels; ++k)
      layer.scale.push_back(input_scale * static_cast<float>(each[each.size() == 1 ? 0 : k]));
    problem.epilogue.has_scale = 1;
    problem.epilogue.out_scale = static_cast<float>(single("its output's scale", output));
    if (output_zero.empty()) return;
    problem.epilogue.out_zero_point = whole("its output's zero point", single("its output's zero point", output_zero));
    problem.output_type = type_of(scope_.type(output_zero));
  }

  // What reads a value, where that is one node and the value is not the model's own output.
  const Node *next(const std::string &value) const {
    auto found = readers_.find(value);
    if (found == readers_.end() || found->second.size() != 1 || scope_.graph().outputs.count(value)) return nullptr;
    const Node *node = found->second[0];
    return node->bodies.empty() && node->outputs.size() == 1 ? node : nullptr;
  }

  // The residual and the activation behind a layer of floats.
  void follow(Layer &layer) {
    polyconv_epilogue &epilogue = layer.shown.problem.epilogue;
    if (layer.operation != "Conv" && layer.operation != "ConvTranspose") return;
    const Node *node = next(layer.output);
    if (node && node->type == "Add" && residual(*node, layer)) {
      epilogue.residual_from = POLYCONV_RESIDUAL_BUFFER;
      layer.output = node->outputs[0], node = next(layer.output);
    }
    if (node && activate(*node, epilogue)) layer.output = node->outputs[0];
  }

  // The other operand of an Add, if it is there before the layer runs and has the same shape.
  bool residual(const Node &node, Layer &layer) {
    if (node.inputs.size() != 2 || node.inputs[0] == node.inputs[1]) return false;
    const std::string &other = node.inputs[node.inputs[0] == layer.output ? 1 : 0];
    const Sizes *shape = scope_.shape(other);
    if (!shape || scope_.constant(other)) return false;
    polyconv_tensor tensor;
    if (polyconv_problem_tensor(&layer.shown.problem, POLYCONV_TENSOR_OUTPUT, &tensor, nullptr) != POLYCONV_SUCCESS)
      return false;
    const size_t axes = static_cast<size_t>(layer.shown.problem.spatial_dims);
    const Sizes &sizes = *shape;
    if (sizes.size() != axes + 2 || sizes[0] != tensor.size[0] || sizes[1] != tensor.size[1] ||
        !std::equal(sizes.begin() + 2, sizes.end(), tensor.size + 5 - axes))
      return false;
    layer.residual = other;
    return true;
  }

  // The one number of an operand or, in old models, of an attribute.
  double bound(const Node &node, size_t input, const char *attribute, double absent) const {
    if (node.find(attribute)) return static_cast<double>(node.attribute(attribute, 0.0f));
    if (node.input(input).empty()) return absent;
    const Tensor *tensor = constant(node.input(input));
    if (!tensor || tensor->type != kFloat || tensor->elements() != 1) return std::nan("");
    return tensor->values()[0];
  }

  bool activate(const Node &node, polyconv_epilogue &epilogue) const {
    static const std::map<std::string, int32_t> plain = {{"Relu", POLYCONV_ACT_RELU},
                                                         {"Sigmoid", POLYCONV_ACT_SIGMOID},
                                                         {"Tanh", POLYCONV_ACT_TANH},
                                                         {"HardSwish", POLYCONV_ACT_HARD_SWISH},
                                                         {"LeakyRelu", POLYCONV_ACT_LEAKY_RELU},
                                                         {"Elu", POLYCONV_ACT_ELU}};
    auto found = plain.find(node.type);
    if (found != plain.end()) {
      epilogue.activation = found->second;
      if (node.type == "LeakyRelu" || node.type == "Elu")
        epilogue.activation_alpha = node.attribute("alpha", node.type == "Elu" ? 1.0f : 0.01f);
      return true;
    }
    if (node.type != "Clip") return false;
    const double infinity = std::numeric_limits<double>::infinity();
    const double least = bound(node, 1, "min", -infinity), most = bound(node, 2, "max", infinity);
    if (least != 0 || !(most > 0)) return false; // NaN too
    const bool bounded = most < static_cast<double>(std::numeric_limits<float>::max());
    epilogue.activation = bounded ? POLYCONV_ACT_CLIPPED_RELU : POLYCONV_ACT_RELU;
    epilogue.activation_alpha = bounded ? static_cast<float>(most) : 0;
    return true;
  }

  // Fills the struct that callers see. The layer stays where it is, and so do its texts.
  void show(Layer &layer) {
    auto writer = [&](const std::string &value) {
      auto found = written_.find(value);
      return found == written_.end() ? -1 : found->second;
    };
    polyconv_onnx_layer &shown = layer.shown;
    shown.name = layer.name.c_str(), shown.within = layer.within.c_str(), shown.operation = layer.operation.c_str();
    shown.reason = layer.reason.c_str(), shown.input = layer.input.c_str(), shown.output = layer.output.c_str();
    shown.residual = layer.residual.c_str();
    shown.input_layer = writer(layer.input), shown.residual_layer = writer(layer.residual);
    auto data = [](const std::vector<char> &bytes) { return bytes.empty() ? nullptr : bytes.data(); };
    shown.weights = data(layer.weights), shown.bias = data(layer.bias);
    shown.weights_zero_point = data(layer.weights_zero_point);
    shown.scale = layer.scale.empty() ? nullptr : layer.scale.data();
    if (!layer.output.empty()) written_[layer.output] = static_cast<int32_t>(layers_.size()) - 1;
  }

  Scope scope_;
  const std::string within_;
  std::map<std::string, std::vector<const Node *>> readers_;
  std::map<std::string, int32_t> written_; // by the layers of this graph
  std::deque<Layer> &layers_;
};

} // namespace

std::deque<Layer> read_layers(Graph &graph, const polyconv_onnx_size *sizes, int32_t count) {
  for (int32_t i = 0; i < count; ++i) give_or_throw(sizes[i], graph);
  std::deque<Layer> layers;
  Reader(graph, nullptr, "", layers).read();
  return layers;
}

} // namespace polyconv_onnx

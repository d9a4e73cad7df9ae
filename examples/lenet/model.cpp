// model.cpp - see model.hpp. Every layer is a problem and up to three plans: forward, the gradient of weights and bias,
// and that of the input, which the first layer needs not. Layer i's output is layer i+1's input; its gradient is
// written by layer i+1 and read by layer i.
// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <algorithm>
#include <cmath>

#include "failure.hpp"
#include "session.hpp"

namespace lenet {
namespace {

using polyconv::Device;
using polyconv::Memory;
using polyconv::Options;
using polyconv::Problem;

constexpr int64_t kGap = POLYCONV_ALIGNMENT / 2; // elements: aligned in a type of two bytes too

int64_t aligned(int64_t elements) {
  return (elements + kGap - 1) / kGap * kGap;
}

int64_t weights_of(const Problem &p) {
  return p.bytes(POLYCONV_TENSOR_WEIGHTS) / static_cast<int64_t>(polyconv_type_size(p.weights_type));
}

// Uniform in [-1, 1), by splitmix64.
float uniform(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<float>((x ^ (x >> 31)) >> 40) * 0x1p-23f - 1;
}

// What a gradient needs of the forward run.
int32_t save_for(const Problem &p) {
  if (p.epilogue.activation != POLYCONV_ACT_NONE) return POLYCONV_SAVE_PRE_ACTIVATION;
  return p.epilogue.pool.kind == POLYCONV_POOL_MAX ? POLYCONV_SAVE_ARGMAX : POLYCONV_SAVE_NONE;
}

Options options_for(const Settings &settings, int32_t save, Use use) {
  Options options;
  options.kernel = settings.kernel.empty() ? nullptr : settings.kernel.c_str();
  options.threads = settings.threads;
  options.save = save;
  options.dynamic_weights = use != Use::Test;
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  return options;
}

std::unique_ptr<Memory> allocate(const Device &device, int64_t bytes) {
  return std::make_unique<Memory>(device, static_cast<size_t>(bytes));
}

} // namespace

void check_step(const char *complaint) {
  if (complaint != nullptr) throw Failure(kExitFailed, std::string("the device failed: ") + complaint);
}

Spans spans_of(const Network &network) {
  Spans spans;
  for (const Problem &p : network.problems(1, POLYCONV_F32)) {
    Span span = {spans.total, weights_of(p), 0, p.epilogue.has_bias ? p.out_channels : 0};
    span.bias = span.weights + aligned(span.weights_count);
    spans.total = span.bias + aligned(span.bias_count);
    spans.parameters += span.weights_count + span.bias_count;
    spans.layers.push_back(span);
  }
  return spans;
}

std::vector<float> initial_values(const Network &network, uint64_t seed) {
  std::vector<float> values;
  uint64_t state = seed;
  for (const Problem &p : network.problems(1, POLYCONV_F32)) {
    const int64_t count = weights_of(p);
    const int64_t fan_in = count / p.out_channels;
    const auto limit = static_cast<float>(std::sqrt(6.0 / static_cast<double>(fan_in)));
    for (int64_t i = 0; i < count; ++i) values.push_back(limit * uniform(&state));
    if (p.epilogue.has_bias) values.resize(values.size() + static_cast<size_t>(p.out_channels), 0);
  }
  return values;
}

Parameters::Parameters(const Network &network, const Settings &settings, const Device &device, Use use)
    : spans_(spans_of(network)), type_(settings.type) {
  const auto make = [&](Block &block, bool wanted) {
    if (!wanted) return;
    block = allocate(device, bytes());
    device.fill(block->get(), 0, static_cast<size_t>(bytes()));
  };
  const bool training = use == Use::Train;
  make(values_, true);
  make(gradients_, training);
  make(first_, training);
  make(second_, training);
  make(narrow_, type_ != POLYCONV_F32);
  make(narrow_gradients_, training && type_ != POLYCONV_F32);
}

void *Parameters::weights(size_t layer) const {
  const int64_t offset = spans_.layers[layer].weights;
  return type_ == POLYCONV_F32 ? values() + offset
                               : static_cast<void *>(static_cast<uint16_t *>(narrow_->get()) + offset);
}

void *Parameters::weights_gradient(size_t layer) const {
  const int64_t offset = spans_.layers[layer].weights;
  if (type_ == POLYCONV_F32) return gradients() + offset;
  return static_cast<uint16_t *>(narrow_gradients_->get()) + offset;
}

void Parameters::set(const Session &session, float *to, const std::vector<float> &packed) const {
  std::vector<float> values(static_cast<size_t>(spans_.total), 0);
  auto from = packed.begin();
  for (const Span &s : spans_.layers)
    for (const auto &[begin, count] : {std::pair(s.weights, s.weights_count), std::pair(s.bias, s.bias_count)}) {
      std::copy(from, from + count, values.begin() + begin);
      from += count;
    }
  session.device.copy(to, values.data(), values.size() * sizeof(float), session.stream.get());
  session.synchronize();
}

std::vector<float> Parameters::get(const Session &session, const float *from) const {
  const auto values = session.download<float>(from, static_cast<size_t>(spans_.total));
  std::vector<float> packed;
  for (const Span &s : spans_.layers)
    for (const auto &[begin, count] : {std::pair(s.weights, s.weights_count), std::pair(s.bias, s.bias_count)})
      packed.insert(packed.end(), values.begin() + begin, values.begin() + begin + count);
  return packed;
}

void Parameters::narrow(const Steps &steps, void *stream) const {
  if (type_ != POLYCONV_F32)
    check_step(steps.convert(values(), POLYCONV_F32, narrow_->get(), type_, spans_.total, stream));
}

void Parameters::widen_gradients(const Steps &steps, void *stream) const {
  if (type_ == POLYCONV_F32) return;
  for (size_t layer = 0; layer < spans_.layers.size(); ++layer) // the biases' lie there already
    check_step(steps.convert(weights_gradient(layer), type_, gradients() + spans_.layers[layer].weights, POLYCONV_F32,
                             spans_.layers[layer].weights_count, stream));
}

Model::Model(const Network &network, const Settings &settings, const Device &device, const Parameters &parameters,
             int64_t batch, Use use)
    : device_(device), batch_(batch), parameters_(parameters) {
  const std::vector<Problem> problems = network.problems(batch, settings.type);
  input_ = allocate(device, problems.front().bytes(POLYCONV_TENSOR_INPUT));
  for (size_t i = 0; i < problems.size(); ++i) layers_.push_back(make_layer(i, problems[i], settings, device, use));
  for (size_t i = 0; i < problems.size(); ++i) wire(i);
  if (settings.fused && use == Use::Test) {
    chain_ = std::make_unique<Pass>(problems, options_for(settings, POLYCONV_SAVE_NONE, use), device);
    wire_chain();
  }
  if (use == Use::Train) side_ = std::make_unique<Side>(device, problems.size());
  share_workspace(device);
}

Model::Layer Model::make_layer(size_t number, const Problem &problem, const Settings &settings, const Device &device,
                               Use use) const {
  const bool training = use == Use::Train;
  Layer layer;
  layer.problem = problem;
  layer.output = allocate(device, problem.bytes(POLYCONV_TENSOR_OUTPUT));
  const int32_t save = training ? save_for(problem) : POLYCONV_SAVE_NONE;
  const Options options = options_for(settings, save, use);
  const auto pass_of = [&](const Problem &p) {
    return std::make_unique<Pass>(std::vector<Problem>{p}, options, device);
  };
  layer.forward = pass_of(problem);
  if (!training) return layer;
  layer.gradient = allocate(device, problem.bytes(POLYCONV_TENSOR_OUTPUT));
  if (save != POLYCONV_SAVE_NONE)
    layer.saved = allocate(
        device, problem.bytes(save == POLYCONV_SAVE_ARGMAX ? POLYCONV_TENSOR_ARGMAX : POLYCONV_TENSOR_PRE_ACTIVATION));
  Problem backward = problem; // the same layer in another direction
  backward.direction = POLYCONV_BACKWARD_WEIGHTS;
  layer.weights = pass_of(backward);
  backward.direction = POLYCONV_BACKWARD_DATA;
  backward.epilogue.has_bias = 0;
  if (number > 0) layer.data = pass_of(backward);
  return layer;
}

// Tells the passes of a layer where everything lies.
void Model::wire(size_t number) {
  Layer &layer = layers_[number];
  void *const input = number == 0 ? input_->get() : layers_[number - 1].output->get();
  void *const saved = layer.saved ? layer.saved->get() : nullptr;
  Pass &forward = *layer.forward;
  forward.buffers.input = input;
  forward.buffers.output = layer.output->get();
  forward.buffers.weights[0] = parameters_.weights(number);
  forward.buffers.bias[0] = parameters_.bias(number);
  forward.buffers.saved[0] = saved;
  if (layer.weights) {
    polyconv::Buffers &buffers = layer.weights->buffers;
    buffers.input = input;
    buffers.output = layer.gradient->get();
    buffers.weights[0] = parameters_.weights_gradient(number);
    buffers.bias[0] = parameters_.bias_gradient(number);
    buffers.saved[0] = saved;
  }
  if (layer.data) {
    polyconv::Buffers &buffers = layer.data->buffers;
    buffers.input = layers_[number - 1].gradient->get();
    buffers.output = layer.gradient->get();
    buffers.weights[0] = parameters_.weights(number);
    buffers.saved[0] = saved;
  }
  for (Pass *pass : {layer.forward.get(), layer.data.get()})
    if (pass != nullptr && pass->plan.weights_format() != "raw") pass->raw[0] = parameters_.weights(number);
}

void Model::wire_chain() {
  polyconv::Buffers &buffers = chain_->buffers;
  buffers.input = input_->get();
  buffers.output = scores();
  for (size_t i = 0; i < layers_.size(); ++i) {
    buffers.weights[i] = parameters_.weights(i);
    buffers.bias[i] = parameters_.bias(i);
    if (chain_->plan.weights_format(static_cast<int32_t>(i)) != "raw") chain_->raw[i] = parameters_.weights(i);
  }
}

// Passes on one stream run one after another, so that one workspace serves them all.
void Model::share_workspace(const Device &device) {
  const auto share = [&](std::unique_ptr<Memory> *workspace, const std::vector<Pass *> &passes) {
    int64_t bytes = 0;
    for (const Pass *pass : passes) bytes = std::max(bytes, pass->plan.info().workspace_bytes);
    *workspace = allocate(device, bytes);
    for (Pass *pass : passes) {
      pass->buffers.workspace = (*workspace)->get();
      pass->buffers.workspace_size = static_cast<size_t>(bytes);
    }
  };
  std::vector<Pass *> main, side;
  for (Layer &layer : layers_) {
    main.push_back(layer.forward.get());
    if (layer.data) main.push_back(layer.data.get());
    if (layer.weights) side.push_back(layer.weights.get());
  }
  if (chain_) main.push_back(chain_.get());
  share(&workspace_, main);
  share(&side_workspace_, side);
}

Model::Side::Side(const Device &device, size_t layers) : stream(device), done(device) {
  for (size_t i = 0; i < layers; ++i) ready.push_back(std::make_unique<polyconv::Event>(device));
}

std::string Model::kernels(size_t number) const {
  const Layer &layer = layers_[number];
  std::string text = layer.forward->plan.info().kernel;
  if (layer.weights) text += std::string("; weights ") + layer.weights->plan.info().kernel;
  if (layer.data) text += std::string("; data ") + layer.data->plan.info().kernel;
  return text;
}

void Model::Pass::pack(void *stream) {
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] == nullptr) continue;
    if (packed[i]) {
      packed[i]->update(raw[i], stream);
    } else {
      packed[i].emplace(plan, static_cast<int32_t>(i), raw[i], nullptr, stream);
      buffers.packed[i] = packed[i]->get();
    }
  }
}

void Model::pack(void *stream) {
  for (Layer &layer : layers_)
    for (Pass *pass : {layer.forward.get(), layer.data.get()})
      if (pass != nullptr) pass->pack(stream);
  if (chain_) chain_->pack(stream);
}

void Model::forward_layer(size_t layer, void *stream) const {
  layers_[layer].forward->plan.run(layers_[layer].forward->buffers, stream);
}

void Model::forward(void *stream) const {
  if (chain_) return chain_->plan.run(chain_->buffers, stream);
  for (size_t layer = 0; layer < layers_.size(); ++layer) forward_layer(layer, stream);
}

void Model::backward(void *stream) const {
  void *const side = side_->stream.get();
  const auto wait = [&](void *waiting, polyconv::Event &event, void *recording) {
    if (side == nullptr) return;
    event.record(recording);
    polyconv::require(polyconv_stream_wait(device_.get(), waiting, event.get()));
  };
  for (size_t i = layers_.size(); i-- > 0;) {
    const Layer &layer = layers_[i];
    wait(side, *side_->ready[i], stream);
    layer.weights->plan.run(layer.weights->buffers, side);
    if (layer.data) layer.data->plan.run(layer.data->buffers, stream);
  }
  wait(stream, side_->done, side);
}

} // namespace lenet

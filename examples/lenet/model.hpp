// model.hpp - a network on a device: its parameters, and its plans for one size of batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "network.hpp"
#include "step/lenet_step.hpp"

namespace lenet {

struct Settings {
  std::string device = "cpu";
  int32_t type = POLYCONV_F32;
  std::string kernel; // options.kernel; empty: the library chooses
  int32_t threads = 0;
  bool fused = false; // tests run one plan of all layers, which fuses where that is faster
};

struct Session;

enum class Use {
  Test,   // the parameters stay as they are
  Follow, // forward runs of parameters that training changes
  Train
};

// Throws Failure where a step went wrong.
void check_step(const char *complaint);

// Where a layer's weights and bias lie among all parameters, in elements; each part begins at a multiple of
// POLYCONV_ALIGNMENT bytes, for the sake of the kernels.
struct Span {
  int64_t weights, weights_count;
  int64_t bias, bias_count; // count 0: none
};
struct Spans {
  std::vector<Span> layers;
  int64_t total = 0;
  int64_t parameters = 0; // without gaps
};
Spans spans_of(const Network &network);

// He's uniform initialisation, without gaps, by a generator of our own: the same numbers on every machine.
std::vector<float> initial_values(const Network &network, uint64_t seed);

// The parameters and, for training, their gradients and the optimiser's moments. f32, with copies in the type that the
// kernels read where that is another.
class Parameters {
 public:
  Parameters(const Network &network, const Settings &settings, const polyconv::Device &device, Use use);

  const Spans &spans() const { return spans_; }
  int64_t bytes() const { return spans_.total * static_cast<int64_t>(sizeof(float)); }
  float *values() const { return at(values_); }
  float *gradients() const { return at(gradients_); }
  float *first() const { return at(first_); }
  float *second() const { return at(second_); }

  // What a layer's kernels read and write.
  void *weights(size_t layer) const;
  void *weights_gradient(size_t layer) const;
  float *bias(size_t layer) const { return values() + spans_.layers[layer].bias; }
  float *bias_gradient(size_t layer) const { return gradients() + spans_.layers[layer].bias; }

  // All of a kind (values, first, ...) from and to a list without the gaps of Spans.
  void set(const Session &session, float *to, const std::vector<float> &packed) const;
  std::vector<float> get(const Session &session, const float *from) const;

  // From the values to the kernels' type, and their gradients back to f32; nothing in f32.
  void narrow(const Steps &steps, void *stream) const;
  void widen_gradients(const Steps &steps, void *stream) const;

 private:
  using Block = std::unique_ptr<polyconv::Memory>;
  static float *at(const Block &block) { return block ? static_cast<float *>(block->get()) : nullptr; }

  Spans spans_;
  int32_t type_;
  Block values_, gradients_, first_, second_, narrow_, narrow_gradients_;
};

// The plans and buffers of one size of batch.
class Model {
 public:
  Model(const Network &network, const Settings &settings, const polyconv::Device &device, const Parameters &parameters,
        int64_t batch, Use use);

  int64_t batch() const { return batch_; }
  size_t layers() const { return layers_.size(); }
  void *input() const { return input_->get(); }
  float *scores() const { return static_cast<float *>(layers_.back().output->get()); }
  float *scores_gradient() const { return static_cast<float *>(layers_.back().gradient->get()); }
  const polyconv::Problem &problem(size_t layer) const { return layers_[layer].problem; }
  std::string kernels(size_t layer) const; // of every pass, as a person wants to read them
  bool fused() const { return chain_ != nullptr; }
  std::string chain_kernels() const { return chain_->plan.info().kernel; }

  // Packs the parameters for the kernels: before the first run, and after every change.
  void pack(void *stream);
  void forward_layer(size_t layer, void *stream) const;
  void forward(void *stream) const;
  // From scores_gradient to the parameters' gradients. On a GPU a layer's two gradients run side by side.
  void backward(void *stream) const;

 private:
  struct Pass { // one plan, its buffers and, where its kernels want them packed, its weights
    Pass(const std::vector<polyconv::Problem> &problems, const polyconv::Options &options,
         const polyconv::Device &device)
        : plan(problems, options, device), packed(problems.size()), raw(problems.size(), nullptr) {}
    void pack(void *stream);
    polyconv::Plan plan;
    polyconv::Buffers buffers;
    std::vector<std::optional<polyconv::Weights>> packed; // of each layer
    std::vector<const void *> raw;                        // what is packed
  };
  struct Layer {
    polyconv::Problem problem;
    std::unique_ptr<polyconv::Memory> output, saved, gradient; // gradient: of the output
    std::unique_ptr<Pass> forward, weights, data;              // weights and data go backward
  };

  Layer make_layer(size_t number, const polyconv::Problem &problem, const Settings &settings,
                   const polyconv::Device &device, Use use) const;
  void wire(size_t number);
  void wire_chain();
  void share_workspace(const polyconv::Device &device);

  struct Side { // where the gradients of weights run
    Side(const polyconv::Device &device, size_t layers);
    polyconv::Stream stream;                             // NULL on the CPU, where everything runs in turn
    std::vector<std::unique_ptr<polyconv::Event>> ready; // [i]: the gradient of layer i's output is there
    polyconv::Event done;
  };

  polyconv::Device device_;
  int64_t batch_;
  const Parameters &parameters_;
  std::unique_ptr<Side> side_;
  std::unique_ptr<polyconv::Memory> input_, workspace_, side_workspace_;
  std::vector<Layer> layers_;
  std::unique_ptr<Pass> chain_; // of all layers; NULL: they run one by one
};

} // namespace lenet

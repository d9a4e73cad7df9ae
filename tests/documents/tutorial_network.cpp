// tutorial_network.cpp - the second half of docs/tutorial.md in C++: a small network, layer by layer with one workspace
// and packed weights, then as one chain; both must agree.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/polyconv.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

// part network
// One layer: its plan, its weights as the plan wants them, and its bias.
class Layer {
 public:
  Layer(const std::string &token, const float *raw_weights, const float *bias)
      : problem_(token), plan_(problem_), weights_(plan_, 0, raw_weights), bias_(bias) {}

  const polyconv::Plan &plan() const { return plan_; }
  size_t output_count() const { return static_cast<size_t>(problem_.bytes(POLYCONV_TENSOR_OUTPUT)) / sizeof(float); }

  void run(const float *input, float *output, const polyconv::Workspace &workspace) const {
    polyconv::Buffers buffers;
    buffers.input = const_cast<float *>(input), buffers.output = output; // forward only reads its input
    buffers.packed[0] = weights_.get();
    buffers.bias[0] = const_cast<float *>(bias_);
    plan_.run(buffers, workspace);
  }

 private:
  polyconv::Problem problem_;
  polyconv::Plan plan_;
  polyconv::Weights weights_;
  const float *bias_;
};

// Layers one after the other, with one workspace for all and two buffers that take turns.
class Network {
 public:
  void add(const std::string &token, const float *raw_weights, const float *bias) {
    layers_.emplace_back(token, raw_weights, bias);
    const Layer &added = layers_.back();
    if (layers_.size() == 1)
      workspace_ = std::make_unique<polyconv::Workspace>(added.plan());
    else
      workspace_->reserve(added.plan());
    for (std::vector<float> &between : between_) between.resize(std::max(between.size(), added.output_count()));
  }

  // The last layer's output, until the next run. A network runs on one thread at a time; its plans use several.
  const float *run(const float *input) {
    size_t turn = 0;
    for (const Layer &layer : layers_) {
      float *output = between_[turn].data();
      layer.run(input, output, *workspace_);
      input = output;
      turn = 1 - turn;
    }
    return input;
  }

 private:
  std::vector<Layer> layers_;
  std::unique_ptr<polyconv::Workspace> workspace_;
  std::vector<float> between_[2];
};
// end network

static std::vector<float> noise(size_t count, unsigned seed) {
  std::vector<float> values(count);
  for (float &value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 16) / 65536.0f - 0.5f;
  }
  return values;
}

int main() {
  const std::vector<float> w1 = noise(8 * 1 * 5 * 5, 1), w2 = noise(16 * 8 * 5 * 5, 2), w3 = noise(10 * 16 * 4 * 4, 3);
  const std::vector<float> b1 = noise(8, 4), b2 = noise(16, 5), b3 = noise(10, 6), image = noise(28 * 28, 7);

  // part use
  Network network; // 28 x 28 pixels to ten scores; a fully connected layer is a filter as large as its input
  network.add("fwd:n1,c1,k8,i28x28,f5x5:bias+relu+maxpool2", w1.data(), b1.data());
  network.add("fwd:n1,c8,k16,i12x12,f5x5:bias+relu+maxpool2", w2.data(), b2.data());
  network.add("fwd:n1,c16,k10,i4x4,f4x4:bias", w3.data(), b3.data());
  const float *scores = network.run(image.data());
  // end use

  // part chain
  const polyconv::Plan chain({polyconv::Problem("fwd:n1,c1,k8,i28x28,f5x5:bias+relu+maxpool2"),
                              polyconv::Problem("fwd:n1,c8,k16,i12x12,f5x5:bias+relu+maxpool2"),
                              polyconv::Problem("fwd:n1,c16,k10,i4x4,f4x4:bias")});
  const polyconv::Weights packed[] = {polyconv::Weights(chain, 0, w1.data()), polyconv::Weights(chain, 1, w2.data()),
                                      polyconv::Weights(chain, 2, w3.data())};
  const polyconv::Workspace workspace(chain); // what lies between the layers is in here, or nowhere
  std::vector<float> result(10);
  polyconv::Buffers buffers;
  buffers.input = const_cast<float *>(image.data()), buffers.output = result.data();
  const float *biases[] = {b1.data(), b2.data(), b3.data()};
  for (int layer = 0; layer < 3; ++layer) {
    buffers.packed[layer] = packed[layer].get();
    buffers.bias[layer] = const_cast<float *>(biases[layer]);
  }
  chain.run(buffers, workspace);
  // end chain

  for (size_t i = 0; i < 10; ++i)
    if (!(std::fabs(scores[i] - result[i]) <= 1e-4f)) return std::printf("%g and %g\n", scores[i], result[i]), 1;

  // part why
  std::puts(polyconv::Explanation(polyconv::Problem("fwd:n1,c8,k16,i12x12,f5x5:bias+relu+maxpool2")).text().c_str());
  // end why
}

// lenet_step.hpp - what training needs beside convolutions: batches, loss, optimiser, conversions. One table of
// functions for each kind of device: lenet_step.cpp for the CPU, lenet_step.cu in a module of its own, loaded where a
// GPU is asked for, so that the program itself needs no CUDA.
//
// All pointers are the device's; functions enqueue on `stream`, synchronise nothing and can be captured in a graph. So
// that one graph serves every step, the number of the batch is read from the device, where `advance` counts it on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lenet {

enum Optimiser : int32_t { kMomentum = 0, kAdam = 1 };

// In the memory of the device.
struct Progress {
  int64_t batch;  // of the epoch
  int64_t update; // since the beginning, 1 for the first
  double rate;    // of learning, in this epoch
};

// Images and labels of one batch, drawn from the whole set in a given order.
struct Draw {
  const uint8_t *pixels, *labels; // of every image
  const int32_t *order;           // batch b takes order[b * count] and what follows
  const Progress *progress;       // NULL: batch 0
  int64_t count;                  // images of a batch
  int64_t rows, columns, repeat, border;
  void *input; // count x 1 x (rows * repeat + 2 border) x ..., pixels / 255
  int32_t type;
  int32_t *chosen; // the labels
};

// Softmax and cross-entropy.
struct Loss {
  const float *scores; // count x classes
  const int32_t *labels;
  int64_t count, classes;
  const Progress *progress; // NULL: batch 0
  float gradient_scale;     // of `gradient`, for types with a small range
  float *gradient;          // of the mean loss; NULL where not wanted
  double *losses;           // [batch]: the mean
  int32_t *hits;            // [batch]: images whose label has the highest score
  uint8_t *guesses;         // [batch * count + i]: the class of the highest score; NULL where not wanted
};

struct Update {
  float *values, *first, *second; // second moments: Adam only
  const float *gradients;
  int64_t count;
  int32_t optimiser;
  float gradient_scale; // that gradients hold
  const Progress *progress;
};

// `type`s are POLYCONV_F32, F16 and BF16. A function returns NULL, or what went wrong.
struct Steps {
  const char *(*draw)(const Draw &, void *stream);
  const char *(*loss)(const Loss &, void *stream);
  const char *(*update)(const Update &, void *stream);
  const char *(*convert)(const void *from, int32_t from_type, void *to, int32_t to_type, int64_t count, void *stream);
  const char *(*advance)(Progress *, void *stream);
};

constexpr float kMomentumDecay = 0.9f, kBeta1 = 0.9f, kBeta2 = 0.999f, kEpsilon = 1e-8f;

// The steps of a device ("cpu", "cuda", "cuda:1"). Throws Failure where the module is missing.
const Steps &steps_for(const char *device);

extern "C" const Steps *lenet_cpu_steps();
#define LENET_CUDA_ENTRY "lenet_cuda_steps"

} // namespace lenet

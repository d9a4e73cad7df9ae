// problem.hpp - step 2 of the way through the code: a caller's problem is validated once and normalised into the
// plain data that every kernel sees (polyconv_layer), so that no kernel validates or knows variants again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

#include <cstddef>
#include <string>
#include <vector>

namespace polyconv {

// A layer, and what run needs to know of the problem it came from.
struct Layer {
  polyconv_layer layer;     // normalised
  polyconv_problem problem; // as given, in this library's version of the struct
  bool swapped;             // transposed: the caller's input is the normalised output and the other way round
  bool has_gradient;        // backward through an activation or pooling:
  polyconv_layer gradient;  // what POLYCONV_OP_GRADIENT asks; `layer` reads its result and has neither of the two
  bool views_input;         // layer.input is a part of the tensor, which negative padding crops:
  int64_t view_offset;      // bytes from that tensor's pointer to the part

  // What buffers.saved holds, in either direction.
  int32_t save() const { return has_gradient ? gradient.save : layer.save; }
};

// Whether a gradient's layer reads the gradient of its sums as its input, as transposed problems do, or as its output.
inline bool reads_gradient_as_input(const polyconv_layer &layer) {
  return layer.direction == POLYCONV_FORWARD || layer.bias_over_input != 0;
}

constexpr size_t kOldestProblem = offsetof(polyconv_problem, pool_dilation); // where the struct of 0.1 ends
static_assert(sizeof(void *) != 8 || offsetof(polyconv_problem, epilogue) + sizeof(polyconv_epilogue) == kOldestProblem,
              "what polyconv_problem had in 0.1 has moved");

// Whether an activation has a parameter, its alpha; that of others is ignored.
inline bool takes_alpha(int32_t activation) {
  return activation == POLYCONV_ACT_CLIPPED_RELU || activation == POLYCONV_ACT_LEAKY_RELU ||
         activation == POLYCONV_ACT_ELU;
}

// What polyconv_problem_init gives.
polyconv_problem default_problem();

// Copies `count` caller's structs (whose struct_size may be an older, smaller one) into this version's.
// Throws Failure(INVALID_ARGUMENT) for NULL, a bad count or an impossible struct_size.
std::vector<polyconv_problem> copy_problems(const polyconv_problem *problems, int32_t count);

// Validates problems as a layer or chain. Throws Failure(INVALID_ARGUMENT) naming layer, field, value, expectation.
void validate(const std::vector<polyconv_problem> &problems);

// Validates and normalises; `save` is POLYCONV_SAVE_* and is validated against the problem too.
std::vector<Layer> normalise(const std::vector<polyconv_problem> &problems, int32_t save);

// One of the caller's tensors (POLYCONV_TENSOR_*) of a valid problem; false where the problem has none.
bool tensor_of(const polyconv_problem &problem, int32_t which, polyconv_tensor *tensor);

// Bytes from the pointer of a tensor to its end.
int64_t bytes_of(const polyconv_tensor &tensor);

} // namespace polyconv

// calls.hpp - calls of PyTorch's convolutions that are ready to run: found by what they look like, run on what
// tensors hold now. polyconv/torch/_run.py decides what a call becomes, once for each sort of call.
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_PYTHON_TORCH_CALLS_HPP
#define POLYCONV_PYTHON_TORCH_CALLS_HPP

#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "objects.hpp"
#include "torch/face.hpp"

namespace polyconv_python::torch_face {

// Where what is kept of a tensor was found the last time (polyconv/torch/_kept.py), so that it need not be looked for
// while nothing changed.
struct Form {
  nb::object tensor;  // a weak reference
  nb::object kept;    // another, to what is kept; invalid where the tensor is only known to report()
  nb::object version; // the one that was kept, a tuple, of which the rest here is made
  nb::object counter;
  const char *address = nullptr;
  nb::object sample;
  const Weights *packed = nullptr;
  void *cast = nullptr;
};

// What polyconv/torch makes of a call that it takes (its class Taken derives from this): a plan, and the tensor that it
// writes.
struct Ready {
  nb::object plan_object, shape, strides, dtype, device, workspace_shape, packed_shape;
  const Plan *plan;
  int32_t type; // of weights, the library's
  bool packs = false;
  bool makes_anew = false; // casts and packs in each call, and keeps nothing
  int64_t span = 0;        // elements of the weights' memory, on the CPU
  int64_t calls = 0;
  int64_t used = 0;                                                     // when it was last, by the clock of all calls
  using Forms = std::map<std::pair<const PyObject *, uintptr_t>, Form>; // by tensor and stream
  Forms weights, biases;

  Ready(nb::object plan, nb::object shape, nb::object strides, nb::object dtype, nb::object device);
  Ready(const Ready &) = delete;
};

// What a call looks like, in numbers.
class Key {
 public:
  void push(int64_t number) {
    fits_ = fits_ && count_ < kMost;
    if (fits_) numbers_[count_++] = number;
  }
  void push(const Seen &tensor);
  // A list or tuple of whole numbers or truths. What is none makes the key useless.
  void push_list(nb::handle list);
  bool fits() const { return fits_; }
  uint64_t hash() const;
  bool is(const std::vector<int64_t> &other) const;
  std::vector<int64_t> numbers() const { return std::vector<int64_t>(numbers_, numbers_ + count_); }

 private:
  static constexpr int kMost = 112;
  int64_t numbers_[kMost];
  int count_ = 0;
  bool fits_ = true;
};

// What was decided, by keys. The global lock guards it.
class Table {
 public:
  nb::object find(const Key &key);
  void keep(const Key &key, nb::object decided);
  void clear();
  int64_t hits = 0;
  int64_t packed = 0; // weights, for one call each
  int64_t clock = 0;  // of calls

 private:
  struct One {
    std::vector<int64_t> key;
    nb::object decided;
  };
  static constexpr size_t kMost = 8192; // more calls than plans: layers alike but for what plans do not ask for
  std::unordered_map<uint64_t, std::vector<One>> found_;
  size_t count_ = 0;
};

Table &table();

struct DestroyWeights {
  void operator()(polyconv_weights *weights) const { polyconv_weights_destroy(weights); }
};

// What kernels read in the place of a tensor: its own memory, or what is made of it and held meanwhile.
struct Operand {
  nb::object held;
  void *raw = nullptr;
  const Weights *packed = nullptr;                        // what is kept of it
  std::unique_ptr<polyconv_weights, DestroyWeights> anew; // for this call alone
};

// The weights of a call as its plan takes them: cast, packed, as they are.
Operand weights_for(Ready &ready, nb::handle self, nb::handle w, const Seen &seen, uintptr_t stream);
// Notes for report() that a plan ran with these weights, unless autocast or something else made them for this pass.
void note(Ready &ready, nb::handle self, nb::handle w, uintptr_t stream);
// A bias as kernels take it: dense, f32 beside half precision. None has no memory.
Operand bias_for(Ready &ready, nb::handle bias, const char *input, uintptr_t stream);

// While it lives, a bias in half precision that comes to this thread with that input is autocast's copy of this one:
// kernels take biases in f32, and this is what a copy of the copy would be, not rounded.
class BiasBeforeCast {
 public:
  BiasBeforeCast(nb::handle bias, const char *input);
  BiasBeforeCast(const BiasBeforeCast &) = delete;
  ~BiasBeforeCast();

 private:
  nb::handle outer_bias_;
  const char *outer_input_;
};

// A tensor in another type, of which autograd knows nothing where it does not know of the tensor.
nb::object in_type(nb::handle tensor, nb::handle dtype);
// A fresh tensor, and seen; `name` is what a sentence calls it.
nb::object make(const nb::object &shape, const nb::object &strides, const nb::object &dtype, const nb::object &device,
                int32_t index, const char *name, Seen &seen);
// Bytes on a GPU, of PyTorch's allocator, which knows streams and graphs, and aligns to 512 bytes. `shape`: a tuple of
// how many.
nb::object make_bytes(const Ready &ready, const nb::object &shape, int32_t index, const char *name, Seen &seen);
// The one that a plan writes.
nb::object make_result(const Ready &ready, int32_t index, const char *name, Seen &seen);
// Runs a plan with the global lock released; gives it a workspace.
void launch(Ready &ready, polyconv_buffers &buffers, const Operand &weights, int32_t device, uintptr_t stream);

// Which threads, which math: what else decides about plans.
void push_switches(Key &key, int32_t device);
// Whether a pass on CUDA records gradients for its weights, or computes them (polyconv/torch/_plans.py: trains).
bool trains(nb::handle w, bool forward, int32_t device);
// Ready where a call is taken; null for what says why not.
Ready *ready_of(nb::handle decided);

// Whether a result is none, but says why a call is PyTorch's.
bool is_refused(nb::handle result);

// aten::convolution: a tensor, or why it is PyTorch's. `casts`: w may be of another float type than x.
struct Forward {
  nb::handle x, w, bias, stride, padding, dilation, transposed, output_padding, groups;
  nb::object run(bool casts) const;
};

} // namespace polyconv_python::torch_face
#endif // POLYCONV_PYTHON_TORCH_CALLS_HPP

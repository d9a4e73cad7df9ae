// check.hpp - is what a kernel computed right? The library polyconv_check answers for any kernel of any backend on
// any device, through the public C API alone: polyconv-bench check and the conformance test are loops over it, and
// a backend author's own test can be one too (tests/documents/check_hpp.cpp, part check):
//
//   Case layer("fwd:n1,c8,k8,i9x9,f3x3,p1:relu");
//   options.kernel = "reference/*";                          // or yours: "mine/gemm@64x64"
//   Result result = layer.run(Mode::Exact, device, options); // good(), or a sentence that says what is wrong
//
// Every run poisons outputs, saved and workspace, puts guard zones around every buffer, runs twice from different
// poison, and afterwards looks at guards, at the gaps of strided tensors and at everything that is only read.
// The expected values come from the reference backend, which therefore has to be loaded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace polyconv::check {

enum class Mode {
  Exact,  // small integers, every sum representable: no tolerance. Quantised rows: identical bits
  Random, // against f64: |y - r| <= u_out |r| + c sqrt(K) u_acc sum |x||w|. Quantised rows: identical bits, full range
  NonFinite // NaN and Inf in what is read reach every element that depends on them, and no other. A transform
            // (Winograd, FFT) may spread them over its tiles, which lie in one image: nothing that depends on them is
            // finite, all else is right or, in such an image, not finite
};
inline constexpr Mode kModes[] = {Mode::Exact, Mode::Random, Mode::NonFinite};
const char *mode_name(Mode mode); // "exact", "random", "nonfinite"

enum class Verdict {
  Good,        // it ran and everything is as it must be
  Wrong,       // it ran and something is not
  Skipped,     // the mode says nothing about this problem or kernel (exact and a Winograd kernel, say)
  Unsupported, // no kernel takes the problem under these options
  Failed       // something else: a call that failed, no reference backend, no memory
};
const char *verdict_name(Verdict verdict); // "good", "wrong", "skipped", "unsupported", "failed"

// The element furthest outside (or nearest to) its bound. Index as polyconv_tensor: N C D H W, or K C/g D R S.
struct Worst {
  std::string tensor; // "output", "input", "weights", "bias", "saved"
  int64_t index[5] = {0, 0, 0, 0, 0};
  double got = 0, expected = 0, bound = 0;
};

struct Result {
  Verdict verdict = Verdict::Failed;
  polyconv_status status = POLYCONV_SUCCESS; // of the call that failed, where one did
  std::string kernel;                        // polyconv_plan_info.kernel: what really ran; "" before planning
  std::string math;                          // the mode entered
  std::string sentence;                      // "" when good
  double max_abs_err = 0;                    // over finite elements of everything written
  double rel_l2_err = 0;                     // sqrt(sum (y - r)^2 / sum r^2)
  Worst worst;

  bool good() const { return verdict == Verdict::Good; }
  bool acceptable() const { return verdict == Verdict::Good || verdict == Verdict::Skipped; }
};

// Where a caller's buffers lie.
struct Placement {
  int64_t elements = 0;  // behind an address as aligned as memory of the device is
  int32_t moved = ~0;    // of which tensors: a bit for each POLYCONV_TENSOR_*
  bool in_place = false; // the residual from a buffer, where it is the last layer's, is the output itself
};

// One problem (or chain) with its data and expected values, which are made at first need and kept: checking many
// kernels on one case computes the oracle once a mode. Not thread safe.
class Case {
 public:
  explicit Case(const std::vector<polyconv_problem> &problems, uint64_t seed = 1);
  explicit Case(const std::string &token, uint64_t seed = 1); // throws std::invalid_argument for a bad token
  ~Case();
  Case(Case &&) noexcept;
  Case &operator=(Case &&) noexcept;

  // For the runs from here on.
  void place(const Placement &placement);

  // Plans on `device` (NULL: the CPU) under `options` (kernel filter, math, threads, save, bind, ... as they are),
  // reads back the name of the kernel, packs, runs and compares. A filter without wildcards must be what ran.
  // Never throws.
  Result run(Mode mode, const polyconv_device *device, const polyconv_options &options) noexcept;

  // The same of a plan that was made before, of this problem and under these options: what a search by timing chose is
  // checked, and not what another search would choose.
  Result run(Mode mode, const polyconv_device *device, const polyconv_options &options,
             const polyconv_plan *plan) noexcept;

  // Every mode in turn; the first result that is neither good nor skipped, else the random one (whose errors are
  // the interesting ones) or, where that is skipped, the exact one.
  Result run_all(const polyconv_device *device, const polyconv_options &options) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The three directions of one float convolution are adjoint, exactly, on small integers:
// <conv(x, w), y> == <x, backward_data(y, w)> == <w, backward_weights(x, y)>. `forward` is a forward problem,
// transposed or not; its epilogue is ignored. options.kernel should be a glob that matches kernels of all three
// directions.
Result adjoint(const polyconv_problem &forward, const polyconv_device *device, const polyconv_options &options,
               uint64_t seed = 1) noexcept;

// "backend/kernel@config" of every config of every kernel of every available backend that serves a kind of device.
// The kernels that only convert or pool are among them.
std::vector<std::string> kernel_names(const std::string &device_kind = "cpu");

} // namespace polyconv::check

// liars.cpp - plan_probe's kernels that break the ABI's rules, one way a config, and those that fail after they have
// been chosen. A lie is told only by a config that is asked for.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/backend.hpp>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "probe.hpp"

namespace probe {
namespace {

struct Lie {
  const char *name;
  void (*tell)(Offer &offer);
};

const Lie kLies[] = {
    {"nan_estimate", [](Offer &o) { o.estimate_us = std::nan(""); }},
    {"infinite_estimate", [](Offer &o) { o.estimate_us = std::numeric_limits<double>::infinity(); }},
    {"zero_estimate", [](Offer &o) { o.estimate_us = 0; }},
    {"negative_estimate", [](Offer &o) { o.estimate_us = -1; }},
    {"negative_workspace", [](Offer &o) { o.workspace_bytes = -1; }},
    {"absurd_workspace", [](Offer &o) { o.workspace_bytes = std::numeric_limits<int64_t>::max(); }},
    {"unterminated_format", [](Offer &o) { std::memset(o.weights_format[0], 'x', sizeof o.weights_format[0]); }},
    {"empty_format", [](Offer &o) { o.weights_format[0][0] = '\0'; }},
    {"negative_weights", [](Offer &o) { o.set_weights(0, "lie:1", -4); }},
    {"other_config", [](Offer &o) { o.config = 0; }},
    {"config_beyond", [](Offer &o) { o.config = 1000; }},
    {"unasked_math", [](Offer &o) { o.math = POLYCONV_MATH_FAST; }},
    {"negative_math", [](Offer &o) { o.math = -1; }},
    {"negative_figures", [](Offer &o) { o.blocks = -1; }},
    {"beyond_all_occupancy", [](Offer &o) { o.occupancy = 1.5f; }},
};
constexpr int kLieCount = static_cast<int>(sizeof kLies / sizeof kLies[0]);

// The accepting lies, then four rejections that are lies too.
const char *const kLieNames[] = {"nan_estimate",
                                 "infinite_estimate",
                                 "zero_estimate",
                                 "negative_estimate",
                                 "negative_workspace",
                                 "absurd_workspace",
                                 "unterminated_format",
                                 "empty_format",
                                 "negative_weights",
                                 "other_config",
                                 "config_beyond",
                                 "unasked_math",
                                 "negative_math",
                                 "negative_figures",
                                 "beyond_all_occupancy",
                                 "unterminated_reason",
                                 "no_reason",
                                 "odd_status",
                                 "throws"};

bool lies(const polyconv_request &request, int32_t config, Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE || request.count != 1) return offer.reject("takes one layer");
  if (config < 0) return offer.reject("lies only when forced");
  offer.estimate_us = 1;
  if (config < kLieCount) {
    kLies[config].tell(offer);
    return true;
  }
  const std::string name = kLieNames[config];
  if (name == "unterminated_reason") std::memset(offer.reason, 'r', sizeof offer.reason);
  if (name == "odd_status") throw Error(POLYCONV_DEVICE_ERROR, "the device is gone");
  if (name == "throws") throw 42;
  return false;
}

// Accepts and then fails: where, the config says.
const char *const kFailures[] = {"create", "run", "run_silently", "odd_status", "bind"};
enum { kCreate, kRun, kRunSilently, kOddStatus, kBind };

class Fails final : public Instance {
 public:
  explicit Fails(int32_t where) : where_(where) {}
  void *bind(const polyconv_arguments &) override {
    if (where_ == kBind) throw Error(POLYCONV_OUT_OF_MEMORY, "no memory for a texture");
    return nullptr;
  }
  void run(const polyconv_arguments &, void *) const override {
    if (where_ == kRun) throw Error(POLYCONV_DEVICE_ERROR, "the device fell over");
    if (where_ == kRunSilently) throw Error(POLYCONV_DEVICE_ERROR, "");
    if (where_ == kOddStatus) throw Error(99, "a number of its own");
  }

 private:
  int32_t where_;
};

bool accepts_all(const polyconv_request &request, int32_t config, Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE || request.count != 1) return offer.reject("takes one layer");
  if (config < 0) return offer.reject("fails only when forced");
  offer.estimate_us = 1;
  return true;
}

std::unique_ptr<Instance> create_fails(const polyconv_request &, int32_t config) {
  if (config == kCreate) throw Error(POLYCONV_OUT_OF_MEMORY, "no room for an instance");
  return std::make_unique<Fails>(config);
}

// Fuses three layers, but only as the first, third, ... instance of its config: every other one, as tuning makes it to
// time the whole chain after the group, fails when it runs first or from the second time on.
const char *const kTempers[] = {"at_once", "later"};
class Tires final : public Instance {
 public:
  explicit Tires(int runs) : runs_(runs) {}
  void run(const polyconv_arguments &, void *) const override {
    if (runs_-- <= 0) throw Error(POLYCONV_DEVICE_ERROR, "tired");
  }

 private:
  mutable std::atomic<int> runs_; // that it is good for
};
bool tires(const polyconv_request &request, int32_t config, Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE || request.count != 3) return offer.reject("takes three layers");
  if (config < 0) return offer.reject("tires only when forced");
  offer.estimate_us = 1;
  return true;
}
std::unique_ptr<Instance> create_tires(const polyconv_request &, int32_t config) {
  static std::atomic<int> made[2];
  return std::make_unique<Tires>(made[config]++ % 2 == 0 ? 1000 : config);
}

const Kernel kTires = {"tires", 0, kTempers, 2, tires, create_tires};
const Kernel kLiar = {"liar", 0, kLieNames, sizeof kLieNames / sizeof kLieNames[0], lies, create_fails};
const Kernel kFailing = {"fails", 0, kFailures, 5, accepts_all, create_fails};

} // namespace

const std::vector<const Kernel *> liars = {&kLiar, &kFailing, &kTires};

} // namespace probe

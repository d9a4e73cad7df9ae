// polyconv.hpp - thin C++17 on polyconv.h: constructors and destructors for its handles, exceptions for its statuses,
// and no logic of its own. Header only: it adds nothing to the ABI. Everything is documented in polyconv.h.
//
// A layer that runs many times (tests/documents/polyconv_hpp.cpp, part layer):
//
//   polyconv::Plan plan(polyconv::Problem("fwd:n1,c64,k64,i56x56,f3x3,p1:bias+relu"));
//   polyconv::Weights weights(plan, 0, raw_weights.data());
//   polyconv::Workspace workspace(plan);
//   polyconv::Buffers buffers;
//   buffers.input = input.data(), buffers.output = output.data(), buffers.bias[0] = bias.data();
//   buffers.packed[0] = weights.get();
//   plan.run(buffers, workspace);
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_POLYCONV_HPP
#define POLYCONV_POLYCONV_HPP

#include <polyconv/polyconv.h>

#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace polyconv {

// A status other than POLYCONV_SUCCESS, and the sentence of polyconv_last_error.
class Error : public std::runtime_error {
 public:
  Error(polyconv_status status, const std::string &sentence) : std::runtime_error(sentence), status_(status) {}
  polyconv_status status() const noexcept { return status_; }

 private:
  polyconv_status status_;
};

// Throws Error unless the status is POLYCONV_SUCCESS.
inline void require(polyconv_status status) {
  if (status != POLYCONV_SUCCESS) throw Error(status, polyconv_last_error());
}

// ---------------------------------------------------------------- structs with their defaults

struct Problem : polyconv_problem {
  Problem() { polyconv_problem_init(this); }
  explicit Problem(const std::string &token) : Problem() { require(polyconv_problem_parse(token.c_str(), this)); }

  std::string token() const {
    size_t needed = 0;
    require(polyconv_problem_format(this, nullptr, 0, &needed));
    std::string text(needed, '\0');
    require(polyconv_problem_format(this, &text[0], text.size(), nullptr));
    text.pop_back(); // the NUL
    return text;
  }
  void validate() const { require(polyconv_problem_validate(this, 1)); }
  polyconv_tensor tensor(int32_t which) const {
    polyconv_tensor result;
    require(polyconv_problem_tensor(this, which, &result, nullptr));
    return result;
  }
  int64_t bytes(int32_t which) const {
    int64_t result = 0;
    require(polyconv_problem_tensor(this, which, nullptr, &result));
    return result;
  }
  double flops() const {
    double result = 0;
    require(polyconv_problem_flops(this, &result));
    return result;
  }
};

struct Options : polyconv_options {
  Options() { polyconv_options_init(this); }
};

struct Buffers : polyconv_buffers {
  Buffers() { polyconv_buffers_init(this); }
};

// Chains go to C as arrays of polyconv_problem: a Problem must be exactly one.
static_assert(sizeof(Problem) == sizeof(polyconv_problem), "Problem adds no members");

// ---------------------------------------------------------------- devices, streams, events, memory

// A device by name; owned by the library, so copies are free.
class Device {
 public:
  Device() { require(polyconv_device_find(nullptr, &device_)); } // the CPU
  explicit Device(const std::string &name) { require(polyconv_device_find(name.c_str(), &device_)); }
  const polyconv_device *get() const noexcept { return device_; }

  polyconv_device_properties properties() const {
    polyconv_device_properties result = {};
    result.struct_size = sizeof result;
    require(polyconv_device_get_properties(device_, &result));
    return result;
  }
  void copy(void *destination, const void *source, size_t bytes, void *stream = nullptr) const {
    require(polyconv_device_copy(device_, destination, source, bytes, stream));
  }
  void fill(void *destination, int32_t byte, size_t bytes, void *stream = nullptr) const {
    require(polyconv_device_fill(device_, destination, byte, bytes, stream));
  }

 private:
  const polyconv_device *device_ = nullptr;
};

// Something of a device that a function of polyconv.h gives back.
template <polyconv_status (*destroy)(const polyconv_device *, void *)>
class DeviceHandle {
 public:
  void *get() const noexcept { return handle_.get(); }

 protected:
  DeviceHandle(const Device &device, polyconv_status (*create)(const polyconv_device *, void **))
      : handle_(nullptr, Destroy{device.get()}) {
    void *handle = nullptr;
    require(create(device.get(), &handle));
    handle_.reset(handle);
  }
  const polyconv_device *device() const noexcept { return handle_.get_deleter().device; }

 private:
  struct Destroy {
    const polyconv_device *device;
    void operator()(void *handle) const noexcept { destroy(device, handle); }
  };
  std::unique_ptr<void, Destroy> handle_;
};

class Event : public DeviceHandle<polyconv_event_destroy> {
 public:
  explicit Event(const Device &device) : DeviceHandle(device, polyconv_event_create) {}
  void record(void *stream = nullptr) { require(polyconv_event_record(device(), get(), stream)); }
  void synchronize() { require(polyconv_event_synchronize(device(), get())); }
  double milliseconds_until(const Event &stop) const {
    double result = 0;
    require(polyconv_event_elapsed(device(), get(), stop.get(), &result));
    return result;
  }
};

class Stream : public DeviceHandle<polyconv_stream_destroy> {
 public:
  explicit Stream(const Device &device) : DeviceHandle(device, polyconv_stream_create) {}
  void synchronize() { require(polyconv_stream_synchronize(device(), get())); }
  void wait(const Event &event) { require(polyconv_stream_wait(device(), get(), event.get())); }
};

// Aligned memory of a device.
class Memory {
 public:
  Memory(const Device &device, size_t bytes, int32_t memory = POLYCONV_MEMORY_DEVICE)
      : pointer_(nullptr, Free{device.get(), memory}), bytes_(bytes) {
    void *pointer = nullptr;
    require(polyconv_device_alloc(device.get(), bytes, memory, &pointer));
    pointer_.reset(pointer);
  }
  void *get() const noexcept { return pointer_.get(); }
  size_t bytes() const noexcept { return bytes_; }

 private:
  struct Free {
    const polyconv_device *device;
    int32_t memory;
    void operator()(void *pointer) const noexcept { polyconv_device_free(device, pointer, memory); }
  };
  std::unique_ptr<void, Free> pointer_;
  size_t bytes_;
};

// ---------------------------------------------------------------- plan, weights, run

class Workspace;

class Bound {
 public:
  Bound(const polyconv_plan *plan, const polyconv_buffers &buffers) {
    polyconv_bound *bound = nullptr;
    require(polyconv_bind(plan, &buffers, &bound));
    bound_.reset(bound);
  }
  const polyconv_bound *get() const noexcept { return bound_.get(); }
  void run(void *stream = nullptr) const { require(polyconv_run_bound(bound_.get(), stream)); }

 private:
  struct Destroy {
    void operator()(polyconv_bound *bound) const noexcept { polyconv_bound_destroy(bound); }
  };
  std::unique_ptr<polyconv_bound, Destroy> bound_;
};

class Cache;

// A plan of one's own, or one that a Cache has lent, which goes back to it.
class Plan {
 public:
  explicit Plan(const polyconv_problem &problem, const polyconv_options &options = Options(),
                const Device &device = Device())
      : Plan(&problem, 1, options, device) {}
  explicit Plan(const std::vector<Problem> &chain, const polyconv_options &options = Options(),
                const Device &device = Device())
      : Plan(chain.data(), static_cast<int32_t>(chain.size()), options, device) {}

  const polyconv_plan *get() const noexcept { return plan_.get(); }
  const Device &device() const noexcept { return device_; }
  polyconv_plan_info info() const {
    polyconv_plan_info result = {};
    result.struct_size = sizeof result;
    require(polyconv_plan_get_info(plan_.get(), &result));
    return result;
  }
  std::string weights_format(int32_t layer = 0) const {
    const char *format = nullptr;
    require(polyconv_plan_weights(plan_.get(), layer, &format, nullptr));
    return format;
  }
  int64_t weights_bytes(int32_t layer = 0) const {
    int64_t bytes = 0;
    require(polyconv_plan_weights(plan_.get(), layer, nullptr, &bytes));
    return bytes;
  }
  void check_buffers(const polyconv_buffers &buffers) const { require(polyconv_buffers_check(plan_.get(), &buffers)); }
  void run(const polyconv_buffers &buffers, void *stream = nullptr) const {
    require(polyconv_run(plan_.get(), &buffers, stream));
  }
  Bound bind(const polyconv_buffers &buffers) const { return Bound(plan_.get(), buffers); }

  // The same with a workspace of its own type; what `buffers` says of one is ignored.
  void check_buffers(const polyconv_buffers &buffers, const Workspace &workspace) const;
  void run(const polyconv_buffers &buffers, const Workspace &workspace, void *stream = nullptr) const;
  Bound bind(const polyconv_buffers &buffers, const Workspace &workspace) const;

 private:
  friend class Cache;
  Plan(const polyconv_problem *problems, int32_t count, const polyconv_options &options, const Device &device)
      : device_(device) {
    polyconv_plan *plan = nullptr;
    require(polyconv_plan_create(device.get(), problems, count, &options, &plan));
    plan_.reset(plan);
  }
  struct GiveBack {
    polyconv_cache *cache; // NULL: the plan is this object's own
    void operator()(const polyconv_plan *plan) const noexcept {
      if (cache != nullptr)
        polyconv_cache_release(cache, plan);
      else
        polyconv_plan_destroy(const_cast<polyconv_plan *>(plan));
    }
  };
  Plan(const polyconv_plan *lent, polyconv_cache *cache, const Device &device)
      : device_(device), plan_(lent, GiveBack{cache}) {}
  Device device_;
  std::unique_ptr<const polyconv_plan, GiveBack> plan_{nullptr, GiveBack{nullptr}};
};

// Plans by problem, for shapes that change from call to call (docs/plan-cache.md). It must outlive the plans that it
// lends.
class Cache {
 public:
  explicit Cache(int64_t byte_limit = -1, const polyconv_options &options = Options(), const Device &device = Device())
      : device_(device) {
    polyconv_cache *cache = nullptr;
    require(polyconv_cache_create(device.get(), &options, byte_limit, &cache));
    cache_.reset(cache);
  }
  polyconv_cache *get() const noexcept { return cache_.get(); }

  // The plan of a problem, made where there is none yet; its Plan gives it back.
  Plan plan(const polyconv_problem &problem) const { return plan(&problem, 1); }
  Plan plan(const std::vector<Problem> &chain) const { return plan(chain.data(), static_cast<int32_t>(chain.size())); }
  polyconv_cache_stats stats() const {
    polyconv_cache_stats result = {};
    result.struct_size = sizeof result;
    require(polyconv_cache_get_stats(cache_.get(), &result));
    return result;
  }
  void clear() const noexcept { polyconv_cache_clear(cache_.get()); }

 private:
  Plan plan(const polyconv_problem *problems, int32_t count) const {
    const polyconv_plan *lent = nullptr;
    require(polyconv_cache_get(cache_.get(), problems, count, &lent));
    return Plan(lent, cache_.get(), device_);
  }
  struct Destroy {
    void operator()(polyconv_cache *cache) const noexcept { polyconv_cache_destroy(cache); }
  };
  Device device_;
  std::unique_ptr<polyconv_cache, Destroy> cache_;
};

// The memory that runs of a plan need beside their tensors: one for each run at a time. Plans of one device that run
// after each other, as the layers of a network do, may share one that is as large as the largest needs.
class Workspace {
 public:
  explicit Workspace(const Plan &plan) : memory_(plan.device(), bytes_of(plan)) {}
  // Grows it, where it is too small, to what this plan needs. What is bound or running with it must be done.
  void reserve(const Plan &plan) {
    if (bytes_of(plan) > memory_.bytes()) memory_ = Memory(plan.device(), bytes_of(plan));
  }
  void *get() const noexcept { return memory_.get(); } // NULL where no plan needs any
  size_t bytes() const noexcept { return memory_.bytes(); }

 private:
  static size_t bytes_of(const Plan &plan) { return static_cast<size_t>(plan.info().workspace_bytes); }
  Memory memory_;
};

namespace detail {
inline polyconv_buffers with_workspace(polyconv_buffers buffers, const Workspace &workspace) {
  buffers.workspace = workspace.get();
  buffers.workspace_size = workspace.bytes();
  return buffers;
}
} // namespace detail

inline void Plan::check_buffers(const polyconv_buffers &buffers, const Workspace &workspace) const {
  check_buffers(detail::with_workspace(buffers, workspace));
}
inline void Plan::run(const polyconv_buffers &buffers, const Workspace &workspace, void *stream) const {
  run(detail::with_workspace(buffers, workspace), stream);
}
inline Bound Plan::bind(const polyconv_buffers &buffers, const Workspace &workspace) const {
  return bind(detail::with_workspace(buffers, workspace));
}

class Weights {
 public:
  Weights(const Plan &plan, int32_t layer, const void *raw, void *memory = nullptr, void *stream = nullptr) {
    polyconv_weights *weights = nullptr;
    require(polyconv_weights_create(plan.get(), layer, raw, memory, stream, &weights));
    weights_.reset(weights);
  }
  static Weights load(const Plan &plan, int32_t layer, const std::string &path, void *memory = nullptr,
                      void *stream = nullptr) {
    polyconv_weights *weights = nullptr;
    require(polyconv_weights_load(plan.get(), layer, path.c_str(), memory, stream, &weights));
    return Weights(weights);
  }
  const polyconv_weights *get() const noexcept { return weights_.get(); }
  void update(const void *raw, void *stream = nullptr) {
    require(polyconv_weights_update(weights_.get(), raw, stream));
  }
  void save(const std::string &path) const { require(polyconv_weights_save(weights_.get(), path.c_str())); }

 private:
  explicit Weights(polyconv_weights *weights) : weights_(weights) {}
  struct Destroy {
    void operator()(polyconv_weights *weights) const noexcept { polyconv_weights_destroy(weights); }
  };
  std::unique_ptr<polyconv_weights, Destroy> weights_;
};

// All four steps on host pointers.
inline void convolve(const polyconv_problem &problem, const polyconv_buffers &buffers,
                     const polyconv_options &options = Options(), const Device &device = Device()) {
  require(polyconv_convolve(device.get(), &problem, 1, &options, &buffers));
}
inline void convolve(const std::vector<Problem> &chain, const polyconv_buffers &buffers,
                     const polyconv_options &options = Options(), const Device &device = Device()) {
  require(polyconv_convolve(device.get(), chain.data(), static_cast<int32_t>(chain.size()), &options, &buffers));
}

// ---------------------------------------------------------------- explain

class Explanation {
 public:
  explicit Explanation(const polyconv_problem &problem, const polyconv_options &options = Options(),
                       const Device &device = Device())
      : Explanation(&problem, 1, options, device) {}
  explicit Explanation(const std::vector<Problem> &chain, const polyconv_options &options = Options(),
                       const Device &device = Device())
      : Explanation(chain.data(), static_cast<int32_t>(chain.size()), options, device) {}

  std::string text() const { return polyconv_explanation_text(explanation_.get()); }
  int32_t size() const { return polyconv_explanation_count(explanation_.get()); }
  polyconv_candidate operator[](int32_t index) const { // its strings live as long as the explanation
    polyconv_candidate result = {};
    result.struct_size = sizeof result;
    require(polyconv_explanation_get(explanation_.get(), index, &result));
    return result;
  }

 private:
  Explanation(const polyconv_problem *problems, int32_t count, const polyconv_options &options, const Device &device) {
    polyconv_explanation *explanation = nullptr;
    require(polyconv_explain(device.get(), problems, count, &options, &explanation));
    explanation_.reset(explanation);
  }
  struct Destroy {
    void operator()(polyconv_explanation *explanation) const noexcept { polyconv_explanation_destroy(explanation); }
  };
  std::unique_ptr<polyconv_explanation, Destroy> explanation_;
};

// ---------------------------------------------------------------- tune

// Told of each candidate that was timed and of each problem that is done; false ends the tuning, which keeps what was
// timed. What it throws ends the tuning too, and comes out of tune.
using TuneWatch = std::function<bool(const polyconv_tune_progress &)>;

// Times the candidates of single layers and keeps the times for later plans (docs/tuning.md); `budget_ms` is for all of
// them, 0 for no limit.
inline void tune(const std::vector<Problem> &problems, int64_t budget_ms = 0,
                 const polyconv_options &options = Options(), const TuneWatch &watch = {},
                 const Device &device = Device()) {
  struct Watched {
    const TuneWatch &watch;
    std::exception_ptr thrown;
  } watched = {watch, nullptr};
  const auto tell = [](void *context, const polyconv_tune_progress *progress) -> int32_t {
    Watched &told = *static_cast<Watched *>(context);
    try {
      return told.watch(*progress) ? 0 : 1;
    } catch (...) { // not through C
      told.thrown = std::current_exception();
      return 1;
    }
  };
  const polyconv_status status =
      polyconv_tune(device.get(), problems.data(), static_cast<int32_t>(problems.size()), &options, budget_ms,
                    watch ? static_cast<polyconv_tune_callback>(tell) : nullptr, &watched);
  if (watched.thrown) std::rethrow_exception(watched.thrown);
  require(status);
}

// Adds what another tuning file holds to the user's own; gives the number of lines that came.
inline int64_t tune_merge(const std::string &path) {
  int64_t taken = 0;
  require(polyconv_tune_merge(path.c_str(), &taken));
  return taken;
}

} // namespace polyconv
#endif // POLYCONV_POLYCONV_HPP

// place.hpp - where a session's tensors lie and its layers run: host memory and the processors, or a GPU's. Everything
// else of a region is the same for both.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_PLACE_HPP
#define POLYCONV_ORT_PLACE_HPP

#include <polyconv/polyconv.hpp>

#include <memory>
#include <mutex>
#include <vector>

#include "claim/recipe.hpp"
#include "run/turn.hpp"
#include "runtime/settings.hpp"

namespace polyconv_ort {

class Pass;
struct PassTensor;

// The time of one step. It begins where it is made.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual void stop() = 0;
  virtual double seconds() = 0; // once the step is done, for which it waits
};

class Place {
 public:
  virtual ~Place() = default;
  virtual const polyconv::Device &device() const = 0;
  virtual bool on_host() const = 0;               // the host can read what lies there
  virtual Terms terms() const = 0;                // what may be claimed for it
  virtual polyconv::Options options() const = 0;  // what plans are made with
  virtual double turning(double bytes) const = 0; // microseconds that turning a tensor takes, roughly

  // Constants where layers read them. They are there when it returns, and as long as the pointer is kept.
  virtual std::shared_ptr<const void> constant(std::vector<char> bytes) const = 0;

  // Memory for the time of one run. What the run has enqueued may still use it when the pointer is let go.
  virtual std::shared_ptr<void> memory(const OrtKernelContext *, size_t bytes) = 0;
  virtual void expect(size_t bytes) = 0; // such a run will come: whatever makes the first one slow may be done now

  // The session's stream in a run; NULL on the host, where everything is done on return.
  virtual void *stream(const OrtKernelContext *) const = 0;
  // Brings what a run has there to the host.
  virtual void fetch(const OrtKernelContext *, const void *from, void *to, size_t bytes) const = 0;
  virtual void wait(void *stream) const = 0;
  virtual void drain() = 0; // waits for all runs
  virtual std::unique_ptr<Watch> watch(void *stream) const = 0;

  virtual void turn(const Turn &, const void *from, void *to, void *stream) const = 0;
  virtual void run(const Pass &, const std::vector<PassTensor> &inputs, const PassTensor &output,
                   void *stream) const = 0;
};

// A vector's elements as bytes.
template <class T>
std::vector<char> bytes_of(const std::vector<T> &elements) {
  const auto *begin = reinterpret_cast<const char *>(elements.data());
  return {begin, begin + elements.size() * sizeof(T)};
}

// Host memory and the session's threads, or polyconv's own, as the settings say.
class HostPlace : public Place {
 public:
  HostPlace(const Api &, const Settings &);
  const polyconv::Device &device() const override { return device_; }
  bool on_host() const override { return true; }
  Terms terms() const override;
  polyconv::Options options() const override;
  double turning(double bytes) const override;
  std::shared_ptr<const void> constant(std::vector<char> bytes) const override;
  std::shared_ptr<void> memory(const OrtKernelContext *, size_t bytes) override;
  void expect(size_t bytes) override;
  void *stream(const OrtKernelContext *) const override { return nullptr; }
  void fetch(const OrtKernelContext *, const void *from, void *to, size_t bytes) const override;
  void wait(void *) const override {}
  void drain() override {}
  std::unique_ptr<Watch> watch(void *) const override;
  void turn(const Turn &, const void *from, void *to, void *stream) const override;
  void run(const Pass &, const std::vector<PassTensor> &inputs, const PassTensor &output, void *stream) const override;

 private:
  const Api &api_;
  const Settings &settings_;
  // Found once for all plans: what a thread may use differs, as the runtime ties its own to processors.
  const int32_t threads_;
  polyconv::Device device_;
  // Blocks that are reused: as many as runs were under way at once, each as large as the largest that was asked of it.
  struct Blocks {
    std::mutex mutex;
    std::vector<std::unique_ptr<polyconv::Memory>> free;
  };
  std::shared_ptr<Blocks> blocks_ = std::make_shared<Blocks>();
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_PLACE_HPP

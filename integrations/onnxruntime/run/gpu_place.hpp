// gpu_place.hpp - a GPU as the place of a session: its stream, memory from its allocator, operators as launches.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_GPU_PLACE_HPP
#define POLYCONV_ORT_GPU_PLACE_HPP

#include "run/place.hpp"
#include "runtime/gpu.hpp"

namespace polyconv_ort {

class GpuPlace : public Place {
 public:
  GpuPlace(Gpu &gpu, const Settings &settings) : gpu_(gpu), settings_(settings) {}
  const polyconv::Device &device() const override { return gpu_.device; }
  bool on_host() const override { return false; }
  Terms terms() const override;
  polyconv::Options options() const override;
  double turning(double bytes) const override;
  std::shared_ptr<const void> constant(std::vector<char> bytes) const override;
  std::shared_ptr<void> memory(const OrtKernelContext *, size_t bytes) override;
  void expect(size_t) override {} // a session's allocator is reached in a run alone
  void *stream(const OrtKernelContext *) const override;
  void fetch(const OrtKernelContext *, const void *from, void *to, size_t bytes) const override;
  void wait(void *stream) const override;
  void drain() override { gpu_.pool.drain(); }
  std::unique_ptr<Watch> watch(void *stream) const override;
  void turn(const Turn &, const void *from, void *to, void *stream) const override;
  void run(const Pass &, const std::vector<PassTensor> &inputs, const PassTensor &output, void *stream) const override;

 private:
  void launch(const DeviceLoop &, void *stream) const;
  void elementwise(const Pass &, const std::vector<PassTensor> &, const PassTensor &, void *stream) const;
  void average(const Pass &, const PassTensor &, const PassTensor &, void *stream) const;
  void concat(const Pass &, const std::vector<PassTensor> &, const PassTensor &, void *stream) const;
  void enlarge(const Pass &, const PassTensor &, const PassTensor &, void *stream) const;
  void check(int error) const;

  Gpu &gpu_;
  const Settings &settings_;
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_GPU_PLACE_HPP

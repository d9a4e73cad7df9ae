// copy_kernels.hpp - MemcpyFromHost and MemcpyToHost, the nodes that ONNX Runtime puts where a tensor goes from a node
// on the host to one on the GPU or back. It leaves their kernels to the provider.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_COPY_KERNELS_HPP
#define POLYCONV_ORT_COPY_KERNELS_HPP

#include <memory>

#include "runtime/gpu.hpp"

namespace polyconv_ort {

class CopyKernels {
 public:
  CopyKernels(const EpApi &, Gpu &);
  ~CopyKernels();
  CopyKernels(const CopyKernels &) = delete;
  CopyKernels &operator=(const CopyKernels &) = delete;
  const OrtKernelRegistry *registry() const { return registry_; }

 private:
  void add(const char *type, bool from_host);
  const EpApi &ep_api_;
  Gpu &gpu_;
  OrtKernelRegistry *registry_ = nullptr;
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_COPY_KERNELS_HPP

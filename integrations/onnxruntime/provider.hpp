// provider.hpp - one session's provider: what it claims, what it compiled, what it tells at the end.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_PROVIDER_HPP
#define POLYCONV_ORT_PROVIDER_HPP

#include <memory>
#include <mutex>
#include <vector>

#include "run/region.hpp"
#include "runtime/gpu.hpp"

namespace polyconv_ort {

struct Provider : Ep { // the runtime sees the Ep alone
  // On `gpu`, or the host where it is NULL.
  Provider(const Api &, const EpApi &, const OrtLogger *, Settings, Gpu *gpu);
  ~Provider(); // writes the report, where one was asked for
  void claim(const OrtGraph *, OrtEpGraphSupportInfo *);
  NodeComputeInfo *compile(const OrtGraph *, const OrtNode *fused);

 private:
  void log(const std::string &line) const;
  std::string report();
  std::string told_threads() const;

  const Api &api_;
  const EpApi &ep_api_;
  const OrtLogger *logger_;
  Settings settings_;
  std::unique_ptr<Place> place_;
  std::mutex mutex_;
  Additions additions_;
  size_t nodes_ = 0, claimed_ = 0;
  std::vector<Refusal> refused_;
  std::vector<std::shared_ptr<Region>> regions_;
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_PROVIDER_HPP

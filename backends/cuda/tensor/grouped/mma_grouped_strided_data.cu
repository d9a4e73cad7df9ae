// mma_grouped_strided_data.cu - gradients of data of strided layers of small groups: what mma_grouped takes forward,
// for each residue of the strides, all in one launch. One after the other, each would begin when the last block of the
// one before has ended: 368 channels in groups of 8, 14 x 14, 3 x 3 at stride 2, batch 32, took 21.7 us on an H200.
//
// Floor: input and output once; 2 N K P Q C R S is far below the machine's rate.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <vector>

#include "common/device/device.hpp"
#include "common/host.hpp"
#include "common/rewrite/adjoint.hpp"
#include "grouped/grouped.cuh"
#include "mma/product.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_mma_grouped;

namespace {

using namespace tensor;

constexpr double kBeginUs = 4; // of a launch of mma_grouped, in its estimate

constexpr sdk::AdjointSide kSide = {[](const polyconv_layer &) { return false; },
                                    {1, 4, 3, 2, 0},
                                    [](const polyconv_layer &) { return false; },
                                    [](const polyconv_request &, int64_t) { return 0.0; }};

using PartsKernel = void (*)(GroupedParts);

PartsKernel parts_kernel(const polyconv_layer &l) {
  return of_groups(l, [](auto groups, auto pairs) -> PartsKernel {
    using G = decltype(groups);
    return convolve_parts<G, AnyWindow<G, decltype(pairs)::value>>;
  });
}

// What a part's blocks have to do, in positions of their patches.
double work_of(const polyconv_layer &l, const GroupedProduct &p) {
  const double taps = 1 + 0.25 * real(sdk::taps(l));
  return grouped_work(l, p) * taps * real(l.output.size[0]) * p.slices;
}

// ---------------------------------------------------------------- supports

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (!sdk::adjoint_takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const auto count = static_cast<long long>(sdk::adjoint_parts(l));
  if (count < 2 || count > kMostGroupedParts)
    return offer.reject("takes strides of 2 to %d residues, not %lld", kMostGroupedParts, count);
  sdk::AdjointParts parts(kSide, l);
  if (!sdk::adjoint_add(kSide, kernel_mma_grouped, request, 0, parts, &offer)) return false;
  for (int64_t i = 0; i < count; ++i)
    if (!parts[i].is_empty && best_grouped(parts[i].layer, false).tile[0] == 0)
      return offer.reject("holds no patch of this window and these weights in shared memory");
  offer.estimate_us -= kBeginUs * (real(count) - 1);
  return true;
}

// ---------------------------------------------------------------- plan and run

class GroupedStridedData final : public CudaInstance {
 public:
  explicit GroupedStridedData(const polyconv_request &request)
      : CudaInstance(request), plan_(kSide, kernel_mma_grouped, request, 0) {
    const DeviceScope scope(device_);
    for (const sdk::AdjointPlan::Part &part : plan_.parts())
      works_.push_back({&part, best_grouped(part.of.layer, false), 0});
    std::stable_sort(works_.begin(), works_.end(), [](const Work &a, const Work &b) { return a.size() > b.size(); });
    const polyconv_layer &first = works_[0].part->of.layer;
    kernel_ = parts_kernel(first);
    allow_shared(kernel_, most_grouped_shared(first));
    for (const Work &work : works_) shared_ = std::max(shared_, work.product.shared_bytes());
    share_out();
  }

 private:
  struct Work {
    const sdk::AdjointPlan::Part *part;
    GroupedProduct product;
    int32_t blocks;

    double size() const { return work_of(part->of.layer, product); }
  };

  // As many blocks as run at once, to each part by its work.
  void share_out() {
    int together = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&together, kernel_, kGroupedThreads,
                                                        static_cast<size_t>(shared_)),
          "counting blocks of a multiprocessor");
    const double all = std::accumulate(works_.begin(), works_.end(), 0.0,
                                       [](double sum, const Work &work) { return sum + work.size(); });
    for (Work &work : works_) {
      const double wanted = multiprocessors_of(device_) * together * work.size() / all;
      work.blocks = work.product.slices * std::clamp(static_cast<int32_t>(wanted / work.product.slices), 1,
                                                     std::max(work.product.patches, 1));
    }
  }

  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    plan_.pack(raw, packed, stream, [&](const sdk::AdjointPlan::Part &part, void *dense) {
      exchange_channels(layer_, sdk::adjoint_part(layer_, part.number).layer.weights, raw, dense, stream);
    });
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    GroupedParts all;
    uintptr_t bits = 0;
    for (const Work &work : works_) {
      const polyconv_arguments b = plan_.arguments_of(*work.part, a);
      const polyconv_layer &l = work.part->of.layer;
      GroupedProduct &p = all.part[all.parts];
      p = work.product;
      p.input = begin_of(l.input, b.input), p.result = begin_of(l.result, b.output), p.weights = b.weights[0];
      if (l.epilogue.has_bias) p.bias = static_cast<const float *>(b.bias[0]);
      bits |= reinterpret_cast<uintptr_t>(p.input) | reinterpret_cast<uintptr_t>(p.result);
      all.end[all.parts] = (all.parts > 0 ? all.end[all.parts - 1] : 0) + work.blocks;
      ++all.parts;
    }
    if (bits % kChunk == 0)
      return launch_waiting(kernel_, static_cast<unsigned>(all.end[all.parts - 1]), kGroupedThreads,
                            static_cast<size_t>(shared_), stream, all);
    for (const Work &work : works_) work.part->forward->run(plan_.arguments_of(*work.part, a), stream);
  }

  const sdk::AdjointPlan plan_;
  std::vector<Work> works_;
  PartsKernel kernel_ = nullptr;
  int32_t shared_ = 0; // bytes of a block
};

constexpr const char *kConfigs[] = {"64"};

} // namespace

POLYCONV_DEFINE_KERNEL(mma_grouped_strided_data, kConfigs, supports, instance_of<GroupedStridedData>);

} // namespace polyconv::cuda

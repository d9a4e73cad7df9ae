// mma_grouped_strided_data.cu - gradients of data of strided layers of small groups: what mma_grouped takes forward,
// for each residue of the strides, all in one launch. One after the other, each would begin when the last block of the
// one before has ended: 368 channels in groups of 8, 14 x 14, 3 x 3 at stride 2, batch 32, took 21.7 us on an H200.
//
// Floor: input and output once; 2 N K P Q C R S is far below the machine's rate.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
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
// Of a patch of a block, of each of its pixels, and of each chunk of these: seven layers on an H200.
constexpr double kPatchUs = 1.2, kPixelUs = 0.4 / 49, kChunkUs = 0.1 / 49;

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

// ---------------------------------------------------------------- shares

// A residue's part.
struct Work {
  const polyconv_layer *layer;
  GroupedProduct product;
  int32_t which, blocks; // of the plan's parts

  Work(const polyconv_layer &l, int32_t part)
      : layer(&l), product(best_grouped(l, false)), which(part), blocks(product.slices) {}
  double patch_us() const { return kPatchUs + product.tile_pixels() * (kPixelUs + kChunkUs * product.chunks); }
  // Of a block's patches, one after the other.
  double us() const { return std::ceil(real(product.patches) * product.slices / blocks) * patch_us(); }
};
using Works = std::vector<Work>;

int32_t shared_of(const Works &works) {
  int32_t most = 0;
  for (const Work &work : works) most = std::max(most, work.product.shared_bytes());
  return most;
}

// So many blocks, always to the part that takes longest; what that is then.
double share_out(Works &works, int32_t blocks) {
  const auto longest = [&] {
    return std::max_element(works.begin(), works.end(), [](const Work &a, const Work &b) { return a.us() < b.us(); });
  };
  for (const Work &work : works) blocks -= work.blocks;
  auto most = longest();
  for (; blocks >= most->product.slices && most->blocks < most->product.slices * most->product.patches;
       most = longest())
    most->blocks += most->product.slices, blocks -= most->product.slices;
  return most->us();
}

// ---------------------------------------------------------------- supports

// Microseconds of the longest share.
double longest_us(Works works) {
  const polyconv_layer &l = *works[0].layer;
  const int32_t together =
      std::min(blocks_together(static_cast<int>(l.weights.size[1]), static_cast<int>(l.output.size[1] / l.groups),
                               static_cast<int>(sdk::type_bytes(l.input.type))),
               kHopperShared / (shared_of(works) + 1024));
  return share_out(works, kHopperMultiprocessors * together);
}

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (!sdk::adjoint_takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const auto count = static_cast<long long>(sdk::adjoint_parts(l));
  if (count < 2 || count > kMostGroupedParts)
    return offer.reject("takes strides of 2 to %d residues, not %lld", kMostGroupedParts, count);
  sdk::AdjointParts parts(kSide, l);
  if (!sdk::adjoint_add(kSide, kernel_mma_grouped, request, 0, parts, &offer)) return false;
  Works works;
  for (int64_t i = 0; i < count; ++i)
    if (!parts[i].is_empty) works.emplace_back(parts[i].layer, static_cast<int32_t>(i));
  for (const Work &work : works)
    if (work.product.tile[0] == 0)
      return offer.reject("holds no patch of this window and these weights in shared memory");
  offer.estimate_us = kBeginUs + std::max(offer.estimate_us - kBeginUs * real(works.size()), longest_us(works));
  return true;
}

// ---------------------------------------------------------------- plan and run

class GroupedStridedData final : public CudaInstance {
 public:
  explicit GroupedStridedData(const polyconv_request &request)
      : CudaInstance(request), plan_(kSide, kernel_mma_grouped, request, 0) {
    const DeviceScope scope(device_);
    for (const sdk::AdjointPlan::Part &part : plan_.parts())
      works_.emplace_back(part.of.layer, static_cast<int32_t>(works_.size()));
    std::stable_sort(works_.begin(), works_.end(),
                     [](const Work &a, const Work &b) { return a.patch_us() > b.patch_us(); });
    shared_ = shared_of(works_);
    const polyconv_layer &any = *works_[0].layer;
    kernel_ = parts_kernel(any);
    allow_shared(kernel_, most_grouped_shared(any));
    int together = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&together, kernel_, kGroupedThreads,
                                                        static_cast<size_t>(shared_)),
          "counting blocks of a multiprocessor");
    share_out(works_, multiprocessors_of(device_) * together); // as many as run at once
  }

 private:
  const sdk::AdjointPlan::Part &part_of(const Work &work) const {
    return plan_.parts()[static_cast<size_t>(work.which)];
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
      const polyconv_arguments b = plan_.arguments_of(part_of(work), a);
      const polyconv_layer &l = *work.layer;
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
    for (const Work &work : works_) part_of(work).forward->run(plan_.arguments_of(part_of(work), a), stream);
  }

  const sdk::AdjointPlan plan_;
  Works works_;
  PartsKernel kernel_ = nullptr;
  int32_t shared_ = 0; // bytes of a block
};

constexpr const char *kConfigs[] = {"64"};

} // namespace

POLYCONV_DEFINE_KERNEL(mma_grouped_strided_data, kConfigs, supports, instance_of<GroupedStridedData>);

} // namespace polyconv::cuda

// image.cpp - filters of single-channel images and of interleaved pixels (RGB, RGBA): every float and image type, any
// kernel size, stride, dilation and border; 3x3, 5x5 and 7x7 from one unrolled source.
//
// Floor of a 3x3 filter on a large f32 image: one read and one write of each pixel, the copy rate; its 9 multiply-adds
// and 4.5 loads for each vector take less. Each source row is read once for 4 result rows; results that exceed the
// caches are stored past them, since a plain store would read each line first.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/plane/task.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

void image_task(const PlanePlan &plan, const PlaneRun &run, const PlaneShare &share) {
  plane_typed<DirectFilters>(plan, run, share);
}

} // namespace polyconv::cpu::POLYCONV_ISA

#ifdef POLYCONV_DRIVER
#include "cpu/common/accepts.hpp"
#include "cpu/kernels.hpp"
#include "cpu/plane/driver.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <cinttypes>

namespace polyconv::cpu {
namespace {

constexpr PlaneTask kTask[] = POLYCONV_BY_ISA(image_task);
constexpr int64_t kMostChannels = 4, kMostFilters = 64;

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  Isa isa;
  if (!choose_isa(config, offer, isa) || !takes_strips(request, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  if (!plane_takes(layer, isa, offer)) return false;
  const int64_t channels = layer.input.size[sdk::kC], filters = layer.output.size[sdk::kC] / channels;
  if (channels > kMostChannels && layer.weights.stride[sdk::kK] != 0)
    return offer.reject("takes images of up to %" PRId64 " channels, not %" PRId64, kMostChannels, channels);
  if (filters > kMostFilters)
    return offer.reject("takes up to %" PRId64 " filters an image, not %" PRId64, kMostFilters, filters);
  return plane_offer(request, isa, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return plane_create(request, static_cast<Isa>(config), kTask[config]);
}

} // namespace

const sdk::Kernel kernel_image = {"image", 0, isa_names, kIsaCount, supports, create, sdk::kActivationTraits};

} // namespace polyconv::cpu
#endif

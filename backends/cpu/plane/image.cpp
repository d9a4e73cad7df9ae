// image.cpp - filters of single-channel images and of interleaved pixels (RGB, RGBA): every float and image type, any
// kernel size, stride, dilation and border; 3x3, 5x5 and 7x7 from one unrolled source.
//
// Floor of a 3x3 filter on a large f32 image: one read and one write of each pixel, the copy rate; its 9 multiply-adds
// and 4.5 loads for each vector take less. Each source row is read once for 4 result rows; results that exceed the
// caches are stored past them, since a plain store would read each line first.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/plane/task.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

void image_task(const PlanePlan &plan, const PlaneRun &run, const ItemShare &share) {
  plane_typed<DirectFilters>(plan, run, share);
}

} // namespace polyconv::cpu::POLYCONV_ISA

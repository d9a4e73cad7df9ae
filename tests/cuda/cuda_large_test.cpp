// cuda_large_test.cpp - more elements than 32 bits count: cuda-direct filters an image of 66000 x 66000 bytes, and what
// it writes at corners, borders, in the middle and around elements 2^31 and 2^32 is what a host computes there.
// SPDX-License-Identifier: Apache-2.0
#include "cuda.hpp"

#include <array>
#include <cstdint>

namespace {

constexpr int64_t kSide = 66000, kPixels = kSide * kSide;
constexpr std::array<float, 9> kWeights = {1, 0, 2, 0, 3, 1, 2, 1, 1}; // no two rows or columns alike

struct Spot {
  int64_t h, w;
};
constexpr Spot kSpots[] = {{0, 0},
                           {0, kSide - 1},
                           {kSide - 1, 0},
                           {kSide - 1, kSide - 1},
                           {kSide / 2, kSide / 2},
                           {kSide / 2, 0},
                           {(int64_t{1} << 31) / kSide, (int64_t{1} << 31) % kSide},
                           {(int64_t{1} << 32) / kSide, (int64_t{1} << 32) % kSide}};
constexpr int64_t kReach = 3; // of the pattern around a spot; everywhere else pixels are 1

bool outside(int64_t h, int64_t w) {
  return h < 0 || w < 0 || h >= kSide || w >= kSide;
}

int pixel(int64_t h, int64_t w) {
  if (outside(h, w)) return 0;
  for (const Spot &s : kSpots)
    if (std::abs(h - s.h) <= kReach && std::abs(w - s.w) <= kReach) return static_cast<int>((3 * h + 5 * w) % 11);
  return 1;
}

int filtered(int64_t h, int64_t w) {
  float sum = 0;
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t s = 0; s < 3; ++s)
      sum += kWeights[static_cast<size_t>(3 * r + s)] * static_cast<float>(pixel(h + r - 1, w + s - 1));
  return static_cast<int>(sum);
}

// The part of row h within `reach` columns of column w.
struct Stretch {
  int64_t from, count;
  Stretch(int64_t w, int64_t reach)
      : from(std::max<int64_t>(w - reach, 0)), count(std::min(w + reach + 1, kSide) - from) {}
};

unsigned char *at(const polyconv::Memory &memory, int64_t h, int64_t w) {
  return static_cast<unsigned char *>(memory.get()) + h * kSide + w;
}

void draw(const polyconv::Device &device, const polyconv::Memory &image) {
  device.fill(image.get(), 1, static_cast<size_t>(kPixels));
  for (const Spot &spot : kSpots)
    for (int64_t h = spot.h - kReach; h <= spot.h + kReach; ++h) {
      if (outside(h, spot.w)) continue;
      const Stretch row(spot.w, kReach);
      std::vector<unsigned char> values;
      for (int64_t w = row.from; w < row.from + row.count; ++w)
        values.push_back(static_cast<unsigned char>(pixel(h, w)));
      device.copy(at(image, h, row.from), values.data(), values.size());
      polyconv::require(polyconv_stream_synchronize(device.get(), nullptr));
    }
}

std::vector<unsigned char> read(const polyconv::Device &device, const polyconv::Memory &memory, int64_t h,
                                Stretch row) {
  std::vector<unsigned char> values(static_cast<size_t>(row.count));
  device.copy(values.data(), at(memory, h, row.from), values.size());
  polyconv::require(polyconv_stream_synchronize(device.get(), nullptr));
  return values;
}

} // namespace

TEST_CASE("an image of more than 2^32 pixels is filtered right everywhere") {
  if (cuda_test::no_device()) return;
  const polyconv::Device device("cuda:0");
  if (device.properties().memory_bytes < 3 * kPixels)
    return polyconv_test::skip("needs a GPU of " + std::to_string(3 * kPixels / 1000000000) + " GB");
  polyconv::Problem problem("fwd:n1,c1,k1,i66000x66000,f3x3,p1:u8-f32-u8");
  const polyconv::Plan plan(problem, cuda_test::Layer::options("cuda-direct/direct"), device);
  const polyconv::Memory image(device, static_cast<size_t>(kPixels)), result(device, static_cast<size_t>(kPixels));
  const cuda_test::Floats weights(device, {kWeights.begin(), kWeights.end()});
  draw(device, image);
  device.fill(result.get(), 0xa5, static_cast<size_t>(kPixels));
  polyconv::Buffers buffers;
  buffers.input = image.get();
  buffers.output = result.get();
  buffers.weights[0] = weights.get();
  plan.run(buffers);
  for (const Spot &spot : kSpots)
    for (int64_t h = spot.h - kReach - 2; h <= spot.h + kReach + 2; ++h) {
      if (outside(h, spot.w)) continue;
      CAPTURE(h);
      const Stretch row(spot.w, kReach + 2);
      CAPTURE(row.from);
      std::vector<unsigned char> expected;
      for (int64_t w = row.from; w < row.from + row.count; ++w)
        expected.push_back(static_cast<unsigned char>(filtered(h, w)));
      CHECK(read(device, result, h, row) == expected);
    }
  // Far from every spot: a whole row, and the same of the last rows but the patterns' own.
  for (const int64_t h : {int64_t{20000}, kSide - 20}) {
    const std::vector<unsigned char> row = read(device, result, h, Stretch(kSide / 2, kSide));
    REQUIRE(static_cast<int64_t>(row.size()) == kSide);
    CHECK(row[0] == filtered(h, 0));
    CHECK(row.back() == filtered(h, kSide - 1));
    CHECK(std::vector<unsigned char>(row.begin() + 1, row.end() - 1) ==
          std::vector<unsigned char>(row.size() - 2, static_cast<unsigned char>(filtered(h, kSide / 4))));
  }
}

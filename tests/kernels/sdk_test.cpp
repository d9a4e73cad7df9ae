// sdk_test.cpp - what backends are written with, by itself: half conversions, padding, saturation, activations, pooling
// windows, shares of work and the threads of parallel_std.hpp.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/padding.hpp>
#include <polyconv/sdk/parallel_std.hpp>
#include <polyconv/sdk/pooling.hpp>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>
#include <random>

using namespace polyconv::sdk;

namespace {

// A number with `bits` of fraction and exponent range as in the type, by the definition of the format.
double f16_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// Round to nearest even by searching the neighbours, the slow way.
uint16_t nearest_f16(double v) {
  if (std::fabs(v) >= 65520) return std::signbit(v) ? 0xfc00 : 0x7c00;
  uint16_t low = 0, high = 0x7bff; // magnitudes; low <= |v| <= high
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (f16_value(middle) <= std::fabs(v) ? low : high) = middle;
  }
  const double down = std::fabs(v) - f16_value(low), up = f16_value(high) - std::fabs(v);
  const uint16_t magnitude = down < up || (down == up && (low & 1) == 0) ? low : high;
  return static_cast<uint16_t>(magnitude | (std::signbit(v) ? 0x8000 : 0));
}

std::vector<float> sample_floats() {
  std::vector<float> result = {0.0f,     -0.0f,   1.0f,     65504.0f, 65519.99f,  65520.0f,
                               1e30f,    -1e-30f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x1.000002p-25f,
                               0x1p-14f, FLT_MIN, FLT_MAX,  INFINITY, -INFINITY};
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i) {
    float v = bits_to_float(static_cast<uint32_t>(random()));
    if (i % 2 == 0)
      v = std::ldexp(static_cast<float>(random() % 4096) + 0.5f * static_cast<float>(i % 4 == 0),
                     static_cast<int>(random() % 40) - 36);
    if (v == v) result.push_back(v);
  }
  return result;
}

} // namespace

TEST_CASE("f16 to float is exact for every bit pattern") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float found = to_float(f16{static_cast<uint16_t>(bits)});
    const double expected = f16_value(static_cast<uint16_t>(bits));
    if (std::isnan(expected) ? !std::isnan(found) : static_cast<double>(found) != expected) FAIL("bits " << bits);
    if (!std::isnan(expected) && to_f16(found).bits != bits) FAIL("bits " << bits << " do not come back");
    if (std::isnan(expected) && !std::isnan(to_float(to_f16(found)))) FAIL("NaN " << bits << " is lost");
  }
}

TEST_CASE("float and double to f16 round to nearest even") {
  for (float v : sample_floats()) {
    const uint16_t expected = nearest_f16(static_cast<double>(v));
    if (to_f16(v).bits != expected) FAIL("float " << v << " gives " << to_f16(v).bits << ", expected " << expected);
    if (to_f16(static_cast<double>(v)).bits != expected) FAIL("double " << v);
#if defined(__FLT16_MANT_DIG__) && defined(__SSE2__) // gcc 12 has the type for Arm in C alone
    const _Float16 native = static_cast<_Float16>(v);
    uint16_t bits;
    std::memcpy(&bits, &native, sizeof bits);
    if (bits != expected) FAIL("the compiler's own f16 of " << v << " is " << bits);
#endif
  }
  // A tie that float cannot tell from its neighbour: one rounding, not two.
  const double above_tie = 1 + 0x1p-11 + 0x1p-40, below_tie = 1 + 3 * 0x1p-11 - 0x1p-40;
  CHECK(to_f16(above_tie).bits == 0x3c01);
  CHECK(to_f16(below_tie).bits == 0x3c01);
  CHECK(to_bf16(1 + 0x1p-8 + 0x1p-40).bits == 0x3f81);
  CHECK(to_bf16(-(1 + 0x1p-8 + 0x1p-40)).bits == 0xbf81);
}

TEST_CASE("bf16 is the rounded upper half of a float") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float v = to_float(bf16{static_cast<uint16_t>(bits)});
    if (v == v && to_bf16(v).bits != bits) FAIL("bits " << bits);
    if (v != v && to_float(to_bf16(v)) == to_float(to_bf16(v))) FAIL("NaN " << bits << " is lost");
  }
  CHECK(to_bf16(bits_to_float(0x3f808000u)).bits == 0x3f80); // ties go to even
  CHECK(to_bf16(bits_to_float(0x3f818000u)).bits == 0x3f82);
  CHECK(to_bf16(bits_to_float(0x3f808001u)).bits == 0x3f81);
  CHECK(to_bf16(FLT_MAX).bits == 0x7f80);                           // rounds to Inf
  CHECK(std::isnan(to_float(to_bf16(bits_to_float(0x7f800001u))))); // a NaN whose upper half would be Inf
}

TEST_CASE("padded_index agrees with walking out of the tensor step by step") {
  for (int64_t size = 1; size <= 6; ++size)
    for (int32_t mode = POLYCONV_PAD_ZERO; mode <= POLYCONV_PAD_CIRCULAR; ++mode)
      for (int64_t direction : {-1, 1}) {
        const int64_t edge = direction < 0 ? 0 : size - 1;
        int64_t walker = edge, heading = direction;
        for (int64_t steps = 1; steps <= 40; ++steps) {
          const bool at_edge = walker + heading < 0 || walker + heading >= size;
          if (mode == POLYCONV_PAD_CIRCULAR) {
            walker = (walker + heading + size) % size;
          } else if (mode == POLYCONV_PAD_SYMMETRIC && at_edge) { // the mirror repeats the edge
            heading = -heading;
          } else if (mode == POLYCONV_PAD_SYMMETRIC || mode == POLYCONV_PAD_REFLECT) {
            if (at_edge) heading = -heading;
            if (size > 1) walker += heading;
          }
          const bool constant = mode == POLYCONV_PAD_ZERO || mode == POLYCONV_PAD_CONSTANT;
          const int64_t found = padded_index(edge + steps * direction, size, mode);
          if (found != (constant ? -1 : walker))
            FAIL("mode " << mode << ", size " << size << ", " << steps * direction << " from the edge: " << found);
        }
      }
}

TEST_CASE("padded_index holds far beyond 2^31") {
  const int64_t size = int64_t{3} << 31;
  CHECK(padded_index(-1, size, POLYCONV_PAD_CIRCULAR) == size - 1);
  CHECK(padded_index(size + 5, size, POLYCONV_PAD_SYMMETRIC) == size - 6);
  CHECK(padded_index(size + 5, size, POLYCONV_PAD_REFLECT) == size - 7);
  CHECK(padded_index(-(int64_t{1} << 40), 3, POLYCONV_PAD_REPLICATE) == 0);
  CHECK(padded_index(int64_t{1} << 40, size, POLYCONV_PAD_ZERO) == -1);
}

TEST_CASE("saturate rounds half to even, clamps, and makes NaN 0") {
  CHECK(saturate<int8_t>(0.5f) == 0);
  CHECK(saturate<int8_t>(1.5f) == 2);
  CHECK(saturate<int8_t>(2.5f) == 2);
  CHECK(saturate<int8_t>(-0.5f) == 0);
  CHECK(saturate<int8_t>(-1.5f) == -2);
  CHECK(saturate<int8_t>(127.4f) == 127);
  CHECK(saturate<int8_t>(127.5f) == 127);
  CHECK(saturate<int8_t>(1e30f) == 127);
  CHECK(saturate<int8_t>(-128.5f) == -128);
  CHECK(saturate<int8_t>(-INFINITY) == -128);
  CHECK(saturate<uint8_t>(-0.4f) == 0);
  CHECK(saturate<uint8_t>(254.5f) == 254);
  CHECK(saturate<uint8_t>(255.5f) == 255);
  CHECK(saturate<uint16_t>(65534.5) == 65534);
  CHECK(saturate<uint16_t>(70000.0) == 65535);
  CHECK(saturate<int32_t>(2147483648.0f) == INT32_MAX);
  CHECK(saturate<int32_t>(2147483646.0) == INT32_MAX - 1);
  CHECK(saturate<int32_t>(-2147483904.0f) == INT32_MIN);
  CHECK(saturate<int32_t>(std::nanf("")) == 0);
}

TEST_CASE("quantise rounds before it adds the zero point") {
  polyconv_epilogue e{};
  e.out_scale = 2;
  e.out_zero_point = 3;
  CHECK(quantise(5.0f, e, POLYCONV_U8) == 5);  // 2.5 -> 2, + 3
  CHECK(quantise(7.0f, e, POLYCONV_U8) == 7);  // 3.5 -> 4, + 3
  CHECK(quantise(5.0f, e, POLYCONV_F32) == 5); // floats stay
}

TEST_CASE("activations have the values of their definitions") {
  polyconv_epilogue e{};
  e.activation_alpha = 0.25f;
  const auto value = [&](int32_t activation, double v) {
    e.activation = activation;
    return activate(v, e);
  };
  CHECK(value(POLYCONV_ACT_NONE, -2) == -2);
  CHECK(value(POLYCONV_ACT_RELU, -2) == 0);
  CHECK(value(POLYCONV_ACT_RELU, 3) == 3);
  CHECK(value(POLYCONV_ACT_LEAKY_RELU, -2) == -0.5);
  CHECK(value(POLYCONV_ACT_LEAKY_RELU, 2) == 2);
  CHECK(value(POLYCONV_ACT_CLIPPED_RELU, 2) == 0.25);
  CHECK(value(POLYCONV_ACT_CLIPPED_RELU, 0.125) == 0.125);
  CHECK(value(POLYCONV_ACT_TANH, 1) == doctest::Approx(0.76159415595576489).epsilon(1e-14));
  CHECK(value(POLYCONV_ACT_SIGMOID, 1) == doctest::Approx(0.73105857863000490).epsilon(1e-14));
  CHECK(value(POLYCONV_ACT_SIGMOID, -800) == 0);
  CHECK(value(POLYCONV_ACT_GELU, 1) == doctest::Approx(0.84134474606854293).epsilon(1e-14));
  CHECK(value(POLYCONV_ACT_GELU, -1) == doctest::Approx(-0.15865525393145707).epsilon(1e-14));
  CHECK(value(POLYCONV_ACT_SILU, 1) == doctest::Approx(0.73105857863000490).epsilon(1e-14));
  CHECK(value(POLYCONV_ACT_SILU, -2) == doctest::Approx(-0.23840584404423515).epsilon(1e-14));
  CHECK(value(POLYCONV_ACT_HARD_SWISH, -4) == 0);
  CHECK(value(POLYCONV_ACT_HARD_SWISH, 4) == 4);
  CHECK(value(POLYCONV_ACT_HARD_SWISH, 1) == doctest::Approx(2.0 / 3).epsilon(1e-14));
  CHECK(value(POLYCONV_ACT_GELU_TANH, 1) == doctest::Approx(0.84119199060827676).epsilon(1e-14));
  CHECK(value(POLYCONV_ACT_GELU_TANH, -3) == doctest::Approx(-0.0036373920817729943).epsilon(1e-12));
  CHECK(value(POLYCONV_ACT_GELU_TANH, -1e30) == 0);
  for (int32_t activation = POLYCONV_ACT_NONE; activation <= POLYCONV_ACT_PRELU; ++activation)
    CHECK_MESSAGE(std::isnan(value(activation, std::nan(""))), "activation " << activation << " loses NaN");
}

TEST_CASE("stored values come back, each type in its own rounding") {
  double memory = 0;
  const auto through = [&](int32_t type, double v) {
    store_as(&memory, type, 0, v);
    return load_as<double>(&memory, type, 0);
  };
  CHECK(through(POLYCONV_F64, 0.1) == 0.1);
  CHECK(through(POLYCONV_F32, 0.1) == static_cast<double>(0.1f));
  CHECK(through(POLYCONV_F16, 2049) == 2048);
  CHECK(through(POLYCONV_BF16, 257) == 256);
  CHECK(through(POLYCONV_S32, -2147483648.0) == -2147483648.0);
  CHECK(through(POLYCONV_S8, 200) == 127);
  CHECK(through(POLYCONV_U8, -3) == 0);
  CHECK(through(POLYCONV_U16, 65535) == 65535);
}

TEST_CASE("a layer without pooling has windows of one") {
  polyconv_layer layer{};
  CHECK((pool_window(layer, 1).size == 1 && pool_window(layer, 1).stride == 1 && pool_window(layer, 1).pad == 0));
  layer.epilogue.pool.kind = POLYCONV_POOL_MAX;
  layer.epilogue.pool.window[1] = 3, layer.epilogue.pool.stride[1] = 2, layer.epilogue.pool.pad_begin[1] = 1;
  CHECK((pool_window(layer, 1).size == 3 && pool_window(layer, 1).stride == 2 && pool_window(layer, 1).pad == 1));
}

TEST_CASE("a pooling window is cut at the edges and keeps its places") {
  polyconv_layer layer{};
  polyconv_pool &pool = layer.epilogue.pool;
  pool.window[0] = 3;
  pool.stride[0] = 2;
  pool.pad_begin[0] = 2;
  layer.pool_dilation[0] = 1;
  const PoolSpan first = pool_span(layer, 0, 0, 5), middle = pool_span(layer, 0, 1, 5),
                 last = pool_span(layer, 0, 3, 5);
  CHECK((first.begin == 0 && first.end == 1 && first.first == 2));
  CHECK((middle.begin == 0 && middle.end == 3 && middle.first == 0));
  CHECK((last.begin == 4 && last.end == 5 && last.first == 0));
  CHECK(pool_readers(layer, 0, 2, 4).begin == 1);
  CHECK(pool_readers(layer, 0, 2, 4).end == 3);

  layer.pool_dilation[0] =
      2; // elements -2 0 2, 0 2 4, 2 4, of 6 with one place of padding that counts and one that not
  pool.pad_end[0] = 2, layer.pool_overhang[0] = 1;
  CHECK((pool_span(layer, 0, 0, 5).begin == 0 && pool_span(layer, 0, 0, 5).count() == 2));
  CHECK((pool_span(layer, 0, 0, 5).first == 1 && pool_span(layer, 0, 2, 5).count() == 2));
  CHECK((pool_counted(layer, 0, 0, 5) == 3 && pool_counted(layer, 0, 2, 5) == 2));
  CHECK((pool_place(layer, 0, 1, 4) == 2 && pool_place(layer, 0, 1, 3) == -1));

  const double nan = std::nan("");
  CHECK(pool_better(2.0, 1.0));
  CHECK_FALSE(pool_better(1.0, 1.0));
  CHECK(pool_better(nan, 1.0));
  CHECK_FALSE(pool_better(1.0, nan));
  CHECK_FALSE(pool_better(nan, nan));
}

TEST_CASE("shares cover everything once and differ by at most one") {
  for (int64_t total : {0, 1, 7, 100})
    for (int64_t parts : {1, 3, 8, 13}) {
      int64_t end = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const Share s = share(total, parts, i);
        CHECK(s.begin == end);
        CHECK((s.end - s.begin == total / parts || s.end - s.begin == total / parts + 1));
        end = s.end;
      }
      CHECK(end == total);
    }
}

TEST_CASE("parallel_std runs every task once, whatever the number of threads") {
  for (int threads : {1, 2, 3, 8}) {
    const StdParallel parallel(threads);
    CHECK(parallel.threads() == threads);
    for (int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> ran(static_cast<size_t>(tasks));
      parallel(tasks, [&](int64_t i) { ++ran[static_cast<size_t>(i)]; });
      CHECK(std::all_of(ran.begin(), ran.end(), [](const std::atomic<int> &n) { return n == 1; }));
    }
  }
}

TEST_CASE("parallel_std really runs tasks at the same time") {
  const StdParallel parallel(3);
  std::atomic<int> inside{0};
  parallel(3, [&](int64_t) {
    ++inside;
    while (inside < 3) std::this_thread::yield(); // would hang on fewer than three threads
  });
  CHECK(inside == 3);
}

TEST_CASE("parallel_std serves several callers at once, and nested ones") {
  const StdParallel parallel(3);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round)
        parallel(5, [&](int64_t i) { parallel(3, [&](int64_t j) { sum += i * 3 + j; }); });
    });
  for (std::thread &caller : callers) caller.join();
  CHECK(sum == 4 * 200 * (14 * 15 / 2));
}

TEST_CASE("pieces of shares are each done once, no task doing two at a time") {
  for (int threads : {1, 3, 8})
    for (int64_t pieces : {1, 2, 7}) {
      const std::unique_ptr<Parallel> parallel = std::make_unique<StdParallel>(threads);
      const int64_t tasks = 5;
      std::vector<std::atomic<int>> done(static_cast<size_t>(tasks * pieces)), busy(static_cast<size_t>(tasks));
      std::atomic<int> clashes{0};
      run_pieces(parallel, tasks, pieces, [&](int64_t task, int64_t share, int64_t piece, int64_t before) {
        clashes += busy[static_cast<size_t>(task)]++ != 0 || before < -1 || before >= piece;
        ++done[static_cast<size_t>(share * pieces + piece)];
        --busy[static_cast<size_t>(task)];
      });
      CHECK(std::all_of(done.begin(), done.end(), [](const std::atomic<int> &n) { return n == 1; }));
      CHECK(clashes == 0);
    }
}

TEST_CASE("what a task that is held up has left is done by the others") {
  const std::unique_ptr<Parallel> parallel = std::make_unique<StdParallel>(3);
  std::atomic<int> left{3 * 8 - 1};
  run_pieces(parallel, 3, 8, [&](int64_t, int64_t share, int64_t piece, int64_t) {
    if (share != 0 || piece != 0) {
      --left;
      return;
    }
    while (left > 0) std::this_thread::yield(); // would hang if nobody took over
  });
  CHECK(left == 0);
}

TEST_CASE("a caller's pool gets the work, and nobody else") {
  struct Pool {
    int64_t calls = 0, tasks = 0;
    std::thread::id thread;
  } pool;
  polyconv_policy policy{};
  policy.threads = 4;
  policy.parallel_for_context = &pool;
  policy.parallel_for = [](void *context, int64_t tasks, void (*task)(void *, int64_t), void *task_context) {
    auto &p = *static_cast<Pool *>(context);
    ++p.calls, p.tasks += tasks;
    for (int64_t i = tasks; i-- > 0;) task(task_context, i); // any order will do
  };
  const CallerParallel parallel(policy);
  CHECK(parallel.threads() == 4);
  int64_t sum = 0;
  parallel(4, [&](int64_t i) { sum += i; });
  CHECK((sum == 6 && pool.calls == 1 && pool.tasks == 4));
}

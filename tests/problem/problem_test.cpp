// problem_test.cpp - what a problem means: sizes against a count by hand, tensors, the type table, chains, structs of
// other versions.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "random_problem.hpp"

namespace {

polyconv_problem parse(const std::string &token) {
  polyconv_problem problem;
  polyconv_problem_init(&problem);
  CHECK_MESSAGE(polyconv_problem_parse(token.c_str(), &problem) == POLYCONV_SUCCESS, polyconv_last_error());
  return problem;
}

polyconv_tensor tensor(const polyconv_problem &problem, int32_t which, int64_t *bytes = nullptr) {
  polyconv_tensor result = {};
  CHECK_MESSAGE(polyconv_problem_tensor(&problem, which, &result, bytes) == POLYCONV_SUCCESS, polyconv_last_error());
  return result;
}

bool valid(const std::vector<polyconv_problem> &problems) {
  return polyconv_problem_validate(problems.data(), static_cast<int32_t>(problems.size())) == POLYCONV_SUCCESS;
}

bool says(const char *words) {
  return std::string(polyconv_last_error()).find(words) != std::string::npos;
}

std::vector<int64_t> list(const int64_t (&values)[5]) {
  return std::vector<int64_t>(values, values + 5);
}

// Forward: how many times the kernel fits into the padded input, trying every place.
int64_t counted(const polyconv_problem &p, int i) {
  const int64_t padded = p.input_size[i] + p.pad_begin[i] + p.pad_end[i];
  int64_t count = 0;
  for (int64_t start = 0; start < padded; start += p.stride[i])
    if (start + (p.kernel_size[i] - 1) * p.dilation[i] < padded) ++count;
  return count;
}

// Transposed: how far the scattered kernels reach, less the padding.
int64_t reached(const polyconv_problem &p, int i) {
  int64_t last = 0;
  for (int64_t x = 0; x < p.input_size[i]; ++x)
    for (int64_t r = 0; r < p.kernel_size[i]; ++r) last = std::max(last, x * p.stride[i] + r * p.dilation[i]);
  return last + 1 - p.pad_begin[i] - p.pad_end[i] + p.output_padding[i];
}

// Windows that fit, and where sizes are rounded up those that do not but begin before the padding at the end, if one
// that fits or the first comes right before.
int64_t pooled(const polyconv_problem &p, int64_t size, int i) {
  const polyconv_pool &pool = p.epilogue.pool;
  if (pool.kind == POLYCONV_POOL_NONE) return size;
  const int64_t reach = (pool.window[i] - 1) * p.pool_dilation[i] + 1;
  int64_t count = 0, start = -pool.pad_begin[i];
  for (; start + reach <= size + pool.pad_end[i]; start += pool.stride[i]) ++count;
  const bool hangs_over = start - pool.stride[i] + reach < size + pool.pad_end[i]; // of the one before: room is left
  return count + (p.pool_ceil != 0 && hangs_over && start < size ? 1 : 0);
}

} // namespace

TEST_CASE("output sizes are what counting gives") {
  polyconv_test::RandomProblem random(99);
  for (int round = 0; round < 3000; ++round) {
    const polyconv_problem p = random.next();
    const polyconv_tensor output = tensor(p, POLYCONV_TENSOR_OUTPUT);
    CHECK(output.size[0] == p.batch);
    CHECK(output.size[1] == p.out_channels);
    for (int i = 0; i < p.spatial_dims; ++i) {
      const int64_t convolved = p.transposed != 0 ? reached(p, i) : counted(p, i);
      REQUIRE(output.size[5 - p.spatial_dims + i] == pooled(p, convolved, i));
    }
  }
}

TEST_CASE("a tensor's bytes reach exactly to its last element") {
  polyconv_test::RandomProblem random(5);
  for (int round = 0; round < 1000; ++round) {
    const polyconv_problem p = random.next();
    for (int32_t which : {POLYCONV_TENSOR_INPUT, POLYCONV_TENSOR_WEIGHTS, POLYCONV_TENSOR_OUTPUT}) {
      int64_t bytes = -1;
      const polyconv_tensor t = tensor(p, which, &bytes);
      int64_t last = 0;
      bool empty = false;
      for (int axis = 0; axis < 5; ++axis) {
        last += (t.size[axis] - 1) * t.stride[axis];
        empty = empty || t.size[axis] == 0;
      }
      REQUIRE(t.offset == 0);
      REQUIRE(bytes == (empty ? 0 : (last + 1) * static_cast<int64_t>(polyconv_type_size(t.type))));
    }
  }
}

TEST_CASE("tensors of a 2D problem") {
  const polyconv_problem p =
      parse("fwd:n2,c6,k4,g2,i9x7,f3x2,s2,p1/0:nchw-nhwc:krsc:f16-f16-f32:scale+bias+residual+relu+maxpool2s1");
  const polyconv_tensor input = tensor(p, POLYCONV_TENSOR_INPUT);
  CHECK(input.type == POLYCONV_F16);
  CHECK(list(input.size) == std::vector<int64_t>{2, 6, 1, 9, 7});
  CHECK(list(input.stride) == std::vector<int64_t>{378, 63, 63, 7, 1});
  const polyconv_tensor weights = tensor(p, POLYCONV_TENSOR_WEIGHTS);
  CHECK(weights.type == POLYCONV_F16);
  CHECK(list(weights.size) == std::vector<int64_t>{4, 3, 1, 3, 2});
  CHECK(list(weights.stride) == std::vector<int64_t>{18, 1, 18, 6, 3});
  // (9 + 1 - 3) / 2 + 1 = 4 and (7 + 1 - 2) / 2 + 1 = 4 before pooling, 3 and 3 after it
  int64_t bytes = 0;
  const polyconv_tensor output = tensor(p, POLYCONV_TENSOR_OUTPUT, &bytes);
  CHECK(output.type == POLYCONV_F32);
  CHECK(list(output.size) == std::vector<int64_t>{2, 4, 1, 3, 3});
  CHECK(list(output.stride) == std::vector<int64_t>{36, 1, 36, 12, 4});
  CHECK(bytes == 2 * 4 * 3 * 3 * 4);
  const polyconv_tensor residual = tensor(p, POLYCONV_TENSOR_RESIDUAL);
  CHECK(list(residual.size) == std::vector<int64_t>{2, 4, 1, 4, 4});
  CHECK(list(residual.stride) == std::vector<int64_t>{64, 1, 64, 16, 4});
  const polyconv_tensor bias = tensor(p, POLYCONV_TENSOR_BIAS, &bytes);
  CHECK(bias.type == POLYCONV_F32);
  CHECK(list(bias.size) == std::vector<int64_t>{1, 4, 1, 1, 1});
  CHECK(bytes == 16);
  CHECK(tensor(p, POLYCONV_TENSOR_SCALE, &bytes).size[1] == 4);
  const polyconv_tensor argmax = tensor(p, POLYCONV_TENSOR_ARGMAX);
  CHECK(argmax.type == POLYCONV_S32);
  CHECK(list(argmax.size) == list(output.size));
  const polyconv_tensor saved = tensor(p, POLYCONV_TENSOR_PRE_ACTIVATION);
  CHECK(saved.type == POLYCONV_F32);
  CHECK(list(saved.size) == list(residual.size));
}

TEST_CASE("tensors beside the sums, of either direction") {
  int64_t bytes = 0;
  const polyconv_problem forward = parse("fwd:n2,c3,k4,i9x7,f3,p1:nhwc:f16:residual+prelu");
  CHECK(tensor(forward, POLYCONV_TENSOR_SLOPE, &bytes).type == POLYCONV_F32);
  CHECK(bytes == 16);
  CHECK(tensor(parse("tfwd:k4,i8x8:f64:prelu"), POLYCONV_TENSOR_SLOPE, &bytes).type == POLYCONV_F64);
  CHECK(bytes == 32);
  const polyconv_problem backward = parse("bwd_d:n2,c3,k4,i9x7,f3,p1:nhwc:f16:residual+prelu");
  const polyconv_tensor gradient = tensor(backward, POLYCONV_TENSOR_RESIDUAL_GRADIENT);
  CHECK(gradient.type == POLYCONV_F16);
  CHECK(list(gradient.size) == list(tensor(forward, POLYCONV_TENSOR_RESIDUAL).size));
  CHECK(list(gradient.stride) == list(tensor(forward, POLYCONV_TENSOR_RESIDUAL).stride));
  polyconv_tensor none;
  CHECK(polyconv_problem_tensor(&backward, POLYCONV_TENSOR_RESIDUAL, &none, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_problem_tensor(&forward, POLYCONV_TENSOR_RESIDUAL_GRADIENT, &none, nullptr) ==
        POLYCONV_INVALID_ARGUMENT);
  CHECK(says("no residual gradient"));
  const polyconv_problem quantised = parse("fwd:c3,k5,i9x7,f3:u8-s8-u8:wz=channel");
  CHECK(tensor(quantised, POLYCONV_TENSOR_WEIGHTS_ZERO_POINT, &bytes).type == POLYCONV_S8);
  CHECK(bytes == 5);
  CHECK(tensor(parse("bwd_w:c3,k5,i9x7,f3:f16-f32-f16:bias"), POLYCONV_TENSOR_WEIGHTS).type == POLYCONV_F32);
  CHECK(tensor(parse("bwd_w:c3,k5,i9x7,f3:f16-f32-f16:bias"), POLYCONV_TENSOR_BIAS).type == POLYCONV_F32);
}

TEST_CASE("weights of a transposed problem are those of its adjoint") {
  const polyconv_problem p = parse("tfwd:c6,k4,g2,i5x5,f3,s2,p1,o1:bias");
  const polyconv_tensor weights = tensor(p, POLYCONV_TENSOR_WEIGHTS);
  CHECK(list(weights.size) == std::vector<int64_t>{6, 2, 1, 3, 3});
  CHECK(list(tensor(p, POLYCONV_TENSOR_OUTPUT).size) == std::vector<int64_t>{1, 4, 1, 10, 10});
  CHECK(tensor(p, POLYCONV_TENSOR_BIAS).size[1] == 4);
}

TEST_CASE("tensors that a problem does not have") {
  const polyconv_problem p = parse("fwd:c4,k4,i8x8,f3,p1:residual=input");
  for (int32_t which :
       {POLYCONV_TENSOR_BIAS, POLYCONV_TENSOR_SCALE, POLYCONV_TENSOR_RESIDUAL, POLYCONV_TENSOR_ARGMAX}) {
    polyconv_tensor untouched = {};
    untouched.type = 1234;
    CHECK(polyconv_problem_tensor(&p, which, &untouched, nullptr) == POLYCONV_INVALID_ARGUMENT);
    CHECK(untouched.type == 1234);
  }
  CHECK(says("argmax"));
}

TEST_CASE("floating point operations are counted by hand") {
  polyconv_test::RandomProblem random(31);
  for (int round = 0; round < 300; ++round) {
    polyconv_problem p = random.next();
    double flops = -1;
    REQUIRE(polyconv_problem_flops(&p, &flops) == POLYCONV_SUCCESS);
    double expected = 2;
    for (int i = 0; i < p.spatial_dims; ++i)
      expected *= static_cast<double>(p.kernel_size[i] * (p.transposed != 0 ? p.input_size[i] : counted(p, i)));
    expected *= static_cast<double>(p.batch * p.in_channels * p.out_channels / p.groups);
    REQUIRE(flops == expected);
  }
}

TEST_CASE("the rows of the type table, and nothing else") {
  const int32_t f64 = POLYCONV_F64, f32 = POLYCONV_F32, f16 = POLYCONV_F16, bf16 = POLYCONV_BF16;
  const int32_t s32 = POLYCONV_S32, s8 = POLYCONV_S8, u8 = POLYCONV_U8, u16 = POLYCONV_U16;
  std::set<std::vector<int32_t>> rows = {{f64, f64, f64}, {f32, f32, f32},    {f16, f16, f16},
                                         {f16, f16, f32}, {bf16, bf16, bf16}, {bf16, bf16, f32}};
  for (int32_t input : {s8, u8})
    for (int32_t weights : {s8, u8})
      for (int32_t output : {s32, s8, u8, f32}) rows.insert({input, weights, output});
  for (int32_t input : {u8, u16})
    for (int32_t output : {u8, u16, f32}) rows.insert({input, f32, output});
  for (int32_t input = 0; input <= 9; ++input)
    for (int32_t weights = 0; weights <= 9; ++weights)
      for (int32_t output = 0; output <= 9; ++output)
        for (int32_t direction = 0; direction <= 2; ++direction) {
          polyconv_problem p = parse("fwd:c2,k2,i8x8,f3");
          p.input_type = input;
          p.weights_type = weights;
          p.output_type = output;
          p.direction = direction;
          const bool kept = direction == 2 && weights == f32 && (input == f16 || input == bf16);
          const bool row = rows.count({input, kept ? input : weights, output}) == 1;
          const bool gradients = input == f64 || input == f32 || input == f16 || input == bf16;
          CAPTURE(input);
          CAPTURE(weights);
          CAPTURE(output);
          CAPTURE(direction);
          CHECK((polyconv_problem_validate(&p, 1) == POLYCONV_SUCCESS) == (row && (direction == 0 || gradients)));
        }
}

TEST_CASE("bias and scale types follow from the row") {
  CHECK(tensor(parse("fwd:i8x8:f64:scale+bias"), POLYCONV_TENSOR_SCALE).type == POLYCONV_F64);
  CHECK(tensor(parse("fwd:i8x8:f64:scale+bias"), POLYCONV_TENSOR_BIAS).type == POLYCONV_F64);
  CHECK(tensor(parse("fwd:i8x8:f64"), POLYCONV_TENSOR_PRE_ACTIVATION).type == POLYCONV_F64);
  CHECK(tensor(parse("fwd:i8x8:bf16:scale+bias"), POLYCONV_TENSOR_BIAS).type == POLYCONV_F32);
  CHECK(tensor(parse("fwd:i8x8:s8:scale+bias"), POLYCONV_TENSOR_BIAS).type == POLYCONV_S32);
  CHECK(tensor(parse("fwd:i8x8:s8:scale+bias"), POLYCONV_TENSOR_SCALE).type == POLYCONV_F32);
  CHECK(tensor(parse("fwd:i8x8:u8-f32-u8:bias"), POLYCONV_TENSOR_BIAS).type == POLYCONV_F32);
}

TEST_CASE("types have names and sizes") {
  CHECK(polyconv_type_size(POLYCONV_F64) == 8);
  CHECK(polyconv_type_size(POLYCONV_BF16) == 2);
  CHECK(polyconv_type_size(POLYCONV_U8) == 1);
  CHECK(polyconv_type_size(0) == 0);
  CHECK(polyconv_type_size(9) == 0);
  CHECK(polyconv_type_size(-1) == 0);
  CHECK(std::string(polyconv_type_name(POLYCONV_BF16)) == "bf16");
  CHECK(std::string(polyconv_type_name(77)) == "?");
}

TEST_CASE("big problems are valid up to POLYCONV_MAX_ELEMENTS and POLYCONV_MAX_PRODUCTS") {
  CHECK(valid({parse("fwd:n1,c3000000000,k1,i40000x1,f1")}));                // 2^49 bytes
  CHECK(valid({parse("fwd:n70000,c70000,k1,i1x1,f1")}));                     // beyond 2^31 elements
  CHECK(valid({parse("fwd:n1,c1,k1,i8x8,f3,p4000000000x1/0,s4000000000")})); // padding far beyond the input
  CHECK(valid({parse("fwd:c1,k1,i281474976710656,f1")}));
  CHECK(valid({parse("fwd:c1,k1,i281474976710646,f1,p10/0")}));
  CHECK(valid({parse("fwd:c1,k1,i8,f1,s9223372036854775807")})); // one output: no step is taken
  CHECK(valid({parse("tfwd:c1,k1,i1,f1,s9223372036854775807")}));
  CHECK(valid({parse("fwd:c1,k1,i8,f1,d9223372036854775807")})); // one tap
  CHECK(valid({parse("fwd:n1,c1,k1,i8,f1:xs=9223372036854775807.9223372036854775807.1")}));
  CHECK(valid({parse("fwd:c1,k1,i1073741823,f536870912")})); // 2^58 products
  polyconv_problem p = parse("fwd:n0,c3000000000,k1,i40000x1,f1");
  p.input_size[1] = 40000; // an empty batch of images whose bytes overflow
  CHECK(!valid({p}));
  CHECK(says("at most 281474976710656"));
}

TEST_CASE("a written tensor must not overlap itself, a read one may") {
  CHECK(valid({parse("fwd:c2,k2,i8x8,f3:xs=1.1.1.1")}));
  CHECK(valid({parse("bwd_d:c2,k2,i8x8,f3:ys=1.1.1.1")}));
  CHECK(valid({parse("bwd_w:c2,k2,i8x8,f3:xs=1.1.1.1:ys=1.1.1.1")}));
  CHECK(valid({parse("fwd:c2,k2,i8x8,f3:ws=0.1.1.1")}));
  polyconv_problem p = parse("fwd:n2,c2,k2,i8x8,f3:ys=72.36.6.1");
  CHECK(valid({p}));
  p.output_strides[1] = 35; // the next channel begins in this one's last element
  CHECK(!valid({p}));
  CHECK(says("output_strides[1] is 35"));
  p.output_strides[1] = 1; // channels last, one row short
  p.output_strides[2] = 12;
  p.output_strides[3] = 2;
  CHECK(valid({p}));
  p.batch = 0; // nothing is written
  p.output_strides[2] = 1;
  CHECK(valid({p}));
}

TEST_CASE("a tensor that is read may have any strides, and its bytes reach from its lowest element to its highest") {
  const auto described = [](const std::string &token, int32_t which, int64_t offset, int64_t elements) {
    const polyconv_problem p = parse(token);
    polyconv_tensor t;
    int64_t bytes = 0;
    REQUIRE(polyconv_problem_tensor(&p, which, &t, &bytes) == POLYCONV_SUCCESS);
    CHECK(t.offset == offset);
    CHECK(bytes == 4 * elements);
  };
  described("fwd:n2,c3,i6x7:xs=126.42.7.-1", POLYCONV_TENSOR_INPUT, 6, 252);
  described("fwd:n2,c3,i6x7:xs=126.-42.-7.1", POLYCONV_TENSOR_INPUT, 84 + 35, 252);
  described("fwd:n2,c3,i6x7:xs=0.0.0.0", POLYCONV_TENSOR_INPUT, 0, 1);
  described("fwd:n1,c1,i6x7:xs=-126.-42.0.1", POLYCONV_TENSOR_INPUT, 0, 7); // axes of size 1 are not walked
  described("fwd:n0,c3,i6x7:xs=126.42.7.-1", POLYCONV_TENSOR_INPUT, 6, 0);
  described("bwd_w:n2,k3,i6x7:ys=0.0.-1.-6", POLYCONV_TENSOR_OUTPUT, 5 + 36, 42);
}

TEST_CASE("chains") {
  const std::string a = "fwd:n2,c3,k8,i16x16,f3x3,p1:bias+relu+maxpool2";
  const std::string b = "fwd:n2,c8,k8,i8x8,f3x3,p1:bias+residual=layer0+relu";
  const std::string c = "tfwd:n2,c8,k4,i8x8,f2x2,s2";
  CHECK(valid({parse(a), parse(b), parse(c)}));
  CHECK(!valid({parse(b)})); // layer0 is not before layer 0
  CHECK(says("layer 0: epilogue.residual_from"));
  CHECK(!valid({parse(a), parse("fwd:n2,c8,k8,i16x16,f3x3,p1")}));
  CHECK(says("layer 1: input_size[0] is 16; expected 8, the output size of layer 0"));
  CHECK(!valid({parse(a), parse("fwd:n2,c9,k8,i8x8,f3x3,p1")}));
  CHECK(says("layer 1: in_channels is 9; expected 8"));
  CHECK(!valid({parse(a), parse("fwd:n2,c8,k4,i8x8,f3x3,p1:residual=layer0")}));
  CHECK(says("whose channels is 8; expected 4"));
  CHECK(valid({parse("fwd:n2,c8,k8,i8x8,f3x3,p1"), parse("fwd:n2,c8,k8,i8x8,f3x3,p1:residual=input")}));
  CHECK(valid({parse("fwd:n2,c8,k8,i8x8,f3x3,p1:residual=input")}));
  CHECK(!valid({parse("fwd:n2,c8,k8,i8x8,f3x3:residual=input")}));
  CHECK(says("names the input, whose height is 8; expected 6"));
  CHECK(!valid({parse("fwd:n2,c8,k8,i8x8,f3x3,p1:f16-f16-f32:residual=input")}));
  CHECK(says("f16"));
  const polyconv_problem same = parse("fwd:n2,c8,k8,i8x8,f3x3,p1");
  CHECK(valid(std::vector<polyconv_problem>(POLYCONV_MAX_CHAIN, same)));
}

namespace {

constexpr size_t kFirst = offsetof(polyconv_problem, pool_dilation); // sizeof(polyconv_problem) in 0.1

// The struct as a later version might have it.
struct Newer {
  polyconv_problem known;
  int64_t later[3];
};

} // namespace

TEST_CASE("a newer caller's struct is taken when what we do not know is unused") {
  Newer chain[2];
  std::memset(chain, 0, sizeof chain);
  chain[0].known = parse("fwd:n2,c3,k8,i16x16,f3x3,p1");
  chain[1].known = parse("fwd:n2,c8,k4,i16x16,f3x3,p1");
  for (Newer &n : chain) n.known.struct_size = sizeof(Newer);
  CHECK(polyconv_problem_validate(&chain[0].known, 2) == POLYCONV_SUCCESS);
  CHECK(tensor(chain[1].known, POLYCONV_TENSOR_OUTPUT).size[1] == 4);
  chain[1].known.in_channels = 7; // the second element is really read, at the caller's step
  CHECK(polyconv_problem_validate(&chain[0].known, 2) == POLYCONV_INVALID_ARGUMENT);
  CHECK(says("in_channels is 7; expected 8"));
  chain[1].known.in_channels = 8;
  std::memset(&chain[1].later[1], 1, 1); // its first byte, in either byte order
  CHECK(polyconv_problem_validate(&chain[0].known, 2) == POLYCONV_INVALID_ARGUMENT);
  CHECK(says(("byte " + std::to_string(sizeof(polyconv_problem) + 8) + " is not 0").c_str()));
}

TEST_CASE("each program's struct is filled as far as it reaches") {
  Newer newer;
  std::memset(&newer, 0x5a, sizeof newer);
  polyconv_problem_init_sized(&newer.known, sizeof newer);
  CHECK(newer.known.struct_size == sizeof newer);
  CHECK((newer.later[0] == 0 && newer.later[1] == 0 && newer.later[2] == 0));
  newer.known.input_size[0] = newer.known.input_size[1] = 8;
  CHECK(polyconv_problem_validate(&newer.known, 1) == POLYCONV_SUCCESS);

  polyconv_problem older;
  std::memset(&older, 0x5a, sizeof older);
  REQUIRE(polyconv_problem_parse_sized("fwd:c3,i8x8:maxpool2", &older, kFirst) == POLYCONV_SUCCESS);
  CHECK(older.struct_size == kFirst);
  CHECK(older.pool_dilation[0] == 0x5a5a5a5a5a5a5a5a); // behind its end
  CHECK(tensor(older, POLYCONV_TENSOR_OUTPUT).size[4] == 4);
  // What it has no field for is not lost in silence.
  CHECK(polyconv_problem_parse_sized("fwd:c3,i8x8:maxpool2d2", &older, kFirst) == POLYCONV_INVALID_ARGUMENT);
  CHECK(says((std::to_string(kFirst) + " bytes").c_str()));
  CHECK(tensor(older, POLYCONV_TENSOR_OUTPUT).size[4] == 4);
  CHECK(polyconv_problem_parse_sized("fwd:i8x8", &older, 8) == POLYCONV_INVALID_ARGUMENT);
  CHECK(says("size is 8"));
}

TEST_CASE("impossible struct sizes are refused before anything is read") {
  for (size_t size : {size_t{0}, size_t{8}, kFirst - 8, sizeof(polyconv_problem) + 1, SIZE_MAX, SIZE_MAX / 4}) {
    polyconv_problem p = parse("fwd:i8x8");
    p.struct_size = size;
    CHECK(polyconv_problem_validate(&p, 1) == POLYCONV_INVALID_ARGUMENT);
    CHECK(says("struct_size"));
    CHECK(says(std::to_string(size).c_str()));
  }
  polyconv_problem two[2] = {parse("fwd:i8x8"), parse("fwd:i8x8")};
  two[1].struct_size += 8;
  CHECK(polyconv_problem_validate(two, 2) == POLYCONV_INVALID_ARGUMENT);
  CHECK(says("layer 1"));
}

TEST_CASE("what is ignored may hold anything") {
  polyconv_problem p = parse("fwd:c2,k2,i8x8,f3");
  for (int64_t *values : {p.input_size, p.kernel_size, p.stride, p.dilation, p.pad_begin, p.pad_end, p.output_padding})
    values[2] = -9;
  for (int64_t *values : {p.input_strides, p.weights_strides, p.output_strides})
    for (int i = 0; i < 5; ++i) values[i] = -9;
  p.epilogue.pool.window[0] = -9;
  p.epilogue.pool.count_include_pad = -9;
  CHECK_MESSAGE(valid({p}), polyconv_last_error());
}

TEST_CASE("every last error belongs to its thread's last failure") {
  CHECK(polyconv_problem_validate(nullptr, 1) == POLYCONV_INVALID_ARGUMENT);
  const std::string first = polyconv_last_error();
  CHECK(first.find("problems is NULL") != std::string::npos);
  const polyconv_problem p = parse("fwd:i8x8");
  CHECK(polyconv_problem_validate(&p, 1) == POLYCONV_SUCCESS); // a success leaves it
  CHECK(first == polyconv_last_error());
}

TEST_CASE("statuses have names") {
  std::set<std::string> names;
  for (polyconv_status status = POLYCONV_SUCCESS; status <= POLYCONV_INTERNAL; ++status)
    names.insert(polyconv_status_string(status));
  CHECK(names.size() == 9);
  CHECK(names.count("unknown status") == 0);
  CHECK(std::string(polyconv_status_string(POLYCONV_INVALID_ARGUMENT)) == "invalid argument");
  CHECK(std::string(polyconv_status_string(9)) == "unknown status");
  CHECK(std::string(polyconv_status_string(-1)) == "unknown status");
  const std::string version = std::to_string(POLYCONV_VERSION_MAJOR) + "." + std::to_string(POLYCONV_VERSION_MINOR) +
                              "." + std::to_string(POLYCONV_VERSION_PATCH);
  CHECK(version == polyconv_version());
}

TEST_CASE("pooling sizes: dilation, and rounding up as PyTorch does") {
  const auto pooled = [](const std::string &pool, const std::string &size) {
    return tensor(parse("fwd:i" + size + ":" + pool), POLYCONV_TENSOR_OUTPUT).size[4];
  };
  CHECK(pooled("maxpool3s2", "8") == 3);
  CHECK(pooled("maxpool3s2c", "8") == 4);
  CHECK(pooled("maxpool3s2c", "9") == 4);
  CHECK(pooled("maxpool2s3p1c", "3") == 2); // the third window would begin in the padding at the end
  CHECK(pooled("maxpool2s2p0/1c", "4") == 2);
  CHECK(pooled("maxpool2s4c", "5") == 2);
  CHECK(pooled("maxpool3s2c", "2") == 1); // larger than the padded size, and still one window
  CHECK(pooled("maxpool1s3c", "5") == 2);
  CHECK(pooled("maxpool3s1d2", "8") == 4);
  CHECK(pooled("maxpool3s1p2d2", "8") == 8);
  CHECK(pooled("maxpool3s2p4d2c", "8") == 6);
  const auto refused = [](const std::string &pool, const char *words) {
    polyconv_problem p = parse("fwd:i5:maxpool2");
    CHECK(polyconv_problem_parse(("fwd:i5:" + pool).c_str(), &p) == POLYCONV_INVALID_ARGUMENT);
    CAPTURE(polyconv_last_error());
    CHECK(says(words));
  };
  refused("maxpool3d3", "pool_dilation 3");
  refused("maxpool3p5d2", "at most 4");
  refused("maxpool2p5d6", "pool_dilation[0] is 6; expected at most the output before pooling, which is 5");
  polyconv_problem p = parse("fwd:i8x8:maxpool2");
  p.pool_ceil = 2;
  CHECK(polyconv_problem_validate(&p, 1) == POLYCONV_INVALID_ARGUMENT);
  CHECK(says("pool_ceil is 2; expected 0 or 1"));
  p.pool_ceil = 0, p.pool_dilation[1] = 0;
  CHECK(polyconv_problem_validate(&p, 1) == POLYCONV_INVALID_ARGUMENT);
  CHECK(says("pool_dilation[1] is 0; expected at least 1"));
}

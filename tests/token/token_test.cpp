// token_test.cpp - the problem token: what every word of docs/problem-token.md means, that parse undoes format for
// random problems, and that no text breaks the parser.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#include <clocale>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "random_problem.hpp"

namespace {

polyconv_problem parse(const std::string &token) {
  polyconv_problem problem;
  polyconv_problem_init(&problem);
  const polyconv_status status = polyconv_problem_parse(token.c_str(), &problem);
  CHECK_MESSAGE(status == POLYCONV_SUCCESS, token, ": ", polyconv_last_error());
  return problem;
}

std::string format(const polyconv_problem &problem) {
  size_t needed = 0;
  REQUIRE_MESSAGE(polyconv_problem_format(&problem, nullptr, 0, &needed) == POLYCONV_SUCCESS, polyconv_last_error());
  std::string text(needed, '?');
  REQUIRE(polyconv_problem_format(&problem, &text[0], needed, &needed) == POLYCONV_SUCCESS);
  REQUIRE(needed == text.size());
  REQUIRE(text.back() == '\0');
  text.pop_back();
  return text;
}

bool shell_safe(const std::string &text) {
  const std::string safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:,=./+-_";
  return text.find_first_not_of(safe) == std::string::npos;
}

} // namespace

TEST_CASE("the design's example says what it says") {
  const polyconv_problem p = parse("fwd:n1,c64,k32,g4,i56x48,f3x5,s2,p1,d3:nhwc:f16:pad=reflect:bias+relu+maxpool2");
  CHECK(p.direction == POLYCONV_FORWARD);
  CHECK(p.transposed == 0);
  CHECK(p.spatial_dims == 2);
  CHECK(p.batch == 1);
  CHECK(p.in_channels == 64);
  CHECK(p.out_channels == 32);
  CHECK(p.groups == 4);
  CHECK(p.input_size[0] == 56);
  CHECK(p.input_size[1] == 48);
  CHECK(p.kernel_size[0] == 3);
  CHECK(p.kernel_size[1] == 5);
  for (int i = 0; i < 2; ++i) {
    CHECK(p.stride[i] == 2);
    CHECK(p.pad_begin[i] == 1);
    CHECK(p.pad_end[i] == 1);
    CHECK(p.dilation[i] == 3);
    CHECK(p.epilogue.pool.window[i] == 2);
    CHECK(p.epilogue.pool.stride[i] == 2);
  }
  CHECK(p.input_layout == POLYCONV_CHANNELS_LAST);
  CHECK(p.output_layout == POLYCONV_CHANNELS_LAST);
  CHECK(p.weights_layout == POLYCONV_CHANNELS_FIRST);
  CHECK(p.input_type == POLYCONV_F16);
  CHECK(p.weights_type == POLYCONV_F16);
  CHECK(p.output_type == POLYCONV_F16);
  CHECK(p.pad_mode == POLYCONV_PAD_REFLECT);
  CHECK(p.epilogue.has_bias == 1);
  CHECK(p.epilogue.has_scale == 0);
  CHECK(p.epilogue.activation == POLYCONV_ACT_RELU);
  CHECK(p.epilogue.pool.kind == POLYCONV_POOL_MAX);
}

TEST_CASE("other spellings have one canonical form") {
  const struct {
    const char *given, *canonical;
  } cases[] = {
      {"fwd:i28x28", "fwd:n1,c1,k1,i28x28,f1x1"},
      {"fwd:i28", "fwd:n1,c1,k1,i28,f1"},
      {"fwd:i4x5x6,f3", "fwd:n1,c1,k1,i4x5x6,f3x3x3"},
      {"fwd:f3,i8x8,k4,c2,n7", "fwd:n7,c2,k4,i8x8,f3x3"},
      {"fwd:n1,c1,k1,g1,i8x8,f3x3,s1,p0,d1", "fwd:n1,c1,k1,i8x8,f3x3"},
      {"fwd:i8x8,f3,s2x2,d1x2", "fwd:n1,c1,k1,i8x8,f3x3,s2,d1x2"},
      {"fwd:i8x8,f3:p1/2", "fwd:n1,c1,k1,i8x8,f3x3,p1/2"},
      {"fwd:i8x8,f3,p1x1/2x2", "fwd:n1,c1,k1,i8x8,f3x3,p1/2"},
      {"fwd:i8x8,f3,p1x2/1x2", "fwd:n1,c1,k1,i8x8,f3x3,p1x2"},
      {"fwd:i8x8,f3,p0/0x1", "fwd:n1,c1,k1,i8x8,f3x3,p0/0x1"},
      {"tfwd:i8x8,f3,s2:o1", "tfwd:n1,c1,k1,i8x8,f3x3,s2,o1"},
      {"tbwd_w:i8x8,f3,s2,o1x0", "tbwd_w:n1,c1,k1,i8x8,f3x3,s2,o1x0"},
      {"bwd_d:i8x8,f3:f64", "bwd_d:n1,c1,k1,i8x8,f3x3:f64"},
      {"fwd:i8,f3:nwc", "fwd:n1,c1,k1,i8,f3:nhwc"},
      {"fwd:i8x8x8,f3:ndhwc-ncdhw", "fwd:n1,c1,k1,i8x8x8,f3x3x3:nhwc-nchw"},
      {"fwd:i8x8:nchw:kcrs:f32:pad=zero:xz=0:q=1", "fwd:n1,c1,k1,i8x8,f1x1"},
      {"fwd:i8x8:krsc:nchw-nhwc", "fwd:n1,c1,k1,i8x8,f1x1:nchw-nhwc:krsc"},
      {"fwd:i8x8:s8", "fwd:n1,c1,k1,i8x8,f1x1:s8"},
      {"fwd:i8x8:s8-s8-s32", "fwd:n1,c1,k1,i8x8,f1x1:s8"},
      {"fwd:i8x8:s8-s8-s8:q=0.05/-3", "fwd:n1,c1,k1,i8x8,f1x1:s8-s8-s8:q=0.05/-3"},
      {"fwd:i8x8:u8-f32-u8", "fwd:n1,c1,k1,i8x8,f1x1:u8-f32-u8"},
      {"fwd:i8x8:u8-u8-u8:xz=128:wz=3", "fwd:n1,c1,k1,i8x8,f1x1:u8-u8-u8:xz=128:wz=3"},
      {"fwd:i8x8:f16-f16-f16", "fwd:n1,c1,k1,i8x8,f1x1:f16"},
      {"fwd:i8x8:bf16-bf16-f32", "fwd:n1,c1,k1,i8x8,f1x1:bf16-bf16-f32"},
      {"fwd:i8x8:pad=constant=1.50", "fwd:n1,c1,k1,i8x8,f1x1:pad=constant=1.5"},
      {"fwd:i8x8:pad=constant=1e20:f64", "fwd:n1,c1,k1,i8x8,f1x1:f64:pad=constant=1e20"},
      {"fwd:i8x8:separable:flip", "fwd:n1,c1,k1,i8x8,f1x1:flip:separable"},
      {"fwd:c3,i8x8:xs=192.64.8.1:ys=64.64.8.1:ws=0.1.1.1",
       "fwd:n1,c3,k1,i8x8,f1x1:xs=192.64.8.1:ws=0.1.1.1:ys=64.64.8.1"},
      {"fwd:i8x8:scale+bias+residual=input+hswish", "fwd:n1,c1,k1,i8x8,f1x1:scale+bias+residual=input+hswish"},
      {"fwd:i8x8:residual=layer2:rs=0.5", "fwd:n1,c1,k1,i8x8,f1x1:residual=layer2:rs=0.5"},
      {"fwd:i8x8:s8:residual:rz=7", "fwd:n1,c1,k1,i8x8,f1x1:s8:residual:rz=7"},
      {"fwd:i8x8:clip6.0", "fwd:n1,c1,k1,i8x8,f1x1:clip6"},
      {"fwd:i8x8:lrelu0.01", "fwd:n1,c1,k1,i8x8,f1x1:lrelu0.01"},
      {"fwd:i8x8:elu1.0+maxpool2", "fwd:n1,c1,k1,i8x8,f1x1:elu1+maxpool2"},
      {"fwd:i8x8:bias+gelutanh", "fwd:n1,c1,k1,i8x8,f1x1:bias+gelutanh"},
      {"fwd:i8x8:bias+gelu", "fwd:n1,c1,k1,i8x8,f1x1:bias+gelu"},
      {"fwd:i8x8:prelu", "fwd:n1,c1,k1,i8x8,f1x1:prelu"},
      {"fwd:i8x8:u8-s8-u8:wz=channel:xz=3", "fwd:n1,c1,k1,i8x8,f1x1:u8-s8-u8:xz=3:wz=channel"},
      {"bwd_w:i8x8:bf16-f32-bf16:bias", "bwd_w:n1,c1,k1,i8x8,f1x1:bf16-f32-bf16:bias"},
      {"bwd_d:i8x8:scale+residual+elu-0.5:rs=2", "bwd_d:n1,c1,k1,i8x8,f1x1:scale+residual+elu-0.5:rs=2"},
      {"fwd:i8x8:lrelu-2e30+maxpool3x3s2x2p1x1/1x1", "fwd:n1,c1,k1,i8x8,f1x1:lrelu-2e30+maxpool3s2p1"},
      {"fwd:i8x8:maxpool3s3p1/0", "fwd:n1,c1,k1,i8x8,f1x1:maxpool3p1/0"},
      {"fwd:i8x8,p-1:xs=0.-64.-8.1", "fwd:n1,c1,k1,i8x8,f1x1,p-1:xs=0.-64.-8.1"},
      {"tfwd:i8x8:p-1x2/-3", "tfwd:n1,c1,k1,i8x8,f1x1,p-1x2/-3"},
      {"fwd:i8x8:maxpool3s1p2d2x2c", "fwd:n1,c1,k1,i8x8,f1x1:maxpool3s1p2d2c"},
      {"fwd:i8x8:avgpool3x2d1x3ic", "fwd:n1,c1,k1,i8x8,f1x1:avgpool3x2d1x3ic"},
      {"fwd:i8x8:avgpool2x3s1p1i", "fwd:n1,c1,k1,i8x8,f1x1:avgpool2x3s1p1i"},
      {"fwd:n0,i8x8", "fwd:n0,c1,k1,i8x8,f1x1"},
  };
  for (const auto &c : cases) {
    CAPTURE(c.given);
    CHECK(format(parse(c.given)) == c.canonical);
    CHECK(format(parse(c.canonical)) == c.canonical);
  }
}

TEST_CASE("parse undoes format, for random problems over every field") {
  polyconv_test::RandomProblem random(20240611);
  int with_pool = 0, with_strides = 0, with_constant = 0, transposed = 0;
  for (int i = 0; i < 5000; ++i) {
    const polyconv_problem problem = random.next();
    const std::string token = format(problem);
    CAPTURE(token);
    REQUIRE(shell_safe(token));
    const polyconv_problem back = parse(token);
    REQUIRE(polyconv_test::equal(back, problem));
    with_pool += problem.epilogue.pool.kind != POLYCONV_POOL_NONE;
    with_strides += problem.has_output_strides;
    with_constant += problem.pad_mode == POLYCONV_PAD_CONSTANT;
    transposed += problem.transposed;
  }
  // The generator reaches what it is there for.
  CHECK(with_pool > 200);
  CHECK(with_strides > 200);
  CHECK(with_constant > 200);
  CHECK(transposed > 500);
}

TEST_CASE("what is ignored does not show in the token") {
  polyconv_problem p = parse("fwd:c2,k2,i9x9,f3:relu");
  const std::string token = format(p);
  p.input_size[2] = -5;
  p.kernel_size[2] = 99;
  p.pad_end[2] = 7;
  p.input_strides[0] = 12345;
  p.epilogue.activation_alpha = 3;
  p.epilogue.residual_scale = 2;
  p.epilogue.pool.window[0] = 4;
  CHECK(format(p) == token);
}

TEST_CASE("numbers do not follow the locale") {
  const char *before = std::setlocale(LC_ALL, nullptr);
  const std::string kept = before == nullptr ? "C" : before;
  for (const char *locale : {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C.UTF-8"}) {
    if (std::setlocale(LC_ALL, locale) == nullptr) continue;
    const polyconv_problem p = parse("fwd:i8x8:pad=constant=1.5:lrelu0.25");
    CHECK(p.pad_value == 1.5);
    CHECK(format(p) == "fwd:n1,c1,k1,i8x8,f1x1:pad=constant=1.5:lrelu0.25");
  }
  std::setlocale(LC_ALL, kept.c_str());
}

TEST_CASE("format reports the size that it needs and writes nothing into less") {
  const polyconv_problem p = parse("fwd:n1,c64,k64,i56x56,f3x3,p1");
  const std::string token = "fwd:n1,c64,k64,i56x56,f3x3,p1";
  size_t needed = 0;
  CHECK(polyconv_problem_format(&p, nullptr, 0, &needed) == POLYCONV_SUCCESS);
  CHECK(needed == token.size() + 1);
  std::vector<char> buffer(needed + 1, '#');
  CHECK(polyconv_problem_format(&p, buffer.data(), needed, nullptr) == POLYCONV_SUCCESS);
  CHECK(std::string(buffer.data()) == token);
  CHECK(buffer[needed] == '#');
  std::fill(buffer.begin(), buffer.end(), '#');
  size_t untouched = 77;
  CHECK(polyconv_problem_format(&p, buffer.data(), needed - 1, &untouched) == POLYCONV_INVALID_ARGUMENT);
  CHECK(std::string(polyconv_last_error()).find(std::to_string(needed)) != std::string::npos);
  CHECK(buffer[0] == '#');
  CHECK(untouched == 77);
}

TEST_CASE("every token of the documentation parses, in its canonical form where it says so") {
  const char *root = std::getenv("POLYCONV_SOURCE_DIR");
  REQUIRE(root != nullptr);
  std::ifstream file(std::string(root) + "/docs/problem-token.md");
  REQUIRE(file.good());
  int tokens = 0;
  for (std::string line; std::getline(file, line);) {
    for (size_t at = 0; (at = line.find('`', at)) != std::string::npos;) {
      const size_t end = line.find('`', at + 1);
      if (end == std::string::npos) break;
      const std::string code = line.substr(at + 1, end - at - 1);
      at = end + 1;
      const size_t colon = code.find(':');
      if (colon == std::string::npos || code.find(",i") == std::string::npos || code.find('<') != std::string::npos)
        continue;
      CAPTURE(code);
      CHECK(format(parse(format(parse(code)))) == format(parse(code)));
      ++tokens;
    }
  }
  CHECK(tokens >= 10);
}

namespace {

// One try of the parser with any text: a status, a sentence where it fails, the problem untouched, and where it
// succeeds a problem that formats and parses back.
void survive(const std::string &text) {
  polyconv_problem problem;
  polyconv_problem_init(&problem);
  problem.batch = 12345;
  const polyconv_problem before = problem;
  const polyconv_status status = polyconv_problem_parse(text.c_str(), &problem);
  if (status == POLYCONV_SUCCESS) {
    const std::string token = format(problem);
    CAPTURE(token);
    REQUIRE(polyconv_test::equal(parse(token), problem));
    return;
  }
  REQUIRE(status == POLYCONV_INVALID_ARGUMENT);
  const std::string sentence = polyconv_last_error();
  REQUIRE(sentence.size() > 10);
  REQUIRE(sentence.find("expected") != std::string::npos);
  for (char c : sentence) REQUIRE((c >= ' ' && c <= '~'));
  REQUIRE(std::memcmp(&before, &problem, sizeof before) == 0);
}

} // namespace

TEST_CASE("no text breaks the parser") {
  polyconv_test::RandomProblem random(7);
  const std::string letters = "fwdbtnckgisp0123456789,:x/=.-+rehlu_q";
  const std::vector<std::string> words = {"fwd:",
                                          "tfwd:",
                                          "i8x8",
                                          ",f3",
                                          ":nhwc",
                                          ":f16",
                                          ":pad=",
                                          "constant=",
                                          ":xs=1.1.1.1",
                                          ":maxpool2",
                                          "p1/2",
                                          "+",
                                          ":q=",
                                          "1e999",
                                          ":s8",
                                          "-",
                                          "9223372036854775807",
                                          ":bias",
                                          ",s",
                                          ",d0",
                                          ":o1",
                                          "nan",
                                          "inf",
                                          ":rs=",
                                          "layer7",
                                          ":lrelu0"};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    switch (round % 4) {
      case 0: // bytes
        for (int64_t i = random.between(0, 40); i > 0; --i) text += static_cast<char>(random.between(1, 255));
        break;
      case 1: // the token's own letters
        text = "fwd:";
        for (int64_t i = random.between(0, 40); i > 0; --i)
          text += letters[static_cast<size_t>(random.between(0, static_cast<int64_t>(letters.size()) - 1))];
        break;
      case 2: // its words, in any order
        for (int64_t i = random.between(1, 10); i > 0; --i)
          text += words[static_cast<size_t>(random.between(0, static_cast<int64_t>(words.size()) - 1))];
        break;
      default: { // a good token with a few bytes changed
        text = format(random.next());
        for (int64_t i = random.between(1, 3); i > 0; --i)
          text[static_cast<size_t>(random.between(0, static_cast<int64_t>(text.size()) - 1))] =
              static_cast<char>(random.between(32, 126));
      }
    }
    survive(text);
  }
  survive(std::string(100000, ':'));
  survive("fwd:i8x8" + std::string(100000, '+'));
  survive("fwd:i8x8," + std::string(100000, '9'));
}

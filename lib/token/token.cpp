// token.cpp - from a problem token to a problem: direction, fields and parts, as docs/problem-token.md has them.
// SPDX-License-Identifier: Apache-2.0
#include "token/token.hpp"

#include "base/near_word.hpp"
#include "base/status.hpp"
#include "problem/checks.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "problem/types.hpp"
#include "token/words.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace polyconv {
namespace {

// "; did you mean 'nhwc'?" of a part that nobody knows.
std::string meant_by(std::string_view part) {
  std::vector<std::string> words = epilogue_words();
  for (const char *word : {"nchw", "nhwc", "ncw", "nwc", "ncdhw", "ndhwc", "kcrs", "krsc", "flip", "separable"})
    words.emplace_back(word);
  for (int32_t type = POLYCONV_F64; type <= POLYCONV_U16; ++type) words.emplace_back(polyconv_type_name(type));
  for (const char *mode : kPadWords) words.push_back(std::string("pad=") + mode);
  return did_you_mean(part, words);
}

// The pads of one token: in the fields or as a part of their own.
struct Padding {
  AxisList begin, end;
};

Padding parse_padding(Piece *piece) {
  Padding padding;
  padding.begin = piece->signed_axes("padding");
  padding.end = piece->take("/") ? piece->signed_axes("padding at the end") : padding.begin;
  piece->finish("the padding");
  return padding;
}

class Parser {
 public:
  polyconv_problem parse(const std::string &token);

 private:
  void parse_direction(Piece part);
  void parse_fields(Piece part);
  void parse_part(Piece part);
  bool parse_word(const Piece &part);
  bool parse_assignment(Piece part);
  bool parse_layouts(Piece part);
  bool parse_types(Piece part);
  void parse_pad_mode(Piece value);
  void parse_strides(Piece value, int32_t *has, int64_t (&strides)[kAxes]);
  void set_padding(Piece piece);
  void set_output_padding(Piece piece);
  void once(const std::string &what, const Piece &part);

  polyconv_problem problem_;
  std::set<std::string> seen_;
};

// Every field and part may stand once: the second would silently win.
void Parser::once(const std::string &what, const Piece &part) {
  if (!seen_.insert(what).second) part.refuse("expected %s only once", what.c_str());
}

void Parser::parse_direction(Piece part) {
  problem_.transposed = part.take("t") ? 1 : 0;
  for (int32_t direction = POLYCONV_FORWARD; direction <= POLYCONV_BACKWARD_WEIGHTS; ++direction) {
    if (part.rest() != kDirectionWords[direction]) continue;
    problem_.direction = direction;
    return;
  }
  part.refuse("expected a direction: fwd, bwd_d, bwd_w, or tfwd, tbwd_d, tbwd_w for transposed%s",
              did_you_mean(part.whole(), {"fwd", "bwd_d", "bwd_w", "tfwd", "tbwd_d", "tbwd_w"}).c_str());
}

void Parser::set_padding(Piece piece) {
  once("padding", piece);
  piece.take("p");
  const Padding padding = parse_padding(&piece);
  spread(piece, padding.begin, problem_.spatial_dims, problem_.pad_begin);
  spread(piece, padding.end, problem_.spatial_dims, problem_.pad_end);
}

void Parser::set_output_padding(Piece piece) {
  once("output padding", piece);
  piece.take("o");
  const AxisList list = piece.axes("output padding");
  piece.finish("the output padding");
  spread(piece, list, problem_.spatial_dims, problem_.output_padding);
}

void Parser::parse_fields(Piece part) {
  std::vector<Piece> fields;
  do fields.emplace_back(part.take_until(','));
  while (!part.empty());
  if (!part.whole().empty() && part.whole().back() == ',') part.refuse("expected a field after the last ','");
  // The input size tells the number of axes, so it is read first, wherever it stands.
  for (Piece field : fields) {
    if (!field.take("i")) continue;
    once("i", field);
    const AxisList sizes = field.axes("an input size, as in i56x56");
    field.finish("the input size");
    problem_.spatial_dims = sizes.count;
    spread(field, sizes, sizes.count, problem_.input_size);
  }
  if (seen_.count("i") == 0) part.refuse("expected the input size, a field such as i56x56");
  for (Piece field : fields) {
    const auto axes = [&](const char *what, int64_t(&values)[POLYCONV_MAX_SPATIAL]) {
      const AxisList list = field.axes(what);
      field.finish(what);
      spread(field, list, problem_.spatial_dims, values);
    };
    const auto number = [&](const char *what, int64_t *value) {
      *value = field.size(what);
      field.finish(what);
    };
    const char letter = field.empty() ? '\0' : field.rest()[0];
    if (letter == 'i') continue;
    if (letter == 'p') {
      set_padding(field);
      continue;
    }
    if (letter == 'o') {
      set_output_padding(field);
      continue;
    }
    if (letter != '\0') once(std::string(1, letter), field);
    field.take(field.rest().substr(0, 1));
    switch (letter) {
      case 'n': number("a batch size", &problem_.batch); break;
      case 'c': number("input channels", &problem_.in_channels); break;
      case 'k': number("output channels", &problem_.out_channels); break;
      case 'g': number("groups", &problem_.groups); break;
      case 'f': axes("a kernel size", problem_.kernel_size); break;
      case 's': axes("a stride", problem_.stride); break;
      case 'd': axes("a dilation", problem_.dilation); break;
      default: field.refuse("expected a field n, c, k, g, i, f, s, p, d or o with its number");
    }
  }
}

bool Parser::parse_word(const Piece &part) {
  const std::string_view word = part.whole();
  if (word == "flip") {
    once("flip", part);
    problem_.flip = 1;
  } else if (word == "separable") {
    once("separable", part);
    problem_.separable = 1;
  } else if (word == kWeightsLayoutWords[0] || word == kWeightsLayoutWords[1]) {
    once("a weights layout", part);
    problem_.weights_layout = word == kWeightsLayoutWords[1] ? POLYCONV_CHANNELS_LAST : POLYCONV_CHANNELS_FIRST;
  } else {
    return false;
  }
  return true;
}

// "nhwc" for both tensors, or "nchw-nhwc" for input and output; 1D and 3D may be spelled nwc and ndhwc.
bool Parser::parse_layouts(Piece part) {
  const auto layout_of = [](std::string_view word) {
    if (word == "nchw" || word == "ncw" || word == "ncdhw") return POLYCONV_CHANNELS_FIRST + 0;
    return word == "nhwc" || word == "nwc" || word == "ndhwc" ? POLYCONV_CHANNELS_LAST + 0 : -1;
  };
  const int32_t input = layout_of(part.take_until('-'));
  if (input < 0) return false;
  const int32_t output = part.whole().find('-') == std::string_view::npos ? input : layout_of(part.rest());
  if (output < 0) part.refuse("expected a layout after '-', as in nchw-nhwc");
  once("a layout", part);
  problem_.input_layout = input;
  problem_.output_layout = output;
  return true;
}

// "f16" for a whole row, or input-weights-output as in "u8-f32-u8".
bool Parser::parse_types(Piece part) {
  const std::string_view first = part.take_until('-');
  const int32_t input = type_named(first.data(), first.size());
  if (input == 0) return false;
  once("types", part);
  int32_t weights = input;
  int32_t output = input == POLYCONV_S8 ? POLYCONV_S32 : input;
  if (part.whole().size() == first.size()) {
    if (input == POLYCONV_U8 || input == POLYCONV_U16 || input == POLYCONV_S32)
      part.refuse("expected input-weights-output, as in u8-s8-s32 (quantised) or u8-f32-u8 (images)");
  } else {
    const std::string_view second = part.take_until('-');
    weights = type_named(second.data(), second.size());
    output = type_named(part.rest().data(), part.rest().size());
    if (weights == 0 || output == 0) part.refuse("expected three types input-weights-output, as in u8-f32-u8");
  }
  problem_.input_type = input;
  problem_.weights_type = weights;
  problem_.output_type = output;
  return true;
}

void Parser::parse_pad_mode(Piece value) {
  const std::string_view word = value.take_until('=');
  int32_t mode = 0;
  while (mode <= POLYCONV_PAD_CIRCULAR && word != kPadWords[mode]) ++mode;
  if (mode > POLYCONV_PAD_CIRCULAR)
    value.refuse("expected pad=zero, constant=<value>, reflect, symmetric, replicate or circular");
  problem_.pad_mode = mode;
  if (mode == POLYCONV_PAD_CONSTANT) problem_.pad_value = value.real64("a value, as in pad=constant=1.5");
  value.finish("the padding mode");
}

void Parser::parse_strides(Piece value, int32_t *has, int64_t (&strides)[kAxes]) {
  const int wanted = 2 + problem_.spatial_dims;
  int count = 0;
  do {
    if (count == wanted) break;
    strides[count++] = value.signed_size("a stride");
  } while (value.take("."));
  if (count != wanted || !value.empty()) value.refuse("expected %d strides with '.' between", wanted);
  *has = 1;
}

bool Parser::parse_assignment(Piece part) {
  const size_t end = part.whole().find('=');
  if (end == std::string_view::npos) return false;
  const std::string key(part.take_until('='));
  const auto whole = [&](const char *what) { part.finish(what); };
  if (key == "pad") {
    parse_pad_mode(part);
  } else if (key == "xz") {
    problem_.input_zero_point = part.integer("a zero point");
    whole("the zero point");
  } else if (key == "wz") {
    problem_.has_weights_zero_points = part.take("channel") ? 1 : 0;
    if (problem_.has_weights_zero_points == 0)
      problem_.weights_zero_point = part.integer("a zero point, or wz=channel for one of each output channel");
    whole("the zero point");
  } else if (key == "xs") {
    parse_strides(part, &problem_.has_input_strides, problem_.input_strides);
  } else if (key == "ws") {
    parse_strides(part, &problem_.has_weights_strides, problem_.weights_strides);
  } else if (key == "ys") {
    parse_strides(part, &problem_.has_output_strides, problem_.output_strides);
  } else if (key == "rs") {
    problem_.epilogue.residual_scale = part.real32("the residual's scale");
    whole("the scale");
  } else if (key == "rz") {
    problem_.epilogue.residual_zero_point = part.integer("the residual's zero point");
    whole("the zero point");
  } else if (key == "q") {
    problem_.epilogue.out_scale = part.real32("the output's scale, as in q=0.05/3");
    if (part.take("/")) problem_.epilogue.out_zero_point = part.integer("the output's zero point");
    whole("the output's scale");
  } else {
    return false;
  }
  once(key + "=", part);
  return true;
}

void Parser::parse_part(Piece part) {
  if (part.empty()) part.refuse("expected something between ':'");
  const char next = part.whole().size() > 1 ? part.whole()[1] : '\0';
  const bool counted = next >= '0' && next <= '9';
  if ((counted || next == '-') && part.whole()[0] == 'p') return set_padding(part);
  if (counted && part.whole()[0] == 'o') return set_output_padding(part);
  if (parse_word(part) || parse_layouts(part) || parse_types(part) || parse_assignment(part)) return;
  if (!parse_epilogue(part, &problem_))
    part.refuse(
        "expected a layout (nhwc), a weights layout (krsc), types (f16), pad=, p, o, flip, separable, xz=, wz=, xs=, "
        "ws=, ys=, rs=, rz=, q= or an epilogue (bias+relu)%s",
        meant_by(part.whole()).c_str());
  once("an epilogue", part);
}

polyconv_problem Parser::parse(const std::string &token) {
  polyconv_problem_init(&problem_);
  Piece rest(token);
  parse_direction(Piece(rest.take_until(':')));
  if (rest.empty()) rest.refuse("expected fields after the direction, as in fwd:n1,c64,k64,i56x56,f3x3");
  parse_fields(Piece(rest.take_until(':')));
  while (!rest.empty()) parse_part(Piece(rest.take_until(':')));
  if (token.back() == ':') rest.refuse("expected a part after the last ':'");
  if (seen_.count("rs=") + seen_.count("rz=") > 0 && problem_.epilogue.residual_from == POLYCONV_RESIDUAL_NONE)
    rest.refuse("expected a residual beside rs= and rz=");
  check_layer(problem_, 0);
  forget_ignored(&problem_);
  return problem_;
}

} // namespace

void spread(const Piece &part, const AxisList &list, int32_t dims, int64_t (&values)[POLYCONV_MAX_SPATIAL]) {
  if (list.count != 1 && list.count != dims)
    part.refuse("expected 1 or %d axes, as in the input size; found %d", dims, list.count);
  for (int entry = 0; entry < dims; ++entry) values[entry] = list.values[list.count == 1 ? 0 : entry];
}

polyconv_problem parse_token(const std::string &token) {
  return Parser().parse(token);
}

} // namespace polyconv

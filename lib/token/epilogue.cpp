// epilogue.cpp - the epilogue part of a problem token: words joined by '+' in the order in which they apply.
// SPDX-License-Identifier: Apache-2.0
#include "base/near_word.hpp"
#include "problem/problem.hpp"
#include "token/words.hpp"

namespace polyconv {
namespace {

// Stages of an epilogue in their order; a word may not stand before one of an earlier stage.
enum Stage { kScale = 1, kBias, kResidual, kActivation, kPool, kUnknown };

Stage stage_of(std::string_view item) {
  const auto is = [&](std::string_view word) { return item.substr(0, word.size()) == word; };
  if (item == "scale") return kScale;
  if (item == "bias") return kBias;
  if (item == "residual" || is("residual=")) return kResidual;
  for (int32_t kind = POLYCONV_POOL_MAX; kind <= POLYCONV_POOL_AVERAGE; ++kind)
    if (is(kPoolWords[kind])) return kPool;
  for (int32_t activation = POLYCONV_ACT_RELU; activation <= POLYCONV_ACT_PRELU; ++activation)
    if (takes_alpha(activation) ? is(kActivationWords[activation]) : item == kActivationWords[activation])
      return kActivation;
  return kUnknown;
}

void parse_residual(Piece item, polyconv_epilogue *epilogue) {
  item.take("residual");
  if (item.empty()) {
    epilogue->residual_from = POLYCONV_RESIDUAL_BUFFER;
  } else if (item.take("=layer")) {
    const int64_t layer = item.size("the number of a layer");
    if (layer >= POLYCONV_MAX_CHAIN) item.refuse("expected a layer in 0..%d", POLYCONV_MAX_CHAIN - 1);
    epilogue->residual_from = POLYCONV_RESIDUAL_LAYER + static_cast<int32_t>(layer);
  } else if (item.take("=input")) {
    epilogue->residual_from = POLYCONV_RESIDUAL_INPUT;
  } else {
    item.refuse("expected residual, residual=input or residual=layer0 to layer%d", POLYCONV_MAX_CHAIN - 1);
  }
  item.finish("the residual");
}

void parse_activation(Piece item, polyconv_epilogue *epilogue) {
  for (int32_t activation = POLYCONV_ACT_RELU; activation <= POLYCONV_ACT_PRELU; ++activation) {
    if (takes_alpha(activation) ? !item.take(kActivationWords[activation])
                                : item.whole() != kActivationWords[activation])
      continue;
    epilogue->activation = activation;
    if (!takes_alpha(activation)) return;
    epilogue->activation_alpha = item.real32(activation == POLYCONV_ACT_CLIPPED_RELU ? "the largest value, as in clip6"
                                             : activation == POLYCONV_ACT_ELU        ? "alpha, as in elu1"
                                                                                     : "the slope, as in lrelu0.01");
    item.finish("the activation");
    return;
  }
}

// maxpool<window>[s<stride>][p<pad>[/<pad_end>]][d<dilation>][i][c]; the stride is the window unless given.
void parse_pool(Piece item, polyconv_problem *problem, polyconv_pool *pool) {
  const int32_t dims = problem->spatial_dims;
  pool->kind = item.take(kPoolWords[POLYCONV_POOL_MAX]) ? POLYCONV_POOL_MAX : POLYCONV_POOL_AVERAGE;
  if (pool->kind == POLYCONV_POOL_AVERAGE) item.take(kPoolWords[POLYCONV_POOL_AVERAGE]);
  const AxisList window = item.axes("a window, as in maxpool2");
  spread(item, window, dims, pool->window);
  spread(item, item.take("s") ? item.axes("a stride") : window, dims, pool->stride);
  if (item.take("p")) {
    const AxisList begin = item.axes("padding");
    spread(item, begin, dims, pool->pad_begin);
    spread(item, item.take("/") ? item.axes("padding at the end") : begin, dims, pool->pad_end);
  }
  if (item.take("d")) spread(item, item.axes("a dilation"), dims, problem->pool_dilation);
  if (pool->kind == POLYCONV_POOL_AVERAGE && item.take("i")) pool->count_include_pad = 1;
  if (item.take("c")) problem->pool_ceil = 1;
  item.finish("the pooling");
}

std::string pool_text(const polyconv_problem &p) {
  const polyconv_pool &pool = p.epilogue.pool;
  const int32_t dims = p.spatial_dims;
  const std::string dilation = axes_text(p.pool_dilation, dims, true);
  const std::string window = axes_text(pool.window, dims, true);
  const std::string stride = axes_text(pool.stride, dims, true);
  const std::string begin = axes_text(pool.pad_begin, dims, true);
  const std::string end = axes_text(pool.pad_end, dims, true);
  std::string text = kPoolWords[pool.kind] + window;
  if (stride != window) text += "s" + stride;
  if (begin != end)
    text += "p" + begin + "/" + end;
  else if (begin != "0")
    text += "p" + begin;
  if (dilation != "1") text += "d" + dilation;
  if (pool.count_include_pad != 0) text += "i";
  if (p.pool_ceil != 0) text += "c";
  return text;
}

} // namespace

std::vector<std::string> epilogue_words() {
  std::vector<std::string> words = {"scale", "bias", "residual"};
  words.insert(words.end(), std::begin(kActivationWords) + 1, std::end(kActivationWords)); // but "none"
  for (size_t kind = 1; kind < std::size(kPoolWords); ++kind) words.push_back(std::string(kPoolWords[kind]) + "2");
  return words;
}

bool parse_epilogue(Piece part, polyconv_problem *problem) {
  Piece items = part;
  polyconv_epilogue epilogue = problem->epilogue;
  Stage before = static_cast<Stage>(0);
  do {
    const Piece item(items.take_until('+'));
    const Stage stage = stage_of(item.whole());
    if (stage == kUnknown) {
      if (before == 0) return false;
      part.refuse("expected scale, bias, residual, an activation or a pooling between '+', found \"%.*s\"%s",
                  static_cast<int>(std::min<size_t>(item.whole().size(), 32)), item.whole().data(),
                  did_you_mean(item.whole(), epilogue_words()).c_str());
    }
    if (stage <= before) part.refuse("expected each at most once, in the order scale+bias+residual+activation+pooling");
    before = stage;
    switch (stage) {
      case kScale: epilogue.has_scale = 1; break;
      case kBias: epilogue.has_bias = 1; break;
      case kResidual: parse_residual(item, &epilogue); break;
      case kActivation: parse_activation(item, &epilogue); break;
      default: parse_pool(item, problem, &epilogue.pool); break;
    }
  } while (!items.empty());
  if (part.whole().back() == '+') part.refuse("expected a word after the last '+'");
  problem->epilogue = epilogue;
  return true;
}

std::string epilogue_text(const polyconv_problem &problem) {
  const polyconv_epilogue &e = problem.epilogue;
  std::string text;
  if (e.has_scale != 0) text += "+scale";
  if (e.has_bias != 0) text += "+bias";
  if (e.residual_from != POLYCONV_RESIDUAL_NONE) text += "+residual";
  if (e.residual_from == POLYCONV_RESIDUAL_INPUT) text += "=input";
  if (e.residual_from >= POLYCONV_RESIDUAL_LAYER)
    text += "=layer" + to_text(static_cast<int64_t>(e.residual_from - POLYCONV_RESIDUAL_LAYER));
  if (e.activation != POLYCONV_ACT_NONE) text += std::string("+") + kActivationWords[e.activation];
  if (takes_alpha(e.activation)) text += to_text(e.activation_alpha);
  if (e.pool.kind != POLYCONV_POOL_NONE) text += "+" + pool_text(problem);
  return text.empty() ? text : text.substr(1);
}

} // namespace polyconv

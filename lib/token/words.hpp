// words.hpp - the words of a problem token, shared by the parser and the printer, so that they cannot disagree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "token/text.hpp"

#include <polyconv/polyconv.h>

#include <string>
#include <vector>

namespace polyconv {

inline constexpr const char *kDirectionWords[] = {"fwd", "bwd_d", "bwd_w"};
inline constexpr const char *kPadWords[] = {"zero", "constant", "reflect", "symmetric", "replicate", "circular"};
inline constexpr const char *kDataLayoutWords[] = {"nchw", "nhwc"};
inline constexpr const char *kWeightsLayoutWords[] = {"kcrs", "krsc"};
inline constexpr const char *kActivationWords[] = {"none", "relu", "clip",   "lrelu", "tanh",     "sigmoid",
                                                   "gelu", "silu", "hswish", "elu",   "gelutanh", "prelu"};
inline constexpr const char *kPoolWords[] = {"none", "maxpool", "avgpool"};

// Reads "scale+bias+residual+relu+maxpool2", or says no (and reads nothing) where the part does not begin with one of
// those words (token/epilogue.cpp). `spatial_dims` must be set.
bool parse_epilogue(Piece part, polyconv_problem *problem);
// The words of an epilogue, as examples for who misspells one.
std::vector<std::string> epilogue_words();
// The same text, "" for no epilogue.
std::string epilogue_text(const polyconv_problem &problem);

// Sets one entry an axis from a list of one or of spatial_dims.
void spread(const Piece &part, const AxisList &list, int32_t dims, int64_t (&values)[POLYCONV_MAX_SPATIAL]);

} // namespace polyconv

// suite.hpp - reading a list of problems: text files of tokens, or tables of layers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "work/work.hpp"

namespace polyconv::bench {

// The names of the suites that came with the bench, sorted.
std::vector<std::string> suite_names();

// Reads a suite by name ("resnet50") or path ("mine.txt", "layers.csv").
//
// Text: one token a line, or those of a chain joined by ">"; '#' begins a comment. A line `@batch=100,1000` makes every
// following token one problem for each batch; with `expand` false (the caller sweeps the batch itself) one problem in
// all. Behind a token `count=3` says how often the layer occurs, `name=conv1` what it is called. `@batch=fixed` says
// that the batch of the following tokens belongs to them, so that overrides leave it alone. CSV: the columns of the
// networks' tables, name,groups,mb,ic,ih,iw,oc,oh,ow,kh,kw,sh,sw,ph_l,pw_l,dh,dw,ph_r,pw_r, count,spatial_dims and, for
// 3D, id,od,kd,sd,pd_l,dd,pd_r; the output size is checked, and count, how often the layer occurs, may be left out
// for 1.
//
// Error(kUsage) naming file and line.
std::vector<Work> load_suite(const std::string &name, bool expand);

} // namespace polyconv::bench

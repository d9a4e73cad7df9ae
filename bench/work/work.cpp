// work.cpp - problems from the command line, suites and chain files, with overrides and sweeps applied.
// SPDX-License-Identifier: Apache-2.0
#include "work/work.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "text/text.hpp"
#include "work/suite.hpp"

namespace polyconv::bench {

namespace {

// One change of a work's layers; throws Error where it makes them invalid.
using Change = std::function<void(std::vector<polyconv_problem> &)>;

// Applies every one of `changes` to every one of `works`: the product, in order.
std::vector<Work> multiply(const std::vector<Work> &works, const std::vector<Change> &changes,
                           const std::function<bool(const Work &)> &concerns) {
  if (changes.empty()) return works;
  std::vector<Work> changed;
  for (const Work &work : works) {
    if (!work.invalid.empty() || !concerns(work)) {
      changed.push_back(work);
      continue;
    }
    for (const Change &change : changes) {
      Work next = work;
      try {
        change(next.problems);
        next.token = make_work(next.problems).token;
      } catch (const Error &error) {
        next.problems = work.problems;
        next.invalid = error.what();
      }
      changed.push_back(next);
    }
  }
  return changed;
}

// Of a chain the fields of one layer change, and the others follow.
Change set_fields(const Sweep &sweep, const std::string &value) {
  return [=](std::vector<polyconv_problem> &layers) { change_layer(layers, sweep.layer, sweep.fields, value); };
}

// The problem with `copy` applied from a small token's, so that the words are the token's own.
Change from_token(const std::string &token, const std::string &part, const std::string &option,
                  void (*copy)(polyconv_problem &, const polyconv_problem &)) {
  const polyconv_problem pattern = parse_problem(token, option + " " + part);
  return [=](std::vector<polyconv_problem> &layers) {
    for (polyconv_problem &layer : layers) copy(layer, pattern);
    if (polyconv_problem_validate(layers.data(), static_cast<int32_t>(layers.size())) != POLYCONV_SUCCESS)
      throw Error(kUsage, option + " " + part + ": " + polyconv_last_error());
  };
}

// One or several of the words with '-' between; what else could stand in a token would be taken and change nothing.
Change from_words(const std::string &part, const std::string &option, const std::vector<std::string> &words,
                  void (*copy)(polyconv_problem &, const polyconv_problem &)) {
  for (const std::string &word : split(part, '-'))
    if (std::find(words.begin(), words.end(), word) == words.end())
      throw Error(kUsage, std::string(option).append(": '").append(word).append("' is none of ") + join(words, ", ") +
                              did_you_mean(word, words));
  return from_token("fwd:n1,c1,k1,i1x1:" + part, part, option, copy);
}

// Each distinct problem of a suite once, with the counts of all its rows.
std::vector<Work> merged(const std::vector<Work> &works) {
  std::vector<Work> distinct;
  std::map<std::string, size_t> places;
  for (const Work &work : works) {
    const auto [place, added] =
        places.try_emplace(work.suite + '\n' + work.token + '\n' + work.invalid, distinct.size());
    if (added)
      distinct.push_back(work);
    else
      distinct[place->second].count += work.count;
  }
  return distinct;
}

std::vector<std::string> type_words() {
  std::vector<std::string> words;
  for (int32_t type = POLYCONV_F64; type <= POLYCONV_U16; ++type) words.emplace_back(polyconv_type_name(type));
  return words;
}

void copy_types(polyconv_problem &problem, const polyconv_problem &pattern) {
  problem.input_type = pattern.input_type;
  problem.weights_type = pattern.weights_type;
  problem.output_type = pattern.output_type;
}

// The gradient of a transposed layer is that of the transposed layer: without the t it would be another layer's.
void copy_direction(polyconv_problem &problem, const polyconv_problem &pattern) {
  problem.direction = pattern.direction;
  if (pattern.transposed != 0) problem.transposed = pattern.transposed;
}

void copy_layouts(polyconv_problem &problem, const polyconv_problem &pattern) {
  problem.input_layout = pattern.input_layout;
  problem.output_layout = pattern.output_layout;
}

} // namespace

polyconv_problem parse_problem(const std::string &token, const std::string &where) {
  polyconv_problem problem;
  polyconv_problem_init(&problem);
  if (polyconv_problem_parse(token.c_str(), &problem) != POLYCONV_SUCCESS)
    throw Error(kUsage, (where.empty() ? "" : where + ": ") + polyconv_last_error());
  return problem;
}

std::string format_problem(const polyconv_problem &problem) {
  size_t needed = 0;
  if (polyconv_problem_format(&problem, nullptr, 0, &needed) != POLYCONV_SUCCESS)
    throw Error(kUsage, polyconv_last_error());
  std::string token(needed, '\0');
  if (polyconv_problem_format(&problem, token.data(), token.size(), &needed) != POLYCONV_SUCCESS)
    throw Error(kUsage, polyconv_last_error());
  token.resize(needed - 1);
  return token;
}

std::vector<Work> collect_work(const WorkRequest &request) {
  std::vector<Work> works;
  for (const std::string &token : request.tokens) works.push_back(parse_work(token, ""));
  for (const std::string &suite : request.suites) {
    const std::vector<Work> members = load_suite(suite, request.batches.empty());
    works.insert(works.end(), members.begin(), members.end());
  }
  for (const std::string &chain : request.chains) works.push_back(load_chain(chain));

  const auto all = [](const Work &) { return true; };
  const std::vector<std::string> layout_words = {"nchw", "nhwc", "ncw", "nwc", "ncdhw", "ndhwc"};
  std::vector<Change> batches, dtypes, layouts, directions;
  for (long long batch : request.batches) batches.push_back(set_fields({0, {"n"}, {}}, std::to_string(batch)));
  for (const std::string &dtype : request.dtypes)
    dtypes.push_back(from_words(dtype, "--dtype", type_words(), copy_types));
  for (const std::string &layout : request.layouts)
    layouts.push_back(from_words(layout, "--layout", layout_words, copy_layouts));
  for (const std::string &direction : request.directions)
    directions.push_back(from_token(direction + ":n1,c1,k1,i1x1", direction, "--direction", copy_direction));
  works = multiply(works, batches, [](const Work &work) { return !work.batch_fixed; });
  for (const Sweep &sweep : request.sweeps) {
    std::vector<Change> values;
    for (const std::string &value : sweep.values) values.push_back(set_fields(sweep, value));
    works = multiply(works, values, all);
  }
  works = multiply(works, dtypes, all);
  works = multiply(works, layouts, all);
  works = multiply(works, directions, all);

  works = merged(works);
  const std::vector<Work> networks = collect_networks(request);
  works.insert(works.end(), networks.begin(), networks.end());
  return works;
}

} // namespace polyconv::bench

// cuda_answers - what the CUDA plug-ins make of the layers of suites, without a GPU: for each layer, in each direction,
// type, layout and math mode, what explain says, every estimate to the last bit, and the launches of the kernel that is
// chosen. Of two versions of the plug-ins the same text, where the host side does the same:
//   cuda_answers bench/suites/census.txt bench/suites/seeds.txt > before.txt
// A line of a suite may be a chain, "fwd:... > fwd:...", which is asked as it is.
// SPDX-License-Identifier: Apache-2.0
#include "cuda_host/fake_runtime.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <regex>

#include "cuda/every_kernel.hpp"
#include "cuda_host/run_once.hpp"

namespace {

struct Sort {
  const char *parts;
  int32_t math;
};
constexpr Sort kSorts[] = {{":nhwc:krsc:f16", POLYCONV_MATH_STRICT},
                           {":nhwc:krsc:bf16", POLYCONV_MATH_STRICT},
                           {":f16", POLYCONV_MATH_STRICT},
                           {":f32", POLYCONV_MATH_STRICT},
                           {":f32", POLYCONV_MATH_TF32},
                           {":f32", POLYCONV_MATH_FP32_EMULATED},
                           {":f32", POLYCONV_MATH_FAST},
                           {":nhwc:krsc:f32", POLYCONV_MATH_TF32},
                           {":nhwc:krsc:f32", POLYCONV_MATH_STRICT},
                           {":nhwc:krsc:f32", POLYCONV_MATH_FAST},
                           {":nhwc:krsc:f32", POLYCONV_MATH_FP32_EMULATED},
                           {":f64", POLYCONV_MATH_STRICT}};

void explain(const polyconv::Device &device, const std::vector<polyconv::Problem> &chain,
             const polyconv::Options &options) {
  polyconv_explanation *made = nullptr;
  polyconv::require(polyconv_explain(device.get(), chain.data(), static_cast<int32_t>(chain.size()), &options, &made));
  std::printf("%s\n", polyconv_explanation_text(made));
  for (int32_t i = 0; i < polyconv_explanation_count(made); ++i) {
    polyconv_candidate c{};
    c.struct_size = sizeof c;
    polyconv::require(polyconv_explanation_get(made, i, &c));
    std::printf("%s %s %.17g us, %lld bytes: %s %s\n",
                c.chosen != 0     ? "*"
                : c.accepted != 0 ? "+"
                                  : "-",
                c.kernel, c.estimate_us, static_cast<long long>(c.workspace_bytes), c.reason, c.note);
  }
  polyconv_explanation_destroy(made);
}

// Names of anonymous namespaces have hashes of their file.
std::string without_hashes(const std::string &name) {
  static const std::regex hashed("[0-9]*_GLOBAL__N__[0-9a-f]{8}_[0-9]+_([a-z_0-9]+)_[0-9a-f]{8}");
  return std::regex_replace(name, hashed, "$1");
}

void ask(const polyconv::Device &device, const std::string &tokens, int32_t math) {
  std::printf("#### %s, math %d\n", tokens.c_str(), static_cast<int>(math));
  try {
    const std::vector<polyconv::Problem> chain = cuda_test::chain_of(tokens);
    polyconv::Options options;
    options.kernel = "cuda-*/*", options.math = math, options.fallback = POLYCONV_FALLBACK_ALLOW, options.bind = 1;
    explain(device, chain, options);
    fake_cuda::take_launches();
    fake_cuda::run_once(device, chain, polyconv::Plan(chain, options, device));
  } catch (const std::exception &error) {
    std::printf("%s\n", error.what());
  }
  for (const fake_cuda::Launch &l : fake_cuda::take_launches())
    std::printf("%s\n",
                fake_cuda::text_of({without_hashes(l.kernel), l.grid, l.block, l.cluster, l.shared_bytes}).c_str());
}

void ask_all(const polyconv::Device &device, const std::string &token) {
  const bool transposed = token[0] == 't';
  for (const char *direction : {"fwd", "bwd_d", "bwd_w"})
    for (const Sort &sort : kSorts)
      ask(device, (transposed ? "t" : "") + std::string(direction) + token.substr(token.find(':')) + sort.parts,
          sort.math);
}

} // namespace

int main(int argc, char **argv) {
  setenv("POLYCONV_BACKEND_PATH", CUDA_HOST_PLUG_INS, 1);
  setenv("POLYCONV_LOG", "error", 1);
  const polyconv::Device device("cuda:0");
  for (int i = 1; i < argc; ++i) {
    std::ifstream suite(argv[i]);
    if (!suite) return std::fprintf(stderr, "cuda_answers: %s cannot be read\n", argv[i]), 2;
    for (std::string line; std::getline(suite, line);) {
      if (line.find(" > ") != std::string::npos)
        ask(device, line, POLYCONV_MATH_STRICT);
      else if (line.rfind("fwd:", 0) == 0 || line.rfind("tfwd:", 0) == 0)
        ask_all(device, line);
    }
  }
  return argc > 1 ? 0 : (std::fprintf(stderr, "usage: cuda_answers SUITE...\n"), 2);
}

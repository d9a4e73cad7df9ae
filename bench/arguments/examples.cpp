// examples.cpp - what people begin with: the examples of --help and of the manual page.
// SPDX-License-Identifier: Apache-2.0
#include "arguments/table.hpp"

namespace polyconv::bench {

std::vector<Example> examples_of(const std::string &command) {
  static const std::vector<std::pair<std::string, std::vector<Example>>> kExamples = {
      {"",
       {{"run fwd:n1,c64,k64,i56x56,f3x3,p1", "how fast is one layer"},
        {"explain fwd:n1,c64,k64,i56x56,f3x3,p1", "which kernel takes it, and why"},
        {"tune --network resnet50", "choose by times instead of estimates from now on"},
        {"run --suite resnet50 --out r.jsonl", "a network's layers"},
        {"report r.jsonl -o r.html", "a page of them"},
        {"compare old.jsonl new.jsonl", "what became slower"},
        {"doctor", "what is missing here"}}},
      {"run",
       {{"run fwd:n1,c64,k64,i56x56,f3x3,p1", "one layer, on the kernel that the library chooses"},
        {"run --suite resnet50 --backend openmp,tbb --threads 1,2", "a network's layers, a row for each"},
        {"run fwd:c16,k16,i28x28,f3x3 --set c=16:64:16", "a sweep"},
        {"run --network resnet50 --device cuda:0 --dtype f16", "a whole network as one row"},
        {"run --suite seeds --baseline onednn --out seeds.jsonl", "beside another library, kept for report"}}},
      {"check",
       {{"check --suite awkward --backend threads", "is every kernel of a backend right"},
        {"check fwd:n1,c3,k8,i9x9,f3x3 --device cuda:0", "on a GPU"}}},
      {"tune",
       {{"tune --network resnet50 --budget 60", "a network's layers, a minute in all"},
        {"tune --suite my.txt --device cuda:0 --dtype f16", "a suite of one's own on a GPU"},
        {"tune --merge colleague.txt farm.txt", "take others' times of the same machine"}}},
      {"replay",
       {{"replay plans.log", "what a program planned under POLYCONV_LOG=info, measured again"},
        {"replay plans.log --choose --baseline onednn", "chosen anew, beside another library"}}},
      {"explain",
       {{"explain fwd:n1,c64,k64,i56x56,f3x3,p1", "one layer"},
        {"explain --chain lenet28 --device cuda:0", "what is fused"},
        {"explain fwd:n1,c64,k64,i56x56,f3x3,p1 --tune 1", "by times instead of estimates"}}},
      {"info", {{"info", "what is here"}, {"info --ceilings", "what this machine can do at best, kept for roofs"}}},
      {"doctor", {{"doctor", "what is missing, and what mends it"}}},
      {"report",
       {{"report r.jsonl -o r.html", "a page"},
        {"report cpu.jsonl gpu.jsonl --against last-week.jsonl -o r.html", "two devices, and what changed"},
        {"report r.jsonl -o issue.md", "for an issue"},
        {"report r.jsonl -o r.html --pictures pictures", "and each picture as an SVG file"}}},
      {"compare",
       {{"compare old.jsonl new.jsonl --fail-slower 5%", "exit 5 where a row became slower"},
        {"compare --noise run1.jsonl run2.jsonl", "learn how much runs of the same code differ here"}}},
      {"watch", {{"watch results", "trends over the result files of a folder"}}},
      {"plot",
       {{"plot sweep.jsonl --x c --y gflops --out sweep.svg", "a sweep as lines"},
        {"plot r.jsonl --roofline --by type --out roof.svg", "rows under the roof"}}},
      {"import",
       {{"import model.onnx --size batch=1 --out model.txt", "then: run --suite model.txt"},
        {"import plans.log", "what a program planned under POLYCONV_LOG=info"}}},
      {"completion", {{"completion bash > ~/.local/share/bash-completion/completions/polyconv-bench", "for bash"}}},
      {"man", {{"man | man -l -", "read it"}}}};
  for (const auto &[name, examples] : kExamples)
    if (name == command) return examples;
  return {};
}

} // namespace polyconv::bench

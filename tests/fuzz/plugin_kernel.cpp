// plugin_kernel.cpp - the kernels of a drawn plug-in: what they are called, what they offer, and how they fail.
// SPDX-License-Identifier: Apache-2.0
#include "plugin_table.hpp"

#include <cstddef>
#include <limits>
#include <new>
#include <stdexcept>

namespace polyconv_fuzz {

int64_t alive = 0;

namespace {

constexpr size_t kMostName = 128; // characters, of what full names are made of
constexpr size_t kFirstKernelSize = offsetof(polyconv_kernel, run) + sizeof(polyconv_kernel::run);

// What create hands out.
struct Instance {
  const Kernel *kernel;
  int64_t workspace;             // bytes that were promised
  int64_t packed;                // of each layer's weights
  std::unique_ptr<char[]> bytes; // would leak
};

// Behind every table stands its kernel; a table has no room for a pointer to it.
std::vector<const Kernel *> &known() {
  static std::vector<const Kernel *> &all = *new std::vector<const Kernel *>;
  return all;
}

} // namespace

// The kernels' functions, as the table wants them.
struct Functions {
  static const Kernel &of(const polyconv_kernel *self) {
    for (const Kernel *kernel : known())
      if (kernel->table->get() == self) return *kernel;
    require(false, "a kernel's function is given its own table");
    std::abort();
  }

  static const char *config_name(const polyconv_kernel *self, int32_t config) {
    const Kernel &kernel = of(self);
    require(config >= 0 && config < kernel.drawn.config_count, "only configs that there are are asked for their names");
    if (config != kernel.odd_config) return "plain";
    switch (kernel.oddity) {
      case 1: return nullptr;
      case 2: return "";
      case 3: throw std::runtime_error("the fuzzed plug-in cannot name it");
      case 4: throw 42;
      case 5: throw std::bad_alloc();
      case 6: return kernel.long_name.c_str();
      case 7: return "a, \"b\"@*\n\xff";
      default: return "odd";
    }
  }

  static polyconv_status supports(const polyconv_kernel *self, const polyconv_request *request, int32_t config,
                                  polyconv_offer *offer) {
    const Kernel &kernel = of(self);
    require(config >= -1 && config < kernel.drawn.config_count, "only configs that there are are asked about");
    const bool tells = kernel.drawn.struct_size >= offsetof(polyconv_kernel, takes) + sizeof kernel.drawn.takes;
    for (int32_t i = 0; i < request->count; ++i)
      require((request->layers[i]->traits & ~(tells ? kernel.drawn.takes : 0)) == 0, "no trait is a surprise");
    const bool other = kernel.fickle && kernel.questions++ % 2 == 1;
    const Answer &answer = kernel.answers[(request->op == POLYCONV_OP_CONVOLVE) == other ? 1 : 0];
    *offer = answer.offer;
    if (answer.honest_config) offer->config = std::max(config, 0);
    return answer.reply.give();
  }

  static polyconv_status create(const polyconv_kernel *self, const polyconv_request *request, int32_t config,
                                void **instance) {
    const Kernel &kernel = of(self);
    require(config >= 0 && config < kernel.drawn.config_count, "only configs that there are are made");
    if (!kernel.create.good()) {
      *instance = &alive; // no instance: nobody may give it back
      return kernel.create.give();
    }
    *instance = nullptr;
    if (kernel.makes_null) return POLYCONV_SUCCESS;
    const polyconv_offer &offer = kernel.answers[request->op == POLYCONV_OP_CONVOLVE ? 0 : 1].offer;
    const bool packs = request->op == POLYCONV_OP_CONVOLVE && std::strcmp(offer.weights_format[0], "raw") != 0;
    auto made = std::make_unique<Instance>();
    made->kernel = &kernel;
    made->workspace = kernel.fickle ? 0 : offer.workspace_bytes;
    if (request->op == POLYCONV_OP_CONVOLVE && has_workspace(kernel) && kernel.workspace >= 0)
      made->workspace = std::min(made->workspace, kernel.workspace);
    made->packed = packs && !kernel.fickle ? offer.weights_bytes[0] : 0;
    made->bytes = std::make_unique<char[]>(16);
    *instance = made.release();
    ++alive;
    return POLYCONV_SUCCESS;
  }

  static bool has_workspace(const Kernel &kernel) {
    return kernel.drawn.workspace != nullptr &&
           kernel.drawn.struct_size >= offsetof(polyconv_kernel, workspace) + sizeof kernel.drawn.workspace;
  }

  static void destroy(const polyconv_kernel *self, void *instance) {
    const Kernel &kernel = of(self);
    require((instance == nullptr) == kernel.makes_null, "what is given back was made");
    if (instance != nullptr) --alive;
    delete static_cast<Instance *>(instance);
    kernel.destroy.give();
  }

  static polyconv_status pack(const polyconv_kernel *self, void *instance, int32_t, const void *raw, void *packed,
                              void *) {
    const Kernel &kernel = of(self);
    require(raw != nullptr && packed != nullptr, "there is something to pack, and room for it");
    if (instance != nullptr)
      std::memset(packed, 1, static_cast<size_t>(static_cast<const Instance *>(instance)->packed));
    return kernel.pack.give();
  }

  static polyconv_status bind(const polyconv_kernel *self, void *, const polyconv_arguments *, void **bound) {
    const Kernel &kernel = of(self);
    if (kernel.bind.good()) {
      *bound = new char('b');
      ++alive;
    }
    return kernel.bind.give();
  }

  static void unbind(const polyconv_kernel *self, void *, void *bound) {
    delete static_cast<char *>(bound);
    --alive;
    of(self).destroy.give();
  }

  static polyconv_status run(const polyconv_kernel *self, void *instance, const polyconv_arguments *arguments, void *) {
    const Kernel &kernel = of(self);
    const int64_t promised = instance != nullptr ? static_cast<const Instance *>(instance)->workspace : 0;
    require(reinterpret_cast<uintptr_t>(arguments->workspace) % POLYCONV_ALIGNMENT == 0, "workspace is aligned");
    if (promised > 0) std::memset(arguments->workspace, 1, static_cast<size_t>(promised));
    return kernel.run.give();
  }

  static int64_t workspace(const polyconv_kernel *self, const void *) {
    const Kernel &kernel = of(self);
    if (kernel.workspace == 13) throw std::runtime_error("the fuzzed plug-in does not like 13");
    return kernel.workspace;
  }
};

namespace {

size_t draw_size(Bytes &bytes) {
  switch (bytes.below(16)) {
    case 0: return kFirstKernelSize - static_cast<size_t>(bytes.below(89));
    case 1: return kFirstKernelSize;
    case 2: return kFirstKernelSize + 8;
    case 3: return sizeof(polyconv_kernel) + static_cast<size_t>(bytes.below(256));
    case 4: return sizeof(polyconv_kernel) + Block<polyconv_kernel>::kGrowth + static_cast<size_t>(bytes.below(2));
    case 5: return static_cast<size_t>(bytes.size_value());
    default: return sizeof(polyconv_kernel);
  }
}

void draw_name(Bytes &bytes, Kernel &kernel) {
  static const char *const kWords[] = {"a", "b", "c_3", "d", "e", "f"};
  static const char *const kOthers[] = {"", "A", "a b", "a/b", "caf\xc3\xa9", "a\n"};
  const int32_t which = bytes.below(32);
  bool word = which >= 9;
  kernel.name = which < 6 ? kOthers[which] : kWords[bytes.below(6)];
  kernel.drawn.name = kernel.name.c_str();
  if (which == 6) kernel.drawn.name = nullptr;
  if (which == 7 || which == 8) {
    kernel.name.assign(static_cast<size_t>(bytes.below(256)) * 8, 'w');
    kernel.drawn.name = kernel.name.c_str();
    word = !kernel.name.empty() && kernel.name.size() <= kMostName;
  }
  if (!word) kernel.complaints.insert("is called");
}

void draw_configs(Bytes &bytes, Kernel &kernel) {
  constexpr int32_t kMost = 65536;
  switch (bytes.below(16)) {
    case 0: kernel.drawn.config_count = bytes.take<int32_t>(); break;
    case 1: kernel.drawn.config_count = -bytes.below(3); break;
    case 2: kernel.drawn.config_count = kMost + bytes.below(2); break;
    default: kernel.drawn.config_count = 1 + bytes.below(4); break;
  }
  kernel.odd_config = bytes.below(4);
  kernel.oddity = bytes.yes() ? bytes.below(9) : 0;
  kernel.long_name.assign(static_cast<size_t>(bytes.below(256)), 'l');
  if (kernel.drawn.config_count < 1 || kernel.drawn.config_count > kMost) {
    kernel.complaints.insert("config_count");
  } else if (kernel.odd_config < kernel.drawn.config_count) {
    if (kernel.oddity == 1 || kernel.oddity == 2) kernel.complaints.insert("its config");
    if (kernel.oddity == 6 && (kernel.long_name.empty() || kernel.long_name.size() > kMostName))
      kernel.complaints.insert("its config");
    if (kernel.oddity == 3 || kernel.oddity == 4) kernel.complaints.insert("config_name threw");
    if (kernel.oddity == 5) kernel.complaints.insert("memory");
  }
}

void draw_functions(Bytes &bytes, Kernel &kernel) {
  polyconv_kernel &table = kernel.drawn;
  const int32_t missing = bytes.below(4) == 0 ? bytes.below(256) : 0;
  const auto unless = [&](int32_t bit, const char *name, auto function) {
    if ((missing & bit) == 0) return function;
    if (name != nullptr) kernel.complaints.insert(std::string("has no ") + name);
    return decltype(function){nullptr};
  };
  table.config_name = unless(1, "config_name", &Functions::config_name);
  table.supports = unless(2, "supports", &Functions::supports);
  table.create = unless(4, "create", &Functions::create);
  table.destroy = unless(8, "destroy", &Functions::destroy);
  table.pack = unless(16, "pack", &Functions::pack);
  table.run = unless(32, "run", &Functions::run);
  table.bind = bytes.yes() ? &Functions::bind : nullptr;
  table.unbind = unless(64, table.bind != nullptr ? "unbind" : nullptr, &Functions::unbind);
  table.workspace = unless(128, nullptr, &Functions::workspace);
  if (bytes.yes()) table.workspace = nullptr;
}

double draw_estimate(Bytes &bytes) {
  constexpr double kOdd[] = {
      0, -1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 5e-324, 1.7e308, 0.5};
  const int32_t which = bytes.below(8);
  return which < 7 ? kOdd[which] : bytes.take<double>();
}

// One lie, about something.
void bend(Bytes &bytes, Answer &answer) {
  polyconv_offer &offer = answer.offer;
  switch (bytes.below(16)) {
    case 0: offer.estimate_us = draw_estimate(bytes); break;
    case 1: offer.workspace_bytes = bytes.size_value(); break;
    case 2:
      for (int64_t &size : offer.weights_bytes) size = bytes.size_value();
      break;
    case 3:
      for (auto &format : offer.weights_format) std::strcpy(format, "fuzzed:1");
      for (int64_t &size : offer.weights_bytes) size = 64;
      break;
    case 4: std::memset(offer.weights_format, bytes.yes() ? 'f' : 0, sizeof offer.weights_format); break;
    case 5:
      answer.honest_config = false;
      offer.config = bytes.yes() ? bytes.take<int32_t>() : bytes.below(6) - 1;
      break;
    case 6: offer.wants_layout = bytes.yes() ? bytes.take<int32_t>() : bytes.below(4); break;
    case 7: offer.rejects_pooling = bytes.below(3) - 1; break;
    case 8: offer.math = bytes.yes() ? bytes.take<int32_t>() : bytes.below(5); break;
    case 9: std::memset(offer.note, 'n', sizeof offer.note); break;
    case 10: std::memset(offer.reason, bytes.yes() ? 'r' : 0, sizeof offer.reason); break;
    case 11: offer.recomputed_outputs = bytes.size_value(); break;
    case 12: offer.blocks = offer.shared_bytes = bytes.size_value(); break;
    case 13: offer.threads = bytes.take<int32_t>(); break;
    case 14: offer.occupancy = bytes.take<float>(); break;
    default: offer.struct_size = static_cast<size_t>(bytes.size_value()); break;
  }
}

void draw_answer(Bytes &bytes, Answer &answer) {
  polyconv_offer &offer = answer.offer;
  offer = {};
  offer.struct_size = sizeof offer;
  if (bytes.below(16) == 0) {
    bytes.take_into(&offer, sizeof offer);
    answer.honest_config = false;
  } else {
    offer.estimate_us = 1 + bytes.below(8);
    for (auto &format : offer.weights_format) std::strcpy(format, POLYCONV_FORMAT_RAW);
    std::strcpy(offer.reason, "the fuzzed plug-in takes something else");
  }
  for (int32_t lies = bytes.below(4); lies > 0; --lies) bend(bytes, answer);
  answer.reply = draw_reply(bytes);
  if (bytes.below(4) == 0) answer.reply = {1, POLYCONV_UNSUPPORTED, ""};
}

} // namespace

Kernel::~Kernel() {
  known().erase(std::remove(known().begin(), known().end(), this), known().end());
}

std::unique_ptr<Kernel> draw_kernel(Bytes &bytes) {
  auto kernel = std::make_unique<Kernel>();
  kernel->drawn.struct_size = draw_size(bytes);
  if (kernel->drawn.struct_size < kFirstKernelSize ||
      kernel->drawn.struct_size > sizeof(polyconv_kernel) + Block<polyconv_kernel>::kGrowth)
    kernel->complaints.insert("the table of kernel");
  kernel->drawn.flags = bytes.yes() ? bytes.take<uint32_t>() & bytes.take<uint32_t>() : 0;
  kernel->drawn.takes = bytes.yes() ? bytes.take<uint64_t>() : POLYCONV_TRAITS_ALL;
  draw_name(bytes, *kernel);
  draw_functions(bytes, *kernel);
  draw_configs(bytes, *kernel);
  for (Answer &answer : kernel->answers) draw_answer(bytes, answer);
  kernel->fickle = bytes.below(8) == 1;
  for (Reply *reply : {&kernel->create, &kernel->pack, &kernel->bind, &kernel->run, &kernel->destroy})
    *reply = draw_reply(bytes);
  kernel->makes_null = bytes.below(8) == 1;
  kernel->workspace = bytes.size_value();
  kernel->table = std::make_unique<Block<polyconv_kernel>>(kernel->drawn);
  known().push_back(kernel.get());
  return kernel;
}

} // namespace polyconv_fuzz

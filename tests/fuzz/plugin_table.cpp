// plugin_table.cpp - the table of a drawn plug-in, its query and its probe.
// SPDX-License-Identifier: Apache-2.0
#include "plugin_table.hpp"

#include <cstddef>
#include <new>
#include <stdexcept>

namespace polyconv_fuzz {
namespace {

constexpr size_t kFirstBackendSize = offsetof(polyconv_backend, kernels) + sizeof(polyconv_backend::kernels);
constexpr size_t kMostKind = 128;
constexpr int32_t kMostKernels = 4096;

const polyconv_host *host = nullptr; // what the library handed out
const Plugin *current = nullptr;

// How many devices there are: never a number that opens any, since what is opened stays for ever.
int32_t count_devices() {
  return current->complaints().size() % 2 == 0 ? 0 : 1025;
}

} // namespace

polyconv_status Reply::give() const {
  if (host != nullptr && (kind == 2 || kind == 3)) host->set_error(kind == 2 ? words.c_str() : nullptr);
  if (kind == 4) throw std::runtime_error("the fuzzed plug-in throws");
  if (kind == 5) throw std::bad_alloc();
  if (kind == 6) throw 42;
  return status;
}

Reply draw_reply(Bytes &bytes) {
  Reply reply;
  if (bytes.below(8) != 1) return reply;
  reply.kind = 1 + bytes.below(6);
  reply.status = bytes.below(4) == 0 ? bytes.take<int32_t>() : 1 + bytes.below(12);
  if (reply.status == POLYCONV_SUCCESS) reply.status = POLYCONV_INTERNAL;
  const int32_t words = bytes.below(4);
  if (words > 0) reply.words = "the fuzzed plug-in says no";
  if (words == 3) reply.words.append(2000, '!');
  return reply;
}

Plugin::Plugin(Bytes &bytes) {
  current = this;
  query_ = draw_reply(bytes);
  has_table_ = bytes.below(32) != 1;
  draw_backend(bytes);
  draw_probe(bytes);
  draw_device(bytes);
  for (int32_t count = 1 + bytes.below(3); count > 0; --count) kernels_.push_back(draw_kernel(bytes));
  list_kernels(bytes);
  table_ = std::make_unique<Block<polyconv_backend>>(drawn_);
  if (!query_.good()) complaints_.insert({"query", "the fuzzed plug-in"});
  if (!query_.good() && (query_.kind == 5 || query_.status == POLYCONV_OUT_OF_MEMORY)) complaints_.insert("memory");
  if (!has_table_) complaints_.insert("no table");
}

Plugin::~Plugin() {
  current = nullptr;
}

polyconv_status Plugin::query(const polyconv_host *given, const polyconv_backend **backend) {
  host = given;
  host->log(POLYCONV_LOG_INFO, nullptr);
  if (current->has_table_) *backend = current->table_->get();
  return current->query_.give();
}

bool Plugin::has_many_configs() const {
  return std::any_of(kernels_.begin(), kernels_.end(),
                     [](const auto &kernel) { return kernel->drawn.config_count > 64; });
}

void Plugin::draw_backend(Bytes &bytes) {
  switch (bytes.below(16)) {
    case 1: drawn_.struct_size = static_cast<size_t>(bytes.below(kFirstBackendSize)); break;
    case 2: drawn_.struct_size = sizeof drawn_ + static_cast<size_t>(bytes.below(256)); break;
    case 3:
      drawn_.struct_size = sizeof drawn_ + Block<polyconv_backend>::kGrowth + static_cast<size_t>(bytes.below(2));
      break;
    case 4: drawn_.struct_size = static_cast<size_t>(bytes.size_value()); break;
    default: drawn_.struct_size = sizeof drawn_; break;
  }
  if (drawn_.struct_size < kFirstBackendSize || drawn_.struct_size > sizeof drawn_ + Block<polyconv_backend>::kGrowth)
    complaints_.insert("its table");
  drawn_.abi_minor = bytes.yes() ? bytes.take<uint32_t>() : POLYCONV_BACKEND_ABI_MINOR;
  drawn_.flags = bytes.below(4) == 1 ? bytes.take<uint32_t>() : 0;
  const int32_t name = bytes.below(32);
  drawn_.name = name == 1 ? nullptr : name == 2 ? "" : name == 3 ? "Fuzzed" : kPluginName;
  if (name == 1) complaints_.insert("has no name");
  if (name == 2 || name == 3) complaints_.insert("calls itself");
  static const char *const kKinds[] = {"cpu", "a-kind_2", "", "CPU", "cpu:0", "a kind"};
  const int32_t kind = bytes.below(32);
  kind_ = kind < 6 ? kKinds[kind] : "cpu";
  if (kind == 7) kind_.assign(static_cast<size_t>(bytes.below(256)) * 8, 'k');
  drawn_.device_kind = kind == 6 ? nullptr : kind_.c_str();
  if ((kind >= 2 && kind <= 6) || kind_.empty() || kind_.size() > kMostKind) complaints_.insert("devices of kind");
  version_.assign(bytes.below(4) == 1 ? static_cast<size_t>(bytes.below(256)) * 16 : 1, '%');
  drawn_.version = bytes.below(8) == 1 ? nullptr : version_.c_str();
}

void Plugin::draw_probe(Bytes &bytes) {
  probe_ = draw_reply(bytes);
  note_ = bytes.below(4);
  drawn_.probe = [](char *reason, size_t size) {
    if (current->note_ == 1) std::memset(reason, 'n', size);
    if (current->note_ == 2) std::snprintf(reason, size, "the fuzzed plug-in notes");
    return current->probe_.give();
  };
  if (bytes.below(32) == 1) drawn_.probe = nullptr;
  if (drawn_.probe == nullptr) complaints_.insert("no probe");
  if (drawn_.probe == nullptr || probe_.good()) return;
  complaints_.insert({"probe", "the fuzzed plug-in", "nnn"});
  if (probe_.kind == 5 || probe_.status == POLYCONV_OUT_OF_MEMORY) complaints_.insert("memory");
}

// How many kernels the table claims, and that many pointers where the number may be believed.
void Plugin::list_kernels(Bytes &bytes) {
  const int32_t there = static_cast<int32_t>(kernels_.size());
  int32_t count = there;
  switch (bytes.below(16)) {
    case 1: count = bytes.take<int32_t>(); break;
    case 2: count = -bytes.below(3); break;
    case 3: count = kMostKernels + bytes.below(2); break;
    case 4: count = bytes.below(8); break;
    default: break;
  }
  drawn_.kernel_count = count;
  if (count < 1 || count > kMostKernels) complaints_.insert("kernels, expected");
  const int32_t listed = count < 1 || count > kMostKernels ? there : count;
  list_ = std::make_unique<const polyconv_kernel *[]>(static_cast<size_t>(listed));
  std::set<std::string> names;
  const int32_t missing = bytes.below(32); // the place of a NULL
  for (int32_t i = 0; i < listed; ++i) {
    const Kernel &kernel = *kernels_[static_cast<size_t>(i % there)];
    list_[static_cast<size_t>(i)] = i == missing ? nullptr : kernel.table->get();
    if (i == missing) {
      complaints_.insert("of its table is NULL");
      continue;
    }
    if (!names.insert(kernel.name).second) complaints_.insert("two kernels called");
    complaints_.insert(kernel.complaints.begin(), kernel.complaints.end());
  }
  drawn_.kernels = bytes.below(32) == 1 ? nullptr : list_.get();
  if (drawn_.kernels == nullptr) complaints_.insert("has no kernels");
}

void Plugin::draw_device(Bytes &bytes) {
  if (bytes.below(4) != 1) return;
  polyconv_device_table table = {};
  table.struct_size = bytes.yes() ? static_cast<size_t>(bytes.below(256)) : sizeof table;
  table.count = bytes.yes() ? &count_devices : nullptr;
  device_ = std::make_unique<Block<polyconv_device_table>>(table);
  drawn_.device = device_->get();
}

} // namespace polyconv_fuzz

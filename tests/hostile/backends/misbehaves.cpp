// misbehaves.cpp - a backend whose tables are right and whose first kernel takes any single layer, is forced by config,
// and then breaks the ABI's rules in the one call that the config names. Of the others one forgets what its config is
// called, and one has as many configs as there may be.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <limits>
#include <stdexcept>

#include "../../fake_backends/fake_table.hpp"

namespace {

const char *const kConfigs[] = {"nothing",          "create_minus_nine", "create_throws", "destroy_throws",
                                "pack_throws",      "pack_odd",          "bind_throws",   "unbind_throws",
                                "run_throws",       "run_minus_one",     "workspace_low", "workspace_high",
                                "workspace_throws", "config_beyond",     "layout_beyond"};
constexpr int32_t kCount = sizeof kConfigs / sizeof kConfigs[0];

bool is(int32_t config, const char *name) {
  return std::strcmp(kConfigs[config], name) == 0;
}

// An instance is its config's name, so that there is nothing to free.
bool is(const void *instance, const char *name) {
  return std::strcmp(static_cast<const char *>(instance), name) == 0;
}

[[noreturn]] void fly() {
  throw std::runtime_error("the fake throws");
}

polyconv_status supports(const polyconv_kernel *, const polyconv_request *request, int32_t config,
                         polyconv_offer *offer) {
  if (request->op != POLYCONV_OP_CONVOLVE || request->count != 1 || config < 0) {
    std::snprintf(offer->reason, sizeof offer->reason, "misbehaves on one layer when forced");
    return POLYCONV_UNSUPPORTED;
  }
  offer->config = is(config, "config_beyond") ? 1000 : config;
  if (is(config, "layout_beyond")) {
    offer->wants_layout = std::numeric_limits<int32_t>::min();
    std::snprintf(offer->reason, sizeof offer->reason, "wants a layout that there is not");
    return POLYCONV_UNSUPPORTED;
  }
  offer->estimate_us = 1;
  offer->workspace_bytes = 512;
  const bool packs = std::strncmp(kConfigs[config], "pack", 4) == 0;
  std::snprintf(offer->weights_format[0], sizeof offer->weights_format[0], "%s", packs ? "misbehaves:1" : "raw");
  offer->weights_bytes[0] = packs ? 64 : 0;
  return POLYCONV_SUCCESS;
}

polyconv_status create(const polyconv_kernel *, const polyconv_request *, int32_t config, void **instance) {
  if (is(config, "create_throws")) fly();
  if (is(config, "create_minus_nine")) return -9;
  *instance = const_cast<char *>(kConfigs[config]);
  return POLYCONV_SUCCESS;
}

polyconv_status pack(const polyconv_kernel *, void *instance, int32_t, const void *, void *, void *) {
  if (is(instance, "pack_throws")) fly();
  return is(instance, "pack_odd") ? 1000 : POLYCONV_SUCCESS;
}

polyconv_status bind(const polyconv_kernel *, void *instance, const polyconv_arguments *, void **bound) {
  if (is(instance, "bind_throws")) fly();
  *bound = instance;
  return POLYCONV_SUCCESS;
}

polyconv_status run(const polyconv_kernel *, void *instance, const polyconv_arguments *, void *) {
  if (is(instance, "run_throws")) fly();
  return is(instance, "run_minus_one") ? -1 : POLYCONV_SUCCESS;
}

int64_t workspace(const polyconv_kernel *, const void *instance) {
  if (is(instance, "workspace_throws")) fly();
  if (is(instance, "workspace_high")) return std::numeric_limits<int64_t>::max();
  return is(instance, "workspace_low") ? std::numeric_limits<int64_t>::min() : 512;
}

const char *config_name(const polyconv_kernel *, int32_t config) {
  return config < kCount ? kConfigs[config] : "no config of that number";
}

// Told while the backend is loaded, and never again.
const char *forgotten_name(const polyconv_kernel *, int32_t) {
  static bool told = false;
  if (told) fly();
  told = true;
  return "only";
}

polyconv_status supports_all(const polyconv_kernel *, const polyconv_request *request, int32_t config,
                             polyconv_offer *offer) {
  offer->config = config > 0 ? config : 0;
  offer->estimate_us = 1;
  for (int32_t i = 0; i < request->count; ++i)
    std::snprintf(offer->weights_format[i], sizeof offer->weights_format[i], "raw");
  return POLYCONV_SUCCESS;
}

fake::Tables make() {
  fake::Tables t = fake::make_tables(FAKE_NAME);
  t.kernel.name = "kernel";
  t.kernel.config_count = kCount;
  t.kernel.config_name = config_name;
  t.kernel.supports = supports;
  t.kernel.create = create;
  t.kernel.destroy = [](const polyconv_kernel *, void *instance) {
    if (is(instance, "destroy_throws")) fly();
  };
  t.kernel.pack = pack;
  t.kernel.bind = bind;
  t.kernel.unbind = [](const polyconv_kernel *, void *instance, void *) {
    if (is(instance, "unbind_throws")) fly();
  };
  t.kernel.run = run;
  t.kernel.workspace = workspace;
  t.backend.flags = POLYCONV_BACKEND_ON_REQUEST;
  return t;
}

} // namespace

extern "C" POLYCONV_BACKEND_EXPORT polyconv_status polyconv_backend_query_v1(const polyconv_host *host,
                                                                             const polyconv_backend **backend) {
  polyconv::sdk::host = host;
  static fake::Tables tables = make();
  static polyconv_kernel forgetful = tables.kernel, many = tables.kernel;
  forgetful.name = "forgetful";
  forgetful.config_count = 1;
  forgetful.config_name = forgotten_name;
  many.name = "many";
  many.config_count = 65536;
  many.config_name = [](const polyconv_kernel *, int32_t) { return "one_of_many"; };
  forgetful.supports = many.supports = supports_all;
  forgetful.workspace = many.workspace = nullptr;
  forgetful.create = many.create = [](const polyconv_kernel *, const polyconv_request *, int32_t, void **instance) {
    *instance = const_cast<char *>(kConfigs[0]);
    return static_cast<polyconv_status>(POLYCONV_SUCCESS);
  };
  static const polyconv_kernel *const kernels[] = {&tables.kernel, &forgetful, &many};
  tables.backend.kernel_count = 3;
  tables.backend.kernels = kernels;
  *backend = &tables.backend;
  return POLYCONV_SUCCESS;
}

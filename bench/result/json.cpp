// json.cpp - what is written as JSON, and the cache of ceilings.
// SPDX-License-Identifier: Apache-2.0
#include "result/json.hpp"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "result/explain.hpp"
#include "result/info.hpp"
#include "system/whole_file.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

using Json = nlohmann::ordered_json;

namespace {

Json json_of(const Value &value) {
  return std::visit(
      [](const auto &held) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>)
          return nullptr;
        else
          return held;
      },
      value);
}

// Reasons may quote bytes of a malformed token or file name; they are replaced where they are not UTF-8.
std::string dump(const Json &json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json json_of(const std::vector<ProfileLine> &profile) {
  const auto number = [](const auto &value) { return value ? Json(*value) : Json(nullptr); };
  Json lines = Json::array();
  for (const ProfileLine &line : profile)
    lines.push_back({{"kind", line.kind},
                     {"name", line.name},
                     {"host_us", number(line.host_us)},
                     {"device_us", number(line.device_us)},
                     {"bytes", number(line.bytes)}});
  return lines;
}

Json json_of(const std::vector<LayerLine> &layers) {
  Json lines = Json::array();
  for (const LayerLine &layer : layers)
    lines.push_back({{"name", layer.name},
                     {"problem", layer.problem},
                     {"count", layer.count},
                     {"kernel", layer.kernel},
                     {"math", layer.math},
                     {"fallback", layer.fallback}});
  return lines;
}

Json json_of(const Ceilings &ceilings) {
  Json rates = Json::array();
  for (const Rate &rate : ceilings.rates)
    rates.push_back(
        {{"kind", rate.kind}, {"variant", rate.variant}, {"threads", rate.threads}, {"per_second", rate.per_second}});
  return {{"processor", ceilings.processor},
          {"processors", ceilings.processors},
          {"date", ceilings.date},
          {"rates", rates}};
}

Ceilings ceilings_of(const Json &json) {
  Ceilings ceilings;
  ceilings.processor = json.at("processor").get<std::string>();
  ceilings.processors = json.at("processors").get<int>();
  ceilings.date = json.at("date").get<std::string>();
  for (const Json &rate : json.at("rates"))
    ceilings.rates.push_back({rate.at("kind").get<std::string>(), rate.at("variant").get<std::string>(),
                              rate.at("threads").get<int>(), rate.at("per_second").get<double>()});
  return ceilings;
}

// Every machine's ceilings in the cache file; a file that cannot be understood counts as empty.
std::vector<Ceilings> read_cache(const std::filesystem::path &path) {
  std::vector<Ceilings> all;
  std::ifstream file(path);
  try {
    if (file)
      for (const Json &entry : Json::parse(file)) all.push_back(ceilings_of(entry));
  } catch (const Json::exception &) {
    all.clear();
  }
  return all;
}

} // namespace

std::string json_string(const std::string &text) {
  return dump(Json(text));
}

std::string json_line(const Record &record) {
  Json json = Json::object();
  for (const Field &field : fields_of(record)) json[field.name] = json_of(field.value);
  if (!record.layers.empty()) json["layers"] = json_of(record.layers);
  if (!record.profile.empty()) json["profile"] = json_of(record.profile);
  return dump(json);
}

std::optional<Ceilings> load_ceilings(const std::filesystem::path &file, const std::string &processor, int processors) {
  for (const Ceilings &ceilings : read_cache(file))
    if (ceilings.processor == processor && ceilings.processors == processors) return ceilings;
  return std::nullopt;
}

void save_ceilings(const std::filesystem::path &file, const Ceilings &ceilings) {
  Json all = Json::array();
  for (const Ceilings &other : read_cache(file))
    if (other.processor != ceilings.processor || other.processors != ceilings.processors) all.push_back(json_of(other));
  all.push_back(json_of(ceilings));
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  write_whole(file.string(), dump(all, 2) + "\n");
}

std::string info_json(const Info &info) {
  Json devices = Json::array(), backends = Json::array(), ceilings = Json::array();
  for (const Ceilings &of_device : info.ceilings) ceilings.push_back(json_of(of_device));
  for (const DeviceInfo &device : info.devices)
    devices.push_back({{"name", device.name},
                       {"model", device.model},
                       {"description", device.description},
                       {"memory_bytes", device.memory_bytes},
                       {"compute_units", device.compute_units},
                       {"compute_capability", device.compute_capability},
                       {"clock_mhz", device.clock_mhz}});
  for (const BackendInfo &backend : info.backends)
    backends.push_back({{"name", backend.name},
                        {"available", backend.available},
                        {"reason", backend.reason},
                        {"version", backend.version},
                        {"abi_minor", backend.abi_minor},
                        {"device_kind", backend.device_kind},
                        {"path", backend.path},
                        {"kernels", backend.kernels}});
  const Json json = {{"library_version", info.library_version},
                     {"bench_version", info.bench_version},
                     {"abi_minor", info.abi_minor},
                     {"search_path", info.search_path},
                     {"devices", devices},
                     {"backends", backends},
                     {"ceilings_file", info.ceilings_file},
                     {"ceilings", ceilings}};
  return dump(json, 2) + "\n";
}

std::string explanation_json(const std::string &token, const std::string &device, const std::string &text,
                             const std::vector<Candidate> &candidates) {
  Json list = Json::array();
  for (const Candidate &candidate : candidates) {
    list.push_back({{"kernel", candidate.kernel},
                    {"accepted", candidate.accepted},
                    {"chosen", candidate.chosen},
                    {"fallback", candidate.fallback},
                    {"reason", candidate.reason},
                    {"estimate_us", candidate.accepted ? Json(candidate.estimate_us) : Json(nullptr)},
                    {"workspace_bytes", candidate.accepted ? Json(candidate.workspace_bytes) : Json(nullptr)},
                    {"measured", candidate.measured}});
    if (!candidate.grouping.empty())
      list.back().update({{"grouping", candidate.grouping},
                          {"note", candidate.note},
                          {"saved_bytes", candidate.saved_bytes},
                          {"recomputed_outputs", candidate.recomputed_outputs},
                          {"blocks", candidate.blocks},
                          {"threads", candidate.threads},
                          {"shared_bytes", candidate.shared_bytes},
                          {"occupancy", candidate.occupancy}});
  }
  return dump({{"problem", token}, {"device", device}, {"text", text}, {"candidates", list}}, 2) + "\n";
}

} // namespace polyconv::bench

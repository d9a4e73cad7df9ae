// processors_test.cpp - how many threads a plan has where its options name no number: quotas of made-up cgroups,
// OMP_NUM_THREADS, affinity. What reads them is internal, so its source is compiled in here.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../../lib/os/processors.cpp"

namespace {

namespace fs = std::filesystem;

// What the library's operating-system layer would answer.
int allowed = 8;
std::string omp_num_threads;

// A root folder with the files of one process's control groups.
class Root {
 public:
  Root() {
    char name[] = "/tmp/polyconv_root_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~Root() { fs::remove_all(path_); }
  Root(const Root &) = delete;
  Root &operator=(const Root &) = delete;

  Root &file(const std::string &name, const std::string &text) {
    fs::create_directories(fs::path(path_ + name).parent_path());
    std::ofstream(path_ + name) << text << "\n";
    return *this;
  }
  int32_t processors() const { return polyconv::processors_of_quota(path_); }

 private:
  std::string path_;
};

const char *const kSecond = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";

} // namespace

namespace polyconv::os {
int processors() {
  return allowed;
}
std::string environment(const char *) {
  return omp_num_threads;
}
} // namespace polyconv::os

TEST_CASE("without control groups, or without a quota, nothing limits") {
  CHECK(Root().processors() == 0);
  Root root;
  root.file("/proc/self/cgroup", "0::/user.slice").file("/proc/self/mountinfo", kSecond);
  CHECK(root.processors() == 0);
  root.file("/sys/fs/cgroup/user.slice/cpu.max", "max 100000");
  CHECK(root.processors() == 0);
  root.file("/sys/fs/cgroup/user.slice/cpu.max", "nonsense");
  CHECK(root.processors() == 0);
}

TEST_CASE("quotas of version 2: rounded up, the least of the group and its parents") {
  Root root;
  root.file("/proc/self/cgroup", "0::/a.slice/b.scope").file("/proc/self/mountinfo", kSecond);
  root.file("/sys/fs/cgroup/a.slice/b.scope/cpu.max", "350000 100000");
  CHECK(root.processors() == 4);
  root.file("/sys/fs/cgroup/a.slice/cpu.max", "200000 100000");
  CHECK(root.processors() == 2);
  root.file("/sys/fs/cgroup/a.slice/b.scope/cpu.max", "10000 100000");
  CHECK(root.processors() == 1);
}

TEST_CASE("quotas inside a container: the mount's own folder is the group's") {
  for (const char *group : {"0::/", "0::/../outside", "0::/docker/1f"}) {
    Root root;
    root.file("/proc/self/cgroup", group).file("/proc/self/mountinfo", kSecond);
    root.file("/sys/fs/cgroup/cpu.max", "150000 100000");
    CHECK_MESSAGE(root.processors() == 2, std::string(group));
  }
}

TEST_CASE("quotas of version 1: the hierarchy that has the controller cpu, mounted anywhere") {
  Root root;
  root.file("/proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/docker/1f\n2:memory:/docker/1f\n0::/");
  root.file("/proc/self/mountinfo",
            "31 30 0:27 /docker/1f /sys/fs/cg\\040roup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
            "32 30 0:28 / /sys/fs/cg\\040roup/cpuset rw - cgroup cgroup rw,cpuset");
  root.file("/sys/fs/cg roup/cpu/cpu.cfs_quota_us", "-1").file("/sys/fs/cg roup/cpu/cpu.cfs_period_us", "100000");
  CHECK(root.processors() == 0);
  root.file("/sys/fs/cg roup/cpu/cpu.cfs_quota_us", "300000");
  CHECK(root.processors() == 3);
}

TEST_CASE("OMP_NUM_THREADS: the first number of its list") {
  const std::pair<const char *, int32_t> cases[] = {{"", 0},
                                                    {"1", 1},
                                                    {"4", 4},
                                                    {"4,2", 4},
                                                    {" 3 ", 3},
                                                    {"0", 0},
                                                    {"-2", 0},
                                                    {"two", 0},
                                                    {"2two", 0},
                                                    {",2", 0},
                                                    {"+5", 5},
                                                    {"7 ,1", 7},
                                                    {"9999999999999999", 1024}};
  for (const auto &one : cases) CHECK_MESSAGE(polyconv::first_of_list(one.first) == one.second, std::string(one.first));
}

TEST_CASE("affinity and OMP_NUM_THREADS limit a plan's threads, the lesser of them") {
  omp_num_threads = "3"; // read once a process, here and in the library: no plan was made before
  CHECK(polyconv::default_threads() <= 3);
  allowed = 1;
  CHECK(polyconv::default_threads() == 1);

  REQUIRE(setenv("OMP_NUM_THREADS", "1", 1) == 0);
  const auto planned = [](int32_t threads) {
    polyconv_problem problem;
    REQUIRE(polyconv_problem_parse("fwd:c8,k8,i32x32,f3x3", &problem) == POLYCONV_SUCCESS);
    polyconv_options options;
    polyconv_options_init(&options);
    options.threads = threads;
    polyconv_plan *plan = nullptr;
    REQUIRE(polyconv_plan_create(nullptr, &problem, 1, &options, &plan) == POLYCONV_SUCCESS);
    polyconv_plan_info info = {};
    info.struct_size = sizeof info;
    CHECK(polyconv_plan_get_info(plan, &info) == POLYCONV_SUCCESS);
    polyconv_plan_destroy(plan);
    return info.threads;
  };
  CHECK(planned(0) == 1);
  CHECK(planned(5) == 5); // the caller's own number stands
}

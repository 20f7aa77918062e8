#include "memory/limit.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "../folder.h"

namespace kvc::memory {
namespace {

/// A machine in a temporary folder.
class Machine {
 public:
  Machine &file(const std::string &path, const std::string &text) {
    std::filesystem::create_directories(std::filesystem::path(at(path)).parent_path());
    std::ofstream(at(path)) << text;
    return *this;
  }
  uint64_t limit() const { return cgroup_limit_bytes(root_.path().c_str()); }

 private:
  std::string at(const std::string &path) const { return root_.path().string() + path; }

  kvc_test::Folder root_;
};

const char *const kV2Mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const char *const kV1Mount =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

TEST(Limit, WithoutCgroupsThereIsNone) { EXPECT_EQ(Machine().limit(), UINT64_MAX); }

TEST(Limit, TheLeastOfAGroupAndThoseAboveItCounts) {
  Machine machine;
  machine.file("/proc/self/cgroup", "0::/a/b/c\n").file("/proc/self/mountinfo", kV2Mount);
  machine.file("/sys/fs/cgroup/a/b/c/memory.max", "3000000\n").file("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(machine.limit(), 3000000u);
  machine.file("/sys/fs/cgroup/a/memory.max", "2000000\n");
  EXPECT_EQ(machine.limit(), 2000000u);
}

TEST(Limit, TheRootOfTheMountCountsAsInAContainer) {
  Machine machine;
  machine.file("/proc/self/cgroup", "0::/\n").file("/proc/self/mountinfo", kV2Mount);
  EXPECT_EQ(machine.limit(), UINT64_MAX);
  machine.file("/sys/fs/cgroup/memory.max", "5000\n");
  EXPECT_EQ(machine.limit(), 5000u);
}

TEST(Limit, Version1IsReadFromTheMemoryHierarchyAlone) {
  Machine machine;
  machine.file("/proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/g\n1:name=systemd:/\n0::/\n").file("/proc/self/mountinfo", kV1Mount);
  machine.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  machine.file("/sys/fs/cgroup/cpu/x/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(machine.limit(), 9223372036854771712u);
  machine.file("/sys/fs/cgroup/memory/g/memory.limit_in_bytes", "7000\n");
  EXPECT_EQ(machine.limit(), 7000u);
}

TEST(Limit, AContainerThatSeesTheHostsPathFindsItsOwnGroupAtTheMount) {
  Machine machine;
  machine.file("/proc/self/cgroup", "3:memory:/docker/1234/inner\n");
  machine.file("/proc/self/mountinfo", "35 31 0:32 /docker/1234 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  machine.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "8000\n");
  EXPECT_EQ(machine.limit(), 8000u);
  machine.file("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "5000\n");
  EXPECT_EQ(machine.limit(), 5000u);
}

TEST(Limit, OfBothVersionsTheLesserCounts) {
  Machine machine;
  machine.file("/proc/self/cgroup", "3:memory:/g\n0::/h\n");
  machine.file("/proc/self/mountinfo", std::string(kV1Mount) + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  machine.file("/sys/fs/cgroup/memory/g/memory.limit_in_bytes", "7000\n").file("/sys/fs/cgroup/unified/h/memory.max", "6000\n");
  EXPECT_EQ(machine.limit(), 6000u);
}

TEST(Limit, GarbageLimitsNothing) {
  Machine machine;
  machine.file("/proc/self/cgroup", "nonsense\n\n:\n0::/g\n").file("/proc/self/mountinfo", std::string("x - y\n\n") + kV2Mount);
  machine.file("/sys/fs/cgroup/g/memory.max", "lots\n");
  EXPECT_EQ(machine.limit(), UINT64_MAX);
}

TEST(Limit, TheDefaultIsAtMostAQuarterOfTheMachine) {
  const uint64_t machine = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_GT(default_memory_bytes(), 0u);
  EXPECT_LE(default_memory_bytes(), machine / 4);
}

}  // namespace
}  // namespace kvc::memory

#include "memory/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/fault.h"
#include "mapping.h"

namespace kvc::memory {
namespace {

constexpr uint64_t kHuge = uint64_t{2} << 20;

uint64_t resident_pages(const Arena &arena) {
  std::vector<unsigned char> pages(arena.bytes() / 4096);
  EXPECT_EQ(mincore(arena.data(), arena.bytes(), pages.data()), 0);
  uint64_t count = 0;
  for (const unsigned char page : pages) count += page & 1;
  return count;
}

TEST(Arena, IsRoundedUpAndAlignedToHugePagesAndReadsAsZero) {
  for (const uint64_t bytes : {uint64_t{1}, kHuge, kHuge + 1, 5 * kHuge}) {
    Arena arena;
    base::Error error;
    ASSERT_EQ(arena.open({.bytes = bytes}, error), KVC_OK) << error.message;
    EXPECT_EQ(arena.bytes(), (bytes + kHuge - 1) / kHuge * kHuge);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % kHuge, 0u);
    EXPECT_EQ(arena.data()[0], 0);
    EXPECT_EQ(arena.data()[arena.bytes() - 1], 0);
  }
}

TEST(Arena, RefusesNoBytesAndMoreThanItCanNumber) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 44, UINT64_MAX}) {
    Arena arena;
    base::Error error;
    EXPECT_EQ(arena.open({.bytes = bytes}, error), KVC_ERR_ARGUMENT);
    EXPECT_NE(std::string(error.message).find(std::to_string(bytes)), std::string::npos) << error.message;
    EXPECT_EQ(arena.data(), nullptr);
  }
}

TEST(Arena, B132IsTouchedOnUseUnlessAskedToPopulate) {
  base::Error error;
  Arena lazy;
  ASSERT_EQ(lazy.open({.bytes = 4 * kHuge}, error), KVC_OK);
  EXPECT_EQ(resident_pages(lazy), 0u);
  Arena touched;
  ASSERT_EQ(touched.open({.bytes = 4 * kHuge, .populate = true}, error), KVC_OK) << error.message;
  EXPECT_EQ(resident_pages(touched), 4 * kHuge / 4096);
}

TEST(Arena, IsLeftOutOfChildrenAndCoreDumps) {
  base::Error error;
  Arena arena;
  ASSERT_EQ(arena.open({.bytes = kHuge}, error), KVC_OK);
  const std::string flags = mapping_flags(arena.data());
  EXPECT_NE(flags.find(" dc "), std::string::npos) << flags;
  EXPECT_NE(flags.find(" dd "), std::string::npos) << flags;
  const char secret[] = "not for children";
  memcpy(arena.data(), secret, sizeof secret);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // The kernel reads the address, so that a hole is an errno.  A run-time that maps something of its own into the hole is no leak.
    char seen[sizeof secret] = {};
    const bool mapped = write(ends[1], arena.data(), sizeof secret) == sizeof secret && read(ends[0], seen, sizeof seen) == sizeof seen;
    _exit(mapped && memcmp(seen, secret, sizeof secret) == 0 ? 1 : 0);
  }
  close(ends[0]);
  close(ends[1]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child sees the arena";
}

TEST(Arena, IsUnmappedWhenItEnds) {
  void *address = nullptr;
  {
    base::Error error;
    Arena arena;
    ASSERT_EQ(arena.open({.bytes = kHuge}, error), KVC_OK);
    address = arena.data();
  }
  unsigned char page = 0;
  EXPECT_TRUE(mincore(address, 4096, &page) == -1 && errno == ENOMEM);
}

#ifdef KVC_FAULTS
TEST(Arena, WhatTheSystemRefusesIsNoMemoryWithTheBytesAndTheErrno) {
  base::Error error;
  Arena arena;
  ASSERT_TRUE(base::fault_arm("memory.arena.map", 1, 1));
  EXPECT_EQ(arena.open({.bytes = kHuge}, error), KVC_ERR_NO_MEMORY);
  base::fault_disarm_all();
  EXPECT_EQ(error.system_error, ENOMEM);
  EXPECT_STREQ(error.message, "memory_bytes 2097152 cannot be reserved: Cannot allocate memory");
  EXPECT_EQ(arena.open({.bytes = kHuge}, error), KVC_OK) << "and can be opened later";
}
#endif

}  // namespace
}  // namespace kvc::memory

#include "memory/resource.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <memory_resource>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "base/fault.h"
#include "mapping.h"

namespace kvc::memory {
namespace {

TEST(Resource, CountsTheBytesAsked) {
  Resource resource;
  void *a = resource.allocate(100, 8);
  EXPECT_EQ(resource.used_bytes(), 100u);
  void *b = resource.allocate(1, 1);
  EXPECT_EQ(resource.used_bytes(), 101u);
  resource.deallocate(a, 100, 8);
  EXPECT_EQ(resource.used_bytes(), 1u);
  resource.deallocate(b, 1, 1);
  EXPECT_EQ(resource.used_bytes(), 0u);
}

TEST(Resource, GivesEveryAlignmentAskedForAndToleratesZeroBytes) {
  Resource resource;
  for (size_t alignment = 1; alignment <= 65536; alignment *= 2) {
    for (size_t bytes : {size_t{0}, size_t{1}, alignment, 3 * alignment + 1}) {
      void *p = resource.allocate(bytes, alignment);
      ASSERT_NE(p, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % alignment, 0u);
      resource.deallocate(p, bytes, alignment);
    }
  }
}

TEST(Resource, RefusesTheFirstByteOverTheLimitAndChangesNothing) {
  volatile size_t most = SIZE_MAX;  // hidden from the compiler, which would warn of the call
  const size_t too_many = most;
  Resource resource(1000);
  void *a = resource.allocate(600, 8);
  EXPECT_THROW((void)resource.allocate(401, 8), std::bad_alloc);
  EXPECT_THROW((void)resource.allocate(too_many, 8), std::bad_alloc) << "used + bytes wraps around";
  EXPECT_EQ(resource.used_bytes(), 600u);
  void *b = resource.allocate(400, 8);
  EXPECT_THROW((void)resource.allocate(1, 1), std::bad_alloc);
  resource.deallocate(a, 600, 8);
  resource.deallocate(b, 400, 8);
  EXPECT_EQ(resource.used_bytes(), 0u);
}

TEST(Resource, WhatTheSystemRefusesIsNotCounted) {
  Resource resource;
  EXPECT_THROW((void)resource.allocate(size_t{1} << 62, 8), std::bad_alloc);
  EXPECT_EQ(resource.used_bytes(), 0u);
}

TEST(Resource, LargeBlocksAreCountedLimitedAndWritableToTheLastByte) {
  constexpr size_t kHuge = size_t{2} << 20;
  Resource resource(5 * kHuge);
  for (const size_t bytes : {kHuge - 1, kHuge, kHuge + 1, 4 * kHuge}) {
    for (const size_t alignment : {size_t{1}, size_t{64}, 2 * kHuge}) {
      void *p = resource.allocate(bytes, alignment);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % alignment, 0u);
      EXPECT_EQ(resource.used_bytes(), bytes);
      memset(p, 0xA5, bytes);
      EXPECT_THROW((void)resource.allocate(5 * kHuge - bytes + 1, alignment), std::bad_alloc);
      resource.deallocate(p, bytes, alignment);
      EXPECT_EQ(resource.used_bytes(), 0u);
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // there all blocks are the sanitizer's
TEST(Resource, BlocksFrom2MebibytesOnLieInHugePagesAndGoBackToTheSystem) {
  constexpr size_t kHuge = size_t{2} << 20;
  Resource resource;
  for (const size_t bytes : {kHuge, kHuge + 1, 3 * kHuge}) {
    void *p = resource.allocate(bytes, 8);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % kHuge, 0u);
    const std::string flags = mapping_flags(p);
    EXPECT_NE(flags.find(" hg "), std::string::npos) << flags;
    auto *last_page = static_cast<uint8_t *>(p) + (bytes - 1) / 4096 * 4096;
    resource.deallocate(p, bytes, 8);
    unsigned char page = 0;
    EXPECT_TRUE(mincore(p, 4096, &page) == -1 && errno == ENOMEM);
    EXPECT_TRUE(mincore(last_page, 4096, &page) == -1 && errno == ENOMEM);
  }
}
#endif

TEST(Resource, ServesStandardContainers) {
  Resource resource;
  {
    std::pmr::vector<uint64_t> numbers(1000, 7, &resource);
    EXPECT_GE(resource.used_bytes(), 8000u);
  }
  EXPECT_EQ(resource.used_bytes(), 0u);
  Resource other;
  EXPECT_TRUE(resource.is_equal(resource));
  EXPECT_FALSE(resource.is_equal(other));
}

TEST(Resource, ThreadsTogetherNeverPassTheLimitAndLeaveNothing) {
  constexpr uint64_t kLimit = 10000;
  Resource resource(kLimit);
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 5000; ++i) {
        const size_t bytes = random() % 3000 + 1;
        try {
          void *p = resource.allocate(bytes, 16);
          if (resource.used_bytes() > kLimit) over = true;
          resource.deallocate(p, bytes, 16);
        } catch (const std::bad_alloc &) {
          continue;
        }
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_FALSE(over);
  EXPECT_EQ(resource.used_bytes(), 0u);
}

#ifdef KVC_FAULTS
TEST(Resource, ItsFaultPointThrowsBadAlloc) {
  Resource resource;
  ASSERT_TRUE(base::fault_arm("memory.resource.allocate", 1, 1));
  EXPECT_THROW((void)resource.allocate(1, 1), std::bad_alloc);
  base::fault_disarm_all();
  EXPECT_EQ(resource.used_bytes(), 0u);
  resource.deallocate(resource.allocate(1, 1), 1, 1);
}
#endif

}  // namespace
}  // namespace kvc::memory

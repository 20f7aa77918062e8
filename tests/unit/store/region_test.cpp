#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "stamped_store.h"

/// Memory that a host registers.
namespace {

using namespace kvc_test;
using RegionHandle = Handle<kvc_region, kvc_region_release>;

struct RegionTest : StampedStore {
  std::vector<char> memory = std::vector<char>(4096);

  void SetUp() override { open(); }
  kvc_status add(RegionHandle &out, uint64_t begin, uint64_t bytes, uint32_t kind = KVC_MEMORY_HOST) {
    auto *made = reinterpret_cast<kvc_region *>(7);
    const kvc_status status = kvc_region_register(&made, store, memory.data() + begin, bytes, kind, 0, &error);
    if (status != KVC_OK) {
      EXPECT_EQ(made, nullptr);
    }
    out = RegionHandle(status == KVC_OK ? made : nullptr);
    return status;
  }
};

TEST_F(RegionTest, regions_are_counted_and_may_touch_but_not_overlap) {
  RegionHandle middle, before, after, refused;
  ASSERT_EQ(add(middle, 1000, 1000), KVC_OK) << error.message;
  ASSERT_EQ(add(before, 0, 1000), KVC_OK) << error.message;
  ASSERT_EQ(add(after, 2000, 1), KVC_OK) << error.message;
  EXPECT_EQ(info().region_count, 3u);
  const std::pair<uint64_t, uint64_t> over[] = {{1000, 1000}, {999, 2}, {1999, 1}, {1200, 10}, {0, 4096}, {2000, 1}};
  for (const auto &[begin, bytes] : over) expect_refused(add(refused, begin, bytes), KVC_ERR_ARGUMENT, {"overlaps", "is held"});
  EXPECT_EQ(info().region_count, 3u);
  middle.reset();
  ASSERT_EQ(add(refused, 1200, 10), KVC_OK) << error.message;
  ASSERT_EQ(add(middle, 1210, 790), KVC_OK) << error.message;
}

TEST_F(RegionTest, a_store_is_not_closed_while_regions_are_held_and_says_how_many) {
  RegionHandle a, b;
  ASSERT_EQ(add(a, 0, 10), KVC_OK) << error.message;
  ASSERT_EQ(add(b, 10, 10), KVC_OK) << error.message;
  expect_refused(kvc_close(store, &error), KVC_ERR_BUSY, {"0 views", "2 regions"});
  a.reset();
  expect_refused(kvc_close(store, &error), KVC_ERR_BUSY, {"1 region are"});
  b.reset(), scope.reset();
  EXPECT_EQ(kvc_close(store.release(), &error), KVC_OK) << error.message;
}

TEST_F(RegionTest, what_is_refused_names_the_value) {
  RegionHandle out;
  expect_refused(kvc_region_register(nullptr, store, memory.data(), 1, 0, 0, &error), KVC_ERR_ARGUMENT, {"out is NULL"});
  expect_refused(add(out, 0, 0), KVC_ERR_ARGUMENT, {"data_size 0"});
  expect_refused(add(out, 0, SIZE_MAX), KVC_ERR_ARGUMENT, {"data_size 18446744073709551615", "end of memory"});
  kvc_region *none = nullptr;
  expect_refused(kvc_region_register(&none, store, nullptr, 8, 0, 0, &error), KVC_ERR_ARGUMENT, {"data is NULL"});
  for (const uint32_t kind : {KVC_MEMORY_CUDA, KVC_MEMORY_CUDA_HOST, KVC_MEMORY_CUDA_MANAGED}) {
    const std::string word = "memory " + std::to_string(kind);
    expect_refused(add(out, 0, 8, kind), KVC_ERR_UNSUPPORTED, {word.c_str()});
  }
  expect_refused(add(out, 0, 8, 4), KVC_ERR_ARGUMENT, {"memory 4"});
  EXPECT_EQ(info().region_count, 0u);
}

#ifdef KVC_FAULTS
TEST_F(RegionTest, refused_memory_registers_nothing) {
  for (uint64_t nth = 1;; nth++) {
    ASSERT_LT(nth, 20u);
    RegionHandle out;
    ASSERT_TRUE(kvc::base::fault_arm("memory.resource.allocate", nth, 1));
    const kvc_status status = add(out, 0, 8);
    kvc::base::fault_disarm_all();
    if (status == KVC_OK) {
      EXPECT_GT(nth, 2u);
      break;
    }
    EXPECT_EQ(status, KVC_ERR_NO_MEMORY);
    EXPECT_EQ(info().region_count, 0u);
  }
}
#endif

TEST_F(RegionTest, a_second_release_is_stale_and_a_child_can_do_none_of_it) {
  RegionHandle out;
  ASSERT_EQ(add(out, 0, 8), KVC_OK) << error.message;
  const pid_t pid = ::fork();
  if (pid == 0) {
    kvc_region *made = nullptr;
    _exit(kvc_region_release(out, nullptr) == KVC_ERR_FORKED && kvc_region_register(&made, store, memory.data() + 100, 8, 0, 0, nullptr) == KVC_ERR_FORKED ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  kvc_region *region = out.release();
  ASSERT_EQ(kvc_region_release(region, &error), KVC_OK) << error.message;
  expect_refused(kvc_region_release(region, &error), KVC_ERR_STALE, {"kvc_region", "released"});
}

}  // namespace

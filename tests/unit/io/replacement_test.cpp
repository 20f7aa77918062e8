#include "io/replacement.h"

#include <gtest/gtest.h>

#include <string>

#include "faulty_files.h"
#include "memory_files.h"

/// Whole or not at all, whatever goes wrong at whatever call.
namespace {

using namespace kvc_test;
using kvc::base::Error;
using kvc::io::Replacement;
using How = FaultyFiles::How;

const std::string kOld = "the old file", kNew = "the new one, in two pieces";

kvc_status replace(kvc::io::FileSystem &files, Error &error) {
  Replacement file(files, "disk/a");
  KVC_TRY(file.begin(kNew.size(), error));
  std::string text = kNew;
  for (const size_t at : {size_t{10}, size_t{0}}) {  // in any order
    iovec pieces[] = {{text.data() + at, 4}, {text.data() + at + 4, at ? text.size() - 14 : 6}};
    KVC_TRY(file.write_at(pieces, at, error));
  }
  return file.commit(error);
}

struct Case {
  bool has_old, exchanges;
};

struct ReplacementTest : testing::TestWithParam<Case> {
  std::map<std::string, std::string> before() const { return GetParam().has_old ? std::map<std::string, std::string>{{"a", kOld}} : std::map<std::string, std::string>{}; }
  void prepare(MemoryFiles &disk) const {
    disk.exchanges = GetParam().exchanges;
    if (GetParam().has_old) disk.put("a", kOld);
  }
  uint64_t calls() const {
    MemoryFiles disk;
    prepare(disk);
    FaultyFiles files(disk);
    Error error;
    EXPECT_EQ(replace(files, error), KVC_OK) << error.message;
    EXPECT_EQ(disk.all(), (std::map<std::string, std::string>{{"a", kNew}}));
    return files.calls();
  }
};

TEST_P(ReplacementTest, a_call_that_fails_once_leaves_what_was_there_or_is_of_no_matter) {
  uint64_t failures = 0;
  for (const How how : {How::error, How::torn})
    for (const int failure : {EIO, ENOSPC, EDQUOT})
      for (uint64_t nth = 1; nth <= calls(); nth++) {
        MemoryFiles disk;
        prepare(disk);
        FaultyFiles files(disk);
        files.arm(nth, how, failure);
        Error error;
        const kvc_status status = replace(files, error);
        const std::string where = "call " + std::to_string(nth) + ", errno " + std::to_string(failure);
        EXPECT_TRUE(files.has_fired()) << where;
        EXPECT_EQ(disk.open_count(), 0u) << where;
        if (status == KVC_OK) {
          EXPECT_EQ(disk.content("a"), kNew) << where;
          continue;
        }
        failures++;
        EXPECT_EQ(status, KVC_ERR_IO) << where;
        EXPECT_EQ(error.system_error, failure) << where;
        if (std::string(error.message).find("may not survive") != std::string::npos) {  // no exchange, and the name could not be synced
          EXPECT_FALSE(GetParam().exchanges) << where;
          EXPECT_EQ(disk.all(), (std::map<std::string, std::string>{{"a", kNew}})) << where;
        } else {
          EXPECT_EQ(disk.all(), before()) << where << ": " << error.message;
        }
      }
  EXPECT_GE(failures, 6u * 8u);
}

TEST_P(ReplacementTest, a_disk_that_fails_for_good_keeps_what_was_there) {
  for (uint64_t nth = 1; nth <= calls(); nth++) {
    MemoryFiles disk;
    prepare(disk);
    FaultyFiles files(disk);
    files.arm(nth, How::error, EIO, true);
    Error error;
    const kvc_status status = replace(files, error);
    const std::string now = disk.content("a");
    if (status == KVC_OK || std::string(error.message).find("may not survive") != std::string::npos) EXPECT_EQ(now, kNew) << "call " << nth;
    else EXPECT_EQ(now, GetParam().has_old ? kOld : "(absent)") << "call " << nth << ": " << error.message;
  }
}

TEST_P(ReplacementTest, a_crash_at_any_call_leaves_the_old_file_or_the_new_one_whole) {
  const uint64_t all = calls();
  for (const bool bytes_survive : {false, true})
    for (const bool names_survive : {false, true})
      for (uint64_t nth = 1; nth <= all + 1; nth++) {
        MemoryFiles disk;
        prepare(disk);
        FaultyFiles files(disk);
        files.arm(nth, How::plug);
        Error error;
        const kvc_status status = replace(files, error);
        disk.pull_plug(bytes_survive, names_survive);
        const std::string now = disk.content("a"), where = "call " + std::to_string(nth);
        if (status == KVC_OK) EXPECT_EQ(now, kNew) << where;
        else EXPECT_TRUE(now == kNew || now == (GetParam().has_old ? kOld : "(absent)")) << where << ": " << now;
      }
}

TEST_P(ReplacementTest, no_room_is_found_before_anything_is_written) {
  MemoryFiles disk;
  prepare(disk);
  disk.capacity = kOld.size() + kNew.size() - 1;
  FaultyFiles files(disk);
  Error error;
  if (!GetParam().has_old) disk.capacity -= kOld.size();
  EXPECT_EQ(replace(files, error), KVC_ERR_IO);
  EXPECT_EQ(error.system_error, ENOSPC);
  EXPECT_EQ(disk.all(), before());
}

TEST(Replacement, what_is_no_file_is_not_replaced) {
  MemoryFiles disk;
  disk.other_in_the_way = true;
  Error error;
  EXPECT_EQ(replace(disk, error), KVC_ERR_ARGUMENT);
  EXPECT_TRUE(disk.all().empty());
}

INSTANTIATE_TEST_SUITE_P(, ReplacementTest, testing::Values(Case{true, true}, Case{false, true}, Case{true, false}, Case{false, false}),
                         [](const auto &one) { return std::string(one.param.has_old ? "old" : "none") + (one.param.exchanges ? "" : "_without_exchange"); });

}  // namespace

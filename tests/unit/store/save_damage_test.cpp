#include <algorithm>

#include "kernels/rows.h"
#include "saved.h"

/// Files that are damaged, forged, of another version, or on a disk that fails: an error, and nothing has changed.
namespace {

using namespace kvc_test;
using How = FaultyFiles::How;

/// Writes over a member of the header, or of the table, and makes the sums right again.
struct Forgery {
  std::string file;
  explicit Forgery(std::string from) : file(std::move(from)) {}
  template <typename T>
  Forgery &set(size_t at, T value) {
    std::memcpy(file.data() + at, &value, sizeof value);
    return *this;
  }
  uint64_t u64(size_t at) const {
    uint64_t value;
    std::memcpy(&value, file.data() + at, sizeof value);
    return value;
  }
  std::string with_sums(bool table = true) {
    set(504, kvc::kernels::table().sum(file.data(), 504));
    const uint64_t end = u64(24);
    if (table && end <= file.size()) set(file.size() - 16, kvc::kernels::table().sum(file.data(), end));
    return file;
  }
};

struct SaveDamageTest : testing::Test {
  MemoryFiles disk;
  FaultyFiles files{disk};
  Saved here{files};
  SeqHandle seq = here.create();
  std::string good;
  std::vector<int32_t> prompt = ids(20);

  SaveDamageTest() {
    const kvc_extra extra{3, 20, "image", 5};
    EXPECT_EQ(kvc_seq_identify(seq, &extra, 1, &here.error), KVC_OK);
    EXPECT_EQ(here.append(seq, prompt, 0, 20), KVC_OK) << here.error.message;
    EXPECT_EQ(here.save(seq), KVC_OK) << here.error.message;
    good = disk.content("a");
  }
  kvc_status restored(Saved &there, const std::string &file) {
    disk.put("a", file);
    SeqHandle back;
    const kvc_status status = there.restore(back);
    EXPECT_EQ(status == KVC_OK, static_cast<kvc_seq *>(back) != nullptr);
    return status;
  }
};

TEST_F(SaveDamageTest, a_file_cut_short_anywhere_is_corrupt_and_so_is_one_that_goes_on) {
  Saved there(disk);
  const auto before = there.counts();
  for (size_t bytes = 0; bytes < good.size(); bytes++) ASSERT_EQ(restored(there, good.substr(0, bytes)), KVC_ERR_CORRUPT) << bytes << ": " << there.error.message;
  for (const size_t more : {1, 16, 4096}) EXPECT_EQ(restored(there, good + std::string(more, 0)), KVC_ERR_CORRUPT) << more;
  EXPECT_EQ(there.counts(), before);
  EXPECT_EQ(restored(there, good), KVC_OK) << there.error.message;
}

TEST_F(SaveDamageTest, a_byte_that_is_not_what_it_was_anywhere_is_an_error_and_changes_nothing) {
  Saved there(disk);
  const auto before = there.counts();
  for (size_t at = 0; at < good.size(); at++) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (at % 3 ? 1 << at % 8 : 0xFF));
    const kvc_status status = restored(there, bad);
    ASSERT_TRUE(status == KVC_ERR_CORRUPT || status == KVC_ERR_VERSION) << at << ": " << kvc_status_name(status) << ": " << there.error.message;
    if (at % 61 == 0) {
      ASSERT_EQ(there.counts(), before) << at;
    }
  }
  EXPECT_EQ(there.counts(), before);
  EXPECT_EQ(there.match_length(prompt), 0u);
}

TEST_F(SaveDamageTest, foreign_files_are_corrupt_and_sequences_that_are_there_read_on_unchanged) {
  Saved there(disk);
  SeqHandle mine = there.create();
  ASSERT_EQ(there.append(mine, prompt, 0, 20), KVC_OK) << there.error.message;
  const auto before = there.counts();
  std::string other(5000, 0), turned = good;
  for (size_t i = 0; i < other.size(); i++) other[i] = static_cast<char>(i * 131 ^ i >> 5);
  std::reverse(turned.begin(), turned.end());
  const std::string foreign[] = {"", "x", std::string(512, 0), std::string(1 << 20, 0), std::string(600, '\xFF'), "{\"tokens\": [1, 2]}", "GGUF" + other, other, turned, good.substr(1), "\n" + good, good + good};
  for (const std::string &file : foreign) {
    const kvc_status status = restored(there, file);
    ASSERT_EQ(status, KVC_ERR_CORRUPT) << file.size() << " bytes: " << there.error.message;
    ASSERT_EQ(there.counts(), before) << file.size() << " bytes";
  }
  EXPECT_EQ(there.match_length(prompt), 16u);
  EXPECT_EQ(there.append(mine, ids(12, 3), 20, 32), KVC_OK) << there.error.message;
  EXPECT_EQ(kvc_store_verify(nullptr, there.store, nullptr, &there.error), KVC_OK) << there.error.message;
}

TEST_F(SaveDamageTest, B79_another_version_is_named_whatever_else_the_file_says_and_nothing_of_it_is_used) {
  Saved there(disk);
  const auto before = there.counts();
  for (const uint32_t version : {0u, 4u, 1u << 24, UINT32_MAX})  // the third: 1, by a machine of the other byte order
    for (const bool sums_are_right : {true, false}) {
      Forgery forged(good);
      forged.set(8, version);
      EXPECT_EQ(restored(there, sums_are_right ? forged.with_sums() : forged.file), KVC_ERR_VERSION) << version;
      EXPECT_NE(there.error.text().find("version " + std::to_string(version)), std::string::npos) << there.error.message;
      EXPECT_NE(there.error.text().find("reads 1 to 3"), std::string::npos) << there.error.message;
    }
  EXPECT_EQ(there.counts(), before);
  EXPECT_EQ(there.match_length(prompt), 0u);
}

TEST_F(SaveDamageTest, B72_counts_that_are_not_true_are_refused_before_anything_is_made_for_them) {
  Saved there(disk, {}, "m", SavedModel::runs(), 16u << 20);
  const auto before = there.counts();
  for (const size_t at : {16, 24, 104, 112, 136, 144})  // file bytes, table end, length, ids, extras, chunks
    for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 20, uint64_t{1} << 40, UINT64_MAX / 88, UINT64_MAX / 4, UINT64_MAX}) {
      Forgery forgery(good);
      if (forgery.u64(at) == value) continue;
      ASSERT_EQ(restored(there, forgery.set(at, value).with_sums()), KVC_ERR_CORRUPT) << at << ", " << value << ": " << there.error.message;
    }
  for (const size_t at : {96, 100, 152, 156, 160, 164})  // flags, layers, dtype, chunk_tokens, rope, runs
    for (const uint32_t value : {0u, 7u, 1000u, 65535u, UINT32_MAX}) {
      Forgery forgery(good);
      uint32_t now;
      std::memcpy(&now, good.data() + at, 4);
      if (now == value) continue;
      ASSERT_EQ(restored(there, forgery.set(at, value).with_sums()), KVC_ERR_CORRUPT) << at << ", " << value << ": " << there.error.message;
    }
  EXPECT_EQ(there.counts(), before);
}

TEST_F(SaveDamageTest, rows_that_would_make_more_pages_than_there_are_bytes_are_refused) {
  const size_t filled_at = 512 + 128;  // behind two runs of 36 bytes
  uint64_t filled;
  std::memcpy(&filled, good.data() + filled_at, 8);
  ASSERT_EQ(filled, 20u);
  for (const uint64_t value : {uint64_t{0}, uint64_t{21}, uint64_t{32}, uint64_t{1} << 40, UINT64_MAX})
    EXPECT_EQ(restored(here, Forgery(good).set(filled_at, value).with_sums()), KVC_ERR_CORRUPT) << value << ": " << here.error.message;
}

TEST_F(SaveDamageTest, ids_extras_and_places_that_do_not_make_the_names_are_corrupt) {
  Saved there(disk);
  const size_t extras_at = 512 + 128 + 64, ids_at = extras_at + 128, chunks_at = ids_at + 128;
  int32_t id;
  std::memcpy(&id, good.data() + ids_at + 4, 4);
  ASSERT_EQ(id, prompt[1]);
  EXPECT_EQ(restored(there, Forgery(good).set(ids_at + 4, id + 1).with_sums()), KVC_ERR_CORRUPT);
  EXPECT_NE(there.error.text().find("name"), std::string::npos) << there.error.message;
  EXPECT_EQ(restored(there, Forgery(good).set(extras_at, uint64_t{4}).with_sums()), KVC_ERR_CORRUPT);      // one token further
  EXPECT_EQ(restored(there, Forgery(good).set(extras_at + 16, uint32_t{65}).with_sums()), KVC_ERR_CORRUPT);  // longer than can be
  EXPECT_EQ(restored(there, Forgery(good).set(120, uint64_t{1}).with_sums()), KVC_ERR_CORRUPT);            // first_position
  EXPECT_EQ(restored(there, Forgery(good).set(chunks_at + 48, uint64_t{8192}).with_sums()), KVC_ERR_CORRUPT);
  EXPECT_EQ(restored(there, Forgery(good).set(chunks_at + 32, uint64_t{1}).with_sums()), KVC_ERR_CORRUPT);  // a write id that the frames do not have
  EXPECT_EQ(there.counts(), Saved(disk).counts());
  EXPECT_EQ(restored(there, Forgery(good).with_sums()), KVC_OK) << there.error.message;
}

TEST_F(SaveDamageTest, a_disk_that_fails_at_any_call_of_a_save_leaves_the_file_that_was_there) {
  ASSERT_EQ(here.append(seq, ids(20, 1), 20, 40), KVC_OK) << here.error.message;
  const uint64_t begin = files.calls();
  ASSERT_EQ(here.save(seq, "disk/new"), KVC_OK) << here.error.message;
  const uint64_t calls = files.calls() - begin + 1;  // and one that takes the old file away
  const std::string wanted = disk.content("new");
  for (const How how : {How::error, How::torn, How::brief, How::signal})
    for (uint64_t nth = 1; nth <= calls; nth++) {
      disk.put("a", good);
      files.arm(nth, how, nth % 2 ? EIO : ENOSPC);
      const size_t entries = disk.all().size();
      const kvc_status status = here.save(seq);
      files.arm(0, how);
      const std::string where = "call " + std::to_string(nth) + ", way " + std::to_string(static_cast<int>(how));
      const bool may_fail = how == How::error || how == How::torn;
      EXPECT_TRUE(status == KVC_OK || (may_fail && status == KVC_ERR_IO)) << where << ": " << here.error.message;
      ASSERT_TRUE(disk.content("a") == (status == KVC_OK ? wanted : good)) << where;
      EXPECT_TRUE(status == KVC_OK || disk.all().size() == entries) << where << ": something is left beside";
      EXPECT_EQ(disk.open_count(), 0u) << where;
    }
}

TEST_F(SaveDamageTest, a_crash_at_any_call_of_a_save_leaves_the_old_file_or_the_new_one_and_either_is_restored) {
  ASSERT_EQ(here.append(seq, ids(20, 1), 20, 40), KVC_OK) << here.error.message;
  const uint64_t begin = files.calls();
  ASSERT_EQ(here.save(seq, "disk/new"), KVC_OK) << here.error.message;
  const uint64_t calls = files.calls() - begin + 2;
  const std::string wanted = disk.content("new");
  for (const bool bytes_survive : {false, true})
    for (const bool names_survive : {false, true})
      for (uint64_t nth = 1; nth <= calls; nth++) {
        disk.put("a", good);
        files.arm(nth, How::plug);
        const kvc_status status = here.save(seq);
        files.arm(0, How::plug);
        disk.pull_plug(bytes_survive, names_survive);
        const std::string now = disk.content("a");
        ASSERT_TRUE(now == wanted || (status != KVC_OK && now == good)) << "call " << nth << ": " << kvc_status_name(status);
      }
}

TEST_F(SaveDamageTest, a_disk_that_fails_at_any_call_of_a_restore_changes_nothing) {
  Saved there(files);
  const auto before = there.counts();
  uint64_t nth = 1;
  for (bool fired = true; fired; nth++) {
    SeqHandle back;
    files.arm(nth, How::error);
    const kvc_status status = there.restore(back);
    fired = files.has_fired();
    files.arm(0, How::error);
    if (status == KVC_OK) continue;  // the close, or nothing
    EXPECT_EQ(status, KVC_ERR_IO) << nth << ": " << there.error.message;
    EXPECT_EQ(there.error.system_error, EIO) << nth;
    EXPECT_EQ(there.counts(), before) << nth;
    EXPECT_EQ(disk.open_count(), 0u) << nth;
  }
  EXPECT_GT(nth, 10u);
  files.arm(1, How::brief, EIO, true);
  SeqHandle back;
  EXPECT_EQ(there.restore(back), KVC_OK) << there.error.message;
}

}  // namespace

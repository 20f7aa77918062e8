#include "base/fault.h"
#include "saved.h"

/// A sequence that was saved comes back as it was, in this store and in others.
namespace {

using namespace kvc_test;

struct SaveTest : testing::Test {
  MemoryFiles disk;
  Saved here{disk};
  std::vector<int32_t> prompt = ids(200);
  std::vector<int32_t> part(uint64_t begin, uint64_t end) const { return {prompt.begin() + static_cast<int64_t>(begin), prompt.begin() + static_cast<int64_t>(end)}; }

  /// Saves and restores it elsewhere: equal in all that can be asked; then it is appended to.
  void expect_round_trip(const kvc_seq *seq, const std::vector<uint64_t> &filled, const char *what) {
    ASSERT_EQ(here.save(seq), KVC_OK) << what << ": " << here.error.message;
    Saved there(disk);
    SeqHandle back;
    ASSERT_EQ(there.restore(back), KVC_OK) << what << ": " << there.error.message;
    const kvc_seq_info before = here.info(seq), after = there.info(back);
    EXPECT_EQ(after.tokens, before.tokens) << what;
    EXPECT_EQ(after.tokens_given, before.tokens_given) << what;
    EXPECT_EQ(after.tokens_sealed, before.tokens_sealed) << what;
    EXPECT_EQ(after.tokens_held, before.tokens_held) << what;
    EXPECT_EQ(after.tokens_shareable, before.tokens_shareable) << what;
    EXPECT_EQ(after.bytes_host, before.bytes_host) << what;
    there.expect_rows(back, 1, filled, what);
    EXPECT_EQ(kvc_store_verify(nullptr, there.store, nullptr, &there.error), KVC_OK) << what << ": " << there.error.message;
    // Saved again it is the same file: nothing was lost that could be saved.
    const std::string file = disk.content("a");
    ASSERT_EQ(there.save(back, "disk/b"), KVC_OK) << what << ": " << there.error.message;
    EXPECT_TRUE(disk.content("b") == file) << what;
  }
};

TEST_F(SaveTest, nothing_is_saved_and_restored_as_nothing) {
  SeqHandle seq = here.create();
  expect_round_trip(seq, {0, 0, 0}, "empty");
}

TEST_F(SaveTest, open_rows_sealed_chunks_and_both_come_back) {
  SeqHandle seq = here.create();
  uint64_t at = 0;
  for (const uint64_t end : {1, 15, 16, 17, 48, 61, 64}) {
    ASSERT_EQ(here.append(seq, part(at, end), at, end), KVC_OK) << here.error.message;
    at = end;
    expect_round_trip(seq, {at, at, at}, std::to_string(end).c_str());
  }
}

TEST_F(SaveTest, layers_that_have_different_rows_and_ids_ahead_of_rows_come_back) {
  SeqHandle seq = here.create();
  ASSERT_EQ(here.append(seq, part(0, 100), 0, 20), KVC_OK) << here.error.message;
  ASSERT_EQ(here.append(seq, {}, 20, 50, 1, 1, 2), KVC_OK) << here.error.message;
  ASSERT_EQ(here.append(seq, {}, 20, 33, 1, 2, 3), KVC_OK) << here.error.message;
  expect_round_trip(seq, {20, 50, 33}, "uneven");
}

TEST_F(SaveTest, a_layer_without_rows_comes_back_without_rows) {
  SeqHandle seq = here.create();
  ASSERT_EQ(here.append(seq, part(0, 40), 0, 40, 1, 1, 2), KVC_OK) << here.error.message;
  expect_round_trip(seq, {0, 40, 0}, "one layer");
}

TEST_F(SaveTest, private_sequences_come_back_with_as_many_ids_as_they_had) {
  auto options = sized<kvc_seq_options>();
  options.flags = KVC_SEQ_PRIVATE;
  SeqHandle none = here.create(options), some = here.create(options);
  ASSERT_EQ(here.append(none, {}, 0, 37), KVC_OK) << here.error.message;
  expect_round_trip(none, {37, 37, 37}, "no ids");
  ASSERT_EQ(here.append(some, part(0, 20), 0, 50), KVC_OK) << here.error.message;
  expect_round_trip(some, {50, 50, 50}, "some ids");
}

TEST_F(SaveTest, a_private_sequence_behind_shared_chunks_keeps_their_names) {
  SeqHandle shared = here.create(), seq;
  ASSERT_EQ(here.append(shared, part(0, 32), 0, 32), KVC_OK) << here.error.message;
  auto options = sized<kvc_seq_options>();
  options.flags = KVC_SEQ_PRIVATE;
  ASSERT_EQ(kvc_match(seq.out(), nullptr, here.scope, prompt.data(), 40, &options, nullptr, &here.error), KVC_OK);
  ASSERT_EQ(here.append(seq, part(32, 40), 32, 70), KVC_OK) << here.error.message;
  expect_round_trip(seq, {70, 70, 70}, "private behind shared");
  Saved there(disk);
  SeqHandle back;
  ASSERT_EQ(there.restore(back), KVC_OK) << there.error.message;
  EXPECT_EQ(there.match_length(prompt), 32u);
}

TEST_F(SaveTest, rows_of_a_chunk_that_a_truncate_cut_or_an_append_found_come_back) {
  SeqHandle seq = here.create(), cut, found = here.create();
  ASSERT_EQ(here.append(seq, part(0, 64), 0, 64), KVC_OK) << here.error.message;
  ASSERT_EQ(kvc_seq_fork(cut.out(), seq, 41, &here.error), KVC_OK);
  expect_round_trip(cut, {41, 41, 41}, "cut");
  ASSERT_EQ(here.append(found, part(0, 48), 0, 20, 2), KVC_OK) << here.error.message;  // what is held wins
  expect_round_trip(found, {20, 20, 20}, "adopted");
}

TEST_F(SaveTest, identity_comes_back_chunks_are_found_under_their_names_and_what_is_appended_goes_on_from_them) {
  const kvc_extra extras[] = {{5, 20, "image", 5}, {70, 3, "later", 5}};
  auto options = sized<kvc_seq_options>();
  options.extras = extras, options.extra_count = 2, options.first_position = 1000;
  SeqHandle seq = here.create(options);
  ASSERT_EQ(here.append(seq, part(0, 61), 0, 61), KVC_OK) << here.error.message;
  expect_round_trip(seq, {61, 61, 61}, "identity");
  Saved there(disk);
  SeqHandle back;
  ASSERT_EQ(there.restore(back), KVC_OK) << there.error.message;
  EXPECT_EQ(there.match_length(prompt, &options), 48u);
  EXPECT_EQ(there.match_length(prompt), 0u);
  ASSERT_EQ(there.append(back, part(61, 96), 61, 96), KVC_OK) << there.error.message;
  EXPECT_EQ(there.match_length(prompt, &options), 96u);  // by the extra at token 70, too
  there.expect_rows(back, 1, {96, 96, 96});
  SeqHandle cut;
  ASSERT_EQ(kvc_seq_fork(cut.out(), back, 50, &there.error), KVC_OK) << there.error.message;  // the ids of what it reopens make its name
}

TEST_F(SaveTest, what_a_truncate_left_of_extras_is_replaced_after_a_restore_as_before) {
  const kvc_extra extra{30, 5, "first", 5}, other{31, 9, "other", 5};
  auto options = sized<kvc_seq_options>();
  options.extras = &extra, options.extra_count = 1;
  SeqHandle seq = here.create(options);
  ASSERT_EQ(here.append(seq, part(0, 20), 0, 20), KVC_OK) << here.error.message;
  ASSERT_EQ(kvc_seq_truncate(seq, 18, &here.error), KVC_OK);
  ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
  Saved there(disk);
  SeqHandle back;
  ASSERT_EQ(there.restore(back), KVC_OK) << there.error.message;
  EXPECT_EQ(kvc_seq_identify(back, &other, 1, &there.error), KVC_OK) << there.error.message;
}

TEST_F(SaveTest, chunks_that_are_held_are_taken_as_they_are_and_not_read) {
  SeqHandle seq = here.create();
  ASSERT_EQ(here.append(seq, part(0, 70), 0, 70), KVC_OK) << here.error.message;
  ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
  std::string file = disk.content("a");
  file[4096 + 512 + 3] ^= 1;  // K of the first chunk, which nobody has to look at
  disk.put("a", file);
  Saved there(disk), fresh(disk);
  SeqHandle none;
  ASSERT_EQ(fresh.restore(none), KVC_ERR_CORRUPT) << "the byte is none of the first chunk";
  SeqHandle mine = there.create(), back;
  ASSERT_EQ(there.append(mine, part(0, 32), 0, 32, 9), KVC_OK) << there.error.message;  // other bytes under the same names
  const uint64_t chunks = there.counts()[4];
  ASSERT_EQ(there.restore(back), KVC_OK) << there.error.message;
  EXPECT_EQ(chunks, 2u);
  EXPECT_EQ(there.counts()[4], 4u);
  auto r = sized<kvc_rows>();
  r.layer_count = 1, r.token_count = 64;
  auto k = poisoned(64 * 28), v = poisoned(64 * 20);
  r.k.data = k.data(), r.k.bytes = k.size(), r.v.data = v.data(), r.v.bytes = v.size();
  ASSERT_EQ(kvc_gather(nullptr, back, &r, 1, nullptr, &there.error), KVC_OK) << there.error.message;
  std::vector<uint8_t> wanted = Saved::rows_of(9, true, 0, 0, 32), rest = Saved::rows_of(1, true, 0, 32, 64);
  wanted.insert(wanted.end(), rest.begin(), rest.end());
  EXPECT_TRUE(k == wanted);
}

TEST_F(SaveTest, restored_beside_the_saved_one_it_takes_no_room_for_what_is_sealed) {
  SeqHandle seq = here.create(), back;
  ASSERT_EQ(here.append(seq, part(0, 64), 0, 64), KVC_OK) << here.error.message;
  const auto before = here.counts();
  ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
  ASSERT_EQ(here.restore(back), KVC_OK) << here.error.message;
  const auto after = here.counts();
  EXPECT_EQ(after[0], before[0]);
  EXPECT_EQ(after[4], before[4]);
  EXPECT_EQ(after[2], before[2] + 1);
}

TEST_F(SaveTest, it_comes_back_leased_and_stays_when_others_need_room) {
  SeqHandle seq = here.create();
  ASSERT_EQ(here.append(seq, part(0, 64), 0, 64), KVC_OK) << here.error.message;
  ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
  Saved there(disk);
  SeqHandle back;
  auto options = sized<kvc_seq_options>();
  options.lease_ms = KVC_FOREVER;
  ASSERT_EQ(there.restore(back, "disk/a", &options), KVC_OK) << there.error.message;
  EXPECT_EQ(there.info(back).lease_left_ms, KVC_FOREVER);
  EXPECT_EQ(there.counts()[0], there.counts()[1]);  // all that is used is pinned
  for (int i = 0; i < 40; i++) {  // more than there is room for
    SeqHandle other = there.create();
    std::vector<int32_t> tokens = ids(160, i + 1);
    ASSERT_EQ(there.append(other, tokens, 0, 160), KVC_OK) << there.error.message;
  }
  there.expect_rows(back, 1, {64, 64, 64});
  back.reset();
  EXPECT_EQ(there.match_length(prompt), 64u);  // still held, by its name
}

TEST_F(SaveTest, what_is_saved_private_or_restored_so_is_found_by_nobody) {
  SeqHandle seq = here.create();
  ASSERT_EQ(here.append(seq, part(0, 40), 0, 40), KVC_OK) << here.error.message;
  ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
  Saved there(disk);
  SeqHandle back;
  auto options = sized<kvc_seq_options>();
  options.flags = KVC_SEQ_PRIVATE;
  ASSERT_EQ(there.restore(back, "disk/a", &options), KVC_OK) << there.error.message;
  EXPECT_EQ(there.info(back).tokens_shareable, 32u);
  EXPECT_EQ(there.match_length(prompt), 32u);  // sealed under their names before
  ASSERT_EQ(there.append(back, part(40, 64), 40, 64), KVC_OK) << there.error.message;
  EXPECT_EQ(there.match_length(prompt), 32u);
}

TEST_F(SaveTest, what_a_clear_took_the_name_from_is_saved_for_its_holder_alone) {
  SeqHandle seq = here.create();
  ASSERT_EQ(here.append(seq, part(0, 40), 0, 40), KVC_OK) << here.error.message;
  ASSERT_EQ(kvc_scope_clear(nullptr, here.scope, nullptr, &here.error), KVC_OK) << here.error.message;
  ASSERT_EQ(here.append(seq, part(40, 70), 40, 70), KVC_OK) << here.error.message;
  ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
  Saved there(disk);
  SeqHandle back;
  ASSERT_EQ(there.restore(back), KVC_OK) << there.error.message;
  there.expect_rows(back, 1, {70, 70, 70});
  EXPECT_EQ(there.info(back).tokens_shareable, 0u);
  EXPECT_EQ(there.match_length(prompt), 0u);
}

#ifdef KVC_FAULTS
TEST_F(SaveTest, pages_that_fail_their_check_are_not_saved) {
  SeqHandle seq = here.create(), back;
  ASSERT_EQ(here.append(seq, part(0, 40), 0, 40), KVC_OK) << here.error.message;
  ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
  const std::string file = disk.content("a");
  ASSERT_TRUE(kvc::base::fault_arm("store.page.verify", 4, 1));
  EXPECT_EQ(here.save(seq), KVC_ERR_GONE) << here.error.message;
  kvc::base::fault_disarm_all();
  EXPECT_TRUE(disk.content("a") == file);
  EXPECT_EQ(disk.all().size(), 1u);
  EXPECT_EQ(here.save(seq), KVC_ERR_GONE) << here.error.message;  // it was dropped
}
#endif

TEST_F(SaveTest, what_cannot_be_restored_so_is_refused) {
  SeqHandle seq = here.create(), back;
  ASSERT_EQ(here.append(seq, part(0, 40), 0, 40), KVC_OK) << here.error.message;
  ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
  const auto refused = [&](auto change) {
    auto options = sized<kvc_seq_options>();
    change(options);
    const kvc_status status = here.restore(back, "disk/a", &options);
    EXPECT_EQ(static_cast<kvc_seq *>(back), nullptr);
    return status;
  };
  const kvc_extra extra{1, 1, "x", 1};
  EXPECT_EQ(refused([](auto &o) { o.flags = KVC_SEQ_PEEK; }), KVC_ERR_ARGUMENT);
  EXPECT_EQ(refused([](auto &o) { o.flags = 1u << 30; }), KVC_ERR_TOO_NEW);
  EXPECT_EQ(refused([&](auto &o) { o.extras = &extra, o.extra_count = 1; }), KVC_ERR_ARGUMENT);
  EXPECT_EQ(refused([](auto &o) { o.first_position = 5; }), KVC_ERR_ARGUMENT);
  EXPECT_EQ(refused([](auto &o) { o.layer_begin = 1; }), KVC_ERR_ARGUMENT);
  EXPECT_EQ(refused([](auto &o) { o.layer_count = 1; }), KVC_ERR_SHAPE);
  EXPECT_EQ(here.restore(back, "disk/none"), KVC_ERR_NOT_FOUND);
  EXPECT_EQ(here.restore(back, nullptr), KVC_ERR_ARGUMENT);
  EXPECT_EQ(here.save(seq, nullptr), KVC_ERR_ARGUMENT);
  EXPECT_EQ(here.save(seq, "disk/"), KVC_ERR_ARGUMENT);
  EXPECT_EQ(here.save(nullptr), KVC_ERR_MISUSE);
  EXPECT_EQ(kvc_seq_restore(nullptr, here.scope, "disk/a", nullptr, nullptr, &here.error), KVC_ERR_ARGUMENT);
  const ScopeHandle objects = [&] {
    auto o = sized<kvc_scope_options>();
    o.model = "objects";
    ScopeHandle scope;
    EXPECT_EQ(kvc_scope_create(scope.out(), here.store, &o, &here.error), KVC_OK);
    return scope;
  }();
  EXPECT_EQ(kvc_seq_restore(back.out(), objects, "disk/a", nullptr, nullptr, &here.error), KVC_ERR_SHAPE);
}

TEST_F(SaveTest, another_scope_or_shape_is_named_with_both_fingerprints) {
  SeqHandle seq = here.create(), back;
  ASSERT_EQ(here.append(seq, part(0, 40), 0, 40), KVC_OK) << here.error.message;
  ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
  const auto hex = [](const uint8_t *bytes) {
    std::string out;
    char two[3];
    for (int i = 0; i < 32; i++) std::snprintf(two, sizeof two, "%02x", bytes[i]), out += two;
    return out;
  };
  const std::string file = disk.content("a");
  Saved other(disk, {}, "another model"), narrow(disk, {}, "m", {full_layers(3, 2, 7, 5)});
  auto scope = sized<kvc_scope_info>();
  EXPECT_EQ(other.restore(back), KVC_ERR_SHAPE);
  ASSERT_EQ(kvc_scope_get_info(&scope, other.scope, &other.error), KVC_OK);
  EXPECT_NE(other.error.text().find(hex(scope.fingerprint)), std::string::npos) << other.error.message;
  EXPECT_NE(other.error.text().find(hex(reinterpret_cast<const uint8_t *>(file.data()) + 32)), std::string::npos) << other.error.message;
  EXPECT_EQ(narrow.restore(back), KVC_ERR_SHAPE);
  EXPECT_NE(narrow.error.text().find(hex(reinterpret_cast<const uint8_t *>(file.data()) + 64)), std::string::npos) << narrow.error.message;
  EXPECT_EQ(other.counts()[0] + other.counts()[4] + other.counts()[2], 0u);
}

TEST_F(SaveTest, without_room_it_is_full_and_nothing_has_changed) {
  SeqHandle seq = here.create();
  ASSERT_EQ(here.append(seq, part(0, 200), 0, 200), KVC_OK) << here.error.message;
  ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
  const uint64_t slot = here.counts()[0] / 13;
  auto small = Host::options_of(2u << 20);
  small.seq_max = 2;
  Saved there(disk, small);
  SeqHandle back;
  std::vector<SeqHandle> held;
  held.push_back(there.create());
  const uint64_t chunks = (2u << 20) / slot - 12;
  ASSERT_EQ(there.append(held[0], ids(chunks * 16, 5), 0, chunks * 16), KVC_OK) << there.error.message;
  const auto before = there.counts();
  EXPECT_EQ(there.restore(back), KVC_ERR_FULL) << there.error.message;  // held by the other's lease
  EXPECT_EQ(there.counts(), before);
  held.push_back(there.create());
  EXPECT_EQ(there.restore(back), KVC_ERR_FULL) << there.error.message;
  EXPECT_NE(there.error.text().find("seq_max"), std::string::npos) << there.error.message;
  held.clear();
  ASSERT_EQ(there.restore(back), KVC_OK) << there.error.message;  // now they give way
  there.expect_rows(back, 1, {200, 200, 200});
  auto tight = Host::options_of(4u << 20);
  tight.open_bytes_max = 1;
  Saved closed(disk, tight);
  back.reset();
  EXPECT_EQ(closed.restore(back), KVC_ERR_FULL) << closed.error.message;
  EXPECT_EQ(closed.error.retry, static_cast<uint32_t>(KVC_RETRY_NEVER));
}

}  // namespace

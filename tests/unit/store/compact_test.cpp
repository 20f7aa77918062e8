#include <algorithm>
#include <random>

#include "base/fault.h"
#include "stamped_store.h"

/// Sequences that keep some of their tokens, renumbered.
namespace {

using namespace kvc_test;

struct CompactTest : StampedStore {
  kvc_status compact(kvc_seq *seq, const std::vector<uint64_t> &positions) { return kvc_seq_compact(seq, positions.data(), positions.size(), &error); }
  static std::vector<uint64_t> range(uint64_t begin, uint64_t end) {
    std::vector<uint64_t> out;
    for (uint64_t i = begin; i < end; i++) out.push_back(i);
    return out;
  }
  static std::vector<uint64_t> both(std::vector<uint64_t> a, const std::vector<uint64_t> &b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
};

TEST_F(CompactTest, any_choice_of_positions_is_kept_element_by_element_and_goes_on) {
  open(8u << 20);
  std::mt19937 random(5);
  for (int round = 0; round < 40; round++) {
    const uint64_t length = 1 + random() % 90;
    SeqHandle seq = written(1, length, round % 3 == 0 ? KVC_SEQ_PRIVATE : 0);
    uint64_t shareable = round % 3 == 0 ? 0 : length / chunk * chunk;
    std::vector<Origin> origins;
    for (uint64_t t = 0; t < length; t++) origins.push_back({1, t});
    for (int step = 0; step < 3; step++) {
      std::vector<uint64_t> positions;
      for (uint64_t t = 0; t < origins.size(); t++)
        if (random() % 4) positions.push_back(t);
      if (step == 1) positions = range(0, std::min<uint64_t>(origins.size(), 33));
      ASSERT_EQ(compact(seq, positions), KVC_OK) << error.message;
      std::vector<Origin> kept;
      for (const uint64_t p : positions) kept.push_back(origins[p]);
      origins = kept;
      const kvc_seq_info now = info(seq);
      ASSERT_EQ(now.tokens, origins.size());
      EXPECT_EQ(now.tokens_given, origins.size()) << "the ids that were known still are";
      EXPECT_EQ(now.tokens_sealed, origins.size() / chunk * chunk);
      EXPECT_EQ(now.tokens_held, origins.size());
      uint64_t stay = 0;
      while (stay < positions.size() && positions[stay] == stay) stay++;
      shareable = std::min(shareable, stay) / chunk * chunk;
      EXPECT_EQ(now.tokens_shareable, shareable) << "leading chunks that stay whole keep their names";
      const uint64_t more = random() % 20, begin = origins.size();
      if (more) {
        ASSERT_EQ(append(seq, 100 + static_cast<uint64_t>(step), begin, begin + more), KVC_OK) << error.message;
      }
      for (uint64_t t = begin; t < begin + more; t++) origins.push_back({100 + static_cast<uint64_t>(step), t});
      if (!origins.empty()) expect_rows(seq, 0, origins.size(), [&](uint64_t t) { return origins[t]; });
    }
    auto verified = sized<kvc_verify_info>();
    ASSERT_EQ(kvc_store_verify(&verified, store, nullptr, &error), KVC_OK) << error.message;
  }
  EXPECT_EQ(info().memory_pinned, 0u);
}

TEST_F(CompactTest, forks_views_and_the_shared_chunks_of_before_stay_as_they_were) {
  open();
  SeqHandle seq = written(1, 40), before = fork(seq);
  ViewHandle view;
  auto rows = sized<kvc_rows>();
  ASSERT_EQ(kvc_view_acquire(view.out(), &rows, seq, 0, 33, 0, &error), KVC_OK) << error.message;
  ASSERT_EQ(compact(seq, both(range(0, 4), range(20, 40))), KVC_OK) << error.message;
  pressure();
  expect_rows(before, 0, 40, 1);
  expect_rows(seq, 0, 24, [](uint64_t t) { return Origin{1, t < 4 ? t : t + 16}; });
  uint16_t number;
  std::memcpy(&number, rows.k.data, 2);
  EXPECT_EQ(number, element(1, true, 0, 32, 0, 0));
  uint64_t length = 0;
  SeqHandle found = match(1, 40, &length);
  EXPECT_EQ(length, 32u) << "what is shared is found by its name as before";
}

TEST_F(CompactTest, what_was_compacted_is_never_matched) {
  open();
  SeqHandle seq = written(1, 64);
  const auto all = ids_of(1, 0, 64);
  std::vector<int32_t> kept(all.begin() + 16, all.end());
  ASSERT_EQ(compact(seq, range(16, 64)), KVC_OK) << error.message;
  auto found = sized<kvc_match_info>();
  SeqHandle other;
  ASSERT_EQ(kvc_match(other.out(), &found, scope, kept.data(), kept.size(), nullptr, nullptr, &error), KVC_OK) << error.message;
  EXPECT_EQ(found.tokens, 0u);
  ASSERT_EQ(append(seq, 9, 48, 80), KVC_OK) << error.message;
  other.reset();
  other = match(1, 64, &found.tokens);
  EXPECT_EQ(found.tokens, 64u);
}

TEST_F(CompactTest, leading_chunks_that_stay_whole_are_shared_and_not_copied) {
  open();
  SeqHandle seq = written(1, 64);
  const uint64_t used = info().memory_used, slot = used / 4;
  ASSERT_EQ(compact(seq, both(range(0, 33), range(50, 60))), KVC_OK) << error.message;
  EXPECT_EQ(info().memory_used, used + slot) << "one open chunk of 11 tokens is new";
  expect_rows(seq, 0, 43, [](uint64_t t) { return Origin{1, t < 33 ? t : t + 17}; });
  ASSERT_EQ(kvc_seq_truncate(seq, 20, &error), KVC_OK) << "into a chunk that has its name still: " << error.message;
  expect_rows(seq, 0, 20, 1);
  ASSERT_EQ(append(seq, 4, 20, 40), KVC_OK) << error.message;
  expect_rows(seq, 0, 40, [](uint64_t t) { return Origin{t < 20 ? 1u : 4u, t}; });
}

TEST_F(CompactTest, extras_of_shared_chunks_stay_part_of_their_names) {
  open();
  const kvc_extra extras[] = {{4, 2, "image", 5}, {40, 2, "later", 5}};
  auto options = sized<kvc_seq_options>();
  options.extras = extras, options.extra_count = 2;
  SeqHandle seq;
  ASSERT_EQ(kvc_seq_create(seq.out(), scope, &options, &error), KVC_OK) << error.message;
  ASSERT_EQ(append(seq, 1, 0, 64), KVC_OK) << error.message;
  ASSERT_EQ(compact(seq, both(range(0, 32), range(48, 64))), KVC_OK) << error.message;
  ASSERT_EQ(kvc_seq_truncate(seq, 8, &error), KVC_OK) << error.message;
  expect_rows(seq, 0, 8, 1);
}

TEST_F(CompactTest, to_nothing_lets_go_of_everything_and_starts_anew) {
  open();
  SeqHandle seq = written(1, 40, KVC_SEQ_PRIVATE);
  ASSERT_EQ(kvc_seq_compact(seq, nullptr, 0, &error), KVC_OK) << error.message;
  EXPECT_EQ(info(seq).tokens, 0u);
  EXPECT_EQ(info().memory_used, 0u);
  ASSERT_EQ(append(seq, 2, 0, 20), KVC_OK) << error.message;
  expect_rows(seq, 0, 20, 2);
  seq = create();
  ASSERT_EQ(compact(seq, {}), KVC_OK) << "an empty one: " << error.message;
}

TEST_F(CompactTest, ids_and_rows_that_ran_ahead_are_cut_and_ids_never_given_stay_unknown) {
  open();
  SeqHandle seq = create(KVC_SEQ_PRIVATE);
  ASSERT_EQ(append(seq, 1, 0, 10), KVC_OK) << error.message;
  ASSERT_EQ(append(seq, 1, 10, 30, false), KVC_OK) << error.message;
  ASSERT_EQ(append(seq, 1, 30, 32, false, 0, 1), KVC_OK) << error.message;  // one layer is ahead
  ASSERT_EQ(compact(seq, both(range(2, 12), range(20, 30))), KVC_OK) << error.message;
  EXPECT_EQ(info(seq).tokens, 20u);
  EXPECT_EQ(info(seq).tokens_given, 8u);
  expect_rows(seq, 0, 20, [](uint64_t t) { return Origin{1, t < 10 ? t + 2 : t + 10}; });
  ASSERT_EQ(append(seq, 3, 20, 21, false), KVC_OK) << error.message;
  seq = create();
  const auto prompt = ids_of(2, 0, 40);
  ASSERT_EQ(kvc_append(seq, prompt.data(), 40, nullptr, 0, nullptr, &error), KVC_OK) << error.message;
  ASSERT_EQ(append(seq, 2, 0, 20, false), KVC_OK) << error.message;
  ASSERT_EQ(compact(seq, range(10, 20)), KVC_OK) << error.message;
  EXPECT_EQ(info(seq).tokens_given, 10u);
  ASSERT_EQ(append(seq, 3, 10, 20), KVC_OK) << error.message;
  expect_rows(seq, 0, 20, [](uint64_t t) { return t < 10 ? Origin{2, t + 10} : Origin{3, t}; });
}

TEST_F(CompactTest, a_store_without_room_is_full_and_nothing_has_changed) {
  open(1u << 20, 0, [](kvc_store_options &o) { o.lease_ms = KVC_FOREVER; });
  SeqHandle seq = written(1, 160), last;
  std::vector<SeqHandle> held;
  for (uint64_t w = 100;; w++) {
    SeqHandle other = create();
    if (append(other, w, 0, chunk) != KVC_OK) break;
    held.push_back(std::move(other));
  }
  held.resize(held.size() - 5);
  const kvc_store_info before = info();
  expect_refused(compact(seq, range(8, 160)), KVC_ERR_FULL, {"bytes are needed"});
  EXPECT_EQ(info().memory_pinned, before.memory_pinned);
  expect_rows(seq, 0, 160, 1);
  ASSERT_EQ(compact(seq, range(120, 160)), KVC_OK) << error.message;
  expect_rows(seq, 0, 40, [](uint64_t t) { return Origin{1, t + 120}; });
}

TEST_F(CompactTest, what_is_refused_names_the_value_and_changes_nothing) {
  open();
  SeqHandle seq = written(1, 40);
  const kvc_store_info before = info();
  expect_refused(compact(seq, {0, 5, 40}), KVC_ERR_RANGE, {"positions[2] is 40", "40 tokens"});
  expect_refused(compact(seq, {0, 5, 5}), KVC_ERR_RANGE, {"positions[2] is 5", "rise"});
  expect_refused(compact(seq, {7, 3}), KVC_ERR_RANGE, {"positions[1] is 3", "7"});
  expect_refused(compact(seq, {UINT64_MAX}), KVC_ERR_RANGE, {"positions[0]"});
  expect_refused(kvc_seq_compact(seq, nullptr, 1, &error), KVC_ERR_ARGUMENT, {"positions is NULL"});
  EXPECT_EQ(info().memory_used, before.memory_used);
  expect_rows(seq, 0, 40, 1);
  EXPECT_EQ(info(seq).tokens_shareable, 40u);
}

TEST_F(CompactTest, chunks_that_went_after_a_lapse_are_gone_and_what_is_left_can_be_kept) {
  open();
  SeqHandle seq = written(1, 40);
  LeaseHandle lease;
  ASSERT_EQ(kvc_seq_lease(lease.out(), seq, 0, 16, KVC_FOREVER, nullptr, &error), KVC_OK) << error.message;
  clock.advance_ms(1001);
  pressure();
  expect_refused(compact(seq, {0, 20}), KVC_ERR_GONE, {"16 are left"});
  ASSERT_EQ(compact(seq, {0, 15}), KVC_OK) << error.message;
  expect_rows(seq, 0, 2, [](uint64_t t) { return Origin{1, t * 15}; });
}

#ifdef KVC_FAULTS
TEST_F(CompactTest, a_page_that_fails_its_check_is_not_copied) {
  open(1u << 20, KVC_OPEN_VERIFY_READS);
  SeqHandle seq = written(1, 40);
  ASSERT_TRUE(kvc::base::fault_arm("store.page.verify", 4, 1));
  expect_refused(compact(seq, range(1, 40)), KVC_ERR_GONE, {"token 16"});
  kvc::base::fault_disarm_all();
  EXPECT_EQ(info(seq).tokens, 40u);
}

TEST_F(CompactTest, refused_memory_or_room_at_any_point_changes_nothing_and_leaks_nothing) {
  for (const char *point : {"memory.resource.allocate", "memory.slab.take", "seq.index.reserve"}) {
    open();
    SeqHandle seq = written(1, 70);
    const uint64_t used = info().memory_used, pinned = info().memory_pinned;
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
      ASSERT_LT(nth, 200u);
      ASSERT_TRUE(kvc::base::fault_arm(point, nth, 1));
      const kvc_status status = compact(seq, range(3, 70));
      kvc::base::fault_disarm_all();
      failed = status != KVC_OK;
      if (!failed) {
        EXPECT_GT(nth, 1u) << point << " was never reached";
        expect_rows(seq, 0, 67, [](uint64_t t) { return Origin{1, t + 3}; });
        break;
      }
      EXPECT_TRUE(status == KVC_ERR_NO_MEMORY || status == KVC_ERR_FULL) << error.message;
      EXPECT_EQ(info().memory_used, used) << point << " " << nth;
      EXPECT_EQ(info().memory_pinned, pinned) << point << " " << nth;
      expect_rows(seq, 0, 70, 1);
    }
    seq.reset();
    EXPECT_EQ(info().memory_pinned, 0u) << point;
    scope.reset(), store.reset();
  }
}
#endif

}  // namespace

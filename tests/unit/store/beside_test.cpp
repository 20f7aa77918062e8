#include <algorithm>
#include <random>

#include "base/fault.h"
#include "hybrid.h"

/// Window rows and snapshots in the calls that rearrange a sequence, lend its pages and ask for it ahead.
namespace {

using namespace kvc_test;

const std::vector<kvc_layer> windows = {window_layers(1, 1, 5, 3, 20), full_layers(1, 2, 7, 5), window_layers(1, 2, 5, 3, 33)};
const std::vector<kvc_layer> mixed = {state_layers(1, 2, 50, 9), full_layers(1, 2, 7, 5), window_layers(1, 1, 5, 3, 20)};

struct BesideTest : testing::Test {
  const std::vector<int32_t> tokens = ids(200);

  static kvc_status compact(HybridHost &host, kvc_seq *seq, const std::vector<uint64_t> &positions) { return kvc_seq_compact(seq, positions.data(), positions.size(), &host.error); }
  static uint64_t tokens_of(HybridHost &host, const kvc_seq *seq) {
    auto info = sized<kvc_seq_info>();
    EXPECT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK);
    return info.tokens;
  }
  /// The bytes of row `at` are those that `writer` gave position `from`.
  static void expect_row_of(HybridHost &host, const kvc_seq *seq, uint32_t layer, uint64_t at, uint64_t from, int writer) {
    const Moves got = host.target(layer, at, at + 1), wanted = host.source(layer, from, from + 1, writer);
    ASSERT_EQ(host.gather(seq, got.rows()), KVC_OK) << "layer " << layer << ", row " << at << ": " << host.error.message;
    EXPECT_TRUE(got.list[0]->k == wanted.list[0]->k && got.list[0]->v == wanted.list[0]->v) << "layer " << layer << ", row " << at << " is not that of " << from;
  }
  static kvc_status view(ViewHandle &out, kvc_rows &rows, HybridHost &host, const kvc_seq *seq, uint32_t layer, uint64_t token, uint32_t flags = 0) {
    rows = sized<kvc_rows>();
    return kvc_view_acquire(out.out(), &rows, seq, layer, token, flags, &host.error);
  }
};

TEST_F(BesideTest, a_compacted_sequence_has_all_rows_that_its_windows_see_at_the_new_length_and_goes_on) {
  std::mt19937 random(3);
  for (int round = 0; round < 30; round++) {
    HybridHost host(windows, KVC_F16, 16, 8u << 20, round % 2 ? KVC_OPEN_VERIFY_READS : 0);
    SeqHandle seq = host.create(round % 3 == 0 ? KVC_SEQ_PRIVATE : 0);
    const uint64_t length = 1 + random() % 100;
    ASSERT_EQ(host.append_all(seq, tokens, 0, length, 1), KVC_OK) << host.error.message;
    std::vector<uint64_t> positions;
    const uint64_t whole = random() % (length + 1);  // leading chunks stay whole now and then
    for (uint64_t t = 0; t < length; t++)
      if (t < whole || random() % 3) positions.push_back(t);
    ASSERT_EQ(compact(host, seq, positions), KVC_OK) << host.error.message;
    const uint64_t count = positions.size();
    ASSERT_EQ(tokens_of(host, seq), count);
    for (uint32_t l = 0; l < 3; l++) {
      const uint64_t window = host.layers[l].window, seen = window && count + 1 > window ? count + 1 - window : 0;
      for (uint64_t i = seen; i < count; i++) expect_row_of(host, seq, l, i, positions[i], 1);
    }
    const Moves more = host.sources(count, count + 20, 2);
    ASSERT_EQ(host.append(seq, ids(20, 9), more.rows()), KVC_OK) << host.error.message;
    for (uint32_t l = 0; l < 3; l++) {
      const uint64_t seen = host.layers[l].window && count + 21 > host.layers[l].window ? count + 21 - host.layers[l].window : 0;
      for (uint64_t i = seen; i < count + 20; i++) expect_row_of(host, seq, l, i, i < count ? positions[i] : i, i < count ? 1 : 2);
    }
    EXPECT_EQ(host.look(tokens).tokens, round % 3 ? length / 16 * 16 : 0) << "what is shared is found as before";
    EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
    seq.reset();
    auto info = sized<kvc_store_info>();
    ASSERT_EQ(kvc_store_get_info(&info, host.store, &host.error), KVC_OK);
    EXPECT_EQ(info.memory_pinned, 0u);
  }
}

TEST_F(BesideTest, forks_of_before_keep_their_windows_and_window_rows_may_be_behind) {
  HybridHost host(windows, KVC_F16, 16, 8u << 20);
  SeqHandle seq = host.create(), fork;
  ASSERT_EQ(host.append_all(seq, tokens, 0, 50, 1), KVC_OK) << host.error.message;
  const Moves ahead = host.source(1, 50, 60, 1);
  ASSERT_EQ(host.append(seq, {tokens.begin() + 50, tokens.begin() + 60}, ahead.rows()), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_fork(fork.out(), seq, KVC_ALL, &host.error), KVC_OK) << host.error.message;
  std::vector<uint64_t> positions;
  for (uint64_t t = 0; t < 60; t += 2) positions.push_back(t);
  ASSERT_EQ(compact(host, seq, positions), KVC_OK) << host.error.message;
  for (uint64_t i = 11; i < 25; i++) expect_row_of(host, seq, 0, i, 2 * i, 1);
  host.expect_refused(seq, 0, 25, 26, KVC_ERR_RANGE);  // 50 was not there yet
  const Moves behind = host.source(0, 25, 30, 2);
  ASSERT_EQ(host.append(seq, {}, behind.rows()), KVC_OK) << host.error.message;
  expect_row_of(host, seq, 0, 29, 29, 2);
  for (uint32_t l = 0; l < 3; l++) host.expect_rows(fork, l, 42, 50, 1);
}

TEST_F(BesideTest, rows_that_a_window_would_see_and_that_are_not_held_any_more_are_gone_and_nothing_has_changed) {
  HybridHost host(windows, KVC_F16, 16, 8u << 20);
  SeqHandle seq = host.create();
  Moves some = host.source(1, 0, 64, 1);
  some += host.source(0, 45, 64, 1);
  some += host.source(2, 32, 64, 1);
  ASSERT_EQ(host.append(seq, {tokens.begin(), tokens.begin() + 64}, some.rows()), KVC_OK) << host.error.message;
  std::vector<uint64_t> positions;
  for (uint64_t t = 0; t < 64; t++)
    if (t < 40 || t >= 60) positions.push_back(t);
  EXPECT_EQ(compact(host, seq, positions), KVC_ERR_GONE);  // the window of 20 would see 25 to 39, which were left out
  EXPECT_EQ(tokens_of(host, seq), 64u);
  for (uint32_t l = 0; l < 3; l++) host.expect_rows(seq, l, 45, 64, 1);
  positions.clear();
  for (uint64_t t = 0; t < 64; t++)
    if (t < 30 || t >= 45) positions.push_back(t);
  EXPECT_EQ(compact(host, seq, positions), KVC_ERR_GONE);  // that of 33 sees 17 to 29
  HybridHost states(mixed, KVC_F16, 16, 8u << 20);
  SeqHandle other = states.create();
  ASSERT_EQ(states.append_all(other, tokens, 0, 20, 1), KVC_OK) << states.error.message;
  EXPECT_EQ(compact(states, other, {0, 1}), KVC_ERR_UNSUPPORTED);
}

#ifdef KVC_FAULTS
TEST_F(BesideTest, a_model_of_windows_alone_is_compacted_too_also_where_no_chunk_is_whole_and_to_nothing) {
  for (const uint64_t length : {10u, 16u, 45u, 90u}) {
    HybridHost host({window_layers(2, 1, 5, 3, 20)}, KVC_F16, 16);
    SeqHandle seq = host.create();
    ASSERT_EQ(host.append_all(seq, tokens, 0, length, 1), KVC_OK) << host.error.message;
    std::vector<uint64_t> positions;
    for (uint64_t t = 0; t < length; t++)
      if (t % 7 != 3) positions.push_back(t);
    const uint64_t count = positions.size();
    ASSERT_EQ(compact(host, seq, positions), KVC_OK) << length << ": " << host.error.message;
    for (uint64_t i = count > 19 ? count - 19 : 0; i < count; i++) expect_row_of(host, seq, 1, i, positions[i], 1);
    const Moves more = host.sources(count, count + 40, 2);
    ASSERT_EQ(host.append(seq, ids(40, 9), more.rows()), KVC_OK) << host.error.message;
    host.expect_rows(seq, 0, count + 21, count + 40, 2);
    ASSERT_EQ(compact(host, seq, {}), KVC_OK) << length << ": " << host.error.message;
    ASSERT_EQ(compact(host, seq, {}), KVC_OK) << "nothing of nothing: " << host.error.message;
    EXPECT_EQ(tokens_of(host, seq), 0u);
  }
}

TEST_F(BesideTest, a_compaction_that_fails_anywhere_has_changed_nothing_and_succeeds_when_it_is_made_again) {
  std::vector<uint64_t> positions;
  for (uint64_t t = 0; t < 70; t++)
    if (t < 40 || t % 3) positions.push_back(t);
  for (const char *point : {"memory.resource.allocate", "seq.index.reserve"}) {
    uint64_t nth = 1, failures = 0;
    for (bool fired = true; fired; nth++) {
      ASSERT_LT(nth, 200u) << point;
      HybridHost host(windows, KVC_F16, 16, 8u << 20);
      SeqHandle seq = host.create();
      ASSERT_EQ(host.append_all(seq, tokens, 0, 70, 1), KVC_OK) << host.error.message;
      auto before = sized<kvc_store_info>(), after = sized<kvc_store_info>();
      ASSERT_EQ(kvc_store_get_info(&before, host.store, &host.error), KVC_OK);
      const uint64_t passes = kvc::base::fault_passes(point);
      ASSERT_TRUE(kvc::base::fault_arm(point, nth, 1));
      const kvc_status status = compact(host, seq, positions);
      kvc::base::fault_disarm_all();
      fired = kvc::base::fault_passes(point) - passes >= nth;
      if (status != KVC_OK) {
        failures++;
        EXPECT_EQ(status, KVC_ERR_NO_MEMORY) << host.error.message;
        ASSERT_EQ(kvc_store_get_info(&after, host.store, &host.error), KVC_OK);
        EXPECT_EQ(after.memory_used, before.memory_used) << point << " " << nth;
        EXPECT_EQ(after.memory_pinned, before.memory_pinned) << point << " " << nth;
        for (uint32_t l = 0; l < 3; l++) host.expect_rows(seq, l, 40, 70, 1);
        ASSERT_EQ(compact(host, seq, positions), KVC_OK) << host.error.message;
      }
      for (uint64_t i = positions.size() - 19; i < positions.size(); i++) expect_row_of(host, seq, 0, i, positions[i], 1);
    }
    EXPECT_GT(failures, 0u) << point;
  }
}
#endif

TEST_F(BesideTest, a_snapshot_is_lent_in_place_by_the_token_in_front_of_it) {
  HybridHost host(mixed, KVC_F16, 16, 8u << 20);
  SeqHandle seq = host.create();
  for (const uint64_t end : {16, 21, 37}) ASSERT_EQ(host.append_all(seq, tokens, end == 16 ? 0 : end == 21 ? 16 : 21, end, 1), KVC_OK) << host.error.message;
  kvc_rows rows;
  for (const uint64_t at : {16, 37}) {
    ViewHandle lent;
    ASSERT_EQ(view(lent, rows, host, seq, 0, at - 1), KVC_OK) << at << ": " << host.error.message;
    EXPECT_EQ(rows.layer_begin, 0u);
    EXPECT_EQ(rows.layer_count, 1u);
    EXPECT_EQ(rows.head_count, 2u);
    EXPECT_EQ(rows.token_begin, at - 1);
    EXPECT_EQ(rows.token_count, 1u);
    EXPECT_EQ(rows.k.dtype, static_cast<uint32_t>(KVC_U8));
    const Moves wanted = host.source(0, at - 1, at, 1);
    ASSERT_EQ(rows.k.bytes, wanted.list[0]->k.size());
    ASSERT_EQ(rows.v.bytes, wanted.list[0]->v.size());
    EXPECT_EQ(std::memcmp(rows.k.data, wanted.list[0]->k.data(), rows.k.bytes), 0) << at;
    EXPECT_EQ(std::memcmp(rows.v.data, wanted.list[0]->v.data(), rows.v.bytes), 0) << at;
  }
  ViewHandle lent;
  for (const uint64_t at : {1, 15, 17, 20, 36}) EXPECT_EQ(view(lent, rows, host, seq, 0, at - 1), KVC_ERR_NO_SNAPSHOT) << at;
  EXPECT_EQ(view(lent, rows, host, seq, 0, 37), KVC_ERR_RANGE);
  EXPECT_EQ(view(lent, rows, host, seq, 0, 36, KVC_VIEW_FRAME), KVC_ERR_UNSUPPORTED);
  ASSERT_EQ(view(lent, rows, host, seq, 0, 15, KVC_VIEW_FRAME), KVC_OK) << host.error.message;
  EXPECT_EQ(rows.k.bytes, 512u);
}

TEST_F(BesideTest, a_lent_snapshot_stays_as_it_was_whatever_becomes_of_its_sequence) {
  HybridHost host(mixed, KVC_F16, 16, 1u << 20);
  SeqHandle seq = host.create();
  ASSERT_EQ(host.append_all(seq, tokens, 0, 16, 1), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append_all(seq, tokens, 16, 21, 1), KVC_OK) << host.error.message;
  kvc_rows sealed, open;
  ViewHandle one, two;
  ASSERT_EQ(view(one, sealed, host, seq, 0, 15), KVC_OK) << host.error.message;
  ASSERT_EQ(view(two, open, host, seq, 0, 20), KVC_OK) << host.error.message;
  const Moves first = host.source(0, 15, 16, 1), second = host.source(0, 20, 21, 1);
  ASSERT_EQ(kvc_seq_truncate(seq, 16, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append_all(seq, tokens, 16, 21, 2), KVC_OK) << host.error.message;  // another snapshot at 21
  seq.reset();
  for (int i = 0; i < 60; i++) {  // more than there is room for
    SeqHandle other = host.create();
    ASSERT_EQ(host.append_all(other, ids(160, i + 1), 0, 160, 3), KVC_OK) << host.error.message;
  }
  EXPECT_EQ(std::memcmp(sealed.k.data, first.list[0]->k.data(), sealed.k.bytes), 0);
  EXPECT_EQ(std::memcmp(open.k.data, second.list[0]->k.data(), open.k.bytes), 0);
  EXPECT_EQ(std::memcmp(open.v.data, second.list[0]->v.data(), open.v.bytes), 0);
}

TEST_F(BesideTest, a_prefetch_ends_where_window_rows_or_a_snapshot_are_not_there) {
  HybridHost host(mixed, KVC_F16, 16, 8u << 20);
  SeqHandle seq = host.create();
  ASSERT_EQ(host.append_all(seq, tokens, 0, 20, 1), KVC_OK) << host.error.message;
  Moves some = host.source(1, 20, 60, 1);
  some += host.source(0, 20, 60, 1);
  some += host.source(2, 41, 60, 1);  // 20 to 40 are left out
  ASSERT_EQ(host.append(seq, {tokens.begin() + 20, tokens.begin() + 60}, some.rows()), KVC_OK) << host.error.message;
  const auto there = [&](uint32_t layer, uint64_t begin, uint64_t end, uint64_t *done) {
    auto rows = sized<kvc_rows>();
    rows.layer_begin = layer, rows.layer_count = 1, rows.token_begin = begin, rows.token_count = end - begin;
    auto result = sized<kvc_result>();
    const kvc_status status = kvc_seq_prefetch(&result, seq, &rows, 1, KVC_TIER_HOST, nullptr, &host.error);
    *done = result.done;
    return status;
  };
  uint64_t done = 0;
  EXPECT_EQ(there(1, 0, 60, &done), KVC_OK);
  EXPECT_EQ(done, 60u);
  EXPECT_EQ(there(2, 45, 60, &done), KVC_OK) << host.error.message;
  EXPECT_EQ(done, 60u);
  EXPECT_EQ(there(2, 0, 60, &done), KVC_ERR_GONE);
  EXPECT_EQ(done, 16u);  // the next chunk lost its rows when some of them were left out
  EXPECT_EQ(there(0, 50, 60, &done), KVC_OK) << host.error.message;
  EXPECT_EQ(done, 60u);
  EXPECT_EQ(there(0, 0, 59, &done), KVC_ERR_NO_SNAPSHOT);
  EXPECT_EQ(done, 48u);
}

}  // namespace

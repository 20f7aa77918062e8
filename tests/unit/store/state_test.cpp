#include "lapsing_host.h"

/// State layers: a snapshot is valid where an append ended; a match ends where every state layer has one.
namespace {

using namespace kvc_test;

struct StateTest : testing::Test {
  HybridHost host{{full_layers(1, 2, 5, 3), state_layers(2, 3, 37, 11), state_layers(1, 1, 200, 0)}, KVC_F16, 16, 4u << 20, KVC_OPEN_VERIFY_READS};
  const std::vector<int32_t> tokens = ids(400);

  void append(kvc_seq *seq, const std::vector<uint64_t> &ends, const Writer &writer, uint64_t begin = 0) {
    for (const uint64_t end : ends) {
      ASSERT_EQ(host.append_all(seq, tokens, begin, end, writer), KVC_OK) << host.error.message;
      begin = end;
    }
  }
  void expect_snapshot(const kvc_seq *seq, uint64_t at, const Writer &writer) {
    for (uint32_t l = 1; l < 4; l++) host.expect_rows(seq, l, at - 1, at, writer);
  }
  uint64_t tokens_end(const kvc_seq *seq) {
    auto info = sized<kvc_seq_info>();
    EXPECT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK) << host.error.message;
    return info.tokens_end;
  }
  std::vector<int32_t> first(uint64_t count) const { return {tokens.begin(), tokens.begin() + static_cast<int64_t>(count)}; }
};

TEST_F(StateTest, the_snapshot_at_the_position_is_served_whatever_range_named_it) {
  SeqHandle seq = host.create();
  append(seq, {7, 16, 23, 90}, 1);
  expect_snapshot(seq, 90, 1);
  host.expect_rows(seq, 1, 0, 90, 1);
  host.expect_rows(seq, 0, 0, 90, 1);
  expect_snapshot(seq, 16, 1);  // kept at a chunk's end
  host.expect_refused(seq, 1, 0, 23, KVC_ERR_NO_SNAPSHOT);
  host.expect_refused(seq, 2, 30, 32, KVC_ERR_NO_SNAPSHOT);
  host.expect_refused(seq, 2, 30, 91, KVC_ERR_RANGE);
  for (uint64_t t = 90; t < 130; t++) {
    ASSERT_EQ(host.append_all(seq, tokens, t, t + 1, 1), KVC_OK) << host.error.message;
    expect_snapshot(seq, t + 1, 1);
  }
  for (const uint64_t at : {96u, 112u, 128u}) expect_snapshot(seq, at, 1);
  EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
}

TEST_F(StateTest, a_state_that_has_not_come_along_with_the_sequence_is_no_snapshot_rather_than_a_wrong_position) {
  SeqHandle seq = host.create();
  append(seq, {16}, 1);
  const Moves decoded = host.source(0, 16, 20, 1);
  ASSERT_EQ(host.append(seq, {tokens.begin() + 16, tokens.begin() + 20}, decoded.rows()), KVC_OK) << host.error.message;
  host.expect_refused(seq, 1, 0, 20, KVC_ERR_NO_SNAPSHOT);
  EXPECT_NE(host.error.text().find("layer 1: no snapshot at token 20: its state stands at 16"), std::string::npos) << host.error.message;
  host.expect_refused(seq, 1, 0, 21, KVC_ERR_RANGE);
  ViewHandle view;
  auto lent = sized<kvc_rows>();
  EXPECT_EQ(kvc_view_acquire(view.out(), &lent, seq, 2, 19, 0, &host.error), KVC_ERR_NO_SNAPSHOT) << host.error.message;
  EXPECT_EQ(kvc_view_acquire(view.out(), &lent, seq, 2, 20, 0, &host.error), KVC_ERR_RANGE) << host.error.message;
  expect_snapshot(seq, 16, 1);
}

TEST_F(StateTest, one_part_may_be_read_alone_and_whole_layers_at_once) {
  SeqHandle seq = host.create();
  append(seq, {16}, 1);
  std::vector<uint8_t> k = poisoned(2 * 3 * 37), v = poisoned(2 * 3 * 11);
  auto rows = sized<kvc_rows>();
  rows.layer_begin = 1, rows.layer_count = 2, rows.token_count = 16;
  rows.v.data = v.data(), rows.v.bytes = v.size(), rows.v.layer_stride = 33;
  ASSERT_EQ(host.gather(seq, {rows}), KVC_OK) << host.error.message;
  std::swap(rows.k, rows.v);
  rows.k.data = k.data(), rows.k.bytes = k.size(), rows.k.layer_stride = 111, rows.k.dtype = KVC_U8;
  ASSERT_EQ(host.gather(seq, {rows}), KVC_OK) << host.error.message;
  for (uint32_t l = 0; l < 2; l++)
    for (uint32_t h = 0; h < 3; h++) {
      for (uint32_t d = 0; d < 37; d++) ASSERT_EQ(k[l * 111 + h * 37 + d], static_cast<uint8_t>(stamp(1, true, l + 1, 16, h, d)));
      for (uint32_t d = 0; d < 11; d++) ASSERT_EQ(v[l * 33 + h * 11 + d], static_cast<uint8_t>(stamp(1, false, l + 1, 16, h, d)));
    }
}

TEST_F(StateTest, a_match_ends_at_the_last_chunk_that_has_a_snapshot_of_every_state_layer) {
  SeqHandle seq = host.create(), found;
  append(seq, {32, 47, 64, 100}, 1);
  kvc_match_info info = host.look(tokens, &found);
  EXPECT_EQ(info.tokens, 64u);
  EXPECT_EQ(info.tokens_attention, 96u);
  EXPECT_EQ(info.stop, static_cast<uint32_t>(KVC_STOP_STATE));
  expect_snapshot(found, 64, 1);
  expect_snapshot(found, 32, 1);
  host.expect_rows(found, 0, 0, 64, 1);
  info = host.look(first(64), &found);
  EXPECT_EQ(info.tokens, 64u);
  EXPECT_EQ(info.stop, static_cast<uint32_t>(KVC_STOP_END));
  info = host.look(first(63), &found);
  EXPECT_EQ(info.tokens, 32u);
  EXPECT_EQ(info.tokens_attention, 48u);
  append(found, {50, 80}, 2, 32);
  expect_snapshot(found, 80, 2);
  host.expect_rows(found, 0, 0, 64, 1);
  info = host.look(tokens, &found);
  EXPECT_EQ(info.tokens, 80u) << "the snapshot that came later";
  expect_snapshot(found, 80, 2);
  host.expect_rows(found, 0, 64, 80, 2);
}

TEST_F(StateTest, truncate_and_fork_go_to_snapshots_alone) {
  SeqHandle seq = host.create(), fork;
  append(seq, {32, 47, 64, 75, 90}, 1);
  EXPECT_EQ(tokens_end(seq), 64u);
  kvc_seq *none = nullptr;
  for (const uint64_t at : {75u, 89u, 47u, 48u, 1u}) {
    EXPECT_EQ(kvc_seq_truncate(seq, at, &host.error), KVC_ERR_NO_SNAPSHOT) << at;
    EXPECT_EQ(kvc_seq_fork(&none, seq, at, &host.error), KVC_ERR_NO_SNAPSHOT) << at;
    EXPECT_EQ(none, nullptr);
  }
  expect_snapshot(seq, 90, 1);
  ASSERT_EQ(kvc_seq_fork(fork.out(), seq, KVC_ALL, &host.error), KVC_OK) << host.error.message;
  expect_snapshot(fork, 90, 1);
  ASSERT_EQ(kvc_seq_truncate(seq, 64, &host.error), KVC_OK) << host.error.message;
  expect_snapshot(seq, 64, 1);
  host.expect_refused(seq, 1, 0, 90, KVC_ERR_RANGE);
  EXPECT_EQ(tokens_end(seq), 32u);
  ASSERT_EQ(host.append_all(seq, ids(400, 3), 64, 70, 2), KVC_OK) << host.error.message;
  expect_snapshot(seq, 70, 2);
  expect_snapshot(fork, 90, 1);
  ASSERT_EQ(kvc_seq_truncate(seq, 32, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_truncate(seq, 0, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(tokens_end(seq), 0u);
  append(seq, {5}, 3);
  expect_snapshot(seq, 5, 3);
  expect_snapshot(fork, 90, 1);
  host.expect_rows(fork, 0, 0, 90, 1);
}

TEST_F(StateTest, layers_may_come_one_by_one_in_any_order) {
  for (const bool states_first : {true, false}) {
    HybridHost h({full_layers(1, 2, 5, 3), state_layers(2, 3, 37, 11)}, KVC_F16, 16);
    SeqHandle seq = h.create();
    const std::vector<uint32_t> order = states_first ? std::vector<uint32_t>{2, 1, 0} : std::vector<uint32_t>{0, 1, 2};
    uint64_t begin = 0;
    for (const uint64_t end : {16u, 20u, 64u, 65u}) {
      for (const uint32_t l : order) {
        const Moves move = h.source(l, begin, end, 1);
        ASSERT_EQ(h.append(seq, l == order[0] ? std::vector<int32_t>(tokens.begin() + static_cast<int64_t>(begin), tokens.begin() + static_cast<int64_t>(end)) : std::vector<int32_t>(), move.rows()), KVC_OK)
            << h.error.message;
        if (l == 1 && begin) {
          h.expect_rows(seq, 1, 0, end, 1);
          if (order.back() == 2) h.expect_rows(seq, 2, 0, begin, 1);  // still where it stood
        }
      }
      begin = end;
    }
    for (const uint32_t l : {1u, 2u})
      for (const uint64_t at : {16u, 64u, 65u}) h.expect_rows(seq, l, 0, at, 1);
    SeqHandle found;
    EXPECT_EQ(h.look(tokens, &found).tokens, 64u);
    h.expect_rows(found, 2, 0, 64, 1);
    EXPECT_EQ(h.look(first(63)).tokens, 16u);
  }
}

TEST_F(StateTest, a_chunk_that_is_there_serves_a_later_writer_unless_that_one_brings_a_snapshot_it_lacks) {
  SeqHandle without = host.create(), with = host.create(), again = host.create(), found;
  append(without, {64, 100}, 1);
  append(with, {100}, 2);  // nothing that was not there
  host.expect_rows(with, 0, 0, 96, 1);
  expect_snapshot(with, 100, 2);
  append(again, {64, 80}, 3);
  expect_snapshot(again, 64, 1);
  expect_snapshot(again, 80, 3);
  host.expect_rows(again, 0, 0, 64, 1);
  host.expect_rows(again, 0, 64, 80, 3);
  EXPECT_EQ(host.look(first(80), &found).tokens, 80u);
  expect_snapshot(found, 80, 3);
  host.expect_rows(found, 0, 64, 80, 3);
  host.expect_rows(without, 0, 0, 100, 1);
}

TEST_F(StateTest, a_model_may_have_states_alone) {
  HybridHost h({state_layers(3, 1, 64, 64)}, KVC_BF16, 16);
  SeqHandle seq = h.create(), found;
  ASSERT_EQ(h.append_all(seq, tokens, 0, 48, 1), KVC_OK) << h.error.message;
  ASSERT_EQ(h.append_all(seq, tokens, 48, 60, 1), KVC_OK) << h.error.message;
  EXPECT_EQ(h.look(tokens, &found).tokens, 48u);
  h.expect_rows(found, 2, 0, 48, 1);
  ASSERT_EQ(h.append_all(found, tokens, 48, 80, 2), KVC_OK) << h.error.message;
  EXPECT_EQ(h.look(tokens).tokens, 80u);
}

TEST_F(StateTest, bad_rows_are_refused_by_value_and_rule) {
  SeqHandle seq = host.create();
  append(seq, {20}, 1);
  const auto refused = [&](const std::vector<kvc_rows> &rows, kvc_status status, const char *words) {
    EXPECT_EQ(host.append(seq, {tokens[20]}, rows), status) << words;
    EXPECT_NE(host.error.text().find(words), std::string::npos) << host.error.message;
  };
  const Moves gap = host.source(1, 21, 22, 1), overlap = host.source(1, 19, 21, 1), good = host.source(1, 20, 21, 1), next = host.source(1, 21, 22, 1);
  EXPECT_EQ(host.append(seq, {tokens[20], tokens[21]}, gap.rows()), KVC_ERR_RANGE);
  EXPECT_NE(host.error.text().find("layer 1: rows start at token 21, a gap: 20"), std::string::npos) << host.error.message;
  refused(overlap.rows(), KVC_ERR_RANGE, "an overlap: 20");
  EXPECT_EQ(host.append(seq, {tokens[20], tokens[21]}, {good.rows()[0], next.rows()[0]}), KVC_ERR_RANGE);
  EXPECT_NE(host.error.text().find("a second snapshot in one call"), std::string::npos) << host.error.message;
  kvc_rows rows = good.rows()[0];
  rows.k.dtype = KVC_F16;
  refused({rows}, KVC_ERR_SHAPE, "k.dtype F16");
  rows = good.rows()[0];
  rows.v = {};
  refused({rows}, KVC_ERR_ARGUMENT, "v.data is NULL");
  rows = good.rows()[0];
  rows.k.bytes--;
  refused({rows}, KVC_ERR_ARGUMENT, "k.bytes 110");
  const Moves got = host.target(1, 0, 1);
  rows = got.rows()[0];
  const uint64_t list[] = {3};
  rows.token_list = list;
  EXPECT_EQ(host.gather(seq, {rows}), KVC_ERR_ARGUMENT);
  EXPECT_NE(host.error.text().find("token_list: layer 1"), std::string::npos) << host.error.message;
  expect_snapshot(seq, 20, 1);
  EXPECT_EQ(tokens_end(seq), 0u);
}

TEST(StateLapse, what_is_left_after_a_lapse_is_where_a_snapshot_is) {
  LapsingHost host({full_layers(1, 1, 64, 64), state_layers(1, 1, 4096, 0), window_layers(1, 1, 64, 64, 20)});
  const auto tokens = ids(400);
  SeqHandle seq = host.appended(tokens, {32, 64, 100});
  host.lapse();
  for (int32_t i = 0; i < 200; i++) host.push(i);
  auto info = sized<kvc_seq_info>();
  ASSERT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK);
  EXPECT_EQ(info.tokens_held, 0u);
  EXPECT_EQ(host.append_all(seq, tokens, 100, 101, 1), KVC_ERR_GONE);
  EXPECT_NE(host.error.text().find("0 are left"), std::string::npos) << host.error.message;
  ASSERT_EQ(kvc_seq_truncate(seq, 0, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append_all(seq, tokens, 0, 48, 2), KVC_OK) << host.error.message;
  host.expect_rows(seq, 1, 0, 48, 2);
  host.expect_rows(seq, 2, 29, 48, 2);
  // A lapse after which nothing went takes nothing away.
  host.lapse();
  auto store = sized<kvc_store_info>();
  ASSERT_EQ(kvc_store_get_info(&store, host.store, &host.error), KVC_OK);
  host.expect_rows(seq, 1, 0, 48, 2);
  ASSERT_EQ(host.append_all(seq, tokens, 48, 64, 2), KVC_OK) << host.error.message;
  host.expect_rows(seq, 2, 45, 64, 2);
}

TEST(StateLapse, a_snapshot_that_a_lapse_took_is_gone_for_a_read_with_the_length_that_is_left) {
  LapsingHost host({full_layers(1, 1, 64, 64), state_layers(1, 1, 4096, 0)});
  SeqHandle seq = host.create();
  ASSERT_EQ(host.append_all(seq, ids(64), 0, 64, 1), KVC_OK) << host.error.message;
  host.lapse();
  for (int32_t i = 0; i < 200; i++) host.push(i);
  host.expect_refused(seq, 1, 0, 64, KVC_ERR_GONE);
  EXPECT_NE(host.error.text().find("0 are left"), std::string::npos) << host.error.message;
  host.expect_refused(seq, 1, 0, 30, KVC_ERR_NO_SNAPSHOT);  // there was none
}

}  // namespace

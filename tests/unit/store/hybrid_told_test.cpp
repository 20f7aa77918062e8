#include "../api/queue_host.h"
#include "lapsing_host.h"

/// What a host is told of a sequence with window rows and snapshots: results, lengths and messages.
namespace {

using namespace kvc_test;

TEST(HybridTold, after_a_lapse_the_info_and_every_refusal_name_the_length_to_which_all_layers_can_go_on) {
  LapsingHost host({full_layers(1, 1, 64, 64), state_layers(1, 1, 4096, 0), window_layers(1, 1, 64, 64, 20)});
  const auto tokens = ids(400);
  SeqHandle seq = host.appended(tokens, {32, 64, 100});
  host.lapse();
  auto info = sized<kvc_seq_info>();
  info.tokens_held = 100;
  for (int32_t i = 0; info.tokens_held == 100; i++) {
    ASSERT_LT(i, 300);
    host.push(i);
    ASSERT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK) << host.error.message;
  }
  EXPECT_EQ(info.tokens_held, 64u) << "more chunks are held, without a snapshot";
  host.expect_refused(seq, 0, 90, 96, KVC_ERR_GONE);
  EXPECT_NE(host.error.text().find("tokens from 80 on were evicted after the lease lapsed: 64 are left"), std::string::npos) << host.error.message;
  host.expect_refused(seq, 2, 85, 96, KVC_ERR_GONE);
  EXPECT_NE(host.error.text().find("64 are left"), std::string::npos) << host.error.message;
  EXPECT_EQ(host.append_all(seq, tokens, 100, 101, 1), KVC_ERR_GONE);
  EXPECT_NE(host.error.text().find("64 are left"), std::string::npos) << host.error.message;
  ASSERT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK);
  EXPECT_EQ(info.tokens_held, 64u);
  ASSERT_EQ(kvc_seq_truncate(seq, 64, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append_all(seq, tokens, 64, 101, 2), KVC_OK) << host.error.message;
  host.expect_rows(seq, 0, 0, 64, 1);
  host.expect_rows(seq, 0, 80, 101, 2);
  host.expect_rows(seq, 2, 82, 101, 2);
}

TEST(HybridTold, the_result_of_a_queued_append_says_to_where_its_rows_go_and_how_many_bytes_they_were) {
  HybridHost host({full_layers(1, 2, 5, 3), latent_layers(1, 32, 8), window_layers(1, 1, 6, 4, 20), state_layers(1, 3, 37, 11)}, KVC_F16, 16);
  const auto tokens = ids(100);
  SeqHandle seq = host.create();
  QueueHandle queue = make_queue(host.store);
  const auto call = queued(queue);
  const auto append = [&](const Moves &moves, uint64_t id_count) {
    const auto rows = moves.rows();
    EXPECT_EQ(kvc_append(seq, id_count ? tokens.data() : nullptr, id_count, rows.data(), rows.size(), &call, &host.error), KVC_OK) << host.error.message;
    return drain_until(queue, 1)[0];
  };
  const kvc_result named = append(Moves(), 100);
  EXPECT_EQ(named.done, 0u);
  EXPECT_EQ(named.bytes, 0u);
  uint64_t begin = 0;
  for (const uint64_t end : {7u, 40u}) {
    const kvc_result result = append(host.sources(begin, end, 1), 0);
    EXPECT_EQ(result.status, KVC_OK) << result.message;
    EXPECT_EQ(result.done, end);
    EXPECT_EQ(result.bytes, (end - begin) * (2 * (5 + 3) * 2 + (32 + 8) * 2 + (6 + 4) * 2) + 3 * (37 + 11)) << "a state is one row";
    EXPECT_EQ(result.bytes_host, result.bytes);
    begin = end;
  }
  Moves one = host.source(0, 40, 50, 1);
  std::vector<uint8_t> wide(10 * 2 * 5 * 4);
  kvc_array &k = one.list[0]->rows.k;
  k.dtype = KVC_F32, k.data = wide.data(), k.bytes = wide.size();
  const kvc_result layer = append(one, 0);
  EXPECT_EQ(layer.status, KVC_OK) << layer.message;
  EXPECT_EQ(layer.done, 50u) << "of one layer alone";
  EXPECT_EQ(layer.bytes, 10u * 2 * (5 * 4 + 3 * 2)) << "as they are in the caller's memory";
  const kvc_result gap = append(host.sources(60, 70, 1), 0);
  EXPECT_EQ(gap.status, KVC_ERR_RANGE);
  EXPECT_EQ(gap.done, 0u);
  EXPECT_EQ(gap.bytes, 0u);
}

TEST(HybridTold, a_snapshot_in_a_slot_by_its_position_is_refused_with_the_rule) {
  HybridHost host({full_layers(1, 1, 8, 8), state_layers(1, 2, 20, 6)}, KVC_F16, 16);
  const auto tokens = ids(32);
  SeqHandle seq = host.create();
  Moves moves = host.sources(0, 32, 1);
  moves.list[1]->rows.slot_begin = 16;
  EXPECT_EQ(host.append(seq, tokens, moves.rows()), KVC_ERR_ARGUMENT);
  EXPECT_NE(host.error.text().find("layer 1 keeps states, whose snapshot is one row whatever the positions: slot_begin 16"), std::string::npos) << host.error.message;
  moves.list[1]->rows.slot_begin = 0;
  EXPECT_EQ(host.append(seq, tokens, moves.rows()), KVC_OK) << host.error.message;
}

}  // namespace

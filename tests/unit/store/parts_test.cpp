#include "parts_host.h"

/// Ranks that split a model write their slices of the same chunks, and whoever splits it otherwise, or not at all, reads them.
namespace {

using namespace kvc_test;

TEST(Parts, a_rank_writes_and_reads_its_layers_and_heads) {
  PartsHost host;
  const auto tokens = ids(40);
  for (const Range &r : {tp(0, 2), tp(1, 2), tp(3, 4), pp(0), pp(1), Range{1, 2, 2, 5}}) {
    SeqHandle seq = host.written(r, 0, 1, tokens);
    const kvc_seq_info info = host.info(seq);
    EXPECT_EQ(info.tokens, 40u);
    EXPECT_EQ(info.tokens_sealed, 32u);
    host.expect_rows(seq, r, 0, 40, 1);
    host.expect_rows(seq, r, 7, 33, 1);
  }
}

TEST(Parts, a_frontier_looks_at_the_layers_of_the_part_alone) {
  PartsHost host;
  const auto tokens = ids(20);
  SeqHandle seq = host.create(pp(1));
  const Range first{2, 1, 0, 0}, second{3, 1, 0, 0};
  ASSERT_EQ(host.append(seq, first, 1, tokens, 0, 20), KVC_OK) << host.error.message;
  EXPECT_EQ(host.info(seq).tokens, 0u);
  host.expect_rows(seq, first, 0, 20, 1);
  ASSERT_EQ(host.append(seq, second, 1, tokens, 0, 17, false), KVC_OK) << host.error.message;
  EXPECT_EQ(host.info(seq).tokens, 17u);
  EXPECT_EQ(host.info(seq).tokens_sealed, 16u);
  host.expect_rows(seq, second, 0, 17, 1);
}

TEST(Parts, counts_of_zero_name_what_the_part_has) {
  PartsHost host;
  const auto tokens = ids(16);
  SeqHandle seq = host.written(tp(1, 2), 0, 1, tokens);
  auto list = host.rows_of(tp(1, 2), 0, 16);
  auto rows = PartsHost::runs_of(list);
  for (kvc_rows &r : rows) r.head_begin = r.head_count = 0;
  ASSERT_EQ(kvc_gather(nullptr, seq, rows.data(), rows.size(), nullptr, &host.error), KVC_OK) << host.error.message;
  uint64_t wrong = 0;
  for (auto &m : list) m.each([&](uint16_t &e, bool is_k, uint64_t t, uint32_t h, uint32_t d) { wrong += e != PartsHost::element(1, is_k, m.layer, t, h, d); });
  EXPECT_EQ(wrong, 0u);
}

TEST(Parts, rows_outside_of_the_part_are_refused_by_number_and_nothing_changes) {
  PartsHost host;
  const auto tokens = ids(16);
  SeqHandle seq = host.create({0, 2, 4, 2});
  const auto tried = [&](const Range &r) {
    const kvc_status append = host.append(seq, r, 1, tokens, 0, 16);
    return append;
  };
  host.expect_refused(tried({2, 1, 4, 2}), KVC_ERR_RANGE, {"layer 2 is not in this sequence's part, layers 0..1"});
  host.expect_refused(tried({1, 3, 4, 2}), KVC_ERR_RANGE, {"layer 2 is not"});
  host.expect_refused(tried({0, 2, 3, 2}), KVC_ERR_RANGE, {"heads [3, +2)", "heads 4..5 of layer 0"});
  host.expect_refused(tried({0, 2, 4, 3}), KVC_ERR_RANGE, {"heads [4, +3)", "heads 4..5"});
  host.expect_refused(tried({0, 2, 0, 8}), KVC_ERR_RANGE, {"heads [0, +8)"});
  host.expect_refused(tried({0, 2, 4, 1}), KVC_ERR_RANGE, {"layer 0: 1 of 2 heads were given"});
  EXPECT_EQ(host.info(seq).tokens_given, 0u);
  ASSERT_EQ(tried({0, 2, 4, 2}), KVC_OK) << host.error.message;
  auto list = host.rows_of({0, 3, 4, 2}, 0, 16);
  auto rows = PartsHost::runs_of(list);
  host.expect_refused(kvc_gather(nullptr, seq, rows.data(), rows.size(), nullptr, &host.error), KVC_ERR_RANGE, {"layer 2 is not"});
}

TEST(Parts, ranges_that_are_no_part_of_the_shape_are_refused) {
  PartsHost host;
  host.expect_refused(host.try_create({4, 1, 0, 0}), KVC_ERR_RANGE, {"layers [4, +1): the shape has 4"});
  host.expect_refused(host.try_create({2, 3, 0, 0}), KVC_ERR_RANGE, {"layers [2, +3)"});
  host.expect_refused(host.try_create({3, UINT32_MAX, 0, 0}), KVC_ERR_RANGE, {"layers [3,"});
  host.expect_refused(host.try_create({2, 0, 0, 0}), KVC_ERR_ARGUMENT, {"layer_begin 2 with layer_count 0"});
  host.expect_refused(host.try_create({0, 0, 2, 0}), KVC_ERR_ARGUMENT, {"head_begin 2 with head_count 0"});
  host.expect_refused(host.try_create({0, 0, 8, 1}), KVC_ERR_RANGE, {"heads [8, +1): layer 0 has 8"});
  host.expect_refused(host.try_create({2, 2, 7, 2}), KVC_ERR_RANGE, {"heads [7, +2): layer 2 has 8"});
  host.expect_refused(host.try_create({0, 0, 1, UINT32_MAX}), KVC_ERR_RANGE, {"heads [1,"});
  for (const Range &r : {Range{0, 4, 0, 8}, Range{0, 4, 0, 0}, Range{0, 0, 0, 8}}) EXPECT_EQ(host.try_create(r), KVC_OK) << host.error.message;
}

TEST(Parts, a_chunk_is_visible_when_all_of_the_matchers_part_is_stored) {
  PartsHost host;
  const auto tokens = ids(48);
  std::vector<SeqHandle> ranks;
  for (uint32_t r = 0; r < 4; r++) {
    EXPECT_EQ(host.found(whole, tokens), 0u);
    EXPECT_EQ(host.found(tp(0, 2), tokens), r >= 2 ? 48u : 0u);
    EXPECT_EQ(host.found(tp(1, 2), tokens), 0u);
    EXPECT_EQ(host.found(pp(0), tokens), 0u);
    EXPECT_EQ(host.found(tp(r, 4), tokens), 0u);
    ranks.push_back(host.written(tp(r, 4), 7, 1, tokens));
    EXPECT_EQ(host.found(tp(r, 4), tokens), 48u);
  }
  for (const Range &r : {whole, tp(0, 2), tp(1, 2), tp(7, 8), pp(0), pp(1), Range{1, 2, 1, 6}}) {
    uint64_t length = 0;
    SeqHandle seq = host.match(r, tokens, &length);
    ASSERT_EQ(length, 48u);
    host.expect_rows(seq, r, 0, 48, 1);
    host.expect_rows(seq, r, 13, 35, 1);
  }
  EXPECT_EQ(host.scope_info().chunk_count, 3u);
  EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
}

TEST(Parts, what_one_host_wrote_whole_ranks_read_in_parts) {
  PartsHost host({full_layers(4, PartsHost::heads, PartsHost::k_dim, PartsHost::v_dim)}, 4u << 20, KVC_OPEN_VERIFY_READS);
  const auto tokens = ids(40);
  SeqHandle writer = host.written(whole, 0, 1, tokens);
  for (const Range &r : {tp(0, 4), tp(3, 4), pp(0), pp(1), Range{2, 2, 4, 4}}) {
    uint64_t length = 0;
    SeqHandle seq = host.match(r, tokens, &length);
    ASSERT_EQ(length, 32u);
    host.expect_rows(seq, r, 0, 32, 1);
    ASSERT_EQ(host.append(seq, r, 2, tokens, 32, 40), KVC_OK) << host.error.message;
    host.expect_rows(seq, r, 0, 40, [](uint32_t, uint64_t t, uint32_t) { return t < 32 ? 1 : 2; });
  }
}

TEST(Parts, layers_and_heads_split_at_once_make_one_chunk) {
  PartsHost host;
  const auto tokens = ids(32);
  std::vector<SeqHandle> ranks;
  for (uint32_t p = 0; p < 2; p++)
    for (uint32_t t = 0; t < 2; t++) {
      EXPECT_EQ(host.found(whole, tokens), 0u);
      ranks.push_back(host.written({p * 2, 2, t * 4, 4}, 5, 1, tokens));
      EXPECT_EQ(host.found(pp(p), tokens), t == 1 ? 32u : 0u);
    }
  uint64_t length = 0;
  SeqHandle seq = host.match(whole, tokens, &length);
  ASSERT_EQ(length, 32u);
  host.expect_rows(seq, whole, 0, 32, 1);
  SeqHandle over = host.match({1, 2, 2, 4}, tokens, &length);  // across both cuts
  ASSERT_EQ(length, 32u);
  host.expect_rows(over, {1, 2, 2, 4}, 0, 32, 1);
}

TEST(Parts, rows_of_a_part_that_is_held_are_not_copied_whoever_wrote_them) {
  PartsHost host;
  const auto tokens = ids(32);
  SeqHandle first = host.written(whole, 0, 1, tokens);
  const uint64_t used = store_info(host.store).memory_used;
  SeqHandle rank = host.written(tp(1, 2), 3, 2, tokens);
  host.expect_rows(rank, tp(1, 2), 0, 32, 1);
  EXPECT_EQ(store_info(host.store).memory_used, used);
  EXPECT_EQ(host.info(rank).tokens_shareable, 32u);
}

/// Engines 1 and 2, two ranks each, of the same prompt.
TEST(Parts, no_chunk_mixes_writers) {
  for (int order = 0; order < 24; order++) {
    PartsHost host;
    const auto tokens = ids(16);
    std::vector<int> turns{0, 1, 2, 3};
    for (int i = 0; i < order; i++) std::next_permutation(turns.begin(), turns.end());
    std::vector<SeqHandle> seqs(4);
    for (const int turn : turns) {
      const uint32_t engine = static_cast<uint32_t>(turn) / 2 + 1, rank = static_cast<uint32_t>(turn) % 2;
      seqs[static_cast<size_t>(turn)] = host.written(tp(rank, 2), static_cast<uint8_t>(engine), engine, tokens);
    }
    uint64_t length = 0;
    SeqHandle seq = host.match(whole, tokens, &length);
    ASSERT_EQ(length, 16u) << "order " << order;  // the writer that was first is whole
    const auto first = static_cast<uint64_t>(turns[0] / 2 + 1);
    host.expect_rows(seq, whole, 0, 16, first);
    // Who was not served keeps what it wrote, for itself.
    for (size_t turn = 0; turn < 4; turn++) {
      const uint64_t own = turn / 2 + 1, rank = turn % 2;
      const bool shared = host.info(seqs[turn]).tokens_shareable == 16;
      EXPECT_TRUE(shared || own != first) << "order " << order;
      host.expect_rows(seqs[turn], tp(static_cast<uint32_t>(rank), 2), 0, 16, shared ? first : own);
    }
  }
}

TEST(Parts, slices_of_drawn_write_ids_never_make_a_chunk) {
  PartsHost host;
  const auto tokens = ids(32);
  SeqHandle left = host.written(tp(0, 2), 0, 1, tokens), right = host.written(tp(1, 2), 0, 1, tokens);
  EXPECT_EQ(host.found(whole, tokens), 0u);
  EXPECT_EQ(host.found(tp(0, 2), tokens), 32u);
  EXPECT_EQ(host.found(tp(1, 2), tokens), 0u);  // the chunk is the other's
  host.expect_rows(right, tp(1, 2), 0, 32, 1);
  EXPECT_EQ(host.info(left).tokens_shareable, 32u);
  EXPECT_EQ(host.info(right).tokens_shareable, 0u);
}

TEST(Parts, all_of_a_chunk_takes_the_name_of_some_of_it) {
  PartsHost host;
  const auto tokens = ids(48);
  SeqHandle rank = host.create(tp(0, 2), 1);
  ASSERT_EQ(host.append(rank, tp(0, 2), 1, tokens, 0, 32), KVC_OK) << host.error.message;
  SeqHandle other = host.written(whole, 0, 2, tokens);
  uint64_t length = 0;
  SeqHandle seq = host.match(whole, tokens, &length);
  ASSERT_EQ(length, 48u);
  host.expect_rows(seq, whole, 0, 48, 2);
  // The rank goes on with what it wrote; its sister finds the other's.
  host.expect_rows(rank, tp(0, 2), 0, 32, 1);
  EXPECT_EQ(host.info(rank).tokens_shareable, 0u);
  ASSERT_EQ(host.append(rank, tp(0, 2), 1, tokens, 32, 48), KVC_OK) << host.error.message;
  host.expect_rows(rank, tp(0, 2), 0, 48, 1);
  SeqHandle sister = host.written(tp(1, 2), 1, 1, tokens);
  host.expect_rows(sister, tp(1, 2), 0, 48, 2);
  rank.reset();
  EXPECT_EQ(host.scope_info().chunk_count, 3u);
}

}  // namespace

#include "parts_host.h"

/// Window rows and snapshots of parts: ranks of one engine write those of one chunk, and readers may split the model otherwise.
namespace {

using namespace kvc_test;

kvc_layer window_layer(uint32_t heads, uint32_t window = 20) { return {1, KVC_LAYER_WINDOW, heads, 8, 6, 0, window, 0, 0, {0, 0, 0}}; }
kvc_layer state_layer(uint32_t heads) { return {1, KVC_LAYER_STATE, heads, 48, 10, 0, 0, 0, 0, {0, 0, 0}}; }

const std::vector<kvc_layer> mixed{full_layers(1, 8, 8, 6), window_layer(8), window_layer(1, 12), state_layer(8), state_layer(1)};

struct HybridParts : testing::Test {
  PartsHost host{mixed};
  const std::vector<int32_t> tokens = ids(64);
  std::vector<SeqHandle> writers;

  /// All ranks that split the heads.
  void write(uint32_t ranks, uint8_t engine, uint64_t writer, uint64_t end = 64) {
    for (uint32_t r = 0; r < ranks; r++) {
      writers.push_back(host.create(tp(r, ranks), engine));
      ASSERT_EQ(host.append(writers.back(), tp(r, ranks), writer, tokens, 0, end), KVC_OK) << host.error.message;
    }
  }
  void expect_match(const Range &r, uint64_t length, uint64_t writer) {
    uint64_t found = 0;
    SeqHandle seq = host.match(r, tokens, &found);
    ASSERT_EQ(found, length) << "layers from " << r.layer_begin << ", heads from " << r.head_begin;
    if (length) host.expect_all(seq, r, length, writer);
  }
};

TEST_F(HybridParts, ranks_that_split_heads_write_the_pieces_of_one_chunk_and_every_split_reads_them) {
  SeqHandle left = host.written(tp(0, 2), 1, 1, tokens);
  EXPECT_EQ(host.found(whole, tokens), 0u);
  EXPECT_EQ(host.found(tp(1, 2), tokens), 0u);
  expect_match(tp(0, 2), 64, 1);
  expect_match(tp(1, 4), 64, 1);
  SeqHandle right = host.written(tp(1, 2), 1, 1, tokens);
  EXPECT_EQ(host.scope_info().chunk_count, 4u);
  for (const Range &r : {whole, tp(0, 2), tp(1, 2), tp(2, 4), Range{0, 0, 3, 2}, Range{1, 3, 0, 0}, Range{3, 2, 2, 4}, Range{2, 1, 0, 0}}) expect_match(r, 64, 1);
  host.expect_all(left, tp(0, 2), 64, 1);
  host.expect_all(right, tp(1, 2), 64, 1);
  EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
}

TEST_F(HybridParts, a_chunk_of_one_writer_is_read_by_every_part) {
  SeqHandle one = host.written(whole, 0, 3, tokens);
  for (const Range &r : {whole, tp(0, 2), tp(7, 8), Range{1, 1, 0, 0}, Range{4, 1, 0, 0}, Range{3, 1, 5, 2}}) expect_match(r, 64, 3);
  SeqHandle rank = host.written(tp(1, 2), 7, 9, tokens);
  host.expect_all(rank, tp(1, 2), 64, 3);
  EXPECT_EQ(host.scope_info().chunk_count, 4u);
}

TEST_F(HybridParts, stages_of_which_some_have_no_window_or_state_layers_make_one_chunk_in_any_order) {
  const Range stages[] = {{0, 2, 0, 0}, {2, 1, 0, 0}, {3, 2, 0, 0}, {5, 1, 0, 0}};  // full and window, full alone, states alone, a window alone
  std::vector<uint32_t> order{0, 1, 2, 3};
  do {
    PartsHost h({full_layers(1, 8, 8, 6), window_layer(8), full_layers(1, 2, 8, 6), state_layer(8), state_layer(1), window_layer(2)});
    std::vector<SeqHandle> ranks;
    for (const uint32_t rank : order) {
      EXPECT_EQ(h.found(whole, tokens), 0u);
      EXPECT_EQ(h.found(stages[rank], tokens), 0u);
      ranks.push_back(h.written(stages[rank], 1, 1, tokens));
      EXPECT_EQ(h.info(ranks.back()).tokens_shareable, 64u);
      EXPECT_EQ(h.found(stages[rank], tokens), 64u);
    }
    EXPECT_EQ(h.scope_info().chunk_count, 4u);
    for (const Range &r : {whole, stages[0], stages[1], stages[2], stages[3], Range{1, 4, 0, 0}}) {
      uint64_t length = 0;
      SeqHandle seq = h.match(r, tokens, &length);
      ASSERT_EQ(length, 64u) << "layers from " << r.layer_begin;
      h.expect_all(seq, r, 64, 1);
    }
    EXPECT_EQ(kvc_store_verify(nullptr, h.store, nullptr, &h.error), KVC_OK) << h.error.message;
  } while (std::next_permutation(order.begin(), order.end()) && !testing::Test::HasFailure());
}

TEST_F(HybridParts, a_model_without_full_layers_can_be_split) {
  for (const bool states_first : {false, true}) {
    PartsHost h({window_layer(8), state_layer(8)});
    const Range window{0, 1, 0, 0}, state{1, 1, 0, 0};
    SeqHandle first = h.written(states_first ? state : window, 1, 1, tokens);
    EXPECT_EQ(h.found(whole, tokens), 0u);
    SeqHandle second = h.written(states_first ? window : state, 1, 1, tokens);
    uint64_t length = 0;
    SeqHandle seq = h.match(whole, tokens, &length);
    ASSERT_EQ(length, 64u);
    h.expect_all(seq, whole, 64, 1);
  }
}

TEST_F(HybridParts, a_match_ends_where_all_layers_of_its_part_have_what_they_need) {
  SeqHandle left = host.create(tp(0, 2), 1), right = host.create(tp(1, 2), 1);
  ASSERT_EQ(host.append(left, tp(0, 2), 1, tokens, 0, 32), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append(left, tp(0, 2), 1, tokens, 32, 64), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append(right, tp(1, 2), 1, tokens, 0, 48, true, host.seen_from(48)), KVC_OK) << host.error.message;
  EXPECT_EQ(host.found(tp(0, 2), tokens), 64u);
  EXPECT_EQ(host.found(tp(1, 2), tokens), 48u);
  EXPECT_EQ(host.found(whole, tokens), 0u) << "one has snapshots at 32 and 64, the other at 48";
  EXPECT_EQ(host.found({0, 1, 0, 0}, tokens), 48u) << "full layers end anywhere";
  ASSERT_EQ(host.append(right, tp(1, 2), 1, tokens, 48, 64), KVC_OK) << host.error.message;
  EXPECT_EQ(host.found(whole, tokens), 64u);
  EXPECT_EQ(host.found(tp(0, 2), {tokens.begin(), tokens.begin() + 40}), 32u);
  EXPECT_EQ(host.found(tp(1, 2), {tokens.begin(), tokens.begin() + 40}), 0u);
  EXPECT_EQ(host.found(tp(1, 2), {tokens.begin(), tokens.begin() + 63}), 48u);
  EXPECT_EQ(host.found(whole, {tokens.begin(), tokens.begin() + 63}), 0u);
  expect_match(whole, 64, 1);
}

TEST_F(HybridParts, rows_that_one_rank_left_out_end_the_matches_that_see_them_alone) {
  PartsHost h({full_layers(1, 8, 8, 6), window_layer(8)});
  SeqHandle left = h.written(tp(0, 2), 1, 1, tokens), right = h.create(tp(1, 2), 1);
  ASSERT_EQ(h.append(right, tp(1, 2), 1, tokens, 0, 64, true, 45), KVC_OK) << h.error.message;
  const std::vector<int32_t> front(tokens.begin(), tokens.begin() + 48);
  EXPECT_EQ(h.found(tp(0, 2), front), 48u);
  EXPECT_EQ(h.found(tp(1, 2), front), 0u);
  EXPECT_EQ(h.found({0, 0, 3, 2}, front), 0u);
  uint64_t length = 0;
  SeqHandle seq = h.match(whole, tokens, &length);
  ASSERT_EQ(length, 64u);
  h.expect_all(seq, whole, 64, 1);
  auto list = h.rows_of(whole, 40, 64, 0, KVC_LAYER_WINDOW);
  auto rows = PartsHost::runs_of(list);
  h.expect_refused(kvc_gather(nullptr, seq, rows.data(), rows.size(), nullptr, &h.error), KVC_ERR_GONE, {"layer 1", "below token 45"});
  list.front().each([](uint16_t &e, bool is_k, uint64_t, uint32_t, uint32_t) { EXPECT_EQ(e, is_k ? 0xDEAD : 0xBEEF); });
  h.expect_rows(seq, tp(0, 2), 16, 64, 1);  // of these heads nothing was left out
}

TEST_F(HybridParts, of_a_layer_that_several_ranks_bring_the_page_with_most_rows_is_read) {
  for (const uint32_t first : {0u, 1u}) {
    PartsHost h({full_layers(1, 8, 8, 6), window_layer(8), window_layer(1)});
    SeqHandle ranks[2];
    for (const uint32_t r : {first, 1 - first}) {
      ranks[r] = h.create(tp(r, 2), 1);
      ASSERT_EQ(h.append(ranks[r], tp(r, 2), 1, tokens, 0, 64, true, r ? 0 : 45), KVC_OK) << h.error.message;
    }
    const Range shared{2, 1, 0, 0};
    uint64_t length = 0;
    SeqHandle seq = h.match(shared, {tokens.begin(), tokens.begin() + 48}, &length);
    ASSERT_EQ(length, 48u) << "rank " << first << " first";
    h.expect_rows(seq, shared, 0, 48, 1);
    EXPECT_EQ(h.found(tp(1, 2), {tokens.begin(), tokens.begin() + 48}), 48u);
    EXPECT_EQ(h.found(tp(0, 2), {tokens.begin(), tokens.begin() + 48}), 0u);
    EXPECT_EQ(h.found(whole, tokens), 64u);
  }
}

TEST_F(HybridParts, rows_and_snapshots_that_come_after_their_chunk_was_sealed_join_it) {
  SeqHandle left = host.create(tp(0, 2), 1), right = host.create(tp(1, 2), 1);
  for (const uint32_t kind : {KVC_LAYER_FULL, KVC_LAYER_STATE, KVC_LAYER_WINDOW}) {
    EXPECT_EQ(host.found(whole, tokens), 0u);
    ASSERT_EQ(host.append(left, tp(0, 2), 1, tokens, 0, 64, kind == KVC_LAYER_FULL, 0, kind), KVC_OK) << host.error.message;
    ASSERT_EQ(host.append(right, tp(1, 2), 1, tokens, 0, 64, kind == KVC_LAYER_FULL, 0, kind), KVC_OK) << host.error.message;
  }
  expect_match(whole, 64, 1);
  expect_match(tp(3, 4), 64, 1);
}

TEST_F(HybridParts, a_layer_with_one_head_is_in_every_part_and_stored_once) {
  const auto bytes_of = [&](std::vector<kvc_layer> layers, uint32_t ranks) {
    PartsHost h(std::move(layers));
    std::vector<SeqHandle> kept;
    for (uint32_t r = 0; r < ranks; r++) kept.push_back(h.written(tp(r, ranks), 1, 1, tokens));
    for (uint32_t r = 0; r < ranks; r++) h.expect_all(kept[r], tp(r, ranks), 64, 1);
    uint64_t length = 0;
    SeqHandle seq = h.match(whole, tokens, &length);
    EXPECT_EQ(length, 64u);
    h.expect_all(seq, whole, 64, 1);
    EXPECT_EQ(kvc_store_verify(nullptr, h.store, nullptr, &h.error), KVC_OK) << h.error.message;
    return h.scope_info().bytes_host;
  };
  const kvc_layer wide{1, KVC_LAYER_WINDOW, 1, 512, 256, 0, 20, 0, 0, {0, 0, 0}}, deep{1, KVC_LAYER_STATE, 1, 20000, 10, 0, 0, 0, 0, {0, 0, 0}};
  const uint64_t windows = 4 * 16 * (512 + 256) * 2, snapshot = 20010;
  const uint64_t split = bytes_of({full_layers(1, 8, 8, 6), window_layer(8), state_layer(8)}, 4);
  const uint64_t with_windows = bytes_of({full_layers(1, 8, 8, 6), window_layer(8), state_layer(8), wide}, 4);
  const uint64_t with_states = bytes_of({full_layers(1, 8, 8, 6), window_layer(8), state_layer(8), deep}, 4);
  EXPECT_LT(with_windows, split + windows * 3 / 2);
  EXPECT_LT(with_states, split + snapshot * 3 / 2);
  const uint64_t alone = bytes_of({full_layers(1, 8, 8, 6), wide, deep}, 4), without = bytes_of({full_layers(1, 8, 8, 6)}, 4);
  EXPECT_LT(alone, without + (windows + snapshot) * 3 / 2) << "and where no layer of its kind is split";
}

TEST_F(HybridParts, another_engines_rows_stay_nameless_while_sister_parts_may_come) {
  SeqHandle first = host.written(tp(0, 2), 1, 1, tokens), other = host.written(tp(1, 2), 2, 2, tokens);
  EXPECT_EQ(host.info(other).tokens_shareable, 0u);
  host.expect_all(other, tp(1, 2), 64, 2);
  EXPECT_EQ(host.found(whole, tokens), 0u);
  EXPECT_EQ(host.found(tp(1, 2), tokens), 0u);
  SeqHandle late = host.written(tp(1, 2), 1, 1, tokens);
  expect_match(whole, 64, 1);
  host.expect_all(other, tp(1, 2), 64, 2);
}

TEST_F(HybridParts, whoever_brings_what_a_complete_chunk_lacks_makes_it_his_own_and_his_sisters_join) {
  const std::vector<int32_t> front(tokens.begin(), tokens.begin() + 32);
  SeqHandle old[2] = {host.create(tp(0, 2), 1), host.create(tp(1, 2), 1)};
  for (uint32_t r = 0; r < 2; r++) {
    ASSERT_EQ(host.append(old[r], tp(r, 2), 1, tokens, 0, 32), KVC_OK) << host.error.message;
    ASSERT_EQ(host.append(old[r], tp(r, 2), 1, tokens, 32, 64, true, 0, KVC_LAYER_FULL), KVC_OK) << host.error.message;
  }
  EXPECT_EQ(host.found({0, 1, 0, 0}, tokens), 64u);
  EXPECT_EQ(host.found(whole, tokens), 32u);
  SeqHandle next[2];
  for (uint32_t r = 0; r < 2; r++) {
    next[r] = host.written(tp(r, 2), 2, 2, tokens);
    EXPECT_EQ(host.found(whole, front), 32u) << "which lacks nothing, and stays";
  }
  uint64_t length = 0;
  SeqHandle seq = host.match(whole, tokens, &length);
  ASSERT_EQ(length, 64u);
  host.expect_all(seq, whole, 64, [](uint32_t l, uint64_t t, uint32_t) { return (l >= 3 ? t > 32 : t >= 32) ? 2 : 1; });
  // What the first ones still bring is of their own chunk, not of that which has its name.
  for (uint32_t r = 0; r < 2; r++) {
    for (const uint32_t kind : {KVC_LAYER_STATE, KVC_LAYER_WINDOW}) ASSERT_EQ(host.append(old[r], tp(r, 2), 1, tokens, 32, 64, false, 0, kind), KVC_OK) << host.error.message;
    host.expect_all(old[r], tp(r, 2), 64, 1);
  }
  host.expect_all(seq, whole, 64, [](uint32_t l, uint64_t t, uint32_t) { return (l >= 3 ? t > 32 : t >= 32) ? 2 : 1; });
}

TEST_F(HybridParts, what_one_rank_took_and_its_sisters_did_not_is_written_anew_when_it_lapsed) {
  SeqHandle old[2] = {host.written(tp(0, 2), 1, 1, tokens), host.create(tp(1, 2), 1)};
  ASSERT_EQ(host.append(old[1], tp(1, 2), 1, tokens, 0, 64, true, 0, KVC_LAYER_FULL), KVC_OK) << host.error.message;  // and dies
  SeqHandle next[2] = {host.written(tp(0, 2), 2, 2, tokens), host.written(tp(1, 2), 2, 2, tokens)};
  host.expect_all(next[0], tp(0, 2), 64, 1);
  host.expect_all(next[1], tp(1, 2), 64, [](uint32_t l, uint64_t t, uint32_t) { return (l >= 3 ? t > 32 : t >= 32) ? 2 : 1; });
  EXPECT_EQ(host.found(whole, tokens), 0u);
  for (SeqHandle *seqs : {old, next}) seqs[0].reset(), seqs[1].reset();
  host.clock.advance_ms(1001);
  (void)store_info(host.store);  // looks for what lapsed
  SeqHandle last[2] = {host.written(tp(0, 2), 3, 3, tokens), host.written(tp(1, 2), 3, 3, tokens)};
  uint64_t length = 0;
  SeqHandle seq = host.match(whole, tokens, &length);
  ASSERT_EQ(length, 64u);
  host.expect_all(seq, whole, 64, [](uint32_t l, uint64_t t, uint32_t) { return (l >= 3 ? t > 32 : t >= 32) ? 3 : 1; });
}

TEST_F(HybridParts, all_of_a_chunk_takes_the_place_of_some_of_it) {
  SeqHandle rank = host.written(tp(0, 2), 1, 1, tokens), one = host.written(whole, 0, 5, tokens);
  expect_match(whole, 64, 5);
  expect_match(tp(1, 2), 64, 5);
  host.expect_all(rank, tp(0, 2), 64, 1);
}

TEST_F(HybridParts, pages_are_lent_where_all_heads_lie_together) {
  write(2, 1, 1);
  uint64_t length = 0;
  SeqHandle quarter = host.match(tp(3, 4), tokens, &length), all = host.match(whole, tokens, &length);
  ASSERT_EQ(length, 64u);
  for (const uint32_t layer : {1u, 2u, 3u, 4u}) {
    ViewHandle lent;
    auto rows = sized<kvc_rows>();
    ASSERT_EQ(kvc_view_acquire(lent.out(), &rows, quarter, layer, 63, 0, &host.error), KVC_OK) << host.error.message;
    const bool state = layer >= 3, shared = layer == 2 || layer == 4;
    EXPECT_EQ(rows.head_begin, shared ? 0u : 6u);
    EXPECT_EQ(rows.head_count, shared ? 1u : 2u);
    EXPECT_EQ(rows.token_count, state ? 1u : 16u);
    uint64_t wrong = 0;
    for (uint64_t t = 0; t < rows.token_count; t++)
      for (uint32_t h = 0; h < rows.head_count; h++)
        for (uint32_t d = 0; d < (state ? 24u : 8u); d++) {
          uint16_t got;
          std::memcpy(&got, static_cast<uint8_t *>(rows.k.data) + t * rows.k.token_stride + h * rows.k.head_stride + d * 2, 2);
          wrong += got != PartsHost::element(1, true, layer, state ? 64 : rows.token_begin + t, rows.head_begin + h, d);
        }
    EXPECT_EQ(wrong, 0u) << "layer " << layer;
    lent.reset();
    const kvc_status status = kvc_view_acquire(lent.out(), &rows, all, layer, 63, 0, &host.error);
    if (shared) EXPECT_EQ(status, KVC_OK) << host.error.message;
    else host.expect_refused(status, KVC_ERR_UNSUPPORTED, {layer == 1 ? "layer 1" : "layer 3", "several parts"});
  }
  ViewHandle lent;
  auto rows = sized<kvc_rows>();
  host.expect_refused(kvc_view_acquire(lent.out(), &rows, quarter, 3, 40, 0, &host.error), KVC_ERR_NO_SNAPSHOT, {"token 41"});
}

TEST_F(HybridParts, what_is_refused_of_a_part_names_the_models_layers) {
  const Range stage{3, 2, 0, 0};
  SeqHandle seq = host.written(stage, 1, 1, tokens);
  auto list = host.rows_of(stage, 0, 40);
  auto rows = PartsHost::runs_of(list);
  host.expect_refused(kvc_gather(nullptr, seq, rows.data(), rows.size(), nullptr, &host.error), KVC_ERR_NO_SNAPSHOT, {"token 40"});
  const uint64_t positions[] = {0, 1};
  host.expect_refused(kvc_seq_compact(seq, positions, 2, &host.error), KVC_ERR_UNSUPPORTED, {"layer 3"});
  host.expect_refused(kvc_seq_truncate(seq, 40, &host.error), KVC_ERR_NO_SNAPSHOT, {"tokens 40"});
  host.expect_refused(host.try_create({0, 0, 6, 4}), KVC_ERR_RANGE, {"heads [6, +4)", "has 8"});
}

}  // namespace

#include "parts_host.h"

/// How sequences of parts of a mixed model branch and end, and what keeps window rows and snapshots that came in parts.
namespace {

using namespace kvc_test;

const std::vector<kvc_layer> mixed{full_layers(1, 8, 32, 32), {1, KVC_LAYER_WINDOW, 8, 32, 32, 0, 20, 0, 0, {0, 0, 0}}, {1, KVC_LAYER_STATE, 8, 600, 16, 0, 0, 0, 0, {0, 0, 0}}};

struct HybridPartsHold : testing::Test {
  PartsHost host{mixed, 1u << 20};
  const std::vector<int32_t> tokens = ids(96), other = ids(96, 2);
  SeqHandle ranks[2];

  /// A snapshot at each of the ends.
  void write(const std::vector<uint64_t> &ends, uint8_t engine = 1, uint64_t writer = 1) {
    for (uint32_t r = 0; r < 2; r++) {
      ranks[r] = host.create(tp(r, 2), engine);
      uint64_t begin = 0;
      for (const uint64_t end : ends) {
        ASSERT_EQ(host.append(ranks[r], tp(r, 2), writer, tokens, begin, end), KVC_OK) << host.error.message;
        begin = end;
      }
    }
  }
  void let_go() {
    for (SeqHandle &rank : ranks) rank.reset();
  }
  std::vector<int32_t> front(uint64_t count) const { return {tokens.begin(), tokens.begin() + static_cast<int64_t>(count)}; }
};

TEST_F(HybridPartsHold, a_fork_of_a_part_goes_its_own_way) {
  write({32, 40});
  SeqHandle fork;
  ASSERT_EQ(kvc_seq_fork(fork.out(), ranks[0], KVC_ALL, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append(fork, tp(0, 2), 2, other, 40, 48), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append(ranks[0], tp(0, 2), 1, tokens, 40, 48), KVC_OK) << host.error.message;
  host.expect_all(ranks[0], tp(0, 2), 48, 1);
  host.expect_all(fork, tp(0, 2), 48, [](uint32_t l, uint64_t t, uint32_t) { return (l == 2 ? t > 40 : t >= 40) ? 2 : 1; });
  SeqHandle early;
  ASSERT_EQ(kvc_seq_fork(early.out(), ranks[0], 32, &host.error), KVC_OK) << host.error.message;
  host.expect_all(early, tp(0, 2), 32, 1);
}

TEST_F(HybridPartsHold, a_truncate_cuts_chunks_in_parts_and_what_is_written_behind_it_stands_alone) {
  write({21, 48});
  SeqHandle seq;
  uint64_t length = 0;
  seq = host.match(whole, tokens, &length);
  ASSERT_EQ(length, 48u);
  host.expect_refused(kvc_seq_truncate(seq, 21, &host.error), KVC_ERR_NO_SNAPSHOT, {"tokens 21"});
  ASSERT_EQ(kvc_seq_truncate(ranks[0], 21, &host.error), KVC_ERR_NO_SNAPSHOT) << "the snapshot of a position inside of a chunk goes with the next";
  SeqHandle part = host.match(tp(1, 2), front(48), &length);
  ASSERT_EQ(length, 48u);
  ASSERT_EQ(host.append(part, tp(1, 2), 4, other, 48, 64), KVC_OK) << host.error.message;
  host.expect_all(part, tp(1, 2), 64, [](uint32_t l, uint64_t t, uint32_t) { return (l == 2 ? t > 48 : t >= 48) ? 4 : 1; });
  ASSERT_EQ(kvc_seq_truncate(part, 48, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append(part, tp(1, 2), 5, other, 48, 50), KVC_OK) << host.error.message;
  host.expect_all(part, tp(1, 2), 50, [](uint32_t l, uint64_t t, uint32_t) { return (l == 2 ? t > 48 : t >= 48) ? 5 : 1; });
  host.expect_all(ranks[1], tp(1, 2), 48, 1);
}

TEST_F(HybridPartsHold, rows_of_a_window_behind_a_truncate_are_copied_out_of_every_slot_that_has_them) {
  PartsHost h({full_layers(1, 8, 8, 6), {1, KVC_LAYER_WINDOW, 8, 8, 6, 0, 20, 0, 0, {0, 0, 0}}, {1, KVC_LAYER_WINDOW, 1, 8, 6, 0, 20, 0, 0, {0, 0, 0}}});
  SeqHandle four[4];
  for (uint32_t r = 0; r < 4; r++) four[r] = h.written(tp(r, 4), 1, 1, front(64));
  for (const Range &r : {whole, tp(0, 2), Range{0, 0, 1, 5}}) {
    uint64_t length = 0;
    SeqHandle seq = h.match(r, front(64), &length);
    ASSERT_EQ(length, 64u);
    ASSERT_EQ(kvc_seq_truncate(seq, 53, &h.error), KVC_OK) << h.error.message;
    h.expect_all(seq, r, 53, 1);
    ASSERT_EQ(h.append(seq, r, 6, other, 53, 70), KVC_OK) << h.error.message;
    h.expect_all(seq, r, 70, [](uint32_t, uint64_t t, uint32_t) { return t >= 53 ? 6 : 1; });
    ASSERT_EQ(kvc_seq_truncate(seq, 60, &h.error), KVC_OK) << h.error.message;
    h.expect_all(seq, r, 60, [](uint32_t, uint64_t t, uint32_t) { return t >= 53 ? 6 : 1; });
  }
  h.expect_all(four[0], tp(0, 4), 64, 1);
}

TEST_F(HybridPartsHold, a_sequence_of_a_part_keeps_the_window_rows_of_the_positions_that_it_keeps) {
  const kvc_layer window{1, KVC_LAYER_WINDOW, 8, 8, 6, 0, 20, 0, 0, {0, 0, 0}};
  PartsHost h({full_layers(1, 8, 8, 6), window, full_layers(1, 2, 8, 6)});
  SeqHandle half[2];
  for (uint32_t r = 0; r < 2; r++) half[r] = h.written({0, 2, r * 4, 4}, 1, 1, front(60));
  SeqHandle rest = h.written({2, 1, 0, 0}, 1, 1, front(60));
  uint64_t length = 0;
  SeqHandle seq = h.match(whole, front(48), &length), stage = h.match({0, 2, 2, 4}, front(48), &length);
  ASSERT_EQ(length, 48u);
  std::vector<uint64_t> kept;
  for (uint64_t i = 0; i < 48; i++)
    if (i < 16 || i % 3 || i > 40) kept.push_back(i);
  const auto expect_kept = [&](kvc_seq *of, const Range &r) {
    ASSERT_EQ(kvc_seq_compact(of, kept.data(), kept.size(), &h.error), KVC_OK) << h.error.message;
    const uint64_t end = kept.size();
    auto list = h.rows_of(r, 0, end, h.seen_from(end));
    auto rows = PartsHost::runs_of(list);
    ASSERT_EQ(kvc_gather(nullptr, of, rows.data(), rows.size(), nullptr, &h.error), KVC_OK) << h.error.message;
    uint64_t wrong = 0;
    for (auto &m : list) m.each([&](uint16_t &e, bool is_k, uint64_t t, uint32_t head, uint32_t d) { wrong += e != PartsHost::element(1, is_k, m.layer, kept[t], head, d); });
    EXPECT_EQ(wrong, 0u);
  };
  expect_kept(seq, whole);
  expect_kept(stage, {0, 2, 2, 4});
}

TEST_F(HybridPartsHold, a_prefix_in_parts_shrinks_from_the_back_and_its_pieces_go_with_all_their_slots) {
  write({16, 32, 48, 64, 80, 96});
  let_go();
  const uint64_t bytes = host.scope_info().bytes_host;
  EXPECT_EQ(store_info(host.store).memory_pinned, 0u);
  std::vector<uint64_t> lengths{96};
  for (int i = 0; i < 400 && lengths.back(); i++) {
    host.pressure(1);
    const uint64_t found = host.found(whole, tokens);
    for (const Range &r : {tp(0, 2), tp(3, 4)}) ASSERT_EQ(host.found(r, tokens), found) << "slots go together";
    for (uint64_t count = 16; count <= found; count += 16) ASSERT_EQ(host.found(whole, front(count)), count) << "an end inside of what is left";
    if (found != lengths.back()) lengths.push_back(found);
  }
  EXPECT_GT(lengths.size(), 3u);
  EXPECT_TRUE(std::is_sorted(lengths.rbegin(), lengths.rend()));
  EXPECT_EQ(lengths.back(), 0u);
  EXPECT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, &host.error), KVC_OK);
  EXPECT_EQ(host.scope_info().bytes_host, 0u) << "of " << bytes;
}

TEST_F(HybridPartsHold, what_a_rank_without_pieces_sealed_first_shrinks_from_the_back_too) {
  const Range full{0, 1, 0, 0}, rest{1, 2, 0, 0};
  SeqHandle first = host.written(full, 1, 1, tokens), second = host.create(rest, 1);
  for (uint64_t begin = 0; begin < 96; begin += 16) ASSERT_EQ(host.append(second, rest, 1, tokens, begin, begin + 16), KVC_OK) << host.error.message;
  first.reset(), second.reset();
  std::vector<uint64_t> lengths{96};
  for (int i = 0; i < 400 && lengths.back(); i++) {
    host.pressure(1);
    if (const uint64_t found = host.found(whole, tokens); found != lengths.back()) lengths.push_back(found);
  }
  EXPECT_EQ(lengths, (std::vector<uint64_t>{96, 80, 64, 48, 32, 16, 0}));
}

TEST_F(HybridPartsHold, snapshots_beside_chunks_that_a_rank_without_any_sealed_last_as_long_as_they) {
  PartsHost h({full_layers(1, 8, 32, 32), {1, KVC_LAYER_STATE, 8, 600, 16, 0, 0, 0, 0, {0, 0, 0}}}, 1u << 20);
  const Range full{0, 1, 0, 0}, rest{1, 1, 0, 0};
  SeqHandle first = h.written(full, 1, 1, tokens), second = h.create(rest, 1);
  uint64_t begin = 0;
  for (const uint64_t end : {16u, 32u, 96u}) {
    ASSERT_EQ(h.append(second, rest, 1, tokens, begin, end), KVC_OK) << h.error.message;
    begin = end;
  }
  second.reset(), first.reset();
  std::vector<uint64_t> lengths{96};
  for (int i = 0; i < 400 && lengths.back(); i++) {
    h.pressure(1);
    if (const uint64_t found = h.found(whole, tokens); found != lengths.back()) lengths.push_back(found);
  }
  EXPECT_EQ(lengths, (std::vector<uint64_t>{96, 32, 16, 0}));
}

TEST_F(HybridPartsHold, a_lease_of_a_part_holds_what_its_match_needs) {
  write({32, 64, 80});
  LeaseHandle lease;
  ASSERT_EQ(kvc_seq_lease(lease.out(), ranks[1], 0, 70, KVC_FOREVER, nullptr, &host.error), KVC_OK) << host.error.message;
  let_go();
  host.pressure(400);
  EXPECT_EQ(host.found(whole, front(70)), 64u);
  EXPECT_EQ(host.found(tp(0, 2), front(70)), 64u);
  uint64_t length = 0;
  SeqHandle seq = host.match(whole, front(70), &length);
  host.expect_all(seq, whole, 64, 1);
  seq.reset(), lease.reset();
  host.pressure(400);
  EXPECT_EQ(host.found({0, 1, 0, 0}, tokens), 0u);
}

TEST_F(HybridPartsHold, a_lapse_takes_pieces_of_a_part_and_says_so) {
  write({32, 64});
  host.clock.advance_ms(1001);
  host.pressure(400);
  EXPECT_EQ(host.info(ranks[0]).tokens_held, 0u);
  auto list = host.rows_of(tp(0, 2), 0, 64, 45);
  auto rows = PartsHost::runs_of(list);
  EXPECT_EQ(kvc_gather(nullptr, ranks[0], rows.data(), rows.size(), nullptr, &host.error), KVC_ERR_GONE);
  ASSERT_EQ(kvc_seq_truncate(ranks[0], 0, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append(ranks[0], tp(0, 2), 1, tokens, 0, 48), KVC_OK) << host.error.message;
  host.expect_all(ranks[0], tp(0, 2), 48, 1);
}

TEST_F(HybridPartsHold, a_page_that_fails_its_check_takes_the_piece_of_all_parts) {
  PartsHost h(mixed, 1u << 20, KVC_OPEN_VERIFY_READS);
  SeqHandle half[2] = {h.written(tp(0, 2), 1, 1, front(64)), h.written(tp(1, 2), 1, 1, front(64))};
  for (const uint32_t layer : {1u, 2u}) {
    uint64_t length = 0;
    SeqHandle seq = h.match(whole, front(64), &length);
    ASSERT_EQ(length, layer == 1 ? 64u : 64u);
    {
      ViewHandle lent;
      auto rows = sized<kvc_rows>();
      ASSERT_EQ(kvc_view_acquire(lent.out(), &rows, half[1], layer, 63, 0, &h.error), KVC_OK) << h.error.message;
      static_cast<uint8_t *>(rows.k.data)[3] ^= 4;
    }
    auto list = h.rows_of(whole, 60, 64, 0, layer == 1 ? KVC_LAYER_WINDOW : KVC_LAYER_STATE);
    auto rows = PartsHost::runs_of(list);
    h.expect_refused(kvc_gather(nullptr, seq, rows.data(), rows.size(), nullptr, &h.error), KVC_ERR_GONE, {layer == 1 ? "layer 1" : "layer 2", "failed its check"});
    EXPECT_EQ(h.found(whole, front(64)), 0u);
    EXPECT_EQ(h.found(tp(0, 2), front(64)), 0u) << "slots of a piece go together";
    EXPECT_EQ(h.found({0, 1, 0, 0}, front(64)), 64u);
    // Another engine brings it again.
    const auto engine = static_cast<uint8_t>(layer + 1);
    seq.reset();
    half[0] = h.written(tp(0, 2), engine, 1, front(64)), half[1] = h.written(tp(1, 2), engine, 1, front(64));
    EXPECT_EQ(h.found(whole, front(64)), 64u);
  }
}

TEST_F(HybridPartsHold, a_damaged_page_of_a_part_is_found_by_a_check_of_all) {
  write({64});
  {
    ViewHandle lent;
    auto rows = sized<kvc_rows>();
    ASSERT_EQ(kvc_view_acquire(lent.out(), &rows, ranks[1], 2, 63, 0, &host.error), KVC_OK) << host.error.message;
    static_cast<uint8_t *>(rows.v.data)[1] ^= 1;
  }
  auto verify = sized<kvc_verify_info>();
  EXPECT_EQ(kvc_store_verify(&verify, host.store, nullptr, &host.error), KVC_ERR_CORRUPT);
  EXPECT_EQ(verify.pages_bad, 1u);
  EXPECT_EQ(verify.pages_read, 2u * (4 + 4 + 1)) << "each slot's pages of four chunks, with the windows' and one snapshot's";
  EXPECT_EQ(kvc_store_verify(&verify, host.store, nullptr, &host.error), KVC_OK);
}

TEST_F(HybridPartsHold, quotas_count_pieces_of_every_part) {
  write({64});
  const uint64_t bytes = host.scope_info().bytes_host;
  EXPECT_EQ(store_info(host.store).memory_used, bytes);
  let_go();
  EXPECT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, &host.error), KVC_OK);
  EXPECT_EQ(host.scope_info().bytes_host, 0u);
  EXPECT_EQ(store_info(host.store).memory_used, 0u);
}

TEST_F(HybridPartsHold, a_chunk_is_told_of_when_its_full_layers_are_there) {
  kvc_queue *queue = nullptr;
  ASSERT_EQ(kvc_queue_create(&queue, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_event_watch(queue, host.scope, KVC_EVENT_STORED | KVC_EVENT_REMOVED, &host.error), KVC_OK) << host.error.message;
  const auto events = [&] {
    std::vector<kvc_event> out(16, sized<kvc_event>());
    size_t count = 0;
    EXPECT_EQ(kvc_event_drain(out.data(), out.size(), &count, queue, &host.error), KVC_OK) << host.error.message;
    uint64_t kinds[2] = {};
    for (size_t i = 0; i < count; i++) kinds[out[i].kind == KVC_EVENT_REMOVED]++;
    return std::pair(kinds[0], kinds[1]);
  };
  SeqHandle rest = host.written({1, 2, 0, 0}, 1, 1, front(48));
  EXPECT_EQ(events(), std::pair(uint64_t{0}, uint64_t{0})) << "of window and state layers alone";
  SeqHandle full = host.written({0, 1, 0, 0}, 1, 1, front(48));
  EXPECT_EQ(events(), std::pair(uint64_t{3}, uint64_t{0}));
  SeqHandle again = host.written({0, 1, 0, 0}, 2, 2, front(96));
  EXPECT_EQ(events(), std::pair(uint64_t{3}, uint64_t{0})) << "a stage that has all full layers";
  rest.reset(), full.reset(), again.reset();
  EXPECT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, &host.error), KVC_OK);
  EXPECT_EQ(kvc_queue_release(queue, &host.error), KVC_OK);
}

TEST_F(HybridPartsHold, a_rank_whose_sisters_cannot_come_takes_no_name_from_a_whole_chunk_for_the_snapshot_that_it_brings) {
  host.written(whole, 0, 1, front(48)).reset();  // with a snapshot at its end alone
  for (const uint8_t engine : {0, 2}) {
    SeqHandle rank = host.create(tp(0, 2), engine);
    ASSERT_EQ(host.append(rank, tp(0, 2), 2, tokens, 0, 16), KVC_OK) << host.error.message;
    ASSERT_EQ(host.append(rank, tp(0, 2), 2, tokens, 16, 48), KVC_OK) << host.error.message;
    host.expect_all(rank, tp(0, 2), 48, 2);
    EXPECT_EQ(host.found(whole, front(48)), engine ? 0u : 48u) << "those of engine 2 may still come";
  }
}

TEST_F(HybridPartsHold, a_private_sequence_of_a_part_has_pieces_of_its_own) {
  SeqHandle seq = host.create(tp(1, 2), 1, KVC_SEQ_PRIVATE);
  ASSERT_EQ(host.append(seq, tp(1, 2), 3, tokens, 0, 40), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append(seq, tp(1, 2), 3, tokens, 40, 64), KVC_OK) << host.error.message;
  host.expect_all(seq, tp(1, 2), 64, 3);
  EXPECT_EQ(host.found(tp(1, 2), tokens), 0u);
  seq.reset();
  EXPECT_EQ(host.scope_info().bytes_host, 0u);
}

}  // namespace

#include "parts_host.h"

/// Sequences of parts that branch, end elsewhere, are lent and handed over.
namespace {

using namespace kvc_test;

struct PartsBranch : testing::Test {
  PartsHost host;
  const std::vector<int32_t> tokens = ids(64);
  std::vector<SeqHandle> writers;

  void write(uint32_t ranks, uint64_t count = 64) {
    const std::vector<int32_t> some(tokens.begin(), tokens.begin() + static_cast<int64_t>(count));
    for (uint32_t r = 0; r < ranks; r++) writers.push_back(host.written(tp(r, ranks), 1, 1, some));
  }
  /// Token ids that go on otherwise from `at`.
  std::vector<int32_t> turned(uint64_t at, int32_t salt) const {
    std::vector<int32_t> all = ids(tokens.size(), salt);
    std::copy(tokens.begin(), tokens.begin() + static_cast<int64_t>(at), all.begin());
    return all;
  }
  static PartsHost::Writers until(uint64_t at, uint64_t after) {
    return [=](uint32_t, uint64_t t, uint32_t) { return t < at ? uint64_t{1} : after; };
  }
};

TEST_F(PartsBranch, a_cut_chunk_of_several_slices_is_copied_by_who_writes_on) {
  write(4);
  for (const Range &r : {whole, tp(1, 2), tp(3, 4), pp(1), Range{1, 2, 1, 6}}) {
    uint64_t length = 0;
    SeqHandle seq = host.match(r, tokens, &length);
    ASSERT_EQ(length, 64u);
    ASSERT_EQ(kvc_seq_truncate(seq, 39, &host.error), KVC_OK) << host.error.message;
    host.expect_rows(seq, r, 0, 39, 1);
    ASSERT_EQ(host.append(seq, r, 2, turned(39, 5), 39, 60), KVC_OK) << host.error.message;
    host.expect_rows(seq, r, 0, 60, until(39, 2));
    EXPECT_EQ(host.found(r, turned(39, 5)), 48u);
  }
  SeqHandle seq = host.match(whole, tokens, &*std::make_unique<uint64_t>());
  host.expect_rows(seq, whole, 0, 64, 1);
}

TEST_F(PartsBranch, forks_of_ranks_make_chunks_together_again) {
  write(2, 40);
  const auto other = turned(40, 9);
  std::vector<SeqHandle> forks(2);
  for (uint32_t r = 0; r < 2; r++) {
    ASSERT_EQ(kvc_seq_fork(forks[r].out(), writers[r], KVC_ALL, &host.error), KVC_OK) << host.error.message;
    ASSERT_EQ(host.append(forks[r], tp(r, 2), 3, other, 40, 64), KVC_OK) << host.error.message;
    ASSERT_EQ(host.append(writers[r], tp(r, 2), 1, tokens, 40, 64), KVC_OK) << host.error.message;
  }
  for (const auto &[prompt, after] : {std::pair{tokens, uint64_t{1}}, {other, 3}}) {
    uint64_t length = 0;
    SeqHandle seq = host.match(whole, prompt, &length);
    ASSERT_EQ(length, 64u);
    host.expect_rows(seq, whole, 0, 64, until(40, after));
  }
}

TEST_F(PartsBranch, a_view_lends_a_page_where_all_its_heads_lie_together) {
  write(4);
  const auto view = [&](const Range &r, uint32_t layer, uint32_t flags, kvc_rows &rows, ViewHandle &out) {
    uint64_t length = 0;
    SeqHandle seq = host.match(r, tokens, &length);
    rows = sized<kvc_rows>();
    return kvc_view_acquire(out.out(), &rows, seq, layer, 20, flags, &host.error);
  };
  const auto expect_page = [&](const kvc_rows &rows, uint32_t layer, uint32_t head_begin, uint32_t head_count) {
    EXPECT_EQ(rows.layer_begin, layer);
    EXPECT_EQ(rows.head_begin, head_begin);
    ASSERT_EQ(rows.head_count, head_count);
    ASSERT_EQ(rows.token_begin, 16u);
    ASSERT_EQ(rows.token_count, 16u);
    for (const bool is_k : {true, false}) {
      const kvc_array &a = is_k ? rows.k : rows.v;
      for (uint32_t h = 0; h < head_count; h++)
        for (uint64_t t = 0; t < 16; t++)
          for (uint32_t d = 0; d < (is_k ? PartsHost::k_dim : PartsHost::v_dim); d++) {
            uint16_t e;
            std::memcpy(&e, static_cast<const char *>(a.data) + h * a.head_stride + t * a.token_stride + d * a.dim_stride, sizeof e);
            ASSERT_EQ(e, PartsHost::element(1, is_k, layer, 16 + t, head_begin + h, d));
          }
    }
  };
  kvc_rows rows;
  ViewHandle held;
  ASSERT_EQ(view(tp(2, 4), 3, 0, rows, held), KVC_OK) << host.error.message;
  expect_page(rows, 3, 4, 2);
  ASSERT_EQ(view({1, 2, 5, 1}, 2, 0, rows, held), KVC_OK) << host.error.message;
  expect_page(rows, 2, 5, 1);
  host.expect_refused(view(whole, 1, 0, rows, held), KVC_ERR_UNSUPPORTED, {"layer 1: heads 0..7 came in several parts, the first with heads 0..1"});
  host.expect_refused(view({1, 2, 5, 1}, 0, 0, rows, held), KVC_ERR_RANGE, {"layer 0 is not in this sequence's part, layers 1..2"});
  host.expect_refused(view({1, 2, 5, 1}, 2, KVC_VIEW_FRAME, rows, held), KVC_ERR_UNSUPPORTED, {"KVC_VIEW_FRAME", "layer 2"});
  ASSERT_EQ(view(tp(2, 4), 3, KVC_VIEW_FRAME, rows, held), KVC_OK) << host.error.message;
  // The header says whose heads these are: format.md, "Frame".
  const auto *header = static_cast<const uint8_t *>(rows.k.data);
  uint32_t layer;
  uint16_t head_begin, head_count;
  std::memcpy(&layer, header + 72, 4), std::memcpy(&head_begin, header + 80, 2), std::memcpy(&head_count, header + 82, 2);
  EXPECT_EQ(layer, 3u);
  EXPECT_EQ(head_begin, 4u);
  EXPECT_EQ(head_count, 2u);
  EXPECT_EQ(std::vector<uint8_t>(header + 48, header + 64), std::vector<uint8_t>(16, 1)) << "the write id";
  // What was written whole is lent in part.
  PartsHost one;
  SeqHandle writer = one.written(whole, 0, 1, tokens);
  uint64_t length = 0;
  SeqHandle rank = one.match(tp(1, 4), tokens, &length);
  rows = sized<kvc_rows>();
  ViewHandle lent;
  ASSERT_EQ(kvc_view_acquire(lent.out(), &rows, rank, 2, 20, 0, &one.error), KVC_OK) << one.error.message;
  expect_page(rows, 2, 2, 2);
  one.expect_refused(kvc_view_acquire(held.out(), &rows, rank, 2, 20, KVC_VIEW_FRAME, &one.error), KVC_ERR_UNSUPPORTED, {"the frame has 8 heads, this sequence's part 2"});
}

TEST_F(PartsBranch, an_attached_sequence_has_the_part_that_was_published) {
  write(2, 40);
  ASSERT_EQ(kvc_seq_publish(writers[1], "r1", 2, 1000, nullptr, &host.error), KVC_OK) << host.error.message;
  const auto attach = [&](const Range *r, SeqHandle &out) {
    const auto o = PartsHost::options_of(r ? *r : whole, 1);
    return kvc_seq_attach(out.out(), host.scope, "r1", 2, &o, nullptr, &host.error);
  };
  SeqHandle seq;
  const Range own = tp(1, 2), other = tp(0, 2);
  host.expect_refused(attach(&other, seq), KVC_ERR_SHAPE, {"another part"});
  for (const Range *r : {static_cast<const Range *>(nullptr), &own}) {
    ASSERT_EQ(attach(r, seq), KVC_OK) << host.error.message;
    host.expect_rows(seq, own, 0, 40, 1);
    ASSERT_EQ(host.append(seq, own, 1, tokens, 40, 50), KVC_OK) << host.error.message;
    host.expect_rows(seq, own, 0, 50, 1);
  }
}

TEST_F(PartsBranch, a_reorder_takes_equal_parts_alone) {
  write(2, 40);
  SeqHandle fork;
  ASSERT_EQ(kvc_seq_fork(fork.out(), writers[0], 20, &host.error), KVC_OK) << host.error.message;
  const uint32_t source[] = {1, 0};
  kvc_seq *mixed[] = {writers[0], writers[1]}, *equal[] = {writers[0], fork};
  host.expect_refused(kvc_seq_reorder(mixed, source, 2, &host.error), KVC_ERR_SHAPE, {"seqs[1]", "another part"});
  ASSERT_EQ(kvc_seq_reorder(equal, source, 2, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(host.info(fork).tokens, 40u);
  host.expect_rows(fork, tp(0, 2), 0, 40, 1);
  host.expect_rows(writers[0], tp(0, 2), 0, 20, 1);
}

TEST_F(PartsBranch, a_compaction_copies_out_of_all_slices) {
  write(4);
  for (const Range &r : {whole, tp(1, 2), pp(0)}) {
    uint64_t length = 0;
    SeqHandle seq = host.match(r, tokens, &length);
    std::vector<uint64_t> kept;
    for (uint64_t t = 0; t < 64; t++)
      if (t < 20 || t % 3 == 0) kept.push_back(t);
    ASSERT_EQ(kvc_seq_compact(seq, kept.data(), kept.size(), &host.error), KVC_OK) << host.error.message;
    auto list = host.rows_of(r, 0, kept.size());
    const auto rows = PartsHost::runs_of(list);
    ASSERT_EQ(kvc_gather(nullptr, seq, rows.data(), rows.size(), nullptr, &host.error), KVC_OK) << host.error.message;
    uint64_t wrong = 0;
    for (auto &m : list) m.each([&](uint16_t &e, bool is_k, uint64_t t, uint32_t h, uint32_t d) { wrong += e != PartsHost::element(1, is_k, m.layer, kept[t], h, d); });
    EXPECT_EQ(wrong, 0u);
  }
}

TEST_F(PartsBranch, private_sequences_of_a_part_are_found_by_nobody) {
  SeqHandle seq = host.written(tp(0, 2), 1, 1, tokens, KVC_SEQ_PRIVATE), sister = host.written(tp(1, 2), 1, 1, tokens, KVC_SEQ_PRIVATE);
  host.expect_rows(seq, tp(0, 2), 0, 64, 1);
  EXPECT_EQ(host.found(tp(0, 2), tokens), 0u);
  EXPECT_EQ(host.info(seq).tokens_shareable, 0u);
  seq.reset();
  sister.reset();
  EXPECT_EQ(host.scope_info().chunk_count, 0u);
  EXPECT_EQ(store_info(host.store).memory_used, 0u);
}

TEST_F(PartsBranch, a_chunk_is_told_of_once_when_all_of_it_is_there) {
  kvc_queue *queue = nullptr;
  ASSERT_EQ(kvc_queue_create(&queue, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_event_watch(queue, host.scope, KVC_EVENT_STORED | KVC_EVENT_REMOVED, &host.error), KVC_OK) << host.error.message;
  const auto events = [&] {
    std::vector<kvc_event> out(16);
    for (kvc_event &e : out) e = sized<kvc_event>();
    size_t count = 0;
    EXPECT_EQ(kvc_event_drain(out.data(), out.size(), &count, queue, &host.error), KVC_OK) << host.error.message;
    out.resize(count);
    return out;
  };
  SeqHandle rank = host.written(tp(0, 2), 1, 1, ids(32));
  EXPECT_EQ(events().size(), 0u);
  rank.reset();
  host.clock.advance_ms(1001);
  (void)store_info(host.store);
  EXPECT_EQ(events().size(), 0u) << "nobody heard of what waited in vain";
  write(2, 32);
  const auto stored = events();
  ASSERT_EQ(stored.size(), 2u);
  for (size_t i = 0; i < 2; i++) {
    EXPECT_EQ(stored[i].kind, static_cast<uint32_t>(KVC_EVENT_STORED));
    EXPECT_EQ(stored[i].token_begin, i * 16);
  }
  EXPECT_EQ(kvc_queue_release(queue, &host.error), KVC_OK);
}

TEST_F(PartsBranch, a_target_and_its_draft_model_are_two_scopes) {
  SeqHandle target = host.written(tp(0, 2), 1, 1, tokens);
  const kvc_layer small = full_layers(1, 2, 4, 4);
  auto shape = sized<kvc_shape>();
  shape.dtype = KVC_F16, shape.chunk_tokens = 16, shape.layers = &small, shape.layer_runs = 1;
  auto options = sized<kvc_scope_options>();
  options.model = "draft", options.shape = &shape;
  ScopeHandle draft;
  ASSERT_EQ(kvc_scope_create(draft.out(), host.store, &options, &host.error), KVC_OK) << host.error.message;
  auto info = sized<kvc_match_info>();
  SeqHandle seq;
  ASSERT_EQ(kvc_match(seq.out(), &info, draft, tokens.data(), tokens.size(), nullptr, nullptr, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(info.tokens, 0u) << "the same ids of another model";
  EXPECT_EQ(host.found(tp(0, 2), tokens), 64u);
}

}  // namespace

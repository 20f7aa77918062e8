#include "codec/frame.h"
#include "hybrid.h"

/// What the other calls do with window rows and snapshots: views, reorder, compact, clear, and the check of everything held.
namespace {

using namespace kvc_test;

struct PiecesTest : testing::Test {
  HybridHost host{{full_layers(1, 1, 8, 8), window_layers(2, 2, 6, 3, 20), state_layers(1, 1, 40, 8)}, KVC_F16, 16, 4u << 20};
  const std::vector<int32_t> tokens = ids(200);

  void append(kvc_seq *seq, uint64_t begin, uint64_t end, int writer) { ASSERT_EQ(host.append_all(seq, tokens, begin, end, writer), KVC_OK) << host.error.message; }
  kvc_status view(ViewHandle &out, kvc_rows &rows, kvc_seq *seq, uint32_t layer, uint64_t token, uint32_t flags = 0) {
    rows = sized<kvc_rows>();
    return kvc_view_acquire(out.out(), &rows, seq, layer, token, flags, &host.error);
  }
};

TEST_F(PiecesTest, a_view_lends_the_page_of_a_window_layer_open_or_sealed) {
  SeqHandle seq = host.create();
  append(seq, 0, 48, 1);
  append(seq, 48, 52, 1);
  ViewHandle sealed, open;
  kvc_rows page, tail;
  ASSERT_EQ(view(sealed, page, seq, 1, 40), KVC_OK) << host.error.message;
  ASSERT_EQ(view(open, tail, seq, 2, 50), KVC_OK) << host.error.message;
  EXPECT_EQ(page.token_begin, 32u);
  EXPECT_EQ(page.token_count, 16u);
  EXPECT_EQ(tail.token_begin, 48u);
  EXPECT_EQ(tail.token_count, 4u);
  append(seq, 52, 150, 1);  // what is lent stays as it is
  const auto expect_page = [](const kvc_rows &rows, uint32_t layer) {
    for (uint64_t t = 0; t < rows.token_count; t++)
      for (uint32_t h = 0; h < 2; h++)
        for (uint32_t d = 0; d < 6; d++) {
          uint16_t got;
          std::memcpy(&got, static_cast<uint8_t *>(rows.k.data) + t * rows.k.token_stride + h * rows.k.head_stride + d * rows.k.dim_stride, 2);
          ASSERT_EQ(got, static_cast<uint16_t>(stamp(1, true, layer, rows.token_begin + t, h, d)));
        }
  };
  expect_page(page, 1);
  expect_page(tail, 2);
  host.expect_rows(seq, 2, 131, 150, 1);
  ViewHandle other;
  kvc_rows rows;
  EXPECT_EQ(view(other, rows, seq, 3, 40), KVC_ERR_NO_SNAPSHOT);  // of a state layer what is lent is a snapshot
  EXPECT_EQ(view(other, rows, seq, 1, 149, KVC_VIEW_FRAME), KVC_ERR_UNSUPPORTED);
  ASSERT_EQ(view(other, rows, seq, 2, 130, KVC_VIEW_FRAME), KVC_OK) << host.error.message;
  kvc::codec::FrameHeader header;
  kvc::base::Error error;
  ASSERT_EQ(kvc::codec::frame_decode(header, static_cast<uint8_t *>(rows.k.data), rows.k.bytes + rows.v.bytes, error), KVC_OK) << error.message;
  EXPECT_EQ(header.layer, 2u);
  EXPECT_EQ(header.head_count, 2u);
  EXPECT_EQ(header.flags, 0u);
  EXPECT_EQ(header.sections[kvc::codec::section_v_exact].bytes, 16u * 2 * 3 * 2);
}

TEST_F(PiecesTest, rows_that_were_left_out_are_not_lent_and_their_page_is_private) {
  HybridHost h({full_layers(1, 1, 8, 8), window_layers(1, 1, 6, 3, 20)}, KVC_F16, 16);
  SeqHandle seq = h.create();
  Moves moves = h.source(0, 0, 60, 1);
  moves += h.source(1, 41, 60, 1);
  ASSERT_EQ(h.append(seq, {tokens.begin(), tokens.begin() + 60}, moves.rows()), KVC_OK) << h.error.message;
  ViewHandle held;
  auto rows = sized<kvc_rows>();
  EXPECT_EQ(kvc_view_acquire(held.out(), &rows, seq, 1, 40, 0, &h.error), KVC_ERR_GONE);
  EXPECT_EQ(kvc_view_acquire(held.out(), &rows, seq, 1, 20, 0, &h.error), KVC_ERR_GONE);
  ASSERT_EQ(kvc_view_acquire(held.out(), &rows, seq, 1, 44, 0, &h.error), KVC_OK) << h.error.message;
  EXPECT_EQ(rows.token_begin, 41u);
  EXPECT_EQ(rows.token_count, 7u);
  uint16_t first;
  std::memcpy(&first, rows.k.data, 2);
  EXPECT_EQ(first, static_cast<uint16_t>(stamp(1, true, 1, 41, 0, 0)));
  ASSERT_EQ(kvc_view_acquire(held.out(), &rows, seq, 1, 44, KVC_VIEW_FRAME, &h.error), KVC_OK) << h.error.message;
  kvc::codec::FrameHeader header;
  kvc::base::Error error;
  ASSERT_EQ(kvc::codec::frame_decode(header, static_cast<uint8_t *>(rows.k.data), rows.k.bytes + rows.v.bytes, error), KVC_OK) << error.message;
  EXPECT_EQ(header.flags, static_cast<uint32_t>(kvc::codec::frame_private));
  for (size_t i = 0; i < 9 * 6 * 2; i++) ASSERT_EQ(static_cast<uint8_t *>(rows.v.data)[i], 0) << "byte " << i << " of the rows left out";
}

TEST_F(PiecesTest, a_page_that_fails_its_check_takes_its_piece_alone) {
  SeqHandle seq = host.create(), found;
  append(seq, 0, 32, 1);
  append(seq, 32, 48, 1);
  {
    ViewHandle lent;
    kvc_rows rows;
    ASSERT_EQ(view(lent, rows, seq, 2, 40), KVC_OK) << host.error.message;
    static_cast<uint8_t *>(rows.k.data)[5] ^= 1;
  }
  auto verify = sized<kvc_verify_info>();
  EXPECT_EQ(kvc_store_verify(&verify, host.store, nullptr, &host.error), KVC_ERR_CORRUPT);
  EXPECT_EQ(verify.pages_bad, 1u);
  const kvc_match_info info = host.look(tokens, &found);
  EXPECT_EQ(info.tokens_attention, 48u);
  EXPECT_EQ(info.tokens, 32u);
  EXPECT_EQ(info.stop, static_cast<uint32_t>(KVC_STOP_WINDOW));
  host.expect_refused(seq, 2, 40, 48, KVC_ERR_GONE);
  host.expect_rows(seq, 0, 0, 48, 1);
  host.expect_rows(seq, 3, 0, 48, 1);
  // Who brings the rows again makes the chunk his own.
  append(found, 32, 48, 2);
  host.expect_rows(found, 0, 32, 48, 2);
  host.expect_rows(found, 2, 32, 48, 2);
  EXPECT_EQ(host.look(tokens).tokens, 48u);
}

TEST_F(PiecesTest, reorder_takes_them_along_and_compact_is_refused) {
  SeqHandle a = host.create(), b = host.create();
  append(a, 0, 50, 1);
  ASSERT_EQ(host.append_all(b, ids(200, 7), 0, 30, 2), KVC_OK);
  kvc_seq *const seqs[] = {a, b};
  const uint32_t source[] = {1, 0};
  ASSERT_EQ(kvc_seq_reorder(seqs, source, 2, &host.error), KVC_OK) << host.error.message;
  for (const uint32_t layer : {1u, 2u}) {
    host.expect_rows(b, layer, 31, 50, 1);
    host.expect_rows(a, layer, 11, 30, 2);
  }
  host.expect_rows(b, 3, 49, 50, 1);
  host.expect_rows(a, 3, 29, 30, 2);
  append(b, 50, 80, 1);
  host.expect_rows(b, 1, 61, 80, 1);
  const uint64_t kept[] = {0, 5};
  EXPECT_EQ(kvc_seq_compact(b, kept, 2, &host.error), KVC_ERR_UNSUPPORTED);
  host.expect_rows(b, 1, 61, 80, 1);
}

/// The layers beside the full one are behind when the chunk at 32 is sealed; a truncate to where they stand cuts it.
struct CutTest : PiecesTest {
  const std::vector<std::vector<kvc_layer>> shapes{{full_layers(1, 1, 8, 8), state_layers(1, 1, 40, 8)}, {full_layers(1, 1, 8, 8), window_layers(1, 1, 6, 3, 8)}};

  std::vector<int32_t> part(uint64_t begin, uint64_t end) const { return {tokens.begin() + static_cast<int64_t>(begin), tokens.begin() + static_cast<int64_t>(end)}; }
  void seal_ahead(HybridHost &h, kvc_seq *seq) {
    Moves moves = h.source(0, 0, 48, 1);
    moves += h.source(1, 0, 40, 1);
    ASSERT_EQ(h.append(seq, part(0, 48), moves.rows()), KVC_OK) << h.error.message;
    EXPECT_EQ(h.look(tokens).tokens_attention, 48u);
    EXPECT_LT(h.look(tokens).tokens, 48u);
  }
  void expect_found(HybridHost &h, const char *how) {
    SeqHandle found;
    EXPECT_EQ(h.look(tokens, &found).tokens, 48u) << how;
    if (testing::Test::HasFailure()) return;
    h.expect_rows(found, 0, 0, 48, 1);
    h.expect_rows(found, 1, 41, 48, 1);
  }
};

TEST_F(CutTest, what_comes_after_a_truncate_into_a_sealed_chunk_joins_it) {
  for (const auto &shape : shapes) {
    HybridHost h(shape, KVC_F16, 16);
    SeqHandle seq = h.create();
    seal_ahead(h, seq);
    ASSERT_EQ(kvc_seq_truncate(seq, 40, &h.error), KVC_OK) << h.error.message;
    ASSERT_EQ(h.append_all(seq, tokens, 40, 48, 1), KVC_OK) << h.error.message;
    expect_found(h, "held");
    seq.reset();
    expect_found(h, "released");
    EXPECT_EQ(kvc_store_verify(nullptr, h.store, nullptr, &h.error), KVC_OK) << h.error.message;
  }
}

TEST_F(CutTest, it_joins_layer_by_layer_and_token_by_token_too) {
  for (const auto &shape : shapes)
    for (const uint64_t step : {1u, 8u}) {
      HybridHost h(shape, KVC_F16, 16);
      SeqHandle seq = h.create();
      seal_ahead(h, seq);
      ASSERT_EQ(kvc_seq_truncate(seq, 40, &h.error), KVC_OK) << h.error.message;
      for (uint64_t t = 40; t < 48; t += step)
        for (const uint32_t layer : {0u, 1u}) {
          const Moves move = h.source(layer, t, t + step, 1);
          ASSERT_EQ(h.append(seq, layer ? std::vector<int32_t>() : part(t, t + step), move.rows()), KVC_OK) << h.error.message;
        }
      expect_found(h, step == 1 ? "by token" : "by layer");
    }
}

TEST_F(CutTest, window_rows_that_no_query_of_the_sequence_sees_any_more_join_it) {
  HybridHost h(shapes[1], KVC_F16, 16);
  SeqHandle seq = h.create();
  seal_ahead(h, seq);
  ASSERT_EQ(kvc_seq_truncate(seq, 40, &h.error), KVC_OK) << h.error.message;
  ASSERT_EQ(h.append_all(seq, tokens, 40, 100, 1), KVC_OK) << h.error.message;
  SeqHandle found;
  EXPECT_EQ(h.look(part(0, 48), &found).tokens, 48u);
  h.expect_rows(found, 1, 41, 48, 1);
  EXPECT_EQ(h.look(tokens).tokens, 96u);
}

TEST_F(CutTest, it_joins_through_a_fork_and_a_reorder_and_the_first_that_comes_is_read_by_all) {
  for (const auto &shape : shapes) {
    HybridHost h(shape, KVC_F16, 16);
    SeqHandle seq = h.create(), fork, beam = h.create();
    seal_ahead(h, seq);
    ASSERT_EQ(kvc_seq_fork(fork.out(), seq, 40, &h.error), KVC_OK) << h.error.message;
    kvc_seq *const seqs[] = {fork, beam};
    const uint32_t source[] = {0, 0};
    ASSERT_EQ(kvc_seq_reorder(seqs, source, 2, &h.error), KVC_OK) << h.error.message;
    fork.reset();
    ASSERT_EQ(h.append_all(beam, tokens, 40, 48, 1), KVC_OK) << h.error.message;
    expect_found(h, "of a fork's beam");
    ASSERT_EQ(h.append(seq, {}, h.source(1, 40, 48, 2).rows()), KVC_OK) << h.error.message;
    h.expect_rows(seq, 1, 41, 48, 1);
    ASSERT_EQ(h.append_all(seq, tokens, 48, 70, 1), KVC_OK) << h.error.message;
    EXPECT_EQ(kvc_store_verify(nullptr, h.store, nullptr, &h.error), KVC_OK) << h.error.message;
  }
}

TEST_F(CutTest, other_tokens_after_the_truncate_are_a_chunk_of_their_own) {
  for (const auto &shape : shapes) {
    HybridHost h(shape, KVC_F16, 16);
    SeqHandle seq = h.create(), found;
    seal_ahead(h, seq);
    ASSERT_EQ(kvc_seq_truncate(seq, 40, &h.error), KVC_OK) << h.error.message;
    std::vector<int32_t> others = part(0, 48);
    for (size_t i = 40; i < 48; i++) others[i] += 1000;
    ASSERT_EQ(h.append_all(seq, others, 40, 48, 2), KVC_OK) << h.error.message;
    EXPECT_EQ(h.look(others, &found).tokens, 48u);
    h.expect_rows(found, 0, 40, 48, 2);
    EXPECT_LT(h.look(tokens).tokens, 48u);
  }
}

TEST_F(PiecesTest, a_cleared_scope_leaves_holders_what_they_hold_and_nothing_to_others) {
  SeqHandle seq = host.create();
  append(seq, 0, 48, 1);
  ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(host.look(tokens).tokens_attention, 0u);
  host.expect_rows(seq, 1, 29, 48, 1);
  host.expect_rows(seq, 3, 47, 48, 1);
  append(seq, 48, 70, 1);
  host.expect_rows(seq, 2, 51, 70, 1);
  seq.reset();
  auto info = sized<kvc_store_info>();
  ASSERT_EQ(kvc_store_get_info(&info, host.store, &host.error), KVC_OK);
  EXPECT_EQ(info.memory_used, 0u);
}

}  // namespace

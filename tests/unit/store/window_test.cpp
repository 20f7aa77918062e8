#include "hybrid.h"
#include "seam_store.h"

/// Window layers: the store keeps what the window needs, serves what it holds, and a match ends where it holds the window.
namespace {

using namespace kvc_test;

struct WindowTest : testing::Test {
  // Odd sizes; windows shorter and longer than a chunk.
  HybridHost host{{full_layers(1, 2, 5, 3), window_layers(2, 3, 7, 2, 20), window_layers(1, 1, 4, 4, 5)}, KVC_F16, 16, 4u << 20, KVC_OPEN_VERIFY_READS};
  const std::vector<int32_t> tokens = ids(400);

  /// Full rows of the whole range, window rows from `window_begin` on.
  kvc_status append(kvc_seq *seq, uint64_t begin, uint64_t end, uint64_t windows_from, const Writer &writer) {
    Moves moves = host.sources(begin, end, writer, KVC_LAYER_FULL);
    for (uint32_t l = 1; l < 4; l++) moves += host.source(l, windows_from, end, writer);
    return host.append(seq, {tokens.begin() + static_cast<int64_t>(begin), tokens.begin() + static_cast<int64_t>(end)}, moves.rows());
  }
  /// What queries behind `length` see is served, element by element.
  void expect_window(kvc_seq *seq, uint64_t length, const Writer &writer) {
    for (uint32_t l = 1; l < 4; l++) {
      const uint64_t window = host.layers[l].window, begin = length + 1 > window ? length + 1 - window : 0;
      if (begin < length) host.expect_rows(seq, l, begin, length, writer);
    }
  }
  std::vector<int32_t> first(uint64_t count) const { return {tokens.begin(), tokens.begin() + static_cast<int64_t>(count)}; }
};

TEST_F(WindowTest, rows_that_no_later_query_sees_may_be_left_out_and_are_gone) {
  SeqHandle seq = host.create();
  ASSERT_EQ(append(seq, 0, 100, 81, 1), KVC_OK) << host.error.message;
  host.expect_rows(seq, 0, 0, 100, 1);
  expect_window(seq, 100, 1);
  host.expect_refused(seq, 1, 80, 100, KVC_ERR_GONE);
  host.expect_refused(seq, 2, 0, 10, KVC_ERR_GONE);
  host.expect_refused(seq, 1, 81, 101, KVC_ERR_RANGE);
  for (uint64_t t = 100; t < 180; t++) {
    ASSERT_EQ(host.append_all(seq, tokens, t, t + 1, 1), KVC_OK) << host.error.message;
    expect_window(seq, t + 1, 1);
  }
  host.expect_rows(seq, 0, 0, 180, 1);
  ASSERT_EQ(append(seq, 180, 200, 181, 1), KVC_OK) << host.error.message;  // one row left out, in the chunk that was open
  expect_window(seq, 200, 1);
  EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
}

TEST_F(WindowTest, a_gap_that_a_later_query_sees_is_refused_and_changes_nothing) {
  SeqHandle seq = host.create();
  EXPECT_EQ(append(seq, 0, 100, 82, 1), KVC_ERR_RANGE);
  EXPECT_NE(host.error.text().find("layer 1: rows start at token 82"), std::string::npos) << host.error.message;
  EXPECT_NE(host.error.text().find("below 81"), std::string::npos) << host.error.message;
  auto info = sized<kvc_seq_info>();
  ASSERT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK);
  EXPECT_EQ(info.tokens, 0u);
  EXPECT_EQ(info.tokens_given, 0u);
  const Moves late = host.source(1, 10, 20, 1);  // the length of a call that brings no full rows is 0
  EXPECT_EQ(host.append(seq, first(20), late.rows()), KVC_ERR_RANGE);
  const Moves full = host.source(0, 10, 20, 1);
  EXPECT_EQ(host.append(seq, first(20), full.rows()), KVC_ERR_RANGE) << "full layers leave out nothing";
  ASSERT_EQ(append(seq, 0, 20, 0, 1), KVC_OK) << host.error.message;
  const Moves again = host.source(1, 19, 21, 1);
  EXPECT_EQ(host.append(seq, {tokens[20]}, again.rows()), KVC_ERR_RANGE);
  EXPECT_NE(host.error.text().find("an overlap"), std::string::npos) << host.error.message;
  expect_window(seq, 20, 1);
}

TEST_F(WindowTest, a_match_ends_at_a_boundary_whose_window_is_held_in_every_layer) {
  SeqHandle all = host.create();
  ASSERT_EQ(append(all, 0, 100, 0, 1), KVC_OK) << host.error.message;
  for (const uint64_t count : {100u, 96u, 63u, 48u, 16u}) {
    SeqHandle found;
    const kvc_match_info info = host.look(first(count), &found);
    EXPECT_EQ(info.tokens, count / 16 * 16);
    EXPECT_EQ(info.stop, static_cast<uint32_t>(KVC_STOP_END));
    expect_window(found, info.tokens, 1);
    host.expect_rows(found, 0, 0, info.tokens, 1);
  }
  // Another prompt, of which the window's rows alone were given: not before a window later.
  HybridHost other({full_layers(1, 1, 4, 4), window_layers(1, 1, 4, 4, 20)}, KVC_F16, 16);
  SeqHandle seq = other.create();
  Moves moves = other.source(0, 0, 100, 1);
  moves += other.source(1, 81, 100, 1);
  ASSERT_EQ(other.append(seq, first(100), moves.rows()), KVC_OK) << other.error.message;
  kvc_match_info info = other.look(tokens);
  EXPECT_EQ(info.tokens, 0u);
  EXPECT_EQ(info.tokens_attention, 96u);
  EXPECT_EQ(info.stop, static_cast<uint32_t>(KVC_STOP_WINDOW));
  for (uint64_t t = 100; t < 130; t++) ASSERT_EQ(other.append_all(seq, tokens, t, t + 1, 1), KVC_OK) << other.error.message;
  for (const auto &[count, end] : {std::pair{111u, 0u}, {112u, 112u}, {130u, 128u}}) {
    info = other.look(first(count));
    EXPECT_EQ(info.tokens, end) << count;
    EXPECT_EQ(info.tokens_attention, count / 16 * 16);
  }
}

TEST_F(WindowTest, layers_may_come_one_by_one_in_any_order) {
  for (const bool windows_first : {true, false}) {
    HybridHost h({full_layers(1, 2, 5, 3), window_layers(2, 3, 7, 2, 20)}, KVC_F16, 16);
    SeqHandle seq = h.create();
    const std::vector<uint32_t> order = windows_first ? std::vector<uint32_t>{2, 1, 0} : std::vector<uint32_t>{0, 2, 1};
    const std::pair<uint64_t, uint64_t> steps[] = {{0, 37}, {37, 38}, {38, 90}};
    for (const auto &[begin, end] : steps)
      for (const uint32_t l : order) {
        const Moves move = h.source(l, begin, end, 1);
        const bool ids_now = l == order[0];
        ASSERT_EQ(h.append(seq, ids_now ? std::vector<int32_t>(tokens.begin() + static_cast<int64_t>(begin), tokens.begin() + static_cast<int64_t>(end)) : std::vector<int32_t>(), move.rows()), KVC_OK)
            << h.error.message;
        if (l == 0) {
          EXPECT_EQ(h.look(first(end)).tokens_attention, end / 16 * 16) << "window layers do not delay what full ones hold";
        }
      }
    for (uint32_t l = 0; l < 3; l++) h.expect_rows(seq, l, 71, 90, 1);
    SeqHandle found;
    EXPECT_EQ(h.look(tokens, &found).tokens, 80u);
    h.expect_rows(found, 0, 0, 80, 1);
    for (uint32_t l = 1; l < 3; l++) h.expect_rows(found, l, 61, 80, 1);
    EXPECT_EQ(h.look(first(40)).tokens, 32u) << "every boundary's window was given";
  }
}

TEST_F(WindowTest, forks_and_truncates_go_where_the_window_is_held_and_nowhere_else) {
  SeqHandle seq = host.create();
  ASSERT_EQ(append(seq, 0, 100, 81, 1), KVC_OK) << host.error.message;
  for (uint64_t t = 100; t < 120; t++) ASSERT_EQ(host.append_all(seq, tokens, t, t + 1, 1), KVC_OK);
  auto info = sized<kvc_seq_info>();
  ASSERT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK);
  EXPECT_EQ(info.tokens_end, 119u);
  SeqHandle fork;
  ASSERT_EQ(kvc_seq_fork(fork.out(), seq, 103, &host.error), KVC_OK) << host.error.message;
  expect_window(fork, 103, 1);
  ASSERT_EQ(host.append_all(fork, ids(150, 5), 103, 150, 2), KVC_OK) << host.error.message;  // other bits, of its own
  host.expect_rows(fork, 1, 131, 150, 2);
  expect_window(seq, 120, 1);
  kvc_seq *none = nullptr;
  EXPECT_EQ(kvc_seq_fork(&none, seq, 99, &host.error), KVC_ERR_GONE) << "row 80 was left out";
  EXPECT_EQ(none, nullptr);
  EXPECT_NE(host.error.text().find("tokens_end"), std::string::npos) << host.error.message;
  EXPECT_EQ(kvc_seq_truncate(seq, 99, &host.error), KVC_ERR_GONE);
  expect_window(seq, 120, 1);
  ASSERT_EQ(kvc_seq_truncate(seq, 100, &host.error), KVC_OK) << host.error.message;
  expect_window(seq, 100, 1);
  ASSERT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK);
  EXPECT_EQ(info.tokens_end, 0u);
  ASSERT_EQ(host.append_all(seq, tokens, 100, 140, 3), KVC_OK) << host.error.message;
  host.expect_rows(seq, 1, 121, 140, 3);
  host.expect_rows(seq, 3, 136, 140, 3);
  ASSERT_EQ(kvc_seq_truncate(seq, 0, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append_all(seq, tokens, 0, 30, 4), KVC_OK) << host.error.message;
  expect_window(seq, 30, 4);
}

TEST_F(WindowTest, rows_that_were_whole_then_cut_and_then_passed_over_leave_a_page_that_passes_its_check) {
  SeqHandle seq = host.create();
  Moves ahead = host.source(0, 0, 10, 1);
  for (uint32_t l = 1; l < 4; l++) ahead += host.source(l, 0, 16, 1);
  ASSERT_EQ(host.append(seq, first(16), ahead.rows()), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_truncate(seq, 5, &host.error), KVC_OK) << host.error.message;
  Moves far = host.source(0, 5, 60, 2);
  for (uint32_t l = 1; l < 4; l++) far += host.source(l, 41, 60, 2);
  ASSERT_EQ(host.append(seq, {tokens.begin() + 5, tokens.begin() + 60}, far.rows()), KVC_OK) << host.error.message;
  EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
  host.expect_rows(seq, 0, 0, 60, Writer([](uint64_t t) { return t < 5 ? 1u : 2u; }));
  expect_window(seq, 60, 2);
  host.expect_refused(seq, 1, 0, 5, KVC_ERR_GONE);
}

TEST_F(WindowTest, a_window_of_one_needs_no_rows_and_a_model_may_have_windows_alone) {
  HybridHost h({window_layers(2, 1, 4, 4, 1), window_layers(1, 2, 3, 3, 33)}, KVC_F32, 16);
  SeqHandle seq = h.create(), found;
  ASSERT_EQ(h.append_all(seq, tokens, 0, 100, 1), KVC_OK) << h.error.message;
  EXPECT_EQ(h.look(tokens, &found).tokens, 96u);
  h.expect_rows(found, 2, 64, 96, 1);
  ASSERT_EQ(h.append_all(found, tokens, 96, 130, 1), KVC_OK) << h.error.message;
  h.expect_rows(found, 2, 98, 130, 1);
  ASSERT_EQ(kvc_seq_truncate(found, 77, &h.error), KVC_OK) << h.error.message;
  h.expect_rows(found, 2, 45, 77, 1);
}

/// A store so small that what nobody pins goes.
struct Tight : WindowTest {
  HybridHost small{{full_layers(1, 1, 64, 64), window_layers(4, 1, 64, 64, 20)}, KVC_F16, 16, 1u << 20};

  void press(uint64_t sequences) {  // others that are stored and let go
    for (uint64_t i = 0; i < sequences; i++) {
      const auto others = ids(16, static_cast<int32_t>(1000 + i));
      SeqHandle seq = small.create();
      ASSERT_EQ(small.append_all(seq, others, 0, 16, 9), KVC_OK) << small.error.message;
    }
  }
};

TEST_F(Tight, window_rows_behind_the_window_can_go_before_their_chunks_and_those_in_it_cannot) {
  SeqHandle seq = small.create();
  ASSERT_EQ(small.append_all(seq, tokens, 0, 192, 1), KVC_OK) << small.error.message;
  EXPECT_EQ(small.look(first(100)).tokens, 96u);
  press(200);
  EXPECT_EQ(small.look(first(100)).tokens_attention, 96u) << "a chunk that lost its window rows is still visible to attention";
  EXPECT_EQ(small.look(first(100)).tokens, 0u);
  EXPECT_EQ(small.look(first(100)).stop, static_cast<uint32_t>(KVC_STOP_WINDOW));
  EXPECT_EQ(small.look(first(192)).tokens, 192u);
  small.expect_rows(seq, 0, 0, 192, 1);
  for (uint32_t l = 1; l < 5; l++) small.expect_rows(seq, l, 173, 192, 1);
  small.expect_refused(seq, 1, 0, 16, KVC_ERR_GONE);
  EXPECT_EQ(kvc_seq_truncate(seq, 100, &small.error), KVC_ERR_GONE);
  auto info = sized<kvc_seq_info>();
  ASSERT_EQ(kvc_seq_get_info(&info, seq, &small.error), KVC_OK);
  EXPECT_EQ(info.tokens_end, 191u);
  ASSERT_EQ(kvc_seq_truncate(seq, info.tokens_end, &small.error), KVC_OK) << small.error.message;
}

TEST_F(Tight, whoever_brings_window_rows_that_were_lost_makes_the_chunk_his_own_and_no_read_mixes_writers) {
  SeqHandle seq = small.create();
  ASSERT_EQ(small.append_all(seq, tokens, 0, 200, 1), KVC_OK) << small.error.message;
  press(200);
  SeqHandle again = small.create();
  ASSERT_EQ(small.append_all(again, tokens, 0, 96, 2), KVC_OK) << small.error.message;
  // Chunks behind the window are those that were there; those in it are the new writer's whole.
  small.expect_rows(again, 0, 0, 64, 1);
  small.expect_rows(again, 0, 64, 96, 2);
  for (uint32_t l = 1; l < 5; l++) small.expect_rows(again, l, 77, 96, 2);
  SeqHandle found;
  EXPECT_EQ(small.look(first(100), &found).tokens, 96u);
  small.expect_rows(found, 0, 0, 64, 1);
  small.expect_rows(found, 0, 64, 96, 2);
  for (uint32_t l = 1; l < 5; l++) small.expect_rows(found, l, 77, 96, 2);
  small.expect_rows(seq, 0, 0, 200, 1);
  for (uint32_t l = 1; l < 5; l++) small.expect_rows(seq, l, 181, 200, 1);
}

TEST_F(Tight, a_chunk_that_has_its_window_rows_is_the_first_writers_whole) {
  SeqHandle seq = small.create(), again = small.create();
  ASSERT_EQ(small.append_all(seq, tokens, 0, 100, 1), KVC_OK) << small.error.message;
  ASSERT_EQ(small.append_all(again, tokens, 0, 100, 2), KVC_OK) << small.error.message;
  for (uint32_t l = 0; l < 5; l++) {
    small.expect_rows(again, l, 81, 96, 1);
    small.expect_rows(again, l, 96, 100, 2);
  }
}

TEST_F(Tight, a_lease_holds_what_a_match_at_its_end_needs) {
  SeqHandle seq = small.create();
  ASSERT_EQ(small.append_all(seq, tokens, 0, 100, 1), KVC_OK) << small.error.message;
  LeaseHandle lease;
  ASSERT_EQ(kvc_seq_lease(lease.out(), seq, 0, 48, KVC_FOREVER, nullptr, &small.error), KVC_OK) << small.error.message;
  seq.reset();
  press(200);
  SeqHandle found;
  EXPECT_EQ(small.look(tokens, &found).tokens, 48u);
  for (uint32_t l = 1; l < 5; l++) small.expect_rows(found, l, 29, 48, 1);
  found.reset(), lease.reset();
  press(200);
  EXPECT_EQ(small.look(tokens).tokens, 0u);
}

TEST_F(Tight, a_private_sequence_leaves_nothing_behind) {
  SeqHandle seq = small.create(KVC_SEQ_PRIVATE);
  const Moves moves = small.sources(0, 100, 1);
  ASSERT_EQ(small.append(seq, {}, moves.rows()), KVC_OK) << small.error.message;
  for (uint32_t l = 1; l < 5; l++) small.expect_rows(seq, l, 81, 100, 1);
  seq.reset();
  auto info = sized<kvc_store_info>();
  ASSERT_EQ(kvc_store_get_info(&info, small.store, &small.error), KVC_OK);
  EXPECT_EQ(info.memory_used, 0u);
  EXPECT_EQ(info.chunk_count, 0u);
}

TEST(WindowAppends, the_scratch_of_one_long_append_grows_as_its_rows_do) {
  constexpr uint64_t count = 16 * 4000;
  auto options = sized<kvc_store_options>();
  options.memory_bytes = options.open_bytes_max = 64u << 20;
  kvc::store::Seams seams;
  seams.metadata_bytes_max = 16u << 20;
  HybridHost host({full_layers(1, 1, 1, 1), window_layers(1, 1, 1, 1, 20)}, KVC_F16, 16);
  host.scope.reset();
  host.store = open_with(seams, options);
  host.scope = host.make_scope("long", {full_layers(1, 1, 1, 1), window_layers(1, 1, 1, 1, 20)}, KVC_F16, 16);
  SeqHandle seq = host.create();
  std::vector<uint16_t> memory(count, 3);
  std::vector<kvc_rows> rows(2, sized<kvc_rows>());
  for (uint32_t l = 0; l < 2; l++) {
    rows[l].layer_begin = l, rows[l].layer_count = 1, rows[l].token_count = count;
    rows[l].k.data = rows[l].v.data = memory.data(), rows[l].k.bytes = rows[l].v.bytes = count * 2;
  }
  EXPECT_EQ(host.append(seq, ids(count), rows), KVC_OK) << host.error.message;
}

}  // namespace

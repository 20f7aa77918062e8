#include "../io/memory_files.h"
#include "parts_host.h"

/// Sequences whose window rows and snapshots come calls later than the rows of their full layers, and what happens to them in between: an append that
/// succeeded is read as it was given, whoever else wrote the same prompt.
namespace {

using namespace kvc_test;

kvc_layer window_layer(uint32_t window) { return {1, KVC_LAYER_WINDOW, 8, 8, 6, 0, window, 0, 0, {0, 0, 0}}; }
const kvc_layer full = full_layers(1, 8, 8, 6), state{1, KVC_LAYER_STATE, 8, 48, 10, 0, 0, 0, 0, {0, 0, 0}};

struct Lagging : testing::Test {
  MemoryFiles disk;
  const std::vector<int32_t> tokens = ids(96);

  std::vector<int32_t> front(uint64_t count) const { return {tokens.begin(), tokens.begin() + static_cast<int64_t>(count)}; }
  void append(PartsHost &host, kvc_seq *seq, const Range &r, uint32_t kind, uint64_t begin, uint64_t end, uint64_t writer = 1) {
    ASSERT_EQ(host.append(seq, r, writer, tokens, begin, end, kind == KVC_LAYER_FULL, 0, kind), KVC_OK) << host.error.message;
  }
  void save(PartsHost &host, const kvc_seq *seq) { ASSERT_EQ(kvc_seq_save(seq, "disk/a", nullptr, &host.error), KVC_OK) << host.error.message; }
  SeqHandle restore(PartsHost &host, const Range &r, uint8_t engine = 0) {
    const auto o = PartsHost::options_of(r, engine);
    SeqHandle out;
    EXPECT_EQ(kvc_seq_restore(out.out(), host.scope, "disk/a", &o, nullptr, &host.error), KVC_OK) << host.error.message;
    return out;
  }
  void verify(PartsHost &host) { EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_OK) << host.error.message; }
};

TEST_F(Lagging, a_restored_sequence_takes_the_window_rows_of_chunks_that_were_held_already) {
  enum Kept { saver, chunks, nothing };
  for (const Kept kept : {saver, chunks, nothing}) {
    PartsHost host(disk, {full, window_layer(33), full});
    SeqHandle seq = host.create(whole);
    append(host, seq, whole, KVC_LAYER_FULL, 0, 64);
    save(host, seq);
    if (kept != saver) seq.reset();
    if (kept == nothing) ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, nullptr), KVC_OK);
    SeqHandle back = restore(host, whole);
    append(host, back, whole, KVC_LAYER_WINDOW, 0, 64);
    host.expect_all(back, whole, 64, 1);
    EXPECT_EQ(host.found(whole, front(64)), 64u) << kept;
    if (kept == saver) {
      append(host, seq, whole, KVC_LAYER_WINDOW, 0, 64);
      host.expect_all(seq, whole, 64, 1);
    }
    save(host, back);
    host.expect_all(restore(host, whole), whole, 64, 1);
    verify(host);
  }
}

TEST_F(Lagging, a_sequence_that_was_compacted_takes_the_window_rows_of_chunks_that_it_shares_and_keeps_them_to_itself) {
  PartsHost host(disk, {full, window_layer(33), full});
  SeqHandle seq = host.create(whole);
  append(host, seq, whole, KVC_LAYER_FULL, 0, 64);
  std::vector<uint64_t> all(64);
  for (uint64_t i = 0; i < 64; i++) all[i] = i;
  ASSERT_EQ(kvc_seq_compact(seq, all.data(), all.size(), &host.error), KVC_OK) << host.error.message;
  append(host, seq, whole, KVC_LAYER_WINDOW, 0, 64);
  host.expect_all(seq, whole, 64, 1);
  EXPECT_EQ(host.found(whole, front(64)), 0u) << "what is appended to a private sequence is private";
  save(host, seq);
  host.expect_all(restore(host, whole), whole, 64, 1);
  append(host, seq, whole, KVC_LAYER_FULL, 64, 80), append(host, seq, whole, KVC_LAYER_WINDOW, 64, 80);
  host.expect_all(seq, whole, 80, 1);
  verify(host);
}

TEST_F(Lagging, a_rank_that_was_cut_takes_window_rows_of_a_chunk_of_which_its_sister_has_her_own) {
  const Range left{0, 3, 0, 0}, right{3, 2, 0, 0};
  for (const bool forks : {false, true}) {
    PartsHost host(disk, {full, full, window_layer(20), window_layer(12), full});
    SeqHandle sister = host.create(right, 1), seq = host.create(left, 1);
    append(host, sister, right, KVC_LAYER_FULL, 0, 32), append(host, sister, right, KVC_LAYER_WINDOW, 0, 32);
    append(host, seq, left, KVC_LAYER_FULL, 0, 32);
    SeqHandle fork;
    if (forks) ASSERT_EQ(kvc_seq_fork(fork.out(), seq, 31, &host.error), KVC_OK) << host.error.message;
    else ASSERT_EQ(kvc_seq_truncate(seq, 31, &host.error), KVC_OK) << host.error.message;
    kvc_seq *cut = forks ? fork : seq;
    append(host, cut, left, KVC_LAYER_WINDOW, 0, 16), append(host, cut, left, KVC_LAYER_WINDOW, 16, 31);
    host.expect_all(cut, left, 31, 1);
    save(host, cut);
    host.expect_all(restore(host, left, 1), left, 31, 1);
    EXPECT_EQ(host.found(whole, front(16)), 16u) << "both have brought theirs of the first chunk";
    verify(host);
  }
}

TEST_F(Lagging, window_rows_that_begin_before_those_of_a_fork_are_not_taken_to_be_there) {
  for (const uint64_t from : {8u, 0u}) {
    PartsHost host(disk, {full, window_layer(40)});
    SeqHandle seq = host.create(whole), fork;
    append(host, seq, whole, KVC_LAYER_FULL, 0, 48);
    ASSERT_EQ(kvc_seq_fork(fork.out(), seq, KVC_ALL, &host.error), KVC_OK) << host.error.message;
    append(host, seq, whole, KVC_LAYER_FULL, 48, 64), append(host, seq, whole, KVC_LAYER_WINDOW, 25, 64);
    ASSERT_EQ(kvc_seq_truncate(fork, 47, &host.error), KVC_OK) << host.error.message;
    append(host, fork, whole, KVC_LAYER_WINDOW, from, 20), append(host, fork, whole, KVC_LAYER_WINDOW, 20, 47);
    host.expect_all(fork, whole, 47, 1);
    host.expect_all(seq, whole, 64, 1);
    verify(host);
  }
}

TEST_F(Lagging, rows_that_did_not_join_at_first_pass_their_check_when_they_do) {
  PartsHost host(disk, {full, window_layer(40), state});
  SeqHandle seq = host.create(whole), fork;
  append(host, seq, whole, KVC_LAYER_FULL, 0, 48);
  ASSERT_EQ(kvc_seq_fork(fork.out(), seq, KVC_ALL, &host.error), KVC_OK) << host.error.message;
  append(host, seq, whole, KVC_LAYER_FULL, 48, 64), append(host, seq, whole, KVC_LAYER_WINDOW, 25, 64);
  append(host, fork, whole, KVC_LAYER_WINDOW, 9, 48);  // more of the second chunk than is held
  ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, nullptr), KVC_OK);  // those held are found no more
  append(host, fork, whole, KVC_LAYER_FULL, 48, 50), append(host, fork, whole, KVC_LAYER_WINDOW, 48, 50);
  verify(host);
  host.expect_rows(fork, {1, 1, 0, 0}, 11, 50, 1);
}

TEST_F(Lagging, a_cut_into_the_window_of_a_chunk_that_is_another_writers_needs_that_ones_rows) {
  PartsHost host(disk, {full, window_layer(20)});
  const SeqHandle other = host.create(whole), seq = host.create(whole);
  append(host, other, whole, KVC_LAYER_FULL, 0, 64, 2);
  ASSERT_EQ(host.append(other, whole, 2, tokens, 45, 64, false, 0, KVC_LAYER_WINDOW), KVC_OK) << host.error.message;
  append(host, seq, whole, KVC_LAYER_FULL, 0, 64);  // all of it is the other's now, whose windows begin at token 45
  EXPECT_EQ(kvc_seq_truncate(seq, 41, &host.error), KVC_ERR_GONE) << host.error.message;
  std::vector<uint64_t> first(41);
  for (uint64_t i = 0; i < 41; i++) first[i] = i;
  EXPECT_EQ(kvc_seq_compact(seq, first.data(), first.size(), &host.error), KVC_ERR_GONE) << host.error.message;
  append(host, seq, whole, KVC_LAYER_WINDOW, 0, 64);
  host.expect_all(seq, whole, 64, 2);
  verify(host);
}

TEST_F(Lagging, a_chunk_that_waited_for_its_snapshot_waits_on_when_it_comes_back) {
  PartsHost host(disk, {full, state});
  const SeqHandle other = host.create(whole, 2), seq = host.create(whole, 1);
  append(host, other, whole, KVC_LAYER_FULL, 0, 32, 2);
  append(host, seq, whole, KVC_LAYER_FULL, 0, 32);
  save(host, seq);
  SeqHandle back = restore(host, whole, 1);
  EXPECT_EQ(host.info(back).tokens_sealed, 16u);
  append(host, back, whole, KVC_LAYER_STATE, 0, 32);
  const auto writer = [](uint32_t l, uint64_t t, uint32_t) { return l == 0 && t < 16 ? 2 : 1; };  // the first chunk had given way
  host.expect_all(back, whole, 32, writer);
  EXPECT_EQ(host.found(whole, front(32)), 32u);
  // And when it comes back to a store where nobody has the name, it waits for nobody.
  PartsHost there(disk, {full, state});
  const SeqHandle alone = restore(there, whole, 1);
  EXPECT_EQ(there.info(alone).tokens_sealed, 32u);
  append(there, alone, whole, KVC_LAYER_STATE, 0, 32);
  there.expect_all(alone, whole, 32, writer);
  verify(host), verify(there);
}

TEST_F(Lagging, a_rank_whose_state_layers_come_one_by_one_waits_for_the_last_of_them) {
  PartsHost host(disk, {full, state, state});
  const SeqHandle other = host.create(tp(0, 2)), seq = host.create(tp(0, 2));
  append(host, other, tp(0, 2), KVC_LAYER_FULL, 0, 32, 2);
  append(host, seq, tp(0, 2), KVC_LAYER_FULL, 0, 32);
  for (const uint32_t layer : {1u, 2u}) append(host, seq, {layer, 1, 0, 4}, KVC_LAYER_STATE, 0, 32);
  host.expect_rows(seq, {1, 2, 0, 4}, 16, 32, 1);
  host.expect_rows(seq, {0, 1, 0, 4}, 16, 32, 1);
}

TEST_F(Lagging, a_whole_snapshot_that_comes_back_does_not_give_way_to_what_one_rank_of_two_has_brought) {
  PartsHost host(disk, {full, state});
  SeqHandle ranks[2];
  for (uint32_t r = 0; r < 2; r++) ranks[r] = host.written(tp(r, 2), 1, 1, front(16));
  uint64_t length = 0;
  SeqHandle all = host.match(whole, front(16), &length);
  ASSERT_EQ(length, 16u);
  save(host, all);
  all.reset();
  for (SeqHandle &rank : ranks) rank.reset();
  ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, nullptr), KVC_OK);
  for (uint32_t r = 0; r < 2; r++) append(host, ranks[r] = host.create(tp(r, 2), 1), tp(r, 2), KVC_LAYER_FULL, 0, 16);
  append(host, ranks[0], tp(0, 2), KVC_LAYER_STATE, 0, 16);
  SeqHandle back = restore(host, whole), fork;
  host.expect_all(back, whole, 16, 1);
  ASSERT_EQ(kvc_seq_truncate(back, 16, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_fork(fork.out(), back, 16, &host.error), KVC_OK) << host.error.message;
  save(host, back);
  append(host, ranks[1], tp(1, 2), KVC_LAYER_STATE, 0, 16);
  EXPECT_EQ(host.found(whole, front(16)), 16u);
  host.expect_all(fork, whole, 16, 1);
  verify(host);
}

}  // namespace

#include <unistd.h>

#include <filesystem>
#include <functional>

#include "fault_steps.h"
#include "hybrid.h"
#include "store_info.h"

/// Snapshots that come after the rows of their chunk, while another writer's chunk of that name has none, or has lost what it had.
namespace {

using namespace kvc_test;

struct LateSnapshotTest : testing::Test {
  HybridHost host{{full_layers(2, 1, 8, 8), state_layers(2, 1, 40, 8)}, KVC_F16, 16, 4u << 20, KVC_OPEN_VERIFY_READS};
  const std::vector<int32_t> tokens = ids(200);

  std::vector<int32_t> part(uint64_t begin, uint64_t end) const { return {tokens.begin() + static_cast<int64_t>(begin), tokens.begin() + static_cast<int64_t>(end)}; }
  /// Rows [begin, end) of the full layers, with their ids.
  void rows(kvc_seq *seq, uint64_t begin, uint64_t end, int writer) {
    ASSERT_EQ(host.append(seq, part(begin, end), host.sources(begin, end, writer, KVC_LAYER_FULL).rows()), KVC_OK) << host.error.message;
  }
  /// The snapshot of every state layer, or of one.
  void state(kvc_seq *seq, uint64_t begin, uint64_t end, int writer, uint32_t layer = 0) {
    const Moves moves = layer ? host.source(layer, begin, end, writer) : host.sources(begin, end, writer, KVC_LAYER_STATE);
    ASSERT_EQ(host.append(seq, {}, moves.rows()), KVC_OK) << host.error.message;
  }
  /// A writer's chunks up to 48, with a snapshot at 40 alone: none of them has one at its end.
  SeqHandle another() {
    SeqHandle seq = host.create();
    rows(seq, 0, 48, 1);
    state(seq, 0, 40, 1);
    return seq;
  }
  void expect_found(uint64_t at, const Writer &writer) {
    SeqHandle found;
    ASSERT_EQ(host.look(part(0, at), &found).tokens, at);
    for (uint32_t l = 0; l < 4; l++) host.expect_rows(found, l, l < 2 ? at - 16 : at - 1, at, writer);
  }
  kvc_seq_info info_of(const kvc_seq *seq) {
    auto info = sized<kvc_seq_info>();
    EXPECT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK);
    return info;
  }
  void expect_sound() { EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_OK) << host.error.message; }
};

TEST_F(LateSnapshotTest, the_snapshot_at_the_end_of_the_last_complete_chunk_makes_it_the_sequences_own_though_it_comes_in_a_later_call) {
  for (const uint64_t end : {16u, 48u, 55u}) {
    const SeqHandle other = another();
    SeqHandle seq = host.create();
    rows(seq, 0, end, 2);
    const uint64_t at = end / 16 * 16;
    EXPECT_EQ(host.look(part(0, at)).tokens, 0u);
    EXPECT_EQ(host.look(part(0, at)).tokens_attention, at) << "the other's is there meanwhile";
    host.expect_rows(seq, 0, at - 16, at, 2);
    state(seq, 0, at, 2, 2);
    EXPECT_EQ(host.look(part(0, at)).tokens, 0u) << "of one layer of two";
    state(seq, 0, at, 2, 3);
    expect_found(at, 2);
    EXPECT_EQ(info_of(seq).tokens_sealed, at);
    for (uint32_t l = 2; l < 4; l++) host.expect_rows(seq, l, 0, at, 2);
    host.expect_rows(seq, 1, at - 16, end, 2);
    host.expect_rows(other, 1, 0, 48, 1);
    if (end > at) state(seq, at, end, 2);
    expect_sound();
    ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, &host.error), KVC_OK);
  }
}

TEST_F(LateSnapshotTest, a_chunk_that_waited_gives_way_when_the_next_is_complete_and_takes_no_more_room) {
  const SeqHandle other = another();
  SeqHandle seq = host.create();
  const uint64_t chunks = store_info(host.store).chunk_count;
  rows(seq, 0, 16, 2);
  EXPECT_EQ(info_of(seq).tokens_sealed, 0u);
  for (uint64_t t = 16; t < 31; t++) rows(seq, t, t + 1, 2);
  EXPECT_EQ(info_of(seq).tokens_sealed, 0u);
  rows(seq, 31, 40, 2);
  EXPECT_EQ(info_of(seq).tokens_sealed, 16u) << "that at 32 waits now";
  host.expect_rows(seq, 0, 0, 16, 1);
  host.expect_rows(seq, 0, 16, 40, 2);
  state(seq, 0, 16, 2);  // too late for that one; the sequence has it while it stands there
  host.expect_rows(seq, 2, 0, 16, 2);
  EXPECT_EQ(host.look(part(0, 16)).tokens, 0u);
  EXPECT_EQ(store_info(host.store).chunk_count, chunks);
  state(seq, 16, 40, 2);  // past 32: there will be none
  EXPECT_EQ(info_of(seq).tokens_sealed, 32u);
  host.expect_rows(seq, 1, 0, 32, 1);
  EXPECT_EQ(store_info(host.store).chunk_count, chunks);
  expect_sound();
}

TEST_F(LateSnapshotTest, who_has_a_name_to_itself_or_none_waits_for_nothing_and_neither_does_what_the_other_has_a_snapshot_of) {
  SeqHandle first = host.create(), second = host.create(), alone = host.create(KVC_SEQ_PRIVATE);
  rows(first, 0, 16, 1);
  EXPECT_EQ(info_of(first).tokens_sealed, 16u);
  rows(alone, 0, 16, 2);
  EXPECT_EQ(info_of(alone).tokens_sealed, 16u);
  state(first, 0, 16, 1);
  rows(second, 0, 16, 2);
  EXPECT_EQ(info_of(second).tokens_sealed, 16u);
  host.expect_rows(second, 0, 0, 16, 1);
  state(second, 0, 16, 2);
  expect_found(16, 1);
  for (uint32_t l = 2; l < 4; l++) host.expect_rows(second, l, 0, 16, 1);  // of whom the rows are, the snapshot is too
}

TEST_F(LateSnapshotTest, a_prompt_that_was_pinned_is_found_also_when_a_shorter_one_brings_a_snapshot_inside_of_it) {
  for (const bool pinned : {true, false})
    for (const bool together : {true, false}) {
      SeqHandle longer = host.create(), shorter = host.create(), again = host.create();
      rows(longer, 0, 96, 1);
      state(longer, 0, 96, 1);
      LeaseHandle lease;
      ASSERT_EQ(kvc_seq_lease(lease.out(), longer, 0, KVC_ALL, KVC_FOREVER, nullptr, &host.error), KVC_OK) << host.error.message;
      if (!pinned) lease.reset();
      longer.reset();
      if (together) {
        Moves moves = host.sources(0, 32, 2, KVC_LAYER_FULL);
        moves += host.sources(0, 32, 2, KVC_LAYER_STATE);
        ASSERT_EQ(host.append(shorter, part(0, 32), moves.rows()), KVC_OK) << host.error.message;
      } else {
        rows(shorter, 0, 32, 2);
        state(shorter, 0, 32, 2);
      }
      EXPECT_EQ(host.look(part(0, 96)).tokens, pinned ? 96u : 32u);
      EXPECT_EQ(info_of(shorter).tokens_shareable, pinned ? 16u : 32u);
      host.expect_rows(shorter, 0, 0, 32, Writer([](uint64_t token) { return token < 16 ? 1 : 2; }));
      for (uint32_t l = 2; l < 4; l++) host.expect_rows(shorter, l, 0, 32, 2);
      if (pinned) {
        expect_found(96, 1);
        lease.reset();
        rows(again, 0, 32, 3);
        state(again, 0, 32, 3);
        EXPECT_EQ(host.look(part(0, 96)).tokens, 32u) << "no longer pinned";
      }
      expect_sound();
      ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, &host.error), KVC_OK);
    }
}

TEST_F(LateSnapshotTest, forks_and_truncates_take_a_chunk_that_waits_as_it_is) {
  const SeqHandle other = another();
  SeqHandle seq = host.create(), fork, cut;
  rows(seq, 0, 48, 2);
  state(seq, 0, 32, 2);
  ASSERT_EQ(info_of(seq).tokens_sealed, 32u);
  ASSERT_EQ(kvc_seq_fork(fork.out(), seq, KVC_ALL, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_fork(cut.out(), seq, 32, &host.error), KVC_OK) << host.error.message;
  host.expect_rows(cut, 0, 0, 32, 1);  // those gave way
  state(fork, 32, 48, 3);
  expect_found(48, Writer([](uint64_t at) { return at == 48 ? 3u : 2u; }));
  state(seq, 32, 48, 2);
  host.expect_rows(seq, 2, 0, 48, 3);  // the fork was first
  ASSERT_EQ(host.append_all(cut, tokens, 32, 48, 4), KVC_OK) << host.error.message;
  host.expect_rows(cut, 1, 32, 48, 2);
  host.expect_rows(other, 1, 0, 48, 1);
  expect_sound();
}

TEST_F(LateSnapshotTest, a_chunk_that_waits_is_saved_with_its_name_and_joins_where_none_is_held) {
  const std::string path = testing::TempDir() + "kvc-late-snapshot-" + std::to_string(getpid());
  const SeqHandle other = another();
  SeqHandle seq = host.create(), back;
  rows(seq, 0, 48, 2);
  state(seq, 0, 40, 2);
  ASSERT_EQ(info_of(seq).tokens_sealed, 32u);
  ASSERT_EQ(kvc_seq_save(seq, path.c_str(), nullptr, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, &host.error), KVC_OK);
  ASSERT_EQ(kvc_seq_restore(back.out(), host.scope, path.c_str(), nullptr, nullptr, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(info_of(back).tokens_sealed, 48u);
  host.expect_rows(back, 0, 0, 48, Writer([](uint64_t at) { return at < 32 ? 1u : 2u; }));
  host.expect_rows(back, 2, 0, 40, 2);
  state(back, 40, 48, 2);
  EXPECT_EQ(host.look(part(0, 48)).tokens, 48u);
  // Beside the other's, it gives way: what comes back stands at its own snapshot still.
  back.reset();
  ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, &host.error), KVC_OK);
  const SeqHandle again = another();
  ASSERT_EQ(kvc_seq_restore(back.out(), host.scope, path.c_str(), nullptr, nullptr, &host.error), KVC_OK) << host.error.message;
  host.expect_rows(back, 2, 0, 40, 2);
  state(back, 40, 48, 2);
  host.expect_rows(back, 2, 0, 48, 2);
  expect_sound();
  std::filesystem::remove(path);
}

TEST_F(LateSnapshotTest, windows_of_a_chunk_that_waits_are_its_own_and_join_it_with_the_snapshot) {
  HybridHost h({full_layers(1, 1, 8, 8), window_layers(1, 1, 6, 3, 8), state_layers(1, 1, 40, 8)}, KVC_F16, 16);
  const auto give = [&](kvc_seq *seq, uint32_t kind, uint64_t begin, uint64_t end, int writer) {
    ASSERT_EQ(h.append(seq, kind == KVC_LAYER_FULL ? part(begin, end) : std::vector<int32_t>(), h.sources(begin, end, writer, kind).rows()), KVC_OK) << h.error.message;
  };
  SeqHandle other = h.create(), found;
  for (const uint32_t kind : {KVC_LAYER_FULL, KVC_LAYER_WINDOW}) give(other, kind, 0, 32, 1);
  for (const bool window_first : {false, true}) {
    SeqHandle seq = h.create();
    if (window_first) {
      const Moves moves = h.source(1, 0, 32, 2);
      ASSERT_EQ(h.append(seq, part(0, 32), moves.rows()), KVC_OK) << h.error.message;
      ASSERT_EQ(h.append(seq, {}, h.source(0, 0, 32, 2).rows()), KVC_OK) << h.error.message;
    } else {
      give(seq, KVC_LAYER_FULL, 0, 32, 2);
      give(seq, KVC_LAYER_WINDOW, 0, 32, 2);
    }
    give(seq, KVC_LAYER_STATE, 0, 32, 2);
    ASSERT_EQ(h.look(part(0, 32), &found).tokens, 32u);
    for (uint32_t l = 0; l < 3; l++) h.expect_rows(found, l, l == 1 ? 24 : 16, 32, 2);
    found.reset(), seq.reset();
    ASSERT_EQ(kvc_scope_clear(nullptr, h.scope, nullptr, &h.error), KVC_OK);
    other = h.create();
    for (const uint32_t kind : {KVC_LAYER_FULL, KVC_LAYER_WINDOW}) give(other, kind, 0, 32, 1);
  }
}

TEST_F(LateSnapshotTest, a_chunk_of_another_that_a_truncate_cut_is_the_sequences_own_when_it_brings_the_snapshot_that_one_lacks) {
  for (const int how : {0, 1, 2}) {
    const SeqHandle other = another();
    SeqHandle seq = host.create();
    rows(seq, 0, 64, 2);  // the last is nobody else's: none waits
    state(seq, 0, 40, 2);
    ASSERT_EQ(info_of(seq).tokens_sealed, 64u);
    host.expect_rows(seq, 0, 32, 48, 1);
    ASSERT_EQ(kvc_seq_truncate(seq, 40, &host.error), KVC_OK) << host.error.message;
    if (how == 0) {
      ASSERT_EQ(host.append_all(seq, tokens, 40, 48, 3), KVC_OK) << host.error.message;
    } else {
      for (uint64_t t = 40; how == 1 && t < 44; t++) rows(seq, t, t + 1, 3);
      rows(seq, how == 1 ? 44 : 40, 48, 3);
      state(seq, 40, 48, 3, 2);
      state(seq, 40, 48, 3, 3);
    }
    SeqHandle found;
    ASSERT_EQ(host.look(part(0, 48), &found).tokens, 48u) << how;
    for (uint32_t l = 2; l < 4; l++) {
      host.expect_rows(found, l, 0, 48, 3);
      host.expect_rows(seq, l, 0, 48, 3);
    }
    host.expect_rows(found, 0, 32, 40, 1);  // what it went on from
    host.expect_rows(other, 0, 32, 48, 1);
    expect_sound();
    found.reset();
    ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, &host.error), KVC_OK);
  }
}

TEST_F(LateSnapshotTest, a_snapshot_that_failed_its_check_is_gone_at_every_read_until_it_is_brought_again) {
  SeqHandle seq = host.create();
  ASSERT_EQ(host.append_all(seq, tokens, 0, 16, 1), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append_all(seq, tokens, 16, 32, 1), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append_all(seq, tokens, 32, 40, 1), KVC_OK) << host.error.message;
  for (const uint64_t at : {16u, 32u}) {
    ViewHandle lent;
    auto page = sized<kvc_rows>();
    ASSERT_EQ(kvc_view_acquire(lent.out(), &page, seq, 3, at - 1, 0, &host.error), KVC_OK) << host.error.message;
    static_cast<uint8_t *>(page.k.data)[3] ^= 1;
  }
  host.expect_refused(seq, 3, 0, 16, KVC_ERR_GONE);                                                   // by a read
  EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_ERR_CORRUPT);            // by the check of everything
  for (const uint64_t at : {16u, 32u})
    for (uint32_t l = 2; l < 4; l++) {
      host.expect_refused(seq, l, 0, at, KVC_ERR_GONE);
      host.expect_refused(seq, l, 0, at, KVC_ERR_GONE);
      ViewHandle lent;
      auto page = sized<kvc_rows>();
      EXPECT_EQ(kvc_view_acquire(lent.out(), &page, seq, l, at - 1, 0, &host.error), KVC_ERR_GONE);
    }
  host.expect_refused(seq, 2, 0, 17, KVC_ERR_NO_SNAPSHOT);  // there was none
  host.expect_rows(seq, 2, 0, 40, 1);
  SeqHandle again = host.create();
  ASSERT_EQ(host.append_all(again, tokens, 0, 16, 2), KVC_OK) << host.error.message;
  host.expect_rows(again, 2, 0, 16, 2);
  expect_found(16, 2);
}

#ifdef KVC_FAULTS
/// A writer without snapshots, one whose snapshot comes late, and one that cuts the chunk of another and brings it then.
struct LateSteps {
  HybridHost host{{full_layers(1, 1, 8, 8), state_layers(1, 1, 40, 8)}, KVC_F16, 16, 4u << 20};
  const std::vector<int32_t> tokens = ids(100);
  SeqHandle other, late, fork;
  std::vector<std::function<kvc_status()>> calls;

  kvc_status rows(kvc_seq *seq, uint64_t begin, uint64_t end, int writer) {
    return host.append(seq, {tokens.begin() + static_cast<int64_t>(begin), tokens.begin() + static_cast<int64_t>(end)}, host.source(0, begin, end, writer).rows());
  }
  kvc_status state(kvc_seq *seq, uint64_t begin, uint64_t end, int writer) { return host.append(seq, {}, host.source(1, begin, end, writer).rows()); }
  LateSteps() {
    other = host.create(), late = host.create();
    calls = {
        [&] { return rows(other, 0, 64, 1); },
        [&] { return state(other, 0, 40, 1); },
        [&] { return rows(late, 0, 32, 2); },
        [&] { return kvc_seq_fork(fork.out(), late, KVC_ALL, &host.error); },
        [&] { return state(late, 0, 32, 2); },
        [&] { return state(fork, 0, 20, 3); },
        [&] { return rows(late, 32, 64, 2); },
        [&] { return state(late, 32, 40, 2); },
        [&] { return kvc_seq_truncate(late, 40, &host.error); },
        [&] { return rows(late, 40, 48, 4); },
        [&] { return state(late, 40, 48, 4); },
    };
  }
  std::string look() {
    std::string out;
    for (kvc_seq *seq : {static_cast<kvc_seq *>(other), static_cast<kvc_seq *>(late), static_cast<kvc_seq *>(fork)}) {
      if (!seq) continue;
      auto info = sized<kvc_seq_info>();
      EXPECT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK);
      out += std::to_string(info.tokens) + " " + std::to_string(info.tokens_sealed) + " " + std::to_string(info.tokens_end) + ":";
      for (uint32_t l = 0; l < 2; l++)
        for (uint64_t at = 4; at <= info.tokens; at += 4) {
          const Moves moves = host.target(l, at - 1, at);
          out += std::to_string(host.gather(seq, moves.rows()));
          out.append(moves.list[0]->k.begin(), moves.list[0]->k.end());
        }
    }
    const kvc_store_info store = store_info(host.store);
    return out + std::to_string(store.memory_used) + " " + std::to_string(store.chunk_count) + " " + std::to_string(host.look(tokens).tokens);
  }
};

TEST(LateSnapshotFault, a_call_that_fails_has_changed_nothing_and_succeeds_when_it_is_made_again) { expect_failures_to_change_nothing<LateSteps>(); }
#endif

}  // namespace

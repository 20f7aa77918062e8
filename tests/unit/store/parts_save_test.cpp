#include "../io/memory_files.h"
#include "fault_steps.h"
#include "parts_host.h"

/// Sequences of a part of the shape in save files, and whole ones whose chunks were written in parts.
namespace {

using namespace kvc_test;

const kvc_layer one_head = full_layers(2, 1, PartsHost::k_dim, PartsHost::v_dim);

struct PartsSaveTest : testing::Test {
  MemoryFiles disk;
  PartsHost host{disk}, there{disk};
  const std::vector<int32_t> tokens = ids(60);

  kvc_status save(PartsHost &from, const kvc_seq *seq, const char *path = "disk/a") { return kvc_seq_save(seq, path, nullptr, &from.error); }
  kvc_status restore(PartsHost &to, SeqHandle &out, const Range &r, uint8_t engine = 0, const char *path = "disk/a") {
    const auto o = PartsHost::options_of(r, engine);
    return kvc_seq_restore(out.out(), to.scope, path, &o, nullptr, &to.error);
  }
  /// What a refused restore may not change.
  std::vector<uint64_t> counts(PartsHost &of) {
    const kvc_store_info i = store_info(of.store);
    const kvc_scope_info s = of.scope_info();
    return {i.memory_used, i.memory_pinned, i.seq_count, i.chunk_count, s.chunk_count, s.seq_count, s.bytes_host};
  }
};

TEST_F(PartsSaveTest, a_sequence_of_a_part_comes_back_with_its_rows_under_its_names_and_goes_on) {
  for (const Range &part : {tp(1, 2), tp(3, 4), pp(1), Range{1, 2, 4, 2}}) {
    SeqHandle seq = host.create(part, 7), back, found;
    ASSERT_EQ(host.append(seq, part, 1, tokens, 0, 40), KVC_OK) << host.error.message;
    ASSERT_EQ(save(host, seq), KVC_OK) << host.error.message;
    ASSERT_EQ(restore(there, back, part, 7), KVC_OK) << there.error.message;
    const kvc_seq_info info = there.info(back);
    EXPECT_EQ(info.tokens, 40u);
    EXPECT_EQ(info.tokens_sealed, 32u);
    EXPECT_EQ(info.tokens_shareable, 40u);
    there.expect_rows(back, part, 0, 40, 1);
    uint64_t length = 0;
    found = there.match(part, tokens, &length);
    EXPECT_EQ(length, 32u);
    there.expect_rows(found, part, 0, 32, 1);
    ASSERT_EQ(save(there, back, "disk/b"), KVC_OK) << there.error.message;
    EXPECT_TRUE(disk.content("b") == disk.content("a")) << "saved again it is another file";
    ASSERT_EQ(there.append(back, part, 2, tokens, 40, 60), KVC_OK) << there.error.message;
    there.expect_rows(back, part, 0, 60, [](uint32_t, uint64_t token, uint32_t) { return token < 40 ? 1 : 2; });
    EXPECT_EQ(kvc_store_verify(nullptr, there.store, nullptr, &there.error), KVC_OK) << there.error.message;
    ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, nullptr), KVC_OK);
    back.reset(), found.reset();
    ASSERT_EQ(kvc_scope_clear(nullptr, there.scope, nullptr, nullptr), KVC_OK);
  }
}

TEST_F(PartsSaveTest, the_ranks_of_an_engine_that_come_back_one_by_one_are_one_chunk_again) {
  const std::vector<Range> ranks{tp(0, 2), tp(1, 2)};
  std::vector<SeqHandle> seqs, backs(2);
  for (size_t i = 0; i < 2; i++) {
    seqs.push_back(host.written(ranks[i], 7, 1, tokens));
    ASSERT_EQ(save(host, seqs[i], i ? "disk/b" : "disk/a"), KVC_OK) << host.error.message;
  }
  ASSERT_EQ(restore(there, backs[0], ranks[0], 7), KVC_OK) << there.error.message;
  EXPECT_EQ(there.found(whole, tokens), 0u);
  ASSERT_EQ(restore(there, backs[1], ranks[1], 7, "disk/b"), KVC_OK) << there.error.message;
  EXPECT_EQ(there.found(whole, tokens), 48u);
  uint64_t length = 0;
  SeqHandle all = there.match(whole, tokens, &length);
  there.expect_rows(all, whole, 0, 48, 1);
  EXPECT_EQ(store_info(there.store).chunk_count, 3u);
}

TEST_F(PartsSaveTest, ranks_that_come_back_leave_a_slice_alone_that_waits_for_the_sisters_of_another_engine) {
  const std::vector<Range> ranks{tp(0, 2), tp(1, 2)};
  const std::vector<int32_t> prompt(tokens.begin(), tokens.begin() + 48);
  for (size_t i = 0; i < 2; i++) ASSERT_EQ(save(host, host.written(ranks[i], 7, 1, prompt), i ? "disk/b" : "disk/a"), KVC_OK) << host.error.message;
  for (const uint8_t engine : {7, 0}) {  // 0: the options name no write id, the file has it
    there.written(ranks[0], 8, 2, prompt).reset();
    SeqHandle first, second;
    ASSERT_EQ(restore(there, first, ranks[0], engine, "disk/a"), KVC_OK) << there.error.message;
    there.expect_rows(first, ranks[0], 0, 48, 1);
    EXPECT_EQ(there.info(first).tokens_shareable, 0u);
    there.clock.advance_ms(1001);
    first.reset();
    for (size_t i = 0; i < 2; i++) ASSERT_EQ(restore(there, i ? second : first, ranks[i], engine, i ? "disk/b" : "disk/a"), KVC_OK) << there.error.message;
    uint64_t length = 0;
    {
      const SeqHandle all = there.match(whole, prompt, &length);
      ASSERT_EQ(length, 48u);
      there.expect_rows(all, whole, 0, 48, 1);
    }
    first.reset(), second.reset();
    ASSERT_EQ(kvc_scope_clear(nullptr, there.scope, nullptr, nullptr), KVC_OK);
  }
}

TEST_F(PartsSaveTest, a_whole_sequence_whose_chunks_were_written_in_parts_is_the_same_file_as_one_written_whole) {
  for (const auto &ranks : {std::vector<Range>{tp(0, 4), tp(1, 4), tp(2, 4), tp(3, 4)}, std::vector<Range>{pp(1), pp(0)}, std::vector<Range>{{0, 2, 0, 4}, {2, 2, 0, 0}, {0, 2, 4, 4}}}) {
    SeqHandle back;
    std::vector<SeqHandle> seqs;
    for (const Range &rank : ranks) seqs.push_back(host.written(rank, 7, 1, tokens));
    uint64_t length = 0;
    SeqHandle all = host.match(whole, tokens, &length, 7);
    ASSERT_EQ(length, 48u);
    ASSERT_EQ(host.append(all, whole, 1, tokens, 48, 60), KVC_OK) << host.error.message;
    ASSERT_EQ(save(host, all), KVC_OK) << host.error.message;
    const SeqHandle plain = there.written(whole, 7, 1, tokens);
    ASSERT_EQ(save(there, plain, "disk/b"), KVC_OK) << there.error.message;
    EXPECT_TRUE(disk.content("a") == disk.content("b"));
    ASSERT_EQ(kvc_scope_clear(nullptr, there.scope, nullptr, nullptr), KVC_OK);
    ASSERT_EQ(restore(there, back, whole), KVC_OK) << there.error.message;
    there.expect_rows(back, whole, 0, 60, 1);
    // Open rows that are those of such a chunk, which a truncate cut.
    ASSERT_EQ(kvc_seq_truncate(all, 40, &host.error), KVC_OK) << host.error.message;
    ASSERT_EQ(save(host, all), KVC_OK) << host.error.message;
    ASSERT_EQ(restore(there, back, whole), KVC_OK) << there.error.message;
    EXPECT_EQ(there.info(back).tokens, 40u);
    there.expect_rows(back, whole, 0, 40, 1);
    all.reset(), seqs.clear(), back.reset();
    ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, nullptr), KVC_OK);
    ASSERT_EQ(kvc_scope_clear(nullptr, there.scope, nullptr, nullptr), KVC_OK);
  }
}

TEST_F(PartsSaveTest, a_part_is_saved_of_chunks_that_were_written_otherwise) {
  const SeqHandle all = host.written(whole, 7, 1, tokens);
  SeqHandle back;
  for (const Range &part : {tp(1, 2), pp(1), Range{1, 2, 4, 2}}) {
    uint64_t length = 0;
    SeqHandle seq = host.match(part, tokens, &length);
    ASSERT_EQ(length, 48u);
    ASSERT_EQ(save(host, seq), KVC_OK) << host.error.message;
    ASSERT_EQ(restore(there, back, part), KVC_OK) << there.error.message;
    there.expect_rows(back, part, 0, 48, 1);
    back.reset();
    ASSERT_EQ(kvc_scope_clear(nullptr, there.scope, nullptr, nullptr), KVC_OK);
  }
}

TEST_F(PartsSaveTest, layers_of_one_head_are_in_every_part_and_in_every_file) {
  PartsHost from(disk, {full_layers(1, PartsHost::heads, PartsHost::k_dim, PartsHost::v_dim), one_head}), to(disk, {full_layers(1, PartsHost::heads, PartsHost::k_dim, PartsHost::v_dim), one_head});
  const Range ranks[] = {tp(0, 2), tp(1, 2)};
  SeqHandle seqs[2], backs[2];
  for (int i = 0; i < 2; i++) seqs[i] = from.written(ranks[i], 7, 1, tokens);
  for (int i : {1, 0}) {  // the second's slices have no latent pages of their own
    ASSERT_EQ(save(from, seqs[i]), KVC_OK) << from.error.message;
    ASSERT_EQ(restore(to, backs[i], ranks[i], 7), KVC_OK) << to.error.message;
    to.expect_rows(backs[i], ranks[i], 0, 60, 1);
  }
  EXPECT_EQ(to.found(whole, tokens), 48u);
  EXPECT_EQ(to.scope_info().bytes_host, from.scope_info().bytes_host);
}

TEST_F(PartsSaveTest, a_file_of_another_part_is_refused_with_both_and_nothing_has_changed) {
  const SeqHandle seq = host.written(Range{1, 2, 4, 2}, 7, 1, tokens), all = host.written(whole, 8, 2, ids(40, 5)), mine = there.written(whole, 9, 3, tokens);
  ASSERT_EQ(save(host, seq), KVC_OK) << host.error.message;
  ASSERT_EQ(save(host, all, "disk/b"), KVC_OK) << host.error.message;
  const auto before = counts(there);
  SeqHandle back;
  const auto refused = [&](const Range &r, const char *path, const char *theirs, const char *ours) {
    there.expect_refused(restore(there, back, r, 0, path), KVC_ERR_SHAPE, {theirs, ours});
    EXPECT_EQ(static_cast<kvc_seq *>(back), nullptr);
    EXPECT_EQ(counts(there), before);
  };
  refused(whole, "disk/a", "the file holds layers [1, +2), heads [4, +2)", "the options name all layers and heads");
  refused(tp(1, 2), "disk/a", "layers [1, +2), heads [4, +2)", "the options name layers [0, +4), heads [4, +4)");
  refused(Range{1, 2, 0, 0}, "disk/a", "layers [1, +2), heads [4, +2)", "layers [1, +2), all heads");
  refused(tp(0, 2), "disk/b", "the file holds all layers and heads", "layers [0, +4), heads [0, +4)");
  there.expect_refused(kvc_seq_restore(back.out(), there.scope, "disk/a", nullptr, nullptr, &there.error), KVC_ERR_SHAPE, {"all layers and heads"});
  there.expect_rows(mine, whole, 0, 60, 3);
}

TEST_F(PartsSaveTest, a_private_part_and_one_without_rows_or_ids_come_back_as_they_were) {
  SeqHandle alone = host.create(tp(1, 2), 0, KVC_SEQ_PRIVATE), empty = host.create(pp(0)), back;
  ASSERT_EQ(host.append(alone, tp(1, 2), 4, tokens, 0, 40, false), KVC_OK) << host.error.message;
  ASSERT_EQ(save(host, alone), KVC_OK) << host.error.message;
  ASSERT_EQ(restore(there, back, tp(1, 2)), KVC_OK) << there.error.message;
  there.expect_rows(back, tp(1, 2), 0, 40, 4);
  EXPECT_EQ(there.found(tp(1, 2), tokens), 0u);
  ASSERT_EQ(save(host, empty), KVC_OK) << host.error.message;
  ASSERT_EQ(restore(there, back, pp(0)), KVC_OK) << there.error.message;
  EXPECT_EQ(there.info(back).tokens, 0u);
}

TEST_F(PartsSaveTest, rows_that_a_rank_keeps_under_no_name_are_a_private_file) {
  const SeqHandle first = host.written(tp(0, 2), 1, 1, tokens);
  SeqHandle late = host.written(tp(1, 2), 2, 2, tokens), back;  // of another writer: its chunks have no name
  ASSERT_EQ(host.info(late).tokens_shareable, 0u);
  ASSERT_EQ(save(host, late), KVC_OK) << host.error.message;
  ASSERT_EQ(restore(there, back, tp(1, 2)), KVC_OK) << there.error.message;
  there.expect_rows(back, tp(1, 2), 0, 60, 2);
  EXPECT_EQ(there.found(tp(1, 2), tokens), 0u);
}

TEST_F(PartsSaveTest, damage_anywhere_in_the_file_of_a_part_is_noticed) {
  const Range part{1, 2, 4, 2};
  const SeqHandle seq = host.written(part, 7, 1, ids(20));
  ASSERT_EQ(save(host, seq), KVC_OK) << host.error.message;
  const std::string good = disk.content("a");
  const auto before = counts(there);
  SeqHandle back;
  for (size_t at = 0; at < good.size(); at += at < 1024 ? 1 : 61) {
    std::string file = good;
    file[at] = static_cast<char>(file[at] ^ 4);
    disk.put("c", file);
    const kvc_status status = restore(there, back, part, 0, "disk/c");
    ASSERT_TRUE(status == KVC_ERR_CORRUPT || status == KVC_ERR_VERSION) << at << ": " << kvc_status_name(status);
    ASSERT_EQ(counts(there), before) << at;
  }
}

TEST_F(PartsSaveTest, a_slice_that_is_damaged_is_gone_for_the_whole_sequence_and_no_file_is_written) {
  const std::vector<Range> ranks{tp(0, 2), tp(1, 2)};
  std::vector<SeqHandle> seqs;
  for (const Range &rank : ranks) seqs.push_back(host.written(rank, 7, 1, tokens));
  uint64_t length = 0;
  const SeqHandle all = host.match(whole, tokens, &length);
  {
    ViewHandle lent;
    auto rows = sized<kvc_rows>();
    ASSERT_EQ(kvc_view_acquire(lent.out(), &rows, seqs[1], 2, 20, 0, &host.error), KVC_OK) << host.error.message;
    static_cast<uint8_t *>(rows.v.data)[9] ^= 1;
  }
  host.expect_refused(save(host, all), KVC_ERR_GONE, {"layer 2", "token 16"});
  EXPECT_EQ(disk.content("a"), "(absent)");
}

#ifdef KVC_FAULTS
/// Parts written, saved and restored, and a whole one of theirs.
struct SaveSteps {
  MemoryFiles disk;
  PartsHost host{disk};
  const std::vector<int32_t> tokens = ids(40);
  SeqHandle ranks[2], backs[3], all;
  std::vector<std::function<kvc_status()>> calls;

  kvc_status save(const kvc_seq *seq, const char *path) { return kvc_seq_save(seq, path, nullptr, &host.error); }
  kvc_status restore(SeqHandle &out, const Range &r, const char *path) {
    const auto o = PartsHost::options_of(r, 7);
    return kvc_seq_restore(out.out(), host.scope, path, &o, nullptr, &host.error);
  }
  SaveSteps() {
    for (int i = 0; i < 2; i++) ranks[i] = host.written(tp(static_cast<uint32_t>(i), 2), 7, 1, tokens);
    uint64_t length = 0;
    all = host.match(whole, tokens, &length);
    calls = {
        [&] { return save(ranks[0], "disk/a"); },
        [&] { return save(ranks[1], "disk/b"); },
        [&] { return save(all, "disk/c"); },
        [&] {
          for (SeqHandle *seq : {&ranks[0], &ranks[1], &all}) seq->reset();
          return kvc_scope_clear(nullptr, host.scope, nullptr, nullptr);
        },
        [&] { return restore(backs[0], tp(0, 2), "disk/a"); },
        [&] { return restore(backs[1], tp(1, 2), "disk/b"); },
        [&] { return restore(backs[2], whole, "disk/c"); },
        [&] { return host.append(backs[0], tp(0, 2), 1, ids(60), 40, 60); },
    };
  }
  std::string look() {
    std::string out;
    const kvc_store_info i = store_info(host.store);
    for (const uint64_t n : {i.memory_used, i.seq_count, i.chunk_count, host.scope_info().bytes_host, host.found(whole, tokens)}) out += std::to_string(n) + " ";
    for (const auto &[name, data] : disk.all()) out += name + std::to_string(std::hash<std::string>{}(data)) + " ";
    for (int b = 0; b < 3; b++)
      if (backs[b]) host.expect_rows(backs[b], b < 2 ? tp(static_cast<uint32_t>(b), 2) : whole, 0, b < 2 ? 40 : 32, 1);
    return out;
  }
};

TEST(PartsSaveFault, a_save_or_restore_that_fails_has_changed_nothing_and_succeeds_when_it_is_made_again) { expect_failures_to_change_nothing<SaveSteps>(); }
#endif

}  // namespace

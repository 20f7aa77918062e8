#include "../io/memory_files.h"
#include "parts_host.h"

/// Window rows and snapshots of parts in save files.
namespace {

using namespace kvc_test;

const std::vector<kvc_layer> mixed{full_layers(1, 8, 8, 6), {1, KVC_LAYER_WINDOW, 8, 8, 6, 0, 20, 0, 0, {0, 0, 0}}, {1, KVC_LAYER_WINDOW, 1, 8, 6, 0, 12, 0, 0, {0, 0, 0}},
                                   {1, KVC_LAYER_STATE, 8, 48, 10, 0, 0, 0, 0, {0, 0, 0}}, {1, KVC_LAYER_STATE, 1, 48, 10, 0, 0, 0, 0, {0, 0, 0}}};

struct HybridPartsSave : testing::Test {
  MemoryFiles disk;
  PartsHost host{disk, mixed}, there{disk, mixed};
  const std::vector<int32_t> tokens = ids(64);

  kvc_status save(PartsHost &from, const kvc_seq *seq, const char *path) { return kvc_seq_save(seq, path, nullptr, &from.error); }
  kvc_status restore(PartsHost &to, SeqHandle &out, const Range &r, const char *path) {
    const auto o = PartsHost::options_of(r, 7);
    return kvc_seq_restore(out.out(), to.scope, path, &o, nullptr, &to.error);
  }
};

TEST_F(HybridPartsSave, ranks_come_back_with_their_pieces_and_are_matched_as_one) {
  for (const auto &ranks : {std::vector<Range>{tp(0, 2), tp(1, 2)}, std::vector<Range>{{3, 2, 0, 0}, {0, 3, 0, 0}}, std::vector<Range>{tp(3, 4), tp(0, 4), tp(2, 4), tp(1, 4)}}) {
    std::vector<SeqHandle> seqs, backs(ranks.size());
    for (size_t i = 0; i < ranks.size(); i++) seqs.push_back(host.written(ranks[i], 7, 1, tokens));
    for (size_t i = 0; i < ranks.size(); i++) {
      ASSERT_EQ(save(host, seqs[i], "disk/a"), KVC_OK) << host.error.message;
      ASSERT_EQ(restore(there, backs[i], ranks[i], "disk/a"), KVC_OK) << there.error.message;
      there.expect_all(backs[i], ranks[i], 64, 1);
      ASSERT_EQ(save(there, backs[i], "disk/b"), KVC_OK) << there.error.message;
      EXPECT_TRUE(disk.content("b") == disk.content("a")) << "saved again it is another file";
    }
    uint64_t length = 0;
    SeqHandle all = there.match(whole, tokens, &length);
    ASSERT_EQ(length, 64u);
    there.expect_all(all, whole, 64, 1);
    EXPECT_EQ(kvc_store_verify(nullptr, there.store, nullptr, &there.error), KVC_OK) << there.error.message;
    all.reset(), seqs.clear(), backs.clear();
    ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, nullptr), KVC_OK);
    ASSERT_EQ(kvc_scope_clear(nullptr, there.scope, nullptr, nullptr), KVC_OK);
  }
}

TEST_F(HybridPartsSave, a_whole_sequence_of_their_pieces_is_a_whole_file) {
  SeqHandle left = host.written(tp(0, 2), 7, 1, tokens), right = host.written(tp(1, 2), 7, 1, tokens), back;
  uint64_t length = 0;
  SeqHandle all = host.match(whole, tokens, &length);
  ASSERT_EQ(length, 64u);
  ASSERT_EQ(save(host, all, "disk/a"), KVC_OK) << host.error.message;
  const SeqHandle plain = there.written(whole, 7, 1, tokens);
  ASSERT_EQ(save(there, plain, "disk/b"), KVC_OK) << there.error.message;
  EXPECT_TRUE(disk.content("a") == disk.content("b"));
  ASSERT_EQ(kvc_scope_clear(nullptr, there.scope, nullptr, nullptr), KVC_OK);
  ASSERT_EQ(restore(there, back, whole, "disk/a"), KVC_OK) << there.error.message;
  there.expect_all(back, whole, 64, 1);
  // And a part of what was written whole.
  const SeqHandle part = there.match(tp(1, 2), tokens, &length);
  ASSERT_EQ(length, 64u);
  ASSERT_EQ(save(there, part, "disk/c"), KVC_OK) << there.error.message;
  PartsHost last(disk, mixed);
  SeqHandle alone;
  ASSERT_EQ(restore(last, alone, tp(1, 2), "disk/c"), KVC_OK) << last.error.message;
  last.expect_all(alone, tp(1, 2), 64, 1);
}

}  // namespace

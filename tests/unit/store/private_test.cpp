#include "seam_store.h"

/// Private sequences: ids come before the rows they name, or never.
namespace {

using namespace kvc_test;

constexpr uint64_t kTokens = 96;  // three chunks of 32

struct PrivateTest : testing::Test {
  Host host{{full_layers(2, 1, 8, 8)}, KVC_F16, 32};
  std::vector<uint16_t> memory = std::vector<uint16_t>(2 * kTokens * 8, 7);

  /// Rows for tokens [begin, end) of some layers, with the next ids.
  kvc_status append(kvc_seq *seq, uint64_t id_count, uint64_t begin, uint64_t end, uint32_t layer = 0, uint32_t layers = 2) {
    auto rows = sized<kvc_rows>();
    rows.layer_begin = layer, rows.layer_count = layers;
    rows.token_begin = begin, rows.token_count = end - begin;
    rows.k.data = rows.v.data = memory.data();
    rows.k.bytes = rows.v.bytes = memory.size() * 2;
    rows.k.layer_stride = rows.v.layer_stride = kTokens * 16;
    return host.append(seq, ids(id_count), begin < end ? std::vector{rows} : std::vector<kvc_rows>{});
  }
  kvc_seq_info info(const kvc_seq *seq) {
    auto out = sized<kvc_seq_info>();
    EXPECT_EQ(kvc_seq_get_info(&out, seq, &host.error), KVC_OK) << host.error.message;
    return out;
  }
  /// Refused with a line that has these words; the sequence is as it was.
  void expect_late(kvc_seq *seq, kvc_status status, const kvc_seq_info &before, std::vector<std::string> words) {
    EXPECT_EQ(status, KVC_ERR_RANGE);
    for (const std::string &word : words) EXPECT_NE(host.error.text().find(word), std::string::npos) << word << ": " << host.error.message;
    const kvc_seq_info after = info(seq);
    EXPECT_EQ(after.tokens, before.tokens);
    EXPECT_EQ(after.tokens_given, before.tokens_given);
    EXPECT_EQ(after.tokens_sealed, before.tokens_sealed);
    EXPECT_EQ(after.bytes_host, before.bytes_host);
  }
};

TEST_F(PrivateTest, rows_without_ids_give_none_also_when_they_are_sealed) {
  SeqHandle seq = host.create(KVC_SEQ_PRIVATE);
  ASSERT_EQ(append(seq, 0, 0, 70), KVC_OK) << host.error.message;
  EXPECT_EQ(info(seq).tokens_given, 0u);
  EXPECT_EQ(info(seq).tokens_sealed, 64u);
}

TEST_F(PrivateTest, chunks_that_were_found_by_their_names_stay_shareable_and_those_behind_them_are_not) {
  SeqHandle named = host.create();
  ASSERT_EQ(append(named, 70, 0, 70), KVC_OK) << host.error.message;
  EXPECT_EQ(info(named).tokens_shareable, 70u);
  auto options = sized<kvc_seq_options>();
  options.flags = KVC_SEQ_PRIVATE;
  const auto prompt = ids(70);
  SeqHandle seq;
  ASSERT_EQ(kvc_match(seq.out(), nullptr, host.scope, prompt.data(), prompt.size(), &options, nullptr, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(info(seq).tokens_shareable, 64u);
  ASSERT_EQ(append(seq, 0, 64, 96), KVC_OK) << host.error.message;
  EXPECT_EQ(info(seq).tokens, 96u);
  EXPECT_EQ(info(seq).tokens_shareable, 64u);
}

TEST_F(PrivateTest, ids_that_end_in_a_sealed_chunk_stay_as_many_as_were_given) {
  SeqHandle seq = host.create(KVC_SEQ_PRIVATE);
  ASSERT_EQ(append(seq, 40, 0, 70), KVC_OK) << host.error.message;
  EXPECT_EQ(info(seq).tokens_sealed, 64u);
  EXPECT_EQ(info(seq).tokens_given, 40u);
  ASSERT_EQ(append(seq, 0, 70, 96), KVC_OK) << host.error.message;
  EXPECT_EQ(info(seq).tokens_given, 40u);
}

TEST_F(PrivateTest, ids_behind_rows_are_refused_and_change_nothing) {
  SeqHandle seq = host.create(KVC_SEQ_PRIVATE);
  ASSERT_EQ(append(seq, 40, 0, 70), KVC_OK) << host.error.message;
  const kvc_seq_info before = info(seq);
  expect_late(seq, append(seq, 5, 70, 71), before, {"5", "40", "70"});        // what a decode step would be
  expect_late(seq, append(seq, 56, 70, 96), before, {"56", "40", "70"});      // what would seal a chunk
  expect_late(seq, append(seq, 30, 0, 0), before, {"30", "40", "70"});        // ids alone
  EXPECT_EQ(append(seq, 0, 70, 96), KVC_OK) << host.error.message;            // rows go on
}

TEST_F(PrivateTest, rows_of_one_layer_are_enough_to_make_ids_late) {
  SeqHandle seq = host.create(KVC_SEQ_PRIVATE);
  ASSERT_EQ(append(seq, 10, 0, 10), KVC_OK) << host.error.message;
  ASSERT_EQ(append(seq, 2, 10, 12, 0, 1), KVC_OK) << host.error.message;
  ASSERT_EQ(append(seq, 0, 10, 12, 1, 1), KVC_OK) << host.error.message;
  ASSERT_EQ(append(seq, 0, 12, 13, 0, 1), KVC_OK) << host.error.message;
  expect_late(seq, append(seq, 1, 12, 13, 1, 1), info(seq), {"12", "13"});
}

TEST_F(PrivateTest, ids_may_run_ahead_of_rows_and_rows_then_of_ids) {
  SeqHandle seq = host.create(KVC_SEQ_PRIVATE);
  ASSERT_EQ(append(seq, 50, 0, 10), KVC_OK) << host.error.message;
  ASSERT_EQ(append(seq, 20, 10, 40), KVC_OK) << host.error.message;
  EXPECT_EQ(info(seq).tokens_given, 70u);
  ASSERT_EQ(append(seq, 0, 40, 96), KVC_OK) << host.error.message;
  EXPECT_EQ(info(seq).tokens_given, 70u);
}

TEST_F(PrivateTest, a_truncate_to_where_ids_end_lets_them_go_on) {
  SeqHandle seq = host.create(KVC_SEQ_PRIVATE);
  ASSERT_EQ(append(seq, 40, 0, 96), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_truncate(seq, 50, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(info(seq).tokens_given, 40u);
  expect_late(seq, append(seq, 1, 50, 51), info(seq), {"40", "50"});
  ASSERT_EQ(kvc_seq_truncate(seq, 36, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(info(seq).tokens_given, 36u);
  ASSERT_EQ(append(seq, 28, 36, 96), KVC_OK) << host.error.message;
  EXPECT_EQ(info(seq).tokens_given, 64u);
}

TEST_F(PrivateTest, a_fork_knows_as_many_ids_as_it_has_tokens_of_them) {
  SeqHandle seq = host.create(KVC_SEQ_PRIVATE), all, part, none;
  ASSERT_EQ(append(seq, 40, 0, 80), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_fork(all.out(), seq, KVC_ALL, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_fork(part.out(), seq, 64, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_fork(none.out(), seq, 32, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(info(all).tokens_given, 40u);
  EXPECT_EQ(info(part).tokens_given, 40u);
  EXPECT_EQ(info(none).tokens_given, 32u);
  expect_late(part, append(part, 1, 64, 65), info(part), {"40", "64"});
  EXPECT_EQ(append(none, 1, 32, 33), KVC_OK) << host.error.message;
}

TEST_F(PrivateTest, a_private_match_knows_the_ids_of_what_it_found) {
  SeqHandle shared = host.create(), seq;
  ASSERT_EQ(append(shared, 64, 0, 64), KVC_OK) << host.error.message;
  auto options = sized<kvc_seq_options>();
  options.flags = KVC_SEQ_PRIVATE;
  const std::vector<int32_t> prompt = ids(70);
  ASSERT_EQ(kvc_match(seq.out(), nullptr, host.scope, prompt.data(), prompt.size(), &options, nullptr, &host.error), KVC_OK);
  EXPECT_EQ(info(seq).tokens_given, 64u);
  ASSERT_EQ(append(seq, 3, 64, 70), KVC_OK) << host.error.message;
  EXPECT_EQ(info(seq).tokens_given, 67u);
  expect_late(seq, append(seq, 1, 70, 71), info(seq), {"67", "70"});
}

TEST(Private, rows_that_can_never_fit_are_full_before_room_is_made_to_count_their_chunks) {
  const StoreHandle store = open_with({.metadata_bytes_max = 16u << 20}, Host::options_of(1u << 20));
  const ScopeHandle scope = make_scope(store, "m", {full_layers(1, 1, 64, 64)}, KVC_F16, 16);
  ErrorText error;
  auto options = sized<kvc_seq_options>();
  options.flags = KVC_SEQ_PRIVATE;
  SeqHandle seq;
  ASSERT_EQ(kvc_seq_create(seq.out(), scope, &options, &error), KVC_OK) << error.message;
  std::vector<uint16_t> memory(64);
  auto rows = sized<kvc_rows>();
  rows.layer_count = 1, rows.token_count = 1ull << 36;  // 2^32 chunks
  rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = UINT64_MAX / 4;
  EXPECT_EQ(kvc_append(seq, nullptr, 0, &rows, 1, nullptr, &error), KVC_ERR_FULL);
  EXPECT_NE(error.text().find("4294967296 chunks"), std::string::npos) << error.message;
  rows.token_count = 1;
  EXPECT_EQ(kvc_append(seq, nullptr, 0, &rows, 1, nullptr, &error), KVC_OK) << error.message;
}

}  // namespace

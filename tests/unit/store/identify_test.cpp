#include "../api/host.h"

/// Identity beside the ids: what a truncate keeps and what the next kvc_seq_identify replaces.
namespace {

using namespace kvc_test;

constexpr uint64_t kTokens = 96;  // three chunks of 32

struct IdentifyTest : testing::Test {
  Host host{{full_layers(1, 1, 8, 8)}, KVC_F16, 32};
  std::vector<uint16_t> memory = std::vector<uint16_t>(kTokens * 8, 7);

  static kvc_extra image(uint64_t begin, const char *digest) { return {begin, 4, digest, std::strlen(digest)}; }
  /// Rows for tokens [begin, end), ids of a prompt that is always the same.
  void append(kvc_seq *seq, uint64_t begin, uint64_t end) {
    auto rows = sized<kvc_rows>();
    rows.layer_count = 1;
    rows.token_begin = rows.slot_begin = begin, rows.token_count = end - begin;
    rows.k.data = rows.v.data = memory.data();
    rows.k.bytes = rows.v.bytes = memory.size() * 2;
    const std::vector<int32_t> all = ids(kTokens);
    ASSERT_EQ(host.append(seq, {all.begin() + static_cast<int64_t>(begin), all.begin() + static_cast<int64_t>(end)}, {rows}), KVC_OK)
        << host.error.message;
  }
  kvc_status identify(kvc_seq *seq, std::vector<kvc_extra> extras) {
    return kvc_seq_identify(seq, extras.data(), extras.size(), &host.error);
  }
  /// How much of the prompt is held for a host that sees these images in it.
  uint64_t match(std::vector<kvc_extra> extras) {
    auto options = sized<kvc_seq_options>();
    options.extras = extras.data(), options.extra_count = extras.size();
    auto info = sized<kvc_match_info>();
    SeqHandle seq;
    const std::vector<int32_t> all = ids(kTokens);
    EXPECT_EQ(kvc_match(seq.out(), &info, host.scope, all.data(), all.size(), &options, nullptr, &host.error), KVC_OK)
        << host.error.message;
    return info.tokens;
  }
};

TEST_F(IdentifyTest, the_same_prompt_appended_again_after_a_truncate_keeps_its_name) {
  SeqHandle seq = host.create();
  ASSERT_EQ(identify(seq, {image(40, "cat"), image(70, "dog")}), KVC_OK) << host.error.message;
  append(seq, 0, 64);
  ASSERT_EQ(kvc_seq_truncate(seq, 35, &host.error), KVC_OK) << host.error.message;
  append(seq, 35, 96);
  EXPECT_EQ(match({image(40, "cat"), image(70, "dog")}), 96u);
  EXPECT_EQ(match({}), 32u);
}

TEST_F(IdentifyTest, the_first_identify_after_a_truncate_replaces_what_was_cut_off) {
  SeqHandle seq = host.create();
  ASSERT_EQ(identify(seq, {image(4, "sun"), image(40, "cat"), image(50, "dog"), image(70, "cow")}), KVC_OK) << host.error.message;
  append(seq, 0, 64);
  ASSERT_EQ(kvc_seq_truncate(seq, 38, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(identify(seq, {image(42, "fox")}), KVC_OK) << host.error.message;  // overlaps cat, which is dropped, as are dog and cow
  append(seq, 38, 96);
  EXPECT_EQ(match({image(4, "sun"), image(42, "fox")}), 96u);
  EXPECT_EQ(match({image(4, "sun"), image(40, "cat"), image(50, "dog"), image(70, "cow")}), 64u);  // what was sealed first is still there
}

TEST_F(IdentifyTest, a_second_identify_adds_and_an_overlap_is_refused_and_changes_nothing) {
  SeqHandle seq = host.create();
  ASSERT_EQ(identify(seq, {image(40, "cat")}), KVC_OK);
  append(seq, 0, 64);
  ASSERT_EQ(kvc_seq_truncate(seq, 32, &host.error), KVC_OK);
  ASSERT_EQ(identify(seq, {image(40, "fox")}), KVC_OK) << host.error.message;
  ASSERT_EQ(identify(seq, {image(50, "owl")}), KVC_OK) << host.error.message;
  EXPECT_EQ(identify(seq, {image(34, "hen"), image(52, "bee")}), KVC_ERR_RANGE);
  EXPECT_NE(host.error.text().find("overlap"), std::string::npos) << host.error.message;
  append(seq, 32, 96);
  EXPECT_EQ(match({image(40, "fox"), image(50, "owl")}), 96u);
}

TEST_F(IdentifyTest, an_identify_that_fails_after_a_truncate_drops_nothing) {
  SeqHandle seq = host.create();
  ASSERT_EQ(identify(seq, {image(40, "cat")}), KVC_OK);
  append(seq, 0, 64);
  ASSERT_EQ(kvc_seq_truncate(seq, 32, &host.error), KVC_OK);
  EXPECT_EQ(identify(seq, {image(44, "fox"), image(45, "owl")}), KVC_ERR_ARGUMENT);  // overlap each other
  EXPECT_EQ(identify(seq, {image(31, "fox")}), KVC_ERR_RANGE);                       // sealed
  EXPECT_NE(host.error.text().find("token 31"), std::string::npos) << host.error.message;
  append(seq, 32, 64);
  EXPECT_EQ(match({image(40, "cat")}), 64u);
}

TEST_F(IdentifyTest, an_image_that_reaches_over_the_cut_stays) {
  SeqHandle seq = host.create();
  ASSERT_EQ(identify(seq, {image(36, "cat")}), KVC_OK);
  append(seq, 0, 64);
  ASSERT_EQ(kvc_seq_truncate(seq, 38, &host.error), KVC_OK);
  EXPECT_EQ(identify(seq, {image(38, "fox")}), KVC_ERR_RANGE);  // 36..40 is half kept
  ASSERT_EQ(identify(seq, {image(40, "fox")}), KVC_OK) << host.error.message;
  append(seq, 38, 96);
  EXPECT_EQ(match({image(36, "cat"), image(40, "fox")}), 96u);
}

TEST_F(IdentifyTest, a_fork_remembers_where_it_was_cut) {
  SeqHandle seq = host.create(), fork;
  ASSERT_EQ(identify(seq, {image(40, "cat")}), KVC_OK);
  append(seq, 0, 64);
  ASSERT_EQ(kvc_seq_fork(fork.out(), seq, 34, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(identify(fork, {image(41, "fox")}), KVC_OK) << host.error.message;
  append(fork, 34, 64);
  EXPECT_EQ(match({image(41, "fox")}), 64u);
  EXPECT_EQ(match({image(40, "cat")}), 64u);
  EXPECT_EQ(identify(seq, {image(41, "fox")}), KVC_ERR_RANGE);  // the first one was not cut
}

TEST_F(IdentifyTest, a_fork_of_all_of_a_sequence_that_was_cut_is_cut_there_too) {
  SeqHandle seq = host.create(), fork;
  ASSERT_EQ(identify(seq, {image(40, "cat")}), KVC_OK);
  append(seq, 0, 64);
  ASSERT_EQ(kvc_seq_truncate(seq, 34, &host.error), KVC_OK);
  ASSERT_EQ(kvc_seq_fork(fork.out(), seq, KVC_ALL, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(identify(fork, {image(41, "fox")}), KVC_OK) << host.error.message;
}

TEST_F(IdentifyTest, what_is_sealed_again_keeps_its_images_when_later_ones_are_named) {
  SeqHandle seq = host.create();
  ASSERT_EQ(identify(seq, {image(40, "cat"), image(70, "dog")}), KVC_OK);
  append(seq, 0, 64);
  ASSERT_EQ(kvc_seq_truncate(seq, 35, &host.error), KVC_OK);
  append(seq, 35, 64);
  ASSERT_EQ(identify(seq, {image(72, "cow")}), KVC_OK) << host.error.message;  // in place of dog; cat is in a sealed chunk
  ASSERT_EQ(kvc_seq_truncate(seq, 35, &host.error), KVC_OK);
  append(seq, 35, 96);
  EXPECT_EQ(match({image(40, "cat"), image(72, "cow")}), 96u);
}

TEST_F(IdentifyTest, rows_taken_from_a_held_chunk_keep_the_name_they_were_taken_under) {
  SeqHandle first = host.create(), second = host.create();
  append(first, 0, 32);
  const std::vector<int32_t> all = ids(kTokens);
  ASSERT_EQ(host.append(second, {all.begin(), all.begin() + 32}, {}), KVC_OK);  // ids of the whole chunk: its rows are held
  auto rows = sized<kvc_rows>();
  rows.layer_count = 1, rows.token_count = 10;
  rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = memory.size() * 2;
  ASSERT_EQ(host.append(second, {}, {rows}), KVC_OK) << host.error.message;
  EXPECT_EQ(identify(second, {image(9, "cat")}), KVC_ERR_RANGE);
  EXPECT_EQ(identify(second, {image(10, "cat")}), KVC_OK) << host.error.message;
  rows.token_begin = rows.slot_begin = 10, rows.token_count = 22;
  ASSERT_EQ(host.append(second, {}, {rows}), KVC_OK) << host.error.message;
  EXPECT_EQ(match({image(10, "cat")}), 32u);
  EXPECT_EQ(match({}), 32u);
}

}  // namespace

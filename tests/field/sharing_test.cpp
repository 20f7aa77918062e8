// What several hosts read of one prefix: right rows of every promised token, and nobody's work but their own changes it.
#include "base/fault.h"
#include "field_host.h"

namespace kvc::field {
namespace {

TEST(FieldReports, B11_of_appends_that_fail_nothing_is_found_and_all_that_is_found_is_right) {
#ifdef KVC_FAULTS
  FieldHost host(32u << 20);
  constexpr int32_t kSequences = 200;
  constexpr uint64_t kChunks = 5;
  std::vector<uint64_t> acknowledged(kSequences);
  uint64_t failed = 0, injected = 0;
  for (int32_t i = 0; i < kSequences; i++) {
    const std::vector<int32_t> tokens = ids(kChunks * kChunk, i);
    const SeqHandle seq = host.create();
    for (uint64_t c = 0; c < kChunks; c++) {
      const bool fails = host.random() % 20 == 0;
      injected += fails;
      if (fails) {
        ASSERT_TRUE(base::fault_arm("store.append.reserved", 1, 1));
      }
      const std::vector<int32_t> part(tokens.begin() + static_cast<int64_t>(c * kChunk), tokens.begin() + static_cast<int64_t>((c + 1) * kChunk));
      const kvc_status status = host.append(seq, part, c * kChunk, (c + 1) * kChunk, static_cast<uint64_t>(i));
      base::fault_disarm_all();
      EXPECT_EQ(status != KVC_OK, fails) << host.error.message;
      failed += status != KVC_OK;
      if (status != KVC_OK) break;  // the host gives up; a later chunk would have no name
      acknowledged[static_cast<size_t>(i)] = (c + 1) * kChunk;
    }
  }
  EXPECT_EQ(failed, injected);
  EXPECT_GT(failed, 20u);
  for (int32_t i = 0; i < kSequences; i++) {
    uint64_t length = 0;
    const SeqHandle seq = host.match(ids(kChunks * kChunk, i), &length);
    ASSERT_EQ(length, acknowledged[static_cast<size_t>(i)]) << i;
    ASSERT_EQ(host.read(seq, 0, length, static_cast<uint64_t>(i)), "") << i;
  }
#else
  GTEST_SKIP() << "no fault points in this build";
#endif
}

/// A sequence on one of the ways in which rows come to be read, and who wrote which of its tokens.
struct Way {
  const char *name;
  std::function<SeqHandle(FieldHost &, Writers &)> make;
};

std::vector<Way> ways() {
  const auto all_of = [](uint64_t writer) { return [=](uint64_t) { return writer; }; };
  const auto two = [](uint64_t border) { return [=](uint64_t token) { return token < border ? uint64_t{1} : uint64_t{2}; }; };
  const auto tail = [](uint64_t from) {
    const std::vector<int32_t> other = ids(100, 9);
    return std::vector<int32_t>(other.begin() + static_cast<int64_t>(from), other.end());
  };
  return {
      {"as written", [=](FieldHost &host, Writers &w) { return w = all_of(1), host.stored(ids(100), 1); }},
      {"matched", [=](FieldHost &host, Writers &w) { return w = all_of(1), host.stored(ids(100), 1).reset(), host.match(ids(100)); }},
      {"adopted", [=](FieldHost &host, Writers &w) { return w = two(96), host.stored(ids(100), 1).reset(), host.stored(ids(100), 2); }},
      {"forked", [=](FieldHost &host, Writers &w) {
         w = all_of(1);
         const SeqHandle from = host.stored(ids(100), 1);
         SeqHandle out;
         EXPECT_EQ(kvc_seq_fork(out.out(), from, 90, &host.error), KVC_OK) << host.error.message;
         return out;
       }},
      {"cut in a chunk and gone on", [=](FieldHost &host, Writers &w) {
         w = two(39);
         SeqHandle seq = host.stored(ids(100), 1);
         EXPECT_EQ(kvc_seq_truncate(seq, 39, &host.error), KVC_OK) << host.error.message;
         EXPECT_EQ(host.append(seq, tail(39), 39, 100, 2), KVC_OK) << host.error.message;
         return seq;
       }},
      {"private", [=](FieldHost &host, Writers &w) {
         w = all_of(1);
         SeqHandle seq = host.create(KVC_SEQ_PRIVATE);
         EXPECT_EQ(host.append(seq, {}, 0, 77, 1), KVC_OK) << host.error.message;
         return seq;
       }},
  };
}

TEST(FieldReports, B13_every_token_that_is_promised_is_written_and_nothing_beside_on_every_way) {
  for (const uint32_t flags : {uint32_t{0}, uint32_t{KVC_OPEN_VERIFY_READS}, uint32_t{KVC_OPEN_ZERO}})
    for (const Way &way : ways()) {
      FieldHost host(8u << 20, flags);
      Writers writers;
      const SeqHandle seq = way.make(host, writers);
      const uint64_t tokens = host.info_of(seq).tokens;
      ASSERT_GT(tokens, 70u) << way.name;
      for (int round = 0; round < 20; round++) {  // layouts are drawn
        const uint64_t begin = host.random() % tokens, count = 1 + host.random() % (tokens - begin);
        ASSERT_EQ(host.read(seq, begin, count, writers), "") << way.name << ", flags " << flags << ", tokens from " << begin << ", " << count;
      }
      ASSERT_EQ(host.read(seq, 0, tokens, writers), "") << way.name << ", flags " << flags;
    }
}

TEST(FieldReports, B13_a_gather_of_mebibytes_writes_every_token_too) {
  constexpr uint64_t kTokens = 2048;
  constexpr uint32_t kDim = 256;
  Host host({full_layers(2, 2, kDim, kDim)}, KVC_F16, 0, 64u << 20);
  std::vector<uint16_t> from(2 * kTokens * 2 * kDim), to(from.size() + 64);
  for (size_t i = 0; i < from.size(); i++) from[i] = static_cast<uint16_t>(stamp(1, true, 0, i, 0, 0));
  auto rows = sized<kvc_rows>();
  rows.layer_count = 2, rows.token_count = kTokens;
  rows.k.data = from.data(), rows.k.bytes = from.size() * 2, rows.k.layer_stride = kTokens * 2 * kDim * 2;
  rows.v = rows.k;
  const SeqHandle seq = host.create();
  ASSERT_EQ(host.append(seq, ids(kTokens), {rows}), KVC_OK) << host.error.message;
  rows.v.data = nullptr;
  for (const size_t offset : {0, 1, 32}) {
    std::fill(to.begin(), to.end(), uint16_t{0xA5A5});
    rows.k.data = to.data() + offset;
    ASSERT_EQ(host.gather(seq, {rows}), KVC_OK) << host.error.message;
    EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin() + static_cast<int64_t>(offset))) << offset;
    for (size_t i = 0; i < offset; i++) EXPECT_EQ(to[i], 0xA5A5);
    for (size_t i = offset + from.size(); i < to.size(); i++) EXPECT_EQ(to[i], 0xA5A5);
  }
}

TEST(FieldReports, B17_a_full_hit_cut_by_one_token_and_appended_again_is_as_long_and_as_right_as_a_cold_run) {
  FieldHost host;
  const std::vector<int32_t> tokens = ids(64);
  const SeqHandle cold = host.stored(tokens, 1);
  uint64_t length = 0;
  const SeqHandle seq = host.match(tokens, &length);
  ASSERT_EQ(length, 64u);
  ASSERT_EQ(kvc_seq_truncate(seq, 63, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(host.info_of(seq).tokens, 63u);
  ASSERT_EQ(host.append(seq, {tokens[63]}, 63, 64, 1), KVC_OK) << host.error.message;
  EXPECT_EQ(host.info_of(seq).tokens, 64u);
  EXPECT_EQ(host.info_of(seq).tokens_given, 64u);
  EXPECT_EQ(host.read(seq, 0, 64, 1), "");
  EXPECT_EQ(host.append(seq, {tokens[63]}, 63, 64, 1), KVC_ERR_RANGE) << "the last token twice";
  // Another token in its place is one's own.
  ASSERT_EQ(kvc_seq_truncate(seq, 63, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append(seq, {-5}, 63, 64, 2), KVC_OK) << host.error.message;
  EXPECT_EQ(host.read(seq, 0, 64, [](uint64_t token) { return token < 63 ? 1 : 2; }), "");
  EXPECT_EQ(host.read(cold, 0, 64, 1), "");
}

TEST(FieldReports, B18_readers_that_go_on_from_one_prefix_leave_it_as_it_is) {
  FieldHost host;
  const std::vector<int32_t> prefix = ids(64);
  host.stored(prefix, 1);
  const auto go_on = [&](const SeqHandle &seq, int32_t salt) {
    const std::vector<int32_t> more = ids(100, salt);
    ASSERT_EQ(host.append(seq, more, 64, 164, static_cast<uint64_t>(salt)), KVC_OK) << host.error.message;
  };
  uint64_t length = 0;
  const SeqHandle first = host.match(prefix, &length), second = host.match(prefix, &length);
  go_on(first, 2);
  EXPECT_EQ(host.info_of(second).tokens, 64u);
  go_on(second, 3);
  std::vector<int32_t> longer = prefix;
  longer.push_back(7);
  const SeqHandle later = host.match(longer, &length);
  EXPECT_EQ(length, 64u) << "the stored prefix grew";
  EXPECT_EQ(host.read(later, 0, 64, 1), "");
  for (const auto &[seq, writer] : {std::pair(&first, uint64_t{2}), {&second, uint64_t{3}}})
    EXPECT_EQ(host.read(*seq, 0, 164, [=](uint64_t token) { return token < 64 ? 1 : writer; }), "");
  // Also when one of them writes into the last shared chunk.
  ASSERT_EQ(kvc_seq_truncate(first, 60, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append(first, {1, 2, 3, 4, 5}, 60, 65, 4), KVC_OK) << host.error.message;
  EXPECT_EQ(host.read(later, 0, 64, 1), "");
  EXPECT_EQ(host.read(second, 0, 64, 1), "");
  EXPECT_EQ(host.read(first, 0, 65, [](uint64_t token) { return token < 60 ? 1 : 4; }), "");
}

TEST(FieldReports, B19_forks_and_cuts_move_sealed_and_open_rows_together) {
  FieldHost host;
  const SeqHandle seq = host.stored(ids(230), 1);  // 14 chunks and 6 open rows
  SeqHandle fork, part;
  ASSERT_EQ(kvc_seq_fork(fork.out(), seq, KVC_ALL, &host.error), KVC_OK);
  ASSERT_EQ(kvc_seq_fork(part.out(), seq, 226, &host.error), KVC_OK);
  ASSERT_EQ(kvc_seq_truncate(fork, 150, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(host.info_of(fork).tokens, 150u);
  EXPECT_EQ(host.info_of(part).tokens, 226u);
  ASSERT_EQ(host.append(fork, ids(80, 5), 150, 230, 2), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append(part, {1, 2}, 226, 228, 3), KVC_OK) << host.error.message;
  EXPECT_EQ(host.read(fork, 0, 230, [](uint64_t token) { return token < 150 ? 1 : 2; }), "");
  EXPECT_EQ(host.read(part, 0, 228, [](uint64_t token) { return token < 226 ? 1 : 3; }), "");
  EXPECT_EQ(host.read(seq, 0, 230, 1), "");
}

}  // namespace
}  // namespace kvc::field

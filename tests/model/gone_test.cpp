// A bit that flips in memory: the page that holds it is never read as right again, and what is built on it goes on without it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "../unit/api/host.h"

namespace {

using namespace kvc_test;

constexpr uint32_t kDim = 64, kTokens = 16, kChunks = 4;
constexpr uint64_t kMemory = 22 << 20;

/// One layer, one head: the rows of chunk c of writer w are easily told from all others.
using Rows = std::vector<uint32_t>;
Rows rows_of(uint32_t writer, uint32_t begin, uint32_t end) {
  Rows rows((end - begin) * kDim);
  for (uint32_t i = 0; i < rows.size(); i++) rows[i] = writer << 20 | (begin * kDim + i);
  return rows;
}

/// Flips a bit in the pattern wherever it lies in a mapping of the arena's size; false when it is nowhere.
bool flip_bit(const void *pattern, size_t bytes) {
  const int memory = open("/proc/self/mem", O_RDWR);
  std::ifstream maps("/proc/self/maps");
  std::vector<std::pair<uint64_t, uint64_t>> large;
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin, end;
    char access[5];
    if (sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) != 3 || std::strcmp(access, "rw-p") != 0) continue;
    if (end - begin == kMemory) large.push_back({begin, end});
  }
  bool done = false;
  std::vector<char> copy;
  for (const auto &[begin, end] : large) {
    copy.resize(end - begin);
    if (pread(memory, copy.data(), copy.size(), static_cast<off_t>(begin)) != static_cast<ssize_t>(copy.size())) continue;
    for (const char *at = copy.data(); (at = static_cast<const char *>(memmem(at, static_cast<size_t>(copy.data() + copy.size() - at), pattern, bytes)));) {
      at += bytes - 1;
      const char byte = static_cast<char>(*at ^ 1);
      done = pwrite(memory, &byte, 1, static_cast<off_t>(begin + static_cast<uint64_t>(at - copy.data()))) == 1 || done;
    }
  }
  close(memory);
  return done;
}

class Gone : public testing::Test {
 protected:
  void open(uint32_t flags, uint32_t layers = 1) {
    kvc_store_options options = Host::options_of(kMemory, flags);
    options.lease_ms = KVC_FOREVER;
    host_.emplace(options, std::vector{full_layers(layers, 1, kDim, kDim)}, KVC_F32, kTokens);
  }

  static kvc_rows run(Rows &rows, uint32_t begin) {
    kvc_rows r;
    KVC_INIT(&r);
    r.layer_count = 1;
    r.token_begin = begin;
    r.token_count = rows.size() / kDim;
    r.k.data = r.v.data = rows.data();
    r.k.bytes = r.v.bytes = rows.size() * sizeof(uint32_t);
    return r;
  }
  kvc_status append(kvc_seq *seq, uint32_t writer, uint32_t begin, uint32_t end) {
    Rows rows = rows_of(writer, begin, end);
    const kvc_rows r = run(rows, begin);
    return kvc_append(seq, ids_.data() + begin, end - begin, &r, 1, nullptr, &host_->error);
  }
  kvc_seq *match(uint64_t *tokens, uint64_t count = UINT64_MAX) {
    kvc_match_info info;
    KVC_INIT(&info);
    kvc_seq *seq = nullptr;
    EXPECT_EQ(kvc_match(&seq, &info, host_->scope, ids_.data(), std::min<uint64_t>(count, ids_.size()), nullptr, nullptr, &host_->error), KVC_OK) << host_->error.message;
    *tokens = info.tokens;
    return seq;
  }
  /// Whose tokens [begin, end) are; 0: not all one writer's; none: gone.
  std::optional<uint32_t> read(kvc_seq *seq, uint32_t begin, uint32_t end) {
    Rows rows((end - begin) * kDim);
    kvc_rows r = run(rows, begin);
    r.v.data = nullptr;
    const kvc_status status = kvc_gather(nullptr, seq, &r, 1, nullptr, &host_->error);
    if (status == KVC_ERR_GONE) return std::nullopt;
    EXPECT_EQ(status, KVC_OK) << host_->error.message;
    const uint32_t writer = rows[0] >> 20;
    return rows == rows_of(writer, begin, end) ? writer : 0;
  }
  void flip(uint32_t writer, uint32_t chunk) {
    const Rows rows = rows_of(writer, chunk * kTokens + 3, chunk * kTokens + 5);
    ASSERT_TRUE(flip_bit(rows.data(), rows.size() * sizeof(uint32_t))) << "the page was not found in memory";
  }
  kvc_verify_info verify(kvc_status expected) {
    kvc_verify_info info;
    KVC_INIT(&info);
    EXPECT_EQ(kvc_store_verify(&info, host_->store, nullptr, &host_->error), expected) << host_->error.message;
    return info;
  }
  /// Everything that nobody holds.
  void evict_all() {
    std::vector<uint8_t> value(kMemory / 8, 1);
    kvc_bytes part{value.data(), value.size()};
    for (int i = 0; i < 20; i++) {
      const std::string key = "fill" + std::to_string(i);
      kvc_object object{};
      object.key = key.data(), object.key_size = key.size(), object.parts = &part, object.part_count = 1;
      ASSERT_EQ(kvc_object_put(nullptr, host_->scope, &object, 1, nullptr, nullptr, &host_->error), KVC_OK) << host_->error.message;
    }
  }
  kvc_seq *sequence_of(uint32_t writer) {
    kvc_seq *seq = nullptr;
    EXPECT_EQ(kvc_seq_create(&seq, host_->scope, nullptr, &host_->error), KVC_OK);
    EXPECT_EQ(append(seq, writer, 0, kTokens * kChunks), KVC_OK) << host_->error.message;
    return seq;
  }

  std::optional<Host> host_;
  const std::vector<int32_t> ids_ = ids(kTokens * kChunks);
};

TEST_F(Gone, WithVerifiedReadsAFlippedBitIsAMissAndTheRowsBeforeItAreRight) {
  open(KVC_OPEN_VERIFY_READS);
  kvc_seq *seq = sequence_of(1);
  ASSERT_EQ(read(seq, 0, kTokens * kChunks), 1u);
  flip(1, 2);
  Rows rows(kTokens * kChunks * kDim);
  const kvc_rows r = [&] {
    kvc_rows all = run(rows, 0);
    all.v.data = nullptr;
    return all;
  }();
  kvc_result result;
  KVC_INIT(&result);
  EXPECT_EQ(kvc_gather(&result, seq, &r, 1, nullptr, &host_->error), KVC_ERR_GONE);
  EXPECT_EQ(result.done, 2u * kTokens);
  rows.resize(2 * kTokens * kDim);
  EXPECT_EQ(rows, rows_of(1, 0, 2 * kTokens));
  kvc_metrics metrics;
  KVC_INIT(&metrics);
  ASSERT_EQ(kvc_metrics_read(&metrics, host_->store, &host_->error), KVC_OK);
  EXPECT_EQ(metrics.checksum_failures, 1u);
  uint64_t tokens;
  match(&tokens);
  EXPECT_EQ(tokens, 2u * kTokens);
  verify(KVC_OK);
}

TEST_F(Gone, AVerifyFindsTheBitDropsThePageAndTheNextOneFindsNothing) {
  open(0);
  kvc_seq *seq = sequence_of(1);
  flip(1, 0);
  const kvc_verify_info info = verify(KVC_ERR_CORRUPT);
  EXPECT_EQ(info.pages_read, kChunks);
  EXPECT_EQ(info.pages_bad, 1u);
  EXPECT_NE(std::string(info.first_bad), "");
  EXPECT_EQ(read(seq, 0, kTokens), std::nullopt);
  EXPECT_EQ(read(seq, kTokens, kTokens * kChunks), 1u) << "the others are right";
  uint64_t tokens;
  match(&tokens);
  EXPECT_EQ(tokens, 0u);
  verify(KVC_OK);
}

TEST_F(Gone, AVerifyReadsAllPagesOfABadChunkAndCountsTheBadOnesAmongThem) {
  constexpr uint32_t kLayers = 3;
  open(0, kLayers);
  std::vector<Rows> rows;
  std::vector<kvc_rows> runs;
  for (uint32_t l = 0; l < kLayers; l++) rows.push_back(rows_of(l + 1, 0, kTokens * kChunks));
  for (uint32_t l = 0; l < kLayers; l++) {
    runs.push_back(run(rows[l], 0));
    runs[l].layer_begin = l;
  }
  kvc_seq *seq = nullptr;
  ASSERT_EQ(kvc_seq_create(&seq, host_->scope, nullptr, &host_->error), KVC_OK);
  ASSERT_EQ(host_->append(seq, ids_, runs), KVC_OK) << host_->error.message;
  flip(1, 1);
  flip(3, 1);
  flip(2, 3);
  const kvc_verify_info info = verify(KVC_ERR_CORRUPT);
  EXPECT_EQ(info.pages_read, kChunks * kLayers);
  EXPECT_EQ(info.pages_bad, 3u);
  EXPECT_EQ(info.bytes_read, kLayers * kChunks * kTokens * kDim * 2 * sizeof(uint32_t));
  EXPECT_NE(host_->error.text().find("3 of 12 pages"), std::string::npos) << host_->error.message;
  EXPECT_EQ(verify(KVC_OK).pages_read, (kChunks - 2) * kLayers) << "chunks are dropped whole";
}

// The chunks behind the bad one are held under their names: who appends the prefix again must not lean on them.
TEST_F(Gone, APrefixThatIsAppendedAgainIsHeldByWhoAppendedIt) {
  open(0);
  kvc_seq *old = sequence_of(1);
  flip(1, 0);
  verify(KVC_ERR_CORRUPT);
  kvc_seq *again = sequence_of(2);
  ASSERT_EQ(read(again, 0, kTokens), 2u);
  evict_all();
  for (uint32_t c = 0; c < kChunks; c++) EXPECT_EQ(read(again, c * kTokens, (c + 1) * kTokens), 2u) << "chunk " << c << " of a sequence whose lease is in force";
  uint64_t tokens;
  kvc_seq *found = match(&tokens);
  EXPECT_EQ(tokens, kTokens * kChunks);
  EXPECT_EQ(read(found, 0, kTokens * kChunks), 2u);
  EXPECT_EQ(kvc_seq_release(old, &host_->error), KVC_OK);
  EXPECT_EQ(kvc_seq_release(again, &host_->error), KVC_OK);
  evict_all();
  EXPECT_EQ(read(found, 0, kTokens * kChunks), 2u);
  verify(KVC_OK);
}

TEST_F(Gone, WhoGoesOnBehindABadChunkKeepsHisRowsAndNobodyFindsThem) {
  open(0);
  uint64_t tokens;
  kvc_seq *seq = nullptr;
  ASSERT_EQ(kvc_seq_create(&seq, host_->scope, nullptr, &host_->error), KVC_OK);
  ASSERT_EQ(append(seq, 1, 0, 2 * kTokens), KVC_OK);
  flip(1, 0);
  verify(KVC_ERR_CORRUPT);
  ASSERT_EQ(append(seq, 1, 2 * kTokens, 3 * kTokens), KVC_OK) << host_->error.message;
  EXPECT_EQ(read(seq, kTokens, 3 * kTokens), 1u);
  match(&tokens);
  EXPECT_EQ(tokens, 0u);
  kvc_seq *again = sequence_of(2);
  EXPECT_EQ(read(again, 0, kTokens * kChunks), 2u);
  evict_all();
  EXPECT_EQ(read(seq, 2 * kTokens, 3 * kTokens), 1u);
  EXPECT_EQ(read(again, 0, kTokens * kChunks), 2u);
}

TEST_F(Gone, RowsOfABadChunkThatWasCutAreNeverCopiedOn) {
  for (const bool verified : {false, true}) {
    open(verified ? static_cast<uint32_t>(KVC_OPEN_VERIFY_READS) : 0);
    kvc_seq *seq = sequence_of(1);
    ASSERT_EQ(kvc_seq_truncate(seq, kTokens + 8, &host_->error), KVC_OK);
    ASSERT_EQ(read(seq, kTokens, kTokens + 8), 1u);
    flip(1, 1);
    if (!verified) verify(KVC_ERR_CORRUPT);
    EXPECT_EQ(append(seq, 3, kTokens + 8, kTokens + 10), KVC_ERR_GONE) << host_->error.message;
    EXPECT_EQ(read(seq, kTokens, kTokens + 8), std::nullopt);
    ASSERT_EQ(kvc_seq_truncate(seq, kTokens, &host_->error), KVC_OK);
    ASSERT_EQ(append(seq, 3, kTokens, 2 * kTokens), KVC_OK) << host_->error.message;
    EXPECT_EQ(read(seq, kTokens, 2 * kTokens), 3u);
    EXPECT_EQ(read(seq, 0, kTokens), 1u);
  }
}

TEST_F(Gone, AnObjectWithAFlippedBitIsAMiss) {
  open(KVC_OPEN_VERIFY_READS);
  Rows value = rows_of(9, 0, 64);
  kvc_bytes part{value.data(), value.size() * sizeof(uint32_t)};
  kvc_object object{};
  object.key = "key", object.key_size = 3, object.parts = &part, object.part_count = 1;
  ASSERT_EQ(kvc_object_put(nullptr, host_->scope, &object, 1, nullptr, nullptr, &host_->error), KVC_OK);
  ASSERT_EQ(kvc_object_get(nullptr, host_->scope, &object, 1, nullptr, nullptr, &host_->error), KVC_OK);
  flip(9, 1);
  EXPECT_EQ(kvc_object_get(nullptr, host_->scope, &object, 1, nullptr, nullptr, &host_->error), KVC_ERR_GONE);
  EXPECT_EQ(kvc_object_get(nullptr, host_->scope, &object, 1, nullptr, nullptr, &host_->error), KVC_ERR_NOT_FOUND);
  verify(KVC_OK);
}

}  // namespace

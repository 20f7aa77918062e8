#include <cstdlib>
#include <optional>

#include "../api/host.h"

/// What a refused append says of room: the numbers are those of before the call, and add up.
namespace {

using namespace kvc_test;

constexpr uint64_t kChunk = 64, kDim = 512, kMemory = 2 << 20;  // a chunk takes about 129 KiB

struct FullTest : testing::Test {
  std::optional<Host> host;
  std::vector<uint16_t> memory = std::vector<uint16_t>(40 * kChunk * kDim, 5);

  void open(uint64_t open_bytes_max) {
    kvc_store_options options = Host::options_of(kMemory);
    options.open_bytes_max = open_bytes_max, options.lease_ms = KVC_FOREVER;
    host.emplace(options, std::vector{full_layers(1, 1, kDim, kDim)}, KVC_F16, kChunk);
  }
  kvc_status append(kvc_seq *seq, uint64_t begin, uint64_t end, int32_t salt = 0) {
    auto rows = sized<kvc_rows>();
    rows.layer_count = 1, rows.token_begin = begin, rows.token_count = end - begin;
    rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = memory.size() * 2;
    const auto all = ids(end, salt);
    return kvc_append(seq, all.data() + begin, end - begin, &rows, 1, nullptr, &host->error);
  }
  kvc_store_info info() {
    auto out = sized<kvc_store_info>();
    EXPECT_EQ(kvc_store_get_info(&out, host->store, nullptr), KVC_OK);
    return out;
  }
  /// The numbers of a message, in order.
  std::vector<uint64_t> numbers() const {
    std::vector<uint64_t> found;
    for (const char *at = host->error.message; *at;) {
      char *end = const_cast<char *>(at) + 1;
      if (*at >= '0' && *at <= '9') found.push_back(std::strtoull(at, &end, 10));
      at = end;
    }
    return found;
  }
};

TEST_F(FullTest, an_append_without_room_says_what_others_hold_and_what_all_of_it_needs) {
  open(kMemory);
  SeqHandle held = host->create(), seq = host->create();
  ASSERT_EQ(append(held, 0, 10 * kChunk), KVC_OK) << host->error.message;
  const uint64_t used = info().memory_used, slot_bytes = used / 10;
  ASSERT_EQ(append(seq, 0, 8 * kChunk - 5, 1), KVC_ERR_FULL);
  ASSERT_GT(8 * slot_bytes + used, kMemory);
  EXPECT_EQ(info().memory_used, used);
  const auto said = numbers();
  ASSERT_EQ(said.size(), 6u) << host->error.message;
  EXPECT_EQ(said[0], 8u) << host->error.message;
  EXPECT_EQ(said[1], slot_bytes) << host->error.message;
  EXPECT_EQ(said[2], used) << host->error.message;
  EXPECT_EQ(said[3], kMemory) << host->error.message;
  EXPECT_EQ(said[4], (kMemory - used) / slot_bytes) << host->error.message;
  EXPECT_EQ(said[5], (kMemory - used) % slot_bytes) << host->error.message;
}

TEST_F(FullTest, an_append_that_could_never_fit_evicts_nothing) {
  open(kMemory);
  SeqHandle seq = host->create();
  ASSERT_EQ(append(seq, 0, 4 * kChunk), KVC_OK) << host->error.message;
  seq = host->create();
  ASSERT_EQ(append(seq, 0, 40 * kChunk, 1), KVC_ERR_FULL);
  const auto said = numbers();
  ASSERT_EQ(said.size(), 3u) << host->error.message;
  EXPECT_EQ(said[0], 40u) << host->error.message;
  EXPECT_EQ(said[2], kMemory) << host->error.message;
  EXPECT_EQ(info().chunk_count, 4u);
  EXPECT_EQ(host->error.retry, static_cast<uint32_t>(KVC_RETRY_NEVER));
  EXPECT_NE(host->error.text().find("open the store with more memory_bytes"), std::string::npos) << host->error.message;
  auto metrics = sized<kvc_metrics>();
  ASSERT_EQ(kvc_metrics_read(&metrics, host->store, &host->error), KVC_OK);
  EXPECT_EQ(metrics.evicted_chunks, 0u);
}

TEST_F(FullTest, chunks_that_the_call_itself_seals_are_not_among_those_that_stay_open) {
  open(150 << 10);  // one
  SeqHandle seq = host->create(), other = host->create();
  ASSERT_EQ(append(seq, 0, 10), KVC_OK) << host->error.message;
  const uint64_t slot_bytes = info().memory_used;
  ASSERT_EQ(append(seq, 10, kChunk + 10), KVC_OK) << host->error.message;  // seals the first, opens the next
  ASSERT_EQ(append(other, 0, 10, 1), KVC_ERR_FULL);
  EXPECT_EQ(numbers(), (std::vector<uint64_t>{slot_bytes, slot_bytes, 150 << 10})) << host->error.message;
  EXPECT_NE(host->error.text().find("open_bytes_max"), std::string::npos) << host->error.message;
  ASSERT_EQ(append(seq, kChunk + 10, 2 * kChunk), KVC_OK) << host->error.message;
  EXPECT_EQ(append(other, 0, 10, 1), KVC_OK) << host->error.message;
}

TEST_F(FullTest, what_one_sequence_alone_cannot_hold_open_is_never_worth_another_try) {
  kvc_store_options options = Host::options_of(kMemory);
  options.open_bytes_max = 600 << 10;  // two, of two layers
  host.emplace(options, std::vector{full_layers(2, 1, kDim, kDim)}, KVC_F16, kChunk);
  auto rows = sized<kvc_rows>();
  rows.layer_count = 1, rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = memory.size() * 2;
  const auto all = ids(4 * kChunk);
  const auto first_layer = [&](kvc_seq *seq, uint64_t begin, uint64_t chunks) {
    rows.token_begin = begin, rows.token_count = chunks * kChunk;
    return kvc_append(seq, all.data() + begin, chunks * kChunk, &rows, 1, nullptr, &host->error);
  };
  SeqHandle other = host->create(), seq = host->create();
  ASSERT_EQ(first_layer(other, 0, 1), KVC_OK) << host->error.message;
  ASSERT_EQ(first_layer(seq, 0, 2), KVC_ERR_FULL);
  EXPECT_EQ(host->error.retry, static_cast<uint32_t>(KVC_RETRY_LATER)) << host->error.message;  // once the other is gone
  other.reset();
  EXPECT_EQ(first_layer(seq, 0, 3), KVC_ERR_FULL);
  EXPECT_EQ(host->error.retry, static_cast<uint32_t>(KVC_RETRY_NEVER)) << host->error.message;
  EXPECT_NE(host->error.text().find("raise it, or append all layers in one call"), std::string::npos) << host->error.message;
  ASSERT_EQ(first_layer(seq, 0, 2), KVC_OK) << host->error.message;
  EXPECT_EQ(first_layer(seq, 2 * kChunk, 1), KVC_ERR_FULL);
  EXPECT_EQ(host->error.retry, static_cast<uint32_t>(KVC_RETRY_NEVER)) << host->error.message;
}

TEST_F(FullTest, an_append_whose_window_rows_and_chunks_together_never_fit_is_not_worth_another_try) {
  const uint64_t tokens = 16 * kChunk;  // 16 x 129 KiB, twice
  const std::vector<kvc_layer> layers{full_layers(1, 1, kDim, kDim), {1, KVC_LAYER_WINDOW, 1, kDim, kDim, 0, kChunk, 0, 0, {0, 0, 0}}};
  kvc_store_options options = Host::options_of(4 << 20);
  host.emplace(options, layers, KVC_F16, kChunk);
  const auto all = ids(tokens);
  std::vector<uint16_t> rows_of(tokens * kDim, 1);
  const auto run = [&](uint32_t layer, uint64_t begin) {
    auto rows = sized<kvc_rows>();
    rows.layer_begin = layer, rows.layer_count = 1, rows.token_begin = begin, rows.token_count = tokens - begin;
    rows.k.data = rows.v.data = rows_of.data(), rows.k.bytes = rows.v.bytes = rows_of.size() * 2;
    return rows;
  };
  SeqHandle seq = host->create();
  EXPECT_EQ(host->append(seq, all, {run(0, 0), run(1, 0)}), KVC_ERR_FULL);
  EXPECT_EQ(host->error.retry, static_cast<uint32_t>(KVC_RETRY_NEVER)) << host->error.message;
  for (const char *word : {"window rows and snapshots", "memory_bytes", "leave out"}) EXPECT_NE(host->error.text().find(word), std::string::npos) << host->error.message;
  EXPECT_EQ(host->append(seq, all, {run(0, 0), run(1, tokens - kChunk)}), KVC_OK) << "without what no query sees: " << host->error.message;
}

TEST_F(FullTest, one_call_of_all_layers_is_not_told_to_be_one) {
  kvc_store_options options = Host::options_of(kMemory);
  options.open_bytes_max = 200 << 10;  // less than a chunk of two layers
  host.emplace(options, std::vector{full_layers(2, 1, kDim, kDim)}, KVC_F16, kChunk);
  std::vector<uint16_t> two(2 * kChunk * kDim, 1);
  auto rows = sized<kvc_rows>();
  rows.layer_count = 2, rows.token_count = kChunk - 1, rows.k.data = rows.v.data = two.data(), rows.k.bytes = rows.v.bytes = two.size() * 2;
  rows.k.layer_stride = rows.v.layer_stride = kChunk * kDim * 2;
  SeqHandle seq = host->create();
  EXPECT_EQ(host->append(seq, ids(kChunk - 1), {rows}), KVC_ERR_FULL) << host->error.message;
  EXPECT_EQ(host->error.retry, static_cast<uint32_t>(KVC_RETRY_NEVER)) << host->error.message;
  EXPECT_EQ(host->error.text().find("append all layers in one call"), std::string::npos) << host->error.message;
}

TEST_F(FullTest, more_sequences_than_seq_max_are_refused_with_the_way_out) {
  kvc_store_options options = Host::options_of(kMemory);
  options.seq_max = 1;
  host.emplace(options, std::vector{full_layers(1, 1, kDim, kDim)}, KVC_F16, kChunk);
  SeqHandle one = host->create(), more;
  EXPECT_EQ(kvc_seq_create(more.out(), host->scope, nullptr, &host->error), KVC_ERR_FULL);
  EXPECT_EQ(host->error.text(), "1 sequences are open: release some or raise seq_max");
  EXPECT_EQ(kvc_match(more.out(), nullptr, host->scope, nullptr, 0, nullptr, nullptr, &host->error), KVC_ERR_FULL);
  EXPECT_EQ(host->error.text(), "1 sequences are open: release some or raise seq_max");
  EXPECT_EQ(host->error.retry, static_cast<uint32_t>(KVC_RETRY_LATER));
}

TEST_F(FullTest, open_rows_of_a_fork_that_are_copied_count_as_open) {
  open(150 << 10);  // one
  SeqHandle seq = host->create(), fork;
  ASSERT_EQ(append(seq, 0, 10), KVC_OK) << host->error.message;
  ASSERT_EQ(kvc_seq_fork(fork.out(), seq, KVC_ALL, &host->error), KVC_OK) << host->error.message;
  EXPECT_EQ(append(fork, 10, 11), KVC_ERR_FULL);
  seq.reset();
  EXPECT_EQ(append(fork, 10, 11), KVC_OK) << host->error.message;
}

}  // namespace

#include "../api/host.h"

/// Chunks that are held under their names are adopted by whoever appends them: no slot is taken, no row copied, the first writer's are read.
namespace {

using namespace kvc_test;

constexpr uint64_t kChunk = 32, kTokens = 4 * kChunk, kDim = 8;
constexpr uint32_t kLayers = 2;

struct AdoptTest : testing::Test {
  Host host{{full_layers(kLayers, 1, kDim, kDim)}, KVC_F16, kChunk};
  std::vector<int32_t> prompt = ids(kTokens);

  static kvc_rows rows_in(std::vector<uint16_t> &memory, uint64_t begin, uint64_t end, uint32_t layer, uint32_t layers) {
    auto rows = sized<kvc_rows>();
    rows.layer_begin = layer, rows.layer_count = layers;
    rows.token_begin = begin, rows.token_count = end - begin;
    rows.k.data = rows.v.data = memory.data();
    rows.k.bytes = rows.v.bytes = memory.size() * 2;
    rows.k.layer_stride = rows.v.layer_stride = kTokens * kDim * 2;
    return rows;
  }
  kvc_status give(kvc_seq *seq, uint16_t writer, uint64_t begin, uint64_t end, uint32_t layer = 0, uint32_t layers = kLayers) {
    std::vector<uint16_t> memory(kLayers * kTokens * kDim, writer);
    return host.append(seq, {}, {rows_in(memory, begin, end, layer, layers)});
  }
  /// Who wrote these rows of a layer; 0: not all one writer's.
  uint16_t writer(const kvc_seq *seq, uint64_t begin, uint64_t end, uint32_t layer = 0) {
    std::vector<uint16_t> memory(kLayers * kTokens * kDim);
    auto rows = rows_in(memory, begin, end, layer, 1);
    rows.v.data = nullptr;
    EXPECT_EQ(host.gather(seq, {rows}), KVC_OK) << host.error.message;
    for (uint64_t i = 0; i < (end - begin) * kDim; i++)
      if (memory[i] != memory[0]) return 0;
    return memory[0];
  }
  SeqHandle create_with_ids(uint64_t count) {
    SeqHandle seq = host.create();
    EXPECT_EQ(host.append(seq, {prompt.begin(), prompt.begin() + static_cast<int64_t>(count)}, {}), KVC_OK) << host.error.message;
    return seq;
  }
  uint64_t slots() {
    auto info = sized<kvc_store_info>();
    EXPECT_EQ(kvc_store_get_info(&info, host.store, &host.error), KVC_OK);
    if (!slot_bytes) slot_bytes = info.memory_used;
    EXPECT_EQ(info.memory_used % slot_bytes, 0u);
    return info.memory_used / slot_bytes;
  }
  uint64_t slot_bytes = 0;  // of a chunk, once slots() was asked for with one in use
};

TEST_F(AdoptTest, a_chunk_behind_an_own_one_that_is_partly_filled_takes_no_slot) {
  SeqHandle late = create_with_ids(kTokens), first = create_with_ids(kTokens);
  ASSERT_EQ(give(late, 1, 0, 10), KVC_OK);
  ASSERT_EQ(slots(), 1u);
  ASSERT_EQ(give(first, 2, 0, kTokens), KVC_OK);
  ASSERT_EQ(slots(), 5u);
  ASSERT_EQ(give(late, 1, 10, 3 * kChunk + 7), KVC_OK) << host.error.message;
  EXPECT_EQ(slots(), 4u);
  EXPECT_EQ(writer(late, 0, 3 * kChunk + 7), 2u);
  first.reset();
  EXPECT_EQ(writer(late, 0, 3 * kChunk + 7), 2u);
  EXPECT_EQ(give(late, 1, 3 * kChunk + 7, kTokens), KVC_OK);
  EXPECT_EQ(slots(), 4u);
}

TEST_F(AdoptTest, layers_that_were_ahead_are_given_up_with_the_chunks_of_the_first_writer) {
  SeqHandle late = create_with_ids(kTokens), first = create_with_ids(kTokens);
  ASSERT_EQ(give(late, 1, 0, 10), KVC_OK);
  ASSERT_EQ(slots(), 1u);
  ASSERT_EQ(give(late, 1, 10, kTokens, 0, 1), KVC_OK);
  ASSERT_EQ(slots(), 4u);
  EXPECT_EQ(writer(late, 0, kTokens), 1u);
  ASSERT_EQ(give(first, 2, 0, kTokens), KVC_OK);
  ASSERT_EQ(slots(), 8u);
  ASSERT_EQ(give(late, 1, 10, 40, 1, 1), KVC_OK);
  EXPECT_EQ(slots(), 6u) << "the chunks behind the call are ours still";
  EXPECT_EQ(writer(late, 0, 2 * kChunk), 2u);
  EXPECT_EQ(writer(late, 2 * kChunk, kTokens), 1u);
}

TEST_F(AdoptTest, only_what_follows_the_last_adopted_chunk_is_ours) {
  SeqHandle late = create_with_ids(kTokens), first = create_with_ids(kTokens);
  ASSERT_EQ(give(late, 1, 0, 10), KVC_OK);
  ASSERT_EQ(slots(), 1u);
  ASSERT_EQ(give(first, 2, 0, 2 * kChunk), KVC_OK);
  ASSERT_EQ(give(late, 1, 10, kTokens), KVC_OK) << host.error.message;
  EXPECT_EQ(slots(), 4u);
  EXPECT_EQ(writer(late, 0, 2 * kChunk), 2u);
  EXPECT_EQ(writer(late, 2 * kChunk, kTokens), 1u);
  ASSERT_EQ(give(first, 3, 2 * kChunk, kTokens), KVC_OK);
  EXPECT_EQ(writer(first, 2 * kChunk, kTokens), 1u);
  EXPECT_EQ(slots(), 4u);
}

TEST_F(AdoptTest, a_cut_chunk_that_goes_on_as_one_that_is_held_is_not_copied) {
  SeqHandle first = create_with_ids(kTokens), other = host.create();
  ASSERT_EQ(give(first, 2, 0, kChunk), KVC_OK);
  ASSERT_EQ(slots(), 1u);
  std::vector<int32_t> ids_of_other(prompt.begin(), prompt.begin() + kChunk);
  ids_of_other.back() += 1;
  ASSERT_EQ(host.append(other, ids_of_other, {}), KVC_OK);
  ASSERT_EQ(give(other, 3, 0, kChunk), KVC_OK);
  ASSERT_EQ(kvc_seq_truncate(other, kChunk - 1, &host.error), KVC_OK);
  ASSERT_EQ(host.append(other, {prompt[kChunk - 1]}, {}), KVC_OK);
  ASSERT_EQ(give(other, 4, kChunk - 1, kChunk, 0, 1), KVC_OK) << host.error.message;
  EXPECT_EQ(slots(), 2u);
  EXPECT_EQ(writer(other, 0, kChunk), 2u);
}

TEST_F(AdoptTest, a_fork_keeps_the_open_rows_that_its_origin_gave_up) {
  SeqHandle late = create_with_ids(kTokens), first = create_with_ids(kTokens), fork;
  ASSERT_EQ(give(late, 1, 0, 10), KVC_OK);
  ASSERT_EQ(slots(), 1u);
  ASSERT_EQ(kvc_seq_fork(fork.out(), late, KVC_ALL, &host.error), KVC_OK);
  ASSERT_EQ(give(first, 2, 0, kTokens), KVC_OK);
  ASSERT_EQ(give(late, 1, 10, 40), KVC_OK) << host.error.message;
  EXPECT_EQ(slots(), 5u);
  EXPECT_EQ(writer(late, 0, 40), 2u);
  EXPECT_EQ(writer(fork, 0, 10), 1u);
  EXPECT_EQ(give(fork, 1, 10, 40), KVC_OK) << host.error.message;
  EXPECT_EQ(slots(), 4u);
}

}  // namespace

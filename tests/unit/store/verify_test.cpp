#include <cinttypes>
#include <cstdio>

#include "../api/host.h"

/// Checks of pages that are right, and of ids that are not.
namespace {

using namespace kvc_test;

/// Changes the ids of a sealed chunk where the store keeps them: behind their count, in memory that has no other owner to ask.
[[gnu::no_sanitize("address", "thread")]] int damage_ids(const std::vector<int32_t> &tokens, uint64_t arena_bytes) {
  std::FILE *maps = std::fopen("/proc/self/maps", "r");
  int damaged = 0;
  char line[512];
  while (maps && std::fgets(line, sizeof line, maps)) {
    uintptr_t begin, end;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " rw", &begin, &end) != 2 || !std::strstr(line, " rw") || std::strchr(line, '[')) continue;
    if (end - begin < arena_bytes || end - begin > 64 * arena_bytes) continue;
    for (auto *at = reinterpret_cast<int32_t *>(begin); at + tokens.size() < reinterpret_cast<int32_t *>(end); at++) {
      if (at[0] != static_cast<int32_t>(tokens.size())) continue;
      size_t same = 0;
      while (same < tokens.size() && at[1 + same] == tokens[same]) same++;
      if (same == tokens.size()) at[4]++, damaged++;
    }
  }
  if (maps) std::fclose(maps);
  return damaged;
}

TEST(Verify, ids_that_do_not_make_the_name_of_their_chunk_are_not_taken_up_by_a_truncate) {
  constexpr uint64_t memory_bytes = 4u << 20;
  Host host({full_layers(1, 1, 64, 64)}, KVC_F16, 64, memory_bytes);
  std::vector<uint16_t> memory(128 * 64);
  const std::vector<int32_t> prompt = ids(128);
  auto rows = sized<kvc_rows>();
  rows.layer_count = 1, rows.token_count = 128;
  rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = memory.size() * 2;
  SeqHandle seq = host.create(), fork;
  ASSERT_EQ(host.append(seq, prompt, {rows}), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_fork(fork.out(), seq, 100, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(damage_ids({prompt.begin() + 64, prompt.end()}, memory_bytes), 1);
  EXPECT_EQ(kvc_seq_truncate(seq, 100, &host.error), KVC_ERR_GONE);
  auto metrics = sized<kvc_metrics>();
  ASSERT_EQ(kvc_metrics_read(&metrics, host.store, &host.error), KVC_OK);
  EXPECT_EQ(metrics.checksum_failures, 1u);
  uint64_t length = 0;
  host.match(prompt, &length);
  EXPECT_EQ(length, 64u);
  ASSERT_EQ(kvc_seq_truncate(seq, 64, &host.error), KVC_OK) << host.error.message;
  rows.token_begin = rows.token_count = rows.slot_begin = 64;
  EXPECT_EQ(host.append(seq, {prompt.begin() + 64, prompt.end()}, {rows}), KVC_OK) << host.error.message;
  host.match(prompt, &length);
  EXPECT_EQ(length, 128u);
}

TEST(Verify, pages_whose_sides_are_no_multiples_of_64_bytes_are_right) {
  constexpr uint32_t tokens = 16, k_dim = 5, v_dim = 3;
  Host host({full_layers(2, 1, k_dim, v_dim)}, KVC_F16, tokens, 1 << 20, KVC_OPEN_VERIFY_READS);
  std::vector<uint16_t> memory(2 * tokens * k_dim), out(memory.size());
  for (size_t i = 0; i < memory.size(); i++) memory[i] = static_cast<uint16_t>(i * 31 + 1);
  auto rows = sized<kvc_rows>();
  rows.layer_count = 2, rows.token_count = tokens;
  rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = memory.size() * 2;
  rows.k.layer_stride = rows.v.layer_stride = tokens * k_dim * 2;
  SeqHandle seq = host.create();
  ASSERT_EQ(host.append(seq, ids(tokens), {rows}), KVC_OK) << host.error.message;
  rows.k.data = out.data(), rows.v.data = nullptr;
  EXPECT_EQ(host.gather(seq, {rows}), KVC_OK) << host.error.message;
  EXPECT_EQ(out, memory);
  auto info = sized<kvc_verify_info>();
  EXPECT_EQ(kvc_store_verify(&info, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(info.pages_read, 2u);
  EXPECT_EQ(info.bytes_read, 2u * tokens * (k_dim + v_dim) * 2);
}

}  // namespace

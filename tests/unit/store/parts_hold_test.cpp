#include "parts_host.h"

/// What holds chunks that came in parts, and when they go: always with all of their slices.
namespace {

using namespace kvc_test;

kvc_layer latent_layer(uint32_t k_dim, uint32_t rope_dim) { return {1, KVC_LAYER_LATENT, 1, k_dim, 0, rope_dim, 0, 0, 0, {0, 0, 0}}; }

TEST(PartsHold, a_rank_that_is_late_completes_what_a_released_one_left_within_its_lease) {
  PartsHost host;
  const auto tokens = ids(48);
  host.written(tp(0, 2), 1, 1, tokens).reset();
  host.clock.advance_ms(900);
  EXPECT_EQ(host.found(tp(0, 2), tokens), 48u);
  SeqHandle late = host.written(tp(1, 2), 1, 1, tokens);
  EXPECT_EQ(host.found(whole, tokens), 48u);
  host.clock.advance_ms(10000);
  EXPECT_EQ(store_info(host.store).memory_pinned, 0u);
  uint64_t length = 0;
  SeqHandle seq = host.match(whole, tokens, &length);
  ASSERT_EQ(length, 48u);
  host.expect_rows(seq, whole, 0, 48, 1);
}

TEST(PartsHold, slices_whose_sisters_have_not_come_when_the_lease_lapses_are_dropped) {
  for (const bool released : {false, true}) {
    PartsHost host;
    const auto tokens = ids(48);
    SeqHandle first = host.written(tp(0, 2), 1, 1, tokens), other = host.create(tp(1, 2), 1);
    ASSERT_EQ(host.append(other, tp(1, 2), 1, tokens, 0, 20), KVC_OK) << host.error.message;
    if (released) first.reset();
    EXPECT_EQ(host.found(tp(0, 2), tokens), 48u);
    host.clock.advance_ms(1001);
    (void)store_info(host.store);  // looks for what lapsed
    EXPECT_EQ(host.found(tp(0, 2), tokens), 16u) << "what both wrote stays";
    EXPECT_EQ(host.found(whole, tokens), 16u);
    EXPECT_EQ(host.scope_info().chunk_count, 1u);
    if (!released) {
      EXPECT_EQ(host.info(first).tokens_held, 16u);
      auto list = host.rows_of(tp(0, 2), 0, 48);
      auto rows = PartsHost::runs_of(list);
      auto result = sized<kvc_result>();
      EXPECT_EQ(kvc_gather(&result, first, rows.data(), rows.size(), nullptr, &host.error), KVC_ERR_GONE);
      EXPECT_EQ(result.done, 16u);
      ASSERT_EQ(kvc_seq_truncate(first, 16, &host.error), KVC_OK) << host.error.message;
      ASSERT_EQ(host.append(first, tp(0, 2), 1, tokens, 16, 48), KVC_OK) << host.error.message;
      host.expect_rows(first, tp(0, 2), 0, 48, 1);
    }
  }
}

TEST(PartsHold, a_slice_whose_sisters_never_come_keeps_an_engine_that_starts_again_from_nothing) {
  for (const bool matches : {false, true}) {
    PartsHost host;
    const auto tokens = ids(48);
    host.written(tp(0, 2), 1, 1, tokens).reset();  // and its engine is gone
    SeqHandle early = host.written(tp(0, 2), 2, 2, tokens);
    host.expect_rows(early, tp(0, 2), 0, 48, 2);
    EXPECT_EQ(host.info(early).tokens_shareable, 0u) << "the other's sisters may still come";
    host.clock.advance_ms(1001);  // nobody looks for room meanwhile
    EXPECT_EQ(matches ? host.found(tp(0, 2), tokens) : 0, 0u);
    SeqHandle first = host.written(tp(0, 2), 3, 3, tokens), second = host.written(tp(1, 2), 3, 3, tokens);
    EXPECT_EQ(host.info(second).tokens_shareable, 48u);
    uint64_t length = 0;
    const SeqHandle all = host.match(whole, tokens, &length);
    ASSERT_EQ(length, 48u);
    host.expect_rows(all, whole, 0, 48, 3);
  }
}

TEST(PartsHold, a_prompt_that_a_rank_pinned_keeps_its_name_when_a_whole_model_brings_all_of_it) {
  for (const bool pinned : {true, false}) {
    PartsHost host;
    const auto tokens = ids(48);
    SeqHandle rank = host.written(tp(0, 2), 1, 1, tokens);
    LeaseHandle lease;
    ASSERT_EQ(kvc_seq_lease(lease.out(), rank, 0, KVC_ALL, KVC_FOREVER, nullptr, &host.error), KVC_OK) << host.error.message;
    if (!pinned) lease.reset();
    const SeqHandle all = host.written(whole, 0, 2, {tokens.begin(), tokens.begin() + 16});
    host.expect_rows(all, whole, 0, 16, 2);
    EXPECT_EQ(host.found(tp(0, 2), tokens), pinned ? 48u : 16u);
  }
}

TEST(PartsHold, a_part_without_a_write_id_waits_for_nobody_and_stays_as_any_chunk) {
  PartsHost host;
  const auto tokens = ids(32);
  host.written(pp(0), 0, 1, tokens).reset();
  host.clock.advance_ms(100000);
  EXPECT_EQ(store_info(host.store).memory_pinned, 0u);
  uint64_t length = 0;
  SeqHandle seq = host.match(pp(0), tokens, &length);
  ASSERT_EQ(length, 32u);
  host.expect_rows(seq, pp(0), 0, 32, 1);
  EXPECT_EQ(host.found(whole, tokens), 0u);
}

TEST(PartsHold, what_waits_gives_way_before_a_store_is_full) {
  PartsHost host({full_layers(4, PartsHost::heads, PartsHost::k_dim, PartsHost::v_dim)}, 256u << 10);
  for (int32_t i = 0; i < 100; i++) {
    SeqHandle seq = host.create(tp(0, 2), 1);
    ASSERT_EQ(host.append(seq, tp(0, 2), 1, ids(32, i), 0, 32), KVC_OK) << i << ": " << host.error.message;
  }
}

TEST(PartsHold, slices_of_a_chunk_are_evicted_together) {
  PartsHost host({full_layers(4, PartsHost::heads, PartsHost::k_dim, PartsHost::v_dim)}, 1u << 20);
  std::vector<std::vector<int32_t>> prompts;
  for (int32_t p = 0; p < 6; p++) {
    prompts.push_back(ids(64, p));
    for (uint32_t r = 0; r < 4; r++) host.written(tp(r, 4), 1, 1, prompts.back());
  }
  for (int round = 0; round < 40; round++) {
    host.pressure(1);
    for (const auto &prompt : prompts) {
      const uint64_t all = host.found(whole, prompt);
      for (uint32_t r = 0; r < 4; r++) ASSERT_EQ(host.found(tp(r, 4), prompt), all);
    }
  }
  EXPECT_EQ(host.found(whole, prompts[0]), 0u) << "nothing was evicted: no test";
  const uint64_t before = store_info(host.store).memory_used;
  auto result = sized<kvc_result>();
  ASSERT_EQ(kvc_scope_clear(&result, host.scope, nullptr, &host.error), KVC_OK);
  EXPECT_EQ(result.bytes, before);
  EXPECT_EQ(store_info(host.store).memory_used, 0u);
  EXPECT_EQ(host.scope_info().bytes_host, 0u);
}

TEST(PartsHold, a_lease_holds_all_slices_and_counts_them_as_pinned) {
  PartsHost host({full_layers(4, PartsHost::heads, PartsHost::k_dim, PartsHost::v_dim)}, 1u << 20);
  const auto tokens = ids(48);
  LeaseHandle lease;
  {
    SeqHandle left = host.written(tp(0, 2), 1, 1, tokens), right = host.written(tp(1, 2), 1, 1, tokens);
    ASSERT_EQ(kvc_seq_lease(lease.out(), left, 0, 32, KVC_FOREVER, nullptr, &host.error), KVC_OK) << host.error.message;
  }
  const kvc_store_info info = store_info(host.store);
  EXPECT_EQ(info.memory_pinned, info.memory_used / 3 * 2);
  host.pressure(60);
  EXPECT_EQ(host.found(whole, tokens), 32u);
  uint64_t length = 0;
  SeqHandle seq = host.match(whole, tokens, &length);
  host.expect_rows(seq, whole, 0, length, 1);
}

TEST(PartsHold, layers_that_every_rank_brings_are_stored_once) {
  // One latent layer between two that heads split.
  const kvc_layer split = full_layers(1, PartsHost::heads, 8, 6);
  const std::vector<kvc_layer> layers{split, latent_layer(512, 64), split};
  uint64_t alone_bytes = 0;
  for (const bool shared : {false, true}) {
    PartsHost host(layers);
    const auto tokens = ids(32);
    std::vector<SeqHandle> ranks;
    for (uint32_t r = 0; r < 4; r++) {
      ranks.push_back(host.written(tp(r, 4), 3, 1, tokens));
      host.expect_rows(ranks.back(), tp(r, 4), 0, 32, 1);
      if (!shared) break;
    }
    if (!shared) {
      alone_bytes = host.scope_info().bytes_host;
      continue;
    }
    // Three more slices: of 32 tokens, 2 heads of two layers, with headers, ids and what rounding adds; the latent row alone is 36 KiB.
    const uint64_t latent_bytes = 2 * 16 * (512 + 64) * 2;
    EXPECT_LT(host.scope_info().bytes_host, alone_bytes + 3 * latent_bytes / 2);
    uint64_t length = 0;
    SeqHandle seq = host.match(whole, tokens, &length);
    ASSERT_EQ(length, 32u);
    host.expect_rows(seq, whole, 0, 32, 1);
    EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
  }
}

TEST(PartsHold, ranks_of_a_model_of_latent_layers_have_equal_parts) {
  PartsHost host({latent_layer(24, 8), latent_layer(24, 8)});
  const auto tokens = ids(48);
  SeqHandle first = host.written(whole, 3, 1, tokens);
  const uint64_t bytes = host.scope_info().bytes_host;
  for (uint32_t r = 1; r < 4; r++) {
    SeqHandle rank = host.written({0, 0, r, 1}, 3, 1, tokens);
    host.expect_rows(rank, whole, 0, 48, 1);
  }
  EXPECT_EQ(host.scope_info().bytes_host, bytes);
}

TEST(PartsHold, quotas_count_every_slice) {
  PartsHost host;
  const auto tokens = ids(32);
  SeqHandle left = host.written(tp(0, 2), 1, 1, tokens);
  const uint64_t one = host.scope_info().bytes_host;
  EXPECT_EQ(one, store_info(host.store).memory_used);
  SeqHandle right = host.written(tp(1, 2), 1, 1, tokens);
  EXPECT_EQ(host.scope_info().bytes_host, 2 * one);
  EXPECT_EQ(store_info(host.store).memory_used, 2 * one);
}

}  // namespace

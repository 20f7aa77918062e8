// What is held and what goes: leases, eviction, room.
#include <atomic>
#include <set>
#include <thread>

#include "field_host.h"

namespace kvc::field {
namespace {

TEST(FieldReports, B40_with_a_lease_a_gather_gives_what_the_match_promised_while_all_else_is_evicted) {
  FieldHost host(4u << 20);
  constexpr int kPrompts = 8;
  constexpr uint64_t kTokens = 64;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> misses{0}, hits{0};
  std::atomic<int> wrong{0};
  const auto reader = [&](int number) {
    model::Random random(static_cast<uint64_t>(number));
    const auto &geometry = host.geometry;
    for (int i = 0; i < 150; i++) {
      const auto prompt = static_cast<int32_t>(random() % kPrompts);
      const std::vector<int32_t> tokens = ids(kTokens, prompt);
      auto info = sized<kvc_match_info>();
      auto options = sized<kvc_seq_options>();
      options.lease_ms = KVC_FOREVER;
      kvc_seq *raw = nullptr;
      if (kvc_match(&raw, &info, host.scope, tokens.data(), kTokens, &options, nullptr, nullptr) != KVC_OK) {
        wrong++;
        return;
      }
      const SeqHandle seq(raw);
      (info.tokens == kTokens ? hits : misses)++;
      std::this_thread::yield();
      for (uint32_t l = 0; l < geometry.layers.size(); l++) {
        const uint64_t end = info.tokens;
        if (end) {
          Block to(geometry, {l, 1, 0, geometry.layers[l].heads}, end, random);
          kvc_rows rows = to.rows();
          rows.token_count = end;
          const auto stamps = [&](uint32_t layer, uint64_t row) { return model::stamp_of(static_cast<uint64_t>(prompt), layer, row); };
          if (kvc_gather(nullptr, seq, &rows, 1, nullptr, nullptr) != KVC_OK || !to.mismatch(stamps, end).empty()) wrong++;
        }
        // What was missing is appended behind what was found.
        if (end < kTokens) {
          Block from(geometry, {l, 1, 0, geometry.layers[l].heads}, kTokens - end, random);
          from.fill([&](uint32_t layer, uint64_t row) { return model::stamp_of(static_cast<uint64_t>(prompt), layer, end + row); });
          kvc_rows rows = from.rows();
          rows.token_begin = end, rows.token_count = kTokens - end;
          if (kvc_append(seq, tokens.data() + end, l ? 0 : kTokens - end, &rows, 1, nullptr, nullptr) != KVC_OK) wrong++;
        }
      }
    }
  };
  std::thread evictor([&] {
    const std::string value(200u << 10, 'e');
    for (int i = 0; !stop; i++) {
      const std::string key = std::to_string(i);
      kvc_bytes part{const_cast<char *>(value.data()), value.size()};
      kvc_object object{};
      object.key = key.data(), object.key_size = key.size(), object.parts = &part, object.part_count = 1;
      const kvc_status status = kvc_object_put(nullptr, host.scope, &object, 1, nullptr, nullptr, nullptr);
      if (status != KVC_OK && status != KVC_ERR_FULL) wrong++;
    }
  });
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; i++) readers.emplace_back(reader, i);
  for (std::thread &thread : readers) thread.join();
  stop = true;
  evictor.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(hits, 0u);
  EXPECT_GT(misses, 0u) << "nothing was ever evicted";
}

TEST(FieldReports, B40_without_a_lease_a_gather_gives_a_shorter_length_and_never_a_mix) {
  FieldHost host(2u << 20);
  const std::vector<int32_t> tokens = ids(96);
  host.stored(tokens, 1);
  uint64_t length = 0;
  const SeqHandle seq = host.match(tokens, &length);
  ASSERT_EQ(length, 96u);
  host.clock.advance_ms(1001);
  host.press();
  const auto to = host.blocks(96);
  std::vector<kvc_rows> rows;
  for (const auto &block : to) rows.push_back(block->rows()), rows.back().token_count = 96;
  auto result = sized<kvc_result>();
  ASSERT_EQ(kvc_gather(&result, seq, rows.data(), rows.size(), nullptr, &host.error), KVC_ERR_GONE) << host.error.message;
  ASSERT_LT(result.done, 96u);
  EXPECT_EQ(result.retry, static_cast<uint32_t>(KVC_RETRY_RECOMPUTE));
  EXPECT_EQ(host.read(seq, 0, result.done, 1), "");
  EXPECT_EQ(host.info_of(seq).tokens_held, result.done);
  ASSERT_EQ(kvc_seq_truncate(seq, result.done, &host.error), KVC_OK) << host.error.message;
  const std::vector<int32_t> rest(tokens.begin() + static_cast<int64_t>(result.done), tokens.end());
  ASSERT_EQ(host.append(seq, rest, result.done, 96, 2), KVC_OK) << host.error.message;
  EXPECT_EQ(host.read(seq, 0, 96, [&](uint64_t token) { return token < result.done ? 1 : 2; }), "");
}

TEST(FieldReports, B42_holding_one_chunk_of_a_chain_keeps_it_and_all_before_it_and_eviction_says_what_is_short) {
  for (const uint64_t held : {uint64_t{3}, uint64_t{2}}) {  // C of A-B-C, then B
    FieldHost host(2u << 20);
    const std::vector<int32_t> tokens = ids(3 * kChunk);
    LeaseHandle lease;
    {
      const SeqHandle seq = host.stored(tokens, 1);
      ASSERT_EQ(kvc_seq_lease(lease.out(), seq, (held - 1) * kChunk, kChunk, KVC_FOREVER, nullptr, &host.error), KVC_OK) << host.error.message;
    }
    host.press();
    uint64_t length = 0;
    SeqHandle seq = host.match(tokens, &length);
    EXPECT_EQ(length, held * kChunk);
    EXPECT_EQ(host.read(seq, 0, length, 1), "");
    seq.reset();
    // As large as the store: more than what is not held.
    const std::string all(host.info().memory_bytes - 4096, 'a');
    EXPECT_EQ(host.put(host.scope, "all", all), KVC_ERR_FULL);
    EXPECT_NE(std::string(host.error.message), "");
    host.match(tokens, &length);
    EXPECT_EQ(length, held * kChunk);
    lease.reset();
    EXPECT_EQ(host.put(host.scope, "all", all), KVC_OK) << host.error.message;
  }
}

TEST(FieldReports, B53_a_second_release_fails_and_takes_nothing_from_the_other_holder) {
  FieldHost host(2u << 20);
  const std::vector<int32_t> tokens = ids(64);
  host.stored(tokens, 1);
  const SeqHandle seq = host.match(tokens, nullptr, KVC_FOREVER);
  kvc_lease *first = nullptr;
  LeaseHandle second;
  ASSERT_EQ(kvc_seq_lease(&first, seq, 0, KVC_ALL, KVC_FOREVER, nullptr, &host.error), KVC_OK);
  ASSERT_EQ(kvc_seq_lease(second.out(), seq, 0, KVC_ALL, KVC_FOREVER, nullptr, &host.error), KVC_OK);
  ASSERT_EQ(kvc_lease_release(first, &host.error), KVC_OK);
  const kvc_store_info before = host.info();
  for (int i = 0; i < 3; i++) EXPECT_EQ(kvc_lease_release(first, &host.error), KVC_ERR_STALE);
  const kvc_store_info after = host.info();
  EXPECT_EQ(after.lease_count, before.lease_count);
  EXPECT_EQ(after.memory_pinned, before.memory_pinned);
  kvc_seq *other = host.match(tokens).release();
  ASSERT_EQ(kvc_seq_release(other, &host.error), KVC_OK);
  EXPECT_EQ(kvc_seq_release(other, &host.error), KVC_ERR_STALE);
  host.press();
  EXPECT_EQ(host.read(seq, 0, 64, 1), "");
}

TEST(FieldReports, B55_churn_of_short_and_long_sequences_leaves_bookkeeping_and_memory_level) {
  FieldHost host(4u << 20);
  uint64_t most_early = 0, most_late = 0;
  for (int32_t i = 0; i < 600; i++) {
    host.stored(ids(host.random() % 4 ? 1 + host.random() % 40 : 300, i), 1);
    uint64_t &most = i < 200 ? most_early : most_late;
    most = std::max(most, internals(host.store).metadata().used_bytes());
    ASSERT_LE(host.info().memory_used, host.info().memory_bytes);
  }
  EXPECT_GT(host.metrics().evicted_chunks, 500u);
  EXPECT_LE(most_late, most_early + most_early / 20);
}

TEST(FieldReports, B58_what_is_short_is_evicted_and_no_more_least_used_first) {
  FieldHost host(4u << 20);
  // Fill with sequences of one chunk until the first has to go: that is how many there is room for.
  int32_t count = 0;
  for (; host.metrics().evicted_chunks == 0; count++) host.stored(ids(kChunk, count), 1);
  const auto capacity = static_cast<uint64_t>(count - 1);
  ASSERT_GT(capacity, 100u);
  // What goes: 8 beyond what is free.  Then 48 of which 40 are free.
  const kvc_store_info full = host.info();
  EXPECT_EQ(full.chunk_count, capacity);
  FieldHost fresh(4u << 20);
  for (int32_t i = 0; i < static_cast<int32_t>(capacity) - 40; i++) fresh.stored(ids(kChunk, i), 1);
  for (int32_t i = 0; i < 20; i++) fresh.match(ids(kChunk, i));  // hot
  ASSERT_EQ(fresh.metrics().evicted_chunks, 0u);
  const SeqHandle large = fresh.stored(ids(48 * kChunk, 77777), 2);
  EXPECT_EQ(fresh.metrics().evicted_chunks, 8u);
  uint64_t length = 0;
  for (int32_t i = 0; i < 40; i++) {
    auto options = sized<kvc_seq_options>();
    options.flags = KVC_SEQ_PEEK;
    auto info = sized<kvc_match_info>();
    const std::vector<int32_t> tokens = ids(kChunk, i);
    ASSERT_EQ(kvc_match(nullptr, &info, fresh.scope, tokens.data(), tokens.size(), &options, nullptr, &fresh.error), KVC_OK);
    length += info.tokens;
    EXPECT_EQ(info.tokens, i >= 20 && i < 28 ? 0 : kChunk) << i;
  }
  EXPECT_EQ(length, 32 * kChunk);
  EXPECT_EQ(fresh.read(large, 0, 48 * kChunk, 2), "");
}

TEST(FieldReports, B110_a_scope_is_cleared_over_and_over_while_others_append_and_put_and_nobody_reads_what_is_not_his) {
  constexpr uint64_t kTokens = 48, kLayerBytes = kTokens * 4 * 24 * 2;
  Host host({full_layers(2, 4, 24, 24)}, KVC_F16, 16, 4u << 20);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<uint64_t> found{0};
  const auto worker = [&](uint64_t number) {
    model::Random random(number);
    for (int i = 0; i < 200; i++) {
      const std::vector<int32_t> tokens = ids(kTokens, static_cast<int32_t>(random() % 3));
      auto info = sized<kvc_match_info>();
      SeqHandle seq;
      if (kvc_match(seq.out(), &info, host.scope, tokens.data(), tokens.size(), nullptr, nullptr, nullptr) != KVC_OK) wrong++;
      found += info.tokens;
      std::vector<uint8_t> rows(2 * kLayerBytes, 0x33), got(2 * kLayerBytes, 0xA5);
      auto run = sized<kvc_rows>();
      run.layer_count = 2, run.token_begin = info.tokens, run.token_count = kTokens - info.tokens;
      run.k.data = run.v.data = rows.data(), run.k.bytes = run.v.bytes = rows.size(), run.k.layer_stride = run.v.layer_stride = kLayerBytes;
      if (run.token_count && kvc_append(seq, tokens.data() + info.tokens, run.token_count, &run, 1, nullptr, nullptr) != KVC_OK) wrong++;
      run.token_begin = 0, run.token_count = kTokens;
      run.k.data = got.data(), run.v.data = nullptr;
      if (kvc_gather(nullptr, seq, &run, 1, nullptr, nullptr) != KVC_OK || got != rows) wrong++;
      const std::string key = std::to_string(random() % 20), value(1000, key[0]);
      kvc_bytes part{const_cast<char *>(value.data()), value.size()};
      kvc_object object{};
      object.key = key.data(), object.key_size = key.size(), object.parts = &part, object.part_count = 1;
      if (kvc_object_put(nullptr, host.scope, &object, 1, nullptr, nullptr, nullptr) != KVC_OK) wrong++;
      std::string room(1000, '\0');
      part.data = room.data();
      const kvc_status status = kvc_object_get(nullptr, host.scope, &object, 1, nullptr, nullptr, nullptr);
      if (status == KVC_OK ? room != value : status != KVC_ERR_NOT_FOUND) wrong++;
    }
  };
  std::thread clearer([&] {
    while (!stop)
      if (kvc_scope_clear(nullptr, host.scope, nullptr, nullptr) != KVC_OK) wrong++;
  });
  std::vector<std::thread> workers;
  for (uint64_t i = 0; i < 3; i++) workers.emplace_back(worker, i);
  for (std::thread &thread : workers) thread.join();
  stop = true;
  clearer.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(found, 0u) << "everything was cleared before anybody could find it";
  ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, &host.error), KVC_OK);
  auto info = sized<kvc_store_info>();
  ASSERT_EQ(kvc_store_get_info(&info, host.store, &host.error), KVC_OK);
  EXPECT_EQ(info.memory_used + info.chunk_count + info.object_count, 0u);
}

/// What somebody has of a prompt: its first chunks.
struct Held {
  SeqHandle seq;
  LeaseHandle lease;
  int32_t prompt;
  uint64_t chunks;
};

TEST(FieldReports, B127_pinned_is_what_handles_reach_and_the_rest_of_what_is_used_can_be_evicted_after_each_of_many_steps) {
  constexpr uint64_t kChunks = 5;
  FieldHost host(2u << 20);
  const auto prompt = [](int32_t number, uint64_t chunks) { return ids(chunks * kChunk, number); };
  host.stored(prompt(999, 1), 1);
  const uint64_t chunk_bytes = host.info().memory_used;
  std::vector<Held> all;
  uint64_t chunks_max = 0;
  for (int step = 0; step < 4000; step++) {
    const auto number = static_cast<int32_t>(host.random() % 60);
    const uint64_t chunks = 1 + host.random() % kChunks, at = all.empty() ? 0 : host.random() % all.size();
    switch (all.size() > 12 ? 9 : host.random() % 10) {
      case 0:
      case 1:
      case 2:
      case 3: all.push_back({host.stored(prompt(number, chunks), 1), {}, number, chunks}); break;
      case 4:
      case 5: {
        uint64_t length = 0;
        SeqHandle seq = host.match(prompt(number, chunks), &length);
        all.push_back({std::move(seq), {}, number, length / kChunk});
        break;
      }
      case 6:
        if (all.empty() || !all[at].seq || !all[at].chunks) break;
        all.push_back({{}, {}, all[at].prompt, 1 + host.random() % all[at].chunks});
        ASSERT_EQ(kvc_seq_lease(all.back().lease.out(), all[at].seq, (all.back().chunks - 1) * kChunk, kChunk, KVC_FOREVER, nullptr, &host.error), KVC_OK) << host.error.message;
        break;
      case 7:
        if (all.empty() || !all[at].seq) break;
        all.push_back({{}, {}, all[at].prompt, host.random() % (all[at].chunks + 1)});
        ASSERT_EQ(kvc_seq_fork(all.back().seq.out(), all[at].seq, all.back().chunks * kChunk, &host.error), KVC_OK) << host.error.message;
        break;
      case 8:
        if (all.empty() || !all[at].seq) break;
        all[at].chunks = host.random() % (all[at].chunks + 1);
        ASSERT_EQ(kvc_seq_truncate(all[at].seq, all[at].chunks * kChunk, &host.error), KVC_OK) << host.error.message;
        break;
      default:
        if (!all.empty()) all.erase(all.begin() + static_cast<int64_t>(at));
    }
    std::set<std::pair<int32_t, uint64_t>> reached;
    for (const Held &held : all)
      for (uint64_t c = 0; c < held.chunks; c++) reached.emplace(held.prompt, c);
    const kvc_store_info info = host.info();
    ASSERT_EQ(info.memory_pinned, reached.size() * chunk_bytes) << "step " << step;
    ASSERT_EQ(info.memory_used, info.chunk_count * chunk_bytes) << "step " << step;
    ASSERT_LE(info.memory_used, info.memory_bytes);
    chunks_max = std::max(chunks_max, info.chunk_count);
    if (step % 500 != 499) continue;
    host.press();
    ASSERT_EQ(host.info().chunk_count, reached.size()) << "what is not pinned could not be evicted";
    ASSERT_EQ(host.info().memory_pinned, info.memory_pinned);
    ASSERT_EQ(host.info().memory_used, info.memory_pinned);
  }
  EXPECT_GT(host.metrics().evicted_chunks, 0u);
  EXPECT_GT(chunks_max, 60u);
}

TEST(FieldReports, B102_many_readers_of_few_hot_entries_beside_an_evictor_read_what_is_held_whole) {
  constexpr int kHot = 4;
  constexpr uint64_t kTokens = 48;
  FieldHost host(2u << 20);
  std::vector<SeqHandle> held;
  for (int32_t i = 0; i < kHot; i++) held.push_back(host.stored(ids(kTokens, i), static_cast<uint64_t>(i)));
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread evictor([&] {
    const std::string value(100u << 10, 'e');
    for (int i = 0; !stop; i++)
      if (host.put(host.scope, std::to_string(i), value) != KVC_OK) wrong++;
  });
  const auto reader = [&](uint64_t number) {
    model::Random random(number);
    const model::Layer &layer = host.geometry.layers[0];
    for (int i = 0; i < 200; i++) {
      const auto hot = static_cast<int32_t>(random() % kHot);
      const std::vector<int32_t> tokens = ids(kTokens, hot);
      auto info = sized<kvc_match_info>();
      SeqHandle seq;
      if (kvc_match(seq.out(), &info, host.scope, tokens.data(), kTokens, nullptr, nullptr, nullptr) != KVC_OK || info.tokens != kTokens) {
        wrong++;
        return;
      }
      Block to(host.geometry, {0, 1, 0, layer.heads}, kTokens, random);
      kvc_rows rows = to.rows();
      rows.token_count = kTokens;
      if (kvc_gather(nullptr, seq, &rows, 1, nullptr, nullptr) != KVC_OK ||
          !to.mismatch([&](uint32_t l, uint64_t row) { return model::stamp_of(static_cast<uint64_t>(hot), l, row); }, kTokens).empty())
        wrong++;
    }
  };
  std::vector<std::thread> readers;
  for (uint64_t i = 0; i < 16; i++) readers.emplace_back(reader, i);
  for (std::thread &thread : readers) thread.join();
  stop = true;
  evictor.join();
  EXPECT_EQ(wrong, 0);
  for (int32_t i = 0; i < kHot; i++) EXPECT_EQ(host.read(held[static_cast<size_t>(i)], 0, kTokens, static_cast<uint64_t>(i)), "");
}

TEST(FieldReports, B25_a_freed_block_full_of_nan_is_not_seen_by_whoever_gets_it_next) {
  constexpr uint64_t kTokens = 5, kDim = 8;
  for (const uint32_t flags : {uint32_t{0}, uint32_t{KVC_OPEN_ZERO}}) {
    Host host({full_layers(1, 1, kDim, kDim)}, KVC_F16, 16, 2u << 20, flags);
    std::vector<uint16_t> nan(16 * kDim, 0x7E00), mine(kTokens * kDim, 0x3C00), got(16 * kDim, 0xA5A5);
    const auto rows_of = [](std::vector<uint16_t> &memory, uint64_t tokens) {
      auto rows = sized<kvc_rows>();
      rows.layer_count = 1, rows.token_count = tokens;
      rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = memory.size() * 2;
      return rows;
    };
    std::set<const void *> pages;  // of others, all let go
    for (int32_t i = 0; i < 200; i++) {
      const SeqHandle seq = host.create(KVC_SEQ_PRIVATE);
      ASSERT_EQ(host.append(seq, {}, {rows_of(nan, 16)}), KVC_OK) << host.error.message;
      ViewHandle view;
      auto page = sized<kvc_rows>();
      ASSERT_EQ(kvc_view_acquire(view.out(), &page, seq, 0, 0, 0, &host.error), KVC_OK) << host.error.message;
      pages.insert(page.k.data);
    }
    const SeqHandle seq = host.create(KVC_SEQ_PRIVATE);
    ASSERT_EQ(host.append(seq, {}, {rows_of(mine, kTokens)}), KVC_OK) << host.error.message;
    ViewHandle view;
    auto page = sized<kvc_rows>();
    ASSERT_EQ(kvc_view_acquire(view.out(), &page, seq, 0, 0, 0, &host.error), KVC_OK) << host.error.message;
    EXPECT_TRUE(pages.contains(page.k.data)) << "no block was used again, and this test shows nothing";
    EXPECT_EQ(page.token_count, kTokens) << "a view lends what was written";
    kvc_rows whole = rows_of(got, 16);
    whole.v.data = nullptr;
    EXPECT_EQ(host.gather(seq, {whole}), KVC_ERR_RANGE);
    EXPECT_EQ(got, std::vector<uint16_t>(16 * kDim, 0xA5A5));
    whole.token_count = KVC_ALL;
    ASSERT_EQ(host.gather(seq, {whole}), KVC_OK) << host.error.message;
    for (uint64_t i = 0; i < got.size(); i++) ASSERT_EQ(got[i], i < kTokens * kDim ? 0x3C00 : 0xA5A5) << i;
  }
}

TEST(FieldReports, B125_gauges_are_what_a_count_of_ones_own_gives) {
  FieldHost host;
  kvc_store_info info = host.info();
  EXPECT_EQ(info.memory_used + info.memory_pinned + info.chunk_count + info.object_count + info.seq_count + info.lease_count, 0u);
  uint64_t bytes_of_one = 0;
  std::vector<SeqHandle> seqs;
  std::vector<LeaseHandle> leases;
  for (int32_t i = 0; i < 10; i++) {
    seqs.push_back(host.stored(ids(40, i), 1));  // two chunks and an open one
    leases.emplace_back();
    ASSERT_EQ(kvc_seq_lease(leases.back().out(), seqs.back(), 0, kChunk, KVC_FOREVER, nullptr, &host.error), KVC_OK);
    ASSERT_EQ(host.put(host.scope, std::to_string(i), "value"), KVC_OK);
    if (i == 0) bytes_of_one = host.info().memory_used;
  }
  info = host.info();
  EXPECT_GT(bytes_of_one, 40u * 3 * 2);
  EXPECT_EQ(info.memory_used, 10 * bytes_of_one);
  EXPECT_EQ(info.chunk_count, 20u);
  EXPECT_EQ(info.object_count, 10u);
  EXPECT_EQ(info.seq_count, 10u);
  EXPECT_EQ(info.lease_count, 10u);
  EXPECT_LE(info.memory_pinned, info.memory_used);
  EXPECT_LE(info.memory_used, info.memory_bytes);
  seqs.clear();
  const uint64_t by_leases = host.info().memory_pinned;
  leases.clear();
  info = host.info();
  EXPECT_GT(by_leases, info.memory_pinned);
  EXPECT_EQ(info.memory_pinned, 0u);
  EXPECT_EQ(info.seq_count + info.lease_count, 0u);
  const std::string all(info.memory_bytes - 4096, 'a');
  ASSERT_EQ(host.put(host.scope, "all", all), KVC_OK) << host.error.message;
  info = host.info();
  EXPECT_EQ(info.chunk_count, 0u);
  EXPECT_EQ(info.object_count, 1u);
  EXPECT_GE(info.memory_used, all.size());
}

}  // namespace
}  // namespace kvc::field

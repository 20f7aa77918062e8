#include <atomic>
#include <thread>

#include "parts_host.h"

/// Ranks and readers at the same time, in a store that is too small for all of it.
namespace {

using namespace kvc_test;

struct PartsThreads : testing::TestWithParam<std::vector<kvc_layer>> {
  static constexpr int32_t prompts = 6, rounds = 40;
  static constexpr uint64_t length = 48;
  PartsHost host{GetParam(), 1u << 20};
  std::atomic<bool> writing{true};
  std::atomic<uint64_t> read_chunks{0}, wrong{0}, full{0};

  /// Elements of a chunk, with its window rows and the snapshot in it, that are not this writer's.
  uint64_t foreign(std::list<PartsHost::Moved> &list, uint64_t chunk, uint64_t writer) {
    uint64_t count = 0;
    for (auto &m : list) {
      const uint64_t behind = host.layers[m.layer].kind == KVC_LAYER_STATE;
      m.each([&](uint16_t &e, bool is_k, uint64_t t, uint32_t h, uint32_t d) { count += (t - behind) / PartsHost::chunk == chunk && e != PartsHost::element(writer, is_k, m.layer, t, h, d); });
    }
    return count;
  }
  /// Every chunk is one engine's.
  void check(const kvc_seq *seq, const Range &r, uint64_t tokens) {
    auto list = host.rows_of(r, 0, tokens, host.seen_from(tokens));
    const auto rows = PartsHost::runs_of(list);
    ErrorText error;
    if (kvc_gather(nullptr, seq, rows.data(), rows.size(), nullptr, &error) != KVC_OK) {
      wrong++;
      return;
    }
    for (uint64_t c = 0; c * PartsHost::chunk < tokens; c++) {
      wrong += foreign(list, c, 1) != 0 && foreign(list, c, 2) != 0;
      read_chunks++;
    }
  }
  void rank(uint8_t engine, const Range &r) {
    for (int32_t i = 0; i < rounds; i++) {
      const auto tokens = ids(length, i % prompts);
      const auto o = PartsHost::options_of(r, engine);
      ErrorText error;
      SeqHandle seq;
      if (kvc_seq_create(seq.out(), host.scope, &o, &error) != KVC_OK) continue;
      for (uint64_t at = 0; at < length; at += 24) {
        auto list = host.rows_of(r, at, at + 24);
        for (auto &m : list) m.each([&](uint16_t &e, bool is_k, uint64_t t, uint32_t h, uint32_t d) { e = PartsHost::element(engine, is_k, m.layer, t, h, d); });
        const auto rows = PartsHost::runs_of(list);
        const kvc_status status = kvc_append(seq, tokens.data() + at, 24, rows.data(), rows.size(), nullptr, &error);
        if (status == KVC_ERR_FULL) full++;
        else if (status != KVC_OK) wrong++;
        if (status != KVC_OK) break;
        check(seq, r, at + 24);
      }
    }
  }
  void reader(const Range &r) {
    for (int32_t i = 0; writing; i++) {
      const auto tokens = ids(length, i % prompts);
      const auto o = PartsHost::options_of(r, 0);
      auto info = sized<kvc_match_info>();
      ErrorText error;
      SeqHandle seq;
      if (kvc_match(seq.out(), &info, host.scope, tokens.data(), tokens.size(), &o, nullptr, &error) != KVC_OK) wrong++;
      else if (info.tokens) check(seq, r, info.tokens);
    }
  }
};

TEST_P(PartsThreads, every_chunk_that_is_read_is_one_writers) {
  std::vector<std::thread> writers, readers;
  readers.emplace_back([&] { reader(whole); });
  readers.emplace_back([&] { reader(Range{1, 2, 3, 4}); });
  for (const uint8_t engine : {uint8_t{1}, uint8_t{2}})
    for (uint32_t r = 0; r < 2; r++) writers.emplace_back([&, engine, r] { rank(engine, engine == 1 && GetParam().size() == 1 ? tp(r, 2) : pp(r)); });
  for (std::thread &t : writers) t.join();
  writing = false;
  for (std::thread &t : readers) t.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(read_chunks, 100u);
  host.clock.advance_ms(10000);
  EXPECT_EQ(store_info(host.store).memory_pinned, 0u);
  auto result = sized<kvc_result>();
  ASSERT_EQ(kvc_scope_clear(&result, host.scope, nullptr, &host.error), KVC_OK);
  EXPECT_EQ(store_info(host.store).memory_used, 0u);
  EXPECT_EQ(host.scope_info().bytes_host, 0u);
}

INSTANTIATE_TEST_SUITE_P(Models, PartsThreads,
                         testing::Values(std::vector{full_layers(4, PartsHost::heads, PartsHost::k_dim, PartsHost::v_dim)},
                                         std::vector<kvc_layer>{full_layers(1, 8, 8, 6), {1, KVC_LAYER_WINDOW, 8, 8, 6, 0, 20, 0, 0, {0, 0, 0}}, {1, KVC_LAYER_STATE, 8, 48, 10, 0, 0, 0, 0, {0, 0, 0}}, full_layers(1, 2, 8, 6)}),
                         [](const auto &of) { return of.param.size() == 1 ? "uniform" : "mixed"; });

}  // namespace

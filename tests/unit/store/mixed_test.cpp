#include <algorithm>
#include <random>

#include "hybrid.h"

/// Models that mix kinds of layers, against a model of what a sequence is: its ids, and whose bytes every position has.
namespace {

using namespace kvc_test;

/// Every prefix has one writer: whoever computes it writes the same bytes, so that a match is right or wrong by its bytes alone.
struct Prefixes {
  std::vector<uint64_t> of(const std::vector<int32_t> &tokens) const {
    std::vector<uint64_t> out{1};
    for (const int32_t token : tokens) out.push_back(stamp(out.back(), true, static_cast<uint64_t>(token), 1, 2, 3));
    return out;
  }
  /// The row of token t is made by the t + 1 first ids, the snapshot at t by the t first.
  static Writer writer(const std::vector<uint64_t> &prefix, bool state) {
    return Writer([prefix, state](uint64_t t) { return prefix[state ? t : t + 1]; });
  }
};

struct History {
  HybridHost host;
  std::mt19937 random;
  struct Line {
    SeqHandle seq;
    std::vector<int32_t> tokens;
  };
  std::vector<Line> lines;
  uint64_t served = 0, snapshots_served = 0, matched = 0, refused = 0;

  History(const std::vector<kvc_layer> &layers, uint32_t chunk_tokens, uint64_t memory_bytes, unsigned seed)
      : host(layers, KVC_F16, chunk_tokens, memory_bytes, seed % 2 ? KVC_OPEN_VERIFY_READS : 0), random(seed), chunk(chunk_tokens) {}
  const uint64_t chunk;

  bool has(uint32_t kind) const {
    return std::any_of(host.layers.begin(), host.layers.end(), [kind](const kvc_layer &l) { return l.kind == kind; });
  }
  Moves rows(const std::vector<int32_t> &tokens, uint64_t begin, uint64_t end, uint32_t kind) {
    const auto prefix = Prefixes().of(tokens);
    Moves out;
    for (uint32_t l = 0; l < host.layers.size(); l++) {
      if (host.layers[l].kind != kind) continue;
      uint64_t from = begin;
      if (kind == KVC_LAYER_WINDOW && end + 1 > begin + host.layers[l].window && random() % 2) from = end + 1 - host.layers[l].window;  // leaves out what it may
      if (from < end) out += host.source(l, from, end, Prefixes::writer(prefix, kind == KVC_LAYER_STATE));
    }
    return out;
  }
  void append(Line &line) {
    const uint64_t begin = line.tokens.size(), count = random() % 4 == 0 ? 1 : random() % 3 == 0 ? chunk - begin % chunk : 1 + random() % (3 * chunk);
    const bool common = random() % 2;
    for (uint64_t i = 0; i < count; i++) line.tokens.push_back(static_cast<int32_t>(common ? begin + i : random() % 2));
    const uint64_t end = line.tokens.size();
    std::vector<int32_t> fresh(line.tokens.begin() + static_cast<int64_t>(begin), line.tokens.end());
    kvc_status status = KVC_OK;
    if (random() % 3) {
      Moves all;
      for (const uint32_t kind : {KVC_LAYER_STATE, KVC_LAYER_FULL, KVC_LAYER_LATENT, KVC_LAYER_WINDOW}) all += rows(line.tokens, begin, end, kind);
      status = host.append(line.seq, fresh, all.rows());
    } else {  // kind by kind; window layers last, when the length is there
      for (const uint32_t kind : {KVC_LAYER_STATE, KVC_LAYER_FULL, KVC_LAYER_LATENT, KVC_LAYER_WINDOW}) {
        const Moves some = rows(line.tokens, begin, end, kind);
        if (some.list.empty()) continue;
        ASSERT_EQ(status = host.append(line.seq, fresh, some.rows()), KVC_OK) << host.error.message;
        fresh.clear();
      }
    }
    ASSERT_EQ(status, KVC_OK) << host.error.message;
  }
  void match(Line &line) {
    std::vector<int32_t> prompt = lines[random() % lines.size()].tokens;
    for (uint64_t i = random() % (2 * chunk); i > 0; i--) prompt.push_back(static_cast<int32_t>(random() % 2));
    const kvc_match_info info = host.look(prompt, &line.seq);
    EXPECT_LE(info.tokens, info.tokens_attention);
    EXPECT_EQ(info.tokens % chunk, 0u);
    prompt.resize(info.tokens);
    line.tokens = prompt;
    matched += info.tokens;
  }
  void cut(Line &line, Line &other) {
    auto info = sized<kvc_seq_info>();
    ASSERT_EQ(kvc_seq_get_info(&info, line.seq, &host.error), KVC_OK);
    ASSERT_EQ(info.tokens, line.tokens.size());
    const uint64_t at = random() % 2 ? info.tokens_end : line.tokens.empty() ? 0 : random() % line.tokens.size();
    kvc_status status;
    if (random() % 2 && &line != &other) {
      status = kvc_seq_fork(other.seq.out(), line.seq, at, &host.error);
      if (status == KVC_OK) other.tokens = line.tokens, other.tokens.resize(at);
      else other.tokens.clear(), other.seq = host.create();
    } else if ((status = kvc_seq_truncate(line.seq, at, &host.error)) == KVC_OK) {
      line.tokens.resize(at);
    }
    if (status == KVC_OK) return;
    EXPECT_NE(at, info.tokens_end) << host.error.message;
    EXPECT_TRUE(status == KVC_ERR_GONE || status == KVC_ERR_NO_SNAPSHOT) << host.error.message;
    refused++;
  }
  void check(Line &line) {
    const uint64_t end = line.tokens.size();
    if (end == 0) return;
    const auto prefix = Prefixes().of(line.tokens);
    for (uint32_t l = 0; l < host.layers.size(); l++) {
      const kvc_layer &layer = host.layers[l];
      const Writer writer = Prefixes::writer(prefix, layer.kind == KVC_LAYER_STATE);
      if (layer.kind == KVC_LAYER_WINDOW) {
        const uint64_t seen = end + 1 > layer.window ? end + 1 - layer.window : 0;
        if (seen < end) host.expect_rows(line.seq, l, seen, end, writer);
        older(line, l, random() % end, writer);
      } else {
        host.expect_rows(line.seq, l, layer.kind == KVC_LAYER_STATE ? end - 1 : random() % end, end, writer);
        if (layer.kind == KVC_LAYER_STATE) older(line, l, std::max<uint64_t>(1, random() % end / chunk * chunk), writer);
      }
    }
  }
  /// What need not be held is right or refused.
  void older(Line &line, uint32_t l, uint64_t at, const Writer &writer) {
    const bool state = host.layers[l].kind == KVC_LAYER_STATE;
    const Moves moves = state ? host.target(l, at - 1, at) : host.target(l, at, at + 1);
    const kvc_status status = host.gather(line.seq, moves.rows());
    if (status == KVC_OK) {
      EXPECT_TRUE(moves.list[0]->k == moves.list[0]->stamped(writer, true)) << "layer " << l << " at " << at;
      EXPECT_TRUE(moves.list[0]->v == moves.list[0]->stamped(writer, false)) << "layer " << l << " at " << at;
      (state ? snapshots_served : served)++;
    } else {
      EXPECT_EQ(status, state ? KVC_ERR_NO_SNAPSHOT : KVC_ERR_GONE) << host.error.message;
    }
  }
  /// Others come and go.
  void press(int32_t salt) {
    const auto others = ids(3 * chunk, 1000 + salt);
    SeqHandle seq = host.create();
    EXPECT_EQ(host.append_all(seq, others, 0, others.size(), 9), KVC_OK) << host.error.message;
  }
  void run(int steps, uint64_t chunks_max = 12, bool pressed = false) {
    lines.resize(5);
    for (Line &line : lines) line.seq = host.create();
    for (int i = 0; i < steps && !testing::Test::HasFailure(); i++) {
      Line &line = lines[random() % lines.size()];
      const uint64_t what = random() % 10;
      if (what < 5 && line.tokens.size() < chunks_max * chunk) append(line);
      else if (what < 7) match(line);
      else cut(line, lines[random() % lines.size()]);
      if (pressed) press(i);
      check(line);
    }
    EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
    EXPECT_GT(matched, 0u);
    for (Line &line : lines) line.seq.reset();
    lines.clear();
  }
};

std::vector<kvc_layer> gemma_like(uint32_t dim = 8) {
  return {window_layers(5, 1, dim, dim, 24), full_layers(1, 2, dim, dim), window_layers(5, 1, dim, dim, 24), full_layers(1, 2, dim, dim)};
}
std::vector<kvc_layer> qwen_next_like() { return {state_layers(3, 2, 96, 24), full_layers(1, 2, 8, 8), state_layers(3, 2, 96, 24), full_layers(1, 2, 8, 8)}; }
std::vector<kvc_layer> everything(uint32_t times = 1) {
  return {latent_layers(2, 24 * times, 8 * times),         window_layers(1, 3, 5 * times, 7 * times, 9), state_layers(1, 1, 51 * times, 0), full_layers(1, 1, 3 * times, 9 * times),
          window_layers(1, 1, 5 * times, 7 * times, 70), state_layers(1, 2, 10 * times, 300 * times)};
}

TEST(Mixed, histories_hold_with_room_for_everything) {
  for (unsigned seed = 0; seed < 2; seed++) {
    History gemma(gemma_like(), 16, 16u << 20, seed);
    gemma.run(150);
    EXPECT_GT(gemma.served, 0u);
    History qwen(qwen_next_like(), 16, 16u << 20, seed);
    qwen.run(150);
    EXPECT_GT(qwen.snapshots_served, 0u);
    EXPECT_GT(qwen.refused, 0u);
    History all(everything(), 32, 32u << 20, seed);
    all.run(150);
  }
}

TEST(Mixed, histories_hold_where_what_nobody_pins_is_evicted) {
  for (unsigned seed = 10; seed < 12; seed++) {
    History gemma(gemma_like(24), 16, 2u << 20, seed);
    gemma.run(80, 6, true);
    History all(everything(4), 16, 2u << 20, seed);
    all.run(80, 6, true);
    auto metrics = sized<kvc_metrics>();
    ASSERT_EQ(kvc_metrics_read(&metrics, all.host.store, &all.host.error), KVC_OK);
    EXPECT_GT(metrics.evicted_chunks, 0u);
  }
}

TEST(Mixed, a_scope_counts_its_pieces_and_ends_with_the_last_of_them) {
  HybridHost host(everything(), KVC_F16, 16);
  SeqHandle seq = host.create();
  ASSERT_EQ(host.append_all(seq, ids(64), 0, 64, 1), KVC_OK) << host.error.message;
  auto scope = sized<kvc_scope_info>();
  ASSERT_EQ(kvc_scope_get_info(&scope, host.scope, &host.error), KVC_OK);
  auto store = sized<kvc_store_info>();
  ASSERT_EQ(kvc_store_get_info(&store, host.store, &host.error), KVC_OK);
  EXPECT_EQ(scope.chunk_count, 4u);
  EXPECT_EQ(store.chunk_count, 4u);
  EXPECT_EQ(scope.bytes_host, store.memory_used);
  auto verify = sized<kvc_verify_info>();
  ASSERT_EQ(kvc_store_verify(&verify, host.store, nullptr, &host.error), KVC_OK);
  EXPECT_EQ(verify.pages_read, 4u * 3 + 4u * 2 + 2u);  // full and latent, window, and the snapshot at the end
}

}  // namespace

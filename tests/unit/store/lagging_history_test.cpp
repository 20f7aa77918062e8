#include <bitset>
#include <map>
#include <memory>
#include <random>

#include "../io/memory_files.h"
#include "parts_host.h"

/// Random histories of sequences whose layers come along at different times, of whole models and of ranks, through cuts, forks, files and clears.  What
/// each of them has given is the oracle: what a later query needs is read, and every row that is read is some writer's of these tokens, whole.
namespace {

using namespace kvc_test;

#ifdef KVC_LONG_TESTS
constexpr uint32_t seeds = 2000;
#else
constexpr uint32_t seeds = 60;
#endif
constexpr uint32_t layer_count = 6, engines = 3, prompts = 2;
const std::vector<kvc_layer> mixed{{1, KVC_LAYER_STATE, 8, 48, 10, 0, 0, 0, 0, {0, 0, 0}}, full_layers(1, 8, 8, 6),          {1, KVC_LAYER_WINDOW, 8, 8, 6, 0, 40, 0, 0, {0, 0, 0}},
                                   full_layers(1, 1, 8, 6),                               {1, KVC_LAYER_WINDOW, 1, 8, 6, 0, 12, 0, 0, {0, 0, 0}}, {1, KVC_LAYER_STATE, 1, 48, 10, 0, 0, 0, 0, {0, 0, 0}}};

struct State {
  Range range;
  uint8_t engine = 0;
  uint32_t prompt = 0;
  uint64_t given = 0;
  std::vector<uint64_t> filled = std::vector<uint64_t>(layer_count);

  bool has(uint32_t layer) const { return !range.layer_count || (layer >= range.layer_begin && layer < range.layer_begin + range.layer_count); }
  static uint32_t kind(uint32_t layer) { return mixed[layer].kind; }
  /// As far as full layers go, or, without one, all.
  uint64_t length(const std::vector<uint64_t> &of) const {
    uint64_t full = UINT64_MAX, all = UINT64_MAX;
    for (uint32_t l = 0; l < layer_count; l++)
      if (has(l)) all = std::min(all, of[l]), full = kind(l) == KVC_LAYER_FULL ? std::min(full, of[l]) : full;
    return full != UINT64_MAX ? full : all;
  }
  uint64_t length() const { return length(filled); }
};

struct Histories {
  MemoryFiles disk;
  PartsHost host{mixed, 32u << 20, KVC_OPEN_VERIFY_READS, &disk};
  std::mt19937 random;
  struct Live {
    State state;
    SeqHandle handle;
  };
  std::vector<std::unique_ptr<Live>> live;
  std::map<std::string, State> files;
  uint64_t lagged = 0, restored = 0, cut = 0, joined = 0;

  explicit Histories(uint32_t seed) : random(seed) {}
  uint32_t draw(uint32_t below) { return static_cast<uint32_t>(random() % below); }
  static uint64_t writer(uint32_t engine, uint32_t prompt) { return 10 + engine * prompts + prompt; }
  Range range() {
    switch (draw(6)) {
      case 0: return whole;
      case 1:
      case 2: return tp(draw(2), 2);
      case 3: return {draw(2) * 3, 3, 0, 0};
      default: {
        const uint32_t layer = draw(layer_count);
        return draw(2) ? Range{layer, 1 + draw(layer_count - layer), draw(2) * 4, 4} : tp(draw(4), 4);
      }
    }
  }
  std::vector<int32_t> tokens(uint32_t prompt) const { return ids(200, static_cast<int32_t>(prompt)); }

  void create() {
    State s{range(), static_cast<uint8_t>(draw(engines)), draw(prompts)};
    SeqHandle handle;
    if (draw(2)) {
      handle = host.create(s.range, s.engine);
    } else {
      auto prompt = tokens(s.prompt);
      prompt.resize(draw(120));
      uint64_t length = 0;
      handle = host.match(s.range, prompt, &length, s.engine);
      s.given = length;
      joined += length > 0;
      s.filled.assign(layer_count, length);
    }
    live.push_back(std::make_unique<Live>(Live{s, std::move(handle)}));
  }
  void append(Live &of) {
    State after = of.state;
    if (draw(2)) after.given = std::min<uint64_t>(after.given + draw(50), 180);  // or layers come along
    const uint64_t to = draw(2) ? after.given : after.given / PartsHost::chunk * PartsHost::chunk;
    const bool uneven = draw(3) > 0;
    for (uint32_t l = 0; l < layer_count; l++)
      if (after.has(l) && !(uneven && draw(6) < (State::kind(l) == KVC_LAYER_FULL ? 1u : 4u)) && after.filled[l] < to) after.filled[l] = to;
    std::list<PartsHost::Moved> list;
    for (uint32_t l = 0; l < layer_count; l++) {
      uint64_t begin = of.state.filled[l];
      const uint64_t end = after.filled[l], length = after.length();
      if (begin == end) continue;
      if (State::kind(l) == KVC_LAYER_WINDOW && draw(2)) begin = std::max(begin, std::min(end - 1, length + 1 > mixed[l].window ? length + 1 - mixed[l].window : 0));
      const bool split = mixed[l].kv_heads > 1 && after.range.head_count;
      host.moved(list, l, split ? after.range.head_begin : 0, split ? after.range.head_count : mixed[l].kv_heads, begin, end);
    }
    if (list.empty() && after.given == of.state.given) return;
    for (auto &m : list) m.each([&](uint16_t &e, bool is_k, uint64_t t, uint32_t h, uint32_t d) { e = PartsHost::element(writer(after.engine, after.prompt), is_k, m.layer, t, h, d); });
    const auto rows = PartsHost::runs_of(list);
    const auto all = tokens(after.prompt);
    ASSERT_EQ(kvc_append(of.handle, all.data() + of.state.given, after.given - of.state.given, rows.data(), rows.size(), nullptr, &host.error), KVC_OK) << host.error.message;
    of.state = after;
    for (uint32_t l = 0; l < layer_count; l++) lagged += after.has(l) && after.filled[l] < after.length();
  }
  void truncate(State &s, uint64_t to) {
    s.given = std::min(s.given, to);
    for (uint64_t &filled : s.filled) filled = std::min(filled, to);
  }
  void step() {
    if (live.size() < 2 || (live.size() < 6 && draw(10) == 0)) return create();
    const size_t i = draw(static_cast<uint32_t>(live.size()));
    Live &of = *live[i];
    const uint32_t what = live.size() > 6 ? 12 : draw(13);
    if (what < 6) return append(of);
    const uint64_t length = of.state.length();
    if (what < 8) {
      const uint64_t to = draw(4) ? draw(static_cast<uint32_t>(length) + 1) : length / PartsHost::chunk * PartsHost::chunk;
      const kvc_status status = kvc_seq_truncate(of.handle, to, &host.error);
      if (status == KVC_OK) return cut++, truncate(of.state, to);
      ASSERT_TRUE(status == KVC_ERR_NO_SNAPSHOT || status == KVC_ERR_GONE) << host.error.message;
    } else if (what == 8) {
      auto made = std::make_unique<Live>(Live{of.state, {}});
      ASSERT_EQ(kvc_seq_fork(made->handle.out(), of.handle, KVC_ALL, &host.error), KVC_OK) << host.error.message;
      live.push_back(std::move(made));
    } else if (what == 9) {
      const std::string path = "disk/" + std::to_string(draw(6));
      ASSERT_EQ(kvc_seq_save(of.handle, path.c_str(), nullptr, &host.error), KVC_OK) << host.error.message;
      files[path] = of.state;
    } else if (what == 10 && !files.empty()) {
      const auto &[path, state] = *std::next(files.begin(), draw(static_cast<uint32_t>(files.size())));
      auto made = std::make_unique<Live>(Live{state, {}});
      made->state.engine = static_cast<uint8_t>(draw(2) ? state.engine : draw(engines));
      const auto options = PartsHost::options_of(state.range, made->state.engine);
      ASSERT_EQ(kvc_seq_restore(made->handle.out(), host.scope, path.c_str(), &options, nullptr, &host.error), KVC_OK) << host.error.message;
      live.erase(live.begin() + static_cast<int64_t>(i));
      live.push_back(std::move(made));
      restored++;
    } else if (what == 11 && draw(4) == 0) {
      ASSERT_EQ(kvc_scope_clear(nullptr, host.scope, nullptr, &host.error), KVC_OK) << host.error.message;
    } else {
      live.erase(live.begin() + static_cast<int64_t>(i));
    }
  }
  /// What a query behind the last token needs of each layer, as far as it was given.
  void check(const Live &of) {
    const State &s = of.state;
    const uint64_t length = s.length();
    ASSERT_EQ(host.info(of.handle).tokens, length);
    for (uint32_t l = 0; l < layer_count; l++) {
      const bool state = State::kind(l) == KVC_LAYER_STATE, window = State::kind(l) == KVC_LAYER_WINDOW;
      const uint64_t end = window ? std::min(s.filled[l], length) : s.filled[l], seen = window && length + 1 > mixed[l].window ? length + 1 - mixed[l].window : 0;
      const uint64_t begin = state ? (end ? end - 1 : 0) : seen;
      if (!s.has(l) || begin >= end) continue;
      const bool split = mixed[l].kv_heads > 1 && s.range.head_count;
      std::list<PartsHost::Moved> list;
      auto &m = host.moved(list, l, split ? s.range.head_begin : 0, split ? s.range.head_count : mixed[l].kv_heads, begin, end);
      ASSERT_EQ(kvc_gather(nullptr, of.handle, &m.rows, 1, nullptr, &host.error), KVC_OK) << "layer " << l << " [" << begin << ", " << end << "): " << host.error.message;
      std::map<std::pair<uint64_t, uint32_t>, std::bitset<engines>> by;  // whose the row of a token and head may be
      uint64_t wrong = 0;
      m.each([&](uint16_t &e, bool is_k, uint64_t t, uint32_t h, uint32_t d) {
        auto &may_be = by.try_emplace({t, h}, std::bitset<engines>().set()).first->second;
        for (uint32_t engine = 0; engine < engines; engine++)
          if (e != PartsHost::element(writer(engine, s.prompt), is_k, l, t, h, d)) may_be.reset(engine);
        wrong += may_be.none();
      });
      ASSERT_EQ(wrong, 0u) << "layer " << l << " [" << begin << ", " << end << ")";
    }
  }
};

TEST(LaggingHistory, what_was_given_is_there_as_long_as_a_query_needs_it) {
  uint64_t lagged = 0, restored = 0, cut = 0, joined = 0;
  for (uint32_t seed = 1; seed <= seeds; seed++) {
    Histories history(seed);
    for (int i = 0; i < 250; i++) {
      history.step();
      if (i % 5 == 0)
        for (const auto &of : history.live) history.check(*of);
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
    EXPECT_EQ(kvc_store_verify(nullptr, history.host.store, nullptr, &history.host.error), KVC_OK) << "seed " << seed << ": " << history.host.error.message;
    history.live.clear();
    ASSERT_EQ(kvc_scope_clear(nullptr, history.host.scope, nullptr, nullptr), KVC_OK);
    EXPECT_EQ(store_info(history.host.store).memory_used, 0u);
    EXPECT_EQ(history.host.scope_info().bytes_host, 0u);
    lagged += history.lagged, restored += history.restored, cut += history.cut, joined += history.joined;
  }
  EXPECT_GT(lagged, 500u) << "layers behind their sequence after an append";
  EXPECT_GT(restored, 50u);
  EXPECT_GT(cut, 50u);
  EXPECT_GT(joined, 0u) << "matches of what is there";
}

}  // namespace

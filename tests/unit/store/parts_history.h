#pragma once
#include <map>
#include <memory>
#include <random>

#include "parts_host.h"

/// What random histories of sequences of parts have in common: a model of chunks and of who holds them, and the steps.
namespace kvc_test {

/// Content: who wrote each element of a chunk.
template <typename Content>
struct HistoryNode {
  std::vector<int32_t> name;  // all ids up to its end
  std::shared_ptr<HistoryNode> parent;
  uint64_t write_id;
  bool is_named, is_sliced, is_partial, waits;
  Content content{};
};

template <typename Content>
struct HistorySeq {
  using NodePtr = std::shared_ptr<HistoryNode<Content>>;
  Range range;
  uint8_t engine = 0;
  bool is_private = false;
  std::vector<int32_t> tokens;
  std::vector<NodePtr> sealed;
  Content open{};  // of the chunk behind them
  NodePtr cut;     // whose rows those are, until somebody writes
};

inline bool is_whole(const Range &r) { return !r.layer_count && !r.head_count; }

template <typename Content>
struct HistoryModel {
  using Node = HistoryNode<Content>;
  using NodePtr = std::shared_ptr<Node>;
  static constexpr uint32_t chunk = PartsHost::chunk;
  std::map<std::vector<int32_t>, NodePtr> names;
  std::vector<std::weak_ptr<Node>> nodes;  // in the order of their making: children behind their parents
  std::vector<NodePtr> waiting;            // last chunks of released sequences
  uint64_t drawn = 1000;

  NodePtr find(const std::vector<int32_t> &name, const NodePtr &parent) {
    const auto found = names.find(name);
    return found != names.end() && found->second->parent == parent ? found->second : nullptr;
  }
  void unname(const NodePtr &node) {
    node->is_named = false;
    names.erase(node->name);
  }
  NodePtr make(const HistorySeq<Content> &seq, const std::vector<int32_t> &name, const NodePtr &parent, bool named, bool partial) {
    auto node = std::make_shared<Node>(Node{name, parent, seq.engine ? seq.engine : drawn++, named, !is_whole(seq.range), partial, named && partial && seq.engine, {}});
    if (named) names[name] = node;
    nodes.push_back(node);
    return node;
  }
  void truncate(HistorySeq<Content> &seq, uint64_t tokens) {
    const uint64_t kept = tokens / chunk;
    if (kept < seq.sealed.size()) {
      seq.cut = tokens % chunk ? seq.sealed[kept] : nullptr;
      seq.open = seq.cut ? seq.cut->content : Content{};
      seq.sealed.resize(kept);
    } else if (tokens % chunk == 0) {
      seq.open = {};
      seq.cut = nullptr;
    }
    seq.tokens.resize(tokens);
  }
  /// What waits for sister parts and is held by nobody goes.
  template <typename Seqs>
  void sweep(const Seqs &seqs) {
    std::map<const Node *, bool> alive;
    for (const auto &seq : seqs) {
      if (!seq) continue;
      if (!seq->sealed.empty()) alive[seq->sealed.back().get()] = true;
      if (seq->cut) alive[seq->cut.get()] = true;
    }
    for (const NodePtr &node : waiting) alive[node.get()] = true;
    for (size_t i = nodes.size(); i-- > 0;) {
      const NodePtr node = nodes[i].lock();
      if (!node) continue;
      if (node->is_named && !node->waits) alive[node.get()] = true;
      if (alive[node.get()] && node->parent) alive[node->parent.get()] = true;
      if (!alive[node.get()] && node->is_named) unname(node);
    }
  }
};

/// Derived says which parts there are, how much an append brings, what a truncate may say and what a sequence reads.
template <typename Derived, typename Model, typename Seq>
struct PartsHistory {
  PartsHost host;
  Model model;
  std::mt19937 random;
  std::vector<SeqHandle> handles = std::vector<SeqHandle>(8);
  std::vector<std::unique_ptr<Seq>> seqs = std::vector<std::unique_ptr<Seq>>(8);

  PartsHistory(std::vector<kvc_layer> layers, uint32_t seed) : host(std::move(layers), 32u << 20, KVC_OPEN_VERIFY_READS), random(seed) {}
  Derived &self() { return static_cast<Derived &>(*this); }
  uint32_t draw(uint32_t below) { return static_cast<uint32_t>(random() % below); }
  /// One of two prompts, so that sequences meet.
  std::vector<int32_t> prompt(uint64_t length) { return ids(length, static_cast<int32_t>(draw(2))); }
  /// Ids that go on as one of the prompts does, mostly the one that the sequence began.
  std::vector<int32_t> more(const Seq &seq, uint64_t count) {
    const int32_t salt = seq.tokens.empty() ? static_cast<int32_t>(draw(2)) : draw(8) ? (seq.tokens[0] == ids(1, 0)[0] ? 0 : 1) : static_cast<int32_t>(draw(2));
    const auto all = ids(seq.tokens.size() + count, salt);
    return {all.end() - static_cast<int64_t>(count), all.end()};
  }
  void start(size_t i) {
    auto made = std::make_unique<Seq>();
    made->range = self().range();
    made->engine = static_cast<uint8_t>(draw(2) ? 1 : draw(4));
    if (draw(2)) {
      made->is_private = draw(8) == 0;
      handles[i] = host.create(made->range, made->engine, made->is_private ? KVC_SEQ_PRIVATE : 0);
    } else {
      const auto tokens = prompt(draw(70));
      uint64_t length = 0;
      handles[i] = host.match(made->range, tokens, &length, made->engine);
      ASSERT_EQ(length, model.match(made->range, tokens, &made->sealed));
      made->tokens.assign(tokens.begin(), tokens.begin() + static_cast<int64_t>(length));
    }
    seqs[i] = std::move(made);
  }
  void append(size_t i) {
    Seq &seq = *seqs[i];
    const auto added = more(seq, self().append_tokens(seq));
    std::vector<int32_t> all = seq.tokens;
    all.insert(all.end(), added.begin(), added.end());
    const uint64_t writer = 100 + seq.engine;
    ASSERT_EQ(host.append(handles[i], seq.range, writer, all, seq.tokens.size(), all.size()), KVC_OK) << host.error.message;
    model.append(seq, added, writer);
  }
  void step() {
    const size_t i = draw(static_cast<uint32_t>(seqs.size()));
    if (!seqs[i]) return start(i);
    Seq &seq = *seqs[i];
    const uint32_t what = draw(10);
    if (what < 5 && seq.tokens.size() < 90) return append(i);
    if (what < 7) return self().truncate(i);
    if (what == 7) {
      const size_t to = draw(static_cast<uint32_t>(seqs.size()));
      if (seqs[to]) return;
      ASSERT_EQ(kvc_seq_fork(handles[to].out(), handles[i], KVC_ALL, &host.error), KVC_OK) << host.error.message;
      seqs[to] = std::make_unique<Seq>(seq);
      return;
    }
    if (!seq.sealed.empty() && seq.sealed.back()->waits) model.waiting.push_back(seq.sealed.back());
    handles[i].reset();
    seqs[i].reset();
  }
  void look() {
    for (int i = 0; i < 3; i++) {
      const Range r = self().range();
      const auto tokens = prompt(80);
      ASSERT_EQ(host.found(r, tokens), model.match(r, tokens)) << "layers from " << r.layer_begin << ", heads from " << r.head_begin;
    }
    for (size_t i = 0; i < seqs.size(); i++)
      if (seqs[i]) self().check(i);
  }
  /// What a sequence says of itself, but where it can be cut.
  void check_info(const kvc_seq_info &info, const Seq &seq) {
    ASSERT_EQ(info.tokens, seq.tokens.size());
    ASSERT_EQ(info.tokens_sealed, seq.sealed.size() * PartsHost::chunk);
    uint64_t named = 0;
    while (named < seq.sealed.size() && seq.sealed[named]->is_named) named++;
    if (is_whole(seq.range)) return;
    ASSERT_EQ(info.tokens_shareable, seq.is_private ? 0 : named < seq.sealed.size() ? named * PartsHost::chunk : info.tokens);
  }
  void run(uint32_t seed, int steps) {
    for (int i = 0; i < steps; i++) {
      step();
      model.sweep(seqs);
      if (i % 4 == 0) look();
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
    EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_OK) << host.error.message;
  }
};

}  // namespace kvc_test

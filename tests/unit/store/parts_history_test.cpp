#include <array>
#include <map>
#include <memory>
#include <random>

#include "parts_host.h"

/// Random histories of sequences of parts against a model that is slow and simple: it knows of every element of every chunk who wrote it.
namespace {

using namespace kvc_test;

constexpr uint32_t layer_count = 4, heads = PartsHost::heads, chunk = PartsHost::chunk;
/// Who wrote each (layer, head, token) of a chunk; 0: nobody.
using Content = std::array<uint64_t, layer_count * heads * chunk>;

struct Node {
  std::vector<int32_t> name;  // all ids up to its end
  std::shared_ptr<Node> parent;
  uint64_t write_id;
  bool is_named, is_sliced, waits;
  Content content{};
};
using NodePtr = std::shared_ptr<Node>;

uint64_t &at(Content &content, uint32_t layer, uint32_t head, uint64_t token) { return content[(layer * heads + head) * chunk + token % chunk]; }

template <typename Do>
void each_row(const Range &r, Do &&act) {
  for (uint32_t l = r.layer_begin; l < (r.layer_count ? r.layer_begin + r.layer_count : layer_count); l++)
    for (uint32_t h = r.head_begin; h < (r.head_count ? r.head_begin + r.head_count : heads); h++) act(l, h);
}

bool is_whole(const Range &r) { return !r.layer_count && !r.head_count; }

bool covers(NodePtr node, const Range &r) {
  bool all = true;
  each_row(r, [&](uint32_t l, uint32_t h) { all = all && at(node->content, l, h, 0); });
  return all;
}

struct Seq {
  Range range;
  uint8_t engine = 0;
  bool is_private = false;
  std::vector<int32_t> tokens;
  std::vector<NodePtr> sealed;
  Content open{};  // of the chunk behind them
  NodePtr cut;     // whose rows those are, until somebody writes
};

struct Model {
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
  NodePtr make(const Seq &seq, const std::vector<int32_t> &name, const NodePtr &parent, bool named) {
    auto node = std::make_shared<Node>(Node{name, parent, seq.engine ? seq.engine : drawn++, named, !is_whole(seq.range), false, {}});
    node->waits = named && node->is_sliced && seq.engine;
    if (named) names[name] = node;
    nodes.push_back(node);
    return node;
  }
  void merge(const NodePtr &node, const Range &r, const Content &rows) {
    each_row(r, [&](uint32_t l, uint32_t h) {
      if (at(node->content, l, h, 0)) return;
      for (uint32_t t = 0; t < chunk; t++) at(node->content, l, h, t) = rows[(l * heads + h) * chunk + t];
    });
    node->waits = node->waits && !covers(node, Range{});
  }
  /// The first whole chunk of open rows becomes one of the table.
  void seal(Seq &seq, const std::vector<int32_t> &name) {
    const NodePtr parent = seq.sealed.empty() ? nullptr : seq.sealed.back();
    NodePtr ref = seq.is_private ? nullptr : find(name, parent);
    bool alone = seq.is_private;
    if (seq.cut && !seq.is_private && seq.cut->name == name) {
      seq.sealed.push_back(seq.cut);
    } else {
      if (ref && (!covers(ref, seq.range) || (ref->waits && seq.engine && ref->write_id != seq.engine))) {
        if (!is_whole(seq.range) && ref->is_sliced && seq.engine == ref->write_id) {
          merge(ref, seq.range, seq.open);
        } else {
          if (is_whole(seq.range)) unname(ref);
          else alone = true;
          ref = nullptr;
        }
      }
      if (!ref) {
        const bool named = !alone && (!parent || parent->is_named);
        if (named && names.count(name)) unname(names[name]);
        ref = make(seq, name, parent, named);
        merge(ref, seq.range, seq.open);
      }
      seq.sealed.push_back(ref);
    }
    seq.open = {};
    seq.cut = nullptr;
  }
  void append(Seq &seq, const std::vector<int32_t> &more, uint64_t writer) {
    for (const int32_t token : more) {
      each_row(seq.range, [&](uint32_t l, uint32_t h) { at(seq.open, l, h, seq.tokens.size()) = writer; });
      seq.tokens.push_back(token);
      if (seq.tokens.size() % chunk == 0) seal(seq, seq.tokens);
    }
    if (!more.empty() && seq.tokens.size() % chunk) seq.cut = nullptr;
  }
  void truncate(Seq &seq, uint64_t tokens) {
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
  uint64_t match(const Range &r, const std::vector<int32_t> &tokens, std::vector<NodePtr> *out = nullptr) {
    NodePtr parent;
    uint64_t count = 0;
    for (; (count + 1) * chunk <= tokens.size(); count++) {
      const NodePtr node = find({tokens.begin(), tokens.begin() + static_cast<int64_t>((count + 1) * chunk)}, parent);
      if (!node || !covers(node, r)) break;
      if (out) out->push_back(node);
      parent = node;
    }
    return count * chunk;
  }
  /// What waits for sister parts and is held by nobody goes.
  void sweep(const std::vector<std::unique_ptr<Seq>> &seqs) {
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

struct History {
  PartsHost host{{full_layers(layer_count, heads, PartsHost::k_dim, PartsHost::v_dim)}, 32u << 20, KVC_OPEN_VERIFY_READS};
  Model model;
  std::mt19937 random;
  std::vector<SeqHandle> handles = std::vector<SeqHandle>(8);
  std::vector<std::unique_ptr<Seq>> seqs = std::vector<std::unique_ptr<Seq>>(8);

  explicit History(uint32_t seed) : random(seed) {}
  uint32_t draw(uint32_t below) { return static_cast<uint32_t>(random() % below); }
  Range range() {
    const uint32_t kind = draw(7);
    if (kind == 0) return whole;
    if (kind <= 2) return tp(draw(2), 2);
    if (kind == 3) return tp(draw(4), 4);
    if (kind == 4) return pp(draw(2));
    if (kind == 5) return {draw(2) * 2, 2, draw(2) * 4, 4};
    const uint32_t layer = draw(3), head = draw(5);
    return {layer, 1 + draw(layer_count - layer), head, 1 + draw(heads - 1 - head)};
  }
  /// One of two prompts, so that sequences meet.
  std::vector<int32_t> prompt(uint64_t length) { return ids(length, static_cast<int32_t>(draw(2))); }
  /// Ids that go on as one of the prompts does, mostly the one that the sequence began.
  std::vector<int32_t> more(const Seq &seq, uint64_t count) {
    const int32_t salt = seq.tokens.empty() ? static_cast<int32_t>(draw(2)) : draw(8) ? (seq.tokens[0] == ids(1, 0)[0] ? 0 : 1) : static_cast<int32_t>(draw(2));
    const auto all = ids(seq.tokens.size() + count, salt);
    return {all.end() - static_cast<int64_t>(count), all.end()};
  }
  void check(size_t i) {
    Seq &seq = *seqs[i];
    const kvc_seq_info info = host.info(handles[i]);
    ASSERT_EQ(info.tokens, seq.tokens.size());
    ASSERT_EQ(info.tokens_sealed, seq.sealed.size() * chunk);
    uint64_t named = 0;
    while (named < seq.sealed.size() && seq.sealed[named]->is_named) named++;
    if (!is_whole(seq.range)) {
      ASSERT_EQ(info.tokens_shareable, seq.is_private ? 0 : named < seq.sealed.size() ? named * chunk : info.tokens);
    }
    if (info.tokens == 0) return;
    host.expect_rows(handles[i], seq.range, 0, info.tokens, [&](uint32_t l, uint64_t t, uint32_t h) {
      const uint64_t c = t / chunk;
      return c < seq.sealed.size() ? at(seq.sealed[c]->content, l, h, t) : at(seq.open, l, h, t);
    });
  }
  void start(size_t i) {
    auto made = std::make_unique<Seq>();
    made->range = range();
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
    const auto added = more(seq, 1 + draw(40));
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
    if (what < 7) {
      const uint64_t tokens = draw(static_cast<uint32_t>(seq.tokens.size()) + 1);
      ASSERT_EQ(kvc_seq_truncate(handles[i], tokens, &host.error), KVC_OK) << host.error.message;
      return model.truncate(seq, tokens);
    }
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
      const Range r = range();
      const auto tokens = prompt(80);
      ASSERT_EQ(host.found(r, tokens), model.match(r, tokens)) << "layers from " << r.layer_begin << ", heads from " << r.head_begin;
    }
    for (size_t i = 0; i < seqs.size(); i++)
      if (seqs[i]) check(i);
  }
};

TEST(PartsHistory, every_element_that_is_read_is_the_one_that_the_model_has) {
  uint64_t joined = 0;
  for (uint32_t seed = 1; seed <= 6; seed++) {
    History history(seed);
    for (int i = 0; i < 300; i++) {
      history.step();
      history.model.sweep(history.seqs);
      if (i % 4 == 0) history.look();
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
    for (const auto &[name, node] : history.model.names) joined += node->is_sliced && covers(node, whole);
    EXPECT_EQ(kvc_store_verify(nullptr, history.host.store, nullptr, &history.host.error), KVC_OK) << history.host.error.message;
  }
  EXPECT_GT(joined, 3u) << "chunks whose slices all came";
}

}  // namespace

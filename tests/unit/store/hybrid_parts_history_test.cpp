#include <array>
#include <map>
#include <memory>
#include <random>

#include "parts_host.h"

/// Random histories of sequences of parts of a mixed model against a model that is slow and simple: it knows of every element of every chunk, of the
/// window rows and of the snapshot beside it, who wrote it.  Every append brings all layers up to one position.
namespace {

using namespace kvc_test;

constexpr uint32_t layer_count = 5, heads = PartsHost::heads, chunk = PartsHost::chunk;
const std::vector<kvc_layer> mixed{full_layers(1, heads, PartsHost::k_dim, PartsHost::v_dim),
                                   {1, KVC_LAYER_WINDOW, heads, 8, 6, 0, 20, 0, 0, {0, 0, 0}},
                                   {1, KVC_LAYER_WINDOW, 1, 8, 6, 0, 12, 0, 0, {0, 0, 0}},
                                   {1, KVC_LAYER_STATE, heads, 48, 10, 0, 0, 0, 0, {0, 0, 0}},
                                   {1, KVC_LAYER_FULL, 1, 8, 6, 0, 0, 0, 0, {0, 0, 0}}};
/// Who wrote each (layer, head, token) of a chunk, of a snapshot at its end at token 0; 0: nobody.
using Content = std::array<uint64_t, layer_count * heads * chunk>;

uint64_t &at(Content &content, uint32_t layer, uint32_t head, uint64_t token) { return content[(layer * heads + head) * chunk + token % chunk]; }
uint32_t kind_of(uint32_t layer) { return mixed[layer].kind; }
uint64_t seen_from(uint32_t layer, uint64_t end) { return end + 1 > mixed[layer].window ? end + 1 - mixed[layer].window : 0; }

struct Node {
  std::vector<int32_t> name;  // all ids up to its end
  std::shared_ptr<Node> parent;
  uint64_t write_id;
  bool is_named, is_sliced, is_partial, waits;
  Content content{};
};
using NodePtr = std::shared_ptr<Node>;

/// Layers of a kind (0: all) in a part, with its heads.
template <typename Do>
void each_row(const Range &r, uint32_t kind, Do &&act) {
  for (uint32_t l = r.layer_begin; l < (r.layer_count ? r.layer_begin + r.layer_count : layer_count); l++) {
    if (kind && kind_of(l) != kind) continue;
    const bool split = r.head_count && mixed[l].kv_heads > 1;
    for (uint32_t h = split ? r.head_begin : 0; h < (split ? r.head_begin + r.head_count : mixed[l].kv_heads); h++) act(l, h);
  }
}
bool is_whole(const Range &r) { return !r.layer_count && !r.head_count; }
bool has_kind(const Range &r, uint32_t kind) {
  bool any = false;
  each_row(r, kind, [&](uint32_t, uint32_t) { any = true; });
  return any;
}
bool is_pieced(const Range &r) { return has_kind(r, KVC_LAYER_WINDOW) || has_kind(r, KVC_LAYER_STATE); }
bool has_all_main(const Range &r) {
  uint32_t count = 0;
  each_row(r, KVC_LAYER_FULL, [&](uint32_t, uint32_t) { count++; });
  return count == heads + 1;
}
bool covers(Content &content, const Range &r, uint32_t kind) {
  bool all = true;
  each_row(r, kind, [&](uint32_t l, uint32_t h) { all = all && at(content, l, h, 0); });
  return all;
}
/// Are the window rows of this chunk there that queries at `end` see?
bool windows_there(Content &content, const Range &r, uint64_t number, uint64_t end) {
  bool all = true;
  each_row(r, KVC_LAYER_WINDOW, [&](uint32_t l, uint32_t h) { all = all && (seen_from(l, end) >= std::min(end, (number + 1) * chunk) || at(content, l, h, 0)); });
  return all;
}

struct Seq {
  Range range;
  uint8_t engine = 0;
  bool is_private = false;
  std::vector<int32_t> tokens;
  std::vector<NodePtr> sealed;
  Content open{};         // of the chunk behind them
  NodePtr cut;            // whose rows those are, until somebody writes
  uint64_t snapshot = 0;  // who wrote that at its end, where no chunk ends

  /// Can it be cut there?
  bool ends_at(uint64_t end) {
    if (end == 0) return true;
    if (end < tokens.size() && has_kind(range, KVC_LAYER_STATE) && (end % chunk || end / chunk > sealed.size() || !covers(sealed[end / chunk - 1]->content, range, KVC_LAYER_STATE))) return false;
    bool all = true;
    for (uint64_t c = 0; c * chunk < end; c++) all = all && windows_there(c < sealed.size() ? sealed[c]->content : open, range, c, end);
    return all;
  }
};

struct Model {
  std::map<std::vector<int32_t>, NodePtr> names;
  std::vector<std::weak_ptr<Node>> nodes;  // in the order of their making: children behind their parents
  std::vector<NodePtr> waiting;            // last chunks of released sequences
  uint64_t drawn = 1000, taken = 0;

  NodePtr find(const std::vector<int32_t> &name, const NodePtr &parent) {
    const auto found = names.find(name);
    return found != names.end() && found->second->parent == parent ? found->second : nullptr;
  }
  void unname(const NodePtr &node) {
    node->is_named = false;
    names.erase(node->name);
  }
  NodePtr make(const Seq &seq, const std::vector<int32_t> &name, const NodePtr &parent, bool named) {
    const bool partial = !has_all_main(seq.range);
    auto node = std::make_shared<Node>(Node{name, parent, seq.engine ? seq.engine : drawn++, named, !is_whole(seq.range), partial, named && partial && seq.engine, {}});
    if (named) names[name] = node;
    nodes.push_back(node);
    return node;
  }
  /// What is there stays.
  void merge(const NodePtr &node, const Range &r, uint32_t kind, Content &rows) {
    each_row(r, kind, [&](uint32_t l, uint32_t h) {
      if (!at(node->content, l, h, 0))
        for (uint32_t t = 0; t < chunk; t++) at(node->content, l, h, t) = at(rows, l, h, t);
    });
    if (covers(node->content, whole, KVC_LAYER_FULL)) node->is_partial = node->waits = false;
  }
  bool serves(const Seq &seq, const NodePtr &node, uint64_t number) {
    const uint64_t end = seq.tokens.size();
    return windows_there(node->content, seq.range, number, end) && (end != (number + 1) * chunk || covers(node->content, seq.range, KVC_LAYER_STATE));
  }
  /// The first whole chunk of open rows becomes one of the table, and its pieces those of that chunk if the sequence wrote it.
  void seal(Seq &seq) {
    const uint64_t number = seq.sealed.size();
    const std::vector<int32_t> name(seq.tokens.begin(), seq.tokens.begin() + static_cast<int64_t>((number + 1) * chunk));
    const NodePtr parent = number ? seq.sealed.back() : nullptr;
    const bool adopts = seq.cut && !seq.is_private && seq.cut->name == name && (!is_pieced(seq.range) || serves(seq, seq.cut, number));
    NodePtr ref = adopts ? seq.cut : seq.is_private ? nullptr : find(name, parent);
    bool alone = seq.is_private, is_writer = false;
    if (!adopts && ref) {
      is_writer = !is_whole(seq.range) && ref->is_sliced && ref->write_id == seq.engine;
      if (!is_writer && (!covers(ref->content, seq.range, KVC_LAYER_FULL) || (ref->waits && seq.engine && ref->write_id != seq.engine) || (is_pieced(seq.range) && !serves(seq, ref, number)))) {
        const bool takes = ref->is_partial ? is_whole(seq.range) : has_all_main(seq.range) || seq.engine;
        taken += !is_whole(seq.range) && takes;
        if (takes) unname(ref);
        else alone = true;
        ref = nullptr;
      }
    }
    if (!ref) {
      const bool named = !alone && (!parent || parent->is_named);
      if (named && names.count(name)) unname(names[name]);
      ref = make(seq, name, parent, named);
      is_writer = true;
    }
    if (is_writer)
      for (const uint32_t kind : {KVC_LAYER_FULL, KVC_LAYER_WINDOW, KVC_LAYER_STATE})
        if (kind != KVC_LAYER_STATE || seq.tokens.size() == (number + 1) * chunk) merge(ref, seq.range, kind, seq.open);
    seq.sealed.push_back(ref);
    seq.open = {};
    seq.cut = nullptr;
  }
  void append(Seq &seq, const std::vector<int32_t> &more, uint64_t writer) {
    const uint64_t begin = seq.tokens.size();
    seq.tokens.insert(seq.tokens.end(), more.begin(), more.end());
    seq.snapshot = writer;
    for (uint64_t t = begin; t < seq.tokens.size(); t++) {
      each_row(seq.range, 0, [&](uint32_t l, uint32_t h) { at(seq.open, l, h, kind_of(l) == KVC_LAYER_STATE ? 0 : t) = writer; });
      if ((t + 1) % chunk == 0) seal(seq);
    }
    if (seq.tokens.size() % chunk) seq.cut = nullptr;
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
    Seq found;
    found.range = r;
    while ((found.sealed.size() + 1) * chunk <= tokens.size()) {
      const NodePtr node = find({tokens.begin(), tokens.begin() + static_cast<int64_t>((found.sealed.size() + 1) * chunk)}, found.sealed.empty() ? nullptr : found.sealed.back());
      if (!node || !covers(node->content, r, KVC_LAYER_FULL)) break;
      found.sealed.push_back(node);
    }
    found.tokens.resize(found.sealed.size() * chunk + 1);  // no snapshot but those of chunks
    while (!found.ends_at(found.sealed.size() * chunk)) found.sealed.pop_back();
    if (out) *out = found.sealed;
    return found.sealed.size() * chunk;
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
  PartsHost host{mixed, 32u << 20, KVC_OPEN_VERIFY_READS};
  Model model;
  std::mt19937 random;
  std::vector<SeqHandle> handles = std::vector<SeqHandle>(8);
  std::vector<std::unique_ptr<Seq>> seqs = std::vector<std::unique_ptr<Seq>>(8);
  uint64_t cuts = 0, refused = 0;

  explicit History(uint32_t seed) : random(seed) {}
  uint32_t draw(uint32_t below) { return static_cast<uint32_t>(random() % below); }
  Range range() {
    const uint32_t kind = draw(8);
    if (kind == 0) return whole;
    if (kind <= 2) return tp(draw(2), 2);
    if (kind == 3) return tp(draw(4), 4);
    if (kind == 4) return draw(2) ? Range{0, 3, 0, 0} : Range{3, 2, 0, 0};
    if (kind == 5) return draw(2) ? Range{0, 1, 0, 0} : Range{1, 4, 0, 0};
    if (kind == 6) return draw(2) ? Range{1, 3, draw(2) * 4, 4} : Range{3, 1, 0, 0};
    const uint32_t layer = draw(layer_count), head = draw(5);
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
    const uint64_t length = seq.tokens.size();
    const kvc_seq_info info = host.info(handles[i]);
    ASSERT_EQ(info.tokens, length);
    ASSERT_EQ(info.tokens_sealed, seq.sealed.size() * chunk);
    uint64_t named = 0, end = length ? length - 1 : 0;
    while (named < seq.sealed.size() && seq.sealed[named]->is_named) named++;
    if (!is_whole(seq.range)) {
      ASSERT_EQ(info.tokens_shareable, seq.is_private ? 0 : named < seq.sealed.size() ? named * chunk : length);
    }
    while (!seq.ends_at(end)) end--;
    ASSERT_EQ(info.tokens_end, end);
    std::list<PartsHost::Moved> list;
    for (uint32_t l = seq.range.layer_begin; l < (seq.range.layer_count ? seq.range.layer_begin + seq.range.layer_count : layer_count); l++) {
      const bool split = seq.range.head_count && mixed[l].kv_heads > 1;
      const uint64_t begin = kind_of(l) == KVC_LAYER_WINDOW ? seen_from(l, length) : kind_of(l) == KVC_LAYER_STATE && length ? length - 1 : 0;
      if (begin < length) host.moved(list, l, split ? seq.range.head_begin : 0, split ? seq.range.head_count : mixed[l].kv_heads, begin, length);
    }
    if (list.empty()) return;
    const auto rows = PartsHost::runs_of(list);
    ASSERT_EQ(kvc_gather(nullptr, handles[i], rows.data(), rows.size(), nullptr, &host.error), KVC_OK) << host.error.message;
    uint64_t wrong = 0;
    for (auto &m : list)
      m.each([&](uint16_t &e, bool is_k, uint64_t t, uint32_t h, uint32_t d) {
        const bool state = kind_of(m.layer) == KVC_LAYER_STATE;
        const uint64_t c = (state ? t - 1 : t) / chunk;
        const uint64_t writer = state && length % chunk ? seq.snapshot : at(c < seq.sealed.size() ? seq.sealed[c]->content : seq.open, m.layer, h, state ? 0 : t);
        wrong += e != PartsHost::element(writer, is_k, m.layer, t, h, d);
      });
    ASSERT_EQ(wrong, 0u) << "elements of layers from " << seq.range.layer_begin << ", heads from " << seq.range.head_begin << ", " << length << " tokens";
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
    // Often to the end of a chunk, where a match can end.
    const auto added = more(seq, draw(2) ? 1 + draw(40) : chunk - seq.tokens.size() % chunk + chunk * draw(2));
    std::vector<int32_t> all = seq.tokens;
    all.insert(all.end(), added.begin(), added.end());
    const uint64_t writer = 100 + seq.engine;
    ASSERT_EQ(host.append(handles[i], seq.range, writer, all, seq.tokens.size(), all.size()), KVC_OK) << host.error.message;
    model.append(seq, added, writer);
  }
  void truncate(size_t i) {
    Seq &seq = *seqs[i];
    uint64_t tokens = draw(static_cast<uint32_t>(seq.tokens.size()) + 1);
    if (draw(2)) tokens = tokens / chunk * chunk;
    const kvc_status status = kvc_seq_truncate(handles[i], tokens, &host.error);
    if (!seq.ends_at(tokens)) {
      refused++;
      ASSERT_TRUE(status == KVC_ERR_NO_SNAPSHOT || status == KVC_ERR_GONE) << status;
      return;
    }
    ASSERT_EQ(status, KVC_OK) << host.error.message;
    model.truncate(seq, tokens);
    cuts += seq.cut != nullptr;
  }
  void step() {
    const size_t i = draw(static_cast<uint32_t>(seqs.size()));
    if (!seqs[i]) return start(i);
    Seq &seq = *seqs[i];
    const uint32_t what = draw(10);
    if (what < 5 && seq.tokens.size() < 90) return append(i);
    if (what < 7) return truncate(i);
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

TEST(HybridPartsHistory, every_element_that_is_read_is_the_one_that_the_model_has) {
  uint64_t joined = 0, ends = 0, cuts = 0, refused = 0, taken = 0;
  for (uint32_t seed = 1; seed <= 8; seed++) {
    History history(seed);
    for (int i = 0; i < 300; i++) {
      history.step();
      history.model.sweep(history.seqs);
      if (i % 4 == 0) history.look();
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
    for (const auto &[name, node] : history.model.names) joined += node->is_sliced && covers(node->content, whole, 0);
    for (const int32_t salt : {0, 1}) ends += history.model.match(whole, ids(96, salt)) / chunk;
    cuts += history.cuts, refused += history.refused, taken += history.model.taken;
    EXPECT_EQ(kvc_store_verify(nullptr, history.host.store, nullptr, &history.host.error), KVC_OK) << history.host.error.message;
  }
  EXPECT_GT(joined, 0u) << "chunks whose slices and pieces all came";
  EXPECT_GT(ends, 0u) << "ends of the whole model";
  EXPECT_GT(cuts, 5u);
  EXPECT_GT(refused, 5u);
  EXPECT_GT(taken, 0u) << "chunks that a part took for what they lacked";
  RecordProperty("joined", static_cast<int>(joined));
}

}  // namespace

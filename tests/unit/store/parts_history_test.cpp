#include <array>

#include "parts_history.h"

/// Random histories of sequences of parts against a model that is slow and simple: it knows of every element of every chunk who wrote it.
namespace {

using namespace kvc_test;

constexpr uint32_t layer_count = 4, heads = PartsHost::heads, chunk = PartsHost::chunk;
/// Who wrote each (layer, head, token) of a chunk; 0: nobody.
using Content = std::array<uint64_t, layer_count * heads * chunk>;

using NodePtr = std::shared_ptr<HistoryNode<Content>>;
using Seq = HistorySeq<Content>;

uint64_t &at(Content &content, uint32_t layer, uint32_t head, uint64_t token) { return content[(layer * heads + head) * chunk + token % chunk]; }

template <typename Do>
void each_row(const Range &r, Do &&act) {
  for (uint32_t l = r.layer_begin; l < (r.layer_count ? r.layer_begin + r.layer_count : layer_count); l++)
    for (uint32_t h = r.head_begin; h < (r.head_count ? r.head_begin + r.head_count : heads); h++) act(l, h);
}

bool covers(NodePtr node, const Range &r) {
  bool all = true;
  each_row(r, [&](uint32_t l, uint32_t h) { all = all && at(node->content, l, h, 0); });
  return all;
}

struct Model : HistoryModel<Content> {
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
        ref = make(seq, name, parent, named, !is_whole(seq.range));
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
};

struct History : PartsHistory<History, Model, Seq> {
  explicit History(uint32_t seed) : PartsHistory({full_layers(layer_count, heads, PartsHost::k_dim, PartsHost::v_dim)}, seed) {}
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
  void check(size_t i) {
    Seq &seq = *seqs[i];
    const kvc_seq_info info = host.info(handles[i]);
    check_info(info, seq);
    if (info.tokens == 0) return;
    host.expect_rows(handles[i], seq.range, 0, info.tokens, [&](uint32_t l, uint64_t t, uint32_t h) {
      const uint64_t c = t / chunk;
      return c < seq.sealed.size() ? at(seq.sealed[c]->content, l, h, t) : at(seq.open, l, h, t);
    });
  }
  uint64_t append_tokens(const Seq &) { return 1 + draw(40); }
  void truncate(size_t i) {
    const uint64_t tokens = draw(static_cast<uint32_t>(seqs[i]->tokens.size()) + 1);
    ASSERT_EQ(kvc_seq_truncate(handles[i], tokens, &host.error), KVC_OK) << host.error.message;
    model.truncate(*seqs[i], tokens);
  }
};

TEST(PartsHistory, every_element_that_is_read_is_the_one_that_the_model_has) {
  uint64_t joined = 0;
  for (uint32_t seed = 1; seed <= 6; seed++) {
    History history(seed);
    history.run(seed, 300);
    if (testing::Test::HasFatalFailure()) return;
    for (const auto &[name, node] : history.model.names) joined += node->is_sliced && covers(node, whole);
  }
  EXPECT_GT(joined, 3u) << "chunks whose slices all came";
}

}  // namespace

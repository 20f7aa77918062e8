#include <array>

#include "parts_history.h"

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

using NodePtr = std::shared_ptr<HistoryNode<Content>>;

/// Layers of a kind (0: all) in a part, with its heads.
template <typename Do>
void each_row(const Range &r, uint32_t kind, Do &&act) {
  for (uint32_t l = r.layer_begin; l < (r.layer_count ? r.layer_begin + r.layer_count : layer_count); l++) {
    if (kind && kind_of(l) != kind) continue;
    const bool split = r.head_count && mixed[l].kv_heads > 1;
    for (uint32_t h = split ? r.head_begin : 0; h < (split ? r.head_begin + r.head_count : mixed[l].kv_heads); h++) act(l, h);
  }
}
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

struct Seq : HistorySeq<Content> {
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

struct Model : HistoryModel<Content> {
  uint64_t taken = 0;

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
      ref = make(seq, name, parent, named, !has_all_main(seq.range));
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
};

struct History : PartsHistory<History, Model, Seq> {
  uint64_t cuts = 0, refused = 0;

  explicit History(uint32_t seed) : PartsHistory(mixed, seed) {}
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
  void check(size_t i) {
    Seq &seq = *seqs[i];
    const uint64_t length = seq.tokens.size();
    const kvc_seq_info info = host.info(handles[i]);
    check_info(info, seq);
    uint64_t end = length ? length - 1 : 0;
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
  /// Often to the end of a chunk, where a match can end.
  uint64_t append_tokens(const Seq &seq) { return draw(2) ? 1 + draw(40) : chunk - seq.tokens.size() % chunk + chunk * draw(2); }
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
};

TEST(HybridPartsHistory, every_element_that_is_read_is_the_one_that_the_model_has) {
  uint64_t joined = 0, ends = 0, cuts = 0, refused = 0, taken = 0;
  for (uint32_t seed = 1; seed <= 8; seed++) {
    History history(seed);
    history.run(seed, 300);
    if (testing::Test::HasFatalFailure()) return;
    for (const auto &[name, node] : history.model.names) joined += node->is_sliced && covers(node->content, whole, 0);
    for (const int32_t salt : {0, 1}) ends += history.model.match(whole, ids(96, salt)) / chunk;
    cuts += history.cuts, refused += history.refused, taken += history.model.taken;
  }
  EXPECT_GT(joined, 0u) << "chunks whose slices and pieces all came";
  EXPECT_GT(ends, 0u) << "ends of the whole model";
  EXPECT_GT(cuts, 5u);
  EXPECT_GT(refused, 5u);
  EXPECT_GT(taken, 0u) << "chunks that a part took for what they lacked";
  RecordProperty("joined", static_cast<int>(joined));
}

}  // namespace

// The steps over models with window and state layers, and over events.
#include <algorithm>
#include <cstring>

#include "inside.h"
#include "scenario.h"

namespace kvc::fault {
namespace {

constexpr uint32_t kWindow = 20, kStateBytes = 24;
enum : uint32_t { full_layer, window_layer, state_layer };

kvc_layer layer_of(uint32_t kind) {
  if (kind == state_layer) return {1, KVC_LAYER_STATE, 1, kStateBytes, 0, 0, 0, 0, 0, {0, 0, 0}};
  if (kind == window_layer) return {1, KVC_LAYER_WINDOW, 1, 4, 6, 0, kWindow, 0, 0, {0, 0, 0}};
  return {1, KVC_LAYER_FULL, 2, 5, 3, 0, 0, 0, 0, {0, 0, 0}};
}

/// Rows of one layer in memory of their own, stamped by writer and place.
struct BesideRows {
  std::vector<uint8_t> k, v;
  kvc_rows rows;

  /// `writer` 0: to be read into.
  BesideRows(uint32_t kind, uint64_t begin, uint64_t end, uint64_t writer) {
    const kvc_layer layer = layer_of(kind);
    const uint64_t count = kind == state_layer ? 1 : end - begin, element = kind == state_layer ? 1 : 2;
    k.resize(count * layer.kv_heads * layer.k_dim * element), v.resize(count * layer.kv_heads * layer.v_dim * element);
    for (uint64_t i = 0; writer && i < k.size(); i++) k[i] = static_cast<uint8_t>(model::stamp_of(writer, kind, begin * 64 + i) >> 8);
    for (uint64_t i = 0; writer && i < v.size(); i++) v[i] = static_cast<uint8_t>(model::stamp_of(writer, kind + 8, begin * 64 + i) >> 8);
    KVC_INIT(&rows);
    rows.layer_begin = kind, rows.layer_count = 1, rows.token_begin = begin, rows.token_count = end - begin;
    rows.k.data = k.data(), rows.k.bytes = k.size();
    if (!v.empty()) rows.v.data = v.data(), rows.v.bytes = v.size();
  }
};

void put_number(std::string &to, uint64_t number) { to.append(reinterpret_cast<const char *>(&number), sizeof number); }

}  // namespace

/// Tokens [begin, end) of the prompt; of window layers from `window_begin` on, and a snapshot at the end if `snapshot`.
kvc_status Scenario::append_beside(kvc_seq *seq, uint64_t begin, uint64_t end, uint64_t window_begin, bool snapshot, uint64_t writer) {
  const std::vector<int32_t> ids(prompt_.begin() + static_cast<int64_t>(begin), prompt_.begin() + static_cast<int64_t>(end));
  BesideRows full(full_layer, begin, end, writer), window(window_layer, window_begin, end, writer), state(state_layer, states_from_, end, writer);
  const kvc_rows rows[] = {full.rows, window.rows, state.rows};
  const kvc_status status = kvc_append(seq, ids.data(), ids.size(), rows, snapshot ? 3 : 2, nullptr, &error_);
  if (status == KVC_OK && snapshot) states_from_ = end;
  return status;
}

kvc_status Scenario::create_beside(kvc_scope **out, const char *name, std::vector<uint32_t> kinds) {
  std::vector<kvc_layer> layers;
  for (const uint32_t kind : kinds) layers.push_back(layer_of(kind));
  kvc_shape shape;
  KVC_INIT(&shape);
  shape.dtype = KVC_F16, shape.chunk_tokens = 16, shape.layers = layers.data(), shape.layer_runs = layers.size();
  kvc_scope_options o;
  KVC_INIT(&o);
  o.model = name, o.shape = &shape;
  return kvc_scope_create(out, store_, &o, &error_);
}

/// Sequences whose layers differ: what is appended, matched, branched and saved of them has pieces beside its chunks.
void Scenario::add_beside() {
  const size_t before = steps_.size();
  add("scope_create of a model with windows and states", [this] { return create_beside(&hybrid_, "hybrid", {full_layer, window_layer, state_layer}); });
  add("seq_create of that model", [this] { return kvc_seq_create(&beside_, hybrid_, nullptr, &error_); });
  add("append rows, window rows and a snapshot", [this] { return append_beside(beside_, 0, 32, 0, true, 30); });
  add("append with window rows left out", [this] { return append_beside(beside_, 32, 70, 51, false, 31); });
  add("append a snapshot of an odd position", [this] {
    BesideRows state(state_layer, 32, 70, 32);
    return kvc_append(beside_, nullptr, 0, &state.rows, 1, nullptr, &error_);
  });
  add("match to a snapshot", [this] { return kvc_match(&beside_match_, nullptr, hybrid_, prompt_.data(), 60, nullptr, nullptr, &error_); });
  add("append what is held and a snapshot that is not", [this] {
    states_from_ = 32;
    return append_beside(beside_match_, 32, 48, 32, true, 33);
  });
  add("fork at an odd position", [this] { return kvc_seq_fork(&beside_fork_, beside_, KVC_ALL, &error_); });
  add("append to that fork", [this] {
    states_from_ = 70;
    return append_beside(beside_fork_, 70, 84, 70, true, 34);
  });
  add("truncate to a snapshot", [this] { return kvc_seq_truncate(beside_fork_, 32, &error_); });
  add("append other rows behind a snapshot", [this] {
    states_from_ = 32;
    return append_beside(beside_fork_, 32, 50, 32, true, 35);
  });
  add("lease of what a match needs there", [this] { return kvc_seq_lease(&beside_lease_, beside_, 0, 40, KVC_FOREVER, nullptr, &error_); });
  add("view_acquire of a snapshot", [this] {
    kvc_rows rows;
    KVC_INIT(&rows);
    return kvc_view_acquire(&beside_view_, &rows, beside_, state_layer, 69, 0, &error_);
  });
  add("prefetch of window rows", [this] {
    BesideRows rows(window_layer, 51, 70, 0);
    return kvc_seq_prefetch(nullptr, beside_, &rows.rows, 1, KVC_TIER_HOST, nullptr, &error_);
  });
  add("gather of rows, window rows and a snapshot", [this] {
    BesideRows full(full_layer, 0, 70, 0), window(window_layer, 51, 70, 0), state(state_layer, 0, 70, 0);
    const kvc_rows rows[] = {full.rows, window.rows, state.rows};
    return kvc_gather(nullptr, beside_, rows, 3, nullptr, &error_);
  });
  add("seq_save of that model", [this] { return kvc_seq_save(beside_, (folder_ / "beside").c_str(), nullptr, &error_); });
  add("seq_restore of that model", [this] { return kvc_seq_restore(&beside_back_, hybrid_, (folder_ / "beside").c_str(), nullptr, nullptr, &error_); });
  add("seq_reorder of that model", [this] {
    kvc_seq *const seqs[] = {beside_fork_, beside_match_};
    const uint32_t source[] = {1, 1};
    return kvc_seq_reorder(seqs, source, 2, &error_);
  });
  add("scope_create of a model with windows", [this] { return create_beside(&windows_, "windows", {full_layer, window_layer}); });
  add("seq_create of windows", [this] { return kvc_seq_create(&windowed_, windows_, nullptr, &error_); });
  add("append to windows", [this] { return append_beside(windowed_, 0, 55, 0, false, 36); });
  add("seq_compact of windows", [this] {
    std::vector<uint64_t> positions;
    for (uint64_t i = 0; i < 55; i++)
      if (i < 16 || i % 5) positions.push_back(i);
    return kvc_seq_compact(windowed_, positions.data(), positions.size(), &error_);
  });
  for (size_t i = before; i < steps_.size(); i++) steps_[i].beside = true;
}

void Scenario::add_events() {
  add("queue_create for events", [this] { return kvc_queue_create(&events_, store_, nullptr, &error_); });
  add("event_watch", [this] { return kvc_event_watch(events_, nullptr, KVC_EVENT_STORED | KVC_EVENT_REMOVED | KVC_EVENT_CLEARED, &error_); });
  add("queue_fd", [this] {
    int fd;
    return kvc_queue_fd(&fd, events_, &error_);
  });
  add("event_watch of one scope", [this] { return kvc_event_watch(events_, scope_, KVC_EVENT_STORED | KVC_EVENT_REMOVED, &error_); });
}

/// What the events have told so far, as a mirror has it; draining twice is as good as once.
std::string Scenario::told() {
  for (size_t count = 1; events_ && count;) {
    kvc_event events[16];
    KVC_INIT(&events[0]);
    if (kvc_event_drain(events, 16, &count, events_, &error_) != KVC_OK) return error_.message;
    for (size_t i = 0; i < count; i++) {
      const kvc_event &event = events[i];
      const std::string name(reinterpret_cast<const char *>(event.chunk), sizeof event.chunk);
      told_number_ = event.sequence_number;
      if (event.kind == KVC_EVENT_STORED) told_[name] = std::string(reinterpret_cast<const char *>(event.tokens), event.token_count * 4);
      if (event.kind == KVC_EVENT_REMOVED) told_.erase(name);
    }
  }
  std::string all;
  put_number(all, told_number_);
  for (const auto &[name, tokens] : told_) all += name + tokens;
  return all;
}

void Scenario::snapshot_beside(std::string &to, bool held_only) {
  for (kvc_seq **seq : beside_sequences()) {
    if (!*seq) continue;
    kvc_seq_info info;
    KVC_INIT(&info);
    put_number(to, static_cast<uint64_t>(kvc_seq_get_info(&info, *seq, &error_)));
    for (const uint64_t number : {info.tokens, info.tokens_given, info.tokens_sealed, info.tokens_held, info.tokens_shareable}) put_number(to, number);
    if (!held_only && !conditions_.tight) put_number(to, info.tokens_end);  // pieces behind the position may go
    for (const uint32_t kind : {full_layer, window_layer, state_layer}) {
      BesideRows rows(kind, kind == window_layer && info.tokens > kWindow ? info.tokens + 1 - kWindow : 0, 200, 0);
      rows.rows.token_count = KVC_ALL;
      put_number(to, static_cast<uint64_t>(kvc_gather(nullptr, *seq, &rows.rows, 1, nullptr, &error_)));
      to.append(rows.k.begin(), rows.k.end()).append(rows.v.begin(), rows.v.end());
    }
  }
}

}  // namespace kvc::fault

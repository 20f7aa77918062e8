#include "scenario.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/handle.h"
#include "inside.h"
#include "store/store.h"

namespace kvc::fault {
namespace {

constexpr uint64_t kChunk = 16, kAmpleBytes = 8 << 20, kTightBytes = 2 << 20;
constexpr size_t kFillerBytes = 14000;  // about the slot of a chunk

void put_number(std::string &to, uint64_t number) { to.append(reinterpret_cast<const char *>(&number), sizeof number); }

}  // namespace

Scenario::Scenario(Conditions conditions) : conditions_(conditions), geometry_(model::geometries()[0]) {
  KVC_INIT(&error_);
  for (int32_t i = 0; i < 200; i++) prompt_.push_back(i * 3), other_.push_back(i < 20 ? i * 3 : i * 5 + 1);
  add_opening();
  add_events();
  add_sequences();
  add_branches();
  add_reads();
  add_queue();
  add_views();
  add_files();
  add_objects();
  add_rearranged();
  add_beside();
  add_limits();
  add_queue_end();
  add_ending();
}

Scenario::~Scenario() { (void)close(); }

kvc_status Scenario::close() { return kvc_close(std::exchange(store_, nullptr), &error_); }

uint64_t Scenario::metadata_bytes() const {
  void *store;
  base::Error error;
  const kvc_status status = base::store_of(&store, base::token_unpack(reinterpret_cast<uint64_t>(store_)), base::HandleKind::store, error);
  return status == KVC_OK ? static_cast<store::Store *>(store)->metadata().used_bytes() : 0;
}

kvc_status Scenario::append(kvc_seq *seq, const std::vector<int32_t> &ids, uint64_t begin, uint64_t end, uint32_t layer, uint32_t layer_count, uint64_t writer) {
  model::Random random(writer);
  std::vector<std::unique_ptr<model::Block>> blocks;
  std::vector<kvc_rows> rows;
  for (uint32_t l = layer; l < layer + layer_count && begin < end; l++) {
    blocks.push_back(std::make_unique<model::Block>(geometry_, model::Block::Part{l, 1, 0, geometry_.layers[l].heads}, end - begin, random));
    blocks.back()->fill([&](uint32_t number, uint64_t row) { return model::stamp_of(writer, number, begin + row); });
    rows.push_back(blocks.back()->rows());
    rows.back().token_begin = begin;
    rows.back().token_count = end - begin;
  }
  return kvc_append(seq, ids.data(), ids.size(), rows.data(), rows.size(), nullptr, &error_);
}

void Scenario::add_opening() {
  add("open", [this] {
    kvc_store_options o;
    KVC_INIT(&o);
    o.memory_bytes = o.open_bytes_max = conditions_.tight ? kTightBytes : kAmpleBytes;
    o.lease_ms = KVC_FOREVER;
    o.flags = conditions_.verify_reads ? KVC_OPEN_VERIFY_READS : 0;
    return kvc_open(&store_, "mem:", &o, &error_);
  });
  add("scope_create", [this] {
    const kvc_shape shape = geometry_.shape();
    kvc_scope_options o;
    KVC_INIT(&o);
    o.model = "scenario", o.shape = &shape;
    return kvc_scope_create(&scope_, store_, &o, &error_);
  });
  add("scope_create of objects", [this] {
    kvc_scope_options o;
    KVC_INIT(&o);
    o.model = "objects", o.bytes_max = 1u << 30;
    return kvc_scope_create(&objects_, store_, &o, &error_);
  });
  if (!conditions_.tight) return;
  add("fill", [this] { return fill(); });
  steps_.back().prepares = true;
}

kvc_status Scenario::put_value(kvc_scope *scope, const std::string &key, size_t bytes) {
  std::vector<uint8_t> value(bytes, 7);
  kvc_bytes part{value.data(), value.size()};
  kvc_object object{};
  object.key = key.data(), object.key_size = key.size(), object.parts = &part, object.part_count = 1;
  return kvc_object_put(nullptr, scope, &object, 1, nullptr, nullptr, &error_);
}

/// Values of somebody else, until the first of them has to go.
kvc_status Scenario::fill() {
  kvc_scope_options o;
  KVC_INIT(&o);
  o.model = "others";
  kvc_status status = kvc_scope_create(&others_, store_, &o, &error_);
  kvc_metrics metrics;
  KVC_INIT(&metrics);
  for (int i = 0; status == KVC_OK && metrics.evicted_chunks == 0; i++) {
    status = put_value(others_, std::to_string(i), kFillerBytes);
    if (status == KVC_OK) status = kvc_metrics_read(&metrics, store_, &error_);
  }
  return status;
}

void Scenario::add_sequences() {
  const auto part = [this](uint64_t begin, uint64_t end) { return std::vector<int32_t>(prompt_.begin() + static_cast<int64_t>(begin), prompt_.begin() + static_cast<int64_t>(end)); };
  add("seq_create", [this] {
    kvc_seq_options o;
    KVC_INIT(&o);
    const kvc_extra extra{40, 10, "image", 5};
    o.extras = &extra, o.extra_count = 1;
    return kvc_seq_create(&first_, scope_, &o, &error_);
  });
  add("append ids", [=, this] { return append(first_, part(0, 60), 0, 0, 0, 0, 1); });
  add("append a layer", [this] { return append(first_, {}, 0, 56, 2, 1, 2); });
  add("append the other layers", [this] { return append(first_, {}, 0, 40, 0, 2, 3); });
  add("append all layers, the rest", [this] { return append(first_, {}, 40, 60, 0, 2, 4); });
  add("append one layer to the end", [this] { return append(first_, {}, 56, 60, 2, 1, 5); });
  add("identify", [this] {
    const kvc_extra extra{70, 3, "later", 5};
    return kvc_seq_identify(first_, &extra, 1, &error_);
  });
  add("append a token", [=, this] { return append(first_, part(60, 61), 60, 61, 0, 3, 6); });
  const auto match = [=, this](kvc_seq **out, uint32_t flags) {
    kvc_seq_options o;
    KVC_INIT(&o);
    const kvc_extra extra{40, 10, "image", 5};
    o.flags = flags, o.extras = &extra, o.extra_count = 1;
    kvc_match_info info;
    KVC_INIT(&info);
    const kvc_status status = kvc_match(out, &info, scope_, prompt_.data(), 2 * kChunk, &o, nullptr, &error_);
    return status == KVC_OK && info.tokens != 2 * kChunk ? KVC_ERR_INTERNAL : status;
  };
  add("match", [=, this] { return match(&matched_, 0); });
  add("match, a look", [=] { return match(nullptr, KVC_SEQ_PEEK); });
  add("append what is held and more", [=, this] { return append(matched_, part(32, 100), 32, 100, 0, 3, 7); });
}

void Scenario::add_branches() {
  add("fork", [this] { return kvc_seq_fork(&whole_, first_, KVC_ALL, &error_); });
  add("fork in a chunk", [this] { return kvc_seq_fork(&cut_, first_, 20, &error_); });
  add("append to a fork with open rows", [this] { return append(whole_, {1, 2, 3, 4, 5, 6, 7}, 61, 68, 0, 3, 8); });
  add("fork with open rows", [this] { return kvc_seq_fork(&late_, whole_, KVC_ALL, &error_); });
  const std::vector<int32_t> ahead(other_.begin() + 100, other_.begin() + 128);
  add("append ids ahead", [=, this] { return append(late_, ahead, 68, 70, 0, 3, 13); });
  add("append the same to the other", [=, this] { return append(whole_, ahead, 68, 96, 0, 3, 14); });
  add("append what is held behind own rows", [this] { return append(late_, {}, 70, 90, 0, 3, 15); });
  add("append to a fork that was cut", [this] { return append(cut_, {other_.begin() + 20, other_.begin() + 90}, 20, 90, 0, 3, 9); });
  add("lease of what is cut off", [this] { return kvc_seq_lease(&cut_lease_, matched_, 0, KVC_ALL, KVC_FOREVER, nullptr, &error_); });
  add("truncate in a chunk", [this] { return kvc_seq_truncate(matched_, 70, &error_); });
  add("append other rows", [this] { return append(matched_, {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}, 70, 86, 0, 3, 10); });
  add("truncate among open rows", [this] { return kvc_seq_truncate(matched_, 82, &error_); });
  add("seq_create, private", [this] {
    kvc_seq_options o;
    KVC_INIT(&o);
    o.flags = KVC_SEQ_PRIVATE;
    return kvc_seq_create(&private_, scope_, &o, &error_);
  });
  add("append without ids", [this] { return append(private_, {}, 0, 55, 0, 3, 11); });
  add("truncate the private one", [this] { return kvc_seq_truncate(private_, 37, &error_); });
  add("append to the private one", [this] { return append(private_, {}, 37, 70, 0, 3, 12); });
}

kvc_status Scenario::gather(kvc_seq *seq, int runs, bool blocks, bool list, kvc_queue *queue) {
  model::Random random(9);
  std::vector<std::unique_ptr<model::Block>> to;
  std::vector<kvc_rows> rows;
  const uint64_t entries[] = {3, 30, 31, 32, 7};
  std::vector<int32_t> table;
  for (int32_t i = 0; i < 64; i++) table.push_back(63 - i);
  for (int i = 0; i < runs; i++) {
    const uint32_t layer = static_cast<uint32_t>(i % 3);
    to.push_back(std::make_unique<model::Block>(geometry_, model::Block::Part{layer, 1, 0, geometry_.layers[layer].heads}, 64, random));
    kvc_rows r = to.back()->rows();
    r.slot_begin = 0;
    r.block_tokens = 0, r.blocks = nullptr, r.block_count = 0;
    for (kvc_array *array : {&r.k, &r.v}) array->token_stride = array->head_stride = array->block_stride = array->layer_stride = 0;
    r.token_count = 40;
    if (list) r.token_list = entries, r.token_count = 5;
    if (blocks) r.block_tokens = 1, r.blocks = table.data(), r.block_count = table.size();
    rows.push_back(r);
  }
  kvc_result result;
  KVC_INIT(&result);
  kvc_call call;
  KVC_INIT(&call);
  call.queue = queue;
  if (const kvc_status status = kvc_gather(&result, seq, rows.data(), rows.size(), &call, &error_); status != KVC_OK || !queue) return status;
  for (size_t count = 0; count == 0;)
    if (kvc_queue_drain(&result, 1, &count, queue, 1000000, &error_) != KVC_OK) return error_.status;
  std::snprintf(error_.message, sizeof error_.message, "%s", result.message);
  return result.status;
}

void Scenario::add_reads() {
  add("gather", [this] { return gather(first_, 1, false, false); });
  add("gather many runs", [this] { return gather(first_, 60, false, false); });
  add("gather a list", [this] { return gather(matched_, 2, false, true); });
  add("gather into blocks", [this] { return gather(private_, 3, true, false); });
  add("lease", [this] { return kvc_seq_lease(&lease_, first_, 0, KVC_ALL, KVC_FOREVER, nullptr, &error_); });
  add("lease_renew", [this] { return kvc_lease_renew(lease_, KVC_FOREVER, &error_); });
  add("seq_get_info", [this] {
    kvc_seq_info info;
    KVC_INIT(&info);
    return kvc_seq_get_info(&info, first_, &error_);
  });
  add("store_get_info", [this] {
    kvc_store_info info;
    KVC_INIT(&info);
    return kvc_store_get_info(&info, store_, &error_);
  });
  add("scope_get_info", [this] {
    kvc_scope_info info;
    KVC_INIT(&info);
    return kvc_scope_get_info(&info, scope_, &error_);
  });
  add("store_verify", [this] { return verify(); });
}

void Scenario::add_queue() {
  add("queue_create", [this] { return kvc_queue_create(&queue_, store_, nullptr, &error_); });
  add("gather in a queue", [this] { return gather(first_, 1, false, false, queue_); });
  add("gather many runs into blocks in a queue", [this] { return gather(private_, 60, true, false, queue_); });
}

void Scenario::add_views() {
  const auto acquire = [this](kvc_view **out, kvc_seq *seq, uint64_t token, uint32_t flags) {
    kvc_rows rows;
    KVC_INIT(&rows);
    return kvc_view_acquire(out, &rows, seq, 1, token, flags, &error_);
  };
  add("view_acquire", [=, this] { return acquire(&view_, first_, 5, KVC_VIEW_FRAME); });
  add("view_acquire of an open page", [=, this] { return acquire(&open_view_, late_, 88, 0); });
  add("append below an open view", [this] { return append(late_, {}, 90, 92, 0, 3, 16); });
  add("view_release", [this] {
    const kvc_status status = kvc_view_release(open_view_, &error_);
    if (status == KVC_OK) open_view_ = nullptr;
    return status;
  });
}

/// Sequences into files and back: what is held is taken as it is, what is not is read.
void Scenario::add_files() {
  const auto path = [this](const char *name) { return folder_ / name; };
  add("trace_record", [=, this] { return kvc_trace_record(store_, path("trace").c_str(), &error_); });
  add("seq_save", [=, this] { return kvc_seq_save(first_, path("first").c_str(), nullptr, &error_); });
  add("seq_save over a file", [=, this] { return kvc_seq_save(private_, path("first").c_str(), nullptr, &error_); });
  add("seq_save of another", [=, this] { return kvc_seq_save(late_, path("late").c_str(), nullptr, &error_); });
  add("seq_restore of what nobody else has", [=, this] { return kvc_seq_restore(&fresh_, scope_, path("first").c_str(), nullptr, nullptr, &error_); });
  add("seq_restore of what is held", [=, this] { return kvc_seq_restore(&restored_, scope_, path("late").c_str(), nullptr, nullptr, &error_); });
  add("trace_record, its end", [this] { return kvc_trace_record(store_, nullptr, &error_); });
}

kvc_status Scenario::verify() { return kvc_store_verify(nullptr, store_, nullptr, &error_); }

kvc_status Scenario::put(const char *key, size_t bytes, uint32_t flags) {
  std::vector<uint8_t> value(bytes, static_cast<uint8_t>(key[0]));
  kvc_bytes part{value.data(), value.size()};
  std::string keys[3] = {key, key + std::string(40, 'x'), std::string(key) + "2"};
  kvc_object objects[3] = {};
  for (int i = 0; i < 3; i++) {
    objects[i].key = keys[i].data(), objects[i].key_size = keys[i].size();
    objects[i].parts = &part, objects[i].part_count = 1;
  }
  kvc_object_options o;
  KVC_INIT(&o);
  o.flags = flags;
  return kvc_object_put(nullptr, objects_, objects, flags & KVC_OBJECT_GROUP ? 3 : 1, &o, nullptr, &error_);
}

/// 20 tokens of the first two layers: K of both, then V of both.
kvc_status Scenario::put_typed() {
  const kvc_layer &layer = geometry_.runs[0];
  const uint64_t row = 20 * layer.kv_heads * 2;
  std::vector<uint8_t> value(2 * row * (layer.k_dim + layer.v_dim), 7);
  const uint64_t first = value.size() / 3;
  const kvc_bytes parts[] = {{value.data(), first}, {value.data() + first, value.size() - first}};
  kvc_rows layout;
  KVC_INIT(&layout);
  layout.layer_count = 2, layout.token_count = 20;
  layout.k.layer_stride = row * layer.k_dim, layout.v.layer_stride = row * layer.v_dim;
  layout.v.data = reinterpret_cast<void *>(2 * row * layer.k_dim);
  kvc_object object{};
  object.key = "typed", object.key_size = 5, object.parts = parts, object.part_count = 2;
  kvc_object_options o;
  KVC_INIT(&o);
  o.layout = &layout;
  return kvc_object_put(nullptr, scope_, &object, 1, &o, nullptr, &error_);
}

void Scenario::add_objects() {
  add("object_put with a layout", [this] { return put_typed(); });
  add("object_put with a layout again", [this] { return put_typed(); });
  add("object_put", [this] { return put("a", 3000, 0); });
  add("object_put again", [this] { return put("a", 3000, 0); });
  add("object_exists with a lease", [this] {
    kvc_object object{};
    object.key = "a", object.key_size = 1;
    kvc_object_options o;
    KVC_INIT(&o);
    o.flags = KVC_OBJECT_LEASE;
    o.lease_ms = KVC_FOREVER;
    kvc_result result;
    KVC_INIT(&result);
    const kvc_status status = kvc_object_exists(&result, objects_, &object, 1, &o, nullptr, &error_);
    object_lease_ = result.lease;
    return status;
  });
  add("object_put, a group", [this] { return put("b", 100, KVC_OBJECT_GROUP); });
  add("object_delete", [this] {
    kvc_object object{};
    object.key = "b2", object.key_size = 2;
    return kvc_object_delete(nullptr, objects_, &object, 1, nullptr, &error_);
  });
  add("object_get", [this] {
    std::vector<uint8_t> value(4000);
    kvc_bytes part{value.data(), value.size()};
    kvc_object object{};
    object.key = "a", object.key_size = 1, object.parts = &part, object.part_count = 1;
    return kvc_object_get(nullptr, objects_, &object, 1, nullptr, nullptr, &error_);
  });
  add("object_list", [this] {
    kvc_object_entry entries[8];
    size_t count;
    return kvc_object_list(entries, 8, &count, objects_, nullptr, 0, nullptr, &error_);
  });
}

void Scenario::add_ending() {
  const auto end = [this](kvc_seq *&seq) {
    const kvc_status status = kvc_seq_release(seq, &error_);
    if (status == KVC_OK) seq = nullptr;
    return status;
  };
  add("seq_release", [=, this] { return end(first_); });
  add("seq_release of a fork", [=, this] { return end(cut_); });
  add("seq_release of the private one", [=, this] { return end(private_); });
  const auto end_lease = [this](kvc_lease *&lease) {
    const kvc_status status = kvc_lease_release(lease, &error_);
    if (status == KVC_OK) lease = nullptr;
    return status;
  };
  add("lease_release of what was cut off", [=, this] { return end_lease(cut_lease_); });
  add("lease_release", [=, this] { return end_lease(lease_); });
  add("lease_release of an object", [=, this] { return end_lease(object_lease_); });
  add("scope_clear", [this] { return kvc_scope_clear(nullptr, objects_, nullptr, &error_); });
  add("scope_release", [this] {
    const kvc_status status = kvc_scope_release(objects_, &error_);
    if (status == KVC_OK) objects_ = nullptr;
    return status;
  });
}

void Scenario::snapshot_rows(std::string &to, kvc_seq *seq) {
  if (!seq) return;
  kvc_seq_info info;
  KVC_INIT(&info);
  put_number(to, static_cast<uint64_t>(kvc_seq_get_info(&info, seq, &error_)));
  for (const uint64_t number : {info.tokens, info.tokens_given, info.tokens_sealed, info.tokens_held, info.tokens_shareable}) put_number(to, number);
  for (uint32_t l = 0; l < geometry_.layers.size(); l++) {
    std::vector<uint8_t> rows(200 * 400);
    kvc_rows r;
    KVC_INIT(&r);
    r.layer_begin = l, r.layer_count = 1, r.token_count = KVC_ALL;
    r.k.data = rows.data(), r.k.bytes = rows.size() / 2;
    r.v.data = rows.data() + rows.size() / 2, r.v.bytes = rows.size() / 2;
    kvc_result result;
    KVC_INIT(&result);
    put_number(to, static_cast<uint64_t>(kvc_gather(&result, seq, &r, 1, nullptr, &error_)));
    put_number(to, result.done);
    to.append(rows.begin(), rows.end());
  }
}

std::string Scenario::snapshot(bool held_only) {
  std::string all;
  if (!store_) return all;
  kvc_store_info info;
  KVC_INIT(&info);
  put_number(all, static_cast<uint64_t>(kvc_store_get_info(&info, store_, &error_)));
  for (const uint64_t number : {info.seq_count, info.lease_count, info.view_count}) put_number(all, number);
  if (!held_only) put_number(all, info.chunk_count);
  if (!conditions_.tight) put_number(all, info.memory_pinned);  // there slabs are cut up by what had to go
  if (!conditions_.tight && !held_only) put_number(all, info.memory_used), put_number(all, info.object_count);  // how many of the others had to go may differ
  for (kvc_seq **seq : sequences()) snapshot_rows(all, *seq);
  snapshot_beside(all, held_only);
  if (!held_only) all += told();
  if (!objects_ || held_only) return all;
  kvc_object_entry entries[8];
  size_t count = 0;
  put_number(all, static_cast<uint64_t>(kvc_object_list(entries, 8, &count, objects_, nullptr, 0, nullptr, &error_)));
  for (size_t i = 0; i < count; i++) {
    std::string value(entries[i].value_size, 0);
    kvc_bytes part{value.data(), value.size()};
    kvc_object object{};
    object.key = entries[i].key, object.key_size = entries[i].key_size, object.parts = &part, object.part_count = 1;
    put_number(all, static_cast<uint64_t>(kvc_object_get(nullptr, objects_, &object, 1, nullptr, nullptr, &error_)));
    all.append(reinterpret_cast<const char *>(entries[i].key), entries[i].key_size);
    all += value;
  }
  return all;
}

std::vector<Scenario::Page> Scenario::pages() {
  std::vector<Page> pages;
  for (kvc_seq **seq : sequences()) {
    kvc_seq_info info;
    KVC_INIT(&info);
    if (!*seq || kvc_seq_get_info(&info, *seq, &error_) != KVC_OK) continue;
    for (uint32_t l = 0; l < geometry_.layers.size(); l++)
      for (uint64_t begin = 0; begin < info.tokens; begin += kChunk) {
        std::string rows(2 * 16384, 0);
        kvc_rows r;
        KVC_INIT(&r);
        r.layer_begin = l, r.layer_count = 1, r.token_begin = begin, r.token_count = std::min(kChunk, info.tokens - begin);
        r.k.data = rows.data(), r.k.bytes = rows.size() / 2;
        r.v.data = rows.data() + rows.size() / 2, r.v.bytes = rows.size() / 2;
        const kvc_status status = kvc_gather(nullptr, *seq, &r, 1, nullptr, &error_);
        pages.push_back({begin / kChunk, status == KVC_OK ? std::optional(rows) : std::nullopt});
      }
  }
  return pages;
}

std::string Scenario::lengths() {
  std::string all;
  for (kvc_seq **seq : sequences()) {
    kvc_seq_info info;
    KVC_INIT(&info);
    if (!*seq || kvc_seq_get_info(&info, *seq, &error_) != KVC_OK) continue;
    put_number(all, info.tokens), put_number(all, info.tokens_given), put_number(all, info.tokens_sealed);
  }
  return all;
}

std::string Scenario::release() {
  const auto failed = [this](const char *what) { return std::string(what) + ": " + error_.message; };
  for (kvc_seq **seq : sequences())
    if (kvc_seq_release(std::exchange(*seq, nullptr), &error_) != KVC_OK) return failed("seq_release");
  for (kvc_seq **seq : beside_sequences())
    if (kvc_seq_release(std::exchange(*seq, nullptr), &error_) != KVC_OK) return failed("seq_release");
  if (kvc_queue_release(std::exchange(events_, nullptr), &error_) != KVC_OK) return failed("queue_release");
  if (kvc_queue_release(std::exchange(queue_, nullptr), &error_) != KVC_OK) return failed("queue_release");
  for (kvc_view **view : {&view_, &open_view_, &beside_view_})
    if (kvc_view_release(std::exchange(*view, nullptr), &error_) != KVC_OK) return failed("view_release");
  for (kvc_lease **lease : {&lease_, &cut_lease_, &object_lease_, &beside_lease_})
    if (kvc_lease_release(std::exchange(*lease, nullptr), &error_) != KVC_OK) return failed("lease_release");
  for (kvc_scope **scope : {&objects_, &others_, &limited_, &hybrid_, &windows_})
    if (kvc_scope_release(std::exchange(*scope, nullptr), &error_) != KVC_OK) return failed("scope_release");
  return "";
}

std::string Scenario::drain() {
  const auto failed = [this](const char *what) { return std::string(what) + ": " + error_.message; };
  if (std::string left = release(); !left.empty()) return left;
  // Only room that nothing else is in takes a value as large as the store.
  if (put_value(scope_, "all", (conditions_.tight ? kTightBytes : kAmpleBytes) - 4096) != KVC_OK) return failed("something cannot be evicted");
  kvc_object all{};
  all.key = "all", all.key_size = 3;
  if (kvc_object_delete(nullptr, scope_, &all, 1, nullptr, &error_) != KVC_OK) return failed("object_delete");
  if (kvc_scope_release(std::exchange(scope_, nullptr), &error_) != KVC_OK) return failed("scope_release");
  kvc_store_info info;
  KVC_INIT(&info);
  if (kvc_store_get_info(&info, store_, &error_) != KVC_OK) return failed("store_get_info");
  for (const uint64_t left : {info.memory_used, info.memory_pinned, info.seq_count, info.lease_count, info.view_count, info.chunk_count, info.object_count})
    if (left)
      return "left: " + std::to_string(info.memory_used) + " bytes, " + std::to_string(info.memory_pinned) + " pinned, " + std::to_string(info.seq_count) +
             " sequences, " + std::to_string(info.lease_count) + " leases, " + std::to_string(info.chunk_count) + " chunks, " +
             std::to_string(info.object_count) + " objects";
  return "";
}

}  // namespace kvc::fault

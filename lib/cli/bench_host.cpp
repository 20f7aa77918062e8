#include "cli/bench_host.h"

#include <algorithm>
#include <cstring>

#include "base/handle.h"
#include "store/store.h"

namespace kvc::cli {
namespace {

kvc_layer layer_run(uint32_t count, uint32_t heads, uint32_t dim) {
  kvc_layer run{};
  run.count = count;
  run.kind = KVC_LAYER_FULL;
  run.kv_heads = heads;
  run.k_dim = run.v_dim = dim;
  return run;
}

kvc_shape shape_of(const kvc_layer *run) {
  kvc_shape shape;
  KVC_INIT(&shape);
  shape.dtype = KVC_F16;
  shape.layers = run;
  shape.layer_runs = 1;
  return shape;
}

const kvc_layer kModelRun = layer_run(Model::layers, Model::heads, Model::dim), kNarrowRun = layer_run(Model::layers, 1, 4);
const kvc_shape kModelShape = shape_of(&kModelRun), kNarrowShape = shape_of(&kNarrowRun);
constexpr uint64_t kNarrowSlotBytes = 52 << 10;  // above 32 KiB, so that the slab keeps its books as for large chunks

constexpr Goal at_least(double ratio) { return {Goal::Of::ratio, true, ratio}; }
constexpr Goal ratio_at_most(double ratio) { return {Goal::Of::ratio, false, ratio}; }
constexpr Goal value_at_most(double value) { return {Goal::Of::value, false, value}; }

const Bench kSuite[] = {
    {"host.append_prefill", "GB/s", "512 tokens of all layers in one append", at_least(0.90), &HostBench::append_prefill},
    {"host.gather_contiguous", "GB/s", "8,192 tokens of a layer, heads first", at_least(0.95), &HostBench::gather_contiguous},
    {"host.gather_tokens_first", "GB/s", "8,192 tokens of a layer, tokens first", at_least(0.90), &HostBench::gather_tokens_first},
    {"host.gather_blocks", "GB/s", "8,192 tokens of a layer into 512 blocks of 16", at_least(0.90), &HostBench::gather_blocks},
    {"host.threads", "x", "what a second thread brings to gathers, over what it brings to copies", at_least(0.95), &HostBench::threads},
    {"host.append_token", "ns", "a token of one layer, beyond the copy", value_at_most(150), &HostBench::append_token},
    {"host.overhead", "of payload", "bytes beyond the rows", value_at_most(0.02), &HostBench::overhead},
    {"host.get_4k", "ns", "an object of 4 KiB, beyond the copy", value_at_most(300), &HostBench::get_4k},
    {"host.queue_4k", "ns", "an object of 4 KiB in a queued get of 32, beyond the copy", value_at_most(250), &HostBench::queue_4k},
    {"host.queue_4k_more", "ns", "the same with a call for each, held back and started as one", value_at_most(250), &HostBench::queue_4k_more},
    {"host.step_idle", "ns", "a step with nothing to do", value_at_most(100), &HostBench::step_idle},
    {"host.match", "us", "128K tokens that are held, over their SHA-256", at_least(0.85), &HostBench::match},
    {"host.fork_flat", "us", "a fork of 128K tokens over one of 1K", ratio_at_most(1.5), &HostBench::fork_flat},
    {"host.view", "ns", "a page lent in place and given back", value_at_most(200), &HostBench::view},
    {"host.index", "bytes", "bookkeeping of 1M tokens", value_at_most(2.5e6), &HostBench::index},
    {"host.save", "GB/s", "a sequence of 1 GiB into a file, synced, over a plain write of it", at_least(0.90), &HostBench::save},
    {"host.mixed", "us", "p99 of a gather over its median, four threads, 20 x --seconds under eviction", ratio_at_most(5), &HostBench::mixed},
};

}  // namespace

std::span<const Bench> host_suite() { return kSuite; }

const kvc_shape &model_shape() { return kModelShape; }

RowsFixture::RowsFixture() : handles((chunks + 8) * Model::slot_bytes, &kModelShape), engine(engine_bytes), pages(chunks * Model::slot_bytes) { KVC_INIT(&error); }

kvc_seq *RowsFixture::new_sequence(uint64_t tokens) {
  kvc_seq *seq;
  must(kvc_seq_create(&seq, handles.scope, nullptr, &error), error);
  std::vector<int32_t> ids(tokens);
  for (int32_t &id : ids) id = next_id++;
  if (tokens) must(kvc_append(seq, ids.data(), tokens, nullptr, 0, nullptr, &error), error);
  return seq;
}

void RowsFixture::release(kvc_seq *seq) { must(kvc_seq_release(seq, &error), error); }

std::span<kvc_seq *const> RowsFixture::long_sequences() {
  for (uint64_t s = longs.size(); s < chunks * Model::chunk_tokens / long_tokens; s++) {
    longs.push_back(new_sequence(long_tokens));
    for (uint64_t token = 0; token < long_tokens; token += slab_tokens) {
      kvc_rows rows;
      KVC_INIT(&rows);
      rows.layer_count = Model::layers;
      rows.token_begin = token;
      rows.token_count = slab_tokens;
      rows.k.data = engine.data() + token * Model::token_bytes;
      rows.v.data = engine.data() + token * Model::token_bytes + slab_tokens * Model::token_bytes / 2;
      rows.k.bytes = rows.v.bytes = slab_tokens * Model::token_bytes / 2;
      rows.k.layer_stride = rows.v.layer_stride = slab_tokens * Model::side_row_bytes;
      must(kvc_append(longs.back(), nullptr, 0, &rows, 1, nullptr, &error), error);
    }
  }
  return longs;
}

void RowsFixture::drop_long_sequences() {
  for (kvc_seq *seq : longs) release(seq);
  longs.clear();
}

IndexFixture::IndexFixture() : handles((sequences * chunks + 64) * kNarrowSlotBytes, &kNarrowShape) {
  KVC_INIT(&error);
  const uint64_t before = cli::metadata_bytes(handles.store);
  Noise noise{7};
  std::vector<uint8_t> numbers(uint64_t{Model::layers} * chunk_tokens * 8, 1);
  for (uint64_t s = 0; s < sequences; s++) {
    ids.emplace_back(tokens);
    for (int32_t &id : ids.back()) id = static_cast<int32_t>(noise.next() >> 40);
    seqs.push_back(nullptr);
    must(kvc_seq_create(&seqs.back(), handles.scope, nullptr, &error), error);
    for (uint64_t token = 0; token < tokens; token += chunk_tokens) {
      kvc_rows rows;
      KVC_INIT(&rows);
      rows.layer_count = Model::layers;
      rows.token_begin = token;
      rows.token_count = chunk_tokens;
      rows.k.data = rows.v.data = numbers.data();
      rows.k.bytes = rows.v.bytes = numbers.size();
      rows.k.layer_stride = rows.v.layer_stride = chunk_tokens * 8;
      must(kvc_append(seqs.back(), ids.back().data() + token, chunk_tokens, &rows, 1, nullptr, &error), error);
    }
  }
  metadata_bytes = cli::metadata_bytes(handles.store) - before;
}

uint64_t metadata_bytes(const kvc_store *store) {
  void *object;
  base::Error error;
  if (base::store_of(&object, base::token_unpack(reinterpret_cast<uint64_t>(store)), base::HandleKind::store, error) != KVC_OK) throw std::runtime_error(error.message);
  return static_cast<store::Store *>(object)->metadata().used_bytes();
}

RowsFixture &HostBench::rows() {
  index_.reset();
  if (!rows_) rows_ = std::make_unique<RowsFixture>();
  return *rows_;
}

IndexFixture &HostBench::tokens() {
  rows_.reset();
  if (!index_) index_ = std::make_unique<IndexFixture>();
  return *index_;
}

Figure bandwidth_figure(std::span<Contestant> contestants, size_t plain, uint64_t bytes) {
  const auto amount = static_cast<double>(bytes);  // bytes a ns are GB/s
  Figure f;
  f.value = amount / contestants[0].ns.median();
  f.p99 = amount / contestants[0].ns.quantile(0.99);
  f.baseline = amount / fastest(contestants.subspan(1, plain - 1));
  f.limit = amount / fastest(contestants.subspan(plain));
  f.ratio = f.value / f.baseline;
  return f;
}

void add_plain_copies(std::vector<Contestant> &to, const Pool &destination, const Pool &source, uint64_t bytes) {
  const uint64_t places = std::min(destination.bytes(), source.bytes()) / bytes;
  for (const Copy copy : {static_cast<Copy>(std::memcpy), copy_stream()})
    to.push_back({[=, &destination, &source](uint64_t place) {
                    copy(destination.data() + place % places * bytes, source.data() + place % places * bytes, bytes);
                    copy_fence();
                  },
                  {}, {}});
}

}  // namespace kvc::cli

#include <cstring>

#include "cli/bench_host.h"

/// Rows coming in: a prefill step, and one token of one layer.
namespace kvc::cli {
namespace {

using M = Model;
using F = RowsFixture;

constexpr uint64_t kSlabBytes = F::slab_tokens * M::token_bytes, kSlabSideBytes = kSlabBytes / 2, kSlabChunks = F::slab_tokens / M::chunk_tokens;
constexpr uint64_t kSlabs = F::engine_bytes / kSlabBytes;

/// The engine's slab, [layer][token][head][dim] for K and the same for V, into pages: piece by piece, in the order of the destination or
/// of the source.
template <bool by_destination>
void copy_slab(Copy copy, const F &f, uint64_t place) {
  const uint8_t *slab = f.engine.data() + place % kSlabs * kSlabBytes;
  constexpr uint32_t outer_count = by_destination ? M::heads : M::chunk_tokens, inner_count = by_destination ? M::chunk_tokens : M::heads;
  for (uint32_t layer = 0; layer < M::layers; layer++)
    for (uint64_t chunk = 0; chunk < kSlabChunks; chunk++) {
      uint8_t *const to = f.chunk(place * kSlabChunks + chunk);
      for (uint32_t side = 0; side < 2; side++)
        for (uint32_t outer = 0; outer < outer_count; outer++)
          for (uint32_t inner = 0; inner < inner_count; inner++) {
            const uint32_t head = by_destination ? outer : inner, token = by_destination ? inner : outer;
            const uint64_t row = (layer * F::slab_tokens + chunk * M::chunk_tokens + token) * M::heads + head;
            copy(to + M::row_offset(layer, side, head, token), slab + side * kSlabSideBytes + row * M::row_bytes, M::row_bytes);
          }
    }
  copy_fence();
}

kvc_rows slab_rows(const F &f, uint64_t place) {
  kvc_rows rows;
  KVC_INIT(&rows);
  rows.layer_count = M::layers;
  rows.token_count = F::slab_tokens;
  rows.k.data = f.engine.data() + place % kSlabs * kSlabBytes;
  rows.v.data = f.engine.data() + place % kSlabs * kSlabBytes + kSlabSideBytes;
  rows.k.bytes = rows.v.bytes = kSlabSideBytes;
  rows.k.layer_stride = rows.v.layer_stride = F::slab_tokens * M::side_row_bytes;
  return rows;
}

/// Rows of one token, [layer][K heads, V heads]: what a decode step leaves behind.
constexpr uint64_t kSteps = F::engine_bytes / M::token_bytes;

const uint8_t *step_row(const F &f, uint64_t step, uint32_t layer) { return f.engine.data() + step % kSteps * M::token_bytes + layer * 2 * M::side_row_bytes; }

void copy_step(Copy copy, const F &f, uint64_t source, uint64_t step) {
  uint8_t *const to = f.chunk(step / M::chunk_tokens);
  const auto token = static_cast<uint32_t>(step % M::chunk_tokens);
  for (uint32_t layer = 0; layer < M::layers; layer++) {
    const uint8_t *const from = step_row(f, source, layer);
    for (uint32_t side = 0; side < 2; side++)
      for (uint32_t head = 0; head < M::heads; head++)
        copy(to + M::row_offset(layer, side, head, token), from + side * M::side_row_bytes + head * M::row_bytes, M::row_bytes);
    copy_fence();  // as each append: rows are there when it returns
  }
}

/// Decodes on and on; a sequence that has become long gives way to a new one.
struct Decoder {
  static constexpr uint64_t tokens_max = 1024;
  F &f;
  kvc_seq *seq = nullptr;
  uint64_t token = tokens_max;

  void next_sequence() {
    if (token < tokens_max) return;
    if (seq) f.release(seq);
    seq = f.new_sequence(0);
    token = 0;
  }
  void step(uint64_t source) {
    kvc_rows rows;
    KVC_INIT(&rows);
    rows.layer_count = 1;
    rows.token_begin = token;
    rows.token_count = 1;
    rows.k.bytes = rows.v.bytes = M::side_row_bytes;
    for (uint32_t layer = 0; layer < M::layers; layer++) {
      const uint8_t *const from = step_row(f, source, layer);
      rows.layer_begin = layer;
      rows.k.data = const_cast<uint8_t *>(from);
      rows.v.data = const_cast<uint8_t *>(from + M::side_row_bytes);
      const kvc_status status = kvc_append(seq, &f.next_id, layer == 0, &rows, 1, nullptr, &f.error);
      if (status != KVC_OK) must(status, f.error);
    }
    f.next_id++;
    token++;
  }
};

}  // namespace

Figure HostBench::append_prefill() {
  F &f = rows();
  f.drop_long_sequences();
  kvc_seq *seq = nullptr;
  std::vector<Contestant> contestants;
  contestants.push_back({[&](uint64_t place) {
                           const kvc_rows slab = slab_rows(f, place);
                           must(kvc_append(seq, nullptr, 0, &slab, 1, nullptr, &f.error), f.error);
                         },
                         [&](uint64_t) { seq = f.new_sequence(F::slab_tokens); }, [&](uint64_t) { f.release(seq); }});
  for (const Copy copy : {static_cast<Copy>(std::memcpy), copy_stream()}) {
    contestants.push_back({[&f, copy](uint64_t place) { copy_slab<true>(copy, f, place); }, {}, {}});
    contestants.push_back({[&f, copy](uint64_t place) { copy_slab<false>(copy, f, place); }, {}, {}});
  }
  const size_t plain = contestants.size();
  add_plain_copies(contestants, f.pages, f.engine, kSlabBytes);
  race(contestants, seconds_, F::chunks / kSlabChunks + 2);  // until the store is full and appends evict
  return bandwidth_figure(contestants, plain, kSlabBytes);
}

Figure HostBench::append_token() {
  F &f = rows();
  f.drop_long_sequences();
  Decoder decoder{f};
  std::vector<Contestant> contestants;
  contestants.push_back({[&](uint64_t place) { decoder.step(place); }, [&](uint64_t) { decoder.next_sequence(); }, {}});
  for (const Copy copy : {static_cast<Copy>(std::memcpy), copy_stream()}) {
    uint64_t step = contestants.size() * F::chunks / 3 * M::chunk_tokens;  // each somewhere else
    contestants.push_back({[&f, copy, step](uint64_t place) mutable { copy_step(copy, f, place, step++); }, {}, {}});
  }
  race(contestants, seconds_, F::chunks * M::chunk_tokens / 16);
  f.release(decoder.seq);
  const double calls = M::layers, copy = fastest(std::span(contestants).subspan(1)) / calls;
  Figure figure;
  figure.value = contestants[0].ns.median() / calls - copy;
  figure.p99 = contestants[0].ns.quantile(0.99) / calls - copy;
  figure.baseline = copy;
  figure.ratio = figure.value / copy;
  return figure;
}

Figure HostBench::overhead() {
  F &f = rows();
  f.long_sequences();
  kvc_store_info info;
  KVC_INIT(&info);
  must(kvc_store_get_info(&info, f.handles.store, &f.error), f.error);
  Figure figure;
  const auto payload = static_cast<double>(info.chunk_count * M::chunk_bytes);
  figure.baseline = payload;
  figure.ratio = static_cast<double>(info.memory_used + metadata_bytes(f.handles.store)) / payload;
  figure.value = figure.p99 = figure.ratio - 1;
  return figure;
}

}  // namespace kvc::cli

#include <algorithm>
#include <array>
#include <chrono>

#include "base/fault.h"
#include "codec/frame.h"
#include "store/store.h"

/// Rows going out: under the sequence's pins alone, no lock on the way.
namespace kvc::store {

using base::fail;

kvc_status Store::verify_page(const Part &part, Ref ref, const uint8_t *slot, uint32_t layer, Error &error) {
  const ChunkLayout &layout = part.layout_of_layer(layer);
  const ChunkLayout::Page &page = layout.page(layer);
  const codec::SectionKind second = codec::section_of_second(page.layers->kind == KVC_LAYER_STATE ? 0 : page.layers->v_dim);
  const kernels::Table &kernel = kernels::table();
  codec::FrameHeader header;
  kvc_status status = codec::frame_decode(header, slot + layout.header_offset(layer), codec::frame_header_bytes + page.padded_bytes(), error);
  if (status == KVC_OK &&
      (kernel.sum(slot + page.k_offset, page.k_bytes) != header.sections[codec::section_k_exact].sum ||
       (page.v_bytes && kernel.sum(slot + page.v_offset, page.v_bytes) != header.sections[second].sum) || KVC_FAULT("store.page.verify")))
    status = fail(error, KVC_ERR_CORRUPT, "layer %u: the sum of a page does not match its header", layer + part.layer_begin);
#ifdef KVC_MUTATE_CHECKSUM
  status = KVC_OK;
#endif
  if (status == KVC_OK) return KVC_OK;
  checksum_failed("a page");
  std::lock_guard lock(mutex_);
  index_->drop(ref);
  return status;
}

/// The slot that holds a chunk's rows.
kvc_status Store::chunk_data(uint8_t **data, const Sequence &seq, uint64_t chunk, Error &error) {
  Ref ref;
  if (chunk < seq.sealed) {
    if (chunk >= seq.held) return fail_lapsed(seq, seq.held * seq.chunk_tokens(), error);
    ref = seq.table->refs[chunk];
  } else {
    const OpenChunk *open = seq.open[chunk - seq.sealed];
    if (open->gone) return fail_lapsed(seq, chunk * seq.chunk_tokens(), error);
    ref = open->held;
    *data = open->data;
  }
  if (!ref) return KVC_OK;
  const seq::Node &node = index_->node(ref);
  if (!index_->held(ref)) return fail(error, KVC_ERR_GONE, "the chunk at token %llu failed its check", static_cast<unsigned long long>(chunk * seq.chunk_tokens()));
  *data = slot_data(node);
  return KVC_OK;
}

/// Rows of one chunk, all layers of the run; `row` is the first one's number in the run.
kvc_status Store::gather_piece(const Sequence &seq, const Run &run, uint64_t token, uint64_t row, uint64_t count, bool stream, Error &error) {
  if (!run.layers->keeps_all()) return gather_beside(seq, run, token, row, count, stream, error);
  const ChunkLayout &layout = seq.part->layout;
  const kernels::Table &kernel = kernels::table();
  const uint64_t chunk = token / seq.chunk_tokens();
  uint8_t *slot;
  KVC_TRY(chunk_data(&slot, seq, chunk, error));
  const kernels::Move move{static_cast<uint32_t>(token % seq.chunk_tokens()), static_cast<uint32_t>(count), run.head_begin, run.head_count, stream};
  const Ref held = chunk < seq.sealed ? seq.table->refs[chunk] : seq.open[chunk - seq.sealed]->held;
  if (held && is_sliced(seq, held)) [[unlikely]] return gather_slices(seq, run, held, move, row, error);
  for (uint32_t l = 0; l < run.layer_count; l++) {
    const uint32_t layer = run.layer_begin + l;
    if (verify_reads_ && held) {
      if (verify_page(*seq.part, held, slot, layer, error) != KVC_OK)
        return fail(error, KVC_ERR_GONE, "layer %u: the page at token %llu failed its check and was dropped", run.named(layer), static_cast<unsigned long long>(chunk * seq.chunk_tokens()));
    }
    for (const SideKind kind : {SideKind::k, SideKind::v})
      if (run.side(kind).present) kernel.rows_out(run.side(kind).from(l, row), layout.side(slot, layer, kind), move);
  }
  return KVC_OK;
}

/// Runs of plain ranges, in order of position over all runs, so that a failure leaves a usable leading part.
kvc_status Store::gather_runs(kvc_result &result, const Sequence &seq, std::span<const Run> runs, bool stream, Error &error) {
  const uint64_t chunk_tokens = seq.chunk_tokens();
  uint64_t begin = UINT64_MAX, end = 0;
  for (const Run &run : runs) {
    begin = std::min(begin, run.token_begin);
    end = std::max(end, run.token_end());
  }
  result.done = begin;
  for (uint64_t at = begin; at < end;) {
    const uint64_t stop = std::min((at / chunk_tokens + 1) * chunk_tokens, end);
    for (const Run &run : runs) {
      const uint64_t from = std::max(at, run.token_begin), to = std::min(stop, run.token_end());
      if (from < to) KVC_TRY(gather_piece(seq, run, from, from - run.token_begin, to - from, stream, error));
    }
    result.done = at = stop;
  }
  return KVC_OK;
}

/// Runs with lists of positions: entry by entry over all runs; neighbours in a chunk move together.
kvc_status Store::gather_lists(kvc_result &result, const Sequence &seq, std::span<const Run> runs, bool stream, Error &error) {
  uint64_t most = 0;
  for (const Run &run : runs) most = std::max(most, run.token_count / run.token_unit);
  result.done = most;
  kvc_status status = KVC_OK;
  for (const Run &run : runs) {
    const uint64_t entries = run.token_count / run.token_unit;
    for (uint64_t e = 0; e < entries && e < result.done;) {
      const uint64_t token = run.token_list ? run.token_list[e] * run.token_unit : run.token_begin + e * run.token_unit;
      const uint64_t room = seq.chunk_tokens() - token % seq.chunk_tokens();
      uint64_t count = std::min<uint64_t>(run.token_unit, room), next = e + 1;
      while (run.token_unit == 1 && next < entries && count < room && (!run.token_list || run.token_list[next] == token + count)) count++, next++;
      kvc_status piece = gather_piece(seq, run, token, e * run.token_unit, count, stream, error);
      for (uint64_t more = count; piece == KVC_OK && run.token_unit > 1 && more < run.token_unit;) {  // an entry over a chunk's border
        const uint64_t n = std::min<uint64_t>(run.token_unit - more, seq.chunk_tokens());
        piece = gather_piece(seq, run, token + more, e * run.token_unit + more, n, stream, error);
        more += n;
      }
      if (piece != KVC_OK) {
        result.done = std::min(result.done, e);
        status = piece;
        break;
      }
      e = next;
    }
  }
  return status;
}

kvc_status check_filled(const Run &run, const Sequence &seq, Error &error) {
  const std::span<const uint64_t> filled = seq.filled;
  uint64_t end = run.token_end();
  if (run.token_list) {
    uint64_t last = 0;
    for (uint64_t e = 0; e < run.token_count / run.token_unit; e++) last = std::max(last, run.token_list[e]);
    if (last >= UINT64_MAX / run.token_unit - 1) return fail(error, KVC_ERR_RANGE, "token_list names entry %llu: no such position", static_cast<unsigned long long>(last));
    end = (last + 1) * run.token_unit;
  }
  for (uint32_t l = run.layer_begin; l < run.layer_begin + run.layer_count; l++) {
    if (end > filled[l] && end <= seq.length && run.layers->kind == KVC_LAYER_STATE)
      return fail(error, KVC_ERR_NO_SNAPSHOT, "layer %u: no snapshot at token %llu: its state stands at %llu", run.named(l), static_cast<unsigned long long>(end), static_cast<unsigned long long>(filled[l]));
    if (end > filled[l]) return fail(error, KVC_ERR_RANGE, "layer %u: rows up to token %llu are asked for, %llu are filled", run.named(l), static_cast<unsigned long long>(end), static_cast<unsigned long long>(filled[l]));
  }
  return KVC_OK;
}

namespace {

uint64_t run_bytes(const Run &run) {
  uint64_t bytes = 0;
  for (const Side *side : {&run.k, &run.v})
    if (side->present) bytes += run.row_count * run.layer_count * run.head_count * side->dim * kernels::dtype_bytes(side->rows.dtype);
  return bytes;
}

}  // namespace

kvc_status Store::gather(kvc_result &result, const Sequence &seq, std::span<const kvc_rows> rows, Error &error) {
  if (rows.empty()) return fail(error, KVC_ERR_ARGUMENT, "row_count 0: nothing to gather");
  std::array<std::byte, 2048> stack;
  std::pmr::monotonic_buffer_resource scratch(stack.data(), stack.size(), &resource_);
  std::pmr::vector<Run> runs(rows.size(), &scratch);
  uint64_t bytes = 0, tokens = 0;
  bool lists = false;
  for (size_t i = 0; i < rows.size(); i++) {
    KVC_TRY(resolve_run(runs[i], rows[i], *seq.part, Direction::gather, seq.filled, &scratch, error));
    KVC_TRY(check_filled(runs[i], seq, error));
    bytes += run_bytes(runs[i]);
    tokens = std::max(tokens, runs[i].token_count);
    lists = lists || runs[i].token_list;
  }
  KVC_TRY(check_runs_apart(runs, &scratch, error));
  const bool stream = bytes >= kernels::stream_bytes_min;
  const auto begin = stream ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  KVC_TRY(lists ? gather_lists(result, seq, runs, stream, error) : gather_runs(result, seq, runs, stream, error));
  result.bytes = result.bytes_host = bytes;
  if (stream) {  // what a match says of the time a fetch takes comes from here
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
    gather_bytes_per_ms_.store(bytes * 1000000u / (static_cast<uint64_t>(ns) + 1), std::memory_order_relaxed);
  }
  metrics_.gather_bytes.fetch_add(bytes, std::memory_order_relaxed);
  metrics_.hit_bytes_host.fetch_add(bytes, std::memory_order_relaxed);
  seq.scope->tokens_read.fetch_add(tokens, std::memory_order_relaxed);
  return KVC_OK;
}

}  // namespace kvc::store

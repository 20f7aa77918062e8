#include <algorithm>
#include <cstring>
#include <utility>

#include "store/append_plan.h"
#include "store/memory.h"
#include "store/slices.h"

/// Sequences that become others: for beam search, and with fewer tokens.
namespace kvc::store {

using base::fail;

kvc_status Store::reorder(std::span<Sequence *const> seqs, std::span<const uint32_t> source, Error &error) {
  for (size_t i = 1; i < seqs.size(); i++)
    if (seqs[i]->part != seqs[0]->part) return fail(error, KVC_ERR_SHAPE, "seqs[%zu] is of another %s than seqs[0]", i, seqs[i]->scope != seqs[0]->scope ? "scope" : "part of the shape");
  std::pmr::vector<Sequence *> made(seqs.size(), nullptr, &resource_);
  kvc_status status = KVC_OK;
  try {
    for (size_t i = 0; i < seqs.size(); i++) {
      if (source[i] == i) continue;
      made[i] = copy_of(*seqs[source[i]]).release();
      use(*made[i]);
    }
  } catch (const std::bad_alloc &) {
    status = fail(error, KVC_ERR_NO_MEMORY, "reorder: the system refused memory");
  }
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < seqs.size(); i++) {
    if (!made[i]) continue;
    if (status == KVC_OK) std::swap<SequenceState>(*seqs[i], *made[i]);
    drop_sequence(made[i]);
  }
  queues_.room_freed();
  return status;
}

namespace {

kvc_status check_positions(const Sequence &seq, std::span<const uint64_t> positions, Error &error) {
  for (const seq::LayerRun &run : seq.part->shape.runs) {
    if (run.kind == KVC_LAYER_STATE) return fail(error, KVC_ERR_UNSUPPORTED, "layer %u holds a state: a position cannot be taken out of it", run.layer_begin + seq.part->layer_begin);
  }
  for (size_t i = 0; i < positions.size(); i++) {
    if (positions[i] >= seq.length)
      return fail(error, KVC_ERR_RANGE, "positions[%zu] is %llu: the sequence has %llu tokens", i, static_cast<unsigned long long>(positions[i]), static_cast<unsigned long long>(seq.length));
    if (i && positions[i] <= positions[i - 1])
      return fail(error, KVC_ERR_RANGE, "positions[%zu] is %llu, behind %llu: positions rise", i, static_cast<unsigned long long>(positions[i]), static_cast<unsigned long long>(positions[i - 1]));
  }
  return positions.empty() ? KVC_OK : check_left(seq, positions.back() + 1, error);
}

}  // namespace

/// The kept rows of one chunk, out of the chunks they were in: neighbours move together.
kvc_status Store::copy_kept(uint8_t *to, const Sequence &from, std::span<const uint64_t> kept, Error &error) {
  const ChunkLayout &layout = from.part->layout;
  const uint64_t chunk_tokens = from.chunk_tokens();
  if (layout.payload_bytes() == 0) return KVC_OK;  // window layers alone: what is not sealed has no main piece
  for (size_t i = 0; i < kept.size();) {
    const uint64_t chunk = kept[i] / chunk_tokens;
    uint8_t *slot;
    KVC_TRY(chunk_data(&slot, from, chunk, error));
    const Ref ref = chunk < from.sealed ? from.table->refs[chunk] : from.open[chunk - from.sealed]->held;
    if (ref && (i == 0 || kept[i - 1] / chunk_tokens != chunk)) KVC_TRY(check_chunk(from, ref, chunk * chunk_tokens, error));
    size_t count = 1;
    while (i + count < kept.size() && kept[i + count] == kept[i] + count && kept[i + count] / chunk_tokens == chunk) count++;
    for (uint32_t l = 0; l < layout.layer_count(); l++)
      for (const SideKind kind : {SideKind::k, SideKind::v}) {
        if (!layout.page(l).present()) break;
        const kernels::PageSide out = layout.side(to, l, kind);
        const uint64_t row_bytes = uint64_t{out.dim} * kernels::dtype_bytes(out.dtype), head_bytes = row_bytes * out.page_tokens;
        for (uint32_t h = 0; h < layout.page(l).layers->kv_heads; h++)
          std::memcpy(out.data + h * head_bytes + i * row_bytes, head_rows(from, ref, slot, l, kind, h) + kept[i] % chunk_tokens * row_bytes, count * row_bytes);
      }
    i += count;
  }
  return KVC_OK;
}

/// The ids of the kept positions from `shared` on, as far as they are known.
void Store::keep_ids(Sequence &to, const Sequence &from, std::span<const uint64_t> positions, uint64_t shared) {
  const uint64_t known = static_cast<uint64_t>(std::lower_bound(positions.begin(), positions.end(), from.given) - positions.begin());
  to.given = known;
  to.ids.clear();
  for (uint64_t i = shared; i < known; i++) {
    const uint64_t at = positions[i], chunk = at / from.chunk_tokens();
    if (chunk >= from.sealed) {
      to.ids.push_back(from.ids[at - from.sealed_tokens()]);
      continue;
    }
    to.ids.push_back(chunk_ids(*from.scope, index_->node(from.table->refs[chunk]))[1 + at % from.chunk_tokens()]);
  }
}

/// Room for one more open chunk with its window rows, those of `from` being given up for it.
kvc_status Store::check_open_room(const Sequence &from, Error &error) {
  uint64_t held = open_bytes_.load(std::memory_order_relaxed);
  from.each_open([&](const OpenChunk &open) {
    if (open.own() && open.users.load(std::memory_order_acquire) == 1) held -= slab_.bytes(open.slot);
  });
  const uint64_t more = memory::Slab::rounded_bytes(from.part->layout.slot_bytes()) + (from.part->window_max ? memory::Slab::rounded_bytes(from.part->windows.slot_bytes()) : 0);
  if (held + more <= open_bytes_max_) return KVC_OK;
  (void)fail(error, KVC_ERR_FULL, "chunks that are not sealed hold %llu bytes, %llu more are needed: open_bytes_max is %llu", static_cast<unsigned long long>(held),
             static_cast<unsigned long long>(more), static_cast<unsigned long long>(open_bytes_max_));
  return open_refused(error);
}

/// Makes `made`, a copy of `from`, hold the kept positions alone: leading chunks that stay whole are shared, the rest is copied into open chunks.
kvc_status Store::compact_into(Sequence &made, const Sequence &from, std::span<const uint64_t> positions, PiecePlan &plan, Error &error) {
  const uint64_t chunk_tokens = from.chunk_tokens(), count = positions.size(), complete = count / chunk_tokens, chunks = (count + chunk_tokens - 1) / chunk_tokens;
  uint64_t shared = 0;  // rising positions: the last tells of all before it
  while (shared < std::min(complete, from.sealed) && positions[(shared + 1) * chunk_tokens - 1] == (shared + 1) * chunk_tokens - 1) shared++;
  KVC_TRY(check_fits(chunks - shared, *from.scope, from.part->layout, error));
  Table *own = make<Table>(&resource_, &resource_);
  table_unref(std::exchange(made.table, own));  // the pin still holds what it listed
  own->refs.reserve(complete);
  if (shared) own->refs.assign(from.table->refs.begin(), from.table->refs.begin() + static_cast<int64_t>(shared));
  made.is_private = true;
  keep_ids(made, from, positions, shared * chunk_tokens);
  KVC_TRY(made.extras.add(nullptr, 0, error, shared * chunk_tokens));  // those of the shared chunks are still part of their names
  made.truncated_to = UINT64_MAX;
  made.names.clear();
  made.open.reserve(chunks - shared);
  {
    std::lock_guard lock(mutex_);
    drop_open(made, 0);
    made.sealed = made.held = shared;
    pin_tip(made);
  }
  if (chunks > complete) KVC_TRY(check_open_room(from, error));
  for (uint64_t c = shared; c < chunks; c++) {
    OpenChunk *open;
    KVC_TRY(open_slot(&open, made, made.part->layout, error));
    made.open.push_back(open);
    KVC_TRY(copy_kept(open->data, from, positions.subspan(c * chunk_tokens, std::min(chunk_tokens, count - c * chunk_tokens)), error));
  }
  for (uint64_t &filled : made.filled) filled = static_cast<uint64_t>(std::lower_bound(positions.begin(), positions.end(), filled) - positions.begin());  // window rows may be behind
  made.length = count;
  if (made.pieces) KVC_TRY(compact_windows(made, from, positions, shared, plan, error));
  if (complete == shared) return KVC_OK;
  std::lock_guard lock(mutex_);
  index_->reserve(static_cast<uint32_t>(complete - shared), made.scope->id);
  return KVC_OK;
}

kvc_status Store::compact(Sequence &seq, std::span<const uint64_t> positions, Error &error) {
  KVC_TRY(check_positions(seq, positions, error));
  Sequence *const made = copy_of(seq).release();
  use(*made);
  PiecePlan plan(&resource_);
  kvc_status status;
  try {
    status = compact_into(*made, seq, positions, plan, error);
  } catch (const std::bad_alloc &) {
    status = fail(error, KVC_ERR_NO_MEMORY, "compact: the system refused memory");
  }
  if (status == KVC_OK) seal(*made, positions.size() / seq.chunk_tokens(), made->pieces ? &plan : nullptr);
  if (status == KVC_OK && made->pieces) settle_pieces(*made, plan);
  std::lock_guard lock(mutex_);
  if (status == KVC_OK) std::swap<SequenceState>(seq, *made);
  else plan.undo(*this);
  drop_sequence(made);
  queues_.room_freed();
  return status;
}

}  // namespace kvc::store

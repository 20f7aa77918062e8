#include "store/slices.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/fault.h"
#include "store/memory.h"

/// Chunks whose pages came in parts, one slot for each: who has the first makes the chunk, the others of the same write id add theirs.
namespace kvc::store {

using base::fail;

namespace {

SlicePage page_at(const Part &part, uint8_t *slot, uint32_t layer, uint32_t head) {
  const uint32_t own = layer - part.layer_begin;  // huge when it lies before
  if (own >= part.shape.layer_count) return {};
  const seq::LayerRun &run = part.shape.run_of(own);
  const uint32_t first = part.head_begin_of(own);
  if (head < first || head - first >= run.kv_heads) return {};
  return {&part, slot, own, head - first, run.kv_heads - (head - first), run.layer_begin + run.layer_count - own};
}

/// Are all pages of full and latent layers of the part there?  `shared_alone`: of those that are in every part.
bool has_pages(const Scope &scope, const seq::Node &node, const Part &part, bool shared_alone) {
  for (size_t r = 0; r < part.shape.runs.size(); r++) {
    const seq::LayerRun &run = part.shape.runs[r];
    if (!run.keeps_all()) continue;
    if (shared_alone && part.split->shape.runs[r].kv_heads) continue;
    const uint32_t end = part.layer_begin + run.layer_begin + run.layer_count;
    for (uint32_t layer = part.layer_begin + run.layer_begin, next = end; layer < end; layer = next) {
      next = end;
      const uint32_t first = part.head_begin_of(layer - part.layer_begin);
      for (uint32_t head = first; head < first + run.kv_heads;) {
        const SlicePage page = page_in(scope, node, layer, head);
        if (!page.part) return false;
        head += page.head_count;
        next = std::min(next, layer + page.layer_count);
      }
    }
  }
  return true;
}

}  // namespace

SlicePage page_in(const Scope &scope, const seq::Node &node, uint32_t layer, uint32_t head) {
  SlicePage found;
  const Piece piece = kind_of(node);
  each_slice(scope, node, [&](const Part &part, uint8_t *slot) {
    if (found.part && !found.left_out) return;
    SlicePage page = page_at(part, slot, layer, head);
    if (page.part && piece != Piece::main) page.left_out = left_out_of(part.layout_of(piece), slot, page.layer);
    if (page.part && (!found.part || page.left_out < found.left_out)) found = page;
  });
  return found;
}

const uint8_t *chunk_write_id(const Scope &scope, const seq::Node &node) {
  const auto *data = reinterpret_cast<const uint8_t *>(node.payload);
  return seq::flags_of(node) & seq::node_sliced ? Slice::in(data)->write_id : data + scope.layout.write_id_offset();
}

const int32_t *chunk_ids(const Scope &scope, const seq::Node &node) {
  const auto *data = reinterpret_cast<const uint8_t *>(node.payload);
  const Part &part = seq::flags_of(node) & seq::node_sliced ? *Slice::in(data)->part : scope;
  return reinterpret_cast<const int32_t *>(data + part.layout.ids_offset());
}

kvc_status Store::find_part(const Part **out, Scope &scope, const kvc_seq_options &o, Error &error) {
  *out = &scope;
  PartRange range{o.layer_begin, o.layer_count, o.head_begin, o.head_count};
  if (range == PartRange{}) return KVC_OK;
  KVC_TRY(complete_range(range, scope.shape, error));
  if (range.layer_count == scope.shape.layer_count && range.head_count == 0) return KVC_OK;
  std::lock_guard lock(mutex_);
  for (const Part &part : scope.parts)
    if (part.range() == range) {
      *out = &part;
      return KVC_OK;
    }
  if (scope.parts.size() == parts_max) return fail(error, KVC_ERR_FULL, "%u different parts of this shape were named: the limit", parts_max);
  std::pmr::list<Part> made(&resource_), made_split(&resource_);
  Part &part = made.emplace_back(&resource_), &split = made_split.emplace_back(&resource_);
  init_part(part, range, scope.shape);
  if (init_split(split, part)) {
    part.split = &split;
    scope.splits.splice(scope.splits.end(), made_split);
  }
  scope.parts.splice(scope.parts.end(), made);
  *out = &part;
  return KVC_OK;
}

bool Store::has_pages_of(const Scope &scope, const seq::Node &node, const Part &part) { return has_pages(scope, node, part, false); }

/// A slot of the piece without the layers that are held already; none when there is no room, or nothing to leave out.
Slice *Store::split_slice(const Slice &whole, Piece piece) {
  const Part &part = *whole.part, &split = *part.split;
  const ChunkLayout &layout = split.layout_of(piece), &from_layout = part.layout_of(piece);
  if (layout.payload_bytes() == from_layout.payload_bytes()) return nullptr;
  memory::SlotId slot;
  Error ignored;
  if (slab_.take(&slot, layout.slot_bytes(), ignored) != KVC_OK) return nullptr;
  uint8_t *const to = slab_.data(slot), *const from = whole.data();
  begin_slice(to, split, slot, whole.write_id);
  for (uint32_t l = 0; l < layout.layer_count(); l++) {
    if (!layout.page(l).present()) continue;
    std::memcpy(to + layout.page(l).k_offset, from + from_layout.page(l).k_offset, from_layout.page(l).padded_bytes());
    std::memcpy(to + layout.header_offset(l), from + from_layout.header_offset(l), codec::frame_header_bytes);
    if (piece != Piece::main) layout.mark(to, l) = from_layout.mark(from, l);
  }
  if (piece == Piece::main) std::memcpy(to + layout.ids_offset(), from + from_layout.ids_offset(), (uint64_t{layout.chunk_tokens()} + 1) * sizeof(int32_t));
  return Slice::in(to);
}

/// The slot of a part joins those that the node has: without the layers that are in every part if these are held (`shared_held`).  Under the lock.
void Store::join_slice(OpenChunk &open, Ref ref, Scope &scope, bool shared_held) {
  const seq::Node &node = index_->node(ref);
  Slice *last = Slice::in(slot_data(node)), *added = Slice::in(open.data);
  open_bytes_.fetch_sub(slab_.bytes(open.slot), std::memory_order_relaxed);
  if (shared_held && added->part->split)
    if (Slice *split = split_slice(*added, kind_of(node))) {
      slab_.give(open.slot);
      added = split;
    }
  open.slot = {};
  while (Slice *next = last->next.load(std::memory_order_relaxed)) last = next;
  last->next.store(added, std::memory_order_release);
  scope.settle(clock_.now_ns());
  scope.bytes_host += slab_.bytes(added->slot);
}

/// Is it a chunk in parts of which the writer of the open rows wrote some?  Under the lock.
bool Store::is_of_writer(const Sequence &seq, const OpenChunk &open, Ref ref) const {
  const seq::Node &node = index_->node(ref);
  if (seq.part->is_whole() || !(node.flags & seq::node_sliced)) return false;
  return ref == open.cut_from || (open.own() && std::memcmp(Slice::in(slot_data(node))->write_id, open.write_id, sizeof open.write_id) == 0);
}

/// The chunk of this name, but for one that waited for its sisters until now.  Under the lock.
Ref Store::find_now(const seq::Name &name, Ref parent) {
  const Ref found = index_->find_child(name, parent);
  if (!found || !(index_->node(found).flags & seq::node_waits)) return found;
  reap(clock_.now_ns());
  return index_->find_child(name, parent);
}

/// Can rows of the sequence give way to the chunk's?  Those of a writer who has sisters (`sisters_id`: its write id; null: it has none) cannot to
/// another's that waits for its own: if they never come, none of the sequence's could take their place.  Under the lock.
bool Store::adopts(const Sequence &seq, Ref chunk, const uint8_t *sisters_id) const {
  const seq::Node &node = index_->node(chunk);
  if (!has_part(*seq.scope, chunk, *seq.part)) return false;
  return !(node.flags & seq::node_waits) || !sisters_id || std::memcmp(chunk_write_id(*seq.scope, node), sisters_id, write_id_bytes) == 0;
}

/// The rows of a part join a chunk of the same writer.  Nothing here can fail.  Under the lock.
void Store::add_slice(const Sequence &seq, OpenChunk &open, Ref ref, uint64_t chunk) {
  const seq::Node &node = index_->node(ref);
  Scope &scope = *seq.scope;
  join_slice(open, ref, scope, seq.part->split && has_pages(scope, node, *seq.part, true));
  if (!has_pages(scope, node, scope, false)) return;
  index_->complete(ref);
  if (waiting_) next_lapse_ns_ = 0;
  if (index_->names_watched()) [[unlikely]] tell_stored(seq, ref, chunk);
}

/// Of a chunk that goes: the slots behind its first.  Under the lock.
void Store::release_slices(Scope &scope, const seq::Node &node) noexcept {
  for (Slice *slice = Slice::in(slot_data(node))->next.load(std::memory_order_relaxed); slice;) {
    const memory::SlotId slot = slice->slot;
    slice = slice->next.load(std::memory_order_relaxed);
    scope.bytes_host -= slab_.bytes(slot);
    slab_.give(slot);
  }
}

/// Of a chunk or object, all its slots.  Under the lock.
uint64_t Store::held_bytes(Ref ref) const {
  const seq::Node &node = index_->node(ref);
  uint64_t bytes = slab_.bytes(slot_id(index_->owner(ref)));
  if (node.flags & seq::node_sliced)
    for (const Slice *slice = Slice::in(slot_data(node))->next.load(std::memory_order_relaxed); slice; slice = slice->next.load(std::memory_order_relaxed)) bytes += slab_.bytes(slice->slot);
  return bytes;
}

/// The rows of a head in a chunk: in `slot`, or, of a held one, wherever its parts have them.
const uint8_t *Store::head_rows(const Sequence &seq, Ref held, uint8_t *slot, uint32_t layer, SideKind kind, uint32_t head) const {
  kernels::PageSide side;
  if (held && is_sliced(seq, held)) {
    const SlicePage page = page_in(*seq.scope, index_->node(held), layer + seq.part->layer_begin, head + seq.part->head_begin_of(layer));
    KVC_CHECK(page.part);
    side = page.side(kind);
    head = page.head;
  } else {
    side = seq.part->layout_of_layer(layer).side(slot, layer, kind);
  }
  return side.data + uint64_t{head} * side.page_tokens * side.dim * kernels::dtype_bytes(side.dtype);
}

/// The pages of a chunk or piece of which rows were taken, wherever they lie, before they are copied: GONE when one failed its check, now or before.
kvc_status Store::check_chunk(const Sequence &seq, Ref ref, uint64_t token, Error &error) {
  bool good = index_->held(ref);
  if (good && verify_reads_) {
    const seq::Node &node = index_->node(ref);
    const Piece piece = kind_of(node);
    each_slice(*seq.scope, node, [&](const Part &part, uint8_t *slot) {
      const ChunkLayout &layout = part.layout_of(piece);
      for (uint32_t l = 0; good && l < layout.layer_count(); l++)
        if (layout.page(l).present()) good = verify_page(part, ref, slot, l, error) == KVC_OK;
    });
  }
  return good ? KVC_OK : fail(error, KVC_ERR_GONE, "the chunk at token %llu failed its check", static_cast<unsigned long long>(token));
}

/// As gather_piece, of a chunk or piece in parts, or for a sequence of one.
kvc_status Store::gather_slices(const Sequence &seq, const Run &run, Ref ref, const kernels::Move &move, uint64_t row, Error &error) {
  const seq::Node &node = index_->node(ref);
  for (uint32_t l = 0; l < run.layer_count; l++) {
    const uint32_t layer = run.layer_begin + l, first = run.head_begin + seq.part->head_begin_of(layer);
    for (uint32_t done = 0; done < run.head_count;) {
      const SlicePage page = page_in(*seq.scope, node, run.named(layer), first + done);
      KVC_CHECK(page.part);
      const uint32_t heads = std::min(page.head_count, run.head_count - done);
      if (verify_reads_ && verify_page(*page.part, ref, page.slot, page.layer, error) != KVC_OK)
        return fail(error, KVC_ERR_GONE, "layer %u: a page failed its check and was dropped", run.named(layer));
      for (const SideKind kind : {SideKind::k, SideKind::v}) {
        if (!run.side(kind).present) continue;
        kernels::RowsSide to = run.side(kind).from(l, row);
        to.data += done * to.head_stride;
        kernels::table().rows_out(to, page.side(kind), {move.token_begin, move.token_count, page.head, heads, move.stream});
      }
      done += heads;
    }
  }
  return KVC_OK;
}

/// A released sequence may leave a chunk that sister parts have not come to: it stays as long as the lease would have run.  Takes the sequence
/// over, without what it held beside.  False, and nothing done, when there is no need.  Under the lock.
bool Store::keep_waiting(Sequence &seq) {
  if (!seq.pinned || !(index_->node(seq.pinned).flags & seq::node_waits) || waiting_count_ >= seq_max_) return false;
  const uint64_t lapses_ns = seq.deadline_ns.load(std::memory_order_relaxed), deadline_ns = lapses_ns == KVC_FOREVER ? deadline(lease_ns_) : lapses_ns;
  if (deadline_ns == KVC_FOREVER || deadline_ns <= clock_.now_ns()) return false;
  seq.deadline_ns.store(deadline_ns, std::memory_order_relaxed);
  next_lapse_ns_ = std::min(next_lapse_ns_, deadline_ns);
  const Ref kept = std::exchange(seq.pinned, Ref{});
  let_go(seq);
  seq.table = nullptr;
  seq.pinned = kept;
  seq.later = std::exchange(waiting_, &seq);
  waiting_count_++;
  return true;
}

/// Ends what lapsed, and what waits for nothing any more; true if that was any.  Under the lock.
bool Store::reap_waiting(uint64_t now_ns, const Scope *scope, uint64_t *next_ns) {
  bool ended = false;
  for (Sequence **at = &waiting_; Sequence *const seq = *at;) {
    const uint64_t deadline_ns = seq->deadline_ns.load(std::memory_order_relaxed);
    if ((scope && seq->scope != scope) || (deadline_ns > now_ns && index_->node(seq->pinned).flags & seq::node_waits)) {
      *next_ns = std::min(*next_ns, deadline_ns);
      at = &seq->later;
      continue;
    }
    *at = seq->later;
    waiting_count_--;
    index_->unpin(seq->pinned, seq->used_tick.load(std::memory_order_relaxed), true);
    SequenceDelete{&resource_}(seq);
    ended = true;
  }
  return ended;
}

}  // namespace kvc::store

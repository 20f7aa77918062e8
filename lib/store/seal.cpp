#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/sha256.h"
#include "store/page_sums.h"
#include "store/slices.h"

/// Complete chunks become immutable and, if they have a name, visible.
namespace kvc::store {

namespace {

/// Rows of a page that were left out read as zero, so that its sum says so too.
void zero_rows(uint8_t *slot, const ChunkLayout &layout, uint32_t layer, uint32_t count) {
  for (const SideKind kind : {SideKind::k, SideKind::v}) {
    const kernels::PageSide side = layout.side(slot, layer, kind);
    const uint64_t row_bytes = uint64_t{side.dim} * kernels::dtype_bytes(side.dtype);
    for (uint32_t h = 0; h < layout.page(layer).layers->kv_heads; h++) std::memset(side.data + h * row_bytes * side.page_tokens, 0, row_bytes * count);
  }
}

}  // namespace

/// Unpredictable and never repeated: a digest over the store's seed and a count.
void Store::draw_write_id(uint8_t *out) {
  thread_local base::Sha256 hash;
  uint8_t input[40];
  const uint64_t count = write_id_count_.fetch_add(1, std::memory_order_relaxed);
  std::memcpy(input, write_id_seed_, 32);
  std::memcpy(input + 32, &count, 8);
  const base::Digest digest = hash.digest(input, sizeof input);
  std::memcpy(out, digest.data(), 16);
}

/// The frame headers of a piece whose rows are all there.
void Store::write_headers(const Sequence &seq, const ChunkLayout &layout, uint8_t *slot, const uint8_t *write_id, const seq::Name &name) {
  const seq::Shape &shape = seq.part->shape;
  codec::FrameHeader header;
  header.chunk = name;
  std::copy_n(write_id, write_id_bytes, header.write_id.begin());
  std::memcpy(&header.shape_tag, shape.fingerprint.data(), sizeof header.shape_tag);
  header.tokens = shape.chunk_tokens;
  for (uint32_t l = 0; l < layout.layer_count(); l++) {
    const ChunkLayout::Page &page = layout.page(l);
    if (!page.present()) continue;
    const seq::LayerRun &run = *page.layers;
    const uint32_t left_out = run.kind == KVC_LAYER_WINDOW ? layout.mark(slot, l) : 0;
    if (left_out) zero_rows(slot, layout, l, left_out);
    if (!page_sums(slot, layout, l)->valid) sum_page(slot, layout, l);
    const PageSums sums = *page_sums(slot, layout, l);
    header.flags = seq.is_private || left_out ? static_cast<uint32_t>(codec::frame_private) : 0;
    header.layer = l + seq.part->layer_begin;
    header.head_begin = static_cast<uint16_t>(seq.part->head_begin_of(l));
    header.head_count = static_cast<uint16_t>(run.kv_heads);
    header.k_dim = static_cast<uint16_t>(run.kind == KVC_LAYER_STATE ? 0 : run.k_dim);
    header.v_dim = static_cast<uint16_t>(run.kind == KVC_LAYER_STATE ? 0 : run.v_dim);
    header.k_dtype = static_cast<uint8_t>(run.k_dtype);
    header.v_dtype = static_cast<uint8_t>(run.v_dtype);
    codec::frame_exact_layout(header, page.k_bytes, page.v_bytes, sums.k, sums.v);
    codec::frame_encode(slot + layout.header_offset(l), header);
  }
}

/// The frame headers and the ids of a chunk whose rows are all there.
void Store::write_chunk(const Sequence &seq, OpenChunk &open, uint64_t chunk, const seq::Name &name) {
  const ChunkLayout &layout = seq.part->layout;
  write_headers(seq, layout, open.data, open.write_id, name);
  const uint64_t first = (chunk - seq.sealed) * seq.chunk_tokens();
  const uint64_t known = std::min<uint64_t>(seq.ids.size() > first ? seq.ids.size() - first : 0, seq.chunk_tokens());
  auto *ids = reinterpret_cast<uint32_t *>(open.data + layout.ids_offset());
  ids[0] = static_cast<uint32_t>(known);
  if (known) std::memcpy(ids + 1, seq.ids.data() + first, known * sizeof(int32_t));
  if (seq.pieces) std::memcpy(open.data + layout.write_id_offset(), open.write_id, write_id_bytes);
  if (!seq.part->is_whole()) begin_slice(open.data, *seq.part, open.slot, open.write_id);
}

/// The chunk joins the table, as itself or as the one that was there first.  Its index node was reserved.
void Store::commit(Sequence &seq, OpenChunk &open, uint64_t chunk, PiecePlan *pieces) {
  seq::Node node{};
  Ref ref = open.held;
  const bool own = !open.held;
  if (own) {
    KVC_CHECK(open.users.load(std::memory_order_acquire) == 1);
    if (!seq.is_private) {
      KVC_CHECK(name_chunk(seq, chunk));
      node.name = seq.names[chunk - seq.sealed];
    }
    node.payload = reinterpret_cast<uint64_t>(open.data);
    write_chunk(seq, open, chunk, node.name);
  }
  std::lock_guard lock(mutex_);
  const Ref parent = chunk ? seq.table->refs[chunk - 1] : Ref{};
  if (own && !seq.is_private) ref = find_now(node.name, parent);
  bool alone = seq.is_private;
  const bool is_writer = ref && own && is_of_writer(seq, open, ref);
  if (is_writer) [[unlikely]] {
    if (!has_part(*seq.scope, ref, *seq.part)) add_slice(seq, open, ref, chunk);
  } else if (ref && own && (!adopts(seq, ref, open.sisters_id()) || (pieces && !serves(seq, ref, chunk, seq.length, brings_snapshot(seq, chunk))))) [[unlikely]] {
    // All of a chunk is more than some of it, and more than what lost that which this sequence brings: the whole chunk is that of the sequence from now on.
    // Nor is a part whose sisters cannot come more than a whole chunk.
    const bool partial = index_->node(ref).flags & seq::node_partial, may_be_whole = seq.part->has_all_main || open.has_sisters;
    if ((partial ? seq.part->is_whole() : may_be_whole) && !is_leased(ref, chunk)) index_->unname(ref);
    else alone = true;  // no chunk mixes writers, and a prompt that was pinned is found: this one's rows are its own
    ref = {};
  }
  if (own && !alone && !ref) {
    // Who failed its check has no name any more, nor has who left it to us: what comes after them can be found by nobody, and what came after
    // them leaves its name to what can.
    if (parent && (!index_->held(parent) || index_->node(parent).flags & seq::node_unnamed)) node.flags |= seq::node_unnamed;
    else if (const Ref orphan = index_->find(node.name)) index_->unname(orphan);
  }
  if (ref) {  // somebody was first, and wins whole
    index_->unreserve(1);
    index_->pin(ref);
    if (pieces && (is_writer || ref == open.cut_from)) seq.pieces->pending.push_back(chunk);  // the sequence is its writer
    if (pieces) use_pieces_of(seq, *pieces, ref, chunk);
  } else {
    if (alone) node.flags |= seq::node_unnamed;
    if (seq.scope->pieced()) node.flags |= seq::node_pieced;
    if (!seq.part->is_whole()) node.flags |= seq::node_sliced;
    if (!seq.part->has_all_main) node.flags |= seq::node_partial | (seq.write_id_given && !(node.flags & seq::node_unnamed) ? seq::node_waits : 0u);
    node.tick = next_tick();
    ref = index_->insert(node, parent, owner_of(open.slot, *seq.scope));
    Scope &scope = *seq.scope;
    scope.settle(clock_.now_ns());
    scope.bytes_host += slab_.bytes(open.slot);
    scope.chunk_count++;
    open_bytes_.fetch_sub(slab_.bytes(open.slot), std::memory_order_relaxed);
    open.slot = {};  // the node's now
    if (pieces) seq.pieces->pending.push_back(chunk);
    if (index_->names_watched() && seq.part->has_all_main) [[unlikely]] tell_stored(seq, ref, chunk);
  }
  open_chunk_unref(&open);
  // The new tip holds all before it.
  if (seq.pinned) index_->unpin(seq.pinned, next_tick(), false);
  seq.pinned = ref;
  seq.table->refs.push_back(ref);
}

void Store::seal(Sequence &seq, uint64_t sealed, PiecePlan *pieces) {
  const TraceSpan span(trace_, "seal");
  const uint64_t count = sealed - seq.sealed;
  for (uint64_t i = 0; i < count; i++) {
    OpenChunk *open = seq.open[i];
    seq.open[i] = nullptr;
    commit(seq, *open, seq.sealed + i, pieces);
  }
  seq.open.erase(seq.open.begin(), seq.open.begin() + static_cast<int64_t>(count));
  seq.ids.erase(seq.ids.begin(), seq.ids.begin() + static_cast<int64_t>(std::min<uint64_t>(seq.ids.size(), count * seq.chunk_tokens())));
  seq.names.erase(seq.names.begin(), seq.names.begin() + static_cast<int64_t>(std::min<uint64_t>(seq.names.size(), count)));
  seq.sealed = seq.held = sealed;
  use(seq);              // no chunk was used later than its sequence
  queues_.room_freed();  // of open chunks
}

}  // namespace kvc::store

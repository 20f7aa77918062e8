#include <algorithm>

#include "store/piece_use.h"
#include "store/slices.h"

/// Pages lent in place.  A view holds its chunk as a sequence would: a pin on a sealed one, a use of an open one, which makes whoever writes
/// next copy it first.
namespace kvc::store {

using base::fail;

namespace {

/// What a view holds, in the word of its handle, so that lending allocates nothing: an open chunk by its address, a sealed one by number and
/// generation.  Generations of live nodes are odd, addresses are even.
void *held_word(Ref ref) { return reinterpret_cast<void *>(uint64_t{ref.id} << 32 | ref.generation); }
void *held_word(OpenChunk *open) { return open; }
Ref ref_of_word(void *word) {
  const auto bits = reinterpret_cast<uint64_t>(word);
  return bits & 1 ? Ref{static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits)} : Ref{};
}

void describe_side(kvc_array &out, const kernels::PageSide &side, uint64_t side_bytes, uint32_t heads, uint64_t tokens) {
  if (side_bytes == 0) return;
  out.data = side.data;
  out.dtype = static_cast<uint32_t>(side.dtype);
  out.dim_stride = kernels::dtype_bytes(side.dtype);
  out.token_stride = side.dim * out.dim_stride;
  out.head_stride = side.page_tokens * out.token_stride;
  out.block_stride = out.layer_stride = heads * out.head_stride;
  out.bytes = (heads - 1) * out.head_stride + tokens * out.token_stride;
}

kernels::PageSide behind(kernels::PageSide side, uint64_t rows) {
  side.data += rows * side.dim * kernels::dtype_bytes(side.dtype);
  return side;
}

void describe_bytes(kvc_array &out, uint8_t *data, uint64_t bytes) {
  out.data = data;
  out.bytes = bytes;
  out.dtype = KVC_U8;
  out.dim_stride = 1;
}

/// `layer` becomes that of the sequence's part.
kvc_status check_place(uint32_t &layer, const Sequence &seq, uint64_t token, uint32_t flags, Error &error) {
  if (flags & ~static_cast<uint32_t>(KVC_VIEW_FRAME)) return fail(error, KVC_ERR_TOO_NEW, "view flags 0x%x: unknown bits", flags & ~static_cast<uint32_t>(KVC_VIEW_FRAME));
  const uint32_t named = layer;
  layer -= seq.part->layer_begin;
  if (layer >= seq.filled.size() && seq.part->is_whole()) return fail(error, KVC_ERR_RANGE, "layer %u: the shape has %zu", named, seq.filled.size());
  if (layer >= seq.filled.size()) return fail(error, KVC_ERR_RANGE, "layer %u is not in this sequence's part, layers %u..%u", named, seq.part->layer_begin, seq.part->layer_end() - 1);
  if (token >= seq.filled[layer] && token < seq.length && seq.part->shape.run_of(layer).kind == KVC_LAYER_STATE)
    return fail(error, KVC_ERR_NO_SNAPSHOT, "layer %u: no snapshot at token %llu: its state stands at %llu", named, static_cast<unsigned long long>(token + 1), static_cast<unsigned long long>(seq.filled[layer]));
  if (token >= seq.filled[layer])
    return fail(error, KVC_ERR_RANGE, "layer %u: the page of token %llu is asked for, %llu are filled", named, static_cast<unsigned long long>(token), static_cast<unsigned long long>(seq.filled[layer]));
  if ((flags & KVC_VIEW_FRAME) && token >= seq.sealed_tokens())
    return fail(error, KVC_ERR_UNSUPPORTED, "KVC_VIEW_FRAME: the page of token %llu has no frame before its chunk is sealed, %llu tokens are", static_cast<unsigned long long>(token),
                static_cast<unsigned long long>(seq.sealed_tokens()));
  return KVC_OK;
}

}  // namespace

/// The page of a window layer, which may lack rows that were left out; of a state layer the snapshot behind `token`.
kvc_status Store::use_beside(PieceUse &use, uint64_t *skipped, const Sequence &seq, uint32_t layer, uint64_t token, uint32_t flags, Error &error) {
  const ChunkLayout &layout = seq.part->layout_of_layer(layer);
  const bool state = layout.page(layer).layers->kind == KVC_LAYER_STATE;
  KVC_TRY(use_piece(use, seq, state ? Piece::state : Piece::window, state ? token + 1 : token / seq.chunk_tokens(), error));
  const uint32_t missing = left_out(seq, use.rows(), layer), named = layer + seq.part->layer_begin;
  if (state && missing) return fail(error, KVC_ERR_NO_SNAPSHOT, "layer %u: no snapshot at token %llu", named, static_cast<unsigned long long>(token + 1));
  if (!state && token % seq.chunk_tokens() < missing) return fail(error, KVC_ERR_GONE, "layer %u: the row of token %llu was left out", named, static_cast<unsigned long long>(token));
  *skipped = state ? token % seq.chunk_tokens() : missing;
  if ((flags & KVC_VIEW_FRAME) && use.open)
    return fail(error, KVC_ERR_UNSUPPORTED, "KVC_VIEW_FRAME: the page of token %llu has no frame before its rows are complete", static_cast<unsigned long long>(token));
  return KVC_OK;
}

/// The page of a chunk in parts, or of a sequence of one: lent where all its heads lie together.
kvc_status Store::whole_page(SlicePage &out, const Sequence &seq, Ref ref, uint32_t flags, Error &error) {
  const uint32_t heads = out.head_count, layer = out.layer + seq.part->layer_begin, first = seq.part->head_begin_of(out.layer);
  out = page_in(*seq.scope, index_->node(ref), layer, first);
  if (out.head_count < heads)
    return fail(error, KVC_ERR_UNSUPPORTED, "layer %u: heads %u..%u came in several parts, the first with heads %u..%u: gather them", layer, first, first + heads - 1, first, first + out.head_count - 1);
  if ((flags & KVC_VIEW_FRAME) && (out.head || out.head_count > heads))
    return fail(error, KVC_ERR_UNSUPPORTED, "KVC_VIEW_FRAME: layer %u: the frame has %u heads, this sequence's part %u of them", layer, out.head + out.head_count, heads);
  out.head_count = heads;
  return KVC_OK;
}

kvc_status Store::view_acquire(uint64_t *token_out, kvc_rows &rows, const Sequence &seq, uint32_t layer, uint64_t token, uint32_t flags, Error &error) {
  KVC_TRY(check_place(layer, seq, token, flags, error));
  const uint64_t chunk = token / seq.chunk_tokens();
  PieceUse use(*this);
  uint64_t absent = 0;  // rows of the page that are not held
  if (seq.part->shape.run_of(layer).keeps_all()) {
    KVC_TRY(chunk_data(&use.data, seq, chunk, error));
    use.open = chunk < seq.sealed ? nullptr : seq.open[chunk - seq.sealed];
    use.held = use.open ? use.open->held : seq.table->refs[chunk];
  } else {
    KVC_TRY(use_beside(use, &absent, seq, layer, token, flags, error));
  }
  OpenChunk *const open = use.open;
  const Ref ref = use.held;
  SlicePage at{seq.part, use.data, layer, 0, seq.part->shape.run_of(layer).kv_heads, 0};
  if (ref && is_sliced(seq, ref)) KVC_TRY(whole_page(at, seq, ref, flags, error));
  if (verify_reads_ && ref && verify_page(*at.part, ref, at.slot, at.layer, error) != KVC_OK)
    return fail(error, KVC_ERR_GONE, "layer %u: the page at token %llu failed its check and was dropped", layer + seq.part->layer_begin, static_cast<unsigned long long>(chunk * seq.chunk_tokens()));
  *token_out = view_handles_.add(ref ? held_word(ref) : held_word(open));
  if (!*token_out) return fail(error, KVC_ERR_BUSY, "%u views are held: release some or raise view_max", view_handles_.live_count());
  hold_for_view(ref, open, *seq.scope);
  const ChunkLayout &layout = at.part->layout_of_layer(at.layer);
  const ChunkLayout::Page &page = layout.page(at.layer);
  rows.layer_begin = layer + seq.part->layer_begin;
  rows.layer_count = 1;
  rows.head_begin = seq.part->head_begin_of(layer);
  rows.head_count = at.head_count;
  rows.token_begin = chunk * seq.chunk_tokens() + absent;
  const bool state = page.layers->kind == KVC_LAYER_STATE;
  const uint64_t skipped = (state ? 0 : absent) + uint64_t{at.head} * page.layers->page_rows(layout.chunk_tokens());  // rows in front of those that are lent
  rows.token_count = state ? 1 : std::min(seq.filled[layer] - rows.token_begin, seq.chunk_tokens() - absent);
  rows.memory = KVC_MEMORY_HOST;
  if (flags & KVC_VIEW_FRAME) {
    describe_bytes(rows.k, at.slot + layout.header_offset(at.layer), codec::frame_header_bytes);
    describe_bytes(rows.v, at.slot + page.k_offset, page.padded_bytes());
  } else {
    describe_side(rows.k, behind(layout.side(at.slot, at.layer, SideKind::k), skipped), page.k_bytes, rows.head_count, rows.token_count);
    describe_side(rows.v, behind(layout.side(at.slot, at.layer, SideKind::v), skipped), page.v_bytes, rows.head_count, rows.token_count);
  }
  return KVC_OK;
}

/// The quota of an open chunk is its scope's, so that a view of it uses the scope.
void Store::hold_for_view(Ref ref, OpenChunk *open, Scope &scope) {
  std::lock_guard lock(mutex_);
  if (ref) return index_->pin(ref);
  open->users.fetch_add(1, std::memory_order_relaxed);
  open->scope = &scope;
  scope.users++;
}

/// Under the lock.
void Store::let_go_of_view(OpenChunk *open) {
  Scope *const scope = open->scope;
  open_chunk_unref(open);
  scope->users--;
  forget_scope(scope);
}

kvc_status Store::view_release(const base::Token &token, Error &error) {
  void *word;
  if (view_handles_.enter_exclusive(&word, token) != KVC_OK) return fail(error, KVC_ERR_STALE, "kvc_view was released before");
  view_handles_.remove(token);
  std::lock_guard lock(mutex_);
  if (const Ref ref = ref_of_word(word)) index_->unpin(ref, next_tick(), true);
  else let_go_of_view(static_cast<OpenChunk *>(word));
  queues_.room_freed();
  return KVC_OK;
}

}  // namespace kvc::store

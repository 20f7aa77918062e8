#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "store/memory.h"
#include "store/restoring.h"
#include "store/slices.h"

/// A sequence out of a file: its chunks are read as open ones, checked where they lie, and sealed when nothing can go wrong any more.
namespace kvc::store {

using base::fail;
using base::fail_never;

namespace {

void hex(char (&out)[65], const base::Digest &digest) {
  for (size_t i = 0; i < digest.size(); i++) std::snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

struct RangeText {
  char text[80] = "all layers and heads";
  explicit RangeText(const PartRange &r) {
    if (r.head_count) std::snprintf(text, sizeof text, "layers [%u, +%u), heads [%u, +%u)", r.layer_begin, r.layer_count, r.head_begin, r.head_count);
    else if (r.layer_count) std::snprintf(text, sizeof text, "layers [%u, +%u), all heads", r.layer_begin, r.layer_count);
  }
};

kvc_status check_whose(const SaveTable &table, const Scope &scope, Error &error) {
  char theirs[65], ours[65];
  if (table.shape.fingerprint != scope.shape.fingerprint) {
    hex(theirs, table.shape.fingerprint), hex(ours, scope.shape.fingerprint);
    return fail(error, KVC_ERR_SHAPE, "the file's shape is %s: the scope's is %s", theirs, ours);
  }
  if (table.scope == scope.name) return KVC_OK;
  hex(theirs, table.scope), hex(ours, scope.name);
  return fail(error, KVC_ERR_SHAPE, "the file is of the scope %s: this one is %s", theirs, ours);
}

kvc_status check_restore_options(const kvc_seq_options &o, const SaveTable &table, Error &error) {
  if (o.flags & (KVC_SEQ_NO_CUT | KVC_SEQ_PEEK)) return fail(error, KVC_ERR_ARGUMENT, "seq flags 0x%x: only a match takes them", o.flags);
  if (o.extra_count) return fail(error, KVC_ERR_ARGUMENT, "extra_count %llu: the extras of a restored sequence are those of the file", static_cast<unsigned long long>(o.extra_count));
  if (o.first_position && o.first_position != table.first_position)
    return fail(error, KVC_ERR_ARGUMENT, "first_position %llu: the file's is %llu; 0 takes that", static_cast<unsigned long long>(o.first_position), static_cast<unsigned long long>(table.first_position));
  return KVC_OK;
}

}  // namespace

Store::Restoring::~Restoring() {
  store.open_bytes_.fetch_add(uncounted_bytes, std::memory_order_relaxed);
  if (!seq) return;
  std::lock_guard lock(store.mutex_);
  store.index_->unreserve(reserved);
  plan.undo(store);
  store.let_go(*seq);
}

kvc_status Store::Restoring::begin(Scope &scope, const kvc_seq_options &options, Error &error) {
  kvc_seq_options o = options;
  o.first_position = table.first_position;
  KVC_TRY(store.make_sequence(&seq, scope, o, error));
  if (const PartRange wanted = seq->part->range(); wanted != table.range)
    return fail(error, KVC_ERR_SHAPE, "the file holds %s: the options name %s", RangeText(table.range).text, RangeText(wanted).text);
  seq->is_private = table.is_private;
  seq->extras = table.extras;
  seq->truncated_to = table.truncated_to;
  seq->length = table.length, seq->given = table.ids.size();
  seq->filled.assign(table.filled.begin(), table.filled.end());
  return KVC_OK;
}

/// The leading chunks that are held under their names are taken as they are, and stay from here on.
void Store::Restoring::adopt() {
  constexpr uint64_t batch = 64;
  const uint64_t named = table.named();
  if (!table.sealed()) return;
  seq->table = make<Table>(&store.resource_, &store.resource_);
  seq->table->refs.reserve(table.sealed());
  if (seq->pieces) seq->pieces->pending.reserve(table.sealed());
  for (bool absent = false; !absent && seq->sealed < named;) {
    std::lock_guard lock(store.mutex_);
    const uint64_t before = seq->sealed;
    while (seq->sealed < std::min(before + batch, named)) {
      const Ref ref = store.index_->find_child(table.chunks[seq->sealed].name, seq->tip());
      if ((absent = !ref || !store.adopts(*seq, ref, table.chunks[seq->sealed].write_id.data()) || !is_same_writer(ref))) break;
      seq->table->refs.push_back(ref);
      if (table.chunks[seq->sealed].awaits) seq->pieces->pending.push_back(seq->sealed);  // of the same writer
      seq->sealed++;
    }
    seq->held = seq->sealed;
    if (seq->sealed > before) store.pin_tip(*seq);
  }
}

kvc_status Store::Restoring::check_room(Error &error) const {
  const Scope &scope = *seq->scope;
  const Part &part = *seq->part;
  KVC_TRY(store.check_fits(table.chunks.size() - seq->sealed, scope, part.layout, error));
  uint64_t open_bytes = (table.chunks.size() - table.sealed()) * memory::Slab::rounded_bytes(part.layout.slot_bytes());
  uint64_t counts[2] = {};
  for (const SavedPiece &piece : table.pieces) {
    counts[piece.kind == Piece::state]++;
    if (piece.is_open) open_bytes += memory::Slab::rounded_bytes(part.layout_of(piece.kind).slot_bytes());
  }
  if (counts[0]) KVC_TRY(store.check_fits(counts[0], scope, part.windows, error));
  if (counts[1]) KVC_TRY(store.check_fits(counts[1], scope, part.states, error));
  const uint64_t others = store.open_bytes_.load(std::memory_order_relaxed);
  if (!open_bytes || others + open_bytes <= store.open_bytes_max_) return KVC_OK;
  if (open_bytes > store.open_bytes_max_)
    (void)fail_never(error, KVC_ERR_FULL, "this sequence alone would hold %llu bytes in chunks that are not sealed: open_bytes_max is %llu; raise it", static_cast<unsigned long long>(open_bytes),
                     static_cast<unsigned long long>(store.open_bytes_max_));
  else
    (void)fail(error, KVC_ERR_FULL, "chunks that are not sealed hold %llu bytes, %llu more are needed: open_bytes_max is %llu", static_cast<unsigned long long>(others),
               static_cast<unsigned long long>(open_bytes), static_cast<unsigned long long>(store.open_bytes_max_));
  return store.open_refused(error);
}

/// All that the seal will need but the slots.
void Store::Restoring::reserve() {
  const uint64_t chunk_tokens = seq->chunk_tokens();
  seq->ids.assign(table.ids.begin() + static_cast<int64_t>(std::min<uint64_t>(table.ids.size(), seq->sealed * chunk_tokens)), table.ids.end());
  for (uint64_t c = seq->sealed; c < table.named(); c++) seq->names.push_back(table.chunks[c].name);
  seq->open.reserve(table.chunks.size() - seq->sealed);
  const ChunkLayout &layout = seq->part->layout;
  headers.resize(uint64_t{layout.layer_count()} * codec::frame_header_bytes);
  tails.resize(uint64_t{layout.layer_count()} * SavedPage::frame_align);
  vectors.reserve(3 * uint64_t{layout.layer_count()});
  const auto nodes = static_cast<uint32_t>(table.sealed() - seq->sealed);
  {
    std::lock_guard lock(store.mutex_);
    store.index_->reserve(nodes, seq->scope->id);
    reserved = nodes;
  }
  if (seq->pieces) reserve_pieces();
}

kvc_status Store::Restoring::read_gap(uint64_t from, uint64_t to, uint64_t chunk, Error &error) {
  uint8_t gap[save_align];
  KVC_TRY(file.read_at(gap, to - from, from, error));
  return check_zero(chunk, gap, to - from, error);
}

kvc_status Store::Restoring::take_slot(OpenChunk **out, const ChunkLayout &layout, bool stays_open, Error &error) {
  KVC_TRY(store.open_slot(out, *seq, layout, error));
  if (stays_open) return KVC_OK;
  const uint64_t bytes = store.slab_.bytes((*out)->slot);
  store.open_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  uncounted_bytes += bytes;
  return KVC_OK;
}

kvc_status Store::Restoring::read(Error &error) {
  for (uint64_t c = seq->sealed; c < table.chunks.size(); c++) {
    OpenChunk *open;
    KVC_TRY(take_slot(&open, seq->part->layout, table.chunks[c].is_open, error));
    seq->open.push_back(open);
    KVC_TRY(read_part(*open, seq->part->layout, c, error));
  }
  return seq->pieces ? read_pieces(error) : KVC_OK;
}

/// The chunks that were read become those of the table; the last one waits on where it waited for its snapshot.
void Store::seal_restored(Sequence &seq, const SaveTable &table, PiecePlan *plan) {
  const uint64_t named = table.named(), last = table.sealed() - 1;
  const bool may_wait = named && named == table.sealed() && named > seq.sealed && table.chunks[last].awaits;
  seq.is_private = false;
  if (const uint64_t first = may_wait ? last : named; first > seq.sealed) seal(seq, first, plan);
  if (may_wait && waits_for_snapshot(seq, last)) {
    std::lock_guard lock(mutex_);
    index_->unreserve(1);
  } else if (may_wait) {
    seal(seq, named, plan);
  }
  seq.is_private = table.is_private;
  if (!may_wait && table.sealed() > seq.sealed) seal(seq, table.sealed(), plan);
}

kvc_status Store::restore(uint64_t *token, Scope &scope, const char *path, const kvc_seq_options &o, Error &error) {
  if (!scope.has_shape()) return fail(error, KVC_ERR_SHAPE, "the scope has no shape: it holds objects only");
  io::File file(files_, path);
  KVC_TRY(file.open(error));
  const LapsesToLog lapses{*this};
  SaveTable table(&resource_);
  KVC_TRY(save_table_read(table, file, &resource_, error));
  KVC_TRY(check_whose(table, scope, error));
  KVC_TRY(check_restore_options(o, table, error));
  if (seq_handles_.live_count() >= seq_max_) return fail(error, KVC_ERR_FULL, "%u sequences are open: release some or raise seq_max", seq_max_);

  std::optional<Restoring> restoring;
  restoring.emplace(*this, table, file);
  KVC_TRY(restoring->begin(scope, o, error));
  restoring->adopt();
  KVC_TRY(restoring->check_room(error));
  restoring->reserve();
  const uint64_t first_gap = table.part_count() ? table.part(0).offset : table.trailer_at;
  KVC_TRY(restoring->read_gap(table.table_end, first_gap, 0, error));
  KVC_TRY(restoring->read(error));

  // The handle first, held by this call, because it is the last thing that can fail.
  {
    std::lock_guard lock(mutex_);  // no lapse comes between
    slide(*restoring->seq);
    KVC_TRY(add_handle(token, *restoring->seq, error));
    void *object;
    KVC_CHECK(seq_handles_.enter_exclusive(&object, base::token_unpack(*token)) == KVC_OK);
  }
  Sequence &seq = *restoring->seq.release();
  PiecePlan pieces = std::move(restoring->plan);
  PiecePlan *const plan = seq.pieces ? &pieces : nullptr;
  restoring.reset();
  seal_restored(seq, table, plan);
  if (plan) settle_restored(seq, table, *plan);
  seq.is_private = table.is_private || (o.flags & KVC_SEQ_PRIVATE);
  slide(seq);
  seqs().leave_exclusive(base::token_unpack(*token));
  return KVC_OK;
}

}  // namespace kvc::store

#include <algorithm>
#include <array>
#include <cstring>

#include "base/fault.h"
#include "store/append_plan.h"
#include "store/memory.h"
#include "store/page_sums.h"
#include "store/store.h"

/// Rows coming in: everything that can fail is done first (plan, reserve), then rows are copied and complete chunks sealed.
namespace kvc::store {

using base::fail;
using base::fail_never;

namespace {

constexpr uint64_t kTokensMax = 1ull << 40;  // positions stay far from overflow in every product

/// Complete tokens, of all layers alike.  They only rise, so a layer that is still at `before` settles it; in most calls the first or the last is.
uint64_t length_of(std::span<const uint64_t> filled, [[maybe_unused]] uint64_t before) {
#ifdef KVC_MUTATE_ORDER
  return *std::max_element(filled.begin(), filled.end());
#else
  return filled.front() == before || filled.back() == before ? before : *std::min_element(filled.begin(), filled.end());
#endif
}

uint64_t most_filled(const Sequence &seq) { return *std::max_element(seq.filled.begin(), seq.filled.end()); }

/// A private sequence may have rows without ids.  They stay so: the ids of a chunk are written when it is sealed.
bool ids_too_late(const Sequence &seq) { return seq.is_private && most_filled(seq) > seq.given; }

/// The rows are those of a chunk that is held under this name.
bool is_adopted(const OpenChunk &open, const seq::Name &name, const seq::Index &index) {
  return open.held && index.node(open.held).name == name && index.held(open.held);
}

/// Runs that share a layer and its tokens must bring all of its heads, in order, within the call.
struct HeadCover {
  const Run *first = nullptr;
  uint32_t covered = 0;

  kvc_status add(const Run &run, bool *complete, Error &error) {
    if (first && (run.layer_begin != first->layer_begin || run.layer_count != first->layer_count || run.token_begin != first->token_begin ||
                  run.token_count != first->token_count))
      return unfinished(error);
    if (run.head_begin != covered)
      return fail(error, KVC_ERR_RANGE, "layer %u: heads start at %u, %u were given: all heads of a layer are appended in one call, in order", run.named(run.layer_begin),
                  run.head_begin + run.head_shift, covered);
    covered += run.head_count;
    *complete = covered == run.layers->kv_heads;
    first = *complete ? nullptr : &run;
    if (*complete) covered = 0;
    return KVC_OK;
  }
  kvc_status unfinished(Error &error) const {
    if (!first) return KVC_OK;
    return fail(error, KVC_ERR_RANGE, "layer %u: %u of %u heads were given: all heads of a layer are appended in one call", first->named(first->layer_begin), covered,
                first->layers->kv_heads);
  }
};

}  // namespace

uint64_t length_of_mixed(std::span<const uint64_t> filled, const seq::Shape &shape) {
  uint64_t kept = UINT64_MAX;
  for (const seq::LayerRun &run : shape.runs)
    if (run.keeps_all()) kept = std::min(kept, *std::min_element(filled.begin() + run.layer_begin, filled.begin() + run.layer_begin + run.layer_count));
  return kept != UINT64_MAX ? kept : *std::min_element(filled.begin(), filled.end());
}

/// Can a store of this size hold so many chunks at all?
kvc_status Store::check_fits(uint64_t chunks, const Scope &scope, const ChunkLayout &layout, Error &error) const {
  const uint64_t slot_bytes = memory::Slab::rounded_bytes(layout.slot_bytes()), capacity = slab_.capacity_bytes();
  const uint64_t quota = scope.bytes_max.load(std::memory_order_relaxed);
  if (quota && chunks > quota / slot_bytes)
    return fail_never(error, KVC_ERR_FULL, "%llu chunks of %llu bytes are needed: the scope's bytes_max is %llu", static_cast<unsigned long long>(chunks),
                      static_cast<unsigned long long>(slot_bytes), static_cast<unsigned long long>(quota));
  if (chunks <= capacity / slot_bytes) return KVC_OK;
  return fail_never(error, KVC_ERR_FULL, "%llu chunks of %llu bytes are needed: memory_bytes is %llu; open the store with more memory_bytes",
                    static_cast<unsigned long long>(chunks), static_cast<unsigned long long>(slot_bytes), static_cast<unsigned long long>(capacity));
}

kvc_status Store::plan_append(AppendPlan &plan, Sequence &seq, uint64_t given, Error &error) {
  const uint64_t chunk_tokens = seq.chunk_tokens();
  plan.filled.assign(seq.filled.begin(), seq.filled.end());
  plan.chunk_begin = UINT64_MAX;
  HeadCover cover;
  for (const Run &run : plan.runs) {
    if (run.token_end() > kTokensMax) return fail(error, KVC_ERR_RANGE, "rows end at token %llu: at most %llu", static_cast<unsigned long long>(run.token_end()), static_cast<unsigned long long>(kTokensMax));
    if (!seq.is_private && run.token_end() > given)
      return fail(error, KVC_ERR_RANGE, "rows end at token %llu: ids are known for %llu", static_cast<unsigned long long>(run.token_end()), static_cast<unsigned long long>(given));
    bool complete = false;
    KVC_TRY(cover.add(run, &complete, error));
    for (uint32_t l = run.layer_begin; l < run.layer_begin + run.layer_count; l++) {
      const bool skips = run.layers->kind == KVC_LAYER_WINDOW && run.token_begin > plan.filled[l];
      if (skips) plan.note_skip(run, l);
      if (run.layers->kind == KVC_LAYER_STATE && plan.filled[l] != seq.filled[l])
        return fail(error, KVC_ERR_RANGE, "layer %u: a second snapshot in one call, at token %llu: a state layer takes one", run.named(l), static_cast<unsigned long long>(run.token_end()));
      if (plan.filled[l] != run.token_begin && !skips)
        return fail(error, KVC_ERR_RANGE, "layer %u: rows start at token %llu, %s %llu are filled", run.named(l), static_cast<unsigned long long>(run.token_begin),
                    run.token_begin > plan.filled[l] ? "a gap:" : "an overlap:", static_cast<unsigned long long>(plan.filled[l]));
      if (complete) plan.filled[l] = run.token_end();
    }
    if (!run.layers->keeps_all()) {
      if (run.layers->kind == KVC_LAYER_WINDOW) KVC_TRY(check_fits((run.token_count + chunk_tokens - 1) / chunk_tokens, *seq.scope, seq.part->windows, error));
      continue;
    }
    plan.chunk_begin = std::min(plan.chunk_begin, run.token_begin / chunk_tokens);
    plan.chunk_end = std::max(plan.chunk_end, (run.token_end() + chunk_tokens - 1) / chunk_tokens);
  }
  KVC_TRY(cover.unfinished(error));
  // Nobody has the rows of a private chunk already, and no list of ids bounds how many there are: before anything is counted chunk by chunk.
  const uint64_t chunks = seq.sealed + seq.open.size();
  if (seq.is_private && plan.chunk_end > chunks) KVC_TRY(check_fits(plan.chunk_end - chunks, *seq.scope, seq.part->layout, error));
  plan.length = seq.pieces ? length_of_mixed(plan.filled, seq.part->shape) : length_of(plan.filled, seq.length);
  plan.sealed = plan.runs.empty() ? seq.sealed : plan.length / chunk_tokens;
  if (!seq.pieces) return KVC_OK;
  if (plan.sealed > seq.sealed) {  // every one of them needs a main piece, whoever brings rows
    plan.chunk_begin = std::min(plan.chunk_begin, seq.sealed);
    plan.chunk_end = std::max(plan.chunk_end, plan.sealed);
  }
  return plan.check_skip(error);
}

bool Store::name_chunk(Sequence &seq, uint64_t chunk) {
  thread_local seq::ChunkNamer namer;
  const uint64_t chunk_tokens = seq.chunk_tokens(), index = chunk - seq.sealed;
  if (seq.is_private || seq.ids.size() < (index + 1) * chunk_tokens) return false;
  while (seq.names.size() <= index) {
    const uint64_t i = seq.names.size();
    const seq::Name parent = i ? seq.names.back() : seq.sealed ? index_->node(seq.tip()).name : seq.root;
    seq.names.push_back(namer.next(parent, seq.ids.data() + i * chunk_tokens, static_cast<uint32_t>(chunk_tokens), (seq.sealed + i) * chunk_tokens, seq.extras.all()));
  }
  return true;
}

kvc_status Store::open_slot(OpenChunk **out, const Sequence &seq, const ChunkLayout &layout, Error &error) {
  uint8_t write_id[sizeof OpenChunk::write_id];
  if (seq.write_id_given) std::memcpy(write_id, seq.write_id, sizeof write_id);
  else draw_write_id(write_id);
  memory::SlotId slot;
  QuotaHold quota;
  KVC_TRY(take_slot(&slot, &quota, layout.slot_bytes(), *seq.scope, error));
  OpenChunk *open;
  try {
    open = make<OpenChunk>(&resource_);
  } catch (...) {
    slab_.give(slot);
    throw;
  }
  open->slot = slot;
  open->data = slab_.data(slot);
  open->quota = std::move(quota);
  std::memcpy(open->write_id, write_id, sizeof write_id);
  open->has_sisters = seq.write_id_given;
  open_bytes_.fetch_add(slab_.bytes(slot), std::memory_order_relaxed);
  for (uint32_t l = 0; l < layout.layer_count(); l++)
    if (layout.page(l).present()) page_sums(open->data, layout, l)->valid = 0;
  *out = open;
  return KVC_OK;
}

/// Gives an open chunk rows of its own: a copy of what is filled.
kvc_status Store::materialize(AppendPlan &plan, Sequence &seq, uint64_t chunk, Error &error) {
  OpenChunk *&open = seq.open[chunk - seq.sealed];
  const ChunkLayout &layout = seq.part->layout;
  if (open->held) KVC_TRY(check_chunk(seq, open->held, chunk * seq.chunk_tokens(), error));
  OpenChunk *own;
  KVC_TRY(open_slot(&own, seq, layout, error));
  uint8_t *from = open->data;
  if (open->held) from = slot_data(index_->node(open->held));
  const uint64_t begin = chunk * seq.chunk_tokens();
  for (uint32_t l = 0; l < layout.layer_count(); l++) {
    const uint64_t rows = std::min(seq.filled[l] > begin ? seq.filled[l] - begin : 0, seq.chunk_tokens());
    if (rows == 0 || !layout.page(l).present()) continue;
    for (const SideKind kind : {SideKind::k, SideKind::v}) {
      const kernels::PageSide to = layout.side(own->data, l, kind);
      const uint64_t row_bytes = uint64_t{to.dim} * kernels::dtype_bytes(to.dtype), head_bytes = row_bytes * to.page_tokens;
      for (uint32_t h = 0; h < layout.page(l).layers->kv_heads; h++) std::memcpy(to.data + h * head_bytes, head_rows(seq, open->held, from, l, kind, h), row_bytes * rows);
    }
    if (rows == seq.chunk_tokens() && !open->held) *page_sums(own->data, layout, l) = *page_sums(from, layout, l);
  }
  own->cut_from = open->cut_from;
  plan.replaced.push_back({chunk - seq.sealed, open});
  open = own;
  return KVC_OK;
}

/// From the first open chunk on those that are held under their names are adopted: rows that come are not copied, and own ones of before are
/// given up, as they would be at the seal.  The pin on each holds those before it.
void Store::AppendPlan::adopt(Store &store, Sequence &seq) {
  Ref parent = seq.tip();
  for (uint64_t c = seq.sealed; c < chunk_end && store.name_chunk(seq, c); c++) {
    OpenChunk *&open = seq.open[c - seq.sealed];
    const seq::Name &name = seq.names[c - seq.sealed];
    if (!open || !is_adopted(*open, name, *store.index_)) {
      if (open && replaced.size() == replaced.capacity()) replaced.reserve(2 * replaced.size() + 4);
      OpenChunk *adopted = make<OpenChunk>(&store.resource_);
      {
        std::lock_guard lock(store.mutex_);
        const Ref found = store.find_now(name, parent);
        if (found && store.adopts(seq, found, open && open->sisters_id() ? open->sisters_id() : seq.write_id_given ? seq.write_id : nullptr)) store.index_->pin(adopted->held = found);
      }
      if (!adopted->held) return destroy(&store.resource_, adopted);
      if (open) replaced.push_back({c - seq.sealed, open});
      open = adopted;
    }
    parent = open->held;
  }
}

/// Will the call seal open rows that are another writer's chunk, beside which the sequence has something that this lacks?
bool Store::AppendPlan::parts_from(Store &store, const Sequence &seq, const OpenChunk &open, uint64_t chunk) const {
  if (!pieces || chunk >= sealed || open.held == open.cut_from) return false;
  const OpenChunk *const *snapshot = nullptr;
  for (const Pieces::Entry &entry : pieces->states)
    if (entry.at == (chunk + 1) * seq.chunk_tokens()) snapshot = &entry.rows;
  std::lock_guard lock(store.mutex_);
  return !store.serves(seq, open.held, chunk, length, snapshot && (!*snapshot || (*snapshot)->own()));
}

/// Chunks of the call that are neither adopted nor in a slot that is ours alone.
void Store::AppendPlan::list_slots(Store &store, Sequence &seq) {
  const uint64_t chunk_tokens = seq.chunk_tokens();
  for (uint64_t c = chunk_begin; c < chunk_end; c++) {
    const bool touched = c < sealed || std::any_of(runs.begin(), runs.end(), [&](const Run &run) { return run.layers->keeps_all() && run.token_begin < (c + 1) * chunk_tokens && run.token_end() > c * chunk_tokens; });
    if (!touched) continue;
    const bool named = store.name_chunk(seq, c);
    const OpenChunk *open = seq.open[c - seq.sealed];
    const bool ready = open && (open->held ? named && is_adopted(*open, seq.names[c - seq.sealed], *store.index_) && !parts_from(store, seq, *open, c) : open->users.load(std::memory_order_acquire) == 1);
    if (!ready) slots.push_back(c);
  }
}

/// Chunks with their window rows and snapshots, which are at their places together or not at all.
kvc_status Store::AppendPlan::check_all_fits(const Store &store, const Sequence &seq, uint64_t chunk_bytes, Error &error) const {
  uint64_t bytes = chunk_bytes;
  for (const PieceNeed &need : pieces->needs) bytes += memory::Slab::rounded_bytes(seq.part->layout_of(need.piece).slot_bytes());
  const uint64_t quota = seq.scope->bytes_max.load(std::memory_order_relaxed), capacity = store.slab_.capacity_bytes();
  if (bytes <= (quota ? std::min(quota, capacity) : capacity)) return KVC_OK;
  return fail_never(error, KVC_ERR_FULL, "%llu bytes are needed, %llu of them for window rows and snapshots: %s is %llu; leave out window rows that no query sees, append fewer tokens in one call, or raise it",
                    static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(bytes - chunk_bytes), quota && quota < capacity ? "the scope's bytes_max" : "memory_bytes",
                    static_cast<unsigned long long>(quota && quota < capacity ? quota : capacity));
}

/// What can be said before anything is evicted.
kvc_status Store::AppendPlan::check_room(Store &store, const Sequence &seq, Error &error) const {
  KVC_TRY(store.check_fits(slots.size(), *seq.scope, seq.part->layout, error));
  const uint64_t slot_bytes = memory::Slab::rounded_bytes(seq.part->layout.slot_bytes());
  if (pieces && !pieces->needs.empty()) KVC_TRY(check_all_fits(store, seq, slots.size() * slot_bytes, error));
  const auto own_bytes = [&](const OpenChunk *open) { return open && open->slot.generation && open->users.load(std::memory_order_acquire) == 1 ? store.slab_.bytes(open->slot) : 0; };
  uint64_t open_bytes = store.open_bytes_.load(std::memory_order_relaxed);
  for (uint64_t i = 0; i < sealed - seq.sealed && i < seq.open.size(); i++) open_bytes -= own_bytes(seq.open[i]);
  for (const Replaced &r : replaced) open_bytes -= own_bytes(r.before);
  const uint64_t more_bytes = (pieces ? pieces->open_bytes : 0) + slot_bytes * static_cast<uint64_t>(std::count_if(slots.begin(), slots.end(), [&](uint64_t c) { return c >= sealed; }));
  uint64_t own_open_bytes = 0;  // that stay open with the rows of the call: nobody else can release them
  for (uint64_t i = sealed - seq.sealed; i < seq.open.size(); i++) own_open_bytes += own_bytes(seq.open[i]);
  if (!more_bytes || std::max(own_open_bytes, open_bytes) + more_bytes <= store.open_bytes_max_) return KVC_OK;
  const bool uneven = *std::max_element(filled.begin(), filled.end()) > length;
  if (own_open_bytes + more_bytes > store.open_bytes_max_)
    (void)fail_never(error, KVC_ERR_FULL, "this sequence alone would hold %llu bytes in chunks that are not sealed: open_bytes_max is %llu; raise it%s",
                     static_cast<unsigned long long>(own_open_bytes + more_bytes), static_cast<unsigned long long>(store.open_bytes_max_), uneven ? ", or append all layers in one call" : "");
  else
    (void)fail(error, KVC_ERR_FULL, "chunks that are not sealed hold %llu bytes, %llu more are needed: open_bytes_max is %llu", static_cast<unsigned long long>(open_bytes),
               static_cast<unsigned long long>(more_bytes), static_cast<unsigned long long>(store.open_bytes_max_));
  return store.open_refused(error);
}

/// The sequence is as it was before the call.  Under the lock.
void Store::AppendPlan::undo(Store &store, Sequence &seq) const {
  for (const Replaced &r : replaced) {
    store.open_chunk_unref(seq.open[r.index]);
    seq.open[r.index] = r.before;
  }
  uint64_t rows_end = 0;
  for (const seq::LayerRun &run : seq.part->shape.runs)
    if (run.keeps_all()) rows_end = std::max(rows_end, *std::max_element(seq.filled.begin() + run.layer_begin, seq.filled.begin() + run.layer_begin + run.layer_count));
  for (size_t i = 0; i < seq.open.size(); i++)  // rows were never copied here
    if (rows_end <= (seq.sealed + i) * seq.chunk_tokens()) {
      store.open_chunk_unref(seq.open[i]);
      seq.open[i] = nullptr;
    }
  seq.open.resize(std::min(open_before, seq.open.size()));
  seq.ids.resize(std::min(ids_before, seq.ids.size()));
  seq.names.resize(std::min(names_before, seq.names.size()));
  if (pieces) pieces->undo(store);
}

kvc_status Store::reserve_chunk(AppendPlan &plan, Sequence &seq, uint64_t chunk, Error &error) {
  OpenChunk *&open = seq.open[chunk - seq.sealed];
  const kvc_status status = open ? materialize(plan, seq, chunk, error) : open_slot(&open, seq, seq.part->layout, error);
  if (status != KVC_ERR_FULL || is_over_quota(*seq.scope, seq.part->layout.slot_bytes())) return status;
  uint64_t own_bytes = 0;  // that this call has taken
  const auto own_end = std::find(plan.slots.begin(), plan.slots.end(), chunk);
  for (auto c = plan.slots.begin(); c != own_end; ++c) own_bytes += slab_.bytes(seq.open[*c - seq.sealed]->slot);
  return fail(error, KVC_ERR_FULL, "%zu chunks of %llu bytes are needed: %llu of %llu are in use, all of them open or leased; after %zu chunks the largest free piece has %llu",
              plan.slots.size(), static_cast<unsigned long long>(memory::Slab::rounded_bytes(seq.part->layout.slot_bytes())),
              static_cast<unsigned long long>(slab_.used_bytes() - own_bytes), static_cast<unsigned long long>(slab_.capacity_bytes()),
              static_cast<size_t>(own_end - plan.slots.begin()), static_cast<unsigned long long>(slab_.largest_free_bytes()));
}

kvc_status Store::reserve_append(AppendPlan &plan, Sequence &seq, Error &error) {
  if (seq.pieces) plan_pieces(plan, seq);
  if (plan.chunk_end > seq.sealed + seq.open.size()) seq.open.resize(plan.chunk_end - seq.sealed);
  if (!seq.pieces) plan.adopt(*this, seq);
  plan.list_slots(*this, seq);
  KVC_TRY(plan.check_room(*this, seq, error));
  if (plan.sealed > seq.sealed) {  // a table of its own, long enough that sealing cannot fail
    if (!seq.table || seq.table->users.load(std::memory_order_acquire) > 1 || seq.table->refs.size() > seq.sealed) {
      Table *own = make<Table>(&resource_, &resource_);
      try {
        own->refs.reserve(plan.sealed);
      } catch (...) {
        destroy(&resource_, own);
        throw;
      }
      if (seq.table) own->refs.assign(seq.table->refs.begin(), seq.table->refs.begin() + static_cast<int64_t>(seq.sealed));
      table_unref(seq.table);
      seq.table = own;
    }
    if (seq.table->refs.capacity() < plan.sealed) seq.table->refs.reserve(std::max<uint64_t>(plan.sealed, seq.table->refs.capacity() * 2));
  }
  plan.replaced.reserve(plan.replaced.size() + plan.slots.size());
  for (const uint64_t c : plan.slots) KVC_TRY(reserve_chunk(plan, seq, c, error));
  return seq.pieces ? reserve_pieces(plan, seq, error) : KVC_OK;
}

void Store::copy_piece(Sequence &seq, const Run &run, uint32_t layer, uint64_t token, uint64_t count, bool stream) {
  const ChunkLayout &layout = seq.part->layout;
  const uint64_t chunk_tokens = seq.chunk_tokens(), chunk = token / chunk_tokens;
  OpenChunk *open = seq.open[chunk - seq.sealed];
  if (open->held) return;  // the chunk is held under this name: those bytes are what a read gives
  const kernels::Table &kernel = kernels::table();
  const bool whole = count == chunk_tokens && run.head_count == run.layers->kv_heads;
  PageSums &sums = *page_sums(open->data, layout, layer);
  for (const SideKind kind : {SideKind::k, SideKind::v}) {
    if (!run.side(kind).present) continue;
    const kernels::RowsSide rows = run.side(kind).from(layer - run.layer_begin, token - run.token_begin);
    const kernels::PageSide page = layout.side(open->data, layer, kind);
    if (whole) (kind == SideKind::k ? sums.k : sums.v) = kernel.rows_in_sum(page, rows, run.head_count, stream);
    else
      kernel.rows_in(page, rows, {static_cast<uint32_t>(token % chunk_tokens), static_cast<uint32_t>(count), run.head_begin, run.head_count, stream, kind == SideKind::k && run.v.present});
  }
  // Whoever brings the last row leaves the sums right, whatever they were before; until then nobody asks, and a row does not pay for their line.
  if (whole) sums.valid = 1;
  else if ((token + count) % chunk_tokens == 0 && run.head_begin + run.head_count == run.layers->kv_heads) sum_page(open->data, layout, layer);
}

void Store::copy_run(Sequence &seq, const Run &run) {
  if (!run.layers->keeps_all()) return copy_pieces(seq, run);
  const uint64_t chunk_tokens = seq.chunk_tokens();
  const uint64_t row_bytes = static_cast<uint64_t>(run.head_count) * (run.k.dim * kernels::dtype_bytes(run.k.rows.dtype) + run.v.dim * kernels::dtype_bytes(run.v.rows.dtype));
  // Pages are memory that nobody touched for long and nobody reads soon, so whole lines go past the cache; even the few rows of a decode step:
  // fetching their lines first would take longer than all the rest.
  const auto whole_lines = [](const Side &side) { return side.dim * kernels::dtype_bytes(side.rows.dtype) % 64 == 0; };
  const bool stream = run.token_count * run.layer_count * row_bytes >= kernels::stream_in_bytes_min || (whole_lines(run.k) && whole_lines(run.v));
  metrics_.append_bytes.fetch_add(run.token_count * run.layer_count * row_bytes, std::memory_order_relaxed);  // first: behind the rows it would wait for them
  for (uint32_t layer = run.layer_begin; layer < run.layer_begin + run.layer_count; layer++)
    for (uint64_t token = run.token_begin; token < run.token_end();) {
      const uint64_t count = std::min(chunk_tokens - token % chunk_tokens, run.token_end() - token);
      copy_piece(seq, run, layer, token, count, stream);
      token += count;
    }
}

/// A decode step: one run, all heads, into a chunk that is open, ours alone and not completed by it.  Nothing to reserve, nothing to seal.
/// False, and nothing done, when the call is any other, or wrong.
bool Store::append_in_place(Sequence &seq, std::span<const int32_t> ids, const Run &run) {
  if (seq.is_pieced) return false;
  const uint64_t chunk_tokens = seq.chunk_tokens(), chunk = run.token_begin / chunk_tokens, given = seq.given + ids.size();
  if (!ids.empty() && ids_too_late(seq)) return false;
  if (run.token_end() >= (chunk + 1) * chunk_tokens || (!seq.is_private && run.token_end() > given) || given > kTokensMax || run.head_count != run.layers->kv_heads) return false;
  const uint64_t index = chunk - seq.sealed;
  if (chunk < seq.sealed || index >= seq.open.size() || !seq.open[index] || seq.open[index]->held || seq.open[index]->users.load(std::memory_order_acquire) != 1) return false;
  uint64_t *const filled = seq.filled.data() + run.layer_begin;
  for (uint32_t l = 0; l < run.layer_count; l++)
    if (filled[l] != run.token_begin) return false;
  if (!ids.empty()) seq.ids.insert(seq.ids.end(), ids.begin(), ids.end());  // nothing has changed if this throws
  copy_run(seq, run);
  seq.given = given;
  for (uint32_t l = 0; l < run.layer_count; l++) filled[l] = run.token_end();
  if (run.token_begin > seq.length) return true;
  const uint64_t length = length_of(seq.filled, seq.length);
  if (length != seq.length) seq.scope->tokens_written.fetch_add(length - seq.length, std::memory_order_relaxed);
  seq.length = length;
  return true;
}

kvc_status Store::append(Sequence &seq, std::span<const int32_t> ids, std::span<const kvc_rows> rows, Error &error) {
  if (ids.empty() && rows.empty()) return fail(error, KVC_ERR_ARGUMENT, "token_count 0 and row_count 0: nothing to append");
  if (tokens_left(seq) != UINT64_MAX) KVC_TRY(check_left(seq, most_filled(seq), error));
  Run only;  // of a call with one run, which a decode step is
  if (rows.size() == 1) {
    KVC_TRY(resolve_run(only, rows[0], *seq.part, Direction::append, seq.filled, &resource_, error));
    if (append_in_place(seq, ids, only)) return KVC_OK;
  }
  const LapsesToLog lapses{*this};
  std::array<std::byte, 2048> stack;
  std::pmr::monotonic_buffer_resource scratch(stack.data(), stack.size(), &resource_);
  AppendPlan plan(seq, &scratch);
  plan.runs.assign(rows.size(), only);
  for (size_t i = 0; i < rows.size() && rows.size() > 1; i++)
    KVC_TRY(resolve_run(plan.runs[i], rows[i], *seq.part, Direction::append, seq.filled, &scratch, error));
  if (ids.size() > kTokensMax - seq.given) return fail(error, KVC_ERR_RANGE, "token_count %zu: a sequence has at most %llu tokens", ids.size(), static_cast<unsigned long long>(kTokensMax));
  if (!ids.empty() && ids_too_late(seq))
    return fail(error, KVC_ERR_RANGE, "token_count %zu: these ids name tokens from %llu on, rows below %llu are there: in a private sequence ids come before the rows they name, or never", ids.size(),
                static_cast<unsigned long long>(seq.given), static_cast<unsigned long long>(most_filled(seq)));
  KVC_TRY(plan_append(plan, seq, seq.given + ids.size(), error));

  const uint32_t seals = static_cast<uint32_t>(plan.sealed - seq.sealed);
  kvc_status status = KVC_OK;
  bool reserved = false;
  try {
    seq.ids.insert(seq.ids.end(), ids.begin(), ids.end());
    if (seals) {
      std::lock_guard lock(mutex_);
      index_->reserve(seals, seq.scope->id);
      reserved = true;
    }
    if (!rows.empty()) status = reserve_append(plan, seq, error);
    if (status == KVC_OK && KVC_FAULT("store.append.reserved")) status = fail(error, KVC_ERR_NO_MEMORY, "injected after the reservation");
  } catch (const std::bad_alloc &) {
    status = fail(error, KVC_ERR_NO_MEMORY, "append: the system refused memory");
  }
  if (status != KVC_OK) {
    std::lock_guard lock(mutex_);
    if (reserved) index_->unreserve(seals);
    plan.undo(*this, seq);
    return status;
  }
  if (!plan.replaced.empty()) {
    std::lock_guard lock(mutex_);
    for (const AppendPlan::Replaced &r : plan.replaced) open_chunk_unref(r.before);
  }
  if (plan.pieces) plan.pieces->take_over(*this, *seq.pieces);
  for (const Run &run : plan.runs) copy_run(seq, run);
  seq.scope->tokens_written.fetch_add(plan.length - seq.length, std::memory_order_relaxed);
  seq.given += ids.size();
  seq.filled.assign(plan.filled.begin(), plan.filled.end());
  seq.length = plan.length;
  if (plan.pieces) {
    seal_or_wait(seq, plan);
    settle_pieces(seq, *plan.pieces);
  } else if (plan.sealed > seq.sealed) {
    seal(seq, plan.sealed, nullptr);
  }
  return KVC_OK;
}

}  // namespace kvc::store

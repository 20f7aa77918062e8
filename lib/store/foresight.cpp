#include <algorithm>
#include <array>

#include "store/piece_use.h"

/// What the host knows of what comes: which rows it will want, and which conversations go on.
namespace kvc::store {

using base::fail;

namespace {

/// A step of priority counts as so many calls that used the sequence later.
constexpr uint64_t kPriorityTicks = 1024;

}  // namespace

kvc_status Store::hint(Sequence &seq, const kvc_hint &hint, Error &error) {
  if (hint.flags & ~static_cast<uint32_t>(KVC_HINT_DONE)) return fail(error, KVC_ERR_TOO_NEW, "hint.flags 0x%x: unknown bits", hint.flags & ~static_cast<uint32_t>(KVC_HINT_DONE));
  const bool done = hint.flags & KVC_HINT_DONE;
  std::lock_guard lock(mutex_);
  if (done && !seq.done) index_->reserve_first();
  if (!done && seq.done) index_->unreserve_first();
  seq.done = done;
  seq.kept_ticks = done ? 0 : (uint64_t{hint.priority} + (hint.continues_in_ms != 0)) * kPriorityTicks;
  return KVC_OK;
}

/// Rows [token, end) of a run, which lie in one chunk.  Of a state layer the snapshot at the end of the run goes with its last token.
kvc_status Store::check_there(const Sequence &seq, const Run &run, uint64_t token, uint64_t end, Error &error) {
  if (run.layers->keeps_all()) {
    uint8_t *data;
    return chunk_data(&data, seq, token / seq.chunk_tokens(), error);
  }
  const bool state = run.layers->kind == KVC_LAYER_STATE;
  if (state && end != run.token_end()) return KVC_OK;
  const Piece piece = state ? Piece::state : Piece::window;
  PieceUse use(*this);
  KVC_TRY(use_piece(use, seq, piece, state ? end : token / seq.chunk_tokens(), error));
  for (uint32_t l = run.layer_begin; l < run.layer_begin + run.layer_count; l++) {
    const uint32_t missing = left_out(seq, use.rows(), l, run.head_begin, run.head_count);
    if (state && missing) return fail(error, KVC_ERR_NO_SNAPSHOT, "layer %u: no snapshot at token %llu", run.named(l), static_cast<unsigned long long>(end));
    if (!state && missing > token % seq.chunk_tokens()) return fail(error, KVC_ERR_GONE, "layer %u: the row of token %llu was left out", run.named(l), static_cast<unsigned long long>(token));
  }
  return KVC_OK;
}

/// How far rows are held: each chunk that a run touches.  In this store what is held is in RAM, so nothing is moved.
kvc_status Store::prefetch(kvc_result &result, const Sequence &seq, std::span<const kvc_rows> rows, uint32_t tier, Error &error) {
  if (tier < KVC_TIER_DEVICE || tier > KVC_TIER_REMOTE) return fail(error, KVC_ERR_ARGUMENT, "tier %u: no such tier", tier);
  if (tier != KVC_TIER_HOST) return fail(error, KVC_ERR_UNSUPPORTED, "tier %u: this store has the host tier only", tier);
  if (rows.empty()) return fail(error, KVC_ERR_ARGUMENT, "row_count 0: nothing to prefetch");
  std::array<std::byte, 2048> stack;
  std::pmr::monotonic_buffer_resource scratch(stack.data(), stack.size(), &resource_);
  std::pmr::vector<Run> runs(rows.size(), &scratch);
  bool lists = false;
  uint64_t end = 0;
  for (size_t i = 0; i < rows.size(); i++) {
    KVC_TRY(resolve_place(runs[i], rows[i], *seq.part, seq.filled, error));
    KVC_TRY(check_filled(runs[i], seq, error));
    lists = lists || runs[i].token_list;
  }
  for (const Run &run : runs) end = std::max(end, lists ? run.token_count / run.token_unit : run.token_end());
  result.done = end;
  kvc_status status = KVC_OK;
  for (const Run &run : runs)
    for (uint64_t row = 0; row < run.token_count;) {
      const uint64_t token = run.token_list ? run.token_list[row / run.token_unit] * run.token_unit + row % run.token_unit : run.token_begin + row;
      const uint64_t place = lists ? row / run.token_unit : token;
      if (place >= result.done) break;
      const uint64_t count = run.token_list ? 1 : std::min(seq.chunk_tokens() - token % seq.chunk_tokens(), run.token_count - row);
      if (const kvc_status there = check_there(seq, run, token, token + count, error); there != KVC_OK) {
        result.done = place;
        status = there;
        break;
      }
      row += count;
    }
  return status;
}

}  // namespace kvc::store

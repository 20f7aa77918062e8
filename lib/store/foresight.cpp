#include <algorithm>
#include <array>

#include "store/store.h"

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
    KVC_TRY(check_filled(runs[i], seq.filled, error));
    lists = lists || runs[i].token_list;
  }
  for (const Run &run : runs) end = std::max(end, lists ? run.token_count / run.token_unit : run.token_end());
  result.done = end;
  kvc_status status = KVC_OK;
  for (const Run &run : runs) {
    uint64_t chunk_seen = UINT64_MAX;
    for (uint64_t row = 0; row < run.token_count;) {
      const uint64_t token = run.token_list ? run.token_list[row / run.token_unit] * run.token_unit + row % run.token_unit : run.token_begin + row;
      const uint64_t chunk = token / seq.chunk_tokens(), place = lists ? row / run.token_unit : token;
      if (place >= result.done) break;
      uint8_t *data;
      if (chunk != chunk_seen && chunk_data(&data, seq, chunk, error) != KVC_OK) {
        result.done = place;
        status = KVC_ERR_GONE;
        break;
      }
      chunk_seen = chunk;
      row += run.token_list ? 1 : seq.chunk_tokens() - token % seq.chunk_tokens();
    }
  }
  return status;
}

}  // namespace kvc::store

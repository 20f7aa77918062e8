#include <algorithm>
#include <span>
#include <vector>

#include "api/shim.h"
#include "kvc/seq.h"

using namespace kvc;
using namespace kvc::api;

namespace {

kvc_status check_distinct(std::span<kvc_seq *const> seqs, std::pmr::memory_resource *scratch, Error &error) {
  std::pmr::vector<const kvc_seq *> sorted(seqs.begin(), seqs.end(), scratch);
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return KVC_OK;
  const auto first = std::find(seqs.begin(), seqs.end(), *twice), second = std::find(first + 1, seqs.end(), *twice);
  return fail(error, KVC_ERR_ARGUMENT, "seqs[%td] and seqs[%td] are the same sequence: it cannot become two", first - seqs.begin(), second - seqs.begin());
}

/// All of them alone, all of one store.
kvc_status enter_all(std::pmr::vector<SeqUse> &uses, std::pmr::vector<store::Sequence *> &out, std::span<kvc_seq *const> seqs, Error &error) {
  for (size_t i = 0; i < seqs.size(); i++) {
    Error why;
    if (const kvc_status status = uses[i].enter(seqs[i], SeqUse::Mode::exclusive, why); status != KVC_OK) return fail(error, status, "seqs[%zu]: %s", i, why.message);
    if (&uses[i].store() != &uses[0].store()) return fail(error, KVC_ERR_MISUSE, "seqs[%zu] is of another store than seqs[0]", i);
    out.push_back(&uses[i].seq());
  }
  return KVC_OK;
}

}  // namespace

kvc_status kvc_seq_reorder(kvc_seq *const *seqs, const uint32_t *source, size_t seq_count, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!seqs || !source) return fail(e, KVC_ERR_ARGUMENT, "%s is NULL", seqs ? "source" : "seqs");
    if (seq_count == 0) return fail(e, KVC_ERR_ARGUMENT, "seq_count 0: nothing to reorder");
    if (seq_count > base::HandleTable::kIndexMax) return fail(e, KVC_ERR_ARGUMENT, "seq_count %zu: a store has at most %u", seq_count, base::HandleTable::kIndexMax);
    for (size_t i = 0; i < seq_count; i++)
      if (source[i] >= seq_count) return fail(e, KVC_ERR_RANGE, "source[%zu] is %u: there are %zu sequences", i, source[i], seq_count);
    void *object;
    KVC_TRY(base::store_of(&object, token_of(seqs[0]), HandleKind::seq, e));
    auto *store = static_cast<Store *>(object);
    KVC_TRY(check_distinct({seqs, seq_count}, store->resource(), e));
    std::pmr::vector<SeqUse> uses(seq_count, store->resource());
    std::pmr::vector<store::Sequence *> entered(store->resource());
    entered.reserve(seq_count);
    KVC_TRY(enter_all(uses, entered, {seqs, seq_count}, e));
    return store->reorder(entered, {source, seq_count}, e);
  });
}

kvc_status kvc_seq_compact(kvc_seq *seq, const uint64_t *positions, size_t position_count, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    SeqUse use;
    KVC_TRY(use.enter(seq, SeqUse::Mode::exclusive, e));
    if (position_count && !positions) return fail(e, KVC_ERR_ARGUMENT, "positions is NULL but position_count is %zu", position_count);
    return use.store().compact(use.seq(), {positions, position_count}, e);
  });
}

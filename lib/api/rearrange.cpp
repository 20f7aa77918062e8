#include <algorithm>
#include <vector>

#include "api/shim.h"
#include "kvc/seq.h"

using namespace kvc;
using namespace kvc::api;

namespace {

/// The tokens of `seqs`, all of `store`, none of them twice.
kvc_status read_handles(const Store *store, std::pmr::vector<Token> &out, kvc_seq *const *seqs, size_t count, Error &error) {
  std::pmr::vector<const kvc_seq *> sorted(seqs, seqs + count, out.get_allocator());
  std::sort(sorted.begin(), sorted.end());
  out.reserve(count);
  for (size_t i = 0; i < count; i++) {
    void *object;
    KVC_TRY(base::store_of(&object, token_of(seqs[i]), HandleKind::seq, error));
    if (object != store) return fail(error, KVC_ERR_MISUSE, "seqs[%zu] is of another store than seqs[0]", i);
    out.push_back(token_of(seqs[i]));
  }
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return KVC_OK;
  const auto first = std::find(seqs, seqs + count, *twice), second = std::find(first + 1, seqs + count, *twice);
  return fail(error, KVC_ERR_ARGUMENT, "seqs[%td] and seqs[%td] are the same sequence: it cannot become two", first - seqs, second - seqs);
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
    std::pmr::vector<Token> tokens(store->resource());
    KVC_TRY(read_handles(store, tokens, seqs, seq_count, e));
    return store->reorder(tokens, {source, seq_count}, e);
  });
}

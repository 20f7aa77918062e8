#include <algorithm>

#include "store/memory.h"
#include "store/store.h"

/// Sequences that become others: for beam search, and with fewer tokens.
namespace kvc::store {

using base::fail;

namespace {

/// Handles of several sequences, each alone.
class Entered {
 public:
  Entered(base::HandleTable &table, std::span<const base::Token> tokens, std::pmr::memory_resource *scratch) : table_(table), tokens_(tokens), seqs_(scratch) { seqs_.reserve(tokens.size()); }
  Entered(const Entered &) = delete;
  Entered &operator=(const Entered &) = delete;
  ~Entered() {
    for (size_t i = 0; i < seqs_.size(); i++) table_.leave_exclusive(tokens_[i]);
  }
  kvc_status enter(Error &error) {
    for (const base::Token &token : tokens_) {
      void *object;
      const kvc_status status = table_.enter_exclusive(&object, token);
      if (status == KVC_ERR_STALE) return fail(error, status, "seqs[%zu]: kvc_seq was released before", seqs_.size());
      if (status != KVC_OK) return fail(error, status, "seqs[%zu]: kvc_seq is in use by another thread: this call must be alone on it", seqs_.size());
      seqs_.push_back(static_cast<Sequence *>(object));
    }
    return KVC_OK;
  }
  std::pmr::vector<Sequence *> &seqs() { return seqs_; }

 private:
  base::HandleTable &table_;
  const std::span<const base::Token> tokens_;
  std::pmr::vector<Sequence *> seqs_;
};

}  // namespace

kvc_status Store::reorder(std::span<const base::Token> tokens, std::span<const uint32_t> source, Error &error) {
  Entered entered(seq_handles_, tokens, &resource_);
  KVC_TRY(entered.enter(error));
  std::pmr::vector<Sequence *> &seqs = entered.seqs();
  for (size_t i = 1; i < seqs.size(); i++)
    if (seqs[i]->scope != seqs[0]->scope) return fail(error, KVC_ERR_SHAPE, "seqs[%zu] is of another scope than seqs[0]", i);
  std::pmr::vector<Sequence *> become(seqs.size(), nullptr, &resource_);
  for (size_t i = 0; i < seqs.size(); i++) {
    use(*seqs[i]);
    if (seq_handles_.lapsed(tokens[i])) revive(*seqs[i], tokens[i]);
  }
  try {
    for (size_t i = 0; i < seqs.size(); i++) {
      if (source[i] == i) continue;
      become[i] = copy_of(*seqs[source[i]]).release();
      use(*become[i]);
    }
  } catch (const std::bad_alloc &) {
    std::lock_guard lock(mutex_);
    for (Sequence *made : become)
      if (made) let_go(*made), SequenceDelete{&resource_}(made);
    return fail(error, KVC_ERR_NO_MEMORY, "reorder: the system refused memory");
  }
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < seqs.size(); i++) {
    Sequence *const before = seqs[i];
    if (become[i]) {
      seq_handles_.replace(tokens[i], seqs[i] = become[i]);
      let_go(*before);
      SequenceDelete{&resource_}(before);
    }
    slide(*seqs[i]);
  }
  return KVC_OK;
}

}  // namespace kvc::store

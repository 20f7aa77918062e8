#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kvc/kvc.h"
#include "stamped.h"

/// A host's life in steps, one call each, over every call that is built.  What is held never becomes evictable before the end, so that all that is
/// stored can be compared at any time.
namespace kvc::fault {

class Scenario {
 public:
  struct Step {
    std::string name;
    std::function<kvc_status()> call;
  };
  Scenario();
  ~Scenario();
  const std::vector<Step> &steps() const { return steps_; }
  /// Everything that the store holds and says: rows of every sequence, values of every object, counts.
  std::string snapshot();
  const char *message() const { return error_.message; }
  bool is_open() const { return store_ != nullptr; }
  kvc_status verify();
  /// Bytes of the store's bookkeeping.
  uint64_t metadata_bytes() const;

 private:
  void add(const char *name, std::function<kvc_status()> call) { steps_.push_back({name, std::move(call)}); }
  void add_opening();
  void add_sequences();
  void add_branches();
  void add_reads();
  void add_objects();
  void add_ending();
  kvc_status append(kvc_seq *seq, const std::vector<int32_t> &ids, uint64_t begin, uint64_t end, uint32_t layer, uint32_t layer_count, uint64_t writer);
  kvc_status put(const char *key, size_t bytes, uint32_t flags);
  kvc_status gather(kvc_seq *seq, int runs, bool blocks, bool list);
  void snapshot_rows(std::string &to, kvc_seq *seq);

  const model::Geometry &geometry_;
  std::vector<Step> steps_;
  kvc_error error_;
  kvc_store *store_ = nullptr;
  kvc_scope *scope_ = nullptr, *objects_ = nullptr;
  kvc_seq *first_ = nullptr, *matched_ = nullptr, *whole_ = nullptr, *cut_ = nullptr, *private_ = nullptr;
  kvc_lease *lease_ = nullptr, *cut_lease_ = nullptr, *object_lease_ = nullptr;
  std::vector<int32_t> prompt_, other_;
};

}  // namespace kvc::fault

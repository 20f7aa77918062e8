#pragma once
#include <unistd.h>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "../unit/folder.h"
#include "kvc/kvc.h"
#include "stamped.h"

/// A host's life in steps, one call each, over every call that is built.  What the host uses never becomes evictable before the end, so that it
/// can be compared at any time.
namespace kvc::fault {

struct Conditions {
  bool tight = false;  // the store is full of values that nobody holds: every slot taken costs an eviction
  bool verify_reads = false;
};

class Scenario {
 public:
  struct Step {
    std::string name;
    std::function<kvc_status()> call;
    bool prepares = false;  // sets the conditions up: nothing is to fail in it
    bool evicts = false;    // what nobody holds makes room for it first, also when it then fails
    bool beside = false;    // on a model with window or state layers, whose rows are not among the pages
  };
  /// What a read of a chunk's part in one layer gives; nothing: it is gone.
  struct Page {
    uint64_t chunk;
    std::optional<std::string> rows;
  };
  explicit Scenario(Conditions conditions = {});
  ~Scenario();
  const std::vector<Step> &steps() const { return steps_; }
  /// Everything that the host has stored and what the store says of it: rows of every sequence, values of every object, counts.  `held_only`: without
  /// what may be evicted at any time.
  std::string snapshot(bool held_only = false);
  /// Every page of every sequence, and the sequences' lengths.
  std::vector<Page> pages();
  std::string lengths();
  /// Releases every handle but the first scope's and the store's; empty: each was.
  std::string release();
  /// Releases everything, evicts and deletes what is left; empty: nothing remained.
  std::string drain();
  kvc_status close();
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
  void add_queue();
  void add_views();
  void add_rearranged();
  void add_limits();
  void add_queue_end();
  void add_files();
  void add_objects();
  void add_ending();
  void add_beside();
  void add_events();
  kvc_status append(kvc_seq *seq, const std::vector<int32_t> &ids, uint64_t begin, uint64_t end, uint32_t layer, uint32_t layer_count, uint64_t writer);
  kvc_status put(const char *key, size_t bytes, uint32_t flags);
  kvc_status put_typed();
  kvc_status fill();
  kvc_status put_value(kvc_scope *scope, const std::string &key, size_t bytes);
  kvc_status gather(kvc_seq *seq, int runs, bool blocks, bool list, kvc_queue *queue = nullptr);
  void snapshot_rows(std::string &to, kvc_seq *seq);
  void snapshot_beside(std::string &to, bool held_only);
  std::string told();
  kvc_status append_beside(kvc_seq *seq, uint64_t begin, uint64_t end, uint64_t window_begin, bool snapshot, uint64_t writer);
  kvc_status create_beside(kvc_scope **out, const char *name, std::vector<uint32_t> kinds);
  std::array<kvc_seq **, 5> beside_sequences() { return {&beside_, &beside_match_, &beside_fork_, &beside_back_, &windowed_}; }
  std::array<kvc_seq **, 9> sequences() { return {&first_, &matched_, &whole_, &cut_, &late_, &private_, &restored_, &fresh_, &compacted_}; }

  const Conditions conditions_;
  const model::Geometry &geometry_;
  std::vector<Step> steps_;
  kvc_error error_;
  kvc_store *store_ = nullptr;
  kvc_scope *scope_ = nullptr, *objects_ = nullptr, *others_ = nullptr, *limited_ = nullptr;
  kvc_seq *first_ = nullptr, *matched_ = nullptr, *whole_ = nullptr, *cut_ = nullptr, *late_ = nullptr, *private_ = nullptr, *restored_ = nullptr, *fresh_ = nullptr, *compacted_ = nullptr;
  kvc_lease *lease_ = nullptr, *cut_lease_ = nullptr, *object_lease_ = nullptr;
  kvc_view *view_ = nullptr, *open_view_ = nullptr;
  kvc_queue *queue_ = nullptr, *events_ = nullptr;
  kvc_scope *hybrid_ = nullptr, *windows_ = nullptr;
  kvc_seq *beside_ = nullptr, *beside_match_ = nullptr, *beside_fork_ = nullptr, *beside_back_ = nullptr, *windowed_ = nullptr;
  kvc_lease *beside_lease_ = nullptr;
  kvc_view *beside_view_ = nullptr;
  uint64_t states_from_ = 0;  // where the snapshot that is appended next begins
  std::map<std::string, std::string> told_;  // chunks that events say are held, with their ids
  uint64_t told_number_ = 0;
  std::vector<int32_t> prompt_, other_;
  kvc_test::Folder folder_{access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path()};  // in memory where there is some: what is tested is not the disk
};

}  // namespace kvc::fault

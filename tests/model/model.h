#pragma once
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kvc/kvc.h"
#include "stamped.h"

/// A store beside an oracle of maps: random calls through the C surface, every answer predicted or checked.
///
/// What only the store can know - which of the chunks that nobody holds were evicted - is asked for after every call that evicted something, and
/// the answer is held against what must have stayed.  Everything else is predicted: which content a chunk has (its first writer's, whole, while it is
/// held; after an eviction the next one's), how long a match is, what every element reads, which calls fail and with what.
namespace kvc::model {

struct Failure : std::runtime_error {
  using runtime_error::runtime_error;
};
#define MODEL_CHECK(condition, what)                                                          \
  do {                                                                                        \
    if (!(condition)) throw ::kvc::model::Failure(std::string(#condition " - ") + (what)); \
  } while (0)

struct Extra {
  uint64_t begin, count;
  std::string data;
};

/// What the ids of a sequence mean: the name of each of its chunks follows from it.
struct Identity {
  int scope = 0;
  uint64_t first_position = 0;
  std::vector<int32_t> ids;
  std::vector<Extra> extras;
};

/// The content of a sealed chunk: one writer's, whole.
struct Chunk {
  std::string key;  // empty: private
  Identity identity;  // of everything up to its end; private: scope only
  std::shared_ptr<Chunk> parent;
  std::vector<uint64_t> stamps;  // layer * chunk_tokens + token
  bool alive = true;
};
using ChunkPtr = std::shared_ptr<Chunk>;

struct Seq {
  kvc_seq *handle = nullptr;
  Identity identity;
  bool is_private = false;  // then ids may end before rows do, and stay so
  uint64_t truncated_to = UINT64_MAX;
  std::vector<ChunkPtr> sealed;
  uint64_t held = 0;                         // leading ones that it can still read
  ChunkPtr cut;                              // the one that a truncate went into: it may be held until rows come
  std::vector<ChunkPtr> adopted;             // those that open rows were taken from since
  std::vector<std::vector<uint64_t>> open;  // stamps of the rows behind them, by layer
  uint64_t lease_ms = 0, deadline_ms = 0;
};

struct Value {
  std::string bytes;
  bool alive = true, deleted = false;
};

struct Hold {
  kvc_lease *handle = nullptr;
  ChunkPtr chunk;
  std::vector<std::shared_ptr<Value>> values;
  uint64_t deadline_ms = 0;
};

struct Options {
  uint64_t seed = 1, steps = 400, memory_bytes = 2 << 20;
  uint64_t ballast_bytes = 0;  // of an object that is held all the time: less room, more evictions
  bool verify_reads = false;
};

class Model {
 public:
  explicit Model(const Options &options);
  ~Model();
  /// Throws Failure.
  void run();
  std::string log() const;
  uint64_t evictions() const { return evictions_; }
  uint64_t replaced() const { return replaced_; }

 private:
  struct ScopeState {
    kvc_scope *handle = nullptr;
    const Geometry *geometry = nullptr;
    std::map<std::string, ChunkPtr> chunks;                 // named and held
    std::map<std::string, std::shared_ptr<Value>> objects;  // held
  };
  struct Call {  // one append, planned
    std::vector<int32_t> ids;
    std::vector<uint64_t> target;  // filled(layer) after it
    std::vector<kvc_rows> rows;
    std::vector<std::unique_ptr<Block>> blocks;
    uint64_t writer = 0;
  };

  // model.cpp: sequences
  void step();
  void create();
  void match();
  void append(Seq &seq);
  void append_wrong(Seq &seq);
  void identify(Seq &seq);
  void fork(Seq &seq);
  void truncate(Seq &seq);
  void cut_back(Seq &seq, uint64_t tokens);
  void release(size_t index);
  void lease(Seq &seq);
  void lease_renew(size_t index);
  void lease_release(size_t index);
  void advance();

  // model_rows.cpp: what goes in and what comes out
  void plan_append(Call &call, Seq &seq);
  void plan_rows(Call &call, Seq &seq);
  void add_run(Call &call, Seq &seq, uint32_t layer, uint32_t layer_count, uint64_t begin, uint64_t end);
  ChunkPtr settle_chunk(Seq &seq, uint64_t chunk, const std::vector<std::vector<uint64_t>> &own, bool complete, bool evicted);
  void settle_append(Seq &seq, const Call &call, bool evicted);
  bool reads_as(const Seq &seq, uint64_t chunk, const std::vector<std::vector<uint64_t>> &rows);
  void gather(Seq &seq);
  void gather_ranges(Seq &seq);
  void gather_list(Seq &seq);
  uint64_t gone_from(const Seq &seq) const;
  void read_all(Seq &seq);
  bool pick_part(const Seq &seq, Block::Part &part, uint64_t &end);
  std::vector<int32_t> more_ids(const Identity &identity, uint64_t count);

  // model_objects.cpp
  void object_put(bool group);
  void object_get();
  void object_exists();
  void object_delete();
  void object_list(int scope, bool check_all);
  void hold_ballast();
  std::string some_key();

  // model_sync.cpp: what the store alone knows, and what it says about itself
  void after();
  void sync();
  void sync_chunks(int scope);
  void sync_private();
  void touch(Seq &seq);
  void cut_what_went(Seq &seq);
  bool went(const Seq &seq, uint64_t chunk);
  void check_infos();
  void check_seq_info(const Seq &seq);
  void finish();
  std::set<const Chunk *> pinned() const;
  uint64_t evicted_now();

  ScopeState &scope_of(const Seq &seq) { return scopes_[static_cast<size_t>(seq.identity.scope)]; }
  const Geometry &geometry_of(const Seq &seq) { return *scope_of(seq).geometry; }
  std::string key_of(const Identity &identity, uint64_t chunk) const;
  uint64_t held_prefix(const Identity &identity, uint64_t tokens);
  uint64_t filled(const Seq &seq, uint32_t layer) const;
  bool ids_too_late(const Seq &seq) const;
  uint64_t length(const Seq &seq) const;
  uint64_t stamp(const Seq &seq, uint32_t layer, uint64_t token) const;
  bool lapsed(const Seq &seq) const { return seq.deadline_ms <= now_ms_; }
  void set_deadline(uint64_t &deadline_ms, uint64_t lease_ms) const;
  void hold(Seq &&seq) { seqs_.push_back(std::make_unique<Seq>(std::move(seq))); }
  Seq &some_seq() { return *seqs_[random_() % seqs_.size()]; }
  uint64_t below(uint64_t end) { return random_() % end; }
  bool chance(uint64_t of_100) { return random_() % 100 < of_100; }
  void note(std::string line) { log_.push_back(std::move(line)); }
  std::string said() const { return std::string(kvc_status_name(error_.status)) + ": " + error_.message; }

  Options options_;
  Random random_;
  base::ManualClock clock_;
  uint64_t now_ms_ = 1000;
  kvc_store *store_ = nullptr;
  kvc_error error_;
  std::vector<ScopeState> scopes_;
  std::vector<std::unique_ptr<Seq>> seqs_;
  std::vector<Hold> leases_;
  kvc_lease *ballast_ = nullptr;
  std::vector<std::string> log_;
  uint64_t writer_ = 0, evictions_ = 0, replaced_ = 0;
  bool orphans_ = false;  // private chunks whose holders lapsed: nobody can ask for them
};

}  // namespace kvc::model

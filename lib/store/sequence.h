#pragma once
#include <algorithm>
#include <atomic>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "memory/slab.h"
#include "seq/identity.h"
#include "seq/index.h"
#include "store/rows.h"
#include "store/scope.h"
#include "store/task.h"

namespace kvc::store {

/// The sealed chunks of a sequence, in order.  Shared by forks; whoever appends to a shared or longer one copies it first.
struct Table {
  explicit Table(std::pmr::memory_resource *resource) : refs(resource) {}
  std::atomic<uint32_t> users{1};
  std::pmr::vector<seq::Ref> refs;
};

/// The rows of a chunk that is not sealed.  They lie in a slot of their own, or, when nothing had to be copied, in a chunk that is held:
/// one that has this chunk's name already, or the one that a truncate cut short.  Shared by forks, copied by the first that writes.
struct OpenChunk {
  std::atomic<uint32_t> users{1};
  memory::SlotId slot;      // generation 0: the rows are those of `held`
  QuotaHold quota;          // of the slot
  Scope *scope = nullptr;   // what it was viewed in, which each view of it uses
  uint8_t *data = nullptr;  // of the slot
  uint8_t write_id[16];     // of the chunk when it is sealed, if the slot is its own; drawn first because it can fail
  bool has_sisters = false; // the write id was given, now or before a save: parts of the same writer may come
  seq::Ref held;            // pinned while a user's lease runs
  seq::Ref cut_from;        // the chunk of the sequence's own that a truncate cut, whose window rows or snapshot may still come
  uint32_t lapsed = 0;      // users whose lease does not; under the store's lock
  bool own() const { return slot.generation != 0; }
  const uint8_t *sisters_id() const { return own() && has_sisters ? write_id : nullptr; }
  bool gone = false;        // `held` was evicted, or failed its check, while it was not pinned: it is no more
};

/// What a sequence of a model with window or state layers has beside the main pieces of its chunks.  The rows of an entry lie in a slot of
/// their own until their piece is sealed, and then in that, which they pin, as open chunks do.
struct Pieces {
  explicit Pieces(std::pmr::memory_resource *resource) : windows(resource), states(resource), pending(resource) {}
  Pieces(const Pieces &from)  // as the members of a sequence are copied, each in its own resource
      : windows(from.windows, from.windows.get_allocator()), states(from.states, from.states.get_allocator()), pending(from.pending, from.pending.get_allocator()), left(from.left) {}
  Pieces(Pieces &&) = default;
  Pieces &operator=(const Pieces &) = default;
  Pieces &operator=(Pieces &&) = default;
  struct Entry {
    uint64_t at;  // chunk of window rows; position of a snapshot
    OpenChunk *rows;
  };
  std::pmr::vector<Entry> windows;   // rising: what the window of the tip needs, and what is not sealed
  std::pmr::vector<Entry> states;    // rising: the snapshots that layers stand at, and those that wait for their chunk's seal
  std::pmr::vector<uint64_t> pending;  // rising: sealed chunks of its own whose window rows or snapshot may still come
  uint64_t left = UINT64_MAX;        // tokens that it can go on from when a lapse took one of them

  bool is_pending(uint64_t chunk) const { return std::binary_search(pending.begin(), pending.end(), chunk); }
  static OpenChunk *find(std::span<const Entry> list, uint64_t at) {
    const auto found = std::lower_bound(list.begin(), list.end(), at, [](const Entry &e, uint64_t key) { return e.at < key; });
    return found != list.end() && found->at == at ? found->rows : nullptr;
  }
};

/// What a sequence is, apart from its handle.
struct SequenceState {
  explicit SequenceState(std::pmr::memory_resource *resource) : ids(resource), extras(resource), filled(resource), names(resource), open(resource) {}

  Scope *scope = nullptr;
  const Part *part = nullptr;  // of the scope
  bool is_private = false, write_id_given = false, is_pieced = false;
  uint8_t write_id[16] = {};
  uint64_t lease_ns = 0;
  uint64_t first_position = 0;
  seq::Name root{};  // what the first chunk's name chains on: of the scope and first_position

  Table *table = nullptr;  // at least `sealed` entries; null while there are none
  uint64_t sealed = 0;     // chunks
  uint64_t held = 0;       // leading chunks still held: less than sealed only after a lapse
  seq::Ref pinned;         // the last of them; under the store's lock
  uint64_t given = 0;      // leading tokens whose ids are known; in a private sequence there may be rows behind them
  std::pmr::vector<int32_t> ids;  // of those of them that are not sealed
  seq::Extras extras;
  uint64_t truncated_to = UINT64_MAX;  // extras kept from here on are of tokens that were cut off: the next kvc_seq_identify replaces them
  std::pmr::vector<uint64_t> filled;  // by layer
  uint64_t length = 0;                // the least of them
  std::pmr::vector<seq::Name> names;  // of chunks sealed + i, as far as their ids are known and they were asked for
  std::pmr::vector<OpenChunk *> open;  // chunk sealed + i; null: no row yet
  std::optional<Pieces> pieces;        // of window and state layers, if is_pieced

  uint64_t chunk_tokens() const { return part->layout.chunk_tokens(); }
  uint64_t sealed_tokens() const { return sealed * chunk_tokens(); }
  /// Everything that stands in a slot of its own or pins one that is held.
  template <typename Do>
  void each_open(Do &&act) const {
    for (OpenChunk *chunk : open)
      if (chunk) act(*chunk);
    if (!pieces) return;
    for (const Pieces::Entry &entry : pieces->windows) act(*entry.rows);
    for (const Pieces::Entry &entry : pieces->states) act(*entry.rows);
  }
  seq::Ref tip() const { return sealed ? table->refs[sealed - 1] : seq::Ref{}; }
};

struct Sequence : SequenceState {
  using SequenceState::SequenceState;
  mutable std::atomic<uint64_t> used_tick{0}, deadline_ns{0};
  // What the host said of its reuse; under the store's lock.
  bool done = false;        // a place among those that go first is reserved
  uint64_t kept_ticks = 0;  // by which its last use counts as a later one
  TaskList<&Task::of_line> line;  // queued calls on it; under the lock of the queues
  Sequence *later = nullptr;      // the next of those that were released and wait; under the store's lock
};

/// Complete tokens where layers differ: window and state layers do not hold back the others, if there are others.
uint64_t length_of_mixed(std::span<const uint64_t> filled, const seq::Shape &shape);
/// Leading tokens left after a lapse; UINT64_MAX: all.
uint64_t tokens_left(const Sequence &seq);
/// GONE when the first `tokens` are not all left after a lapse.
[[nodiscard]] kvc_status check_left(const Sequence &seq, uint64_t tokens, base::Error &error);
/// GONE for a read: what went after a lapse, and what is left to go on from.
[[nodiscard]] kvc_status fail_lapsed(const Sequence &seq, uint64_t from, base::Error &error);

/// RANGE when a run of a gather goes past filled(layer), NO_SNAPSHOT where a state layer has not come along with the sequence.
[[nodiscard]] kvc_status check_filled(const Run &run, const Sequence &seq, base::Error &error);

/// The options of an attach: whose identity is the publisher's.
[[nodiscard]] kvc_status check_attach_options(const kvc_seq_options &options, const Scope &scope, base::Error &error);

struct SequenceDelete {
  std::pmr::memory_resource *resource;
  void operator()(Sequence *seq) const {
    std::destroy_at(seq);
    resource->deallocate(seq, sizeof(Sequence), alignof(Sequence));
  }
};

}  // namespace kvc::store

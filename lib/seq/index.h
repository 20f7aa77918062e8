#pragma once
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "seq/identity.h"
#include "seq/lru_heap.h"
#include "seq/name_table.h"

/// The prefix index: which chunks and objects are held, who descends from whom, who is pinned, and who goes first when room is needed.
///
/// Chunks form a tree by their chained names.  A pin on a chunk holds its ancestors too, because only leaves are ever evicted: a match or
/// a fork pins one node, however long the prefix.  Use is recorded the same way, on the tip alone: a node that becomes a leaf takes the latest
/// use among the children it had, which is exactly its own latest use.
///
/// What stands beside chunks goes after those behind it, and with its own chunk at the latest: when a chunk may be evicted, its pieces and those of
/// all above it count as used just after it.  So a prefix shrinks from the back, and the last end that is left has what it needs.
///
/// Not synchronised: the store's lock covers every call but node(), whose result is stable while the node is pinned.
namespace kvc::seq {

/// A node by number and generation; generation 0: none.
struct Ref {
  uint32_t id = 0, generation = 0;
  explicit operator bool() const { return generation != 0; }
  friend bool operator==(const Ref &, const Ref &) = default;
};

enum NodeFlags : uint32_t {
  node_object = 1,   // an object: no parent, no children
  node_unnamed = 2,  // of a private sequence: never found by name, gone with its last holder
  node_dropped = 4,  // failed its check: reads as gone, never found again; freed when nobody holds it
  node_queued = 8,   // stands in the queue of what may be evicted; the index's own
  node_typed = 16,   // an object that is held as frames
  node_limited = 32,        // of a scope with queues of its own; the index's own, as are the next two
  node_queued_quota = 64,   // stands in that for evict_of
  node_queued_ttl = 128,    // stands in that for evict_older
  node_own_ttl = 256,       // an object that does not age as its scope does
  node_window = 512,  // a chunk's window rows: a piece beside it
  node_state = 1024,  // a chunk's snapshot: a piece beside it
  node_pieced = 2048,  // a chunk that may have pieces beside it, as those above it may
  node_sliced = 4096,  // a chunk, or a piece of one, whose pages came in parts
  node_partial = 8192,  // and not all of them did, or not with all rows
  node_waits = 16384,  // and the others may come; without a holder it goes at once
  node_released = 32768,  // unnamed, and the last of its holders that let go of it is gone for good; the index's own
  node_bad_state = 65536,  // a chunk whose snapshot failed its check, and nobody brought another; the index's own
};
/// What a node is that stands beside a chunk and not in the tree.
constexpr uint32_t node_piece = node_window | node_state;

/// What a lookup touches: one cache line.  `payload` is the owner's (where its bytes lie): ids only here, never bytes.
struct alignas(64) Node {
  Name name;
  uint64_t payload;
  uint64_t tick;  // of the latest use that was recorded here
  uint32_t generation, pins;
  union {
    uint32_t children;     // of a chunk: nodes that descend from it
    uint32_t value_bytes;  // of an object, so that a read need not wait for its slot; UINT32_MAX: that or more, the slot knows
  };
  uint32_t flags;

  bool leaf() const { return (flags & node_object) || children == 0; }
};
static_assert(sizeof(Node) == 64);

/// What only its end needs, kept apart: the owner's two words, as opaque as the payload.
struct Owner {
  uint64_t slot = 0;
  uint32_t scope = 0;
};

/// Told of every node that leaves; must not call back.
class NodeSink {
 public:
  virtual ~NodeSink() = default;
  virtual void released(Ref ref, const Node &node, const Owner &owner) noexcept = 0;
  /// Of a chunk that nobody finds any more, if that is watched, unless parts of it never came.
  virtual void name_left(const Node &, const Owner &) noexcept {}
};

class Index {
 public:
  Index(std::pmr::memory_resource *resource, NodeSink *sink, const NameHash &hash);
  ~Index();
  Index(const Index &) = delete;
  Index &operator=(const Index &) = delete;

  /// Room for `count` more inserts, of this scope, that then cannot fail.  Throws std::bad_alloc, nothing changed.  Every reserve ends in insert or
  /// unreserve.
  void reserve(uint32_t count, uint32_t scope = UINT32_MAX);
  void unreserve(uint32_t count);
  /// `node.name`, payload, tick, flags and the owner are the caller's; `parent` none for a first chunk.  The node comes back pinned once.
  Ref insert(const Node &node, Ref parent, const Owner &owner = {});
  /// A piece of `chunk`, whose kind `node.flags` says: outside of the tree, evicted on its own, found through its chunk alone.  When that goes it
  /// goes too, or with its last holder.  It comes back pinned once, as above.
  Ref insert_piece(Node node, Ref chunk, const Owner &owner);
  /// The piece of that kind, if it is held.
  Ref find_piece(Ref chunk, NodeFlags kind) const;
  /// A chunk, named and not dropped.  `prefetch` ahead of a batch of finds hides their misses.
  Ref find(const Name &name) const;
  /// The same, if it descends from `parent` (none: a first chunk).  It may not although the names say so: `parent` was evicted or dropped since, and
  /// what took its place is another node, which a pin on this one would not hold.
  Ref find_child(const Name &name, Ref parent) const;
  void prefetch(const Name &name) const;

  Ref find_object(const Name &name) const;
  /// The object that most likely has the name of this hash, at the cost of one look into far memory: the caller compares the node's name
  /// while the payload is under way, and asks find_object when it is another's.
  struct Likely {
    uint32_t id = 0;  // 0: none
    uint64_t payload = 0;
  };
  uint64_t hash(const Name &name) const { return hash_(name); }
  Likely likely_object(uint64_t hash) const;
  [[gnu::always_inline]] void prefetch_object(uint64_t hash) const { objects_.prefetch(hash); }

  Node &node(Ref ref) const { return *at(ref.id); }
  /// Of a node that is held by a read, whatever its generation.
  const Node &node(uint32_t id) const { return *at(id); }
  [[gnu::always_inline]] void prefetch_node(uint32_t id) const { __builtin_prefetch(at(id)); }
  /// Is the node still the one this ref was made for (and not dropped)?
  bool held(Ref ref) const;
  /// A node under the same number but of any generation: walks over all nodes.
  uint32_t node_count_max() const { return node_count_; }
  const Node *live(uint32_t id) const { return at(id)->generation & kLive ? at(id) : nullptr; }
  Ref ref_of(uint32_t id) const { return {id, at(id)->generation}; }
  Ref parent(Ref ref) const { return rest(ref.id)->parent; }
  Owner owner(Ref ref) const { return {slot_of(*rest(ref.id)), rest(ref.id)->scope}; }

  void pin(Ref ref) { node(ref).pins++; }
  /// A use by somebody who holds nothing (any more).
  void touch(Ref ref, uint64_t tick) {
    if (Node &n = node(ref); n.generation == ref.generation && n.tick < tick) n.tick = tick;
  }
  /// `tick`: the latest use by the holder.  `release`: the holder is gone for good, so unnamed nodes that only it could reach go now.
  void unpin(Ref ref, uint64_t tick, bool release);
  /// Ends a pin of who only looked at it: that is no use, and the node goes if those who held it left for good meanwhile.
  void unpin_looked_at(Ref ref);
  /// A chunk or piece in parts has all of them, with all their rows, from now on.
  void complete(Ref ref);
  /// Takes the name out at once; the node goes when nobody holds it.
  void drop(Ref ref);
  /// Takes the name away from a node that has one and whose ancestors lost theirs: only those who hold it know it from now on.
  void unname(Ref ref);
  /// Takes all names of a scope away: nobody finds them from now on.  What nobody holds goes, the rest with its last holder.  Looks at every node there
  /// is, once.
  void clear(uint32_t scope);
  /// Removes the least recently used node that nobody holds.  False: everything left is held.
  bool evict();
  /// Room for one go_first that then cannot fail.  Throws std::bad_alloc.  Every reserve ends in go_first or unreserve.
  void reserve_first();
  void unreserve_first() { first_reserved_--; }
  /// Evicted before all others: the node, then those above it one by one, as long as nobody holds them, goes on from them or used them after `tick`.
  void go_first(Ref ref, uint64_t tick);

  /// Queues of a scope, for what may be evicted of it.
  enum Queue : uint32_t { by_quota = 0, by_ttl = 1 };
  /// Begins a queue.  Looks at every node there is, once.  Throws std::bad_alloc, nothing changed.
  void limit(uint32_t scope, Queue queue);
  void unlimit(uint32_t scope, Queue queue);
  /// As evict, of one scope that is limited by quota.
  bool evict_of(uint32_t scope);
  /// Removes the least recently used node of a scope that is limited by ttl, if nobody holds it and its latest use was no later than `tick`.
  bool evict_older(uint32_t scope, uint64_t tick);
  /// Nothing is older, whatever uses were not recorded yet.
  bool none_older(uint32_t scope, uint64_t tick) const;

  /// From now on the sink hears of names that leave, or no more.
  void watch_names(bool watch) { names_watched_ = watch; }
  bool names_watched() const { return names_watched_; }

  uint64_t chunk_count() const { return live_count_ - object_count_ - piece_count_; }
  uint64_t object_count() const { return object_count_; }
  /// How often the last pin of a node was let go: it may be evicted since, or those above it.
  uint64_t let_go_count() const { return let_go_count_; }

 private:
  struct ChunkBucket {
    uint32_t id = 0, tag = 0;
  };
  struct ObjectBucket {
    uint32_t id = 0, tag = 0;
    uint64_t payload = 0;
  };
  struct Limited {
    explicit Limited(std::pmr::memory_resource *resource) : heaps{LruHeap(resource), LruHeap(resource)} {}
    LruHeap heaps[2];
    bool on[2] = {};
    bool missed[2] = {};  // something may be evicted that does not stand in the heap
    uint64_t node_count = 0;
  };
  struct First {
    Ref ref;
    uint64_t tick;
  };
  struct Rest {
    Ref parent;
    uint32_t scope, slot_low, slot_high;  // two halves: no padding
  };
  struct Block {
    Node *nodes = nullptr;
    Rest *rests = nullptr;
  };
  static constexpr uint32_t kBlock = 1024, kLive = 1;  // a live generation is odd
  static constexpr uint32_t kSmallBlocks = 32;         // from here on as many come at a time: 2 MiB of nodes, which the system may map as one page

  Node *at(uint32_t id) const { return blocks_[id / kBlock].nodes + id % kBlock; }
  Rest *rest(uint32_t id) const { return blocks_[id / kBlock].rests + id % kBlock; }
  static uint64_t slot_of(const Rest &rest) { return static_cast<uint64_t>(rest.slot_high) << 32 | rest.slot_low; }
  void add_blocks(uint32_t block);
  void enter_name(uint32_t id);
  void leave_name(uint32_t id);
  bool goes_first(const First &first) const;
  static bool goes_unheld(const Node &node, bool release) { return (node.flags & (node_dropped | node_waits)) || (release && (node.flags & node_unnamed)); }
  bool evict_first(const uint32_t *scope);
  void push_if_evictable(uint32_t id);
  void push(LruHeap &heap, uint32_t id, uint32_t queued);
  void push_limited(uint32_t id);
  void use_pieces(uint32_t id);
  bool evict_from(LruHeap &heap, uint32_t queued, uint64_t tick_max);
  bool evict_limited(uint32_t scope, Queue queue, uint64_t tick_max);
  Limited *limited(uint32_t scope) const { return scope < limited_.size() ? limited_[scope] : nullptr; }
  void queue_all(uint32_t scope, Limited &limited, Queue queue);
  void remove(uint32_t id, bool release);
  static void note_release(Node &n, bool release);
  void remove_pieces(Ref chunk);

  const NameHash hash_;
  std::pmr::memory_resource *resource_;
  NodeSink *sink_;
  static constexpr uint32_t kBlocksMax = 1u << 17;  // 134 M nodes
  Block *blocks_;                                   // reserved at once, so that readers never see it move
  uint32_t block_count_ = 0, node_count_ = 1;       // node 0 is "none"
  uint32_t free_head_ = 0;                          // free nodes are chained by their payload
  uint64_t free_count_ = 0;
  NameTable<ChunkBucket> chunks_;
  NameTable<ObjectBucket> objects_;
  uint64_t named_chunks_ = 0, named_objects_ = 0;
  LruHeap heap_;
  std::pmr::vector<Limited *> limited_;  // by scope; null: not limited
  bool names_watched_ = false;
  std::pmr::vector<First> first_;
  uint64_t first_reserved_ = 0;
  uint64_t live_count_ = 0, object_count_ = 0, piece_count_ = 0, reserved_ = 0, let_go_count_ = 0;
};

}  // namespace kvc::seq

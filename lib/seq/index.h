#pragma once
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "seq/identity.h"

/// The prefix index: which chunks and objects are held, who descends from whom, who is pinned, and who goes first when room is needed.
///
/// Chunks form a tree by their chained names.  A pin on a chunk holds its ancestors too, because only leaves are ever evicted: a match or
/// a fork pins one node, however long the prefix.  Use is recorded the same way, on the tip alone: a node that becomes a leaf takes the latest
/// use among the children it had, which is exactly its own latest use.
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
};

/// What the owner knows by a 64-bit word (the slab's slot) is opaque here: ids only, never bytes.
struct Node {
  Name name;
  uint64_t payload;
  uint64_t tick;  // of the latest use that was recorded here
  uint32_t generation, pins, children, flags;
  // second cache line: nothing a lookup needs
  uint32_t parent_id, parent_generation, scope, in_heap;
  uint8_t write_id[16];
};
static_assert(sizeof(Node) == 96);

/// Told of every node that leaves; must not call back.
class NodeSink {
 public:
  virtual ~NodeSink() = default;
  virtual void released(const Node &node) noexcept = 0;
};

class Index {
 public:
  Index(std::pmr::memory_resource *resource, NodeSink *sink);
  ~Index();
  Index(const Index &) = delete;
  Index &operator=(const Index &) = delete;

  /// Room for `count` more inserts that then cannot fail.  Throws std::bad_alloc, nothing changed.  Every reserve ends in insert or unreserve.
  void reserve(uint32_t count);
  void unreserve(uint32_t count);
  /// `node.name`, payload, scope, flags and write_id are the caller's; `parent` none for a first chunk.  The node comes back pinned once.
  Ref insert(const Node &node, Ref parent);
  /// Named and not dropped.  `prefetch` ahead of a batch of finds hides their misses.
  Ref find(const Name &name) const;
  void prefetch(const Name &name) const;

  Node &node(Ref ref) const { return *at(ref.id); }
  /// Is the node still the one this ref was made for (and not dropped)?
  bool held(Ref ref) const;
  /// A node under the same number but of any generation: walks over all nodes.
  uint32_t node_count_max() const { return node_count_; }
  const Node *live(uint32_t id) const { return at(id)->generation & kLive ? at(id) : nullptr; }
  Ref ref_of(uint32_t id) const { return {id, at(id)->generation}; }
  Ref parent(Ref ref) const { return {node(ref).parent_id, node(ref).parent_generation}; }

  void pin(Ref ref) { node(ref).pins++; }
  /// `tick`: the latest use by the holder.  `release`: the holder is gone for good, so unnamed nodes that only it could reach go now.
  void unpin(Ref ref, uint64_t tick, bool release);
  /// Takes the name out at once; the node goes when nobody holds it.
  void drop(Ref ref);
  /// Removes the least recently used node that nobody holds.  False: everything left is held.
  bool evict();

  uint64_t chunk_count() const { return live_count_ - object_count_; }
  uint64_t object_count() const { return object_count_; }

 private:
  struct Bucket {
    uint32_t id = 0, tag = 0;  // id 0: empty
  };
  struct HeapEntry {
    uint64_t tick;
    uint32_t id, generation;
  };
  static constexpr uint32_t kBlock = 4096, kLive = 1;  // a live generation is odd

  Node *at(uint32_t id) const { return blocks_[id / kBlock] + id % kBlock; }
  size_t bucket_of(const Name &name, uint32_t id) const;
  void bucket_insert(uint32_t id);
  void bucket_erase(const Name &name, uint32_t id);
  void grow_buckets(size_t count);
  void push_if_evictable(uint32_t id);
  void compact_heap();
  void remove(uint32_t id, bool release);

  std::pmr::memory_resource *resource_;
  NodeSink *sink_;
  static constexpr uint32_t kBlocksMax = 1u << 16;  // 268 M nodes
  Node **blocks_;                                   // reserved at once, so that readers never see it move
  uint32_t node_count_ = 1;                         // 0 is "none"
  std::pmr::vector<uint32_t> free_;
  std::pmr::vector<Bucket> buckets_;
  size_t named_count_ = 0;
  std::pmr::vector<HeapEntry> heap_;
  uint64_t live_count_ = 0, object_count_ = 0, reserved_ = 0, heap_live_ = 0;
};

}  // namespace kvc::seq

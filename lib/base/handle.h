#pragma once
#include <atomic>
#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <vector>

#include "base/error.h"

/// Handles are tokens, not addresses: what a host holds is checked against a table on every call, so that use after release, after close
/// or in a forked child is a status and never a crash.
///     token = kind 4 | process 6 | store 12 | index 20 | generation 22 bits
namespace kvc::base {

enum class HandleKind : uint32_t { none = 0, store = 1, scope = 2, seq = 3, queue = 4, lease = 5, view = 6, region = 7 };

struct Token {
  HandleKind kind = HandleKind::none;
  uint32_t process = 0, store = 0, index = 0, generation = 0;
};
uint64_t token_pack(const Token &token);
Token token_unpack(uint64_t value);

/// A tag of this process: changes in a forked child, where tokens made before are of another process.
uint32_t process_tag();

/// The objects of one kind in one store.  Entries are never freed before the table, so a stale token finds memory that can tell.
class HandleTable {
 public:
  HandleTable(HandleKind kind, uint32_t store_slot, uint32_t entry_max, uint32_t first_generation, std::pmr::memory_resource *resource)
      : kind_(kind), store_slot_(store_slot), entry_max_(entry_max < kIndexMax ? entry_max : kIndexMax), resource_(resource),
        first_generation_(first_generation), generation_max_(first_generation) {}
  ~HandleTable();
  HandleTable(const HandleTable &) = delete;
  HandleTable &operator=(const HandleTable &) = delete;

  /// 0 when entry_max are live.  Throws std::bad_alloc.
  uint64_t add(void *object);

  /// Object for reading; KVC_ERR_STALE, MISUSE when a writer is inside, or BUSY when queued calls are.  Ends with leave_shared.
  kvc_status enter_shared(void **object, const Token &token);
  /// Returns true when the handle was retired meanwhile and this was its last user: the caller destroys `object`.
  bool leave_shared(const Token &token);
  /// Object for writing: alone, or KVC_ERR_MISUSE or BUSY.  Ends with leave_exclusive or remove.
  kvc_status enter_exclusive(void **object, const Token &token);
  void leave_exclusive(const Token &token);
  /// Ends a handle held exclusively.
  void remove(const Token &token);
  /// Ends a handle that others may be using: KVC_OK and *object non-null when the caller destroys it now, null when its last user will.
  kvc_status retire(void **object, const Token &token);

  /// Queued calls are inside from the first one's making to the last one's end, whatever became of the handle meanwhile; who holds their lock asks.
  /// Object for one more of them; KVC_ERR_STALE, or MISUSE beside a writer or, if it writes itself, a reader.
  kvc_status enter_queued(void **object, const Token &token, bool exclusive);
  /// Returns true when the handle was retired meanwhile: the caller removes it and destroys its object.
  bool leave_queued(const Token &token);
  /// The object while queued calls are inside, else null.
  void *queued(const Token &token) const;
  /// Ends a handle that queued calls are using.  KVC_ERR_BUSY: none is, any more.
  kvc_status retire_queued(const Token &token);

  /// Leases lapse between calls only: marks an idle entry, false when it is in use, already marked or gone.
  bool mark_lapsed(uint32_t index);
  /// A call is inside.
  bool in_use(uint32_t index) const;
  bool lapsed(const Token &token) const;
  void clear_lapsed(uint32_t index);

  /// Every live object, in index order; `busy` entries too.  For walks under the store's lock.
  template <typename F>
  void each(F &&f) {
    const uint32_t n = entry_count_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < n; i++)
      if (Entry *e = entry(i); e && generation_of(e->word.load(std::memory_order_acquire)) != 0) f(i, e->object.load(std::memory_order_acquire));
  }
  uint32_t live_count() const { return live_count_.load(std::memory_order_relaxed); }
  uint32_t next_generation() const { return generation_max_ + 1; }

  static constexpr uint32_t kIndexMax = 1u << 20, kGenerationMask = (1u << 22) - 1;

 private:
  // word = generation 32 | lapsed 1 | writer 1 | retired 1 | queued 1 | readers 28; of a free entry: 0 | the next free index, and `object` is its last generation
  static constexpr uint64_t kLapsed = 1ull << 31, kWriter = 1ull << 30, kRetired = 1ull << 29, kQueued = 1ull << 28, kReaders = kQueued - 1;
  struct Entry {
    std::atomic<uint64_t> word{0};
    std::atomic<void *> object{nullptr};
  };
  static constexpr uint32_t kBlock = 256;
  static uint32_t generation_of(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
  Entry *entry(uint32_t index) const;
  Entry *live_entry(const Token &token, uint64_t *word) const;
  bool take_entry(uint32_t *index);
  void free_entry(Entry *e, uint32_t index);

  const HandleKind kind_;
  const uint32_t store_slot_, entry_max_;
  std::pmr::memory_resource *const resource_;
  std::mutex mutex_;
  const uint32_t first_generation_;
  uint32_t generation_max_;
  std::atomic<uint32_t> entry_count_{0}, live_count_{0};
  // Free entries in the order they were given back.  Each waits its turn behind so many others and has generations of its own, so that a token comes
  // again after four thousand million handles, not after four million.
  static constexpr uint32_t kFreeMin = 1024;
  uint32_t free_count_ = 0, free_first_ = 0, free_last_ = 0;
  std::atomic<Entry *> blocks_[kIndexMax / kBlock] = {};
};

/// The open stores of this process: the one table that is global, because a token must be judged without trusting it.
constexpr uint32_t store_slot_max = 4096;
/// A free slot, and the generation its handles must start from so that tokens of an earlier store in it stay stale.  FULL.
[[nodiscard]] kvc_status store_slot_take(uint32_t *slot, uint32_t *first_generation, Error &error);
void store_slot_publish(uint32_t slot, void *store, uint32_t generation);
void store_slot_give(uint32_t slot, uint32_t next_generation);
/// The store a token of `kind` belongs to.  MISUSE: NULL or not such a handle; FORKED; STALE.
[[nodiscard]] kvc_status store_of(void **store, const Token &token, HandleKind kind, Error &error);

}  // namespace kvc::base

#include "base/handle.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"

namespace kvc::base {
namespace {

struct StoreSlot {
  std::atomic<void *> store{nullptr};
  std::atomic<uint32_t> generation{0}, next_generation{1};
};

/// One page that the kernel zeroes in a forked child (MADV_WIPEONFORK): the child starts with an empty table and free locks, without a
/// fork handler and without a system call on every entry.
struct ProcessPage {
  std::atomic<uint32_t> tag, lock;
  std::atomic<StoreSlot *> slots;
};

std::atomic<ProcessPage *> g_page{nullptr};
std::atomic<StoreSlot *> g_slots{nullptr};     // the page's table again: leak checkers look for pointers here, not in mapped pages
std::atomic<uint32_t> g_process_count{0};  // survives fork, so a child's tag differs from its parent's

ProcessPage *process_page() {
  ProcessPage *page = g_page.load(std::memory_order_acquire);
  if (page) return page;
  const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void *fresh = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  KVC_CHECK(fresh != MAP_FAILED);
  KVC_CHECK(madvise(fresh, bytes, MADV_WIPEONFORK) == 0);
  if (g_page.compare_exchange_strong(page, static_cast<ProcessPage *>(fresh))) return static_cast<ProcessPage *>(fresh);
  munmap(fresh, bytes);
  return page;
}

class PageLock {
 public:
  explicit PageLock(ProcessPage *page) : page_(page) {
    while (page_->lock.exchange(1, std::memory_order_acquire)) usleep(50);
  }
  ~PageLock() { page_->lock.store(0, std::memory_order_release); }

 private:
  ProcessPage *page_;
};

StoreSlot *slots_of(ProcessPage *page) {
  StoreSlot *slots = page->slots.load(std::memory_order_acquire);
  if (!slots) {
    slots = new (std::nothrow) StoreSlot[store_slot_max];
    g_slots.store(slots, std::memory_order_relaxed);
    if (slots) page->slots.store(slots, std::memory_order_release);
  }
  return slots;
}

}  // namespace

uint64_t token_pack(const Token &t) {
  return static_cast<uint64_t>(t.kind) << 60 | static_cast<uint64_t>(t.process) << 54 | static_cast<uint64_t>(t.store) << 42 |
         static_cast<uint64_t>(t.index) << 22 | t.generation;
}

Token token_unpack(uint64_t v) {
  Token t;
  t.kind = static_cast<HandleKind>(v >> 60);
  t.process = v >> 54 & 63;
  t.store = v >> 42 & 4095;
  t.index = v >> 22 & (HandleTable::kIndexMax - 1);
  t.generation = static_cast<uint32_t>(v) & HandleTable::kGenerationMask;
  return t;
}

uint32_t process_tag() {
  ProcessPage *page = process_page();
  uint32_t tag = page->tag.load(std::memory_order_acquire);
  if (tag) return tag;
  uint32_t fresh = g_process_count.fetch_add(1) % 63 + 1;
  return page->tag.compare_exchange_strong(tag, fresh) ? fresh : tag;
}

kvc_status store_slot_take(uint32_t *slot, uint32_t *first_generation, Error &error) {
  ProcessPage *page = process_page();
  PageLock lock(page);
  StoreSlot *slots = slots_of(page);
  if (!slots) return fail(error, KVC_ERR_NO_MEMORY, "the table of open stores: the system refused %zu bytes", sizeof(StoreSlot) * store_slot_max);
  for (uint32_t i = 0; i < store_slot_max; i++) {
    if (slots[i].store.load(std::memory_order_relaxed)) continue;
    slots[i].store.store(&slots[i], std::memory_order_relaxed);  // taken, not published: generation is 0
    *slot = i;
    *first_generation = slots[i].next_generation.load(std::memory_order_relaxed);
    return KVC_OK;
  }
  return fail(error, KVC_ERR_FULL, "%u stores are open in this process: the limit", store_slot_max);
}

void store_slot_publish(uint32_t slot, void *store, uint32_t generation) {
  StoreSlot &s = slots_of(process_page())[slot];
  s.store.store(store, std::memory_order_relaxed);
  s.generation.store(generation, std::memory_order_release);
}

void store_slot_give(uint32_t slot, uint32_t next_generation) {
  ProcessPage *page = process_page();
  PageLock lock(page);
  StoreSlot &s = slots_of(page)[slot];
  s.generation.store(0, std::memory_order_release);
  s.next_generation.store(next_generation & HandleTable::kGenerationMask ? next_generation & HandleTable::kGenerationMask : 1);
  s.store.store(nullptr, std::memory_order_release);
}

kvc_status store_of(void **store, const Token &token, HandleKind kind, Error &error) {
  static const char *const names[] = {"", "store", "scope", "seq", "queue", "lease", "view", "region"};
  const char *wanted = names[static_cast<uint32_t>(kind)];
  if (token.kind == HandleKind::none && token.generation == 0) return fail(error, KVC_ERR_MISUSE, "NULL where a kvc_%s is needed", wanted);
  if (token.kind != kind || token.generation == 0 || (kind == HandleKind::store && token.index != 0))
    return fail(error, KVC_ERR_MISUSE, "not a kvc_%s: a handle of another kind, or no handle", wanted);
  if (token.process != process_tag()) return fail(error, KVC_ERR_FORKED, "kvc_%s of the parent process: open a store of this one", wanted);
  StoreSlot *slots = process_page()->slots.load(std::memory_order_acquire);
  const uint32_t generation = slots ? slots[token.store].generation.load(std::memory_order_acquire) : 0;
  if (kind == HandleKind::store && generation != token.generation) return fail(error, KVC_ERR_STALE, "kvc_store was closed before");
  if (generation == 0) return fail(error, KVC_ERR_STALE, "kvc_%s of a store that was closed", wanted);
  *store = slots[token.store].store.load(std::memory_order_relaxed);
  return KVC_OK;
}

HandleTable::~HandleTable() {
  for (auto &slot : blocks_)
    if (Entry *block = slot.load(std::memory_order_relaxed)) resource_->deallocate(block, sizeof(Entry) * kBlock, alignof(Entry));
}

HandleTable::Entry *HandleTable::entry(uint32_t index) const {
  Entry *block = blocks_[index / kBlock].load(std::memory_order_acquire);
  return block ? &block[index % kBlock] : nullptr;
}

HandleTable::Entry *HandleTable::live_entry(const Token &token, uint64_t *word) const {
  Entry *e = entry(token.index);
  if (!e) return nullptr;
  *word = e->word.load(std::memory_order_acquire);
  return generation_of(*word) == token.generation && !(*word & kRetired) ? e : nullptr;
}

/// The entry for a new handle; false: all are in use.
bool HandleTable::take_entry(uint32_t *index) {
  const uint32_t count = entry_count_.load(std::memory_order_relaxed);
  if (live_count_.load(std::memory_order_relaxed) >= entry_max_) return false;
  if (free_count_ >= kFreeMin || (free_count_ && count >= kIndexMax)) {
    *index = free_first_;
    free_first_ = static_cast<uint32_t>(entry(free_first_)->word.load(std::memory_order_relaxed));
    free_count_--;
    return true;
  }
  if (count >= kIndexMax) return false;
  if (count % kBlock == 0) {
    Entry *block = static_cast<Entry *>(resource_->allocate(sizeof(Entry) * kBlock, alignof(Entry)));
    for (uint32_t i = 0; i < kBlock; i++) {
      new (&block[i]) Entry;
      block[i].object.store(reinterpret_cast<void *>(static_cast<uintptr_t>(first_generation_ - 1)), std::memory_order_relaxed);
    }
    blocks_[count / kBlock].store(block, std::memory_order_release);
  }
  entry_count_.store(count + 1, std::memory_order_release);
  *index = count;
  return true;
}

uint64_t HandleTable::add(void *object) {
  std::lock_guard lock(mutex_);
  uint32_t index;
  if (!take_entry(&index)) return 0;
  Entry *e = entry(index);
  Token token;
  token.kind = kind_;
  token.process = process_tag();
  token.store = store_slot_;
  token.index = index;
  token.generation = (static_cast<uint32_t>(reinterpret_cast<uintptr_t>(e->object.load(std::memory_order_relaxed))) + 1) & kGenerationMask;
  if (token.generation == 0) token.generation = 1;
  generation_max_ = std::max(generation_max_, token.generation);
  e->object.store(object, std::memory_order_relaxed);
  e->word.store(static_cast<uint64_t>(token.generation) << 32, std::memory_order_release);
  live_count_.fetch_add(1, std::memory_order_relaxed);
  return token_pack(token);
}

kvc_status HandleTable::enter_shared(void **object, const Token &token) {
  uint64_t word;
  Entry *e = live_entry(token, &word);
  if (!e) return KVC_ERR_STALE;
  for (;;) {
    if (generation_of(word) != token.generation || (word & kRetired)) return KVC_ERR_STALE;
    if (word & (kWriter | kQueued)) return word & kQueued ? KVC_ERR_BUSY : KVC_ERR_MISUSE;
    if (e->word.compare_exchange_weak(word, word + 1, std::memory_order_acquire)) break;
  }
  *object = e->object.load(std::memory_order_relaxed);
  return KVC_OK;
}

bool HandleTable::leave_shared(const Token &token) {
  Entry *e = entry(token.index);
  const uint64_t before = e->word.fetch_sub(1, std::memory_order_acq_rel);
  KVC_CHECK((before & kReaders) > 0);
  if (!(before & kRetired) || (before & kReaders) != 1) return false;
  free_entry(e, token.index);
  return true;
}

kvc_status HandleTable::enter_exclusive(void **object, const Token &token) {
  uint64_t word;
  Entry *e = live_entry(token, &word);
  if (!e) return KVC_ERR_STALE;
  for (;;) {
    if (generation_of(word) != token.generation || (word & kRetired)) return KVC_ERR_STALE;
    if (word & (kWriter | kReaders | kQueued)) return word & kQueued ? KVC_ERR_BUSY : KVC_ERR_MISUSE;
    if (e->word.compare_exchange_weak(word, word | kWriter, std::memory_order_acquire)) break;
  }
  *object = e->object.load(std::memory_order_relaxed);
  return KVC_OK;
}

void HandleTable::leave_exclusive(const Token &token) {
  // Nobody else writes the word while the writer is in (who marks a lapse looks first, who takes the mark back is waited for), so no locked
  // instruction is needed, which would also wait until all rows of the call have reached memory.
  std::atomic<uint64_t> &word = entry(token.index)->word;
  const uint64_t before = word.load(std::memory_order_relaxed);
  KVC_CHECK(before & kWriter);
  word.store(before & ~kWriter, std::memory_order_release);
}

void HandleTable::remove(const Token &token) { free_entry(entry(token.index), token.index); }

kvc_status HandleTable::retire(void **object, const Token &token) {
  *object = nullptr;
  uint64_t word;
  Entry *e = live_entry(token, &word);
  if (!e) return KVC_ERR_STALE;
  for (;;) {
    if (generation_of(word) != token.generation || (word & kRetired)) return KVC_ERR_STALE;
    if (e->word.compare_exchange_weak(word, word | kRetired, std::memory_order_acq_rel)) break;
  }
  if ((word & kReaders) == 0) {
    *object = e->object.load(std::memory_order_relaxed);
    free_entry(e, token.index);
  }
  return KVC_OK;
}

kvc_status HandleTable::enter_queued(void **object, const Token &token, bool exclusive) {
  uint64_t word;
  Entry *e = live_entry(token, &word);
  if (!e) return KVC_ERR_STALE;
  for (;;) {
    if (generation_of(word) != token.generation || (word & kRetired)) return KVC_ERR_STALE;
    if ((word & kWriter) || (exclusive && (word & kReaders))) return KVC_ERR_MISUSE;
    if (e->word.compare_exchange_weak(word, word | kQueued, std::memory_order_acquire)) break;
  }
  *object = e->object.load(std::memory_order_relaxed);
  return KVC_OK;
}

bool HandleTable::leave_queued(const Token &token) {
  const uint64_t before = entry(token.index)->word.fetch_and(~kQueued, std::memory_order_acq_rel);
  KVC_CHECK(before & kQueued);
  return before & kRetired;
}

void *HandleTable::queued(const Token &token) const {
  uint64_t word;
  Entry *e = live_entry(token, &word);
  return e && (word & kQueued) ? e->object.load(std::memory_order_relaxed) : nullptr;
}

kvc_status HandleTable::retire_queued(const Token &token) {
  uint64_t word;
  Entry *e = live_entry(token, &word);
  if (!e) return KVC_ERR_STALE;
  for (;;) {
    if (generation_of(word) != token.generation || (word & kRetired)) return KVC_ERR_STALE;
    if (word & (kWriter | kReaders)) return KVC_ERR_MISUSE;
    if (!(word & kQueued)) return KVC_ERR_BUSY;
    if (e->word.compare_exchange_weak(word, word | kRetired, std::memory_order_acq_rel)) return KVC_OK;
  }
}

void HandleTable::free_entry(Entry *e, uint32_t index) {
  std::lock_guard lock(mutex_);
  const uint32_t generation = generation_of(e->word.load(std::memory_order_relaxed));
  e->word.store(0, std::memory_order_release);
  e->object.store(reinterpret_cast<void *>(static_cast<uintptr_t>(generation)), std::memory_order_relaxed);
  if (free_count_++ == 0) free_first_ = index;
  else entry(free_last_)->word.store(index, std::memory_order_relaxed);
  free_last_ = index;
  live_count_.fetch_sub(1, std::memory_order_relaxed);
}

bool HandleTable::mark_lapsed(uint32_t index) {
  Entry *e = entry(index);
  uint64_t word = e->word.load(std::memory_order_acquire);
  if (generation_of(word) == 0 || (word & (kLapsed | kWriter | kRetired | kQueued | kReaders))) return false;
  return e->word.compare_exchange_strong(word, word | kLapsed, std::memory_order_acq_rel);
}

bool HandleTable::in_use(uint32_t index) const { return entry(index)->word.load(std::memory_order_acquire) & (kWriter | kQueued | kReaders); }

bool HandleTable::lapsed(const Token &token) const {
  const Entry *e = entry(token.index);
  const uint64_t word = e ? e->word.load(std::memory_order_acquire) : 0;
  return generation_of(word) == token.generation && (word & kLapsed);  // of one that was retired too: queued calls may be inside
}

void HandleTable::clear_lapsed(uint32_t index) { entry(index)->word.fetch_and(~kLapsed, std::memory_order_acq_rel); }

}  // namespace kvc::base

#include "news.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<uint64_t> g_passed{0}, g_fail_begin{0}, g_fail_end{0};
std::atomic<int64_t> g_alive{0};
thread_local int t_inside = 0;

void *take(size_t size, size_t alignment) {
  if (t_inside > 0) {
    const uint64_t pass = ++g_passed;
    if (pass >= g_fail_begin && pass < g_fail_end) return nullptr;
  }
  void *p = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment + (size ? 0 : alignment));
  g_alive += p != nullptr;
  return p;
}

void *take_or_throw(size_t size, size_t alignment) {
  void *p = take(size, alignment);
  if (!p) throw std::bad_alloc();
  return p;
}

void give(void *p) {
  g_alive -= p != nullptr;
  std::free(p);
}

constexpr size_t kPlain = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

void *operator new(size_t size) { return take_or_throw(size, kPlain); }
void *operator new[](size_t size) { return take_or_throw(size, kPlain); }
void *operator new(size_t size, std::align_val_t a) { return take_or_throw(size, static_cast<size_t>(a)); }
void *operator new[](size_t size, std::align_val_t a) { return take_or_throw(size, static_cast<size_t>(a)); }
void *operator new(size_t size, const std::nothrow_t &) noexcept { return take(size, kPlain); }
void *operator new[](size_t size, const std::nothrow_t &) noexcept { return take(size, kPlain); }
void *operator new(size_t size, std::align_val_t a, const std::nothrow_t &) noexcept { return take(size, static_cast<size_t>(a)); }
void *operator new[](size_t size, std::align_val_t a, const std::nothrow_t &) noexcept { return take(size, static_cast<size_t>(a)); }
void operator delete(void *p) noexcept { give(p); }
void operator delete[](void *p) noexcept { give(p); }
void operator delete(void *p, size_t) noexcept { give(p); }
void operator delete[](void *p, size_t) noexcept { give(p); }
void operator delete(void *p, std::align_val_t) noexcept { give(p); }
void operator delete[](void *p, std::align_val_t) noexcept { give(p); }
void operator delete(void *p, size_t, std::align_val_t) noexcept { give(p); }
void operator delete[](void *p, size_t, std::align_val_t) noexcept { give(p); }

namespace kvc::fault {

Inside::Inside() { t_inside++; }
Inside::~Inside() { t_inside--; }
uint64_t news_passed() { return g_passed; }
int64_t news_alive() { return g_alive; }

void news_arm(uint64_t nth, uint64_t count) {
  g_fail_end = 0;
  g_fail_begin = g_passed + nth;
  g_fail_end = count > UINT64_MAX - g_fail_begin ? UINT64_MAX : g_fail_begin + count;
  if (count == 0) g_fail_end = 0;
}

}  // namespace kvc::fault

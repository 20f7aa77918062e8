#include "store/region.h"

#include "store/store.h"

/// Memory that the host registers once.  In this store nothing is gained by it yet: rows and objects move the same way.
namespace kvc::store {

using base::fail;

kvc_status Regions::add(Region **out, const void *data, uint64_t bytes, base::Error &error) {
  const auto begin = reinterpret_cast<uint64_t>(data);
  if (!data) return fail(error, KVC_ERR_ARGUMENT, "data is NULL");
  if (bytes == 0) return fail(error, KVC_ERR_ARGUMENT, "data_size 0: nothing to register");
  if (begin + bytes < begin) return fail(error, KVC_ERR_ARGUMENT, "data_size %llu: the region passes the end of memory", static_cast<unsigned long long>(bytes));
  const auto after = by_begin_.lower_bound(begin + bytes);
  if (after != by_begin_.begin()) {
    const Region &held = std::prev(after)->second;
    if (held.begin + held.bytes > begin)
      return fail(error, KVC_ERR_ARGUMENT, "data %p, %llu bytes: overlaps a region of %llu bytes at 0x%llx that is held", data, static_cast<unsigned long long>(bytes),
                  static_cast<unsigned long long>(held.bytes), static_cast<unsigned long long>(held.begin));
  }
  *out = &by_begin_.emplace(begin, Region{begin, bytes}).first->second;
  return KVC_OK;
}

kvc_status Store::region_register(uint64_t *token, const void *data, uint64_t bytes, uint32_t memory, Error &error) {
  if (memory > KVC_MEMORY_CUDA_MANAGED) return fail(error, KVC_ERR_ARGUMENT, "memory %u: no such kind", memory);
  if (memory != KVC_MEMORY_HOST) return fail(error, KVC_ERR_UNSUPPORTED, "memory %u: this store has no device tier", memory);
  std::lock_guard lock(mutex_);
  Regions::Region *region;
  KVC_TRY(regions_.add(&region, data, bytes, error));
  try {
    *token = region_handles_.add(region);
  } catch (...) {
    regions_.remove(region);
    throw;
  }
  if (*token) return KVC_OK;
  regions_.remove(region);
  return fail(error, KVC_ERR_FULL, "%u regions are held: the limit", region_handles_.live_count());
}

kvc_status Store::region_release(const base::Token &token, Error &error) {
  std::lock_guard lock(mutex_);
  void *object;
  if (region_handles_.enter_exclusive(&object, token) != KVC_OK) return fail(error, KVC_ERR_STALE, "kvc_region was released before");
  region_handles_.remove(token);
  regions_.remove(static_cast<Regions::Region *>(object));
  return KVC_OK;
}

}  // namespace kvc::store

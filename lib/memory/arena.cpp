#include "memory/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdint>

#include "base/check.h"
#include "base/fault.h"
#include "memory/map.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace kvc::memory {
namespace {

// What 32-bit numbers of 4 KiB units can name.
constexpr uint64_t kArenaBytesMax = (uint64_t{1} << 44) - kHugePageBytes;

/// 0 or an errno.  The kernel call reports what it cannot give; kernels before 5.14 do not have it.
int populate(uint8_t *data, uint64_t bytes) {
  int result;
  do {
    result = madvise(data, bytes, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
  } while (result == EINTR || result == EAGAIN);
  if (result != EINVAL) return result;
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (uint64_t offset = 0; offset < bytes; offset += page_bytes) static_cast<volatile uint8_t *>(data)[offset] = 0;
  return 0;
}

}  // namespace

Arena::~Arena() {
  if (data_) munmap(data_, bytes_);
}

kvc_status Arena::open(const ArenaOptions &options, base::Error &error) {
  KVC_CHECK(!data_);
  if (options.bytes == 0 || options.bytes > kArenaBytesMax) {
    return base::fail(error, KVC_ERR_ARGUMENT, "memory_bytes %" PRIu64 ": from 1 to %" PRIu64 " are allowed", options.bytes, kArenaBytesMax);
  }
  const uint64_t bytes = (options.bytes + kHugePageBytes - 1) & ~(kHugePageBytes - 1);
  errno = ENOMEM;  // the fault point's
  uint8_t *data = KVC_FAULT("memory.arena.map") ? nullptr : map_aligned(bytes, kHugePageBytes, MAP_NORESERVE);
  if (!data) return base::fail_system(error, KVC_ERR_NO_MEMORY, errno, "memory_bytes %" PRIu64 " cannot be reserved", bytes);
  // Huge pages and smaller core dumps are wishes; that a child process does not share or copy the arena is promised.
  madvise(data, bytes, MADV_HUGEPAGE);
  madvise(data, bytes, MADV_DONTDUMP);
  int system_error = madvise(data, bytes, MADV_DONTFORK) == 0 ? 0 : errno;
  if (system_error == 0 && options.populate) system_error = populate(data, bytes);
  if (system_error != 0) {
    munmap(data, bytes);
    return base::fail_system(error, KVC_ERR_NO_MEMORY, system_error, "memory_bytes %" PRIu64 " cannot be had", bytes);
  }
  data_ = data;
  bytes_ = bytes;
  return KVC_OK;
}

}  // namespace kvc::memory

#include "base/random.h"

#include <sys/random.h>

#include <cerrno>

#include "base/fault.h"

namespace kvc::base {

kvc_status random_fill(void *to, size_t bytes, Error &error) {
  const ssize_t filled = KVC_FAULT("base.random.fill") ? (errno = ENOSYS, -1) : getrandom(to, bytes, 0);
  return filled == static_cast<ssize_t>(bytes) ? KVC_OK : fail_system(error, KVC_ERR_IO, errno, "getrandom");
}

}  // namespace kvc::base

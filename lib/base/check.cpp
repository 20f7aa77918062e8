#include "base/check.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kvc::base {

void check_failed(const char *expression, const char *file, int line) {
  // The file's own name is enough to find it and says nothing about the machine it was built on.
  const char *slash = strrchr(file, '/');
  char text[512];
  const int written = snprintf(text, sizeof text, "kvc: broken invariant at %s:%d: %.400s\n", slash ? slash + 1 : file, line, expression);
  // write(2) and not stdio: the heap or a stream's lock may be what is broken.
  if (written > 0 && write(STDERR_FILENO, text, strnlen(text, sizeof text)) < 0) abort();
  abort();
}

}  // namespace kvc::base

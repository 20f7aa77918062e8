#include "native.h"

#include <pthread.h>
#include <stdatomic.h>

/* One lock for all stores, as tokens do not tell theirs.  Writers first, or a close would wait for a quiet moment. */
static pthread_rwlock_t inside = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

/* Closes that have begun. */
static atomic_int closing;

int call_allowed(void) {
  if (!in_log()) return 1;
  raise_status(KVC_ERR_MISUSE, "log: it must not use kvc");
  return 0;
}

PyThreadState *call_begin(void) {
  PyThreadState *thread = PyEval_SaveThread();
  pthread_rwlock_rdlock(&inside);
  return thread;
}

/* A batch of a few small values keeps the GIL: it is shorter than letting go of it, and what takes it back would wait until all that was copied has
 * reached memory.  No close can begin meanwhile.  may_wait: for room, on a store that was opened so; what makes room may need the GIL. */
PyThreadState *object_call_begin(const kvc_object *objects, size_t count, int may_wait) {
#ifndef Py_GIL_DISABLED
  enum { KEPT_BYTES_MAX = 32768, KEPT_COUNT_MAX = 64 };
  uint64_t bytes = 0;
  for (size_t i = 0; i < count && count <= KEPT_COUNT_MAX; i++)
    for (uint64_t part = 0; part < objects[i].part_count && bytes <= KEPT_BYTES_MAX; part++) bytes += objects[i].parts[part].bytes;
  if (!closing && !logs_open() && !(may_wait && waits_open()) && count <= KEPT_COUNT_MAX && bytes <= KEPT_BYTES_MAX) return NULL;
#endif
  return call_begin();
}

PyThreadState *close_begin(void) {
  closing++;
  PyThreadState *thread = PyEval_SaveThread();
  pthread_rwlock_wrlock(&inside);
  return thread;
}

void close_end(PyThreadState *thread) {
  call_end(thread);
  closing--;
}

void call_end(PyThreadState *thread) {
  if (!thread) return;
  pthread_rwlock_unlock(&inside);
  PyEval_RestoreThread(thread);
  if (has_late()) late_run();
}

PyObject *calls_after_fork(void) {
  const pthread_rwlock_t fresh = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
  inside = fresh;
  closing = 0;
  pages_after_fork();
  Py_RETURN_NONE;
}

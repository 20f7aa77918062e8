#include "native.h"

#include <pthread.h>

/* One lock for all stores, as tokens do not tell theirs.  Writers first, or a close would wait for a quiet moment. */
static pthread_rwlock_t inside = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

PyThreadState *call_begin(void) {
  PyThreadState *thread = PyEval_SaveThread();
  pthread_rwlock_rdlock(&inside);
  return thread;
}

PyThreadState *close_begin(void) {
  PyThreadState *thread = PyEval_SaveThread();
  pthread_rwlock_wrlock(&inside);
  return thread;
}

void call_end(PyThreadState *thread) {
  pthread_rwlock_unlock(&inside);
  PyEval_RestoreThread(thread);
}

PyObject *calls_after_fork(void) {
  const pthread_rwlock_t fresh = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
  inside = fresh;
  Py_RETURN_NONE;
}

#include <stdatomic.h>

#include "native.h"

static atomic_int is_stopped;

static void log_line(uint32_t level, const char *line, void *callable) {
  if (atomic_load(&is_stopped)) return;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *type, *value, *traceback; /* of the call that this thread may be inside */
  PyErr_Fetch(&type, &value, &traceback);
  const int collects = PyGC_Disable(); /* a collection could release handles, and a log function must not call kvc */
  PyObject *text = PyUnicode_DecodeUTF8(line, (Py_ssize_t)strlen(line), "replace");
  PyObject *done = text ? PyObject_CallFunction(callable, "IO", (unsigned)level, text) : NULL;
  if (!done) PyErr_WriteUnraisable(callable);
  Py_XDECREF(done);
  Py_XDECREF(text);
  if (collects) PyGC_Enable();
  PyErr_Restore(type, value, traceback);
  PyGILState_Release(state);
}

int log_open(kvc_store_options *options, PyObject *callable) {
  if (!callable) return 0;
  if (callable == Py_None) return 1;
  if (!PyCallable_Check(callable)) {
    PyErr_Format(PyExc_TypeError, "log: a callable is needed, not %R", (PyObject *)Py_TYPE(callable));
    return 0;
  }
  Py_INCREF(callable);
  options->log = log_line;
  options->log_context = callable;
  return 1;
}

PyObject *stop_logging(void) {
  atomic_store(&is_stopped, 1);
  Py_RETURN_NONE;
}

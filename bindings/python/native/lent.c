/* What the library keeps beyond a call: where log lines go, registered memory. */
#include "native.h"

#include <stdatomic.h>

/* Stores that were opened so. */
static atomic_int log_count, wait_count;

int logs_open(void) { return log_count; }
int waits_open(void) { return wait_count; }
void store_opened(const kvc_store_options *options) {
  log_count += options->log != NULL;
  wait_count += (options->flags & KVC_OPEN_WAIT) != 0;
}

/* This thread is inside a log callable, and below it inside the library. */
static _Thread_local int logging;

int in_log(void) { return logging; }

/* What ended inside a log callable, by the garbage collector most likely. */
typedef struct Late {
  struct Late *next;
  PyObject *callable;
} Late;
static _Atomic(Late *) late;

int has_late(void) { return atomic_load_explicit(&late, memory_order_relaxed) != NULL; }

PyObject *late_add(PyObject *callable) {
  Late *added = PyMem_Malloc(sizeof *added);
  if (!added) return PyErr_NoMemory();
  Py_INCREF(callable);
  *added = (Late){atomic_load(&late), callable};
  while (!atomic_compare_exchange_weak(&late, &added->next, added)) continue;
  Py_RETURN_NONE;
}

void late_run(void) {
  for (Late *first = atomic_exchange(&late, NULL), *next; first; first = next) {
    PyObject *result = PyObject_CallFunctionObjArgs(first->callable, NULL);
    if (!result) PyErr_Clear(); /* as in __del__: there is nobody to tell */
    Py_XDECREF(result);
    Py_DECREF(first->callable);
    next = first->next;
    PyMem_Free(first);
  }
}

/* On any thread, with the GIL or without. */
static void log_line(uint32_t level, const char *line, void *context) {
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  logging = 1;
  PyObject *type, *value, *traceback, *callable = context;
  PyErr_Fetch(&type, &value, &traceback); /* the thread may be on its way out of a call that failed */
  PyObject *text = PyUnicode_DecodeUTF8(line, (Py_ssize_t)strlen(line), "replace");
  PyObject *result = text ? PyObject_CallFunction(callable, "IO", (unsigned)level, text) : NULL;
  if (!result) PyErr_WriteUnraisable(callable);
  Py_XDECREF(result);
  Py_XDECREF(text);
  PyErr_Restore(type, value, traceback);
  logging = 0;
  PyGILState_Release(state);
}

int log_open(kvc_store_options *options, PyObject *object) {
  PyObject *callable = PyTuple_Size(object) > record_length(&store_options_record) ? PyTuple_GetItem(object, record_length(&store_options_record)) : Py_None;
  if (!callable) return 0;
  if (callable == Py_None) return 1;
  if (!PyCallable_Check(callable)) {
    PyErr_Format(PyExc_TypeError, "log: a callable (level, line) is needed, not %R", (PyObject *)Py_TYPE(callable));
    return 0;
  }
  options->log = log_line;
  options->log_context = callable;
  return 1;
}

static const char *const region_name = "kvc.region";

static void region_end(PyObject *capsule) {
  Pin *pin = PyCapsule_GetPointer(capsule, region_name);
  pin_release(pin);
  PyMem_Free(pin);
}

PyObject *region_open(void **data, size_t *size, PyObject *object) {
  Memory memory;
  Pin *pin = PyMem_Calloc(1, sizeof *pin);
  if (!pin) return PyErr_NoMemory();
  PyObject *capsule = pin_memory(pin, &memory, object, 1, "memory") ? PyCapsule_New(pin, region_name, region_end) : NULL;
  if (!capsule) {
    pin_release(pin);
    PyMem_Free(pin);
    return NULL;
  }
  *data = memory.data;
  *size = (size_t)memory.bytes;
  return capsule;
}

static PyObject *token_tuple(const int32_t *tokens, uint64_t count) {
  if (!tokens) Py_RETURN_NONE;
  PyObject *tuple = PyTuple_New((Py_ssize_t)count);
  for (uint64_t i = 0; tuple && i < count; i++) {
    PyObject *token = PyLong_FromLong(tokens[i]);
    if (!token || PyTuple_SetItem(tuple, (Py_ssize_t)i, token) < 0) Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject *event_tuple(const kvc_event *event) {
  PyObject *members = record_tuple(event, &event_record), *tokens = members ? token_tuple(event->tokens, event->token_count) : NULL;
  PyObject *last = tokens ? PyTuple_Pack(1, tokens) : NULL, *all = last ? PySequence_Concat(members, last) : NULL;
  Py_XDECREF(members);
  Py_XDECREF(tokens);
  Py_XDECREF(last);
  return all;
}

PyObject *event_list(const kvc_event *events, size_t count) {
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list && i < count; i++) {
    PyObject *event = event_tuple(&events[i]);
    if (!event || PyList_SetItem(list, (Py_ssize_t)i, event) < 0) Py_CLEAR(list);
  }
  return list;
}

int call_open(const kvc_call **out, kvc_call *call, PyObject *object) {
  KVC_INIT(call);
  if (PyTuple_Check(object)) {
    PyObject *timeout = PyTuple_GetItem(object, 0), *flags = timeout ? PyTuple_GetItem(object, 1) : NULL;
    if (!flags || !as_u64(&call->timeout_us, timeout, "timeout_us") || !as_u32(&call->flags, flags, "flags")) return 0;
  } else if (!as_u64(&call->timeout_us, object, "timeout_us")) {
    return 0;
  }
  *out = call->timeout_us || call->flags ? call : NULL;
  return 1;
}

/* Calls that run in a queue: started here, with all that they were lent in a Hold, which the typed layer keeps until their result is drained. */
#include <stddef.h>

#include "native.h"

/* (queue, user, flags, timeout_us) and what the call has borrowed; paths, names and extras are copied by the library. */
typedef struct Hold {
  kvc_call call;
  RowList rows;
  Pin tokens;
  ObjectList objects;
  kvc_extra *extras;
  kvc_match_info match;
  kvc_verify_info verify;
} Hold;

static const char *const hold_name = "kvc.hold";

static void hold_free(Hold *hold) {
  row_list_close(&hold->rows);
  pin_release(&hold->tokens);
  object_list_close(&hold->objects);
  PyMem_Free(hold->extras);
  PyMem_Free(hold);
}

static void hold_end(PyObject *capsule) { hold_free(PyCapsule_GetPointer(capsule, hold_name)); }

static Hold *hold_begin(PyObject *call) {
  Hold *hold = PyMem_Calloc(1, sizeof *hold);
  unsigned long long queue, user;
  if (!hold) return (Hold *)PyErr_NoMemory();
  KVC_INIT(&hold->call);
  KVC_INIT(&hold->match);
  KVC_INIT(&hold->verify);
  uint32_t flags;
  if (!PyArg_ParseTuple(call, "KKIO", &queue, &user, &flags, &call) || !as_u64(&hold->call.timeout_us, call, "timeout_us")) {
    hold_free(hold);
    return NULL;
  }
  hold->call.queue = (kvc_queue *)(uintptr_t)queue;
  hold->call.user = user;
  hold->call.flags = flags;
  return hold;
}

/* What a failed call leaves is let go; the other kind comes back as a capsule. */
static PyObject *started(Hold *hold, kvc_status status, const kvc_error *error) {
  PyObject *capsule = status == KVC_OK ? PyCapsule_New(hold, hold_name, hold_end) : NULL;
  if (status != KVC_OK) {
    raise_error(status, error, NULL);
    hold_free(hold);
  }
  return capsule;
}

static PyObject *refused(Hold *hold) {
  hold_free(hold);
  return NULL;
}

#define START(CALL)                             \
  kvc_error error;                              \
  KVC_INIT(&error);                             \
  if (!call_allowed()) return refused(hold);    \
  PyThreadState *thread = call_begin();         \
  const kvc_status status = CALL;               \
  call_end(thread);                             \
  return started(hold, status, &error)

static int handle_of(void *out, PyObject *object) {
  *(void **)out = PyLong_AsVoidPtr(object);
  return *(void **)out || !PyErr_Occurred();
}

PyObject *queued_append(PyObject *seq_object, PyObject *tokens, PyObject *rows, PyObject *call) {
  Hold *hold = hold_begin(call);
  kvc_seq *seq;
  const void *ids;
  size_t count;
  if (!hold) return NULL;
  if (!handle_of(&seq, seq_object) || !pin_integers(&hold->tokens, &ids, &count, tokens, 4, "tokens") || !row_list_open(&hold->rows, rows, 0))
    return refused(hold);
  START(kvc_append(seq, ids, count, hold->rows.rows, hold->rows.count, &hold->call, &error));
}

PyObject *queued_gather(PyObject *seq_object, PyObject *rows, PyObject *call) {
  Hold *hold = hold_begin(call);
  const kvc_seq *seq;
  if (!hold) return NULL;
  if (!handle_of(&seq, seq_object) || !row_list_open(&hold->rows, rows, 1)) return refused(hold);
  START(kvc_gather(NULL, seq, hold->rows.rows, hold->rows.count, &hold->call, &error));
}

PyObject *queued_match(PyObject *scope_object, PyObject *tokens, PyObject *options_object, PyObject *call) {
  Hold *hold = hold_begin(call);
  const kvc_scope *scope;
  const void *ids;
  size_t count;
  kvc_seq_options options;
  if (!hold) return NULL;
  if (!handle_of(&scope, scope_object) || !pin_integers(&hold->tokens, &ids, &count, tokens, 4, "tokens") ||
      !seq_options_open(&options, &hold->extras, options_object))
    return refused(hold);
  START(kvc_match(NULL, &hold->match, scope, ids, count, &options, &hold->call, &error));
}

PyObject *queued_seq_lease(PyObject *seq_object, uint64_t token_begin, uint64_t token_count, uint64_t lease_ms, PyObject *call) {
  Hold *hold = hold_begin(call);
  const kvc_seq *seq;
  if (!hold) return NULL;
  if (!handle_of(&seq, seq_object)) return refused(hold);
  START(kvc_seq_lease(NULL, seq, token_begin, token_count, lease_ms, &hold->call, &error));
}

static PyObject *queued_objects(ObjectUse use, PyObject *scope_object, PyObject *items, PyObject *options_object, PyObject *call) {
  Hold *hold = hold_begin(call);
  const kvc_scope *scope;
  kvc_object_options options, *given = options_object == Py_None ? NULL : &options;
  kvc_rows layout;
  if (!hold) return NULL;
  KVC_INIT(&options);
  if (!handle_of(&scope, scope_object) || !object_list_open(&hold->objects, items, use) ||
      (given && (!record_fill(given, &object_options_record, options_object) || !layout_open(&options.layout, &layout, options_object))))
    return refused(hold);
  kvc_object *objects = hold->objects.objects;
  const size_t count = hold->objects.count;
  START(use == OBJECT_PUT      ? kvc_object_put(NULL, scope, objects, count, given, &hold->call, &error)
        : use == OBJECT_GET    ? kvc_object_get(NULL, scope, objects, count, given, &hold->call, &error)
        : use == OBJECT_EXISTS ? kvc_object_exists(NULL, scope, objects, count, given, &hold->call, &error)
                               : kvc_object_delete(NULL, scope, objects, count, &hold->call, &error));
}

PyObject *queued_put(PyObject *scope, PyObject *objects, PyObject *options, PyObject *call) { return queued_objects(OBJECT_PUT, scope, objects, options, call); }
PyObject *queued_get(PyObject *scope, PyObject *objects, PyObject *options, PyObject *call) { return queued_objects(OBJECT_GET, scope, objects, options, call); }
PyObject *queued_exists(PyObject *scope, PyObject *objects, PyObject *options, PyObject *call) {
  return queued_objects(OBJECT_EXISTS, scope, objects, options, call);
}
PyObject *queued_delete(PyObject *scope, PyObject *objects, PyObject *call) { return queued_objects(OBJECT_DELETE, scope, objects, Py_None, call); }

PyObject *queued_verify(PyObject *store_object, PyObject *call) {
  Hold *hold = hold_begin(call);
  kvc_store *store;
  if (!hold) return NULL;
  if (!handle_of(&store, store_object)) return refused(hold);
  START(kvc_store_verify(&hold->verify, store, &hold->call, &error));
}

PyObject *queued_clear(PyObject *scope_object, PyObject *call) {
  Hold *hold = hold_begin(call);
  kvc_scope *scope;
  if (!hold) return NULL;
  if (!handle_of(&scope, scope_object)) return refused(hold);
  START(kvc_scope_clear(NULL, scope, &hold->call, &error));
}

PyObject *queued_save(PyObject *seq_object, PyObject *path_object, PyObject *call) {
  Hold *hold = hold_begin(call);
  const kvc_seq *seq;
  const char *path;
  if (!hold) return NULL;
  if (!handle_of(&seq, seq_object) || !as_path(&path, path_object, "path")) return refused(hold);
  START(kvc_seq_save(seq, path, &hold->call, &error));
}

PyObject *queued_restore(PyObject *scope_object, PyObject *path_object, PyObject *options_object, PyObject *call) {
  Hold *hold = hold_begin(call);
  const kvc_scope *scope;
  const char *path;
  kvc_seq_options options;
  if (!hold) return NULL;
  if (!handle_of(&scope, scope_object) || !as_path(&path, path_object, "path") || !seq_options_open(&options, &hold->extras, options_object))
    return refused(hold);
  START(kvc_seq_restore(NULL, scope, path, &options, &hold->call, &error));
}

PyObject *queued_publish(PyObject *seq_object, PyObject *name_object, uint64_t lease_ms, PyObject *call) {
  Hold *hold = hold_begin(call);
  kvc_seq *seq;
  char *name;
  Py_ssize_t size;
  if (!hold) return NULL;
  if (!handle_of(&seq, seq_object) || PyBytes_AsStringAndSize(name_object, &name, &size) < 0) return refused(hold);
  START(kvc_seq_publish(seq, name, (size_t)size, lease_ms, &hold->call, &error));
}

PyObject *queued_attach(PyObject *scope_object, PyObject *name_object, PyObject *options_object, PyObject *call) {
  Hold *hold = hold_begin(call);
  const kvc_scope *scope;
  char *name;
  Py_ssize_t size;
  kvc_seq_options options;
  if (!hold) return NULL;
  if (!handle_of(&scope, scope_object) || PyBytes_AsStringAndSize(name_object, &name, &size) < 0 ||
      !seq_options_open(&options, &hold->extras, options_object))
    return refused(hold);
  START(kvc_seq_attach(NULL, scope, name, (size_t)size, &options, &hold->call, &error));
}

PyObject *queued_outputs(PyObject *capsule, uint32_t operation, kvc_status status) {
  const Hold *hold = PyCapsule_GetPointer(capsule, hold_name);
  if (!hold) return NULL;
  if (operation == KVC_OP_MATCH) return record_tuple(&hold->match, &match_info_record);
  if (operation == KVC_OP_VERIFY) return record_tuple(&hold->verify, &verify_info_record);
  if (hold->objects.objects) return object_list_outputs(&hold->objects, status);
  Py_RETURN_NONE;
}

PyObject *result_list(const kvc_result *results, size_t count) {
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list && i < count; i++) {
    PyObject *result = record_tuple(&results[i], &queued_result_record);
    if (!result || PyList_SetItem(list, (Py_ssize_t)i, result) < 0) Py_CLEAR(list);
  }
  return list;
}

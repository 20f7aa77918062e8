/* What the generated wrappers of the Python binding call: Python objects to the structs of kvc, and back.
 *
 * Descriptions travel as plain tuples whose order is fixed by the tables in records.c, so that one call into the extension moves a whole
 * struct; SWIG's accessors (a call for each member) would cost more than the library's own work.  Memory is never copied on the way: a Pin
 * holds the buffer of the Python object, or its DLPack capsule, until the call has returned.
 *
 * Everything here is of the limited API of CPython 3.11. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <kvc/kvc.h>

/* ---- errors.c: every function that returns int returns 1, or 0 with a Python exception set */

/* Sets the callable (status, message, retry, system_error, outputs) -> exception. */
PyObject *set_error_factory(PyObject *factory);
/* Raises what a call of the library reported; `outputs` (may be NULL) is what the call still returned. */
void raise_error(kvc_status status, const kvc_error *error, PyObject *outputs);
/* Raises the exception of a status for what is refused here, before the library is called. */
void raise_status(kvc_status status, const char *format, ...);
#define raise_argument(...) raise_status(KVC_ERR_ARGUMENT, __VA_ARGS__)
/* Replaces a BufferError, ValueError or TypeError of the buffer protocol by an argument error that names what was refused. */
void raise_buffer_error(const char *name);

/* ---- calls.c: around every call that may wait */

/* False, and raises: a log callable runs on this thread, and below it the call that logs. */
int call_allowed(void);
/* Releases the GIL.  close_begin also waits until no other call is inside the library and keeps new ones out: what a host must see to by
 * itself in C, a program whose objects end when the garbage collector likes cannot. */
PyThreadState *call_begin(void);
PyThreadState *object_call_begin(const kvc_object *objects, size_t count, int may_wait); /* NULL: it keeps the GIL */
PyThreadState *close_begin(void);
void call_end(PyThreadState *thread);
void close_end(PyThreadState *thread);
/* In the child, where the threads that were inside are no more. */
PyObject *calls_after_fork(void);

/* ---- memory.c */

typedef struct Pin { /* all zero: nothing is held */
  Py_buffer view;
  int has_view;
  PyObject *capsule; /* of DLPack; its destructor gives the memory back */
  void *copy;        /* of integers that could not be used in place */
} Pin;
void pin_release(Pin *pin);

typedef struct Memory {
  char *data;       /* of the first element */
  uint64_t bytes;   /* from the first element to the end of the last */
  uint32_t dtype;   /* KVC_*; 0: the elements are no numbers of kvc's */
  uint32_t element; /* bytes of one */
  char code;        /* of the struct module, 'B' for bytes */
  int dim_count;
  const int64_t *lengths; /* per dimension */
  const int64_t *strides; /* per dimension, in stride_unit bytes; NULL: packed */
  int64_t stride_unit;
} Memory;
/* `name` leads every message.  A destination that cannot be written, memory of a device and negative strides are refused. */
int pin_memory(Pin *pin, Memory *memory, PyObject *object, int is_destination, const char *name);
int memory_is_packed(const Memory *memory);
/* (lengths, strides in bytes, bytes of an element, dtype, struct code, address) of anything that pin_memory takes. */
PyObject *array_layout(PyObject *object, const char *name);

/* ---- pages.c: what a view lends */

/* Counts the arrays that read a view's memory: `end` is true, and final, when there is none. */
PyObject *lender_make(void);
/* (address, dtype, lengths, strides in bytes) as read-only memory of the buffer protocol and DLPack, which holds `owner`. */
PyObject *page_make(PyObject *owner, PyObject *lender, PyObject *description);
/* In the child: what was lent is the parent's. */
void pages_after_fork(void);

/* ---- integers.c */

int as_u64(uint64_t *out, PyObject *object, const char *name);
int as_u32(uint32_t *out, PyObject *object, const char *name);
int as_i32(int32_t *out, PyObject *object, const char *name);
/* A str without NUL characters; of bytes the same, None is NULL.  Borrowed from the object. */
int as_text(const char **out, PyObject *object, const char *name);
int as_path(const char **out, PyObject *object, const char *name);
/* A list of integers, or a buffer of them: used in place when they are 4 bytes wide and signed, or 8 and not, as `element` says; copied and
 * held against that range when they are others. */
int pin_integers(Pin *pin, const void **data, size_t *count, PyObject *object, unsigned element, const char *name);

/* ---- records.c: the scalar members of structs */

typedef struct Record Record;
extern const Record store_options_record, layer_record, shape_record, scope_options_record, seq_options_record, extra_record, rows_record,
    array_record, object_options_record, queue_options_record, hint_record;
extern const Record store_info_record, verify_info_record, shape_info_record, scope_info_record, seq_info_record, match_info_record,
    result_record, queued_result_record, metrics_record, event_record;
/* Fills the members from the first items of a tuple. */
int record_fill(void *target, const Record *record, PyObject *tuple);
Py_ssize_t record_length(const Record *record);
PyObject *record_tuple(const void *source, const Record *record);
/* {struct: (member, ...)}: the order of the tuples, for the tests of the typed layer. */
PyObject *record_members(void);

/* ---- rows.c: structs that hold lists */

typedef struct RowList {
  kvc_rows *rows;
  size_t count;
  Pin *pins;
  size_t pin_count;
} RowList;
int row_list_open(RowList *list, PyObject *object, int is_destination);
void row_list_close(RowList *list);
/* (*rows_record, (address, bytes, *array_record) of k, the same of v) */
PyObject *rows_tuple(const kvc_rows *rows);
/* The layout behind the members of the options, if there is one: (*rows_record, (offset, *array_record), (offset, *array_record) or None). */
int layout_open(const kvc_rows **out, kvc_rows *layout, PyObject *options);

int extras_open(kvc_extra **extras, size_t *count, PyObject *object); /* freed by PyMem_Free */
/* (*seq_options_record, extras); the list is freed by PyMem_Free, also after a failure. */
int seq_options_open(kvc_seq_options *options, kvc_extra **extras, PyObject *object);
typedef struct ShapeHold {
  kvc_shape shape;
  kvc_layer *layers;
} ShapeHold;
int shape_open(ShapeHold *hold, PyObject *object);
void shape_close(ShapeHold *hold);

/* ---- objects.c */

typedef enum ObjectUse { OBJECT_PUT, OBJECT_GET, OBJECT_EXISTS, OBJECT_DELETE } ObjectUse;
typedef struct ObjectList {
  kvc_object *objects;
  size_t count;
  PyObject *items; /* a tuple that holds keys and values; is_one: the one item */
  int is_one;
  Pin *pins;
  size_t pin_count;
  ObjectUse use;
  PyObject *arena; /* of the slice before, and all of its memory */
  kvc_bytes arena_part;
  struct { /* room for one object of one piece */
    kvc_object object;
    kvc_bytes part;
    Pin pin;
  } one;
} ObjectList;
int object_list_open(ObjectList *list, PyObject *items, ObjectUse use);
/* After a failure (status, bytes of the value, tier) of every item; else the sizes, None where absent, for get and exists; else None. */
PyObject *object_list_outputs(const ObjectList *list, kvc_status status);
void object_list_close(ObjectList *list);
/* A list of (key, bytes of the value, tier). */
PyObject *entry_list(const kvc_object_entry *entries, size_t count);

/* ---- lent.c: what the library keeps beyond a call */

/* The option behind the members: a callable (level, line), or None.  It is borrowed until the store is closed. */
int log_open(kvc_store_options *options, PyObject *object);
/* True while a store may write log lines: whoever waits in the library then waits without the GIL, as the writer takes it. */
int logs_open(void);
/* True while calls may wait for room in a store. */
int waits_open(void);
/* A store was opened.  It may log and wait until the process ends, for all that is known here. */
void store_opened(const kvc_store_options *options);
/* A log callable runs on this thread. */
int in_log(void);
/* Calls it, without arguments, as soon as a call of the library has returned: what ends inside a log callable is released then. */
PyObject *late_add(PyObject *callable);
int has_late(void);
void late_run(void);
/* Memory that may be written, and the object that holds it. */
PyObject *region_open(void **data, size_t *size, PyObject *memory);
/* Tuples of event_record, each with its tokens, or None, behind. */
PyObject *event_list(const kvc_event *events, size_t count);
/* `object` is a timeout in microseconds, or (timeout, flags); *out becomes NULL when both are 0. */
int call_open(const kvc_call **out, kvc_call *call, PyObject *object);

/* ---- queued.c: calls that run in a queue.  `call` is (queue, user, flags, timeout_us); what comes back holds all that the call was lent, and is
 * let go when its result was drained. */
PyObject *queued_append(PyObject *seq, PyObject *tokens, PyObject *rows, PyObject *call);
PyObject *queued_gather(PyObject *seq, PyObject *rows, PyObject *call);
PyObject *queued_match(PyObject *scope, PyObject *tokens, PyObject *options, PyObject *call);
PyObject *queued_seq_lease(PyObject *seq, uint64_t token_begin, uint64_t token_count, uint64_t lease_ms, PyObject *call);
PyObject *queued_put(PyObject *scope, PyObject *objects, PyObject *options, PyObject *call);
PyObject *queued_get(PyObject *scope, PyObject *objects, PyObject *options, PyObject *call);
PyObject *queued_exists(PyObject *scope, PyObject *objects, PyObject *options, PyObject *call);
PyObject *queued_delete(PyObject *scope, PyObject *objects, PyObject *call);
PyObject *queued_save(PyObject *seq, PyObject *path, PyObject *call);
PyObject *queued_restore(PyObject *scope, PyObject *path, PyObject *options, PyObject *call);
PyObject *queued_publish(PyObject *seq, PyObject *name, uint64_t lease_ms, PyObject *call);
PyObject *queued_attach(PyObject *scope, PyObject *name, PyObject *options, PyObject *call);
PyObject *queued_verify(PyObject *store, PyObject *call);
PyObject *queued_clear(PyObject *scope, PyObject *call);
/* What a call left in what it was lent: of a match and a verify the info, of objects what object_list_outputs gives, else None. */
PyObject *queued_outputs(PyObject *hold, uint32_t operation, kvc_status status);
/* Results as tuples of queued_result_record. */
PyObject *result_list(const kvc_result *results, size_t count);

/* ---- wrappers: outputs of one call.  NULL, then the value, then a pair; takes both references. */
PyObject *outputs_append(PyObject *outputs, PyObject *value);

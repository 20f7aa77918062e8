/* The Python side of kvc.i: typemaps by the fixed parameter names of the headers, over the functions of native/.
 *
 * A wrapped call takes handles as ints, descriptions as tuples (native/native.h), raises the exception of its status, and returns its
 * outputs: nothing, one, or a pair.  */

/* ---- What is wrapped.  Structs travel as tuples, so none is wrapped; the calls listed here have no Python form yet. */
%rename("$ignore", %$isclass) "";
%rename("$ignore", %$istypedef) "";
%ignore kvc_seq_importance;
%ignore kvc_seq_budget;

%{
#include "native.h"

/* By the name of the call: how its objects are used, and whether a success returns the result too (an object costs less than its tuple). */
#define USE_kvc_object_put OBJECT_PUT
#define USE_kvc_object_get OBJECT_GET
#define USE_kvc_object_exists OBJECT_EXISTS
#define USE_kvc_object_delete OBJECT_DELETE
#define GIVES_RESULT_kvc_object_put 0
#define GIVES_RESULT_kvc_object_get 0
#define GIVES_RESULT_kvc_object_exists 1
#define GIVES_RESULT_kvc_object_delete 0
#define GIVES_RESULT_kvc_gather 1
#define GIVES_RESULT_kvc_seq_prefetch 1
#define GIVES_RESULT_kvc_scope_clear 1
%}

/* ---- The GIL is released around every call that may wait: for a transfer, or for another thread's turn in the store. */
%exception { if (!call_allowed()) SWIG_fail; PyThreadState *thread = call_begin(); $action call_end(thread); }
%exception kvc_object_put { if (!call_allowed()) SWIG_fail; PyThreadState *thread = object_call_begin(arg3, arg4, 1); $action call_end(thread); }
%exception kvc_object_get { if (!call_allowed()) SWIG_fail; PyThreadState *thread = object_call_begin(arg3, arg4, 0); $action call_end(thread); }
%exception kvc_close { if (!call_allowed()) SWIG_fail; PyThreadState *thread = close_begin(); $action close_end(thread); }
%noexception kvc_status_name;
%noexception kvc_version;
%noexception kvc_features;
%noexception kvc_shape_check;
%noexception set_error_factory;
%noexception array_layout;
%noexception record_members;
%noexception calls_after_fork;
%noexception lender_make;
%noexception page_make;
%noexception late_add;
%noexception queued_append;
%noexception queued_gather;
%noexception queued_match;
%noexception queued_seq_lease;
%noexception queued_put;
%noexception queued_get;
%noexception queued_exists;
%noexception queued_delete;
%noexception queued_verify;
%noexception queued_save;
%noexception queued_restore;
%noexception queued_publish;
%noexception queued_attach;
%noexception queued_clear;
%noexception queued_outputs;

/* ---- Status and error.  The error is the last parameter, so its argout runs last and sees every output. */
%typemap(out) kvc_status "$result = NULL;"
%typemap(in, numinputs=0) kvc_error *error (kvc_error temp) { KVC_INIT(&temp); $1 = &temp; }
%typemap(argout) kvc_error *error {
  if (result != KVC_OK && !PyErr_Occurred()) raise_error(result, $1, $result);
  if (PyErr_Occurred()) {
    Py_CLEAR($result);
    SWIG_fail;
  }
  if (!$result) Py_INCREF($result = Py_None);
}
%typemap(in) kvc_status status { if (!as_i32(&$1, $input, "$1_name")) SWIG_fail; }
%typemap(out) const char *kvc_status_name { $result = PyUnicode_FromString($1); }

/* ---- Numbers and text */
%typemap(in) uint32_t { if (!as_u32(&$1, $input, "$1_name")) SWIG_fail; }
%typemap(in) uint64_t { if (!as_u64(&$1, $input, "$1_name")) SWIG_fail; }
%typemap(in) int32_t { if (!as_i32(&$1, $input, "$1_name")) SWIG_fail; }
%typemap(in) size_t { uint64_t wide; if (!as_u64(&wide, $input, "$1_name")) SWIG_fail; $1 = (size_t)wide; }
%typemap(in) const char *uri { if (!as_text((const char **)&$1, $input, "$1_name")) SWIG_fail; }
/* bytes, as os.fsencode makes them; None is NULL */
%typemap(in) const char *path { if (!as_path((const char **)&$1, $input, "$1_name")) SWIG_fail; }

/* ---- Handles: ints, as the library's tokens are */
%define HANDLE(TYPE)
%typemap(in) TYPE *, const TYPE * {
  $1 = ($1_ltype)PyLong_AsVoidPtr($input);
  if (!$1 && PyErr_Occurred()) SWIG_fail;
}
%typemap(in, numinputs=0) TYPE **out (TYPE *temp = NULL) "$1 = &temp;"
%typemap(argout) TYPE **out { if (result == KVC_OK) $result = outputs_append($result, PyLong_FromVoidPtr(*$1)); }
%enddef
HANDLE(kvc_store)
HANDLE(kvc_scope)
HANDLE(kvc_seq)
HANDLE(kvc_lease)
HANDLE(kvc_view)
HANDLE(kvc_queue)
HANDLE(kvc_region)

/* ---- Outputs */
%define INFO(TYPE, NAME, RECORD, CONDITION)
%typemap(in, numinputs=0) TYPE *NAME (TYPE temp) { KVC_INIT(&temp); $1 = &temp; }
%typemap(argout) TYPE *NAME { if (CONDITION) $result = outputs_append($result, record_tuple($1, &RECORD)); }
%enddef
INFO(kvc_store_info, info, store_info_record, result == KVC_OK)
INFO(kvc_shape_info, info, shape_info_record, result == KVC_OK)
INFO(kvc_scope_info, info, scope_info_record, result == KVC_OK)
INFO(kvc_seq_info, info, seq_info_record, result == KVC_OK)
INFO(kvc_match_info, info, match_info_record, result == KVC_OK)
INFO(kvc_metrics, metrics, metrics_record, result == KVC_OK)
/* These two are filled on failure too, and travel in the exception. */
INFO(kvc_verify_info, info, verify_info_record, 1)
INFO(kvc_result, result, result_record, result != KVC_OK || GIVES_RESULT_$symname)

%typemap(in, numinputs=0) int *fd (int temp = -1) "$1 = &temp;"
%typemap(argout) int *fd { if (result == KVC_OK) $result = outputs_append($result, PyLong_FromLong(*$1)); }
%typemap(in, numinputs=0) uint32_t *more (uint32_t temp = 0) "$1 = &temp;"
%typemap(argout) uint32_t *more { if (result == KVC_OK) $result = outputs_append($result, PyBool_FromLong((long)*$1)); }

/* ---- Options: tuples in the order of their record, then what they hold; None is NULL */
%define OPTIONS(TYPE, RECORD)
%typemap(in) const TYPE *options (TYPE temp) {
  if ($input != Py_None) {
    KVC_INIT(&temp);
    if (!record_fill(&temp, &RECORD, $input)) SWIG_fail;
    $1 = &temp;
  } else {
    $1 = NULL;
  }
}
%enddef
%typemap(in) const kvc_store_options *options (kvc_store_options temp) {
  KVC_INIT(&temp);
  if (!record_fill(&temp, &store_options_record, $input) || !log_open(&temp, $input)) SWIG_fail;
  $1 = &temp;
}
%typemap(argout) const kvc_store_options *options { if (result == KVC_OK) store_opened($1); }
OPTIONS(kvc_queue_options, queue_options_record)
OPTIONS(kvc_hint, hint_record)
%typemap(in) const kvc_hint *hint = const kvc_hint *options;

%typemap(in) const kvc_object_options *options (kvc_object_options temp, kvc_rows described) {
  if ($input != Py_None) {
    KVC_INIT(&temp);
    if (!record_fill(&temp, &object_options_record, $input) || !layout_open(&temp.layout, &described, $input)) SWIG_fail;
    $1 = &temp;
  } else {
    $1 = NULL;
  }
}

%typemap(in) const kvc_shape *shape (ShapeHold hold = {0}) {
  if (!shape_open(&hold, $input)) SWIG_fail;
  $1 = &hold.shape;
}
%typemap(freearg) const kvc_shape *shape { shape_close(&hold$argnum); }

%typemap(in) const kvc_scope_options *options (kvc_scope_options temp, ShapeHold hold = {0}) {
  KVC_INIT(&temp);
  if (!record_fill(&temp, &scope_options_record, $input)) SWIG_fail;
  PyObject *shape = PyTuple_GetItem($input, record_length(&scope_options_record));
  if (!shape) SWIG_fail;
  if (shape != Py_None) {
    if (!shape_open(&hold, shape)) SWIG_fail;
    temp.shape = &hold.shape;
  }
  $1 = &temp;
}
%typemap(freearg) const kvc_scope_options *options { shape_close(&hold$argnum); }

%typemap(in) const kvc_seq_options *options (kvc_seq_options temp, kvc_extra *listed = NULL) {
  if ($input != Py_None) {
    if (!seq_options_open(&temp, &listed, $input)) SWIG_fail;
    $1 = &temp;
  } else {
    $1 = NULL;
  }
}
%typemap(freearg) const kvc_seq_options *options { PyMem_Free(listed$argnum); }

/* The timeout in microseconds, 0: the store's; or (timeout, KVC_CALL_*). */
%typemap(in) const kvc_call *call (kvc_call temp) { if (!call_open((const kvc_call **)&$1, &temp, $input)) SWIG_fail; }

/* ---- Lists */
%typemap(in) (const int32_t *tokens, size_t token_count) (Pin pin = {0}) {
  const void *data;
  if (!pin_integers(&pin, &data, &$2, $input, 4, "tokens")) SWIG_fail;
  $1 = (int32_t *)data;
}
%typemap(freearg) (const int32_t *tokens, size_t token_count) { pin_release(&pin$argnum); }

%typemap(in) (const kvc_rows *rows, size_t row_count) (RowList list = {0}) {
  if (!row_list_open(&list, $input, !strcmp("$symname", "kvc_gather"))) SWIG_fail;
  $1 = list.rows;
  $2 = list.count;
}
%typemap(freearg) (const kvc_rows *rows, size_t row_count) { row_list_close(&list$argnum); }
%typemap(argout) (const kvc_rows *rows, size_t row_count) ""

/* What a view is filled with. */
%typemap(in, numinputs=0) kvc_rows *rows (kvc_rows temp) { KVC_INIT(&temp); $1 = &temp; }
%typemap(argout) kvc_rows *rows { if (result == KVC_OK) $result = outputs_append($result, rows_tuple($1)); }

%typemap(in) (const kvc_extra *extras, size_t extra_count) (kvc_extra *list = NULL) {
  if (!extras_open(&list, &$2, $input)) SWIG_fail;
  $1 = list;
}
%typemap(freearg) (const kvc_extra *extras, size_t extra_count) { PyMem_Free(list$argnum); }

%typemap(in) (kvc_object *objects, size_t object_count) (ObjectList list = {0}) {
  if (!object_list_open(&list, $input, USE_$symname)) SWIG_fail;
  $1 = list.objects;
  $2 = list.count;
}
%typemap(argout) (kvc_object *objects, size_t object_count) {
  $result = outputs_append($result, object_list_outputs(&list$argnum, result));
}
%typemap(freearg) (kvc_object *objects, size_t object_count) { object_list_close(&list$argnum); }

%typemap(in) (kvc_object_entry *entries, size_t entry_capacity, size_t *entry_count) (kvc_object_entry *list = NULL, size_t count = 0) {
  uint64_t capacity;
  if (!as_u64(&capacity, $input, "entry_capacity")) SWIG_fail;
  list = PyMem_Calloc((size_t)capacity, sizeof *list);
  if (!list) { PyErr_NoMemory(); SWIG_fail; }
  $1 = list;
  $2 = (size_t)capacity;
  $3 = &count;
}
%typemap(argout) (kvc_object_entry *entries, size_t entry_capacity, size_t *entry_count) {
  if (result == KVC_OK) $result = outputs_append($result, entry_list($1, *$3));
}
%typemap(freearg) (kvc_object_entry *entries, size_t entry_capacity, size_t *entry_count) { PyMem_Free(list$argnum); }

%typemap(in) (kvc_result *results, size_t result_capacity, size_t *result_count) (kvc_result *list = NULL, size_t count = 0) {
  uint64_t capacity;
  if (!as_u64(&capacity, $input, "result_capacity")) SWIG_fail;
  list = PyMem_Calloc((size_t)capacity, sizeof *list);
  if (!list) { PyErr_NoMemory(); SWIG_fail; }
  if (capacity) KVC_INIT(list);
  $1 = list;
  $2 = (size_t)capacity;
  $3 = &count;
}
%typemap(argout) (kvc_result *results, size_t result_capacity, size_t *result_count) {
  if (result == KVC_OK) $result = outputs_append($result, result_list($1, *$3));
}
%typemap(freearg) (kvc_result *results, size_t result_capacity, size_t *result_count) { PyMem_Free(list$argnum); }

%typemap(in) (const uint64_t *positions, size_t position_count) (Pin pin = {0}) {
  const void *data;
  if (!pin_integers(&pin, &data, &$2, $input, 8, "positions")) SWIG_fail;
  $1 = (uint64_t *)data;
}
%typemap(freearg) (const uint64_t *positions, size_t position_count) { pin_release(&pin$argnum); }

/* ([handle, ...], [index, ...]) */
%typemap(in) (kvc_seq *const *seqs, const uint32_t *source, size_t seq_count) (Pin handles = {0}, Pin indices = {0}) {
  const void *seqs, *source;
  size_t index_count;
  if (!PyTuple_Check($input) || PyTuple_Size($input) != 2) { PyErr_SetString(PyExc_TypeError, "seqs: a pair of lists is needed"); SWIG_fail; }
  if (!pin_integers(&handles, &seqs, &$3, PyTuple_GetItem($input, 0), 8, "seqs")) SWIG_fail;
  if (!pin_integers(&indices, &source, &index_count, PyTuple_GetItem($input, 1), 4, "source")) SWIG_fail;
  if (index_count != $3) { raise_argument("source: %zu indices, %zu sequences", index_count, $3); SWIG_fail; }
  $1 = (kvc_seq **)seqs;
  $2 = (uint32_t *)source;
}
%typemap(freearg) (kvc_seq *const *seqs, const uint32_t *source, size_t seq_count) { pin_release(&handles$argnum); pin_release(&indices$argnum); }

/* Memory that stays registered: what holds it is the second output. */
%typemap(in) (void *data, size_t data_size) (PyObject *held = NULL) {
  if (!(held = region_open(&$1, &$2, $input))) SWIG_fail;
}
%typemap(argout) (void *data, size_t data_size) {
  if (result == KVC_OK) { $result = outputs_append($result, held$argnum); held$argnum = NULL; }
}
%typemap(freearg) (void *data, size_t data_size) { Py_XDECREF(held$argnum); }

%typemap(in) (char *text, size_t text_capacity, size_t *text_size) (char *room = NULL, size_t size = 0) {
  uint64_t capacity;
  if (!as_u64(&capacity, $input, "text_capacity")) SWIG_fail;
  if (!(room = PyMem_Calloc((size_t)capacity + 1, 1))) { PyErr_NoMemory(); SWIG_fail; }
  $1 = room;
  $2 = (size_t)capacity;
  $3 = &size;
}
%typemap(argout) (char *text, size_t text_capacity, size_t *text_size) {
  if (result == KVC_OK) $result = outputs_append($result, PyUnicode_FromString($1));
}
%typemap(freearg) (char *text, size_t text_capacity, size_t *text_size) { PyMem_Free(room$argnum); }

%typemap(in) (kvc_event *events, size_t event_capacity, size_t *event_count) (kvc_event *list = NULL, size_t count = 0) {
  uint64_t capacity;
  if (!as_u64(&capacity, $input, "event_capacity")) SWIG_fail;
  if (!(list = PyMem_Calloc((size_t)capacity + 1, sizeof *list))) { PyErr_NoMemory(); SWIG_fail; }
  KVC_INIT(list);
  $1 = list;
  $2 = (size_t)capacity;
  $3 = &count;
}
%typemap(argout) (kvc_event *events, size_t event_capacity, size_t *event_count) {
  if (result == KVC_OK) $result = outputs_append($result, event_list($1, *$3));
}
%typemap(freearg) (kvc_event *events, size_t event_capacity, size_t *event_count) { PyMem_Free(list$argnum); }

%typemap(in) (const void *key, size_t key_size) {
  char *data;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize($input, &data, &size) < 0) SWIG_fail;
  $1 = size ? data : NULL;
  $2 = (size_t)size;
}

%typemap(in) (const void *name, size_t name_size) = (const void *key, size_t key_size);

/* ---- What is no call of the library */
PyObject *set_error_factory(PyObject *factory);
%typemap(in) const char *name { $1 = (char *)PyUnicode_AsUTF8AndSize($input, NULL); if (!$1) SWIG_fail; }
PyObject *array_layout(PyObject *object, const char *name);
PyObject *record_members(void);
PyObject *calls_after_fork(void);
PyObject *lender_make(void);
PyObject *late_add(PyObject *callable);
PyObject *page_make(PyObject *owner, PyObject *lender, PyObject *description);
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
PyObject *queued_outputs(PyObject *hold, uint32_t operation, kvc_status status);

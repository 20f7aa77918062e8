/* The members of kvc's structs as tables, and the two loops that read and write them. */
#include <stddef.h>

#include "native.h"

typedef enum Kind {
  U32,
  U64,
  F64,
  TEXT,   /* in: str or None, borrowed.  out: a char array */
  DATA,   /* in: bytes, borrowed; the next member is its size */
  I32,
  HANDLE, /* out: an int */
  RAW     /* a uint8_t array: bytes */
} Kind;

typedef struct Member {
  const char *name;
  Kind kind;
  uint32_t offset, bytes;
} Member;

struct Record {
  const char *name;
  const Member *members;
  uint32_t count;
};

#define M(type, kind, name) {#name, kind, (uint32_t)offsetof(type, name), (uint32_t)sizeof(((type *)0)->name)}
#define RECORD(id, type) const Record id##_record = {#type, id##_members, (uint32_t)(sizeof id##_members / sizeof *id##_members)}

#define T kvc_store_options
static const Member store_options_members[] = {
    M(T, U32, flags),        M(T, U64, memory_bytes),   M(T, U32, seq_max),    M(T, U32, queue_max), M(T, U32, view_max),
    M(T, U32, worker_count), M(T, U64, open_bytes_max), M(T, U64, timeout_us), M(T, U64, lease_ms),
    M(T, U32, log_level)};
RECORD(store_options, kvc_store_options);
#undef T
#define T kvc_layer
static const Member layer_members[] = {M(T, U32, count), M(T, U32, kind),     M(T, U32, kv_heads), M(T, U32, k_dim),  M(T, U32, v_dim),
                                       M(T, U32, rope_dim), M(T, U32, window), M(T, U32, k_dtype),  M(T, U32, v_dtype)};
RECORD(layer, kvc_layer);
#undef T
#define T kvc_shape
static const Member shape_members[] = {M(T, U32, dtype), M(T, U32, chunk_tokens), M(T, U32, rope)};
RECORD(shape, kvc_shape);
#undef T
#define T kvc_scope_options
static const Member scope_options_members[] = {M(T, TEXT, tenant), M(T, TEXT, model),    M(T, TEXT, revision), M(T, TEXT, adapter),
                                               M(T, DATA, salt),   M(T, U64, bytes_max), M(T, U64, ttl_ms)};
RECORD(scope_options, kvc_scope_options);
#undef T
#define T kvc_seq_options
static const Member seq_options_members[] = {
    M(T, U32, flags),      M(T, U64, lease_ms),      M(T, U32, layer_begin), M(T, U32, layer_count), M(T, U32, head_begin),
    M(T, U32, head_count), M(T, U64, prefill_ns_per_token), M(T, U64, tokens_max), M(T, U64, first_position), M(T, RAW, write_id)};
RECORD(seq_options, kvc_seq_options);
#undef T
#define T kvc_extra
static const Member extra_members[] = {M(T, U64, token_begin), M(T, U64, token_count), M(T, DATA, data)};
RECORD(extra, kvc_extra);
#undef T
#define T kvc_rows
static const Member rows_members[] = {M(T, U32, layer_begin), M(T, U32, layer_count), M(T, U32, head_begin),   M(T, U32, head_count),
                                      M(T, U64, token_begin), M(T, U64, token_count), M(T, U32, token_unit),   M(T, U32, block_tokens),
                                      M(T, U64, slot_begin)};
RECORD(rows, kvc_rows);
#undef T
#define T kvc_array
static const Member array_members[] = {M(T, U64, layer_stride), M(T, U64, block_stride), M(T, U64, token_stride), M(T, U64, head_stride),
                                       M(T, U64, dim_stride),   M(T, U32, dtype),        M(T, U32, dim_group)};
RECORD(array, kvc_array);
#undef T
#define T kvc_object_options
static const Member object_options_members[] = {M(T, U32, flags), M(T, U64, ttl_ms), M(T, U64, lease_ms)};
RECORD(object_options, kvc_object_options);
#undef T

#define T kvc_store_info
static const Member store_info_members[] = {
    M(T, U32, state),        M(T, U64, memory_bytes), M(T, U64, memory_used),  M(T, U64, memory_pinned), M(T, U64, nvme_bytes),
    M(T, U64, nvme_used),    M(T, U64, device_bytes), M(T, U64, device_used),  M(T, U64, seq_count),     M(T, U64, lease_count),
    M(T, U64, view_count),   M(T, U64, region_count), M(T, U64, chunk_count),  M(T, U64, object_count),  M(T, U64, features)};
RECORD(store_info, kvc_store_info);
#undef T
#define T kvc_verify_info
static const Member verify_info_members[] = {M(T, U64, pages_read), M(T, U64, pages_bad), M(T, U64, bytes_read), M(T, TEXT, first_bad)};
RECORD(verify_info, kvc_verify_info);
#undef T
#define T kvc_shape_info
static const Member shape_info_members[] = {M(T, U32, layer_count), M(T, U64, token_bytes), M(T, U64, chunk_bytes), M(T, U64, state_bytes),
                                            M(T, RAW, fingerprint)};
RECORD(shape_info, kvc_shape_info);
#undef T
#define T kvc_scope_info
static const Member scope_info_members[] = {
    M(T, U64, bytes_device),        M(T, U64, bytes_host),        M(T, U64, bytes_nvme),        M(T, U64, bytes_remote),
    M(T, U64, bytes_max),           M(T, U64, chunk_count),       M(T, U64, object_count),      M(T, U64, seq_count),
    M(T, U64, hit_tokens),          M(T, U64, miss_tokens),       M(T, U64, tokens_written),    M(T, U64, tokens_read),
    M(T, F64, byte_seconds_device), M(T, F64, byte_seconds_host), M(T, F64, byte_seconds_nvme), M(T, F64, byte_seconds_remote),
    M(T, RAW, fingerprint)};
RECORD(scope_info, kvc_scope_info);
#undef T
#define T kvc_seq_info
static const Member seq_info_members[] = {
    M(T, U32, copies),       M(T, U64, tokens),           M(T, U64, tokens_given), M(T, U64, tokens_sealed), M(T, U64, tokens_end),
    M(T, U64, tokens_held),  M(T, U64, tokens_shareable), M(T, U64, bytes_device), M(T, U64, bytes_host),    M(T, U64, bytes_nvme),
    M(T, U64, bytes_remote), M(T, U64, lease_left_ms),    M(T, F64, bits_effective), M(T, F64, error_estimate), M(T, U64, width_pages)};
RECORD(seq_info, kvc_seq_info);
#undef T
#define T kvc_match_info
static const Member match_info_members[] = {M(T, U32, stop),       M(T, U64, tokens),       M(T, U64, tokens_attention),
                                            M(T, U64, tokens_hot), M(T, U64, bytes_nvme),   M(T, U64, bytes_remote),
                                            M(T, U64, fetch_us),   M(T, U64, prefill_us)};
RECORD(match_info, kvc_match_info);
#undef T
#define T kvc_result
static const Member result_members[] = {M(T, U64, done),       M(T, U64, bytes),        M(T, U64, bytes_device), M(T, U64, bytes_host),
                                        M(T, U64, bytes_nvme), M(T, U64, bytes_remote), M(T, U64, elapsed_us),   M(T, HANDLE, lease)};
RECORD(result, kvc_result);
#undef T
#define T kvc_result
static const Member queued_result_members[] = {
    M(T, I32, status),       M(T, U64, user),       M(T, U32, operation),  M(T, U32, retry),      M(T, I32, system_error),
    M(T, TEXT, message),     M(T, HANDLE, seq),     M(T, HANDLE, lease),   M(T, U64, done),       M(T, U64, bytes),
    M(T, U64, bytes_device), M(T, U64, bytes_host), M(T, U64, bytes_nvme), M(T, U64, bytes_remote), M(T, U64, elapsed_us)};
const Record queued_result_record = {"queued result", queued_result_members, sizeof queued_result_members / sizeof *queued_result_members};
#undef T
#define T kvc_hint
static const Member hint_members[] = {M(T, U32, flags), M(T, U64, continues_in_ms), M(T, U32, turn), M(T, U32, priority)};
RECORD(hint, kvc_hint);
#undef T
#define T kvc_event
static const Member event_members[] = {M(T, U32, kind),        M(T, U32, tier_from), M(T, U32, tier_to), M(T, U64, sequence_number),
                                       M(T, U64, token_begin), M(T, U64, token_count), M(T, RAW, scope), M(T, RAW, chunk), M(T, RAW, parent)};
RECORD(event, kvc_event);
#undef T
#define T kvc_queue_options
static const Member queue_options_members[] = {M(T, U32, flags), M(T, U32, depth), M(T, U64, description_bytes)};
RECORD(queue_options, kvc_queue_options);
#undef T
#define T kvc_metrics
static const Member metrics_members[] = {
    M(T, U64, match_calls),      M(T, U64, match_tokens),   M(T, U64, hit_tokens),     M(T, U64, gather_bytes),
    M(T, U64, append_bytes),     M(T, U64, attend_calls),   M(T, U64, evicted_chunks), M(T, U64, demoted_pages),
    M(T, U64, promoted_pages),   M(T, U64, checksum_failures), M(T, U64, timeouts),    M(T, U64, lapsed_leases),
    M(T, U64, hit_bytes_device), M(T, U64, hit_bytes_host), M(T, U64, hit_bytes_nvme), M(T, U64, hit_bytes_remote)};
RECORD(metrics, kvc_metrics);
#undef T

int as_text(const char **out, PyObject *item, const char *name) {
  if (!PyUnicode_Check(item)) {
    PyErr_Format(PyExc_TypeError, "%s: a str is needed, not %R", name, (PyObject *)Py_TYPE(item));
    return 0;
  }
  Py_ssize_t size;
  *out = PyUnicode_AsUTF8AndSize(item, &size);
  if (!*out) return 0;
  if (strlen(*out) == (size_t)size) return 1;
  raise_argument("%s: %R holds a NUL character", name, item);
  return 0;
}

int as_path(const char **out, PyObject *item, const char *name) {
  char *data;
  Py_ssize_t length;
  *out = NULL;
  if (item == Py_None) return 1;
  if (PyBytes_AsStringAndSize(item, &data, &length) < 0) return 0;
  *out = data;
  if (strlen(data) == (size_t)length) return 1;
  raise_argument("%s: %R holds a NUL character", name, item);
  return 0;
}

static int fill_data(const void **out, uint64_t *size, PyObject *item, const char *name) {
  char *data;
  Py_ssize_t length;
  if (!PyBytes_Check(item)) {
    PyErr_Format(PyExc_TypeError, "%s: bytes are needed, not %R", name, (PyObject *)Py_TYPE(item));
    return 0;
  }
  if (PyBytes_AsStringAndSize(item, &data, &length) < 0) return 0;
  *out = length ? data : NULL;
  *size = (uint64_t)length;
  return 1;
}

static int fill_raw(void *out, uint32_t bytes, PyObject *item, const char *name) {
  const void *data;
  uint64_t size;
  if (!fill_data(&data, &size, item, name)) return 0;
  if (size == bytes) {
    memcpy(out, data, bytes);
    return 1;
  }
  if (!size) return 1;
  raise_argument("%s: %llu bytes; %u are needed, or none", name, (unsigned long long)size, bytes);
  return 0;
}

static int fill_member(char *at, const Member *member, PyObject *item) {
  switch (member->kind) {
    case U32: return as_u32((uint32_t *)at, item, member->name);
    case U64: return as_u64((uint64_t *)at, item, member->name);
    case TEXT: *(const char **)at = NULL; return item == Py_None || as_text((const char **)at, item, member->name);
    case DATA: return fill_data((const void **)at, (uint64_t *)(at + sizeof(void *)), item, member->name);
    case RAW: return fill_raw(at, member->bytes, item, member->name);
    default: PyErr_Format(PyExc_SystemError, "%s cannot be given", member->name); return 0;
  }
}

Py_ssize_t record_length(const Record *record) { return (Py_ssize_t)record->count; }

int record_fill(void *target, const Record *record, PyObject *tuple) {
  if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) < (Py_ssize_t)record->count) {
    PyErr_Format(PyExc_TypeError, "%s: a tuple of at least %u items is needed", record->name, record->count);
    return 0;
  }
  for (uint32_t i = 0; i < record->count; i++)
    if (!fill_member((char *)target + record->members[i].offset, &record->members[i], PyTuple_GetItem(tuple, (Py_ssize_t)i))) return 0;
  return 1;
}

static PyObject *member_value(const char *at, const Member *member) {
  switch (member->kind) {
    case U32: return PyLong_FromUnsignedLong(*(const uint32_t *)at);
    case I32: return PyLong_FromLong(*(const int32_t *)at);
    case F64: return PyFloat_FromDouble(*(const double *)at);
    case HANDLE: return PyLong_FromVoidPtr(*(void *const *)at);
    case TEXT: return PyUnicode_DecodeUTF8(at, (Py_ssize_t)strnlen(at, member->bytes), "replace");
    case RAW: return PyBytes_FromStringAndSize(at, member->bytes);
    default: break;
  }
  const uint64_t *values = (const uint64_t *)at;
  const Py_ssize_t count = member->bytes / 8;
  if (count == 1) return PyLong_FromUnsignedLongLong(*values);
  PyObject *tuple = PyTuple_New(count);
  for (Py_ssize_t i = 0; tuple && i < count; i++) {
    PyObject *value = PyLong_FromUnsignedLongLong(values[i]);
    if (!value || PyTuple_SetItem(tuple, i, value) < 0) Py_CLEAR(tuple);
  }
  return tuple;
}

PyObject *record_tuple(const void *source, const Record *record) {
  PyObject *tuple = PyTuple_New(record->count);
  for (uint32_t i = 0; tuple && i < record->count; i++) {
    PyObject *value = member_value((const char *)source + record->members[i].offset, &record->members[i]);
    if (!value || PyTuple_SetItem(tuple, (Py_ssize_t)i, value) < 0) Py_CLEAR(tuple);
  }
  return tuple;
}

PyObject *record_members(void) {
  static const Record *const records[] = {
      &store_options_record, &layer_record,      &shape_record,       &scope_options_record, &seq_options_record, &extra_record,
      &rows_record,          &array_record,      &object_options_record, &store_info_record, &verify_info_record, &shape_info_record,
      &scope_info_record,    &seq_info_record,   &match_info_record,  &result_record,        &metrics_record,
      &hint_record,          &event_record,      &queue_options_record};
  PyObject *all = PyDict_New();
  for (size_t r = 0; all && r < sizeof records / sizeof *records; r++) {
    PyObject *names = PyTuple_New(records[r]->count);
    for (uint32_t i = 0; names && i < records[r]->count; i++) {
      PyObject *name = PyUnicode_FromString(records[r]->members[i].name);
      if (!name || PyTuple_SetItem(names, (Py_ssize_t)i, name) < 0) Py_CLEAR(names);
    }
    if (!names || PyDict_SetItemString(all, records[r]->name, names) < 0) Py_CLEAR(all);
    Py_XDECREF(names);
  }
  return all;
}

/* Batches of objects.  Small values take about a microsecond in the library, so a batch costs one allocation and no Python call here. */
#include <stddef.h>

#include "native.h"

static const char *const kNeedItems = "objects: a list of (key, value) or (key, memory, offset, bytes) tuples is needed";

enum { PAIR = 2, SLICE = 4 };

static int is_list(PyObject *object) { return PyList_Check(object) || PyTuple_Check(object); }
static Py_ssize_t list_length(PyObject *list) { return PyList_Check(list) ? PyList_Size(list) : PyTuple_Size(list); }

static int has_values(ObjectUse use) { return use == OBJECT_PUT || use == OBJECT_GET; }

static PyObject *item_at(const ObjectList *list, size_t i) { return list->is_one ? list->items : PyTuple_GetItem(list->items, (Py_ssize_t)i); }

/* Pieces of all values; -1 with an exception. */
static Py_ssize_t count_parts(const ObjectList *list) {
  Py_ssize_t parts = 0;
  for (size_t i = 0; i < list->count; i++) {
    PyObject *item = item_at(list, i);
    const Py_ssize_t length = PyTuple_Check(item) ? PyTuple_Size(item) : 0;
    if (length != PAIR && length != SLICE) {
      PyErr_SetString(PyExc_TypeError, kNeedItems);
      return -1;
    }
    PyObject *value = PyTuple_GetItem(item, 1);
    parts += length == PAIR && is_list(value) ? list_length(value) : 1;
  }
  return parts;
}

/* One allocation: objects, parts, pins.  NULL with an exception, else the parts. */
static kvc_bytes *allocate(ObjectList *list, size_t parts) {
  if (list->count == 1 && parts <= 1) {
    memset(&list->one.object, 0, sizeof list->one.object);
    list->objects = &list->one.object;
    list->pins = &list->one.pin;
    return &list->one.part;
  }
  const size_t bytes = list->count * sizeof(kvc_object) + parts * (sizeof(kvc_bytes) + sizeof(Pin));
  char *block = PyMem_Malloc(bytes + 1);
  if (!block) return (kvc_bytes *)PyErr_NoMemory();
  memset(block, 0, list->count * sizeof(kvc_object));
  list->objects = (kvc_object *)(void *)block;
  list->pins = (Pin *)(void *)(block + list->count * sizeof(kvc_object) + parts * sizeof(kvc_bytes));
  return (kvc_bytes *)(void *)(list->objects + list->count);
}

static int fill_key(kvc_object *object, PyObject *key) {
  Py_ssize_t size;
  if (PyBytes_Check(key)) {
    char *data;
    if (PyBytes_AsStringAndSize(key, &data, &size) < 0) return 0;
    object->key = data;
  } else if (PyUnicode_Check(key)) {
    object->key = PyUnicode_AsUTF8AndSize(key, &size);
    if (!object->key) return 0;
  } else {
    PyErr_Format(PyExc_TypeError, "key: bytes or str are needed, not %R", (PyObject *)Py_TYPE(key));
    return 0;
  }
  object->key_size = (uint64_t)size;
  return 1;
}

static int fill_part(ObjectList *list, kvc_bytes *part, PyObject *piece) {
  const int is_destination = list->use == OBJECT_GET;
  Pin *pin = &list->pins[list->pin_count++];
  memset(pin, 0, sizeof *pin);
  if (PyObject_CheckBuffer(piece)) { /* the plain form first: no shape, no format */
    if (PyObject_GetBuffer(piece, &pin->view, is_destination ? PyBUF_WRITABLE : PyBUF_SIMPLE) == 0) {
      pin->has_view = 1;
      part->data = pin->view.buf;
      part->bytes = (uint64_t)pin->view.len;
      return 1;
    }
    raise_buffer_error("value");
    return 0;
  }
  Memory memory;
  if (!pin_memory(pin, &memory, piece, is_destination, "value")) return 0;
  if (!memory_is_packed(&memory)) {
    raise_argument("value: a packed array is needed");
    return 0;
  }
  part->data = memory.data;
  part->bytes = memory.bytes;
  return 1;
}

static int slot_missing(void) {
  raise_argument("value: a list of pieces grew during the call");
  return 0;
}

static int fill_value(ObjectList *list, kvc_object *object, kvc_bytes *parts, PyObject *value, size_t limit) {
  object->parts = parts;
  object->part_count = is_list(value) ? (uint64_t)list_length(value) : 1;
  if (object->part_count > limit) return slot_missing();
  if (!is_list(value)) return fill_part(list, parts, value);
  for (uint64_t i = 0; i < object->part_count; i++) {
    PyObject *piece = PySequence_GetItem(value, (Py_ssize_t)i);
    const int good = piece && fill_part(list, &parts[i], piece);
    Py_XDECREF(piece);
    if (!good) return 0;
  }
  return 1;
}

/* (key, memory, offset, bytes): items that follow one another in one arena pin it once. */
static int fill_slice(ObjectList *list, kvc_object *object, kvc_bytes *part, PyObject *item) {
  PyObject *memory = PyTuple_GetItem(item, 1);
  if (memory != list->arena) {
    list->arena = NULL;
    if (!fill_part(list, &list->arena_part, memory)) return 0;
    list->arena = memory;
  }
  uint64_t offset, bytes;
  if (!as_u64(&offset, PyTuple_GetItem(item, 2), "offset") || !as_u64(&bytes, PyTuple_GetItem(item, 3), "bytes")) return 0;
  if (offset > list->arena_part.bytes || bytes > list->arena_part.bytes - offset) {
    raise_argument("value: %llu bytes from offset %llu do not lie in the %llu bytes of the memory", (unsigned long long)bytes,
                   (unsigned long long)offset, (unsigned long long)list->arena_part.bytes);
    return 0;
  }
  part->data = (char *)list->arena_part.data + offset;
  part->bytes = bytes;
  object->parts = part;
  object->part_count = 1;
  return 1;
}

int object_list_open(ObjectList *list, PyObject *items, ObjectUse use) {
  memset(list, 0, offsetof(ObjectList, one));
  list->use = use;
  if (!is_list(items)) {
    PyErr_SetString(PyExc_TypeError, has_values(use) ? kNeedItems : "keys: a list is needed");
    return 0;
  }
  /* the caller's list may change while other threads run */
  list->is_one = list_length(items) == 1;
  list->items = list->is_one ? PySequence_GetItem(items, 0) : PySequence_Tuple(items);
  if (!list->items) return 0;
  list->count = list->is_one ? 1 : (size_t)PyTuple_Size(list->items);
  const Py_ssize_t parts = has_values(use) ? count_parts(list) : 0;
  kvc_bytes *all_parts = parts < 0 ? NULL : allocate(list, (size_t)parts);
  if (!all_parts) return 0;
  size_t used = 0;
  for (size_t i = 0; i < list->count; i++) {
    PyObject *item = item_at(list, i);
    PyObject *key = has_values(use) ? PyTuple_GetItem(item, 0) : item;
    if (!fill_key(&list->objects[i], key)) return 0;
    if (!has_values(use)) continue;
    if (PyTuple_Size(item) == SLICE) {
      if (used == (size_t)parts) return slot_missing();
      if (!fill_slice(list, &list->objects[i], all_parts + used, item)) return 0;
    } else if (!fill_value(list, &list->objects[i], all_parts + used, PyTuple_GetItem(item, 1), (size_t)parts - used)) {
      return 0;
    }
    used += (size_t)list->objects[i].part_count;
  }
  return 1;
}

PyObject *object_list_outputs(const ObjectList *list, kvc_status status) {
  if (status == KVC_OK && (list->use == OBJECT_PUT || list->use == OBJECT_DELETE)) Py_RETURN_NONE;
  PyObject *outputs = PyList_New((Py_ssize_t)list->count);
  for (size_t i = 0; outputs && i < list->count; i++) {
    const kvc_object *object = &list->objects[i];
    PyObject *value;
    if (status != KVC_OK)
      value = Py_BuildValue("(iKI)", (int)object->status, (unsigned long long)object->value_size, (unsigned)object->tier);
    else if (object->status == KVC_OK)
      value = PyLong_FromUnsignedLongLong(object->value_size);
    else
      Py_INCREF(value = Py_None);
    if (!value || PyList_SetItem(outputs, (Py_ssize_t)i, value) < 0) Py_CLEAR(outputs);
  }
  return outputs;
}

void object_list_close(ObjectList *list) {
  for (size_t i = 0; i < list->pin_count; i++) pin_release(&list->pins[i]);
  Py_CLEAR(list->items);
  if (list->objects != &list->one.object) PyMem_Free(list->objects);
  memset(list, 0, offsetof(ObjectList, one));
}

PyObject *entry_list(const kvc_object_entry *entries, size_t count) {
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list && i < count; i++) {
    PyObject *entry = Py_BuildValue("(y#KI)", (const char *)entries[i].key, (Py_ssize_t)entries[i].key_size,
                                    (unsigned long long)entries[i].value_size, (unsigned)entries[i].tier);
    if (!entry || PyList_SetItem(list, (Py_ssize_t)i, entry) < 0) Py_CLEAR(list);
  }
  return list;
}

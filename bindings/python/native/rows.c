/* Structs that hold lists: rows, shapes, extras. */
#include "native.h"

enum { PINS_PER_ROWS = 6 }; /* k, v, token_list, blocks, k_scale, v_scale */

/* The dtype that is declared must be the one the memory says it has, if it says so: bytes say nothing, float32 says a lot. */
static int settle_dtype(kvc_array *array, const Memory *memory, const char *name) {
  if (array->dtype == KVC_U8) return 1; /* whatever they are, they are moved as bytes */
  if (memory->dtype) {
    if (!array->dtype) array->dtype = memory->dtype;
    if (array->dtype == memory->dtype) return 1;
    raise_argument("%s: dtype %u is declared, the memory holds dtype %u", name, array->dtype, memory->dtype);
    return 0;
  }
  if (memory->element == 1) return 1;
  if (memory->element == 2 && (array->dtype == KVC_F16 || array->dtype == KVC_BF16)) return 1;
  if (memory->element == 2)
    raise_argument("%s: 16-bit elements of code '%c' say no number format; give dtype=kvc.BF16 or kvc.F16", name, memory->code);
  else
    raise_argument("%s: elements of %u bytes, code '%c', are not taken: float32, float16, bfloat16 and float8_e4m3fn are; "
                   "x.astype('float32') makes them", name, memory->element, memory->code);
  return 0;
}

/* (memory, offset, *array_record) or None */
static int fill_array(kvc_array *array, Pin *pin, PyObject *object, int is_destination, const char *name) {
  if (object == Py_None) return 1;
  if (!PyTuple_Check(object) || PyTuple_Size(object) != 2 + record_length(&array_record)) {
    PyErr_Format(PyExc_TypeError, "%s: a kvc.Array is needed", name);
    return 0;
  }
  PyObject *scalars = PyTuple_GetSlice(object, 2, PyTuple_Size(object));
  const int filled = scalars && record_fill(array, &array_record, scalars);
  Py_XDECREF(scalars);
  uint64_t offset;
  Memory memory;
  if (!filled || !as_u64(&offset, PyTuple_GetItem(object, 1), "offset")) return 0;
  if (!pin_memory(pin, &memory, PyTuple_GetItem(object, 0), is_destination, name)) return 0;
  if (!settle_dtype(array, &memory, name)) return 0;
  if (offset > memory.bytes) {
    raise_argument("%s: offset %llu is past the %llu bytes of the memory", name, (unsigned long long)offset,
                   (unsigned long long)memory.bytes);
    return 0;
  }
  array->data = memory.data + offset;
  array->bytes = memory.bytes - offset;
  return 1;
}

static int fill_scales(const float **out, Pin *pin, PyObject *object, uint64_t layer_count, const char *name) {
  if (object == Py_None) return 1;
  Memory memory;
  if (!pin_memory(pin, &memory, object, 0, name)) return 0;
  if (memory.dtype != KVC_F32 || !memory_is_packed(&memory) || memory.bytes == 0 || memory.bytes / 4 % (layer_count ? layer_count : 1)) {
    raise_argument("%s: packed float32 are needed, one per layer and head", name);
    return 0;
  }
  *out = (const float *)(const void *)memory.data;
  return 1;
}

/* (*rows_record, token_list, blocks, k, v, k_scale, v_scale) */
static int fill_rows(kvc_rows *rows, Pin *pins, PyObject *object, int is_destination) {
  const Py_ssize_t scalars = record_length(&rows_record);
  if (!PyTuple_Check(object) || PyTuple_Size(object) != scalars + PINS_PER_ROWS) {
    PyErr_SetString(PyExc_TypeError, "rows: a list of kvc.Rows is needed");
    return 0;
  }
  KVC_INIT(rows);
  if (!record_fill(rows, &rows_record, object)) return 0;
  const void *blocks, *token_list;
  size_t count;
  PyObject *list = PyTuple_GetItem(object, scalars);
  if (!pin_integers(&pins[0], &token_list, &count, list, 8, "token_list")) return 0;
  if (list != Py_None) {
    rows->token_list = token_list;
    rows->token_count = count;
  }
  if (!pin_integers(&pins[1], &blocks, &count, PyTuple_GetItem(object, scalars + 1), 4, "blocks")) return 0;
  rows->blocks = blocks;
  rows->block_count = count;
  return fill_array(&rows->k, &pins[2], PyTuple_GetItem(object, scalars + 2), is_destination, "k") &&
         fill_array(&rows->v, &pins[3], PyTuple_GetItem(object, scalars + 3), is_destination, "v") &&
         fill_scales(&rows->k_scale, &pins[4], PyTuple_GetItem(object, scalars + 4), rows->layer_count, "k_scale") &&
         fill_scales(&rows->v_scale, &pins[5], PyTuple_GetItem(object, scalars + 5), rows->layer_count, "v_scale");
}

int row_list_open(RowList *list, PyObject *object, int is_destination) {
  memset(list, 0, sizeof *list);
  if (!PyList_Check(object)) {
    PyErr_SetString(PyExc_TypeError, "rows: a list of kvc.Rows is needed");
    return 0;
  }
  const size_t count = (size_t)PyList_Size(object);
  if (!count) return 1;
  list->rows = PyMem_Calloc(count, sizeof *list->rows);
  list->pins = PyMem_Calloc(count * PINS_PER_ROWS, sizeof *list->pins);
  if (!list->rows || !list->pins) {
    PyErr_NoMemory();
    return 0;
  }
  list->count = count;
  list->pin_count = count * PINS_PER_ROWS;
  for (size_t i = 0; i < count; i++)
    if (!fill_rows(&list->rows[i], list->pins + i * PINS_PER_ROWS, PyList_GetItem(object, (Py_ssize_t)i), is_destination)) return 0;
  return 1;
}

static PyObject *array_tuple(const kvc_array *array) {
  PyObject *place = Py_BuildValue("(KK)", (unsigned long long)(uintptr_t)array->data, (unsigned long long)array->bytes);
  PyObject *members = place ? record_tuple(array, &array_record) : NULL;
  PyObject *all = members ? PySequence_Concat(place, members) : NULL;
  Py_XDECREF(place);
  Py_XDECREF(members);
  return all;
}

PyObject *rows_tuple(const kvc_rows *rows) {
  PyObject *members = record_tuple(rows, &rows_record), *k = array_tuple(&rows->k), *v = array_tuple(&rows->v);
  PyObject *sides = k && v ? PyTuple_Pack(2, k, v) : NULL, *all = members && sides ? PySequence_Concat(members, sides) : NULL;
  Py_XDECREF(members);
  Py_XDECREF(k);
  Py_XDECREF(v);
  Py_XDECREF(sides);
  return all;
}

static int layout_side(kvc_array *array, PyObject *object, const char *name) {
  if (object == Py_None) return 1;
  if (!PyTuple_Check(object) || PyTuple_Size(object) != 1 + record_length(&array_record)) {
    PyErr_Format(PyExc_TypeError, "%s: a kvc.Side is needed", name);
    return 0;
  }
  uint64_t offset;
  PyObject *scalars = PyTuple_GetSlice(object, 1, PyTuple_Size(object));
  const int filled = scalars && record_fill(array, &array_record, scalars) && as_u64(&offset, PyTuple_GetItem(object, 0), "offset");
  Py_XDECREF(scalars);
  if (filled) array->data = (void *)(uintptr_t)offset;
  return filled;
}

int layout_open(const kvc_rows **out, kvc_rows *layout, PyObject *options) {
  PyObject *object = PyTuple_Size(options) > record_length(&object_options_record) ? PyTuple_GetItem(options, record_length(&object_options_record)) : Py_None;
  if (object == Py_None) return 1;
  const Py_ssize_t scalars = record_length(&rows_record);
  KVC_INIT(layout);
  if (!record_fill(layout, &rows_record, object)) return 0;
  if (PyTuple_Size(object) != scalars + 2) {
    PyErr_SetString(PyExc_TypeError, "layout: a kvc.Layout is needed");
    return 0;
  }
  *out = layout;
  return layout_side(&layout->k, PyTuple_GetItem(object, scalars), "k") && layout_side(&layout->v, PyTuple_GetItem(object, scalars + 1), "v");
}

void row_list_close(RowList *list) {
  for (size_t i = 0; i < list->pin_count; i++) pin_release(&list->pins[i]);
  PyMem_Free(list->pins);
  PyMem_Free(list->rows);
  memset(list, 0, sizeof *list);
}

/* An array of `bytes`-sized structs, one per tuple of a tuple. */
static int fill_all(void **out, size_t *count, PyObject *object, const Record *record, size_t bytes) {
  *out = NULL;
  *count = 0;
  if (object == Py_None) return 1;
  if (!PyTuple_Check(object)) {
    PyErr_SetString(PyExc_TypeError, "a tuple of tuples is needed");
    return 0;
  }
  const size_t length = (size_t)PyTuple_Size(object);
  if (!length) return 1;
  *out = PyMem_Calloc(length, bytes);
  if (!*out) {
    PyErr_NoMemory();
    return 0;
  }
  *count = length;
  for (size_t i = 0; i < length; i++)
    if (!record_fill((char *)*out + i * bytes, record, PyTuple_GetItem(object, (Py_ssize_t)i))) return 0;
  return 1;
}

int extras_open(kvc_extra **extras, size_t *count, PyObject *object) {
  void *all;
  const int good = fill_all(&all, count, object, &extra_record, sizeof **extras);
  *extras = all;
  return good;
}

int seq_options_open(kvc_seq_options *options, kvc_extra **extras, PyObject *object) {
  size_t count;
  KVC_INIT(options);
  if (!record_fill(options, &seq_options_record, object)) return 0;
  PyObject *list = PyTuple_GetItem(object, record_length(&seq_options_record));
  if (!list || !extras_open(extras, &count, list)) return 0;
  options->extras = *extras;
  options->extra_count = count;
  return 1;
}

int shape_open(ShapeHold *hold, PyObject *object) {
  KVC_INIT(&hold->shape);
  hold->layers = NULL;
  if (!record_fill(&hold->shape, &shape_record, object)) return 0;
  if (PyTuple_Size(object) != record_length(&shape_record) + 1) {
    PyErr_SetString(PyExc_TypeError, "shape: a kvc.Shape is needed");
    return 0;
  }
  void *layers;
  size_t count;
  const int good = fill_all(&layers, &count, PyTuple_GetItem(object, record_length(&shape_record)), &layer_record, sizeof(kvc_layer));
  hold->layers = layers;
  hold->shape.layers = hold->layers;
  hold->shape.layer_runs = count;
  return good;
}

void shape_close(ShapeHold *hold) {
  PyMem_Free(hold->layers);
  hold->layers = NULL;
}

#include <stdio.h>
#include <string.h>

#include "native.h"

/* An index (int, numpy integer, bool) as a Python int; NULL with a TypeError that names it. */
static PyObject *as_index(PyObject *object, const char *name) {
  PyObject *index = PyNumber_Index(object);
  if (!index && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s: an integer is needed, not %R", name, (PyObject *)Py_TYPE(object));
  }
  return index;
}

static int as_unsigned(uint64_t *out, PyObject *object, uint64_t most, const char *name) {
  if (PyLong_CheckExact(object)) {
    const unsigned long long plain = PyLong_AsUnsignedLongLong(object);
    if (plain <= most && (plain != (unsigned long long)-1 || !PyErr_Occurred())) {
      *out = plain;
      return 1;
    }
    PyErr_Clear();
  }
  PyObject *index = as_index(object, name);
  if (!index) return 0;
  const unsigned long long value = PyLong_AsUnsignedLongLong(index);
  if (value == (unsigned long long)-1 && PyErr_Occurred()) {
    PyErr_Clear();
    raise_argument("%s: %R is not in 0..%llu", name, index, (unsigned long long)most);
  } else if (value > most) {
    raise_argument("%s: %R is not in 0..%llu", name, index, (unsigned long long)most);
  } else {
    *out = value;
    Py_DECREF(index);
    return 1;
  }
  Py_DECREF(index);
  return 0;
}

int as_u64(uint64_t *out, PyObject *object, const char *name) { return as_unsigned(out, object, UINT64_MAX, name); }

int as_u32(uint32_t *out, PyObject *object, const char *name) {
  uint64_t value;
  if (!as_unsigned(&value, object, UINT32_MAX, name)) return 0;
  *out = (uint32_t)value;
  return 1;
}

int as_i32(int32_t *out, PyObject *object, const char *name) {
  PyObject *index = as_index(object, name);
  if (!index) return 0;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index, &overflow);
  const int fits = !overflow && value >= INT32_MIN && value <= INT32_MAX;
  if (fits)
    *out = (int32_t)value;
  else
    raise_argument("%s: %R is not in -2147483648..2147483647", name, index);
  Py_DECREF(index);
  return fits;
}

/* ---- Lists of integers: 4 bytes wide and signed, or 8 and not */

static const char *const integer_codes = "bhilqnBHILQN";

/* Sign-extended; little-endian, as all memory that is taken, and of any alignment.  Lengths that the compiler knows: a prompt is long. */
static inline uint64_t load(const char *at, unsigned element, int is_signed) {
  uint64_t bits = 0;
  if (element == 8) memcpy(&bits, at, 8);
  else if (element == 4) memcpy(&bits, at, 4);
  else if (element == 2) memcpy(&bits, at, 2);
  else memcpy(&bits, at, 1);
  const unsigned unused = 64 - 8 * element;
  return is_signed ? (uint64_t)((int64_t)(bits << unused) >> unused) : bits;
}

static int convert(void *data, const Memory *memory, unsigned element, const char *name) {
  const int is_signed = memory->code >= 'a';
  const int64_t step = memory->strides ? memory->strides[0] * memory->stride_unit : memory->element;
  for (int64_t i = 0; i < memory->lengths[0]; i++) {
    const uint64_t bits = load(memory->data + i * step, memory->element, is_signed);
    const int is_negative = is_signed && (int64_t)bits < 0;
    if (element == 4 ? (is_negative ? (int64_t)bits < INT32_MIN : bits > INT32_MAX) : is_negative) {
      const char *range = element == 4 ? "-2147483648..2147483647" : "0..18446744073709551615";
      if (is_negative) raise_argument("%s[%lld]: %lld is not in %s", name, (long long)i, (long long)bits, range);
      else raise_argument("%s[%lld]: %llu is not in %s", name, (long long)i, (unsigned long long)bits, range);
      return 0;
    }
    if (element == 4) ((int32_t *)data)[i] = (int32_t)(int64_t)bits;
    else ((uint64_t *)data)[i] = bits;
  }
  return 1;
}

static int integers_of_memory(Pin *pin, const void **data, size_t *count, PyObject *object, unsigned element, const char *name) {
  Memory memory;
  if (!pin_memory(pin, &memory, object, 0, name)) return 0;
  if (memory.code == 'B' && !PyObject_HasAttrString(object, "__dlpack__")) {
    raise_argument("%s: raw bytes; an array or a list of integers is needed", name);
    return 0;
  }
  if (!memory.code || !strchr(integer_codes, memory.code) || memory.element > 8) {
    raise_argument("%s: elements of %u bytes, code '%c'; integers are needed: x.astype('int64') makes them", name, memory.element,
                   memory.code);
    return 0;
  }
  if (memory.dim_count != 1) {
    raise_argument("%s: %d dimensions; one is needed", name, memory.dim_count);
    return 0;
  }
  *count = (size_t)memory.lengths[0];
  *data = memory.data;
  const int is_wanted = memory.element == element && (memory.code >= 'a') == (element == 4);
  if (is_wanted && memory_is_packed(&memory) && (uintptr_t)memory.data % element == 0) return 1;
  *data = pin->copy = PyMem_Malloc(*count * element + 1);
  if (!pin->copy) {
    PyErr_NoMemory();
    return 0;
  }
  return convert(pin->copy, &memory, element, name);
}

static int integer_item(void *data, Py_ssize_t i, PyObject *item, unsigned element, const char *name) {
  if (PyLong_Check(item)) { /* most lists hold plain ints: no reference counting for them */
    int overflow;
    const long value = PyLong_AsLongAndOverflow(item, &overflow);
    if (!overflow && element == 4 && value >= INT32_MIN && value <= INT32_MAX) {
      ((int32_t *)data)[i] = (int32_t)value;
      return 1;
    }
    if (!overflow && element == 8 && value >= 0) {
      ((uint64_t *)data)[i] = (uint64_t)value;
      return 1;
    }
  }
  char item_name[64];
  snprintf(item_name, sizeof item_name, "%s[%lld]", name, (long long)i);
  return element == 8 ? as_u64((uint64_t *)data + i, item, item_name) : as_i32((int32_t *)data + i, item, item_name);
}

int pin_integers(Pin *pin, const void **data, size_t *count, PyObject *object, unsigned element, const char *name) {
  memset(pin, 0, sizeof *pin);
  *data = NULL;
  *count = 0;
  if (object == Py_None) return 1;
  if (PyObject_CheckBuffer(object) || PyObject_HasAttrString(object, "__dlpack__"))
    return integers_of_memory(pin, data, count, object, element, name);
  PyObject *items = PySequence_Tuple(object); /* a list may change while its items are read */
  if (!items) {
    if (PyErr_ExceptionMatches(PyExc_TypeError))
      PyErr_Format(PyExc_TypeError, "%s: a list or an array of integers is needed, not %R", name, (PyObject *)Py_TYPE(object));
    return 0;
  }
  const Py_ssize_t length = PyTuple_Size(items);
  pin->copy = PyMem_Malloc((size_t)length * element + 1);
  int good = pin->copy != NULL;
  if (!good) PyErr_NoMemory();
  for (Py_ssize_t i = 0; good && i < length; i++) good = integer_item(pin->copy, i, PyTuple_GetItem(items, i), element, name);
  Py_DECREF(items);
  *data = pin->copy;
  *count = (size_t)length;
  return good;
}

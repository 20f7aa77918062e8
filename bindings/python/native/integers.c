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

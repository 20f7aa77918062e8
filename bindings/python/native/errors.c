#include <stdarg.h>
#include <stdatomic.h>

#include "native.h"

static _Atomic(PyObject *) error_factory; /* set when the package is imported */

PyObject *set_error_factory(PyObject *factory) {
  Py_INCREF(factory);
  Py_XDECREF(atomic_exchange(&error_factory, factory));
  Py_RETURN_NONE;
}

static void raise(kvc_status status, PyObject *message, uint32_t retry, int32_t system_error, PyObject *outputs) {
  PyObject *factory = error_factory;
  if (!message) return;
  if (!factory) {
    PyErr_SetObject(PyExc_RuntimeError, message);
    return;
  }
  PyObject *error = PyObject_CallFunction(factory, "iOIiO", (int)status, message, (unsigned)retry, (int)system_error,
                                          outputs ? outputs : Py_None);
  if (!error) return;
  PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_DECREF(error);
}

void raise_error(kvc_status status, const kvc_error *error, PyObject *outputs) {
  PyObject *message = PyUnicode_DecodeUTF8(error->message, (Py_ssize_t)strnlen(error->message, sizeof error->message), "replace");
  raise(status, message, error->retry, error->system_error, outputs);
  Py_XDECREF(message);
}

void raise_status(kvc_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyObject *message = PyUnicode_FromFormatV(format, arguments);
  va_end(arguments);
  raise(status, message, KVC_RETRY_NEVER, 0, NULL);
  Py_XDECREF(message);
}

void raise_buffer_error(const char *name) {
  if (!PyErr_ExceptionMatches(PyExc_BufferError) && !PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_TypeError))
    return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  raise_argument("%s: %S", name, value ? value : type);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

PyObject *outputs_append(PyObject *outputs, PyObject *value) {
  if (!value || !outputs) {
    Py_XDECREF(value ? NULL : outputs);
    return value;
  }
  PyObject *pair = PyTuple_Pack(2, outputs, value);
  Py_DECREF(outputs);
  Py_DECREF(value);
  return pair;
}

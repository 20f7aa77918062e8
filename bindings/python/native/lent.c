/* What the library keeps beyond a call: registered memory.  How a call runs. */
#include "native.h"

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

/* Memory of Python objects, in place: the buffer protocol first, then DLPack. */
#include "dlpack.h"
#include "native.h"

void pin_release(Pin *pin) {
  if (pin->has_view) PyBuffer_Release(&pin->view);
  pin->has_view = 0;
  Py_CLEAR(pin->capsule);
  PyMem_Free(pin->copy);
  pin->copy = NULL;
}

/* bytes = from the first element to the end of the last. */
static int measure(Memory *memory, const char *name) {
  uint64_t span = memory->element, packed = memory->element;
  for (int i = memory->dim_count - 1; i >= 0; i--) {
    const int64_t length = memory->lengths[i];
    if (length == 0) {
      memory->bytes = 0;
      return 1;
    }
    const int64_t stride = memory->strides ? memory->strides[i] * memory->stride_unit : (int64_t)packed;
    packed *= (uint64_t)length;
    if (length == 1) continue;
    if (stride < 0) {
      raise_argument("%s: axis %d has the stride %lld; strides must not be negative", name, i, (long long)stride);
      return 0;
    }
    span += (uint64_t)(length - 1) * (uint64_t)stride;
  }
  memory->bytes = span;
  return 1;
}

int memory_is_packed(const Memory *memory) {
  int64_t packed = memory->element;
  for (int i = memory->dim_count - 1; memory->strides && i >= 0; i--) {
    if (memory->lengths[i] != 1 && memory->strides[i] * memory->stride_unit != packed) return 0;
    packed *= memory->lengths[i];
  }
  return 1;
}

static int from_buffer(Pin *pin, Memory *memory, PyObject *object, int is_destination, const char *name) {
  if (PyObject_GetBuffer(object, &pin->view, PyBUF_RECORDS_RO) < 0) {
    raise_buffer_error(name);
    return 0;
  }
  pin->has_view = 1;
  const Py_buffer *view = &pin->view;
  if (is_destination && view->readonly) {
    raise_argument("%s: the destination is read-only", name);
    return 0;
  }
  const char *format = view->format ? view->format : "B";
  if (*format == '>' || *format == '!') {
    raise_argument("%s: elements of format '%s' are big-endian; this machine is not", name, format);
    return 0;
  }
  if (*format == '@' || *format == '=' || *format == '<') format++;
  memory->code = format[0] && !format[1] ? format[0] : '?';
  memory->data = view->buf;
  memory->element = (uint32_t)view->itemsize;
  memory->dtype = memory->code == 'e' ? KVC_F16 : memory->code == 'f' ? KVC_F32 : 0;
  memory->dim_count = view->ndim;
  memory->lengths = (const int64_t *)view->shape; /* Py_ssize_t is int64_t on every machine kvc is built for */
  memory->strides = (const int64_t *)view->strides;
  memory->stride_unit = 1;
  return measure(memory, name);
}
_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "kvc is a 64-bit library");

static int tensor_type(Memory *memory, DLDataType type, const char *name) {
  memory->element = type.bits / 8u;
  memory->code = '?';
  if (type.lanes != 1 || type.bits % 8 || !type.bits) {
    raise_argument("%s: elements of %u bits in %u lanes are no numbers of kvc's", name, type.bits, type.lanes);
    return 0;
  }
  if (type.code == DL_FLOAT) memory->dtype = type.bits == 32 ? KVC_F32 : type.bits == 16 ? KVC_F16 : 0;
  if (type.code == DL_FLOAT) memory->code = type.bits == 64 ? 'd' : type.bits == 32 ? 'f' : 'e';
  if (type.code == DL_BFLOAT && type.bits == 16) memory->dtype = KVC_BF16;
  if (type.code == DL_FLOAT8_E4M3FN && type.bits == 8) memory->dtype = KVC_F8_E4M3;
  if (type.code == DL_UINT) memory->code = type.bits == 8 ? 'B' : type.bits == 16 ? 'H' : type.bits == 32 ? 'I' : 'Q';
  if (type.code == DL_INT) memory->code = type.bits == 8 ? 'b' : type.bits == 16 ? 'h' : type.bits == 32 ? 'i' : 'q';
  return 1;
}

static PyObject *ask_capsule(PyObject *object) {
  PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
  if (!method) return NULL;
  PyObject *none = PyTuple_New(0), *version = Py_BuildValue("{s(ii)}", "max_version", 1, 1);
  PyObject *capsule = none && version ? PyObject_Call(method, none, version) : NULL;
  if (!capsule && none && PyErr_ExceptionMatches(PyExc_TypeError)) { /* a producer of before DLPack 1.0 */
    PyErr_Clear();
    capsule = PyObject_Call(method, none, NULL);
  }
  Py_XDECREF(none);
  Py_XDECREF(version);
  Py_DECREF(method);
  return capsule;
}

static const DLTensor *open_capsule(PyObject *capsule, int is_destination, const char *name) {
  if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const DLTensor *tensor = PyCapsule_IsValid(capsule, "dltensor") ? PyCapsule_GetPointer(capsule, "dltensor") : NULL;
    if (!tensor) raise_argument("%s: __dlpack__ gave no unused DLPack capsule", name);
    return tensor;
  }
  const DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
  if (managed->version.major != 1)
    raise_argument("%s: DLPack %u is not understood; 1 is", name, managed->version.major);
  else if (is_destination && (managed->flags & (DL_READ_ONLY | DL_IS_COPY)))
    raise_argument("%s: the destination is %s", name, managed->flags & DL_READ_ONLY ? "read-only" : "a copy, which nobody would see");
  else
    return &managed->tensor;
  return NULL;
}

static int from_tensor(Pin *pin, Memory *memory, PyObject *object, int is_destination, const char *name) {
  pin->capsule = ask_capsule(object);
  if (!pin->capsule) {
    raise_buffer_error(name);
    return 0;
  }
  const DLTensor *tensor = open_capsule(pin->capsule, is_destination, name);
  if (!tensor) return 0;
  if (tensor->device.type != DL_CPU && tensor->device.type != DL_CUDA_HOST) {
    raise_status(KVC_ERR_UNSUPPORTED, "%s: memory of DLPack device type %d; this build takes host memory", name, (int)tensor->device.type);
    return 0;
  }
  memory->data = (char *)tensor->data + tensor->byte_offset;
  memory->dim_count = tensor->dim_count;
  memory->lengths = tensor->lengths;
  memory->strides = tensor->strides;
  if (!tensor_type(memory, tensor->dtype, name)) return 0;
  memory->stride_unit = memory->element;
  return measure(memory, name);
}

int pin_memory(Pin *pin, Memory *memory, PyObject *object, int is_destination, const char *name) {
  memset(pin, 0, sizeof *pin);
  memset(memory, 0, sizeof *memory);
  if (PyObject_CheckBuffer(object)) return from_buffer(pin, memory, object, is_destination, name);
  if (PyObject_HasAttrString(object, "__dlpack__")) return from_tensor(pin, memory, object, is_destination, name);
  PyErr_Format(PyExc_TypeError, "%s: an object with the buffer protocol or __dlpack__ is needed, not %R", name,
               (PyObject *)Py_TYPE(object));
  return 0;
}

static PyObject *layout_tuple(const Memory *memory) {
  PyObject *lengths = PyTuple_New(memory->dim_count), *strides = PyTuple_New(memory->dim_count);
  int64_t packed = memory->element;
  for (int i = memory->dim_count - 1; lengths && strides && i >= 0; i--) {
    const int64_t stride = memory->strides ? memory->strides[i] * memory->stride_unit : packed;
    packed *= memory->lengths[i];
    PyObject *length = PyLong_FromLongLong(memory->lengths[i]), *step = PyLong_FromLongLong(stride);
    if (!length || PyTuple_SetItem(lengths, i, length) < 0) Py_CLEAR(lengths);
    if (!step || PyTuple_SetItem(strides, i, step) < 0) Py_CLEAR(strides);
  }
  if (lengths && strides)
    return Py_BuildValue("(NNIICN)", lengths, strides, memory->element, memory->dtype, memory->code, PyLong_FromVoidPtr(memory->data));
  Py_XDECREF(lengths);
  Py_XDECREF(strides);
  return NULL;
}

PyObject *array_layout(PyObject *object, const char *name) {
  Pin pin;
  Memory memory;
  PyObject *layout = pin_memory(&pin, &memory, object, 0, name) ? layout_tuple(&memory) : NULL;
  pin_release(&pin);
  return layout;
}

/* Pages that a view lends: memory that nobody may write, for the buffer protocol and DLPack, without a copy.  A page holds its view, and every
 * array made of a page holds the page; the view counts them and does not end before they do. */
#include <stdatomic.h>
#include <stddef.h>

#include "dlpack.h"
#include "native.h"

enum { DIMS_MAX = 3, ENDED = -1 };

/* Changes in a forked child, whose parent alone has the memory. */
static unsigned generation;

void pages_after_fork(void) { generation++; }

typedef struct Lender {
  PyObject_HEAD
  atomic_llong exports; /* buffers and tensors that are in use; ENDED */
  unsigned generation;
} Lender;

typedef struct Page {
  PyObject_HEAD
  PyObject *owner; /* the view */
  Lender *lender;
  char *data;
  uint32_t dtype;
  int dim_count;
  Py_ssize_t lengths[DIMS_MAX], strides[DIMS_MAX]; /* strides in bytes */
} Page;

static const struct Element {
  uint32_t bytes;
  const char *format;
  uint8_t code;
} elements[] = {[KVC_F32] = {4, "f", DL_FLOAT}, [KVC_F16] = {2, "e", DL_FLOAT}, [KVC_BF16] = {2, "H", DL_BFLOAT},
                [KVC_F8_E4M3] = {1, "B", DL_FLOAT8_E4M3FN}, [KVC_U8] = {1, "B", DL_UINT}};

static _Atomic(PyTypeObject *) lender_type, page_type;

/* The type, made once. */
static PyTypeObject *type_of(_Atomic(PyTypeObject *) *known, PyType_Spec *spec) {
  PyTypeObject *type = atomic_load(known), *none = NULL;
  if (type) return type;
  if (!(type = (PyTypeObject *)PyType_FromSpec(spec)) || atomic_compare_exchange_strong(known, &none, type)) return type;
  Py_DECREF((PyObject *)type);
  return none;
}

static void object_end(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc give_back = (freefunc)PyType_GetSlot(type, Py_tp_free);
  give_back(self);
  Py_DECREF(type);
}

static PyObject *object_begin(PyTypeObject *type) {
  allocfunc allocate = type ? (allocfunc)PyType_GetSlot(type, Py_tp_alloc) : NULL;
  return allocate ? allocate(type, 0) : NULL;
}

/* True: nothing reads the memory, and nothing will. */
static PyObject *lender_end(PyObject *self, PyObject *none) {
  (void)none;
  Lender *lender = (Lender *)self;
  long long exports = 0;
  if (lender->generation == generation && !atomic_compare_exchange_strong(&lender->exports, &exports, ENDED) && exports != ENDED) Py_RETURN_FALSE;
  Py_RETURN_TRUE;
}

/* Counts one who reads the page; false with an exception: there is nothing to read. */
static int lend(Page *page) {
  if (page->lender->generation != generation) {
    PyErr_SetString(PyExc_BufferError, "page: the memory is the parent process's");
    return 0;
  }
  long long exports = atomic_load(&page->lender->exports);
  while (exports != ENDED)
    if (atomic_compare_exchange_weak(&page->lender->exports, &exports, exports + 1)) return 1;
  PyErr_SetString(PyExc_BufferError, "page: the view was released");
  return 0;
}

static void give_back(Page *page) { atomic_fetch_sub(&page->lender->exports, 1); }

static int is_packed(const Page *page) {
  Py_ssize_t packed = elements[page->dtype].bytes;
  for (int i = page->dim_count - 1; i >= 0; i--) {
    if (page->lengths[i] != 1 && page->strides[i] != packed) return 0;
    packed *= page->lengths[i];
  }
  return 1;
}

static int page_buffer(PyObject *self, Py_buffer *view, int flags) {
  Page *page = (Page *)self;
  const char *refused = NULL;
  view->obj = NULL;
  const int wants_order = (flags & (PyBUF_C_CONTIGUOUS | PyBUF_F_CONTIGUOUS | PyBUF_ANY_CONTIGUOUS) & ~PyBUF_STRIDES) != 0;
  if (flags & PyBUF_WRITABLE) refused = "page: it is read-only";
  else if ((wants_order || (flags & PyBUF_STRIDES) != PyBUF_STRIDES) && !is_packed(page)) refused = "page: an open page's heads do not lie together";
  else if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && page->dim_count > 1) refused = "page: it is in C order";
  if (refused) {
    PyErr_SetString(PyExc_BufferError, refused);
    return -1;
  }
  if (!lend(page)) return -1;
  const struct Element *element = &elements[page->dtype];
  view->buf = page->data;
  view->len = element->bytes;
  for (int i = 0; i < page->dim_count; i++) view->len *= page->lengths[i];
  view->itemsize = element->bytes;
  view->readonly = 1;
  view->ndim = page->dim_count;
  view->format = flags & PyBUF_FORMAT ? (char *)element->format : NULL;
  view->shape = flags & PyBUF_ND ? page->lengths : NULL;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? page->strides : NULL;
  view->suboffsets = NULL;
  view->internal = NULL;
  Py_INCREF(self);
  view->obj = self;
  return 0;
}

static void page_buffer_release(PyObject *self, Py_buffer *view) {
  (void)view;
  give_back((Page *)self);
}

typedef struct Tensor {
  DLManagedTensorVersioned managed;
  Page *page;
  int64_t strides[DIMS_MAX]; /* in elements */
} Tensor;

/* By whoever read the tensor, with the GIL or without. */
static void tensor_delete(DLManagedTensorVersioned *managed) {
  Tensor *tensor = (Tensor *)managed->context;
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  give_back(tensor->page);
  Py_DECREF((PyObject *)tensor->page);
  PyMem_Free(tensor);
  PyGILState_Release(state);
}

static void capsule_end(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) return; /* somebody took it, and ends it */
  DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
  managed->deleter(managed);
}

/* Only a versioned tensor can say that it is read-only. */
static int check_tensor_wish(PyObject *version, PyObject *device, PyObject *copy) {
  long major = 0, type = DL_CPU;
  if (version && version != Py_None) {
    PyObject *first = PySequence_GetItem(version, 0);
    major = first ? PyLong_AsLong(first) : -1;
    Py_XDECREF(first);
  }
  if (device && device != Py_None) {
    PyObject *first = PySequence_GetItem(device, 0), *number = first ? PyNumber_Long(first) : NULL;
    type = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(first);
    Py_XDECREF(number);
  }
  if (PyErr_Occurred()) return 0;
  if (major < 1) PyErr_SetString(PyExc_BufferError, "page: it is read-only, which DLPack says from version 1 on: ask with max_version=(1, 0)");
  else if (type != DL_CPU) PyErr_SetString(PyExc_BufferError, "page: it lies in host memory");
  else if (copy == Py_True) PyErr_SetString(PyExc_BufferError, "page: it is lent, not copied");
  else return 1;
  return 0;
}

static PyObject *page_dlpack(PyObject *self, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *stream = NULL, *version = NULL, *device = NULL, *copy = NULL;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O$OOO", names, &stream, &version, &device, &copy)) return NULL;
  Page *page = (Page *)self;
  if (!check_tensor_wish(version, device, copy) || !lend(page)) return NULL;
  const struct Element *element = &elements[page->dtype];
  Tensor *tensor = PyMem_Calloc(1, sizeof *tensor);
  if (!tensor) {
    give_back(page);
    return PyErr_NoMemory();
  }
  for (int i = 0; i < page->dim_count; i++) tensor->strides[i] = page->strides[i] / element->bytes;
  DLManagedTensorVersioned *managed = &tensor->managed;
  managed->version.major = 1;
  managed->context = tensor;
  managed->deleter = tensor_delete;
  managed->flags = DL_READ_ONLY;
  managed->tensor.data = page->data;
  managed->tensor.device.type = DL_CPU;
  managed->tensor.dim_count = page->dim_count;
  managed->tensor.dtype = (DLDataType){element->code, (uint8_t)(8 * element->bytes), 1};
  managed->tensor.lengths = (int64_t *)page->lengths;
  managed->tensor.strides = tensor->strides;
  PyObject *capsule = PyCapsule_New(managed, "dltensor_versioned", capsule_end);
  if (!capsule) {
    give_back(page);
    PyMem_Free(tensor);
    return NULL;
  }
  Py_INCREF(self);
  tensor->page = page;
  return capsule;
}

static PyObject *page_device(PyObject *self, PyObject *none) {
  (void)self, (void)none;
  return Py_BuildValue("(ii)", DL_CPU, 0);
}

static PyObject *page_shape(PyObject *self, void *none) {
  (void)none;
  const Page *page = (const Page *)self;
  PyObject *shape = PyTuple_New(page->dim_count);
  for (int i = 0; shape && i < page->dim_count; i++) {
    PyObject *length = PyLong_FromSsize_t(page->lengths[i]);
    if (!length || PyTuple_SetItem(shape, i, length) < 0) Py_CLEAR(shape);
  }
  return shape;
}

static PyObject *page_dtype(PyObject *self, void *none) {
  (void)none;
  return PyLong_FromUnsignedLong(((const Page *)self)->dtype);
}

static void page_end(PyObject *self) {
  Page *page = (Page *)self;
  Py_XDECREF((PyObject *)page->lender);
  PyObject *owner = page->owner;
  object_end(self);
  Py_XDECREF(owner); /* last: it may end the view */
}

static PyMethodDef lender_methods[] = {{"end", lender_end, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyMethodDef page_methods[] = {{"__dlpack__", (PyCFunction)(void (*)(void))page_dlpack, METH_VARARGS | METH_KEYWORDS, NULL},
                                     {"__dlpack_device__", page_device, METH_NOARGS, NULL},
                                     {NULL, NULL, 0, NULL}};
static PyGetSetDef page_members[] = {{"shape", page_shape, NULL, NULL, NULL}, {"dtype", page_dtype, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot lender_slots[] = {{Py_tp_dealloc, object_end}, {Py_tp_methods, lender_methods}, {0, NULL}};
static PyType_Slot page_slots[] = {{Py_tp_dealloc, page_end},
                                   {Py_tp_methods, page_methods},
                                   {Py_tp_getset, page_members},
                                   {Py_bf_getbuffer, page_buffer},
                                   {Py_bf_releasebuffer, page_buffer_release},
                                   {Py_tp_doc, "K or V of a page, [head][token][dim]: read-only memory for the buffer protocol and DLPack."},
                                   {0, NULL}};
static PyType_Spec lender_spec = {"kvc._native.Lender", sizeof(Lender), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, lender_slots};
static PyType_Spec page_spec = {"kvc._native.Page", sizeof(Page), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, page_slots};

PyObject *lender_make(void) {
  Lender *lender = (Lender *)object_begin(type_of(&lender_type, &lender_spec));
  if (lender) lender->generation = generation;
  return (PyObject *)lender;
}

PyObject *page_make(PyObject *owner, PyObject *lender, PyObject *description) {
  PyTypeObject *type = type_of(&page_type, &page_spec);
  PyObject *lengths, *strides;
  unsigned long long address;
  uint32_t dtype;
  if (!type || !PyArg_ParseTuple(description, "KIOO", &address, &dtype, &lengths, &strides)) return NULL;
  if (Py_TYPE(lender) != lender_type || dtype < KVC_F32 || dtype > KVC_U8 || PyTuple_Size(lengths) > DIMS_MAX) {
    PyErr_SetString(PyExc_TypeError, "page_make: a Lender and a page are needed");
    return NULL;
  }
  Page *page = (Page *)object_begin(type);
  if (!page) return NULL;
  Py_INCREF(owner);
  Py_INCREF(lender);
  page->owner = owner;
  page->lender = (Lender *)lender;
  page->data = (char *)(uintptr_t)address;
  page->dtype = dtype;
  page->dim_count = (int)PyTuple_Size(lengths);
  for (int i = 0; i < page->dim_count; i++) {
    page->lengths[i] = PyLong_AsSsize_t(PyTuple_GetItem(lengths, i));
    page->strides[i] = PyLong_AsSsize_t(PyTuple_GetItem(strides, i));
  }
  if (!PyErr_Occurred()) return (PyObject *)page;
  Py_DECREF((PyObject *)page);
  return NULL;
}

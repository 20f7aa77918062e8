/* The part of dlpack.h (1.x) that is used here; its layout is frozen. */
#pragma once
#include <stdint.h>

typedef struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
} DLDataType;
typedef struct DLTensor {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t dim_count;
  DLDataType dtype;
  int64_t *lengths, *strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensorVersioned {
  struct {
    uint32_t major, minor;
  } version;
  void *context;
  void (*deleter)(struct DLManagedTensorVersioned *);
  uint64_t flags;
  DLTensor tensor;
} DLManagedTensorVersioned;
enum { DL_CPU = 1, DL_CUDA_HOST = 3 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_FLOAT8_E4M3FN = 10 };
enum { DL_READ_ONLY = 1, DL_IS_COPY = 2 };

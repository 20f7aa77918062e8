/* A host that initialises every sized struct: KVC_INIT zeroes all of it, sets `size`, and warns in no dialect.  Also holds the version of
 * the headers against that of the library.  Compiled as C99 and as C++11; prints "ok". */
#include <kvc/kvc.h>
#include <stdio.h>

static int failures;

static void expect(int condition, const char *what) {
  if (condition) return;
  failures++;
  printf("not so: %s\n", what);
}

static int is_zero_past_size(const void *object, size_t size) {
  const unsigned char *bytes = (const unsigned char *)object;
  size_t i;
  for (i = sizeof(uint32_t); i < size; i++)
    if (bytes[i] != 0) return 0;
  return 1;
}

/* `size` is the first member, KVC_INIT sets it to the struct's own size, and nothing else is left. */
#define INITS(type)                                                                       \
  do {                                                                                    \
    type object;                                                                          \
    memset(&object, 0xA5, sizeof object);                                                 \
    KVC_INIT(&object);                                                                    \
    expect((const void *)&object.size == (const void *)&object, #type ": size is first"); \
    expect(object.size == sizeof object, #type ": size is set");                          \
    expect(is_zero_past_size(&object, sizeof object), #type ": the rest is zero");        \
  } while (0)

int main(void) {
  const uint32_t version = (uint32_t)KVC_VERSION_MAJOR << 16 | (uint32_t)KVC_VERSION_MINOR << 8 | (uint32_t)KVC_VERSION_PATCH;
  INITS(kvc_error);
  INITS(kvc_rows);
  INITS(kvc_call);
  INITS(kvc_result);
  INITS(kvc_precision);
  INITS(kvc_store_options);
  INITS(kvc_store_info);
  INITS(kvc_verify_info);
  INITS(kvc_shape);
  INITS(kvc_shape_info);
  INITS(kvc_scope_options);
  INITS(kvc_scope_info);
  INITS(kvc_seq_options);
  INITS(kvc_match_info);
  INITS(kvc_hint);
  INITS(kvc_seq_info);
  INITS(kvc_query);
  INITS(kvc_sparsity);
  INITS(kvc_attend_info);
  INITS(kvc_object_options);
  INITS(kvc_queue_options);
  INITS(kvc_node);
  INITS(kvc_cluster_info);
  INITS(kvc_metrics);
  INITS(kvc_event);
  expect(kvc_version() == version, "the library is of the headers' version");
  if (failures == 0) puts("ok");
  return failures != 0;
}

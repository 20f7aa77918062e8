/* The Go side of kvc.i: functions alone, over plain pointers.
 *
 * Structs, constants and comments are Go of their own, written by ../generate from the same headers (layout.go, constants.go), so that a call
 * crosses into C once.  A handle is a uintptr, as the library's tokens are no addresses; whatever else is a pointer stays one, so that cgo sees it,
 * checks it, and keeps what it points to for the length of the call. */
%insert(cgo_comment_typedefs) %{
#cgo pkg-config: kvc
%}

%rename("$ignore", %$isclass) "";
%rename("$ignore", %$istypedef) "";
%rename("$ignore", %$isenum) "";
%rename("$ignore", %$isenumitem) "";
%rename("$ignore", %$isconstant) "";

%define HANDLE(TYPE)
%typemap(gotype) TYPE *, const TYPE * "uintptr"
%typemap(gotype) TYPE **, TYPE *const * "*uintptr"
%enddef
HANDLE(kvc_store)
HANDLE(kvc_scope)
HANDLE(kvc_seq)
HANDLE(kvc_lease)
HANDLE(kvc_view)
HANDLE(kvc_queue)
HANDLE(kvc_region)

%typemap(gotype) SWIGTYPE *, const SWIGTYPE *, void *, const void * "unsafe.Pointer"
/* Texts too are plain memory: terminated where C reads them, not copied by SWIG. */
%typemap(gotype) char *text, const char *uri, const char *path, const char *node "unsafe.Pointer"
%typemap(in) char *text, const char *uri, const char *path, const char *node "$1 = *($&1_ltype)&$input;"
%typemap(freearg) char *text, const char *uri, const char *path, const char *node ""
%typemap(gotype) const int32_t *tokens "*int32"
%typemap(gotype) uint32_t *, const uint32_t * "*uint32"
%typemap(gotype) uint64_t *, const uint64_t *, size_t * "*uint64"
%typemap(gotype) const float * "*float32"
%typemap(gotype) int *fd "*int32"
%typemap(gotype) size_t "uint64"
%typemap(gotype) uint32_t "uint32"
%typemap(gotype) int32_t "int32"
%typemap(gotype) kvc_status "int32"

/* One object a call, without a struct of Go that C would have to look into: what a cache does most. */
%inline %{
static kvc_status kvc_object_put_one(const kvc_scope *scope, const void *key, size_t key_size, void *data, size_t data_size, kvc_error *error) {
  const kvc_bytes part = {data, data_size};
  kvc_object object = {0};
  object.key = key, object.key_size = key_size, object.parts = &part, object.part_count = 1;
  return kvc_object_put(NULL, scope, &object, 1, NULL, NULL, error);
}
static kvc_status kvc_object_get_one(uint64_t *value_size, const kvc_scope *scope, const void *key, size_t key_size, void *data, size_t data_size,
                                     kvc_error *error) {
  const kvc_bytes part = {data, data_size};
  kvc_object object = {0};
  object.key = key, object.key_size = key_size, object.parts = &part, object.part_count = 1;
  const kvc_status status = kvc_object_get(NULL, scope, &object, 1, NULL, NULL, error);
  *value_size = object.value_size;
  return status;
}
%}

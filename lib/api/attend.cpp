#include "kvc/attend.h"

#include "api/shim.h"

using namespace kvc;
using namespace kvc::api;

kvc_status kvc_attend(const kvc_partial *, kvc_attend_info *, const kvc_seq *, const kvc_query *, const kvc_sparsity *, const kvc_rows *, const kvc_call *, kvc_error *error) {
  return unsupported(error, "kvc_attend");
}

kvc_status kvc_attend_merge(const kvc_partial *, const kvc_partial *, size_t, uint64_t, uint32_t, uint32_t, kvc_error *error) {
  return unsupported(error, "kvc_attend_merge");
}

kvc_status kvc_select(uint64_t *, size_t, uint64_t *, size_t, kvc_attend_info *, const kvc_seq *, const kvc_query *, const kvc_sparsity *, const kvc_call *, kvc_error *error) {
  return unsupported(error, "kvc_select");
}

kvc_status kvc_seq_observe(kvc_seq *, const kvc_query *, const kvc_call *, kvc_error *error) {
  return unsupported(error, "kvc_seq_observe");
}

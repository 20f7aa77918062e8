#include "kvc/cluster.h"

#include "api/shim.h"

using namespace kvc;
using namespace kvc::api;

kvc_status kvc_cluster_get_info(kvc_cluster_info *, const kvc_store *, kvc_error *error) {
  return unsupported(error, "kvc_cluster_get_info");
}

kvc_status kvc_cluster_nodes(kvc_node *, size_t, size_t *, const kvc_store *, kvc_error *error) {
  return unsupported(error, "kvc_cluster_nodes");
}

kvc_status kvc_cluster_locate(kvc_node *, size_t, size_t *, const kvc_seq *, uint64_t, kvc_error *error) {
  return unsupported(error, "kvc_cluster_locate");
}

kvc_status kvc_cluster_drain(kvc_store *, const char *, kvc_error *error) {
  return unsupported(error, "kvc_cluster_drain");
}

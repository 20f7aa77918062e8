/* kvc/cluster.h - shards of a kvc: store; UNSUPPORTED on every other.
 *
 * Not built yet: kvc: stores cannot be opened, so every call here is KVC_ERR_UNSUPPORTED.
 *
 *   expected failures   drain: NOT_FOUND, FULL. */
#ifndef KVC_CLUSTER_H
#define KVC_CLUSTER_H

#include <kvc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One shard, as seen from here. */
typedef struct kvc_node {
  uint32_t size;          /**< sizeof(kvc_node), by KVC_INIT; in an array: of the first element, the stride of all */
  uint32_t state;         /**< KVC_NODE_* */
  uint64_t memory_bytes,  /**< its host tier */
      memory_used,        /**< of it, used */
      chunk_count;        /**< chunks it holds */
  uint64_t round_trip_us, /**< measured from here, microseconds */
      bandwidth;          /**< measured from here, bytes per second */
  char name[64],          /**< its name, terminated */
      address[128];       /**< host:port, terminated */
} kvc_node;

/** States of a node. */
enum {
  KVC_NODE_UP = 1,       /**< it answers */
  KVC_NODE_JOINING = 2,  /**< it takes its share over; reads may miss there */
  KVC_NODE_DRAINING = 3, /**< it gives its share away */
  KVC_NODE_DOWN = 4      /**< it does not answer */
};

/** The cluster, as seen from here. */
typedef struct kvc_cluster_info {
  uint32_t size,          /**< sizeof(kvc_cluster_info), by KVC_INIT */
      node_count;         /**< shards in the map */
  uint64_t epoch;         /**< version of the shard map */
  uint32_t copies,        /**< R, copies of a chunk */
      copies_acked;       /**< W, copies before a flush returns */
  uint64_t chunks_short,  /**< under-replicated chunks */
      repair_bytes_left,  /**< bytes still to be copied to repair them */
      moved_bytes_left;   /**< bytes still to be moved by a join or drain */
} kvc_cluster_info;

/** Says how the cluster is.
 * @param info  borrowed: filled, at most info->size bytes
 * @param store borrowed: the store
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  UNSUPPORTED: not a kvc: store
 * @since not built yet: KVC_ERR_UNSUPPORTED */
KVC_API kvc_status kvc_cluster_get_info(kvc_cluster_info *info, const kvc_store *store, kvc_error *error);

/** Lists the shards of the map.
 * @param nodes         borrowed: filled; KVC_INIT the first element, its size is the array's stride
 * @param node_capacity elements of `nodes`
 * @param node_count    borrowed: set to the number of shards, also when it is above the capacity
 * @param store         borrowed: the store
 * @param error         borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  RANGE: more shards than the capacity; the first are filled.  UNSUPPORTED: not a kvc: store
 * @since not built yet: KVC_ERR_UNSUPPORTED */
KVC_API kvc_status kvc_cluster_nodes(kvc_node *nodes, size_t node_capacity, size_t *node_count, const kvc_store *store, kvc_error *error);

/** Where the chunk at `token` of a sequence belongs, first choice first (weighted rendezvous hashing: Thaler and Ravishankar, 1998).
 * @param nodes         borrowed: filled; KVC_INIT the first element, its size is the array's stride
 * @param node_capacity elements of `nodes`
 * @param node_count    borrowed: set to the number filled
 * @param seq           borrowed: the sequence
 * @param token         a position of it
 * @param error         borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  RANGE: past the sequence.  UNSUPPORTED: not a kvc: store
 * @since not built yet: KVC_ERR_UNSUPPORTED */
KVC_API kvc_status kvc_cluster_locate(kvc_node *nodes, size_t node_capacity, size_t *node_count, const kvc_seq *seq, uint64_t token,
                                      kvc_error *error);

/** Moves a node's share away; returns when it has begun (moved_bytes_left tells how far it is).
 * @param store borrowed: the store
 * @param node  borrowed: the node's name
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  NOT_FOUND: no such node.  FULL: R copies would not fit on the others.  UNSUPPORTED: not a kvc: store
 * @since not built yet: KVC_ERR_UNSUPPORTED */
KVC_API kvc_status kvc_cluster_drain(kvc_store *store, const char *node, kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif

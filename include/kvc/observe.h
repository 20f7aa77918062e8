/* kvc/observe.h - what a store does: counters, events, spans.
 *
 *   expected failures   metrics_text: RANGE.   event_watch: FULL.   trace_record: IO. */
#ifndef KVC_OBSERVE_H
#define KVC_OBSERVE_H

#include <kvc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Every counter and gauge as Prometheus text (exposition format 0.0.4): names begin with kvc_, sizes are in bytes.  Of scopes the 64 that hold
 * most have a sample each, labelled with the first 8 bytes of their fingerprint in hexadecimal; the rest is one, scope="other".  Numbers may have
 * grown by a digit between the call that asks for the size and the next: leave some room.
 * @param text          borrowed: filled and terminated; NULL with capacity 0: only ask for the size
 * @param text_capacity bytes of `text`
 * @param text_size     borrowed: set to the size needed, the terminator included
 * @param store         borrowed: the store
 * @param error         borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  RANGE: text_capacity is short; the text is cut there
 * @since 0.1.0 */
KVC_API kvc_status kvc_metrics_text(char *text, size_t text_capacity, size_t *text_size, const kvc_store *store, kvc_error *error);

/** Counters since the store was opened.  They only rise. */
typedef struct kvc_metrics {
  uint32_t size,             /**< sizeof(kvc_metrics), by KVC_INIT */
      reserved;              /**< 0 */
  uint64_t match_calls,      /**< calls of kvc_match without KVC_SEQ_PEEK */
      match_tokens,          /**< tokens they asked for */
      hit_tokens,            /**< tokens they found */
      gather_bytes,          /**< bytes copied out by kvc_gather */
      append_bytes,          /**< bytes copied in by kvc_append */
      attend_calls;          /**< calls of kvc_attend */
  uint64_t evicted_chunks,   /**< chunks and objects dropped to make room in the store or in a quota */
      demoted_pages,         /**< pages moved to a colder tier or fewer bits */
      promoted_pages,        /**< pages moved to a warmer tier */
      checksum_failures,     /**< pages and objects that failed a check and were dropped */
      timeouts,              /**< calls that ended in KVC_ERR_TIMEOUT; who waited for room ends in KVC_ERR_FULL */
      lapsed_leases;         /**< leases that ended by time */
  uint64_t hit_bytes_device, /**< bytes read from device memory */
      hit_bytes_host,        /**< from RAM */
      hit_bytes_nvme,        /**< from disk */
      hit_bytes_remote;      /**< from other machines */
} kvc_metrics;

/** Reads the counters, without stopping anything: each is right, together they are of nearly one moment.
 * @param metrics borrowed: filled, at most metrics->size bytes
 * @param store   borrowed: the store
 * @param error   borrowed: why it failed; NULL: not wanted
 * @return KVC_OK
 * @since 0.1.0 */
KVC_API kvc_status kvc_metrics_read(kvc_metrics *metrics, const kvc_store *store, kvc_error *error);

/** What may happen to a chunk. */
enum {
  KVC_EVENT_STORED = 1,  /**< it became visible */
  KVC_EVENT_REMOVED = 2, /**< it is gone from tier_from */
  KVC_EVENT_MOVED = 4,   /**< it went from tier_from to tier_to */
  KVC_EVENT_CLEARED = 8, /**< its scope was cleared: everything of it is gone */
  KVC_EVENT_LOST = 16    /**< some were dropped: resynchronise */
};

/** One event. */
typedef struct kvc_event {
  uint32_t size;            /**< sizeof(kvc_event), by KVC_INIT; in an array: of the first element, the stride of all */
  uint32_t kind;            /**< KVC_EVENT_* */
  uint32_t tier_from,       /**< KVC_TIER_*; 0: none */
      tier_to;              /**< KVC_TIER_*; 0: none */
  uint64_t sequence_number, /**< rises by one in a queue; a gap means loss, and ends at the number of a KVC_EVENT_LOST */
      token_begin,          /**< STORED: first position of the chunk; 0 otherwise */
      token_count;          /**< STORED: its tokens; 0 otherwise */
  uint8_t scope[32],        /**< fingerprint of its scope */
      chunk[32],            /**< its name: the chained SHA-256 of scope, shape, tokens and extra identity */
      parent[32];           /**< STORED: the name of the chunk before it; of the first: the scope's fingerprint */
  const int32_t *tokens;    /**< STORED: lent to the host until the next drain of this queue; NULL otherwise */
} kvc_event;

/** Sends events of a scope to a queue: its descriptor is readable while any wait.  They tell of chunks that have a name, from now on and in the
 * order in which things happened; objects and private sequences have no events.  Whoever takes a chunk for held from its STORED until its REMOVED, or that
 * of one it descends from, or a CLEARED of its scope, knows what a match finds
 * (of models with window or state layers: at most).  A clear is one event, not one a chunk.
 * A queue keeps up to 4096 events with 262144 ids (about 1.6 MiB, from its first watch on).  A reader so slow that there is no room loses all that
 * comes until it has drained the rest, and is told then by one KVC_EVENT_LOST, whatever its mask: drop what is known and begin anew.
 * @param queue borrowed: where they go
 * @param scope borrowed: whose, up to 256 of them one by one; NULL: all that this tenant may see and that were not named one by one
 * @param mask  KVC_EVENT_* bits, instead of those before; 0 ends it, with a scope of NULL of all
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  FULL: too many scopes one by one
 * @since 0.1.0 */
KVC_API kvc_status kvc_event_watch(kvc_queue *queue, const kvc_scope *scope, uint32_t mask, kvc_error *error);

/** Takes events.  Does not wait.
 * @param events         borrowed: filled; KVC_INIT the first element, its size is the array's stride
 * @param event_capacity elements of `events`
 * @param event_count    borrowed: set to the number filled
 * @param queue          borrowed: the queue
 * @param error          borrowed: why it failed; NULL: not wanted
 * @return KVC_OK, also with none
 * @since 0.1.0 */
KVC_API kvc_status kvc_event_drain(kvc_event *events, size_t event_capacity, size_t *event_count, kvc_queue *queue, kvc_error *error);

/** Writes spans of calls to a Perfetto JSON file until called with NULL: calls that take a kvc_call, with their status, bytes and trace id, and
 * what they do inside (seal, evict).  A call is one span: with KVC_OPEN_WAIT one that blocks until there is room is in it all the time, one that is
 * queued while it runs the last time.  Spans wait in a buffer of 512; whoever fills it writes them, in one write that ends the file too, so it parses
 * even if the process dies, without those that waited.  A write that fails ends the recording, and the call that ends it says so.  Another path ends
 * the file before.  kvc_close ends it too.
 * @param store borrowed: the store
 * @param path  borrowed: a regular file under its own name, replaced; NULL: end and close it
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  IO: the file could not be made, and nothing is recorded; or the one before could not be written since ("ended early"), and
 *         this one has begun
 * @since 0.1.0 */
KVC_API kvc_status kvc_trace_record(kvc_store *store, const char *path, kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif

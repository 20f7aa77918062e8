/* kvc/object.h - opaque keys with values, for engines that do their own hashing; checked, on the same tiers and shards.
 *
 * Write-once: putting equal bytes again is KVC_OK, other bytes KVC_ERR_EXISTS; delete first.  The name of an object is SHA-256("kvc
 * object 1" | the scope's fingerprint | u64 length | key): scopes do not see each other's.
 *
 * In every call the array of items is lent: each item's outputs are written.  result->done counts the leading items that are OK.  The call
 * is KVC_OK if every item is (exists: whenever it ran); else the status of the first item that is not.  Items are independent of each other
 * (but with KVC_OBJECT_GROUP): one that fails does not stop the rest (but with KVC_OBJECT_LEADING; an exists with a key that is not 1 to 64
 * bytes looks at none).  An item that the call did not come to has the call's status (of an exists with KVC_OBJECT_LEADING: NOT_FOUND), and so
 * have all items of a group that was not put.  Before a put says FULL it has evicted what nobody holds.
 *
 *   expected failures   of an item: NOT_FOUND, EXISTS, FULL, RANGE, GONE.   of a call: UNAVAILABLE, TIMEOUT. */
#ifndef KVC_OBJECT_H
#define KVC_OBJECT_H

#include <kvc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One piece of a value.  Frozen. */
typedef struct kvc_bytes {
  void *data;     /**< lent; read by put, written by get; NULL with 0 bytes: nothing */
  uint64_t bytes; /**< extent */
} kvc_bytes;

/** One item of a batch.  Frozen. */
typedef struct kvc_object {
  const void *key;        /**< 1..64 bytes; borrowed */
  uint64_t key_size;      /**< bytes */
  const kvc_bytes *parts; /**< the value, in order; list borrowed, memory lent; exists, delete: ignored */
  uint64_t part_count;    /**< entries of `parts` */
  uint64_t value_size;    /**< out: bytes stored (get, exists) */
  kvc_status status;      /**< out: of this item */
  uint32_t tier;          /**< out: KVC_TIER_* of the nearest copy; 0: none */
  uint32_t memory;        /**< KVC_MEMORY_* of the parts */
  int32_t device;         /**< number of the device, for device memory */
  void *stream;           /**< as kvc_rows.stream */
} kvc_object;

/** How to run a batch.
 *
 * A value put with a layout is K and V rows of the scope's layers; it is held as pages and read back, by any parts, as the very bytes that were put.
 *   - Every value of the batch lies so.  k.data and v.data are offsets in it (0 too), `bytes` of 0 is: to its end.  A latent layer's v of zeros: one row
 *     [latent | rope] in k.  State layers have no rows of tokens (UNSUPPORTED).
 *   - layers: a run of one geometry, SHAPE or RANGE else; heads: any of theirs; tokens: as many as token_count says, whole chunks or not.
 *   - Every byte of the value belongs to exactly one element.  ARGUMENT names the stride that makes elements overlap, or the first byte that none
 *     covers.
 *   - dtypes are the shape's: a conversion could not be undone (SHAPE).  token_begin is 0: an object's tokens have no positions.  No block table,
 *     no token_list (ARGUMENT).
 * All that objects do holds for them: equal bytes may be put again with another layout or none, and pages that fail their check are GONE. */
typedef struct kvc_object_options {
  uint32_t size;          /**< sizeof(kvc_object_options), by KVC_INIT */
  uint32_t flags;         /**< KVC_OBJECT_* */
  uint64_t ttl_ms;        /**< put: unused for so long, milliseconds: dropped, as kvc_scope_options.ttl_ms; 0: the scope's;
                               KVC_FOREVER: never.  Of equal bytes put again the first one's stays */
  uint64_t lease_ms;      /**< exists with KVC_OBJECT_LEASE: milliseconds; 0: the store's */
  const kvc_rows *layout; /**< put: values are rows that lie so, k.data and v.data being offsets in the value; NULL: plain bytes.  Borrowed */
} kvc_object_options;

/** Flags of kvc_object_options. */
enum {
  KVC_OBJECT_GROUP = 1,   /**< put: all items become visible together or none */
  KVC_OBJECT_LEADING = 2, /**< get, exists: stop at the first item that is not OK */
  KVC_OBJECT_LEASE = 4    /**< exists: hold what is found; blocking calls need `result` to receive it */
};

/** Stores values.
 * @param result       lent: filled, at most result->size bytes; NULL: not wanted
 * @param scope        borrowed: whose
 * @param objects      lent: the items; keys, parts, memory in; status out
 * @param object_count items; not 0
 * @param options      borrowed: how; NULL: all defaults
 * @param call         borrowed: how to run it; NULL: block
 * @param error        borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  EXISTS: the key holds other bytes.  FULL: no room, and nothing left that may be evicted.  SHAPE, RANGE: the layout is none of
 *         the scope's shape.  UNAVAILABLE, TIMEOUT: out of reach
 * @since 0.1.0 */
KVC_API kvc_status kvc_object_put(kvc_result *result, const kvc_scope *scope, kvc_object *objects, size_t object_count,
                                  const kvc_object_options *options, const kvc_call *call, kvc_error *error);

/** Reads values.  Parts longer than the value are filled in front and left alone behind.
 * @param result       lent: filled, at most result->size bytes; NULL: not wanted
 * @param scope        borrowed: whose
 * @param objects      lent: the items; keys, parts, memory in; value_size, status, tier out
 * @param object_count items; not 0
 * @param options      borrowed: how; NULL: all defaults
 * @param call         borrowed: how to run it; NULL: block
 * @param error        borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  NOT_FOUND: no such key.  GONE: it failed its check and was dropped.  RANGE: parts shorter than the value, for that item
 *         value_size is set and nothing written.  UNAVAILABLE, TIMEOUT: out of reach
 * @since 0.1.0 */
KVC_API kvc_status kvc_object_get(kvc_result *result, const kvc_scope *scope, kvc_object *objects, size_t object_count,
                                  const kvc_object_options *options, const kvc_call *call, kvc_error *error);

/** Says which keys hold a value.  With KVC_OBJECT_LEASE one lease on every item found comes in result->lease (NULL when none was), in the
 * same round trip; it is ended by kvc_lease_release.
 * @param result       lent: filled, at most result->size bytes; NULL: not wanted (but with KVC_OBJECT_LEASE)
 * @param scope        borrowed: whose
 * @param objects      lent: the items; keys in; value_size, status, tier out
 * @param object_count items; not 0
 * @param options      borrowed: how; NULL: all defaults
 * @param call         borrowed: how to run it; NULL: block
 * @param error        borrowed: why it failed; NULL: not wanted
 * @return KVC_OK whenever it ran; absent items have status NOT_FOUND.  UNAVAILABLE, TIMEOUT: out of reach
 * @since 0.1.0 */
KVC_API kvc_status kvc_object_exists(kvc_result *result, const kvc_scope *scope, kvc_object *objects, size_t object_count,
                                     const kvc_object_options *options, const kvc_call *call, kvc_error *error);

/** Deletes values.  Leased items are absent at once for new readers and go when the lease ends.
 * @param result       lent: filled, at most result->size bytes; NULL: not wanted
 * @param scope        borrowed: whose
 * @param objects      lent: the items; keys in; status out
 * @param object_count items; not 0
 * @param call         borrowed: how to run it; NULL: block
 * @param error        borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  NOT_FOUND: no such key.  UNAVAILABLE, TIMEOUT: out of reach
 * @since 0.1.0 */
KVC_API kvc_status kvc_object_delete(kvc_result *result, const kvc_scope *scope, kvc_object *objects, size_t object_count,
                                     const kvc_call *call, kvc_error *error);

/** One line of a list.  Frozen. */
typedef struct kvc_object_entry {
  uint8_t key[64];     /**< the key; zeros behind it */
  uint32_t key_size,   /**< its bytes */
      tier;            /**< KVC_TIER_* of the nearest copy */
  uint64_t value_size; /**< bytes stored */
} kvc_object_entry;

/** The next entries in key order (bytes, unsigned) after `key`.  At the end *entry_count < entry_capacity.
 * The first list of a scope puts its keys in order, which takes time and memory for each; from then on puts and deletes keep the order.
 * @param entries        lent: filled
 * @param entry_capacity elements of `entries`; not 0
 * @param entry_count    lent: set to the number filled
 * @param scope          borrowed: whose
 * @param key            borrowed: list what comes after it; NULL with size 0: from the start
 * @param key_size       bytes
 * @param call           borrowed: how to run it; NULL: block
 * @param error          borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  UNAVAILABLE, TIMEOUT: out of reach
 * @since 0.1.0 */
KVC_API kvc_status kvc_object_list(kvc_object_entry *entries, size_t entry_capacity, size_t *entry_count, const kvc_scope *scope,
                                   const void *key, size_t key_size, const kvc_call *call, kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif

/* kvc/types.h - the nouns that several headers share: handles, element types, and the descriptions kvc_array, kvc_rows, kvc_call,
 * kvc_result and kvc_precision. */
#ifndef KVC_TYPES_H
#define KVC_TYPES_H

#include <kvc/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Handles: tokens that carry a generation, not addresses; never dereference, copy or compare them with anything but NULL and each other.
 * A released one is KVC_ERR_STALE.  NULL is released with KVC_OK and refused everywhere else. */
typedef struct kvc_store kvc_store;   /**< one cache.  Any thread, any time; only kvc_close must be alone */
typedef struct kvc_scope kvc_scope;   /**< whose cache, of which shape: the namespace of prefixes and objects.  Any thread, any time */
typedef struct kvc_seq kvc_seq;       /**< an ordered run of tokens.  `const kvc_seq *`: beside others of its kind; `kvc_seq *`: alone */
typedef struct kvc_queue kvc_queue;   /**< results of calls that do not block.  Any thread, any time */
typedef struct kvc_lease kvc_lease;   /**< a hold on tokens or objects that outlives its sequence.  Any thread, any time */
typedef struct kvc_view kvc_view;     /**< a page lent in place */
typedef struct kvc_region kvc_region; /**< registered memory of the host.  Any thread, any time */

/** Element types. */
enum {
  KVC_F32 = 1,    /**< IEEE 754 binary32, 4 bytes */
  KVC_F16 = 2,    /**< IEEE 754 binary16, 2 bytes */
  KVC_BF16 = 3,   /**< the upper half of a binary32, 2 bytes */
  KVC_F8_E4M3 = 4, /**< 8-bit float, 4 exponent bits, finite (Micikevicius et al., "FP8 Formats for Deep Learning", 2022), 1 byte */
  KVC_U8 = 5      /**< raw bytes, never converted */
};

/** Where the caller's memory is. */
enum {
  KVC_MEMORY_HOST = 0,        /**< ordinary memory of this process */
  KVC_MEMORY_CUDA = 1,        /**< memory of a CUDA device.  Not built yet: KVC_ERR_UNSUPPORTED */
  KVC_MEMORY_CUDA_HOST = 2,   /**< pinned host memory of CUDA.  Not built yet: KVC_ERR_UNSUPPORTED */
  KVC_MEMORY_CUDA_MANAGED = 3 /**< CUDA managed memory.  Not built yet: KVC_ERR_UNSUPPORTED */
};

/** Where the store's copy is. */
enum {
  KVC_TIER_DEVICE = 1, /**< memory of a device of this machine */
  KVC_TIER_HOST = 2,   /**< RAM of this machine */
  KVC_TIER_NVME = 3,   /**< a directory of this machine */
  KVC_TIER_REMOTE = 4  /**< another machine */
};

/** One array in the caller's memory: where the elements of K, or of V, or of a query lie.  Frozen.
 *
 * The element (layer l, slot s, head h, dim d) lies at
 *
 *     data + l*layer_stride + block(s)*block_stride + in_block(s)*token_stride + h*head_stride + d*dim_stride
 *
 * in bytes; l and h count from the run's first layer and head.  Without a block table block(s) = 0 and in_block(s) = s; with one
 * block(s) = blocks[s / block_tokens] and in_block(s) = s mod block_tokens.
 * A stride of 0 is the packed one: the size of everything inside it, in the order block > token > head > dim; layer_stride has no
 * default when a run has several layers.  No element may lie outside [data, data + bytes): refused, with the bytes needed and the stride
 * that reaches farthest.  No two elements of an array may share an address, in append and gather alike: refused, with the stride's name.
 * Of a destination it is refused too that a touched block stands twice in the table, and that K and V, or runs of one call, overlap; a
 * source may do both.  Host memory needs no alignment.  A layout is declared, never inferred from sizes. */
typedef struct kvc_array {
  void *data;            /**< lent; NULL: this part is not moved.  Host or device address, as kvc_rows.memory says */
  uint64_t bytes;        /**< extent of the memory at `data`; no element may end past it */
  uint64_t layer_stride, /**< bytes from a layer to the next: of the capacity, not of the length.  No default with several layers */
      block_stride,      /**< bytes from a block to the next; 0: packed */
      token_stride,      /**< bytes from a slot to the next in its block; 0: packed */
      head_stride,       /**< bytes from a head to the next; 0: packed */
      dim_stride;        /**< bytes from a dim (with dim_group: from a group of dims) to the next; 0: packed */
  uint32_t dtype;        /**< KVC_F32...; converted from and to the stored one.  Memory cannot tell what it holds, so that a wrong dtype is
                              not noticed: leave 0, the shape's, unless the array differs from it.  F32, F16 and BF16 become each other:
                              rounded to nearest, ties to even, past the largest to infinity, NaN stays NaN; F8 and U8 only themselves */
  uint32_t dim_group;    /**< elements of a head that lie together: d is d/group*dim_stride + d%group*e; 0: 1 */
} kvc_array;

/** THE description of rows: which (layers x heads x tokens) and where they lie.  One struct for append, gather, prefetch, view.
 * A call takes an array of them: one for a uniform block, one per layer for per-layer pointers, one per group for hybrid models.
 *
 *   what lies where                                        k / v
 *   packed, tokens first                                    data and layer_stride (the capacity's, not the length's)
 *   transformers [batch, heads, tokens, dim]                data at the batch row; head_stride = tokens*dim*e, token_stride = dim*e
 *   vLLM NHD pool [2, blocks, 16, heads, dim]               block_tokens 16, blocks = block table, block_stride; v.data = k.data + half
 *   vLLM HND pool [blocks, 2, heads, 16, dim]               the same with head_stride > token_stride; block_stride spans K and V
 *   vLLM split K [blocks, heads, dim/x, 16, x]               k.dim_group = x, k.dim_stride = 16*x*e, k.token_stride = x*e
 *   SGLang layer_first [2, layers, slots, heads, dim]       block_tokens 1, blocks = slot indices, block_stride = heads*dim*e
 *   SGLang page_first [2, slots, layers, heads, dim]        the same, layer_stride < block_stride
 *   llama.cpp state, flash attention                        K and V rows; layer_stride = 12 + cells*row
 *   llama.cpp state, V transposed [channel][cell]           v.token_stride = e, v.dim_stride = cells*e, v.head_stride = dim*cells*e
 *   packed K|V per head or per row                          v.data = k.data + offset, the same strides in both
 *   latent (MLA) row [latent | rope]                        k only, k_dim + rope_dim elements; or k = latent, v = rope part
 *   state snapshot                                          k (and v, the second part): bytes, one row for the whole token range
 *   cells out of order, slots scattered                     block_tokens 1, blocks = cell of each token, block_stride per side
 *
 * (e = bytes of an element.)  Registered memory (kvc_region) needs nothing here: it is recognised by address.
 *
 * ALL LAYERS IN ONE POOL - f16 [layers][K, V][blocks][16][heads][dim]; the sequence lies in the blocks of `table`, 16 tokens in each
 *
 *     static kvc_rows rows_of_pool(void *pool, const int32_t *table, uint64_t table_count, uint64_t begin, uint64_t count) {
 *       const uint64_t block = 16 * HEADS * DIM * sizeof(uint16_t), side = BLOCKS * block;  // bytes
 *       kvc_rows rows;
 *       KVC_INIT(&rows);
 *       rows.layer_count = LAYERS;
 *       rows.token_begin = rows.slot_begin = begin;  // equal: the table is of the whole sequence
 *       rows.token_count = count;
 *       rows.block_tokens = 16, rows.blocks = table, rows.block_count = table_count;
 *       rows.k.data = pool;
 *       rows.k.bytes = LAYERS * 2 * side;
 *       rows.v.data = (char *)pool + side;
 *       rows.v.bytes = LAYERS * 2 * side - side;  // from v.data to the end of the pool
 *       rows.k.layer_stride = rows.v.layer_stride = 2 * side;
 *       rows.k.block_stride = rows.v.block_stride = block;
 *       return rows;
 *     }
 *
 * Every stride and every extent counts bytes from that side's `data`: token t of layer l has its K at k.data + l*layer_stride +
 * table[t / 16]*block_stride + t % 16*token_stride, and its V at the same distance from v.data. */
typedef struct kvc_rows {
  uint32_t size;               /**< sizeof(kvc_rows), by KVC_INIT; in an array: of the first element, the stride of all */
  uint32_t flags;              /**< 0 */
  uint32_t layer_begin,        /**< first layer of the run; absolute, of the whole model */
      layer_count;             /**< layers of one kind and geometry; no default: 0 is refused */
  uint32_t head_begin,         /**< first KV head; of the whole model, not of the part */
      head_count;              /**< KV heads; 0: all of the sequence's part */
  uint64_t token_begin,        /**< first position */
      token_count;             /**< positions; no default: 0 is refused, skip the call; gather, prefetch: KVC_ALL = to filled(layer) */
  const uint64_t *token_list;  /**< gather, prefetch: token_count entries instead; entry e = tokens [e*unit, (e+1)*unit); borrowed */
  uint32_t token_unit;         /**< tokens an entry of token_list stands for; 0: 1; 16 for what kvc_select returns */
  uint32_t block_tokens;       /**< slots a block; 0: no block table */
  const int32_t *blocks;       /**< slot s lies in block blocks[s / block_tokens]; borrowed; negative: refused if touched */
  uint64_t block_count;        /**< entries of `blocks` */
  uint64_t slot_begin;         /**< the i-th token asked for uses slot slot_begin + i (its position, for a table of the whole sequence) */
  kvc_array k,                 /**< the keys; latent: the latent and, without v, the rope part; state: the first part */
      v;                       /**< the values; latent: the rope part; state: the second part */
  uint32_t memory;             /**< KVC_MEMORY_*; declared, checked where the system can tell */
  int32_t device;              /**< number of the device, for device memory */
  void *stream;                /**< device memory: work is ordered in this stream; the call returns when it is enqueued, the memory stays
                                    lent until the stream has passed it; no other synchronisation.  NULL: the device's default stream */
  const float *k_scale,        /**< F8: number = code * scale; one per (layer, head) of the run, layers first; NULL: 1; borrowed.
                                    Not built yet, KVC_ERR_UNSUPPORTED when set: F8 rows are moved as they stand */
      *v_scale;                /**< the same for the values */
} kvc_rows;

/** How to run a call; NULL: block, with the store's default timeout.
 *
 * With a queue the call only starts the work: KVC_OK promises exactly one kvc_result in that queue; anything else promises none.
 * Structs, lists, block tables and keys are copied before it returns; arrays, tokens, values, items and info structs are lent until the
 * result is drained; where a call gives a handle, `out` itself must be NULL: it comes in the result.
 * When a call has returned or its result was drained - done, failed, late or cancelled - nothing touches the lent memory any more (device
 * memory with a stream: once the stream has passed).  Queued calls on one sequence act as if run in the order they were made. */
typedef struct kvc_call {
  uint32_t size;       /**< sizeof(kvc_call), by KVC_INIT */
  uint32_t flags;      /**< KVC_CALL_* */
  uint64_t timeout_us; /**< microseconds from now; 0: the store's default; KVC_FOREVER: no deadline */
  kvc_queue *queue;    /**< borrowed; NULL: block */
  uint64_t user;       /**< returned in the result, names the call for kvc_queue_cancel */
  uint64_t trace_high, /**< trace id of spans, here and on the shards: upper half */
      trace_low;       /**< lower half; both 0: none */
} kvc_call;

/** Flags of kvc_call. */
enum {
  KVC_CALL_MORE = 1,  /**< queued: may be held back until kvc_queue_submit, to start many as one disk and one network batch */
  KVC_CALL_LOCAL = 2, /**< do not ask other machines: what is remote is absent */
  KVC_CALL_HOT = 4,   /**< do not touch disk either */
  KVC_CALL_DETACH = 8 /**< prefetch only, without a queue: wait for nothing; nobody hears of what does not arrive */
};

/** What came of a call.  Blocking calls fill one when given; a queue delivers one per queued call. */
typedef struct kvc_result {
  uint32_t size;          /**< sizeof(kvc_result), by KVC_INIT */
  kvc_status status;      /**< what the call came to */
  uint64_t user;          /**< kvc_call.user */
  uint32_t operation;     /**< KVC_OP_* */
  uint32_t retry;         /**< KVC_RETRY_* */
  uint64_t done;          /**< rows: the position below which every run is right (lists: leading entries).  Objects: leading items.
                               Match: the length.  An append of ids alone: 0.  On failure this is the usable part; past it the named destination is unspecified */
  uint64_t bytes;         /**< moved to or from caller memory */
  uint64_t bytes_device,  /**< of them, those that lay in device memory */
      bytes_host,         /**< in RAM here */
      bytes_nvme,         /**< on disk here */
      bytes_remote;       /**< on other machines */
  uint64_t elapsed_us;    /**< from the start of the call, microseconds */
  kvc_seq *seq;           /**< given: queued match, attach, restore; otherwise NULL */
  kvc_lease *lease;       /**< given: queued kvc_seq_lease; kvc_object_exists with LEASE, queued or not; otherwise NULL */
  int32_t system_error;   /**< 0, errno, or a driver's code */
  char message[124];      /**< one line, terminated: of kvc_error.message what fits; empty unless status < 0 */
} kvc_result;

/** Which call a result belongs to. */
enum {
  KVC_OP_APPEND = 1,         /**< kvc_append */
  KVC_OP_GATHER = 2,         /**< kvc_gather */
  KVC_OP_MATCH = 3,          /**< kvc_match */
  KVC_OP_ATTEND = 4,         /**< kvc_attend */
  KVC_OP_SELECT = 5,         /**< kvc_select */
  KVC_OP_PREFETCH = 6,       /**< kvc_seq_prefetch */
  KVC_OP_LEASE = 7,          /**< kvc_seq_lease */
  KVC_OP_OBSERVE = 8,        /**< kvc_seq_observe */
  KVC_OP_PUBLISH = 9,        /**< kvc_seq_publish */
  KVC_OP_ATTACH = 10,        /**< kvc_seq_attach */
  KVC_OP_SAVE = 11,          /**< kvc_seq_save */
  KVC_OP_RESTORE = 12,       /**< kvc_seq_restore */
  KVC_OP_FLUSH = 13,         /**< kvc_store_flush */
  KVC_OP_VERIFY = 14,        /**< kvc_store_verify */
  KVC_OP_OBJECT_PUT = 15,    /**< kvc_object_put */
  KVC_OP_OBJECT_GET = 16,    /**< kvc_object_get */
  KVC_OP_OBJECT_EXISTS = 17, /**< kvc_object_exists */
  KVC_OP_OBJECT_DELETE = 18, /**< kvc_object_delete */
  KVC_OP_OBJECT_LIST = 19,   /**< kvc_object_list */
  KVC_OP_SCOPE_CLEAR = 20    /**< kvc_scope_clear */
};

/** Formats in which pages are held.  Bits a number are of a head of 128 dims, scales and means counted. */
enum {
  KVC_FORMAT_EXACT = 1,    /**< the bits that were appended */
  KVC_FORMAT_F8_E4M3 = 2,  /**< 8 bits: one scale per head and page.  Not built yet: KVC_ERR_UNSUPPORTED */
  KVC_FORMAT_INT8 = 3,     /**< 8 bits: symmetric, scale = max|x| / 127 per token and head.  Not built yet: KVC_ERR_UNSUPPORTED */
  KVC_FORMAT_INT4_G64 = 4, /**< 4 bits: K per channel, V per token in groups of 64 (Liu et al., "KIVI", 2024).  Not built yet:
                                KVC_ERR_UNSUPPORTED */
  KVC_FORMAT_PLANES = 5    /**< 1 to 4 bits: rotated (Ashkboos et al., "QuaRot", 2024) and cut into planes, so that a narrower read is a
                                shorter read.  Not built yet: KVC_ERR_UNSUPPORTED */
};

/** How numbers are held.  Exact is the default: nothing is rounded unless a precision is set.  On a scope it is a floor for all; on a
 * sequence it governs the pages that sequence alone holds and is a wish for shared ones, which are as wide as their widest holder asks.
 * Not built yet: a precision that is set is KVC_ERR_UNSUPPORTED; pages are exact. */
typedef struct kvc_precision {
  uint32_t size;                /**< sizeof(kvc_precision), by KVC_INIT */
  uint32_t flags;               /**< KVC_PRECISION_* */
  uint32_t format;              /**< KVC_FORMAT_*; 0: EXACT.  PLANES with bytes_max: width per page x KV head x {K, V} follows importance */
  uint32_t planes;              /**< PLANES: most planes kept, 1..4; 0: 4 */
  uint64_t bytes_max;           /**< of what it is set on: sequence, scope, store; 0: no budget.  Below the floors: KVC_ERR_FULL, naming
                                     the least */
  uint32_t sink_tokens,         /**< exact at the front; 0: 4.  KVC_NONE: none */
      recent_tokens;            /**< exact at the end; 0: 128.  KVC_NONE: none */
  const uint32_t *exact_layers; /**< layers held exact; borrowed; NULL with count 0: none */
  uint64_t exact_layer_count;   /**< entries of exact_layers */
} kvc_precision;

/** Flags of kvc_precision. */
enum { KVC_PRECISION_ONE_BIT = 1 /**< the floor is 1 plane, not 2 */ };

#define KVC_NONE 0xFFFFFFFFu /**< none, where 0 is the default */

#ifdef __cplusplus
}
#endif
#endif

/* kvc/store.h - open and close a cache; register memory; describe a model's shape; make a scope.
 *
 * A store is one cache with its limits, fixed by kvc_open.  A scope inside it says whose rows they are and of which model: scopes that
 * differ in one byte share nothing.  A shape is the geometry of a model's cache, layer run by layer run, and part of the scope's identity.
 *
 *   expected failures   open: NOT_FOUND, BUSY, CORRUPT, VERSION, UNAVAILABLE, DENIED, NO_MEMORY.   close: BUSY.
 *                       scope_create: SHAPE, FULL, DENIED.   flush: UNSUPPORTED, IO, READ_ONLY, TIMEOUT.   verify: CORRUPT. */
#ifndef KVC_STORE_H
#define KVC_STORE_H

#include <kvc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Where log lines go, the only callback of this library, which writes nothing to stdout or stderr.  Called on any thread of kvc, also on one
 * that is inside a call; it must not call kvc and should not block.  Lines are about: a store opened and closed (3); refusals for want of
 * memory (memory_bytes) and by a quota, leases that lapsed, events that were dropped (2); checks that failed, traces that could not be written (1).  Of one
 * cause there is one line in ten seconds: the next says how many came between, the close how many came since.  `level` is 1 error,
 * 2 warning, 3 information, 4 debugging; `line` is borrowed, one line without its end; `context` is kvc_store_options.log_context. */
typedef void (*kvc_log_fn)(uint32_t level, const char *line, void *context);

/** Limits and defaults of a store.  All zero is a good start: a quarter of the machine's memory, nothing else.
 * Built: memory_bytes, seq_max, queue_max, view_max, worker_count, open_bytes_max, timeout_us, lease_ms, log, log_context, log_level and the flags
 * KVC_OPEN_HOST_DRIVEN, KVC_OPEN_WAIT, KVC_OPEN_ZERO, KVC_OPEN_POPULATE, KVC_OPEN_VERIFY_READS.
 * Not built yet, KVC_ERR_UNSUPPORTED when set: all other members and flags. */
typedef struct kvc_store_options {
  uint32_t size;                    /**< sizeof(kvc_store_options), by KVC_INIT */
  uint32_t flags;                   /**< KVC_OPEN_* */
  uint64_t memory_bytes;            /**< host tier, reserved at once, touched on use; rounded up to 2 MiB; 0: 1/4 of the machine (cgroup);
                                         kvc: 0: thin client */
  uint64_t nvme_bytes;              /**< hard cap of the directory; 0: 4/5 of what is free */
  uint64_t device_bytes;            /**< per device; 0: no device tier */
  uint32_t seq_max,                 /**< sequences at once; 0: 4096 */
      queue_max,                    /**< queues at once; 0: 64 */
      view_max,                     /**< views at once; 0: 4096 */
      worker_count;                 /**< threads of kvc, from the first queue on; 0: min(4, cores); at most 1024 */
  uint64_t open_bytes_max;          /**< chunks not yet sealed, over all sequences; 0: memory_bytes / 4.  One open row takes the room of
                                         a whole chunk, so sequences with open rows x (kvc_shape_info.chunk_bytes + 512 bytes a layer + up
                                         to 6 KiB) must fit; forks share until one writes; a prefill that comes layer by layer holds
                                         all its chunks open until its last layer.  Prefills that do not fit side by side can wait for each
                                         other until their timeouts: admit no more of them than fit */
  uint64_t timeout_us;              /**< default of every call, microseconds; 0: 30 s */
  uint64_t lease_ms;                /**< default of sequences and leases, milliseconds; 0: 10 s */
  uint64_t connect_timeout_us;      /**< kvc: microseconds; 0: 2 s */
  const char *directory;            /**< kvc: NVMe tier in front of the shards; NULL: none; borrowed */
  const char *tenant,               /**< kvc: who we are; borrowed */
      *key_file;                    /**< kvc: pre-shared key file, mode 0600; borrowed */
  const char *certificate_file,     /**< kvc: mutual certificates instead: ours; borrowed */
      *authority_file;              /**< kvc: who signs theirs; borrowed */
  const char *providers;            /**< kvc: libfabric preference list; borrowed; NULL: "efa,verbs;ofi_rxm,tcp,tcp;ofi_rxm" */
  uint32_t copies,                  /**< kvc: R, copies of a chunk; 0: the cluster's */
      copies_acked;                 /**< kvc: W, copies before a flush returns; 0: the cluster's */
  const kvc_precision *precision;   /**< default of scopes; borrowed; NULL: exact */
  kvc_log_fn log;                   /**< lent until kvc_close; NULL: silent */
  void *log_context;                /**< lent until kvc_close; passed to `log`, never read */
  uint32_t log_level;               /**< lines up to this level; 0: 2, warnings */
  uint32_t resident_summary;        /**< KVC_SUMMARY_*: what sparse attention keeps in RAM of pages on NVMe; counts as memory */
} kvc_store_options;

/** What stays in RAM of a page whose numbers are on NVMe. */
enum {
  KVC_SUMMARY_MEAN = 0, /**< means and scales */
  KVC_SUMMARY_SIGN = 1, /**< the sign plane of the keys too: sharper selection, 1 bit a number */
  KVC_SUMMARY_NONE = 2  /**< nothing: such pages are not selected from */
};

/** Flags of kvc_store_options. */
enum {
  KVC_OPEN_HOST_DRIVEN = 1,   /**< no threads of ours: kvc_store_step does background work; blocking calls step while they wait */
  KVC_OPEN_WAIT = 2,          /**< full: a call that takes a kvc_call waits up to its timeout for room, then it is KVC_ERR_FULL */
  KVC_OPEN_CREATE = 4,        /**< file: make the directory if absent */
  KVC_OPEN_READ_ONLY = 8,     /**< file: change nothing on disk */
  KVC_OPEN_REQUIRE = 16,      /**< kvc: fail now if no node answers; default: open, work locally, join later */
  KVC_OPEN_SECURE = 32,       /**< kvc: encrypt payloads */
  KVC_OPEN_ZERO = 64,         /**< zero memory on release */
  KVC_OPEN_POPULATE = 128,    /**< touch all memory now */
  KVC_OPEN_VERIFY_READS = 256 /**< check sums of pages in RAM on every read, not only when they cross tiers */
};

/** Opens a store: "mem:", "file:DIR" or "kvc://host:port[,host:port...]".  Only "mem:" is built yet, the others are KVC_ERR_UNSUPPORTED.
 * Several stores may be open at once; they share nothing.
 * @param out     given: the store, ended by kvc_close; NULL on failure
 * @param uri     borrowed: which store
 * @param options borrowed: limits and defaults; NULL: all defaults
 * @param error   borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  NOT_FOUND: no such directory.  BUSY: the directory is open elsewhere (the message names the pid that holds it). 
 *         CORRUPT, VERSION: its files.  UNAVAILABLE: no node answers (with KVC_OPEN_REQUIRE).  DENIED: key or tenant.  NO_MEMORY:
 *         memory_bytes could not be reserved.  UNSUPPORTED: this uri or option is not in this build
 * @since 0.1.0 */
KVC_API kvc_status kvc_open(kvc_store **out, const char *uri, const kvc_store_options *options, kvc_error *error);

/** Ends everything of the store: queued calls are cancelled and waited for; sequences, scopes, queues and leases become stale.
 * Not while other threads call: this one race is the host's to avoid.
 * @param store given back: the store; NULL: nothing to do
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  BUSY, and nothing is closed: views or regions are held (the message says how many).  STALE: closed before
 * @since 0.1.0 */
KVC_API kvc_status kvc_close(kvc_store *store, kvc_error *error);

/** Does background work in the calling thread, of a store opened with KVC_OPEN_HOST_DRIVEN.
 * @param more      borrowed: set to 1 if some is left, else 0
 * @param store     borrowed: the store
 * @param budget_us for how long, microseconds; one piece of work may overrun it
 * @param error     borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  MISUSE: the store has threads of its own
 * @since 0.1.0 */
KVC_API kvc_status kvc_store_step(uint32_t *more, kvc_store *store, uint64_t budget_us, kvc_error *error);

/** Makes durable what was sealed before the call: on disk (file:) or on W nodes (kvc:) when it returns.
 * @param store borrowed: the store
 * @param call  borrowed: how to run it; NULL: block
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  UNSUPPORTED: on mem:, which holds nothing durable.  IO, READ_ONLY: the disk.  TIMEOUT: some of it is not there yet
 * @since not built yet: KVC_ERR_UNSUPPORTED */
KVC_API kvc_status kvc_store_flush(kvc_store *store, const kvc_call *call, kvc_error *error);

/** What a store holds.  Numbers are of one moment each, not of one moment together. */
typedef struct kvc_store_info {
  uint32_t size;          /**< sizeof(kvc_store_info), by KVC_INIT */
  uint32_t state;         /**< KVC_STATE_*, bits; 0: all is well */
  uint64_t memory_bytes,  /**< host tier: all of it, as rounded */
      memory_used,        /**< slab bytes in use; free + pinned + evictable = all */
      memory_pinned;      /**< of the used: what leases, open rows and views hold */
  uint64_t nvme_bytes,    /**< disk tier: the cap */
      nvme_used,          /**< disk tier: used */
      device_bytes,       /**< device tier: all of it */
      device_used;        /**< device tier: used */
  uint64_t seq_count,     /**< sequences alive */
      lease_count,        /**< leases of their own alive */
      view_count,         /**< views alive */
      region_count,       /**< regions alive */
      chunk_count,        /**< sealed chunks held */
      object_count;       /**< objects held */
  uint64_t features;      /**< KVC_FEATURE_* that answer on this machine */
} kvc_store_info;

/** What is wrong with a store that still works. */
enum {
  KVC_STATE_DETACHED = 1,       /**< kvc: no node answers */
  KVC_STATE_NVME_READ_ONLY = 2, /**< the disk is full or failing: nothing more is written to it */
  KVC_STATE_DEVICE_LOST = 4     /**< a device stopped answering: its tier is empty */
};

/** Says what a store holds.
 * @param info  borrowed: filled, at most info->size bytes
 * @param store borrowed: the store
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK
 * @since 0.1.0 */
KVC_API kvc_status kvc_store_get_info(kvc_store_info *info, const kvc_store *store, kvc_error *error);

/** What kvc_store_verify found. */
typedef struct kvc_verify_info {
  uint32_t size,        /**< sizeof(kvc_verify_info), by KVC_INIT */
      reserved;         /**< 0 */
  uint64_t pages_read,  /**< pages and objects checked */
      pages_bad,        /**< of them, those that failed and were dropped */
      bytes_read;       /**< bytes checked */
  char first_bad[240];  /**< one line about the first that failed, terminated; empty: none */
} kvc_verify_info;

/** Reads and checks everything held against its sums (XXH3-64 of each section, made when a page was sealed); what is bad is dropped.
 * Runs beside other calls, and takes as long as reading all memory takes.
 * @param info  lent: filled, at most info->size bytes, also when the status is CORRUPT
 * @param store borrowed: the store
 * @param call  borrowed: how to run it; NULL: block
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK: all is right.  CORRUPT: something was not, and is dropped now.  TIMEOUT: info tells how far it came
 * @since 0.1.0 */
KVC_API kvc_status kvc_store_verify(kvc_verify_info *info, kvc_store *store, const kvc_call *call, kvc_error *error);

/** Registers caller memory once (fabric, CUDA pinning) so that rows and objects inside it move without staging.  Optional: nothing else
 * changes.  On mem: it is remembered and nothing moves differently.  Regions that are held do not overlap.
 * @param out       given: the region, ended by kvc_region_release; NULL on failure
 * @param store     borrowed: the store
 * @param data      lent until the region is released
 * @param data_size bytes
 * @param memory    KVC_MEMORY_*
 * @param device    number of the device, for device memory
 * @param error     borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  ARGUMENT: nothing, past the end of memory, or over a region that is held.  FULL: 1048576 regions are held.  NO_MEMORY: over the limit of locked memory
 *         (ulimit -l).  UNSUPPORTED: nothing here could use it, as device memory on a store without a device tier
 * @since 0.1.0 */
KVC_API kvc_status kvc_region_register(kvc_region **out, kvc_store *store, void *data, size_t data_size, uint32_t memory, int32_t device,
                                       kvc_error *error);

/** Ends a registration; the memory is the caller's again.
 * @param region given back: the region; NULL: nothing to do
 * @param error  borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  BUSY: queued calls use it; on mem: never, what is registered there is not used.  STALE: released before
 * @since 0.1.0 */
KVC_API kvc_status kvc_region_release(kvc_region *region, kvc_error *error);

/** Kinds of layers. */
enum {
  KVC_LAYER_FULL = 1,   /**< every token sees all before it; any grouping of heads (Ainslie et al., "GQA", 2023) */
  KVC_LAYER_WINDOW = 2, /**< a token sees the last `window` tokens (Beltagy et al., "Longformer", 2020) */
  KVC_LAYER_LATENT = 3, /**< one shared latent a token and a rope part (MLA: "DeepSeek-V2", 2024) */
  KVC_LAYER_STATE = 4   /**< a recurrent state, kept as snapshots at positions */
};

/** Which channels of a key a rotary embedding turned together (Su et al., "RoFormer", 2021).  kvc never rotates: this is identity only. */
enum {
  KVC_ROPE_UNSTATED = 0, /**< the host does not say: equal to nothing but itself */
  KVC_ROPE_HALVES = 1,   /**< channel d with d + dim/2 (transformers, vLLM) */
  KVC_ROPE_PAIRS = 2,    /**< channel 2d with 2d + 1 (llama.cpp's permuted weights) */
  KVC_ROPE_NONE = 3      /**< keys carry no rotation */
};

/** A run of `count` equal layers.  Frozen.  A uniform model is one run; adjacent equal runs mean the same as one. */
typedef struct kvc_layer {
  uint32_t count;    /**< layers in the run; not 0 */
  uint32_t kind;     /**< KVC_LAYER_* */
  uint32_t kv_heads; /**< latent: 1, in every part, stored once.  state: what TP splits, or 1 */
  uint32_t k_dim,    /**< elements of a key head.  latent: of the latent.  state: bytes a head of the first part */
      v_dim;         /**< elements of a value head.  latent: 0.  state: bytes a head of the second part */
  uint32_t rope_dim; /**< latent: elements of the rope part; others: 0 */
  uint32_t window;   /**< window: tokens seen, the query's own included; others: 0 */
  uint32_t k_dtype,  /**< 0: the shape's.  state: moved as bytes whatever it says, but part of the identity: leave it 0 */
      v_dtype;       /**< 0: the shape's.  latent: v_dtype is the rope part's.  state: as k_dtype */
  uint32_t reserved[3]; /**< 0 */
} kvc_layer;

/** The geometry of a model's cache.  Two hosts share rows only if every member here is equal. */
typedef struct kvc_shape {
  uint32_t size;           /**< sizeof(kvc_shape), by KVC_INIT */
  uint32_t dtype;          /**< stored exactly as; KVC_F16...; no default */
  uint32_t chunk_tokens;   /**< tokens a chunk: multiple of 16, at most 256; 0: 64.  Part of the identity */
  uint32_t rope;           /**< KVC_ROPE_*, order of rotated channels: engines that differ must not share */
  const kvc_layer *layers; /**< borrowed: the runs, from the first layer on */
  uint64_t layer_runs;     /**< entries of `layers`; not 0 */
} kvc_shape;

/** What follows from a shape. */
typedef struct kvc_shape_info {
  uint32_t size;           /**< sizeof(kvc_shape_info), by KVC_INIT */
  uint32_t layer_count;    /**< layers of all runs */
  uint64_t token_bytes,    /**< exact format, all layers: the sum over layers that keep rows of
                                kv_heads * (k_dim * bytes(k_dtype) + v_dim * bytes(v_dtype)); latent: k_dim and rope_dim */
      chunk_bytes,         /**< chunk_tokens * token_bytes: what a chunk's numbers take, headers not counted */
      state_bytes;         /**< one snapshot of all state layers */
  uint8_t fingerprint[32]; /**< SHA-256("kvc shape 1" | u32 dtype, chunk_tokens, rope | u64 runs | for each run u32 count, kind, kv_heads,
                                k_dim, v_dim, rope_dim, window, k_dtype, v_dtype), little-endian, adjacent equal runs merged, defaults
                                filled in: equal in every process, language and machine */
} kvc_shape_info;

/** Validates a shape and computes what follows from it.  Pure: needs no store, any thread.
 * @param info  borrowed: filled, at most info->size bytes; NULL: only validate
 * @param shape borrowed: the shape
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  SHAPE: it is none; the message names the run and the member
 * @since 0.1.0 */
KVC_API kvc_status kvc_shape_check(kvc_shape_info *info, const kvc_shape *shape, kvc_error *error);

/** Whose cache.  Every name is part of every key, byte for byte (no case or Unicode folding), tagged and length-prefixed.
 * Not built yet, KVC_ERR_UNSUPPORTED when set: precision. */
typedef struct kvc_scope_options {
  uint32_t size;                  /**< sizeof(kvc_scope_options), by KVC_INIT */
  uint32_t flags;                 /**< 0 */
  const char *tenant,             /**< borrowed; NULL = "": who may read it */
      *model,                     /**< borrowed; required, not empty: a name that all hosts of the model agree on */
      *revision,                  /**< borrowed; NULL = "": weights and whatever else changes K and V (RoPE base and scaling, overrides) */
      *adapter;                   /**< borrowed; NULL = "": LoRA or the like */
  const void *salt;               /**< borrowed; NULL with size 0: none.  Bytes that keep others from probing what is cached */
  uint64_t salt_size;             /**< bytes */
  const kvc_shape *shape;         /**< borrowed; NULL: objects only */
  uint64_t bytes_max;             /**< quota, bytes of RAM; 0: none.  Counted are chunks and objects with their headers, from the first open row
                                       on.  A scope at its quota evicts what it used least recently, nothing of others; KVC_ERR_FULL when all
                                       that is left is open or held.  Below the quota nothing is guaranteed: the store evicts what was used
                                       least recently of all */
  uint64_t ttl_ms;                /**< unused for so long, milliseconds: no call finds it any more, and it is dropped by whoever looks into the
                                       scope first, needs room, or does background work (kvc_store_step; no thread wakes for it, so that
                                       what nobody asks for may stay); 0: never.  It may be found for up to a tenth longer.  Uses are put,
                                       get, exists, match (but KVC_SEQ_PEEK), every call on a sequence, its release; what is held stays,
                                       but a lease is no use.  A longer prompt's use is one of all its chunks */
  const kvc_precision *precision; /**< borrowed; NULL: the store's */
} kvc_scope_options;

/** What a scope holds and what became of it. */
typedef struct kvc_scope_info {
  uint32_t size,               /**< sizeof(kvc_scope_info), by KVC_INIT */
      reserved;                /**< 0 */
  uint64_t bytes_device,       /**< held in device memory */
      bytes_host,              /**< held in RAM */
      bytes_nvme,              /**< held on disk */
      bytes_remote,            /**< held on other machines */
      bytes_max;               /**< the quota; 0: none */
  uint64_t chunk_count,        /**< sealed chunks held */
      object_count,            /**< objects held */
      seq_count,               /**< sequences alive */
      hit_tokens,              /**< tokens that matches found, since the scope exists */
      miss_tokens;             /**< tokens that matches asked for and did not find */
  uint64_t tokens_written,     /**< accounting, since the scope exists: tokens appended */
      tokens_read;             /**< tokens gathered */
  double byte_seconds_device,  /**< bytes held x seconds, in device memory */
      byte_seconds_host,       /**< in RAM */
      byte_seconds_nvme,       /**< on disk */
      byte_seconds_remote;     /**< on other machines */
  uint8_t fingerprint[32];     /**< scope and shape together: SHA-256("kvc scope 1" | for tenant, model, revision, adapter, salt: u8 tag
                                    1..5, u64 length, bytes | the shape's fingerprint, without a shape 32 zero bytes) */
} kvc_scope_info;

/** Makes a scope, or joins it.  Cheap; the same names, salt and shape give an equal scope.  Creating it again with other limits (bytes_max,
 * ttl_ms, precision) changes them for all; 0 takes a limit away.  A quota below what is held is accepted: what nobody holds goes before the
 * call returns, the rest when it was let go and the scope needs room.  With its first ttl_ms what a scope holds counts as used now.  The
 * first limit of a scope that holds something already looks once at everything the store holds; rows that are open then count when they
 * are sealed.
 * @param out     given: the scope, ended by kvc_scope_release; NULL on failure
 * @param store   borrowed: the store
 * @param options borrowed: names, shape, limits; model is required
 * @param error   borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  SHAPE: as kvc_shape_check.  FULL: too many scopes.  DENIED: the store is of another tenant
 * @since 0.1.0 */
KVC_API kvc_status kvc_scope_create(kvc_scope **out, kvc_store *store, const kvc_scope_options *options, kvc_error *error);

/** Says what a scope holds.
 * @param info  borrowed: filled, at most info->size bytes
 * @param scope borrowed: the scope
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK
 * @since 0.1.0 */
KVC_API kvc_status kvc_scope_get_info(kvc_scope_info *info, const kvc_scope *scope, kvc_error *error);

/** Drops all chunks and objects of the scope, on every tier and node.  Nobody finds any of them from then on: a match gives 0 tokens, a get
 * NOT_FOUND.  What nobody holds goes at once.  What a sequence or a lease holds goes with the last of them: they read on, and what such a
 * sequence seals behind the cleared chunks has no name either.  Open rows stay.  Other scopes are untouched.
 * Takes a look at everything the store holds (some nanoseconds each) and about a microsecond for each thing dropped, other calls waiting.
 * @param result lent: filled; done: chunks and objects that went at once; bytes: the room they took; NULL: not wanted
 * @param scope  borrowed: the scope
 * @param call   borrowed: how to run it; NULL: block
 * @param error  borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  UNAVAILABLE, TIMEOUT: some nodes have not heard of it yet
 * @since 0.1.0 */
KVC_API kvc_status kvc_scope_clear(kvc_result *result, kvc_scope *scope, const kvc_call *call, kvc_error *error);

/** Ends the handle.  The scope's sequences live on, and what it stored stays.
 * @param scope given back: the scope; NULL: nothing to do
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  STALE: released before
 * @since 0.1.0 */
KVC_API kvc_status kvc_scope_release(kvc_scope *scope, kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif

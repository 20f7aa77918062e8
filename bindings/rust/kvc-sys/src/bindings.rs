// Written by bindings/generate from the C headers: change those, and run it again.

//! The declarations of the C headers, with their comments.

use core::ffi::{c_char, c_int, c_void};
use core::marker::{PhantomData, PhantomPinned};

/// `KVC_VERSION_MAJOR` of the C headers.
pub const KVC_VERSION_MAJOR: u32 = 0;

/// `KVC_VERSION_MINOR` of the C headers.
pub const KVC_VERSION_MINOR: u32 = 1;

/// `KVC_VERSION_PATCH` of the C headers.
pub const KVC_VERSION_PATCH: u32 = 0;

/// `KVC_ALL` of the C headers.
pub const KVC_ALL: u64 = 0xFFFF_FFFF_FFFF_FFFF;

/// `KVC_FOREVER` of the C headers.
pub const KVC_FOREVER: u64 = 0xFFFF_FFFF_FFFF_FFFF;

/// it is done, wholly
pub const KVC_OK: i32 = 0;

/// zero, NULL, unknown constant, overflow, overlapping elements
pub const KVC_ERR_ARGUMENT: i32 = -10;

/// layer, head, position past what there is; a gap in an append
pub const KVC_ERR_RANGE: i32 = -11;

/// geometry, dtype or layout does not fit the scope's shape
pub const KVC_ERR_SHAPE: i32 = -12;

/// a struct or flag of a later header: bytes past what this library knows are not zero
pub const KVC_ERR_TOO_NEW: i32 = -13;

/// foreign handle, two writers, a call its object cannot take
pub const KVC_ERR_MISUSE: i32 = -20;

/// released handle, closed store
pub const KVC_ERR_STALE: i32 = -21;

/// handle of the parent process
pub const KVC_ERR_FORKED: i32 = -22;

/// no such name, key, node, file
pub const KVC_ERR_NOT_FOUND: i32 = -30;

/// rows no longer held: evicted after a lapse, outside a window, failed their check
pub const KVC_ERR_GONE: i32 = -31;

/// name taken by other content
pub const KVC_ERR_EXISTS: i32 = -32;

/// a file or directory is damaged; nothing of it was used
pub const KVC_ERR_CORRUPT: i32 = -33;

/// a state layer holds no snapshot at that position
pub const KVC_ERR_NO_SNAPSHOT: i32 = -34;

/// a limit of kvc_open, of the scope's quota, of the budget's floors. KVC_RETRY_LATER; KVC_RETRY_NEVER when the call alone needs more than the limit
pub const KVC_ERR_FULL: i32 = -40;

/// the system refused memory
pub const KVC_ERR_NO_MEMORY: i32 = -41;

/// held: views at close, directory locked, queue full
pub const KVC_ERR_BUSY: i32 = -42;

/// the tier stopped taking writes (full or failing disk)
pub const KVC_ERR_READ_ONLY: i32 = -43;

/// node, device or driver not there now
pub const KVC_ERR_UNAVAILABLE: i32 = -50;

/// the call's deadline passed
pub const KVC_ERR_TIMEOUT: i32 = -51;

/// kvc_queue_cancel or kvc_close
pub const KVC_ERR_CANCELLED: i32 = -52;

/// wrong key or tenant
pub const KVC_ERR_DENIED: i32 = -53;

/// this backend, build, format or memory kind cannot; the call changed nothing
pub const KVC_ERR_UNSUPPORTED: i32 = -60;

/// file, directory or peer of another version
pub const KVC_ERR_VERSION: i32 = -61;

/// error-\>system_error is the errno
pub const KVC_ERR_IO: i32 = -70;

/// error-\>system_error is the driver's code
pub const KVC_ERR_DEVICE: i32 = -71;

/// a check inside the library failed; nothing stored is in doubt, please report the message
pub const KVC_ERR_INTERNAL: i32 = -90;

/// the same call will fail again
pub const KVC_RETRY_NEVER: u32 = 0;

/// the same call may succeed at once
pub const KVC_RETRY_NOW: u32 = 1;

/// the same call may succeed after a pause or after something was released
pub const KVC_RETRY_LATER: u32 = 2;

/// the data is gone: compute it and append it
pub const KVC_RETRY_RECOMPUTE: u32 = 3;

/// device memory
pub const KVC_FEATURE_CUDA: u64 = 1;

/// kvc: stores, over libfabric
pub const KVC_FEATURE_FABRIC: u64 = 2;

/// file: stores through io_uring (without it: plain system calls, the same contract)
pub const KVC_FEATURE_URING: u64 = 4;

/// clusters whose map is in etcd
pub const KVC_FEATURE_ETCD: u64 = 8;

/// IEEE 754 binary32, 4 bytes
pub const KVC_F32: u32 = 1;

/// IEEE 754 binary16, 2 bytes
pub const KVC_F16: u32 = 2;

/// the upper half of a binary32, 2 bytes
pub const KVC_BF16: u32 = 3;

/// 8-bit float, 4 exponent bits, finite (Micikevicius et al., "FP8 Formats for Deep Learning", 2022), 1 byte
pub const KVC_F8_E4M3: u32 = 4;

/// raw bytes, never converted
pub const KVC_U8: u32 = 5;

/// ordinary memory of this process
pub const KVC_MEMORY_HOST: u32 = 0;

/// memory of a CUDA device. Not built yet: KVC_ERR_UNSUPPORTED
pub const KVC_MEMORY_CUDA: u32 = 1;

/// pinned host memory of CUDA. Not built yet: KVC_ERR_UNSUPPORTED
pub const KVC_MEMORY_CUDA_HOST: u32 = 2;

/// CUDA managed memory. Not built yet: KVC_ERR_UNSUPPORTED
pub const KVC_MEMORY_CUDA_MANAGED: u32 = 3;

/// memory of a device of this machine
pub const KVC_TIER_DEVICE: u32 = 1;

/// RAM of this machine
pub const KVC_TIER_HOST: u32 = 2;

/// a directory of this machine
pub const KVC_TIER_NVME: u32 = 3;

/// another machine
pub const KVC_TIER_REMOTE: u32 = 4;

/// queued: may be held back until kvc_queue_submit, to start many as one disk and one network batch
pub const KVC_CALL_MORE: u32 = 1;

/// do not ask other machines: what is remote is absent
pub const KVC_CALL_LOCAL: u32 = 2;

/// do not touch disk either
pub const KVC_CALL_HOT: u32 = 4;

/// prefetch only, without a queue: wait for nothing; nobody hears of what does not arrive
pub const KVC_CALL_DETACH: u32 = 8;

/// kvc_append
pub const KVC_OP_APPEND: u32 = 1;

/// kvc_gather
pub const KVC_OP_GATHER: u32 = 2;

/// kvc_match
pub const KVC_OP_MATCH: u32 = 3;

/// kvc_attend
pub const KVC_OP_ATTEND: u32 = 4;

/// kvc_select
pub const KVC_OP_SELECT: u32 = 5;

/// kvc_seq_prefetch
pub const KVC_OP_PREFETCH: u32 = 6;

/// kvc_seq_lease
pub const KVC_OP_LEASE: u32 = 7;

/// kvc_seq_observe
pub const KVC_OP_OBSERVE: u32 = 8;

/// kvc_seq_publish
pub const KVC_OP_PUBLISH: u32 = 9;

/// kvc_seq_attach
pub const KVC_OP_ATTACH: u32 = 10;

/// kvc_seq_save
pub const KVC_OP_SAVE: u32 = 11;

/// kvc_seq_restore
pub const KVC_OP_RESTORE: u32 = 12;

/// kvc_store_flush
pub const KVC_OP_FLUSH: u32 = 13;

/// kvc_store_verify
pub const KVC_OP_VERIFY: u32 = 14;

/// kvc_object_put
pub const KVC_OP_OBJECT_PUT: u32 = 15;

/// kvc_object_get
pub const KVC_OP_OBJECT_GET: u32 = 16;

/// kvc_object_exists
pub const KVC_OP_OBJECT_EXISTS: u32 = 17;

/// kvc_object_delete
pub const KVC_OP_OBJECT_DELETE: u32 = 18;

/// kvc_object_list
pub const KVC_OP_OBJECT_LIST: u32 = 19;

/// kvc_scope_clear
pub const KVC_OP_SCOPE_CLEAR: u32 = 20;

/// the bits that were appended
pub const KVC_FORMAT_EXACT: u32 = 1;

/// 8 bits: one scale per head and page. Not built yet: KVC_ERR_UNSUPPORTED
pub const KVC_FORMAT_F8_E4M3: u32 = 2;

/// 8 bits: symmetric, scale = max\|x\| / 127 per token and head. Not built yet: KVC_ERR_UNSUPPORTED
pub const KVC_FORMAT_INT8: u32 = 3;

/// 4 bits: K per channel, V per token in groups of 64 (Liu et al., "KIVI", 2024). Not built yet: KVC_ERR_UNSUPPORTED
pub const KVC_FORMAT_INT4_G64: u32 = 4;

/// 1 to 4 bits: rotated (Ashkboos et al., "QuaRot", 2024) and cut into planes, so that a narrower read is a shorter read. Not built yet: KVC_ERR_UNSUPPORTED
pub const KVC_FORMAT_PLANES: u32 = 5;

/// the floor is 1 plane, not 2
pub const KVC_PRECISION_ONE_BIT: u32 = 1;

/// `KVC_NONE` of the C headers.
pub const KVC_NONE: u32 = 0xFFFF_FFFF;

/// means and scales
pub const KVC_SUMMARY_MEAN: u32 = 0;

/// the sign plane of the keys too: sharper selection, 1 bit a number
pub const KVC_SUMMARY_SIGN: u32 = 1;

/// nothing: such pages are not selected from
pub const KVC_SUMMARY_NONE: u32 = 2;

/// no threads of ours: kvc_store_step does background work; blocking calls step while they wait
pub const KVC_OPEN_HOST_DRIVEN: u32 = 1;

/// full: a call that takes a kvc_call waits up to its timeout for room, then it is KVC_ERR_FULL
pub const KVC_OPEN_WAIT: u32 = 2;

/// file: make the directory if absent
pub const KVC_OPEN_CREATE: u32 = 4;

/// file: change nothing on disk
pub const KVC_OPEN_READ_ONLY: u32 = 8;

/// kvc: fail now if no node answers; default: open, work locally, join later
pub const KVC_OPEN_REQUIRE: u32 = 16;

/// kvc: encrypt payloads
pub const KVC_OPEN_SECURE: u32 = 32;

/// zero memory on release
pub const KVC_OPEN_ZERO: u32 = 64;

/// touch all memory now
pub const KVC_OPEN_POPULATE: u32 = 128;

/// check sums of pages in RAM on every read, not only when they cross tiers
pub const KVC_OPEN_VERIFY_READS: u32 = 256;

/// kvc: no node answers
pub const KVC_STATE_DETACHED: u32 = 1;

/// the disk is full or failing: nothing more is written to it
pub const KVC_STATE_NVME_READ_ONLY: u32 = 2;

/// a device stopped answering: its tier is empty
pub const KVC_STATE_DEVICE_LOST: u32 = 4;

/// every token sees all before it; any grouping of heads (Ainslie et al., "GQA", 2023)
pub const KVC_LAYER_FULL: u32 = 1;

/// a token sees the last `window` tokens (Beltagy et al., "Longformer", 2020)
pub const KVC_LAYER_WINDOW: u32 = 2;

/// one shared latent a token and a rope part (MLA: "DeepSeek-V2", 2024)
pub const KVC_LAYER_LATENT: u32 = 3;

/// a recurrent state, kept as snapshots at positions
pub const KVC_LAYER_STATE: u32 = 4;

/// the host does not say: equal to nothing but itself
pub const KVC_ROPE_UNSTATED: u32 = 0;

/// channel d with d + dim/2 (transformers, vLLM)
pub const KVC_ROPE_HALVES: u32 = 1;

/// channel 2d with 2d + 1 (llama.cpp's permuted weights)
pub const KVC_ROPE_PAIRS: u32 = 2;

/// keys carry no rotation
pub const KVC_ROPE_NONE: u32 = 3;

/// never matched by others; token ids optional, for hosts that do not know them: before their rows, or never
pub const KVC_SEQ_PRIVATE: u32 = 1;

/// match: estimate, but do not shorten
pub const KVC_SEQ_NO_CUT: u32 = 2;

/// match: only info; no sequence, no lease, no use counted (routers)
pub const KVC_SEQ_PEEK: u32 = 4;

/// every whole chunk of the tokens
pub const KVC_STOP_END: u32 = 0;

/// the next chunk is not held
pub const KVC_STOP_ABSENT: u32 = 1;

/// rows of a window layer are missing behind a later end
pub const KVC_STOP_WINDOW: u32 = 2;

/// no snapshot at a later end
pub const KVC_STOP_STATE: u32 = 3;

/// recomputing is faster
pub const KVC_STOP_COST: u32 = 4;

/// the next chunk is on a node that does not answer
pub const KVC_STOP_UNREACHABLE: u32 = 5;

/// the deadline passed
pub const KVC_STOP_DEADLINE: u32 = 6;

/// the conversation is over: from its release on its chunks are the first to go, the last of them first, up to one that others hold, go on from or used since. Priority does not count
pub const KVC_HINT_DONE: u32 = 1;

/// put: all items become visible together or none
pub const KVC_OBJECT_GROUP: u32 = 1;

/// get, exists: stop at the first item that is not OK
pub const KVC_OBJECT_LEADING: u32 = 2;

/// exists: hold what is found; blocking calls need `result` to receive it
pub const KVC_OBJECT_LEASE: u32 = 4;

/// the stored bytes as KVC_U8: the 512 header bytes in k, the sections in v
pub const KVC_VIEW_FRAME: u32 = 1;

/// it became visible
pub const KVC_EVENT_STORED: u32 = 1;

/// it is gone from tier_from
pub const KVC_EVENT_REMOVED: u32 = 2;

/// it went from tier_from to tier_to
pub const KVC_EVENT_MOVED: u32 = 4;

/// its scope was cleared: everything of it is gone
pub const KVC_EVENT_CLEARED: u32 = 8;

/// some were dropped: resynchronise
pub const KVC_EVENT_LOST: u32 = 16;

/// it answers
pub const KVC_NODE_UP: u32 = 1;

/// it takes its share over; reads may miss there
pub const KVC_NODE_JOINING: u32 = 2;

/// it gives its share away
pub const KVC_NODE_DRAINING: u32 = 3;

/// it does not answer
pub const KVC_NODE_DOWN: u32 = 4;

/// 0 or negative.  Values are pinned and never reused.
pub type kvc_status = i32;

/// one cache. Any thread, any time; only kvc_close must be alone
#[repr(C)]
#[derive(Debug)]
pub struct kvc_store {
    opaque: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// whose cache, of which shape: the namespace of prefixes and objects. Any thread, any time
#[repr(C)]
#[derive(Debug)]
pub struct kvc_scope {
    opaque: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// an ordered run of tokens. `const kvc_seq *`: beside others of its kind; `kvc_seq *`: alone
#[repr(C)]
#[derive(Debug)]
pub struct kvc_seq {
    opaque: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// results of calls that do not block. Any thread, any time
#[repr(C)]
#[derive(Debug)]
pub struct kvc_queue {
    opaque: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// a hold on tokens or objects that outlives its sequence. Any thread, any time
#[repr(C)]
#[derive(Debug)]
pub struct kvc_lease {
    opaque: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// a page lent in place
#[repr(C)]
#[derive(Debug)]
pub struct kvc_view {
    opaque: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// registered memory of the host. Any thread, any time
#[repr(C)]
#[derive(Debug)]
pub struct kvc_region {
    opaque: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Where log lines go, the only callback of this library, which writes nothing to stdout or stderr.  Called on any thread of kvc, also on one
/// that is inside a call; it must not call kvc and should not block.  Lines are about: a store opened and closed (3); refusals for want of
/// memory (memory_bytes) and by a quota, leases that lapsed, events that were dropped (2); checks that failed, traces that could not be written (1).  Of one
/// cause there is one line in ten seconds: the next says how many came between, the close how many came since.  `level` is 1 error,
/// 2 warning, 3 information, 4 debugging; `line` is borrowed, one line without its end; `context` is kvc_store_options.log_context.
pub type kvc_log_fn =
    Option<unsafe extern "C" fn(level: u32, line: *const c_char, context: *mut c_void)>;

/// Why a call failed.  Caller-owned, reusable, last parameter of every call, may be NULL there: it is borrowed, so one on the stack will
/// do. KVC_INIT it once: with size 0 nothing is written, and what the stack
/// held there is taken for a size.  It is written on failure only: look at the returned status
/// first, a success leaves what an earlier failure wrote.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_error {
    /// sizeof(kvc_error), by KVC_INIT
    pub size: u32,
    /// what the call returned
    pub status: kvc_status,
    /// KVC_RETRY_\*
    pub retry: u32,
    /// 0, errno, or a driver's code
    pub system_error: i32,
    /// one line, UTF-8, terminated: the value and the rule it broke. For people: its wording may change
    pub message: [c_char; 240],
}

/// One array in the caller's memory: where the elements of K, or of V, or of a query lie.  Frozen.
///
/// The element (layer l, slot s, head h, dim d) lies at
///
/// ```text
///     data + l*layer_stride + block(s)*block_stride + in_block(s)*token_stride + h*head_stride + d*dim_stride
/// ```
///
/// in bytes; l and h count from the run's first layer and head.  Without a block table block(s) = 0 and in_block(s) = s; with one
/// block(s) = blocks\[s / block_tokens\] and in_block(s) = s mod block_tokens.
/// A stride of 0 is the packed one: the size of everything inside it, in the order block \> token \> head \> dim; layer_stride has no
/// default when a run has several layers.  No element may lie outside \[data, data + bytes): refused, with the bytes needed and the stride
/// that reaches farthest.  No two elements of an array may share an address, in append and gather alike: refused, with the stride's name.
/// Of a destination it is refused too that a touched block stands twice in the table, and that K and V, or runs of one call, overlap; a
/// source may do both.  Host memory needs no alignment.  A layout is declared, never inferred from sizes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_array {
    /// lent; NULL: this part is not moved. Host or device address, as kvc_rows.memory says
    pub data: *mut c_void,
    /// extent of the memory at `data`; no element may end past it
    pub bytes: u64,
    /// bytes from a layer to the next: of the capacity, not of the length. No default with several layers
    pub layer_stride: u64,
    /// bytes from a block to the next; 0: packed
    pub block_stride: u64,
    /// bytes from a slot to the next in its block; 0: packed
    pub token_stride: u64,
    /// bytes from a head to the next; 0: packed
    pub head_stride: u64,
    /// bytes from a dim (with dim_group: from a group of dims) to the next; 0: packed
    pub dim_stride: u64,
    /// KVC_F32...; converted from and to the stored one. Memory cannot tell what it holds, so that a wrong dtype is not noticed: leave 0, the shape's, unless the array differs from it. F32, F16 and BF16 become each other: rounded to nearest, ties to even, past the largest to infinity, NaN stays NaN; F8 and U8 only themselves
    pub dtype: u32,
    /// elements of a head that lie together: d is d/group\*dim_stride + d%group\*e; 0: 1
    pub dim_group: u32,
}

/// THE description of rows: which (layers x heads x tokens) and where they lie.  One struct for append, gather, prefetch, view.
/// A call takes an array of them: one for a uniform block, one per layer for per-layer pointers, one per group for hybrid models.
///
/// ```text
///   what lies where                                        k / v
///   packed, tokens first                                    data and layer_stride (the capacity's, not the length's)
///   transformers [batch, heads, tokens, dim]                data at the batch row; head_stride = tokens*dim*e, token_stride = dim*e
///   vLLM NHD pool [2, blocks, 16, heads, dim]               block_tokens 16, blocks = block table, block_stride; v.data = k.data + half
///   vLLM HND pool [blocks, 2, heads, 16, dim]               the same with head_stride > token_stride; block_stride spans K and V
///   vLLM split K [blocks, heads, dim/x, 16, x]               k.dim_group = x, k.dim_stride = 16*x*e, k.token_stride = x*e
///   SGLang layer_first [2, layers, slots, heads, dim]       block_tokens 1, blocks = slot indices, block_stride = heads*dim*e
///   SGLang page_first [2, slots, layers, heads, dim]        the same, layer_stride < block_stride
///   llama.cpp state, flash attention                        K and V rows; layer_stride = 12 + cells*row
///   llama.cpp state, V transposed [channel][cell]           v.token_stride = e, v.dim_stride = cells*e, v.head_stride = dim*cells*e
///   packed K|V per head or per row                          v.data = k.data + offset, the same strides in both
///   latent (MLA) row [latent | rope]                        k only, k_dim + rope_dim elements; or k = latent, v = rope part
///   state snapshot                                          k (and v, the second part): bytes, one row for the whole token range
///   cells out of order, slots scattered                     block_tokens 1, blocks = cell of each token, block_stride per side
/// ```
///
/// (e = bytes of an element.)  Registered memory (kvc_region) needs nothing here: it is recognised by address.
///
/// ALL LAYERS IN ONE POOL - f16 \[layers\]\[K, V\]\[blocks\]\[16\]\[heads\]\[dim\]; the sequence lies in the blocks of `table`, 16 tokens in each
///
/// ```text
///     static kvc_rows rows_of_pool(void *pool, const int32_t *table, uint64_t table_count, uint64_t begin, uint64_t count) {
///       const uint64_t block = 16 * HEADS * DIM * sizeof(uint16_t), side = BLOCKS * block;  // bytes
///       kvc_rows rows;
///       KVC_INIT(&rows);
///       rows.layer_count = LAYERS;
///       rows.token_begin = rows.slot_begin = begin;  // equal: the table is of the whole sequence
///       rows.token_count = count;
///       rows.block_tokens = 16, rows.blocks = table, rows.block_count = table_count;
///       rows.k.data = pool;
///       rows.k.bytes = LAYERS * 2 * side;
///       rows.v.data = (char *)pool + side;
///       rows.v.bytes = LAYERS * 2 * side - side;  // from v.data to the end of the pool
///       rows.k.layer_stride = rows.v.layer_stride = 2 * side;
///       rows.k.block_stride = rows.v.block_stride = block;
///       return rows;
///     }
/// ```
///
/// Every stride and every extent counts bytes from that side's `data`: token t of layer l has its K at k.data + l\*layer_stride +
/// table\[t / 16\]\*block_stride + t % 16\*token_stride, and its V at the same distance from v.data.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_rows {
    /// sizeof(kvc_rows), by KVC_INIT; in an array: of the first element, the stride of all
    pub size: u32,
    /// 0
    pub flags: u32,
    /// first layer of the run; absolute, of the whole model
    pub layer_begin: u32,
    /// layers of one kind and geometry; no default: 0 is refused
    pub layer_count: u32,
    /// first KV head; of the whole model, not of the part
    pub head_begin: u32,
    /// KV heads; 0: all of the sequence's part
    pub head_count: u32,
    /// first position
    pub token_begin: u64,
    /// positions; no default: 0 is refused, skip the call; gather, prefetch: KVC_ALL = to filled(layer)
    pub token_count: u64,
    /// gather, prefetch: token_count entries instead; entry e = tokens \[e\*unit, (e+1)\*unit); borrowed
    pub token_list: *const u64,
    /// tokens an entry of token_list stands for; 0: 1; 16 for what kvc_select returns
    pub token_unit: u32,
    /// slots a block; 0: no block table
    pub block_tokens: u32,
    /// slot s lies in block blocks\[s / block_tokens\]; borrowed; negative: refused if touched
    pub blocks: *const i32,
    /// entries of `blocks`
    pub block_count: u64,
    /// the i-th token asked for uses slot slot_begin + i (its position, for a table of the whole sequence)
    pub slot_begin: u64,
    /// the keys; latent: the latent and, without v, the rope part; state: the first part
    pub k: kvc_array,
    /// the values; latent: the rope part; state: the second part
    pub v: kvc_array,
    /// KVC_MEMORY_\*; declared, checked where the system can tell
    pub memory: u32,
    /// number of the device, for device memory
    pub device: i32,
    /// device memory: work is ordered in this stream; the call returns when it is enqueued, the memory stays lent until the stream has passed it; no other synchronisation. NULL: the device's default stream
    pub stream: *mut c_void,
    /// F8: number = code \* scale; one per (layer, head) of the run, layers first; NULL: 1; borrowed. Not built yet, KVC_ERR_UNSUPPORTED when set: F8 rows are moved as they stand
    pub k_scale: *const f32,
    /// the same for the values
    pub v_scale: *const f32,
}

/// How to run a call; NULL: block, with the store's default timeout.
///
/// With a queue the call only starts the work: KVC_OK promises exactly one kvc_result in that queue; anything else promises none.
/// Structs, lists, block tables and keys are copied before it returns; arrays, tokens, values, items and info structs are lent until the
/// result is drained; where a call gives a handle, `out` itself must be NULL: it comes in the result.
/// When a call has returned or its result was drained - done, failed, late or cancelled - nothing touches the lent memory any more (device
/// memory with a stream: once the stream has passed).  Queued calls on one sequence act as if run in the order they were made.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_call {
    /// sizeof(kvc_call), by KVC_INIT
    pub size: u32,
    /// KVC_CALL_\*
    pub flags: u32,
    /// microseconds from now; 0: the store's default; KVC_FOREVER: no deadline
    pub timeout_us: u64,
    /// borrowed; NULL: block
    pub queue: *mut kvc_queue,
    /// returned in the result, names the call for kvc_queue_cancel
    pub user: u64,
    /// trace id of spans, here and on the shards: upper half
    pub trace_high: u64,
    /// lower half; both 0: none
    pub trace_low: u64,
}

/// What came of a call.  Blocking calls fill one when given; a queue delivers one per queued call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_result {
    /// sizeof(kvc_result), by KVC_INIT
    pub size: u32,
    /// what the call came to
    pub status: kvc_status,
    /// kvc_call.user
    pub user: u64,
    /// KVC_OP_\*
    pub operation: u32,
    /// KVC_RETRY_\*
    pub retry: u32,
    /// rows: the position below which every run is right (lists: leading entries). Objects: leading items. Match: the length. An append of ids alone: 0. On failure this is the usable part; past it the named destination is unspecified
    pub done: u64,
    /// moved to or from caller memory
    pub bytes: u64,
    /// of them, those that lay in device memory
    pub bytes_device: u64,
    /// in RAM here
    pub bytes_host: u64,
    /// on disk here
    pub bytes_nvme: u64,
    /// on other machines
    pub bytes_remote: u64,
    /// from the start of the call, microseconds
    pub elapsed_us: u64,
    /// given: queued match, attach, restore; otherwise NULL
    pub seq: *mut kvc_seq,
    /// given: queued kvc_seq_lease; kvc_object_exists with LEASE, queued or not; otherwise NULL
    pub lease: *mut kvc_lease,
    /// 0, errno, or a driver's code
    pub system_error: i32,
    /// one line, terminated: of kvc_error.message what fits; empty unless status \< 0
    pub message: [c_char; 124],
}

/// How numbers are held.  Exact is the default: nothing is rounded unless a precision is set.  On a scope it is a floor for all; on a
/// sequence it governs the pages that sequence alone holds and is a wish for shared ones, which are as wide as their widest holder asks.
/// Not built yet: a precision that is set is KVC_ERR_UNSUPPORTED; pages are exact.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_precision {
    /// sizeof(kvc_precision), by KVC_INIT
    pub size: u32,
    /// KVC_PRECISION_\*
    pub flags: u32,
    /// KVC_FORMAT_\*; 0: EXACT. PLANES with bytes_max: width per page x KV head x {K, V} follows importance
    pub format: u32,
    /// PLANES: most planes kept, 1..4; 0: 4
    pub planes: u32,
    /// of what it is set on: sequence, scope, store; 0: no budget. Below the floors: KVC_ERR_FULL, naming the least
    pub bytes_max: u64,
    /// exact at the front; 0: 4. KVC_NONE: none
    pub sink_tokens: u32,
    /// exact at the end; 0: 128. KVC_NONE: none
    pub recent_tokens: u32,
    /// layers held exact; borrowed; NULL with count 0: none
    pub exact_layers: *const u32,
    /// entries of exact_layers
    pub exact_layer_count: u64,
}

/// Limits and defaults of a store.  All zero is a good start: a quarter of the machine's memory, nothing else.
/// Built: memory_bytes, seq_max, queue_max, view_max, worker_count, open_bytes_max, timeout_us, lease_ms, log, log_context, log_level and the flags
/// KVC_OPEN_HOST_DRIVEN, KVC_OPEN_WAIT, KVC_OPEN_ZERO, KVC_OPEN_POPULATE, KVC_OPEN_VERIFY_READS.
/// Not built yet, KVC_ERR_UNSUPPORTED when set: all other members and flags.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_store_options {
    /// sizeof(kvc_store_options), by KVC_INIT
    pub size: u32,
    /// KVC_OPEN_\*
    pub flags: u32,
    /// host tier, reserved at once, touched on use; rounded up to 2 MiB; 0: 1/4 of the machine (cgroup); kvc: 0: thin client
    pub memory_bytes: u64,
    /// hard cap of the directory; 0: 4/5 of what is free
    pub nvme_bytes: u64,
    /// per device; 0: no device tier
    pub device_bytes: u64,
    /// sequences at once; 0: 4096
    pub seq_max: u32,
    /// queues at once; 0: 64
    pub queue_max: u32,
    /// views at once; 0: 4096
    pub view_max: u32,
    /// threads of kvc, from the first queue on; 0: min(4, cores); at most 1024
    pub worker_count: u32,
    /// chunks not yet sealed, over all sequences; 0: memory_bytes / 4. One open row takes the room of a whole chunk, so sequences with open rows x (kvc_shape_info.chunk_bytes + 512 bytes a layer + up to 6 KiB) must fit; forks share until one writes; a prefill that comes layer by layer holds all its chunks open until its last layer. Prefills that do not fit side by side can wait for each other until their timeouts: admit no more of them than fit
    pub open_bytes_max: u64,
    /// default of every call, microseconds; 0: 30 s
    pub timeout_us: u64,
    /// default of sequences and leases, milliseconds; 0: 10 s
    pub lease_ms: u64,
    /// kvc: microseconds; 0: 2 s
    pub connect_timeout_us: u64,
    /// kvc: NVMe tier in front of the shards; NULL: none; borrowed
    pub directory: *const c_char,
    /// kvc: who we are; borrowed
    pub tenant: *const c_char,
    /// kvc: pre-shared key file, mode 0600; borrowed
    pub key_file: *const c_char,
    /// kvc: mutual certificates instead: ours; borrowed
    pub certificate_file: *const c_char,
    /// kvc: who signs theirs; borrowed
    pub authority_file: *const c_char,
    /// kvc: libfabric preference list; borrowed; NULL: "efa,verbs;ofi_rxm,tcp,tcp;ofi_rxm"
    pub providers: *const c_char,
    /// kvc: R, copies of a chunk; 0: the cluster's
    pub copies: u32,
    /// kvc: W, copies before a flush returns; 0: the cluster's
    pub copies_acked: u32,
    /// default of scopes; borrowed; NULL: exact
    pub precision: *const kvc_precision,
    /// lent until kvc_close; NULL: silent
    pub log: kvc_log_fn,
    /// lent until kvc_close; passed to `log`, never read
    pub log_context: *mut c_void,
    /// lines up to this level; 0: 2, warnings
    pub log_level: u32,
    /// KVC_SUMMARY_\*: what sparse attention keeps in RAM of pages on NVMe; counts as memory
    pub resident_summary: u32,
}

/// What a store holds.  Numbers are of one moment each, not of one moment together.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_store_info {
    /// sizeof(kvc_store_info), by KVC_INIT
    pub size: u32,
    /// KVC_STATE_\*, bits; 0: all is well
    pub state: u32,
    /// host tier: all of it, as rounded
    pub memory_bytes: u64,
    /// slab bytes in use; free + pinned + evictable = all
    pub memory_used: u64,
    /// of the used: what leases, open rows and views hold
    pub memory_pinned: u64,
    /// disk tier: the cap
    pub nvme_bytes: u64,
    /// disk tier: used
    pub nvme_used: u64,
    /// device tier: all of it
    pub device_bytes: u64,
    /// device tier: used
    pub device_used: u64,
    /// sequences alive
    pub seq_count: u64,
    /// leases of their own alive
    pub lease_count: u64,
    /// views alive
    pub view_count: u64,
    /// regions alive
    pub region_count: u64,
    /// sealed chunks held
    pub chunk_count: u64,
    /// objects held
    pub object_count: u64,
    /// KVC_FEATURE_\* that answer on this machine
    pub features: u64,
}

/// What kvc_store_verify found.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_verify_info {
    /// sizeof(kvc_verify_info), by KVC_INIT
    pub size: u32,
    /// 0
    pub reserved: u32,
    /// pages and objects checked
    pub pages_read: u64,
    /// of them, those that failed and were dropped
    pub pages_bad: u64,
    /// bytes checked
    pub bytes_read: u64,
    /// one line about the first that failed, terminated; empty: none
    pub first_bad: [c_char; 240],
}

/// A run of `count` equal layers.  Frozen.  A uniform model is one run; adjacent equal runs mean the same as one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_layer {
    /// layers in the run; not 0
    pub count: u32,
    /// KVC_LAYER_\*
    pub kind: u32,
    /// latent: 1, in every part, stored once. state: what TP splits, or 1
    pub kv_heads: u32,
    /// elements of a key head. latent: of the latent. state: bytes a head of the first part
    pub k_dim: u32,
    /// elements of a value head. latent: 0. state: bytes a head of the second part
    pub v_dim: u32,
    /// latent: elements of the rope part; others: 0
    pub rope_dim: u32,
    /// window: tokens seen, the query's own included; others: 0
    pub window: u32,
    /// 0: the shape's. state: moved as bytes whatever it says, but part of the identity: leave it 0
    pub k_dtype: u32,
    /// 0: the shape's. latent: v_dtype is the rope part's. state: as k_dtype
    pub v_dtype: u32,
    /// 0
    pub reserved: [u32; 3],
}

/// The geometry of a model's cache.  Two hosts share rows only if every member here is equal.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_shape {
    /// sizeof(kvc_shape), by KVC_INIT
    pub size: u32,
    /// stored exactly as; KVC_F16...; no default
    pub dtype: u32,
    /// tokens a chunk: multiple of 16, at most 256; 0: 64. Part of the identity
    pub chunk_tokens: u32,
    /// KVC_ROPE_\*, order of rotated channels: engines that differ must not share
    pub rope: u32,
    /// borrowed: the runs, from the first layer on
    pub layers: *const kvc_layer,
    /// entries of `layers`; not 0
    pub layer_runs: u64,
}

/// What follows from a shape.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_shape_info {
    /// sizeof(kvc_shape_info), by KVC_INIT
    pub size: u32,
    /// layers of all runs
    pub layer_count: u32,
    /// exact format, all layers: the sum over layers that keep rows of kv_heads \* (k_dim \* bytes(k_dtype) + v_dim \* bytes(v_dtype)); latent: k_dim and rope_dim
    pub token_bytes: u64,
    /// chunk_tokens \* token_bytes: what a chunk's numbers take, headers not counted
    pub chunk_bytes: u64,
    /// one snapshot of all state layers
    pub state_bytes: u64,
    /// SHA-256("kvc shape 1" \| u32 dtype, chunk_tokens, rope \| u64 runs \| for each run u32 count, kind, kv_heads, k_dim, v_dim, rope_dim, window, k_dtype, v_dtype), little-endian, adjacent equal runs merged, defaults filled in: equal in every process, language and machine
    pub fingerprint: [u8; 32],
}

/// Whose cache.  Every name is part of every key, byte for byte (no case or Unicode folding), tagged and length-prefixed.
/// Not built yet, KVC_ERR_UNSUPPORTED when set: precision.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_scope_options {
    /// sizeof(kvc_scope_options), by KVC_INIT
    pub size: u32,
    /// 0
    pub flags: u32,
    /// borrowed; NULL = "": who may read it
    pub tenant: *const c_char,
    /// borrowed; required, not empty: a name that all hosts of the model agree on
    pub model: *const c_char,
    /// borrowed; NULL = "": weights and whatever else changes K and V (RoPE base and scaling, overrides)
    pub revision: *const c_char,
    /// borrowed; NULL = "": LoRA or the like
    pub adapter: *const c_char,
    /// borrowed; NULL with size 0: none. Bytes that keep others from probing what is cached
    pub salt: *const c_void,
    /// bytes
    pub salt_size: u64,
    /// borrowed; NULL: objects only
    pub shape: *const kvc_shape,
    /// quota, bytes of RAM; 0: none. Counted are chunks and objects with their headers, from the first open row on. A scope at its quota evicts what it used least recently, nothing of others; KVC_ERR_FULL when all that is left is open or held. Below the quota nothing is guaranteed: the store evicts what was used least recently of all
    pub bytes_max: u64,
    /// unused for so long, milliseconds: no call finds it any more, and it is dropped by whoever looks into the scope first, needs room, or does background work (kvc_store_step; no thread wakes for it, so that what nobody asks for may stay); 0: never. It may be found for up to a tenth longer. Uses are put, get, exists, match (but KVC_SEQ_PEEK), every call on a sequence, its release; what is held stays, but a lease is no use. A longer prompt's use is one of all its chunks
    pub ttl_ms: u64,
    /// borrowed; NULL: the store's
    pub precision: *const kvc_precision,
}

/// What a scope holds and what became of it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_scope_info {
    /// sizeof(kvc_scope_info), by KVC_INIT
    pub size: u32,
    /// 0
    pub reserved: u32,
    /// held in device memory
    pub bytes_device: u64,
    /// held in RAM
    pub bytes_host: u64,
    /// held on disk
    pub bytes_nvme: u64,
    /// held on other machines
    pub bytes_remote: u64,
    /// the quota; 0: none
    pub bytes_max: u64,
    /// sealed chunks held
    pub chunk_count: u64,
    /// objects held
    pub object_count: u64,
    /// sequences alive
    pub seq_count: u64,
    /// tokens that matches found, since the scope exists
    pub hit_tokens: u64,
    /// tokens that matches asked for and did not find
    pub miss_tokens: u64,
    /// accounting, since the scope exists: tokens appended
    pub tokens_written: u64,
    /// tokens gathered
    pub tokens_read: u64,
    /// bytes held x seconds, in device memory
    pub byte_seconds_device: f64,
    /// in RAM
    pub byte_seconds_host: f64,
    /// on disk
    pub byte_seconds_nvme: f64,
    /// on other machines
    pub byte_seconds_remote: f64,
    /// scope and shape together: SHA-256("kvc scope 1" \| for tenant, model, revision, adapter, salt: u8 tag 1..5, u64 length, bytes \| the shape's fingerprint, without a shape 32 zero bytes)
    pub fingerprint: [u8; 32],
}

/// Identity beside the token ids: the digest of an image behind its placeholders, an embedding's hash.  Enters the hash of every chunk that
/// its range touches.  Frozen.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_extra {
    /// first position it stands behind
    pub token_begin: u64,
    /// positions; not 0; two extras may not overlap
    pub token_count: u64,
    /// 1..64 bytes; borrowed
    pub data: *const c_void,
    /// bytes
    pub data_size: u64,
}

/// How a sequence is made.
/// A layer with one KV head is in every part; a snapshot of a state layer with several is split by heads as rows are.
/// Not built yet, KVC_ERR_UNSUPPORTED when set: precision, a tier other than the host's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_seq_options {
    /// sizeof(kvc_seq_options), by KVC_INIT
    pub size: u32,
    /// KVC_SEQ_\*
    pub flags: u32,
    /// milliseconds; 0: the store's; KVC_FOREVER: until release (may spill, is never dropped)
    pub lease_ms: u64,
    /// the part this handle writes and reads (PP, TP): first layer
    pub layer_begin: u32,
    /// its layers; 0: all, layer_begin is 0 then
    pub layer_count: u32,
    /// its first KV head, in every layer that has several
    pub head_begin: u32,
    /// its KV heads; 0: all, head_begin is 0 then
    pub head_count: u32,
    /// borrowed; NULL: the scope's
    pub precision: *const kvc_precision,
    /// match: cost of recomputing here, nanoseconds; 0: unknown, no cut
    pub prefill_ns_per_token: u64,
    /// match: look no further; 0: all. A host that needs logits of the last token says n - 1
    pub tokens_max: u64,
    /// of token 0, if it is not 0: part of the identity
    pub first_position: u64,
    /// borrowed; rising; those past the match stay with the sequence
    pub extras: *const kvc_extra,
    /// entries of `extras`
    pub extra_count: u64,
    /// parts: the ranks of one engine give one random value a sequence, so that their slices make one chunk; 0: drawn, for who has no sisters in this store
    pub write_id: [u8; 16],
    /// match: start promoting the hit to this KVC_TIER_\*; 0: no
    pub tier: u32,
    /// 0
    pub reserved: u32,
}

/// What a match found.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_match_info {
    /// sizeof(kvc_match_info), by KVC_INIT
    pub size: u32,
    /// why it ends there: KVC_STOP_\*
    pub stop: u32,
    /// length of the sequence returned: all groups agree on it
    pub tokens: u64,
    /// what full and latent layers alone could serve
    pub tokens_attention: u64,
    /// leading part already in RAM or device memory here
    pub tokens_hot: u64,
    /// to fetch for the rest, from disk
    pub bytes_nvme: u64,
    /// to fetch for the rest, from other machines
    pub bytes_remote: u64,
    /// estimate for `tokens`, microseconds: fetching them
    pub fetch_us: u64,
    /// estimate for `tokens`, microseconds: recomputing them; needs prefill_ns_per_token
    pub prefill_us: u64,
}

/// What the host knows of reuse.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_hint {
    /// sizeof(kvc_hint), by KVC_INIT
    pub size: u32,
    /// KVC_HINT_DONE: the conversation is over
    pub flags: u32,
    /// milliseconds until the next turn; 0: unknown. Set, it counts as one step of priority, however long
    pub continues_in_ms: u64,
    /// number of the turn, from 1; 0: unknown. Taken, without effect yet
    pub turn: u32,
    /// more is kept longer; 0: normal. Each step: evicted as if the sequence was used 1,024 calls of the store later
    pub priority: u32,
}

/// What a sequence is and where it lies.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_seq_info {
    /// sizeof(kvc_seq_info), by KVC_INIT
    pub size: u32,
    /// of the least replicated chunk
    pub copies: u32,
    /// length
    pub tokens: u64,
    /// ids known; PRIVATE: maybe fewer than tokens
    pub tokens_given: u64,
    /// leading part in sealed chunks
    pub tokens_sealed: u64,
    /// largest position \<= tokens - 1 to which every layer can be truncated
    pub tokens_end: u64,
    /// to where all layers can go on; \< tokens only after a lapse: truncate to it
    pub tokens_held: u64,
    /// leading part that goes by its name; \< tokens when rows from here on are derived or private, or when their chunk's name is another writer's
    pub tokens_shareable: u64,
    /// held in device memory
    pub bytes_device: u64,
    /// held in RAM
    pub bytes_host: u64,
    /// held on disk
    pub bytes_nvme: u64,
    /// held on other machines
    pub bytes_remote: u64,
    /// milliseconds; 0: lapsed; KVC_FOREVER: until release
    pub lease_left_ms: u64,
    /// all overhead counted, per stored number
    pub bits_effective: f64,
    /// relative attention-output error the allocator expects; 0 for exact
    pub error_estimate: f64,
    /// index: bits, exact at 16; page x KV head x {K, V} units held so
    pub width_pages: [u64; 17],
}

/// One piece of a value.  Frozen.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_bytes {
    /// lent; read by put, written by get; NULL with 0 bytes: nothing
    pub data: *mut c_void,
    /// extent
    pub bytes: u64,
}

/// One item of a batch.  Frozen.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_object {
    /// 1..64 bytes; borrowed
    pub key: *const c_void,
    /// bytes
    pub key_size: u64,
    /// the value, in order; list borrowed, memory lent; exists, delete: ignored
    pub parts: *const kvc_bytes,
    /// entries of `parts`
    pub part_count: u64,
    /// out: bytes stored (get, exists)
    pub value_size: u64,
    /// out: of this item
    pub status: kvc_status,
    /// out: KVC_TIER_\* of the nearest copy; 0: none
    pub tier: u32,
    /// KVC_MEMORY_\* of the parts
    pub memory: u32,
    /// number of the device, for device memory
    pub device: i32,
    /// as kvc_rows.stream
    pub stream: *mut c_void,
}

/// How to run a batch.
///
/// A value put with a layout is K and V rows of the scope's layers; it is held as pages and read back, by any parts, as the very bytes that were put.
/// - Every value of the batch lies so.  k.data and v.data are offsets in it (0 too), `bytes` of 0 is: to its end.  A latent layer's v of zeros: one row
///   \[latent \| rope\] in k.  State layers have no rows of tokens (UNSUPPORTED).
/// - layers: a run of one geometry, SHAPE or RANGE else; heads: any of theirs; tokens: as many as token_count says, whole chunks or not.
/// - Every byte of the value belongs to exactly one element.  ARGUMENT names the stride that makes elements overlap, or the first byte that none
///   covers.
/// - dtypes are the shape's: a conversion could not be undone (SHAPE).  token_begin is 0: an object's tokens have no positions.  No block table,
///   no token_list (ARGUMENT).
///   All that objects do holds for them: equal bytes may be put again with another layout or none, and pages that fail their check are GONE.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_object_options {
    /// sizeof(kvc_object_options), by KVC_INIT
    pub size: u32,
    /// KVC_OBJECT_\*
    pub flags: u32,
    /// put: unused for so long, milliseconds: dropped, as kvc_scope_options.ttl_ms; 0: the scope's; KVC_FOREVER: never. Of equal bytes put again the first one's stays
    pub ttl_ms: u64,
    /// exists with KVC_OBJECT_LEASE: milliseconds; 0: the store's
    pub lease_ms: u64,
    /// put: values are rows that lie so, k.data and v.data being offsets in the value; NULL: plain bytes. Borrowed
    pub layout: *const kvc_rows,
}

/// One line of a list.  Frozen.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_object_entry {
    /// the key; zeros behind it
    pub key: [u8; 64],
    /// its bytes
    pub key_size: u32,
    /// KVC_TIER_\* of the nearest copy
    pub tier: u32,
    /// bytes stored
    pub value_size: u64,
}

/// Limits of a queue.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_queue_options {
    /// sizeof(kvc_queue_options), by KVC_INIT
    pub size: u32,
    /// 0
    pub flags: u32,
    /// calls in flight; 0: 256. Over it: BUSY, nothing started
    pub depth: u32,
    /// 0
    pub reserved: u32,
    /// room for copies of kvc_rows, lists, block tables and keys; 0: 1 MiB. Over it: BUSY, nothing started
    pub description_bytes: u64,
}

/// Counters since the store was opened.  They only rise.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_metrics {
    /// sizeof(kvc_metrics), by KVC_INIT
    pub size: u32,
    /// 0
    pub reserved: u32,
    /// calls of kvc_match without KVC_SEQ_PEEK
    pub match_calls: u64,
    /// tokens they asked for
    pub match_tokens: u64,
    /// tokens they found
    pub hit_tokens: u64,
    /// bytes copied out by kvc_gather
    pub gather_bytes: u64,
    /// bytes copied in by kvc_append
    pub append_bytes: u64,
    /// calls of kvc_attend
    pub attend_calls: u64,
    /// chunks and objects dropped to make room in the store or in a quota
    pub evicted_chunks: u64,
    /// pages moved to a colder tier or fewer bits
    pub demoted_pages: u64,
    /// pages moved to a warmer tier
    pub promoted_pages: u64,
    /// pages and objects that failed a check and were dropped
    pub checksum_failures: u64,
    /// calls that ended in KVC_ERR_TIMEOUT; who waited for room ends in KVC_ERR_FULL
    pub timeouts: u64,
    /// leases that ended by time
    pub lapsed_leases: u64,
    /// bytes read from device memory
    pub hit_bytes_device: u64,
    /// from RAM
    pub hit_bytes_host: u64,
    /// from disk
    pub hit_bytes_nvme: u64,
    /// from other machines
    pub hit_bytes_remote: u64,
}

/// One event.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_event {
    /// sizeof(kvc_event), by KVC_INIT; in an array: of the first element, the stride of all
    pub size: u32,
    /// KVC_EVENT_\*
    pub kind: u32,
    /// KVC_TIER_\*; 0: none
    pub tier_from: u32,
    /// KVC_TIER_\*; 0: none
    pub tier_to: u32,
    /// rises by one in a queue; a gap means loss, and ends at the number of a KVC_EVENT_LOST
    pub sequence_number: u64,
    /// STORED: first position of the chunk; 0 otherwise
    pub token_begin: u64,
    /// STORED: its tokens; 0 otherwise
    pub token_count: u64,
    /// fingerprint of its scope
    pub scope: [u8; 32],
    /// its name: the chained SHA-256 of scope, shape, tokens and extra identity
    pub chunk: [u8; 32],
    /// STORED: the name of the chunk before it; of the first: the scope's fingerprint
    pub parent: [u8; 32],
    /// STORED: lent to the host until the next drain of this queue; NULL otherwise
    pub tokens: *const i32,
}

/// Queries of one layer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_query {
    /// sizeof(kvc_query), by KVC_INIT
    pub size: u32,
    /// 0
    pub flags: u32,
    /// which layer, of the whole model
    pub layer: u32,
    /// a multiple of the KV heads of the part; heads of one group adjacent
    pub query_heads: u32,
    /// queries, of adjacent positions; not 0
    pub query_count: u64,
    /// of query 0; query i sees tokens \<= position + i. KVC_ALL: sees all (no mask)
    pub position: u64,
    /// keys to attend to: first position
    pub token_begin: u64,
    /// keys to attend to; KVC_ALL: to filled(layer); 0: none (lse -inf, output 0)
    pub token_count: u64,
    /// lent; token axis = query. latent layers: absorbed, k_dim + rope_dim wide
    pub q: kvc_array,
    /// 0: 1/sqrt(k_dim) (latent: required)
    pub scale: f32,
    /// 0: none
    pub soft_cap: f32,
    /// tokens seen, the query's own included; 0: the layer's
    pub window: u64,
    /// KVC_MEMORY_\* of q and of the output
    pub memory: u32,
    /// number of the device, for device memory
    pub device: i32,
    /// as kvc_rows.stream
    pub stream: *mut c_void,
}

/// Output and log-sum-exp (natural log, f32) of attention over some tokens.  Frozen.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_partial {
    /// token axis = query, v_dim wide (latent: k_dim). lent
    pub output: kvc_array,
    /// \[query_count\]\[query_heads\], lent. No key seen: -inf, output 0
    pub lse: *mut f32,
    /// floats at `lse`
    pub lse_count: u64,
}

/// Sparse by cumulative estimated mass or by bytes, per KV head; NULL: dense.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_sparsity {
    /// sizeof(kvc_sparsity), by KVC_INIT
    pub size: u32,
    /// 0
    pub flags: u32,
    /// in (0, 1\]: stop at this estimated share of the softmax; 0: no such bound
    pub mass: f32,
    /// the first n layers stay dense
    pub dense_layers: u32,
    /// tokens read at most; 0: no such bound
    pub tokens_max: u64,
    /// bytes read at most; 0: no such bound. At least one of the three
    pub bytes_max: u64,
    /// always in, at the front; 0: 4. KVC_NONE: none
    pub sink_tokens: u32,
    /// always in, at the end; 0: 128. KVC_NONE: none
    pub recent_tokens: u32,
}

/// What an attention read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_attend_info {
    /// sizeof(kvc_attend_info), by KVC_INIT
    pub size: u32,
    /// 0
    pub reserved: u32,
    /// tokens that the queries may see
    pub tokens_seen: u64,
    /// of them, those read, summed over KV heads and divided by them
    pub tokens_read: u64,
    /// stored bytes read
    pub bytes_read: u64,
    /// bytes that crossed the network
    pub bytes_wire: u64,
    /// estimated share of the softmax not read; mean over heads and queries
    pub missed_mass: f32,
    /// the worst of them
    pub missed_mass_max: f32,
}

/// One shard, as seen from here.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_node {
    /// sizeof(kvc_node), by KVC_INIT; in an array: of the first element, the stride of all
    pub size: u32,
    /// KVC_NODE_\*
    pub state: u32,
    /// its host tier
    pub memory_bytes: u64,
    /// of it, used
    pub memory_used: u64,
    /// chunks it holds
    pub chunk_count: u64,
    /// measured from here, microseconds
    pub round_trip_us: u64,
    /// measured from here, bytes per second
    pub bandwidth: u64,
    /// its name, terminated
    pub name: [c_char; 64],
    /// host:port, terminated
    pub address: [c_char; 128],
}

/// The cluster, as seen from here.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvc_cluster_info {
    /// sizeof(kvc_cluster_info), by KVC_INIT
    pub size: u32,
    /// shards in the map
    pub node_count: u32,
    /// version of the shard map
    pub epoch: u64,
    /// R, copies of a chunk
    pub copies: u32,
    /// W, copies before a flush returns
    pub copies_acked: u32,
    /// under-replicated chunks
    pub chunks_short: u64,
    /// bytes still to be copied to repair them
    pub repair_bytes_left: u64,
    /// bytes still to be moved by a join or drain
    pub moved_bytes_left: u64,
}

macro_rules! sized {
    ($($name:ident)*) => {$(
        impl $name {
            /// All zero, and `size` set: what `KVC_INIT` does in C.
            #[must_use]
            pub const fn init() -> Self {
                let mut out = Self::zeroed();
                out.size = size_of::<Self>() as u32;
                out
            }
        }
    )*};
}

macro_rules! zeroed {
    ($($name:ident)*) => {$(
        impl $name {
            /// All zero.
            #[must_use]
            pub const fn zeroed() -> Self {
                // SAFETY: numbers, pointers and optional functions, and arrays of those, may all be zero.
                unsafe { core::mem::zeroed() }
            }
        }
    )*};
}

zeroed! {
    kvc_error kvc_array kvc_rows kvc_call kvc_result kvc_precision kvc_store_options kvc_store_info
    kvc_verify_info kvc_layer kvc_shape kvc_shape_info kvc_scope_options kvc_scope_info kvc_extra
    kvc_seq_options kvc_match_info kvc_hint kvc_seq_info kvc_bytes kvc_object kvc_object_options
    kvc_object_entry kvc_queue_options kvc_metrics kvc_event kvc_query kvc_partial kvc_sparsity
    kvc_attend_info kvc_node kvc_cluster_info
}

sized! {
    kvc_error kvc_rows kvc_call kvc_result kvc_precision kvc_store_options kvc_store_info
    kvc_verify_info kvc_shape kvc_shape_info kvc_scope_options kvc_scope_info kvc_seq_options
    kvc_match_info kvc_hint kvc_seq_info kvc_object_options kvc_queue_options kvc_metrics kvc_event
    kvc_query kvc_sparsity kvc_attend_info kvc_node kvc_cluster_info
}

unsafe extern "C" {
    /// Names a status.  Static and total: never NULL, also for numbers that are no status ("KVC_STATUS_UNKNOWN").
    ///
    /// - `status`: any number
    ///
    /// Returns the name of the constant, as "KVC_ERR_FULL"; valid for as long as the library is loaded
    ///
    /// Since: 0.1.0
    pub safe fn kvc_status_name(status: kvc_status) -> *const c_char;

    /// The version of the library that is loaded, to be compared with KVC_VERSION_\*.
    ///
    /// Returns major \<\< 16 \| minor \<\< 8 \| patch
    ///
    /// Since: 0.1.0
    pub safe fn kvc_version() -> u32;

    /// What this build can do.  Whether a driver or device answers on this machine is in kvc_store_info.features.
    ///
    /// Returns KVC_FEATURE_\* bits
    ///
    /// Since: 0.1.0
    pub safe fn kvc_features() -> u64;

    /// Opens a store: "mem:", "file:DIR" or "kvc://host:port\[,host:port...\]".  Only "mem:" is built yet, the others are KVC_ERR_UNSUPPORTED.
    /// Several stores may be open at once; they share nothing.
    ///
    /// - `out`: given: the store, ended by kvc_close; NULL on failure
    /// - `uri`: borrowed: which store
    /// - `options`: borrowed: limits and defaults; NULL: all defaults
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. NOT_FOUND: no such directory. BUSY: the directory is open elsewhere (the message names the pid that holds it). CORRUPT, VERSION: its files. UNAVAILABLE: no node answers (with KVC_OPEN_REQUIRE). DENIED: key or tenant. NO_MEMORY: memory_bytes could not be reserved. UNSUPPORTED: this uri or option is not in this build
    ///
    /// Since: 0.1.0
    pub fn kvc_open(
        out: *mut *mut kvc_store,
        uri: *const c_char,
        options: *const kvc_store_options,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Ends everything of the store: queued calls are cancelled and waited for; sequences, scopes, queues and leases become stale.
    /// Not while other threads call: this one race is the host's to avoid.
    ///
    /// - `store`: given back: the store; NULL: nothing to do
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. BUSY, and nothing is closed: views or regions are held (the message says how many). STALE: closed before
    ///
    /// Since: 0.1.0
    pub fn kvc_close(store: *mut kvc_store, error: *mut kvc_error) -> kvc_status;

    /// Does background work in the calling thread, of a store opened with KVC_OPEN_HOST_DRIVEN.
    ///
    /// - `more`: borrowed: set to 1 if some is left, else 0
    /// - `store`: borrowed: the store
    /// - `budget_us`: for how long, microseconds; one piece of work may overrun it
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. MISUSE: the store has threads of its own
    ///
    /// Since: 0.1.0
    pub fn kvc_store_step(
        more: *mut u32,
        store: *mut kvc_store,
        budget_us: u64,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Makes durable what was sealed before the call: on disk (file:) or on W nodes (kvc:) when it returns.
    ///
    /// - `store`: borrowed: the store
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. UNSUPPORTED: on mem:, which holds nothing durable. IO, READ_ONLY: the disk. TIMEOUT: some of it is not there yet
    ///
    /// Since: not built yet: KVC_ERR_UNSUPPORTED
    pub fn kvc_store_flush(
        store: *mut kvc_store,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Says what a store holds.
    ///
    /// - `info`: borrowed: filled, at most info-\>size bytes
    /// - `store`: borrowed: the store
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK
    ///
    /// Since: 0.1.0
    pub fn kvc_store_get_info(
        info: *mut kvc_store_info,
        store: *const kvc_store,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Reads and checks everything held against its sums (XXH3-64 of each section, made when a page was sealed); what is bad is dropped.
    /// Runs beside other calls, and takes as long as reading all memory takes.
    ///
    /// - `info`: lent: filled, at most info-\>size bytes, also when the status is CORRUPT
    /// - `store`: borrowed: the store
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK: all is right. CORRUPT: something was not, and is dropped now. TIMEOUT: info tells how far it came
    ///
    /// Since: 0.1.0
    pub fn kvc_store_verify(
        info: *mut kvc_verify_info,
        store: *mut kvc_store,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Registers caller memory once (fabric, CUDA pinning) so that rows and objects inside it move without staging.  Optional: nothing else
    /// changes.  On mem: it is remembered and nothing moves differently.  Regions that are held do not overlap.
    ///
    /// - `out`: given: the region, ended by kvc_region_release; NULL on failure
    /// - `store`: borrowed: the store
    /// - `data`: lent until the region is released
    /// - `data_size`: bytes
    /// - `memory`: KVC_MEMORY_\*
    /// - `device`: number of the device, for device memory
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. ARGUMENT: nothing, past the end of memory, or over a region that is held. FULL: 1048576 regions are held. NO_MEMORY: over the limit of locked memory (ulimit -l). UNSUPPORTED: nothing here could use it, as device memory on a store without a device tier
    ///
    /// Since: 0.1.0
    pub fn kvc_region_register(
        out: *mut *mut kvc_region,
        store: *mut kvc_store,
        data: *mut c_void,
        data_size: usize,
        memory: u32,
        device: i32,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Ends a registration; the memory is the caller's again.
    ///
    /// - `region`: given back: the region; NULL: nothing to do
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. BUSY: queued calls use it; on mem: never, what is registered there is not used. STALE: released before
    ///
    /// Since: 0.1.0
    pub fn kvc_region_release(region: *mut kvc_region, error: *mut kvc_error) -> kvc_status;

    /// Validates a shape and computes what follows from it.  Pure: needs no store, any thread.
    ///
    /// - `info`: borrowed: filled, at most info-\>size bytes; NULL: only validate
    /// - `shape`: borrowed: the shape
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. SHAPE: it is none; the message names the run and the member
    ///
    /// Since: 0.1.0
    pub fn kvc_shape_check(
        info: *mut kvc_shape_info,
        shape: *const kvc_shape,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Makes a scope, or joins it.  Cheap; the same names, salt and shape give an equal scope.  Creating it again with other limits (bytes_max,
    /// ttl_ms, precision) changes them for all; 0 takes a limit away.  A quota below what is held is accepted: what nobody holds goes before the
    /// call returns, the rest when it was let go and the scope needs room.  With its first ttl_ms what a scope holds counts as used now.  The
    /// first limit of a scope that holds something already looks once at everything the store holds; rows that are open then count when they
    /// are sealed.
    ///
    /// - `out`: given: the scope, ended by kvc_scope_release; NULL on failure
    /// - `store`: borrowed: the store
    /// - `options`: borrowed: names, shape, limits; model is required
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. SHAPE: as kvc_shape_check. FULL: too many scopes. DENIED: the store is of another tenant
    ///
    /// Since: 0.1.0
    pub fn kvc_scope_create(
        out: *mut *mut kvc_scope,
        store: *mut kvc_store,
        options: *const kvc_scope_options,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Says what a scope holds.
    ///
    /// - `info`: borrowed: filled, at most info-\>size bytes
    /// - `scope`: borrowed: the scope
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK
    ///
    /// Since: 0.1.0
    pub fn kvc_scope_get_info(
        info: *mut kvc_scope_info,
        scope: *const kvc_scope,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Drops all chunks and objects of the scope, on every tier and node.  Nobody finds any of them from then on: a match gives 0 tokens, a get
    /// NOT_FOUND.  What nobody holds goes at once.  What a sequence or a lease holds goes with the last of them: they read on, and what such a
    /// sequence seals behind the cleared chunks has no name either.  Open rows stay.  Other scopes are untouched.
    /// Takes a look at everything the store holds (some nanoseconds each) and about a microsecond for each thing dropped, other calls waiting.
    ///
    /// - `result`: lent: filled; done: chunks and objects that went at once; bytes: the room they took; NULL: not wanted
    /// - `scope`: borrowed: the scope
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. UNAVAILABLE, TIMEOUT: some nodes have not heard of it yet
    ///
    /// Since: 0.1.0
    pub fn kvc_scope_clear(
        result: *mut kvc_result,
        scope: *mut kvc_scope,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Ends the handle.  The scope's sequences live on, and what it stored stays.
    ///
    /// - `scope`: given back: the scope; NULL: nothing to do
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. STALE: released before
    ///
    /// Since: 0.1.0
    pub fn kvc_scope_release(scope: *mut kvc_scope, error: *mut kvc_error) -> kvc_status;

    /// Makes an empty sequence.
    ///
    /// - `out`: given: the sequence, ended by kvc_seq_release; NULL on failure
    /// - `scope`: borrowed: whose
    /// - `options`: borrowed: how; NULL: all defaults
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. FULL: seq_max, or a part beyond the 1,024 different ones of a scope. RANGE: a part that the shape has not
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_create(
        out: *mut *mut kvc_seq,
        scope: *const kvc_scope,
        options: *const kvc_seq_options,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Longest stored prefix of `tokens` -\> a new sequence of that length that already holds its lease.  Nothing found: length 0, still KVC_OK.
    /// Absent nodes, bad pages and the deadline shorten the match and are named in info-\>stop; they never fail it.
    /// Cost: SHA-256 over the tokens once, and one look-up a chunk.
    ///
    /// - `out`: given: the sequence, ended by kvc_seq_release; NULL on failure and with KVC_SEQ_PEEK. Queued: NULL here, it comes in the result
    /// - `info`: lent: filled, at most info-\>size bytes; NULL: not wanted
    /// - `scope`: borrowed: whose
    /// - `tokens`: lent: the ids; any int32, negative too
    /// - `token_count`: ids; 0 gives a sequence of length 0
    /// - `options`: borrowed: how; NULL: all defaults
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. FULL: seq_max
    ///
    /// Since: 0.1.0
    pub fn kvc_match(
        out: *mut *mut kvc_seq,
        info: *mut kvc_match_info,
        scope: *const kvc_scope,
        tokens: *const i32,
        token_count: usize,
        options: *const kvc_seq_options,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Appends rows, ids, or both.  All or nothing.
    /// `tokens` are the next ids after those already given; they may run ahead of rows (a whole prompt at once), rows never ahead of ids.
    /// After a match the first info.tokens ids are given already.  Who appends layer by layer gives ids with the first layer only: ids given
    /// again are taken for the next ones, which is not noticed; kvc_seq_info.tokens_given shows how many there are.  In
    /// a PRIVATE sequence ids come before the rows they name, or never: after rows without ids a call that gives ids is RANGE, until a truncate
    /// to where the ids end.  Each run starts at its layers' filled(l): a gap or overlap is RANGE.  Layers in any order, any split; K and V of a
    /// layer together; window layers may skip rows that no later query sees (positions below length + 1 - window, with the length after the
    /// call); a state layer takes one snapshot per call, valid after the range's last token.  NaN and infinities are kept bit for bit.  Copies
    /// before it returns (device memory: in the stream's order, sealed once it has passed).  One open row takes the room of a
    /// whole chunk: a step that opens a chunk in every sequence needs that for each of them.
    ///
    /// - `seq`: borrowed: the sequence; alone on this handle
    /// - `tokens`: lent: the next ids; any int32, negative too; NULL with count 0: none
    /// - `token_count`: ids
    /// - `rows`: borrowed, its arrays lent: the runs; NULL with count 0: none
    /// - `row_count`: runs; KVC_INIT each, all have the size of the first
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. RANGE: layer, head or position; a gap, an overlap, rows ahead of ids (PRIVATE: ids behind rows). SHAPE: dtype or geometry. GONE: some of what it goes on from is no longer held: truncate to what is left. FULL: open_bytes_max, or memory_bytes and nothing left that may be evicted; with KVC_RETRY_NEVER: this sequence alone needs more than one of them. A prefill in one call seals its chunks at once; layer by layer it holds all of them open until the last layer, so that open_bytes_max must have room for them
    ///
    /// Since: 0.1.0
    pub fn kvc_append(
        seq: *mut kvc_seq,
        tokens: *const i32,
        token_count: usize,
        rows: *const kvc_rows,
        row_count: usize,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Adds identity to tokens whose chunk is not sealed (kvc_seq_options.extras does it for what is known at the start).
    /// The first call after kvc_seq_truncate replaces: extras kept from before that begin at or after the position truncated to are dropped, in
    /// chunks that are not sealed again.  Every other call adds, and an overlap is refused.
    ///
    /// - `seq`: borrowed: the sequence; alone on this handle
    /// - `extras`: borrowed: what stands behind which tokens, rising
    /// - `extra_count`: entries of `extras`
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. RANGE: a chunk it touches is sealed, or it overlaps one that the sequence has
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_identify(
        seq: *mut kvc_seq,
        extras: *const kvc_extra,
        extra_count: usize,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Copies rows out, converted to each array's dtype and layout; writes nothing outside what the runs name.  Window layers serve their
    /// window and what is held of older rows, state layers the snapshot at token_begin + token_count: one row, without a token_list.  On failure
    /// the rows below position result-\>done are right in every run.
    ///
    /// - `result`: lent: filled, at most result-\>size bytes, also on failure; NULL: not wanted
    /// - `seq`: borrowed: the sequence
    /// - `rows`: borrowed, its arrays lent: the runs
    /// - `row_count`: runs; KVC_INIT each, all have the size of the first
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. GONE: some rows are no longer held. NO_SNAPSHOT: a state layer has none there. RANGE: past filled(layer), of a state layer past the length. UNAVAILABLE, TIMEOUT: some are out of reach
    ///
    /// Since: 0.1.0
    pub fn kvc_gather(
        result: *mut kvc_result,
        seq: *const kvc_seq,
        rows: *const kvc_rows,
        row_count: usize,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// A new sequence with the first tokens of another; copy on write, cost independent of length.
    ///
    /// - `out`: given: the sequence, ended by kvc_seq_release; NULL on failure
    /// - `seq`: borrowed: the sequence to start from
    /// - `tokens`: how many, without ids given ahead of them; KVC_ALL: all, open rows and ids given ahead too
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. RANGE: more than it has. NO_SNAPSHOT: a state layer is past it and has none there. GONE: evicted after a lapse. FULL: seq_max or memory
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_fork(
        out: *mut *mut kvc_seq,
        seq: *const kvc_seq,
        tokens: u64,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Back to `tokens`, in all layers or not at all; 0 is always possible.  Cut too are the ids given ahead of rows, also when `tokens` is the
    /// present length: give them again with the next append.  Inside a chunk that is held rounded, the rows left are derived: usable, never
    /// shared.  Extras stay, also those of the tokens cut off, so that the same prompt appended again keeps its name; for another prompt
    /// kvc_seq_identify replaces them.
    ///
    /// - `seq`: borrowed: the sequence; alone on this handle
    /// - `tokens`: the new length, at most the present one
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. RANGE: longer than it is. GONE: a window layer needs rows it dropped, chunks went after a lapse, or the chunk it cuts failed its check. NO_SNAPSHOT (kvc_seq_info.tokens_end says where it can)
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_truncate(seq: *mut kvc_seq, tokens: u64, error: *mut kvc_error) -> kvc_status;

    /// Beam search: seqs\[i\] becomes what seqs\[source\[i\]\] was; all or nothing.  An index may stand in `source` several times: those sequences
    /// share what they have, as forks do, and write copies.  A sequence becomes the other with all that it is, its lease_ms and PRIVATE too; what
    /// nobody becomes is let go.  Cost independent of length.
    ///
    /// - `seqs`: borrowed: the sequences, of equal scopes and parts, none of them twice; alone on these handles
    /// - `source`: borrowed: for each, the index of the one that it becomes
    /// - `seq_count`: entries of both; not 0
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. RANGE: an index. SHAPE: unequal scopes or parts. MISUSE: of two stores, or one is in use
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_reorder(
        seqs: *const *mut kvc_seq,
        source: *const u32,
        seq_count: usize,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Keeps only the listed positions, renumbered from 0; original positions stay in the rows' rotation.  The sequence becomes private: it is
    /// no prefix of anything any more.  All or nothing.  Leading chunks that stay whole are shared with whoever has them; all other rows are copied,
    /// so that there must be room for them beside the chunks they come from.  Cut are rows and ids past the length; ids of kept tokens stay known.
    /// Of window layers those rows come along that are seen behind the kept positions: taking out late ones brings early ones back into the window.
    ///
    /// - `seq`: borrowed: the sequence; alone on this handle
    /// - `positions`: borrowed: rising, none twice; NULL with count 0: nothing is kept
    /// - `position_count`: entries of `positions`
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. RANGE: past the length, not rising. GONE: evicted after a lapse, or failed its check; rows that a window would see are no longer held. FULL: no room for the copies. UNSUPPORTED: it has state layers
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_compact(
        seq: *mut kvc_seq,
        positions: *const u64,
        position_count: usize,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Brings rows to a tier, by the deadline if it can; with KVC_CALL_DETACH it waits for nothing, not for queued calls on the sequence either (then
    /// it does nothing), and what does not get there is nobody's to hear of.
    /// On mem: what is held is in RAM, so that the call says how far rows are held and counts as a use.
    ///
    /// - `result`: lent: filled, result-\>done is what got there: the position below which all runs are (lists: leading entries); NULL: not wanted
    /// - `seq`: borrowed: the sequence
    /// - `rows`: borrowed: the runs; their k and v are ignored
    /// - `row_count`: runs
    /// - `tier`: KVC_TIER_\*; on mem: KVC_TIER_HOST, others are UNSUPPORTED
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. RANGE: past filled(layer). FULL: no room in the tier. GONE, NO_SNAPSHOT, UNAVAILABLE, TIMEOUT: not all is there
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_prefetch(
        result: *mut kvc_result,
        seq: *const kvc_seq,
        rows: *const kvc_rows,
        row_count: usize,
        tier: u32,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// A lease of its own on \[token_begin, token_begin + token_count): it outlives the sequence, so a prompt can be pinned for an hour or a
    /// load job handed on.  It covers the sealed chunks that the range touches, and of window and state layers what a match needs to end behind the
    /// last of them, and at the last place not behind the range where one can: others than that are not held.  To pin a prompt for others,
    /// append it, a snapshot at the last multiple of chunk_tokens in it, and lease \[0, its length): whoever has the same tokens matches up to
    /// there.  KVC_ALL pins for who goes on from the end.
    ///
    /// - `out`: given: the lease, ended by kvc_lease_release; NULL on failure. Queued: NULL here, it comes in the result
    /// - `seq`: borrowed: the sequence
    /// - `token_begin`: first position
    /// - `token_count`: positions; KVC_ALL: to the end
    /// - `lease_ms`: from now, milliseconds; 0: the store's; KVC_FOREVER: renewed by this process while it lives
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. RANGE: past the sequence. GONE: some of it is no longer held. FULL: 1048576 leases are held
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_lease(
        out: *mut *mut kvc_lease,
        seq: *const kvc_seq,
        token_begin: u64,
        token_count: u64,
        lease_ms: u64,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Sets when a lease ends.
    ///
    /// - `lease`: borrowed: the lease
    /// - `lease_ms`: from now, milliseconds; 0: the store's; KVC_FOREVER: never
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. GONE: it lapsed and pages went
    ///
    /// Since: 0.1.0
    pub fn kvc_lease_renew(
        lease: *mut kvc_lease,
        lease_ms: u64,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Ends a lease; what it held may be evicted.
    ///
    /// - `lease`: given back: the lease; NULL: nothing to do
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK, also when it had lapsed. STALE: released before
    ///
    /// Since: 0.1.0
    pub fn kvc_lease_release(lease: *mut kvc_lease, error: *mut kvc_error) -> kvc_status;

    /// Attention mass per token from the host, added to what attend and observe learn.
    ///
    /// - `seq`: borrowed: the sequence; alone on this handle
    /// - `layer_begin`: first layer
    /// - `layer_count`: layers
    /// - `token_begin`: first position
    /// - `mass`: borrowed: mass of token token_begin + i over all heads of these layers; finite, \>= 0
    /// - `mass_count`: entries of `mass`
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. RANGE: layer or position
    ///
    /// Since: not built yet: KVC_ERR_UNSUPPORTED
    pub fn kvc_seq_importance(
        seq: *mut kvc_seq,
        layer_begin: u32,
        layer_count: u32,
        token_begin: u64,
        mass: *const f32,
        mass_count: usize,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Sets the precision of this sequence (the scope's others are not touched); pages change in the background.
    ///
    /// - `seq`: borrowed: the sequence; alone on this handle
    /// - `precision`: borrowed: what it is to be; NULL: the scope's again
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. FULL: below the floors, the message names the least
    ///
    /// Since: not built yet: KVC_ERR_UNSUPPORTED
    pub fn kvc_seq_budget(
        seq: *mut kvc_seq,
        precision: *const kvc_precision,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Tells the store what the host knows of reuse; overrides the store's own estimate.  It decides who is evicted first when the sequence was
    /// released or lapsed, nothing else; the last hint counts.  It stays with the handle: forks have none, and a reorder moves none.
    ///
    /// - `seq`: borrowed: the sequence; alone on this handle
    /// - `hint`: borrowed: what is known
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_hint(
        seq: *mut kvc_seq,
        hint: *const kvc_hint,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Hands a sequence, open rows included, to whoever knows scope and name: a snapshot, held for lease_ms, after which the name is no more and
    /// its chunks may be evicted.  Returns when W nodes have it; on mem: it is for this process.  Publishing a name again replaces it and its lease.
    /// The sequence goes on as before, and the snapshot outlives it: open rows are copied by whoever writes first.
    ///
    /// - `seq`: borrowed: the sequence; alone on this handle
    /// - `name`: borrowed: 1..64 bytes, any; its own in every scope
    /// - `name_size`: bytes
    /// - `lease_ms`: from now, milliseconds; 0: the store's; KVC_FOREVER: until it is withdrawn
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. GONE: some of it is no longer held. FULL: no room, or as many names as kvc_store_options.seq_max. TIMEOUT, UNAVAILABLE: W nodes were not reached. UNSUPPORTED: several shards without a registry
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_publish(
        seq: *mut kvc_seq,
        name: *const c_void,
        name_size: usize,
        lease_ms: u64,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// A fork of a published sequence, leased.  It has the identity, write_id and privacy of the published one: of the options lease_ms,
    /// KVC_SEQ_PRIVATE and write_id count, those of a match have no meaning here, and extras and first_position are refused.  A part that is named
    /// must be that of the published one.
    ///
    /// - `out`: given: the sequence, ended by kvc_seq_release; NULL on failure. Queued: NULL here, it comes in the result
    /// - `scope`: borrowed: whose
    /// - `name`: borrowed: 1..64 bytes
    /// - `name_size`: bytes
    /// - `options`: borrowed: how; NULL: all defaults
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. NOT_FOUND: no such name, or it lapsed. SHAPE: of another part. FULL: seq_max. UNAVAILABLE, TIMEOUT: out of reach
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_attach(
        out: *mut *mut kvc_seq,
        scope: *const kvc_scope,
        name: *const c_void,
        name_size: usize,
        options: *const kvc_seq_options,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Frees what a name holds at once; either side may.  Sequences that were attached stay.
    ///
    /// - `scope`: borrowed: whose
    /// - `name`: borrowed: 1..64 bytes
    /// - `name_size`: bytes
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. NOT_FOUND: no such name, or it lapsed
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_withdraw(
        scope: *const kvc_scope,
        name: *const c_void,
        name_size: usize,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Saves a sequence as one versioned file: ids, extras, sealed chunks and open rows, of every layer; of window and state layers all rows and
    /// snapshots that are held, so that what comes back can end where this one can.  It is written beside `path`, synced, and renamed: until the
    /// call gives KVC_OK the file that was there stays, or none; after a crash it is the old file or the new one, whole, and a
    /// ".kvc-\<16 hex digits\>.part" may be left beside.  Every page is checked before it is written.  The file holds what the prompt
    /// holds: only its owner can read it (mode 0600).  A sequence from whose chunks kvc_scope_clear took the names is saved as a private one.
    /// Of a sequence of a part the file has that part alone; of a whole one it has all layers and heads, whoever wrote its chunks.  Other calls on
    /// the sequence that only read may run meanwhile.
    ///
    /// - `seq`: borrowed: the sequence
    /// - `path`: borrowed: the file, replaced; not through a symbolic link, and nothing but a regular file is replaced
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. IO: the file, error-\>system_error says why (ENOSPC: no room beside it); the message says "was replaced" where that could not be undone (a file system that cannot exchange two files, and a directory that cannot be synced). GONE: some of it is no longer held, or failed its check and was dropped
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_save(
        seq: *const kvc_seq,
        path: *const c_char,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Makes a sequence from a saved file, as it was: its sealed chunks can be found under their names by others, its open rows go on, and it
    /// holds its lease.  All of the file that is used is checked before anything of it is: sums, lengths, and that the names are those of its
    /// ids.  Leading chunks that are held already are taken as they are and not read (of a model with window or state layers: those of the writer
    /// that the file has them of); the first commit of a chunk wins as everywhere.  A file is bound to its scope: salt and shape are part of that.
    /// With KVC_SEQ_PRIVATE what is appended later is private; what the file has under names is not.  The file of a part is restored into a sequence
    /// of the same part, and one of all layers and heads into a whole one: each rank saves and restores a file of its own.  Their slices are one
    /// chunk again if they were written under one write_id that was given then (`kvc info FILE` shows it), and each comes while the lease of those
    /// before it lasts.  The write ids of what is in the file are the file's, that of what comes later is options-\>write_id.
    ///
    /// - `out`: given: the sequence, ended by kvc_seq_release; NULL on failure. Queued: NULL here, it comes in the result
    /// - `scope`: borrowed: whose; equal to the saved one's
    /// - `path`: borrowed: the file; a regular one, not a symbolic link
    /// - `options`: borrowed: how; NULL: all defaults. Extras come from the file, none may be given; first_position is 0 or the file's
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. NOT_FOUND: no such file. CORRUPT: it is damaged, nothing was used. VERSION: it is of another version. SHAPE: another scope or shape, the message names both fingerprints, or another part, it names both ranges. FULL: no room, seq_max, open_bytes_max. IO: the file
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_restore(
        out: *mut *mut kvc_seq,
        scope: *const kvc_scope,
        path: *const c_char,
        options: *const kvc_seq_options,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Says what a sequence is and where it lies.  Does not renew its lease.
    ///
    /// - `info`: borrowed: filled, at most info-\>size bytes
    /// - `seq`: borrowed: the sequence
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_get_info(
        info: *mut kvc_seq_info,
        seq: *const kvc_seq,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Ends the handle.  Queued calls on it run on and deliver; sealed chunks stay for others until they are evicted.
    ///
    /// - `seq`: given back: the sequence; NULL: nothing to do
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. STALE: released before
    ///
    /// Since: 0.1.0
    pub fn kvc_seq_release(seq: *mut kvc_seq, error: *mut kvc_error) -> kvc_status;

    /// Stores values.
    ///
    /// - `result`: lent: filled, at most result-\>size bytes; NULL: not wanted
    /// - `scope`: borrowed: whose
    /// - `objects`: lent: the items; keys, parts, memory in; status out
    /// - `object_count`: items; not 0
    /// - `options`: borrowed: how; NULL: all defaults
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. EXISTS: the key holds other bytes. FULL: no room, and nothing left that may be evicted. SHAPE, RANGE: the layout is none of the scope's shape. UNAVAILABLE, TIMEOUT: out of reach
    ///
    /// Since: 0.1.0
    pub fn kvc_object_put(
        result: *mut kvc_result,
        scope: *const kvc_scope,
        objects: *mut kvc_object,
        object_count: usize,
        options: *const kvc_object_options,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Reads values.  Parts longer than the value are filled in front and left alone behind.
    ///
    /// - `result`: lent: filled, at most result-\>size bytes; NULL: not wanted
    /// - `scope`: borrowed: whose
    /// - `objects`: lent: the items; keys, parts, memory in; value_size, status, tier out
    /// - `object_count`: items; not 0
    /// - `options`: borrowed: how; NULL: all defaults
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. NOT_FOUND: no such key. GONE: it failed its check and was dropped. RANGE: parts shorter than the value, for that item value_size is set and nothing written. UNAVAILABLE, TIMEOUT: out of reach
    ///
    /// Since: 0.1.0
    pub fn kvc_object_get(
        result: *mut kvc_result,
        scope: *const kvc_scope,
        objects: *mut kvc_object,
        object_count: usize,
        options: *const kvc_object_options,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Says which keys hold a value.  With KVC_OBJECT_LEASE one lease on every item found comes in result-\>lease (NULL when none was), in the
    /// same round trip; it is ended by kvc_lease_release.
    ///
    /// - `result`: lent: filled, at most result-\>size bytes; NULL: not wanted (but with KVC_OBJECT_LEASE)
    /// - `scope`: borrowed: whose
    /// - `objects`: lent: the items; keys in; value_size, status, tier out
    /// - `object_count`: items; not 0
    /// - `options`: borrowed: how; NULL: all defaults
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK whenever it ran; absent items have status NOT_FOUND. UNAVAILABLE, TIMEOUT: out of reach
    ///
    /// Since: 0.1.0
    pub fn kvc_object_exists(
        result: *mut kvc_result,
        scope: *const kvc_scope,
        objects: *mut kvc_object,
        object_count: usize,
        options: *const kvc_object_options,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Deletes values.  Leased items are absent at once for new readers and go when the lease ends.
    ///
    /// - `result`: lent: filled, at most result-\>size bytes; NULL: not wanted
    /// - `scope`: borrowed: whose
    /// - `objects`: lent: the items; keys in; status out
    /// - `object_count`: items; not 0
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. NOT_FOUND: no such key. UNAVAILABLE, TIMEOUT: out of reach
    ///
    /// Since: 0.1.0
    pub fn kvc_object_delete(
        result: *mut kvc_result,
        scope: *const kvc_scope,
        objects: *mut kvc_object,
        object_count: usize,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// The next entries in key order (bytes, unsigned) after `key`.  At the end \*entry_count \< entry_capacity.
    /// The first list of a scope puts its keys in order, which takes time and memory for each; from then on puts and deletes keep the order.
    ///
    /// - `entries`: lent: filled
    /// - `entry_capacity`: elements of `entries`; not 0
    /// - `entry_count`: lent: set to the number filled
    /// - `scope`: borrowed: whose
    /// - `key`: borrowed: list what comes after it; NULL with size 0: from the start
    /// - `key_size`: bytes
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. UNAVAILABLE, TIMEOUT: out of reach
    ///
    /// Since: 0.1.0
    pub fn kvc_object_list(
        entries: *mut kvc_object_entry,
        entry_capacity: usize,
        entry_count: *mut usize,
        scope: *const kvc_scope,
        key: *const c_void,
        key_size: usize,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Lends the page of one layer that holds `token`, in place; of a state layer the snapshot behind `token`, as one row.  The page stays,
    /// unchanged, until release: a view has no deadline, only the end of the process ends it; kvc_close is BUSY until then.  A cold page is brought
    /// to RAM first.  Reading it after release is the host's bug and no longer checked.  After fork(2) the memory is the parent's alone.
    ///
    /// - `out`: given: the view, ended by kvc_view_release; NULL on failure
    /// - `rows`: borrowed: filled with the page's layer, tokens, heads, strides and dtype, ready for DLPack and for kvc_append elsewhere; of an open page with the tokens that this sequence has in it. Its k.data and v.data are lent to the host until release and must not be written. Every stride is given, in bytes: head_stride is that of a full page. With KVC_VIEW_FRAME k.data is 512 bytes and v.data the sections, as many as v.bytes says, dtype KVC_U8, no other strides. Filled on success only
    /// - `seq`: borrowed: the sequence
    /// - `layer`: which layer, of the whole model
    /// - `token`: any position in the page
    /// - `flags`: KVC_VIEW_\*
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. RANGE: past the layers, or past filled(layer). GONE: no longer held, or left out of a window layer, whose page is lent from the first row on that is held. NO_SNAPSHOT: of a state layer. UNSUPPORTED: not exact (without FRAME), not sealed (with FRAME), the heads of the sequence's part came in several slices, or (with FRAME) are not all of one, or not mappable (another machine). BUSY: view_max
    ///
    /// Since: 0.1.0
    pub fn kvc_view_acquire(
        out: *mut *mut kvc_view,
        rows: *mut kvc_rows,
        seq: *const kvc_seq,
        layer: u32,
        token: u64,
        flags: u32,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Ends a view, in any thread; its memory may be reused at once.
    ///
    /// - `view`: given back: the view; NULL: nothing to do
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. STALE: released before
    ///
    /// Since: 0.1.0
    pub fn kvc_view_release(view: *mut kvc_view, error: *mut kvc_error) -> kvc_status;

    /// Makes a queue.
    ///
    /// - `out`: given: the queue, ended by kvc_queue_release; NULL on failure
    /// - `store`: borrowed: the store whose calls it takes
    /// - `options`: borrowed: limits; NULL: all defaults
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. FULL: queue_max. IO: no descriptor left. NO_MEMORY: no thread could be started
    ///
    /// Since: 0.1.0
    pub fn kvc_queue_create(
        out: *mut *mut kvc_queue,
        store: *mut kvc_store,
        options: *const kvc_queue_options,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// An eventfd that is readable while results or events wait.  Poll it, do not read it, do not close it.  Who polls edges hears when results begin to
    /// wait, and when events do: take all of a kind before waiting for more of it.
    ///
    /// - `fd`: borrowed: set to the descriptor, which is lent to the host until the queue is released
    /// - `queue`: borrowed: the queue
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK
    ///
    /// Since: 0.1.0
    pub fn kvc_queue_fd(
        fd: *mut c_int,
        queue: *const kvc_queue,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Starts every call held back by KVC_CALL_MORE, as one batch.  kvc_queue_drain does so too.
    ///
    /// - `queue`: borrowed: the queue
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK, also when none was held back
    ///
    /// Since: 0.1.0
    pub fn kvc_queue_submit(queue: *mut kvc_queue, error: *mut kvc_error) -> kvc_status;

    /// Asks every call with this `user` to stop; each still delivers its one result: CANCELLED if it had not started, else what it came to.
    ///
    /// - `queue`: borrowed: the queue
    /// - `user`: kvc_call.user of the calls
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. NOT_FOUND: none in flight
    ///
    /// Since: 0.1.0
    pub fn kvc_queue_cancel(queue: *mut kvc_queue, user: u64, error: *mut kvc_error) -> kvc_status;

    /// Starts what was held back and takes results, in the order in which the calls ended.  On a store opened with KVC_OPEN_HOST_DRIVEN it does
    /// the work itself, until the results fill the array or nothing is left to do.  Several threads may drain: each result goes to one of them.
    ///
    /// - `results`: borrowed: filled; KVC_INIT the first element, its size is the array's stride
    /// - `result_capacity`: elements of `results`
    /// - `result_count`: borrowed: set to the number filled
    /// - `queue`: borrowed: the queue
    /// - `timeout_us`: how long to wait for the first, microseconds; 0: not at all
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK, also with no result (\*result_count is 0). STALE: the queue was released, also by another thread meanwhile
    ///
    /// Since: 0.1.0
    pub fn kvc_queue_drain(
        results: *mut kvc_result,
        result_capacity: usize,
        result_count: *mut usize,
        queue: *mut kvc_queue,
        timeout_us: u64,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Cancels what is in flight, waits until no lent memory is in use, drops undrained results and releases what they gave.
    ///
    /// - `queue`: given back: the queue; NULL: nothing to do
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. STALE: released before
    ///
    /// Since: 0.1.0
    pub fn kvc_queue_release(queue: *mut kvc_queue, error: *mut kvc_error) -> kvc_status;

    /// Every counter and gauge as Prometheus text (exposition format 0.0.4): names begin with kvc_, sizes are in bytes.  Of scopes the 64 that hold
    /// most have a sample each, labelled with the first 8 bytes of their fingerprint in hexadecimal; the rest is one, scope="other".  Numbers may have
    /// grown by a digit between the call that asks for the size and the next: leave some room.
    ///
    /// - `text`: borrowed: filled and terminated; NULL with capacity 0: only ask for the size
    /// - `text_capacity`: bytes of `text`
    /// - `text_size`: borrowed: set to the size needed, the terminator included
    /// - `store`: borrowed: the store
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. RANGE: text_capacity is short; the text is cut there
    ///
    /// Since: 0.1.0
    pub fn kvc_metrics_text(
        text: *mut c_char,
        text_capacity: usize,
        text_size: *mut usize,
        store: *const kvc_store,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Reads the counters, without stopping anything: each is right, together they are of nearly one moment.
    ///
    /// - `metrics`: borrowed: filled, at most metrics-\>size bytes
    /// - `store`: borrowed: the store
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK
    ///
    /// Since: 0.1.0
    pub fn kvc_metrics_read(
        metrics: *mut kvc_metrics,
        store: *const kvc_store,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Sends events of a scope to a queue: its descriptor is readable while any wait.  They tell of chunks that have a name, from now on and in the
    /// order in which things happened; objects and private sequences have no events.  Whoever takes a chunk for held from its STORED until its REMOVED, or that
    /// of one it descends from, or a CLEARED of its scope, knows what a match finds
    /// (of models with window or state layers: at most).  A clear is one event, not one a chunk.
    /// A queue keeps up to 4096 events with 262144 ids (about 1.6 MiB, from its first watch on).  A reader so slow that there is no room loses all that
    /// comes until it has drained the rest, and is told then by one KVC_EVENT_LOST, whatever its mask: drop what is known and begin anew.
    ///
    /// - `queue`: borrowed: where they go
    /// - `scope`: borrowed: whose, up to 256 of them one by one; NULL: all that this tenant may see and that were not named one by one
    /// - `mask`: KVC_EVENT_\* bits, instead of those before; 0 ends it, with a scope of NULL of all
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. FULL: too many scopes one by one
    ///
    /// Since: 0.1.0
    pub fn kvc_event_watch(
        queue: *mut kvc_queue,
        scope: *const kvc_scope,
        mask: u32,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Takes events.  Does not wait.
    ///
    /// - `events`: borrowed: filled; KVC_INIT the first element, its size is the array's stride
    /// - `event_capacity`: elements of `events`
    /// - `event_count`: borrowed: set to the number filled
    /// - `queue`: borrowed: the queue
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK, also with none
    ///
    /// Since: 0.1.0
    pub fn kvc_event_drain(
        events: *mut kvc_event,
        event_capacity: usize,
        event_count: *mut usize,
        queue: *mut kvc_queue,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Writes spans of calls to a Perfetto JSON file until called with NULL: calls that take a kvc_call, with their status, bytes and trace id, and
    /// what they do inside (seal, evict).  A call is one span: with KVC_OPEN_WAIT one that blocks until there is room is in it all the time, one that is
    /// queued while it runs the last time.  Spans wait in a buffer of 512; whoever fills it writes them, in one write that ends the file too, so it parses
    /// even if the process dies, without those that waited.  A write that fails ends the recording, and the call that ends it says so.  Another path ends
    /// the file before.  kvc_close ends it too.
    ///
    /// - `store`: borrowed: the store
    /// - `path`: borrowed: a regular file under its own name, replaced; NULL: end and close it
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. IO: the file could not be made, and nothing is recorded; or the one before could not be written since ("ended early"), and this one has begun
    ///
    /// Since: 0.1.0
    pub fn kvc_trace_record(
        store: *mut kvc_store,
        path: *const c_char,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Attention where the pages lie, on their stored format; feeds importance.  The same split gives the same bits for any thread count,
    /// tier and arrival order; two splits agree to 2e-6.  A page that fails its check makes the call fail, never a silent part.
    ///
    /// - `output`: borrowed, its memory lent: where the result goes
    /// - `info`: lent: filled, at most info-\>size bytes; NULL: not wanted
    /// - `seq`: borrowed: the sequence
    /// - `query`: borrowed, its memory lent: the queries
    /// - `sparsity`: borrowed: what may be left out; NULL: nothing
    /// - `extra`: borrowed, its arrays lent: one run of the host's own rows not stored yet, merged in; NULL: none
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. GONE: some of it is no longer held. RANGE, SHAPE: the query. UNAVAILABLE, TIMEOUT: some is out of reach
    ///
    /// Since: not built yet: KVC_ERR_UNSUPPORTED
    pub fn kvc_attend(
        output: *const kvc_partial,
        info: *mut kvc_attend_info,
        seq: *const kvc_seq,
        query: *const kvc_query,
        sparsity: *const kvc_sparsity,
        extra: *const kvc_rows,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Merges attention over disjoint tokens, in array order.  Pure; host memory; any thread.
    ///
    /// - `output`: borrowed, its memory lent: where the result goes; may be the memory of parts\[0\], of no other
    /// - `parts`: borrowed, their memory lent: what is merged
    /// - `part_count`: entries of `parts`; not 0
    /// - `query_count`: queries
    /// - `query_heads`: heads of a query
    /// - `v_dim`: elements of an output head
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. SHAPE: a part does not fit the counts
    ///
    /// Since: not built yet: KVC_ERR_UNSUPPORTED
    pub fn kvc_attend_merge(
        output: *const kvc_partial,
        parts: *const kvc_partial,
        part_count: usize,
        query_count: u64,
        query_heads: u32,
        v_dim: u32,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Only the choice: which 16-token subpages each KV head would read, best first.
    ///
    /// - `positions`: lent: for KV head h, counts\[h\] subpage ids from positions + h \* (position_capacity / count_capacity) on; to be used as kvc_rows.token_list with token_unit 16
    /// - `position_capacity`: entries of `positions`
    /// - `counts`: lent: ids of each KV head
    /// - `count_capacity`: entries of `counts`: the KV heads of the part
    /// - `info`: lent: filled, at most info-\>size bytes; NULL: not wanted
    /// - `seq`: borrowed: the sequence
    /// - `query`: borrowed, its memory lent: the queries
    /// - `sparsity`: borrowed: how much to choose
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. GONE: some of it is no longer held. RANGE, SHAPE: the query or the capacities. UNAVAILABLE, TIMEOUT: out of reach
    ///
    /// Since: not built yet: KVC_ERR_UNSUPPORTED
    pub fn kvc_select(
        positions: *mut u64,
        position_capacity: usize,
        counts: *mut u64,
        count_capacity: usize,
        info: *mut kvc_attend_info,
        seq: *const kvc_seq,
        query: *const kvc_query,
        sparsity: *const kvc_sparsity,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Gives the last queries of a prefill: the store scores its own keys, nothing is returned.  Feeds importance.
    ///
    /// - `seq`: borrowed: the sequence; alone on this handle
    /// - `query`: borrowed, its memory lent: the queries
    /// - `call`: borrowed: how to run it; NULL: block
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. GONE: some of it is no longer held. RANGE, SHAPE: the query. UNAVAILABLE, TIMEOUT: some is out of reach
    ///
    /// Since: not built yet: KVC_ERR_UNSUPPORTED
    pub fn kvc_seq_observe(
        seq: *mut kvc_seq,
        query: *const kvc_query,
        call: *const kvc_call,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Says how the cluster is.
    ///
    /// - `info`: borrowed: filled, at most info-\>size bytes
    /// - `store`: borrowed: the store
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. UNSUPPORTED: not a kvc: store
    ///
    /// Since: not built yet: KVC_ERR_UNSUPPORTED
    pub fn kvc_cluster_get_info(
        info: *mut kvc_cluster_info,
        store: *const kvc_store,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Lists the shards of the map.
    ///
    /// - `nodes`: borrowed: filled; KVC_INIT the first element, its size is the array's stride
    /// - `node_capacity`: elements of `nodes`
    /// - `node_count`: borrowed: set to the number of shards, also when it is above the capacity
    /// - `store`: borrowed: the store
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. RANGE: more shards than the capacity; the first are filled. UNSUPPORTED: not a kvc: store
    ///
    /// Since: not built yet: KVC_ERR_UNSUPPORTED
    pub fn kvc_cluster_nodes(
        nodes: *mut kvc_node,
        node_capacity: usize,
        node_count: *mut usize,
        store: *const kvc_store,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Where the chunk at `token` of a sequence belongs, first choice first (weighted rendezvous hashing: Thaler and Ravishankar, 1998).
    ///
    /// - `nodes`: borrowed: filled; KVC_INIT the first element, its size is the array's stride
    /// - `node_capacity`: elements of `nodes`
    /// - `node_count`: borrowed: set to the number filled
    /// - `seq`: borrowed: the sequence
    /// - `token`: a position of it
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. RANGE: past the sequence. UNSUPPORTED: not a kvc: store
    ///
    /// Since: not built yet: KVC_ERR_UNSUPPORTED
    pub fn kvc_cluster_locate(
        nodes: *mut kvc_node,
        node_capacity: usize,
        node_count: *mut usize,
        seq: *const kvc_seq,
        token: u64,
        error: *mut kvc_error,
    ) -> kvc_status;

    /// Moves a node's share away; returns when it has begun (moved_bytes_left tells how far it is).
    ///
    /// - `store`: borrowed: the store
    /// - `node`: borrowed: the node's name
    /// - `error`: borrowed: why it failed; NULL: not wanted
    ///
    /// Returns KVC_OK. NOT_FOUND: no such node. FULL: R copies would not fit on the others. UNSUPPORTED: not a kvc: store
    ///
    /// Since: not built yet: KVC_ERR_UNSUPPORTED
    pub fn kvc_cluster_drain(
        store: *mut kvc_store,
        node: *const c_char,
        error: *mut kvc_error,
    ) -> kvc_status;
}

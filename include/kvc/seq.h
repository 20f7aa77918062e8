/* kvc/seq.h - sequences: match, append, gather, fork, truncate, lease, hand over.
 *
 * A sequence is an ordered run of tokens: shared sealed chunks in front, private open rows behind.
 *
 *   filled(l)  rows given to layer l.  A read of layer l sees rows below filled(l), also before other layers have them.
 *   length     the least filled(l) over full and latent layers of the part (over all, if it has none): complete tokens.
 *   open rows  everything not sealed: less than one chunk in decode, a whole prefill step when appended layer by layer.  The first row of a
 *              chunk takes the room of all its full and latent layers, window layers take theirs with their first row, a snapshot its own
 *              (kvc_store_options.open_bytes_max says how to size that).
 *
 * A chunk is sealed when its tokens are complete: hashed, signed with a write id, immutable, indexed.  The first commit of a chunk wins
 * whole: rows of a chunk that is already held are not copied, reads then give the held ones, and no read of a handle mixes write ids in a
 * chunk (ranks of one engine, which have a handle each, may read different writers; a snapshot whose chunk's rows gave way to another
 * writer's, which have none there, is the sequence's own).
 * Rows that were wrong stay so until they are evicted: clear the scope, or change kvc_scope_options.revision.
 * A chunk is visible to a match when every page of full and latent layers in the matcher's part is stored.  Window and state layers do
 * not delay that; they decide where a match may END: at a chunk boundary whose window rows are held and where a snapshot exists.
 *
 * Window layers.  A query at position p sees the rows [p + 1 - window, p].  A sequence holds what the query behind its length sees; older
 * window rows stay while there is room.  An append may leave out rows that no query behind its length sees; their positions are GONE.
 *
 * State layers.  A snapshot is valid where an append's range ended.  A sequence holds that at its position; those at chunk ends stay while
 * there is room, and matches end at them.  Of a prefix that nobody uses the last chunk goes first, and with it what stands beside it: what is
 * left ends where a match can.  While a sequence holds its chunks, window rows and snapshots behind its position may go before them.
 *
 * A sequence that brings a snapshot or window rows which the held chunk of that name has not, or has lost, makes the chunk its own, whole: matches find it from then on and no longer what was stored behind the other, those who hold that keep
 * it.  Where a kvc_seq_lease holds the chunk, or one behind it, what was pinned keeps its name, and the sequence's rows stay its own under none
 * (tokens_shareable).  The snapshot may come in a later call than the rows: while the held chunk has none, the last complete chunk of the
 * sequence stays open until it has come, or the next is complete.
 *
 * Parts.  Ranks of an engine that splits a model (PP: layers, TP: heads) each have a sequence of their own, whose options name its part: it takes
 * and gives those layers and heads alone, by their numbers in the whole model, and its length is that of its part.  A layer with one KV head,
 * as latent ones, is in every part whole; it is stored once, and may be brought by all.  Slices of equal tokens and one write_id make one chunk;
 * readers may split the model otherwise than its writers did.  A chunk stays one writer's: where another has some of it, a rank whose slice is
 * not there keeps its own rows under no name (tokens_shareable), and whoever has all of it takes the name.  A slice with a write_id that was given waits
 * for its sisters as long as somebody holds it, and after the release of its writer until that lease would have lapsed; then it is dropped.
 * Meanwhile a rank with another write_id does not take it for its own.  Ranks in one store have to give one: drawn ones make no common chunk, and
 * only the first rank's slices are ever found.  Ranks in processes of their own have a store each, where no sister comes: 0 is right there, unless
 * what they save may be restored into one store later, which needs one write_id given to all from the start.
 * Ranks may match different lengths: peek as a whole model, or match to the least of them (tokens_max) until all are equal.
 * Without one it has no sisters: it is found by sequences of its part, and evicted as any chunk.  All slices of a chunk go together.
 *
 * The name of a chunk is SHA-256("kvc chunk 1" | name before it | u32 n | i32 token x n | u32 e | for each extra u32 begin in the chunk,
 * u32 count, u64 length, bytes), little-endian; before the first chunk stands the scope's fingerprint, or SHA-256("kvc position 1" |
 * fingerprint | u64 first_position) if that is not 0.  It is equal in every process, language and machine.
 *
 * Lease.  A sequence pins its sealed chunks for lease_ms after the last call that used it (KVC_FOREVER: until release); use renews, so
 * a slow transfer never outlives it.  When it lapses the handle stays valid but chunks may be evicted: a read then gives GONE with the
 * length that is left; truncate to it and append again.  Open rows that the host wrote are never evicted; those of a held chunk that a
 * truncate cut or an append found under its name are that chunk's, and may go with it, until a row of its own is written into it.  Any
 * release order is legal: forks, leases and views hold their own pages.
 *
 *   chunk    rows arrive, layer by layer        all stored               demote, move tier
 *      OPEN -----------------------> SEALED ---------------> VISIBLE <------> VISIBLE (fewer bits, colder)
 *      private, exact                hashed, immutable       leased: HELD     not leased: evicted, or fails a check -> GONE = a miss
 *
 *   sequence create | match | attach | restore | fork -> LEASED --no call for lease_ms--> LAPSED --truncate, append--> LEASED
 *      release or kvc_close -> STALE        in a forked child: FORKED
 *
 *   expected failures   match: FULL.   append: RANGE, SHAPE, GONE, FULL.   gather: GONE, UNAVAILABLE, TIMEOUT, with result->done.
 *                       fork, truncate: RANGE, GONE, NO_SNAPSHOT.   lease: GONE, FULL.   save: GONE, IO.
 *                       restore: NOT_FOUND, CORRUPT, VERSION, SHAPE, FULL, IO. */
#ifndef KVC_SEQ_H
#define KVC_SEQ_H

#include <kvc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Identity beside the token ids: the digest of an image behind its placeholders, an embedding's hash.  Enters the hash of every chunk that
 * its range touches.  Frozen. */
typedef struct kvc_extra {
  uint64_t token_begin, /**< first position it stands behind */
      token_count;      /**< positions; not 0; two extras may not overlap */
  const void *data;     /**< 1..64 bytes; borrowed */
  uint64_t data_size;   /**< bytes */
} kvc_extra;

/** How a sequence is made.
 * A layer with one KV head is in every part; a snapshot of a state layer with several is split by heads as rows are.
 * Not built yet, KVC_ERR_UNSUPPORTED when set: precision, a tier other than the host's. */
typedef struct kvc_seq_options {
  uint32_t size;                  /**< sizeof(kvc_seq_options), by KVC_INIT */
  uint32_t flags;                 /**< KVC_SEQ_* */
  uint64_t lease_ms;              /**< milliseconds; 0: the store's; KVC_FOREVER: until release (may spill, is never dropped) */
  uint32_t layer_begin,           /**< the part this handle writes and reads (PP, TP): first layer */
      layer_count,                /**< its layers; 0: all, layer_begin is 0 then */
      head_begin,                 /**< its first KV head, in every layer that has several */
      head_count;                 /**< its KV heads; 0: all, head_begin is 0 then */
  const kvc_precision *precision; /**< borrowed; NULL: the scope's */
  uint64_t prefill_ns_per_token;  /**< match: cost of recomputing here, nanoseconds; 0: unknown, no cut */
  uint64_t tokens_max;            /**< match: look no further; 0: all.  A host that needs logits of the last token says n - 1 */
  uint64_t first_position;        /**< of token 0, if it is not 0: part of the identity */
  const kvc_extra *extras;        /**< borrowed; rising; those past the match stay with the sequence */
  uint64_t extra_count;           /**< entries of `extras` */
  uint8_t write_id[16];           /**< parts: the ranks of one engine give one random value a sequence, so that their slices make one chunk;
                                       0: drawn, for who has no sisters in this store */
  uint32_t tier;                  /**< match: start promoting the hit to this KVC_TIER_*; 0: no */
  uint32_t reserved;              /**< 0 */
} kvc_seq_options;

/** Flags of kvc_seq_options. */
enum {
  KVC_SEQ_PRIVATE = 1, /**< never matched by others; token ids optional, for hosts that do not know them: before their rows, or never */
  KVC_SEQ_NO_CUT = 2,  /**< match: estimate, but do not shorten */
  KVC_SEQ_PEEK = 4     /**< match: only info; no sequence, no lease, no use counted (routers) */
};

/** Makes an empty sequence.
 * @param out     given: the sequence, ended by kvc_seq_release; NULL on failure
 * @param scope   borrowed: whose
 * @param options borrowed: how; NULL: all defaults
 * @param error   borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  FULL: seq_max, or a part beyond the 1,024 different ones of a scope.  RANGE: a part that the shape has not
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_create(kvc_seq **out, const kvc_scope *scope, const kvc_seq_options *options, kvc_error *error);

/** What a match found. */
typedef struct kvc_match_info {
  uint32_t size;             /**< sizeof(kvc_match_info), by KVC_INIT */
  uint32_t stop;             /**< why it ends there: KVC_STOP_* */
  uint64_t tokens;           /**< length of the sequence returned: all groups agree on it */
  uint64_t tokens_attention; /**< what full and latent layers alone could serve */
  uint64_t tokens_hot;       /**< leading part already in RAM or device memory here */
  uint64_t bytes_nvme,       /**< to fetch for the rest, from disk */
      bytes_remote;          /**< to fetch for the rest, from other machines */
  uint64_t fetch_us,         /**< estimate for `tokens`, microseconds: fetching them */
      prefill_us;            /**< estimate for `tokens`, microseconds: recomputing them; needs prefill_ns_per_token */
} kvc_match_info;

/** Why a match ends where it does. */
enum {
  KVC_STOP_END = 0,         /**< every whole chunk of the tokens */
  KVC_STOP_ABSENT = 1,      /**< the next chunk is not held */
  KVC_STOP_WINDOW = 2,      /**< rows of a window layer are missing behind a later end */
  KVC_STOP_STATE = 3,       /**< no snapshot at a later end */
  KVC_STOP_COST = 4,        /**< recomputing is faster */
  KVC_STOP_UNREACHABLE = 5, /**< the next chunk is on a node that does not answer */
  KVC_STOP_DEADLINE = 6     /**< the deadline passed */
};

/** Longest stored prefix of `tokens` -> a new sequence of that length that already holds its lease.  Nothing found: length 0, still KVC_OK.
 * Absent nodes, bad pages and the deadline shorten the match and are named in info->stop; they never fail it.
 * Cost: SHA-256 over the tokens once, and one look-up a chunk.
 * @param out         given: the sequence, ended by kvc_seq_release; NULL on failure and with KVC_SEQ_PEEK.  Queued: NULL here, it comes in the
 *                    result
 * @param info        lent: filled, at most info->size bytes; NULL: not wanted
 * @param scope       borrowed: whose
 * @param tokens      lent: the ids; any int32, negative too
 * @param token_count ids; 0 gives a sequence of length 0
 * @param options     borrowed: how; NULL: all defaults
 * @param call        borrowed: how to run it; NULL: block
 * @param error       borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  FULL: seq_max
 * @since 0.1.0 */
KVC_API kvc_status kvc_match(kvc_seq **out, kvc_match_info *info, const kvc_scope *scope, const int32_t *tokens, size_t token_count,
                             const kvc_seq_options *options, const kvc_call *call, kvc_error *error);

/** Appends rows, ids, or both.  All or nothing.
 * `tokens` are the next ids after those already given; they may run ahead of rows (a whole prompt at once), rows never ahead of ids.
 * After a match the first info.tokens ids are given already.  Who appends layer by layer gives ids with the first layer only: ids given
 * again are taken for the next ones, which is not noticed; kvc_seq_info.tokens_given shows how many there are.  In
 * a PRIVATE sequence ids come before the rows they name, or never: after rows without ids a call that gives ids is RANGE, until a truncate
 * to where the ids end.  Each run starts at its layers' filled(l): a gap or overlap is RANGE.  Layers in any order, any split; K and V of a
 * layer together; window layers may skip rows that no later query sees (positions below length + 1 - window, with the length after the
 * call); a state layer takes one snapshot per call, valid after the range's last token.  NaN and infinities are kept bit for bit.  Copies
 * before it returns (device memory: in the stream's order, sealed once it has passed).  One open row takes the room of a
 * whole chunk: a step that opens a chunk in every sequence needs that for each of them.
 * @param seq         borrowed: the sequence; alone on this handle
 * @param tokens      lent: the next ids; any int32, negative too; NULL with count 0: none
 * @param token_count ids
 * @param rows        borrowed, its arrays lent: the runs; NULL with count 0: none
 * @param row_count   runs; KVC_INIT each, all have the size of the first
 * @param call        borrowed: how to run it; NULL: block
 * @param error       borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  RANGE: layer, head or position; a gap, an overlap, rows ahead of ids (PRIVATE: ids behind rows).  SHAPE: dtype or
 *         geometry.  GONE: some of what it goes on from is no longer held: truncate to what is left.  FULL: open_bytes_max, or
 *         memory_bytes and nothing left that may be evicted; with KVC_RETRY_NEVER: this sequence alone needs more than one of them.  A
 *         prefill in one call seals its chunks at once; layer by layer it holds all of them open until the last layer, so that
 *         open_bytes_max must have room for them
 * @since 0.1.0 */
KVC_API kvc_status kvc_append(kvc_seq *seq, const int32_t *tokens, size_t token_count, const kvc_rows *rows, size_t row_count,
                              const kvc_call *call, kvc_error *error);

/** Adds identity to tokens whose chunk is not sealed (kvc_seq_options.extras does it for what is known at the start).
 * The first call after kvc_seq_truncate replaces: extras kept from before that begin at or after the position truncated to are dropped, in
 * chunks that are not sealed again.  Every other call adds, and an overlap is refused.
 * @param seq         borrowed: the sequence; alone on this handle
 * @param extras      borrowed: what stands behind which tokens, rising
 * @param extra_count entries of `extras`
 * @param error       borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  RANGE: a chunk it touches is sealed, or it overlaps one that the sequence has
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_identify(kvc_seq *seq, const kvc_extra *extras, size_t extra_count, kvc_error *error);

/** Copies rows out, converted to each array's dtype and layout; writes nothing outside what the runs name.  Window layers serve their
 * window and what is held of older rows, state layers the snapshot at token_begin + token_count: one row, without a token_list.  On failure
 * the rows below position result->done are right in every run.
 * @param result    lent: filled, at most result->size bytes, also on failure; NULL: not wanted
 * @param seq       borrowed: the sequence
 * @param rows      borrowed, its arrays lent: the runs
 * @param row_count runs; KVC_INIT each, all have the size of the first
 * @param call      borrowed: how to run it; NULL: block
 * @param error     borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  GONE: some rows are no longer held.  NO_SNAPSHOT: a state layer has none there.  RANGE: past filled(layer), of a
 *         state layer past the length.  UNAVAILABLE, TIMEOUT: some are out of reach
 * @since 0.1.0 */
KVC_API kvc_status kvc_gather(kvc_result *result, const kvc_seq *seq, const kvc_rows *rows, size_t row_count, const kvc_call *call,
                              kvc_error *error);

/** A new sequence with the first tokens of another; copy on write, cost independent of length.
 * @param out    given: the sequence, ended by kvc_seq_release; NULL on failure
 * @param seq    borrowed: the sequence to start from
 * @param tokens how many, without ids given ahead of them; KVC_ALL: all, open rows and ids given ahead too
 * @param error  borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  RANGE: more than it has.  NO_SNAPSHOT: a state layer is past it and has none there.  GONE: evicted after a lapse.  FULL:
 *         seq_max or memory
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_fork(kvc_seq **out, const kvc_seq *seq, uint64_t tokens, kvc_error *error);

/** Back to `tokens`, in all layers or not at all; 0 is always possible.  Cut too are the ids given ahead of rows, also when `tokens` is the
 * present length: give them again with the next append.  Inside a chunk that is held rounded, the rows left are derived: usable, never
 * shared.  Extras stay, also those of the tokens cut off, so that the same prompt appended again keeps its name; for another prompt
 * kvc_seq_identify replaces them.
 * @param seq    borrowed: the sequence; alone on this handle
 * @param tokens the new length, at most the present one
 * @param error  borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  RANGE: longer than it is.  GONE: a window layer needs rows it dropped, chunks went after a lapse, or the chunk it cuts
 *         failed its check.  NO_SNAPSHOT (kvc_seq_info.tokens_end says where it can)
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_truncate(kvc_seq *seq, uint64_t tokens, kvc_error *error);

/** Beam search: seqs[i] becomes what seqs[source[i]] was; all or nothing.  An index may stand in `source` several times: those sequences
 * share what they have, as forks do, and write copies.  A sequence becomes the other with all that it is, its lease_ms and PRIVATE too; what
 * nobody becomes is let go.  Cost independent of length.
 * @param seqs      borrowed: the sequences, of equal scopes and parts, none of them twice; alone on these handles
 * @param source    borrowed: for each, the index of the one that it becomes
 * @param seq_count entries of both; not 0
 * @param error     borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  RANGE: an index.  SHAPE: unequal scopes or parts.  MISUSE: of two stores, or one is in use
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_reorder(kvc_seq *const *seqs, const uint32_t *source, size_t seq_count, kvc_error *error);

/** Keeps only the listed positions, renumbered from 0; original positions stay in the rows' rotation.  The sequence becomes private: it is
 * no prefix of anything any more.  All or nothing.  Leading chunks that stay whole are shared with whoever has them; all other rows are copied,
 * so that there must be room for them beside the chunks they come from.  Cut are rows and ids past the length; ids of kept tokens stay known.
 * Of window layers those rows come along that are seen behind the kept positions: taking out late ones brings early ones back into the window.
 * @param seq            borrowed: the sequence; alone on this handle
 * @param positions      borrowed: rising, none twice; NULL with count 0: nothing is kept
 * @param position_count entries of `positions`
 * @param error          borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  RANGE: past the length, not rising.  GONE: evicted after a lapse, or failed its check; rows that a window would see are no
 *         longer held.  FULL: no room for the copies.  UNSUPPORTED: it has state layers
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_compact(kvc_seq *seq, const uint64_t *positions, size_t position_count, kvc_error *error);

/** Brings rows to a tier, by the deadline if it can; with KVC_CALL_DETACH it waits for nothing, not for queued calls on the sequence either (then
 * it does nothing), and what does not get there is nobody's to hear of.
 * On mem: what is held is in RAM, so that the call says how far rows are held and counts as a use.
 * @param result    lent: filled, result->done is what got there: the position below which all runs are (lists: leading entries); NULL: not
 *                  wanted
 * @param seq       borrowed: the sequence
 * @param rows      borrowed: the runs; their k and v are ignored
 * @param row_count runs
 * @param tier      KVC_TIER_*; on mem: KVC_TIER_HOST, others are UNSUPPORTED
 * @param call      borrowed: how to run it; NULL: block
 * @param error     borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  RANGE: past filled(layer).  FULL: no room in the tier.  GONE, NO_SNAPSHOT, UNAVAILABLE, TIMEOUT: not all is there
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_prefetch(kvc_result *result, const kvc_seq *seq, const kvc_rows *rows, size_t row_count, uint32_t tier,
                                    const kvc_call *call, kvc_error *error);

/** A lease of its own on [token_begin, token_begin + token_count): it outlives the sequence, so a prompt can be pinned for an hour or a
 * load job handed on.  It covers the sealed chunks that the range touches, and of window and state layers what a match needs to end behind the
 * last of them, and at the last place not behind the range where one can: others than that are not held.  To pin a prompt for others,
 * append it, a snapshot at the last multiple of chunk_tokens in it, and lease [0, its length): whoever has the same tokens matches up to
 * there.  KVC_ALL pins for who goes on from the end.
 * @param out         given: the lease, ended by kvc_lease_release; NULL on failure.  Queued: NULL here, it comes in the result
 * @param seq         borrowed: the sequence
 * @param token_begin first position
 * @param token_count positions; KVC_ALL: to the end
 * @param lease_ms    from now, milliseconds; 0: the store's; KVC_FOREVER: renewed by this process while it lives
 * @param call        borrowed: how to run it; NULL: block
 * @param error       borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  RANGE: past the sequence.  GONE: some of it is no longer held.  FULL: 1048576 leases are held
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_lease(kvc_lease **out, const kvc_seq *seq, uint64_t token_begin, uint64_t token_count, uint64_t lease_ms,
                                 const kvc_call *call, kvc_error *error);

/** Sets when a lease ends.
 * @param lease    borrowed: the lease
 * @param lease_ms from now, milliseconds; 0: the store's; KVC_FOREVER: never
 * @param error    borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  GONE: it lapsed and pages went
 * @since 0.1.0 */
KVC_API kvc_status kvc_lease_renew(kvc_lease *lease, uint64_t lease_ms, kvc_error *error);

/** Ends a lease; what it held may be evicted.
 * @param lease given back: the lease; NULL: nothing to do
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK, also when it had lapsed.  STALE: released before
 * @since 0.1.0 */
KVC_API kvc_status kvc_lease_release(kvc_lease *lease, kvc_error *error);

/** Attention mass per token from the host, added to what attend and observe learn.
 * @param seq         borrowed: the sequence; alone on this handle
 * @param layer_begin first layer
 * @param layer_count layers
 * @param token_begin first position
 * @param mass        borrowed: mass of token token_begin + i over all heads of these layers; finite, >= 0
 * @param mass_count  entries of `mass`
 * @param error       borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  RANGE: layer or position
 * @since not built yet: KVC_ERR_UNSUPPORTED */
KVC_API kvc_status kvc_seq_importance(kvc_seq *seq, uint32_t layer_begin, uint32_t layer_count, uint64_t token_begin, const float *mass,
                                      size_t mass_count, kvc_error *error);

/** Sets the precision of this sequence (the scope's others are not touched); pages change in the background.
 * @param seq       borrowed: the sequence; alone on this handle
 * @param precision borrowed: what it is to be; NULL: the scope's again
 * @param error     borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  FULL: below the floors, the message names the least
 * @since not built yet: KVC_ERR_UNSUPPORTED */
KVC_API kvc_status kvc_seq_budget(kvc_seq *seq, const kvc_precision *precision, kvc_error *error);

/** What the host knows of reuse. */
typedef struct kvc_hint {
  uint32_t size;            /**< sizeof(kvc_hint), by KVC_INIT */
  uint32_t flags;           /**< KVC_HINT_DONE: the conversation is over */
  uint64_t continues_in_ms; /**< milliseconds until the next turn; 0: unknown.  Set, it counts as one step of priority, however long */
  uint32_t turn,            /**< number of the turn, from 1; 0: unknown.  Taken, without effect yet */
      priority;             /**< more is kept longer; 0: normal.  Each step: evicted as if the sequence was used 1,024 calls of the store later */
} kvc_hint;

/** Flags of kvc_hint. */
enum {
  KVC_HINT_DONE = 1 /**< the conversation is over: from its release on its chunks are the first to go, the last of them first, up to one that
                         others hold, go on from or used since.  Priority does not count */
};

/** Tells the store what the host knows of reuse; overrides the store's own estimate.  It decides who is evicted first when the sequence was
 * released or lapsed, nothing else; the last hint counts.  It stays with the handle: forks have none, and a reorder moves none.
 * @param seq   borrowed: the sequence; alone on this handle
 * @param hint  borrowed: what is known
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_hint(kvc_seq *seq, const kvc_hint *hint, kvc_error *error);

/** Hands a sequence, open rows included, to whoever knows scope and name: a snapshot, held for lease_ms, after which the name is no more and
 * its chunks may be evicted.  Returns when W nodes have it; on mem: it is for this process.  Publishing a name again replaces it and its lease.
 * The sequence goes on as before, and the snapshot outlives it: open rows are copied by whoever writes first.
 * @param seq       borrowed: the sequence; alone on this handle
 * @param name      borrowed: 1..64 bytes, any; its own in every scope
 * @param name_size bytes
 * @param lease_ms  from now, milliseconds; 0: the store's; KVC_FOREVER: until it is withdrawn
 * @param call      borrowed: how to run it; NULL: block
 * @param error     borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  GONE: some of it is no longer held.  FULL: no room, or as many names as kvc_store_options.seq_max.  TIMEOUT, UNAVAILABLE:
 *         W nodes were not reached.  UNSUPPORTED: several shards without a registry
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_publish(kvc_seq *seq, const void *name, size_t name_size, uint64_t lease_ms, const kvc_call *call,
                                   kvc_error *error);

/** A fork of a published sequence, leased.  It has the identity, write_id and privacy of the published one: of the options lease_ms,
 * KVC_SEQ_PRIVATE and write_id count, those of a match have no meaning here, and extras and first_position are refused.  A part that is named
 * must be that of the published one.
 * @param out       given: the sequence, ended by kvc_seq_release; NULL on failure.  Queued: NULL here, it comes in the result
 * @param scope     borrowed: whose
 * @param name      borrowed: 1..64 bytes
 * @param name_size bytes
 * @param options   borrowed: how; NULL: all defaults
 * @param call      borrowed: how to run it; NULL: block
 * @param error     borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  NOT_FOUND: no such name, or it lapsed.  SHAPE: of another part.  FULL: seq_max.  UNAVAILABLE, TIMEOUT: out of reach
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_attach(kvc_seq **out, const kvc_scope *scope, const void *name, size_t name_size, const kvc_seq_options *options,
                                  const kvc_call *call, kvc_error *error);

/** Frees what a name holds at once; either side may.  Sequences that were attached stay.
 * @param scope     borrowed: whose
 * @param name      borrowed: 1..64 bytes
 * @param name_size bytes
 * @param error     borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  NOT_FOUND: no such name, or it lapsed
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_withdraw(const kvc_scope *scope, const void *name, size_t name_size, kvc_error *error);

/** Saves a sequence as one versioned file: ids, extras, sealed chunks and open rows, of every layer; of window and state layers all rows and
 * snapshots that are held, so that what comes back can end where this one can.  It is written beside `path`, synced, and renamed: until the
 * call gives KVC_OK the file that was there stays, or none; after a crash it is the old file or the new one, whole, and a
 * ".kvc-<16 hex digits>.part" may be left beside.  Every page is checked before it is written.  The file holds what the prompt
 * holds: only its owner can read it (mode 0600).  A sequence from whose chunks kvc_scope_clear took the names is saved as a private one.
 * Of a sequence of a part the file has that part alone; of a whole one it has all layers and heads, whoever wrote its chunks.  Other calls on
 * the sequence that only read may run meanwhile.
 * @param seq   borrowed: the sequence
 * @param path  borrowed: the file, replaced; not through a symbolic link, and nothing but a regular file is replaced
 * @param call  borrowed: how to run it; NULL: block
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  IO: the file, error->system_error says why (ENOSPC: no room beside it); the message says "was replaced" where that could not
 *         be undone (a file system that cannot exchange two files, and a directory that cannot be synced).  GONE: some of it is no longer held, or
 *         failed its check and was dropped
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_save(const kvc_seq *seq, const char *path, const kvc_call *call, kvc_error *error);

/** Makes a sequence from a saved file, as it was: its sealed chunks can be found under their names by others, its open rows go on, and it
 * holds its lease.  All of the file that is used is checked before anything of it is: sums, lengths, and that the names are those of its
 * ids.  Leading chunks that are held already are taken as they are and not read (of a model with window or state layers: those of the writer
 * that the file has them of); the first commit of a chunk wins as everywhere.  A file is bound to its scope: salt and shape are part of that.
 * With KVC_SEQ_PRIVATE what is appended later is private; what the file has under names is not.  The file of a part is restored into a sequence
 * of the same part, and one of all layers and heads into a whole one: each rank saves and restores a file of its own.  Their slices are one
 * chunk again if they were written under one write_id that was given then (`kvc info FILE` shows it), and each comes while the lease of those
 * before it lasts.  The write ids of what is in the file are the file's, that of what comes later is options->write_id.
 * @param out     given: the sequence, ended by kvc_seq_release; NULL on failure.  Queued: NULL here, it comes in the result
 * @param scope   borrowed: whose; equal to the saved one's
 * @param path    borrowed: the file; a regular one, not a symbolic link
 * @param options borrowed: how; NULL: all defaults.  Extras come from the file, none may be given; first_position is 0 or the file's
 * @param call    borrowed: how to run it; NULL: block
 * @param error   borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  NOT_FOUND: no such file.  CORRUPT: it is damaged, nothing was used.  VERSION: it is of another version.  SHAPE: another
 *         scope or shape, the message names both fingerprints, or another part, it names both ranges.  FULL: no room, seq_max, open_bytes_max.  IO: the file
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_restore(kvc_seq **out, const kvc_scope *scope, const char *path, const kvc_seq_options *options,
                                   const kvc_call *call, kvc_error *error);

/** What a sequence is and where it lies. */
typedef struct kvc_seq_info {
  uint32_t size;             /**< sizeof(kvc_seq_info), by KVC_INIT */
  uint32_t copies;           /**< of the least replicated chunk */
  uint64_t tokens;           /**< length */
  uint64_t tokens_given;     /**< ids known; PRIVATE: maybe fewer than tokens */
  uint64_t tokens_sealed;    /**< leading part in sealed chunks */
  uint64_t tokens_end;       /**< largest position <= tokens - 1 to which every layer can be truncated */
  uint64_t tokens_held;      /**< to where all layers can go on; < tokens only after a lapse: truncate to it */
  uint64_t tokens_shareable; /**< leading part that goes by its name; < tokens when rows from here on are derived or private, or when their
                                  chunk's name is another writer's */
  uint64_t bytes_device,     /**< held in device memory */
      bytes_host,            /**< held in RAM */
      bytes_nvme,            /**< held on disk */
      bytes_remote;          /**< held on other machines */
  uint64_t lease_left_ms;    /**< milliseconds; 0: lapsed; KVC_FOREVER: until release */
  double bits_effective;     /**< all overhead counted, per stored number */
  double error_estimate;     /**< relative attention-output error the allocator expects; 0 for exact */
  uint64_t width_pages[17];  /**< index: bits, exact at 16; page x KV head x {K, V} units held so */
} kvc_seq_info;

/** Says what a sequence is and where it lies.  Does not renew its lease.
 * @param info  borrowed: filled, at most info->size bytes
 * @param seq   borrowed: the sequence
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_get_info(kvc_seq_info *info, const kvc_seq *seq, kvc_error *error);

/** Ends the handle.  Queued calls on it run on and deliver; sealed chunks stay for others until they are evicted.
 * @param seq   given back: the sequence; NULL: nothing to do
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  STALE: released before
 * @since 0.1.0 */
KVC_API kvc_status kvc_seq_release(kvc_seq *seq, kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif

/* kvc.h - a store for the key/value cache of transformer attention.  This is the manual page; it includes the whole interface.
 *
 * kvc keeps the K and V rows of attention outside the inference engine.  A host appends rows as it computes them and gathers them back
 * later, whole or in part, in any layout; prefixes that several requests share are found by their token ids and kept once.  The library
 * is one shared object with a stable C ABI (C99, C++11); it starts no server and reads no configuration.
 *
 * CONCEPTS
 *   store     one cache with fixed limits: kvc_open.  "mem:" lives in this process.
 *   shape     the geometry of a model's cache: runs of layers, KV heads, widths, dtype.
 *   scope     whose cache: tenant, model, revision, adapter, salt and shape.  Scopes share nothing.
 *   sequence  a run of tokens with their rows; can be appended to, forked, truncated.
 *   chunk     64 tokens (kvc_shape.chunk_tokens) over all layers.  Complete ones are sealed: hashed, immutable, found by kvc_match.
 *   rows      kvc_rows: which layers x heads x tokens, and where their elements lie in the caller's memory.  The layout is declared:
 *             packed, per layer, heads first, transposed, scattered over a block table - one description for all (kvc/types.h has a table).
 *   lease     what keeps chunks from eviction.  A sequence holds one that slides with use; kvc_seq_lease makes one of its own.
 *   object    an opaque key with a value, write-once, for engines that do their own hashing.
 *
 * THE CORE - these calls make a host:
 *   kvc_open  kvc_scope_create  kvc_match  kvc_append  kvc_gather  kvc_attend (not built yet)
 *   kvc_seq_fork  kvc_seq_truncate  kvc_seq_release  kvc_close
 *
 * A COMPLETE HOST - cc host.c $(pkg-config --cflags --libs kvc)
 *
 *     #include <kvc/kvc.h>
 *     #include <stdio.h>
 *
 *     enum { LAYERS = 4, HEADS = 2, DIM = 64, TOKENS = 200 };
 *     static uint16_t k[LAYERS][TOKENS][HEADS][DIM], v[LAYERS][TOKENS][HEADS][DIM];  // the engine's cache, f16
 *
 *     static kvc_rows rows_of(uint64_t begin, uint64_t count) {  // tokens [begin, begin + count) of every layer
 *       kvc_rows rows;
 *       KVC_INIT(&rows);
 *       rows.layer_count = LAYERS;
 *       rows.token_begin = rows.slot_begin = begin;
 *       rows.token_count = count;
 *       rows.k.data = k, rows.v.data = v;
 *       rows.k.bytes = sizeof k, rows.v.bytes = sizeof v;
 *       rows.k.layer_stride = rows.v.layer_stride = sizeof k[0];
 *       return rows;
 *     }
 *
 *     static int serve(const kvc_scope *scope, const int32_t *prompt, size_t n, kvc_error *error) {
 *       kvc_seq *seq = NULL;
 *       kvc_match_info info;
 *       kvc_seq_options options;
 *       kvc_rows rows;
 *       KVC_INIT(&info);
 *       KVC_INIT(&options);
 *       options.tokens_max = n - 1;  // the engine needs the logits of the last token: leave one to compute
 *       if (kvc_match(&seq, &info, scope, prompt, n, &options, NULL, error) != KVC_OK) return -1;
 *       rows = rows_of(0, info.tokens);
 *       if (info.tokens > 0 && kvc_gather(NULL, seq, &rows, 1, NULL, error) != KVC_OK) return -1;
 *       // here the engine computes k and v of the tokens from info.tokens on
 *       rows = rows_of(info.tokens, n - info.tokens);
 *       if (kvc_append(seq, prompt + info.tokens, n - info.tokens, &rows, 1, NULL, error) != KVC_OK) return -1;
 *       printf("%d of %d tokens were here\n", (int)info.tokens, (int)n);
 *       return kvc_seq_release(seq, error) == KVC_OK ? 0 : -1;
 *     }
 *
 *     int main(void) {
 *       const kvc_layer layers = {LAYERS, KVC_LAYER_FULL, HEADS, DIM, DIM, 0, 0, 0, 0, {0, 0, 0}};
 *       static int32_t prompt[TOKENS];
 *       kvc_store *store = NULL;
 *       kvc_scope *scope = NULL;
 *       kvc_store_options store_options;
 *       kvc_shape shape;
 *       kvc_scope_options options;
 *       kvc_error error;
 *       int failed;
 *       KVC_INIT(&error);
 *       KVC_INIT(&store_options);
 *       store_options.memory_bytes = 64 << 20;
 *       KVC_INIT(&shape);
 *       shape.dtype = KVC_F16, shape.layers = &layers, shape.layer_runs = 1;
 *       KVC_INIT(&options);
 *       options.model = "example", options.shape = &shape;
 *       failed = kvc_open(&store, "mem:", &store_options, &error) != KVC_OK ||
 *                kvc_scope_create(&scope, store, &options, &error) != KVC_OK ||
 *                serve(scope, prompt, TOKENS, &error) != 0 ||  // 0 of 200 tokens were here
 *                serve(scope, prompt, TOKENS, &error) != 0;    // 192 of 200: three whole chunks
 *       if (failed) fprintf(stderr, "%s: %s\n", kvc_status_name(error.status), error.message);
 *       kvc_scope_release(scope, NULL);
 *       return kvc_close(store, NULL) != KVC_OK || failed;
 *     }
 *
 * LAYER BY LAYER - in place of that append, for an engine that has the rows of one layer after the other
 *
 *     for (uint32_t layer = 0; layer < LAYERS; layer++) {
 *       rows.layer_begin = layer, rows.layer_count = 1;
 *       rows.k.data = k[layer], rows.v.data = v[layer], rows.k.bytes = rows.v.bytes = sizeof k[layer];
 *       // ids come with the first layer only
 *       if (kvc_append(seq, prompt + info.tokens, layer ? 0 : n - info.tokens, &rows, 1, NULL, error) != KVC_OK) return -1;
 *     }
 *
 * HYBRID MODELS - full attention beside sliding windows or recurrent state
 *   prefill   a match stops only at a chunk end that has its window rows and a snapshot: end an append there, with the state, wherever a later
 *             prompt may part from this one, above all at the last chunk end of a prompt that many share.  A prefill of 300 tokens in one
 *             append has its only snapshot at 300, where no match stops.
 *   layers    layer by layer give the full layers first: they make the length, below which window layers may leave out what no query sees,
 *             and they take the room that is left for sure.
 *   state     one row of bytes for the whole range, as it is behind the append's last token: dtype 0, slot_begin 0.
 *   decode    tokens without state are fine: one snapshot later, appended alone for [where the state stands, now), stands for all of them.
 *   drafts    fork; append the draft's rows without its state; truncate to what was accepted, which a snapshot in between would refuse; then
 *             append the state alone for the tokens accepted.
 *   pinning   kvc_seq_lease up to a chunk end with a snapshot.  kvc_match_info says where a match stopped and why.
 *
 * RULES, said once
 *   Order     outputs, object, inputs (pointer then count), options, kvc_call, kvc_error.
 *   Threads   store, scope, queue, region, lease, view: any thread, any time.  kvc_seq: a call that takes `const kvc_seq *` may run
 *             beside others of its kind; one that takes `kvc_seq *` must be alone on that handle (a second writer that is
 *             noticed gets KVC_ERR_MISUSE).  Forks are independent handles: give each thread its own.
 *   Memory    borrowed = read or written during the call only.  lent = yours, untouched by you until the call returns (blocking) or its
 *             result is drained (queued).  given = becomes the callee's or the caller's to release.  kvc allocates nothing that
 *             the caller must free: handles are released, everything else is written into memory of the caller.
 *   Handles   opaque tokens that carry a generation, not addresses.  Using one after release, after kvc_close, or in the wrong
 *             place is KVC_ERR_STALE or KVC_ERR_MISUSE, never a crash; so garbage collectors may release in any order.  Every release
 *             takes NULL (KVC_OK); a second release fails and changes nothing.
 *   Structs   a struct whose first member is `size` is sized: KVC_INIT it (all zero, then size).  Zero is the default of every member;
 *             a count without a default says so.  Members are only appended; bytes past what the library knows must be zero, else
 *             KVC_ERR_TOO_NEW.  Of output structs at most `size` bytes are written.  In an array all have the size of the first.
 *             Structs without `size` are frozen: they never change, their reserved members must be zero.  Pointers in a struct are
 *             borrowed or lent exactly like parameters.
 *   Flags     unknown bits are refused.  Constants are pinned, never reused.
 *   Failure   a call that fails has changed nothing stored (batches of objects: each item by itself, see kvc/object.h).  Reads put right
 *             bytes or a miss, never wrong bytes: what fails a check is dropped, counted, and reads as KVC_ERR_GONE.  Any call may give a
 *             status of the families argument and misuse, and any but a close or a release KVC_ERR_NO_MEMORY; those are not listed with
 *             each.  What is not built yet gives KVC_ERR_UNSUPPORTED and touches nothing.
 *   Time      a call that takes a kvc_call may wait, up to its timeout; one that does not works on local state (on a
 *             sequence it waits for the queued calls there, up to the store's timeout), on kvc: in at most one round trip under that
 *             timeout.  UNAVAILABLE and TIMEOUT come only where listed; match turns them into a shorter length.
 *   Limits    fixed by kvc_open; over one: KVC_ERR_FULL, or back-pressure up to the timeout (KVC_OPEN_WAIT).  A full store drops
 *             what was used longest ago, leaf first, never what is leased; KVC_ERR_FULL means that nothing is left to drop.
 *
 * CAVEATS
 *   fork(2)   in the child every inherited handle gives KVC_ERR_FORKED; release and close free nothing of the parent; opening
 *             a new store works.  Views stay readable only in the parent.  No signal handlers, no process settings, no
 *             environment but what libcrypto reads once: OPENSSL_ia32cap, OPENSSL_CONF and what that file names.
 *   signals   no call is safe in a signal handler.  A signal during a call does not end it.
 *   dlclose   legal once every store is closed.
 *   malloc    the host's allocator is neither replaced nor used on hot paths.  memory_bytes bounds what is stored; index and request
 *             state come on top.
 *   trust     kvc guards against damaged data and wrong calls, not against a host that writes into memory it lent.
 *   mistakes  the first commit of a chunk wins: rows that an engine under development computed wrong are served until they are evicted.
 *             To be rid of them clear the scope (kvc_scope_clear) or change kvc_scope_options.revision, which makes another scope.
 *
 * VERSIONS  the SONAME is libkvc.so.0 while the major version is 0.  Calls marked "@since not built yet" are declared so that hosts can be
 *           written against them; CHANGELOG.md lists them. */
#ifndef KVC_KVC_H
#define KVC_KVC_H

#include <kvc/export.h>
#include <kvc/error.h>
#include <kvc/types.h>
#include <kvc/store.h>
#include <kvc/seq.h>
#include <kvc/attend.h>
#include <kvc/object.h>
#include <kvc/queue.h>
#include <kvc/view.h>
#include <kvc/cluster.h>
#include <kvc/observe.h>

#endif

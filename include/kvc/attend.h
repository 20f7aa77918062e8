/* kvc/attend.h - attention where the pages lie.
 *
 * Instead of gathering keys and values, a host sends its queries and takes the attention output, or only the choice of tokens worth
 * gathering.  For queries q, keys k and values v over a set of tokens S
 *
 *     s_t = scale * q . k_t       (soft_cap c: s_t = c * tanh(s_t / c))
 *     lse = ln sum_{t in S} exp(s_t)                 output = sum_{t in S} exp(s_t - lse) * v_t
 *
 * (Vaswani et al., "Attention Is All You Need", 2017; soft cap: "Gemma 2", 2024).  Results over disjoint sets merge exactly by their lse
 *
 *     lse = ln sum_i exp(lse_i)                      output = sum_i exp(lse_i - lse) * output_i
 *
 * (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018), which is what kvc_attend_merge does.
 *
 * Not built yet: every call here is KVC_ERR_UNSUPPORTED.
 *
 *   expected failures   attend, select: GONE, UNAVAILABLE, TIMEOUT for the whole call, never a part.   merge: SHAPE. */
#ifndef KVC_ATTEND_H
#define KVC_ATTEND_H

#include <kvc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Queries of one layer. */
typedef struct kvc_query {
  uint32_t size;        /**< sizeof(kvc_query), by KVC_INIT */
  uint32_t flags;       /**< 0 */
  uint32_t layer,       /**< which layer, of the whole model */
      query_heads;      /**< a multiple of the KV heads of the part; heads of one group adjacent */
  uint64_t query_count; /**< queries, of adjacent positions; not 0 */
  uint64_t position;    /**< of query 0; query i sees tokens <= position + i.  KVC_ALL: sees all (no mask) */
  uint64_t token_begin, /**< keys to attend to: first position */
      token_count;      /**< keys to attend to; KVC_ALL: to filled(layer); 0: none (lse -inf, output 0) */
  kvc_array q;          /**< lent; token axis = query.  latent layers: absorbed, k_dim + rope_dim wide */
  float scale,          /**< 0: 1/sqrt(k_dim) (latent: required) */
      soft_cap;         /**< 0: none */
  uint64_t window;      /**< tokens seen, the query's own included; 0: the layer's */
  uint32_t memory;      /**< KVC_MEMORY_* of q and of the output */
  int32_t device;       /**< number of the device, for device memory */
  void *stream;         /**< as kvc_rows.stream */
} kvc_query;

/** Output and log-sum-exp (natural log, f32) of attention over some tokens.  Frozen. */
typedef struct kvc_partial {
  kvc_array output;   /**< token axis = query, v_dim wide (latent: k_dim).  lent */
  float *lse;         /**< [query_count][query_heads], lent.  No key seen: -inf, output 0 */
  uint64_t lse_count; /**< floats at `lse` */
} kvc_partial;

/** Sparse by cumulative estimated mass or by bytes, per KV head; NULL: dense. */
typedef struct kvc_sparsity {
  uint32_t size;         /**< sizeof(kvc_sparsity), by KVC_INIT */
  uint32_t flags;        /**< 0 */
  float mass;            /**< in (0, 1]: stop at this estimated share of the softmax; 0: no such bound */
  uint32_t dense_layers; /**< the first n layers stay dense */
  uint64_t tokens_max,   /**< tokens read at most; 0: no such bound */
      bytes_max;         /**< bytes read at most; 0: no such bound.  At least one of the three */
  uint32_t sink_tokens,  /**< always in, at the front; 0: 4.  KVC_NONE: none */
      recent_tokens;     /**< always in, at the end; 0: 128.  KVC_NONE: none */
} kvc_sparsity;

/** What an attention read. */
typedef struct kvc_attend_info {
  uint32_t size,         /**< sizeof(kvc_attend_info), by KVC_INIT */
      reserved;          /**< 0 */
  uint64_t tokens_seen,  /**< tokens that the queries may see */
      tokens_read,       /**< of them, those read, summed over KV heads and divided by them */
      bytes_read,        /**< stored bytes read */
      bytes_wire;        /**< bytes that crossed the network */
  float missed_mass,     /**< estimated share of the softmax not read; mean over heads and queries */
      missed_mass_max;   /**< the worst of them */
} kvc_attend_info;

/** Attention where the pages lie, on their stored format; feeds importance.  The same split gives the same bits for any thread count,
 * tier and arrival order; two splits agree to 2e-6.  A page that fails its check makes the call fail, never a silent part.
 * @param output   borrowed, its memory lent: where the result goes
 * @param info     lent: filled, at most info->size bytes; NULL: not wanted
 * @param seq      borrowed: the sequence
 * @param query    borrowed, its memory lent: the queries
 * @param sparsity borrowed: what may be left out; NULL: nothing
 * @param extra    borrowed, its arrays lent: one run of the host's own rows not stored yet, merged in; NULL: none
 * @param call     borrowed: how to run it; NULL: block
 * @param error    borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  GONE: some of it is no longer held.  RANGE, SHAPE: the query.  UNAVAILABLE, TIMEOUT: some is out of reach
 * @since not built yet: KVC_ERR_UNSUPPORTED */
KVC_API kvc_status kvc_attend(const kvc_partial *output, kvc_attend_info *info, const kvc_seq *seq, const kvc_query *query,
                              const kvc_sparsity *sparsity, const kvc_rows *extra, const kvc_call *call, kvc_error *error);

/** Merges attention over disjoint tokens, in array order.  Pure; host memory; any thread.
 * @param output      borrowed, its memory lent: where the result goes; may be the memory of parts[0], of no other
 * @param parts       borrowed, their memory lent: what is merged
 * @param part_count  entries of `parts`; not 0
 * @param query_count queries
 * @param query_heads heads of a query
 * @param v_dim       elements of an output head
 * @param error       borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  SHAPE: a part does not fit the counts
 * @since not built yet: KVC_ERR_UNSUPPORTED */
KVC_API kvc_status kvc_attend_merge(const kvc_partial *output, const kvc_partial *parts, size_t part_count, uint64_t query_count,
                                    uint32_t query_heads, uint32_t v_dim, kvc_error *error);

/** Only the choice: which 16-token subpages each KV head would read, best first.
 * @param positions         lent: for KV head h, counts[h] subpage ids from positions + h * (position_capacity / count_capacity) on; to be
 *                          used as kvc_rows.token_list with token_unit 16
 * @param position_capacity entries of `positions`
 * @param counts            lent: ids of each KV head
 * @param count_capacity    entries of `counts`: the KV heads of the part
 * @param info              lent: filled, at most info->size bytes; NULL: not wanted
 * @param seq               borrowed: the sequence
 * @param query             borrowed, its memory lent: the queries
 * @param sparsity          borrowed: how much to choose
 * @param call              borrowed: how to run it; NULL: block
 * @param error             borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  GONE: some of it is no longer held.  RANGE, SHAPE: the query or the capacities.  UNAVAILABLE, TIMEOUT: out of reach
 * @since not built yet: KVC_ERR_UNSUPPORTED */
KVC_API kvc_status kvc_select(uint64_t *positions, size_t position_capacity, uint64_t *counts, size_t count_capacity, kvc_attend_info *info,
                              const kvc_seq *seq, const kvc_query *query, const kvc_sparsity *sparsity, const kvc_call *call,
                              kvc_error *error);

/** Gives the last queries of a prefill: the store scores its own keys, nothing is returned.  Feeds importance.
 * @param seq   borrowed: the sequence; alone on this handle
 * @param query borrowed, its memory lent: the queries
 * @param call  borrowed: how to run it; NULL: block
 * @param error borrowed: why it failed; NULL: not wanted
 * @return KVC_OK.  GONE: some of it is no longer held.  RANGE, SHAPE: the query.  UNAVAILABLE, TIMEOUT: some is out of reach
 * @since not built yet: KVC_ERR_UNSUPPORTED */
KVC_API kvc_status kvc_seq_observe(kvc_seq *seq, const kvc_query *query, const kvc_call *call, kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif

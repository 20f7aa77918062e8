/* The example at the top of kvc/queue.h, run: a batch of gathers gives every sequence's rows, one that asks for too much fails alone, and a
 * queue that is full takes what it can.  batch_call.h is that example, cut from the header.  Prints "ok". */
#define _POSIX_C_SOURCE 200809L
#include <kvc/kvc.h>
#include <poll.h>
#include <stdio.h>

#include "batch_call.h"

enum { SEQS = 20, TOKENS = 40, DIM = 8 };

static uint16_t in[SEQS][TOKENS][DIM], out[SEQS][TOKENS][DIM];

static kvc_rows rows_of(uint16_t (*data)[DIM], uint64_t count) {
  kvc_rows rows;
  KVC_INIT(&rows);
  rows.layer_count = 1, rows.token_count = count;
  rows.k.data = data, rows.k.bytes = sizeof in[0], rows.v.data = data, rows.v.bytes = sizeof in[0];
  return rows;
}

int main(void) {
  const kvc_layer layers = {1, KVC_LAYER_FULL, 1, DIM, DIM, 0, 0, 0, 0, {0, 0, 0}};
  kvc_store *store = NULL;
  kvc_scope *scope = NULL;
  kvc_queue *queue = NULL, *small = NULL;
  kvc_seq *seqs[SEQS];
  kvc_rows rows[SEQS];
  kvc_scope_options options;
  kvc_seq_options seq_options;
  kvc_queue_options small_options;
  kvc_shape shape;
  kvc_error error;
  size_t good, one_bad, few;
  int i, failed;
  for (i = 0; i < SEQS * TOKENS * DIM; i++) (&in[0][0][0])[i] = (uint16_t)(i + 1);
  KVC_INIT(&error), KVC_INIT(&options), KVC_INIT(&seq_options), KVC_INIT(&small_options), KVC_INIT(&shape);
  shape.dtype = KVC_F16, shape.layers = &layers, shape.layer_runs = 1;
  options.model = "batch", options.shape = &shape;
  seq_options.flags = KVC_SEQ_PRIVATE;
  small_options.depth = 5;
  failed = kvc_open(&store, "mem:", NULL, &error) != KVC_OK || kvc_scope_create(&scope, store, &options, &error) != KVC_OK ||
           kvc_queue_create(&queue, store, NULL, &error) != KVC_OK || kvc_queue_create(&small, store, &small_options, &error) != KVC_OK;
  for (i = 0; i < SEQS && !failed; i++) {
    rows[i] = rows_of(in[i], TOKENS);
    failed = kvc_seq_create(&seqs[i], scope, &seq_options, &error) != KVC_OK || kvc_append(seqs[i], NULL, 0, &rows[i], 1, NULL, &error) != KVC_OK;
    rows[i] = rows_of(out[i], TOKENS);
    rows[i].v.data = NULL, rows[i].v.bytes = 0;
  }
  if (failed) return printf("%s\n", error.message), 1;
  good = gather_all(queue, seqs, rows, SEQS, &error);
  failed = memcmp(in, out, sizeof in) != 0;
  rows[3].token_count = TOKENS + 1, rows[3].k.bytes = (TOKENS + 1) * DIM * 2;
  one_bad = gather_all(queue, seqs, rows, SEQS - 1, &error);
  rows[3].token_count = TOKENS;
  few = gather_all(small, seqs, rows, SEQS, &error);
  if (good == 0 && !failed && one_bad == 1 && few == SEQS - 5 && error.status == KVC_ERR_BUSY) printf("ok\n");
  else printf("%d of the first failed, %d of those with a bad one, %d of the small queue's; %s\n", (int)good, (int)one_bad, (int)few, error.message);
  return kvc_close(store, NULL) != KVC_OK;
}

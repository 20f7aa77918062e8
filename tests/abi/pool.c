/* The example in the description of kvc_rows, run: rows go into a store packed, come out into a pool of blocks, and lie there where the
 * text says.  pool_rows.h is that example, cut from kvc/types.h.  Prints "ok". */
#include <kvc/kvc.h>
#include <stdio.h>

enum { LAYERS = 3, BLOCKS = 10, HEADS = 2, DIM = 4, TOKENS = 40, ROW = HEADS * DIM };
#include "pool_rows.h"

static uint16_t k[LAYERS][TOKENS][ROW], v[LAYERS][TOKENS][ROW];
static uint16_t pool[LAYERS][2][BLOCKS][16][ROW];
static const int32_t table[] = {7, 2, 9};

static void fill(void) {
  uint16_t number = 0;
  int layer, token, i;
  for (layer = 0; layer < LAYERS; layer++)
    for (token = 0; token < TOKENS; token++)
      for (i = 0; i < ROW; i++) k[layer][token][i] = ++number, v[layer][token][i] = (uint16_t)(number + 10000);
}

/* How many elements of the pool are not what they should be: the row of their token, or untouched. */
static int wrong(void) {
  static uint16_t wanted[LAYERS][2][BLOCKS][16][ROW];
  int layer, token, bad = 0;
  size_t i;
  for (layer = 0; layer < LAYERS; layer++)
    for (token = 0; token < TOKENS; token++) {
      memcpy(wanted[layer][0][table[token / 16]][token % 16], k[layer][token], sizeof k[layer][token]);
      memcpy(wanted[layer][1][table[token / 16]][token % 16], v[layer][token], sizeof v[layer][token]);
    }
  for (i = 0; i < sizeof pool / sizeof(uint16_t); i++) bad += (&pool[0][0][0][0][0])[i] != (&wanted[0][0][0][0][0])[i];
  return bad;
}

int main(void) {
  const kvc_layer layers = {LAYERS, KVC_LAYER_FULL, HEADS, DIM, DIM, 0, 0, 0, 0, {0, 0, 0}};
  kvc_store *store = NULL;
  kvc_scope *scope = NULL;
  kvc_seq *seq = NULL;
  kvc_store_options store_options;
  kvc_scope_options options;
  kvc_seq_options seq_options;
  kvc_shape shape;
  kvc_rows rows;
  kvc_error error;
  int failed;
  fill();
  KVC_INIT(&error), KVC_INIT(&store_options), KVC_INIT(&options), KVC_INIT(&seq_options), KVC_INIT(&shape), KVC_INIT(&rows);
  store_options.memory_bytes = 8 << 20;
  shape.dtype = KVC_F16, shape.layers = &layers, shape.layer_runs = 1;
  options.model = "pool", options.shape = &shape;
  seq_options.flags = KVC_SEQ_PRIVATE;
  rows.layer_count = LAYERS, rows.token_count = TOKENS;
  rows.k.data = k, rows.k.bytes = sizeof k, rows.k.layer_stride = sizeof k[0];
  rows.v.data = v, rows.v.bytes = sizeof v, rows.v.layer_stride = sizeof v[0];
  failed = kvc_open(&store, "mem:", &store_options, &error) != KVC_OK ||
           kvc_scope_create(&scope, store, &options, &error) != KVC_OK ||
           kvc_seq_create(&seq, scope, &seq_options, &error) != KVC_OK || kvc_append(seq, NULL, 0, &rows, 1, NULL, &error) != KVC_OK;
  if (!failed) {
    rows = rows_of_pool(pool, table, 3, 0, 25);
    failed = kvc_gather(NULL, seq, &rows, 1, NULL, &error) != KVC_OK;
  }
  if (!failed) {
    rows = rows_of_pool(pool, table, 3, 25, TOKENS - 25);
    failed = kvc_gather(NULL, seq, &rows, 1, NULL, &error) != KVC_OK;
  }
  if (failed) printf("%s\n", error.message);
  else if (wrong()) printf("%d elements of the pool are wrong\n", wrong());
  else printf("ok\n");
  return kvc_close(store, NULL) != KVC_OK;
}

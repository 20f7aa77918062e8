/* A C host of an installed kvc: open, scope, append, match, gather, compare, close.  Prints "ok". */
#include <kvc/kvc.h>
#include <stdio.h>

enum { LAYERS = 3, HEADS = 2, DIM = 16, TOKENS = 100 };
typedef uint16_t cache[LAYERS][TOKENS][HEADS][DIM];
static cache k, v, k_back, v_back;

static kvc_rows describe(cache keys, cache values, uint64_t count) {
  kvc_rows rows;
  KVC_INIT(&rows);
  rows.layer_count = LAYERS;
  rows.token_count = count;
  rows.k.data = keys, rows.v.data = values;
  rows.k.bytes = rows.v.bytes = sizeof(cache);
  rows.k.layer_stride = rows.v.layer_stride = sizeof(cache) / LAYERS;
  return rows;
}

static int same_rows(cache a, cache b, size_t count) {
  size_t layer;
  for (layer = 0; layer < LAYERS; layer++)
    if (memcmp(a[layer], b[layer], count * sizeof a[layer][0]) != 0) return 0;
  return 1;
}

static kvc_status keep_and_find(const kvc_scope *scope, const int32_t *tokens, kvc_match_info *info, kvc_error *error) {
  kvc_rows rows = describe(k, v, TOKENS);
  kvc_seq *seq = NULL, *again = NULL;
  kvc_status status = kvc_seq_create(&seq, scope, NULL, error);
  if (status == KVC_OK) status = kvc_append(seq, tokens, TOKENS, &rows, 1, NULL, error);
  if (status == KVC_OK) status = kvc_match(&again, info, scope, tokens, TOKENS, NULL, NULL, error);
  if (status == KVC_OK) {
    rows = describe(k_back, v_back, info->tokens);
    status = kvc_gather(NULL, again, &rows, 1, NULL, error);
  }
  kvc_seq_release(seq, NULL);
  kvc_seq_release(again, NULL);
  return status;
}

int main(void) {
  static int32_t tokens[TOKENS];
  const kvc_layer layers = {LAYERS, KVC_LAYER_FULL, HEADS, DIM, DIM, 0, 0, 0, 0, {0, 0, 0}};
  kvc_store_options limits;
  kvc_scope_options names;
  kvc_shape shape;
  kvc_match_info info;
  kvc_error error;
  kvc_store *store = NULL;
  kvc_scope *scope = NULL;
  kvc_status status;
  size_t i;
  for (i = 0; i < sizeof k / 2; i++) (&k[0][0][0][0])[i] = (uint16_t)(i * 40503u), (&v[0][0][0][0])[i] = (uint16_t)(i * 30011u + 7u);
  for (i = 0; i < TOKENS; i++) tokens[i] = (int32_t)(i * i);
  KVC_INIT(&error);
  KVC_INIT(&limits);
  KVC_INIT(&shape);
  KVC_INIT(&names);
  KVC_INIT(&info);
  limits.memory_bytes = (uint64_t)64 << 20;
  shape.dtype = KVC_F16, shape.layers = &layers, shape.layer_runs = 1;
  names.model = "installed", names.shape = &shape;
  status = kvc_open(&store, "mem:", &limits, &error);
  if (status == KVC_OK) status = kvc_scope_create(&scope, store, &names, &error);
  if (status == KVC_OK) status = keep_and_find(scope, tokens, &info, &error);
  kvc_scope_release(scope, NULL);
  if (kvc_close(store, NULL) != KVC_OK || status != KVC_OK) {
    printf("%s: %s\n", kvc_status_name(error.status), error.message);
    return 1;
  }
  if (info.tokens != 64 || !same_rows(k, k_back, 64) || !same_rows(v, v_back, 64)) {
    printf("%d tokens came back, or with other bytes\n", (int)info.tokens);
    return 1;
  }
  puts("ok");
  return 0;
}

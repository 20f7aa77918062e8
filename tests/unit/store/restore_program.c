/* A process of its own that restores a sequence and writes the bytes of its rows to a file:
 *     restore_program FILE OUT TOKENS
 * The scope is that of save_process_test.cpp. */
#include <stdio.h>
#include <stdlib.h>

#include "kvc/kvc.h"

static int failed(const char *what, const kvc_error *error) {
  fprintf(stderr, "%s: %s: %s\n", what, kvc_status_name(error->status), error->message);
  return 1;
}

int main(int argc, char **argv) {
  kvc_error error;
  kvc_store_options store_options;
  kvc_scope_options scope_options;
  kvc_shape shape;
  kvc_rows rows;
  kvc_layer layer = {2, KVC_LAYER_FULL, 2, 8, 8, 0, 0, 0, 0, {0, 0, 0}};
  kvc_store *store;
  kvc_scope *scope;
  kvc_seq *seq;
  uint64_t tokens, side;
  unsigned char *memory;
  FILE *out;
  if (argc != 4) return 2;
  KVC_INIT(&error), KVC_INIT(&store_options), KVC_INIT(&scope_options), KVC_INIT(&shape), KVC_INIT(&rows);
  store_options.memory_bytes = 16 << 20;
  if (kvc_open(&store, "mem:", &store_options, &error)) return failed("open", &error);
  shape.dtype = KVC_F16, shape.layers = &layer, shape.layer_runs = 1;
  scope_options.model = "processes", scope_options.shape = &shape;
  if (kvc_scope_create(&scope, store, &scope_options, &error)) return failed("scope", &error);
  if (kvc_seq_restore(&seq, scope, argv[1], NULL, NULL, &error)) return failed("restore", &error);
  tokens = strtoull(argv[3], NULL, 10);
  side = 2 * tokens * 2 * 8 * 2;
  memory = calloc(2, side);
  rows.layer_count = 2, rows.token_count = tokens;
  rows.k.data = memory, rows.k.bytes = side, rows.k.layer_stride = side / 2;
  rows.v.data = memory + side, rows.v.bytes = side, rows.v.layer_stride = side / 2;
  if (kvc_gather(NULL, seq, &rows, 1, NULL, &error)) return failed("gather", &error);
  out = fopen(argv[2], "wb");
  if (!out || fwrite(memory, 1, 2 * side, out) != 2 * side || fclose(out)) return 1;
  free(memory);
  return kvc_close(store, &error) ? failed("close", &error) : 0;
}

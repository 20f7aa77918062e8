// What a get of 4 KiB and a gather of 1 MiB take from C: the baseline of the other languages, whose programs do the same calls.
//
//     bench get_4k|gather_1m SECONDS WORKING_SET_MIB    prints the median of batches: nanoseconds a call
#include <kvc/kvc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { VALUE = 4096, HEADS = 8, DIM = 128, TOKENS = 256, SIDE = HEADS * DIM * TOKENS * 2, BATCHES_MAX = 1 << 20 };

static kvc_error error = {sizeof error, 0, 0, 0, {0}};
static uint64_t state = 1;

static void must(kvc_status status) {
  if (status == KVC_OK) return;
  fprintf(stderr, "bench: %s\n", error.message);
  exit(1);
}
static uint64_t next_of(uint64_t count) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % count;
}
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static kvc_scope *scope;
static kvc_seq **seqs;
static uint64_t count;
static uint8_t memory[2 * SIDE];
static kvc_rows rows;

static void get_one(kvc_bytes *part) {
  const uint64_t key = next_of(count);
  kvc_object object = {0};
  object.key = &key, object.key_size = sizeof key, object.parts = part, object.part_count = 1;
  must(kvc_object_get(NULL, scope, &object, 1, NULL, NULL, &error));
}
static void prepare_gets(uint64_t bytes) {
  kvc_bytes part = {memory, VALUE};
  count = bytes / VALUE;
  for (uint64_t key = 0; key < count; key++) {
    kvc_object object = {0};
    memory[0] = (uint8_t)key;
    object.key = &key, object.key_size = sizeof key, object.parts = &part, object.part_count = 1;
    must(kvc_object_put(NULL, scope, &object, 1, NULL, NULL, &error));
  }
}
static void prepare_gathers(uint64_t bytes) {
  count = bytes / (2 * SIDE);
  seqs = calloc(count, sizeof *seqs);
  KVC_INIT(&rows);
  rows.layer_count = 1, rows.token_count = TOKENS;
  rows.k.data = memory, rows.v.data = memory + SIDE, rows.k.bytes = rows.v.bytes = SIDE;
  for (uint64_t i = 0; i < count; i++) {
    kvc_seq_options options;
    KVC_INIT(&options);
    options.flags = KVC_SEQ_PRIVATE, options.lease_ms = KVC_FOREVER;
    memory[0] = (uint8_t)i;
    must(kvc_seq_create(&seqs[i], scope, &options, &error));
    must(kvc_append(seqs[i], NULL, 0, &rows, 1, NULL, &error));
  }
}
static int by_size(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

int main(int argc, char **argv) {
  const kvc_layer layer = {1, KVC_LAYER_FULL, HEADS, DIM, DIM, 0, 0, 0, 0, {0, 0, 0}};
  const int gets = argc == 4 && strcmp(argv[1], "get_4k") == 0, calls = gets ? 1000 : 8;
  kvc_store_options store_options;
  kvc_shape shape;
  kvc_scope_options options;
  kvc_store *store;
  static double batches[BATCHES_MAX];
  size_t n = 0;
  if (argc != 4 || (!gets && strcmp(argv[1], "gather_1m") != 0)) {
    fprintf(stderr, "usage: bench get_4k|gather_1m SECONDS WORKING_SET_MIB\n");
    return 2;
  }
  const uint64_t bytes = strtoull(argv[3], NULL, 10) << 20;
  KVC_INIT(&store_options);
  store_options.memory_bytes = bytes + bytes / 4 + (64 << 20), store_options.seq_max = 1 << 20;
  KVC_INIT(&shape);
  shape.dtype = KVC_F16, shape.layers = &layer, shape.layer_runs = 1;
  KVC_INIT(&options);
  options.model = "bench", options.shape = &shape;
  must(kvc_open(&store, "mem:", &store_options, &error));
  must(kvc_scope_create(&scope, store, &options, &error));
  gets ? prepare_gets(bytes) : prepare_gathers(bytes);
  kvc_bytes part = {memory, VALUE};
  const double begin = now(), end = begin + atof(argv[2]) * 1e9;
  while (n < BATCHES_MAX && now() < end) {
    const double from = now();
    for (int i = 0; i < calls; i++)
      if (gets) get_one(&part);
      else must(kvc_gather(NULL, seqs[next_of(count)], &rows, 1, NULL, &error));
    batches[n++] = (now() - from) / calls;
  }
  qsort(batches, n, sizeof *batches, by_size);
  printf("%.1f\n", batches[n / 2]);
  return 0;
}

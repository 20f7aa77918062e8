/* Offload and resume, in C: the cache of a sequence that an engine puts aside goes to a file, and another process goes on from there.
 *
 *     cc offload.c $(pkg-config --cflags --libs kvc) -o offload
 *     ./offload save FILE DUMP      the engine has computed 300 tokens of DUMP, and has to make room
 *     ./offload resume FILE DUMP    brings them back into an array of another layout, compares every bit, and computes the rest
 *
 * DUMP is a safetensors file with k and v [layers, heads, tokens, dim] f16 and token_ids [tokens] i32, as those in tests/data. */
#include <kvc/kvc.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAVED_TOKENS = 300 };

/* What the engine computed: heads first, as the file has it. */
typedef struct dump {
  char *memory;
  uint64_t layers, heads, tokens, dim, bytes; /* bytes: of a side */
  char *k, *v;
  int32_t *ids;
} dump;

static int fail(const char *what, const kvc_error *error) {
  fprintf(stderr, "offload: %s: %s\n", what, error ? error->message : "no such file, or no dump of this kind");
  return 1;
}

/* The numbers behind `"tensor":{ ... "key":[`; 0: they are not there. */
static int numbers(const char *header, const char *tensor, const char *key, uint64_t *out, int count) {
  char name[64];
  const char *at;
  int i;
  snprintf(name, sizeof name, "\"%s\":{", tensor);
  if (!(at = strstr(header, name)) || !(at = strstr(at, key)) || !(at = strchr(at, '['))) return 0;
  for (i = 0; i < count; i++) {
    char *end;
    out[i] = strtoull(at + 1, &end, 10);
    if (end == at + 1) return 0;
    at = end;
  }
  return 1;
}

static int read_dump(dump *out, const char *path) {
  FILE *file = fopen(path, "rb");
  uint64_t header_bytes = 0, shape[4], k[2], v[2], ids[2];
  long size;
  char *body;
  if (!file) return 0;
  if (fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 8 || fseek(file, 0, SEEK_SET) != 0) return fclose(file), 0;
  out->memory = malloc((size_t)size + 1);
  if (!out->memory || fread(out->memory, 1, (size_t)size, file) != (size_t)size) return fclose(file), 0;
  fclose(file);
  memcpy(&header_bytes, out->memory, 8);
  if (header_bytes >= (uint64_t)size - 8) return 0;
  body = out->memory + 8 + header_bytes;
  out->memory[7 + header_bytes] = '\0'; /* over the last brace */
  if (!numbers(out->memory + 8, "k", "\"shape\"", shape, 4) || !numbers(out->memory + 8, "k", "\"data_offsets\"", k, 2) ||
      !numbers(out->memory + 8, "v", "\"data_offsets\"", v, 2) || !numbers(out->memory + 8, "token_ids", "\"data_offsets\"", ids, 2))
    return 0;
  out->layers = shape[0], out->heads = shape[1], out->tokens = shape[2], out->dim = shape[3];
  out->bytes = k[1] - k[0];
  out->k = body + k[0], out->v = body + v[0], out->ids = (int32_t *)(body + ids[0]);
  return out->tokens > SAVED_TOKENS && out->bytes == shape[0] * shape[1] * shape[2] * shape[3] * 2;
}

/* Tokens [begin, begin + count) where the engine keeps them. */
static kvc_rows engine_rows(const dump *d, uint64_t begin, uint64_t count) {
  kvc_rows rows;
  KVC_INIT(&rows);
  rows.layer_count = (uint32_t)d->layers;
  rows.token_begin = rows.slot_begin = begin, rows.token_count = count;
  rows.k.data = d->k, rows.v.data = d->v, rows.k.bytes = rows.v.bytes = d->bytes;
  rows.k.token_stride = rows.v.token_stride = d->dim * 2;
  rows.k.head_stride = rows.v.head_stride = d->tokens * d->dim * 2;
  rows.k.layer_stride = rows.v.layer_stride = d->heads * d->tokens * d->dim * 2;
  return rows;
}

/* The first tokens of one side in an array that has tokens first are those of the dump. */
static int same(const dump *d, const char *side, const char *got) {
  uint64_t l, t, h;
  for (l = 0; l < d->layers; l++)
    for (t = 0; t < SAVED_TOKENS; t++)
      for (h = 0; h < d->heads; h++)
        if (memcmp(got + ((l * SAVED_TOKENS + t) * d->heads + h) * d->dim * 2, side + ((l * d->heads + h) * d->tokens + t) * d->dim * 2, d->dim * 2) != 0) return 0;
  return 1;
}

static int save(const kvc_scope *scope, const dump *d, const char *path, kvc_error *error) {
  kvc_seq *seq = NULL;
  const kvc_rows rows = engine_rows(d, 0, SAVED_TOKENS);
  if (kvc_seq_create(&seq, scope, NULL, error) != KVC_OK) return fail("create", error);
  if (kvc_append(seq, d->ids, SAVED_TOKENS, &rows, 1, NULL, error) != KVC_OK) return fail("append", error);
  if (kvc_seq_save(seq, path, NULL, error) != KVC_OK) return fail("save", error);
  printf("%d tokens put aside\n", SAVED_TOKENS);
  return kvc_seq_release(seq, error) == KVC_OK ? 0 : fail("release", error);
}

static int resume(const kvc_scope *scope, const dump *d, const char *path, kvc_error *error) {
  kvc_seq *seq = NULL;
  kvc_rows rows;
  kvc_match_info info;
  kvc_seq_options peek;
  const uint64_t side = d->layers * SAVED_TOKENS * d->heads * d->dim * 2;
  char *k = malloc(side), *v = malloc(side);
  int equal;
  if (!k || !v) return fail("memory", NULL);
  if (kvc_seq_restore(&seq, scope, path, NULL, NULL, error) != KVC_OK) return fail("restore", error);
  KVC_INIT(&rows); /* packed, tokens first */
  rows.layer_count = (uint32_t)d->layers, rows.token_count = SAVED_TOKENS;
  rows.k.data = k, rows.v.data = v, rows.k.bytes = rows.v.bytes = side;
  rows.k.layer_stride = rows.v.layer_stride = side / d->layers;
  if (kvc_gather(NULL, seq, &rows, 1, NULL, error) != KVC_OK) return fail("gather", error);
  equal = same(d, d->k, k) && same(d, d->v, v);
  free(k), free(v);
  rows = engine_rows(d, SAVED_TOKENS, d->tokens - SAVED_TOKENS); /* computed now */
  if (kvc_append(seq, d->ids + SAVED_TOKENS, d->tokens - SAVED_TOKENS, &rows, 1, NULL, error) != KVC_OK) return fail("append", error);
  KVC_INIT(&info);
  KVC_INIT(&peek);
  peek.flags = KVC_SEQ_PEEK;
  if (kvc_match(NULL, &info, scope, d->ids, d->tokens, &peek, NULL, error) != KVC_OK) return fail("match", error);
  printf("%d of %" PRIu64 " tokens came back, %s; the next request finds %" PRIu64 "\n", SAVED_TOKENS, d->tokens, equal ? "bit for bit" : "CHANGED", info.tokens);
  if (kvc_seq_release(seq, error) != KVC_OK) return fail("release", error);
  return equal ? 0 : 1;
}

int main(int argc, char **argv) {
  kvc_error error;
  kvc_store *store = NULL;
  kvc_scope *scope = NULL;
  kvc_layer layer;
  kvc_shape shape;
  kvc_scope_options options;
  dump d;
  int failed;
  KVC_INIT(&error);
  if (argc != 4 || (strcmp(argv[1], "save") != 0 && strcmp(argv[1], "resume") != 0)) {
    fprintf(stderr, "usage: offload save|resume FILE DUMP\n");
    return 2;
  }
  if (!read_dump(&d, argv[3])) return fail(argv[3], NULL);
  memset(&layer, 0, sizeof layer);
  layer.count = (uint32_t)d.layers, layer.kind = KVC_LAYER_FULL, layer.kv_heads = (uint32_t)d.heads, layer.k_dim = layer.v_dim = (uint32_t)d.dim;
  KVC_INIT(&shape);
  shape.dtype = KVC_F16, shape.rope = KVC_ROPE_HALVES, shape.layers = &layer, shape.layer_runs = 1;
  KVC_INIT(&options);
  options.model = "offload", options.shape = &shape;
  if (kvc_open(&store, "mem:", NULL, &error) != KVC_OK) return fail("open", &error);
  if (kvc_scope_create(&scope, store, &options, &error) != KVC_OK) return fail("scope", &error);
  failed = strcmp(argv[1], "save") == 0 ? save(scope, &d, argv[2], &error) : resume(scope, &d, argv[2], &error);
  kvc_scope_release(scope, NULL);
  kvc_close(store, NULL);
  free(d.memory);
  return failed;
}

/* The prefix cache of a serving engine, in C: every request asks kvc for the longest prefix of its prompt that was computed before, takes those rows
 * into the engine's paged pool, computes the rest, and leaves it to the requests that come after.
 *
 *     cc prefix.c $(pkg-config --cflags --libs kvc) -o prefix
 *     ./prefix DUMP
 *
 * DUMP is a safetensors file with k and v [layers, heads, tokens, dim] f16 and token_ids [tokens] i32, 512 tokens at least, as those in tests/data.
 *
 * What is said are three texts of 512 tokens.  Text 0 is the beginning of DUMP.  Text 1 parts from it at token 200, text 2 at token 416: from there on
 * the id of token t in text x is token_ids[t] + x, and its rows are those of token (t + x * tokens / 4) mod tokens, so that rows of a wrong text are
 * wrong bytes.  "Computing" a token is to copy its rows into the pool.
 *
 * A request is the first tokens of a text, of a tenant.  It poisons the pool, takes a block table of its own, matches all tokens but the last, gathers
 * what is found, compares every byte of it with what the engine computes for these tokens, computes the rest and appends it.  One is answered twice: its
 * sequence is forked, and both answers grow side by side, token by token.  A line says what came of each request, the last one of all together. */
#include <kvc/kvc.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS = 3, TOKENS = 512, BLOCKS = 64, BLOCK_TOKENS = 16, TABLE = TOKENS / BLOCK_TOKENS, ANSWER = 48, POISON = 0xA5 };

static const uint64_t parts_at[TEXTS] = {TOKENS, 200, 416};

typedef struct request {
  const char *what;
  int tenant, text;
  uint64_t tokens;
  int second; /* the text of a second answer; 0: none */
} request;

static const request requests[] = {
    {"A, first turn", 0, 0, 300, 0},        {"B, same system prompt", 0, 1, 280, 0}, {"A, two answers", 0, 0, 416, 2},
    {"A, goes on from one", 0, 0, 500, 0},  {"A, from the other", 0, 2, 512, 0},     {"the same again", 0, 2, 512, 0},
    {"B, second turn", 0, 1, 400, 0},       {"another tenant", 1, 0, 300, 0},        {"the same again", 1, 0, 300, 0},
};

typedef struct engine {
  char *file;
  uint64_t layers, heads, tokens, dim, row; /* row: bytes of a head */
  const char *sides[2];                     /* k and v of the dump */
  int32_t ids[TEXTS][TOKENS];
  char *pool; /* [layers][K, V][blocks][16][heads][dim] */
  uint64_t pool_bytes;
} engine;

static kvc_error error;

static void die(const char *what, const char *why) {
  fprintf(stderr, "prefix: %s: %s\n", what, why);
  exit(1);
}

static void ok(const char *call, kvc_status status) {
  if (status != KVC_OK) die(call, error.message);
}

/* The numbers behind `"tensor":{ ... "key":[`; 0: they are not there. */
static int numbers(const char *header, const char *tensor, const char *key, uint64_t *out, int count) {
  char name[64];
  const char *at;
  snprintf(name, sizeof name, "\"%s\":{", tensor);
  if (!(at = strstr(header, name)) || !(at = strstr(at, key)) || !(at = strchr(at, '['))) return 0;
  for (int i = 0; i < count; i++) {
    char *end;
    out[i] = strtoull(at + 1, &end, 10);
    if (end == at + 1) return 0;
    at = end;
  }
  return 1;
}

static int read_dump(engine *e, const char *path) {
  static const char *const names[3] = {"k", "v", "token_ids"};
  FILE *file = fopen(path, "rb");
  uint64_t header_bytes = 0, left, shape[4], at[3][2], bytes = 2;
  long size = 0;
  if (file && fseek(file, 0, SEEK_END) == 0) size = ftell(file);
  if (size <= 8 || !(e->file = malloc((size_t)size)) || fseek(file, 0, SEEK_SET) != 0 || fread(e->file, 1, (size_t)size, file) != (size_t)size) return 0;
  fclose(file);
  memcpy(&header_bytes, e->file, 8);
  left = (uint64_t)size - 8;
  if (header_bytes == 0 || header_bytes > left) return 0;
  left -= header_bytes;
  e->file[7 + header_bytes] = '\0'; /* over the last brace */
  if (!numbers(e->file + 8, "k", "\"shape\"", shape, 4)) return 0;
  for (int i = 0; i < 4; bytes *= shape[i++])
    if (shape[i] == 0 || shape[i] >= 1 << 15) return 0;
  for (int i = 0; i < 3; i++)
    if (!numbers(e->file + 8, names[i], "\"data_offsets\"", at[i], 2) || at[i][1] > left || at[i][0] > at[i][1] ||
        at[i][1] - at[i][0] != (i < 2 ? bytes : shape[2] * sizeof(int32_t)))
      return 0;
  e->layers = shape[0], e->heads = shape[1], e->tokens = shape[2], e->dim = shape[3], e->row = shape[3] * 2;
  if (e->tokens < TOKENS) return 0;
  for (int side = 0; side < 2; side++) e->sides[side] = e->file + 8 + header_bytes + at[side][0];
  for (int text = 0; text < TEXTS; text++) {
    memcpy(e->ids[text], e->file + 8 + header_bytes + at[2][0], sizeof e->ids[text]);
    for (uint64_t t = parts_at[text]; t < TOKENS; t++) e->ids[text][t] += text;
  }
  e->pool_bytes = e->layers * 2 * BLOCKS * BLOCK_TOKENS * e->heads * e->row;
  return (e->pool = malloc(e->pool_bytes)) != NULL;
}

/* What the engine computes for a head of a token. */
static const char *computed(const engine *e, int text, uint64_t layer, int side, uint64_t token, uint64_t head) {
  const uint64_t from = token < parts_at[text] ? token : (token + (uint64_t)text * e->tokens / 4) % e->tokens;
  return e->sides[side] + ((layer * e->heads + head) * e->tokens + from) * e->row;
}

/* Where its pool has that. */
static char *pooled(const engine *e, const int32_t *table, uint64_t layer, int side, uint64_t token, uint64_t head) {
  const uint64_t block = (layer * 2 + (uint64_t)side) * BLOCKS + (uint64_t)table[token / BLOCK_TOKENS];
  return e->pool + ((block * BLOCK_TOKENS + token % BLOCK_TOKENS) * e->heads + head) * e->row;
}

static void compute(const engine *e, const int32_t *table, int text, uint64_t begin, uint64_t end) {
  for (uint64_t l = 0; l < e->layers; l++)
    for (int side = 0; side < 2; side++)
      for (uint64_t t = begin; t < end; t++)
        for (uint64_t h = 0; h < e->heads; h++) memcpy(pooled(e, table, l, side, t, h), computed(e, text, l, side, t, h), e->row);
}

static void check(const engine *e, const int32_t *table, const request *r, uint64_t end) {
  for (uint64_t l = 0; l < e->layers; l++)
    for (int side = 0; side < 2; side++)
      for (uint64_t t = 0; t < end; t++)
        for (uint64_t h = 0; h < e->heads; h++)
          if (memcmp(pooled(e, table, l, side, t, h), computed(e, r->text, l, side, t, h), e->row) != 0) {
            fprintf(stderr, "prefix: %s: %s of token %" PRIu64 ", layer %" PRIu64 " is not what was computed\n", r->what, side ? "v" : "k", t, l);
            exit(1);
          }
}

/* Tokens [begin, begin + count) in the pool. */
static kvc_rows pool_rows(const engine *e, const int32_t *table, uint64_t begin, uint64_t count) {
  const uint64_t block = BLOCK_TOKENS * e->heads * e->row, side = BLOCKS * block;
  kvc_rows rows;
  KVC_INIT(&rows);
  rows.layer_count = (uint32_t)e->layers;
  rows.token_begin = rows.slot_begin = begin, rows.token_count = count; /* equal: the table is of the whole sequence */
  rows.block_tokens = BLOCK_TOKENS, rows.blocks = table, rows.block_count = TABLE;
  rows.k.data = e->pool, rows.v.data = e->pool + side;
  rows.k.bytes = e->layers * 2 * side, rows.v.bytes = rows.k.bytes - side;
  rows.k.layer_stride = rows.v.layer_stride = 2 * side;
  rows.k.block_stride = rows.v.block_stride = block;
  return rows;
}

static void append(const engine *e, kvc_seq *seq, const int32_t *table, int text, uint64_t begin, uint64_t end) {
  const kvc_rows rows = pool_rows(e, table, begin, end - begin);
  compute(e, table, text, begin, end);
  ok("append", kvc_append(seq, e->ids[text] + begin, end - begin, &rows, 1, NULL, &error));
}

/* Two answers to one prompt.  In the pool they share the blocks of the prompt, which are full, and have blocks of their own behind. */
static void answer_twice(const engine *e, kvc_seq *seq, const request *r, const int32_t *table, const int32_t *free_blocks) {
  int32_t second[TABLE];
  kvc_seq *fork = NULL;
  for (uint64_t i = 0; i < TABLE; i++) second[i] = i < r->tokens / BLOCK_TOKENS ? table[i] : free_blocks[i];
  ok("fork", kvc_seq_fork(&fork, seq, KVC_ALL, &error));
  for (uint64_t t = r->tokens; t < r->tokens + ANSWER; t++) append(e, seq, table, r->text, t, t + 1), append(e, fork, second, r->second, t, t + 1);
  ok("release", kvc_seq_release(fork, &error));
}

/* How many tokens were found. */
static uint64_t serve(const engine *e, const kvc_scope *scope, int number) {
  const request *r = &requests[number];
  int32_t blocks[BLOCKS]; /* all of the pool, shuffled: the first half is the table, the other is free */
  kvc_seq *seq = NULL;
  kvc_match_info info;
  kvc_seq_options options;
  memset(e->pool, POISON, e->pool_bytes);
  for (int i = 0; i < BLOCKS; i++) blocks[i] = (37 * i + 11 * number) % BLOCKS;
  KVC_INIT(&info);
  KVC_INIT(&options);
  options.tokens_max = r->tokens - 1; /* the engine needs the logits of the last token: leave one to compute */
  ok("match", kvc_match(&seq, &info, scope, e->ids[r->text], r->tokens, &options, NULL, &error));
  if (info.tokens > 0) {
    const kvc_rows rows = pool_rows(e, blocks, 0, info.tokens);
    ok("gather", kvc_gather(NULL, seq, &rows, 1, NULL, &error));
  }
  check(e, blocks, r, info.tokens);
  append(e, seq, blocks, r->text, info.tokens, r->tokens);
  if (r->second) answer_twice(e, seq, r, blocks, blocks + TABLE);
  ok("release", kvc_seq_release(seq, &error));
  printf("%-21s  %3" PRIu64 " tokens, %3" PRIu64 " found, %3" PRIu64 " computed\n", r->what, r->tokens, info.tokens, r->tokens - info.tokens);
  return info.tokens;
}

int main(int argc, char **argv) {
  static engine e;
  kvc_store *store = NULL;
  kvc_scope *scopes[2];
  kvc_layer layer;
  kvc_shape shape;
  kvc_scope_options options;
  uint64_t found = 0, tokens = 0;
  KVC_INIT(&error);
  if (argc != 2) return fprintf(stderr, "usage: prefix DUMP\n"), 2;
  if (!read_dump(&e, argv[1])) die(argv[1], "no such file, or no dump of this kind");
  memset(&layer, 0, sizeof layer);
  layer.count = (uint32_t)e.layers, layer.kind = KVC_LAYER_FULL, layer.kv_heads = (uint32_t)e.heads, layer.k_dim = layer.v_dim = (uint32_t)e.dim;
  KVC_INIT(&shape);
  shape.dtype = KVC_F16, shape.rope = KVC_ROPE_HALVES, shape.layers = &layer, shape.layer_runs = 1;
  KVC_INIT(&options);
  options.model = "prefix", options.shape = &shape;
  ok("open", kvc_open(&store, "mem:", NULL, &error));
  for (int i = 0; i < 2; i++) options.tenant = i == 0 ? "one" : "two", ok("scope", kvc_scope_create(&scopes[i], store, &options, &error));
  for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
    found += serve(&e, scopes[requests[i].tenant], (int)i);
    tokens += requests[i].tokens;
  }
  printf("%" PRIu64 " of %" PRIu64 " tokens were found, %" PRIu64 " %%\n", found, tokens, 100 * found / tokens);
  for (int i = 0; i < 2; i++) ok("scope", kvc_scope_release(scopes[i], &error));
  ok("close", kvc_close(store, &error));
  free(e.pool), free(e.file);
  return 0;
}

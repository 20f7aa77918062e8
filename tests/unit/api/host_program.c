/* A host that loads the library, uses it, closes it and unloads it, several times: argv[1] is the library. */
#include <dlfcn.h>
#include <kvc/kvc.h>
#include <signal.h>
#include <stdio.h>

static int fail(const char *what, const kvc_error *error) {
  fprintf(stderr, "%s: %s\n", what, error ? error->message : dlerror());
  return 1;
}

/* POSIX gives function addresses as data pointers. */
#define LOAD(name) (*(void **)&name = dlsym(library, #name))

static int use(void *library) {
  kvc_status (*kvc_open)(kvc_store **, const char *, const kvc_store_options *, kvc_error *);
  kvc_status (*kvc_scope_create)(kvc_scope **, kvc_store *, const kvc_scope_options *, kvc_error *);
  kvc_status (*kvc_seq_create)(kvc_seq **, const kvc_scope *, const kvc_seq_options *, kvc_error *);
  kvc_status (*kvc_append)(kvc_seq *, const int32_t *, size_t, const kvc_rows *, size_t, const kvc_call *, kvc_error *);
  kvc_status (*kvc_gather)(kvc_result *, const kvc_seq *, const kvc_rows *, size_t, const kvc_call *, kvc_error *);
  kvc_status (*kvc_close)(kvc_store *, kvc_error *);
  static uint16_t k[128][8], v[128][8], out[128][8];
  static int32_t tokens[128];
  const kvc_layer layer = {1, KVC_LAYER_FULL, 1, 8, 8, 0, 0, 0, 0, {0, 0, 0}};
  kvc_error error;
  kvc_store_options options;
  kvc_shape shape;
  kvc_scope_options scope_options;
  kvc_rows rows;
  kvc_store *store;
  kvc_scope *scope;
  kvc_seq *seq;
  int i;
  if (!LOAD(kvc_open) || !LOAD(kvc_scope_create) || !LOAD(kvc_seq_create) || !LOAD(kvc_append) || !LOAD(kvc_gather) || !LOAD(kvc_close))
    return fail("dlsym", NULL);
  for (i = 0; i < 128 * 8; i++) k[i / 8][i % 8] = (uint16_t)(i * 31), v[i / 8][i % 8] = (uint16_t)(i * 57 + 1);
  KVC_INIT(&error);
  KVC_INIT(&options);
  options.memory_bytes = 1 << 20;
  if (kvc_open(&store, "mem:", &options, &error) != KVC_OK) return fail("kvc_open", &error);
  KVC_INIT(&shape);
  shape.dtype = KVC_F16, shape.layers = &layer, shape.layer_runs = 1;
  KVC_INIT(&scope_options);
  scope_options.model = "m", scope_options.shape = &shape;
  if (kvc_scope_create(&scope, store, &scope_options, &error) != KVC_OK) return fail("kvc_scope_create", &error);
  if (kvc_seq_create(&seq, scope, NULL, &error) != KVC_OK) return fail("kvc_seq_create", &error);
  KVC_INIT(&rows);
  rows.layer_count = 1, rows.token_count = 128;
  rows.k.data = k, rows.v.data = v, rows.k.bytes = rows.v.bytes = sizeof k;
  if (kvc_append(seq, tokens, 128, &rows, 1, NULL, &error) != KVC_OK) return fail("kvc_append", &error);
  rows.k.data = out, rows.v.data = NULL;
  if (kvc_gather(NULL, seq, &rows, 1, NULL, &error) != KVC_OK) return fail("kvc_gather", &error);
  if (memcmp(out, k, sizeof k) != 0) return fprintf(stderr, "the rows differ\n"), 1;
  memset(out, 0, sizeof out);
  if (kvc_close(store, &error) != KVC_OK) return fail("kvc_close", &error);
  return 0;
}

int main(int argc, char **argv) {
  int round, number;
  if (argc != 2) return 2;
  for (round = 0; round < 10; round++) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return fail("dlopen", NULL);
    if (dlsym(RTLD_DEFAULT, "kvc_open")) return fprintf(stderr, "RTLD_LOCAL leaks\n"), 1;
    if (use(library) != 0) return 1;
    if (dlclose(library) != 0) return fail("dlclose", NULL);
  }
  for (number = 1; number < 32; number++) { /* SIG_DFL everywhere, as it was */
    struct sigaction action;
    if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL && number != SIGSEGV && number != SIGBUS && number != SIGFPE)
      return fprintf(stderr, "signal %d has a handler\n", number), 1;
  }
  return 0;
}

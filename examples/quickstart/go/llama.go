package main

/*
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#cgo LDFLAGS: -ldl

// llama.cpp passes its parameter structs by value and changes them often.  They end every argument list, so a longer opaque block filled by
// llama_*_default_params stands in for them; a default that is not the one expected at its place is an error instead of a guess.
typedef struct { int32_t words[256]; } params;
typedef struct { int32_t token_count; void *token, *embd, *pos, *seq_count, *seq_id, *logits; } batch;

// Each is called through the pointer that was found under its name.
static params params_of(void *f) { return ((params (*)(void))f)(); }
static void *load_model(void *f, const char *path, params p) { return ((void *(*)(const char *, params))f)(path, p); }
static void *new_context(void *f, void *model, params p) { return ((void *(*)(void *, params))f)(model, p); }
static void *pointer_of(void *f, void *x) { return ((void *(*)(void *))f)(x); }
static int32_t number_of(void *f, void *x) { return ((int32_t (*)(void *))f)(x); }
static bool is_eog(void *f, void *vocab, int32_t token) { return ((bool (*)(void *, int32_t))f)(vocab, token); }
static void set_threads(void *f, void *context, int32_t n) { ((void (*)(void *, int32_t, int32_t))f)(context, n, n); }
static void clear_memory(void *f, void *memory) { ((void (*)(void *, bool))f)(memory, true); }
static int32_t tokenize(void *f, void *vocab, const char *text, int32_t size, int32_t *out, int32_t capacity) {
  return ((int32_t (*)(void *, const char *, int32_t, int32_t *, int32_t, bool, bool))f)(vocab, text, size, out, capacity, false, true);
}
static int32_t decode(void *one, void *f, void *context, int32_t *tokens, int32_t n) {
  return ((int32_t (*)(void *, batch))f)(context, ((batch (*)(int32_t *, int32_t))one)(tokens, n));
}
static float *logits(void *f, void *context) { return ((float *(*)(void *, int32_t))f)(context, -1); }
static size_t state_size(void *f, void *context) { return ((size_t (*)(void *, int32_t))f)(context, 0); }
static size_t state_move(void *f, void *context, void *data, size_t size) { return ((size_t (*)(void *, void *, size_t, int32_t))f)(context, data, size, 0); }
static void silence(int level, const char *text, void *user) { (void)level, (void)text, (void)user; }
static void start(void *log_set, void *init) {
  ((void (*)(void (*)(int, const char *, void *), void *))log_set)(silence, NULL);
  ((void (*)(void))init)();
}
*/
import "C"

import (
	"fmt"
	"unsafe"
)

const batchTokens = 512 // llama.cpp computes at most this many tokens at once

// Words of llama_context_params in the pinned version.
const nCtx, nBatch, nUbatch, attentionTypes, flashAttention = 0, 1, 2, 10, 13

// engine is a model with one context of one sequence, in the llama.cpp of a shared library.
type engine struct {
	library, model, vocab, context, memory unsafe.Pointer
	vocabSize, layers, kvHeads, headDim    int
}

func (e *engine) symbol(name string) unsafe.Pointer {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	found := C.dlsym(e.library, text)
	if found == nil {
		panic(fmt.Errorf("the library has no %s", name))
	}
	return found
}

func load(library string, flags C.int) unsafe.Pointer {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	loaded := C.dlopen(name, C.RTLD_NOW|flags)
	if loaded == nil {
		panic(fmt.Errorf("%s: %s", library, C.GoString(C.dlerror())))
	}
	return loaded
}

// open loads a library (and one that it needs to be there before), and a model; what does not fit panics with an error, which main says.
func open(before, library, path string, contextTokens, threads int, flash bool) *engine {
	if before != "" {
		load(before, C.RTLD_GLOBAL)
	}
	model := C.CString(path)
	defer C.free(unsafe.Pointer(model))
	e := &engine{library: load(library, 0)}
	C.start(e.symbol("llama_log_set"), e.symbol("llama_backend_init"))
	e.model = C.load_model(e.symbol("llama_model_load_from_file"), model, C.params_of(e.symbol("llama_model_default_params")))
	if e.model == nil {
		panic(fmt.Errorf("%s: llama.cpp cannot load it", path))
	}
	number := func(name string, of unsafe.Pointer) int { return int(C.number_of(e.symbol(name), of)) }
	e.vocab = C.pointer_of(e.symbol("llama_model_get_vocab"), e.model)
	e.vocabSize, e.layers = number("llama_vocab_n_tokens", e.vocab), number("llama_model_n_layer", e.model)
	e.kvHeads, e.headDim = number("llama_model_n_head_kv", e.model), number("llama_model_n_embd", e.model)/number("llama_model_n_head", e.model)

	options := C.params_of(e.symbol("llama_context_default_params"))
	for _, word := range options.words[attentionTypes : attentionTypes+4] {
		if word != -1 || options.words[nUbatch] != batchTokens {
			panic(fmt.Errorf("llama_context_params start with %v: not the layout of the pinned version", options.words[:16]))
		}
	}
	options.words[nCtx], options.words[nBatch], options.words[nUbatch] = C.int32_t(contextTokens), batchTokens, batchTokens
	options.words[flashAttention] = map[bool]C.int32_t{true: 1}[flash]
	if e.context = C.new_context(e.symbol("llama_init_from_model"), e.model, options); e.context == nil {
		panic(fmt.Errorf("llama.cpp refuses a context of %d tokens", contextTokens))
	}
	C.set_threads(e.symbol("llama_set_n_threads"), e.context, C.int32_t(threads))
	e.memory = C.pointer_of(e.symbol("llama_get_memory"), e.context)
	return e
}

func (e *engine) clear() { C.clear_memory(e.symbol("llama_memory_clear"), e.memory) }

// tokenize gives token ids; the marks of the chat template become their own tokens, nothing is added.
func (e *engine) tokenize(text string) []int32 {
	out := make([]int32, len(text)+8)
	data := []byte(text + "\x00")
	n := C.tokenize(e.symbol("llama_tokenize"), e.vocab, (*C.char)(unsafe.Pointer(&data[0])), C.int32_t(len(text)), (*C.int32_t)(&out[0]), C.int32_t(len(out)))
	if n < 0 {
		panic(fmt.Errorf("llama_tokenize: %d tokens do not fit %d", -n, len(out)))
	}
	return out[:n]
}

// decode computes tokens behind those it has; the token that follows, by the largest logit.
func (e *engine) decode(tokens []int32) int32 {
	for len(tokens) > 0 {
		n := min(len(tokens), batchTokens)
		if status := C.decode(e.symbol("llama_batch_get_one"), e.symbol("llama_decode"), e.context, (*C.int32_t)(&tokens[0]), C.int32_t(n)); status != 0 {
			panic(fmt.Errorf("llama_decode: status %d for %d tokens", status, n))
		}
		tokens = tokens[n:]
	}
	best, all := 0, unsafe.Slice((*float32)(C.logits(e.symbol("llama_get_logits_ith"), e.context)), e.vocabSize)
	for i, x := range all {
		if x > all[best] {
			best = i
		}
	}
	return int32(best)
}

// generate continues greedily after a token, behind which it ends at the end of a turn.
func (e *engine) generate(token int32, limit int) []int32 {
	out := []int32{token}
	for len(out) < limit && !bool(C.is_eog(e.symbol("llama_vocab_is_eog"), e.vocab, C.int32_t(token))) {
		token = e.decode([]int32{token})
		out = append(out, token)
	}
	return out
}

func (e *engine) state() []byte {
	blob := make([]byte, C.state_size(e.symbol("llama_state_seq_get_size"), e.context))
	if n := C.state_move(e.symbol("llama_state_seq_get_data"), e.context, unsafe.Pointer(&blob[0]), C.size_t(len(blob))); int(n) != len(blob) {
		panic(fmt.Errorf("llama_state_seq_get_data wrote %d of the %d bytes it announced", n, len(blob)))
	}
	return blob
}

func (e *engine) setState(blob []byte) {
	if n := C.state_move(e.symbol("llama_state_seq_set_data"), e.context, unsafe.Pointer(&blob[0]), C.size_t(len(blob))); int(n) != len(blob) {
		panic(fmt.Errorf("llama_state_seq_set_data read %d of %d bytes: another layout than the one forged", n, len(blob)))
	}
}

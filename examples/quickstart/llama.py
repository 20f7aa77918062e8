"""The llama.cpp inside the `xllamacpp` wheel, driven through its exported C API: only what the quickstart needs.

llama.cpp passes its parameter structs by value and changes them often.  They end every argument list, so a longer opaque block filled by
llama_*_default_params stands in for them, and the few words that are changed are guarded: the version is pinned, and a default that is not
the one expected at that place is an error instead of a guess.
"""
import ctypes
import importlib.metadata
import importlib.util
import pathlib

import numpy as np

PINNED_VERSION = "2026.10.11549"
BATCH_TOKENS = 512  # llama.cpp computes at most this many tokens at once

N_CTX, N_BATCH, N_UBATCH = 0, 1, 2  # words of llama_context_params in the pinned version
ATTENTION_TYPES = slice(10, 14)  # rope scaling, pooling, attention, flash attention: -1 (unspecified, automatic) by default
FLASH_ATTENTION = 13


class Params(ctypes.Structure):
    _fields_ = [("words", ctypes.c_int32 * 256)]


class Batch(ctypes.Structure):
    _fields_ = [("token_count", ctypes.c_int32), ("token", ctypes.c_void_p), ("embd", ctypes.c_void_p), ("pos", ctypes.c_void_p),
                ("seq_count", ctypes.c_void_p), ("seq_id", ctypes.c_void_p), ("logits", ctypes.c_void_p)]


POINTER, INT, SIZE = ctypes.c_void_p, ctypes.c_int32, ctypes.c_size_t
PROTOTYPES = {
    "llama_model_default_params": (Params,),
    "llama_context_default_params": (Params,),
    "llama_model_load_from_file": (POINTER, ctypes.c_char_p, Params),
    "llama_model_free": (None, POINTER),
    "llama_model_get_vocab": (POINTER, POINTER),
    "llama_model_n_layer": (INT, POINTER),
    "llama_model_n_head": (INT, POINTER),
    "llama_model_n_head_kv": (INT, POINTER),
    "llama_model_n_embd": (INT, POINTER),
    "llama_vocab_n_tokens": (INT, POINTER),
    "llama_vocab_is_eog": (ctypes.c_bool, POINTER, INT),
    "llama_tokenize": (INT, POINTER, ctypes.c_char_p, INT, POINTER, INT, ctypes.c_bool, ctypes.c_bool),
    "llama_detokenize": (INT, POINTER, POINTER, INT, ctypes.c_char_p, INT, ctypes.c_bool, ctypes.c_bool),
    "llama_init_from_model": (POINTER, POINTER, Params),
    "llama_free": (None, POINTER),
    "llama_n_ctx": (ctypes.c_uint32, POINTER),
    "llama_set_n_threads": (None, POINTER, INT, INT),
    "llama_get_memory": (POINTER, POINTER),
    "llama_memory_clear": (None, POINTER, ctypes.c_bool),
    "llama_memory_seq_rm": (ctypes.c_bool, POINTER, INT, INT, INT),
    "llama_memory_seq_pos_max": (INT, POINTER, INT),
    "llama_batch_get_one": (Batch, POINTER, INT),
    "llama_decode": (INT, POINTER, Batch),
    "llama_get_logits_ith": (ctypes.POINTER(ctypes.c_float), POINTER, INT),
    "llama_state_seq_get_size": (SIZE, POINTER, INT),
    "llama_state_seq_get_data": (SIZE, POINTER, POINTER, SIZE, INT),
    "llama_state_seq_set_data": (SIZE, POINTER, POINTER, SIZE, INT),
}
LOG_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class LlamaError(RuntimeError):
    pass


@LOG_CALLBACK
def _silence(level, text, user):
    pass


def library_path():
    return next(pathlib.Path(importlib.util.find_spec("xllamacpp").origin).parent.glob("*.so"))


def load_library():
    version = importlib.metadata.version("xllamacpp")
    if version != PINNED_VERSION:
        raise LlamaError(f"xllamacpp {version}: this wrapper knows the structs of {PINNED_VERSION} only")
    library = ctypes.CDLL(str(library_path()))
    for name, (result, *arguments) in PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.llama_log_set.restype = None
    library.llama_log_set(_silence, None)
    library.llama_backend_init()
    return library


class Model:
    """A GGUF file, read-only and shared by contexts."""

    def __init__(self, path):
        self.library = load_library()
        self.handle = self.library.llama_model_load_from_file(str(path).encode(), self.library.llama_model_default_params())
        if not self.handle:
            raise LlamaError(f"{path}: llama.cpp cannot load it")
        self.vocab = self.library.llama_model_get_vocab(self.handle)
        self.vocab_size = self.library.llama_vocab_n_tokens(self.vocab)
        self.layer_count = self.library.llama_model_n_layer(self.handle)
        self.kv_heads = self.library.llama_model_n_head_kv(self.handle)
        self.head_dim = self.library.llama_model_n_embd(self.handle) // self.library.llama_model_n_head(self.handle)

    def tokenize(self, text):
        """Token ids; the marks of the chat template become their own tokens, nothing is added."""
        data = text.encode()
        ids = np.empty(len(data) + 8, np.int32)
        count = self.library.llama_tokenize(self.vocab, data, len(data), ids.ctypes.data, len(ids), False, True)
        if count < 0:
            raise LlamaError(f"llama_tokenize: {-count} tokens do not fit {len(ids)}")
        return ids[:count].tolist()

    def text(self, tokens):
        ids = np.asarray(tokens, np.int32)
        data = ctypes.create_string_buffer(64 * len(ids) + 64)
        count = self.library.llama_detokenize(self.vocab, ids.ctypes.data, len(ids), data, len(data), True, False)
        return data.raw[:max(count, 0)].decode(errors="replace")

    def ends(self, token):
        return self.library.llama_vocab_is_eog(self.vocab, token)

    def close(self):
        self.library.llama_model_free(self.handle)
        self.handle = None


class Context:
    """One sequence (id 0) of a model.  Tokens are decoded behind those it already holds."""

    def __init__(self, model, token_capacity, threads, flash_attention=True):
        self.model, self.library = model, model.library
        params = self.library.llama_context_default_params()
        if list(params.words[ATTENTION_TYPES]) != [-1] * 4 or params.words[N_UBATCH] != BATCH_TOKENS:
            raise LlamaError(f"llama_context_params start with {list(params.words[:16])}: not the layout of {PINNED_VERSION}")
        params.words[N_CTX] = token_capacity
        params.words[N_BATCH] = params.words[N_UBATCH] = BATCH_TOKENS
        params.words[FLASH_ATTENTION] = int(flash_attention)
        self.handle = self.library.llama_init_from_model(model.handle, params)
        if not self.handle:
            raise LlamaError(f"llama.cpp refuses a context of {token_capacity} tokens")
        self.library.llama_set_n_threads(self.handle, threads, threads)
        self.memory = self.library.llama_get_memory(self.handle)
        self.token_capacity = self.library.llama_n_ctx(self.handle)

    @property
    def length(self):
        return self.library.llama_memory_seq_pos_max(self.memory, 0) + 1

    def clear(self):
        """Forgets every token and zeroes the cache, so that nothing of an earlier run can be read."""
        self.library.llama_memory_clear(self.memory, True)

    def truncate(self, length):
        if not self.library.llama_memory_seq_rm(self.memory, 0, length, -1):
            raise LlamaError(f"llama.cpp cannot cut its sequence back to {length} tokens")

    def decode(self, tokens, progress=None):
        """Computes `tokens` in calls of at most BATCH_TOKENS; the logits after the last one."""
        for begin in range(0, len(tokens), BATCH_TOKENS):
            ids = np.asarray(tokens[begin:begin + BATCH_TOKENS], np.int32)
            status = self.library.llama_decode(self.handle, self.library.llama_batch_get_one(ids.ctypes.data, len(ids)))
            if status != 0:
                raise LlamaError(f"llama_decode: status {status} for {len(ids)} tokens at position {self.length} of {self.token_capacity}")
            if progress:
                progress(begin + len(ids), len(tokens))
        logits = self.library.llama_get_logits_ith(self.handle, -1)
        return np.ctypeslib.as_array(logits, (self.model.vocab_size,)).copy()

    def generate(self, logits, limit):
        """Continues greedily after `logits`: the tokens, and the logits that chose each.  Stops behind an end-of-turn token."""
        tokens, chosen_by = [], []
        while True:
            tokens.append(int(logits.argmax()))
            chosen_by.append(logits)
            if len(tokens) == limit or self.model.ends(tokens[-1]):
                return tokens, np.stack(chosen_by)
            logits = self.decode(tokens[-1:])

    def get_state(self):
        blob = np.empty(self.library.llama_state_seq_get_size(self.handle, 0), np.uint8)
        size = self.library.llama_state_seq_get_data(self.handle, blob.ctypes.data, len(blob), 0)
        if size != len(blob):
            raise LlamaError(f"llama_state_seq_get_data wrote {size} of the {len(blob)} bytes it announced")
        return blob

    def set_state(self, blob):
        size = self.library.llama_state_seq_set_data(self.handle, blob.ctypes.data, len(blob), 0)
        if size != len(blob):
            raise LlamaError(f"llama_state_seq_set_data read {size} of {len(blob)} bytes: another layout than the one forged")

    def close(self):
        self.library.llama_free(self.handle)
        self.handle = None

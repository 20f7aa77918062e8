#include "seq/shape.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace kvc::seq {
namespace {

using base::Error;
using base::fail;

static_assert(std::endian::native == std::endian::little, "names are made of little-endian integers as they stand in memory");

uint32_t dtype_bytes(uint32_t dtype) {
  switch (dtype) {
    case KVC_F32: return 4;
    case KVC_F16:
    case KVC_BF16: return 2;
    default: return 1;
  }
}

const char *kind_name(uint32_t kind) {
  constexpr const char *names[] = {"full", "window", "latent", "state"};
  return names[kind - KVC_LAYER_FULL];
}

unsigned long long wide(uint64_t value) { return value; }

kvc_status check_header(const kvc_shape &shape, Error &error) {
  if (shape.dtype < KVC_F32 || shape.dtype > KVC_U8) {
    return fail(error, KVC_ERR_SHAPE, "shape.dtype %u: KVC_F32, F16, BF16, F8_E4M3 or U8 (1..5)", shape.dtype);
  }
  if (shape.chunk_tokens % 16 != 0 || shape.chunk_tokens > chunk_tokens_max) {
    return fail(error, KVC_ERR_SHAPE, "shape.chunk_tokens %u: a multiple of 16, at most %u (0: 64)", shape.chunk_tokens, chunk_tokens_max);
  }
  if (shape.rope > KVC_ROPE_NONE) return fail(error, KVC_ERR_SHAPE, "shape.rope %u: KVC_ROPE_* (0..3)", shape.rope);
  if (shape.layer_runs == 0) return fail(error, KVC_ERR_SHAPE, "shape.layer_runs 0: a shape has at least one run of layers");
  if (shape.layer_runs > layers_max) {
    return fail(error, KVC_ERR_SHAPE, "shape.layer_runs %llu: at most %u, one layer each", wide(shape.layer_runs), layers_max);
  }
  if (!shape.layers) return fail(error, KVC_ERR_SHAPE, "shape.layers NULL: %llu runs are announced", wide(shape.layer_runs));
  return KVC_OK;
}

/// What every kind must keep: counts and reserved members, and zero in the members the kind does not use.
kvc_status check_members(uint32_t index, const kvc_layer &layer, uint64_t layers_before, Error &error) {
  if (layer.kind < KVC_LAYER_FULL || layer.kind > KVC_LAYER_STATE) {
    return fail(error, KVC_ERR_SHAPE, "run %u: kind %u: KVC_LAYER_FULL, WINDOW, LATENT or STATE (1..4)", index, layer.kind);
  }
  if (layer.count == 0) return fail(error, KVC_ERR_SHAPE, "run %u: count 0: at least one layer", index);
  if (layers_before + layer.count > layers_max) {
    return fail(error, KVC_ERR_SHAPE, "run %u: count %u makes %llu layers in all: at most %u", index, layer.count,
                wide(layers_before + layer.count), layers_max);
  }
  if (layer.kv_heads == 0 || layer.kv_heads > kv_heads_max) {
    return fail(error, KVC_ERR_SHAPE, "run %u: kv_heads %u: 1..%u", index, layer.kv_heads, kv_heads_max);
  }
  if (layer.kind == KVC_LAYER_LATENT && layer.kv_heads != 1) {
    return fail(error, KVC_ERR_SHAPE, "run %u: kv_heads %u: latent layers have 1", index, layer.kv_heads);
  }
  if (layer.kind == KVC_LAYER_WINDOW && layer.window == 0) {
    return fail(error, KVC_ERR_SHAPE, "run %u: window 0: window layers see at least one token", index);
  }
  if (layer.kind != KVC_LAYER_WINDOW && layer.window != 0) {
    return fail(error, KVC_ERR_SHAPE, "run %u: window %u: 0 in %s layers", index, layer.window, kind_name(layer.kind));
  }
  if (layer.kind != KVC_LAYER_LATENT && layer.rope_dim != 0) {
    return fail(error, KVC_ERR_SHAPE, "run %u: rope_dim %u: 0 in %s layers", index, layer.rope_dim, kind_name(layer.kind));
  }
  if (layer.kind == KVC_LAYER_LATENT && layer.v_dim != 0) {
    return fail(error, KVC_ERR_SHAPE, "run %u: v_dim %u: 0 in latent layers, whose second part is rope_dim", index, layer.v_dim);
  }
  for (const uint32_t reserved : layer.reserved) {
    if (reserved != 0) return fail(error, KVC_ERR_SHAPE, "run %u: reserved %u: must be 0", index, reserved);
  }
  return KVC_OK;
}

kvc_status check_dims(uint32_t index, const kvc_layer &layer, Error &error) {
  const bool state = layer.kind == KVC_LAYER_STATE;
  const bool v_needed = layer.kind == KVC_LAYER_FULL || layer.kind == KVC_LAYER_WINDOW;
  if (layer.k_dim == 0) return fail(error, KVC_ERR_SHAPE, "run %u: k_dim 0: at least 1", index);
  if (v_needed && layer.v_dim == 0) {
    return fail(error, KVC_ERR_SHAPE, "run %u: v_dim 0: at least 1 in %s layers", index, kind_name(layer.kind));
  }
  if (state) return KVC_OK;
  if (layer.k_dim > dim_max) return fail(error, KVC_ERR_SHAPE, "run %u: k_dim %u: at most %u", index, layer.k_dim, dim_max);
  if (layer.v_dim > dim_max) return fail(error, KVC_ERR_SHAPE, "run %u: v_dim %u: at most %u", index, layer.v_dim, dim_max);
  if (layer.rope_dim > dim_max) return fail(error, KVC_ERR_SHAPE, "run %u: rope_dim %u: at most %u", index, layer.rope_dim, dim_max);
  return KVC_OK;
}

/// `filled` is the run with defaults; `layer` says which dtypes were given.
kvc_status check_dtypes(uint32_t index, const kvc_layer &layer, const LayerRun &filled, uint32_t shape_dtype, Error &error) {
  constexpr const char *known = "0 (the shape's) or KVC_F32, F16, BF16, F8_E4M3, U8 (1..5)";
  if (layer.k_dtype > KVC_U8) return fail(error, KVC_ERR_SHAPE, "run %u: k_dtype %u: %s", index, layer.k_dtype, known);
  if (layer.v_dtype > KVC_U8) return fail(error, KVC_ERR_SHAPE, "run %u: v_dtype %u: %s", index, layer.v_dtype, known);
  if (filled.v_row_bytes() == 0 && filled.v_dtype != shape_dtype) {
    return fail(error, KVC_ERR_SHAPE, "run %u: v_dtype %u: 0 or the shape's, as this run has no second part", index, layer.v_dtype);
  }
  if (filled.kind == KVC_LAYER_STATE) return KVC_OK;
  if (filled.k_dtype == KVC_U8) return fail(error, KVC_ERR_SHAPE, "run %u: k_dtype KVC_U8: raw bytes are for state layers only", index);
  if (filled.v_dtype == KVC_U8) return fail(error, KVC_ERR_SHAPE, "run %u: v_dtype KVC_U8: raw bytes are for state layers only", index);
  return KVC_OK;
}

LayerRun filled_run(const kvc_layer &layer, uint32_t layer_begin, uint32_t shape_dtype) {
  LayerRun run{};
  run.layer_begin = layer_begin;
  run.layer_count = layer.count;
  run.kind = layer.kind;
  run.kv_heads = layer.kv_heads;
  run.k_dim = layer.k_dim;
  run.v_dim = layer.v_dim;
  run.rope_dim = layer.rope_dim;
  run.window = layer.window;
  run.k_dtype = layer.k_dtype ? layer.k_dtype : shape_dtype;
  run.v_dtype = layer.v_dtype ? layer.v_dtype : shape_dtype;
  return run;
}

bool same_geometry(const LayerRun &a, const LayerRun &b) {
  return a.kind == b.kind && a.kv_heads == b.kv_heads && a.k_dim == b.k_dim && a.v_dim == b.v_dim && a.rope_dim == b.rope_dim &&
         a.window == b.window && a.k_dtype == b.k_dtype && a.v_dtype == b.v_dtype;
}

kvc_status check_run(uint32_t index, const kvc_layer &layer, Shape &shape, Error &error) {
  KVC_TRY(check_members(index, layer, shape.layer_count, error));
  KVC_TRY(check_dims(index, layer, error));
  const LayerRun run = filled_run(layer, shape.layer_count, shape.dtype);
  KVC_TRY(check_dtypes(index, layer, run, shape.dtype, error));

  // No product overflows: dims are u32, heads <= 2^7, rows <= 2^8, elements <= 4 bytes: a part is below 2^49 before it is limited to 2^32.
  const uint64_t rows = uint64_t{run.kv_heads} * run.page_rows(shape.chunk_tokens);
  if (rows * run.k_row_bytes() > part_bytes_max) {
    return fail(error, KVC_ERR_SHAPE, "run %u: k_dim %u makes %llu bytes of K a page: at most %llu", index, run.k_dim,
                wide(rows * run.k_row_bytes()), wide(part_bytes_max));
  }
  if (rows * run.v_row_bytes() > part_bytes_max) {
    const bool latent = run.kind == KVC_LAYER_LATENT;
    return fail(error, KVC_ERR_SHAPE, "run %u: %s %u makes %llu bytes a page: at most %llu", index, latent ? "rope_dim" : "v_dim",
                latent ? run.rope_dim : run.v_dim, wide(rows * run.v_row_bytes()), wide(part_bytes_max));
  }

  // Two parts below 2^32 bytes a page in fewer than 2^16 layers: the sums over layers stay below 2^49.
  const uint64_t row_bytes = uint64_t{run.kv_heads} * (run.k_row_bytes() + run.v_row_bytes()) * run.layer_count;
  (run.kind == KVC_LAYER_STATE ? shape.state_bytes : shape.token_bytes) += row_bytes;
  if (!shape.runs.empty() && same_geometry(shape.runs.back(), run)) {
    shape.runs.back().layer_count += run.layer_count;
  } else {
    shape.runs.push_back(run);
  }
  shape.layer_count += run.layer_count;
  return KVC_OK;
}

base::Digest fingerprint_of(const Shape &shape) {
  constexpr char tag[] = "kvc shape 1";
  base::Sha256 hash;
  hash.begin();
  hash.update(tag, sizeof tag - 1);
  const uint32_t head[] = {shape.dtype, shape.chunk_tokens, shape.rope};
  hash.update(head, sizeof head);
  const uint64_t run_count = shape.runs.size();
  hash.update(&run_count, sizeof run_count);
  for (const LayerRun &run : shape.runs) {
    const uint32_t members[] = {run.layer_count, run.kind,   run.kv_heads, run.k_dim,  run.v_dim,
                                run.rope_dim,    run.window, run.k_dtype,  run.v_dtype};
    hash.update(members, sizeof members);
  }
  return hash.finish();
}

}  // namespace

uint64_t LayerRun::k_row_bytes() const { return uint64_t{k_dim} * (kind == KVC_LAYER_STATE ? 1 : dtype_bytes(k_dtype)); }

uint64_t LayerRun::v_row_bytes() const {
  if (kind == KVC_LAYER_STATE) return v_dim;
  return uint64_t{kind == KVC_LAYER_LATENT ? rope_dim : v_dim} * dtype_bytes(v_dtype);
}

const LayerRun &Shape::run_of(uint32_t layer) const {
  KVC_CHECK(layer < layer_count);
  const auto after = std::upper_bound(runs.begin(), runs.end(), layer, [](uint32_t l, const LayerRun &run) { return l < run.layer_begin; });
  return *(after - 1);
}

kvc_status shape_check(Shape &out, const kvc_shape &shape, Error &error) {
  KVC_TRY(check_header(shape, error));
  Shape checked;
  checked.dtype = shape.dtype;
  checked.chunk_tokens = shape.chunk_tokens ? shape.chunk_tokens : 64;
  checked.rope = shape.rope;
  for (uint32_t i = 0; i < shape.layer_runs; ++i) KVC_TRY(check_run(i, shape.layers[i], checked, error));
  checked.chunk_bytes = checked.token_bytes * checked.chunk_tokens;
  checked.fingerprint = fingerprint_of(checked);
  out = std::move(checked);
  return KVC_OK;
}

}  // namespace kvc::seq

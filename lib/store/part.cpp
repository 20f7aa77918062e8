#include "store/part.h"

#include <algorithm>

namespace kvc::store {

using base::Error;
using base::fail;

namespace {

/// Runs of the model's that have layers in the range.
template <typename Do>
void each_run(const PartRange &range, const seq::Shape &model, Do &&act) {
  const uint32_t end = range.layer_begin + range.layer_count;
  for (const seq::LayerRun &run : model.runs) {
    const uint32_t from = std::max(run.layer_begin, range.layer_begin), to = std::min(run.layer_begin + run.layer_count, end);
    if (from < to) act(run, from, to);
  }
}

void add_run(seq::Shape &shape, const seq::LayerRun &of, uint32_t layer_count, uint32_t heads) {
  seq::LayerRun run = of;
  run.layer_begin = shape.layer_count;
  run.layer_count = layer_count;
  run.kv_heads = heads;
  const uint64_t row_bytes = uint64_t{heads} * (run.k_row_bytes() + run.v_row_bytes()) * layer_count;
  (run.kind == KVC_LAYER_STATE ? shape.state_bytes : shape.token_bytes) += row_bytes;
  shape.runs.push_back(run);
  shape.layer_count += layer_count;
}

void copy_head(seq::Shape &to, const seq::Shape &from) {
  to.dtype = from.dtype, to.chunk_tokens = from.chunk_tokens, to.rope = from.rope;
  to.fingerprint = from.fingerprint;
}

bool has_all_main(const PartRange &range, const seq::Shape &model) {
  const uint32_t end = range.layer_begin + range.layer_count;
  return std::all_of(model.runs.begin(), model.runs.end(), [&](const seq::LayerRun &run) {
    return !run.keeps_all() || (run.layer_begin >= range.layer_begin && run.layer_begin + run.layer_count <= end && (run.kv_heads == 1 || !range.head_count || range.head_count == run.kv_heads));
  });
}

}  // namespace

void Part::init_layouts(uint64_t head_bytes) {
  layout.init(shape, Piece::main, head_bytes);
  for (const seq::LayerRun &run : shape.runs) {
    window_max = std::max(window_max, run.window);
    has_states = has_states || run.kind == KVC_LAYER_STATE;
  }
  if (window_max) windows.init(shape, Piece::window, head_bytes);
  if (has_states) states.init(shape, Piece::state, head_bytes);
}

kvc_status complete_range(PartRange &range, const seq::Shape &model, Error &error) {
  if (range.layer_count == 0 && range.layer_begin) return fail(error, KVC_ERR_ARGUMENT, "layer_begin %u with layer_count 0, which means all layers", range.layer_begin);
  if (range.head_count == 0 && range.head_begin) return fail(error, KVC_ERR_ARGUMENT, "head_begin %u with head_count 0, which means all heads", range.head_begin);
  if (range.layer_begin >= model.layer_count || range.layer_count > model.layer_count - range.layer_begin)
    return fail(error, KVC_ERR_RANGE, "layers [%u, +%u): the shape has %u", range.layer_begin, range.layer_count, model.layer_count);
  if (range.layer_count == 0) range.layer_count = model.layer_count;
  bool all_heads = true;
  const seq::LayerRun *narrow = nullptr;
  each_run(range, model, [&](const seq::LayerRun &run, uint32_t, uint32_t) {
    if (run.kv_heads == 1 || range.head_count == 0) return;
    all_heads = all_heads && range.head_begin == 0 && range.head_count == run.kv_heads;
    if (range.head_begin >= run.kv_heads || range.head_count > run.kv_heads - range.head_begin) narrow = &run;
  });
  if (narrow)
    return fail(error, KVC_ERR_RANGE, "heads [%u, +%u): layer %u has %u", range.head_begin, range.head_count, std::max(narrow->layer_begin, range.layer_begin), narrow->kv_heads);
  if (all_heads) range.head_begin = range.head_count = 0;
  return KVC_OK;
}

seq::Shape shape_of_part(const PartRange &range, const seq::Shape &model) {
  seq::Shape out;
  copy_head(out, model);
  each_run(range, model, [&](const seq::LayerRun &run, uint32_t from, uint32_t to) {
    add_run(out, run, to - from, run.kv_heads == 1 || !range.head_count ? run.kv_heads : range.head_count);
  });
  out.chunk_bytes = out.token_bytes * out.chunk_tokens;
  return out;
}

void init_part(Part &out, const PartRange &range, const seq::Shape &model) {
  out.model = &model;
  out.layer_begin = range.layer_begin, out.head_begin = range.head_begin, out.head_count = range.head_count;
  out.shape = shape_of_part(range, model);
  out.has_all_main = has_all_main(range, model);
  out.init_layouts(sizeof(Slice));
}

bool init_split(Part &out, const Part &part) {
  bool shared = false, split = false;
  copy_head(out.shape, part.shape);
  for (const seq::LayerRun &run : part.shape.runs) {
    const bool of_all = part.model->run_of(part.layer_begin + run.layer_begin).kv_heads == 1;
    shared = shared || of_all;
    split = split || !of_all;
    add_run(out.shape, run, run.layer_count, of_all ? 0 : run.kv_heads);
  }
  out.model = part.model;
  out.layer_begin = part.layer_begin, out.head_begin = part.head_begin, out.head_count = part.head_count;
  if (!shared || !split || !part.head_count) return false;
  out.init_layouts(sizeof(Slice));
  return true;
}

}  // namespace kvc::store

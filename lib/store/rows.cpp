#include "store/rows.h"

#include <algorithm>
#include <vector>

namespace kvc::store {
namespace {

using base::Error;
using base::fail;
__extension__ using uint128 = unsigned __int128;

struct Axis {
  const char *name;
  uint64_t stride, count, count_high;  // of the lower and of the upper part in memory
  bool parts;                          // the distance between the two
};

/// The blocks a run touches.
struct Touched {
  uint64_t first = 0, last = 0;  // entries of the table
  int64_t block_min = 0, block_max = 0;
  bool distinct = true;
};

kvc_status scan_blocks(Touched &out, const kvc_rows &rows, uint64_t slot_count, Direction direction, std::pmr::memory_resource *scratch, Error &error) {
  if (!rows.blocks) return fail(error, KVC_ERR_ARGUMENT, "blocks is NULL but block_tokens is %u", rows.block_tokens);
  const uint64_t slot_last = rows.slot_begin + slot_count - 1;
  out.first = rows.slot_begin / rows.block_tokens;
  out.last = slot_last / rows.block_tokens;
  if (out.last >= rows.block_count)
    return fail(error, KVC_ERR_RANGE, "slot %llu lies in entry %llu of the block table: block_count is %llu",
                static_cast<unsigned long long>(slot_last), static_cast<unsigned long long>(out.last),
                static_cast<unsigned long long>(rows.block_count));
  out.block_min = INT64_MAX;
  bool rising = true;
  for (uint64_t i = out.first; i <= out.last; i++) {
    const int32_t block = rows.blocks[i];
    if (block < 0) return fail(error, KVC_ERR_ARGUMENT, "blocks[%llu] is %d: a touched block may not be negative", static_cast<unsigned long long>(i), block);
    rising = rising && (i == out.first || block > rows.blocks[i - 1]);
    out.block_min = std::min<int64_t>(out.block_min, block);
    out.block_max = std::max<int64_t>(out.block_max, block);
  }
  if (direction == Direction::append || rising) return KVC_OK;
  std::pmr::vector<int32_t> sorted(rows.blocks + out.first, rows.blocks + out.last + 1, scratch);
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) return fail(error, KVC_ERR_ARGUMENT, "block %d stands twice in a destination's block table", *twice);
  return KVC_OK;
}

/// Elements of a destination are distinct when its axes nest: each steps over everything inside it.  K and V in one array are checked
/// together, their distance being one more axis; `low` and `high` are the extents of the two so far.
struct Nesting {
  uint128 low, high;
};

kvc_status check_nesting(Axis *axes, size_t count, Nesting inner, const char *side, Error &error) {
  std::sort(axes, axes + count, [](const Axis &a, const Axis &b) { return a.stride < b.stride; });
  for (size_t i = 0; i < count; i++) {
    const Axis &axis = axes[i];
    const uint128 least = axis.parts ? inner.low : std::max(inner.low, inner.high);
    if (std::max(axis.count, axis.count_high) > 1 && axis.stride < least)
      return fail(error, KVC_ERR_ARGUMENT, "%s.%s %llu: elements of a destination would share addresses (it must be at least %llu)", side, axis.name,
                  static_cast<unsigned long long>(axis.stride), static_cast<unsigned long long>(least));
    if (axis.parts) {
      inner.low = inner.high = std::max(inner.low, inner.high + axis.stride);
    } else {
      inner.low += static_cast<uint128>(axis.stride) * (axis.count - 1);
      inner.high += static_cast<uint128>(axis.stride) * (axis.count_high - 1);
    }
  }
  return KVC_OK;
}

kvc_status side_dtype(Side &side, const kvc_array &array, uint32_t stored, const char *name, Error &error) {
  const uint32_t dtype = array.dtype ? array.dtype : stored;
  if (dtype < KVC_F32 || dtype > KVC_U8) return fail(error, KVC_ERR_ARGUMENT, "%s.dtype %u: no such dtype", name, dtype);
  side.rows.dtype = static_cast<kernels::Dtype>(dtype);
  if (!kernels::convertible(side.rows.dtype, static_cast<kernels::Dtype>(stored)))
    return fail(error, KVC_ERR_SHAPE, "%s.dtype %u cannot be converted from and to the shape's %u", name, dtype, stored);
  return KVC_OK;
}

uint128 slot_offset_max(const kvc_rows &rows, const Touched &touched, uint64_t slot_count, uint64_t block_stride, uint64_t token_stride) {
  const uint64_t slot_last = rows.slot_begin + slot_count - 1;
  uint128 most = 0;
  for (uint64_t i = touched.first; i <= touched.last; i++) {
    const uint64_t in_block = i == touched.last ? slot_last % rows.block_tokens : rows.block_tokens - 1;
    most = std::max(most, static_cast<uint128>(rows.blocks[i]) * block_stride + static_cast<uint128>(in_block) * token_stride);
  }
  return most;
}

/// Fills in strides and checks that every element lies in [data, data + bytes).
kvc_status resolve_side(Side &side, const kvc_array &array, const kvc_rows &rows, const Run &run, const Touched &touched, uint32_t dim,
                        uint32_t stored_dtype, const char *name, Direction direction, Error &error) {
  side.dim = dim;
  if (dim == 0 || !array.data) {
    if (direction == Direction::append && dim != 0)
      return fail(error, KVC_ERR_ARGUMENT, "%s.data is NULL: K and V of a layer are appended together", name);
    if (array.data) return fail(error, KVC_ERR_SHAPE, "%s.data: the layer has no such part", name);
    return KVC_OK;
  }
  side.present = true;
  KVC_TRY(side_dtype(side, array, stored_dtype, name, error));
  const uint64_t element = kernels::dtype_bytes(side.rows.dtype), group = array.dim_group ? array.dim_group : 1;
  const uint64_t groups = (dim + group - 1) / group, piece = std::min<uint64_t>(group, dim) * element;
  kernels::RowsSide &r = side.rows;
  r.dim_group = static_cast<uint32_t>(group);
  const auto packed = [](uint64_t given, uint128 inner) { return given ? given : inner > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(inner); };
  r.dim_stride = packed(array.dim_stride, static_cast<uint128>(group) * element);
  r.head_stride = packed(array.head_stride, static_cast<uint128>(groups) * r.dim_stride);
  r.token_stride = packed(array.token_stride, static_cast<uint128>(run.head_count) * r.head_stride);
  r.block_stride = packed(array.block_stride, static_cast<uint128>(rows.block_tokens) * r.token_stride);
  r.block_tokens = rows.block_tokens;
  r.blocks = rows.block_tokens ? rows.blocks : nullptr;
  r.slot_begin = rows.slot_begin;
  if (run.layer_count > 1 && array.layer_stride == 0)
    return fail(error, KVC_ERR_ARGUMENT, "%s.layer_stride is 0: it has no default when a run has %u layers", name, run.layer_count);
  side.layer_stride = array.layer_stride;

  uint128 slots = static_cast<uint128>(rows.slot_begin + run.token_count - 1) * r.token_stride;
  if (r.blocks) slots = slot_offset_max(rows, touched, run.token_count, r.block_stride, r.token_stride);
  const uint128 end = slots + static_cast<uint128>(run.layer_count - 1) * side.layer_stride + static_cast<uint128>(run.head_count - 1) * r.head_stride +
                      static_cast<uint128>(groups - 1) * r.dim_stride + piece;
  if (end > array.bytes)
    return fail(error, KVC_ERR_ARGUMENT, "%s: the last element ends at byte %llu%s of an array of %llu", name,
                static_cast<unsigned long long>(std::min<uint128>(end, UINT64_MAX)), end > UINT64_MAX ? " or more" : "",
                static_cast<unsigned long long>(array.bytes));
  const auto base = reinterpret_cast<uint64_t>(array.data);
  if (base + static_cast<uint64_t>(end) < base) return fail(error, KVC_ERR_ARGUMENT, "%s.bytes %llu: the array passes the end of memory", name, static_cast<unsigned long long>(array.bytes));
  r.data = static_cast<uint8_t *>(array.data);
  side.span_begin = base + (r.blocks ? static_cast<uint64_t>(touched.block_min) * r.block_stride : rows.slot_begin * r.token_stride);
  side.span_end = base + static_cast<uint64_t>(end);
  return KVC_OK;
}

size_t axes_of(Axis *axes, const Side &low, const Side &high, const Run &run, const Touched &touched) {
  const kernels::RowsSide &r = low.rows;
  const uint64_t tokens = r.blocks ? std::min<uint64_t>(r.block_tokens, run.token_count) : run.token_count;
  const uint64_t blocks = r.blocks ? static_cast<uint64_t>(touched.block_max - touched.block_min) + 1 : 1;
  const auto groups = [](const Side &s) { return (s.dim + s.rows.dim_group - 1) / s.rows.dim_group; };
  axes[0] = {"layer_stride", low.layer_stride, run.layer_count, run.layer_count, false};
  axes[1] = {"block_stride", r.block_stride, blocks, blocks, false};
  axes[2] = {"token_stride", r.token_stride, tokens, tokens, false};
  axes[3] = {"head_stride", r.head_stride, run.head_count, run.head_count, false};
  axes[4] = {"dim_stride", r.dim_stride, groups(low), groups(high), false};
  return 5;
}

bool same_strides(const Side &a, const Side &b) {
  return a.layer_stride == b.layer_stride && a.rows.block_stride == b.rows.block_stride && a.rows.token_stride == b.rows.token_stride &&
         a.rows.head_stride == b.rows.head_stride && a.rows.dim_stride == b.rows.dim_stride && a.rows.dim_group == b.rows.dim_group;
}

uint64_t piece_bytes(const Side &side) {
  return static_cast<uint64_t>(std::min(side.rows.dim_group, side.dim)) * kernels::dtype_bytes(side.rows.dtype);
}

kvc_status check_destination(const Run &run, const Touched &touched, Error &error) {
  Axis axes[6];
  const Side &k = run.k, &v = run.v;
  for (const Side *side : {&k, &v})
    if (side->present)
      KVC_TRY(check_nesting(axes, axes_of(axes, *side, *side, run, touched), {piece_bytes(*side), piece_bytes(*side)}, side == &k ? "k" : "v", error));
  if (!k.present || !v.present || k.span_end <= v.span_begin || v.span_end <= k.span_begin) return KVC_OK;
  if (!same_strides(k, v))
    return fail(error, KVC_ERR_ARGUMENT, "k and v interleave in memory with different strides: a destination's elements must be distinct");
  const Side &low = k.rows.data <= v.rows.data ? k : v, &high = k.rows.data <= v.rows.data ? v : k;
  size_t n = axes_of(axes, low, high, run, touched);
  axes[n++] = {"data", static_cast<uint64_t>(high.rows.data - low.rows.data), 2, 2, true};
  return check_nesting(axes, n, {piece_bytes(low), piece_bytes(high)}, "k and v", error);
}

kvc_status check_plain(const kvc_rows &rows, Error &error) {
  if (rows.flags) return fail(error, KVC_ERR_TOO_NEW, "rows.flags 0x%x: unknown bits", rows.flags);
  if (rows.memory > KVC_MEMORY_CUDA_MANAGED) return fail(error, KVC_ERR_ARGUMENT, "rows.memory %u: no such kind", rows.memory);
  if (rows.memory != KVC_MEMORY_HOST) return fail(error, KVC_ERR_UNSUPPORTED, "rows.memory %u: this store has no device tier", rows.memory);
  if (rows.stream) return fail(error, KVC_ERR_ARGUMENT, "rows.stream: host memory has no stream");
  if (rows.k_scale || rows.v_scale) return fail(error, KVC_ERR_UNSUPPORTED, "rows.k_scale, v_scale: F8 rows are moved as they stand");
  if (rows.layer_count == 0) return fail(error, KVC_ERR_ARGUMENT, "rows.layer_count 0: it has no default");
  if (rows.token_count == 0) return fail(error, KVC_ERR_ARGUMENT, "rows.token_count 0: it has no default");
  if (!rows.block_tokens && (rows.blocks || rows.block_count))
    return fail(error, KVC_ERR_ARGUMENT, "rows.blocks without block_tokens");
  return KVC_OK;
}

kvc_status resolve_geometry(Run &run, const kvc_rows &rows, const seq::Shape &shape, Error &error) {
  if (rows.layer_begin >= shape.layer_count || rows.layer_count > shape.layer_count - rows.layer_begin)
    return fail(error, KVC_ERR_RANGE, "layers [%u, +%u): the shape has %u", rows.layer_begin, rows.layer_count, shape.layer_count);
  run.layer_begin = rows.layer_begin;
  run.layer_count = rows.layer_count;
  run.layers = &shape.run_of(rows.layer_begin);
  if (rows.layer_begin + rows.layer_count > run.layers->layer_begin + run.layers->layer_count)
    return fail(error, KVC_ERR_SHAPE, "layers [%u, +%u) are of different geometry: one run for each", rows.layer_begin, rows.layer_count);
  const uint32_t heads = run.layers->kv_heads;
  if (rows.head_count == 0 && rows.head_begin) return fail(error, KVC_ERR_ARGUMENT, "head_begin %u with head_count 0, which means all heads", rows.head_begin);
  run.head_begin = rows.head_begin;
  run.head_count = rows.head_count ? rows.head_count : heads;
  if (run.head_begin >= heads || run.head_count > heads - run.head_begin)
    return fail(error, KVC_ERR_RANGE, "heads [%u, +%u): the layer has %u", run.head_begin, run.head_count, heads);
  return KVC_OK;
}

kvc_status resolve_tokens(Run &run, const kvc_rows &rows, Direction direction, std::span<const uint64_t> filled, Error &error) {
  run.token_begin = rows.token_begin;
  run.token_count = rows.token_count;
  run.token_list = rows.token_list;
  run.token_unit = rows.token_unit ? rows.token_unit : 1;
  if (direction == Direction::append) {
    if (rows.token_list || rows.token_unit) return fail(error, KVC_ERR_ARGUMENT, "token_list, token_unit: only a gather takes them");
    if (rows.token_count == KVC_ALL) return fail(error, KVC_ERR_ARGUMENT, "token_count KVC_ALL: an append names its rows");
  } else if (rows.token_list) {
    if (rows.token_begin) return fail(error, KVC_ERR_ARGUMENT, "token_begin %llu with a token_list", static_cast<unsigned long long>(rows.token_begin));
    if (rows.token_count > UINT64_MAX / run.token_unit / 2) return fail(error, KVC_ERR_ARGUMENT, "token_count %llu: too many entries", static_cast<unsigned long long>(rows.token_count));
    run.token_count = rows.token_count * run.token_unit;
  } else {
    if (rows.token_unit > 1) return fail(error, KVC_ERR_ARGUMENT, "token_unit %u without a token_list", rows.token_unit);
    if (rows.token_count == KVC_ALL) {
      uint64_t least = UINT64_MAX;
      for (uint32_t l = 0; l < run.layer_count; l++) least = std::min(least, filled[run.layer_begin + l]);
      if (least <= rows.token_begin)
        return fail(error, KVC_ERR_RANGE, "token_begin %llu: layer %u has %llu rows", static_cast<unsigned long long>(rows.token_begin), run.layer_begin,
                    static_cast<unsigned long long>(least));
      run.token_count = least - rows.token_begin;
    }
  }
  if (run.token_begin + run.token_count < run.token_begin || rows.slot_begin + run.token_count < rows.slot_begin)
    return fail(error, KVC_ERR_ARGUMENT, "token_begin %llu, slot_begin %llu, token_count %llu: the sum overflows", static_cast<unsigned long long>(run.token_begin),
                static_cast<unsigned long long>(rows.slot_begin), static_cast<unsigned long long>(run.token_count));
  return KVC_OK;
}

}  // namespace

kvc_status resolve_run(Run &run, const kvc_rows &rows, const seq::Shape &shape, Direction direction, std::span<const uint64_t> filled,
                       std::pmr::memory_resource *scratch, Error &error) {
  run = Run{};
  KVC_TRY(check_plain(rows, error));
  KVC_TRY(resolve_geometry(run, rows, shape, error));
  KVC_TRY(resolve_tokens(run, rows, direction, filled, error));
  Touched touched;
  if (rows.block_tokens) KVC_TRY(scan_blocks(touched, rows, run.token_count, direction, scratch, error));
  KVC_TRY(resolve_side(run.k, rows.k, rows, run, touched, run.layers->k_dim, run.layers->k_dtype, "k", direction, error));
  KVC_TRY(resolve_side(run.v, rows.v, rows, run, touched, run.layers->v_dim, run.layers->v_dtype, "v", direction, error));
  if (!run.k.present && !run.v.present) return fail(error, KVC_ERR_ARGUMENT, "k.data and v.data are both NULL: nothing to move");
  return direction == Direction::gather ? check_destination(run, touched, error) : KVC_OK;
}

kvc_status check_runs_apart(std::span<const Run> runs, std::pmr::memory_resource *scratch, Error &error) {
  if (runs.size() < 2) return KVC_OK;
  struct Place {
    uint64_t begin, end;
    const Side *side;
    size_t run;
  };
  std::pmr::vector<Place> places(scratch);
  places.reserve(runs.size() * 2);
  for (size_t i = 0; i < runs.size(); i++)
    for (const Side *side : {&runs[i].k, &runs[i].v})
      if (side->present) places.push_back({side->span_begin, side->span_end, side, i});
  std::sort(places.begin(), places.end(), [](const Place &a, const Place &b) { return a.begin < b.begin; });
  for (size_t i = 0; i < places.size(); i++)
    for (size_t j = i + 1; j < places.size() && places[j].begin < places[i].end; j++) {
      const Place &a = places[i], &b = places[j];
      if (a.run == b.run || a.side->rows.blocks || b.side->rows.blocks) continue;
      // Spans may interleave (layers inside a page); elements coincide for certain when the first ones do.
      if (a.begin == b.begin) return fail(error, KVC_ERR_ARGUMENT, "runs %zu and %zu write to the same address", std::min(a.run, b.run), std::max(a.run, b.run));
    }
  return KVC_OK;
}

}  // namespace kvc::store

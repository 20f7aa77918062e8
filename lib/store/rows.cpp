#include "store/rows.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <vector>

namespace kvc::store {
namespace {

using base::Error;
using base::fail;
__extension__ using uint128 = unsigned __int128;

struct Axis {
  const char *name;
  uint64_t stride, count;
};

/// The blocks a run touches.
struct Touched {
  uint64_t first = 0, last = 0;  // entries of the table
  int64_t block_min = 0, block_max = 0;
  int64_t block_full_max = -1;  // of all but the last entry: those that are used to their end
};

kvc_status scan_blocks(Touched &out, const kvc_rows &rows, uint64_t slot_count, Direction direction, std::pmr::memory_resource *scratch,
                       Error &error) {
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
    if (block < 0)
      return fail(error, KVC_ERR_ARGUMENT, "blocks[%llu] is %d: a touched block may not be negative", static_cast<unsigned long long>(i),
                  block);
    rising = rising && (i == out.first || block > rows.blocks[i - 1]);
    out.block_min = std::min<int64_t>(out.block_min, block);
    if (i < out.last) out.block_full_max = std::max<int64_t>(out.block_full_max, block);
  }
  out.block_max = std::max<int64_t>(out.block_full_max, rows.blocks[out.last]);
  if (direction == Direction::append || rising) return KVC_OK;
  std::pmr::vector<int32_t> sorted(rows.blocks + out.first, rows.blocks + out.last + 1, scratch);
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) return fail(error, KVC_ERR_ARGUMENT, "block %d stands twice in a destination's block table", *twice);
  return KVC_OK;
}

/// Elements are distinct when their axes nest: each steps over everything inside it.  Axes come from the innermost of the packed order out;
/// those of one entry say nothing, and a decode step has two others.
kvc_status check_nesting(std::span<const Axis> axes, uint64_t piece, const char *side, Error &error) {
  std::array<const Axis *, 5> rising;
  size_t count = 0;
  for (const Axis &axis : axes) {
    if (axis.count < 2) continue;
    size_t at = count++;
    for (; at > 0 && rising[at - 1]->stride > axis.stride; at--) rising[at] = rising[at - 1];
    rising[at] = &axis;
  }
  uint128 inner = piece;
  for (const Axis *axis : std::span(rising).first(count)) {
    if (axis->stride < inner)
      return fail(error, KVC_ERR_ARGUMENT, "%s.%s %llu: elements would share addresses (it must be at least %llu)", side, axis->name,
                  static_cast<unsigned long long>(axis->stride), static_cast<unsigned long long>(inner));
    inner += static_cast<uint128>(axis->stride) * (axis->count - 1);
  }
  return KVC_OK;
}

const char *dtype_name(uint32_t dtype) {
  constexpr const char *names[] = {"F32", "F16", "BF16", "F8_E4M3", "U8"};
  return names[dtype - KVC_F32];
}

kvc_status side_dtype(Side &side, const kvc_array &array, uint32_t stored, const char *name, Error &error) {
  const uint32_t dtype = array.dtype ? array.dtype : stored;
  if (dtype < KVC_F32 || dtype > KVC_U8) return fail(error, KVC_ERR_ARGUMENT, "%s.dtype %u: KVC_F32, F16, BF16, F8_E4M3 or U8 (1..5)", name, dtype);
  side.rows.dtype = static_cast<kernels::Dtype>(dtype);
  if (!kernels::convertible(side.rows.dtype, static_cast<kernels::Dtype>(stored)))
    return fail(error, KVC_ERR_SHAPE, "%s.dtype %s cannot be converted from and to the shape's %s", name, dtype_name(dtype), dtype_name(stored));
  return KVC_OK;
}

/// Where the last slot of all begins.
uint128 slot_offset_max(const kvc_rows &rows, const Touched &touched, uint64_t slot_count, uint64_t block_stride, uint64_t token_stride) {
  const uint64_t slot_last = rows.slot_begin + slot_count - 1;
  const auto slot = [&](int64_t block, uint64_t in_block) {
    return static_cast<uint128>(block) * block_stride + static_cast<uint128>(in_block) * token_stride;
  };
  const uint128 last = slot(rows.blocks[touched.last], slot_last % rows.block_tokens);
  return touched.block_full_max < 0 ? last : std::max(last, slot(touched.block_full_max, rows.block_tokens - 1));
}

/// Slots of a block from the first to the last that is used: all of them when the run crosses a border of blocks.
uint64_t slots_in_block(const Touched &touched, const kernels::RowsSide &r, uint64_t token_count) {
  return touched.first < touched.last ? r.block_tokens : token_count;
}

/// An element passes the end of the array: names the bytes given and needed, and the stride that reaches farthest should it be the wrong one.
[[gnu::cold]] kvc_status fail_extent(const char *name, const Side &side, const Run &run, const Touched &touched, uint64_t groups,
                                     uint128 end, uint64_t bytes, Error &error) {
  const kernels::RowsSide &r = side.rows;
  if (run.layers->kind == KVC_LAYER_STATE && r.slot_begin)
    return fail(error, KVC_ERR_ARGUMENT, "%s.bytes %llu: layer %u keeps states, whose snapshot is one row whatever the positions: slot_begin %llu asks for its slot of that number, 0 is the first", name,
                static_cast<unsigned long long>(bytes), run.named(run.layer_begin), static_cast<unsigned long long>(r.slot_begin));
  const uint64_t slot = r.slot_begin + run.row_count - 1;
  const Axis axes[] = {{"dim_stride", r.dim_stride, groups},
                       {"head_stride", r.head_stride, run.head_count},
                       {"token_stride", r.token_stride, r.blocks ? slots_in_block(touched, r, run.row_count) : slot + 1},
                       {"block_stride", r.block_stride, static_cast<uint64_t>(touched.block_max) + 1},
                       {"layer_stride", side.layer_stride, run.layer_count}};
  const Axis &farthest = *std::max_element(std::begin(axes), std::end(axes), [](const Axis &a, const Axis &b) {
    return static_cast<uint128>(a.stride) * (a.count - 1) < static_cast<uint128>(b.stride) * (b.count - 1);
  });
  char block[64] = "";
  if (r.blocks && std::string_view(farthest.name) == "block_stride") {
    const int32_t *const entry = std::find(r.blocks + touched.first, r.blocks + touched.last, static_cast<int32_t>(touched.block_max));
    snprintf(block, sizeof block, ", blocks[%llu] is %d", static_cast<unsigned long long>(entry - r.blocks), *entry);
  }
  return fail(error, KVC_ERR_ARGUMENT, "%s.bytes %llu: the rows need %llu%s; %s.%s %llu reaches farthest%s", name,
              static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(std::min<uint128>(end, UINT64_MAX)),
              end > UINT64_MAX ? " or more" : "", name, farthest.name, static_cast<unsigned long long>(farthest.stride), block);
}

/// Fills in strides and checks that every element lies in [data, data + bytes).
kvc_status resolve_side(Side &side, const kvc_array &array, const kvc_rows &rows, const Run &run, const Touched &touched, uint32_t dim,
                        uint32_t stored_dtype, const char *name, Direction direction, Error &error) {
  side.dim = dim;
  side.rows.dtype = static_cast<kernels::Dtype>(stored_dtype);  // also of a side that is not there
  if (dim == 0 || !array.data) {
    if (direction == Direction::append && dim != 0)
      return fail(error, KVC_ERR_ARGUMENT, "%s.data is NULL: K and V of a layer are appended together", name);
    if (array.data) return fail(error, KVC_ERR_SHAPE, "%s.data: the layer has no such part", name);
    return KVC_OK;
  }
  side.present = true;
  KVC_TRY(side_dtype(side, array, stored_dtype, name, error));
  const uint64_t element = kernels::dtype_bytes(side.rows.dtype), group = array.dim_group ? array.dim_group : 1;
  const uint64_t groups = (dim + group - 1) / group;
  kernels::RowsSide &r = side.rows;
  r.dim_group = static_cast<uint32_t>(group);
  const auto packed = [](uint64_t given, uint128 inner) {
    return given ? given : inner > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(inner);
  };
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

  uint128 slots = static_cast<uint128>(rows.slot_begin + run.row_count - 1) * r.token_stride;
  if (r.blocks) slots = slot_offset_max(rows, touched, run.row_count, r.block_stride, r.token_stride);
  // The last group of dims may be a short one; the group before it then may reach farther.
  uint128 dims = static_cast<uint128>(groups - 1) * r.dim_stride + (dim - (groups - 1) * group) * element;
  if (groups > 1) dims = std::max(dims, static_cast<uint128>(groups - 2) * r.dim_stride + group * element);
  // Each product fits 128 bits; their sum may not, so that what passes 64 counts as that.
  uint128 end = 0;
  for (const uint128 part : {slots, static_cast<uint128>(run.layer_count - 1) * side.layer_stride,
                             static_cast<uint128>(run.head_count - 1) * r.head_stride, dims})
    end += std::min<uint128>(part, static_cast<uint128>(1) << 64);
  if (end > array.bytes) return fail_extent(name, side, run, touched, groups, end, array.bytes, error);
  const auto base = reinterpret_cast<uint64_t>(array.data);
  if (base + static_cast<uint64_t>(end) < base)
    return fail(error, KVC_ERR_ARGUMENT, "%s.bytes %llu: the array passes the end of memory", name,
                static_cast<unsigned long long>(array.bytes));
  r.data = static_cast<uint8_t *>(array.data);
  side.span_begin = base + (r.blocks ? static_cast<uint64_t>(touched.block_min) * r.block_stride : rows.slot_begin * r.token_stride);
  side.span_end = base + static_cast<uint64_t>(end);
  return KVC_OK;
}

/// No two elements of a side share an address.  A destination would be written twice there; a source that has such strides is one whose
/// strides are wrong.
kvc_status check_distinct(const Side &side, const kvc_array &array, const Run &run, const Touched &touched, const char *name, Error &error) {
  const bool packed = (array.dim_stride | array.head_stride | array.token_stride | array.layer_stride | array.block_stride) == 0;
  if (!side.present || packed) return KVC_OK;
  const kernels::RowsSide &r = side.rows;
  const uint64_t blocks = r.blocks ? static_cast<uint64_t>(touched.block_max - touched.block_min) + 1 : 1;
  const uint64_t piece = static_cast<uint64_t>(std::min(r.dim_group, side.dim)) * kernels::dtype_bytes(r.dtype);
  const Axis axes[] = {{"dim_stride", r.dim_stride, (side.dim - 1) / r.dim_group + 1},
                       {"head_stride", r.head_stride, run.head_count},
                       {"token_stride", r.token_stride, slots_in_block(touched, r, run.row_count)},
                       {"block_stride", r.block_stride, blocks},
                       {"layer_stride", side.layer_stride, run.layer_count}};
  return check_nesting(axes, piece, name, error);
}

/// One token of one layer, each head's dims in a row: what a decode step brings, checked in a few steps.  False, for the ways above to say more, when
/// the array is any other, or wrong.
bool resolve_token(Side &side, const kvc_array &array, const kvc_rows &rows, const Run &run, uint32_t dim, uint32_t stored_dtype) {
  constexpr uint64_t small_max = UINT32_MAX;  // no product of two passes 64 bits
  if (!array.data || dim == 0 || array.dim_stride || array.dim_group > 1 || (array.dtype && array.dtype != stored_dtype)) return false;
  kernels::RowsSide &r = side.rows;
  r.dtype = static_cast<kernels::Dtype>(stored_dtype);
  const uint64_t element = kernels::dtype_bytes(r.dtype), row_bytes = dim * element;
  const uint64_t head_stride = array.head_stride ? array.head_stride : row_bytes;
  if (head_stride < row_bytes || head_stride > small_max / 2) return false;
  const uint64_t token_stride = array.token_stride ? array.token_stride : run.head_count * head_stride;
  if (rows.slot_begin > small_max || token_stride > small_max / 2) return false;
  const uint64_t begin = rows.slot_begin * token_stride, end = begin + (run.head_count - 1) * head_stride + row_bytes;
  const auto base = reinterpret_cast<uint64_t>(array.data);
  if (end > array.bytes || base + end < base) return false;
  r.data = static_cast<uint8_t *>(array.data);
  r.dim_group = 1;
  r.token_stride = token_stride;
  r.head_stride = head_stride;
  r.dim_stride = element;
  r.blocks = nullptr;
  r.block_stride = array.block_stride;
  r.block_tokens = 0;
  r.slot_begin = rows.slot_begin;
  side.present = true;
  side.layer_stride = array.layer_stride;
  side.dim = dim;
  side.span_begin = base + begin;
  side.span_end = base + end;
  return true;
}

/// A latent layer's row in one array, [latent | rope]: resolved as one side, then cut in two.
kvc_status resolve_one_row(Run &run, const kvc_rows &rows, const Touched &touched, Direction direction, Error &error) {
  const uint32_t k_dim = run.layers->k_dim, rope_dim = run.layers->rope_dim;
  if (rows.k.dtype == 0 && run.layers->k_dtype != run.layers->v_dtype)
    return fail(error, KVC_ERR_SHAPE, "k.dtype is 0: the latent part is %s and the rope part %s; name one dtype for the row, or give the rope part in v",
                dtype_name(run.layers->k_dtype), dtype_name(run.layers->v_dtype));
  KVC_TRY(resolve_side(run.k, rows.k, rows, run, touched, k_dim + rope_dim, run.layers->k_dtype, "k", direction, error));
  Side rope;
  KVC_TRY(side_dtype(rope, rows.k, run.layers->v_dtype, "k", error));
  KVC_TRY(check_distinct(run.k, rows.k, run, touched, "k", error));
  kernels::RowsSide &r = run.k.rows;
  const uint64_t element = kernels::dtype_bytes(r.dtype);
  if (r.dim_stride == r.dim_group * element || r.dim_group >= k_dim + rope_dim) {
    r.dim_group = 1;
    r.dim_stride = element;
  } else if (k_dim % r.dim_group) {
    return fail(error, KVC_ERR_ARGUMENT, "k.dim_group %u: the rope part would begin inside a group; it must divide the %u dims before it, or give the rope part in v",
                r.dim_group, k_dim);
  }
  run.v = run.k;
  run.v.rows.data += k_dim / r.dim_group * r.dim_stride;
  run.k.dim = k_dim;
  run.v.dim = rope_dim;
  run.one_row = true;
  return KVC_OK;
}

kvc_status check_plain(const kvc_rows &rows, Error &error) {
  if (rows.flags) return fail(error, KVC_ERR_TOO_NEW, "rows.flags 0x%x: unknown bits", rows.flags);
  if (rows.memory > KVC_MEMORY_CUDA_MANAGED) return fail(error, KVC_ERR_ARGUMENT, "rows.memory %u: no such kind", rows.memory);
  if (rows.memory != KVC_MEMORY_HOST) return fail(error, KVC_ERR_UNSUPPORTED, "rows.memory %u: this store has no device tier", rows.memory);
  if (rows.stream) return fail(error, KVC_ERR_ARGUMENT, "rows.stream: host memory has no stream");
  if (rows.k_scale || rows.v_scale) return fail(error, KVC_ERR_UNSUPPORTED, "rows.k_scale, v_scale: F8 rows are moved as they stand");
  if (rows.layer_count == 0) return fail(error, KVC_ERR_ARGUMENT, "rows.layer_count 0: it has no default");
  if (rows.token_count == 0) return fail(error, KVC_ERR_ARGUMENT, "rows.token_count 0: nothing to move, skip the call");
  if (!rows.block_tokens && (rows.blocks || rows.block_count)) return fail(error, KVC_ERR_ARGUMENT, "rows.blocks without block_tokens");
  return KVC_OK;
}

/// Rows name layers and heads of the model.
kvc_status resolve_in_part(Run &run, const kvc_rows &rows, const Part &part, Error &error) {
  const uint32_t begin = part.layer_begin, end = part.layer_end();
  if (rows.layer_begin < begin || rows.layer_begin >= end || rows.layer_count > end - rows.layer_begin)
    return fail(error, KVC_ERR_RANGE, "layer %u is not in this sequence's part, layers %u..%u", rows.layer_begin < begin || rows.layer_begin >= end ? rows.layer_begin : end,
                begin, end - 1);
  run.layer_shift = begin;
  run.layer_begin = rows.layer_begin - begin;
  run.layer_count = rows.layer_count;
  run.layers = &part.shape.run_of(run.layer_begin);
  if (run.layer_begin + rows.layer_count > run.layers->layer_begin + run.layers->layer_count)
    return fail(error, KVC_ERR_SHAPE, "layers [%u, +%u) are of different geometry: one run for each", rows.layer_begin, rows.layer_count);
  if (rows.head_count == 0 && rows.head_begin)
    return fail(error, KVC_ERR_ARGUMENT, "head_begin %u with head_count 0, which means all heads", rows.head_begin);
  const uint32_t heads = run.layers->kv_heads, first = run.head_shift = part.head_begin_of(run.layer_begin);
  run.head_count = rows.head_count ? rows.head_count : heads;
  if (rows.head_count && (rows.head_begin < first || rows.head_begin >= first + heads || rows.head_count > first + heads - rows.head_begin))
    return fail(error, KVC_ERR_RANGE, "heads [%u, +%u) are not in this sequence's part, heads %u..%u of layer %u (heads count in the whole model)", rows.head_begin, rows.head_count, first, first + heads - 1, rows.layer_begin);
  run.head_begin = rows.head_count ? rows.head_begin - first : 0;
  return KVC_OK;
}

kvc_status resolve_geometry(Run &run, const kvc_rows &rows, const Part &part, Error &error) {
  if (!part.is_whole()) [[unlikely]] return resolve_in_part(run, rows, part, error);
  const seq::Shape &shape = part.shape;
  if (rows.layer_begin >= shape.layer_count || rows.layer_count > shape.layer_count - rows.layer_begin)
    return fail(error, KVC_ERR_RANGE, "layers [%u, +%u): the shape has %u", rows.layer_begin, rows.layer_count, shape.layer_count);
  run.layer_begin = rows.layer_begin;
  run.layer_count = rows.layer_count;
  run.layers = &shape.run_of(rows.layer_begin);
  if (rows.layer_begin + rows.layer_count > run.layers->layer_begin + run.layers->layer_count)
    return fail(error, KVC_ERR_SHAPE, "layers [%u, +%u) are of different geometry: one run for each", rows.layer_begin, rows.layer_count);
  const uint32_t heads = run.layers->kv_heads;
  if (rows.head_count == 0 && rows.head_begin)
    return fail(error, KVC_ERR_ARGUMENT, "head_begin %u with head_count 0, which means all heads", rows.head_begin);
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
    if (rows.token_begin)
      return fail(error, KVC_ERR_ARGUMENT, "token_begin %llu with a token_list", static_cast<unsigned long long>(rows.token_begin));
    if (rows.token_count > UINT64_MAX / run.token_unit / 2)
      return fail(error, KVC_ERR_ARGUMENT, "token_count %llu: too many entries", static_cast<unsigned long long>(rows.token_count));
    run.token_count = rows.token_count * run.token_unit;
  } else {
    if (rows.token_unit > 1) return fail(error, KVC_ERR_ARGUMENT, "token_unit %u without a token_list", rows.token_unit);
    if (rows.token_count == KVC_ALL) {
      uint64_t least = UINT64_MAX;
      for (uint32_t l = 0; l < run.layer_count; l++) least = std::min(least, filled[run.layer_begin + l]);
      if (least <= rows.token_begin)
        return fail(error, KVC_ERR_RANGE, "token_begin %llu: layer %u has %llu rows", static_cast<unsigned long long>(rows.token_begin),
                    run.named(run.layer_begin), static_cast<unsigned long long>(least));
      run.token_count = least - rows.token_begin;
    }
  }
  run.row_count = run.token_count;
  if (run.layers->kind == KVC_LAYER_STATE) {
    if (rows.token_list)
      return fail(error, KVC_ERR_ARGUMENT, "token_list: layer %u is a state layer, which has one snapshot for the whole range", run.named(run.layer_begin));
    run.row_count = 1;
  }
  if (run.token_begin + run.token_count < run.token_begin || rows.slot_begin + run.token_count < rows.slot_begin)
    return fail(error, KVC_ERR_ARGUMENT, "token_begin %llu, slot_begin %llu, token_count %llu: the sum overflows",
                static_cast<unsigned long long>(run.token_begin), static_cast<unsigned long long>(rows.slot_begin),
                static_cast<unsigned long long>(run.token_count));
  return KVC_OK;
}

}  // namespace

kvc_status resolve_place(Run &run, const kvc_rows &rows, const Part &part, std::span<const uint64_t> filled, Error &error) {
  kvc_rows place = rows;
  place.k = place.v = {};
  place.blocks = nullptr;
  place.block_tokens = 0;
  place.block_count = place.slot_begin = 0;
  KVC_TRY(check_plain(place, error));
  KVC_TRY(resolve_geometry(run, place, part, error));
  return resolve_tokens(run, place, Direction::gather, filled, error);
}

void tell_appended(kvc_result &result, std::span<const kvc_rows> rows, const Part &part) {
  Error ignored;  // they were taken
  for (const kvc_rows &r : rows) {
    Run run;
    if (resolve_geometry(run, r, part, ignored) != KVC_OK) continue;
    const seq::LayerRun &layers = *run.layers;
    const uint64_t one_row = r.v.data ? 0 : layers.rope_dim;  // the rope part in one array with the latent
    const uint64_t k_bytes = (layers.k_dim + one_row) * kernels::dtype_bytes(static_cast<kernels::Dtype>(r.k.dtype ? r.k.dtype : layers.k_stored()));
    const uint64_t v_bytes = r.v.data ? layers.second_dim() * kernels::dtype_bytes(static_cast<kernels::Dtype>(r.v.dtype ? r.v.dtype : layers.v_stored())) : 0;
    const uint64_t row_count = layers.kind == KVC_LAYER_STATE ? 1 : r.token_count;
    result.done = std::max(result.done, r.token_begin + r.token_count);
    result.bytes += row_count * run.layer_count * run.head_count * (k_bytes + v_bytes);
  }
  result.bytes_host = result.bytes;
}

kvc_status resolve_run(Run &run, const kvc_rows &rows, const Part &part, Direction direction, std::span<const uint64_t> filled,
                       std::pmr::memory_resource *scratch, Error &error) {
  KVC_TRY(check_plain(rows, error));
  KVC_TRY(resolve_geometry(run, rows, part, error));
  KVC_TRY(resolve_tokens(run, rows, direction, filled, error));
  if (run.row_count == 1 && run.layer_count == 1 && !rows.block_tokens && resolve_token(run.k, rows.k, rows, run, run.layers->k_dim, run.layers->k_stored()) &&
      resolve_token(run.v, rows.v, rows, run, run.layers->second_dim(), run.layers->v_stored()))
    return KVC_OK;
  Touched touched;
  if (rows.block_tokens) KVC_TRY(scan_blocks(touched, rows, run.row_count, direction, scratch, error));
  if (run.layers->rope_dim && rows.k.data && !rows.v.data) return resolve_one_row(run, rows, touched, direction, error);
  KVC_TRY(resolve_side(run.k, rows.k, rows, run, touched, run.layers->k_dim, run.layers->k_stored(), "k", direction, error));
  KVC_TRY(resolve_side(run.v, rows.v, rows, run, touched, run.layers->second_dim(), run.layers->v_stored(), "v", direction, error));
  if (!run.k.present && !run.v.present) return fail(error, KVC_ERR_ARGUMENT, "k.data and v.data are both NULL: nothing to move");
  KVC_TRY(check_distinct(run.k, rows.k, run, touched, "k", error));
  return check_distinct(run.v, rows.v, run, touched, "v", error);
}

}  // namespace kvc::store

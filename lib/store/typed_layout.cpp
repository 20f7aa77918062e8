#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "store/rows.h"
#include "store/typed.h"

/// Which layouts an object may be put with: those whose elements make up the value, each byte once.
namespace kvc::store {

using base::Error;
using base::fail;
using codec::ObjectRecord;
using codec::ObjectSide;

namespace {

/// No value is longer, and where it would begin if it lay in memory: offsets become addresses, which the check of rows wants.
constexpr uint64_t value_bytes_max = 1ull << 56, value_base = 4096;

kvc_status check_array(const kvc_array &array, const char *name, Error &error) {
  const auto offset = reinterpret_cast<uint64_t>(array.data);
  if (offset <= value_bytes_max) return KVC_OK;
  return fail(error, KVC_ERR_ARGUMENT, "%s.data %llu: in a layout it is an offset in the value", name, static_cast<unsigned long long>(offset));
}

kvc_array placed(const kvc_array &array) {
  kvc_array out = array;
  out.data = reinterpret_cast<void *>(value_base + reinterpret_cast<uint64_t>(array.data));
  if (!out.bytes) out.bytes = value_bytes_max;
  return out;
}

kvc_status check_members(const kvc_rows &layout, Error &error) {
  if (layout.token_begin)
    return fail(error, KVC_ERR_ARGUMENT, "token_begin %llu: an object's tokens have no positions, 0 is the only one", static_cast<unsigned long long>(layout.token_begin));
  if (layout.token_list || layout.token_unit) return fail(error, KVC_ERR_ARGUMENT, "token_list, token_unit: only a gather takes them");
  if (layout.block_tokens) return fail(error, KVC_ERR_ARGUMENT, "block_tokens %u: a value is one piece without a block table", layout.block_tokens);
  if (layout.token_count > value_bytes_max)
    return fail(error, KVC_ERR_ARGUMENT, "token_count %llu: a layout says how many there are", static_cast<unsigned long long>(layout.token_count));
  KVC_TRY(check_array(layout.k, "k", error));
  return check_array(layout.v, "v", error);
}

/// What does not convert comes back byte for byte.
kvc_status check_dtype(const kvc_array &array, uint32_t stored, const char *name, Error &error) {
  if (!array.dtype || array.dtype == stored) return KVC_OK;
  return fail(error, array.dtype > KVC_U8 ? KVC_ERR_ARGUMENT : KVC_ERR_SHAPE, "%s.dtype %u: the shape's is %u, and an object is not converted", name, array.dtype, stored);
}

kvc_status write_side(ObjectSide &out, const Side &side, uint32_t stored, const char *name, Error &error) {
  out = {};
  out.dtype = stored;
  if (!side.present) return KVC_OK;
  const kernels::RowsSide &r = side.rows;
  const uint64_t element = kernels::dtype_bytes(r.dtype);
  const bool whole = r.dim_group >= side.dim || r.dim_stride == r.dim_group * element;
  if (!whole && side.dim % r.dim_group)
    return fail(error, KVC_ERR_ARGUMENT, "%s.dim_group %u: the head's %u elements are no whole groups, bytes would be left over", name, r.dim_group, side.dim);
  out.offset = reinterpret_cast<uint64_t>(r.data) - value_base + r.slot_begin * r.token_stride;
  out.layer_stride = side.layer_stride;
  out.token_stride = r.token_stride;
  out.head_stride = r.head_stride;
  out.dim_stride = whole ? side.dim * element : r.dim_stride;
  out.dim = side.dim;
  out.dim_group = whole ? side.dim : r.dim_group;
  return KVC_OK;
}

/// How many bytes below an offset a side covers.  Its axes nest, so that each step of one is complete before the next begins.
class Cover {
 public:
  Cover(const ObjectRecord &record, const ObjectSide &side) : begin_(side.offset) {
    if (!side.dim) return;
    const uint32_t groups = side.dim / side.dim_group;
    axes_ = {{{side.layer_stride, record.layer_count, 0}, {side.token_stride, record.token_count, 0}, {side.head_stride, record.head_count, 0}, {side.dim_stride, groups, 0}}};
    std::sort(axes_.begin(), axes_.end(), [](const Axis &a, const Axis &b) { return a.reach() < b.reach(); });
    piece_ = total_ = side.row_bytes() / groups;
    for (Axis &axis : axes_) {
      axis.inside = total_;
      total_ *= axis.count;
    }
  }
  uint64_t total() const { return total_; }
  uint64_t below(uint64_t end) const {
    if (end <= begin_) return 0;
    uint64_t left = end - begin_, covered = 0;
    for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
      if (axis->count < 2) continue;
      const uint64_t steps = std::min(left / axis->stride, axis->count - 1);
      covered += steps * axis->inside;
      left -= steps * axis->stride;
    }
    return covered + std::min(left, piece_);
  }

 private:
  struct Axis {
    uint64_t stride = 0, count = 1, inside = 0;  // inside: bytes that one step covers

    uint64_t reach() const { return count < 2 ? 0 : stride; }
  };
  uint64_t begin_, piece_ = 0, total_ = 0;
  std::array<Axis, 4> axes_{};  // from the innermost out
};

/// Elements are apart: they cover [0, value_bytes) when there are as many bytes of them and none lies behind.
kvc_status check_whole(ObjectRecord &record, Error &error) {
  const Cover k(record, record.k), v(record, record.v);
  record.value_bytes = k.total() + v.total();
  const auto whole = [&](uint64_t end) { return k.below(end) + v.below(end) == end; };
  if (whole(record.value_bytes)) return KVC_OK;
  uint64_t low = 0, high = record.value_bytes;  // whole(low), not whole(high)
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (whole(middle) ? low : high) = middle;
  }
  return fail(error, KVC_ERR_ARGUMENT, "byte %llu of the value is covered by no element: an object is lossless", static_cast<unsigned long long>(low));
}

kvc_status resolve(ObjectRecord &out, const kvc_rows &layout, const Scope &scope, std::pmr::memory_resource *scratch, Error &error) {
  if (!scope.has_shape()) return fail(error, KVC_ERR_SHAPE, "the scope has no shape, its objects are plain bytes");
  KVC_TRY(check_members(layout, error));
  const bool is_there = layout.layer_begin < scope.shape.layer_count;  // else resolve_run refuses it
  const seq::LayerRun &layers = scope.shape.run_of(is_there ? layout.layer_begin : 0);
  if (is_there && layers.kind == KVC_LAYER_STATE) return fail(error, KVC_ERR_UNSUPPORTED, "layer %u keeps states, which are no rows of tokens: put them as plain bytes", layout.layer_begin);
  KVC_TRY(check_dtype(layout.k, layers.k_dtype, "k", error));
  KVC_TRY(check_dtype(layout.v, layers.v_dtype, "v", error));
  kvc_rows rows = layout;
  rows.k = placed(layout.k);
  if (layers.v_dim || layout.v.data || layout.v.bytes) rows.v = placed(layout.v);  // else a latent's rope part lies behind it in one row
  Run run;
  KVC_TRY(resolve_run(run, rows, scope, Direction::append, {}, scratch, error));
  if (run.one_row && layers.k_dtype != layers.v_dtype) return fail(error, KVC_ERR_SHAPE, "k.dtype %u: the rope part's is %u, and an object is not converted; give it in v", layout.k.dtype, layers.v_dtype);
  Error meet;
  if (check_runs_apart(std::span(&run, 1), scratch, meet) != KVC_OK) return fail(error, KVC_ERR_ARGUMENT, "k and v overlap: each byte of the value belongs to one element");
  out = {};
  std::memcpy(&out.shape_tag, scope.shape.fingerprint.data(), sizeof out.shape_tag);
  out.layer_begin = run.layer_begin;
  out.layer_count = run.layer_count;
  out.head_begin = run.head_begin;
  out.head_count = run.head_count;
  out.token_count = run.token_count;
  out.page_tokens = scope.shape.chunk_tokens;
  out.v_dim = layers.v_dim;
  KVC_TRY(write_side(out.k, run.k, layers.k_dtype, "k", error));
  KVC_TRY(write_side(out.v, run.v, layers.v_dtype, "v", error));
  return check_whole(out, error);
}

}  // namespace

kvc_status resolve_layout(ObjectRecord &out, const kvc_rows &layout, const Scope &scope, std::pmr::memory_resource *scratch, Error &error) {
  Error why;
  const kvc_status status = resolve(out, layout, scope, scratch, why);
  if (status == KVC_OK) return KVC_OK;
  (void)fail(error, status, "layout: %s", why.message);
  error.never = why.never;
  return status;
}

kvc_status check_covered(const ObjectRecord &record, uint64_t value_bytes, Error &error) {
  if (value_bytes == record.value_bytes) return KVC_OK;
  const auto covered = static_cast<unsigned long long>(record.value_bytes), given = static_cast<unsigned long long>(value_bytes);
  if (value_bytes > record.value_bytes) return fail(error, KVC_ERR_ARGUMENT, "the value has %llu bytes, of which byte %llu is the first that its layout does not cover", given, covered);
  return fail(error, KVC_ERR_ARGUMENT, "the value has %llu bytes, its layout reaches to %llu", given, covered);
}

}  // namespace kvc::store

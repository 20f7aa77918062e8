#include <algorithm>
#include <array>
#include <vector>

#include "store/rows.h"

/// Do the elements of several destinations share an address?  Exact for sides whose strides line up, whatever lies between whose elements
/// (layers inside a page, K and V in one row, per-layer runs of one pool); what it cannot tell apart within its budget it refuses.
namespace kvc::store {
namespace {

using base::Error;
using base::fail;
__extension__ using int128 = __int128;

/// Pieces of equal size at  base + sum of index_i * stride_i, outermost axis first; every stride is at least the extent of what it steps
/// over (check_nesting).  A comb with a block table has one axis whose indices are those of the table alone.
struct Comb {
  static constexpr uint32_t axes_max = 5;
  struct Axis {
    uint64_t stride, count;
  };
  uint64_t base = 0;
  uint32_t axis_count = 0, block_axis = axes_max;
  std::array<Axis, axes_max> axes{};
  std::array<uint64_t, axes_max + 1> extent{};  // of axis i and all inside it; the last one is the piece
  std::span<const int32_t> blocks;
  int64_t block_min = 0;
  size_t run = 0;

  bool has_index(uint32_t axis, uint64_t index) const {
    if (axis != block_axis) return index < axes[axis].count;
    return std::find(blocks.begin(), blocks.end(), static_cast<int64_t>(index) + block_min) != blocks.end();
  }
};

struct Place {
  uint64_t begin, end;
  const Side *side;
  const Run *run;
  size_t run_index;
  uint64_t dim;
};

/// Slots of a side that are one comb: tokens [in_block, +tokens) of every block in `blocks`, or without blocks the whole range.
struct Slots {
  std::span<const int32_t> blocks;
  uint64_t in_block, tokens;
};

void add_comb(std::pmr::vector<Comb> &out, const Place &place, const Slots &slots, uint64_t group_begin, uint64_t groups, uint64_t piece) {
  const kernels::RowsSide &r = place.side->rows;
  Comb comb;
  comb.run = place.run_index;
  comb.base = reinterpret_cast<uint64_t>(r.data) + slots.in_block * r.token_stride + group_begin * r.dim_stride;
  uint64_t blocks = 1;
  if (!slots.blocks.empty()) {
    const auto [least, most] = std::minmax_element(slots.blocks.begin(), slots.blocks.end());
    comb.block_min = *least;
    comb.base += static_cast<uint64_t>(*least) * r.block_stride;
    blocks = static_cast<uint64_t>(*most - *least) + 1;
  }
  const Comb::Axis all[Comb::axes_max] = {{place.side->layer_stride, place.run->layer_count},
                                          {r.block_stride, blocks},
                                          {r.token_stride, slots.tokens},
                                          {r.head_stride, place.run->head_count},
                                          {r.dim_stride, groups}};
  std::array<uint32_t, Comb::axes_max> order{0, 1, 2, 3, 4};
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return all[a].stride < all[b].stride; });
  std::array<Comb::Axis, Comb::axes_max> inner{};
  uint32_t n = 0, block_at = Comb::axes_max;
  for (const uint32_t i : order) {
    if (all[i].count < 2) continue;
    if (n == 0 && i != 1 && all[i].stride == piece) {  // no gap: a longer piece
      piece *= all[i].count;
      continue;
    }
    if (i == 1) block_at = n;
    inner[n++] = all[i];
  }
  comb.axis_count = n;
  comb.extent[n] = piece;
  for (uint32_t i = n; i-- > 0;) {
    comb.axes[i] = inner[n - 1 - i];
    comb.extent[i] = comb.axes[i].stride * (comb.axes[i].count - 1) + comb.extent[i + 1];
  }
  if (block_at < n) {
    comb.block_axis = n - 1 - block_at;
    comb.blocks = slots.blocks;
  }
  out.push_back(comb);
}

void add_slots(std::pmr::vector<Comb> &out, const Place &place, const Slots &slots) {
  const kernels::RowsSide &r = place.side->rows;
  const uint64_t dim = place.dim, group = r.dim_group, element = kernels::dtype_bytes(r.dtype);
  if (dim / group) add_comb(out, place, slots, 0, dim / group, group * element);
  if (dim % group) add_comb(out, place, slots, dim / group, 1, dim % group * element);
}

/// A block table's first and last block may be touched in part: they are combs of their own.
void add_side(std::pmr::vector<Comb> &out, const Place &place) {
  const kernels::RowsSide &r = place.side->rows;
  const uint64_t tokens = place.run->row_count;
  if (!r.blocks) return add_slots(out, place, {{}, r.slot_begin, tokens});
  const uint64_t bt = r.block_tokens, slot_last = r.slot_begin + tokens - 1;
  uint64_t first = r.slot_begin / bt, last = slot_last / bt;
  const uint64_t in_first = r.slot_begin % bt, in_last = slot_last % bt;
  if (first == last) return add_slots(out, place, {{r.blocks + first, 1}, in_first, tokens});
  if (in_first) add_slots(out, place, {{r.blocks + first++, 1}, in_first, bt - in_first});
  if (in_last + 1 < bt) add_slots(out, place, {{r.blocks + last--, 1}, 0, in_last + 1});
  if (first <= last) add_slots(out, place, {{r.blocks + first, last - first + 1}, 0, bt});
}

enum class Meet { no, yes, unknown };

class Meeting {
 public:
  explicit Meeting(std::pmr::memory_resource *scratch) : scratch_(scratch) {}

  Meet of(const Comb &a, const Comb &b) { return axes(a, 0, b, 0, static_cast<int128>(b.base) - static_cast<int128>(a.base)); }

 private:
  /// a's axes from `i` on against b's from `j` on, b's base `distance` after a's.
  Meet axes(const Comb &a, uint32_t i, const Comb &b, uint32_t j, int128 distance) {
    if (distance >= a.extent[i] || -distance >= b.extent[j]) return Meet::no;
    if (i == a.axis_count && j == b.axis_count) return Meet::yes;
    const uint64_t a_stride = i < a.axis_count ? a.axes[i].stride : 0, b_stride = j < b.axis_count ? b.axes[j].stride : 0;
    if (a_stride < b_stride) return axes(b, j, a, i, -distance);
    const bool both = a_stride == b_stride;
    // Only steps after which the insides overlap matter: k of a's axis, or of the difference of both when they step alike.
    const int128 a_inside = a.extent[i + 1], b_inside = both ? b.extent[j + 1] : b.extent[j], stride = a_stride;
    int128 low = floor_div(distance - a_inside, stride) + 1, high = floor_div(distance + b_inside - 1, stride);
    low = std::max<int128>(low, both ? -static_cast<int128>(b.axes[j].count - 1) : 0);
    high = std::min<int128>(high, a.axes[i].count - 1);
    for (int128 k = low; k <= high; k++) {
      if (steps_left_-- == 0) return steps_left_ = 1, Meet::unknown;
      const Meet inside = axes(a, i + 1, b, both ? j + 1 : j, distance - k * stride);
      if (inside == Meet::no) continue;
      if (both ? steps_apart(a, i, b, j, static_cast<int64_t>(k)) : a.has_index(i, static_cast<uint64_t>(k))) return inside;
    }
    return Meet::no;
  }

  static int128 floor_div(int128 value, int128 by) { return value >= 0 ? value / by : -((-value + by - 1) / by); }

  /// Has a's axis an index that is `k` more than one of b's?
  bool steps_apart(const Comb &a, uint32_t i, const Comb &b, uint32_t j, int64_t k) {
    if (i != a.block_axis && j != b.block_axis) return true;  // the ranges were compared
    std::pmr::vector<int64_t> left(scratch_), right(scratch_);
    indices(left, a, i);
    indices(right, b, j);
    for (auto l = left.begin(), r = right.begin(); l != left.end() && r != right.end();) {
      if (*l == *r + k) return true;
      *l < *r + k ? ++l : ++r;
    }
    return false;
  }

  static void indices(std::pmr::vector<int64_t> &out, const Comb &comb, uint32_t axis) {
    if (axis == comb.block_axis) {
      for (const int32_t block : comb.blocks) out.push_back(block - comb.block_min);
      std::sort(out.begin(), out.end());
    } else {
      for (uint64_t i = 0; i < comb.axes[axis].count; i++) out.push_back(static_cast<int64_t>(i));
    }
  }

  std::pmr::memory_resource *scratch_;
  uint32_t steps_left_ = 1u << 20;
};

kvc_status refuse(const Comb &a, const Comb &b, Meet meet, Error &error) {
  const char *what = meet == Meet::yes ? "write to the same address" : "interleave with strides that do not line up";
  if (a.run == b.run)
    return fail(error, KVC_ERR_ARGUMENT, "rows[%zu]: k and v %s: elements of a destination must be distinct", a.run, what);
  return fail(error, KVC_ERR_ARGUMENT, "rows[%zu] and rows[%zu] %s: elements of a destination must be distinct", std::min(a.run, b.run),
              std::max(a.run, b.run), what);
}

/// Combs that step alike on the outside are compared modulo that step: two that meet are neighbours there, however many pages lie between.
kvc_status check_combs(std::span<Comb> combs, std::pmr::memory_resource *scratch, Error &error) {
  uint64_t stride = combs[0].axis_count ? combs[0].axes[0].stride : 0;
  for (const Comb &comb : combs)
    if (!comb.axis_count || comb.axes[0].stride != stride) stride = 0;
  const auto key = [stride](const Comb &comb) { return stride ? comb.base % stride : comb.base; };
  std::sort(combs.begin(), combs.end(), [&](const Comb &a, const Comb &b) { return key(a) < key(b); });
  Meeting meeting(scratch);
  const size_t n = combs.size();
  for (size_t i = 0; i < n; i++)
    for (size_t step = 1; step < n; step++) {
      const size_t j = i + step < n ? i + step : i + step - n;
      if (j < i && !stride) break;
      const uint64_t apart = key(combs[j]) - key(combs[i]) + (j < i ? stride : 0);
      if (apart >= combs[i].extent[stride ? 1 : 0]) break;
      const Meet meet = meeting.of(combs[i], combs[j]);
      if (meet != Meet::no) return refuse(combs[i], combs[j], meet, error);
    }
  return KVC_OK;
}

}  // namespace

kvc_status check_runs_apart(std::span<const Run> runs, std::pmr::memory_resource *scratch, Error &error) {
  if (runs.size() == 1) {  // the common call
    const Side &k = runs[0].k, &v = runs[0].v;
    if (!k.present || !v.present || runs[0].one_row || k.span_end <= v.span_begin || v.span_end <= k.span_begin) return KVC_OK;
  }
  std::pmr::vector<Place> places(scratch);
  places.reserve(runs.size() * 2);
  for (size_t i = 0; i < runs.size(); i++)
    for (const Side *side : {&runs[i].k, &runs[i].v}) {
      if (!side->present || (runs[i].one_row && side == &runs[i].v)) continue;
      places.push_back({side->span_begin, side->span_end, side, &runs[i], i, uint64_t{side->dim} + (runs[i].one_row ? runs[i].v.dim : 0)});
    }
  std::sort(places.begin(), places.end(), [](const Place &a, const Place &b) { return a.begin < b.begin; });
  std::pmr::vector<Comb> combs(scratch);
  for (size_t first = 0; first < places.size();) {  // spans that hang together
    size_t next = first + 1;
    for (uint64_t end = places[first].end; next < places.size() && places[next].begin < end; next++) end = std::max(end, places[next].end);
    if (next - first > 1) {
      combs.clear();
      for (size_t i = first; i < next; i++) add_side(combs, places[i]);
      KVC_TRY(check_combs(combs, scratch, error));
    }
    first = next;
  }
  return KVC_OK;
}

}  // namespace kvc::store

#include "store/rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

/// Descriptions of rows against an oracle that knows no strides: it walks every element of the address formula and looks at the bytes.
namespace {

using namespace kvc;
using store::Direction;
using Resolved = store::Run;
using Random = std::independent_bits_engine<std::mt19937, 32, uint32_t>;

struct Rig {
  store::Part part{std::pmr::get_default_resource()};
  seq::Shape &shape = part.shape;
  std::vector<uint64_t> filled;
  base::Error error;

  Rig(uint32_t layers, uint32_t heads, uint32_t k_dim, uint32_t v_dim, uint32_t k_dtype = KVC_F16, uint32_t v_dtype = KVC_F16) {
    const kvc_layer layer{layers, KVC_LAYER_FULL, heads, k_dim, v_dim, 0, 0, k_dtype, v_dtype, {}};
    kvc_shape s;
    KVC_INIT(&s);
    s.dtype = KVC_F16;
    s.layers = &layer;
    s.layer_runs = 1;
    EXPECT_EQ(seq::shape_check(shape, s, error), KVC_OK) << error.message;
    filled.assign(layers, 1u << 20);
  }
  kvc_status resolve(Resolved &run, const kvc_rows &rows, Direction direction) {
    return store::resolve_run(run, rows, part, direction, filled, std::pmr::get_default_resource(), error);
  }
  kvc_status apart(const std::vector<Resolved> &runs) { return store::check_runs_apart(runs, std::pmr::get_default_resource(), error); }
};

uint64_t or_default(uint64_t given, uint64_t otherwise) { return given ? given : otherwise; }

/// Calls `element(address, bytes)` for each element of one side, by the formula of kvc_array.
template <typename F>
void each_element(const kvc_rows &rows, const kvc_array &a, uint64_t heads, uint64_t dim, uint64_t stored_dtype, F &&element) {
  const uint64_t dtype = or_default(a.dtype, stored_dtype), e = dtype == KVC_F32 ? 4 : dtype == KVC_F16 || dtype == KVC_BF16 ? 2 : 1;
  const uint64_t group = or_default(a.dim_group, 1);
  const uint64_t dim_stride = or_default(a.dim_stride, group * e),
                 head_stride = or_default(a.head_stride, (dim + group - 1) / group * dim_stride);
  const uint64_t token_stride = or_default(a.token_stride, heads * head_stride),
                 block_stride = or_default(a.block_stride, rows.block_tokens * token_stride);
  for (uint64_t l = 0; l < rows.layer_count; l++)
    for (uint64_t i = 0; i < rows.token_count; i++) {
      const uint64_t s = rows.slot_begin + i;
      const uint64_t slot = rows.block_tokens ? static_cast<uint64_t>(rows.blocks[s / rows.block_tokens]) * block_stride +
                                                    s % rows.block_tokens * token_stride
                                              : s * token_stride;
      for (uint64_t h = 0; h < heads; h++)
        for (uint64_t d = 0; d < dim; d++)
          element(reinterpret_cast<uint64_t>(a.data) + l * a.layer_stride + slot + h * head_stride + d / group * dim_stride + d % group * e,
                  e);
    }
}

/// True when no two elements that were added share a byte.
class Bytes {
 public:
  void add(uint64_t at, uint64_t count) {
    for (uint64_t b = at; b < at + count; b++)
      if (!seen_.emplace(b, 1).second) distinct_ = false;
    end_ = std::max(end_, at + count);
  }
  bool distinct() const { return distinct_; }
  uint64_t end() const { return end_; }

 private:
  std::unordered_map<uint64_t, char> seen_;
  bool distinct_ = true;
  uint64_t end_ = 0;
};

char *const kBase = reinterpret_cast<char *>(0x10000000);  // never touched: the checks look at addresses only

/// Layouts that hosts have (axes in a random order, some with gaps) and that they do not (strides that are plain wrong).
kvc_array random_array(Random &random, const kvc_rows &rows, uint64_t heads, uint64_t dim, uint64_t e, uint64_t blocks) {
  kvc_array a{};
  a.data = kBase + random() % 3 * 2;
  a.bytes = 1u << 30;
  if (random() % 4 == 0) a.dim_group = 1 + random() % 4;
  const uint64_t group = or_default(a.dim_group, 1);
  const uint64_t tokens = rows.block_tokens ? rows.block_tokens : rows.slot_begin + rows.token_count;
  struct Axis {
    uint64_t kvc_array::*stride;
    uint64_t count;
  };
  std::vector<Axis> axes{{&kvc_array::dim_stride, (dim + group - 1) / group},
                         {&kvc_array::head_stride, heads},
                         {&kvc_array::token_stride, tokens},
                         {&kvc_array::layer_stride, rows.layer_count}};
  if (rows.block_tokens) axes.push_back({&kvc_array::block_stride, blocks});
  std::shuffle(axes.begin(), axes.end(), random);
  if (random() % 2)
    std::swap(axes[0], *std::find_if(axes.begin(), axes.end(), [](const Axis &x) { return x.stride == &kvc_array::dim_stride; }));
  uint64_t inside = group * e;
  for (const Axis &axis : axes) {
    a.*axis.stride = inside + (random() % 4 == 0 ? random() % 9 : 0);
    inside = a.*axis.stride * axis.count;
  }
  if (random() % 6 == 0) a.*axes[random() % axes.size()].stride = 1 + random() % (inside + 2);
  return a;
}

struct Side {
  uint64_t dim, dtype, e;
};

TEST(ResolveRun, takes_a_source_of_distinct_elements_that_ends_with_its_last_one_and_refuses_one_byte_less) {
  Random random(1);
  int taken = 0, shared = 0;
  for (int round = 0; round < 4000; round++) {
    const uint32_t layers = 1 + random() % 3, heads = 1 + random() % 3, dim = 1 + random() % 7;
    Rig rig(layers, heads, dim, 1);
    kvc_rows rows;
    KVC_INIT(&rows);
    rows.layer_count = layers;
    rows.token_count = 1 + random() % 9;
    rows.slot_begin = random() % 6;
    std::vector<int32_t> table(16);
    for (size_t i = 0; i < table.size(); i++) table[i] = static_cast<int32_t>(i);
    std::shuffle(table.begin(), table.end(), random);
    if (random() % 2) rows.block_tokens = 1 + random() % 4, rows.blocks = table.data(), rows.block_count = table.size();
    const uint32_t dtypes[] = {KVC_F32, KVC_F16, KVC_BF16};
    const uint32_t dtype = dtypes[random() % 3];
    rows.k = random_array(random, rows, heads, dim, dtype == KVC_F32 ? 4 : 2, 16);
    rows.k.dtype = dtype;
    if (random() % 3 == 0) rows.k.head_stride = 0;
    if (random() % 3 == 0) rows.k.token_stride = 0;
    if (random() % 3 == 0) rows.k.block_stride = 0;
    rows.v.data = kBase + (1u << 28), rows.v.bytes = 1u << 30, rows.v.layer_stride = 1u << 20;
    Bytes bytes;
    each_element(rows, rows.k, heads, dim, KVC_F16, [&](uint64_t at, uint64_t e) { bytes.add(at, e); });
    rows.k.bytes = bytes.end() - reinterpret_cast<uint64_t>(rows.k.data);
    Resolved run;
    if (rig.resolve(run, rows, Direction::append) == KVC_OK) {
      ASSERT_TRUE(bytes.distinct()) << "round " << round;
      EXPECT_EQ(run.k.span_end, bytes.end());
      taken++;
    } else {
      ASSERT_NE(std::string(rig.error.message).find("elements would share addresses"), std::string::npos) << rig.error.message << " round " << round;
      shared += !bytes.distinct();
    }
    rows.k.bytes--;
    ASSERT_EQ(rig.resolve(run, rows, Direction::append), KVC_ERR_ARGUMENT) << "round " << round;
    const std::string blamed = "k.bytes " + std::to_string(rows.k.bytes) + ": the rows need " + std::to_string(rows.k.bytes + 1) + "; k.";
    EXPECT_EQ(std::string(rig.error.message).find(blamed), 0u) << rig.error.message << ", not " << blamed;
  }
  EXPECT_GT(taken, 2000);
  EXPECT_GT(shared, 200);
}

TEST(ResolveRun, takes_a_row_of_a_decode_step_as_the_same_row_whose_every_stride_is_given) {
  Random random(3);
  int taken = 0, refused = 0;
  for (int round = 0; round < 4000; round++) {
    const uint32_t heads = static_cast<uint32_t>(1 + random() % 3);
    const uint32_t dims[] = {static_cast<uint32_t>(1 + random() % 7), static_cast<uint32_t>(1 + random() % 3)};
    const uint32_t dtypes[] = {0, KVC_F16, KVC_F32, KVC_U8};
    Rig rig(2, heads, dims[0], dims[1]);
    kvc_rows rows;
    KVC_INIT(&rows);
    rows.layer_begin = static_cast<uint32_t>(random() % 2), rows.layer_count = 1, rows.token_count = 1;
    rows.slot_begin = random() % 3 == 0 ? uint64_t{1} << (random() % 2 ? 63 : random() % 64) : random() % 4;
    for (kvc_array *a : {&rows.k, &rows.v}) {
      a->data = random() % 50 ? kBase : reinterpret_cast<char *>(UINT64_MAX - 40);
      a->dtype = dtypes[random() % 3 ? random() % 2 : random() % 4];
      a->bytes = random() % 8 ? random() % 200 : 1u << 30;
      if (random() % 2) a->head_stride = random() % 8 ? random() % 20 : uint64_t{1} << (random() % 2 ? 63 : random() % 64);
      if (random() % 2) a->token_stride = random() % 8 ? random() % 60 : uint64_t{1} << (random() % 2 ? 63 : random() % 64);
    }
    kvc_rows spelled = rows;
    for (kvc_array *a : {&spelled.k, &spelled.v})
      a->dim_stride = a->dtype == KVC_F32 ? 4 : a->dtype == KVC_U8 ? 1 : 2;
    Resolved run, same;
    const kvc_status status = rig.resolve(run, rows, Direction::append);
    const std::string message = status == KVC_OK ? "" : rig.error.message;
    ASSERT_EQ(rig.resolve(same, spelled, Direction::append), status) << "round " << round << ": " << message;
    if (status != KVC_OK) {
      EXPECT_EQ(message, rig.error.message);
      refused++;
      continue;
    }
    taken++;
    for (const store::Side Resolved::*side : {&Resolved::k, &Resolved::v}) {
      const store::Side &a = run.*side, &b = same.*side;
      const auto members = [](const store::Side &s) {
        const kernels::RowsSide &r = s.rows;
        return s.present ? std::vector<uint64_t>{s.dim, s.layer_stride, s.span_begin, s.span_end, reinterpret_cast<uint64_t>(r.data), r.dim_group, r.token_stride, r.head_stride, r.dim_stride, r.slot_begin, r.block_tokens, reinterpret_cast<uint64_t>(r.blocks)}
                         : std::vector<uint64_t>{s.dim};
      };
      ASSERT_EQ(a.present, b.present);
      ASSERT_EQ(a.rows.dtype, b.rows.dtype);
      ASSERT_EQ(members(a), members(b)) << "round " << round;
    }
  }
  EXPECT_GT(taken, 400);
  EXPECT_GT(refused, 400);
}

/// One random call of one to four gather runs: the checks accept it only if the oracle finds no shared byte, and refuse it only if it does
/// (or if one array alone does not nest, which no engine's layout does).
class RandomCall {
 public:
  explicit RandomCall(Random &random) : random_(random) {
    k_ = {1 + random() % 6, KVC_F16, 2};
    v_ = random() % 2 ? k_ : Side{1 + random() % 6, KVC_F16, 2};
    heads_ = 1 + random() % 3;
    layers_ = 1 + random() % 3;
    blocks_ = 12;
    table_.resize(12);
    for (size_t i = 0; i < table_.size(); i++) table_[i] = static_cast<int32_t>(i);
    std::shuffle(table_.begin(), table_.end(), random);
  }

  std::vector<kvc_rows> make() {
    std::vector<kvc_rows> all;
    const size_t count = 1 + random_() % 4;
    kvc_rows first = one();
    for (size_t i = 0; i < count; i++) {
      kvc_rows rows = i == 0 || random_() % 3 == 0 ? one() : first;
      if (i > 0) shift(rows, first);
      all.push_back(rows);
    }
    return all;
  }
  uint32_t heads() const { return heads_; }
  uint32_t layers() const { return layers_; }
  Side k() const { return k_; }
  Side v() const { return v_; }

 private:
  kvc_rows one() {
    kvc_rows rows;
    KVC_INIT(&rows);
    rows.layer_count = 1 + random_() % layers_;
    rows.token_count = 1 + random_() % 9;
    rows.slot_begin = random_() % 6;
    if (random_() % 2) rows.block_tokens = 1 + random_() % 4, rows.blocks = table_.data(), rows.block_count = table_.size();
    rows.k = random_array(random_, rows, heads_, k_.dim, 2, blocks_);
    rows.v = random_() % 3 == 0 ? random_array(random_, rows, heads_, v_.dim, 2, blocks_) : rows.k;
    place(rows.v, rows.k);
    return rows;
  }
  /// V somewhere that is likely to be beside K or right in it.
  void place(kvc_array &to, const kvc_array &from) {
    const uint64_t strides[] = {from.dim_stride, from.head_stride, from.token_stride, from.block_stride, from.layer_stride, 2, 0, 100000};
    uint64_t by = strides[random_() % 8] * (1 + random_() % 3);
    if (random_() % 3 == 0) by /= 2;
    to.data = static_cast<char *>(from.data) + by;
  }
  /// Another part of the same arrays: other layers, other tokens, or simply moved.
  void shift(kvc_rows &rows, const kvc_rows &first) {
    switch (random_() % 3) {
      case 0: rows.slot_begin = first.slot_begin + first.token_count - (random_() % 8 == 0); break;
      case 1:
        rows.k.data = static_cast<char *>(rows.k.data) + rows.k.layer_stride * first.layer_count;
        rows.v.data = static_cast<char *>(rows.v.data) + rows.v.layer_stride * first.layer_count;
        break;
      default: place(rows.k, first.k); place(rows.v, first.v);
    }
  }

  Random &random_;
  Side k_, v_;
  uint32_t heads_, layers_;
  uint64_t blocks_;
  std::vector<int32_t> table_;
};

TEST(CheckRunsApart, accepts_exactly_the_calls_whose_elements_are_distinct) {
  Random random(7);
  int accepted = 0, refused = 0, interleaved = 0;
  for (int round = 0; round < 20000; round++) {
    RandomCall call(random);
    const std::vector<kvc_rows> all = call.make();
    Rig rig(call.layers(), call.heads(), static_cast<uint32_t>(call.k().dim), static_cast<uint32_t>(call.v().dim));
    std::vector<Resolved> runs(all.size());
    bool each_taken = true;
    Bytes together;
    for (size_t i = 0; i < all.size(); i++) {
      each_taken = each_taken && rig.resolve(runs[i], all[i], Direction::gather) == KVC_OK;
      if (!each_taken) break;
      for (const bool is_k : {true, false}) {
        Bytes alone;
        each_element(all[i], is_k ? all[i].k : all[i].v, call.heads(), is_k ? call.k().dim : call.v().dim, KVC_F16,
                     [&](uint64_t at, uint64_t e) {
                       alone.add(at, e);
                       together.add(at, e);
                     });
        ASSERT_TRUE(alone.distinct()) << "round " << round << ": an array with shared elements was taken";
      }
    }
    if (!each_taken) continue;
    const kvc_status status = rig.apart(runs);
    ASSERT_EQ(status == KVC_OK, together.distinct()) << "round " << round << ": " << (status ? rig.error.message : "accepted");
    (status == KVC_OK ? accepted : refused)++;
    if (status == KVC_OK && runs[0].k.span_begin < runs[0].v.span_end && runs[0].v.span_begin < runs[0].k.span_end) interleaved++;
  }
  EXPECT_GT(accepted, 600);
  EXPECT_GT(refused, 600);
  EXPECT_GT(interleaved, 150);  // the interesting kind: spans that overlap, elements that do not
}

TEST(CheckRunsApart, takes_hundreds_of_layers_that_interleave_in_pages_and_finds_the_one_that_is_there_twice) {
  constexpr uint32_t layers = 300, heads = 8, dim = 128, slots = 64;
  Rig rig(layers, heads, dim, dim);
  std::vector<int32_t> table(slots);
  for (uint32_t i = 0; i < slots; i++) table[i] = static_cast<int32_t>((i * 37) % 211);
  const uint64_t row = heads * dim * 2;
  std::vector<kvc_rows> all(layers);
  for (uint32_t l = 0; l < layers; l++) {  // [slots][layers][K|V] rows, one run a layer
    KVC_INIT(&all[l]);
    all[l].layer_begin = l, all[l].layer_count = 1;
    all[l].token_count = slots;
    all[l].block_tokens = 1, all[l].blocks = table.data(), all[l].block_count = slots;
    all[l].k.data = kBase + l * row * 2, all[l].v.data = kBase + l * row * 2 + row;
    all[l].k.bytes = all[l].v.bytes = 1ull << 32;
    all[l].k.block_stride = all[l].v.block_stride = row * 2 * layers;
  }
  std::vector<Resolved> runs(layers);
  for (uint32_t l = 0; l < layers; l++) ASSERT_EQ(rig.resolve(runs[l], all[l], Direction::gather), KVC_OK) << rig.error.message;
  EXPECT_EQ(rig.apart(runs), KVC_OK) << rig.error.message;
  all[123].v.data = static_cast<char *>(all[77].k.data) + 2;
  ASSERT_EQ(rig.resolve(runs[123], all[123], Direction::gather), KVC_OK);
  EXPECT_EQ(rig.apart(runs), KVC_ERR_ARGUMENT);
  EXPECT_NE(std::string(rig.error.message).find("rows[77] and rows[123]"), std::string::npos) << rig.error.message;
}

TEST(CheckRunsApart, takes_k_and_v_of_different_width_and_dtype_in_one_row) {
  Rig rig(2, 4, 192, 128, KVC_BF16, KVC_F16);
  kvc_rows rows;
  KVC_INIT(&rows);
  rows.layer_count = 2;
  rows.token_count = 50;
  rows.k.dtype = KVC_F32;
  const uint64_t k_row = 4 * 192 * 4, v_row = 4 * 128 * 2;
  rows.k.data = kBase, rows.v.data = kBase + k_row;
  rows.k.bytes = rows.v.bytes = 1u << 30;
  rows.k.token_stride = rows.v.token_stride = k_row + v_row;
  rows.k.layer_stride = rows.v.layer_stride = 60 * (k_row + v_row);
  std::vector<Resolved> runs(1);
  ASSERT_EQ(rig.resolve(runs[0], rows, Direction::gather), KVC_OK) << rig.error.message;
  EXPECT_EQ(rig.apart(runs), KVC_OK) << rig.error.message;
  rows.v.data = kBase + k_row - 1;
  ASSERT_EQ(rig.resolve(runs[0], rows, Direction::gather), KVC_OK) << rig.error.message;
  EXPECT_EQ(rig.apart(runs), KVC_ERR_ARGUMENT);
  EXPECT_NE(std::string(rig.error.message).find("k and v"), std::string::npos) << rig.error.message;
}

}  // namespace

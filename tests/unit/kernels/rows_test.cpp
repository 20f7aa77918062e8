#include "tests/unit/kernels/oracle.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <numeric>
#include <sstream>
#define XXH_INLINE_ALL
#include <xxhash.h>

/// Every variant against the oracle, over random shapes and layouts.  The whole of both buffers is compared, so a byte written beside the
/// named elements is found as surely as a wrong one.
namespace kvc::kernels {
namespace {

struct Case {
  RowsSide rows;
  PageSide page;
  Move move;
  uint32_t heads;
  std::vector<int32_t> blocks;
  std::vector<uint8_t> caller, stored;
  size_t caller_offset, stored_offset;
  std::string name;
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(engine_() % bound); }
  template <size_t count>
  uint32_t of(const std::array<uint32_t, count> &values) { return values[below(count)]; }
  std::mt19937_64 &engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

constexpr std::array dims = {1u, 7u, 40u, 80u, 96u, 100u, 112u, 128u, 192u, 256u, 576u};
constexpr std::array pages = {16u, 32u, 48u, 64u, 256u};

/// Random bits, and numbers of the size that f16 holds: the first alone would nearly always overflow it.
void fill(std::vector<uint8_t> &bytes, size_t offset, Dtype dtype, Random &random) {
  for (auto &byte : bytes) byte = static_cast<uint8_t>(random.engine()());
  if (dtype != Dtype::f32) return;
  for (size_t i = offset; i + 4 <= bytes.size(); i += 8) {
    float value = std::ldexp(static_cast<float>(random.below(1u << 24)) - 8388608.0f, -static_cast<int>(random.below(50)));
    memcpy(bytes.data() + i, &value, 4);
  }
}

/// Strides for a random nesting of block, token, head and group of dims, with gaps (also of odd bytes) between them.
size_t lay_out(RowsSide &rows, uint32_t block_count, uint32_t slots, uint32_t heads, uint32_t groups, Random &random) {
  uint64_t unit = static_cast<uint64_t>(rows.dim_group) * dtype_bytes(rows.dtype), extent = unit, ignored = 0;
  struct Axis {
    uint64_t *stride;
    uint32_t count;
  };
  std::array<Axis, 4> axes = {
      {{&rows.dim_stride, groups}, {&rows.token_stride, slots}, {&rows.head_stride, heads}, {&ignored, 1}}};
  if (rows.blocks != nullptr) axes[3] = {&rows.block_stride, block_count};
  if (random.below(3) != 0) {
    std::shuffle(axes.begin(), axes.end(), random.engine());
  } else if (random.below(2) != 0) {
    std::swap(axes[1], axes[2]);  // tokens first
  }
  bool gaps = random.below(2) != 0;
  for (const Axis &axis : axes) {
    uint64_t gap = 0;
    // K and V beside each other are a gap of the same size.
    if (gaps && random.below(2) != 0) gap = random.below(2) != 0 ? random.below(5) : extent;
    *axis.stride = extent + gap;
    extent = *axis.stride * axis.count;
  }
  return extent;
}

std::string describe(const Case &made) {
  const RowsSide &rows = made.rows;
  const Move &move = made.move;
  std::ostringstream text;
  text << "dim " << made.page.dim << " page_tokens " << made.page.page_tokens << " heads " << move.head_begin << "+" << move.head_count
       << "/" << made.heads << " tokens " << move.token_begin << "+" << move.token_count << " slot " << rows.slot_begin << " block_tokens "
       << rows.block_tokens << " group " << rows.dim_group << " strides " << rows.block_stride << " " << rows.token_stride << " "
       << rows.head_stride << " " << rows.dim_stride << (move.stream ? " stream" : "");
  return text.str();
}

Case make_case(Random &random, Dtype rows_dtype, Dtype page_dtype, bool whole) {
  Case made{};
  uint32_t dim = random.of(dims), page_tokens = random.of(pages), heads = 1 + random.below(9);
  if (static_cast<uint64_t>(dim) * page_tokens * heads > 200000) page_tokens = 16;
  made.heads = heads;
  made.page = {nullptr, page_dtype, dim, page_tokens};
  Move &move = made.move;
  move = {0, page_tokens, 0, heads, random.below(2) != 0};
  if (!whole) {
    move.token_begin = random.below(page_tokens);
    move.token_count = random.below(4) == 0 ? 1 : 1 + random.below(page_tokens - move.token_begin);
    move.head_begin = random.below(heads);
    move.head_count = 1 + random.below(heads - move.head_begin);
  }
  RowsSide &rows = made.rows;
  rows.dtype = rows_dtype;
  std::array<uint32_t, 6> group_sizes = {1, 1, 2, 8, dim, dim + 3};
  rows.dim_group = group_sizes[random.below(6)];
  uint32_t groups = (dim + rows.dim_group - 1) / rows.dim_group, slots = 0, block_count = 0;
  rows.slot_begin = random.below(40);
  if (random.below(2) != 0) {
    rows.block_tokens = std::array{1u, 16u, 17u}[random.below(3)];
    slots = rows.block_tokens;
    uint32_t used = static_cast<uint32_t>((rows.slot_begin + move.token_count + slots - 1) / slots);
    block_count = used + random.below(4);
    made.blocks.resize(block_count);
    std::iota(made.blocks.begin(), made.blocks.end(), 0);
    std::shuffle(made.blocks.begin(), made.blocks.end(), random.engine());
    made.blocks.resize(used);  // exactly what may be read
    rows.blocks = made.blocks.data();
  } else {
    slots = static_cast<uint32_t>(rows.slot_begin) + move.token_count;
  }
  size_t extent = lay_out(rows, block_count, slots, move.head_count, groups, random);
  made.caller_offset = random.below(2) != 0 ? 64 : 64 + random.below(64);
  made.stored_offset = random.below(4) != 0 ? 64 : 64 + random.below(64);
  made.caller.resize(extent + 256);
  made.stored.resize(static_cast<size_t>(heads) * page_tokens * dim * dtype_bytes(page_dtype) + 256);
  fill(made.caller, made.caller_offset, rows_dtype, random);
  fill(made.stored, made.stored_offset, page_dtype, random);
  made.name = describe(made);
  return made;
}

struct Pair {
  Dtype rows, page;
};
std::vector<Pair> pairs() {
  std::vector<Pair> found;
  for (uint32_t a = 1; a <= 5; ++a) {
    for (uint32_t b = 1; b <= 5; ++b) {
      if (convertible(Dtype{a}, Dtype{b})) found.push_back({Dtype{a}, Dtype{b}});
    }
  }
  return found;
}

/// A copy whose data begin `offset` past an address aligned to 64, as in every other copy of the case.
struct Buffer {
  explicit Buffer(const std::vector<uint8_t> &bytes) : memory(bytes.size() + 64) {
    data = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    size = bytes.size();
    memcpy(data, bytes.data(), size);
  }
  std::vector<uint8_t> memory;
  uint8_t *data;
  size_t size;
};

size_t first_difference(const Buffer &a, const Buffer &b) {
  return static_cast<size_t>(std::mismatch(a.data, a.data + a.size, b.data).first - a.data);
}

void check(const Case &made, bool out) {
  Buffer caller_want(made.caller), stored_want(made.stored);
  oracle::move(out, caller_want.data + made.caller_offset, stored_want.data + made.stored_offset, made.rows, made.page, made.move);
  for (const Table *table : oracle::tables()) {
    Buffer caller(made.caller), stored(made.stored);
    RowsSide rows = made.rows;
    PageSide page = made.page;
    rows.data = caller.data + made.caller_offset;
    page.data = stored.data + made.stored_offset;
    out ? table->rows_out(rows, page, made.move) : table->rows_in(page, rows, made.move);
    ASSERT_EQ(first_difference(caller, caller_want), caller.size) << table->name << " caller, " << made.name;
    ASSERT_EQ(first_difference(stored, stored_want), stored.size) << table->name << " page, " << made.name;
  }
}

TEST(KernelRows, GatherPutsEveryElementWhereTheLayoutSaysAndTouchesNothingElse) {
  Random random(1);
  for (const Pair &pair : pairs()) {
    for (int i = 0; i < (pair.rows == pair.page ? 60 : 15); ++i) {
      check(make_case(random, pair.rows, pair.page, false), true);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(KernelRows, AppendTakesEveryElementFromWhereTheLayoutSaysAndTouchesNothingElse) {
  Random random(2);
  for (const Pair &pair : pairs()) {
    for (int i = 0; i < (pair.rows == pair.page ? 60 : 15); ++i) {
      check(make_case(random, pair.rows, pair.page, false), false);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(KernelRows, AppendOfAWholePageReturnsTheSumOfTheBytesItLeft) {
  Random random(3);
  for (const Pair &pair : pairs()) {
    for (int i = 0; i < (pair.rows == pair.page ? 40 : 10); ++i) {
      Case made = make_case(random, pair.rows, pair.page, true);
      Buffer caller_want(made.caller), stored_want(made.stored);
      oracle::move(false, caller_want.data + made.caller_offset, stored_want.data + made.stored_offset, made.rows, made.page, made.move);
      uint64_t sum_want = XXH3_64bits(stored_want.data + made.stored_offset, made.stored.size() - 256);
      for (const Table *table : oracle::tables()) {
        Buffer caller(made.caller), stored(made.stored);
        RowsSide rows = made.rows;
        PageSide page = made.page;
        rows.data = caller.data + made.caller_offset;
        page.data = stored.data + made.stored_offset;
        uint64_t sum = table->rows_in_sum(page, rows, made.heads, made.move.stream);
        ASSERT_EQ(first_difference(stored, stored_want), stored.size) << table->name << " page, " << made.name;
        ASSERT_EQ(first_difference(caller, caller_want), caller.size) << table->name << " caller, " << made.name;
        ASSERT_EQ(sum, sum_want) << table->name << " sum, " << made.name;
      }
    }
  }
}

/// Rows of more numbers than any buffer inside the kernels holds, as snapshots of state are.
TEST(KernelRows, ARowMayBeLongerThanAnyStage) {
  Random random(4);
  for (const Pair &pair : pairs()) {
    for (bool out : {false, true}) {
      Case made{};
      uint32_t dim = 20011, bytes = dtype_bytes(pair.rows);
      made.page = {nullptr, pair.page, dim, 1};
      made.move = {0, 1, 0, 2, out};
      made.rows = {nullptr, pair.rows, 1, dim * bytes, dim * bytes, bytes, nullptr, 0, 0, 0};
      made.caller_offset = made.stored_offset = 64;
      made.caller.resize(2 * static_cast<size_t>(dim) * bytes + 256);
      made.stored.resize(2 * static_cast<size_t>(dim) * dtype_bytes(pair.page) + 256);
      fill(made.caller, 64, pair.rows, random);
      fill(made.stored, 64, pair.page, random);
      check(made, out);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace kvc::kernels

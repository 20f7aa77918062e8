#pragma once
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "api/call.h"
#include "store/sequence.h"

namespace kvc::api {

/// The caller's rows as complete structs of ours: where they lie if they are of our size and the call blocks, else copied; few of them need no memory
/// but the call's own.  With a queue their lists are copied too.
class RowsIn {
 public:
  [[nodiscard]] kvc_status read(const kvc_rows *rows, size_t count, const store::Sequence &seq, Intake &in, Error &error) {
    if (count && !rows) return fail(error, KVC_ERR_ARGUMENT, "rows is NULL but row_count is %zu", count);
    if (count && !in.queued() && rows->size == sizeof(kvc_rows) && count <= count_max) {
      span_ = {rows, count};
      return KVC_OK;
    }
    if (count > count_max) return fail(error, KVC_ERR_ARGUMENT, "row_count %zu: at most %u runs a call", count, count_max);
    kvc_rows *const to = place(count, in);
    const uint32_t size = count ? rows->size : 0;
    for (size_t i = 0; i < count; i++) {
      const auto *from = reinterpret_cast<const kvc_rows *>(reinterpret_cast<const char *>(rows) + i * size);
      KVC_TRY(read_struct(to[i], from, size, "rows", error));
      if (in.queued()) copy_lists(to[i], seq, in);
    }
    span_ = {to, count};
    return KVC_OK;
  }
  std::span<const kvc_rows> span() const { return span_; }

 private:
  static constexpr uint32_t count_max = 1u << 20;

  kvc_rows *place(size_t count, Intake &in) {
    if (in.queued()) in.copies().count(count * sizeof(kvc_rows));
    if (count <= own_.size()) return own_.data();
    if (in.queued()) return static_cast<kvc_rows *>(in.copies().take(count * sizeof(kvc_rows), alignof(kvc_rows)));
    return heap_.emplace(count, in.store().resource()).data();
  }
  static void copy_lists(kvc_rows &rows, const store::Sequence &seq, Intake &in) {
    rows.token_list = in.list(rows.token_list, rows.token_count);
    rows.blocks = in.list(rows.blocks, rows.block_count);
    const seq::Shape &shape = seq.part->shape;
    const uint32_t layer = rows.layer_begin - seq.part->layer_begin;
    const uint64_t heads = rows.head_count || layer >= shape.layer_count ? rows.head_count : shape.run_of(layer).kv_heads;
    rows.k_scale = in.list(rows.k_scale, rows.layer_count * heads);
    rows.v_scale = in.list(rows.v_scale, rows.layer_count * heads);
  }

  std::array<kvc_rows, 2> own_;
  std::optional<std::pmr::vector<kvc_rows>> heap_;
  std::span<const kvc_rows> span_;
};

}  // namespace kvc::api

#include "store/typed.h"

#include <cstring>

#include "kernels/rows.h"

namespace kvc::store {

using base::fail;
using codec::ObjectRecord;
using codec::ObjectSide;

namespace {

/// A layer's rows of up to page_tokens tokens, in the slot and in the value.
struct TypedPage {
  uint8_t *frame;
  uint32_t layer, tokens;  // layer: of the layout's run
  uint64_t token;          // the first

  uint64_t first(const ObjectSide &side) const { return side.offset + layer * side.layer_stride + token * side.token_stride; }
  uint8_t *k(const ObjectRecord &) const { return frame + codec::frame_header_bytes; }
  uint8_t *v(const ObjectRecord &record) const { return k(record) + codec::padded(bytes(record, record.k)); }
  uint64_t bytes(const ObjectRecord &record, const ObjectSide &side) const { return uint64_t{record.head_count} * tokens * side.row_bytes(); }
};

/// Until `body` says false; whether it never did.
template <typename F>
bool each_page(uint8_t *slot, const ObjectRecord &record, F &&body) {
  uint8_t *frame = slot + typed_frames_offset;
  for (uint64_t token = 0; token < record.token_count; token += record.page_tokens) {
    const auto tokens = static_cast<uint32_t>(std::min<uint64_t>(record.page_tokens, record.token_count - token));
    for (uint32_t layer = 0; layer < record.layer_count; layer++, frame += record.frame_bytes(tokens))
      if (!body(TypedPage{frame, layer, tokens, token})) return false;
  }
  return true;
}

/// Finds a value's bytes in its parts.  They come in the order of pages, so that the part is most often the one of the last time.
class Parts {
 public:
  explicit Parts(const kvc_object &object) : parts_(object.parts) {}

  /// Up to `count` bytes from `at` on that lie in one piece; at least one.
  std::span<uint8_t> from(uint64_t at, uint64_t count) {
    while (at < begin_) begin_ -= parts_[--part_].bytes;
    while (at - begin_ >= parts_[part_].bytes) begin_ += parts_[part_++].bytes;
    return {static_cast<uint8_t *>(parts_[part_].data) + (at - begin_), std::min(count, parts_[part_].bytes - (at - begin_))};
  }

 private:
  const kvc_bytes *parts_;
  uint64_t part_ = 0, begin_ = 0;
};

/// A side of a page: as the kernels take it when its rows lie in one part, else piece by piece.
struct SideMove {
  const ObjectRecord &record;
  const ObjectSide &side;
  const TypedPage &page;
  uint8_t *stored;

  uint32_t groups() const { return side.dim / side.dim_group; }
  uint64_t group_bytes() const { return side.row_bytes() / groups(); }
  kernels::PageSide stored_side() const { return {stored, kernels::Dtype{side.dtype}, side.dim, page.tokens}; }
  /// False: the rows lie in several parts.
  bool in_one_part(kernels::RowsSide &rows, Parts &parts) const {
    const uint64_t extent = (page.tokens - 1) * side.token_stride + (record.head_count - 1) * side.head_stride +
                            (groups() - 1) * side.dim_stride + group_bytes();
    const std::span<uint8_t> piece = parts.from(page.first(side), extent);
    rows = {piece.data(), kernels::Dtype{side.dtype}, side.dim_group, side.token_stride, side.head_stride, side.dim_stride, nullptr, 0, 0, 0};
    return piece.size() == extent;
  }
  /// `body` gets the bytes in the page, those in the parts and their number, until it says false; whether it never did.
  template <typename F>
  bool each_piece(Parts &parts, F &&body) const {
    uint8_t *at = stored;
    for (uint32_t head = 0; head < record.head_count; head++)
      for (uint32_t token = 0; token < page.tokens; token++)
        for (uint32_t group = 0; group < groups(); group++) {
          uint64_t from = page.first(side) + token * side.token_stride + head * side.head_stride + group * side.dim_stride;
          for (uint64_t left = group_bytes(); left;) {
            const std::span<uint8_t> piece = parts.from(from, left);
            if (!body(at, piece.data(), piece.size())) return false;
            at += piece.size();
            from += piece.size();
            left -= piece.size();
          }
        }
    return true;
  }
};

/// Both sides of a page that are there, K first.
template <typename F>
bool each_side(const ObjectRecord &record, const TypedPage &page, F &&body) {
  if (!body(SideMove{record, record.k, page, page.k(record)})) return false;
  return !record.v.dim || body(SideMove{record, record.v, page, page.v(record)});
}

/// Rows into their page, whose padding becomes zero; returns their sum.
uint64_t fill_side(const SideMove &move, Parts &parts, bool stream) {
  const kernels::Table &kernel = kernels::table();
  const uint64_t bytes = move.page.bytes(move.record, move.side);
  std::memset(move.stored + bytes, 0, codec::padded(bytes) - bytes);
  kernels::RowsSide rows;
  if (move.in_one_part(rows, parts)) return kernel.rows_in_sum(move.stored_side(), rows, move.record.head_count, stream);
  (void)move.each_piece(parts, [](uint8_t *stored, const uint8_t *value, uint64_t n) {
    std::memcpy(stored, value, n);
    return true;
  });
  return kernel.sum(move.stored, bytes);
}

}  // namespace

void fill_typed(uint8_t *slot, const TypedPut &typed, const seq::Name &name, const kvc_object &object) {
  auto &record = *reinterpret_cast<ObjectRecord *>(slot + sizeof(ObjectHeader));
  record = typed.record;
  record.name = name;
  codec::object_record_seal(record);
  codec::FrameHeader header;
  header.flags = codec::frame_private;
  header.chunk = name;
  header.write_id = typed.write_id;
  header.shape_tag = record.shape_tag;
  header.head_begin = static_cast<uint16_t>(record.head_begin);
  header.head_count = static_cast<uint16_t>(record.head_count);
  header.k_dim = static_cast<uint16_t>(record.k.dim);
  header.v_dim = static_cast<uint16_t>(record.v_dim);
  header.k_dtype = static_cast<uint8_t>(record.k.dtype);
  header.v_dtype = static_cast<uint8_t>(record.v.dtype);
  Parts parts(object);
  (void)each_page(slot, record, [&](const TypedPage &page) {
    uint64_t sums[2] = {}, *sum = sums;
    (void)each_side(record, page, [&](const SideMove &move) {
      *sum++ = fill_side(move, parts, record.value_bytes >= object_stream_bytes_min);
      return true;
    });
    header.layer = record.layer_begin + page.layer;
    header.tokens = page.tokens;
    codec::frame_exact_layout(header, page.bytes(record, record.k), page.bytes(record, record.v), sums[0], sums[1]);
    codec::frame_encode(page.frame, header);
    return true;
  });
}

void copy_typed(const kvc_object &object, const uint8_t *slot) {
  const ObjectRecord &record = typed_record(slot);
  const bool stream = record.value_bytes >= kernels::stream_bytes_min;
  Parts parts(object);
  (void)each_page(const_cast<uint8_t *>(slot), record, [&](const TypedPage &page) {
    return each_side(record, page, [&](const SideMove &move) {
      kernels::RowsSide rows;
      if (move.in_one_part(rows, parts)) {
        kernels::table().rows_out(rows, move.stored_side(), {0, page.tokens, 0, record.head_count, stream});
        return true;
      }
      return move.each_piece(parts, [](const uint8_t *stored, uint8_t *value, uint64_t n) {
        std::memcpy(value, stored, n);
        return true;
      });
    });
  });
}

bool equal_typed(const uint8_t *slot, const kvc_object &object) {
  const ObjectRecord &record = typed_record(slot);
  Parts parts(object);
  return each_page(const_cast<uint8_t *>(slot), record, [&](const TypedPage &page) {
    return each_side(record, page, [&](const SideMove &move) {
      return move.each_piece(parts, [](const uint8_t *stored, const uint8_t *value, uint64_t n) { return std::memcmp(stored, value, n) == 0; });
    });
  });
}

kvc_status verify_typed(const uint8_t *slot, base::Error &error) {
  const ObjectRecord &record = typed_record(slot);
  KVC_TRY(codec::object_record_check(record, error));
  kvc_status status = KVC_OK;
  (void)each_page(const_cast<uint8_t *>(slot), record, [&](const TypedPage &page) {
    const kernels::Table &kernel = kernels::table();
    codec::FrameHeader header;
    status = codec::frame_decode(header, page.frame, record.frame_bytes(page.tokens), error);
    if (status == KVC_OK && (header.chunk != record.name || header.layer != record.layer_begin + page.layer || header.tokens != page.tokens))
      status = fail(error, KVC_ERR_CORRUPT, "an object's page at token %llu, layer %u is another's", static_cast<unsigned long long>(page.token), record.layer_begin + page.layer);
    for (const codec::Section &section : header.sections)
      if (status == KVC_OK && section.bytes && kernel.sum(page.frame + section.offset, section.bytes) != section.sum)
        status = fail(error, KVC_ERR_CORRUPT, "an object's page at token %llu, layer %u does not match its sum", static_cast<unsigned long long>(page.token),
                      record.layer_begin + page.layer);
    return status == KVC_OK;
  });
  return status;
}

}  // namespace kvc::store

#include "codec/frame.h"

#include <bit>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "kernels/rows.h"
#include "kvc/types.h"

namespace kvc::codec {
namespace {

using base::Error;
using base::fail;

constexpr uint64_t magic = 0x314547415043564bu;  // "KVCPAGE1"
constexpr uint16_t version = 1;
constexpr uint32_t tokens_max = 256, heads_max = 128, layers_max = 65535;
constexpr uint32_t formats_max = 5, dtypes_max = 5;  // KVC_FORMAT_PLANES, KVC_U8

struct WireSection {
  uint32_t offset_units, bytes;
  uint64_t sum;
};
/// The 512 bytes as they lie, little-endian.  Only ever copied from and to, so nothing is asked of the caller's alignment.
struct WireHeader {
  uint64_t magic;
  uint16_t version, header_bytes;
  uint32_t flags;
  uint8_t chunk[32], write_id[16];
  uint64_t shape_tag;
  uint32_t layer, tokens;
  uint16_t head_begin, head_count, k_dim, v_dim;
  uint8_t format, codebook, k_dtype, v_dtype;
  uint32_t rotation_seed;
  uint8_t mean_mask[32], widths[128];
  WireSection sections[section_count];
  uint8_t zero[56];
  uint64_t sum;
};
static_assert(std::endian::native == std::endian::little, "the frame is little-endian as it lies in memory");
static_assert(sizeof(WireHeader) == frame_header_bytes && offsetof(WireHeader, chunk) == 16 && offsetof(WireHeader, layer) == 72 &&
              offsetof(WireHeader, mean_mask) == 96 && offsetof(WireHeader, sections) == 256 && offsetof(WireHeader, sum) == 504);

constexpr const char *section_names[section_kinds] = {"exact tokens", "side data", "plane 0", "plane 1", "plane 2",
                                                      "plane 3",      "codes",     "K exact", "V exact", "second part"};

unsigned long long wide(uint64_t value) { return value; }

uint64_t header_sum(const WireHeader &wire) { return kernels::table().sum(&wire, offsetof(WireHeader, sum)); }

kvc_status check_envelope(const WireHeader &wire, Error &error) {
  if (wire.magic != magic) return fail(error, KVC_ERR_CORRUPT, "frame: magic %016llx: not a page", wide(wire.magic));
  // Before the sum, which a later version may keep elsewhere.
  if (wire.version != version) return fail(error, KVC_ERR_VERSION, "frame: version %u: this library reads %u", wire.version, version);
  const uint64_t sum = header_sum(wire);
  if (wire.sum != sum) {
    return fail(error, KVC_ERR_CORRUPT, "frame: header sum %016llx: its bytes give %016llx", wide(wire.sum), wide(sum));
  }
  if (wire.header_bytes != frame_header_bytes) {
    return fail(error, KVC_ERR_CORRUPT, "frame: header_bytes %u: %u", wire.header_bytes, frame_header_bytes);
  }
  if (wire.flags & ~uint32_t{frame_derived | frame_private}) {
    return fail(error, KVC_ERR_CORRUPT, "frame: flags %08x: derived (1) and private (2) are known", wire.flags);
  }
  for (const uint8_t byte : wire.zero) {
    if (byte != 0) return fail(error, KVC_ERR_CORRUPT, "frame: reserved byte %02x: must be 0", byte);
  }
  return KVC_OK;
}

kvc_status check_counts(const WireHeader &wire, Error &error) {
  if (wire.layer >= layers_max) return fail(error, KVC_ERR_CORRUPT, "frame: layer %u: below %u", wire.layer, layers_max);
  if (wire.tokens == 0 || wire.tokens > tokens_max) {
    return fail(error, KVC_ERR_CORRUPT, "frame: tokens %u: 1..%u", wire.tokens, tokens_max);
  }
  if (wire.head_count == 0 || wire.head_count > heads_max || wire.head_begin + wire.head_count > heads_max) {
    return fail(error, KVC_ERR_CORRUPT, "frame: heads %u + %u: at least one, ending at or below %u", wire.head_begin, wire.head_count,
                heads_max);
  }
  if (wire.k_dim == 0 && wire.v_dim != 0) {
    return fail(error, KVC_ERR_CORRUPT, "frame: v_dim %u with k_dim 0: a state page has neither", wire.v_dim);
  }
  const auto known = [&](const char *member, uint32_t value, uint32_t max) {
    return value >= 1 && value <= max ? KVC_OK : fail(error, KVC_ERR_CORRUPT, "frame: %s %u: 1..%u", member, value, max);
  };
  KVC_TRY(known("format", wire.format, formats_max));
  KVC_TRY(known("k_dtype", wire.k_dtype, dtypes_max));
  return known("v_dtype", wire.v_dtype, dtypes_max);
}

kvc_status check_sections(const WireHeader &wire, uint64_t bytes_held, Error &error) {
  uint64_t free_from = frame_header_bytes;
  for (uint32_t i = 0; i < section_count; ++i) {
    const WireSection &section = wire.sections[i];
    if (section.bytes == 0) {
      if (section.offset_units == 0 && section.sum == 0) continue;
      return fail(error, KVC_ERR_CORRUPT, "frame: section %u is absent: its offset and sum must be 0", i);
    }
    if (i >= section_kinds) {
      return fail(error, KVC_ERR_CORRUPT, "frame: section %u has %u bytes: unknown, must be absent", i, section.bytes);
    }
    const uint64_t offset = uint64_t{section.offset_units} * section_align;
    if (offset < free_from) {
      return fail(error, KVC_ERR_CORRUPT, "frame: section %u (%s) at %llu: what lies before it ends at %llu", i, section_names[i],
                  wide(offset), wide(free_from));
    }
    free_from = offset + padded(section.bytes);
#ifndef KVC_MUTATE_BOUNDS
    if (free_from > bytes_held) {
      return fail(error, KVC_ERR_CORRUPT, "frame: section %u (%s) ends at %llu: the frame has %llu bytes", i, section_names[i],
                  wide(free_from), wide(bytes_held));
    }
#endif
  }
  return KVC_OK;
}

/// Readers of exact pages index their sections by head, token and dim, so the sizes must be those.
kvc_status check_exact(const WireHeader &wire, Error &error) {
  if (wire.format != KVC_FORMAT_EXACT) return KVC_OK;
  for (uint32_t i = 0; i < section_k_exact; ++i) {
    if (wire.sections[i].bytes != 0) return fail(error, KVC_ERR_CORRUPT, "frame: section %u (%s) in an exact page", i, section_names[i]);
  }
  const uint64_t rows = uint64_t{wire.head_count} * wire.tokens;
  const uint64_t k_bytes = rows * wire.k_dim * kernels::dtype_bytes(kernels::Dtype{wire.k_dtype});
  const uint64_t v_bytes = rows * wire.v_dim * kernels::dtype_bytes(kernels::Dtype{wire.v_dtype});
  const WireSection &k = wire.sections[section_k_exact], &v = wire.sections[section_v_exact];
  if (wire.k_dim != 0 ? k.bytes != k_bytes : k.bytes == 0) {
    return fail(error, KVC_ERR_CORRUPT, "frame: K exact has %u bytes: %u heads x %u tokens x %u dims make %llu", k.bytes, wire.head_count,
                wire.tokens, wire.k_dim, wide(k_bytes));
  }
  if (v.bytes != v_bytes) {
    return fail(error, KVC_ERR_CORRUPT, "frame: V exact has %u bytes: %u heads x %u tokens x %u dims make %llu", v.bytes, wire.head_count,
                wire.tokens, wire.v_dim, wide(v_bytes));
  }
  if (wire.v_dim != 0 && wire.sections[section_second].bytes != 0) {
    return fail(error, KVC_ERR_CORRUPT, "frame: second part has %u bytes: none beside V", wire.sections[section_second].bytes);
  }
  return KVC_OK;
}

}  // namespace

void frame_encode(uint8_t *out, const FrameHeader &header) {
  WireHeader wire{};
  wire.magic = magic;
  wire.version = version;
  wire.header_bytes = frame_header_bytes;
  wire.flags = header.flags;
  std::memcpy(wire.chunk, header.chunk.data(), sizeof wire.chunk);
  std::memcpy(wire.write_id, header.write_id.data(), sizeof wire.write_id);
  wire.shape_tag = header.shape_tag;
  wire.layer = header.layer;
  wire.tokens = header.tokens;
  wire.head_begin = header.head_begin;
  wire.head_count = header.head_count;
  wire.k_dim = header.k_dim;
  wire.v_dim = header.v_dim;
  wire.format = header.format;
  wire.codebook = header.codebook;
  wire.k_dtype = header.k_dtype;
  wire.v_dtype = header.v_dtype;
  wire.rotation_seed = header.rotation_seed;
  std::memcpy(wire.mean_mask, header.mean_mask.data(), sizeof wire.mean_mask);
  std::memcpy(wire.widths, header.widths.data(), sizeof wire.widths);
  for (uint32_t i = 0; i < section_count; ++i) {
    const Section &section = header.sections[i];
    if (section.bytes == 0) continue;
    KVC_CHECK(section.offset % section_align == 0 && section.offset / section_align <= UINT32_MAX);
    wire.sections[i] = {static_cast<uint32_t>(section.offset / section_align), section.bytes, section.sum};
  }
  wire.sum = header_sum(wire);
  std::memcpy(out, &wire, sizeof wire);
}

kvc_status frame_decode(FrameHeader &out, const uint8_t *header, uint64_t frame_bytes, Error &error) {
  if (frame_bytes < frame_header_bytes) {
    return fail(error, KVC_ERR_CORRUPT, "frame: %llu bytes: a header has %u", wide(frame_bytes), frame_header_bytes);
  }
  WireHeader wire;
  std::memcpy(&wire, header, sizeof wire);
  KVC_TRY(check_envelope(wire, error));
  KVC_TRY(check_counts(wire, error));
  KVC_TRY(check_sections(wire, frame_bytes, error));
  KVC_TRY(check_exact(wire, error));

  out.flags = wire.flags;
  std::memcpy(out.chunk.data(), wire.chunk, sizeof wire.chunk);
  std::memcpy(out.write_id.data(), wire.write_id, sizeof wire.write_id);
  out.shape_tag = wire.shape_tag;
  out.layer = wire.layer;
  out.tokens = wire.tokens;
  out.head_begin = wire.head_begin;
  out.head_count = wire.head_count;
  out.k_dim = wire.k_dim;
  out.v_dim = wire.v_dim;
  out.format = wire.format;
  out.codebook = wire.codebook;
  out.k_dtype = wire.k_dtype;
  out.v_dtype = wire.v_dtype;
  out.rotation_seed = wire.rotation_seed;
  std::memcpy(out.mean_mask.data(), wire.mean_mask, sizeof wire.mean_mask);
  std::memcpy(out.widths.data(), wire.widths, sizeof wire.widths);
  for (uint32_t i = 0; i < section_count; ++i) {
    out.sections[i] = {uint64_t{wire.sections[i].offset_units} * section_align, wire.sections[i].bytes, wire.sections[i].sum};
  }
  return KVC_OK;
}

void frame_exact_layout(FrameHeader &header, uint64_t k_bytes, uint64_t v_bytes, uint64_t k_sum, uint64_t v_sum) {
  KVC_CHECK(k_bytes > 0 && k_bytes <= UINT32_MAX && v_bytes <= UINT32_MAX);
  header.format = KVC_FORMAT_EXACT;
  header.sections = {};
  header.sections[section_k_exact] = {frame_header_bytes, static_cast<uint32_t>(k_bytes), k_sum};
  if (v_bytes == 0) return;
  header.sections[section_of_second(header.v_dim)] = {frame_header_bytes + padded(k_bytes), static_cast<uint32_t>(v_bytes), v_sum};
}

}  // namespace kvc::codec

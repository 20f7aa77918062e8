#pragma once
#include <array>
#include <cstdint>

#include "base/error.h"

/// The bytes of a page's frame: format.md, "Frame".
namespace kvc::codec {

constexpr uint32_t frame_header_bytes = 512, section_count = 12, section_align = 64;
enum SectionKind : uint32_t {
  section_exact_tokens = 0, section_side = 1, section_plane_0 = 2, section_plane_1 = 3, section_plane_2 = 4, section_plane_3 = 5,
  section_codes = 6, section_k_exact = 7, section_v_exact = 8, section_second = 9
};
enum FrameFlags : uint32_t { frame_derived = 1, frame_private = 2 };

struct Section {
  uint64_t offset = 0;  // from the start of the frame, multiple of 64
  uint32_t bytes = 0;   // 0: absent
  uint64_t sum = 0;     // XXH3-64 of the bytes
};

struct FrameHeader {
  uint32_t flags = 0;
  std::array<uint8_t, 32> chunk{};
  std::array<uint8_t, 16> write_id{};
  uint64_t shape_tag = 0;  // first 8 bytes of the shape's fingerprint, as they stand
  uint32_t layer = 0, tokens = 0;
  uint16_t head_begin = 0, head_count = 0, k_dim = 0, v_dim = 0;
  uint8_t format = 0, codebook = 0, k_dtype = 0, v_dtype = 0;
  uint32_t rotation_seed = 0;
  std::array<uint8_t, 32> mean_mask{};
  std::array<uint8_t, 128> widths{};
  std::array<Section, section_count> sections{};
};

/// Writes the 512 bytes, sum included.
void frame_encode(uint8_t *out, const FrameHeader &header);
/// CORRUPT: magic, sum, a section out of order / overlapping / misaligned / over frame_bytes, impossible counts.  VERSION: another version.  The message
/// names member, value and rule.  Never reads past 512 bytes; a forged header cannot make the caller allocate: sections are checked against frame_bytes.
[[nodiscard]] kvc_status frame_decode(FrameHeader &out, const uint8_t *header, uint64_t frame_bytes, base::Error &error);

/// Fills in sections 7 and 8 (offsets, bytes; sums as given) and format, of an exact page.
void frame_exact_layout(FrameHeader &header, uint64_t k_bytes, uint64_t v_bytes, uint64_t k_sum, uint64_t v_sum);
/// Bytes of the frame: end of its last section, rounded to 64.
uint64_t frame_bytes(const FrameHeader &header);
/// Checks each present section's sum against the bytes at `frame` (the whole frame, header first).  CORRUPT names layer and section.
[[nodiscard]] kvc_status frame_verify(const FrameHeader &header, const uint8_t *frame, base::Error &error);

}  // namespace kvc::codec

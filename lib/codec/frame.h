#pragma once
#include <array>
#include <cstdint>

#include "base/error.h"

/// The bytes of a page's frame: format.md, "Frame".
namespace kvc::codec {

constexpr uint32_t frame_header_bytes = 512, section_count = 12, section_align = 64;
/// What a section of so many bytes takes in its frame.
constexpr uint64_t padded(uint64_t bytes) { return (bytes + section_align - 1) / section_align * section_align; }
enum SectionKind : uint32_t {
  section_exact_tokens = 0, section_side = 1, section_plane_0 = 2, section_plane_1 = 3, section_plane_2 = 4, section_plane_3 = 5,
  section_codes = 6, section_k_exact = 7, section_v_exact = 8, section_second = 9
};
constexpr uint32_t section_kinds = 10;  // the table has room for two more, empty in version 1
enum FrameFlags : uint32_t { frame_derived = 1, frame_private = 2 };

struct Section {
  uint64_t offset = 0;  // from the start of the frame, multiple of 64
  uint32_t bytes = 0;   // 0: absent, then offset and sum are 0 too
  uint64_t sum = 0;     // XXH3-64 of the bytes
};

struct FrameHeader {
  uint32_t flags = 0;
  std::array<uint8_t, 32> chunk{};
  std::array<uint8_t, 16> write_id{};
  uint64_t shape_tag = 0;  // first 8 bytes of the shape's fingerprint, as they stand
  uint32_t layer = 0, tokens = 0;
  uint16_t head_begin = 0, head_count = 0, k_dim = 0, v_dim = 0;  // dims: 0 in state pages; v_dim also in latent ones
  uint8_t format = 0, codebook = 0, k_dtype = 0, v_dtype = 0;     // KVC_FORMAT_*; dtypes of the layer's run, never 0
  uint32_t rotation_seed = 0;
  std::array<uint8_t, 32> mean_mask{};
  std::array<uint8_t, 128> widths{};
  std::array<Section, section_count> sections{};
};

/// Writes the 512 bytes, sum included.  The header is one that frame_decode would take: what it would refuse is a bug of the caller, not
/// checked again here but for offsets, which must be multiples of 64 below 2^38.
void frame_encode(uint8_t *out, const FrameHeader &header);
/// CORRUPT: magic, sum, a bit that version 1 does not know, a section out of order / overlapping / over frame_bytes, impossible counts
/// (an exact page's sections must have the very bytes its heads, tokens, dims and dtypes make).  VERSION: another version.  The message
/// names member, value and rule.  Never reads past 512 bytes; a forged header cannot make the caller allocate: sections are checked against
/// frame_bytes, which are those the caller has.  `out` is written on success only.
[[nodiscard]] kvc_status frame_decode(FrameHeader &out, const uint8_t *header, uint64_t frame_bytes, base::Error &error);

/// Where the part of an exact page beside K stands.
constexpr SectionKind section_of_second(uint32_t v_dim) { return v_dim != 0 ? section_v_exact : section_second; }
/// Lays out an exact page: sets the format, K in section 7, the other part in section 8 or, where v_dim is 0, in section 9 (a latent page's
/// rope part, a state's second blob; 0 bytes: none), sums as given; all other sections become absent.  Set the dims first.  Both sizes fit
/// a u32.
void frame_exact_layout(FrameHeader &header, uint64_t k_bytes, uint64_t v_bytes, uint64_t k_sum, uint64_t v_sum);

}  // namespace kvc::codec

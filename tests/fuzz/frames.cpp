// Headers of frames, signed or not: whatever is taken is safe to read by.
#include <memory>

#include "base/error.h"
#include "codec/frame.h"
#include "input.h"
#include "kernels/rows.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace kvc;
  fuzz::Input input(data, size);
  const bool is_signed = input.number<uint8_t>() % 2;
  const uint64_t bytes_held = input.number<uint16_t>();
  // What a reader has: the frame and not a byte more.
  const std::unique_ptr<uint8_t[]> frame(new uint8_t[bytes_held]);
  input.bytes(frame.get(), bytes_held);
  if (bytes_held < codec::frame_header_bytes) return 0;
  if (is_signed) {
    const uint64_t sum = kernels::table().sum(frame.get(), 504);
    std::memcpy(frame.get() + 504, &sum, 8);
  }
  codec::FrameHeader header, untouched;
  base::Error error;
  const kvc_status status = codec::frame_decode(header, frame.get(), bytes_held, error);
  if (status != KVC_OK) {
    FUZZ_CHECK(status == KVC_ERR_CORRUPT || status == KVC_ERR_VERSION);
    FUZZ_CHECK(error.status == status && error.message[0]);
    FUZZ_CHECK(std::memcmp(header.chunk.data(), untouched.chunk.data(), 32) == 0 && header.tokens == 0);
    return 0;
  }
  FUZZ_CHECK(header.tokens >= 1 && header.tokens <= 256 && header.head_count >= 1);
  FUZZ_CHECK(header.k_dtype >= 1 && header.k_dtype <= 5 && header.v_dtype >= 1 && header.v_dtype <= 5);
  uint64_t sum = 0, end = codec::frame_header_bytes;
  for (const codec::Section &section : header.sections) {
    if (!section.bytes) continue;
    FUZZ_CHECK(section.offset >= end && section.offset % codec::section_align == 0);
    end = section.offset + section.bytes;
    for (uint64_t i = section.offset; i < end; i++) sum += frame[i];  // as a reader does
  }
  if (header.format == KVC_FORMAT_EXACT && header.k_dim) {
    const uint64_t sizes[] = {0, 4, 2, 2, 1, 1};
    FUZZ_CHECK(header.sections[codec::section_k_exact].bytes == uint64_t{header.head_count} * header.tokens * header.k_dim * sizes[header.k_dtype]);
  }
  return sum == UINT64_MAX;
}

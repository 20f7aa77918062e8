#include <cstring>

#include "kernels/rows.h"
#include "store/save_file.h"

/// The pages of a save file: which header each has, and whether its bytes are those that were saved.
namespace kvc::store {

using base::Error;
using base::fail;

codec::SectionKind second_section(const seq::LayerRun &layers) { return codec::section_of_second(layers.kind == KVC_LAYER_STATE ? 0 : layers.v_dim); }

codec::FrameHeader saved_header(const SaveTable &table, const SavedPage &page, uint64_t k_sum, uint64_t v_sum) {
  codec::FrameHeader header;
  header.flags = page.is_private ? static_cast<uint32_t>(codec::frame_private) : 0;
  if (page.named_by) {
    header.chunk = page.named_by->name;
    header.write_id = page.named_by->write_id;
  }
  std::memcpy(&header.shape_tag, table.shape.fingerprint.data(), sizeof header.shape_tag);
  header.layer = table.number_of(page.layer);
  header.tokens = page.tokens;
  header.head_begin = static_cast<uint16_t>(table.head_begin_of(page.layer));
  header.head_count = static_cast<uint16_t>(page.layers->kv_heads);
  const bool state = page.layers->kind == KVC_LAYER_STATE;
  header.k_dim = static_cast<uint16_t>(state ? 0 : page.layers->k_dim);
  header.v_dim = static_cast<uint16_t>(state ? 0 : page.layers->v_dim);
  header.k_dtype = static_cast<uint8_t>(page.layers->k_dtype);
  header.v_dtype = static_cast<uint8_t>(page.layers->v_dtype);
  codec::frame_exact_layout(header, page.k_bytes, page.v_bytes, k_sum, v_sum);
  return header;
}

kvc_status check_frame(const SaveTable &table, const SavedPage &page, const uint8_t *header, const uint8_t *k, const uint8_t *v, Error &error) {
  const auto where = [&](kvc_status status, const char *what) {
    return fail(error, status, "chunk %llu (from token %llu), layer %u: %.150s", static_cast<unsigned long long>(page.chunk),
                static_cast<unsigned long long>(page.chunk * table.shape.chunk_tokens), table.number_of(page.layer), what);
  };
  Error why;
  codec::FrameHeader found;
  if (const kvc_status status = codec::frame_decode(found, header, page.data_end(), why); status != KVC_OK) return where(status, why.message);
  uint8_t wanted[codec::frame_header_bytes];
  const uint64_t k_sum = found.sections[codec::section_k_exact].sum, v_sum = found.sections[second_section(*page.layers)].sum;
  codec::frame_encode(wanted, saved_header(table, page, k_sum, v_sum));
  if (std::memcmp(header, wanted, sizeof wanted) != 0) return where(KVC_ERR_CORRUPT, "the header is that of another page");
  const kernels::Table &kernel = kernels::table();
  if (kernel.sum(k, page.k_bytes) != k_sum) return where(KVC_ERR_CORRUPT, "the sum of K is not that of its bytes");
  if (page.v_bytes && kernel.sum(v, page.v_bytes) != v_sum) return where(KVC_ERR_CORRUPT, "the sum of V is not that of its bytes");
  return KVC_OK;
}

kvc_status check_zero(uint64_t chunk, const uint8_t *bytes, uint64_t size, Error &error) {
  if (size == 0 || (bytes[0] == 0 && std::memcmp(bytes, bytes + 1, size - 1) == 0)) return KVC_OK;
  return fail(error, KVC_ERR_CORRUPT, "chunk %llu: what fills a place up is not zero", static_cast<unsigned long long>(chunk));
}

kvc_status check_whole_frame(const SaveTable &table, const SavedPage &page, const uint8_t *frame, Error &error) {
  const uint64_t k_at = codec::frame_header_bytes, v_at = page.v_offset(), v_end = v_at + page.v_bytes;
  KVC_TRY(check_frame(table, page, frame, frame + k_at, frame + v_at, error));
  KVC_TRY(check_zero(page.chunk, frame + k_at + page.k_bytes, v_at - k_at - page.k_bytes, error));
  return check_zero(page.chunk, frame + v_end, page.frame_bytes() - v_end, error);
}

}  // namespace kvc::store

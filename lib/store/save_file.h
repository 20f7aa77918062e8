#pragma once
#include <array>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "io/file.h"
#include "seq/identity.h"
#include "seq/shape.h"
#include "store/layout.h"

/// A sequence as a file: lib/README.md, "The bytes of a save file".
namespace kvc::store {

struct SavedChunk {
  seq::Name name{};
  std::array<uint8_t, 16> write_id{};
  uint64_t offset = 0, bytes = 0;
  uint32_t frames = 0;
  bool is_open = false;

  bool is_named() const { return name != seq::Name{}; }
};

/// A page of a chunk that has rows.
struct SavedPage {
  uint32_t layer = 0;
  uint32_t rows = 0;
  uint64_t k_bytes = 0, v_bytes = 0;
  const seq::LayerRun *layers = nullptr;

  uint64_t v_offset() const { return codec::frame_header_bytes + codec::padded(k_bytes); }
  uint64_t data_end() const { return v_offset() + codec::padded(v_bytes); }
  uint64_t frame_bytes() const { return (data_end() + frame_align - 1) / frame_align * frame_align; }
  static constexpr uint64_t frame_align = 512;
};

/// All of a save file but its pages.
struct SaveTable {
  explicit SaveTable(std::pmr::memory_resource *resource) : filled(resource), extras(resource), ids(resource), chunks(resource) {}

  seq::Name scope{};
  seq::Shape shape;
  bool is_private = false;
  uint64_t length = 0, first_position = 0, truncated_to = UINT64_MAX;
  std::pmr::vector<uint64_t> filled;
  seq::Extras extras;
  std::pmr::vector<int32_t> ids;
  std::pmr::vector<SavedChunk> chunks;
  uint64_t table_end = 0, trailer_at = 0;

  uint64_t file_bytes() const;
  uint64_t sealed() const { return length / shape.chunk_tokens; }
  /// Leading chunks that go by a name.
  uint64_t named() const;
  uint64_t rows_max() const;
  uint32_t rows_of(uint32_t layer, uint64_t chunk) const;
  SavedPage page(uint32_t layer, uint64_t chunk) const;
  /// Fills in what follows from the rest: how many chunks there are, what lies where.  Names and write ids stay as they are.
  void place();
};

/// What bytes of the table are written, from the start of the file to table_end; and the trailer.
void save_table_encode(std::pmr::vector<uint8_t> &out, const SaveTable &table);
std::array<uint8_t, 16> save_trailer(const std::pmr::vector<uint8_t> &table);
/// Reads and checks all but the pages.  VERSION, CORRUPT; UNSUPPORTED: layers of a kind that this build does not save.  Allocates no more than
/// the file has bytes.
[[nodiscard]] kvc_status save_table_read(SaveTable &out, io::File &file, std::pmr::memory_resource *resource, base::Error &error);
/// The kinds of layers whose pages a save file can hold.
[[nodiscard]] kvc_status check_savable(const seq::Shape &shape, base::Error &error);

/// The frame's header, whatever its sums.
codec::FrameHeader saved_header(const SaveTable &table, uint64_t chunk, const SavedPage &page, uint64_t k_sum, uint64_t v_sum);
/// One frame: the header is the one that the table asks for, and its sums are those of the bytes at `k` and `v`.  CORRUPT, VERSION; the message names chunk and layer.
[[nodiscard]] kvc_status check_frame(const SaveTable &table, uint64_t chunk, const SavedPage &page, const uint8_t *header, const uint8_t *k, const uint8_t *v, base::Error &error);
/// What fills a place up.
[[nodiscard]] kvc_status check_zero(uint64_t chunk, const uint8_t *bytes, uint64_t size, base::Error &error);
/// `frame` has the whole frame of `page`, padding included.
[[nodiscard]] kvc_status check_whole_frame(const SaveTable &table, uint64_t chunk, const SavedPage &page, const uint8_t *frame, base::Error &error);

constexpr uint64_t save_align = 4096;
constexpr uint64_t save_aligned(uint64_t at) { return (at + save_align - 1) / save_align * save_align; }

}  // namespace kvc::store

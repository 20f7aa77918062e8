#pragma once
#include <array>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "io/file.h"
#include "seq/identity.h"
#include "seq/shape.h"
#include "store/part.h"

/// A sequence as a file: lib/README.md, "The bytes of a save file".
namespace kvc::store {

/// Where the frames of a chunk, or of a piece, lie in the file.
struct SavedPart {
  uint64_t offset = 0, bytes = 0;
  uint32_t frames = 0;
  bool is_open = false;  // not sealed, or with rows that are not its writer's
};

struct SavedChunk : SavedPart {
  seq::Name name{};
  std::array<uint8_t, 16> write_id{};
  bool awaits = false;  // window rows or a snapshot of its writer's may still come

  bool is_named() const { return name != seq::Name{}; }
};

/// Window rows of a chunk, or a snapshot.
struct SavedPiece : SavedPart {
  Piece kind = Piece::window;
  uint64_t at = 0;          // the chunk's first token; where the snapshot is valid
  uint64_t first_mark = 0;  // of its layers, in the table's marks
};

/// A page of a chunk or of a piece that has rows.
struct SavedPage {
  uint32_t layer = 0;
  uint32_t first = 0, rows = 0;  // that the frame holds; of a snapshot one
  uint32_t tokens = 0;           // that its header says
  uint32_t left_out = 0;         // of these rows, in front: zero
  bool is_private = false, is_open = false;
  uint64_t k_bytes = 0, v_bytes = 0, chunk = 0;
  const SavedChunk *named_by = nullptr;  // whose name and write id are in its header; null: none
  const seq::LayerRun *layers = nullptr;

  uint64_t v_offset() const { return codec::frame_header_bytes + codec::padded(k_bytes); }
  uint64_t data_end() const { return v_offset() + codec::padded(v_bytes); }
  uint64_t frame_bytes() const { return (data_end() + frame_align - 1) / frame_align * frame_align; }
  static constexpr uint64_t frame_align = 512;
};

/// All of a save file but its pages.
struct SaveTable {
  explicit SaveTable(std::pmr::memory_resource *resource)
      : filled(resource), extras(resource), ids(resource), chunks(resource), pieces(resource), marks(resource), window_layers(resource), state_layers(resource) {}

  seq::Name scope{};
  seq::Shape shape;   // of the sequence's part, whose layers and heads count from 0
  seq::Shape model;   // all of it, if the part is less
  PartRange range{};  // the part; layer_count 0: all of the shape
  bool is_private = false;
  uint64_t length = 0, first_position = 0, truncated_to = UINT64_MAX;
  std::pmr::vector<uint64_t> filled;
  seq::Extras extras;
  std::pmr::vector<int32_t> ids;
  std::pmr::vector<SavedChunk> chunks;
  std::pmr::vector<SavedPiece> pieces;                       // window rows, then snapshots, each rising
  std::pmr::vector<uint32_t> marks;                          // of each piece, by layer: as in its slot
  std::pmr::vector<uint32_t> window_layers, state_layers;    // of the shape
  uint64_t table_end = 0, trailer_at = 0;

  /// Fills in what follows from the shape.
  void list_layers();
  bool is_part() const { return range.layer_count != 0; }
  const seq::Shape &whole() const { return is_part() ? model : shape; }
  /// Of a layer of the part, in the model.
  uint32_t number_of(uint32_t layer) const { return range.layer_begin + layer; }
  uint32_t head_begin_of(uint32_t layer) const { return is_part() && model.run_of(number_of(layer)).kv_heads > 1 ? range.head_begin : 0; }
  /// What the header says.
  uint32_t version() const;
  bool is_pieced() const { return !window_layers.empty() || !state_layers.empty(); }
  std::span<const uint32_t> layers_of(Piece kind) const { return kind == Piece::window ? window_layers : state_layers; }
  uint64_t file_bytes() const;
  uint64_t sealed() const { return length / shape.chunk_tokens; }
  /// Leading chunks that go by a name.
  uint64_t named() const;
  uint64_t rows_max() const;
  /// As many as the rows of full and latent layers make, and those that are sealed.
  uint64_t chunk_count() const;
  const SavedPiece *find(Piece kind, uint64_t at) const;
  uint64_t chunk_of(const SavedPiece &piece) const { return (piece.kind == Piece::window ? piece.at : piece.at - 1) / shape.chunk_tokens; }
  std::span<const uint32_t> marks_of(const SavedPiece &piece) const { return std::span(marks).subspan(piece.first_mark, layers_of(piece.kind).size()); }
  /// Rows up to `filled` of a layer that are in a chunk.
  uint32_t rows_in(uint32_t layer, uint64_t chunk) const;

  /// The page of a full or latent layer; without rows there is none.
  SavedPage page(uint32_t layer, uint64_t chunk) const;
  /// That of the layer `ordinal` of the piece's kind.
  SavedPage page(const SavedPiece &piece, uint32_t ordinal) const;
  /// Chunks, then pieces.
  uint64_t part_count() const { return chunks.size() + pieces.size(); }
  const SavedPart &part(uint64_t i) const { return i < chunks.size() ? static_cast<const SavedPart &>(chunks[i]) : pieces[i - chunks.size()]; }
  uint64_t chunk_of_part(uint64_t i) const { return i < chunks.size() ? i : chunk_of(pieces[i - chunks.size()]); }
  uint64_t part_end(uint64_t i) const { return i + 1 < part_count() ? part(i + 1).offset : trailer_at; }
  /// The pages of a part as they lie; ends with the first status that is not KVC_OK.
  template <typename Do>
  [[nodiscard]] kvc_status each_page(uint64_t i, Do &&act) const {
    const bool is_chunk = i < chunks.size();
    const SavedPiece *const piece = is_chunk ? nullptr : &pieces[i - chunks.size()];
    const auto count = is_chunk ? shape.layer_count : static_cast<uint32_t>(layers_of(piece->kind).size());
    for (uint32_t l = 0; l < count; l++)
      if (const SavedPage found = is_chunk ? page(l, i) : page(*piece, l); found.rows) {
        const kvc_status status = act(found);
        if (status != KVC_OK) return status;
      }
    return KVC_OK;
  }
  /// Fills in what follows from the rest: how many chunks there are, what lies where.  Names, write ids and pieces stay as they are.
  void place();
};

/// What bytes of the table are written, from the start of the file to table_end; and the trailer.
void save_table_encode(std::pmr::vector<uint8_t> &out, const SaveTable &table);
std::array<uint8_t, 16> save_trailer(const std::pmr::vector<uint8_t> &table);
/// Reads and checks all but the pages.  VERSION, CORRUPT.  Allocates no more than the file has bytes.
[[nodiscard]] kvc_status save_table_read(SaveTable &out, io::File &file, std::pmr::memory_resource *resource, base::Error &error);

/// Each piece is one that can be: in order, of rows that are filled.  CORRUPT.
[[nodiscard]] kvc_status check_pieces(const SaveTable &table, base::Error &error);
/// The sequence can go on at its length: the window rows that it sees are there, and the snapshots that its layers stand at.  `status` if not.
[[nodiscard]] kvc_status check_goes_on(const SaveTable &table, kvc_status status, base::Error &error);

/// The frame's header, whatever its sums.
codec::FrameHeader saved_header(const SaveTable &table, const SavedPage &page, uint64_t k_sum, uint64_t v_sum);
/// One frame: the header is the one that the table asks for, and its sums are those of the bytes at `k` and `v`.  CORRUPT, VERSION; the message names chunk and layer.
[[nodiscard]] kvc_status check_frame(const SaveTable &table, const SavedPage &page, const uint8_t *header, const uint8_t *k, const uint8_t *v, base::Error &error);
/// What fills a place up.
[[nodiscard]] kvc_status check_zero(uint64_t chunk, const uint8_t *bytes, uint64_t size, base::Error &error);
/// `frame` has the whole frame of `page`, padding included.
[[nodiscard]] kvc_status check_whole_frame(const SaveTable &table, const SavedPage &page, const uint8_t *frame, base::Error &error);

/// The section where the second part of a layer's exact pages stands.
codec::SectionKind second_section(const seq::LayerRun &layers);

constexpr uint64_t save_align = 4096;
constexpr uint64_t save_aligned(uint64_t at) { return (at + save_align - 1) / save_align * save_align; }

}  // namespace kvc::store

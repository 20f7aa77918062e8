#pragma once
#include "store/append_plan.h"
#include "store/save_file.h"

namespace kvc::store {

/// What a restore has taken so far; given back unless it succeeds.
struct Store::Restoring {
  Restoring(Store &s, SaveTable &t, io::File &f)
      : store(s), table(t), file(f), plan(&s.resource_), headers(&s.resource_), tails(&s.resource_), vectors(&s.resource_), packed(&s.resource_) {}
  Restoring(const Restoring &) = delete;
  Restoring &operator=(const Restoring &) = delete;
  ~Restoring();
  kvc_status begin(Scope &scope, const kvc_seq_options &options, Error &error);
  void adopt();
  kvc_status check_room(Error &error) const;
  void reserve();
  kvc_status read(Error &error);
  kvc_status read_gap(uint64_t from, uint64_t to, uint64_t chunk, Error &error);
  kvc_status take_slot(OpenChunk **out, const ChunkLayout &layout, bool stays_open, Error &error);
  // restore_parts.cpp
  kvc_status read_part(OpenChunk &open, const ChunkLayout &layout, uint64_t part, Error &error);
  kvc_status read_sealed(OpenChunk &open, const ChunkLayout &layout, uint64_t part, Error &error);
  kvc_status read_open(OpenChunk &open, const ChunkLayout &layout, uint64_t part, Error &error);
  // restore_pieces.cpp
  bool is_same_writer(Ref ref) const;
  void reserve_pieces();
  bool has_all(Ref held, const SavedPiece &piece) const;
  bool hold_piece(const SavedPiece &piece, OpenChunk **out);
  kvc_status read_pieces(Error &error);

  Store &store;
  SaveTable &table;
  io::File &file;
  SequencePtr seq{nullptr, SequenceDelete{nullptr}};
  uint32_t reserved = 0;         // nodes of the index, for chunks
  uint64_t uncounted_bytes = 0;  // of open chunks that will be sealed: meanwhile they are nobody's open rows
  PiecePlan plan;                // what the seal needs beside, where there are pieces
  std::pmr::vector<uint8_t> headers, tails;
  std::pmr::vector<iovec> vectors;
  std::pmr::vector<uint8_t> packed;
};

}  // namespace kvc::store

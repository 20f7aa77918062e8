#pragma once
#include <optional>

#include "store/store.h"

namespace kvc::store {

/// An entry that gets a slot of its own: empty, or a copy of `from`.
struct Store::PieceNeed {
  Piece piece;
  uint64_t at;
  OpenChunk *from;
};

/// What a call will do beside the main pieces.
struct Store::PiecePlan {
  explicit PiecePlan(std::pmr::memory_resource *scratch) : windows(scratch), states(scratch), needs(scratch), made(scratch), replaced(scratch), spares(scratch) {}
  void add(Piece piece, uint64_t at, bool held_stay);
  void own_what_seals(const Sequence &seq, uint64_t sealed);
  void count(const Sequence &seq, uint64_t sealed, uint64_t length);
  void take_over(Store &store, Pieces &pieces);
  void undo(Store &store) const;

  std::pmr::vector<Pieces::Entry> windows, states;  // the lists as the call leaves them; without rows: see needs
  std::pmr::vector<PieceNeed> needs;
  std::pmr::vector<OpenChunk *> made, replaced;  // what goes if the call fails, and what goes if it does not
  std::pmr::vector<OpenChunk *> spares;          // for pieces of chunks that somebody else has sealed
  size_t spare_count = 0;
  uint32_t nodes = 0, nodes_reserved = 0;  // of the index
  uint64_t open_bytes = 0;                 // that stay open after the call
};

/// What a call will have done when it succeeds.
struct Store::AppendPlan {
  AppendPlan(const Sequence &seq, std::pmr::memory_resource *scratch)
      : runs(scratch), filled(scratch), slots(scratch), replaced(scratch), ids_before(seq.ids.size()), open_before(seq.open.size()), names_before(seq.names.size()) {}
  struct Replaced {
    uint64_t index;
    OpenChunk *before;  // still ours
  };
  void adopt(Store &store, Sequence &seq);
  bool parts_from(Store &store, const Sequence &seq, const OpenChunk &open, uint64_t chunk) const;
  void list_slots(Store &store, Sequence &seq);
  kvc_status check_all_fits(const Store &store, const Sequence &seq, uint64_t chunk_bytes, Error &error) const;
  kvc_status check_room(Store &store, const Sequence &seq, Error &error) const;
  /// Of the rows that window layers leave out, those that the latest query sees.
  void note_skip(const Run &run, uint32_t layer);
  kvc_status check_skip(Error &error) const;
  void undo(Store &store, Sequence &seq) const;

  std::pmr::vector<Run> runs;
  std::pmr::vector<uint64_t> filled;
  std::pmr::vector<uint64_t> slots;  // chunks that need one of their own
  std::pmr::vector<Replaced> replaced;  // open chunks that were copied or given up: what stood there comes back if the call fails
  uint64_t skip_seen = 0, skip_to = 0;  // the first position whose query needs no skipped row; where the rows behind it begin
  uint32_t skip_layer = 0, skip_window = 0;
  std::optional<PiecePlan> pieces;  // where the shape has window or state layers
  uint64_t length = 0;
  uint64_t chunk_begin = 0, chunk_end = 0;  // that rows go to
  uint64_t sealed = 0;                      // chunks sealed after the call
  const size_t ids_before, open_before, names_before;
};

}  // namespace kvc::store

#pragma once
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/handle.h"
#include "io/file_system.h"
#include "kvc/kvc.h"
#include "memory/resource.h"
#include "memory/slab.h"
#include "seq/flags_of.h"
#include "seq/index.h"
#include "store/events.h"
#include "store/expiry.h"
#include "store/handover.h"
#include "store/log.h"
#include "store/queue.h"
#include "store/reads.h"
#include "store/region.h"
#include "store/scope.h"
#include "store/sequence.h"
#include "store/trace.h"

/// Where ids meet bytes.  One lock (mutex_) covers the prefix index, scopes and leases; it is taken per call or per chunk, never per row:
/// rows move under pins alone.
namespace kvc::store {

using base::Error;
using seq::Ref;
class ScopeUse;
struct Outcome;
struct TypedPut;
struct SavedPage;
struct SaveTable;
class SaveWriter;
struct PieceRows;
struct SlicePage;

/// What a caller may set beyond kvc_store_options: the seams of tests.
struct Seams {
  const base::Clock *clock = nullptr;  // nullptr: the system's
  const uint8_t *random_seed = nullptr;  // 32 bytes; nullptr: the system's
  uint64_t metadata_bytes_max = UINT64_MAX;
  io::FileSystem *files = nullptr;  // nullptr: the system's
};

/// A hold of its own on chunks and objects.
struct Lease {
  explicit Lease(std::pmr::memory_resource *resource) : refs(resource) {}
  std::pmr::vector<Ref> refs;  // of chunks the last one first
  std::atomic<uint64_t> deadline_ns{0};
  uint64_t tick = 0, chunk_count = 0;
  Table *chunks = nullptr;  // what the pin on the last one holds: the first chunk_count of it
};

struct Metrics {
  std::atomic<uint64_t> match_calls{0}, match_tokens{0}, hit_tokens{0}, gather_bytes{0}, append_bytes{0}, evicted_chunks{0},
      evicted_by_quota{0}, expired{0}, dropped_events{0}, checksum_failures{0}, lapsed_leases{0}, hit_bytes_host{0},
      refused_room{0}, refused_quota{0}, refused_open{0};
};

class Store final : seq::NodeSink {
 public:
  /// `options` complete and checked for sizes by the shim.
  [[nodiscard]] static kvc_status open(uint64_t *token, const char *uri, const kvc_store_options &options, const Seams &seams, Error &error);
  /// Everything of the store becomes stale; frees it.  BUSY, and nothing has happened, while views are held.
  [[nodiscard]] kvc_status close(Error &error);

  [[nodiscard]] kvc_status scope_create(uint64_t *token, const kvc_scope_options &options, Error &error);
  void scope_info(kvc_scope_info &info, Scope &scope);
  void scope_clear(kvc_result &result, Scope &scope);
  [[nodiscard]] kvc_status scope_release(const base::Token &token, Error &error);

  [[nodiscard]] kvc_status seq_create(uint64_t *token, Scope &scope, const kvc_seq_options &options, Error &error);
  [[nodiscard]] kvc_status match(uint64_t *token, kvc_match_info &info, Scope &scope, std::span<const int32_t> tokens,
                                 const kvc_seq_options &options, Error &error);
  [[nodiscard]] kvc_status append(Sequence &seq, std::span<const int32_t> ids, std::span<const kvc_rows> rows, Error &error);
  [[nodiscard]] kvc_status identify(Sequence &seq, std::span<const kvc_extra> extras, Error &error);
  [[nodiscard]] kvc_status gather(kvc_result &result, const Sequence &seq, std::span<const kvc_rows> rows, Error &error);
  [[nodiscard]] kvc_status fork(uint64_t *token, const Sequence &seq, uint64_t tokens, Error &error);
  [[nodiscard]] kvc_status truncate(Sequence &seq, uint64_t tokens, Error &error);
  [[nodiscard]] kvc_status reorder(std::span<Sequence *const> seqs, std::span<const uint32_t> source, Error &error);
  [[nodiscard]] kvc_status compact(Sequence &seq, std::span<const uint64_t> positions, Error &error);
  void seq_info(kvc_seq_info &info, const Sequence &seq);
  /// The handle is held exclusively; ends it.
  void seq_release(Sequence &seq, const base::Token &token);

  [[nodiscard]] kvc_status seq_lease(uint64_t *token, const Sequence &seq, uint64_t token_begin, uint64_t token_count, uint64_t lease_ms, Error &error);
  // save.cpp, restore.cpp
  [[nodiscard]] kvc_status save(const Sequence &seq, const char *path, Error &error);
  [[nodiscard]] kvc_status restore(uint64_t *token, Scope &scope, const char *path, const kvc_seq_options &options, Error &error);

  [[nodiscard]] kvc_status lease_renew(const base::Token &token, uint64_t lease_ms, Error &error);
  [[nodiscard]] kvc_status lease_release(const base::Token &token, Error &error);

  [[nodiscard]] kvc_status hint(Sequence &seq, const kvc_hint &hint, Error &error);
  [[nodiscard]] kvc_status prefetch(kvc_result &result, const Sequence &seq, std::span<const kvc_rows> rows, uint32_t tier, Error &error);
  [[nodiscard]] kvc_status region_register(uint64_t *token, const void *data, uint64_t bytes, uint32_t memory, Error &error);
  [[nodiscard]] kvc_status region_release(const base::Token &token, Error &error);
  [[nodiscard]] kvc_status publish(const Sequence &seq, std::string_view name, uint64_t lease_ms, Error &error);
  [[nodiscard]] kvc_status attach(uint64_t *token, uint64_t *length, Scope &scope, std::string_view name, const kvc_seq_options &options, Error &error);
  [[nodiscard]] kvc_status withdraw(const Scope &scope, std::string_view name, Error &error);

  [[nodiscard]] kvc_status view_acquire(uint64_t *token_out, kvc_rows &rows, const Sequence &seq, uint32_t layer, uint64_t token, uint32_t flags, Error &error);
  [[nodiscard]] kvc_status view_release(const base::Token &token, Error &error);

  [[nodiscard]] kvc_status object_put(kvc_result &result, Scope &scope, std::span<kvc_object> objects, const kvc_object_options &options, Error &error);
  [[nodiscard]] kvc_status object_get(kvc_result &result, ScopeUse &use, std::span<kvc_object> objects, const kvc_object_options &options, Error &error);
  [[nodiscard]] kvc_status object_exists(kvc_result &result, Scope &scope, std::span<kvc_object> objects, const kvc_object_options &options, Error &error);
  [[nodiscard]] kvc_status object_delete(kvc_result &result, Scope &scope, std::span<kvc_object> objects, Error &error);
  [[nodiscard]] kvc_status object_list(kvc_object_entry *entries, size_t capacity, size_t *count, Scope &scope, std::string_view after, Error &error);

  void info(kvc_store_info &info);
  [[nodiscard]] kvc_status verify(kvc_verify_info &info, Error &error);
  void metrics(kvc_metrics &out);
  [[nodiscard]] kvc_status metrics_text(char *text, size_t capacity, size_t *size, Error &error);

  [[nodiscard]] kvc_status event_watch(Queue &queue, const Scope *scope, uint32_t mask, Error &error);
  size_t event_drain(kvc_event *events, size_t capacity, Queue &queue);
  void end_events(const Queue &queue);

  /// A file; null: ends it.
  [[nodiscard]] kvc_status trace_record(const char *path, Error &error);
  Trace &trace() { return trace_; }

  /// For who waits for room: of this moment, after what lapsed was let go.
  RoomSign room_sign();

  /// Background work: drops some of what was not used for its time to live.  True: there may be more.
  bool expire();

  /// Uses of handles by a call: ScopeUse in scope_use.h, SeqUse in api/shim.h.
  base::HandleTable &scopes() { return scope_handles_; }
  base::HandleTable &seqs() { return seq_handles_; }
  base::HandleTable &leases() { return lease_handles_; }
  Queues &queues() { return queues_; }
  /// What a result that nobody drained gave.
  void release_given(const kvc_result &result);
  void scope_unref(Scope *scope);
  /// The lease of a sequence that lapsed is taken up again for what is still held.
  void revive(Sequence &seq, const base::Token &token);
  /// Begins a use: the latest there is.
  void use(const Sequence &seq) { seq.used_tick.store(next_tick(), std::memory_order_relaxed); }
  /// The same for a queued call, whose sequence may have lapsed since it was made, or been released.
  void begin_use(Sequence &seq, const base::Token &token) {
    use(seq);
    if (seq_handles_.lapsed(token)) revive(seq, token);
  }
  /// Ends it: the lease slides.
  void slide(const Sequence &seq) { seq.deadline_ns.store(deadline(seq.lease_ns), std::memory_order_relaxed); }
  std::pmr::memory_resource *resource() { return &resource_; }
  const memory::Resource &metadata() const { return resource_; }

 private:
  Store(const kvc_store_options &options, const Seams &seams, uint32_t slot, uint32_t generation);
  ~Store() override;
  kvc_status init(const kvc_store_options &options, const Seams &seams, Error &error);

  void released(Ref ref, const seq::Node &node, const seq::Owner &owner) noexcept override;
  void name_left(const seq::Node &node, const seq::Owner &owner) noexcept override;
  kvc_status find_or_make_scope(Scope **out, const seq::Name &name, seq::Shape &&shape, Error &error);
  void forget_scope(Scope *scope);

  uint64_t next_tick() { return tick_.fetch_add(1, std::memory_order_relaxed) + 1; }
  uint64_t deadline(uint64_t lease_ns) const;
  /// A slot, evicting the least recently used until there is room.  FULL when all that is left is held.
  kvc_status take_slot(memory::SlotId *slot, uint64_t bytes, Error &error);
  /// The same for a scope: first its quota, for which it evicts its own.
  kvc_status take_slot(memory::SlotId *slot, QuotaHold *quota, uint64_t bytes, Scope &scope, Error &error);

  bool evict_for_room();
  /// FULL for what open chunks hold: told to the log and counted.
  kvc_status open_refused(const Error &error);

  // quota.cpp
  kvc_status count_slot(QuotaHold *quota, uint64_t bytes, Scope &scope, Error &error);
  bool evict_over_quota(Scope &scope, uint64_t bytes);
  bool is_over_quota(Scope &scope, uint64_t bytes);
  void shrink(Scope &scope);

  // metrics.cpp
  static constexpr size_t scope_labels_max = 64;
  struct ScopeSample;
  size_t sample_scopes(std::span<ScopeSample, scope_labels_max + 1> samples);

  // events.cpp
  EventRing *ring_of(const Queue &queue) const;
  void tell(const Event &event, std::span<const int32_t> ids);
  void tell_stored(const Sequence &seq, Ref ref, uint64_t chunk);

  // expiry.cpp
  /// Around a call on what a scope holds: what expired is gone before it, and what it uses was used by its end.
  class Aging {
   public:
    Aging(Store &owner, Scope &scope);
    ~Aging();
    Aging(const Aging &) = delete;
    Aging &operator=(const Aging &) = delete;

   private:
    Store *store_ = nullptr;  // null: nothing here ages
  };
  int expire_objects(uint64_t now_ns, int left);
  int expire_scope(Scope &scope, uint64_t now_ns, int left);
  bool expire_some(uint64_t now_ns);
  bool expire_for_room(uint64_t now_ns);
  void note_age();
  void add_own_ttl(Ref ref, uint64_t ttl_ms, Scope &scope);
  void begin_limits(Scope &scope, const kvc_scope_options &options);
  void end_limits(Scope &scope);
  void set_limits(Scope &scope, const kvc_scope_options &options);

  /// Tells the log of lapses, when the lock that was taken after it is free again.
  struct LapsesToLog {
    Store &store;
    ~LapsesToLog() { store.log_lapses(); }
  };
  void log_lapses();
  void checksum_failed(const char *what);
  /// Unpins what lapsed, and tells who waits for room; under the lock.  True: slots were given back.
  bool reap(uint64_t now_ns);

  // sequence.cpp
  using SequencePtr = std::unique_ptr<Sequence, SequenceDelete>;
  kvc_status make_sequence(SequencePtr *out, Scope &scope, const kvc_seq_options &options, Error &error);
  kvc_status add_sequence(uint64_t *token, SequencePtr seq, Error &error);
  SequencePtr copy_of(const Sequence &from);
  kvc_status add_handle(uint64_t *token, Sequence &seq, Error &error);
  void drop_open(Sequence &seq, uint64_t keep);
  void let_go(Sequence &seq);
  void drop_sequence(Sequence *seq);
  void open_chunk_unref(OpenChunk *open);
  void table_unref(Table *table);
  void pin_tip(Sequence &seq);
  uint64_t leading_held(const Sequence &seq) const;
  uint64_t leading_named(const Sequence &seq) const;
  bool lapse(Sequence &seq);
  void take_up(Sequence &seq);
  kvc_status check_ids(const Sequence &seq, uint64_t chunk, Error &error);
  kvc_status reopen(Sequence &seq, uint64_t chunk, uint64_t rows, Error &error);

  struct Cut;
  struct PiecePlan;
  // rearrange.cpp
  kvc_status copy_kept(uint8_t *to, const Sequence &from, std::span<const uint64_t> kept, Error &error);
  void keep_ids(Sequence &to, const Sequence &from, std::span<const uint64_t> positions, uint64_t shared);
  kvc_status check_open_room(const Sequence &from, Error &error);
  kvc_status compact_into(Sequence &made, const Sequence &from, std::span<const uint64_t> positions, PiecePlan &plan, Error &error);
  // compact_windows.cpp
  kvc_status keep_window(Cut &cut, const Sequence &from, uint64_t chunk, uint64_t count, std::span<const uint64_t> filled, Error &error);
  kvc_status copy_window_kept(OpenChunk &to, const Sequence &made, const Sequence &from, std::span<const uint64_t> positions, uint64_t chunk, Error &error);
  kvc_status compact_windows(Sequence &made, const Sequence &from, std::span<const uint64_t> positions, uint64_t shared, PiecePlan &plan, Error &error);

  // foresight.cpp
  kvc_status check_there(const Sequence &seq, const Run &run, uint64_t token, uint64_t end, Error &error);

  // handover.cpp
  void handover_unref(Handover *handover);
  bool reap_handovers(uint64_t now_ns, uint64_t *next_ns);

  // match.cpp
  struct Walk;
  bool walk_held(const Sequence &seq, Walk &walk);
  kvc_status end_by_pieces(SequencePtr &seq, kvc_match_info &info, bool peek, Error &error);

  // append.cpp, seal.cpp
  struct AppendPlan;
  struct PieceNeed;
  kvc_status check_fits(uint64_t chunks, const Scope &scope, const ChunkLayout &layout, Error &error) const;
  kvc_status plan_append(AppendPlan &plan, Sequence &seq, uint64_t given, Error &error);
  kvc_status reserve_append(AppendPlan &plan, Sequence &seq, Error &error);
  kvc_status reserve_chunk(AppendPlan &plan, Sequence &seq, uint64_t chunk, Error &error);
  kvc_status open_slot(OpenChunk **out, const Sequence &seq, const ChunkLayout &layout, Error &error);
  kvc_status materialize(AppendPlan &plan, Sequence &seq, uint64_t chunk, Error &error);
  void copy_run(Sequence &seq, const Run &run);
  bool append_in_place(Sequence &seq, std::span<const int32_t> ids, const Run &run);
  void copy_piece(Sequence &seq, const Run &run, uint32_t layer, uint64_t token, uint64_t count, bool stream);
  /// Names the open chunks up to `chunk`; false, and nothing done, when ids of it are missing or the sequence is private.
  bool name_chunk(Sequence &seq, uint64_t chunk);
  void seal(Sequence &seq, uint64_t sealed, PiecePlan *pieces);
  bool waits_for_snapshot(const Sequence &seq, uint64_t chunk);
  void seal_or_wait(Sequence &seq, AppendPlan &plan);
  void commit(Sequence &seq, OpenChunk &open, uint64_t chunk, PiecePlan *pieces);
  void write_chunk(const Sequence &seq, OpenChunk &open, uint64_t chunk, const seq::Name &name);
  void write_headers(const Sequence &seq, const ChunkLayout &layout, uint8_t *slot, const uint8_t *write_id, const seq::Name &name);
  void draw_write_id(uint8_t *out);

  // pieces.cpp: rows of window layers and snapshots coming in
  void plan_pieces(AppendPlan &plan, const Sequence &seq);
  kvc_status reserve_pieces(AppendPlan &plan, Sequence &seq, Error &error);
  kvc_status make_piece(PiecePlan &plan, const PieceNeed &need, const Sequence &seq, Error &error);
  void copy_pieces(Sequence &seq, const Run &run);
  void copy_window(Sequence &seq, const Run &run, uint32_t layer, bool stream);
  void settle_pieces(Sequence &seq, PiecePlan &plan);
  bool seal_piece(Sequence &seq, OpenChunk &rows, Piece piece, uint64_t chunk);
  void drop_passed(Sequence &seq);
  bool serves(const Sequence &seq, Ref chunk, uint64_t number, uint64_t length, bool brings_snapshot) const;
  bool brings_snapshot(const Sequence &seq, uint64_t chunk) const;
  void use_pieces_of(Sequence &seq, PiecePlan &plan, Ref chunk, uint64_t number);
  void use_piece_of(OpenChunk &rows, Ref piece);
  void use_snapshot_of(Sequence &seq, Ref chunk, uint64_t number);

  // piece_slices.cpp: rows of pieces wherever they lie
  PieceRows rows_of(Ref piece) const;
  PieceRows rows_of(const OpenChunk *rows) const;
  uint32_t left_out(const Sequence &seq, PieceRows rows, uint32_t layer, uint32_t head_begin = 0, uint32_t head_count = 0) const;
  bool snapshot_whole(const Sequence &seq, PieceRows rows) const;
  void copy_piece_rows(uint8_t *to, const Sequence &seq, const ChunkLayout &layout, PieceRows from);
  bool brings_pages(const Sequence &seq, const ChunkLayout &layout, uint8_t *slot, PieceRows held, bool *shared_held) const;
  void note_complete(const Scope &scope, Ref piece);
  void join_piece(Sequence &seq, OpenChunk &rows, Piece piece, uint64_t chunk, Ref held);

  // cut.cpp: where a sequence with such layers can end, and what it then holds of them
  bool covers(const Sequence &seq, PieceRows rows, uint64_t chunk, uint64_t end, std::span<const uint64_t> filled) const;
  static bool may_bring(const Sequence &seq, uint64_t chunk);
  PieceRows window_rows(const Sequence &seq, std::span<const Ref> refs, uint64_t chunk, Ref *piece) const;
  uint64_t window_missing(const Sequence &seq, std::span<const Ref> refs, uint64_t end, bool as_match) const;
  uint64_t pieces_end(const Sequence &seq, std::span<const Ref> refs, uint32_t *stop) const;
  bool states_at(const Sequence &seq, uint64_t tokens, Ref *piece) const;
  kvc_status plan_cut(Cut &cut, const Sequence &seq, uint64_t tokens, Error &error);
  void apply_cut(Cut &cut, Sequence &seq);
  void match_pieces(Sequence &seq, uint32_t *stop);
  uint64_t truncate_end(const Sequence &seq) const;
  uint64_t left_of_pieces(const Sequence &seq, uint64_t held) const;

  // gather_beside.cpp
  struct PieceUse;
  kvc_status use_piece(PieceUse &use, const Sequence &seq, Piece piece, uint64_t at, Error &error);
  kvc_status use_beside(PieceUse &use, uint64_t *skipped, const Sequence &seq, uint32_t layer, uint64_t token, uint32_t flags, Error &error);
  void hold_for_view(Ref ref, OpenChunk *open, Scope &scope);
  void let_go_of_view(OpenChunk *open);
  kvc_status gather_beside(const Sequence &seq, const Run &run, uint64_t token, uint64_t row, uint64_t count, bool stream, Error &error);

  // slices.cpp: chunks in parts
  kvc_status find_part(const Part **out, Scope &scope, const kvc_seq_options &options, Error &error);
  /// Do the pages of the sequence's part lie elsewhere in this chunk than its own layout says?
  bool is_sliced(const Sequence &seq, Ref ref) const { return !seq.part->is_whole() || (seq::flags_of(index_->node(ref)) & seq::node_sliced); }
  /// Are all pages of the part there?  Under the lock.
  bool has_part(const Scope &scope, Ref ref, const Part &part) const { return !(index_->node(ref).flags & seq::node_partial) || has_pages_of(scope, index_->node(ref), part); }
  static bool has_pages_of(const Scope &scope, const seq::Node &node, const Part &part);
  Slice *split_slice(const Slice &whole, Piece piece);
  void join_slice(OpenChunk &open, Ref ref, Scope &scope, bool shared_held);
  bool is_of_writer(const Sequence &seq, const OpenChunk &open, Ref ref) const;
  Ref find_now(const seq::Name &name, Ref parent);
  bool adopts(const Sequence &seq, Ref chunk, const uint8_t *sisters_id) const;
  void add_slice(const Sequence &seq, OpenChunk &open, Ref ref, uint64_t chunk);
  void release_slices(Scope &scope, const seq::Node &node) noexcept;
  uint64_t held_bytes(Ref ref) const;
  const uint8_t *head_rows(const Sequence &seq, Ref held, uint8_t *slot, uint32_t layer, SideKind kind, uint32_t head) const;
  kvc_status check_chunk(const Sequence &seq, Ref ref, uint64_t token, Error &error);
  kvc_status gather_slices(const Sequence &seq, const Run &run, Ref ref, const kernels::Move &move, uint64_t row, Error &error);
  bool keep_waiting(Sequence &seq);
  bool reap_waiting(uint64_t now_ns, const Scope *scope, uint64_t *next_ns);
  /// All of them at once, of a scope (null: of any).
  bool end_waiting(const Scope *scope) {
    uint64_t next_ns = 0;
    return waiting_ && reap_waiting(UINT64_MAX, scope, &next_ns);
  }

  // lease.cpp
  void lease_pieces(Lease &lease, const Sequence &seq, uint64_t chunks);
  bool is_leased(Ref chunk, uint64_t number);
  void destroy_lease(Lease *lease);
  kvc_status add_lease(uint64_t *token, Lease *lease, uint64_t lease_ms, Error &error);

  // save.cpp, save_pieces.cpp, restore.cpp, restore_pieces.cpp
  kvc_status describe_chunk(SaveTable &table, const Sequence &seq, uint64_t chunk, Error &error);
  kvc_status describe_waiting(SaveTable &table, const Sequence &seq, uint64_t chunk, Error &error);
  struct PiecesOut;
  kvc_status write_id_of(std::array<uint8_t, 16> &out, const Sequence &seq, uint64_t chunk, Ref held, Error &error);
  kvc_status describe(SaveTable &table, PiecesOut &out, const Sequence &seq, Error &error);
  void list_pieces(PiecesOut &out, const Sequence &seq, Piece kind);
  kvc_status describe_pieces(SaveTable &table, PiecesOut &out, const Sequence &seq, Error &error);
  kvc_status check_held_page(const Sequence &seq, Ref held, uint32_t layer, uint64_t token, Error &error);
  void pack_page(uint8_t *to, const SaveTable &table, const SavedPage &page, const Sequence &seq, uint8_t *slot, Ref held) const;
  kvc_status save_page(SaveWriter &writer, const SaveTable &table, const SavedPage &page, const Sequence &seq, uint8_t *slot, Ref held, Error &error);
  kvc_status save_chunk(SaveWriter &writer, const SaveTable &table, const Sequence &seq, uint64_t chunk, Error &error);
  kvc_status save_piece(SaveWriter &writer, const SaveTable &table, const Sequence &seq, size_t piece, const PiecesOut &out, Error &error);
  struct Restoring;
  void seal_restored(Sequence &seq, const SaveTable &table, PiecePlan *plan);
  void settle_restored(Sequence &seq, const SaveTable &table, PiecePlan &plan);

  // gather.cpp
  kvc_status chunk_data(uint8_t **data, const Sequence &seq, uint64_t chunk, Error &error);
  kvc_status gather_piece(const Sequence &seq, const Run &run, uint64_t token, uint64_t row, uint64_t count, bool stream, Error &error);
  kvc_status gather_runs(kvc_result &result, const Sequence &seq, std::span<const Run> runs, bool stream, Error &error);
  kvc_status gather_lists(kvc_result &result, const Sequence &seq, std::span<const Run> runs, bool stream, Error &error);
  kvc_status verify_page(const Part &part, Ref ref, const uint8_t *slot, uint32_t layer, Error &error);

  // object.cpp
  struct Prepared;
  static void prepare_names(std::span<const kvc_object> objects);
  static void object_index_name(seq::Name &out, const Scope &scope, std::string_view key);
  kvc_status prepare_layout(TypedPut &out, const kvc_rows &layout, const Scope &scope, Error &error);
  kvc_status prepare_object(Prepared &out, const kvc_object &object, const TypedPut *typed, Scope &scope, const void *next, Error &error);
  void give_slot(Prepared &item, Scope &scope);
  kvc_status insert_object(Ref *ref, Prepared &prepared, const kvc_object &object, Scope &scope, uint32_t node_flags, Error &error);
  kvc_status compare_object(Ref pinned, const kvc_object &object, uint64_t bytes, Error &error);
  struct Puts;
  void look_up(Puts &puts, const Scope &scope);
  size_t copy_in(Puts &puts, Scope &scope);
  bool unpin_after(Puts &puts, size_t item);
  void finish_put(Puts &puts, size_t count, Scope &scope);
  void drop_object(Ref ref);
  struct Group;
  kvc_status prepare_group(Group &group, std::span<kvc_object> objects, Error &error);
  kvc_status insert_group(Group &group, std::span<kvc_object> objects, Error &error);
  kvc_status put_group(kvc_result &result, Scope &scope, std::span<kvc_object> objects, const TypedPut *typed, uint64_t ttl_ms, Error &error);

  // object_read.cpp
  struct Wanted;
  Reads::Read &begin_read(std::span<Wanted> wanted, const kvc_object *ahead);
  const seq::Node *right_node(Reads::Read &read, const Wanted &wanted);
  kvc_status read_object(kvc_object &object, Reads::Read &read, const Wanted &wanted, const uint8_t *next, Error &error);
  void get_group(Outcome &outcome, ScopeUse &use, std::span<kvc_object> objects, bool leading, bool last);
  void order_keys(Scope &scope);

  // inspect.cpp
  struct Pinned;
  kvc_status verify_object(const seq::Node &node, Error &error);
  void verify_node(const Pinned &node, kvc_verify_info &info);

  // view.cpp
  kvc_status whole_page(SlicePage &out, const Sequence &seq, Ref ref, uint32_t flags, Error &error);

  /// A node's payload is the address of its slot, which stays while the node lives.
  static uint8_t *slot_data(const seq::Node &node) { return reinterpret_cast<uint8_t *>(node.payload); }
  static seq::Owner owner_of(memory::SlotId slot, const Scope &scope) { return {static_cast<uint64_t>(slot.generation) << 32 | slot.index, scope.id}; }
  static memory::SlotId slot_id(const seq::Owner &owner) { return {static_cast<uint32_t>(owner.slot), static_cast<uint32_t>(owner.slot >> 32)}; }

  memory::Resource resource_;
  const base::Clock &clock_;
  io::FileSystem &files_;
  const uint32_t slot_, seq_max_;
  memory::Slab slab_;
  base::HandleTable scope_handles_, seq_handles_, lease_handles_, view_handles_, region_handles_;
  Queues queues_;
  uint32_t store_generation_;

  std::mutex mutex_;
  std::optional<seq::Index> index_;
  Reads reads_;
  Log log_;
  Trace trace_;
  std::atomic<uint64_t> lapses_logged_{0};
  Expiry expiry_;
  std::pmr::vector<EventRing *> rings_;
  bool clearing_ = false;
  std::pmr::map<seq::Name, Scope *> scopes_by_name_;
  std::pmr::vector<Scope *> scopes_by_id_;
  uint32_t scope_id_free_ = 0;  // none below it
  std::pmr::map<HandoverName, Handover *> handovers_{&resource_};
  Regions regions_{&resource_};
  uint64_t next_lapse_ns_ = 0;
  Sequence *waiting_ = nullptr;  // released ones whose last chunk waits for other parts
  uint32_t waiting_count_ = 0;
  uint8_t write_id_seed_[32];

  std::atomic<uint64_t> tick_{0}, open_bytes_{0}, write_id_count_{0}, gather_bytes_per_ms_{0};
  uint64_t lease_ns_ = 0, open_bytes_max_ = 0;
  bool verify_reads_ = false;
  Metrics metrics_;
};

}  // namespace kvc::store

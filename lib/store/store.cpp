#include "store/store.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/random.h"
#include "memory/limit.h"
#include "store/memory.h"
#include "store/object.h"

namespace kvc::store {

using base::fail;

namespace {

constexpr uint64_t kSeqMax = 4096, kViewMax = 4096, kLeaseMs = 10000;
constexpr uint32_t kWorkerMax = 1024;
constexpr uint32_t kOpenFlagsKnown = 511, kOpenFlagsBuilt = KVC_OPEN_HOST_DRIVEN | KVC_OPEN_WAIT | KVC_OPEN_ZERO | KVC_OPEN_POPULATE | KVC_OPEN_VERIFY_READS;
constexpr const char *kOpenFlagNames[] = {"KVC_OPEN_HOST_DRIVEN", "KVC_OPEN_WAIT", "KVC_OPEN_CREATE", "KVC_OPEN_READ_ONLY", "KVC_OPEN_REQUIRE", "KVC_OPEN_SECURE",
                                          "KVC_OPEN_ZERO", "KVC_OPEN_POPULATE", "KVC_OPEN_VERIFY_READS"};

/// What this build cannot do is refused by name, never ignored.
kvc_status check_options(const char *uri, const kvc_store_options &o, Error &error) {
  if (!uri) return fail(error, KVC_ERR_ARGUMENT, "uri is NULL: \"mem:\", \"file:DIR\" or \"kvc://host:port\" is needed");
  const std::string_view name(uri);
  if (name.starts_with("file:") || name.starts_with("kvc://")) return fail(error, KVC_ERR_UNSUPPORTED, "uri \"%.100s\": this build has \"mem:\" only", uri);
  if (name != "mem:") return fail(error, KVC_ERR_ARGUMENT, "uri \"%.100s\": neither \"mem:\" nor \"file:DIR\" nor \"kvc://host:port\"", uri);
  if (o.flags & ~kOpenFlagsKnown) return fail(error, KVC_ERR_TOO_NEW, "flags 0x%x: unknown bits", o.flags & ~kOpenFlagsKnown);
  if (const uint32_t unbuilt = o.flags & ~kOpenFlagsBuilt) return fail(error, KVC_ERR_UNSUPPORTED, "flags 0x%x: %s is not built yet", o.flags, kOpenFlagNames[std::countr_zero(unbuilt)]);
  const struct {
    const char *name;
    bool set;
  } later[] = {{"nvme_bytes", o.nvme_bytes != 0}, {"device_bytes", o.device_bytes != 0}, {"connect_timeout_us", o.connect_timeout_us != 0}, {"directory", o.directory != nullptr},
               {"tenant", o.tenant != nullptr}, {"key_file", o.key_file != nullptr}, {"certificate_file", o.certificate_file != nullptr},
               {"authority_file", o.authority_file != nullptr}, {"providers", o.providers != nullptr}, {"copies", o.copies != 0},
               {"copies_acked", o.copies_acked != 0}, {"resident_summary", o.resident_summary != 0}, {"precision", o.precision != nullptr}};
  for (const auto &option : later)
    if (option.set) return fail(error, KVC_ERR_UNSUPPORTED, "%s: not built yet for \"mem:\"", option.name);
  if (o.log_level > 4) return fail(error, KVC_ERR_ARGUMENT, "log_level %u: 1 error, 2 warning, 3 information, 4 debugging", o.log_level);
  if (o.seq_max > base::HandleTable::kIndexMax) return fail(error, KVC_ERR_ARGUMENT, "seq_max %u: at most %u", o.seq_max, base::HandleTable::kIndexMax);
  if (o.view_max > base::HandleTable::kIndexMax) return fail(error, KVC_ERR_ARGUMENT, "view_max %u: at most %u", o.view_max, base::HandleTable::kIndexMax);
  if (o.queue_max > base::HandleTable::kIndexMax) return fail(error, KVC_ERR_ARGUMENT, "queue_max %u: at most %u", o.queue_max, base::HandleTable::kIndexMax);
  if (o.worker_count > kWorkerMax) return fail(error, KVC_ERR_ARGUMENT, "worker_count %u: at most %u", o.worker_count, kWorkerMax);
  return KVC_OK;
}

}  // namespace

Store::Store(const kvc_store_options &o, const Seams &seams, uint32_t slot, uint32_t generation)
    : resource_(seams.metadata_bytes_max), clock_(seams.clock ? *seams.clock : base::system_clock()), files_(seams.files ? *seams.files : io::posix()), slot_(slot), seq_max_(o.seq_max ? o.seq_max : kSeqMax),
      scope_handles_(base::HandleKind::scope, slot, base::HandleTable::kIndexMax, generation, &resource_),
      seq_handles_(base::HandleKind::seq, slot, seq_max_, generation, &resource_),
      lease_handles_(base::HandleKind::lease, slot, base::HandleTable::kIndexMax, generation, &resource_),
      view_handles_(base::HandleKind::view, slot, o.view_max ? o.view_max : kViewMax, generation, &resource_),
      region_handles_(base::HandleKind::region, slot, base::HandleTable::kIndexMax, generation, &resource_), queues_(*this, &resource_, clock_, o, slot, generation), store_generation_(generation),
      reads_(&resource_), log_(o, clock_), trace_(&resource_), expiry_(&resource_), rings_(&resource_), scopes_by_name_(&resource_), scopes_by_id_(&resource_) {}

Store::~Store() = default;

kvc_status Store::init(const kvc_store_options &o, const Seams &seams, Error &error) {
  const uint64_t bytes = o.memory_bytes ? o.memory_bytes : memory::default_memory_bytes();
  KVC_TRY(slab_.open({bytes, (o.flags & KVC_OPEN_POPULATE) != 0}, (o.flags & KVC_OPEN_ZERO) != 0, resource_, error));
  lease_ns_ = base::ns_of_ms(o.lease_ms ? o.lease_ms : kLeaseMs);
  open_bytes_max_ = o.open_bytes_max ? o.open_bytes_max : slab_.capacity_bytes() / 4;
  verify_reads_ = (o.flags & KVC_OPEN_VERIFY_READS) != 0;
  seq::NameHash hash;
  static_assert(sizeof hash.secret == sizeof write_id_seed_);
  if (seams.random_seed) {
    std::memcpy(write_id_seed_, seams.random_seed, sizeof write_id_seed_);
    std::memcpy(hash.secret.data(), seams.random_seed, sizeof hash.secret);
  } else {
    KVC_TRY(base::random_fill(write_id_seed_, sizeof write_id_seed_, error));
    KVC_TRY(base::random_fill(hash.secret.data(), sizeof hash.secret, error));
  }
  index_.emplace(&resource_, static_cast<seq::NodeSink *>(this), hash);
  return KVC_OK;
}

kvc_status Store::open(uint64_t *token, const char *uri, const kvc_store_options &options, const Seams &seams, Error &error) {
  KVC_TRY(check_options(uri, options, error));
  uint32_t slot, generation;
  KVC_TRY(base::store_slot_take(&slot, &generation, error));
  Store *store = nullptr;
  kvc_status status;
  try {
    store = new Store(options, seams, slot, generation);
    status = store->init(options, seams, error);
  } catch (const std::bad_alloc &) {
    status = fail(error, KVC_ERR_NO_MEMORY, "opening a store: the system refused memory");
  }
  if (status != KVC_OK) {
    delete store;
    base::store_slot_give(slot, generation);
    return status;
  }
  base::Token t;
  t.kind = base::HandleKind::store;
  t.process = base::process_tag();
  t.store = slot;
  t.generation = generation;
  base::store_slot_publish(slot, store, generation);
  store->log_.line(Log::information, Log::Cause::store, "opened \"%s\": memory_bytes %llu, seq_max %u, open_bytes_max %llu, lease_ms %llu", uri,
                   static_cast<unsigned long long>(store->slab_.capacity_bytes()), store->seq_max_, static_cast<unsigned long long>(store->open_bytes_max_),
                   static_cast<unsigned long long>(store->lease_ns_ / 1000000u));
  *token = base::token_pack(t);
  return KVC_OK;
}

kvc_status Store::close(Error &error) {
  const uint32_t views = view_handles_.live_count(), regions = region_handles_.live_count();
  if (views || regions) return fail(error, KVC_ERR_BUSY, "%u view%s and %u region%s are held: release them first", views, views == 1 ? "" : "s", regions, regions == 1 ? "" : "s");
  queues_.close();
  log_lapses();
  log_.line(Log::information, Log::Cause::store, "closed: it held %llu chunks and %llu objects in %llu of %llu bytes; %llu of %llu tokens were found, %llu chunks and objects evicted",
            static_cast<unsigned long long>(index_->chunk_count()), static_cast<unsigned long long>(index_->object_count()), static_cast<unsigned long long>(slab_.used_bytes()),
            static_cast<unsigned long long>(slab_.capacity_bytes()), static_cast<unsigned long long>(metrics_.hit_tokens), static_cast<unsigned long long>(metrics_.match_tokens),
            static_cast<unsigned long long>(metrics_.evicted_chunks));
  log_.end();
  const auto next = std::max({queues_.handles().next_generation(), scope_handles_.next_generation(), seq_handles_.next_generation(), lease_handles_.next_generation(), view_handles_.next_generation(), region_handles_.next_generation(), store_generation_ + 1});
  base::store_slot_give(slot_, next);
  const auto forget = [this](Sequence *seq) {
    seq->each_open([this](OpenChunk &open) {
      if (open.users.fetch_sub(1) == 1) destroy(&resource_, &open);
    });
    table_unref(seq->table);
    SequenceDelete{&resource_}(seq);
  };
  seq_handles_.each([&](uint32_t, void *object) { forget(static_cast<Sequence *>(object)); });
  for (const auto &[name, handover] : handovers_) {
    forget(handover->snapshot);
    destroy(&resource_, handover);
  }
  while (Sequence *waiting = waiting_) {
    waiting_ = waiting->later;
    forget(waiting);
  }
  lease_handles_.each([this](uint32_t, void *object) { destroy_lease(static_cast<Lease *>(object)); });
  for (EventRing *ring : rings_) destroy(&resource_, ring);
  for (Scope *scope : scopes_by_id_) destroy(&resource_, scope);  // null entries too
  delete this;
  return KVC_OK;
}

uint64_t Store::deadline(uint64_t lease_ns) const {
  if (lease_ns == KVC_FOREVER) return KVC_FOREVER;
  const uint64_t now = clock_.now_ns();
  return now > UINT64_MAX - 1 - lease_ns ? KVC_FOREVER - 1 : now + lease_ns;
}

void Store::release_given(const kvc_result &result) {
  void *object;
  if (const base::Token seq = base::token_unpack(reinterpret_cast<uint64_t>(result.seq)); result.seq && seq_handles_.enter_exclusive(&object, seq) == KVC_OK)
    seq_release(*static_cast<Sequence *>(object), seq);
  Error stale;
  if (result.lease) (void)lease_release(base::token_unpack(reinterpret_cast<uint64_t>(result.lease)), stale);
}

void Store::released(Ref ref, const seq::Node &node, const seq::Owner &owner) noexcept {
  const memory::SlotId slot = slot_id(owner);
  Scope &scope = *scopes_by_id_[owner.scope];
  scope.settle(clock_.now_ns());
  scope.bytes_host -= slab_.bytes(slot);
  if (node.flags & seq::node_sliced) release_slices(scope, node);
  if (node.flags & seq::node_object) {
    scope.object_count--;
    if (!(node.flags & seq::node_dropped) && scope.key_order.made()) scope.key_order.erase(object_key(slot_data(node)), ref);
  } else {
    (node.flags & seq::node_piece ? scope.piece_count : scope.chunk_count)--;
  }
  slab_.give(slot);
  forget_scope(&scope);
}

bool Store::reap(uint64_t now_ns) {
  if (now_ns < next_lapse_ns_) return false;
  uint64_t next = UINT64_MAX;
  const uint64_t lapsed_before = metrics_.lapsed_leases.load(std::memory_order_relaxed);
  seq_handles_.each([&](uint32_t i, void *object) {
    auto *seq = static_cast<Sequence *>(object);
    const uint64_t deadline = seq->deadline_ns.load(std::memory_order_relaxed);
    if (deadline > now_ns) {
      next = std::min(next, deadline);
    } else if (seq_handles_.mark_lapsed(i)) {
      const bool used = seq->deadline_ns.load(std::memory_order_relaxed) > now_ns;  // between the look and the mark
      if (used || !lapse(*seq)) return seq_handles_.clear_lapsed(i);
      if (expiry_.any()) expiry_.ages.note_late(seq->used_tick.load(std::memory_order_relaxed), deadline - seq->lease_ns, now_ns);
      metrics_.lapsed_leases.fetch_add(1, std::memory_order_relaxed);
    } else if (seq_handles_.in_use(i)) {
      next = now_ns;
    }
  });
  lease_handles_.each([&](uint32_t i, void *object) {
    auto *lease = static_cast<Lease *>(object);
    const uint64_t deadline = lease->deadline_ns.load(std::memory_order_relaxed);
    if (deadline > now_ns) {
      next = std::min(next, deadline);
    } else if (lease_handles_.mark_lapsed(i)) {
      for (const Ref ref : lease->refs) index_->unpin(ref, lease->tick, false);
      metrics_.lapsed_leases.fetch_add(1, std::memory_order_relaxed);
    }
  });
  const bool gave_back = reap_handovers(now_ns, &next) | reap_waiting(now_ns, nullptr, &next);
  // A use that slides its lease only moves a deadline later; a new lease ends no sooner than the shortest there can be, so a look now and
  // then is enough.
  next_lapse_ns_ = std::min(next, now_ns + 1000000u);
  if (gave_back || metrics_.lapsed_leases.load(std::memory_order_relaxed) != lapsed_before) queues_.room_freed();
  return gave_back;
}

RoomSign Store::room_sign() {
  const LapsesToLog lapses{*this};
  std::lock_guard lock(mutex_);
  reap(clock_.now_ns());
  reads_.settle(*index_);
  return {index_->let_go_count(), metrics_.lapsed_leases.load(std::memory_order_relaxed), slab_.used_bytes(), open_bytes_.load(std::memory_order_relaxed)};
}

kvc_status Store::take_slot(memory::SlotId *slot, uint64_t bytes, Error &error) {
  kvc_status status = KVC_OK;
  if (bytes > slab_.capacity_bytes())  // before anything is evicted for it
    status = base::fail_never(error, KVC_ERR_FULL, "%llu bytes are needed: memory_bytes is %llu; open the store with more memory_bytes", static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(slab_.capacity_bytes()));
  while (status == KVC_OK) {
    status = slab_.take(slot, bytes, error);
    if (status != KVC_ERR_FULL) return status;
    if (evict_for_room()) status = KVC_OK;
    else
      status = fail(error, KVC_ERR_FULL, "%llu bytes are needed: %llu of %llu are in use, all of them open or leased", static_cast<unsigned long long>(bytes),
                    static_cast<unsigned long long>(slab_.used_bytes()), static_cast<unsigned long long>(slab_.capacity_bytes()));
  }
  metrics_.refused_room.fetch_add(1, std::memory_order_relaxed);
  log_.line(Log::warning, Log::Cause::full, "%s", error.message);
  return status;
}

kvc_status Store::open_refused(const Error &error) {
  metrics_.refused_open.fetch_add(1, std::memory_order_relaxed);
  log_.line(Log::warning, Log::Cause::full, "%s", error.message);
  return KVC_ERR_FULL;
}

/// What expired, or the least recently used.  False: everything left is held.
bool Store::evict_for_room() {
  const TraceSpan span(trace_, "evict");
  const LapsesToLog lapses{*this};
  std::lock_guard lock(mutex_);
  const uint64_t now_ns = clock_.now_ns();
  if (reap(now_ns)) return true;
  reads_.settle(*index_);
  if (expire_for_room(now_ns)) return true;
  if (!index_->evict()) return end_waiting(nullptr);
  metrics_.evicted_chunks.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Store::log_lapses() {
  const uint64_t all = metrics_.lapsed_leases.load(std::memory_order_relaxed);
  if (all == lapses_logged_.load(std::memory_order_relaxed)) return;
  const uint64_t more = all - std::min(all, lapses_logged_.exchange(all, std::memory_order_relaxed));
  if (more) log_.line(Log::warning, Log::Cause::lapsed, "%llu lease%s lapsed: a host that still needs what they held has to call within lease_ms", static_cast<unsigned long long>(more), more == 1 ? "" : "s");
}

void Store::checksum_failed(const char *what) {
  metrics_.checksum_failures.fetch_add(1, std::memory_order_relaxed);
  log_.line(Log::error, Log::Cause::checksum, "%s failed its check and was dropped: memory may be damaged", what);
}

kvc_status Store::trace_record(const char *path, Error &error) {
  const kvc_status status = path ? trace_.start(path, error) : trace_.stop(error);
  if (status != KVC_OK) log_.line(Log::error, Log::Cause::trace, "trace: %s", error.message);
  return status;
}

}  // namespace kvc::store

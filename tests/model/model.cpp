#include "model.h"

#include <algorithm>

#include "store/store.h"

namespace kvc::model {
namespace {

constexpr uint64_t kLeaseMs = 1000;
constexpr size_t kSeqs = 12, kLeases = 6;

/// An options struct with its extras.
struct SeqOptions {
  SeqOptions(const Identity &identity, bool is_private, uint64_t lease_ms, uint64_t tokens_max = 0) {
    KVC_INIT(&options);
    for (const Extra &e : identity.extras) extras.push_back({e.begin, e.count, e.data.data(), e.data.size()});
    options.flags = is_private ? static_cast<uint32_t>(KVC_SEQ_PRIVATE) : 0;
    options.lease_ms = lease_ms;
    options.tokens_max = tokens_max;
    options.first_position = identity.first_position;
    options.extras = extras.data();
    options.extra_count = extras.size();
  }
  kvc_seq_options options;
  std::vector<kvc_extra> extras;
};

}  // namespace

Model::Model(const Options &options) : options_(options), random_(options.seed) {
  KVC_INIT(&error_);
  kvc_store_options o;
  KVC_INIT(&o);
  o.memory_bytes = options.memory_bytes;
  o.open_bytes_max = options.memory_bytes;
  o.lease_ms = kLeaseMs;
  o.seq_max = kSeqs + 1;
  o.flags = (options.verify_reads ? static_cast<uint32_t>(KVC_OPEN_VERIFY_READS) : 0) | (options.seed % 2 ? static_cast<uint32_t>(KVC_OPEN_ZERO) : 0);
  uint8_t seed[32] = {};
  seed[0] = static_cast<uint8_t>(options.seed);
  store::Seams seams;
  seams.clock = &clock_;
  seams.random_seed = seed;
  uint64_t token;
  base::Error error;
  MODEL_CHECK(store::Store::open(&token, "mem:", o, seams, error) == KVC_OK, error.message);
  store_ = reinterpret_cast<kvc_store *>(token);
  for (size_t i = 0; i < geometries().size() + 1; i++) {  // the last has the first's shape and another salt: it shares nothing with it
    ScopeState scope;
    scope.geometry = &geometries()[i % geometries().size()];
    const kvc_shape shape = scope.geometry->shape();
    kvc_scope_options so;
    KVC_INIT(&so);
    so.model = "model";
    so.shape = &shape;
    const std::string salt = i < geometries().size() ? "" : "salt";
    so.salt = salt.data();
    so.salt_size = salt.size();
    MODEL_CHECK(kvc_scope_create(&scope.handle, store_, &so, &error_) == KVC_OK, said());
    scopes_.push_back(std::move(scope));
  }
  if (options_.ballast_bytes) hold_ballast();
}

Model::~Model() { (void)kvc_close(store_, nullptr); }

void Model::run() {
  for (uint64_t i = 0; i < options_.steps; i++) {
    step();
    after();
    if (i % 16 == 15) check_infos();
  }
  finish();
}

std::string Model::log() const {
  std::string text;
  for (size_t i = log_.size() > 60 ? log_.size() - 60 : 0; i < log_.size(); i++) text += std::to_string(i) + " " + log_[i] + "\n";
  return text;
}

void Model::step() {
  const uint64_t dice = below(100);
  if (seqs_.empty() || (dice < 6 && seqs_.size() < kSeqs)) return create();
  if (dice < 18 && seqs_.size() < kSeqs) return match();
  if (dice < 46) return append(some_seq());
  if (dice < 48) return append_wrong(some_seq());
  if (dice < 51) return identify(some_seq());
  if (dice < 64) return gather(some_seq());
  if (dice < 69 && seqs_.size() < kSeqs) return fork(some_seq());
  if (dice < 75) return truncate(some_seq());
  if (dice < 80 || seqs_.size() >= kSeqs) return release(below(seqs_.size()));
  if (dice < 82 && leases_.size() < kLeases) return lease(some_seq());
  if (dice < 84 && !leases_.empty()) return lease_renew(below(leases_.size()));
  if (dice < 86 && !leases_.empty()) return lease_release(below(leases_.size()));
  if (dice < 88) return advance();
  if (dice < 92) return object_put(dice == 91);
  if (dice < 95) return object_get();
  if (dice < 97) return object_exists();
  if (dice < 99) return object_delete();
  object_list(static_cast<int>(below(scopes_.size())), true);
}

void Model::set_deadline(uint64_t &deadline_ms, uint64_t lease_ms) const {
  deadline_ms = lease_ms == KVC_FOREVER ? UINT64_MAX : now_ms_ + (lease_ms ? lease_ms : kLeaseMs);
}

void Model::create() {
  Seq seq;
  seq.identity.scope = static_cast<int>(below(scopes_.size()));
  seq.identity.first_position = chance(15) ? 7 : 0;
  seq.is_private = chance(25);
  if (chance(30)) seq.identity.extras.push_back({below(20), 1 + below(30), chance(50) ? "image" : "picture"});
  seq.lease_ms = chance(10) ? KVC_FOREVER : chance(50) ? 0 : 300;
  seq.open.resize(geometry_of(seq).layers.size());
  const SeqOptions o(seq.identity, seq.is_private, seq.lease_ms);
  note("create scope " + std::to_string(seq.identity.scope) + (seq.is_private ? " private" : ""));
  MODEL_CHECK(kvc_seq_create(&seq.handle, scope_of(seq).handle, &o.options, &error_) == KVC_OK, said());
  set_deadline(seq.deadline_ms, seq.lease_ms);
  hold(std::move(seq));
}

/// Somebody's ids, changed somewhere or not, and with other extras or not.
void Model::match() {
  const Seq &from = some_seq();
  Seq seq;
  seq.identity = from.identity;
  std::vector<int32_t> &ids = seq.identity.ids;
  const std::vector<int32_t> more = more_ids(seq.identity, below(80));
  ids.insert(ids.end(), more.begin(), more.end());
  if (!ids.empty() && chance(20)) ids[below(ids.size())] += 1;
  if (chance(10)) seq.identity.extras.clear();
  if (chance(5)) seq.identity.first_position ^= 7;
  if (chance(10)) seq.identity.scope = static_cast<int>(below(scopes_.size()));
  seq.is_private = chance(15);
  seq.lease_ms = chance(10) ? KVC_FOREVER : 0;
  const uint64_t tokens_max = chance(30) && !ids.empty() ? 1 + below(ids.size()) : 0;
  const SeqOptions o(seq.identity, seq.is_private, seq.lease_ms, tokens_max);
  const uint64_t chunk_tokens = geometry_of(seq).chunk_tokens, look = tokens_max ? std::min<uint64_t>(tokens_max, ids.size()) : ids.size();
  const uint64_t expected = held_prefix(seq.identity, look);
  kvc_match_info info;
  KVC_INIT(&info);
  note("match scope " + std::to_string(seq.identity.scope) + ": " + std::to_string(ids.size()) + " ids, " + std::to_string(expected) + " chunks are held");
  MODEL_CHECK(kvc_match(&seq.handle, &info, scope_of(seq).handle, ids.data(), ids.size(), &o.options, nullptr, &error_) == KVC_OK, said());
  MODEL_CHECK(info.tokens == expected * chunk_tokens, "found " + std::to_string(info.tokens));
  MODEL_CHECK(info.stop == (expected < look / chunk_tokens ? KVC_STOP_ABSENT : KVC_STOP_END), "stop " + std::to_string(info.stop));
  for (uint64_t c = 0; c < expected; c++) seq.sealed.push_back(scope_of(seq).chunks.at(key_of(seq.identity, c)));
  ids.resize(info.tokens);
  seq.held = expected;
  seq.open.resize(geometry_of(seq).layers.size());
  set_deadline(seq.deadline_ms, seq.lease_ms);
  hold(std::move(seq));
}

void Model::append(Seq &seq) {
  touch(seq);
  Call call;
  plan_append(call, seq);
  if (call.ids.empty() && call.rows.empty()) return;
  const uint64_t before = evicted_now();
  note("append " + std::to_string(call.ids.size()) + " ids, " + std::to_string(call.rows.size()) + " runs at " + std::to_string(length(seq)) + " to scope " +
       std::to_string(seq.identity.scope) + ", writer " + std::to_string(call.writer));
  const kvc_status status =
      kvc_append(seq.handle, call.ids.data(), call.ids.size(), call.rows.data(), call.rows.size(), nullptr, &error_);
  if (seq.held < seq.sealed.size()) {
    MODEL_CHECK(status == KVC_ERR_GONE, said());
    return;
  }
  if (status == KVC_ERR_FULL) {
    kvc_store_info info;
    KVC_INIT(&info);
    MODEL_CHECK(kvc_store_get_info(&info, store_, &error_) == KVC_OK, said());
    MODEL_CHECK(info.memory_pinned * 3 > info.memory_bytes, "full at " + std::to_string(info.memory_pinned) + " pinned bytes: " + said());
    note("  full");
    sync();
    return read_all(seq);
  }
  MODEL_CHECK(status == KVC_OK, said());
  settle_append(seq, call, evicted_now() != before);
}

void Model::append_wrong(Seq &seq) {
  touch(seq);
  if (seq.held < seq.sealed.size()) return;
  const uint32_t layer = static_cast<uint32_t>(below(seq.open.size()));
  const Geometry &g = geometry_of(seq);
  const uint64_t at = filled(seq, layer);
  if (!at) return;
  Block block(g, {layer, 1, 0, g.layers[layer].heads}, 4, random_);
  kvc_rows rows = block.rows();
  const bool overlap = chance(50);
  rows.token_begin = overlap ? at - 1 : at + 1;
  rows.token_count = 1 + below(4);
  const int32_t ids[8] = {};
  const bool gives_ids = !seq.is_private || chance(50), late = gives_ids && ids_too_late(seq);
  if (late) rows.token_begin = at;  // nothing else is wrong
  const size_t row_count = late && chance(20) ? 0 : 1;
  note("append with " + std::string(late ? "late ids" : overlap ? "an overlap" : "a gap"));
  MODEL_CHECK(kvc_append(seq.handle, gives_ids ? ids : nullptr, gives_ids ? 8 : 0, &rows, row_count, nullptr, &error_) == KVC_ERR_RANGE, said());
  check_seq_info(seq);
  read_all(seq);
}

/// Only where no rows are open: then which chunks are held already is known without asking.
void Model::identify(Seq &seq) {
  touch(seq);
  const uint64_t chunk_tokens = geometry_of(seq).chunk_tokens, sealed = seq.sealed.size() * chunk_tokens;
  if (seq.held < seq.sealed.size() || std::any_of(seq.open.begin(), seq.open.end(), [](const auto &rows) { return !rows.empty(); })) return;
  const Extra extra{chance(80) ? sealed + below(40) : below(sealed + 1), 1 + below(20), "later"};
  const kvc_extra e{extra.begin, extra.count, extra.data.data(), extra.data.size()};
  const uint64_t kept_end = seq.truncated_to == UINT64_MAX ? UINT64_MAX : std::max(seq.truncated_to, sealed);
  std::vector<Extra> kept;
  bool overlaps = false;
  for (const Extra &x : seq.identity.extras)
    if (x.begin < kept_end) kept.push_back(x), overlaps = overlaps || (x.begin < extra.begin + extra.count && extra.begin < x.begin + x.count);
  note("identify " + std::to_string(extra.begin) + " +" + std::to_string(extra.count));
  const kvc_status status = kvc_seq_identify(seq.handle, &e, 1, &error_);
  if (extra.begin < sealed) MODEL_CHECK(status == KVC_ERR_RANGE, said());
  else MODEL_CHECK(status == (overlaps ? KVC_ERR_RANGE : KVC_OK), said());
  if (status != KVC_OK) return;
  kept.push_back(extra);
  std::sort(kept.begin(), kept.end(), [](const Extra &a, const Extra &b) { return a.begin < b.begin; });
  seq.identity.extras = kept;
  seq.truncated_to = UINT64_MAX;
}

void Model::cut_back(Seq &seq, uint64_t tokens) {
  const uint64_t chunk_tokens = geometry_of(seq).chunk_tokens;
  const uint64_t sealed = tokens / chunk_tokens;
  for (uint32_t l = 0; l < seq.open.size(); l++) {
    std::vector<uint64_t> rows;
    for (uint64_t t = sealed * chunk_tokens; t < tokens; t++) rows.push_back(stamp(seq, l, t));
    seq.open[l] = rows;
  }
  if (sealed < seq.sealed.size()) seq.cut = tokens % chunk_tokens ? seq.sealed[sealed] : nullptr;
  seq.sealed.resize(sealed);
  seq.held = sealed;
  if (seq.identity.ids.size() > tokens) seq.identity.ids.resize(tokens);
  seq.truncated_to = tokens;
}

void Model::fork(Seq &seq) {
  touch(seq);
  const bool all = chance(40);
  const uint64_t have = length(seq), tokens = all ? KVC_ALL : below(have + 2), chunk_tokens = geometry_of(seq).chunk_tokens;
  const uint64_t wanted = all ? have : tokens;
  Seq made = seq;
  note("fork at " + (all ? "all" : std::to_string(tokens)) + " of " + std::to_string(have));
  const kvc_status status = kvc_seq_fork(&made.handle, seq.handle, tokens, &error_);
  if (wanted > have) {
    MODEL_CHECK(status == KVC_ERR_RANGE, said());
  } else if (seq.held < seq.sealed.size() && wanted > seq.held * chunk_tokens) {
    MODEL_CHECK(status == KVC_ERR_GONE, said());
  } else {
    MODEL_CHECK(status == KVC_OK, said());
    set_deadline(made.deadline_ms, made.lease_ms);
    Seq *const cut = (hold(std::move(made)), seqs_.back().get());
    if (!all) cut_back(*cut, wanted);
    if (chance(50)) read_all(*cut);
  }
}

void Model::truncate(Seq &seq) {
  touch(seq);
  const uint64_t have = length(seq), tokens = chance(20) ? 0 : below(have + 2), chunk_tokens = geometry_of(seq).chunk_tokens;
  note("truncate to " + std::to_string(tokens) + " of " + std::to_string(have));
  const kvc_status status = kvc_seq_truncate(seq.handle, tokens, &error_);
  if (tokens > have) {
    MODEL_CHECK(status == KVC_ERR_RANGE, said());
    return;
  }
  if (seq.held < seq.sealed.size() && tokens > seq.held * chunk_tokens) {
    MODEL_CHECK(status == KVC_ERR_GONE, said());
    return;
  }
  MODEL_CHECK(status == KVC_OK, said());
  cut_back(seq, tokens);
}

void Model::release(size_t index) {
  note("release");
  kvc_seq *const handle = seqs_[index]->handle;
  MODEL_CHECK(kvc_seq_release(handle, &error_) == KVC_OK, said());
  MODEL_CHECK(kvc_seq_release(handle, &error_) == KVC_ERR_STALE, "released twice");
  seqs_.erase(seqs_.begin() + static_cast<int64_t>(index));
}

void Model::lease(Seq &seq) {
  touch(seq);
  const uint64_t have = length(seq), begin = below(have + 1), count = chance(30) ? KVC_ALL : 1 + below(have - begin + 2);
  const uint64_t chunk_tokens = geometry_of(seq).chunk_tokens, end = count == KVC_ALL ? have : begin + count, lease_ms = chance(20) ? KVC_FOREVER : chance(50) ? 0 : 2500;
  Hold hold;
  note("lease " + std::to_string(begin) + ".." + std::to_string(end));
  const kvc_status status = kvc_seq_lease(&hold.handle, seq.handle, begin, count, lease_ms, nullptr, &error_);
  if (end > have) {
    MODEL_CHECK(status == KVC_ERR_RANGE, said());
  } else if (seq.held < seq.sealed.size() && end > seq.held * chunk_tokens) {
    MODEL_CHECK(status == KVC_ERR_GONE, said());
  } else {
    MODEL_CHECK(status == KVC_OK, said());
    const uint64_t chunks = std::min<uint64_t>((end + chunk_tokens - 1) / chunk_tokens, seq.sealed.size());
    if (chunks) hold.chunk = seq.sealed[chunks - 1];
    set_deadline(hold.deadline_ms, lease_ms);
    leases_.push_back(hold);
  }
}

void Model::lease_renew(size_t index) {
  Hold &hold = leases_[index];
  bool alive = !hold.chunk || hold.chunk->alive;
  for (const auto &value : hold.values) alive = alive && value->alive;
  const bool sure = hold.deadline_ms > now_ms_ || !hold.chunk || !hold.chunk->key.empty();
  const uint64_t lease_ms = 1 + below(2000);
  note("renew a lease");
  const kvc_status status = kvc_lease_renew(hold.handle, lease_ms, &error_);
  MODEL_CHECK(status == KVC_OK || status == KVC_ERR_GONE, said());
  if (hold.deadline_ms > now_ms_) MODEL_CHECK(status == KVC_OK, said());
  else if (status == KVC_ERR_GONE) MODEL_CHECK(!alive || !sure, said());
  else if (sure && hold.chunk) MODEL_CHECK(alive, "a chunk that is gone was leased again");
  if (status == KVC_OK) set_deadline(hold.deadline_ms, lease_ms);
}

void Model::lease_release(size_t index) {
  note("release a lease");
  MODEL_CHECK(kvc_lease_release(leases_[index].handle, &error_) == KVC_OK, said());
  MODEL_CHECK(kvc_lease_release(leases_[index].handle, &error_) == KVC_ERR_STALE, "released twice");
  leases_.erase(leases_.begin() + static_cast<int64_t>(index));
}

void Model::advance() {
  const uint64_t ms = 100 + below(900);
  note("advance " + std::to_string(ms) + " ms");
  clock_.advance_ms(ms);
  now_ms_ += ms;
  for (const Hold &hold : leases_) orphans_ = orphans_ || (hold.deadline_ms <= now_ms_ && hold.chunk && hold.chunk->key.empty());
}

}  // namespace kvc::model

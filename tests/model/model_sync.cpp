#include <algorithm>

#include "model.h"

namespace kvc::model {
namespace {

void put(std::string &to, uint64_t value) { to.append(reinterpret_cast<const char *>(&value), sizeof value); }

}  // namespace

/// The oracle's own name of a chunk: all that goes into it, spelled out.
std::string Model::key_of(const Identity &identity, uint64_t chunk) const {
  const uint64_t chunk_tokens = scopes_[static_cast<size_t>(identity.scope)].geometry->chunk_tokens, end = (chunk + 1) * chunk_tokens;
  std::string key;
  put(key, identity.first_position);
  for (uint64_t t = 0; t < end; t++) put(key, static_cast<uint64_t>(identity.ids[t]));
  for (const Extra &e : identity.extras) {
    if (e.begin >= end) continue;
    put(key, e.begin);
    put(key, std::min(e.begin + e.count, end) - e.begin);
    key += e.data + "\n";
  }
  return key;
}

uint64_t Model::held_prefix(const Identity &identity, uint64_t tokens) {
  const ScopeState &scope = scopes_[static_cast<size_t>(identity.scope)];
  uint64_t chunk = 0;
  while ((chunk + 1) * scope.geometry->chunk_tokens <= tokens && scope.chunks.contains(key_of(identity, chunk))) chunk++;
  return chunk;
}

/// Chunks that a lease in force holds, with all before them.
std::set<const Chunk *> Model::pinned() const {
  std::set<const Chunk *> held;
  const auto add = [&](const Chunk *chunk) {
    for (; chunk && held.insert(chunk).second;) chunk = chunk->parent.get();
  };
  for (const auto &seq : seqs_)
    if (!lapsed(*seq) && seq->held) add(seq->sealed[seq->held - 1].get());
  for (const Hold &hold : leases_)
    if (hold.deadline_ms > now_ms_) add(hold.chunk.get());
  return held;
}

uint64_t Model::evicted_now() {
  kvc_metrics metrics;
  KVC_INIT(&metrics);
  MODEL_CHECK(kvc_metrics_read(&metrics, store_, &error_) == KVC_OK, said());
  MODEL_CHECK(metrics.checksum_failures == 0, "a page failed its check");
  return metrics.evicted_chunks;
}

void Model::after() {
  const uint64_t now = evicted_now();
  if (now != evictions_) {
    evictions_ = now;
    sync();
  }
  sync_private();
}

/// Which chunks are left, by looking without a use; those that are held must be.
void Model::sync_chunks(int number) {
  ScopeState &scope = scopes_[static_cast<size_t>(number)];
  std::set<const Chunk *> parents;
  for (const auto &[key, chunk] : scope.chunks) parents.insert(chunk->parent.get());
  std::vector<ChunkPtr> leaves;
  for (const auto &[key, chunk] : scope.chunks)
    if (!parents.contains(chunk.get())) leaves.push_back(chunk);
  for (const ChunkPtr &leaf : leaves) {
    std::vector<kvc_extra> extras;
    for (const Extra &e : leaf->identity.extras) extras.push_back({e.begin, e.count, e.data.data(), e.data.size()});
    kvc_seq_options o;
    KVC_INIT(&o);
    o.flags = KVC_SEQ_PEEK;
    o.first_position = leaf->identity.first_position;
    o.extras = extras.data();
    o.extra_count = extras.size();
    kvc_match_info info;
    KVC_INIT(&info);
    const std::vector<int32_t> &ids = leaf->identity.ids;
    MODEL_CHECK(kvc_match(nullptr, &info, scope.handle, ids.data(), ids.size(), &o, nullptr, &error_) == KVC_OK, said());
    uint64_t end = ids.size();
    for (const Chunk *c = leaf.get(); c && end > info.tokens; c = c->parent.get(), end -= scope.geometry->chunk_tokens)
      if (const auto found = scope.chunks.find(c->key); found != scope.chunks.end()) {
        found->second->alive = false;
        scope.chunks.erase(found);
      }
  }
}

void Model::sync() {
  for (size_t i = 0; i < scopes_.size(); i++) {
    sync_chunks(static_cast<int>(i));
    object_list(static_cast<int>(i), false);
  }
  for (const Chunk *chunk : pinned()) MODEL_CHECK(chunk->alive || chunk->key.empty(), "a chunk that is held was evicted");
  for (const Hold &hold : leases_)
    for (const auto &value : hold.values) MODEL_CHECK(hold.deadline_ms <= now_ms_ || value->alive || value->deleted, "an object that is held was evicted");
  for (const auto &[chunk, scope] : [&] {
         std::vector<std::pair<const Chunk *, const ScopeState *>> all;
         for (const ScopeState &s : scopes_)
           for (const auto &[key, c] : s.chunks) all.push_back({c.get(), &s});
         return all;
       }())
    MODEL_CHECK(!chunk->parent || scope->chunks.contains(chunk->parent->key), "a chunk went before those after it");
}

/// Private chunks have no name to ask for: a lapsed sequence says how many of its own are left.
void Model::sync_private() {
  const std::set<const Chunk *> held = pinned();
  for (const auto &seq : seqs_) {
    if (!lapsed(*seq)) continue;
    kvc_seq_info info;
    KVC_INIT(&info);
    MODEL_CHECK(kvc_seq_get_info(&info, seq->handle, &error_) == KVC_OK, said());
    const uint64_t chunk_tokens = scopes_[static_cast<size_t>(seq->identity.scope)].geometry->chunk_tokens;
    const uint64_t left = info.tokens_held == info.tokens ? seq->sealed.size() : info.tokens_held / chunk_tokens;
    for (uint64_t c = 0; c < seq->held; c++) {
      Chunk &chunk = *seq->sealed[c];
      if (chunk.key.empty() && c >= left) {
        MODEL_CHECK(!held.contains(&chunk), "a private chunk that is held went");
        chunk.alive = false;
      }
      MODEL_CHECK(chunk.alive == (c < left), "chunk " + std::to_string(c) + " of a lapsed sequence, of which " + std::to_string(left) + " are left");
    }
  }
}

/// A use of the handle that fails and changes nothing, but takes up what is left after a lapse and slides the lease.
void Model::touch(Seq &seq) {
  const bool after_lapse = lapsed(seq);
  MODEL_CHECK(kvc_seq_truncate(seq.handle, UINT64_MAX, &error_) == KVC_ERR_RANGE, said());
  while (seq.held && !seq.sealed[seq.held - 1]->alive) seq.held--;
  set_deadline(seq.deadline_ms, seq.lease_ms);
  if (after_lapse) cut_what_went(seq);
}

/// Open rows that were a held chunk's may have gone with it: then the sequence goes on from what is before them.
void Model::cut_what_went(Seq &seq) {
  const uint64_t chunk_tokens = geometry_of(seq).chunk_tokens;
  uint64_t most = 0;
  for (const auto &rows : seq.open) most = std::max<uint64_t>(most, rows.size());
  for (uint64_t i = 0; i * chunk_tokens < most; i++) {
    if (!went(seq, i)) continue;
    const uint64_t left = std::min((seq.held < seq.sealed.size() ? seq.held : seq.sealed.size() + i) * chunk_tokens, length(seq));
    note("  open rows went, " + std::to_string(left) + " are left");
    MODEL_CHECK(kvc_seq_truncate(seq.handle, left, &error_) == KVC_OK, said());
    cut_back(seq, left);
    return;
  }
}

/// Is the open chunk of this number gone?  Only one whose rows are those of a sealed chunk that is not held any more may be.
bool Model::went(const Seq &seq, uint64_t chunk) {
  const Geometry &g = *scopes_[static_cast<size_t>(seq.identity.scope)].geometry;
  const uint64_t from = chunk * g.chunk_tokens;
  bool gone = false;
  for (uint32_t l = 0; l < seq.open.size(); l++) {
    if (seq.open[l].size() <= from) continue;
    const uint64_t count = std::min<uint64_t>(seq.open[l].size() - from, g.chunk_tokens);
    Block block(g, {l, 1, 0, g.layers[l].heads}, count, random_);
    kvc_rows rows = block.rows();
    rows.token_begin = seq.sealed.size() * g.chunk_tokens + from;
    rows.token_count = count;
    const kvc_status status = kvc_gather(nullptr, seq.handle, &rows, 1, nullptr, &error_);
    MODEL_CHECK(status == KVC_OK || status == KVC_ERR_GONE, said());
    if (status == KVC_OK) continue;
    gone = true;
    const auto is_source = [&](const ChunkPtr &c) {
      return c && (!c->alive || c->key.empty()) &&
             std::equal(seq.open[l].begin() + static_cast<int64_t>(from), seq.open[l].begin() + static_cast<int64_t>(from + count), c->stamps.begin() + static_cast<int64_t>(l * g.chunk_tokens));
    };
    MODEL_CHECK(is_source(seq.cut) || std::any_of(seq.adopted.begin(), seq.adopted.end(), is_source), "open rows that the host wrote went");
  }
  return gone;
}

void Model::check_seq_info(const Seq &seq) {
  kvc_seq_info info;
  KVC_INIT(&info);
  MODEL_CHECK(kvc_seq_get_info(&info, seq.handle, &error_) == KVC_OK, said());
  const uint64_t chunk_tokens = scopes_[static_cast<size_t>(seq.identity.scope)].geometry->chunk_tokens, have = length(seq);
  uint64_t held = 0;
  while (held < seq.held && seq.sealed[held]->alive) held++;
  MODEL_CHECK(info.tokens == have, std::to_string(info.tokens) + " for " + std::to_string(have));
  MODEL_CHECK(info.tokens_sealed == seq.sealed.size() * chunk_tokens, std::to_string(info.tokens_sealed));
  const bool open_went = lapsed(seq) && held == seq.sealed.size() && info.tokens_held < have && info.tokens_held % chunk_tokens == 0 && info.tokens_held >= held * chunk_tokens;
  MODEL_CHECK(open_went || info.tokens_held == (held < seq.sealed.size() ? held * chunk_tokens : have), std::to_string(info.tokens_held));
  MODEL_CHECK(info.tokens_given == seq.identity.ids.size(), std::to_string(info.tokens_given));
  const uint64_t left = seq.deadline_ms == UINT64_MAX ? KVC_FOREVER : lapsed(seq) ? 0 : seq.deadline_ms - now_ms_;
  MODEL_CHECK(info.lease_left_ms == left, std::to_string(info.lease_left_ms) + " for " + std::to_string(left));
}

void Model::check_infos() {
  for (const auto &seq : seqs_) check_seq_info(*seq);
  kvc_store_info info;
  KVC_INIT(&info);
  MODEL_CHECK(kvc_store_get_info(&info, store_, &error_) == KVC_OK, said());
  std::set<const Chunk *> privates;
  const auto add = [&](const Chunk *chunk) {
    for (; chunk; chunk = chunk->parent.get())
      if (chunk->key.empty() && chunk->alive) privates.insert(chunk);
  };
  for (const auto &seq : seqs_)
    if (seq->held) add(seq->sealed[seq->held - 1].get());
  for (const Hold &hold : leases_)
    if (hold.deadline_ms > now_ms_) add(hold.chunk.get());
  std::set<const Chunk *> maybe;
  for (const auto &seq : seqs_)
    if (seq->cut && seq->cut->key.empty() && !privates.contains(seq->cut.get())) maybe.insert(seq->cut.get());
  uint64_t named = 0, objects = 0, pages = 0;
  for (const ScopeState &scope : scopes_) {
    kvc_scope_info si;
    KVC_INIT(&si);
    MODEL_CHECK(kvc_scope_get_info(&si, scope.handle, &error_) == KVC_OK, said());
    MODEL_CHECK(si.object_count == scope.objects.size() || !leases_.empty(), std::to_string(si.object_count));
    MODEL_CHECK(si.chunk_count >= scope.chunks.size(), std::to_string(si.chunk_count));
    named += scope.chunks.size();
    objects += scope.objects.size();
    pages += scope.chunks.size() * scope.geometry->layers.size();
  }
  for (const Chunk *chunk : privates) pages += scopes_[static_cast<size_t>(chunk->identity.scope)].geometry->layers.size();
  const uint64_t known = named + privates.size();
  const std::string count = std::to_string(info.chunk_count) + " chunks, " + std::to_string(named) + " named, " + std::to_string(privates.size()) + " private";
  MODEL_CHECK(info.chunk_count >= known && (orphans_ || info.chunk_count <= known + maybe.size()), count);
  MODEL_CHECK(info.seq_count == seqs_.size() && info.lease_count == leases_.size() + (ballast_ != nullptr), std::to_string(info.seq_count));
  MODEL_CHECK(info.memory_pinned <= info.memory_used && info.memory_used <= info.memory_bytes, std::to_string(info.memory_used));
  MODEL_CHECK(!pinned().empty() <= (info.memory_pinned > 0), "held, and nothing is pinned");
  kvc_verify_info verify;
  KVC_INIT(&verify);
  MODEL_CHECK(kvc_store_verify(&verify, store_, nullptr, &error_) == KVC_OK, said());
  MODEL_CHECK(info.chunk_count == known ? verify.pages_read == pages + objects : verify.pages_read > pages + objects, std::to_string(verify.pages_read) + " pages of " + std::to_string(pages + objects));
}

/// Everything is let go of, and nothing is pinned; then it is all evicted by one that needs the room.
void Model::finish() {
  for (const auto &seq : seqs_) read_all(*seq);
  while (!seqs_.empty()) release(below(seqs_.size())), after();
  while (!leases_.empty()) lease_release(below(leases_.size())), after();
  MODEL_CHECK(kvc_lease_release(ballast_, &error_) == KVC_OK, said());
  kvc_store_info info;
  KVC_INIT(&info);
  MODEL_CHECK(kvc_store_get_info(&info, store_, &error_) == KVC_OK, said());
  MODEL_CHECK(info.memory_pinned == 0, std::to_string(info.memory_pinned) + " bytes are pinned by nobody");
  uint64_t named = 0;
  for (const ScopeState &scope : scopes_) named += scope.chunks.size();
  MODEL_CHECK(info.chunk_count == named || orphans_, std::to_string(info.chunk_count) + " for " + std::to_string(named));
  std::vector<uint8_t> all(info.memory_bytes - (64 << 10));
  kvc_bytes part{all.data(), all.size()};
  kvc_object object{};
  object.key = "all";
  object.key_size = 3;
  object.parts = &part;
  object.part_count = 1;
  MODEL_CHECK(kvc_object_put(nullptr, scopes_[0].handle, &object, 1, nullptr, nullptr, &error_) == KVC_OK, said());
  KVC_INIT(&info);
  MODEL_CHECK(kvc_store_get_info(&info, store_, &error_) == KVC_OK, said());
  MODEL_CHECK(info.memory_used >= all.size() && info.chunk_count + info.object_count >= 1, "the room was made");
}

}  // namespace kvc::model

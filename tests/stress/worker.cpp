#include "worker.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvc::stress {
namespace {

constexpr size_t kSequencesMax = 6, kViewsMax = 3, kLeasesMax = 3, kTokensMax = 200;
constexpr uint64_t kKeys = 60;

std::string value_of(uint64_t key) {
  std::string value(100 + key * 397 % 20000, '\0');
  for (size_t i = 0; i < value.size(); i++) value[i] = static_cast<char>(model::mix(key, i / 8) >> i % 8 * 8);
  return value;
}

std::string bytes_of(const kvc_array &array) { return {static_cast<const char *>(array.data), array.bytes}; }

}  // namespace

Worker::Worker(kvc_store *store, kvc_scope *scope, uint64_t seed) : store_(store), scope_(scope), geometry_(model::geometries()[0]), random_(seed) { KVC_INIT(&error_); }

bool Worker::fail(const std::string &what) {
  wrong_ = what;
  return false;
}

bool Worker::is_one_of(kvc_status status, std::initializer_list<kvc_status> allowed, const char *what) {
  if (std::find(allowed.begin(), allowed.end(), status) != allowed.end()) return true;
  return fail(std::string(what) + ": " + kvc_status_name(status) + ": " + error_.message);
}

bool Worker::step() {
  static constexpr struct {
    const char *name;
    Step step;
    uint32_t weight;
  } steps[] = {
      {"match", &Worker::match, 10},     {"append", &Worker::append, 14}, {"gather", &Worker::gather, 14}, {"fork", &Worker::fork, 5},
      {"truncate", &Worker::truncate, 6}, {"release", &Worker::release, 5}, {"lease", &Worker::lease, 3},    {"renew", &Worker::renew, 3},
      {"acquire", &Worker::acquire, 5},  {"view", &Worker::let_go_of_view, 4}, {"put", &Worker::put, 9}, {"get", &Worker::get, 9},
      {"delete", &Worker::remove, 3},    {"list", &Worker::list, 2},      {"look", &Worker::look, 6},      {"clear", &Worker::clear, 1},
      {"verify", &Worker::verify, 1},    {"reorder", &Worker::reorder, 3}, {"compact", &Worker::compact, 2}, {"queued", &Worker::queued, 5},
  };
  uint32_t all = 0;
  for (const auto &s : steps) all += s.weight;
  auto at = static_cast<uint32_t>(random_() % all);
  for (const auto &s : steps) {
    if (at < s.weight) {
      done_[s.name]++;
      return (this->*s.step)() || fail(std::string(s.name) + ": " + wrong_);
    }
    at -= s.weight;
  }
  return true;
}

Worker::Sequence *Worker::any() { return seqs_.empty() ? nullptr : &seqs_[random_() % seqs_.size()]; }

/// Few prompts of one stem: most of what one writes another has written before.
std::vector<int32_t> Worker::prompt() {
  std::vector<int32_t> ids(1 + random_() % 120);
  const uint64_t turn = random_() % ids.size(), which = random_() % 6;
  for (size_t i = 0; i < ids.size(); i++) ids[i] = static_cast<int32_t>(i * 7 + (i >= turn / 16 * 16 ? which * 1000 : 0));
  return ids;
}

std::vector<std::unique_ptr<model::Block>> Worker::blocks(const std::vector<uint64_t> &chain, const std::vector<uint64_t> &places, uint64_t begin, uint64_t end, bool filled) {
  std::vector<std::unique_ptr<model::Block>> all;
  for (uint32_t l = 0; l < geometry_.layers.size(); l++) {
    all.push_back(std::make_unique<model::Block>(geometry_, model::Block::Part{l, 1, 0, geometry_.layers[l].heads}, end - begin, random_));
    if (filled) all.back()->fill([&](uint32_t layer, uint64_t row) { return model::stamp_of(chain[begin + row], layer, places[begin + row]); });
  }
  return all;
}

/// Tokens [begin, end) are what the chain makes them, or those before result->done are.
bool Worker::check(Sequence &seq, uint64_t begin, uint64_t end) {
  if (begin >= end) return true;
  const auto to = blocks(seq.chain, seq.places, begin, end, false);
  std::vector<kvc_rows> rows;
  for (const auto &block : to) rows.push_back(block->rows()), rows.back().token_begin = begin, rows.back().token_count = end - begin;
  kvc_result result;
  KVC_INIT(&result);
  const kvc_status status = kvc_gather(&result, seq.handle, rows.data(), rows.size(), nullptr, &error_);
  if (!is_one_of(status, {KVC_OK, KVC_ERR_GONE}, "gather")) return false;
  if (status == KVC_ERR_GONE) return recover(seq);
  for (const auto &block : to)
    if (const std::string wrong = block->mismatch([&](uint32_t layer, uint64_t row) { return model::stamp_of(seq.chain[begin + row], layer, seq.places[begin + row]); }, end - begin); !wrong.empty())
      return fail("tokens from " + std::to_string(begin) + " to " + std::to_string(end) + ": " + wrong);
  return true;
}

/// Back to what is left, after a lapse.
bool Worker::recover(Sequence &seq) {
  done_["recovered"]++;
  for (int tries = 0; tries < 20; tries++) {
    kvc_seq_info info;
    KVC_INIT(&info);
    if (!is_one_of(kvc_seq_get_info(&info, seq.handle, &error_), {KVC_OK}, "seq_get_info")) return false;
    if (info.tokens_held > info.tokens) return fail("more is held than there is");
    const uint64_t left = tries < 10 ? info.tokens_held : 0;
    const kvc_status status = kvc_seq_truncate(seq.handle, left, &error_);
    if (!is_one_of(status, {KVC_OK, KVC_ERR_GONE}, "truncate")) return false;
    if (status == KVC_OK) return seq.chain.resize(left), seq.places.resize(left), true;
  }
  return fail("a truncate to 0 was refused");
}

bool Worker::write(Sequence &seq, const std::vector<int32_t> &ids) {
  if (ids.empty()) return true;
  const uint64_t begin = seq.chain.size(), end = begin + ids.size();
  std::vector<uint64_t> chain = seq.chain, places = seq.places;
  for (const int32_t id : ids) chain.push_back(chained(chain.empty() ? 0 : chain.back(), id)), places.push_back(places.size());
  const auto from = blocks(chain, places, begin, end, true);
  std::vector<kvc_rows> rows;
  for (const auto &block : from) rows.push_back(block->rows()), rows.back().token_begin = begin, rows.back().token_count = ids.size();
  kvc_status status = KVC_OK;
  if (random_() % 2) {
    status = kvc_append(seq.handle, ids.data(), ids.size(), rows.data(), rows.size(), nullptr, &error_);
  } else {  // layer by layer
    for (size_t l = 0; l < rows.size() && status == KVC_OK; l++) status = kvc_append(seq.handle, l ? nullptr : ids.data(), l ? 0 : ids.size(), &rows[l], 1, nullptr, &error_);
  }
  if (!is_one_of(status, {KVC_OK, KVC_ERR_GONE, KVC_ERR_FULL}, "append")) return false;
  if (status == KVC_OK) return seq.chain = std::move(chain), seq.places = std::move(places), true;
  return recover(seq);  // ids and layers that were given go too
}

bool Worker::match() {
  if (seqs_.size() >= kSequencesMax) return release();
  const std::vector<int32_t> ids = prompt();
  kvc_match_info info;
  KVC_INIT(&info);
  Sequence seq;
  if (!is_one_of(kvc_match(&seq.handle, &info, scope_, ids.data(), ids.size(), nullptr, nullptr, &error_), {KVC_OK}, "match")) return false;
  done_["found"] += info.tokens != 0;
  if (info.tokens > ids.size() || info.tokens % 16) return fail("a length of " + std::to_string(info.tokens));
  for (uint64_t i = 0; i < info.tokens; i++) seq.chain.push_back(chained(i ? seq.chain.back() : 0, ids[i])), seq.places.push_back(i);
  seqs_.push_back(seq);
  return check(seqs_.back(), 0, info.tokens) && write(seqs_.back(), {ids.begin() + static_cast<int64_t>(seqs_.back().chain.size()), ids.end()});
}

bool Worker::append() {
  Sequence *seq = any();
  if (!seq || seq->chain.size() > kTokensMax) return true;
  std::vector<int32_t> ids(1 + random_() % 40);
  const uint64_t which = random_() % 3;
  for (size_t i = 0; i < ids.size(); i++) ids[i] = static_cast<int32_t>(which * 100 + i);
  return write(*seq, ids);
}

bool Worker::gather() {
  Sequence *seq = any();
  if (!seq || seq->chain.empty()) return true;
  const uint64_t begin = random_() % seq->chain.size();
  return check(*seq, begin, begin + 1 + random_() % (seq->chain.size() - begin));
}

bool Worker::fork() {
  const Sequence *from = any();
  if (!from || seqs_.size() >= kSequencesMax) return true;
  Sequence seq;
  const uint64_t tokens = random_() % (from->chain.size() + 1);
  const kvc_status status = kvc_seq_fork(&seq.handle, from->handle, tokens, &error_);
  if (!is_one_of(status, {KVC_OK, KVC_ERR_GONE, KVC_ERR_FULL}, "fork")) return false;
  if (status != KVC_OK) return true;
  seq.chain.assign(from->chain.begin(), from->chain.begin() + static_cast<int64_t>(tokens));
  seq.places.assign(from->places.begin(), from->places.begin() + static_cast<int64_t>(tokens));
  seqs_.push_back(seq);
  return true;
}

bool Worker::truncate() {
  Sequence *seq = any();
  if (!seq) return true;
  const uint64_t tokens = random_() % (seq->chain.size() + 1);
  const kvc_status status = kvc_seq_truncate(seq->handle, tokens, &error_);
  if (!is_one_of(status, {KVC_OK, KVC_ERR_GONE}, "truncate")) return false;
  if (status != KVC_OK) return recover(*seq);
  seq->chain.resize(tokens), seq->places.resize(tokens);
  return true;
}

bool Worker::release() {
  if (seqs_.empty()) return true;
  std::swap(seqs_[random_() % seqs_.size()], seqs_.back());
  kvc_seq *handle = seqs_.back().handle;
  seqs_.pop_back();
  return is_one_of(kvc_seq_release(handle, &error_), {KVC_OK}, "seq_release") && is_one_of(kvc_seq_release(handle, &error_), {KVC_ERR_STALE}, "seq_release again");
}

bool Worker::lease() {
  const Sequence *seq = any();
  if (!seq || seq->chain.empty()) return true;
  if (leases_.size() >= kLeasesMax) {
    kvc_lease *const first = leases_.front();
    leases_.erase(leases_.begin());
    return is_one_of(kvc_lease_release(first, &error_), {KVC_OK}, "lease_release");
  }
  kvc_lease *handle = nullptr;
  const kvc_status status = kvc_seq_lease(&handle, seq->handle, 0, 1 + random_() % seq->chain.size(), 500, nullptr, &error_);
  if (status == KVC_OK) leases_.push_back(handle);
  return is_one_of(status, {KVC_OK, KVC_ERR_GONE, KVC_ERR_FULL}, "seq_lease");
}

bool Worker::renew() { return leases_.empty() || is_one_of(kvc_lease_renew(leases_[random_() % leases_.size()], 700, &error_), {KVC_OK, KVC_ERR_GONE}, "lease_renew"); }

bool Worker::acquire() {
  Sequence *seq = any();
  if (!seq || seq->chain.empty() || views_.size() >= kViewsMax) return true;
  View view;
  KVC_INIT(&view.rows);
  const uint64_t token = random_() % seq->chain.size();
  const auto layer = static_cast<uint32_t>(random_() % geometry_.layers.size());
  const kvc_status status = kvc_view_acquire(&view.handle, &view.rows, seq->handle, layer, token, 0, &error_);
  if (!is_one_of(status, {KVC_OK, KVC_ERR_GONE}, "view_acquire")) return false;
  if (status != KVC_OK) return true;
  // The same rows, copied out as they lie there.
  const kvc_rows &lent = view.rows;
  std::string k(lent.k.bytes, '\xa5'), v(lent.v.bytes, '\xa5');
  kvc_rows rows = lent;
  rows.k.data = k.data(), rows.v.data = v.data();
  const kvc_status copied = kvc_gather(nullptr, seq->handle, &rows, 1, nullptr, &error_);
  view.k = bytes_of(lent.k), view.v = bytes_of(lent.v);
  views_.push_back(view);
  if (copied == KVC_ERR_GONE) return true;
  if (copied != KVC_OK) return is_one_of(copied, {KVC_OK}, "gather of a view");
  const model::Layer &of = geometry_.layers[layer];
  for (int side = 0; side < 2; side++) {
    const kvc_array &array = side ? lent.v : lent.k;
    const uint64_t row = of.dim[side] * (of.dtype[side] == KVC_F32 ? 4u : 2u);
    for (uint64_t t = 0; t < lent.token_count; t++)
      for (uint32_t h = 0; h < of.heads; h++) {
        const uint64_t at = t * array.token_stride + h * array.head_stride;
        if (std::memcmp((side ? v : k).data() + at, (side ? view.v : view.k).data() + at, row) != 0) return fail("a view is not what a gather gives");
      }
  }
  return true;
}

bool Worker::let_go_of_view() {
  if (views_.empty()) return true;
  std::swap(views_[random_() % views_.size()], views_.back());
  const View view = std::move(views_.back());
  views_.pop_back();
  if (bytes_of(view.rows.k) != view.k || bytes_of(view.rows.v) != view.v) return fail("a view changed while it was held");
  return is_one_of(kvc_view_release(view.handle, &error_), {KVC_OK}, "view_release");
}

bool Worker::reorder() {
  if (seqs_.size() < 2) return true;
  std::vector<kvc_seq *> handles;
  std::vector<uint32_t> source;
  for (const Sequence &seq : seqs_) handles.push_back(seq.handle), source.push_back(static_cast<uint32_t>(random_() % seqs_.size()));
  const kvc_status status = kvc_seq_reorder(handles.data(), source.data(), handles.size(), &error_);
  if (!is_one_of(status, {KVC_OK, KVC_ERR_GONE, KVC_ERR_FULL}, "seq_reorder")) return false;
  if (status != KVC_OK) return true;
  const std::vector<Sequence> before = seqs_;
  for (size_t i = 0; i < seqs_.size(); i++) seqs_[i].chain = before[source[i]].chain, seqs_[i].places = before[source[i]].places;
  return true;
}

bool Worker::compact() {
  Sequence *seq = any();
  if (!seq) return true;
  std::vector<uint64_t> positions;
  for (uint64_t i = 0; i < seq->chain.size(); i++)
    if (i < 20 || random_() % 2) positions.push_back(i);
  const kvc_status status = kvc_seq_compact(seq->handle, positions.data(), positions.size(), &error_);
  if (!is_one_of(status, {KVC_OK, KVC_ERR_GONE, KVC_ERR_FULL}, "seq_compact")) return false;
  if (status == KVC_ERR_GONE) return recover(*seq);
  if (status != KVC_OK) return true;
  const Sequence before = *seq;
  seq->chain.clear(), seq->places.clear();
  for (const uint64_t position : positions) seq->chain.push_back(before.chain[position]), seq->places.push_back(before.places[position]);
  return true;
}

/// Gathers of all sequences at once, in a queue of the worker's own.
bool Worker::queued() {
  if (!queue_ && !is_one_of(kvc_queue_create(&queue_, store_, nullptr, &error_), {KVC_OK}, "queue_create")) return false;
  std::vector<std::unique_ptr<model::Block>> to;
  std::vector<size_t> of;
  for (size_t i = 0; i < seqs_.size(); i++) {
    const Sequence &seq = seqs_[i];
    if (seq.chain.empty()) continue;
    const auto layer = static_cast<uint32_t>(random_() % geometry_.layers.size());
    to.push_back(std::make_unique<model::Block>(geometry_, model::Block::Part{layer, 1, 0, geometry_.layers[layer].heads}, seq.chain.size(), random_));
    kvc_rows rows = to.back()->rows();
    rows.token_count = seq.chain.size();
    kvc_call call;
    KVC_INIT(&call);
    call.queue = queue_, call.user = of.size() + 1;
    of.push_back(i);
    if (!is_one_of(kvc_gather(nullptr, seq.handle, &rows, 1, &call, &error_), {KVC_OK}, "a queued gather")) return false;
  }
  std::vector<bool> gone(seqs_.size());
  for (size_t left = of.size(); left > 0;) {
    kvc_result results[8];
    KVC_INIT(&results[0]);
    size_t count = 0;
    if (!is_one_of(kvc_queue_drain(results, 8, &count, queue_, 1000000, &error_), {KVC_OK}, "queue_drain")) return false;
    left -= count;
    for (size_t i = 0; i < count; i++) {
      if (results[i].status == KVC_ERR_GONE) gone[of[results[i].user - 1]] = true;
      else if (results[i].status != KVC_OK) return fail(results[i].message);
    }
  }
  for (size_t i = 0; i < of.size(); i++) {
    Sequence &seq = seqs_[of[i]];
    if (gone[of[i]]) {
      if (!recover(seq)) return false;
      continue;
    }
    const auto stamps = [&](uint32_t layer, uint64_t row) { return model::stamp_of(seq.chain[row], layer, seq.places[row]); };
    if (const std::string wrong = to[i]->mismatch(stamps, seq.chain.size()); !wrong.empty()) return fail("a queued gather: " + wrong);
  }
  return true;
}

bool Worker::put() {
  const uint64_t number = random_() % kKeys;
  const std::string key = "key " + std::to_string(number), value = value_of(number);
  kvc_bytes part{const_cast<char *>(value.data()), value.size()};
  kvc_object object{};
  object.key = key.data(), object.key_size = key.size(), object.parts = &part, object.part_count = 1;
  return is_one_of(kvc_object_put(nullptr, scope_, &object, 1, nullptr, nullptr, &error_), {KVC_OK, KVC_ERR_FULL}, "object_put");
}

bool Worker::get() {
  const uint64_t number = random_() % kKeys;
  const std::string key = "key " + std::to_string(number), value = value_of(number);
  std::string got(value.size(), '\x5a');
  kvc_bytes part{got.data(), got.size()};
  kvc_object object{};
  object.key = key.data(), object.key_size = key.size(), object.parts = &part, object.part_count = 1;
  const kvc_status status = kvc_object_get(nullptr, scope_, &object, 1, nullptr, nullptr, &error_);
  done_["got"] += status == KVC_OK;
  if (!is_one_of(status, {KVC_OK, KVC_ERR_NOT_FOUND}, "object_get")) return false;
  return status != KVC_OK || got == value || fail("another value");
}

bool Worker::remove() {
  const std::string key = "key " + std::to_string(random_() % kKeys);
  kvc_object object{};
  object.key = key.data(), object.key_size = key.size();
  return is_one_of(kvc_object_delete(nullptr, scope_, &object, 1, nullptr, &error_), {KVC_OK, KVC_ERR_NOT_FOUND}, "object_delete");
}

bool Worker::list() {
  kvc_object_entry entries[16];
  size_t count = 0;
  if (!is_one_of(kvc_object_list(entries, 16, &count, scope_, nullptr, 0, nullptr, &error_), {KVC_OK}, "object_list")) return false;
  for (size_t i = 0; i < count; i++) {
    const std::string key(reinterpret_cast<const char *>(entries[i].key), entries[i].key_size);
    if (!key.starts_with("key ") || entries[i].value_size != value_of(std::stoull(key.substr(4))).size()) return fail("a list has " + key);
    if (i && std::memcmp(entries[i - 1].key, entries[i].key, 64) >= 0) return fail("a list is out of order");
  }
  return true;
}

bool Worker::look() {
  kvc_store_info info;
  KVC_INIT(&info);
  kvc_metrics metrics;
  KVC_INIT(&metrics);
  kvc_scope_info scope;
  KVC_INIT(&scope);
  if (!is_one_of(kvc_store_get_info(&info, store_, &error_), {KVC_OK}, "store_get_info")) return false;
  if (!is_one_of(kvc_metrics_read(&metrics, store_, &error_), {KVC_OK}, "metrics_read")) return false;
  if (!is_one_of(kvc_scope_get_info(&scope, scope_, &error_), {KVC_OK}, "scope_get_info")) return false;
  if (info.memory_used > info.memory_bytes || info.memory_pinned > info.memory_bytes) return fail("more memory is used than there is");
  return metrics.checksum_failures == 0 || fail("a sum is wrong");
}

bool Worker::clear() { return random_() % 20 || is_one_of(kvc_scope_clear(nullptr, scope_, nullptr, &error_), {KVC_OK}, "scope_clear"); }

bool Worker::verify() { return random_() % 4 || is_one_of(kvc_store_verify(nullptr, store_, nullptr, &error_), {KVC_OK}, "store_verify"); }

bool Worker::end() {
  if (!is_one_of(kvc_queue_release(std::exchange(queue_, nullptr), &error_), {KVC_OK}, "queue_release")) return false;
  for (Sequence &seq : seqs_)
    if (!check(seq, 0, seq.chain.size())) return false;
  while (!seqs_.empty() || !views_.empty() || !leases_.empty()) {
    if (!release() || !let_go_of_view()) return false;
    if (leases_.empty()) continue;
    if (!is_one_of(kvc_lease_release(leases_.back(), &error_), {KVC_OK}, "lease_release")) return false;
    leases_.pop_back();
  }
  return true;
}

}  // namespace kvc::stress

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>

#include "store/store.h"

/// Prometheus text, exposition format 0.0.4.
namespace kvc::store {

using base::fail;

namespace {

/// Writes what fits and counts what is needed.
class Text {
 public:
  Text(char *out, size_t capacity) : out_(out), capacity_(capacity) {
    if (capacity_) out_[0] = 0;
  }
  size_t size() const { return size_ + 1; }  // with the terminator

  void family(const char *name, const char *type, const char *help) { line("# HELP kvc_%s %s\n# TYPE kvc_%s %s\n", name, help, name, type); }
  void sample(const char *name, uint64_t value) { line("kvc_%s %llu\n", name, static_cast<unsigned long long>(value)); }
  void sample(const char *name, const char *label, const char *of, uint64_t value) { line("kvc_%s{%s=\"%s\"} %llu\n", name, label, of, static_cast<unsigned long long>(value)); }
  void counter(const char *name, const char *help, uint64_t value) {
    family(name, "counter", help);
    sample(name, value);
  }
  void gauge(const char *name, const char *help, uint64_t value) {
    family(name, "gauge", help);
    sample(name, value);
  }

 private:
  void line(const char *format, ...) __attribute__((format(printf, 2, 3))) {
    const size_t left = size_ < capacity_ ? capacity_ - size_ : 0;
    va_list arguments;
    va_start(arguments, format);
    const int n = std::vsnprintf(left ? out_ + size_ : nullptr, left, format, arguments);
    va_end(arguments);
    size_ += static_cast<size_t>(std::max(n, 0));
  }
  char *const out_;
  const size_t capacity_;
  size_t size_ = 0;
};

}  // namespace

/// What is told of one scope, or of all that have no place of their own.
struct Store::ScopeSample {
  char label[17] = "other";  // the first 8 bytes of its fingerprint
  uint64_t bytes = 0, bytes_max = 0, chunks = 0, objects = 0, sequences = 0, hit_tokens = 0, miss_tokens = 0, tokens_written = 0, tokens_read = 0;
  void add(const Scope &scope) {
    bytes += scope.bytes_host, chunks += scope.chunk_count, objects += scope.object_count, sequences += scope.seq_count;
    bytes_max += scope.bytes_max.load(std::memory_order_relaxed);
    hit_tokens += scope.hit_tokens, miss_tokens += scope.miss_tokens, tokens_written += scope.tokens_written, tokens_read += scope.tokens_read;
  }
};

/// The scopes that hold most, most first, and one for the rest: however many there are, so many labels.  Under the lock.
size_t Store::sample_scopes(std::span<ScopeSample, scope_labels_max + 1> samples) {
  std::array<const Scope *, scope_labels_max> largest;
  size_t count = 0, rest = 0;
  const auto more = [](const Scope *a, const Scope *b) { return a->bytes_host > b->bytes_host; };  // the least on top
  const auto add_rest = [&](const Scope &scope) { rest++, samples.back().add(scope); };
  for (const Scope *scope : scopes_by_id_) {
    if (!scope) continue;
    if (count == scope_labels_max) {
      if (scope->bytes_host <= largest[0]->bytes_host) {
        add_rest(*scope);
        continue;
      }
      add_rest(*largest[0]);
      std::pop_heap(largest.begin(), largest.end(), more);
      count--;
    }
    largest[count++] = scope;
    std::push_heap(largest.begin(), largest.begin() + count, more);
  }
  std::sort_heap(largest.begin(), largest.begin() + count, more);
  for (size_t i = 0; i < count; i++) {
    samples[i].add(*largest[i]);
    for (size_t b = 0; b < 8; b++) std::snprintf(samples[i].label + 2 * b, 3, "%02x", largest[i]->name[b]);
  }
  if (rest && count < scope_labels_max + 1) samples[count++] = samples.back();
  return count;
}

kvc_status Store::metrics_text(char *out, size_t capacity, size_t *size, Error &error) {
  kvc_metrics m{};
  metrics(m);
  std::array<ScopeSample, scope_labels_max + 1> scopes{};
  size_t scope_count;
  uint64_t chunks, objects;
  {
    std::lock_guard lock(mutex_);
    scope_count = sample_scopes(scopes);
    chunks = index_->chunk_count();
    objects = index_->object_count();
  }
  const uint64_t quota = metrics_.evicted_by_quota, expired = metrics_.expired;
  Text text(out, capacity);
  text.counter("match_calls_total", "Calls of kvc_match that were no peeks.", m.match_calls);
  text.counter("match_tokens_total", "Tokens that matches asked for.", m.match_tokens);
  text.counter("hit_tokens_total", "Tokens that matches found.", m.hit_tokens);
  text.counter("append_bytes_total", "Bytes copied in by kvc_append.", m.append_bytes);
  text.counter("gather_bytes_total", "Bytes copied out by kvc_gather.", m.gather_bytes);
  text.family("hit_bytes_total", "counter", "Bytes that reads found, by the tier they lay in.");
  text.sample("hit_bytes_total", "tier", "host", m.hit_bytes_host);
  text.family("evicted_total", "counter", "Chunks and objects dropped, by why: room in the store, a quota, a time to live.");
  text.sample("evicted_total", "reason", "room", m.evicted_chunks - std::min(quota, m.evicted_chunks));
  text.sample("evicted_total", "reason", "quota", quota);
  text.sample("evicted_total", "reason", "ttl", expired);
  text.family("refused_total", "counter", "Times that room was refused, by why: the store's, a quota, what is not sealed (open_bytes_max).");
  text.sample("refused_total", "reason", "room", metrics_.refused_room);
  text.sample("refused_total", "reason", "quota", metrics_.refused_quota);
  text.sample("refused_total", "reason", "open", metrics_.refused_open);
  text.counter("checksum_failures_total", "Pages and objects that failed a check and were dropped.", m.checksum_failures);
  text.counter("timeouts_total", "Calls whose time was over.", m.timeouts);
  text.counter("lapsed_leases_total", "Leases that ended by time.", m.lapsed_leases);
  text.counter("dropped_events_total", "Events that slow readers lost.", metrics_.dropped_events);
  text.gauge("memory_bytes", "Host memory of the store.", slab_.capacity_bytes());
  text.gauge("memory_used_bytes", "Host memory in use.", slab_.used_bytes());
  text.gauge("memory_open_bytes", "Of it, chunks that are not sealed.", open_bytes_);
  text.gauge("bookkeeping_bytes", "Memory beside it, for what the store knows of what it holds.", resource_.used_bytes());
  text.gauge("chunks", "Sealed chunks held.", chunks);
  text.gauge("objects", "Objects held.", objects);
  text.gauge("sequences", "Sequences alive.", seq_handles_.live_count());
  text.gauge("leases", "Leases of their own alive.", lease_handles_.live_count());
  const struct {
    const char *name, *type, *help;
    uint64_t ScopeSample::*value;
  } families[] = {{"scope_bytes", "gauge", "Host memory of sealed chunks and objects, by scope.", &ScopeSample::bytes},
                  {"scope_quota_bytes", "gauge", "Quota by scope; 0: none.", &ScopeSample::bytes_max},
                  {"scope_chunks", "gauge", "Sealed chunks by scope.", &ScopeSample::chunks},
                  {"scope_objects", "gauge", "Objects by scope.", &ScopeSample::objects},
                  {"scope_sequences", "gauge", "Sequences by scope.", &ScopeSample::sequences},
                  {"scope_hit_tokens", "gauge", "Tokens that matches found since the scope exists.", &ScopeSample::hit_tokens},
                  {"scope_miss_tokens", "gauge", "Tokens that matches did not find since the scope exists.", &ScopeSample::miss_tokens},
                  {"scope_written_tokens", "gauge", "Tokens appended since the scope exists.", &ScopeSample::tokens_written},
                  {"scope_read_tokens", "gauge", "Tokens gathered since the scope exists.", &ScopeSample::tokens_read}};
  for (const auto &family : families) {
    text.family(family.name, family.type, family.help);
    for (size_t i = 0; i < scope_count; i++) text.sample(family.name, "scope", scopes[i].label, scopes[i].*family.value);
  }
  *size = text.size();
  if (text.size() <= capacity || !out) return KVC_OK;
  return fail(error, KVC_ERR_RANGE, "text_capacity is %zu: %zu bytes are needed", capacity, text.size());
}

}  // namespace kvc::store

#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "kvc/kvc.h"

/// What every figure needs: memory like the store's, honest copies, contestants that take turns, medians.
namespace kvc::cli {

/// Anonymous memory with the same huge-page advice as the store's arena, touched and filled with noise.
class Pool {
 public:
  explicit Pool(uint64_t bytes);
  ~Pool();
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;
  uint8_t *data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  uint8_t *data_;
  uint64_t bytes_;
};

/// Throws when the system says that so much is not to be had: better than being killed half way.
void need_memory(uint64_t bytes);

/// As libc's memcpy.
using Copy = void *(*)(void *to, const void *from, size_t bytes);
/// Stores past the cache in the widest vectors of this processor, a plain loop; sizes and destinations are multiples of 64.  Series of it end
/// with copy_fence.
Copy copy_stream();
void copy_fence();

/// Monotonic nanoseconds.
double now_ns();

class Samples {
 public:
  void add(double value) { values_.push_back(value); }
  size_t count() const { return values_.size(); }
  double median() { return quantile(0.5); }
  double quantile(double q);

 private:
  std::vector<double> values_;
};

/// One of those that take turns.  `place` rises by one with every turn of anybody, so that each works on memory nobody has touched for long.
struct Contestant {
  std::function<void(uint64_t place)> run;
  std::function<void(uint64_t place)> before, after;  // not timed; may be empty
  Samples ns = {};
};

/// Rounds in which every contestant has one turn, in an order that rotates, until the time is over; the first `warm` rounds do not count.
void race(std::span<Contestant> contestants, double seconds, uint64_t warm, uint64_t rounds_max = UINT64_MAX);

/// The least median among contestants [first, last).
double fastest(std::span<Contestant> contestants);

/// Turns the status of a call into an exception: a benchmark has nothing to recover.
void must(kvc_status status, const kvc_error &error);

struct StoreHandles {
  kvc_store *store = nullptr;
  kvc_scope *scope = nullptr;
  StoreHandles(uint64_t memory_bytes, const kvc_shape *shape, uint32_t flags = KVC_OPEN_POPULATE);
  ~StoreHandles();
  StoreHandles(const StoreHandles &) = delete;
  StoreHandles &operator=(const StoreHandles &) = delete;
};

/// A cheap generator: the same numbers in every run.
struct Noise {
  uint64_t state;
  uint64_t next() {
    uint64_t z = state += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
  }
};

}  // namespace kvc::cli

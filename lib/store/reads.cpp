#include "store/reads.h"

namespace kvc::store {

Reads::Reads(std::pmr::memory_resource *resource) : reads_(resource), begun_(resource), free_(resource) {
  for (uint32_t i = 0; i < kCount; i++) add();
}

void Reads::add() {
  begun_.reserve(reads_.size() + 1);
  free_.reserve(reads_.size() + 1);
  free_.push_back(&reads_.emplace_back());
}

Reads::Read &Reads::begin(seq::Index &index) {
  if (free_.empty()) settle(index);
  if (free_.empty()) add();  // as many are copying at this moment
  Read &read = *free_.back();
  free_.pop_back();
  begun_.push_back(&read);
  read.done.store(false, std::memory_order_relaxed);
  read.pinned = false;
  read.count = 0;
  read.bytes = 0;
  return read;
}

void Reads::replace(Read &read, uint32_t item, seq::Ref right, seq::Index &index) {
  const seq::Ref wrong = index.ref_of(read.ids[item]);
  read.ids[item] = right.id;
  if (!read.pinned) return;
  index.pin(right);
  index.unpin(wrong, 0, false);
}

void Reads::settle(seq::Index &index) {
  size_t kept = 0;
  for (Read *read : begun_) {
    const bool done = read->done.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < read->count; i++) {
      const seq::Ref ref = index.ref_of(read->ids[i]);  // there still: nothing goes unsettled
      if (!done && !read->pinned) index.pin(ref);
      else if (done && read->pinned) index.unpin(ref, read->tick + i, false);
      else if (done) index.touch(ref, read->tick + i);
    }
    if (done) {
      settled_bytes_ += read->bytes;
      free_.push_back(read);
    } else {
      read->pinned = true;
      begun_[kept++] = read;
    }
  }
  begun_.resize(kept);
}

}  // namespace kvc::store

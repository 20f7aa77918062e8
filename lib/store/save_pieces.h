#pragma once
#include <array>

#include "io/replacement.h"
#include "store/save_file.h"
#include "store/store.h"

namespace kvc::store {

/// Parts of memory, one behind the other in the file.
class SaveWriter {
 public:
  SaveWriter(io::Replacement &file, std::pmr::memory_resource *resource) : headers(resource), scratch(resource), file_(file) {}
  uint64_t end() const { return end_; }
  [[nodiscard]] kvc_status add(const uint8_t *data, uint64_t bytes, Error &error) {
    if (bytes == 0) return KVC_OK;
    pieces_[count_++] = {const_cast<uint8_t *>(data), bytes};
    end_ += bytes;
    return count_ == pieces_.size() || end_ - at_ >= batch_bytes ? flush(error) : KVC_OK;
  }
  /// Zeros up to `to`, which is less than a page away.
  [[nodiscard]] kvc_status fill(uint64_t to, Error &error) { return add(zeros.data(), to - end_, error); }
  [[nodiscard]] kvc_status flush(Error &error) {
    if (count_ == 0) return KVC_OK;
    KVC_TRY(file_.write_at({pieces_.data(), count_}, at_, error));
    at_ = end_;
    count_ = 0;
    return KVC_OK;
  }
  std::pmr::vector<uint8_t> headers, scratch;  // what is written from them is flushed before they change

 private:
  static constexpr uint64_t batch_bytes = 1 << 20;  // what was just read for its sum is still in cache when it is written
  alignas(64) static constexpr std::array<uint8_t, save_align> zeros{};

  io::Replacement &file_;
  uint64_t at_ = 0, end_ = 0;
  size_t count_ = 0;
  std::array<iovec, 512> pieces_;
};

/// Where the rows of the table's pieces are; those that nobody may hold are held meanwhile.
struct Store::PiecesOut {
  explicit PiecesOut(Store &of) : store(of), sources(&of.resource_), pinned(&of.resource_) {}
  PiecesOut(const PiecesOut &) = delete;
  PiecesOut &operator=(const PiecesOut &) = delete;
  ~PiecesOut();

  struct Source {
    uint64_t at;
    uint8_t *data;
    Ref held;  // none: open rows
  };
  bool write_id_of(std::array<uint8_t, 16> &out, const Source &source, const Sequence &seq, Piece kind) const;
  /// What the file says of it: sealed if it is signed as its chunk is, and has all that the sequence could have of it.
  void describe(SaveTable &table, const Source &source, const Sequence &seq, Piece kind) const;

  Store &store;
  std::pmr::vector<Source> sources;
  std::pmr::vector<Ref> pinned;
};

}  // namespace kvc::store

#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvc/kvc.h"
#include "stamped.h"

/// One host among many on a store: it does what comes up, and knows of everything that it reads what it must be.
namespace kvc::stress {

/// Rows as a model computes them: a token's are made of all ids up to it.  So whoever wrote a chunk first wrote the right bytes.
inline uint64_t chained(uint64_t before, int32_t id) { return model::mix(before, static_cast<uint32_t>(id)); }

class Worker {
 public:
  Worker(kvc_store *store, kvc_scope *scope, uint64_t seed);
  /// One thing; false: something was wrong, and `wrong()` says what.
  bool step();
  /// Lets go of everything.
  bool end();
  const std::string &wrong() const { return wrong_; }
  /// How often each thing was done, by name.
  const std::map<std::string, uint64_t> &done() const { return done_; }

 private:
  struct Sequence {
    kvc_seq *handle = nullptr;
    std::vector<uint64_t> chain, places;  // of each token: what it is made of, and the position it was computed at
  };
  struct View {
    kvc_view *handle = nullptr;
    kvc_rows rows;
    std::string k, v;
  };
  using Step = bool (Worker::*)();

  bool fail(const std::string &what);
  /// The status, if it is one of those; else the step is wrong.
  bool is_one_of(kvc_status status, std::initializer_list<kvc_status> allowed, const char *what);
  Sequence *any();
  std::vector<int32_t> prompt();
  std::vector<std::unique_ptr<model::Block>> blocks(const std::vector<uint64_t> &chain, const std::vector<uint64_t> &places, uint64_t begin, uint64_t end, bool filled);
  bool recover(Sequence &seq);
  bool check(Sequence &seq, uint64_t begin, uint64_t end);
  bool write(Sequence &seq, const std::vector<int32_t> &ids);

  bool match();
  bool append();
  bool gather();
  bool fork();
  bool truncate();
  bool release();
  bool lease();
  bool renew();
  bool acquire();
  bool let_go_of_view();
  bool reorder();
  bool compact();
  bool queued();
  bool put();
  bool get();
  bool remove();
  bool list();
  bool look();
  bool clear();
  bool verify();

  kvc_store *const store_;
  kvc_scope *const scope_;
  const model::Geometry &geometry_;
  model::Random random_;
  kvc_error error_;
  kvc_queue *queue_ = nullptr;
  std::string wrong_;
  std::vector<Sequence> seqs_;
  std::vector<kvc_lease *> leases_;
  std::vector<View> views_;
  std::map<std::string, uint64_t> done_;
};

}  // namespace kvc::stress

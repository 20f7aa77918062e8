// Any order of calls on the prefix index, against a map.
#include "seq/index.h"

#include <map>

#include "input.h"

namespace {

using namespace kvc::seq;
using kvc::fuzz::Input;

struct Known {
  Name name;
  Ref ref;
  uint64_t parent;  // number; 0: none
  uint32_t pins = 1, scope = 0;
  bool object = false, named = true, dropped = false;
};

/// What the index should hold.
struct Oracle final : NodeSink {
  std::map<uint64_t, Known> all;
  std::map<Name, uint64_t> names[2];  // chunks, objects

  void released(Ref ref, const Node &node, const Owner &owner) noexcept override {
    const auto found = all.find(node.payload);
    FUZZ_CHECK(found != all.end() && found->second.ref == ref && owner.scope == found->second.scope);
    FUZZ_CHECK(found->second.pins == 0 && !has_children(node.payload));
    forget_name(found->second);
    all.erase(found);
  }
  bool has_children(uint64_t number) const {
    for (const auto &[child, known] : all)
      if (known.parent == number) return true;
    return false;
  }
  void forget_name(Known &known) {
    if (!known.named) return;
    names[known.object].erase(known.name);
    known.named = false;
  }
};

class Run {
 public:
  explicit Run(Input &input) : input_(input) {}
  void step() {
    switch (input_.number<uint8_t>() % 8) {
      case 0:
      case 1: return insert();
      case 2: return pin();
      case 3:
      case 4: return unpin();
      case 5: return drop();
      case 6: return evict();
      default: return input_.number<uint8_t>() % 8 ? look() : clear();
    }
  }
  void end() {
    look();
    for (auto &[number, known] : std::map(oracle_.all)) {
      for (auto found = oracle_.all.find(number); found != oracle_.all.end() && found->second.pins; found = oracle_.all.find(number)) {
        found->second.pins--;
        index_.unpin(known.ref, ++tick_, true);
      }
    }
    while (index_.evict()) {
    }
    FUZZ_CHECK(oracle_.all.empty());
    FUZZ_CHECK(index_.chunk_count() == 0 && index_.object_count() == 0);
  }

 private:
  Known *any(uint64_t *number = nullptr) {
    if (oracle_.all.empty()) return nullptr;
    auto at = oracle_.all.lower_bound(input_.below(next_ + 1));
    if (at == oracle_.all.end()) at = oracle_.all.begin();
    if (number) *number = at->first;
    return &at->second;
  }
  void insert() {
    Known known{};
    const uint8_t kind = input_.number<uint8_t>();
    known.object = kind % 4 == 0, known.scope = kind / 4 % 3;
    known.named = kind % 16 != 1 || known.object;
    known.pins = 1;
    known.name[0] = input_.number<uint8_t>() % 32, known.name[8] = known.object;
    if (known.named && oracle_.names[known.object].contains(known.name)) return;
    uint64_t parent = 0;
    const Known *above = known.object || kind & 128 ? nullptr : any(&parent);
    if (above && (above->object || above->dropped || !above->named || above->scope != known.scope)) above = nullptr;
    if (!above) parent = 0;
    known.parent = parent;
    Node node{};
    node.name = known.name, node.payload = ++next_, node.tick = ++tick_;
    node.flags = (known.object ? node_object : 0u) | (known.named ? 0u : node_unnamed);
    index_.reserve(1);
    known.ref = index_.insert(node, above ? above->ref : Ref{}, Owner{next_, known.scope});
    if (known.named) oracle_.names[known.object][known.name] = next_;
    oracle_.all[next_] = known;
  }
  void pin() {
    if (Known *known = any()) known->pins++, index_.pin(known->ref);
  }
  void unpin() {
    Known *known = any();
    if (!known || !known->pins) return;
    known->pins--;
    index_.unpin(known->ref, ++tick_, input_.number<uint8_t>() % 2);
  }
  void drop() {
    Known *known = any();
    if (!known || known->dropped) return;
    const Ref ref = known->ref;
    oracle_.forget_name(*known);
    known->dropped = true;
    index_.drop(ref);
  }
  void evict() {
    bool can = false;
    for (const auto &[number, known] : oracle_.all) can = can || (!known.pins && !oracle_.has_children(number));
    const size_t before = oracle_.all.size();
    FUZZ_CHECK(index_.evict() == can);
    FUZZ_CHECK(oracle_.all.size() <= before - can);
  }
  void clear() {
    const uint32_t scope = input_.number<uint8_t>() % 3;
    for (auto &[number, known] : oracle_.all)
      if (known.scope == scope) oracle_.forget_name(known);
    index_.clear(scope);
  }
  void look() {
    for (uint8_t n = 0; n < 32; n++)
      for (const bool object : {false, true}) {
        Name name{};
        name[0] = n, name[8] = object;
        const auto found = oracle_.names[object].find(name);
        const Ref expected = found == oracle_.names[object].end() ? Ref{} : oracle_.all.at(found->second).ref;
        FUZZ_CHECK((object ? index_.find_object(name) : index_.find(name)) == expected);
      }
    uint64_t objects = 0;
    for (const auto &[number, known] : oracle_.all) {
      objects += known.object;
      FUZZ_CHECK(index_.node(known.ref).payload == number && index_.node(known.ref).pins == known.pins);
      FUZZ_CHECK(!known.dropped || !index_.held(known.ref));
    }
    FUZZ_CHECK(index_.object_count() == objects && index_.chunk_count() == oracle_.all.size() - objects);
  }

  Input &input_;
  Oracle oracle_;
  Index index_{std::pmr::new_delete_resource(), &oracle_, NameHash{{1, 2, 3, 4}}};
  uint64_t next_ = 0, tick_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Input input(data, size);
  Run run(input);
  while (!input.empty()) run.step();
  run.end();
  return 0;
}

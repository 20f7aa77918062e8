#pragma once
#include <algorithm>
#include <map>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>

#include "seq/index.h"

namespace kvc::store {

/// The keys of a scope in order, for listing.  Made by the first list, kept from then on: who never lists pays nothing for it.
class KeyOrder {
 public:
  using Map = std::pmr::map<std::pmr::string, seq::Ref, std::less<>>;
  using Place = Map::iterator;

  explicit KeyOrder(std::pmr::memory_resource *resource) : resource_(resource) {}
  bool made() const { return map_.has_value(); }
  void adopt(Map &&map) { map_.emplace(std::move(map)); }
  /// A new key, whose ref comes when nothing can fail any more.  Throws std::bad_alloc.
  Place make(std::string_view key) { return map_ ? map_->emplace(key, seq::Ref{}).first : Place{}; }
  void set(Place place, seq::Ref ref) {
    if (map_) place->second = ref;
  }
  /// `key` as the slot says it; when that is damaged the ref alone tells.
  void erase(std::string_view key, seq::Ref ref) {
    auto at = map_->find(key);
    if (at == map_->end() || at->second != ref) at = std::find_if(map_->begin(), map_->end(), [&](const auto &entry) { return entry.second == ref; });
    if (at != map_->end()) map_->erase(at);
  }
  void clear() {
    if (map_) map_->clear();
  }
  const Map &map() const { return *map_; }
  std::pmr::memory_resource *resource() const { return resource_; }

 private:
  std::pmr::memory_resource *resource_;
  std::optional<Map> map_;
};

}  // namespace kvc::store

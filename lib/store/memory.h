#pragma once
#include <memory>
#include <memory_resource>
#include <utility>

namespace kvc::store {

/// Objects of the store live in its resource, so that they are counted and can be refused.
template <typename T, typename... Args>
T *make(std::pmr::memory_resource *resource, Args &&...args) {
  void *at = resource->allocate(sizeof(T), alignof(T));
  try {
    return std::construct_at(static_cast<T *>(at), std::forward<Args>(args)...);
  } catch (...) {
    resource->deallocate(at, sizeof(T), alignof(T));
    throw;
  }
}

template <typename T>
void destroy(std::pmr::memory_resource *resource, T *object) {
  if (!object) return;
  std::destroy_at(object);
  resource->deallocate(object, sizeof(T), alignof(T));
}

}  // namespace kvc::store

#pragma once
#include "base/handle.h"
#include "kvc/kvc.h"

namespace kvc::store {

class Store;
struct Scope;

/// A scope in use by a call.
class ScopeUse {
 public:
  ScopeUse() = default;
  /// Of a scope that another holds meanwhile.
  explicit ScopeUse(const ScopeUse *held) : store_(held->store_), scope_(held->scope_) {}
  ScopeUse(const ScopeUse &) = delete;
  ScopeUse &operator=(const ScopeUse &) = delete;
  ~ScopeUse() { leave(); }
  [[nodiscard]] kvc_status enter(const base::Token &token, base::Error &error);
  /// Before the end of the call: nothing is used of the scope from here on.
  void leave();
  Store &store() { return *store_; }
  Scope &scope() { return *scope_; }

 private:
  base::Token token_;  // none: held by another
  Store *store_ = nullptr;
  Scope *scope_ = nullptr;
};

}  // namespace kvc::store

#include "base/sha256.h"

#include <openssl/evp.h>

#include <new>

#include "base/check.h"
#include "base/fault.h"

namespace kvc::base {
namespace {

/// The lookup by name costs more than hashing a chunk (EVP_sha256() repeats it in every digest), so it is made once in a process.  Never
/// freed: contexts of any thread may outlive any owner we could give it.
EVP_MD *algorithm() {
  static EVP_MD *const fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return fetched;
}

EVP_MD_CTX *of(void *context) { return static_cast<EVP_MD_CTX *>(context); }

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (!KVC_FAULT("base.sha256.context") && context_ && algorithm() && EVP_DigestInit_ex2(of(context_), algorithm(), nullptr) == 1) return;
  EVP_MD_CTX_free(of(context_));
  throw std::bad_alloc();
}

Sha256::~Sha256() { EVP_MD_CTX_free(of(context_)); }

// The calls below cannot fail on a context that was initialised once: they allocate nothing.  A failure would be a wrong name, so it stops.
void Sha256::begin() { KVC_CHECK(EVP_DigestInit_ex2(of(context_), nullptr, nullptr) == 1); }

void Sha256::update(const void *data, size_t size) { KVC_CHECK(EVP_DigestUpdate(of(context_), data, size) == 1); }

Digest Sha256::finish() {
  Digest digest;
  unsigned size = 0;
  KVC_CHECK(EVP_DigestFinal_ex(of(context_), digest.data(), &size) == 1 && size == digest.size());
  return digest;
}

Digest Sha256::digest(const void *data, size_t size) {
  begin();
  update(data, size);
  return finish();
}

}  // namespace kvc::base

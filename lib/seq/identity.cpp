#include "seq/identity.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "seq/shape.h"

namespace kvc::seq {
namespace {

using base::Error;
using base::fail;

static_assert(std::endian::native == std::endian::little, "names are made of little-endian integers as they stand in memory");

// Tags keep the four kinds of name apart: no input of one kind can be an input of another.
constexpr std::string_view scope_tag = "kvc scope 1", position_tag = "kvc position 1";
constexpr std::string_view chunk_tag = "kvc chunk 1", object_tag = "kvc object 1";

void update(base::Sha256 &hash, std::string_view bytes) { hash.update(bytes.data(), bytes.size()); }
void update(base::Sha256 &hash, const Name &name) { hash.update(name.data(), name.size()); }
void update(base::Sha256 &hash, uint64_t value) { hash.update(&value, sizeof value); }

unsigned long long wide(uint64_t value) { return value; }

uint64_t end_of(const Extra &extra) { return extra.token_begin + extra.token_count; }

/// Everything about one entry but its neighbours.
kvc_status check_extra(size_t index, const kvc_extra &extra, Error &error) {
  if (!extra.data) return fail(error, KVC_ERR_ARGUMENT, "extra %zu: data NULL: 1..%zu bytes", index, extra_data_max);
  if (extra.data_size == 0 || extra.data_size > extra_data_max) {
    return fail(error, KVC_ERR_ARGUMENT, "extra %zu: data_size %llu: 1..%zu", index, wide(extra.data_size), extra_data_max);
  }
  if (extra.token_count == 0) return fail(error, KVC_ERR_ARGUMENT, "extra %zu: token_count 0: at least one token", index);
  if (extra.token_begin + extra.token_count < extra.token_begin) {
    return fail(error, KVC_ERR_ARGUMENT, "extra %zu: token_begin %llu + token_count %llu is over 2^64 - 1", index, wide(extra.token_begin),
                wide(extra.token_count));
  }
  return KVC_OK;
}

kvc_status check_list(const kvc_extra *extras, size_t extra_count, Error &error) {
  if (extra_count != 0 && !extras) return fail(error, KVC_ERR_ARGUMENT, "extras NULL: extra_count is %zu", extra_count);
  for (size_t i = 0; i < extra_count; ++i) {
    KVC_TRY(check_extra(i, extras[i], error));
    if (i == 0) continue;
    const kvc_extra &before = extras[i - 1];
    if (extras[i].token_begin < before.token_begin) {
      return fail(error, KVC_ERR_ARGUMENT, "extra %zu: token_begin %llu is before that of extra %zu (%llu): they rise", i,
                  wide(extras[i].token_begin), i - 1, wide(before.token_begin));
    }
    if (extras[i].token_begin < before.token_begin + before.token_count) {
      return fail(error, KVC_ERR_ARGUMENT, "extra %zu: token_begin %llu overlaps extra %zu, which ends at %llu", i,
                  wide(extras[i].token_begin), i - 1, wide(before.token_begin + before.token_count));
    }
  }
  return KVC_OK;
}

Extra owned(const kvc_extra &extra) {
  Extra copy;
  copy.token_begin = extra.token_begin;
  copy.token_count = extra.token_count;
  copy.data_size = static_cast<uint8_t>(extra.data_size);
  std::memcpy(copy.data, extra.data, extra.data_size);
  return copy;
}

uint8_t *put(uint8_t *to, const void *from, size_t size) {
  if (size != 0) std::memcpy(to, from, size);  // an empty view may have no address
  return to + size;
}
uint8_t *put(uint8_t *to, uint32_t value) { return put(to, &value, sizeof value); }
/// Out of line: where the compiler knows that the count is small it copies by `rep movs`, which costs a quarter of the whole digest.
[[gnu::noinline]] uint8_t *put_tokens(uint8_t *to, const int32_t *tokens, uint32_t token_count) {
  return put(to, tokens, size_t{token_count} * sizeof(int32_t));
}

}  // namespace

Name scope_name(const ScopeIdentity &identity, const Name &shape_fingerprint) {
  base::Sha256 hash;
  hash.begin();
  update(hash, scope_tag);
  uint8_t tag = 0;
  for (const std::string_view field : {identity.tenant, identity.model, identity.revision, identity.adapter, identity.salt}) {
    ++tag;
#ifndef KVC_MUTATE_IDENTITY  // the wrong build joins bare strings, as others have done
    hash.update(&tag, 1);
    update(hash, uint64_t{field.size()});
#endif
    update(hash, field);
  }
  update(hash, shape_fingerprint);
  return hash.finish();
}

Name first_chunk_parent(const Name &scope, uint64_t first_position) {
  if (first_position == 0) return scope;
  base::Sha256 hash;
  hash.begin();
  update(hash, position_tag);
  update(hash, scope);
  update(hash, first_position);
  return hash.finish();
}

Name object_name(base::Sha256 &hash, const Name &scope, std::string_view key) {
  KVC_CHECK(key.size() <= object_key_max);
  uint8_t buffer[object_tag.size() + sizeof(Name) + sizeof(uint64_t) + object_key_max];
  const uint64_t key_size = key.size();
  uint8_t *end = put(buffer, object_tag.data(), object_tag.size());
  end = put(end, scope.data(), scope.size());
  end = put(end, &key_size, sizeof key_size);
  end = put(end, key.data(), key.size());
  return hash.digest(buffer, static_cast<size_t>(end - buffer));
}

kvc_status Extras::add(const kvc_extra *extras, size_t extra_count, Error &error, uint64_t replace_from) {
  KVC_TRY(check_list(extras, extra_count, error));
  std::pmr::vector<Extra> merged(list_.get_allocator());
  merged.reserve(list_.size() + extra_count);
  auto held = list_.begin();
  const auto kept_end = std::partition_point(held, list_.end(), [&](const Extra &e) { return e.token_begin < replace_from; });
  for (size_t i = 0; i < extra_count; ++i) {
    const uint64_t begin = extras[i].token_begin, end = begin + extras[i].token_count;
    while (held != kept_end && end_of(*held) <= begin) merged.push_back(*held++);
    if (held != kept_end && held->token_begin < end) {
      return fail(error, KVC_ERR_RANGE, "extra %zu: tokens %llu..%llu overlap an earlier extra of the sequence, %llu..%llu", i,
                  wide(begin), wide(end), wide(held->token_begin), wide(end_of(*held)));
    }
    merged.push_back(owned(extras[i]));
  }
  merged.insert(merged.end(), held, kept_end);
  list_.swap(merged);
  return KVC_OK;
}

Name ChunkNamer::next(const Name &parent, const int32_t *tokens, uint32_t token_count, uint64_t chunk_begin,
                      std::span<const Extra> extras) {
  KVC_CHECK(token_count > 0 && token_count <= chunk_tokens_max && chunk_begin + token_count > chunk_begin);
  // One digest over one contiguous buffer is the fastest way through libcrypto.  It is sized for the worst: an extra on every token.
  constexpr size_t extra_bytes_max = 16 + extra_data_max;
  uint8_t buffer[chunk_tag.size() + sizeof(Name) + 8 + chunk_tokens_max * (sizeof(int32_t) + extra_bytes_max)];
  uint8_t *end = put(buffer, chunk_tag.data(), chunk_tag.size());
  end = put(end, parent.data(), parent.size());
  end = put(end, token_count);
  end = put_tokens(end, tokens, token_count);
  uint8_t *const count_at = end;
  end += sizeof(uint32_t);

  uint32_t touching = 0;
  const uint64_t chunk_end = chunk_begin + token_count;
  auto extra = std::partition_point(extras.begin(), extras.end(), [&](const Extra &e) { return end_of(e) <= chunk_begin; });
  for (; extra != extras.end() && extra->token_begin < chunk_end; ++extra, ++touching) {
    KVC_CHECK(touching < token_count && extra->data_size <= extra_data_max);  // they do not overlap, so the buffer holds them
    const uint64_t begin = std::max(extra->token_begin, chunk_begin), past = std::min(end_of(*extra), chunk_end);
    const uint64_t data_size = extra->data_size;
    end = put(end, static_cast<uint32_t>(begin - chunk_begin));
    end = put(end, static_cast<uint32_t>(past - begin));
    end = put(end, &data_size, sizeof data_size);
    end = put(end, extra->data, data_size);
  }
  put(count_at, touching);
  return hash_.digest(buffer, static_cast<size_t>(end - buffer));
}

}  // namespace kvc::seq

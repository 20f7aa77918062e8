// The steps over what a host does less often: rearranged sequences, limits, values with a layout, queues.
#include <cstdio>

#include "inside.h"
#include "scenario.h"

namespace kvc::fault {
namespace {

constexpr uint64_t kChunk = 16;

}  // namespace

void Scenario::add_rearranged() {
  add("seq_reorder", [this] {
    kvc_seq *const seqs[] = {whole_, cut_};
    const uint32_t source[] = {1, 0};
    return kvc_seq_reorder(seqs, source, 2, &error_);
  });
  add("fork to compact", [this] { return kvc_seq_fork(&compacted_, late_, KVC_ALL, &error_); });
  add("seq_compact", [this] {
    std::vector<uint64_t> positions;
    for (uint64_t i = 0; i < kChunk; i++) positions.push_back(i);
    for (uint64_t i = 40; i < 75; i += 3) positions.push_back(i);
    return kvc_seq_compact(compacted_, positions.data(), positions.size(), &error_);
  });
}

void Scenario::add_limits() {
  add("scope_create with limits", [this] {
    kvc_scope_options o;
    KVC_INIT(&o);
    o.model = "limited", o.bytes_max = 20000, o.ttl_ms = 1000000000;
    return kvc_scope_create(&limited_, store_, &o, &error_);
  });
  for (const char *key : {"one", "two", "three"}) add("object_put under a quota", [=, this] { return put_value(limited_, key, 8000); });
  steps_.back().evicts = true;  // the last of them in place of the first
}

void Scenario::add_queue_end() {
  add("object_put in a queue", [this] {
    std::vector<uint8_t> value(2000, 3);
    kvc_bytes part{value.data(), value.size()};
    kvc_object object{};
    object.key = "queued", object.key_size = 6, object.parts = &part, object.part_count = 1;
    kvc_call call;
    KVC_INIT(&call);
    call.queue = queue_;
    if (const kvc_status status = kvc_object_put(nullptr, objects_, &object, 1, nullptr, &call, &error_); status != KVC_OK) return status;
    kvc_result result;
    KVC_INIT(&result);
    for (size_t count = 0; count == 0;)
      if (kvc_queue_drain(&result, 1, &count, queue_, 1000000, &error_) != KVC_OK) return error_.status;
    std::snprintf(error_.message, sizeof error_.message, "%s", result.message);
    return result.status;
  });
  add("queue_release", [this] {
    const kvc_status status = kvc_queue_release(queue_, &error_);
    if (status == KVC_OK) queue_ = nullptr;
    return status;
  });
}

}  // namespace kvc::fault

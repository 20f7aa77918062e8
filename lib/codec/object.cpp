#include "codec/object.h"

#include <bit>

namespace kvc::codec {
namespace {

using base::fail;

constexpr uint64_t magic = 0x315f4a424f43564bu;  // "KVCOBJ_1"
constexpr uint16_t version = 1;
constexpr uint32_t flag_layout = 1;
static_assert(std::endian::native == std::endian::little, "the record is little-endian as it lies in memory");

uint64_t record_sum(const ObjectRecord &record) { return kernels::table().sum(&record, offsetof(ObjectRecord, sum)); }

}  // namespace

void object_record_seal(ObjectRecord &record) {
  record.magic = magic;
  record.version = version;
  record.record_bytes = object_record_bytes;
  record.flags = flag_layout;
  record.sum = record_sum(record);
}

kvc_status object_record_check(const ObjectRecord &record, base::Error &error) {
  if (record.magic != magic) return fail(error, KVC_ERR_CORRUPT, "object: magic %016llx: not an object", static_cast<unsigned long long>(record.magic));
  if (record.version != version) return fail(error, KVC_ERR_VERSION, "object: version %u: this library reads %u", record.version, version);
  const uint64_t sum = record_sum(record);
  if (record.sum != sum)
    return fail(error, KVC_ERR_CORRUPT, "object: sum %016llx: its bytes give %016llx", static_cast<unsigned long long>(record.sum), static_cast<unsigned long long>(sum));
  if (record.record_bytes != object_record_bytes || record.flags != flag_layout)
    return fail(error, KVC_ERR_CORRUPT, "object: record_bytes %u, flags 0x%x: %u and 1", record.record_bytes, record.flags, object_record_bytes);
  return KVC_OK;
}

}  // namespace kvc::codec

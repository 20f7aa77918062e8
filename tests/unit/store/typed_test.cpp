#include "store/typed.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory_resource>
#include <sstream>

#include "golden/vectors.h"
#include "../api/host.h"

/// The bytes of objects with a layout, against vectors that no code of the library made.
namespace {

using namespace kvc;
using kvc_test::sized;

std::vector<uint64_t> numbers(const std::string &text) {
  std::istringstream in(text);
  std::vector<uint64_t> out;
  for (uint64_t n; in >> n;) out.push_back(n);
  return out;
}

/// The scope that all vectors are of.
struct GoldenScope : store::Scope {
  GoldenScope() : store::Scope(std::pmr::get_default_resource()) {
    kvc_layer layer{4, KVC_LAYER_FULL, 5, 8, 4, 0, 0, 0, KVC_F8_E4M3, {0, 0, 0}};
    auto wanted = sized<kvc_shape>();
    wanted.dtype = KVC_BF16, wanted.chunk_tokens = 16, wanted.layers = &layer, wanted.layer_runs = 1;
    base::Error error;
    EXPECT_EQ(seq::shape_check(shape, wanted, error), KVC_OK) << error.message;
    layout.init(shape);
  }
};

kvc_rows layout_of(const golden::Record &record) {
  auto rows = sized<kvc_rows>();
  const auto layers = numbers(record.text("layers")), heads = numbers(record.text("heads"));
  rows.layer_begin = static_cast<uint32_t>(layers[0]), rows.layer_count = static_cast<uint32_t>(layers[1]);
  rows.head_begin = static_cast<uint32_t>(heads[0]), rows.head_count = static_cast<uint32_t>(heads[1]);
  rows.token_count = record.number("tokens");
  for (const auto &[name, array] : {std::pair{"k", &rows.k}, std::pair{"v", &rows.v}}) {
    const auto side = numbers(record.text(name));
    array->data = reinterpret_cast<void *>(side[0]);
    array->layer_stride = side[1], array->token_stride = side[2], array->head_stride = side[3], array->dim_stride = side[4];
    array->dim_group = static_cast<uint32_t>(side[5]);
  }
  return rows;
}

TEST(Typed, records_and_frames_are_those_of_the_format) {
  const GoldenScope scope;
  for (const golden::Record &record : golden::read("typed.txt")) {
    EXPECT_EQ(golden::hex(scope.shape.fingerprint), record.text("shape"));
    store::TypedPut put;
    put.write_id = record.array<16>("write_id");
    base::Error error;
    ASSERT_EQ(store::resolve_layout(put.record, layout_of(record), scope, std::pmr::get_default_resource(), error), KVC_OK) << error.message;
    golden::Bytes value = record.bytes("value"), key = record.bytes("key"), want = record.bytes("held");
    ASSERT_EQ(put.record.value_bytes, value.size());
    ASSERT_EQ(store::typed_slot_bytes(put.record), sizeof(store::ObjectHeader) + want.size());
    base::Sha256 hash;
    const seq::Name name = seq::object_name(hash, record.array<32>("scope"), {reinterpret_cast<const char *>(key.data()), key.size()});
    alignas(64) static uint8_t slot[1 << 16];
    ASSERT_LE(store::typed_slot_bytes(put.record), sizeof slot);
    for (const uint64_t first : {value.size(), uint64_t{1}, value.size() / 3}) {
      std::memset(slot, 0xCC, sizeof slot);
      const kvc_bytes parts[] = {{value.data(), first}, {value.data() + first, value.size() - first}};
      kvc_object object{};
      object.parts = parts, object.part_count = 2;
      store::fill_typed(slot, put, name, object);
      EXPECT_EQ(golden::hex(slot + sizeof(store::ObjectHeader), want.size()), record.text("held"));
      EXPECT_EQ(store::verify_typed(slot, error), KVC_OK) << error.message;
    }
    golden::Bytes out(value.size(), 0xEE);
    const kvc_bytes part{out.data(), out.size()};
    kvc_object object{};
    object.parts = &part, object.part_count = 1;
    std::memset(slot, 0xCC, sizeof slot);
    std::memcpy(slot + sizeof(store::ObjectHeader), want.data(), want.size());
    store::copy_typed(object, slot);
    EXPECT_EQ(out, value);
  }
}

TEST(Typed, a_record_of_another_kind_version_or_sum_is_named) {
  const GoldenScope scope;
  const golden::Record vector = golden::read("typed.txt")[0];
  codec::ObjectRecord record;
  const golden::Bytes held = vector.bytes("held");
  const auto status_with = [&](size_t at, uint8_t change, const char *message) {
    std::memcpy(static_cast<void *>(&record), held.data(), sizeof record);
    reinterpret_cast<uint8_t *>(&record)[at] ^= change;
    base::Error error;
    const kvc_status status = codec::object_record_check(record, error);
    EXPECT_NE(std::string(error.message).find(message), std::string::npos) << error.message;
    return status;
  };
  EXPECT_EQ(status_with(0, 0, ""), KVC_OK);
  EXPECT_EQ(status_with(3, 1, "magic"), KVC_ERR_CORRUPT);
  EXPECT_EQ(status_with(8, 2, "version 3"), KVC_ERR_VERSION);
  for (size_t at = 12; at < sizeof record; at++) EXPECT_EQ(status_with(at, 64, "sum"), KVC_ERR_CORRUPT) << at;
}

}  // namespace

#pragma once
#include <algorithm>

#include "codec/object.h"
#include "seq/identity.h"
#include "store/object.h"
#include "store/scope.h"

/// Objects put with a layout: held as frames, read back in the layout they were put in.  In the slot stand the header that every object has, the
/// record (lib/codec/object.h) and the frames.
namespace kvc::store {

/// What a put with a layout knows before it looks at its items.
struct TypedPut {
  codec::ObjectRecord record{};  // but for the name
  std::array<uint8_t, 16> write_id{};
  const Scope *scope = nullptr;
};

/// Checks a layout (a complete struct) against the scope's shape and writes it down.  Its elements cover the bytes from 0 to record.value_bytes, each
/// exactly once.  ARGUMENT, RANGE, SHAPE, UNSUPPORTED.
[[nodiscard]] kvc_status resolve_layout(codec::ObjectRecord &out, const kvc_rows &layout, const Scope &scope, std::pmr::memory_resource *scratch,
                                        base::Error &error);
/// Is the value as long as its layout?
[[nodiscard]] kvc_status check_covered(const codec::ObjectRecord &record, uint64_t value_bytes, base::Error &error);

constexpr uint64_t typed_frames_offset = sizeof(ObjectHeader) + codec::object_record_bytes;
static_assert(typed_frames_offset % codec::section_align == 0);
inline const codec::ObjectRecord &typed_record(const uint8_t *slot) { return *reinterpret_cast<const codec::ObjectRecord *>(slot + sizeof(ObjectHeader)); }
inline uint64_t typed_slot_bytes(const codec::ObjectRecord &record) { return typed_frames_offset + record.frames_bytes(); }

/// Record and frames, from the parts of a value that is covered.
void fill_typed(uint8_t *slot, const TypedPut &typed, const seq::Name &name, const kvc_object &object);
/// The value into parts that are long enough.
void copy_typed(const kvc_object &object, const uint8_t *slot);
/// The parts are as long as the value.
[[nodiscard]] bool equal_typed(const uint8_t *slot, const kvc_object &object);
/// Record, frame headers and sections against their sums.
[[nodiscard]] kvc_status verify_typed(const uint8_t *slot, base::Error &error);

}  // namespace kvc::store

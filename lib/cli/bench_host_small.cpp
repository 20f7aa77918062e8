#include <cstring>

#include "cli/bench_objects.h"

namespace kvc::cli {
namespace {

constexpr uint64_t kGets = 100000;

}  // namespace

/// Ours and the copies read from equally distant places, 128 bytes behind the start of slots of the same size, and write to places nobody
/// used for long.
Figure HostBench::get_4k() {
  rows_.reset();
  index_.reset();
  kvc_error error;
  KVC_INIT(&error);
  const StoreHandles handles(kObjects * kSlotBytes + kObjects * kSlotBytes / 16, nullptr);
  const Pool source(kObjects * kSlotBytes), destination(kObjects * kValueBytes);
  put_all(handles, destination, error);
  Noise noise{5};
  Item item;
  void *to = nullptr;
  const uint8_t *from = nullptr;
  std::vector<Contestant> contestants;
  contestants.push_back({[&](uint64_t) {
                           const kvc_status status = kvc_object_get(nullptr, handles.scope, &item.object, 1, nullptr, nullptr, &error);
                           if (status != KVC_OK) must(status, error);
                         },
                         [&](uint64_t) { item.set(noise.next() % kObjects, destination.data() + noise.next() % kObjects * kValueBytes); }, {}});
  for (const Copy copy : {static_cast<Copy>(std::memcpy), copy_stream()})
    contestants.push_back({[&, copy](uint64_t) {
                             copy(to, from, kValueBytes);
                             if (copy != static_cast<Copy>(std::memcpy)) copy_fence();
                           },
                           [&](uint64_t) {
                             from = source.data() + noise.next() % kObjects * kSlotBytes + 128;
                             to = destination.data() + noise.next() % kObjects * kValueBytes;
                           },
                           {}});
  race(contestants, 60, 1000, kGets + 1000);
  Figure figure;
  figure.baseline = fastest(std::span(contestants).subspan(1));
  figure.value = contestants[0].ns.median() - figure.baseline;
  figure.p99 = contestants[0].ns.quantile(0.99) - figure.baseline;
  figure.ratio = figure.value / figure.baseline;
  return figure;
}

}  // namespace kvc::cli

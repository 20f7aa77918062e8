#include "cli/bench_objects.h"

namespace kvc::cli {

/// Gets of 32 objects on a host-driven store, from the first call to the last result; places as in get_4k.
Figure HostBench::queued_gets(bool one_call) {
  constexpr uint64_t batch = 32;
  rows_.reset();
  index_.reset();
  kvc_error error;
  KVC_INIT(&error);
  const StoreHandles handles(kObjects * kSlotBytes + kObjects * kSlotBytes / 16, nullptr, KVC_OPEN_POPULATE | KVC_OPEN_HOST_DRIVEN);
  const Pool source(kObjects * kSlotBytes), destination(kObjects * kValueBytes);
  put_all(handles, destination, error);
  kvc_call call;
  KVC_INIT(&call);
  if (!one_call) call.flags = KVC_CALL_MORE;
  must(kvc_queue_create(&call.queue, handles.store, nullptr, &error), error);
  Noise noise{5};
  const uint64_t call_count = one_call ? 1 : batch, per_call = batch / call_count;
  std::array<Item, batch> items;
  std::array<kvc_object, batch> objects;
  std::array<void *, batch> to;
  std::array<const uint8_t *, batch> from;
  kvc_result results[batch];
  std::vector<Contestant> contestants;
  contestants.push_back({[&](uint64_t) {
                           for (uint64_t i = 0; i < call_count; i++) must(kvc_object_get(nullptr, handles.scope, &objects[i * per_call], per_call, nullptr, &call, &error), error);
                           size_t count;
                           KVC_INIT(&results[0]);
                           must(kvc_queue_drain(results, batch, &count, call.queue, 0, &error), error);
                           if (count != call_count || results[count - 1].done != per_call) throw std::runtime_error("a batch that did not come back whole");
                         },
                         [&](uint64_t) {
                           for (uint64_t i = 0; i < batch; i++) {
                             items[i].set(noise.next() % kObjects, destination.data() + noise.next() % kObjects * kValueBytes);
                             objects[i] = items[i].object;
                           }
                         },
                         {}});
  for (const Copy copy : {static_cast<Copy>(std::memcpy), copy_stream()})
    contestants.push_back({[&, copy](uint64_t) {
                             for (uint64_t i = 0; i < batch; i++) copy(to[i], from[i], kValueBytes);
                             if (copy != static_cast<Copy>(std::memcpy)) copy_fence();
                           },
                           [&](uint64_t) {
                             for (uint64_t i = 0; i < batch; i++) {
                               from[i] = source.data() + noise.next() % kObjects * kSlotBytes + 128;
                               to[i] = destination.data() + noise.next() % kObjects * kValueBytes;
                             }
                           },
                           {}});
  race(contestants, 60, 100, 5000);
  Figure figure;
  figure.baseline = fastest(std::span(contestants).subspan(1)) / batch;
  figure.value = contestants[0].ns.median() / batch - figure.baseline;
  figure.p99 = contestants[0].ns.quantile(0.99) / batch - figure.baseline;
  figure.ratio = figure.value / figure.baseline;
  return figure;
}

Figure HostBench::queue_4k() { return queued_gets(true); }
Figure HostBench::queue_4k_more() { return queued_gets(false); }

/// A host-driven store with a queue and nothing to do.
Figure HostBench::step_idle() {
  constexpr uint64_t batch = 64;
  kvc_error error;
  KVC_INIT(&error);
  const StoreHandles handles(uint64_t{2} << 20, nullptr, KVC_OPEN_HOST_DRIVEN);
  kvc_queue *queue;
  must(kvc_queue_create(&queue, handles.store, nullptr, &error), error);
  Contestant contestants[] = {{[&](uint64_t) {
                                 for (uint64_t i = 0; i < batch; i++) {
                                   uint32_t more;
                                   must(kvc_store_step(&more, handles.store, 100, &error), error);
                                 }
                               },
                               {}, {}}};
  race(contestants, seconds_, 100);
  Figure figure;
  figure.value = contestants[0].ns.median() / batch;
  figure.p99 = contestants[0].ns.quantile(0.99) / batch;
  return figure;
}

}  // namespace kvc::cli

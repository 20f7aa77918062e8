#include "cli/bench_host.h"

/// A page lent in place and given back: nothing is copied, so there is nothing to compare with.
namespace kvc::cli {

Figure HostBench::view() {
  constexpr uint64_t batch = 64;
  using F = IndexFixture;
  F &f = tokens();
  Contestant contestants[] = {{[&](uint64_t place) {
                                 for (uint64_t i = 0; i < batch; i++) {
                                   kvc_view *view;
                                   kvc_rows rows;
                                   rows.size = sizeof rows;
                                   must(kvc_view_acquire(&view, &rows, f.seqs[place % F::sequences], static_cast<uint32_t>(i % Model::layers), 0, 0, &f.error), f.error);
                                   must(kvc_view_release(view, &f.error), f.error);
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

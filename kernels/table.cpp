#include "kernels/rows.h"

#include <cstring>

namespace kvc::kernels {

extern const Table base_table;

#if defined(__x86_64__)
extern const Table avx2_table, avx512_table;

// The flags of CMakeLists.txt, feature by feature: a machine that lacks one of them must not enter the variant.
static bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2"); }
static bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}
#endif

const Table *table_named(const char *name) {
  if (strcmp(name, "base") == 0) return &base_table;
#if defined(__x86_64__)
  if (strcmp(name, "avx2") == 0 && has_avx2()) return &avx2_table;
  if (strcmp(name, "avx512") == 0 && has_avx512()) return &avx512_table;
#endif
  return nullptr;
}

static const Table *best_table() {
  const Table *best = table_named("avx512");
  if (best == nullptr) best = table_named("avx2");
  return best != nullptr ? best : &base_table;
}

const Table &table() {
  static const Table *const best = best_table();
  return *best;
}

bool convertible(Dtype a, Dtype b) {
  auto number = [](Dtype dtype) { return dtype == Dtype::f32 || dtype == Dtype::f16 || dtype == Dtype::bf16; };
  return a == b || (number(a) && number(b));
}

}  // namespace kvc::kernels

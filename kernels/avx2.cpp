#include "kernels/variant.h"

namespace kvc::kernels {

extern const Table avx2_table;
const Table avx2_table{"avx2", rows_out, rows_in, rows_in_sum, sum, copy, fence, copy_sum};

}  // namespace kvc::kernels

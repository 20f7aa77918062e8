#include "../api/host.h"
#include "base/fault.h"

/// Chunks behind one that failed its check.
#ifdef KVC_FAULTS
namespace {

using namespace kvc_test;

TEST(Orphan, what_is_sealed_behind_a_lost_chunk_takes_no_name_from_what_can_be_found) {
  Host host({full_layers(1, 1, 4, 4)}, KVC_F16, 16, 2u << 20, KVC_OPEN_VERIFY_READS);
  std::vector<uint16_t> memory(48 * 4);
  const std::vector<int32_t> prompt = ids(48);
  const auto rows = [&](uint64_t begin, uint64_t count) {
    auto r = sized<kvc_rows>();
    r.layer_count = 1, r.token_begin = begin, r.token_count = count;
    r.k.data = r.v.data = memory.data(), r.k.bytes = r.v.bytes = memory.size() * 2;
    return r;
  };
  const auto matched = [&] {
    uint64_t length = 0;
    const SeqHandle seq = host.match(prompt, &length);
    return length;
  };
  SeqHandle behind = host.create(), whole = host.create();
  ASSERT_EQ(host.append(behind, {prompt.begin(), prompt.begin() + 32}, {rows(0, 32)}), KVC_OK) << host.error.message;
  ASSERT_TRUE(kvc::base::fault_arm("store.page.verify", 1, 1));
  auto first = rows(0, 1);
  first.v.data = nullptr;
  EXPECT_EQ(host.gather(behind, {first}), KVC_ERR_GONE) << host.error.message;
  kvc::base::fault_disarm_all();
  ASSERT_EQ(host.append(whole, prompt, {rows(0, 48)}), KVC_OK) << host.error.message;
  ASSERT_EQ(matched(), 48u);
  ASSERT_EQ(host.append(behind, {prompt.begin() + 32, prompt.end()}, {rows(32, 16)}), KVC_OK) << host.error.message;
  EXPECT_EQ(matched(), 48u);
}

}  // namespace
#endif

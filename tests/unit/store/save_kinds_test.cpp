#include "../folder.h"
#include "hybrid.h"

/// Layers of other kinds than full attention, in files of the system.
namespace {

using namespace kvc_test;

struct SaveKinds : testing::Test {
  Folder folder;
};

TEST_F(SaveKinds, latent_layers_come_back_with_their_rope_parts_and_without) {
  const std::vector<kvc_layer> runs = {full_layers(1, 3, 7, 5), latent_layers(2, 24, 8), latent_layers(1, 9, 0)};
  const auto tokens = ids(60);
  const std::string path = folder / "a";
  HybridHost here(runs, KVC_F16, 16, 4u << 20), there(runs, KVC_F16, 16, 4u << 20);
  SeqHandle seq = here.create(), back;
  ASSERT_EQ(here.append_all(seq, tokens, 0, 39, 1), KVC_OK) << here.error.message;
  ASSERT_EQ(kvc_seq_save(seq, path.c_str(), nullptr, &here.error), KVC_OK) << here.error.message;
  ASSERT_EQ(kvc_seq_restore(back.out(), there.scope, path.c_str(), nullptr, nullptr, &there.error), KVC_OK) << there.error.message;
  ASSERT_EQ(there.append_all(back, tokens, 39, 60, 1), KVC_OK) << there.error.message;
  for (uint32_t l = 0; l < 4; l++) there.expect_rows(back, l, 0, 60, 1);
  EXPECT_EQ(kvc_store_verify(nullptr, there.store, nullptr, &there.error), KVC_OK) << there.error.message;
}

}  // namespace

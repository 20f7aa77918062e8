// What comes back from a file, and what two layouts of latent rows share: nothing but what is the same.
#include <fstream>

#include "field_host.h"
#include "folder.h"

namespace kvc::field {
namespace {

kvc_shape shape_of(const kvc_layer &layer, uint32_t dtype) {
  auto shape = sized<kvc_shape>();
  shape.dtype = dtype, shape.chunk_tokens = kChunk, shape.layers = &layer, shape.layer_runs = 1;
  return shape;
}

TEST(FieldReports, B10_a_file_of_one_format_is_not_restored_as_another_of_equal_rows) {
  const Folder folder;
  const std::string file = folder / "saved";
  const std::vector<int32_t> tokens = ids(40);
  std::vector<uint8_t> bytes(40 * 64, 7);
  const kvc_layer half = full_layers(1, 2, 16, 16), single = full_layers(1, 2, 8, 8), byte = full_layers(1, 2, 32, 32);
  const std::vector<std::pair<kvc_layer, uint32_t>> formats = {{half, KVC_F16}, {half, KVC_BF16}, {single, KVC_F32}, {byte, KVC_F8_E4M3}};
  for (const auto &[layer, dtype] : formats) {
    FieldHost host;
    const kvc_shape shape = shape_of(layer, dtype);
    kvc_scope_options names{};
    names.shape = &shape;
    const ScopeHandle scope = host.make_scope(names);
    const SeqHandle seq = host.create_in(scope);
    auto rows = sized<kvc_rows>();
    rows.layer_count = 1, rows.token_count = 40;
    rows.k.data = bytes.data(), rows.k.bytes = bytes.size(), rows.v = rows.k;
    ASSERT_EQ(kvc_append(seq, tokens.data(), 40, &rows, 1, nullptr, &host.error), KVC_OK) << host.error.message;
    ASSERT_EQ(kvc_seq_save(seq, file.c_str(), nullptr, &host.error), KVC_OK) << host.error.message;
    for (const auto &[other_layer, other] : formats) {
      FieldHost fresh;
      const kvc_shape other_shape = shape_of(other_layer, other);
      names.shape = &other_shape;
      const ScopeHandle target = fresh.make_scope(names);
      SeqHandle restored;
      const kvc_status status = kvc_seq_restore(restored.out(), target, file.c_str(), nullptr, nullptr, &fresh.error);
      EXPECT_EQ(status, other == dtype ? KVC_OK : KVC_ERR_SHAPE) << "from " << dtype << " to " << other << ": " << fresh.error.message;
      EXPECT_EQ(fresh.info().chunk_count, other == dtype ? 2u : 0u);
    }
  }
}

/// A row of one layer, every byte of which depends on all that names it; no two bytes of neighbours are alike.
std::vector<uint8_t> stamped_rows(uint64_t writer, bool is_k, uint64_t begin, uint64_t end, uint64_t row_bytes) {
  std::vector<uint8_t> out;
  for (uint64_t t = begin; t < end; t++)
    for (uint64_t i = 0; i < row_bytes; i++) out.push_back(static_cast<uint8_t>(stamp(writer, is_k, 0, t, 0, i) >> 16));
  return out;
}

TEST(FieldReports, B29_odd_head_widths_token_by_token_in_every_format_and_chunk_size_and_from_a_file) {
  const Folder folder;
  const std::string file = folder / "saved";
  constexpr uint64_t kTokens = 19;
  const std::vector<int32_t> tokens = ids(kTokens);
  for (const uint32_t dim : {1u, 7u, 40u, 64u, 80u, 96u, 100u, 112u, 192u, 256u, 576u})
    for (const uint32_t dtype : {KVC_F32, KVC_F16, KVC_BF16, KVC_F8_E4M3})
      for (const uint32_t chunk : {16u, 256u}) {
        SCOPED_TRACE("head_dim " + std::to_string(dim) + ", dtype " + std::to_string(dtype) + ", chunks of " + std::to_string(chunk));
        const uint64_t row = 2 * dim * dtype_size(dtype);
        Host host({full_layers(1, 2, dim, dim)}, dtype, chunk, 16u << 20), fresh({full_layers(1, 2, dim, dim)}, dtype, chunk, 16u << 20);
        const SeqHandle seq = host.create();
        for (uint64_t t = 0; t < kTokens; t++) {
          std::vector<uint8_t> k = stamped_rows(dim, true, t, t + 1, row), v = stamped_rows(dim, false, t, t + 1, row);
          auto rows = sized<kvc_rows>();
          rows.layer_count = 1, rows.token_begin = t, rows.token_count = 1;
          rows.k.data = k.data(), rows.v.data = v.data(), rows.k.bytes = rows.v.bytes = row;
          ASSERT_EQ(host.append(seq, {tokens[t]}, {rows}), KVC_OK) << host.error.message;
        }
        ASSERT_EQ(kvc_seq_save(seq, file.c_str(), nullptr, &host.error), KVC_OK) << host.error.message;
        SeqHandle restored;
        ASSERT_EQ(kvc_seq_restore(restored.out(), fresh.scope, file.c_str(), nullptr, nullptr, &fresh.error), KVC_OK) << fresh.error.message;
        for (const kvc_seq *of : {static_cast<const kvc_seq *>(seq), static_cast<const kvc_seq *>(restored)}) {
          std::vector<uint8_t> k = poisoned(kTokens * row), v = k;
          auto rows = sized<kvc_rows>();
          rows.layer_count = 1, rows.token_count = kTokens;
          rows.k.data = k.data(), rows.v.data = v.data(), rows.k.bytes = rows.v.bytes = k.size();
          ASSERT_EQ(host.gather(of, {rows}), KVC_OK) << host.error.message;
          ASSERT_EQ(k, stamped_rows(dim, true, 0, kTokens, row));
          ASSERT_EQ(v, stamped_rows(dim, false, 0, kTokens, row));
        }
      }
  Host host({full_layers(1, 2, 7, 7)});
  const kvc_layer layer = full_layers(1, 2, 7, 7);
  kvc_shape shape = shape_of(layer, KVC_F16);
  for (const uint32_t chunk : {1u, 17u}) {
    shape.chunk_tokens = chunk;
    auto names = sized<kvc_scope_options>();
    names.model = "m", names.shape = &shape;
    ScopeHandle none;
    EXPECT_EQ(kvc_scope_create(none.out(), host.store, &names, &host.error), KVC_ERR_SHAPE) << chunk;
    EXPECT_NE(host.error.text().find("chunk_tokens " + std::to_string(chunk)), std::string::npos) << host.error.message;
  }
}

TEST(FieldReports, B31_an_empty_sequence_and_a_missing_file_are_a_status_and_what_is_in_use_stays) {
  const Folder folder;
  FieldHost host;
  const SeqHandle empty = host.create(), used = host.stored(ids(40), 1);
  ASSERT_EQ(kvc_seq_save(empty, (folder / "empty").c_str(), nullptr, &host.error), KVC_OK) << host.error.message;
  SeqHandle restored;
  ASSERT_EQ(kvc_seq_restore(restored.out(), host.scope, (folder / "empty").c_str(), nullptr, nullptr, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(host.info_of(restored).tokens, 0u);
  ASSERT_EQ(host.append(restored, ids(20), 0, 20, 2), KVC_OK) << host.error.message;
  const kvc_store_info before = host.info();
  auto *out = reinterpret_cast<kvc_seq *>(8);
  EXPECT_EQ(kvc_seq_restore(&out, host.scope, (folder / "absent").c_str(), nullptr, nullptr, &host.error), KVC_ERR_NOT_FOUND);
  EXPECT_EQ(out, nullptr);
  std::ofstream(folder / "nothing");
  EXPECT_EQ(kvc_seq_restore(&out, host.scope, (folder / "nothing").c_str(), nullptr, nullptr, &host.error), KVC_ERR_CORRUPT) << "0 bytes";
  EXPECT_EQ(host.info().seq_count, before.seq_count);
  EXPECT_EQ(host.info().memory_used, before.memory_used);
  EXPECT_EQ(host.read(used, 0, 40, 1), "");
}

TEST(FieldReports, B15_what_a_restore_reports_a_match_finds_and_a_gather_gives_is_the_same_length) {
  const Folder folder;
  const std::string file = folder / "saved";
  const std::vector<int32_t> tokens = ids(100);
  {
    FieldHost host;
    ASSERT_EQ(kvc_seq_save(host.stored(tokens, 1), file.c_str(), nullptr, &host.error), KVC_OK) << host.error.message;
  }
  FieldHost host;
  SeqHandle seq;
  ASSERT_EQ(kvc_seq_restore(seq.out(), host.scope, file.c_str(), nullptr, nullptr, &host.error), KVC_OK) << host.error.message;
  EXPECT_EQ(host.info_of(seq).tokens, 100u);
  EXPECT_EQ(host.info_of(seq).tokens_held, 100u);
  EXPECT_EQ(host.read(seq, 0, 100, 1), "");
  uint64_t length = 0;
  const SeqHandle found = host.match(tokens, &length);
  EXPECT_EQ(length, 96u) << "whole chunks";
  EXPECT_EQ(host.read(found, 0, length, 1), "");
  FieldHost full(2u << 20);
  const SeqHandle held = full.create(KVC_SEQ_PRIVATE);
  for (uint64_t at = 0; full.append(held, {}, at, at + kChunk, 2) == KVC_OK; at += kChunk) {
  }
  const kvc_store_info before = full.info();
  SeqHandle none;
  EXPECT_EQ(kvc_seq_restore(none.out(), full.scope, file.c_str(), nullptr, nullptr, &full.error), KVC_ERR_FULL) << "nothing can be attached";
  const kvc_store_info after = full.info();
  EXPECT_EQ(after.seq_count, before.seq_count);
  EXPECT_EQ(after.chunk_count, before.chunk_count);
  EXPECT_EQ(after.memory_used, before.memory_used);
}

TEST(FieldReports, B32_two_layouts_of_latent_rows_are_two_shapes_and_take_the_bytes_that_were_planned) {
  FieldHost host(16u << 20);
  const auto latent = [](uint32_t k_dim, uint32_t rope_dim, uint32_t k_dtype, uint32_t v_dtype) {
    return kvc_layer{4, KVC_LAYER_LATENT, 1, k_dim, 0, rope_dim, 0, k_dtype, v_dtype, {0, 0, 0}};
  };
  struct Layout {
    kvc_layer layer;
    uint64_t row_bytes;
  };
  // 512 of 8 bits and 64 of 16 beside 512 of 16 and 64 of 16, and one whose parts are cut elsewhere in as many bytes.
  const std::vector<Layout> layouts = {{latent(512, 64, KVC_F8_E4M3, KVC_BF16), 640}, {latent(512, 64, KVC_BF16, KVC_BF16), 1152}, {latent(448, 128, KVC_BF16, KVC_BF16), 1152}};
  const std::vector<int32_t> tokens = ids(64);
  std::vector<ScopeHandle> scopes;
  for (const Layout &layout : layouts) {
    const kvc_shape shape = shape_of(layout.layer, KVC_BF16);
    auto planned = sized<kvc_shape_info>();
    ASSERT_EQ(kvc_shape_check(&planned, &shape, &host.error), KVC_OK) << host.error.message;
    EXPECT_EQ(planned.token_bytes, 4 * layout.row_bytes);
    kvc_scope_options names{};
    names.shape = &shape;
    scopes.push_back(host.make_scope(names));
    uint64_t length = 99;
    host.match_in(scopes.back(), tokens, &length);
    EXPECT_EQ(length, 0u) << "found what another layout has";
    const uint64_t before = host.info().memory_used;
    std::vector<uint8_t> latents(64 * 4 * 1024, 1), ropes(64 * 4 * 256, 2);
    auto rows = sized<kvc_rows>();
    rows.layer_count = 4, rows.token_count = 64;
    rows.k.data = latents.data(), rows.k.bytes = latents.size(), rows.k.layer_stride = latents.size() / 4;
    rows.v.data = ropes.data(), rows.v.bytes = ropes.size(), rows.v.layer_stride = ropes.size() / 4;
    const SeqHandle seq = host.create_in(scopes.back());
    ASSERT_EQ(kvc_append(seq, tokens.data(), 64, &rows, 1, nullptr, &host.error), KVC_OK) << host.error.message;
    const uint64_t used = host.info().memory_used - before, headers = 4 * 4 * 512 + 4 * (4 + 64);  // a frame header a page, and the ids
    EXPECT_GE(used, 4 * planned.chunk_bytes);
    EXPECT_LE(used, 4 * planned.chunk_bytes + headers + (4 * planned.chunk_bytes + headers) / 16) << "slots are rounded by a sixteenth at most";
  }
}

}  // namespace
}  // namespace kvc::field

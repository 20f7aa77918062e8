#include "codec/frame.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "golden/vectors.h"
#include "kernels/rows.h"
#include "kvc/types.h"

namespace {

using kvc::base::Error;
using kvc::codec::FrameHeader;
using kvc::codec::frame_decode;
using kvc::codec::frame_encode;
using kvc::codec::frame_exact_layout;
using kvc::codec::frame_header_bytes;

FrameHeader fields_of(const golden::Record &record) {
  FrameHeader header;
  header.flags = static_cast<uint32_t>(record.number("flags"));
  header.chunk = record.array<32>("chunk");
  header.write_id = record.array<16>("write_id");
  const auto tag = record.array<8>("shape_tag");
  std::memcpy(&header.shape_tag, tag.data(), 8);
  header.layer = static_cast<uint32_t>(record.number("layer"));
  header.tokens = static_cast<uint32_t>(record.number("tokens"));
  header.head_begin = static_cast<uint16_t>(record.number("head_begin"));
  header.head_count = static_cast<uint16_t>(record.number("head_count"));
  header.k_dim = static_cast<uint16_t>(record.number("k_dim"));
  header.v_dim = static_cast<uint16_t>(record.number("v_dim"));
  header.format = static_cast<uint8_t>(record.number("format"));
  header.codebook = static_cast<uint8_t>(record.number("codebook"));
  header.k_dtype = static_cast<uint8_t>(record.number("k_dtype"));
  header.v_dtype = static_cast<uint8_t>(record.number("v_dtype"));
  header.rotation_seed = static_cast<uint32_t>(record.number("rotation_seed"));
  header.mean_mask = record.array<32>("mean_mask");
  header.widths = record.array<128>("widths");
  return header;
}

/// Header vectors: fields and the section table they list.
FrameHeader with_sections(const golden::Record &record) {
  FrameHeader header = fields_of(record);
  for (const std::string &line : record.list("section")) {
    size_t at = 0, used = 0;
    const auto next = [&](int base) {
      const uint64_t value = std::stoull(line.substr(at), &used, base);
      at += used;
      return value;
    };
    auto &section = header.sections.at(next(10));
    section.offset = next(10);
    section.bytes = static_cast<uint32_t>(next(10));
    section.sum = next(16);
  }
  return header;
}

golden::Bytes encoded(const FrameHeader &header) {
  golden::Bytes bytes(frame_header_bytes, 0xCC);
  frame_encode(bytes.data(), header);
  return bytes;
}

/// One side of a page from the engine's rows, [token][head][dim], by the library's own way in.
golden::Bytes heads_first(const golden::Bytes &rows, uint32_t tokens, uint32_t heads, uint32_t dim, uint8_t dtype) {
  golden::Bytes page(rows.size(), 0xCC), source = rows;
  const kvc::kernels::Dtype type{dtype};
  const uint64_t row = uint64_t{dim} * kvc::kernels::dtype_bytes(type);
  const kvc::kernels::PageSide side{page.data(), type, dim, tokens};
  kvc::kernels::RowsSide from{};
  from.data = source.data();
  from.dtype = type;
  from.dim_group = dim;
  from.dim_stride = row;
  from.head_stride = row;
  from.token_stride = row * heads;
  kvc::kernels::table().rows_in(side, from, {0, tokens, 0, heads, false});
  return page;
}

uint64_t sum_of(const golden::Bytes &bytes) { return kvc::kernels::table().sum(bytes.data(), bytes.size()); }

golden::Bytes built_frame(const golden::Record &record, FrameHeader &header) {
  header = fields_of(record);
  golden::Bytes k = record.bytes("k_rows"), v = record.bytes("v_rows");
  if (header.k_dim != 0) {
    const uint32_t heads = header.head_count, tokens = header.tokens;
    k = heads_first(k, tokens, heads, header.k_dim, header.k_dtype);
    // A latent page's second part has one head and as many bytes as there are: its rows are where they were.
    if (header.v_dim != 0) v = heads_first(v, tokens, heads, header.v_dim, header.v_dtype);
  }
  header.format = 0;
  frame_exact_layout(header, k.size(), v.size(), sum_of(k), v.empty() ? 0 : sum_of(v));
  golden::Bytes frame(record.bytes("frame").size(), 0);
  frame_encode(frame.data(), header);
  for (const auto &[kind, part] : {std::pair{7u, &k}, std::pair{8u, &v}, std::pair{9u, &v}}) {
    if (header.sections[kind].bytes != 0) std::memcpy(frame.data() + header.sections[kind].offset, part->data(), part->size());
  }
  return frame;
}

/// A header of eight heads of 128 with K and V, f16, of 64 tokens: what the forgeries below start from.
FrameHeader plain() {
  FrameHeader header;
  header.layer = 5;
  header.tokens = 64;
  header.head_count = 8;
  header.k_dim = header.v_dim = 128;
  header.k_dtype = header.v_dtype = KVC_F16;
  frame_exact_layout(header, 131072, 131072, 1, 2);
  return header;
}
constexpr uint64_t plain_bytes = 512 + 2 * 131072;

/// Changes bytes of a header and signs it again: what an attacker, or a bug, can make.
golden::Bytes forged(const FrameHeader &header, const std::function<void(uint8_t *)> &change) {
  golden::Bytes bytes = encoded(header);
  change(bytes.data());
  const uint64_t sum = kvc::kernels::table().sum(bytes.data(), 504);
  std::memcpy(bytes.data() + 504, &sum, 8);
  return bytes;
}

template <class T>
std::function<void(uint8_t *)> put(size_t at, T value) {
  return [=](uint8_t *bytes) { std::memcpy(bytes + at, &value, sizeof value); };
}

constexpr size_t section_at(uint32_t kind) { return 256 + 16 * size_t{kind}; }

void expect_refused(const golden::Bytes &bytes, uint64_t bytes_held, kvc_status status, const std::vector<std::string> &fragments) {
  FrameHeader out;
  out.layer = 777;
  Error error;
  EXPECT_EQ(frame_decode(out, bytes.data(), bytes_held, error), status);
  const std::string message = error.message;
  for (const std::string &fragment : fragments) EXPECT_NE(message.find(fragment), std::string::npos) << message << " lacks " << fragment;
  EXPECT_EQ(out.layer, 777u) << "written on success only";
}

TEST(Frame, golden_sums_hold_in_every_variant_of_this_machine) {
  golden::Bytes stream;
  for (uint32_t counter = 0; stream.size() < 65600; ++counter) {
    uint8_t block[7] = {'s', 'u', 'm'};
    std::memcpy(block + 3, &counter, 4);
    const auto digest = kvc::base::Sha256().digest(block, sizeof block);
    stream.insert(stream.end(), digest.begin(), digest.end());
  }
  for (const char *name : {"base", "avx2", "avx512"}) {
    const kvc::kernels::Table *table = kvc::kernels::table_named(name);
    if (!table) continue;
    for (const golden::Record &record : golden::read("sums.txt")) {
      EXPECT_EQ(table->sum(stream.data(), record.number("size")), std::stoull(record.text("sum"), nullptr, 16)) << name;
    }
  }
}

TEST(Frame, golden_headers_hold_both_ways) {
  for (const golden::Record &record : golden::read("headers.txt")) {
    const FrameHeader header = with_sections(record);
    const golden::Bytes expected = record.bytes("header");
    EXPECT_EQ(golden::hex(encoded(header)), record.text("header"));
    const uint64_t frame_bytes = record.number("frame_bytes");
    FrameHeader decoded;
    Error error;
    ASSERT_EQ(frame_decode(decoded, expected.data(), frame_bytes, error), KVC_OK) << error.message;
    EXPECT_EQ(golden::hex(encoded(decoded)), record.text("header"));
    EXPECT_EQ(decoded.sections[7].offset, header.sections[7].offset);
    EXPECT_EQ(decoded.widths, header.widths);
    EXPECT_EQ(decoded.shape_tag, header.shape_tag);
    expect_refused(expected, frame_bytes - 1, KVC_ERR_CORRUPT, {"section", "ends at " + record.text("frame_bytes")});
  }
}

TEST(Frame, golden_exact_frames_hold_from_rows_to_bytes_and_back) {
  for (const golden::Record &record : golden::read("frames.txt")) {
    FrameHeader header;
    const golden::Bytes frame = built_frame(record, header);
    ASSERT_EQ(golden::hex(frame), record.text("frame"));
    FrameHeader decoded;
    Error error;
    ASSERT_EQ(frame_decode(decoded, frame.data(), frame.size(), error), KVC_OK) << error.message;
    for (const auto &section : decoded.sections) {
      if (section.bytes == 0) continue;
      EXPECT_EQ(kvc::kernels::table().sum(frame.data() + section.offset, section.bytes), section.sum);
    }
    expect_refused(frame, frame.size() - 1, KVC_ERR_CORRUPT, {"section", "ends at " + std::to_string(frame.size())});
  }
}

TEST(Frame, a_header_is_read_and_written_at_any_address_and_never_past_its_end) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void *const memory = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(static_cast<uint8_t *>(memory) + page, page, PROT_NONE), 0);
  for (size_t back : {0u, 1u, 3u}) {
    uint8_t *const at = static_cast<uint8_t *>(memory) + page - frame_header_bytes - back;
    frame_encode(at, plain());
    FrameHeader decoded;
    Error error;
    EXPECT_EQ(frame_decode(decoded, at, plain_bytes, error), KVC_OK) << error.message;
  }
  FrameHeader decoded;
  Error error;
  for (uint64_t held : {0u, 1u, 511u}) {
    const uint8_t *const unreadable = static_cast<uint8_t *>(memory) + 2 * page - held;
    EXPECT_EQ(frame_decode(decoded, unreadable, held, error), KVC_ERR_CORRUPT) << "not even looked at";
  }
  munmap(memory, 2 * page);
}

TEST(Frame, another_version_is_named_before_the_sum_is_asked) {
  golden::Bytes bytes = encoded(plain());
  bytes[8] = 2;
  expect_refused(bytes, plain_bytes, KVC_ERR_VERSION, {"version 2", "1"});
  expect_refused(forged(plain(), put<uint16_t>(8, 0)), plain_bytes, KVC_ERR_VERSION, {"version 0"});
}

TEST(Frame, forged_members_are_refused_by_name_though_the_sum_is_right) {
  const auto refused = [](const std::function<void(uint8_t *)> &change, const std::vector<std::string> &fragments) {
    expect_refused(forged(plain(), change), plain_bytes, KVC_ERR_CORRUPT, fragments);
  };
  refused(put<uint8_t>(0, 'k'), {"magic"});
  refused(put<uint16_t>(10, 1024), {"header_bytes 1024", "512"});
  refused(put<uint32_t>(12, 4), {"flags 00000004"});
  refused(put<uint32_t>(72, 65535), {"layer 65535"});
  refused(put<uint32_t>(76, 0), {"tokens 0", "256"});
  refused(put<uint32_t>(76, 257), {"tokens 257", "256"});
  refused(put<uint16_t>(82, 0), {"heads 0 + 0"});
  refused(put<uint16_t>(82, 129), {"heads 0 + 129", "128"});
  refused(put<uint16_t>(80, 121), {"heads 121 + 8", "128"});
  refused(put<uint16_t>(80, 65535), {"heads 65535 + 8"});
  refused(put<uint16_t>(84, 0), {"v_dim 128", "k_dim 0"});
  refused(put<uint8_t>(88, 0), {"format 0"});
  refused(put<uint8_t>(88, 6), {"format 6"});
  refused(put<uint8_t>(90, 0), {"k_dtype 0"});
  refused(put<uint8_t>(91, 6), {"v_dtype 6"});
  for (size_t at : {448u, 475u, 503u}) refused(put<uint8_t>(at, 1), {"reserved"});
}

std::function<void(uint8_t *)> put_section(uint32_t kind, uint32_t units, uint32_t size) {
  return [=](uint8_t *bytes) {
    put<uint32_t>(section_at(kind), units)(bytes);
    put<uint32_t>(section_at(kind) + 4, size)(bytes);
  };
}
std::function<void(uint8_t *)> clear_section(uint32_t kind) {
  return [=](uint8_t *bytes) { std::memset(bytes + section_at(kind), 0, 16); };
}

TEST(Frame, forged_sections_are_refused_by_name_though_the_sum_is_right) {
  const auto refused = [](const std::function<void(uint8_t *)> &change, const std::vector<std::string> &fragments) {
    expect_refused(forged(plain(), change), plain_bytes, KVC_ERR_CORRUPT, fragments);
  };
  refused(put<uint32_t>(section_at(7), 0), {"section 7", "at 0", "512"});
  refused(put<uint32_t>(section_at(7), 7), {"section 7", "at 448", "512"});
  refused(put<uint32_t>(section_at(8), 8), {"section 8", "at 512", "131584"});
  refused(put<uint32_t>(section_at(8), 8 + 2047), {"section 8", "131584"});
  refused(put<uint32_t>(section_at(8), 8 + 2049), {"section 8", "ends at 262720", "262656"});
  refused(put<uint32_t>(section_at(8) + 4, 131073), {"section 8", "ends at 262720"});
  for (uint32_t kind = 9; kind < 12; ++kind) {
    refused(put<uint32_t>(section_at(kind), 1), {"section " + std::to_string(kind), "absent"});
    refused(put<uint64_t>(section_at(kind) + 8, 1), {"section " + std::to_string(kind), "absent"});
  }
  for (uint32_t kind = 10; kind < 12; ++kind) {
    expect_refused(forged(plain(), put_section(kind, 8 + 4096, 64)), plain_bytes + 64, KVC_ERR_CORRUPT,
                   {"section " + std::to_string(kind), "unknown"});
  }
}

TEST(Frame, an_exact_page_whose_sections_are_not_what_its_counts_make_is_refused) {
  const auto refused = [](const std::function<void(uint8_t *)> &change, const std::vector<std::string> &fragments) {
    expect_refused(forged(plain(), change), plain_bytes + 64, KVC_ERR_CORRUPT, fragments);
  };
  refused(put<uint32_t>(section_at(7) + 4, 131071), {"K exact has 131071 bytes", "131072"});
  refused(put<uint32_t>(section_at(8) + 4, 131073), {"V exact has 131073 bytes", "131072"});
  refused(put<uint32_t>(76, 63), {"K exact", "63 tokens", "129024"});
  refused(put<uint16_t>(82, 9), {"K exact", "9 heads"});
  refused(put<uint16_t>(84, 127), {"K exact", "127 dims"});
  refused(put<uint16_t>(86, 129), {"V exact", "129 dims"});
  refused(put<uint16_t>(86, 0), {"V exact has 131072 bytes", "0 dims"});
  refused(put<uint8_t>(90, KVC_F32), {"K exact", "262144"});
  refused(clear_section(7), {"K exact has 0 bytes"});
  refused(clear_section(8), {"V exact has 0 bytes"});
  refused(put_section(9, 8 + 4096, 1), {"second part has 1 bytes"});
  const auto side_data_in_front = [](uint8_t *bytes) {
    put_section(1, 8, 64)(bytes);
    put_section(7, 9, 131072)(bytes);
    put_section(8, 2057, 131072)(bytes);
  };
  refused(side_data_in_front, {"section 1 (side data)", "exact page"});

  FrameHeader state = plain();
  state.k_dim = state.v_dim = 0;
  frame_exact_layout(state, 1000, 0, 1, 0);
  expect_refused(forged(state, clear_section(7)), plain_bytes, KVC_ERR_CORRUPT, {"K exact has 0 bytes"});
}

TEST(Frame, B72_forged_huge_counts_are_refused_against_the_bytes_there_are) {
  for (const uint32_t kind : {0u, 1u, 2u, 6u, 9u}) {
    FrameHeader header = plain();
    header.format = KVC_FORMAT_PLANES;
    header.sections = {};
    header.sections[kind] = {512, 64, 1};
    Error error;
    FrameHeader decoded;
    ASSERT_EQ(frame_decode(decoded, encoded(header).data(), 576, error), KVC_OK) << error.message;
    const std::string name = "section " + std::to_string(kind);
    const auto with = [&](uint32_t units, uint32_t bytes) { return forged(header, put_section(kind, units, bytes)); };
    expect_refused(with(8, UINT32_MAX), 576, KVC_ERR_CORRUPT, {name, "ends at 4294967808", "576"});
    expect_refused(with(UINT32_MAX, UINT32_MAX), 576, KVC_ERR_CORRUPT, {name, "576"});
    expect_refused(with(UINT32_MAX, 64), 576, KVC_ERR_CORRUPT, {name, "ends at 274877906944", "576"});
    expect_refused(with(8, 65), 576, KVC_ERR_CORRUPT, {name, "ends at 640", "576"});
  }
  // 512 bytes that claim gigabytes, with nothing behind them.
  expect_refused(encoded(plain()), 512, KVC_ERR_CORRUPT, {"section 7", "512"});
}

TEST(Frame, layout_puts_a_second_part_where_there_is_no_v) {
  FrameHeader latent = plain();
  latent.v_dim = 0;
  frame_exact_layout(latent, 131072, 100, 1, 2);
  EXPECT_EQ(latent.sections[8].bytes, 0u);
  EXPECT_EQ(latent.sections[9].bytes, 100u);
  EXPECT_EQ(latent.sections[9].offset, 512u + 131072);
  frame_exact_layout(latent, 131072, 0, 1, 0);
  EXPECT_EQ(latent.sections[9].bytes, 0u);
}

}  // namespace

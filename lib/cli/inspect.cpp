#include "cli/inspect.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <array>
#include <memory_resource>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/rows.h"
#include "kvc/kvc.h"
#include "store/save_file.h"

namespace kvc::cli {
namespace {

using base::Error;
using store::SaveTable;

unsigned long long wide(uint64_t value) { return value; }

int failed(const char *word, kvc_status status, const Error &error) {
  std::fprintf(stderr, "kvc %s: %s: %s\n", word, kvc_status_name(status), error.message);
  return 1;
}

/// The one file that an option list may name; 2: it is no such list.
int one_file(const char *word, std::span<char *const> arguments, bool may_lack, const char **out) {
  *out = nullptr;
  for (const char *argument : arguments) {
    const bool option = argument[0] == '-' && argument[1];
    if (!option && !*out) {
      *out = argument;
      continue;
    }
    std::fprintf(stderr, "kvc %s: %s: \"%.60s\": see kvc --help\n", word, option ? "unknown option" : "one file at a time", argument);
    return 2;
  }
  if (*out || may_lack) return 0;
  std::fprintf(stderr, "kvc %s: a save file is needed: see kvc --help\n", word);
  return 2;
}

const char *dtype_name(uint32_t dtype) {
  static constexpr const char *names[] = {"?", "f32", "f16", "bf16", "f8_e4m3", "u8"};
  return names[dtype < std::size(names) ? dtype : 0];
}

const char *kind_name(uint32_t kind) {
  switch (kind) {
    case KVC_LAYER_FULL: return "full";
    case KVC_LAYER_WINDOW: return "window";
    case KVC_LAYER_LATENT: return "latent";
    case KVC_LAYER_STATE: return "state";
    default: return "unknown";
  }
}

std::string hex(std::span<const uint8_t> digest) {
  std::string out;
  char two[3];
  for (const uint8_t byte : digest) {
    std::snprintf(two, sizeof two, "%02x", byte);
    out += two;
  }
  return out;
}

int print_build() {
  const uint32_t version = kvc_version();
  std::printf("kvc            %u.%u.%u\n", version >> 16, version >> 8 & 255, version & 255);
  const struct {
    uint64_t bit;
    const char *name;
  } features[] = {{KVC_FEATURE_CUDA, "cuda"}, {KVC_FEATURE_FABRIC, "fabric"}, {KVC_FEATURE_URING, "uring"}, {KVC_FEATURE_ETCD, "etcd"}};
  std::string have;
  for (const auto &feature : features)
    if (kvc_features() & feature.bit) have += std::string(have.empty() ? "" : " ") + feature.name;
  std::printf("features       %s\n", have.empty() ? "none" : have.c_str());
  std::string kernels;
  for (const char *name : {"base", "avx2", "avx512"})
    if (const kernels::Table *table = kernels::table_named(name)) kernels += std::string(kernels.empty() ? "" : " ") + name + (table == &kernels::table() ? " (in use)" : "");
  std::printf("kernels        %s\n", kernels.c_str());
  std::printf("save files     versions 1 to 3\n");
  return 0;
}

/// Whose chunks they are: slices of ranks join where these are equal.
void print_writers(const SaveTable &table) {
  std::set<std::array<uint8_t, 16>> ids;
  for (const store::SavedChunk &chunk : table.chunks)
    if (!chunk.is_open) ids.insert(chunk.write_id);
  if (ids.size() == 1) std::printf("write id       %s\n", hex(*ids.begin()).c_str());
  else if (ids.size() > 1) std::printf("write ids      %zu, that of the first chunk %s\n", ids.size(), hex(table.chunks.front().write_id).c_str());
}

void print_table(const SaveTable &table, const io::File &file) {
  std::printf("file           %s\n", file.path());
  std::printf("format         save file, version %u, %llu bytes\n", table.version(), wide(file.bytes()));
  std::printf("scope          %s\n", hex(table.scope).c_str());
  std::printf("shape          %s\n", hex(table.shape.fingerprint).c_str());
  for (const seq::LayerRun &run : table.whole().runs) {
    const bool state = run.kind == KVC_LAYER_STATE;  // whose widths are bytes
    std::printf("layers         %u..%u: %s, %u heads, k %u %s", run.layer_begin, run.layer_begin + run.layer_count - 1, kind_name(run.kind), run.kv_heads, run.k_dim, state ? "bytes" : dtype_name(run.k_dtype));
    const uint32_t second = run.kind == KVC_LAYER_LATENT ? run.rope_dim : run.v_dim;
    if (second) std::printf(", %s %u %s", run.kind == KVC_LAYER_LATENT ? "rope" : "v", second, state ? "bytes" : dtype_name(run.v_dtype));
    std::printf("\n");
  }
  if (table.is_part()) {
    std::printf("part           layers %u..%u", table.range.layer_begin, table.range.layer_begin + table.range.layer_count - 1);
    if (table.range.head_count) std::printf(", heads %u..%u", table.range.head_begin, table.range.head_begin + table.range.head_count - 1);
    std::printf("\n");
  }
  std::printf("tokens         %llu, ids of %zu", wide(table.length), table.ids.size());
  if (table.first_position) std::printf(", first position %llu", wide(table.first_position));
  if (table.rows_max() > table.length) std::printf("; up to %llu rows in some layers", wide(table.rows_max()));
  std::printf("\n");
  std::printf("chunks         %llu sealed (%llu by name), %llu open; of %u tokens\n", wide(table.sealed()), wide(table.named()), wide(table.chunks.size() - table.sealed()), table.shape.chunk_tokens);
  if (table.is_pieced()) {
    const auto windows = std::count_if(table.pieces.begin(), table.pieces.end(), [](const store::SavedPiece &piece) { return piece.kind == store::Piece::window; });
    std::printf("pieces         window rows of %td chunks, %zu snapshots\n", windows, table.pieces.size() - static_cast<size_t>(windows));
  }
  print_writers(table);
  std::printf("extras         %zu\n", table.extras.all().size());
  std::printf("private        %s\n", table.is_private ? "yes" : "no");
}

/// Every page of a file whose table is right.
class Pages {
 public:
  Pages(const SaveTable &table, io::File &file) : table_(table), file_(file) {}
  uint64_t pages = 0, bytes = 0, bad = 0;
  std::string first_bad;

  [[nodiscard]] kvc_status read(Error &error) {
    uint64_t at = table_.table_end;
    for (uint64_t i = 0; i < table_.part_count(); i++) {
      KVC_TRY(gap(table_.chunk_of_part(i), at, table_.part(i).offset, error));
      at = table_.part(i).offset;
      const kvc_status status = table_.each_page(i, [&](const store::SavedPage &page) -> kvc_status {
        buffer_.resize(page.frame_bytes());
        KVC_TRY(file_.read_at(buffer_.data(), buffer_.size(), at, error));
        count(store::check_whole_frame(table_, page, buffer_.data(), error), error);
        pages++, bytes += page.frame_bytes(), at += page.frame_bytes();
        return KVC_OK;
      });
      if (status != KVC_OK) return status;
    }
    return gap(table_.chunks.size(), at, table_.trailer_at, error);
  }

 private:
  void count(kvc_status status, const Error &error) {
    if (status != KVC_OK && bad++ == 0) first_bad = error.message;
  }
  kvc_status gap(uint64_t chunk, uint64_t from, uint64_t to, Error &error) {
    buffer_.resize(to - from);
    KVC_TRY(file_.read_at(buffer_.data(), buffer_.size(), from, error));
    count(store::check_zero(chunk, buffer_.data(), buffer_.size(), error), error);
    return KVC_OK;
  }

  const SaveTable &table_;
  io::File &file_;
  std::vector<uint8_t> buffer_;
};

}  // namespace

int info_main(std::span<char *const> arguments) {
  const char *path;
  if (const int wrong = one_file("info", arguments, true, &path)) return wrong;
  if (!path) return print_build();
  Error error;
  io::File file(io::posix(), path);
  SaveTable table(std::pmr::new_delete_resource());
  kvc_status status = file.open(error);
  if (status == KVC_OK) status = save_table_read(table, file, std::pmr::new_delete_resource(), error);
  if (status != KVC_OK) return failed("info", status, error);
  print_table(table, file);
  return 0;
}

int verify_main(std::span<char *const> arguments) {
  const char *path;
  if (const int wrong = one_file("verify", arguments, false, &path)) return wrong;
  Error error;
  io::File file(io::posix(), path);
  SaveTable table(std::pmr::new_delete_resource());
  kvc_status status = file.open(error);
  if (status == KVC_OK) status = save_table_read(table, file, std::pmr::new_delete_resource(), error);
  if (status != KVC_OK) return failed("verify", status, error);
  Pages pages(table, file);
  if ((status = pages.read(error)) != KVC_OK) return failed("verify", status, error);
  if (pages.bad == 0) {
    std::printf("%s: whole: %llu pages of %llu tokens, %llu bytes\n", path, wide(pages.pages), wide(table.rows_max()), wide(pages.bytes));
    return 0;
  }
  std::printf("%s: damaged: %llu of %llu pages and places between them; first: %s\n", path, wide(pages.bad), wide(pages.pages), pages.first_bad.c_str());
  return 1;
}

}  // namespace kvc::cli

#include "store/save_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string_view>

#include "kernels/rows.h"
#include "store/sequence.h"

namespace kvc::store {

using base::Error;
using base::fail;

namespace {

constexpr char magic[] = "KVCSAVE1", trailer_magic[] = "KVCSAVEE";
constexpr uint32_t version_plain = 1, version_pieced = 2, version_part = 3;  // of models with window or state layers; of a part, whatever its layers
constexpr uint32_t header_bytes = 512, flag_private = 1, part_flag_open = 1, chunk_flag_awaits = 2;
constexpr uint64_t trailer_bytes = 16, part_align = 64;
constexpr uint64_t tokens_max = 1ull << 40;  // as many as a sequence has

/// The bytes as they lie, little-endian; only ever copied from and to.
struct WireHeader {
  char magic[8];
  uint32_t version, header_bytes;
  uint64_t file_bytes, table_end;
  uint8_t scope[32], shape[32];
  uint32_t flags, layers;
  uint64_t length, ids, first_position, truncated_to, extras, chunks;
  uint32_t dtype, chunk_tokens, rope, runs;
  uint64_t pieces, marks;
  uint32_t layer_begin, layer_count, head_begin, head_count;
  uint8_t zero[304];
  uint64_t sum;

  PartRange range() const { return {layer_begin, layer_count, head_begin, head_count}; }
};
struct WireExtra {
  uint64_t token_begin, token_count;
  uint32_t bytes, zero;
  uint8_t data[64];
};
struct WireChunk {
  uint8_t name[32], write_id[16];
  uint64_t offset, bytes;
  uint32_t frames, flags;
  uint64_t zero;
};
struct WirePiece {
  uint64_t at, offset, bytes;
  uint32_t kind, flags, frames, zero;
};
constexpr uint64_t run_bytes = 36;
static_assert(sizeof(WireHeader) == header_bytes && offsetof(WireHeader, scope) == 32 && offsetof(WireHeader, flags) == 96 && offsetof(WireHeader, truncated_to) == 128 &&
              offsetof(WireHeader, dtype) == 152 && offsetof(WireHeader, pieces) == 168 && offsetof(WireHeader, layer_begin) == 184 && offsetof(WireHeader, sum) == 504 && sizeof(WireExtra) == 88 && sizeof(WireChunk) == 80 && sizeof(WirePiece) == 40);
static_assert(sizeof(seq::LayerRun) == 40 && offsetof(seq::LayerRun, kind) == 8);

unsigned long long wide(uint64_t value) { return value; }
uint64_t sum(const void *bytes, uint64_t size) { return kernels::table().sum(bytes, size); }

/// Where each part of the table lies.
struct Parts {
  uint64_t runs, filled, extras, ids, chunks, pieces, marks, end;
  explicit Parts(const WireHeader &header) {
    uint64_t at = header_bytes;
    const auto next = [&](uint64_t bytes) {
      const uint64_t begin = at;
      at = (at + bytes + part_align - 1) / part_align * part_align;
      return begin;
    };
    runs = next(header.runs * run_bytes);
    filled = next((header.layer_count ? header.layer_count : header.layers) * sizeof(uint64_t));
    extras = next(header.extras * sizeof(WireExtra));
    ids = next(header.ids * sizeof(int32_t));
    chunks = next(header.chunks * sizeof(WireChunk));
    pieces = next(header.pieces * sizeof(WirePiece));
    marks = next(header.marks * sizeof(uint32_t));
    end = at;
  }
};

/// A header with the counts of a table, and nothing else.
WireHeader counts_of(const SaveTable &table) {
  WireHeader header{};
  header.runs = static_cast<uint32_t>(table.whole().runs.size()), header.layers = table.whole().layer_count;
  header.layer_begin = table.range.layer_begin, header.layer_count = table.range.layer_count;
  header.head_begin = table.range.head_begin, header.head_count = table.range.head_count;
  header.extras = table.extras.all().size(), header.ids = table.ids.size();
  header.chunks = table.chunks.size(), header.pieces = table.pieces.size(), header.marks = table.marks.size();
  return header;
}

template <typename T>
T taken(const uint8_t *from) {
  T out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

/// The first look: what kind of file, of which version, and whether the counts can be true.
kvc_status check_header(const WireHeader &header, const io::File &file, Error &error) {
  const uint64_t at_least = header_bytes + trailer_bytes;
  if (std::memcmp(header.magic, magic, sizeof header.magic) != 0) return fail(error, KVC_ERR_CORRUPT, "file \"%.120s\" is no save file", file.path());
  if (header.version < version_plain || header.version > version_part)
    return fail(error, KVC_ERR_VERSION, "file \"%.120s\" is of version %u: this library reads %u to %u", file.path(), header.version, version_plain, version_part);
  if (header.sum != sum(&header, offsetof(WireHeader, sum)))
    return fail(error, KVC_ERR_CORRUPT, "file \"%.120s\": the sum of its header is %016llx, its bytes give %016llx", file.path(), wide(header.sum), wide(sum(&header, offsetof(WireHeader, sum))));
  if (header.file_bytes != file.bytes() || file.bytes() < at_least)
    return fail(error, KVC_ERR_CORRUPT, "file \"%.120s\" has %llu bytes, %llu were saved", file.path(), wide(file.bytes()), wide(header.file_bytes));
  const auto all_zero = std::all_of(std::begin(header.zero), std::end(header.zero), [](uint8_t b) { return b == 0; });
  const bool all_right = all_zero && (header.version == version_part ? header.layer_count != 0 : header.range() == PartRange{});
  if (header.header_bytes != header_bytes || (header.flags & ~flag_private) || !all_right)
    return fail(error, KVC_ERR_CORRUPT, "file \"%.120s\": header bytes %u, flags 0x%x, or a byte that must be 0, are not those of version %u", file.path(), header.header_bytes, header.flags, header.version);
  // Each count by itself first, so that no product below can overflow.
  const struct {
    const char *name;
    uint64_t count, max;
  } counts[] = {{"runs", header.runs, seq::layers_max}, {"layers", header.layers, seq::layers_max}, {"layers of the part", header.layer_count, header.layers}, {"extras", header.extras, file.bytes() / sizeof(WireExtra)},
                {"ids", header.ids, std::min(tokens_max, file.bytes() / sizeof(int32_t))}, {"chunks", header.chunks, file.bytes() / sizeof(WireChunk)}, {"pieces", header.pieces, file.bytes() / sizeof(WirePiece)}, {"marks", header.marks, file.bytes() / sizeof(uint32_t)}};
  for (const auto &c : counts)
    if (c.count > c.max) return fail(error, KVC_ERR_CORRUPT, "file \"%.120s\": %llu %s: at most %llu can be", file.path(), wide(c.count), c.name, wide(c.max));
  const uint64_t end = Parts(header).end;
  if (end != header.table_end || end > file.bytes() - trailer_bytes)
    return fail(error, KVC_ERR_CORRUPT, "file \"%.120s\": its table ends at %llu of %llu: its counts make %llu", file.path(), wide(header.table_end), wide(file.bytes()), wide(end));
  return KVC_OK;
}

kvc_status damaged(const io::File &file, const char *what, Error &error) { return fail(error, KVC_ERR_CORRUPT, "file \"%.120s\": %s", file.path(), what); }

/// The whole table, and what the trailer says of it.
kvc_status read_bytes(std::pmr::vector<uint8_t> &bytes, io::File &file, Error &error) {
  if (file.bytes() < header_bytes) {
    char begin[sizeof magic - 1];
    if (file.bytes() >= sizeof begin) KVC_TRY(file.read_at(begin, sizeof begin, 0, error));
    const bool ours = file.bytes() >= sizeof begin && std::memcmp(begin, magic, sizeof begin) == 0;
    return fail(error, KVC_ERR_CORRUPT, "file \"%.120s\" has %llu bytes: %s", file.path(), wide(file.bytes()), ours ? "less than the header of a save file" : "it is no save file");
  }
  WireHeader header;
  KVC_TRY(file.read_at(&header, sizeof header, 0, error));
  KVC_TRY(check_header(header, file, error));
  bytes.resize(header.table_end);
  KVC_TRY(file.read_at(bytes.data(), bytes.size(), 0, error));
  uint8_t trailer[trailer_bytes];
  KVC_TRY(file.read_at(trailer, sizeof trailer, file.bytes() - sizeof trailer, error));
  if (std::memcmp(trailer + 8, trailer_magic, 8) != 0) return damaged(file, "it does not end as a save file does", error);
  if (std::memcmp(trailer, save_trailer(bytes).data(), 8) != 0) return damaged(file, "the sum of its table is not that of its bytes", error);
  return KVC_OK;
}

kvc_status read_shape(seq::Shape &out, const WireHeader &header, const uint8_t *runs, const io::File &file, std::pmr::memory_resource *resource, Error &error) {
  std::pmr::vector<kvc_layer> layers(header.runs, resource);
  for (uint32_t i = 0; i < header.runs; i++) {
    uint32_t m[run_bytes / 4];
    std::memcpy(m, runs + i * run_bytes, run_bytes);
    layers[i] = {m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8], {0, 0, 0}};
  }
  kvc_shape shape;
  KVC_INIT(&shape);
  shape.dtype = header.dtype, shape.chunk_tokens = header.chunk_tokens, shape.rope = header.rope;
  shape.layers = layers.data(), shape.layer_runs = header.runs;
  Error why;
  if (header.runs == 0 || header.chunk_tokens == 0 || seq::shape_check(out, shape, why) != KVC_OK)
    return fail(error, KVC_ERR_CORRUPT, "file \"%.100s\": its shape: %.100s", file.path(), header.runs && header.chunk_tokens ? why.message : "it has no layers, or chunks of no tokens");
  if (out.layer_count != header.layers || std::memcmp(out.fingerprint.data(), header.shape, sizeof header.shape) != 0)
    return damaged(file, "its shape does not make the fingerprint that it names", error);
  return KVC_OK;
}

/// The part of the shape that the rest is about.
kvc_status take_part(SaveTable &table, const PartRange &range, const io::File &file, Error &error) {
  if (range.layer_count == 0) return KVC_OK;
  PartRange complete = range;
  Error why;
  if (complete_range(complete, table.shape, why) != KVC_OK) return fail(error, KVC_ERR_CORRUPT, "file \"%.100s\": its part: %.100s", file.path(), why.message);
  if (complete != range || (range.layer_count == table.shape.layer_count && range.head_count == 0)) return damaged(file, "its part is not said as it must be, or no part", error);
  table.range = range;
  table.model = std::move(table.shape);
  table.shape = shape_of_part(range, table.model);
  return KVC_OK;
}

kvc_status read_extras(seq::Extras &out, const uint8_t *from, uint64_t count, const io::File &file, std::pmr::memory_resource *resource, Error &error) {
  std::pmr::vector<kvc_extra> extras(count, resource);
  for (uint64_t i = 0; i < count; i++) {
    const auto *at = from + i * sizeof(WireExtra);
    const auto wire = taken<WireExtra>(at);
    extras[i] = {wire.token_begin, wire.token_count, at + offsetof(WireExtra, data), wire.bytes};
  }
  Error why;
  if (out.add(extras.data(), count, why) != KVC_OK) return fail(error, KVC_ERR_CORRUPT, "file \"%.100s\": %.100s", file.path(), why.message);
  return KVC_OK;
}

/// Rows, ids and chunks are as many as they can be together.
kvc_status check_counts(const SaveTable &table, uint64_t chunks, const io::File &file, Error &error) {
  const uint64_t most = table.rows_max();
  if (most > tokens_max) return damaged(file, "more rows than a sequence can have", error);
  if (length_of_mixed(table.filled, table.shape) != table.length) return damaged(file, "its length is not the least number of rows that a layer has", error);
  if (!table.is_private && most > table.ids.size()) return damaged(file, "rows without ids in a sequence that is not private", error);
  if (chunks != table.chunk_count()) return damaged(file, "its chunks are not as many as its rows make", error);
  return KVC_OK;
}

kvc_status read_chunks(SaveTable &table, const uint8_t *from, const io::File &file, Error &error) {
  bool named = true;
  for (uint64_t i = 0; i < table.chunks.size(); i++) {
    const auto wire = taken<WireChunk>(from + i * sizeof(WireChunk));
    SavedChunk &chunk = table.chunks[i];
    if (wire.offset != chunk.offset || wire.bytes != chunk.bytes || wire.frames != chunk.frames || (wire.flags & ~chunk_flag_awaits) != (chunk.is_open ? part_flag_open : 0) || wire.zero)
      return fail(error, KVC_ERR_CORRUPT, "file \"%.100s\": chunk %llu is said to lie at %llu with %u frames of %llu bytes: its rows make %u of %llu at %llu", file.path(), wide(i), wide(wire.offset),
                  wire.frames, wide(wire.bytes), chunk.frames, wide(chunk.bytes), wide(chunk.offset));
    if ((chunk.awaits = wire.flags & chunk_flag_awaits) && (chunk.is_open || !table.is_pieced())) return damaged(file, "a chunk awaits what it cannot have", error);
    std::copy(std::begin(wire.name), std::end(wire.name), chunk.name.begin());
    std::copy(std::begin(wire.write_id), std::end(wire.write_id), chunk.write_id.begin());
    if (chunk.is_open && (chunk.is_named() || chunk.write_id != std::array<uint8_t, 16>{})) return damaged(file, "an open chunk has a name or a write id", error);
    if (chunk.is_named() && (!named || (i + 1) * table.shape.chunk_tokens > table.ids.size())) return damaged(file, "a chunk has a name that no ids make", error);
    named = named && chunk.is_named();
    if (!chunk.is_open && !chunk.is_named() && !table.is_private) return damaged(file, "a chunk of a sequence that is not private has no name", error);
  }
  return KVC_OK;
}

/// What the list of pieces says, before places are made of it.
kvc_status take_pieces(SaveTable &table, const WireHeader &header, const uint8_t *from, const uint8_t *marks, const io::File &file, Error &error) {
  if (header.version != table.version()) return damaged(file, "its version is not that of its layers", error);
  table.marks.resize(header.marks);
  if (header.marks) std::memcpy(table.marks.data(), marks, table.marks.size() * sizeof(uint32_t));
  table.pieces.resize(header.pieces);
  uint64_t first_mark = 0;
  for (uint64_t i = 0; i < header.pieces; i++) {
    const auto wire = taken<WirePiece>(from + i * sizeof(WirePiece));
    SavedPiece &piece = table.pieces[i];
    if ((wire.kind != KVC_LAYER_WINDOW && wire.kind != KVC_LAYER_STATE) || (wire.flags & ~part_flag_open) || wire.zero) return damaged(file, "a piece is of no kind, or has flags or bytes that must be 0", error);
    piece.kind = piece_of(wire.kind), piece.at = wire.at, piece.is_open = wire.flags & part_flag_open;
    piece.first_mark = first_mark;
    first_mark += table.layers_of(piece.kind).size();
    if (first_mark > header.marks || table.layers_of(piece.kind).empty()) return damaged(file, "its marks are not as many as its pieces have layers", error);
  }
  if (first_mark != header.marks) return damaged(file, "its marks are not as many as its pieces have layers", error);
  Error why;
  if (check_pieces(table, why) != KVC_OK || check_goes_on(table, KVC_ERR_CORRUPT, why) != KVC_OK) return damaged(file, why.message, error);
  return KVC_OK;
}

/// They lie where the rows that they have put them.
kvc_status check_places_of_pieces(const SaveTable &table, const uint8_t *from, const io::File &file, Error &error) {
  for (uint64_t i = 0; i < table.pieces.size(); i++) {
    const auto wire = taken<WirePiece>(from + i * sizeof(WirePiece));
    const SavedPiece &piece = table.pieces[i];
    if (wire.offset != piece.offset || wire.bytes != piece.bytes || wire.frames != piece.frames || wire.frames == 0)
      return fail(error, KVC_ERR_CORRUPT, "file \"%.100s\": piece %llu is said to lie at %llu with %u frames of %llu bytes: its rows make %u of %llu at %llu", file.path(), wide(i), wide(wire.offset),
                  wire.frames, wide(wire.bytes), piece.frames, wide(piece.bytes), wide(piece.offset));
  }
  return KVC_OK;
}

/// The names are what the ids and the extras make.
kvc_status check_names(const SaveTable &table, const io::File &file, Error &error) {
  seq::ChunkNamer namer;
  seq::Name parent = seq::first_chunk_parent(table.scope, table.first_position);
  const uint64_t chunk_tokens = table.shape.chunk_tokens;
  for (uint64_t i = 0; i < table.named(); i++) {
    parent = namer.next(parent, table.ids.data() + i * chunk_tokens, static_cast<uint32_t>(chunk_tokens), i * chunk_tokens, table.extras.all());
    if (parent != table.chunks[i].name) return fail(error, KVC_ERR_CORRUPT, "file \"%.120s\": chunk %llu has another name than its ids make", file.path(), wide(i));
  }
  return KVC_OK;
}

}  // namespace

uint32_t SaveTable::version() const { return is_part() ? version_part : is_pieced() ? version_pieced : version_plain; }

uint64_t SaveTable::file_bytes() const { return trailer_at + trailer_bytes; }

uint64_t SaveTable::named() const {
  uint64_t count = 0;
  while (count < chunks.size() && chunks[count].is_named()) count++;
  return count;
}

uint64_t SaveTable::rows_max() const { return *std::max_element(filled.begin(), filled.end()); }

uint64_t SaveTable::chunk_count() const {
  uint64_t rows = 0;
  for (const seq::LayerRun &run : shape.runs)
    if (run.keeps_all()) rows = std::max(rows, *std::max_element(filled.begin() + run.layer_begin, filled.begin() + run.layer_begin + run.layer_count));
  return std::max(sealed(), (rows + shape.chunk_tokens - 1) / shape.chunk_tokens);
}

uint32_t SaveTable::rows_in(uint32_t layer, uint64_t chunk) const {
  const uint64_t begin = chunk * shape.chunk_tokens;
  return static_cast<uint32_t>(std::min<uint64_t>(filled[layer] > begin ? filled[layer] - begin : 0, shape.chunk_tokens));
}

SavedPage SaveTable::page(uint32_t layer, uint64_t chunk) const {
  SavedPage page;
  page.layer = layer;
  page.layers = &shape.run_of(layer);
  page.rows = page.tokens = page.layers->keeps_all() ? rows_in(layer, chunk) : 0;
  page.chunk = chunk;
  page.named_by = &chunks[chunk];
  page.is_open = chunks[chunk].is_open;
  page.is_private = !chunks[chunk].is_named();
  page.k_bytes = uint64_t{page.layers->kv_heads} * page.rows * page.layers->k_row_bytes();
  page.v_bytes = uint64_t{page.layers->kv_heads} * page.rows * page.layers->v_row_bytes();
  return page;
}

void SaveTable::place() {
  chunks.resize(chunk_count());
  for (uint64_t i = 0; i < chunks.size(); i++) chunks[i].is_open = i >= sealed();
  table_end = Parts(counts_of(*this)).end;
  uint64_t at = table_end;
  const auto put = [&](uint64_t i, SavedPart &part) {
    part.offset = save_aligned(at);
    if (i != 0 && i < sealed()) {  // sealed chunks are alike
      part.frames = chunks[0].frames, part.bytes = chunks[0].bytes;
    } else {
      part.frames = 0, part.bytes = 0;
      (void)each_page(i, [&](const SavedPage &page) -> kvc_status {
        part.frames++;
        part.bytes += page.frame_bytes();
        return KVC_OK;
      });
    }
    at = part.offset + part.bytes;
  };
  for (uint64_t i = 0; i < chunks.size(); i++) put(i, chunks[i]);
  for (uint64_t i = 0; i < pieces.size(); i++) put(chunks.size() + i, pieces[i]);
  trailer_at = save_aligned(at);
}

void save_table_encode(std::pmr::vector<uint8_t> &out, const SaveTable &table) {
  const auto extras = table.extras.all();
  WireHeader header = counts_of(table);
  const Parts parts(header);
  out.assign(parts.end, 0);
  std::memcpy(header.magic, magic, sizeof header.magic);
  header.version = table.version(), header.header_bytes = header_bytes;
  header.file_bytes = table.file_bytes(), header.table_end = parts.end;
  std::copy(table.scope.begin(), table.scope.end(), header.scope);
  std::copy(table.shape.fingerprint.begin(), table.shape.fingerprint.end(), header.shape);
  header.flags = table.is_private ? flag_private : 0;
  header.length = table.length, header.first_position = table.first_position, header.truncated_to = table.truncated_to;
  header.dtype = table.shape.dtype, header.chunk_tokens = table.shape.chunk_tokens, header.rope = table.shape.rope;
  header.sum = sum(&header, offsetof(WireHeader, sum));
  std::memcpy(out.data(), &header, sizeof header);
  for (size_t i = 0; i < table.whole().runs.size(); i++) {
    const seq::LayerRun &r = table.whole().runs[i];
    const uint32_t members[] = {r.layer_count, r.kind, r.kv_heads, r.k_dim, r.v_dim, r.rope_dim, r.window, r.k_dtype, r.v_dtype};
    static_assert(sizeof members == run_bytes);
    std::memcpy(out.data() + parts.runs + i * run_bytes, members, sizeof members);
  }
  std::memcpy(out.data() + parts.filled, table.filled.data(), table.filled.size() * sizeof(uint64_t));
  for (size_t i = 0; i < extras.size(); i++) {
    WireExtra wire{extras[i].token_begin, extras[i].token_count, extras[i].data_size, 0, {}};
    std::copy_n(extras[i].data, extras[i].data_size, wire.data);
    std::memcpy(out.data() + parts.extras + i * sizeof wire, &wire, sizeof wire);
  }
  if (!table.ids.empty()) std::memcpy(out.data() + parts.ids, table.ids.data(), table.ids.size() * sizeof(int32_t));
  for (size_t i = 0; i < table.chunks.size(); i++) {
    const SavedChunk &c = table.chunks[i];
    WireChunk wire{{}, {}, c.offset, c.bytes, c.frames, (c.is_open ? part_flag_open : 0) | (c.awaits ? chunk_flag_awaits : 0), 0};
    std::copy(c.name.begin(), c.name.end(), wire.name);
    std::copy(c.write_id.begin(), c.write_id.end(), wire.write_id);
    std::memcpy(out.data() + parts.chunks + i * sizeof wire, &wire, sizeof wire);
  }
  for (size_t i = 0; i < table.pieces.size(); i++) {
    const SavedPiece &p = table.pieces[i];
    const WirePiece wire{p.at, p.offset, p.bytes, uint32_t{p.kind == Piece::window ? KVC_LAYER_WINDOW : KVC_LAYER_STATE}, p.is_open ? part_flag_open : 0, p.frames, 0};
    std::memcpy(out.data() + parts.pieces + i * sizeof wire, &wire, sizeof wire);
  }
  if (!table.marks.empty()) std::memcpy(out.data() + parts.marks, table.marks.data(), table.marks.size() * sizeof(uint32_t));
}

std::array<uint8_t, 16> save_trailer(const std::pmr::vector<uint8_t> &table) {
  std::array<uint8_t, 16> out{};
  const uint64_t of_table = sum(table.data(), table.size());
  std::memcpy(out.data(), &of_table, sizeof of_table);
  std::memcpy(out.data() + 8, trailer_magic, 8);
  return out;
}

kvc_status save_table_read(SaveTable &out, io::File &file, std::pmr::memory_resource *resource, Error &error) {
  std::pmr::vector<uint8_t> bytes(resource);
  KVC_TRY(read_bytes(bytes, file, error));
  const auto header = taken<WireHeader>(bytes.data());
  const Parts parts(header);
  KVC_TRY(read_shape(out.shape, header, bytes.data() + parts.runs, file, resource, error));
  KVC_TRY(take_part(out, header.range(), file, error));
  out.list_layers();
  std::copy(std::begin(header.scope), std::end(header.scope), out.scope.begin());
  out.is_private = header.flags & flag_private;
  out.length = header.length, out.first_position = header.first_position, out.truncated_to = header.truncated_to;
  out.filled.resize(out.shape.layer_count);
  std::memcpy(out.filled.data(), bytes.data() + parts.filled, out.filled.size() * sizeof(uint64_t));
  KVC_TRY(read_extras(out.extras, bytes.data() + parts.extras, header.extras, file, resource, error));
  out.ids.resize(header.ids);
  if (header.ids) std::memcpy(out.ids.data(), bytes.data() + parts.ids, out.ids.size() * sizeof(int32_t));
  KVC_TRY(check_counts(out, header.chunks, file, error));
  KVC_TRY(take_pieces(out, header, bytes.data() + parts.pieces, bytes.data() + parts.marks, file, error));
  out.place();
  if (out.file_bytes() != file.bytes()) return damaged(file, "its pages are not as many bytes as its rows make", error);
  KVC_TRY(read_chunks(out, bytes.data() + parts.chunks, file, error));
  KVC_TRY(check_places_of_pieces(out, bytes.data() + parts.pieces, file, error));
  return check_names(out, file, error);
}

}  // namespace kvc::store

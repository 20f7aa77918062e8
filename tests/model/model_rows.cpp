#include <algorithm>

#include "model.h"

namespace kvc::model {

uint64_t Model::filled(const Seq &seq, uint32_t layer) const {
  return seq.sealed.size() * scopes_[static_cast<size_t>(seq.identity.scope)].geometry->chunk_tokens + seq.open[layer].size();
}

bool Model::ids_too_late(const Seq &seq) const {
  for (uint32_t l = 0; l < seq.open.size(); l++)
    if (filled(seq, l) > seq.identity.ids.size()) return true;
  return false;
}

uint64_t Model::length(const Seq &seq) const {
  uint64_t least = UINT64_MAX;
  for (uint32_t l = 0; l < seq.open.size(); l++) least = std::min(least, filled(seq, l));
  return least;
}

uint64_t Model::stamp(const Seq &seq, uint32_t layer, uint64_t token) const {
  const uint64_t chunk_tokens = scopes_[static_cast<size_t>(seq.identity.scope)].geometry->chunk_tokens, chunk = token / chunk_tokens;
  if (chunk < seq.sealed.size()) return seq.sealed[chunk]->stamps[layer * chunk_tokens + token % chunk_tokens];
  return seq.open[layer][token - seq.sealed.size() * chunk_tokens];
}

/// The first position that went after a lapse.
uint64_t Model::gone_from(const Seq &seq) const {
  return seq.held < seq.sealed.size() ? seq.held * scopes_[static_cast<size_t>(seq.identity.scope)].geometry->chunk_tokens : UINT64_MAX;
}

/// Often those that follow in a chunk that is held: then its content is there already.
std::vector<int32_t> Model::more_ids(const Identity &identity, uint64_t count) {
  std::vector<int32_t> more;
  std::vector<const Chunk *> longer;
  for (const auto &[key, chunk] : scopes_[static_cast<size_t>(identity.scope)].chunks) {
    const std::vector<int32_t> &ids = chunk->identity.ids;
    if (chunk->identity.first_position == identity.first_position && ids.size() > identity.ids.size() && std::equal(identity.ids.begin(), identity.ids.end(), ids.begin()))
      longer.push_back(chunk.get());
  }
  if (!longer.empty() && chance(70)) {
    const std::vector<int32_t> &ids = longer[below(longer.size())]->identity.ids;
    more.assign(ids.begin() + static_cast<int64_t>(identity.ids.size()), ids.end());
  }
  if (more.size() > count) more.resize(count);
  while (more.size() < count) more.push_back(static_cast<int32_t>(random_()));
  return more;
}

void Model::plan_append(Call &call, Seq &seq) {
  const Geometry &g = geometry_of(seq);
  const uint64_t chunk_tokens = g.chunk_tokens, most = 6 * chunk_tokens, have = length(seq);
  const uint64_t known = seq.identity.ids.size(), room = known < most ? most - known : 0;
  if (!ids_too_late(seq) && chance(seq.is_private ? 50 : 80)) call.ids = more_ids(seq.identity, std::min(room, below(2 * chunk_tokens + chunk_tokens / 2)));
  uint64_t given = known + call.ids.size();
  if (seq.is_private && (given < have || chance(50))) given = std::max(given, have + below(2 * chunk_tokens));
  given = std::min(given, most);
  call.writer = ++writer_;
  const bool together = chance(60);
  const uint64_t to = chance(60) ? given : have + (given > have ? below(given - have + 1) : 0);
  for (uint32_t l = 0; l < g.layers.size(); l++) {
    const uint64_t at = filled(seq, l), own = together ? to : chance(50) ? at : at + (given > at ? below(given - at + 1) : 0);
    call.target.push_back(std::max(at, own));
  }
  plan_rows(call, seq);
}

/// Layers that go from and to the same position may share a run; runs come in any order.
void Model::plan_rows(Call &call, Seq &seq) {
  const Geometry &g = geometry_of(seq);
  std::vector<std::pair<uint32_t, uint32_t>> groups;
  for (uint32_t l = 0; l < g.layers.size();) {
    uint32_t end = l + 1;
    while (end < g.layers.size() && g.layers[end].run == g.layers[l].run && filled(seq, end) == filled(seq, l) && call.target[end] == call.target[l] && chance(70)) end++;
    if (call.target[l] > filled(seq, l)) groups.push_back({l, end - l});
    l = end;
  }
  std::shuffle(groups.begin(), groups.end(), random_);
  for (const auto &[layer, count] : groups) {
    const uint64_t begin = filled(seq, layer), end = call.target[layer], middle = chance(20) ? begin + below(end - begin) : begin;
    if (middle > begin) add_run(call, seq, layer, count, begin, middle);
    add_run(call, seq, layer, count, middle, end);
  }
}

void Model::add_run(Call &call, Seq &seq, uint32_t layer, uint32_t layer_count, uint64_t begin, uint64_t end) {
  const Geometry &g = geometry_of(seq);
  const uint32_t heads = g.layers[layer].heads, first = heads > 1 && chance(30) ? 1 + static_cast<uint32_t>(below(heads - 1)) : heads;
  for (uint32_t head = 0; head < heads; head = head ? heads : first) {
    const uint32_t head_count = head ? heads - first : first;
    auto block = std::make_unique<Block>(g, Block::Part{layer, layer_count, head, head_count}, end - begin, random_);
    block->fill([&](uint32_t l, uint64_t row) { return stamp_of(call.writer, l, begin + row); });
    kvc_rows rows = block->rows();
    rows.token_begin = begin;
    rows.token_count = end - begin;
    call.rows.push_back(rows);
    call.blocks.push_back(std::move(block));
    if (head == 0 && first == heads) break;
  }
}

/// Do the rows of a chunk, layer by layer, read as these?
bool Model::reads_as(const Seq &seq, uint64_t chunk, const std::vector<std::vector<uint64_t>> &rows) {
  const Geometry &g = geometry_of(const_cast<Seq &>(seq));
  for (uint32_t l = 0; l < rows.size(); l++) {
    if (rows[l].empty()) continue;
    Block block(g, {l, 1, 0, g.layers[l].heads}, rows[l].size(), random_);
    kvc_rows r = block.rows();
    r.token_begin = chunk * g.chunk_tokens;
    r.token_count = rows[l].size();
    MODEL_CHECK(kvc_gather(nullptr, seq.handle, &r, 1, nullptr, &error_) == KVC_OK, said());
    if (!block.mismatch([&](uint32_t, uint64_t row) { return rows[l][row]; }, rows[l].size()).empty()) return false;
  }
  return true;
}

/// What a chunk holds after rows came: ours, or those of the writer who was first.  Null: it reads as `own`.
ChunkPtr Model::settle_chunk(Seq &seq, uint64_t chunk, const std::vector<std::vector<uint64_t>> &own, bool complete, bool evicted) {
  const Geometry &g = geometry_of(seq);
  if (seq.is_private || seq.identity.ids.size() < (chunk + 1) * g.chunk_tokens) return nullptr;
  const auto found = scope_of(seq).chunks.find(key_of(seq.identity, chunk));
  if (found == scope_of(seq).chunks.end()) return nullptr;
  const ChunkPtr first = found->second;
  if (complete && !evicted) return first;
  std::vector<std::vector<uint64_t>> theirs(own.size());
  for (uint32_t l = 0; l < own.size(); l++)
    theirs[l].assign(first->stamps.begin() + l * g.chunk_tokens, first->stamps.begin() + static_cast<int64_t>(l * g.chunk_tokens + own[l].size()));
  if (theirs != own && reads_as(seq, chunk, theirs)) return first;
  MODEL_CHECK(reads_as(seq, chunk, own), "chunk " + std::to_string(chunk) + " is neither the first writer's nor ours");
  return nullptr;
}

void Model::settle_append(Seq &seq, const Call &call, bool evicted) {
  const Geometry &g = geometry_of(seq);
  const uint64_t chunk_tokens = g.chunk_tokens, sealed_before = seq.sealed.size();
  seq.identity.ids.insert(seq.identity.ids.end(), call.ids.begin(), call.ids.end());
  uint64_t most = 0, length_after = UINT64_MAX;
  for (uint32_t l = 0; l < g.layers.size(); l++) {
    for (uint64_t t = filled(seq, l); t < call.target[l]; t++) seq.open[l].push_back(stamp_of(call.writer, l, t));
    most = std::max(most, call.target[l]);
    length_after = std::min(length_after, call.target[l]);
  }
  const uint64_t sealed_after = length_after / chunk_tokens;
  std::vector<ChunkPtr> sealed;
  for (uint64_t c = sealed_before; c * chunk_tokens < most; c++) {
    const uint64_t from = (c - sealed_before) * chunk_tokens;
    std::vector<std::vector<uint64_t>> own(g.layers.size());
    for (uint32_t l = 0; l < own.size(); l++) {
      const auto &rows = seq.open[l];
      if (rows.size() > from) own[l].assign(rows.begin() + static_cast<int64_t>(from), rows.begin() + static_cast<int64_t>(std::min(rows.size(), from + chunk_tokens)));
    }
    const bool complete = c < sealed_after;
    ChunkPtr chunk = settle_chunk(seq, c, own, complete, evicted);
    if (chunk)  // an open chunk reads so too
      for (uint32_t l = 0; l < own.size(); l++)
        for (uint64_t t = 0; t < own[l].size(); t++) seq.open[l][from + t] = chunk->stamps[l * chunk_tokens + t];
    if (!complete) {
      if (chunk) seq.adopted.push_back(chunk);
      continue;
    }
    if (!chunk) {
      chunk = std::make_shared<Chunk>();
      for (const auto &rows : own) chunk->stamps.insert(chunk->stamps.end(), rows.begin(), rows.end());
      chunk->identity = seq.identity;
      if (!sealed.empty()) chunk->parent = sealed.back();
      else if (sealed_before) chunk->parent = seq.sealed.back();
      if (!seq.is_private) {
        chunk->identity.ids.resize((c + 1) * chunk_tokens);
        chunk->key = key_of(seq.identity, c);
        ChunkPtr &place = scope_of(seq).chunks[chunk->key];
        if (place) place->alive = false, replaced_++;  // it was evicted while room was made
        place = chunk;
      }
    }
    sealed.push_back(chunk);
  }
  seq.sealed.insert(seq.sealed.end(), sealed.begin(), sealed.end());
  seq.held = seq.sealed.size();
  if (!call.rows.empty()) seq.cut = nullptr;
  if (std::all_of(seq.open.begin(), seq.open.end(), [&](const auto &rows) { return rows.size() == sealed.size() * chunk_tokens; })) seq.adopted.clear();
  for (auto &rows : seq.open) rows.erase(rows.begin(), rows.begin() + static_cast<int64_t>(sealed.size() * chunk_tokens));
}

/// Layers of one kind, some heads, K or V or both; `end`: rows that all these layers have.
bool Model::pick_part(const Seq &seq, Block::Part &part, uint64_t &end) {
  const Geometry &g = geometry_of(const_cast<Seq &>(seq));
  const uint32_t layer = static_cast<uint32_t>(below(g.layers.size())), heads = g.layers[layer].heads, head = chance(50) ? 0 : static_cast<uint32_t>(below(heads));
  uint32_t count = 1;
  while (layer + count < g.layers.size() && g.layers[layer + count].run == g.layers[layer].run && chance(70)) count++;
  part = {layer, count, head, head || chance(50) ? 1 + static_cast<uint32_t>(below(heads - head)) : heads, {true, true}};
  if (chance(20)) part.side[below(2)] = false;
  end = UINT64_MAX;
  for (uint32_t l = layer; l < layer + count; l++) end = std::min(end, filled(seq, l));
  return end > 0;
}

void Model::gather(Seq &seq) {
  touch(seq);
  if (chance(30)) gather_list(seq);
  else gather_ranges(seq);
}

void Model::gather_ranges(Seq &seq) {
  const uint64_t chunk_tokens = geometry_of(seq).chunk_tokens;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<kvc_rows> rows;
  uint64_t first = UINT64_MAX, last = 0;
  for (uint64_t n = chance(25) ? 3 : 1; n; n--) {
    Block::Part part;
    uint64_t end;
    if (!pick_part(seq, part, end)) continue;
    const uint64_t begin = chance(40) ? 0 : below(end), count = chance(40) ? end - begin : 1 + below(end - begin);
    blocks.push_back(std::make_unique<Block>(geometry_of(seq), part, count, random_));
    rows.push_back(blocks.back()->rows());
    rows.back().token_begin = begin;
    rows.back().token_count = count == end - begin && chance(50) ? KVC_ALL : count;
    first = std::min(first, begin);
    last = std::max(last, begin + count);
  }
  if (rows.empty()) return;
  // In steps of chunks from the first position on, as far as every run that has rows there can be served.
  uint64_t done = last, right = 0;
  for (size_t i = 0; i < rows.size(); i++) {
    const uint64_t count = rows[i].token_count == KVC_ALL ? UINT64_MAX : rows[i].token_count;
    const uint64_t begin = rows[i].token_begin, end = count == UINT64_MAX ? last : begin + count;
    if (gone_from(seq) == UINT64_MAX || end <= gone_from(seq)) continue;
    const uint64_t wrong = std::max(begin, gone_from(seq));
    if (wrong < seq.sealed.size() * chunk_tokens) done = std::min(done, std::max(first, wrong / chunk_tokens * chunk_tokens));
  }
  kvc_result result;
  KVC_INIT(&result);
  note("gather " + std::to_string(rows.size()) + " runs in " + std::to_string(first) + ".." + std::to_string(last) + ", right to " + std::to_string(done));
  const kvc_status status = kvc_gather(&result, seq.handle, rows.data(), rows.size(), nullptr, &error_);
  MODEL_CHECK(status == (done == last ? KVC_OK : KVC_ERR_GONE), said());
  MODEL_CHECK(result.status == status && result.done == done, "done " + std::to_string(result.done));
  for (size_t i = 0; i < rows.size(); i++) {
    const uint64_t begin = rows[i].token_begin;
    right = done == last ? UINT64_MAX : done > begin ? done - begin : 0;
    right = std::min(right, blocks[i]->row_count());
    const std::string wrong = blocks[i]->mismatch([&](uint32_t l, uint64_t row) { return stamp(seq, l, begin + row); }, right);
    MODEL_CHECK(wrong.empty(), wrong);
  }
}

void Model::gather_list(Seq &seq) {
  Block::Part part;
  uint64_t end;
  if (!pick_part(seq, part, end)) return;
  const uint64_t chunk_tokens = geometry_of(seq).chunk_tokens, unit = end >= 16 && chance(50) ? 16 : 1;
  std::vector<uint64_t> entries(1 + below(20));
  for (size_t i = 0; i < entries.size(); i++) entries[i] = i && unit == 1 && chance(60) ? std::min(entries[i - 1] + 1, end - 1) : below(end / unit);
  Block block(geometry_of(seq), part, entries.size() * unit, random_);
  kvc_rows rows = block.rows();
  rows.token_list = entries.data();
  rows.token_count = entries.size();
  rows.token_unit = static_cast<uint32_t>(unit);
  uint64_t done = 0;
  const auto gone = [&](uint64_t token) { return token / chunk_tokens < seq.sealed.size() && token / chunk_tokens >= seq.held; };
  while (done < entries.size() && !gone(entries[done] * unit)) done++;
  kvc_result result;
  KVC_INIT(&result);
  note("gather a list of " + std::to_string(entries.size()) + " x " + std::to_string(unit));
  const kvc_status status = kvc_gather(&result, seq.handle, &rows, 1, nullptr, &error_);
  MODEL_CHECK(status == (done == entries.size() ? KVC_OK : KVC_ERR_GONE), said());
  MODEL_CHECK(result.done == done, "done " + std::to_string(result.done));
  const std::string wrong = block.mismatch([&](uint32_t l, uint64_t row) { return stamp(seq, l, entries[row / unit] * unit + row % unit); }, done * unit);
  MODEL_CHECK(wrong.empty(), wrong);
}

/// Every row of every layer that is still there.
void Model::read_all(Seq &seq) {
  const Geometry &g = geometry_of(seq);
  touch(seq);
  for (uint32_t l = 0; l < g.layers.size(); l++) {
    const uint64_t end = std::min(filled(seq, l), gone_from(seq));
    if (!end) continue;
    Block block(g, {l, 1, 0, g.layers[l].heads}, end, random_);
    kvc_rows rows = block.rows();
    rows.token_count = end;
    MODEL_CHECK(kvc_gather(nullptr, seq.handle, &rows, 1, nullptr, &error_) == KVC_OK, said());
    const std::string wrong = block.mismatch([&](uint32_t layer, uint64_t row) { return stamp(seq, layer, row); }, end);
    MODEL_CHECK(wrong.empty(), wrong);
  }
}

}  // namespace kvc::model

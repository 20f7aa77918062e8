#include <algorithm>
#include <numeric>
#include <optional>
#include <random>

#include "../io/faulty_files.h"
#include "../io/memory_files.h"
#include "hybrid.h"
#include "kernels/rows.h"
#include "seam_store.h"

/// Models with window and state layers in save files: the sequence that was saved is the oracle of the one that comes back.
namespace {

using namespace kvc_test;
using Runs = std::vector<kvc_layer>;

struct Model {
  const char *name;
  Runs runs;
};
const std::vector<Model> models = {
    {"Gemma-like", {window_layers(2, 1, 5, 3, 20), full_layers(1, 2, 7, 5), window_layers(1, 1, 5, 3, 33)}},
    {"Qwen-Next-like", {state_layers(2, 2, 50, 9), full_layers(1, 2, 7, 5), state_layers(1, 1, 70, 0)}},
    {"mixed", {latent_layers(1, 6, 2), window_layers(1, 1, 5, 3, 20), state_layers(1, 2, 50, 9), full_layers(1, 1, 7, 5)}},
    {"windows alone", {window_layers(2, 1, 5, 3, 20)}},
    {"states alone", {state_layers(2, 1, 40, 8)}},
};

/// A host whose store writes to a disk in memory.
struct Disk : HybridHost {
  Disk(kvc::io::FileSystem &files, const Runs &runs, std::optional<kvc_store_options> options = {}) : HybridHost(runs, KVC_F16, 16, 1u << 20) {
    scope.reset();
    kvc::store::Seams seams;
    seams.files = &files;
    store = open_with(seams, options ? *options : options_of(4u << 20));
    scope = make_scope("test", runs, KVC_F16, 16);
  }
  kvc_status save(const kvc_seq *seq, const char *path = "disk/a") { return kvc_seq_save(seq, path, nullptr, &error); }
  kvc_status restore(SeqHandle &seq, const char *path = "disk/a") { return kvc_seq_restore(seq.out(), scope, path, nullptr, nullptr, &error); }
  kvc_seq_info info(const kvc_seq *seq) {
    auto out = sized<kvc_seq_info>();
    EXPECT_EQ(kvc_seq_get_info(&out, seq, &error), KVC_OK) << error.message;
    return out;
  }
  std::vector<uint64_t> counts() {
    auto i = sized<kvc_store_info>();
    EXPECT_EQ(kvc_store_get_info(&i, store, &error), KVC_OK) << error.message;
    auto s = sized<kvc_scope_info>();
    EXPECT_EQ(kvc_scope_get_info(&s, scope, &error), KVC_OK) << error.message;
    return {i.memory_used, i.memory_pinned, i.seq_count, i.chunk_count, s.chunk_count, s.seq_count, s.bytes_host};
  }
  /// All that can be asked of a sequence: what it is, each row and snapshot alone, and where it can be cut.
  std::string all_of(const kvc_seq *seq) {
    const kvc_seq_info i = info(seq);
    const uint64_t complete = i.tokens / 16 * 16;  // the last of these chunks may wait for its snapshot beside another's
    EXPECT_TRUE(i.tokens_sealed == complete || i.tokens_sealed + 16 == complete) << i.tokens_sealed;
    std::string out = "tokens, given, end, held, shareable:";
    for (const uint64_t n : {i.tokens, i.tokens_given, i.tokens_end, i.tokens_held, i.tokens_shareable}) out += " " + std::to_string(n);
    for (uint32_t l = 0; l < layers.size(); l++) {
      out += "\nlayer " + std::to_string(l) + ":";
      for (uint64_t at = 1; at <= i.tokens_given + 1; at++) {
        const Moves moves = target(l, at - 1, at);
        out += " " + std::to_string(gather(seq, moves.rows()));
        uint64_t sum = 0;
        for (const auto *side : {&moves.list[0]->k, &moves.list[0]->v}) sum = sum * 31 + kvc::kernels::table().sum(side->data(), side->size());
        out += "/" + std::to_string(sum % 9973);
      }
    }
    out += "\ncuts:";
    for (uint64_t tokens = 0; tokens <= i.tokens; tokens++) {
      SeqHandle cut;
      out += " " + std::to_string(kvc_seq_fork(cut.out(), seq, tokens, &error));
      if (cut) out += "/" + std::to_string(info(cut).tokens_end);
    }
    return out;
  }
};

struct SavePieces : testing::Test {
  MemoryFiles disk;
  const std::vector<int32_t> tokens = ids(200);
  int32_t salt = 0;

  void expect_round_trip(Disk &here, kvc_seq *seq, const Runs &runs, const std::string &what, bool goes_on_too = true) {
    ASSERT_EQ(here.save(seq), KVC_OK) << what << ": " << here.error.message;
    Disk there(disk, runs);
    SeqHandle back;
    ASSERT_EQ(there.restore(back), KVC_OK) << what << ": " << there.error.message;
    EXPECT_EQ(there.all_of(back), here.all_of(seq)) << what;
    const std::string file = disk.content("a");
    ASSERT_EQ(there.save(back, "disk/b"), KVC_OK) << what << ": " << there.error.message;
    EXPECT_TRUE(disk.content("b") == file) << what << ": saved again it is another file";
    EXPECT_EQ(kvc_store_verify(nullptr, there.store, nullptr, &there.error), KVC_OK) << what << ": " << there.error.message;
    if (!goes_on_too) return;
    // It goes on as the saved one does, behind ids that nobody has yet.
    const std::vector<int32_t> fresh = ids(21, ++salt);
    SeqHandle goes_on;
    ASSERT_EQ(kvc_seq_fork(goes_on.out(), seq, KVC_ALL, &here.error), KVC_OK) << what << ": " << here.error.message;
    for (Disk *host : {&here, &there}) {
      kvc_seq *const of = host == &here ? goes_on : back;
      const uint64_t given = host->info(of).tokens_given, end = given + 21;
      Moves moves;
      for (uint32_t l = 0; l < host->layers.size(); l++) moves += host->source(l, filled_of(*host, of, l), end, 1);
      ASSERT_EQ(host->append(of, fresh, moves.rows()), KVC_OK) << what << ": " << host->error.message;
    }
    EXPECT_EQ(there.all_of(back), here.all_of(goes_on)) << what << ": gone on";
  }
  /// By what a gather says that asks for more.
  static uint64_t filled_of(Disk &host, const kvc_seq *seq, uint32_t layer) {
    const Moves moves = host.target(layer, 1000, 1001);
    EXPECT_EQ(host.gather(seq, moves.rows()), KVC_ERR_RANGE);
    const std::string text = host.error.text();
    return std::stoull(text.substr(text.find("asked for, ") + 11));
  }
};

TEST_F(SavePieces, after_any_history_what_comes_back_is_what_was_saved) {
  for (const Model &model : models) {
    for (unsigned seed = 0; seed < 12; seed++) {
      std::mt19937 random(seed);
      Disk here(disk, model.runs);
      SeqHandle seq = here.create(seed == 3 ? KVC_SEQ_PRIVATE : 0);
      uint64_t at = 0;
      bool ended = false;
      for (int step = 0; step < 5; step++) {
        const std::string what = std::string(model.name) + ", seed " + std::to_string(seed) + ", step " + std::to_string(step);
        const uint64_t end = at + 1 + (random() % 3 ? random() % 40 : 15 - at % 16);
        std::vector<int32_t> fresh(tokens.begin() + static_cast<int64_t>(at), tokens.begin() + static_cast<int64_t>(end));
        if (random() % 3 == 0) {
          ASSERT_EQ(here.append_all(seq, tokens, at, end, 1), KVC_OK) << what << ": " << here.error.message;
        } else {  // layer by layer, window rows that nobody sees left out; saved in between too
          std::vector<uint32_t> order(here.layers.size());
          std::iota(order.begin(), order.end(), 0u);
          std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return here.layers[a].kind != KVC_LAYER_WINDOW && here.layers[b].kind == KVC_LAYER_WINDOW; });
          const bool skips = random() % 2 && std::any_of(model.runs.begin(), model.runs.end(), [](const kvc_layer &l) { return l.kind == KVC_LAYER_FULL; });
          for (const uint32_t l : order) {
            const uint64_t window = here.layers[l].window, begin = skips && window && end + 1 > at + window ? end + 1 - window : at;
            const Moves rows = here.source(l, begin, end, 1);
            ASSERT_EQ(here.append(seq, fresh, rows.rows()), KVC_OK) << what << ": " << here.error.message;
            fresh.clear();
            if (random() % 3) continue;
            ended = seed % 4 == 0 && step > 1;  // a fork that goes on brings rows that its chunks wait for: from then on the two differ
            expect_round_trip(here, seq, model.runs, what + ", after layer " + std::to_string(l), ended);
            if (ended) break;
          }
        }
        if (ended) break;
        at = end;
        expect_round_trip(here, seq, model.runs, what);
        if (random() % 3) continue;
        const uint64_t cut = here.info(seq).tokens_end;
        ASSERT_EQ(kvc_seq_truncate(seq, cut, &here.error), KVC_OK) << what << ": " << here.error.message;
        at = cut;
        expect_round_trip(here, seq, model.runs, what + ", cut");
      }
    }
  }
}

TEST_F(SavePieces, others_match_as_far_as_they_could_with_the_one_that_was_saved) {
  for (const Model &model : models) {
    Disk here(disk, model.runs), there(disk, model.runs);
    SeqHandle seq = here.create(), back;
    for (const uint64_t end : {16, 32, 45, 64, 77}) ASSERT_EQ(here.append_all(seq, tokens, end == 16 ? 0 : end == 32 ? 16 : end == 45 ? 32 : end == 64 ? 45 : 64, end, 1), KVC_OK) << here.error.message;
    ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
    ASSERT_EQ(there.restore(back), KVC_OK) << there.error.message;
    for (uint64_t prompt = 0; prompt <= 80; prompt += 5) {
      const std::vector<int32_t> part(tokens.begin(), tokens.begin() + static_cast<int64_t>(prompt));
      const kvc_match_info wanted = here.look(part), got = there.look(part);
      EXPECT_EQ(got.tokens, wanted.tokens) << model.name << ", " << prompt;
      EXPECT_EQ(got.tokens_attention, wanted.tokens_attention) << model.name << ", " << prompt;
    }
    back.reset();
    SeqHandle found;
    EXPECT_EQ(there.look(tokens, &found).tokens, 64u) << model.name;
    for (uint32_t l = 0; l < there.layers.size(); l++) there.expect_rows(found, l, 48, 64, 1);
  }
}

TEST_F(SavePieces, restored_beside_the_saved_one_it_takes_no_room_for_what_is_sealed) {
  for (const Model &model : models) {
    Disk here(disk, model.runs);
    SeqHandle seq = here.create(), back;
    ASSERT_EQ(here.append_all(seq, tokens, 0, 64, 1), KVC_OK) << here.error.message;
    const auto before = here.counts();
    ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
    ASSERT_EQ(here.restore(back), KVC_OK) << here.error.message;
    EXPECT_EQ(here.counts()[0], before[0]) << model.name;
    EXPECT_EQ(here.counts()[3], before[3]) << model.name;
    EXPECT_EQ(here.all_of(back), here.all_of(seq)) << model.name;
  }
}

TEST_F(SavePieces, a_piece_that_went_while_its_chunk_stayed_comes_back_with_it) {
  for (const Model &model : models) {
    Disk here(disk, model.runs), there(disk, model.runs);
    SeqHandle seq = here.create(), back, again;
    ASSERT_EQ(here.append_all(seq, tokens, 0, 16, 1), KVC_OK) << here.error.message;
    ASSERT_EQ(here.save(seq, "disk/short"), KVC_OK) << here.error.message;
    ASSERT_EQ(here.append_all(seq, tokens, 16, 80, 1), KVC_OK) << here.error.message;
    ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
    ASSERT_EQ(there.restore(back, "disk/short"), KVC_OK) << there.error.message;  // the same writer's first chunk
    ASSERT_EQ(there.restore(again), KVC_OK) << there.error.message;
    EXPECT_EQ(there.all_of(again), here.all_of(seq)) << model.name;
    EXPECT_EQ(there.counts()[3], 5u) << model.name;
  }
}

TEST_F(SavePieces, one_chunk_has_one_writer_whoever_was_first) {
  for (const Model &model : models) {
    Disk here(disk, model.runs), there(disk, model.runs);
    SeqHandle seq = here.create(), theirs = there.create(), back;
    for (uint64_t end = 16; end <= 64; end += 16) ASSERT_EQ(here.append_all(seq, tokens, end - 16, end, 1), KVC_OK) << here.error.message;
    ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
    ASSERT_EQ(there.append_all(theirs, tokens, 0, 48, 9), KVC_OK) << there.error.message;  // without snapshots at 16 and 32
    ASSERT_EQ(there.restore(back), KVC_OK) << there.error.message;
    for (int round = 0; round < 2; round++) {
      SeqHandle found;
      const uint64_t length = there.look(tokens, &found).tokens;
      EXPECT_GE(length, 48u) << model.name;
      for (kvc_seq *of : {static_cast<kvc_seq *>(back), static_cast<kvc_seq *>(found)})
        for (uint64_t end = 16; end <= length; end += 16) {
          std::vector<int> writers;  // of what is there of the chunk
          for (uint32_t l = 0; l < there.layers.size(); l++) {
            const Moves moves = there.target(l, end - 16, end);
            const kvc_status status = there.gather(of, moves.rows());
            if (status == KVC_ERR_GONE || status == KVC_ERR_NO_SNAPSHOT) continue;
            ASSERT_EQ(status, KVC_OK) << there.error.message;
            const Moved &got = *moves.list[0];
            const int writer = got.k == got.stamped(1, true) && got.v == got.stamped(1, false) ? 1 : got.k == got.stamped(9, true) && got.v == got.stamped(9, false) ? 9 : 0;
            writers.push_back(writer);
          }
          EXPECT_TRUE(std::all_of(writers.begin(), writers.end(), [&](int w) { return w != 0 && w == writers[0]; })) << model.name << ", chunk that ends at " << end;
        }
      theirs.reset();
    }
    EXPECT_EQ(kvc_store_verify(nullptr, there.store, nullptr, &there.error), KVC_OK) << there.error.message;
  }
}

TEST_F(SavePieces, damage_anywhere_is_an_error_and_changes_nothing) {
  for (const Model &model : {models[0], models[1], models[2]}) {
    Disk here(disk, model.runs), there(disk, model.runs);
    SeqHandle seq = here.create(), mine = there.create();
    for (const uint64_t end : {16, 37}) ASSERT_EQ(here.append_all(seq, tokens, end == 16 ? 0 : 16, end, 1), KVC_OK) << here.error.message;
    ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
    ASSERT_EQ(there.append_all(mine, ids(40, 7), 0, 40, 2), KVC_OK) << there.error.message;
    const std::string good = disk.content("a"), looked = there.all_of(mine);
    const auto before = there.counts();
    const auto refused = [&](const std::string &file, size_t at) {
      disk.put("a", file);
      SeqHandle back;
      const kvc_status status = there.restore(back);
      EXPECT_TRUE(status == KVC_ERR_CORRUPT || status == KVC_ERR_VERSION) << model.name << ", " << at << ": " << kvc_status_name(status) << ": " << there.error.message;
      EXPECT_EQ(static_cast<kvc_seq *>(back), nullptr);
    };
    uint64_t table_end;
    std::memcpy(&table_end, good.data() + 24, 8);
    for (size_t at = 0; at < good.size(); at += at < table_end ? 2 : 61) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (at % 3 ? 1 << at % 8 : 0xFF));
      refused(bad, at);
      if (at % 3 == 0) refused(good.substr(0, at), at);
    }
    EXPECT_EQ(there.counts(), before) << model.name;
    EXPECT_TRUE(there.all_of(mine) == looked) << model.name;
  }
}

TEST_F(SavePieces, lists_of_pieces_that_cannot_be_are_corrupt_though_the_sums_are_right) {
  Disk here(disk, models[2].runs), there(disk, models[2].runs);
  SeqHandle seq = here.create(), back;
  for (const uint64_t end : {16, 37}) ASSERT_EQ(here.append_all(seq, tokens, end == 16 ? 0 : 16, end, 1), KVC_OK) << here.error.message;
  ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
  const std::string good = disk.content("a");
  const auto u64 = [&](size_t at) {
    uint64_t value;
    std::memcpy(&value, good.data() + at, 8);
    return value;
  };
  const auto forged = [&](size_t at, auto value) {
    std::string file = good;
    std::memcpy(file.data() + at, &value, sizeof value);
    const auto sum = [&](uint64_t bytes) { return kvc::kernels::table().sum(reinterpret_cast<const uint8_t *>(file.data()), bytes); };
    const uint64_t header = sum(504);
    std::memcpy(file.data() + 504, &header, 8);
    const uint64_t end = u64(24), table = sum(end);
    std::memcpy(file.data() + file.size() - 16, &table, 8);
    disk.put("a", file);
    return there.restore(back);
  };
  const uint64_t pieces = u64(168), marks = u64(176);
  ASSERT_EQ(pieces, 5u);  // window rows of three chunks, snapshots at 16 and 37
  ASSERT_EQ(marks, 5u);
  const size_t marks_at = u64(24) - 64, pieces_at = marks_at - 256, chunks_at = pieces_at - 256;
  const auto before = there.counts();
  EXPECT_EQ(forged(8, uint32_t{1}), KVC_ERR_CORRUPT);                              // a version that has none
  for (const uint64_t n : {uint64_t{0}, uint64_t{4}, uint64_t{6}, UINT64_MAX / 40, UINT64_MAX}) EXPECT_EQ(forged(168, n), KVC_ERR_CORRUPT) << n;
  for (const uint64_t n : {uint64_t{0}, uint64_t{4}, uint64_t{6}, UINT64_MAX / 4, UINT64_MAX}) EXPECT_EQ(forged(176, n), KVC_ERR_CORRUPT) << n;
  for (size_t i = 0; i < pieces; i++) {
    for (const uint64_t at : {uint64_t{1}, uint64_t{15}, uint64_t{48}, uint64_t{160}, UINT64_MAX}) EXPECT_EQ(forged(pieces_at + 40 * i, at), KVC_ERR_CORRUPT) << i << " at " << at;
    EXPECT_EQ(forged(pieces_at + 40 * i + 8, uint64_t{0}), KVC_ERR_CORRUPT) << i;  // where it lies
    for (const uint32_t kind : {0u, 1u, 3u, 6u - uint32_t{i < 3 ? 2u : 4u}}) EXPECT_EQ(forged(pieces_at + 40 * i + 24, kind), KVC_ERR_CORRUPT) << i << ", kind " << kind;
    for (const uint32_t flags : {i == 2 || i == 4 ? 0u : 1u, 2u}) EXPECT_EQ(forged(pieces_at + 40 * i + 28, flags), KVC_ERR_CORRUPT) << i << ", flags " << flags;
    EXPECT_EQ(forged(pieces_at + 40 * i + 36, 1u), KVC_ERR_CORRUPT) << i;
    for (const uint32_t mark : {i < 3 ? 17u : 2u, UINT32_MAX, i < 3 ? 16u : 0u}) EXPECT_EQ(forged(marks_at + 4 * i, mark), KVC_ERR_CORRUPT) << i << ", mark " << mark;
  }
  EXPECT_EQ(forged(chunks_at + 160 + 68, 3u), KVC_ERR_CORRUPT);  // an open chunk awaits nothing
  EXPECT_EQ(there.counts(), before);
  disk.put("a", good);
  EXPECT_EQ(there.restore(back), KVC_OK) << there.error.message;
}

TEST_F(SavePieces, a_disk_that_fails_at_any_call_changes_nothing) {
  FaultyFiles files(disk);
  for (const Model &model : {models[0], models[1], models[2]}) {
    Disk here(files, model.runs), there(files, model.runs);
    SeqHandle seq = here.create();
    for (const uint64_t end : {16, 37}) ASSERT_EQ(here.append_all(seq, tokens, end == 16 ? 0 : 16, end, 1), KVC_OK) << here.error.message;
    const std::string looked = here.all_of(seq);
    disk.put("a", "before");
    uint64_t nth = 1;
    for (kvc_status status = KVC_ERR_IO; status != KVC_OK && nth < 100; nth++) {
      files.arm(nth, FaultyFiles::How::error);
      status = here.save(seq);
      files.arm(0, FaultyFiles::How::error);
      ASSERT_TRUE(status == KVC_OK || (status == KVC_ERR_IO && disk.content("a") == "before")) << model.name << ", " << nth << ": " << here.error.message;
    }
    EXPECT_GT(nth, 8u);
    EXPECT_TRUE(here.all_of(seq) == looked);
    const auto before = there.counts();
    nth = 1;
    for (bool fired = true; fired && nth < 100; nth++) {
      SeqHandle back;
      files.arm(nth, FaultyFiles::How::error);
      const kvc_status status = there.restore(back);
      fired = files.has_fired();
      files.arm(0, FaultyFiles::How::error);
      if (status == KVC_OK) break;
      EXPECT_EQ(status, KVC_ERR_IO) << there.error.message;
      EXPECT_EQ(there.counts(), before) << model.name << ", " << nth;
    }
    EXPECT_GT(nth, 8u);
  }
}

TEST_F(SavePieces, without_room_for_its_pieces_it_is_full_and_nothing_has_changed) {
  for (const Model &model : {models[0], models[1], models[2]}) {
    Disk here(disk, model.runs);
    SeqHandle seq = here.create();
    ASSERT_EQ(here.append_all(seq, tokens, 0, 79, 1), KVC_OK) << here.error.message;
    ASSERT_EQ(here.save(seq), KVC_OK) << here.error.message;
    auto options = Host::options_of(4u << 20);
    options.open_bytes_max = 1;
    Disk tight(disk, model.runs, options);
    SeqHandle none;
    EXPECT_EQ(tight.restore(none), KVC_ERR_FULL) << tight.error.message;
    EXPECT_EQ(tight.error.retry, static_cast<uint32_t>(KVC_RETRY_NEVER));
    options = Host::options_of(2u << 20);
    Disk small(disk, model.runs, options);
    SeqHandle held = small.create(), back;
    uint64_t at = 0;
    const std::vector<int32_t> others = ids(100000, 5);
    for (kvc_status status = KVC_OK; status == KVC_OK; at += 16) status = small.append_all(held, others, at, at + 16, 2);
    const auto before = small.counts();
    EXPECT_EQ(small.restore(back), KVC_ERR_FULL) << small.error.message;
    EXPECT_EQ(small.counts(), before) << model.name;
    held.reset();
    EXPECT_EQ(small.restore(back), KVC_OK) << small.error.message;
    EXPECT_EQ(small.all_of(back), here.all_of(seq)) << model.name;
  }
}

}  // namespace

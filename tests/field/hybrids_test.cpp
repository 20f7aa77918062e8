// Models that mix kinds of layers: what one kind cannot give, no other kind pretends to have.
#include "folder.h"
#include "store/hybrid.h"

namespace kvc_test {
namespace {

kvc_seq_info info_of(HybridHost &host, const kvc_seq *seq) {
  auto info = sized<kvc_seq_info>();
  EXPECT_EQ(kvc_seq_get_info(&info, seq, &host.error), KVC_OK) << host.error.message;
  return info;
}

std::vector<int32_t> first(const std::vector<int32_t> &tokens, uint64_t count) { return {tokens.begin(), tokens.begin() + static_cast<int64_t>(count)}; }

/// Values of somebody else, several times what the store holds: whatever nobody holds goes.
void press(HybridHost &host) {
  const std::string value(64u << 10, 'p');
  const ScopeHandle others = host.make_scope("others", {});
  auto info = sized<kvc_store_info>();
  ASSERT_EQ(kvc_store_get_info(&info, host.store, &host.error), KVC_OK) << host.error.message;
  for (uint64_t i = 0; i < 3 * info.memory_bytes / value.size(); i++) {
    const std::string key = std::to_string(i);
    kvc_bytes part{const_cast<char *>(value.data()), value.size()};
    kvc_object object{};
    object.key = key.data(), object.key_size = key.size(), object.parts = &part, object.part_count = 1;
    ASSERT_EQ(kvc_object_put(nullptr, others, &object, 1, nullptr, nullptr, &host.error), KVC_OK) << host.error.message;
  }
}

/// A match of all `length` tokens that cannot be cut by one: the cut says so, and the match is whole, in every layer, as before.
void expect_uncut(HybridHost &host, kvc_seq *seq, uint64_t length, kvc_status why) {
  const kvc_seq_info before = info_of(host, seq);
  ASSERT_EQ(before.tokens, length);
  ASSERT_LT(before.tokens_end, length - 1) << "it is said where a cut is possible";
  EXPECT_EQ(kvc_seq_truncate(seq, length - 1, &host.error), why);
  EXPECT_NE(host.error.text().find("tokens_end"), std::string::npos) << host.error.message;
  EXPECT_EQ(info_of(host, seq).tokens, length);
  EXPECT_EQ(info_of(host, seq).tokens_given, length);
  EXPECT_EQ(host.append_all(seq, ids(length), length - 1, length, 2), KVC_ERR_RANGE) << "the last token twice";
}

TEST(FieldReports, B17_a_full_hit_with_a_state_layer_says_that_it_cannot_be_cut_by_one_token_and_stays_whole) {
  HybridHost host({full_layers(1, 2, 5, 3), state_layers(2, 3, 37, 11)}, KVC_F16, 16, 4u << 20);
  const std::vector<int32_t> tokens = ids(64);
  SeqHandle cold = host.create(), seq;
  ASSERT_EQ(host.append_all(cold, tokens, 0, 32, 1), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append_all(cold, tokens, 32, 64, 1), KVC_OK) << host.error.message;
  ASSERT_EQ(host.look(tokens, &seq).tokens, 64u);
  expect_uncut(host, seq, 64, KVC_ERR_NO_SNAPSHOT);
  // Cut where it is said, and computed again from there: as long and as right as the cold run.
  ASSERT_EQ(info_of(host, seq).tokens_end, 32u);
  ASSERT_EQ(kvc_seq_truncate(seq, 32, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(host.append_all(seq, tokens, 32, 64, 1), KVC_OK) << host.error.message;
  for (const SeqHandle *of : {&cold, &seq}) {
    EXPECT_EQ(info_of(host, *of).tokens, 64u);
    host.expect_rows(*of, 0, 0, 64, 1);
    for (uint32_t l = 1; l < 3; l++) host.expect_rows(*of, l, 63, 64, 1);
  }
}

TEST(FieldReports, B17_a_full_hit_with_a_window_layer_is_cut_by_one_token_or_says_that_it_cannot_be) {
  for (const bool all_rows : {true, false}) {
    HybridHost host({full_layers(1, 2, 5, 3), window_layers(2, 3, 7, 2, 20)}, KVC_F16, 16, 4u << 20);
    const std::vector<int32_t> tokens = ids(64);
    SeqHandle cold = host.create(), seq;
    Moves moves = host.source(0, 0, 64, 1);
    for (uint32_t l = 1; l < 3; l++) moves += host.source(l, all_rows ? 0 : 45, 64, 1);  // what the next token sees and no more
    ASSERT_EQ(host.append(cold, tokens, moves.rows()), KVC_OK) << host.error.message;
    ASSERT_EQ(host.look(tokens, &seq).tokens, 64u);
    if (all_rows) {
      ASSERT_EQ(kvc_seq_truncate(seq, 63, &host.error), KVC_OK) << host.error.message;
      EXPECT_EQ(info_of(host, seq).tokens, 63u);
      ASSERT_EQ(host.append_all(seq, tokens, 63, 64, 1), KVC_OK) << host.error.message;
    } else {
      expect_uncut(host, seq, 64, KVC_ERR_GONE);
    }
    EXPECT_EQ(info_of(host, seq).tokens, 64u);
    host.expect_rows(seq, 0, 0, 64, 1);
    for (uint32_t l = 1; l < 3; l++) host.expect_rows(seq, l, 45, 64, 1);
  }
}

TEST(FieldReports, B34_k_and_v_of_other_widths_beside_latent_layers_are_never_swapped_also_from_a_file) {
  const Folder folder;
  const std::vector<kvc_layer> layers = {full_layers(1, 2, 192, 128), latent_layers(2, 512, 64), full_layers(2, 2, 192, 128), latent_layers(1, 512, 64)};
  const std::vector<int32_t> tokens = ids(40);
  HybridHost host(layers, KVC_BF16, 16), fresh(layers, KVC_BF16, 16);
  SeqHandle seq = host.create(), restored;
  ASSERT_EQ(host.append_all(seq, tokens, 0, 40, 1), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_save(seq, (folder / "saved").c_str(), nullptr, &host.error), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_restore(restored.out(), fresh.scope, (folder / "saved").c_str(), nullptr, nullptr, &fresh.error), KVC_OK) << fresh.error.message;
  for (uint32_t l = 0; l < host.layers.size(); l++) {
    host.expect_rows(seq, l, 0, 40, 1);
    fresh.expect_rows(restored, l, 0, 40, 1);
  }
}

/// Twelve layers, of which four see everything and eight the last 128 tokens; a prompt of 1000 whose first 496 are leased.
struct Windows {
  static constexpr uint64_t kTokens = 1000, kMatched = 992, kShorter = 496, kWindow = 128;
  HybridHost host{layers(), KVC_F16, 16, 3u << 20, KVC_OPEN_VERIFY_READS};
  const std::vector<int32_t> tokens = ids(kTokens);
  LeaseHandle lease;

  static std::vector<kvc_layer> layers() {
    std::vector<kvc_layer> out;
    for (int i = 0; i < 4; i++) out.push_back(full_layers(1, 2, 16, 16)), out.push_back(window_layers(2, 1, 16, 8, kWindow));
    return out;
  }
  bool is_window(uint32_t layer) const { return host.layers[layer].kind == KVC_LAYER_WINDOW; }
  /// A layer's rows into blocks of a size of its own, in an order that is not that of the tokens.
  void expect_in_blocks(const kvc_seq *seq, uint32_t layer, uint64_t begin, uint64_t end, const Writer &writer) {
    const uint32_t block = is_window(layer) ? 32 : 8;
    const uint64_t count = (end - begin + block - 1) / block;
    std::vector<int32_t> table;
    for (uint64_t i = 0; i < count; i++) table.push_back(static_cast<int32_t>(count - 1 - i));
    const Moves packed = host.target(layer, begin, end);
    const Moved &wanted = *packed.list[0];
    std::vector<uint8_t> k(count * block * wanted.k_bytes()), v(count * block * wanted.v_bytes());
    kvc_rows rows = wanted.rows;
    rows.blocks = table.data(), rows.block_count = count, rows.block_tokens = block;
    rows.k.data = k.data(), rows.k.bytes = k.size(), rows.k.block_stride = block * wanted.k_bytes();
    rows.v.data = v.data(), rows.v.bytes = v.size(), rows.v.block_stride = block * wanted.v_bytes();
    ASSERT_EQ(host.gather(seq, {rows}), KVC_OK) << "layer " << layer << ": " << host.error.message;
    for (const bool is_k : {true, false}) {
      const std::vector<uint8_t> stamped = wanted.stamped(writer, is_k);
      const uint64_t row = is_k ? wanted.k_bytes() : wanted.v_bytes();
      for (uint64_t t = 0; t < end - begin; t++) {
        const uint64_t slot = static_cast<uint64_t>(table[t / block]) * block + t % block;
        ASSERT_TRUE(std::equal(stamped.begin() + static_cast<int64_t>(t * row), stamped.begin() + static_cast<int64_t>((t + 1) * row), (is_k ? k : v).begin() + static_cast<int64_t>(slot * row)))
            << "layer " << layer << ", token " << begin + t;
      }
    }
  }
  /// Full layers give `length` tokens, window layers the last 128 of them.
  void expect_groups(const kvc_seq *seq, uint64_t length, const Writer &writer) {
    for (uint32_t l = 0; l < host.layers.size(); l++) expect_in_blocks(seq, l, is_window(l) ? length - kWindow : 0, length, writer);
  }
};

TEST(FieldReports, B35_full_layers_give_all_and_window_layers_their_last_rows_and_a_lost_window_row_shortens_the_match_for_all) {
  Windows all;
  HybridHost &host = all.host;
  SeqHandle seq = host.create(), found, shorter;
  ASSERT_EQ(host.append_all(seq, all.tokens, 0, Windows::kTokens, 1), KVC_OK) << host.error.message;
  ASSERT_EQ(kvc_seq_lease(all.lease.out(), seq, 0, Windows::kShorter, KVC_FOREVER, nullptr, &host.error), KVC_OK) << host.error.message;
  press(host);  // window rows that no query of the two sees any more go
  ASSERT_EQ(host.look(all.tokens, &found).tokens, Windows::kMatched);
  all.expect_groups(found, Windows::kMatched, 1);
  for (uint32_t l = 0; l < host.layers.size(); l++)
    if (all.is_window(l)) host.expect_refused(found, l, 600, 700, KVC_ERR_GONE);
  // One byte of one window layer, in the chunk of token 932.
  constexpr uint64_t kDamaged = 932;
  {
    ViewHandle view;
    auto page = sized<kvc_rows>();
    ASSERT_EQ(kvc_view_acquire(view.out(), &page, found, 5, kDamaged, 0, &host.error), KVC_OK) << host.error.message;
    static_cast<uint8_t *>(page.k.data)[1] ^= 0x20;
  }
  seq.reset();
  const Moves window = host.target(5, Windows::kMatched - Windows::kWindow, Windows::kMatched);
  EXPECT_EQ(host.gather(found, window.rows()), KVC_ERR_GONE) << "a row that is damaged was handed out";
  const kvc_match_info info = host.look(all.tokens, &shorter);
  EXPECT_EQ(info.tokens, Windows::kShorter) << "the last boundary at which every group has what it needs";
  EXPECT_EQ(info.tokens_attention, Windows::kMatched);
  EXPECT_EQ(info.stop, static_cast<uint32_t>(KVC_STOP_WINDOW));
  all.expect_groups(shorter, Windows::kShorter, 1);
  found.reset();
  ASSERT_EQ(host.append_all(shorter, all.tokens, Windows::kShorter, Windows::kTokens, 2), KVC_OK) << host.error.message;
  EXPECT_EQ(host.look(all.tokens, &found).tokens, Windows::kMatched);
  all.expect_groups(found, Windows::kMatched, Writer([](uint64_t token) -> uint64_t { return token / 16 < kDamaged / 16 ? 1 : 2; }));
}

/// A model in small.  Every token changes each byte of its states in place, and rows are made of them, so that one byte that is another's
/// is in all that follows.
class Recurrent {
 public:
  explicit Recurrent(const HybridHost &host) : host_(host) {
    for (const kvc_layer &layer : host.layers) states_.emplace_back(layer.kind == KVC_LAYER_STATE ? layer.kv_heads * (layer.k_dim + layer.v_dim) : 0);
  }
  /// From the snapshots at `at`: what a host does that goes on from a match.
  static Recurrent loaded(HybridHost &host, const kvc_seq *seq, uint64_t at) {
    Recurrent out(host);
    for (uint32_t l = 0; l < host.layers.size() && at; l++) {
      if (host.layers[l].kind != KVC_LAYER_STATE) continue;
      const Moves moves = host.target(l, at - 1, at);
      EXPECT_EQ(host.gather(seq, moves.rows()), KVC_OK) << "layer " << l << " at " << at << ": " << host.error.message;
      out.states_[l] = moves.list[0]->k;
      out.states_[l].insert(out.states_[l].end(), moves.list[0]->v.begin(), moves.list[0]->v.end());
    }
    return out;
  }
  /// Rows and snapshots of tokens [begin, end), of every layer; the states are those at `end` afterwards.
  Moves run(const std::vector<int32_t> &tokens, uint64_t begin, uint64_t end) {
    Moves out;
    for (uint32_t l = 0; l < host_.layers.size(); l++) out += host_.target(l, begin, end);
    for (uint64_t t = begin; t < end; t++) {
      const uint64_t digest = step(tokens[t]);
      for (auto &moved : out.list)
        if (!moved->is_state()) write_row(*moved, t - begin, digest);
    }
    for (auto &moved : out.list)
      if (moved->is_state()) {
        const auto second = states_[moved->index].begin() + static_cast<int64_t>(moved->k.size());
        std::copy(states_[moved->index].begin(), second, moved->k.begin());
        std::copy(second, states_[moved->index].end(), moved->v.begin());
      }
    return out;
  }

 private:
  uint64_t step(int32_t token) {
    uint64_t digest = 1;
    for (size_t l = 0; l < states_.size(); l++) {
      uint64_t carry = stamp(l, true, static_cast<uint32_t>(token), 0, 0, 0);
      for (uint8_t &byte : states_[l]) {
        carry = stamp(carry, true, byte, 1, 2, 3);
        byte = static_cast<uint8_t>(carry >> 20);
      }
      digest = stamp(digest, false, carry, 0, 0, 0);
    }
    return digest;
  }
  static void write_row(Moved &moved, uint64_t row, uint64_t digest) {
    for (uint64_t i = 0; i < moved.k_bytes(); i++) moved.k[row * moved.k_bytes() + i] = static_cast<uint8_t>(stamp(digest, true, moved.index, i, 0, 0) >> 8);
    for (uint64_t i = 0; i < moved.v_bytes(); i++) moved.v[row * moved.v_bytes() + i] = static_cast<uint8_t>(stamp(digest, false, moved.index, i, 0, 0) >> 8);
  }

  const HybridHost &host_;
  std::vector<std::vector<uint8_t>> states_;
};

struct RecurrentHost : HybridHost {
  using HybridHost::HybridHost;

  /// Goes on with `model` from `begin` to each of `ends`.
  void go_on(kvc_seq *seq, Recurrent &model, const std::vector<int32_t> &tokens, uint64_t begin, const std::vector<uint64_t> &ends) {
    for (const uint64_t end : ends) {
      const Moves moves = model.run(tokens, begin, end);
      ASSERT_EQ(append(seq, {tokens.begin() + static_cast<int64_t>(begin), tokens.begin() + static_cast<int64_t>(end)}, moves.rows()), KVC_OK) << error.message;
      begin = end;
    }
  }
  /// Every layer at `end` is, byte for byte, what a run without a store computes.
  void expect_as_cold(const kvc_seq *seq, const std::vector<int32_t> &tokens, uint64_t end) {
    Recurrent cold(*this);
    const Moves computed = cold.run(tokens, 0, end);
    for (const auto &wanted : computed.list) {
      const uint64_t window = wanted->layer.kind == KVC_LAYER_WINDOW ? wanted->layer.window - 1 : end;
      const uint64_t begin = wanted->is_state() || window >= end ? 0 : end - window;
      const Moves moves = target(wanted->index, begin, end);
      ASSERT_EQ(gather(seq, moves.rows()), KVC_OK) << "layer " << wanted->index << " at " << end << ": " << error.message;
      const Moved &got = *moves.list[0];
      EXPECT_TRUE(std::equal(got.k.begin(), got.k.end(), wanted->k.begin() + static_cast<int64_t>(begin * wanted->k_bytes()))) << "k of layer " << wanted->index << " at " << end;
      EXPECT_TRUE(std::equal(got.v.begin(), got.v.end(), wanted->v.begin() + static_cast<int64_t>(begin * wanted->v_bytes()))) << "v of layer " << wanted->index << " at " << end;
    }
  }
};

std::vector<kvc_layer> recurrent_layers() { return {state_layers(2, 2, 24, 40), full_layers(1, 2, 8, 8), state_layers(2, 1, 96, 0), window_layers(1, 1, 8, 4, 40)}; }

TEST(FieldReports, B37_a_match_ends_at_the_last_snapshot_for_all_layers_and_what_goes_on_from_there_is_a_cold_run) {
  constexpr uint64_t kEvery = 64;
  RecurrentHost host(recurrent_layers(), KVC_F16, 16, 16u << 20);
  const std::vector<int32_t> tokens = ids(200);
  SeqHandle seq = host.create();
  Recurrent model(host);
  host.go_on(seq, model, tokens, 0, {64, 128, 192, 200});
  host.expect_as_cold(seq, tokens, 200);
  for (const uint64_t length : {17u, 63u, 64u, 65u, 100u, 127u, 128u, 150u, 191u, 192u, 200u}) {
    SeqHandle found;
    const kvc_match_info info = host.look(first(tokens, length), &found);
    EXPECT_EQ(info.tokens, length / kEvery * kEvery) << length;
    EXPECT_EQ(info.tokens_attention, length / 16 * 16) << length;
    EXPECT_EQ(info_of(host, found).tokens, info.tokens);
    if (info.tokens) host.expect_as_cold(found, tokens, info.tokens);
  }
  // Another request of which 96 tokens are the same goes on from 64, and both are as if alone.
  std::vector<int32_t> other = first(tokens, 96);
  for (const int32_t token : ids(104, 5)) other.push_back(token);
  SeqHandle shared;
  ASSERT_EQ(host.look(other, &shared).tokens, kEvery);
  Recurrent from = Recurrent::loaded(host, shared, kEvery);
  host.go_on(shared, from, other, kEvery, {96, 128, 170});
  host.expect_as_cold(shared, other, 170);
  host.expect_as_cold(seq, tokens, 200);
  // Step by step, each from what the one before left.
  std::vector<int32_t> steps = first(tokens, 64);
  for (const int32_t token : ids(256, 6)) steps.push_back(token);
  for (uint64_t begin = kEvery; begin < steps.size(); begin += kEvery) {
    SeqHandle step;
    ASSERT_EQ(host.look(steps, &step).tokens, begin);
    Recurrent there = Recurrent::loaded(host, step, begin);
    host.go_on(step, there, steps, begin, {begin + kEvery});
    host.expect_as_cold(step, steps, begin + kEvery);
  }
}

TEST(FieldReports, B39_a_state_that_is_updated_in_place_and_put_back_is_never_the_older_copy) {
  RecurrentHost host(recurrent_layers(), KVC_F16, 16, 1u << 20);
  const std::vector<int32_t> tokens = ids(400);
  LeaseHandle lease;
  uint64_t at = 0, warm = 0, lost = 0;
  for (int round = 0; round < 10; round++) {
    SeqHandle seq;
    const uint64_t begin = host.look(first(tokens, at), &seq).tokens;
    EXPECT_TRUE(begin == 0 || begin == at / 16 * 16) << begin;
    (begin ? warm : lost)++;
    Recurrent model = Recurrent::loaded(host, seq, begin);
    at = at / 16 * 16 + 16;
    host.go_on(seq, model, tokens, begin, {at});
    host.expect_as_cold(seq, tokens, at);  // gathered again
    for (uint64_t more = 1; more <= 5; more++) {  // decoding: each step replaces the state of the last one
      host.go_on(seq, model, tokens, at, {at + 1});
      at++;
      host.expect_as_cold(seq, tokens, at);
      if (more > 1) host.expect_refused(seq, 0, at - 2, at - 1, KVC_ERR_NO_SNAPSHOT);
    }
    // Other tokens of the same length in their place.
    const uint64_t boundary = at / 16 * 16;
    ASSERT_EQ(kvc_seq_truncate(seq, boundary, &host.error), KVC_OK) << host.error.message;
    std::vector<int32_t> others = first(tokens, boundary);
    for (const int32_t token : ids(at - boundary, 100 + round)) others.push_back(token);
    Recurrent again = Recurrent::loaded(host, seq, boundary);
    host.go_on(seq, again, others, boundary, {at});
    host.expect_as_cold(seq, others, at);
    if (round % 3 == 2) lease.reset();
    else ASSERT_EQ(kvc_seq_lease(lease.out(), seq, 0, boundary, KVC_FOREVER, nullptr, &host.error), KVC_OK) << host.error.message;
    seq.reset();
    press(host);
  }
  EXPECT_GE(warm, 5u);
  EXPECT_GE(lost, 3u);
}

}  // namespace
}  // namespace kvc_test

#include <atomic>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "host.h"

/// Handles that are NULL, released, closed, of another kind, or no handle at all: a status from every call, never a crash, nothing changed.
namespace {

using namespace kvc_test;

template <typename H>
H *handle_of(uint64_t bits) {
  return reinterpret_cast<H *>(bits);
}
template <typename H>
uint64_t bits_of(H *handle) {
  return reinterpret_cast<uint64_t>(handle);
}

/// A call that takes one handle, all other arguments being right.
struct Call {
  const char *name;
  char kind;  // s store, c scope, q sequence, l lease, v view
  bool releases;
  std::function<kvc_status(uint64_t handle, kvc_error *error)> run;
};

struct Arguments {
  std::vector<int32_t> tokens = ids(64);
  std::vector<uint8_t> memory = std::vector<uint8_t>(1 << 16);
  kvc_rows rows = sized<kvc_rows>();
  kvc_extra extra{200, 1, "x", 1};
  kvc_layer layer = full_layers(1, 1, 8, 8);
  kvc_shape shape = sized<kvc_shape>();
  kvc_scope_options scope_options = sized<kvc_scope_options>();
  kvc_bytes part{memory.data(), 100};
  kvc_object object{"key", 3, &part, 1, 0, 0, 0, 0, 0, nullptr};
  kvc_object_entry entry{};
  size_t entry_count = 0;

  Arguments() {
    rows.layer_count = 1, rows.token_count = 1;
    rows.k.data = memory.data(), rows.k.bytes = 1 << 15;
    rows.v.data = memory.data() + (1 << 15), rows.v.bytes = 1 << 15;
    shape.dtype = KVC_F16, shape.layers = &layer, shape.layer_runs = 1;
    scope_options.model = "other", scope_options.shape = &shape;
  }

  std::vector<Call> calls() {
    std::vector<Call> all = store_calls();
    for (const std::vector<Call> &more : {scope_calls(), seq_calls(), view_calls()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<Call> store_calls() {
    return {
        {"kvc_store_get_info", 's', false,
         [](uint64_t h, kvc_error *e) {
           auto i = sized<kvc_store_info>();
           return kvc_store_get_info(&i, handle_of<kvc_store>(h), e);
         }},
        {"kvc_store_verify", 's', false,
         [](uint64_t h, kvc_error *e) { return kvc_store_verify(nullptr, handle_of<kvc_store>(h), nullptr, e); }},
        {"kvc_store_flush", 's', false, [](uint64_t h, kvc_error *e) { return kvc_store_flush(handle_of<kvc_store>(h), nullptr, e); }},
        {"kvc_store_step", 's', false,
         [](uint64_t h, kvc_error *e) {
           uint32_t more;
           return kvc_store_step(&more, handle_of<kvc_store>(h), 1, e);
         }},
        {"kvc_metrics_read", 's', false,
         [](uint64_t h, kvc_error *e) {
           auto m = sized<kvc_metrics>();
           return kvc_metrics_read(&m, handle_of<kvc_store>(h), e);
         }},
        {"kvc_scope_create", 's', false,
         [this](uint64_t h, kvc_error *e) {
           kvc_scope *o;
           return kvc_scope_create(&o, handle_of<kvc_store>(h), &scope_options, e);
         }},
        {"kvc_close", 's', true, [](uint64_t h, kvc_error *e) { return kvc_close(handle_of<kvc_store>(h), e); }},
    };
  }
  std::vector<Call> scope_calls() {
    return {
        {"kvc_scope_get_info", 'c', false,
         [](uint64_t h, kvc_error *e) {
           auto i = sized<kvc_scope_info>();
           return kvc_scope_get_info(&i, handle_of<kvc_scope>(h), e);
         }},
        {"kvc_seq_create", 'c', false,
         [](uint64_t h, kvc_error *e) {
           kvc_seq *o;
           return kvc_seq_create(&o, handle_of<kvc_scope>(h), nullptr, e);
         }},
        {"kvc_seq_attach", 'c', false,
         [](uint64_t h, kvc_error *e) {
           kvc_seq *o;
           return kvc_seq_attach(&o, handle_of<kvc_scope>(h), "p", 1, nullptr, nullptr, e);
         }},
        {"kvc_seq_withdraw", 'c', false, [](uint64_t h, kvc_error *e) { return kvc_seq_withdraw(handle_of<kvc_scope>(h), "p", 1, e); }},
        {"kvc_match", 'c', false,
         [this](uint64_t h, kvc_error *e) {
           kvc_seq *o;
           return kvc_match(&o, nullptr, handle_of<kvc_scope>(h), tokens.data(), 64, nullptr, nullptr, e);
         }},
        {"kvc_object_put", 'c', false,
         [this](uint64_t h, kvc_error *e) { return kvc_object_put(nullptr, handle_of<kvc_scope>(h), &object, 1, nullptr, nullptr, e); }},
        {"kvc_object_get", 'c', false,
         [this](uint64_t h, kvc_error *e) { return kvc_object_get(nullptr, handle_of<kvc_scope>(h), &object, 1, nullptr, nullptr, e); }},
        {"kvc_object_exists", 'c', false,
         [this](uint64_t h, kvc_error *e) { return kvc_object_exists(nullptr, handle_of<kvc_scope>(h), &object, 1, nullptr, nullptr, e); }},
        {"kvc_object_delete", 'c', false,
         [this](uint64_t h, kvc_error *e) { return kvc_object_delete(nullptr, handle_of<kvc_scope>(h), &object, 1, nullptr, e); }},
        {"kvc_object_list", 'c', false,
         [this](uint64_t h, kvc_error *e) {
           return kvc_object_list(&entry, 1, &entry_count, handle_of<kvc_scope>(h), nullptr, 0, nullptr, e);
         }},
        {"kvc_scope_release", 'c', true, [](uint64_t h, kvc_error *e) { return kvc_scope_release(handle_of<kvc_scope>(h), e); }},
    };
  }
  std::vector<Call> seq_calls() {
    return {
        {"kvc_append", 'q', false,
         [this](uint64_t h, kvc_error *e) { return kvc_append(handle_of<kvc_seq>(h), tokens.data(), 1, nullptr, 0, nullptr, e); }},
        {"kvc_gather", 'q', false,
         [this](uint64_t h, kvc_error *e) { return kvc_gather(nullptr, handle_of<kvc_seq>(h), &rows, 1, nullptr, e); }},
        {"kvc_seq_identify", 'q', false,
         [this](uint64_t h, kvc_error *e) { return kvc_seq_identify(handle_of<kvc_seq>(h), &extra, 1, e); }},
        {"kvc_seq_fork", 'q', false,
         [](uint64_t h, kvc_error *e) {
           kvc_seq *o;
           return kvc_seq_fork(&o, handle_of<kvc_seq>(h), KVC_ALL, e);
         }},
        {"kvc_seq_truncate", 'q', false, [](uint64_t h, kvc_error *e) { return kvc_seq_truncate(handle_of<kvc_seq>(h), 0, e); }},
        {"kvc_seq_reorder", 'q', false,
         [](uint64_t h, kvc_error *e) {
           kvc_seq *const one = handle_of<kvc_seq>(h);
           const uint32_t source = 0;
           return kvc_seq_reorder(&one, &source, 1, e);
         }},
        {"kvc_seq_compact", 'q', false, [](uint64_t h, kvc_error *e) { return kvc_seq_compact(handle_of<kvc_seq>(h), nullptr, 0, e); }},
        {"kvc_seq_hint", 'q', false,
         [](uint64_t h, kvc_error *e) {
           const auto hint = sized<kvc_hint>();
           return kvc_seq_hint(handle_of<kvc_seq>(h), &hint, e);
         }},
        {"kvc_seq_prefetch", 'q', false,
         [this](uint64_t h, kvc_error *e) { return kvc_seq_prefetch(nullptr, handle_of<kvc_seq>(h), &rows, 1, KVC_TIER_HOST, nullptr, e); }},
        {"kvc_seq_publish", 'q', false, [](uint64_t h, kvc_error *e) { return kvc_seq_publish(handle_of<kvc_seq>(h), "p", 1, 0, nullptr, e); }},
        {"kvc_seq_get_info", 'q', false,
         [](uint64_t h, kvc_error *e) {
           auto i = sized<kvc_seq_info>();
           return kvc_seq_get_info(&i, handle_of<kvc_seq>(h), e);
         }},
        {"kvc_seq_lease", 'q', false,
         [](uint64_t h, kvc_error *e) {
           kvc_lease *o;
           return kvc_seq_lease(&o, handle_of<kvc_seq>(h), 0, KVC_ALL, 0, nullptr, e);
         }},
        {"kvc_seq_release", 'q', true, [](uint64_t h, kvc_error *e) { return kvc_seq_release(handle_of<kvc_seq>(h), e); }},
        {"kvc_lease_renew", 'l', false, [](uint64_t h, kvc_error *e) { return kvc_lease_renew(handle_of<kvc_lease>(h), 1, e); }},
        {"kvc_lease_release", 'l', true, [](uint64_t h, kvc_error *e) { return kvc_lease_release(handle_of<kvc_lease>(h), e); }},
    };
  }
  std::vector<Call> view_calls() {
    return {
        {"kvc_view_acquire", 'q', false,
         [](uint64_t h, kvc_error *e) {
           kvc_view *o;
           auto r = sized<kvc_rows>();
           return kvc_view_acquire(&o, &r, handle_of<kvc_seq>(h), 0, 0, 0, e);
         }},
        {"kvc_view_release", 'v', true, [](uint64_t h, kvc_error *e) { return kvc_view_release(handle_of<kvc_view>(h), e); }},
    };
  }
};

struct HandlesTest : testing::Test {
  Arguments arguments;
  Host host{{full_layers(1, 1, 8, 8)}};
  SeqHandle seq = host.create();
  LeaseHandle lease;
  ViewHandle view;

  void SetUp() override {
    kvc_rows rows = arguments.rows;
    rows.token_count = 64;
    ASSERT_EQ(host.append(seq, arguments.tokens, {rows}), KVC_OK) << host.error.message;
    ASSERT_EQ(kvc_seq_lease(lease.out(), seq, 0, KVC_ALL, 0, nullptr, &host.error), KVC_OK);
    view = acquire();
  }
  ViewHandle acquire() {
    ViewHandle out;
    kvc_rows rows = sized<kvc_rows>();
    EXPECT_EQ(kvc_view_acquire(out.out(), &rows, seq, 0, 0, 0, &host.error), KVC_OK) << host.error.message;
    return out;
  }
  uint64_t live(char kind) const {
    return kind == 's'   ? bits_of<kvc_store>(host.store)
           : kind == 'c' ? bits_of<kvc_scope>(host.scope)
           : kind == 'q' ? bits_of<kvc_seq>(seq)
           : kind == 'l' ? bits_of<kvc_lease>(lease)
                         : bits_of<kvc_view>(view);
  }
  std::string state() {
    auto i = sized<kvc_store_info>();
    EXPECT_EQ(kvc_store_get_info(&i, host.store, nullptr), KVC_OK);
    std::string out;
    for (const uint64_t n : {i.memory_used, i.memory_pinned, i.seq_count, i.lease_count, i.view_count, i.chunk_count, i.object_count})
      out += std::to_string(n) + " ";
    return out;
  }
  static void expect(const Call &call, uint64_t handle, kvc_status status, const char *word) {
    ErrorText error;
    EXPECT_EQ(call.run(handle, &error), status) << call.name << ": " << error.message;
    EXPECT_EQ(error.status, status) << call.name;
    EXPECT_NE(error.text().find(word), std::string::npos) << call.name << ": " << error.message;
    EXPECT_EQ(call.run(handle, nullptr), status) << call.name << " without an error struct";
  }
};

TEST_F(HandlesTest, B109_null_is_refused_by_every_call_but_a_release) {
  const std::string before = state();
  for (const Call &call : arguments.calls()) {
    if (call.releases) {
      EXPECT_EQ(call.run(0, nullptr), KVC_OK) << call.name;
    } else {
      expect(call, 0, KVC_ERR_MISUSE, "NULL");
    }
  }
  EXPECT_EQ(state(), before);
}

TEST_F(HandlesTest, a_handle_of_another_kind_is_refused_by_every_call) {
  const std::string before = state();
  for (const Call &call : arguments.calls())
    for (const char kind : {'s', 'c', 'q', 'l', 'v'})
      if (kind != call.kind) {
        expect(call, live(kind), KVC_ERR_MISUSE, "another kind");
      }
  EXPECT_EQ(state(), before);
}

TEST_F(HandlesTest, no_handle_at_all_is_refused_by_every_call) {
  const std::string before = state();
  std::mt19937_64 random(3);
  for (const Call &call : arguments.calls()) {
    for (const uint64_t bits : {uint64_t{1}, uint64_t{8}, UINT64_MAX, bits_of(&host), bits_of(this)})
      EXPECT_NE(call.run(bits, nullptr), KVC_OK) << call.name << " " << bits;
    const uint64_t good = live(call.kind);
    for (int bit = 0; bit < 64; bit++)
      EXPECT_NE(call.run(good ^ 1ull << bit, nullptr), KVC_OK) << call.name << " bit " << bit;  // also generation 0, and unused entries
    for (uint64_t index = 0; index < 600; index += 7) {  // entries that exist, entries that do not, generation 0
      const uint64_t other = (good & ~((1ull << 42) - 1)) | index << 22;
      EXPECT_NE(call.run(other, nullptr), KVC_OK) << call.name << " index " << index;
    }
    for (int i = 0; i < 2000; i++) {
      const uint64_t noise = i % 2 ? random() : (good & 0xFFFFFC0000000000u) | (random() & 0x3FFFFFFFFFFu);
      if (noise == good) continue;
      EXPECT_NE(call.run(noise, nullptr), KVC_OK) << call.name << " " << noise;
    }
  }
  EXPECT_EQ(state(), before);
}

TEST_F(HandlesTest, a_released_handle_is_stale_for_every_call_also_when_its_place_is_used_again) {
  SeqHandle other = host.create();
  ScopeHandle other_scope = host.make_scope("again", {full_layers(1, 1, 8, 8)});
  LeaseHandle other_lease;
  ASSERT_EQ(kvc_seq_lease(other_lease.out(), seq, 0, KVC_ALL, 0, nullptr, &host.error), KVC_OK);
  ViewHandle other_view = acquire();
  std::map<char, uint64_t> gone{{'q', bits_of<kvc_seq>(other)}, {'c', bits_of<kvc_scope>(other_scope)}, {'l', bits_of<kvc_lease>(other_lease)}, {'v', bits_of<kvc_view>(other_view)}};
  other.reset(), other_scope.reset(), other_lease.reset(), other_view.reset();
  for (int round = 0; round < 2; round++) {
    const std::string before = state();
    for (const Call &call : arguments.calls())
      if (call.kind != 's') expect(call, gone[call.kind], KVC_ERR_STALE, "released");
    EXPECT_EQ(state(), before);
    if (round == 1) break;
    other = host.create();
    other_scope = host.make_scope("again", {full_layers(1, 1, 8, 8)});
    ASSERT_EQ(kvc_seq_lease(other_lease.out(), seq, 0, KVC_ALL, 0, nullptr, &host.error), KVC_OK);
    other_view = acquire();
  }
}

TEST_F(HandlesTest, B110_after_close_everything_is_stale_also_when_another_store_is_opened_in_its_place) {
  std::map<char, uint64_t> all;
  for (const char kind : {'s', 'c', 'q', 'l', 'v'}) all[kind] = live(kind);
  view.reset();  // while it is held the store is not closed
  ASSERT_EQ(kvc_close(host.store.release(), &host.error), KVC_OK);  // with a live sequence, scope and lease
  host.scope.release(), seq.release(), lease.release();
  for (int round = 0; round < 2; round++) {
    StoreHandle next;
    if (round == 1) {
      auto options = sized<kvc_store_options>();
      options.memory_bytes = 1 << 20;
      ASSERT_EQ(kvc_open(next.out(), "mem:", &options, &host.error), KVC_OK);
    }
    for (const Call &call : arguments.calls())
      expect(call,
             all[call.kind],
             KVC_ERR_STALE, call.kind == 's' ? "kvc_store was closed before" : round == 0 ? "of a store that was closed" : "");
  }
}

TEST_F(HandlesTest, a_handle_of_another_store_works_on_that_store_alone) {
  Host second({full_layers(1, 1, 8, 8)});
  SeqHandle there = second.create();
  EXPECT_EQ(host.append(there, arguments.tokens, {}), KVC_OK);  // a sequence knows its store
  auto info = sized<kvc_seq_info>();
  ASSERT_EQ(kvc_seq_get_info(&info, there, nullptr), KVC_OK);
  EXPECT_EQ(info.tokens_given, 64u);
  there.reset();
  EXPECT_EQ(kvc_close(second.store.release(), nullptr), KVC_OK);
  EXPECT_EQ(kvc_scope_release(second.scope.release(), &host.error), KVC_ERR_STALE);
  ASSERT_EQ(kvc_seq_get_info(&info, seq, nullptr), KVC_OK);
}

TEST_F(HandlesTest, no_failed_call_leaves_an_output_that_looks_like_a_handle) {
  auto call = sized<kvc_call>();
  call.flags = 1u << 30;
  const int32_t id = 1;
  SeqHandle own = host.create();
  const auto stale = [](auto *out) { return reinterpret_cast<std::decay_t<decltype(*out)>>(uint64_t{0x1234}); };
  kvc_seq *made = stale(&made);
  EXPECT_EQ(kvc_match(&made, nullptr, host.scope, &id, 1, nullptr, &call, nullptr), KVC_ERR_TOO_NEW);
  EXPECT_EQ(made, nullptr);
  made = stale(&made);
  kvc_seq_options bad{};
  EXPECT_LT(kvc_match(&made, nullptr, host.scope, &id, 1, &bad, nullptr, nullptr), 0);
  EXPECT_EQ(made, nullptr);
  made = stale(&made);
  EXPECT_EQ(kvc_seq_restore(&made, host.scope, "file", nullptr, &call, nullptr), KVC_ERR_TOO_NEW);
  EXPECT_EQ(made, nullptr);
  made = stale(&made);
  EXPECT_EQ(kvc_seq_attach(&made, host.scope, "name", 4, nullptr, &call, nullptr), KVC_ERR_TOO_NEW);
  EXPECT_EQ(made, nullptr);
  kvc_lease *held = stale(&held);
  EXPECT_EQ(kvc_seq_lease(&held, own, 0, 1, 0, &call, nullptr), KVC_ERR_TOO_NEW);
  EXPECT_EQ(held, nullptr);
  kvc_object_entry entry;
  size_t count = 7;
  EXPECT_EQ(kvc_object_list(&entry, 1, &count, host.scope, nullptr, 0, &call, nullptr), KVC_ERR_TOO_NEW);
  EXPECT_EQ(count, 0u);
}

TEST_F(HandlesTest, two_writers_are_misuse_or_take_turns_and_never_corrupt) {
  SeqHandle shared = host.create();
  std::atomic<uint64_t> done{0}, refused{0}, wrong{0};
  std::atomic<bool> stop{false};
  const auto writer = [&](int32_t id) {
    ErrorText error;
    for (int i = 0; i < 4000; i++) {
      const kvc_status status = kvc_append(shared, &id, 1, nullptr, 0, nullptr, &error);
      (status == KVC_OK ? done : status == KVC_ERR_MISUSE ? refused : wrong)++;
    }
  };
  std::thread reader([&] {
    auto info = sized<kvc_seq_info>();
    while (!stop) {
      const kvc_status status = kvc_seq_get_info(&info, shared, nullptr);
      if (status != KVC_OK && status != KVC_ERR_MISUSE) wrong++;
    }
  });
  std::thread a(writer, 1), b(writer, 2);
  a.join(), b.join();
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(done + refused, 8000u);
  auto info = sized<kvc_seq_info>();
  ASSERT_EQ(kvc_seq_get_info(&info, shared, nullptr), KVC_OK);
  EXPECT_EQ(info.tokens_given, done);
}

}  // namespace

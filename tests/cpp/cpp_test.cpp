#include <gtest/gtest.h>
#include <kvc/kvc.hpp>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <numeric>

/// kvc.hpp: what it does beyond passing a call on.  Every call that is built has its member there.
namespace {

constexpr uint32_t layers = 2, heads = 2, dim = 8;

struct Cpp : testing::Test {
  kvc::Store store = open();
  kvc::Scope scope = scope_of(store);
  std::vector<int32_t> tokens = std::vector<int32_t>(100);
  Cpp() { std::iota(tokens.begin(), tokens.end(), 1); }

  static kvc::Store open(uint32_t flags = 0) {
    auto options = kvc::init<kvc_store_options>();
    options.memory_bytes = 16u << 20, options.flags = flags;
    return kvc::Store("mem:", &options);
  }
  static kvc::Scope scope_of(const kvc::Store &of) {
    kvc_layer layer{};
    layer.count = layers, layer.kind = KVC_LAYER_FULL, layer.kv_heads = heads, layer.k_dim = layer.v_dim = dim;
    auto shape = kvc::init<kvc_shape>();
    shape.dtype = KVC_F32, shape.chunk_tokens = 16, shape.layers = &layer, shape.layer_runs = 1;
    auto options = kvc::init<kvc_scope_options>();
    options.model = "m", options.shape = &shape;
    EXPECT_EQ(kvc::check_shape(shape).layer_count, layers);
    return of.scope(options);
  }
  /// Rows [0, count) in an array of each side, which says what they are.
  struct Rows {
    std::vector<float> k, v;
    kvc_rows rows = kvc::init<kvc_rows>();
    explicit Rows(uint64_t count, float first = -1) : k(layers * count * heads * dim, first), v(k) {
      if (first >= 0) std::iota(k.begin(), k.end(), first), std::iota(v.begin(), v.end(), first + 0.5f);
      rows.layer_count = layers, rows.token_count = count;
      rows.k.data = k.data(), rows.v.data = v.data(), rows.k.bytes = rows.v.bytes = k.size() * sizeof(float);
      rows.k.layer_stride = rows.v.layer_stride = count * heads * dim * sizeof(float);
    }
  };
  kvc::Seq appended(uint64_t count = 100) {
    const Rows in(count, 1);
    kvc::Seq seq = scope.create();
    seq.append(tokens.data(), count, &in.rows, 1);
    return seq;
  }
  void expect_rows(const kvc::Seq &seq, uint64_t count) {
    const Rows out(count), in(count, 1);
    EXPECT_EQ(seq.gather(&out.rows, 1).done, count);
    EXPECT_EQ(out.k, in.k);
    EXPECT_EQ(out.v, in.v);
  }
  template <typename Do>
  static kvc_status status_of(Do &&act) {
    try {
      act();
    } catch (const kvc::Error &error) {
      EXPECT_STRNE(error.what(), "");
      return error.status;
    }
    return KVC_OK;
  }
};

TEST_F(Cpp, a_prompt_that_was_appended_is_matched_gathered_forked_cut_and_viewed) {
  const kvc::Seq seq = appended();
  auto info = kvc::init<kvc_match_info>();
  kvc::Seq found = scope.match(tokens.data(), tokens.size(), &info);
  EXPECT_EQ(info.tokens, 96u);
  EXPECT_EQ(found.info().tokens, 96u);
  expect_rows(seq, 100);
  kvc::Seq fork = seq.fork(40);
  EXPECT_EQ(fork.info().tokens, 40u);
  fork.truncate(7);
  EXPECT_EQ(fork.info().tokens, 7u);
  const uint64_t kept[] = {0, 2, 5};
  fork.compact(kept, 3);
  EXPECT_EQ(fork.info().tokens, 3u);
  auto peek = kvc::init<kvc_seq_options>();
  peek.flags = KVC_SEQ_PEEK;
  EXPECT_FALSE(scope.match(tokens.data(), tokens.size(), &info, &peek));
  EXPECT_EQ(info.tokens, 96u);
  const kvc::View view = seq.view(1, 20);
  EXPECT_EQ(view.rows().token_begin, 16u);
  EXPECT_EQ(view.rows().layer_begin, 1u);
  kvc::Lease lease = seq.lease(0, 32, 1000);
  lease.renew(2000);
  EXPECT_EQ(store.info().lease_count, 1u);
  std::vector<kvc::Seq> beams;
  beams.push_back(seq.fork()), beams.push_back(seq.fork(32));
  kvc::Seq::reorder(beams, {1, 1});
  EXPECT_EQ(beams[0].info().tokens, 32u);
  EXPECT_THROW(kvc::Seq::reorder(beams, {1}), std::invalid_argument);
  kvc_extra extra{};
  kvc::Seq other = scope.create();
  EXPECT_EQ(status_of([&] { other.identify(&extra, 1); }), KVC_ERR_ARGUMENT);
  auto hint = kvc::init<kvc_hint>();
  other.hint(hint);
  const Rows all(100);
  EXPECT_EQ(seq.prefetch(&all.rows, 1, KVC_TIER_HOST).done, 100u);
}

TEST_F(Cpp, handles_move_and_release_once) {
  EXPECT_FALSE(kvc::Seq());
  kvc::Seq one = appended(), two = std::move(one);
  EXPECT_FALSE(one);
  EXPECT_TRUE(two);
  one = std::move(two);
  kvc::Seq &itself = one;
  one = std::move(itself);
  EXPECT_EQ(one.info().tokens, 100u);
  one = scope.create();
  EXPECT_EQ(store.info().seq_count, 1u) << "the one before it was released";
  kvc_seq *given = one.give();
  EXPECT_FALSE(one);
  two = kvc::Seq(given);
  EXPECT_EQ(two.get(), given);
  two.release();
  EXPECT_FALSE(two);
  two.release();  // of nothing
  EXPECT_EQ(store.info().seq_count, 0u);
}

TEST_F(Cpp, a_store_with_views_stays_and_what_outlives_one_is_stale) {
  kvc::Seq seq = appended();
  {
    const kvc::View view = seq.view(0, 0);
    EXPECT_EQ(status_of([&] { store.release(); }), KVC_ERR_BUSY);
    EXPECT_TRUE(store);
  }
  store.release();
  EXPECT_FALSE(store);
  EXPECT_EQ(status_of([&] { (void)seq.info(); }), KVC_ERR_STALE);
  EXPECT_EQ(status_of([&] { seq.release(); }), KVC_ERR_STALE);
  EXPECT_FALSE(seq);
  EXPECT_EQ(status_of([] { kvc::Store("nowhere:"); }), KVC_ERR_ARGUMENT);
}

TEST_F(Cpp, a_failure_says_what_why_and_how_far_it_came) {
  kvc::Seq seq = appended(40);
  const Rows out(50);
  try {
    (void)seq.gather(&out.rows, 1);
    FAIL() << "past the end";
  } catch (const kvc::Error &error) {
    EXPECT_STREQ(error.name(), "KVC_ERR_RANGE");
    EXPECT_EQ(error.retry, static_cast<uint32_t>(KVC_RETRY_NEVER));
    EXPECT_NE(std::string(error.what()).find("40 are filled"), std::string::npos) << error.what();
  }
  char one = 1, room = 0;
  kvc_bytes in{&one, 1}, to{&room, 1};
  kvc_object objects[2] = {};
  objects[0].key = "a", objects[1].key = "b";
  for (kvc_object &object : objects) object.key_size = 1, object.parts = &in, object.part_count = 1;
  EXPECT_EQ(scope.put(objects, 1).done, 1u);
  for (kvc_object &object : objects) object.parts = &to;
  try {
    (void)scope.get_objects(objects, 2);
    FAIL() << "one is absent";
  } catch (const kvc::Error &error) {
    EXPECT_EQ(error.status, KVC_ERR_NOT_FOUND);
    EXPECT_EQ(error.done, 1u);
    EXPECT_EQ(room, 1);
  }
  EXPECT_EQ(scope.list().size(), 1u);
  EXPECT_EQ(scope.list("a").size(), 0u);
  EXPECT_EQ(scope.exists(objects, 1).done, 1u);
  EXPECT_EQ(scope.remove(objects, 1).done, 1u);
  EXPECT_EQ(scope.list().size(), 0u);
}

TEST_F(Cpp, queued_calls_give_their_handles_in_results) {
  kvc::Queue queue = store.queue();
  kvc::Seq seq = scope.create();
  const Rows in(100, 1), out(100);
  const kvc_call append = queue.call(1, KVC_CALL_MORE), gather = queue.call(2), match = queue.call(3), lease = queue.call(4);
  seq.append(tokens.data(), 100, &in.rows, 1, &append);
  queue.submit();
  EXPECT_EQ(seq.gather(&out.rows, 1, &gather).status, KVC_OK);
  EXPECT_FALSE(seq.lease(0, KVC_ALL, 0, &lease));
  std::map<uint64_t, kvc_result> by;
  const auto drain = [&](size_t until) {
    while (by.size() < until) {
      pollfd ready{queue.fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&ready, 1, 10000), 1);
      for (const kvc_result &result : queue.drain()) by[result.user] = result;
    }
  };
  drain(3);
  auto info = kvc::init<kvc_match_info>();
  EXPECT_FALSE(scope.match(tokens.data(), tokens.size(), &info, nullptr, &match));
  drain(4);
  for (const auto &[user, result] : by) EXPECT_EQ(result.status, KVC_OK) << user << ": " << result.message;
  EXPECT_EQ(out.k, in.k);
  const kvc::Seq found(by[3].seq);
  const kvc::Lease held(by[4].lease);
  EXPECT_EQ(found.info().tokens, 96u);
  EXPECT_EQ(store.info().lease_count, 1u);
  EXPECT_EQ(status_of([&] { queue.cancel(9); }), KVC_ERR_NOT_FOUND) << "nobody's";
}

TEST_F(Cpp, files_names_events_and_what_a_store_tells_of_itself) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("kvc_cpp_test_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string file = (folder / "a").string(), trace = (folder / "t").string();
  kvc::Queue queue = store.queue();
  queue.watch(&scope, KVC_EVENT_STORED);
  store.record_trace(trace);
  kvc::Seq seq = appended();
  EXPECT_EQ(queue.events().size(), 6u);
  seq.save(file);
  seq.publish("name");
  EXPECT_EQ(scope.attach("name").info().tokens, 100u);
  scope.withdraw("name");
  EXPECT_EQ(status_of([&] { (void)scope.attach("name"); }), KVC_ERR_NOT_FOUND);
  seq.release();
  EXPECT_EQ(scope.clear().done, 6u);
  EXPECT_EQ(scope.info().chunk_count, 0u);
  expect_rows(scope.restore(file), 100);
  store.stop_trace();
  EXPECT_GT(std::filesystem::file_size(trace), 0u);
  EXPECT_EQ(store.verify().pages_bad, 0u);
  EXPECT_GT(store.metrics().append_bytes, 0u);
  EXPECT_NE(store.metrics_text().find("\nkvc_"), std::string::npos);
  EXPECT_NE(store.metrics_text().back(), '\0');
  std::vector<char> memory(4096);
  const kvc::Region region = store.region(memory.data(), memory.size());
  EXPECT_EQ(store.info().region_count, 1u);
  std::filesystem::remove_all(folder);
}

TEST(CppHostDriven, work_is_done_by_steps) {
  kvc::Store store = Cpp::open(KVC_OPEN_HOST_DRIVEN);
  kvc::Queue queue = store.queue();
  auto info = kvc::init<kvc_verify_info>();
  store.verify(info, queue.call(5));
  EXPECT_EQ(info.pages_read, 0u);
  while (store.step(1000)) continue;
  const auto results = queue.drain();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].user, 5u);
  EXPECT_EQ(results[0].status, KVC_OK);
}

TEST_F(Cpp, says_what_is_loaded) {
  EXPECT_EQ(kvc::version(), static_cast<uint32_t>(KVC_VERSION_MAJOR << 16 | KVC_VERSION_MINOR << 8 | KVC_VERSION_PATCH));
  EXPECT_EQ(kvc::features(), open().info().features);
}

}  // namespace

#include <mutex>

#include "limited_host.h"
#include "parts_host.h"
#ifdef KVC_FAULTS
#include "base/fault.h"
#endif

/// The log sink (kvc_store_options.log): a line for what an operator needs to know, and of one cause few.
namespace {

using namespace kvc_test;

struct Sink {
  std::mutex mutex;
  std::vector<std::pair<uint32_t, std::string>> lines;
  static void take(uint32_t level, const char *line, void *context) {
    auto &sink = *static_cast<Sink *>(context);
    const std::lock_guard lock(sink.mutex);
    sink.lines.emplace_back(level, line);
  }
  size_t count(const std::string &part) const {
    return static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [&](const auto &l) { return l.second.find(part) != std::string::npos; }));
  }
};

kvc_store_options options_of(Sink &sink, uint32_t level) {
  auto options = sized<kvc_store_options>();
  options.log = Sink::take, options.log_context = &sink, options.log_level = level;
  return options;
}

struct LogTest : testing::Test {
  Sink sink;
};

TEST_F(LogTest, an_open_and_a_close_are_a_line_each_at_the_level_of_information) {
  {
    const auto options = options_of(sink, 3);
    LimitedHost host(2u << 20, &options);
    ASSERT_EQ(sink.lines.size(), 1u);
    EXPECT_EQ(sink.lines[0].first, 3u);
    EXPECT_NE(sink.lines[0].second.find("2097152"), std::string::npos) << sink.lines[0].second;
    const ScopeHandle scope = host.scope("mine");
    host.prompt(scope, 1, 3);
  }
  ASSERT_EQ(sink.lines.size(), 2u);
  EXPECT_EQ(sink.lines[1].second.find("closed"), 0u) << sink.lines[1].second;
  EXPECT_NE(sink.lines[1].second.find("3 chunks"), std::string::npos) << sink.lines[1].second;
}

TEST_F(LogTest, a_level_keeps_out_what_is_above_it) {
  const auto options = options_of(sink, 0);
  { LimitedHost host(2u << 20, &options); }
  EXPECT_TRUE(sink.lines.empty()) << "warnings and errors by default";
}

TEST_F(LogTest, field_B128_a_cause_that_comes_a_thousand_times_a_second_is_one_line_in_ten_seconds_with_a_count) {
  const auto options = options_of(sink, 2);
  LimitedHost host(2u << 20, &options);
  ScopeHandle scope = host.scope("mine", 3000);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 30000; i++) {
    EXPECT_EQ(host.put(scope, "too much", 100000), KVC_ERR_FULL);
    host.clock.advance_ms(1);
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(sink.count("bytes_max"), 3u);
  EXPECT_EQ(sink.count("(and 9999 like it since the last line)"), 2u);
  for (const auto &[level, line] : sink.lines) {
    EXPECT_EQ(level, 2u) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
  scope.reset();
  host.store.reset();
  EXPECT_EQ(sink.lines.back().second, "9999 more refusals of a quota since the last line");
}

TEST_F(LogTest, a_store_without_room_a_lapse_and_lost_events_are_told) {
  const auto options = options_of(sink, 2);
  LimitedHost host(2u << 20, &options);
  const ScopeHandle scope = host.scope("mine");
  kvc_queue *queue = nullptr;
  ASSERT_EQ(kvc_queue_create(&queue, host.store, nullptr, &host.error), KVC_OK);
  ASSERT_EQ(kvc_event_watch(queue, nullptr, KVC_EVENT_STORED, &host.error), KVC_OK);
  EXPECT_EQ(host.put(scope, "too much", 4u << 20), KVC_ERR_FULL);
  EXPECT_EQ(sink.count("memory_bytes"), 1u);
  SeqHandle seq = host.prompt(scope, 1, 2);
  host.clock.advance_ms(2000);
  (void)host.info();
  EXPECT_EQ(sink.count("1 lease lapsed"), 1u);
  for (int32_t p = 0; p < 5000; p++) host.prompt(scope, p, 1);
  auto event = sized<kvc_event>();
  for (size_t count = 1; count;) ASSERT_EQ(kvc_event_drain(&event, 1, &count, queue, &host.error), KVC_OK);
  EXPECT_EQ(sink.count("events were dropped"), 1u);
  EXPECT_EQ(kvc_queue_release(queue, nullptr), KVC_OK);
}

TEST_F(LogTest, a_lapse_that_a_match_or_an_append_comes_upon_is_told_at_once) {
  for (const bool matches : {true, false}) {
    sink.lines.clear();
    const auto options = options_of(sink, 2);
    PartsHost host({full_layers(4, PartsHost::heads, PartsHost::k_dim, PartsHost::v_dim)}, 4u << 20, 0, nullptr, &options);
    const auto tokens = ids(48);
    const SeqHandle first = host.written(tp(0, 2), 1, 1, tokens);  // whose sisters do not come
    host.clock.advance_ms(1001);
    if (matches) EXPECT_EQ(host.found(tp(0, 2), tokens), 0u);
    else (void)host.written(tp(0, 2), 2, 2, tokens);
    EXPECT_EQ(sink.count("1 lease lapsed"), 1u);
  }
}

TEST_F(LogTest, what_is_refused_for_what_is_not_sealed_is_a_line_and_counted) {
  auto options = options_of(sink, 2);
  options.memory_bytes = 2u << 20, options.open_bytes_max = 32u << 10;
  kvc::base::ManualClock clock;
  Host host({full_layers(1, 1, 16, 16)}, KVC_F16, 64);
  host.scope.reset(), host.store.reset();
  host.store = open_with({.clock = &clock}, options);
  host.scope = host.make_scope("m", {full_layers(1, 1, 16, 16)}, KVC_F16, 64);
  std::vector<uint16_t> memory(16);
  auto rows = sized<kvc_rows>();
  rows.layer_count = 1, rows.token_count = 1;
  rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = 32;
  std::vector<SeqHandle> seqs;
  kvc_status status = KVC_OK;
  for (int32_t i = 0; status == KVC_OK; i++) {
    ASSERT_LT(i, 30);
    seqs.push_back(host.create());
    status = host.append(seqs.back(), {i}, {rows});
  }
  EXPECT_EQ(status, KVC_ERR_FULL);
  EXPECT_EQ(sink.count("open_bytes_max is 32768"), 1u);
  EXPECT_EQ(host.append(seqs.back(), {7}, {rows}), KVC_ERR_FULL);
  EXPECT_EQ(sink.lines.size(), 1u) << "one in ten seconds";
  std::string text(1u << 16, 0);
  size_t size = 0;
  ASSERT_EQ(kvc_metrics_text(text.data(), text.size(), &size, host.store, &host.error), KVC_OK) << host.error.message;
  EXPECT_NE(text.find("kvc_refused_total{reason=\"open\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("kvc_refused_total{reason=\"room\"} 0\n"), std::string::npos);
  EXPECT_NE(text.find("kvc_refused_total{reason=\"quota\"} 0\n"), std::string::npos);
  seqs.clear();
  host.scope.reset(), host.store.reset();
  EXPECT_EQ(sink.lines.back().second, "1 more refusals for want of room since the last line");
}

TEST_F(LogTest, what_a_caller_names_breaks_no_line) {
  const auto options = options_of(sink, 1);
  LimitedHost host(2u << 20, &options);
  EXPECT_EQ(kvc_trace_record(host.store, "/no such\nfolder/trace", &host.error), KVC_ERR_IO);
  ASSERT_EQ(sink.lines.size(), 1u);
  EXPECT_NE(sink.lines[0].second.find("folder/trace"), std::string::npos) << sink.lines[0].second;
  EXPECT_EQ(sink.lines[0].second.find('\n'), std::string::npos) << sink.lines[0].second;
}

#ifdef KVC_FAULTS
TEST_F(LogTest, a_page_that_fails_its_check_is_an_error) {
  const auto options = options_of(sink, 1);
  LimitedHost host(2u << 20, &options);
  const ScopeHandle scope = host.scope("mine");
  host.prompt(scope, 1, 2);
  ASSERT_TRUE(kvc::base::fault_arm("store.page.verify", 1, 1));
  EXPECT_EQ(kvc_store_verify(nullptr, host.store, nullptr, &host.error), KVC_ERR_CORRUPT);
  kvc::base::fault_disarm_all();
  ASSERT_EQ(sink.lines.size(), 1u);
  EXPECT_EQ(sink.lines[0].first, 1u);
  EXPECT_NE(sink.lines[0].second.find("failed its check"), std::string::npos) << sink.lines[0].second;
}
#endif

}  // namespace

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "../api/queue_host.h"
#include "../folder.h"
#include "limited_host.h"
#ifdef KVC_FAULTS
#include "base/fault.h"
#endif

/// Spans of calls in a file (kvc_trace_record), loaded by another program: Python's json.
namespace {

using namespace kvc_test;

struct Line {
  std::string name;
  int status;
  uint64_t bytes;
  std::string trace;
};

struct TraceTest : testing::Test, LimitedHost {
  ScopeHandle mine = scope("mine");
  Folder folder;
  std::string path = folder / "trace.json";

  void record(const char *to) { ASSERT_EQ(kvc_trace_record(store, to, &error), KVC_OK) << error.message; }
  /// Fails the test when the file does not parse.
  std::vector<Line> load() {
    const std::string command = std::string(KVC_PYTHON) + " " + KVC_READ_TRACE + " " + path;
    FILE *pipe = popen(command.c_str(), "r");
    std::string text;
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe));) text.append(buffer, n);
    EXPECT_EQ(pclose(pipe), 0) << "does not parse";
    std::vector<Line> lines;
    std::istringstream in(text);
    for (Line line; in >> line.name >> line.status >> line.bytes >> line.trace;) lines.push_back(line);
    return lines;
  }
  std::map<std::string, int> counts() {
    std::map<std::string, int> out;
    for (const Line &line : load()) out[line.name]++;
    return out;
  }
};

TEST_F(TraceTest, every_call_is_a_span_with_its_status_its_bytes_and_its_trace_id) {
  record(path.c_str());
  auto call = sized<kvc_call>();
  call.trace_high = 0xABCD, call.trace_low = 7;
  const auto all = ids(128, 1);
  SeqHandle seq;
  auto match = sized<kvc_match_info>();
  ASSERT_EQ(kvc_match(seq.out(), &match, mine, all.data(), all.size(), nullptr, &call, &error), KVC_OK) << error.message;
  auto rows = sized<kvc_rows>();
  rows.layer_count = 1, rows.token_count = 128;
  rows.k.data = rows.v.data = memory.data(), rows.k.bytes = rows.v.bytes = memory.size() * 2;
  ASSERT_EQ(kvc_append(seq, all.data(), all.size(), &rows, 1, &call, &error), KVC_OK) << error.message;
  EXPECT_EQ(gather(seq, 128), KVC_OK);
  ASSERT_EQ(put(mine, "key", 1000), KVC_OK);
  EXPECT_EQ(get(mine, "other key"), KVC_ERR_NOT_FOUND);
  EXPECT_TRUE(exists(mine, "key"));
  record(nullptr);
  EXPECT_EQ(get(mine, "key"), KVC_OK) << "after the end";
  std::map<std::string, Line> spans;
  for (const Line &line : load()) EXPECT_TRUE(spans.emplace(line.name, line).second) << line.name;
  EXPECT_EQ(spans.size(), 7u);
  const std::string id = "000000000000abcd0000000000000007";
  EXPECT_EQ(spans["match"].trace, id);
  EXPECT_EQ(spans["append"].trace, id);
  EXPECT_EQ(spans["seal"].trace, id) << "what a call does inside has its id";
  EXPECT_EQ(spans["gather"].trace, "-");
  EXPECT_EQ(spans["gather"].bytes, 128u * dim * 2);
  EXPECT_EQ(spans["object_put"].bytes, 1000u);
  EXPECT_EQ(spans["object_get"].status, KVC_ERR_NOT_FOUND);
  EXPECT_TRUE(spans.contains("object_exists"));
}

TEST_F(TraceTest, evictions_are_spans_of_their_own) {
  record(path.c_str());
  for (int i = 0; i < 60; i++) ASSERT_EQ(put(mine, "k" + std::to_string(i), 60000), KVC_OK);
  record(nullptr);
  auto found = counts();
  EXPECT_EQ(found["object_put"], 60);
  EXPECT_GT(found["evict"], 10);
}

TEST_F(TraceTest, queued_calls_are_spans_with_their_ids) {
  record(path.c_str());
  kvc_queue *queue = nullptr;
  ASSERT_EQ(kvc_queue_create(&queue, store, nullptr, &error), KVC_OK) << error.message;
  auto call = sized<kvc_call>();
  call.queue = queue, call.trace_low = 5;
  ASSERT_EQ(kvc_scope_clear(nullptr, mine, &call, &error), KVC_OK) << error.message;
  auto result = sized<kvc_result>();
  size_t count = 0;
  ASSERT_EQ(kvc_queue_drain(&result, 1, &count, queue, KVC_FOREVER, &error), KVC_OK);
  ASSERT_EQ(kvc_queue_release(queue, &error), KVC_OK);
  record(nullptr);
  const auto lines = load();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].name, "scope_clear");
  EXPECT_EQ(lines[0].trace, "00000000000000000000000000000005");
}

TEST_F(TraceTest, a_call_that_waited_for_room_is_one_span_with_what_it_came_to_and_its_id) {
  auto options = sized<kvc_store_options>();
  options.flags = KVC_OPEN_WAIT | KVC_OPEN_HOST_DRIVEN;
  LimitedHost host(2u << 20, &options);
  const ScopeHandle full = host.scope("full");
  LeaseHandle lease;
  ASSERT_EQ(host.put(full, "held", 1500000), KVC_OK) << host.error.message;
  ASSERT_TRUE(host.exists(full, "held", &lease));
  QueueHandle queue = make_queue(host.store);
  ASSERT_EQ(kvc_trace_record(host.store, path.c_str(), &error), KVC_OK) << error.message;
  std::vector<uint8_t> value(1000000);
  const kvc_bytes part{value.data(), value.size()};
  const auto put = [&](kvc_object &object, const char *key, kvc_call call, uint64_t id) {
    object.key = key, object.key_size = std::strlen(key), object.parts = &part, object.part_count = 1;
    call.trace_low = id;
    return kvc_object_put(nullptr, full, &object, 1, nullptr, &call, &error);
  };
  kvc_object first{}, late{}, second{};
  ASSERT_EQ(put(late, "late", queued(queue, 1, 0, 1000), 4), KVC_OK) << error.message;
  EXPECT_EQ(drain(queue).size(), 0u);
  host.clock.advance_ms(1);
  EXPECT_EQ(drain_until(queue, 1)[0].status, KVC_ERR_FULL);
  ASSERT_EQ(put(first, "first", queued(queue, 1, 0, KVC_FOREVER), 5), KVC_OK) << error.message;
  EXPECT_EQ(drain(queue).size(), 0u);
  std::thread releasing([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    lease.reset();
  });
  EXPECT_EQ(put(second, "second", sized<kvc_call>(), 6), KVC_OK) << error.message;
  releasing.join();
  EXPECT_EQ(drain_until(queue, 1)[0].status, KVC_OK);
  ASSERT_EQ(kvc_trace_record(host.store, nullptr, &error), KVC_OK) << error.message;
  std::map<std::string, int> status_of;
  for (const Line &line : load()) {
    const bool is_new = line.name != "object_put" || status_of.emplace(line.trace.substr(31), line.status).second;
    EXPECT_TRUE(is_new) << line.trace;
  }
  EXPECT_EQ(status_of, (std::map<std::string, int>{{"4", KVC_ERR_FULL}, {"5", KVC_OK}, {"6", KVC_OK}}));
}

TEST_F(TraceTest, what_was_flushed_parses_when_the_process_dies_and_less_than_a_buffer_is_lost) {
  ASSERT_EQ(put(mine, "key", 100), KVC_OK);
  const pid_t child = fork();
  if (child == 0) {  // a store of its own: the parent's is not to be used here
    LimitedHost host;
    const ScopeHandle scope = host.scope("mine");
    if (kvc_trace_record(host.store, path.c_str(), nullptr) != KVC_OK) _exit(1);
    for (int i = 0; i < 2000; i++)
      if (!host.exists(scope, "key") && i < 0) _exit(1);
    _exit(0);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const auto lines = load();
  EXPECT_LE(lines.size(), 2000u);
  EXPECT_GT(lines.size(), 2000u - 512);
}

TEST_F(TraceTest, threads_write_one_file_and_a_new_path_ends_the_old_one) {
  record(path.c_str());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      const std::string key = "k" + std::to_string(t);
      kvc_object o{};
      o.key = key.data(), o.key_size = key.size();
      for (int i = 0; i < 700; i++) EXPECT_EQ(kvc_object_exists(nullptr, mine, &o, 1, nullptr, nullptr, nullptr), KVC_OK);
    });
  for (std::thread &t : threads) t.join();
  const std::string second = path + ".second";
  record(second.c_str());
  EXPECT_EQ(counts()["object_exists"], 2800);
  record(nullptr);
  std::swap(path, const_cast<std::string &>(second));
  EXPECT_TRUE(load().empty()) << "and an empty one parses";
  std::filesystem::remove(path);
  path = second;
}

TEST_F(TraceTest, a_file_that_cannot_be_made_says_why_and_nothing_is_recorded) {
  EXPECT_EQ(kvc_trace_record(store, "/nonexistent/folder/trace.json", &error), KVC_ERR_IO);
  EXPECT_EQ(error.system_error, ENOENT);
  EXPECT_NE(error.text().find("/nonexistent/folder/trace.json"), std::string::npos) << error.message;
  EXPECT_EQ(kvc_trace_record(store, nullptr, &error), KVC_OK) << "nothing to end";
}

TEST_F(TraceTest, only_a_regular_file_under_its_own_name_is_replaced) {
  const std::string pipe = folder / "pipe", link = folder / "link", victim = folder / "victim";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(kvc_trace_record(store, pipe.c_str(), &error), KVC_ERR_IO) << "a pipe without a reader is not waited for";
  std::ofstream(victim) << "precious";
  ASSERT_EQ(symlink(victim.c_str(), link.c_str()), 0);
  EXPECT_EQ(kvc_trace_record(store, link.c_str(), &error), KVC_ERR_IO);
  EXPECT_EQ(error.system_error, ELOOP);
  EXPECT_EQ(std::filesystem::file_size(victim), 8u);
  EXPECT_EQ(kvc_trace_record(store, "/dev/null", &error), KVC_ERR_IO);
  EXPECT_NE(error.text().find("regular file"), std::string::npos) << error.message;
}

TEST_F(TraceTest, a_child_of_fork_records_under_its_own_thread) {
  const pid_t child = fork();
  if (child == 0) {
    LimitedHost own;
    ErrorText why;
    bool good = kvc_trace_record(own.store, path.c_str(), &why) == KVC_OK && own.scope("child") && kvc_store_verify(nullptr, own.store, nullptr, &why) == KVC_OK;
    good = kvc_trace_record(own.store, nullptr, &why) == KVC_OK && good;
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    _exit(good && text.str().find("\"tid\": " + std::to_string(getpid())) != std::string::npos ? 0 : 1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(TraceTest, threads_that_begin_recordings_at_once_leave_no_descriptor_and_one_recording) {
  const auto descriptors = [] {
    size_t count = 0;
    for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) count++;
    return count;
  };
  const size_t before = descriptors();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      const std::string own = path + std::to_string(t);
      for (int i = 0; i < 200; i++) EXPECT_EQ(kvc_trace_record(store, own.c_str(), nullptr), KVC_OK);
    });
  for (std::thread &t : threads) t.join();
  record(nullptr);
  EXPECT_EQ(descriptors(), before);
}

#ifdef KVC_FAULTS
TEST_F(TraceTest, a_recording_begins_also_when_the_one_before_it_could_not_be_written_and_the_call_says_so) {
  record(path.c_str());
  (void)exists(mine, "key");
  ASSERT_TRUE(kvc::base::fault_arm("store.trace.write", 1, 1));
  const std::string second = path + ".second";
  EXPECT_EQ(kvc_trace_record(store, second.c_str(), &error), KVC_ERR_IO);
  EXPECT_NE(error.text().find("ended early"), std::string::npos) << error.message;
  kvc::base::fault_disarm_all();
  (void)exists(mine, "key");
  (void)exists(mine, "key");
  record(nullptr);
  EXPECT_TRUE(load().empty());
  path = second;
  EXPECT_EQ(counts()["object_exists"], 2);
}

TEST_F(TraceTest, a_full_disk_ends_the_trace_is_told_at_its_end_and_what_came_before_parses) {
  record(path.c_str());
  for (int i = 0; i < 600; i++) (void)exists(mine, "key");
  ASSERT_TRUE(kvc::base::fault_arm("store.trace.write", 1, UINT64_MAX));
  for (int i = 0; i < 600; i++) (void)exists(mine, "key");
  kvc::base::fault_disarm_all();
  EXPECT_EQ(kvc_trace_record(store, nullptr, &error), KVC_ERR_IO);
  EXPECT_EQ(error.system_error, ENOSPC);
  EXPECT_EQ(counts()["object_exists"], 512);
  record(path.c_str());
  record(nullptr);
  ASSERT_TRUE(kvc::base::fault_arm("store.trace.write", 1, 1));
  EXPECT_EQ(kvc_trace_record(store, path.c_str(), &error), KVC_ERR_IO);
}
#endif

}  // namespace

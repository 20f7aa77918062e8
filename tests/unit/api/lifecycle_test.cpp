#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "host.h"

/// What a host's process does around the calls: fork, signals, limits, endings in any order.
namespace {

using namespace kvc_test;

/// A host with a sequence of 100 tokens, a lease and an object, and the calls a child may try on them.
struct Process {
  Host host{{full_layers(1, 2, 16, 16)}};
  std::vector<uint16_t> memory = std::vector<uint16_t>(1 << 14);
  SeqHandle seq = host.create();
  LeaseHandle lease;
  std::string value = "value";
  kvc_bytes part{value.data(), value.size()};
  kvc_object object{"key", 3, &part, 1, 0, 0, 0, 0, 0, nullptr};

  Process() {
    for (size_t i = 0; i < memory.size(); i++) memory[i] = static_cast<uint16_t>(i * 7);
    EXPECT_EQ(host.append(seq, ids(100), {rows(memory.data())}), KVC_OK) << host.error.message;
    EXPECT_EQ(kvc_seq_lease(lease.out(), seq, 0, KVC_ALL, KVC_FOREVER, nullptr, &host.error), KVC_OK);
    EXPECT_EQ(kvc_object_put(nullptr, host.scope, &object, 1, nullptr, nullptr, &host.error), KVC_OK);
  }
  static kvc_rows rows(uint16_t *at) {
    auto r = sized<kvc_rows>();
    r.layer_count = 1, r.token_count = 100;
    r.k.data = at, r.v.data = at + 3200, r.k.bytes = r.v.bytes = 6400;
    return r;
  }
  bool intact() {
    std::vector<uint16_t> got(6400);
    return host.gather(seq, {rows(got.data())}) == KVC_OK && std::equal(got.begin(), got.end(), memory.begin()) &&
           kvc_object_get(nullptr, host.scope, &object, 1, nullptr, nullptr, &host.error) == KVC_OK;
  }
  /// In the child: the line of the first thing that is wrong, 0 for none.
  int child() {
    ErrorText e;
    auto store_info = sized<kvc_store_info>();
    auto scope_info = sized<kvc_scope_info>();
    auto seq_info = sized<kvc_seq_info>();
    kvc_seq *out;
    kvc_lease *lease_out;
    kvc_scope *scope_out;
    const kvc_rows r = rows(memory.data());
    const auto tokens = ids(64);
    const kvc_extra extra{120, 1, "x", 1};
    auto scope_options = sized<kvc_scope_options>();
    scope_options.model = "m";
    const kvc_status all[] = {kvc_store_get_info(&store_info, host.store, &e),
                              kvc_store_verify(nullptr, host.store, nullptr, &e),
                              kvc_scope_create(&scope_out, host.store, &scope_options, &e),
                              kvc_scope_get_info(&scope_info, host.scope, &e),
                              kvc_seq_create(&out, host.scope, nullptr, &e),
                              kvc_match(&out, nullptr, host.scope, tokens.data(), 64, nullptr, nullptr, &e),
                              kvc_append(seq, tokens.data(), 1, nullptr, 0, nullptr, &e),
                              kvc_gather(nullptr, seq, &r, 1, nullptr, &e),
                              kvc_seq_identify(seq, &extra, 1, &e),
                              kvc_seq_fork(&out, seq, 1, &e),
                              kvc_seq_truncate(seq, 0, &e),
                              kvc_seq_get_info(&seq_info, seq, &e),
                              kvc_seq_lease(&lease_out, seq, 0, 1, 0, nullptr, &e),
                              kvc_lease_renew(lease, 1, &e),
                              kvc_object_put(nullptr, host.scope, &object, 1, nullptr, nullptr, &e),
                              kvc_object_get(nullptr, host.scope, &object, 1, nullptr, nullptr, &e),
                              kvc_object_exists(nullptr, host.scope, &object, 1, nullptr, nullptr, &e),
                              kvc_object_delete(nullptr, host.scope, &object, 1, nullptr, &e),
                              kvc_lease_release(lease, &e),
                              kvc_seq_release(seq, &e),
                              kvc_scope_release(host.scope, &e),
                              kvc_close(host.store, &e)};
    for (const kvc_status &status : all)
      if (status != KVC_ERR_FORKED) return 100 + static_cast<int>(&status - all);
    if (e.text().find("parent process") == std::string::npos) return 1;
    auto options = sized<kvc_store_options>();
    options.memory_bytes = 1 << 20;
    for (int round = 0; round < 3; round++) {
      kvc_store *store;
      if (kvc_open(&store, "mem:", &options, &e) != KVC_OK) return 2;
      const kvc_layer layer = full_layers(1, 2, 16, 16);
      auto shape = sized<kvc_shape>();
      shape.dtype = KVC_F16, shape.layers = &layer, shape.layer_runs = 1;
      scope_options.shape = &shape;
      if (kvc_scope_create(&scope_out, store, &scope_options, &e) != KVC_OK) return 3;
      if (kvc_seq_create(&out, scope_out, nullptr, &e) != KVC_OK) return 4;
      const auto more = ids(100);
      if (kvc_append(out, more.data(), 100, &r, 1, nullptr, &e) != KVC_OK) return 5;
      if (kvc_gather(nullptr, out, &r, 1, nullptr, &e) != KVC_OK) return 6;
      if (kvc_gather(nullptr, seq, &r, 1, nullptr, &e) != KVC_ERR_FORKED) return 7;  // also with a store in the same place
      if (round == 2) return 0;                                                      // and one that is left open
      if (kvc_close(store, &e) != KVC_OK) return 8;
    }
    return 0;
  }
};

int run_child(Process &process) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(60);  // a child that hangs is a failure, not a hang of the test
    _exit(process.child());
  }
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(Fork, B100_every_inherited_handle_is_forked_and_a_new_store_works_and_the_parent_goes_on) {
  Process process;
  for (int round = 0; round < 5; round++) {
    EXPECT_EQ(run_child(process), 0) << "see Process::child";
    EXPECT_TRUE(process.intact()) << process.host.error.message;
  }
}

TEST(Fork, B100_with_other_threads_inside_calls) {
  Process process;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++)
    threads.emplace_back([&, t] {
      const auto tokens = ids(64, t + 1);
      std::vector<uint16_t> scratch(6400);
      while (!stop) {
        kvc_seq *seq = nullptr;
        if (kvc_match(&seq, nullptr, process.host.scope, tokens.data(), 64, nullptr, nullptr, nullptr) != KVC_OK) wrong++;
        const kvc_rows r = Process::rows(scratch.data());
        if (kvc_gather(nullptr, process.seq, &r, 1, nullptr, nullptr) != KVC_OK) wrong++;
        if (kvc_seq_release(seq, nullptr) != KVC_OK) wrong++;
      }
    });
  for (int round = 0; round < 20; round++) EXPECT_EQ(run_child(process), 0) << "see Process::child";
  stop = true;
  for (std::thread &t : threads) t.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(process.intact()) << process.host.error.message;
}

TEST(Fork, a_grandchild_is_a_stranger_too) {
  Process process;
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    kvc_store *mine;
    auto options = sized<kvc_store_options>();
    options.memory_bytes = 1 << 20;
    if (kvc_open(&mine, "mem:", &options, nullptr) != KVC_OK) _exit(1);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      auto info = sized<kvc_store_info>();
      if (kvc_store_get_info(&info, mine, nullptr) != KVC_ERR_FORKED) _exit(2);
      _exit(process.child());
    }
    int status = 0;
    waitpid(grandchild, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

std::atomic<uint64_t> g_signals{0};

TEST(Signals, B105_B114_a_storm_during_calls_changes_nothing_and_nothing_of_the_process_is_touched) {
  struct sigaction before[32], after[32];
  sigset_t mask_before, mask_after;
  for (int s = 1; s < 32; s++) sigaction(s, nullptr, &before[s]);
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_before);
  {
    Process process;
    EXPECT_TRUE(process.intact());
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_after);
  for (int s = 1; s < 32; s++) {
    sigaction(s, nullptr, &after[s]);
    EXPECT_EQ(before[s].sa_handler, after[s].sa_handler) << "signal " << s;
    EXPECT_EQ(sigismember(&mask_before, s), sigismember(&mask_after, s)) << "signal " << s;
  }

  struct sigaction storm = {}, old;
  storm.sa_handler = [](int) { g_signals++; };  // without SA_RESTART: system calls are interrupted
  ASSERT_EQ(sigaction(SIGUSR1, &storm, &old), 0);
  Process process;
  std::atomic<bool> stop{false};
  const pthread_t worker = pthread_self();
  std::thread sender([&] {
    while (!stop) {
      pthread_kill(worker, SIGUSR1);
      usleep(20);
    }
  });
  for (int i = 0; i < 3000 || g_signals < 1000; i++) {
    ASSERT_TRUE(process.intact()) << process.host.error.message;
    if (i % 100 == 0) {
      Process other;  // opening and closing under the storm too
      ASSERT_TRUE(other.intact());
    }
  }
  stop = true;
  sender.join();
  sigaction(SIGUSR1, &old, nullptr);
}

TEST(Endings, handles_may_be_released_in_any_order) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; round++) {
    Process p;
    SeqHandle fork;
    ASSERT_EQ(kvc_seq_fork(fork.out(), p.seq, 80, nullptr), KVC_OK);
    kvc_store *const store = p.host.store.release();
    kvc_scope *const scope = p.host.scope.release();
    kvc_seq *const seq = p.seq.release(), *const forked = fork.release();
    kvc_lease *const lease = p.lease.release();
    std::vector<int> order{0, 1, 2, 3, 4};
    std::shuffle(order.begin(), order.end(), random);
    bool closed = false;
    for (const int which : order) {
      const kvc_status status = which == 0   ? kvc_close(store, nullptr)
                                : which == 1 ? kvc_scope_release(scope, nullptr)
                                : which == 2 ? kvc_seq_release(seq, nullptr)
                                : which == 3 ? kvc_seq_release(forked, nullptr)
                                             : kvc_lease_release(lease, nullptr);
      EXPECT_EQ(status, closed ? KVC_ERR_STALE : KVC_OK) << which;
      closed = closed || which == 0;
    }
    for (int again = 0; again < 2; again++) {
      EXPECT_EQ(kvc_close(store, nullptr), KVC_ERR_STALE);
      EXPECT_EQ(kvc_seq_release(seq, nullptr), KVC_ERR_STALE);
    }
  }
}

TEST(Endings, a_process_that_ends_with_leases_for_ever_and_threads_of_kvc_at_work_ends_as_it_wants_to) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer ends a child that starts a thread";
#endif
#if defined(__SANITIZE_ADDRESS__)
  const std::initializer_list<int> hows{0};  // at an exit the checker takes for leaks what the parent's page held, which a child has wiped
#else
  const std::initializer_list<int> hows{0, 1};
#endif
  for (const int how : hows) {
    (void)std::fflush(nullptr);  // an exit writes what is buffered, once more
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(60);
      Process p;
      kvc_lease *lease = nullptr;
      kvc_queue *queue = nullptr;
      if (kvc_seq_lease(&lease, p.seq, 0, KVC_ALL, KVC_FOREVER, nullptr, nullptr) != KVC_OK || kvc_queue_create(&queue, p.host.store, nullptr, nullptr) != KVC_OK) _exit(1);
      auto call = sized<kvc_call>();
      call.queue = queue;
      for (int i = 0; i < 100; i++)
        if (kvc_seq_lease(nullptr, p.seq, 0, KVC_ALL, UINT64_MAX / 1000000u, &call, nullptr) != KVC_OK) _exit(2);
      if (how == 0) _exit(42);
      std::exit(42);  // with the handlers of the program and its libraries, while p is still there
    }
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 42);
  }
}

TEST(Endings, a_scope_that_was_released_lives_on_in_its_sequences) {
  Process p;
  p.host.scope.reset();
  const auto more = ids(164);
  kvc_rows rows = Process::rows(p.memory.data());
  rows.token_begin = 100, rows.token_count = 64;
  EXPECT_EQ(p.host.append(p.seq, {more.begin() + 100, more.end()}, {rows}), KVC_OK) << p.host.error.message;
  p.host.scope = p.host.make_scope("test", {full_layers(1, 2, 16, 16)});  // joins it
  uint64_t length;
  p.host.match(more, &length);
  EXPECT_EQ(length, 128u);
}

TEST(Endings, B110_eight_threads_release_one_sequence_and_one_of_them_does) {
  for (int round = 0; round < 200; round++) {
    Process p;
    kvc_seq *const seq = p.seq.release();
    std::atomic<int> ok{0}, stale{0}, busy{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; t++)
      threads.emplace_back([&] {
        const kvc_status status = kvc_seq_release(seq, nullptr);
        (status == KVC_OK ? ok : status == KVC_ERR_STALE ? stale : busy)++;
      });
    for (std::thread &t : threads) t.join();
    EXPECT_EQ(ok, 1);
    auto info = sized<kvc_store_info>();
    ASSERT_EQ(kvc_store_get_info(&info, p.host.store, nullptr), KVC_OK);
    EXPECT_EQ(info.seq_count, 0u);
  }
}

TEST(Limits, a_store_that_the_system_has_no_address_space_for_is_no_memory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has no room under RLIMIT_AS";
#endif
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit limit{1ull << 33, 1ull << 33};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(1);
    auto options = sized<kvc_store_options>();
    options.memory_bytes = 1ull << 34;
    ErrorText error;
    kvc_store *store = reinterpret_cast<kvc_store *>(1);
    if (kvc_open(&store, "mem:", &options, &error) != KVC_ERR_NO_MEMORY || store != nullptr) _exit(2);
    if (error.text().find("17179869184") == std::string::npos) _exit(3);
    if (error.retry != KVC_RETRY_LATER) _exit(4);
    options.memory_bytes = 1 << 20;
    _exit(kvc_open(&store, "mem:", &options, &error) == KVC_OK ? 0 : 5);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Limits, a_size_that_no_machine_has_is_refused) {
  auto options = sized<kvc_store_options>();
  ErrorText error;
  StoreHandle store;
  for (const uint64_t bytes : {uint64_t{1} << 62, UINT64_MAX, UINT64_MAX - 4095}) {
    options.memory_bytes = bytes;
    const kvc_status status = kvc_open(store.out(), "mem:", &options, &error);
    EXPECT_TRUE(status == KVC_ERR_NO_MEMORY || status == KVC_ERR_ARGUMENT) << bytes << ": " << error.message;
    EXPECT_NE(error.text().find(std::to_string(bytes)), std::string::npos) << error.message;
  }
}

TEST(Unloading, ten_rounds_of_dlopen_use_and_dlclose) { EXPECT_EQ(std::system(KVC_HOST_PROGRAM " " KVC_LIBRARY), 0); }

TEST(Environment, the_allocator_inside_does_not_listen_to_it) {
  FILE *const host = popen("MIMALLOC_VERBOSE=1 MIMALLOC_SHOW_STATS=1 " KVC_HOST_PROGRAM " " KVC_LIBRARY " 2>&1", "r");
  ASSERT_NE(host, nullptr);
  std::string said;
  for (int c; (c = std::fgetc(host)) != EOF;) said += static_cast<char>(c);
  EXPECT_EQ(pclose(host), 0);
  EXPECT_EQ(said, "");
}

}  // namespace

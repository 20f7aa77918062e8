#include <cctype>
#include <map>
#include <set>
#include <sstream>

#include "limited_host.h"

/// Counters and gauges as Prometheus text, read back by the grammar of the exposition format 0.0.4.
namespace {

using namespace kvc_test;

/// Throws nothing: what is wrong fails the test.
struct Scrape {
  std::map<std::string, std::string> types;
  std::map<std::string, double> samples;  // name{labels}

  explicit Scrape(const std::string &text) {
    EXPECT_TRUE(text.ends_with("\n"));
    std::istringstream lines(text);
    std::string line, helped;
    while (std::getline(lines, line)) {
      if (line.starts_with("# HELP ")) {
        helped = line.substr(7, line.find(' ', 7) - 7);
        EXPECT_TRUE(is_name(helped)) << line;
        EXPECT_FALSE(types.contains(helped)) << "a family stands together: " << line;
      } else if (line.starts_with("# TYPE ")) {
        const size_t space = line.find(' ', 7);
        const std::string name = line.substr(7, space - 7), type = line.substr(space + 1);
        EXPECT_EQ(name, helped);
        EXPECT_TRUE(type == "counter" || type == "gauge") << line;
        EXPECT_EQ(name.ends_with("_total"), type == "counter") << line;
        types[name] = type;
      } else {
        sample(line, helped);
      }
    }
  }
  static bool is_name(const std::string &name) {
    if (!name.starts_with("kvc_")) return false;
    return std::all_of(name.begin(), name.end(), [](char c) { return std::islower(static_cast<unsigned char>(c)) || std::isdigit(static_cast<unsigned char>(c)) || c == '_'; });
  }
  void sample(const std::string &line, const std::string &family) {
    const size_t end = line.find_first_of("{ ");
    ASSERT_NE(end, std::string::npos) << line;
    EXPECT_EQ(line.substr(0, end), family) << line;
    size_t value = end;
    if (line[end] == '{') {
      const size_t equals = line.find("=\"", end), close = line.find("\"} ", end);
      ASSERT_TRUE(equals != std::string::npos && close != std::string::npos && equals < close) << line;
      EXPECT_EQ(line.substr(equals + 2, close - equals - 2).find_first_of("\"\\\n"), std::string::npos) << line;
      value = close + 2;
    }
    size_t used = 0;
    const std::string number = line.substr(value + 1);
    EXPECT_TRUE(samples.emplace(line.substr(0, value), std::stod(number, &used)).second) << "twice: " << line;
    EXPECT_EQ(used, number.size()) << line;
  }
  double at(const std::string &name) const {
    EXPECT_TRUE(samples.contains(name)) << name;
    return samples.contains(name) ? samples.at(name) : -1;
  }
};

struct MetricsTest : testing::Test, LimitedHost {
  ScopeHandle mine = scope("mine");

  std::string text() {
    size_t size = 0;
    EXPECT_EQ(kvc_metrics_text(nullptr, 0, &size, store, &error), KVC_OK) << error.message;
    std::string out(size, '?');
    EXPECT_EQ(kvc_metrics_text(out.data(), out.size(), &size, store, &error), KVC_OK) << error.message;
    EXPECT_EQ(out[size - 1], 0);
    out.resize(size - 1);
    EXPECT_EQ(out.find('\0'), std::string::npos);
    return out;
  }
  std::string label(kvc_scope *of) {
    char hex[17];
    for (size_t i = 0; i < 8; i++) std::snprintf(hex + 2 * i, 3, "%02x", info(of).fingerprint[i]);
    return "{scope=\"" + std::string(hex) + "\"}";
  }
};

TEST_F(MetricsTest, the_text_says_what_the_calls_say) {
  const ScopeHandle tight = scope("tight", 30000), brief = scope("brief", 0, 1000);
  prompt(mine, 1, 4);
  SeqHandle held = prompt(mine, 1, 4);
  EXPECT_EQ(gather(held, 64), KVC_OK);
  for (int32_t p = 0; p < 10; p++) prompt(tight, p, 1);
  ASSERT_EQ(put(brief, "gone", 100), KVC_OK);
  ASSERT_EQ(put(mine, "kept", 100), KVC_OK);
  EXPECT_EQ(get(mine, "kept"), KVC_OK);
  clock.advance_ms(5000);
  EXPECT_FALSE(exists(brief, "gone"));
  (void)info();
  const Scrape scrape(text());
  const kvc_metrics m = metrics();
  const kvc_store_info i = info();
  EXPECT_EQ(scrape.at("kvc_match_calls_total"), static_cast<double>(m.match_calls));
  EXPECT_EQ(scrape.at("kvc_match_tokens_total"), static_cast<double>(m.match_tokens));
  EXPECT_EQ(scrape.at("kvc_hit_tokens_total"), static_cast<double>(m.hit_tokens));
  EXPECT_EQ(scrape.at("kvc_gather_bytes_total"), static_cast<double>(m.gather_bytes));
  EXPECT_EQ(scrape.at("kvc_append_bytes_total"), static_cast<double>(m.append_bytes));
  EXPECT_EQ(scrape.at("kvc_hit_bytes_total{tier=\"host\"}"), static_cast<double>(m.hit_bytes_host));
  EXPECT_EQ(scrape.at("kvc_evicted_total{reason=\"quota\"}"), static_cast<double>(m.evicted_chunks));
  EXPECT_GT(m.evicted_chunks, 0u);
  EXPECT_EQ(scrape.at("kvc_evicted_total{reason=\"room\"}"), 0);
  EXPECT_EQ(scrape.at("kvc_evicted_total{reason=\"ttl\"}"), 1);
  EXPECT_EQ(scrape.at("kvc_lapsed_leases_total"), 1);
  EXPECT_EQ(scrape.at("kvc_memory_bytes"), static_cast<double>(i.memory_bytes));
  EXPECT_EQ(scrape.at("kvc_memory_used_bytes"), static_cast<double>(i.memory_used));
  EXPECT_EQ(scrape.at("kvc_chunks"), static_cast<double>(i.chunk_count));
  EXPECT_EQ(scrape.at("kvc_objects"), 1);
  EXPECT_EQ(scrape.at("kvc_sequences"), 1);
  EXPECT_EQ(scrape.at("kvc_scope_bytes" + label(mine)), static_cast<double>(info(mine).bytes_host));
  EXPECT_EQ(scrape.at("kvc_scope_quota_bytes" + label(tight)), 30000);
  EXPECT_EQ(scrape.at("kvc_scope_hit_tokens" + label(mine)), 256);
  EXPECT_GT(scrape.at("kvc_bookkeeping_bytes"), 0);
}

TEST_F(MetricsTest, however_many_scopes_there_are_the_labels_are_bounded_and_nothing_is_left_out) {
  std::vector<ScopeHandle> scopes;
  for (int i = 0; i < 200; i++) {
    scopes.push_back(scope(("tenant" + std::to_string(i)).c_str()));
    ASSERT_EQ(put(scopes.back(), "k", 100 + static_cast<uint64_t>(i) * 20), KVC_OK) << error.message;
  }
  const Scrape scrape(text());
  size_t labels = 0;
  double objects = 0;
  for (const auto &[name, value] : scrape.samples)
    if (name.starts_with("kvc_scope_objects{")) labels++, objects += value;
  EXPECT_EQ(labels, 65u);
  EXPECT_EQ(objects, 200);
  EXPECT_EQ(scrape.at("kvc_scope_objects{scope=\"other\"}"), 200 - 64);
  EXPECT_TRUE(scrape.samples.contains("kvc_scope_objects" + label(scopes.back()))) << "it holds most";
  EXPECT_FALSE(scrape.samples.contains("kvc_scope_objects" + label(scopes.front())));
}

TEST_F(MetricsTest, a_short_buffer_is_filled_terminated_and_told_what_is_needed) {
  const std::string whole = text();
  for (const size_t capacity : {size_t{1}, size_t{2}, size_t{100}, whole.size()}) {
    std::vector<char> out(capacity + 8, '?');
    size_t size = 0;
    EXPECT_EQ(kvc_metrics_text(out.data(), capacity, &size, store, &error), KVC_ERR_RANGE);
    EXPECT_EQ(size, whole.size() + 1);
    EXPECT_EQ(std::string(out.data()), whole.substr(0, capacity - 1));
    EXPECT_EQ(std::string(out.data() + capacity, 8), "????????");
    EXPECT_NE(error.text().find(std::to_string(size)), std::string::npos) << error.message;
  }
  size_t size = 0;
  EXPECT_EQ(kvc_metrics_text(nullptr, 5, &size, store, &error), KVC_ERR_ARGUMENT);
  EXPECT_EQ(kvc_metrics_text(nullptr, 0, nullptr, store, &error), KVC_ERR_ARGUMENT);
}

}  // namespace

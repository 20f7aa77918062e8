#include "cli/bench.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/bench_host.h"

namespace kvc::cli {
namespace {

/// Why figures of this build would mean nothing; nullptr: they mean something.
const char *unfit_build() {
  if (*KVC_BUILD_SANITIZE) return "it is built with KVC_SANITIZE=" KVC_BUILD_SANITIZE;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "it is built with a sanitizer";
#endif
#ifdef KVC_FAULTS
  return "it is built with KVC_FAULTS: fault points stand on the measured paths";
#endif
  if (*KVC_BUILD_MUTATE) return "it is built with KVC_MUTATE=" KVC_BUILD_MUTATE ": deliberately wrong";
#ifndef NDEBUG
  return "it is built without NDEBUG";
#endif
#ifndef __OPTIMIZE__
  return "it is built without optimisation";
#endif
  return nullptr;
}

int usage(const char *rule, const char *value) {
  std::fprintf(stderr, "kvc bench: %s: \"%.60s\"\n", rule, value);
  return 2;
}

/// 0, or the exit status of a wrong usage.
int parse(BenchOptions &out, std::span<char *const> arguments) {
  for (size_t i = 0; i < arguments.size(); i++) {
    const std::string_view word = arguments[i];
    if (word == "--json") {
      out.json = true;
      continue;
    }
    if (word != "--only" && word != "--seconds" && word != "--folder") return usage("unknown option, --json, --only, --seconds and --folder are known", arguments[i]);
    if (i + 1 == arguments.size()) return usage("a value is needed after this option", arguments[i]);
    const char *value = arguments[++i];
    if (word == "--folder") {
      out.folder = value;
      continue;
    }
    if (word == "--only") {
      out.only = value;
      if (out.only.empty()) return usage("--only needs the name of a figure", value);
      if (!out.only.starts_with("host.")) out.only = "host." + out.only;
      continue;
    }
    char *end;
    out.seconds = std::strtod(value, &end);
    if (end == value || *end || !(out.seconds >= 0.1 && out.seconds <= 600)) return usage("--seconds takes a number from 0.1 to 600", value);
  }
  return 0;
}

std::string goal_text(const Goal &goal) {
  char text[64];
  std::snprintf(text, sizeof text, "%s %s %.4g", goal.of == Goal::Of::value ? "value" : "ratio", goal.at_least ? ">=" : "<=", goal.bound);
  return text;
}

void print(const Bench &bench, const Figure &f, bool json) {
  const std::string goal = goal_text(bench.goal);
  const bool met = bench.goal.met(f);
  if (json) {
    std::printf("{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"baseline\":%.6g,\"ratio\":%.4g,\"p99\":%.6g", bench.name, f.value, bench.unit, f.baseline, f.ratio, f.p99);
    if (f.limit > 0) std::printf(",\"limit\":%.6g", f.limit);
    std::printf(",\"goal\":\"%s\",\"met\":%s}\n", goal.c_str(), met ? "true" : "false");
  } else {
    char limit[32] = "-";
    if (f.limit > 0) std::snprintf(limit, sizeof limit, "%.4g", f.limit);
    std::printf("%-25s %10.4g %-12s %10.4g %8.3f %10.4g %8s   %-16s %s\n", bench.name, f.value, bench.unit, f.baseline, f.ratio, f.p99, limit, goal.c_str(), met ? "met" : "MISSED");
  }
  std::fflush(stdout);
}

}  // namespace

int bench_main(std::span<char *const> arguments) {
  if (arguments.empty()) return usage("a suite is needed, this build has host", "");
  if (std::strcmp(arguments[0], "host") != 0) return usage("unknown suite, this build has host", arguments[0]);
  BenchOptions options;
  if (const int status = parse(options, arguments.subspan(1))) return status;
  const std::span<const Bench> suite = host_suite();
  bool known = options.only.empty();
  for (const Bench &bench : suite) known = known || options.only == bench.name;
  if (!known) return usage("unknown figure, run without --only to see all", options.only.c_str());
  if (const char *why = unfit_build()) {
    std::fprintf(stderr, "kvc bench: this build is not measured: %s\n", why);
    return 1;
  }
  if (options.folder.empty()) options.folder = std::filesystem::temp_directory_path().string();
  HostBench host(options);
  if (!options.json)
    std::printf("%-25s %10s %-12s %10s %8s %10s %8s   %s\n", "name", "value", "unit", "baseline", "ratio", "p99", "limit", "goal");
  for (const Bench &bench : suite)
    if (options.only.empty() || options.only == bench.name) print(bench, (host.*bench.run)(), options.json);
  return 0;
}

}  // namespace kvc::cli

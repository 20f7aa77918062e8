#include <cstdio>
#include <cstring>
#include <exception>

#include "cli/bench.h"
#include "kvc/kvc.h"

/// The `kvc` program: one word says what to do, the rest belongs to it.
namespace {

constexpr char kHelp[] =
    "kvc - a store for the key/value cache of transformer attention\n"
    "\n"
    "  kvc version                    the version of the library\n"
    "  kvc bench SUITE [OPTIONS]      measure it against what this machine can do; suites: host\n"
    "      --json                     one line of JSON for each figure, instead of a table\n"
    "      --only NAME                one figure only, with or without the suite's name in front\n"
    "      --seconds S                how long each figure is measured, 0.1 to 600 (default 3)\n"
    "  kvc --help                     this text\n"
    "\n"
    "Figures are medians of runs that alternate with their baseline; `kvc bench host` needs 8 GiB of free memory.\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage.\n";

}  // namespace

int main(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "";
  try {
    if (std::strcmp(word, "--help") == 0 || std::strcmp(word, "-h") == 0 || std::strcmp(word, "help") == 0) return std::fputs(kHelp, stdout) < 0;
    if (std::strcmp(word, "version") == 0 || std::strcmp(word, "--version") == 0) {
      const uint32_t version = kvc_version();
      return std::printf("kvc %u.%u.%u\n", version >> 16, version >> 8 & 255, version & 255) < 0;
    }
    if (std::strcmp(word, "bench") == 0) return kvc::cli::bench_main({argv + 2, static_cast<size_t>(argc - 2)});
  } catch (const std::exception &e) {
    std::fprintf(stderr, "kvc: %s\n", e.what());
    return 1;
  }
  if (*word) std::fprintf(stderr, "kvc: unknown command \"%.60s\": see kvc --help\n", word);
  else std::fputs("kvc: a command is needed: see kvc --help\n", stderr);
  return 2;
}

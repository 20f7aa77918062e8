#include <cstdio>
#include <cstring>
#include <exception>
#include <span>

#include "cli/bench.h"
#include "cli/inspect.h"
#include "cli/selfcheck.h"
#include "kvc/kvc.h"

/// The `kvc` program: one word says what to do, the rest belongs to it.
namespace {

constexpr char kHelp[] =
    "kvc - a store for the key/value cache of transformer attention\n"
    "\n"
    "  kvc version                    the version of the library\n"
    "  kvc info                       what this build has: version, features, kernels\n"
    "  kvc info FILE                  what a save file holds, from its table\n"
    "  kvc verify FILE                reads every page of a save file and checks every sum; names the first bad page\n"
    "  kvc selfcheck [OPTIONS]        stores rows by every way in and compares them token by token on every way out, a save file among them\n"
    "      --data FILE                rows of a model, a safetensors file with k and v [layers, KV heads, tokens, dim] of float16 and\n"
    "                                 token_ids [tokens] of int32, instead of generated ones\n"
    "      --folder DIR               where the save file is written and removed (default: that for temporary files)\n"
    "  kvc bench SUITE [OPTIONS]      measure it against what this machine can do; suites: host\n"
    "      --json                     one line of JSON for each figure, instead of a table\n"
    "      --only NAME                one figure only, with or without the suite's name in front\n"
    "      --seconds S                how long each figure is measured, 0.1 to 600 (default 3)\n"
    "      --folder DIR               where files are written and removed, up to 2 GiB (default: that for temporary files)\n"
    "  kvc --help                     this text\n"
    "\n"
    "`examples/quickstart/quickstart.py --model FILE` compares a whole model with and without the cache, token by token.\n"
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
    const struct {
      const char *word;
      int (*run)(std::span<char *const> arguments);
    } commands[] = {{"info", kvc::cli::info_main}, {"verify", kvc::cli::verify_main}, {"selfcheck", kvc::cli::selfcheck_main}, {"bench", kvc::cli::bench_main}};
    for (const auto &command : commands)
      if (std::strcmp(word, command.word) == 0) return command.run({argv + 2, static_cast<size_t>(argc - 2)});
  } catch (const std::exception &e) {
    std::fprintf(stderr, "kvc: %s\n", e.what());
    return 1;
  }
  if (*word) std::fprintf(stderr, "kvc: unknown command \"%.60s\": see kvc --help\n", word);
  else std::fputs("kvc: a command is needed: see kvc --help\n", stderr);
  return 2;
}

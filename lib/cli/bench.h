#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// `kvc bench`: figures of this library, each beside what the machine itself can do, measured in the same run.
namespace kvc::cli {

struct BenchOptions {
  bool json = false;
  double seconds = 3;
  std::string folder;  // where files are written
  std::string only;  // the full name of a figure; empty: all
};

/// One line of the output.
struct Figure {
  double value = 0, baseline = 0, ratio = 0;  // in the unit of the figure; ratio: value over baseline, more is better
  double p99 = 0;                             // what 99 of 100 runs kept to, in the same unit
  double limit = 0;                           // bytes moved at the bandwidth of one plain copy; 0: not bound by bandwidth
};

struct Goal {
  enum class Of { value, ratio } of;
  bool at_least;
  double bound;
  bool met(const Figure &figure) const {
    const double x = of == Of::value ? figure.value : figure.ratio;
    return at_least ? x >= bound : x <= bound;
  }
};

class HostBench;
struct Bench {
  const char *name, *unit, *what;
  Goal goal;
  Figure (HostBench::*run)();
};

/// What follows the word `bench`; returns the exit status.
int bench_main(std::span<char *const> arguments);

}  // namespace kvc::cli

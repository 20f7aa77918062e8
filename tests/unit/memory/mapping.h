#pragma once
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace kvc::memory {

/// "VmFlags" of the mapping that starts at or below `address` and ends above it, with a blank around each.
inline std::string mapping_flags(const void *address) {
  std::ifstream maps("/proc/self/smaps");
  bool ours = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      ours = begin <= reinterpret_cast<uintptr_t>(address) && reinterpret_cast<uintptr_t>(address) < end;
    }
    if (ours && line.rfind("VmFlags:", 0) == 0) return line + " ";
  }
  return "";
}

}  // namespace kvc::memory

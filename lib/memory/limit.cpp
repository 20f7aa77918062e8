#include "memory/limit.h"

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>

namespace kvc::memory {
namespace {

constexpr size_t kLineBytes = 2 * PATH_MAX;

struct Closer {
  void operator()(FILE *file) const { fclose(file); }
};
using File = std::unique_ptr<FILE, Closer>;

File open_under(const char *root, const char *path) {
  char full[kLineBytes];
  if (snprintf(full, sizeof full, "%s%s", root, path) >= static_cast<int>(sizeof full)) return nullptr;
  return File(fopen(full, "re"));
}

/// Whether the comma-separated `list` holds `word`.
bool list_has(const char *list, const char *word) {
  const size_t word_bytes = strlen(word);
  for (const char *item = list; item; item = strchr(item, ',')) {
    if (*item == ',') ++item;
    if (strncmp(item, word, word_bytes) == 0 && (item[word_bytes] == '\0' || item[word_bytes] == ',')) return true;
  }
  return false;
}

/// One hierarchy: where it is mounted, which of its groups that mount shows as its root, and the group we are in.
struct Hierarchy {
  bool v2;
  char mount_point[PATH_MAX] = {};
  char mount_root[PATH_MAX] = {};
  char group[PATH_MAX] = {};
};

/// "4:memory:/group" for v1, "0::/group" for v2.
bool find_group(const char *root, Hierarchy &hierarchy) {
  const File file = open_under(root, "/proc/self/cgroup");
  char line[kLineBytes];
  while (file && fgets(line, sizeof line, file.get())) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : nullptr;
    if (!group) continue;
    *group++ = '\0';
    ++controllers;
    const bool ours = hierarchy.v2 ? strncmp(line, "0:", 2) == 0 && *controllers == '\0' : list_has(controllers, "memory");
    if (!ours) continue;
    return snprintf(hierarchy.group, sizeof hierarchy.group, "%s", group) < static_cast<int>(sizeof hierarchy.group);
  }
  return false;
}

/// "id parent major:minor ROOT MOUNT_POINT options - TYPE source SUPER_OPTIONS".
bool find_mount(const char *root, Hierarchy &hierarchy) {
  const File file = open_under(root, "/proc/self/mountinfo");
  char line[kLineBytes];
  while (file && fgets(line, sizeof line, file.get())) {
    const char *separator = strstr(line, " - ");
    char type[32];
    char super_options[1024];
    if (!separator || sscanf(separator, " - %31s %*s %1023s", type, super_options) != 2) continue;
    const bool ours = hierarchy.v2 ? strcmp(type, "cgroup2") == 0 : strcmp(type, "cgroup") == 0 && list_has(super_options, "memory");
    static_assert(PATH_MAX == 4096, "the widths below");
    if (ours && sscanf(line, "%*s %*s %*s %4095s %4095s", hierarchy.mount_root, hierarchy.mount_point) == 2) return true;
  }
  return false;
}

/// The limit of the group at `path`; "max", absent and unreadable files limit nothing.
uint64_t read_limit(const char *root, const char *path, bool v2) {
  char name[kLineBytes];
  if (snprintf(name, sizeof name, "%s/%s", path, v2 ? "memory.max" : "memory.limit_in_bytes") >= static_cast<int>(sizeof name)) {
    return UINT64_MAX;
  }
  const File file = open_under(root, name);
  unsigned long long bytes = 0;
  return file && fscanf(file.get(), "%llu", &bytes) == 1 ? bytes : UINT64_MAX;
}

uint64_t hierarchy_limit_bytes(const char *root, bool v2) {
  Hierarchy hierarchy{.v2 = v2};
  if (!find_group(root, hierarchy) || !find_mount(root, hierarchy)) return UINT64_MAX;
  // A container sees its own group as the mount's root while the group's path may still be the host's.
  const char *group = hierarchy.group;
  const size_t root_bytes = strlen(hierarchy.mount_root);
  if (strcmp(hierarchy.mount_root, "/") != 0 && strncmp(group, hierarchy.mount_root, root_bytes) == 0) group += root_bytes;
  char path[kLineBytes];
  if (snprintf(path, sizeof path, "%s%s", hierarchy.mount_point, group) >= static_cast<int>(sizeof path)) return UINT64_MAX;
  // Every group above limits as well.
  const size_t mount_bytes = strlen(hierarchy.mount_point);
  uint64_t least = UINT64_MAX;
  for (;;) {
    const uint64_t bytes = read_limit(root, path, v2);
    if (bytes < least) least = bytes;
    char *slash = strrchr(path + mount_bytes, '/');
    if (!slash) return least;
    *slash = '\0';
  }
}

}  // namespace

uint64_t cgroup_limit_bytes(const char *root) {
  const uint64_t v1 = hierarchy_limit_bytes(root, false);
  const uint64_t v2 = hierarchy_limit_bytes(root, true);
  return v1 < v2 ? v1 : v2;
}

uint64_t default_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  const uint64_t machine = pages > 0 && page_bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes) : uint64_t{1} << 30;
  const uint64_t limit = cgroup_limit_bytes("");
  return (limit < machine ? limit : machine) / 4;
}

}  // namespace kvc::memory

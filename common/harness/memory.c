/* Memory of a process. See memory.h.
 * Files: proc(5), cgroups(7); the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst. */
#include "common/harness/memory.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Where control groups lie, and the names of their files. */
typedef struct group_files {
  const char *mount, *limit, *used, *cache;
} group_files;
static const group_files version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
                         version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

/* The number in a file; or, with a key, that behind the key at a line's start. False: there is none ("max", say). */
static bool read_number(const char *folder, const char *name, const char *key, size_t *number) {
  char path[PATH_MAX + 64], line[256];
  unsigned long long found;
  bool is_there = false;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  while (file && !is_there && fgets(line, sizeof line, file))
    is_there = strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), " %llu", &found) == 1;
  if (file) fclose(file);
  if (is_there) *number = (size_t)found;
  return is_there;
}

/* What one group leaves of it. What it uses counts less the caches of files that would be given up. */
static void lower(memory_bytes *m, const char *folder, const group_files *f) {
  size_t limit, used = 0, cache = 0;
  if (!read_number(folder, f->limit, "", &limit)) return;
  read_number(folder, f->used, "", &used);
  read_number(folder, "memory.stat", f->cache, &cache);
  used -= cache < used ? cache : used;
  const size_t left = used < limit ? limit - used : 0;
  if (limit < m->total) m->total = limit;
  if (left < m->available) m->available = left;
}

/* A group and those above it. A container may see none of the path, but its own group where all begin. */
static void lower_by_all(memory_bytes *m, const char *root, const group_files *f, const char *group) {
  char folder[PATH_MAX];
  const size_t top = strlen(root) + strlen(f->mount);
  if ((size_t)snprintf(folder, sizeof folder, "%s%s%s", root, f->mount, group) >= sizeof folder) return;
  for (char *end = folder + strlen(folder); end && end >= folder + top; end = strrchr(folder, '/')) {
    *end = 0;
    lower(m, folder, f);
  }
}

memory_bytes memory_of_process(const char *root) {
  char folder[PATH_MAX], line[PATH_MAX];
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  memory_bytes m = {page * (size_t)sysconf(_SC_PHYS_PAGES), page * (size_t)sysconf(_SC_AVPHYS_PAGES)};
  snprintf(folder, sizeof folder, "%s/proc", root);
  size_t kb;
  if (read_number(folder, "meminfo", "MemAvailable:", &kb)) m.available = kb << 10;
  snprintf(folder, sizeof folder, "%s/proc/self/cgroup", root);
  FILE *groups = fopen(folder, "r"); /* lines of NUMBER:CONTROLLERS:PATH; of version 2 without controllers */
  while (groups && fgets(line, sizeof line, groups)) {
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    line[strcspn(line, "\n")] = 0;
    *group++ = ',', *controllers = ',';
    if (group == controllers + 2) lower_by_all(&m, root, &version_2, group);
    else if (strstr(controllers, ",memory,")) lower_by_all(&m, root, &version_1, group);
  }
  if (groups) fclose(groups);
  return m;
}

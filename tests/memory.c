/* What control groups leave of the machine's memory: version 1 and 2, from inside of a container and outside, in a tree of files that stands for /proc and /sys. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/harness/memory.h"
#include "tests/tap.h"

static char folder[] = "/tmp/memory-XXXXXX", root[64]; /* of all trees; of the one that is looked at */

/* A file of the tree, with the folders it lies in. */
static void put(const char *path, const char *text) {
  char whole[512];
  snprintf(whole, sizeof whole, "%s%s", root, path);
  for (char *slash = whole + strlen(folder) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
    *slash = 0;
    mkdir(whole, 0777);
  }
  FILE *file = fopen(whole, "w");
  if (!file) exit(2);
  fputs(text, file);
  fclose(file);
}

/* The machine has 1 GB to give away; then the files, path and text in turns up to NULL, and what is left. 0: what the machine has. */
static void leaves(size_t total, size_t available, const char *what, ...) {
  const memory_bytes machine = memory_of_process("/nowhere");
  va_list files;
  va_start(files, what);
  snprintf(root, sizeof root, "%s/%d", folder, tap_run);
  put("/proc/meminfo", "MemTotal:        2097152 kB\nMemFree:            1024 kB\nMemAvailable:    1048576 kB\n");
  for (const char *path; (path = va_arg(files, const char *));) put(path, va_arg(files, const char *));
  va_end(files);
  const memory_bytes got = memory_of_process(root);
  if (!ok(got.total == (total ? total : machine.total) && got.available == (available ? available : 1 << 30), "%s", what))
    diag("%zu bytes, %zu of them available", got.total, got.available);
}

int main(void) {
  plan(10);
  if (!mkdtemp(folder)) return 2;
  leaves(0, 0, "no groups: the machine's", NULL);
  leaves(500 << 20, 380 << 20, "version 2, a container's own view: its limit; left are 200 MiB used less 80 of caches", "/proc/self/cgroup", "0::/\n",
         "/sys/fs/cgroup/memory.max", "524288000\n", "/sys/fs/cgroup/memory.current", "209715200\n", "/sys/fs/cgroup/memory.stat",
         "anon 1\nfile 99\ninactive_file 83886080\nactive_file 7\n", NULL);
  leaves(0, 0, "version 2 without a limit", "/proc/self/cgroup", "0::/user.slice\n", "/sys/fs/cgroup/user.slice/memory.max", "max\n", NULL);
  leaves(100 << 20, 100 << 20, "version 2: the limit of a group above counts", "/proc/self/cgroup", "0::/a/b:c\n", "/sys/fs/cgroup/a/b:c/memory.max", "max\n",
         "/sys/fs/cgroup/a/memory.max", "104857600\n", NULL);
  leaves(50 << 20, 40 << 20, "version 2: of two limits the lower", "/proc/self/cgroup", "0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max", "52428800",
         "/sys/fs/cgroup/a/b/memory.current", "10485760\n", "/sys/fs/cgroup/a/memory.max", "104857600\n", NULL);
  leaves(300 << 20, 250 << 20, "version 1: the group's limit, used less caches", "/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/docker/1\n0::/\n",
         "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "314572800\n", "/sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "104857600\n",
         "/sys/fs/cgroup/memory/docker/1/memory.stat", "inactive_file 7\ntotal_inactive_file 52428800\n", NULL);
  leaves(300 << 20, 300 << 20, "version 1 in a container that sees its group where all begin", "/proc/self/cgroup", "4:memory:/docker/1\n",
         "/sys/fs/cgroup/memory/memory.limit_in_bytes", "314572800\n", NULL);
  leaves(0, 0, "version 1 without a limit", "/proc/self/cgroup", "4:memory:/\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n", NULL);
  leaves(0, 0, "another controller's group", "/proc/self/cgroup", "4:cpu:/a\n", "/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "314572800\n", NULL);
  leaves(4096, 1, "files that make no sense: a group that uses 0 less caches than it has; no colons; an empty line", "/proc/self/cgroup", "nothing\n\n0::/a\n",
         "/sys/fs/cgroup/a/memory.max", "4096\n", "/sys/fs/cgroup/a/memory.current", "4095\n", "/sys/fs/cgroup/memory.max", "rubbish\n", NULL);
  snprintf(root, sizeof root, "rm -r %s", folder);
  return system(root) ? 2 : done_testing();
}

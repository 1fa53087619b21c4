/* From program counters to lines of the source, with the help of addr2line. See source_line.h.
 *
 * Why a program and not the line table itself: an access inside an inlined function of our headers belongs, to the reader, to the line
 * that called it; addr2line -i lists that chain of inlined calls, the line table does not know it. */
#include "common/emu/tool/source_line.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/emu/run/internal.h"

typedef struct known {
  const void *pc;
  emu_line line;
} known;

static known *table;
static size_t table_count, table_room;

static const known *find(const void *pc) {
  for (size_t i = 0; i < table_count; i++)
    if (table[i].pc == pc) return &table[i];
  return NULL;
}

static known *add(const void *pc) {
  if (table_count == table_room) {
    table_room = table_room ? 2 * table_room : 64;
    table = emu_grow(table, table_room, sizeof *table, "the lines of a report");
  }
  table[table_count] = (known){pc, {"?", 0}};
  return &table[table_count++];
}

/* Where a position-independent program was loaded: the first object of the list is the program. */
static int first_object(struct dl_phdr_info *info, size_t size, void *base) {
  (void)size;
  *(uintptr_t *)base = (uintptr_t)info->dlpi_addr;
  return 1;
}

/* Paths below the current folder are shown relative to it. */
static const char *shortened(const char *path) {
  char folder[4096];
  if (getcwd(folder, sizeof folder) == NULL) return path;
  const size_t n = strlen(folder);
  return strncmp(path, folder, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

/* "file:line" or "file:line (discriminator 2)"; of a chain of inlined calls the first that is not in our headers. */
static void read_frame(known *k, char *text) {
  char *colon = strrchr(text, ':');
  if (k == NULL || colon == NULL || atoi(colon + 1) == 0 || strncmp(text, "??", 2) == 0) return;
  *colon = '\0';
  const bool ours = k->line.line == 0 || strstr(k->line.file, "emu/include/") != NULL || strstr(k->line.file, "common/ptx/") != NULL;
  if (!ours) return;
  const char *file = strdup(shortened(text));
  if (file != NULL) k->line = (emu_line){file, atoi(colon + 1)};
}

static void say_missing(const char *tool) {
  static bool said;
  if (!said) fprintf(stderr, "emulator: %s: expected a program that finds source lines, such as addr2line of the binutils (EMU_ADDR2LINE names it)\n", tool);
  said = true;
}

static void ask(known *first, size_t count) {
  char program[4096], *command = NULL, text[8192];
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  const char *tool = getenv("EMU_ADDR2LINE") ? getenv("EMU_ADDR2LINE") : "addr2line";
  if (n < 0 || memchr(program, '\'', (size_t)n) != NULL || strchr(tool, '\'') != NULL) return; /* they become words of a shell */
  program[n] = '\0';
  uintptr_t base = 0;
  dl_iterate_phdr(first_object, &base);
  size_t length;
  FILE *to = open_memstream(&command, &length);
  if (to == NULL) return;
  fprintf(to, "'%s' -a -i -e '%s'", tool, program);
  for (size_t i = 0; i < count; i++) fprintf(to, " 0x%zx", (size_t)((uintptr_t)first[i].pc - base - 1)); /* - 1: into the call itself */
  fprintf(to, " 2>/dev/null");
  fclose(to);
  FILE *from = popen(command, "r");
  free(command);
  if (from == NULL) return;
  known *k = NULL;
  size_t at = 0; /* addresses that were answered: all, with a line or without */
  while (fgets(text, sizeof text, from)) {
    if (strncmp(text, "0x", 2) == 0) k = at < count ? &first[at++] : NULL;
    else read_frame(k, text);
  }
  pclose(from);
  if (at < count) say_missing(tool);
}

void emu_source_lines(const void *const *pcs, size_t count, emu_line *lines) {
  enum { AT_ONCE = 1000 }; /* a command line holds more, but not without end */
  const size_t before = table_count;
  for (size_t i = 0; i < count; i++)
    if (pcs[i] != NULL && find(pcs[i]) == NULL) add(pcs[i]);
  for (size_t i = before; i < table_count; i += AT_ONCE) ask(&table[i], table_count - i < AT_ONCE ? table_count - i : AT_ONCE);
  for (size_t i = 0; i < count; i++) lines[i] = pcs[i] != NULL ? find(pcs[i])->line : (emu_line){"?", 0};
}

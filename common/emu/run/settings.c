/* Numbers that the environment sets. All are read before main(), so that nonsense is refused whether or not the program would come to use it. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/emu/run/internal.h"

static struct {
  const char *name, *expected;
  uint64_t lowest, highest, value;
  bool given;
} settings[] = {
    [EMU_SET_ARCH] = {"EMU_ARCH", "a compute capability, 75, 80, 86, 89 or 90", 75, 90, 0, false},
    [EMU_SET_COUNT_BLOCKS] = {"EMU_COUNT_BLOCKS", "a number of blocks from 1, or all", 1, UINT64_MAX, 0, false},
    [EMU_SET_COUNT_LAUNCHES] = {"EMU_COUNT_LAUNCHES", "all", UINT64_MAX, UINT64_MAX, 0, false},
    [EMU_SET_LATE] = {"EMU_LATE", "0 or 1", 0, 1, 0, false},
    [EMU_SET_SEED] = {"EMU_SEED", "an integer from 0 to 18446744073709551615", 0, UINT64_MAX, 0, false},
    [EMU_SET_SMS] = {"EMU_SMS", "a number of multiprocessors, 1 to 1024", 1, 1024, 0, false},
    [EMU_SET_STACK_KB] = {"EMU_STACK_KB", "kilobytes of a CUDA thread's stack, 16 to 65536", 16, 65536, 0, false},
    [EMU_SET_THREADS] = {"EMU_THREADS", "a number of workers, 1 to 256", 1, EMU_MAX_WORKERS, 0, false},
};
enum { SETTINGS = sizeof settings / sizeof *settings };
_Static_assert(EMU_MAX_WORKERS == 256, "as the text says");

static bool read_number(int which, const char *text, uint64_t *number) {
  static const uint64_t archs[] = {75, 80, 86, 89, 90};
  char *end;
  bool known = which != EMU_SET_ARCH;
  if ((which == EMU_SET_COUNT_BLOCKS || which == EMU_SET_COUNT_LAUNCHES) && strcmp(text, "all") == 0) return *number = UINT64_MAX, true;
  errno = 0;
  *number = strtoull(text, &end, 10);
  for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) known |= *number == archs[i];
  return isdigit((unsigned char)*text) && *end == '\0' && errno == 0 && known && *number >= settings[which].lowest && *number <= settings[which].highest;
}

/* A name that is nearly one of these would be as if it were not there. */
static void refuse_others(void) {
  static const char *const texts[] = {"EMU_ADDR2LINE", "EMU_COUNT_JSON"};
  for (char **variable = environ; *variable; variable++) {
    const size_t length = strcspn(*variable, "=");
    bool known = strncmp(*variable, "EMU_", 4) != 0;
    for (int i = 0; i < SETTINGS; i++) known |= strlen(settings[i].name) == length && strncmp(*variable, settings[i].name, length) == 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) known |= strlen(texts[i]) == length && strncmp(*variable, texts[i], length) == 0;
    if (known) continue;
    fprintf(stderr, "emulator: %.*s: expected", (int)length, *variable);
    for (int i = 0; i < SETTINGS; i++) fprintf(stderr, " %s,", settings[i].name);
    fprintf(stderr, " %s or %s\n", texts[0], texts[1]);
    exit(2);
  }
}

static __attribute__((constructor)) void read_environment(void) {
  refuse_others();
  for (int i = 0; i < SETTINGS; i++) {
    const char *text = getenv(settings[i].name);
    settings[i].given = text != NULL;
    if (text == NULL || read_number(i, text, &settings[i].value)) continue;
    fprintf(stderr, "emulator: %s: expected %s, found '%s'\n", settings[i].name, settings[i].expected, text);
    exit(2);
  }
}

uint64_t emu_setting(emu_setting_name which, uint64_t otherwise) { return settings[which].given ? settings[which].value : otherwise; }

/* What a program writes: its text, files, rows at the end of files. Everything that writes goes this way.
 *
 * A file appears whole or not at all: it is written beside its place, as NAME.partial-PID-N in the folder that symlinks lead to, and takes the old file's place when
 * it is closed. A signal or an exit before that removes it. What is no regular file (a device, a FIFO) is written as it is. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct output {
  FILE *file; /* to write to; NULL: none */
  bool empty; /* of one to append to: there is nothing in it yet */
  /* the rest is output.c's */
  const char *option, *path; /* as they were given */
  int error;                 /* the first that was seen */
  dev_t device;              /* of the file that is there; its number is 0 if there is none */
  ino_t number;
  int folder; /* that the file is to appear in; -1: it is written where it is */
  dev_t folder_device;
  ino_t folder_number;
  char name[NAME_MAX + 1], partial[NAME_MAX + 1];
  volatile bool is_partial;
  off_t whole; /* bytes that end with a row, of a regular file that is appended to; else -1 */
} output;

/* The first call of main(). What is printed cannot land in a file, where standard output was closed; and text, or a file, that could not be written makes exit
 * status 1: text gets its line when the program ends. */
void output_start(void);

/* What the program reads, up to eight files: no output may take its place. The option's string is not copied. */
void output_keep(const char *option, const char *path);

/* Opens a file before any work, so that it is known that it can be written, and that nothing else is written to it. Neither string is copied. Returns NULL after
 * one line on stderr. */
output *output_open(const char *option, const char *path);

/* The same, to add rows at its end. They are there after output_flush(). */
output *output_append(const char *option, const char *path);

/* Returns 0, or -1 if anything since it was opened could not be written; output_close() says why. */
int output_flush(output *o);

/* The file takes its place. Returns 0, or -1 after one line on stderr: then the old file is as it was. NULL: 0. */
int output_close(output *o);

/* Nothing was written. NULL: the same. */
void output_discard(output *o);

/* Where a program dies: no file stays half written. Makes system calls only. */
void output_remove_partial(void);

#ifdef __cplusplus
}
#endif

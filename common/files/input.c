/* Files that are read. See input.h. */
#include "common/files/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Does a pipe, opened without waiting, have a writer, or what one has left? A byte that was read to find out is in *first, else EOF. */
static bool has_writer(int fd, int *first) {
  enum { PATIENCE = 1000 /* ms: it may just be starting */ };
  struct pollfd pipe = {.fd = fd, .events = POLLIN};
  unsigned char byte;
  *first = EOF;
  if (poll(&pipe, 1, PATIENCE) > 0) return true; /* data, or the writer has come and gone */
  const ssize_t got = read(fd, &byte, 1);
  if (got == 1) *first = byte;
  return got != 0; /* EAGAIN: one that has not written yet */
}

FILE *input_open(const char *path, bool regular, const char **why) {
  struct stat status;
  int first = EOF;
  const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  *why = NULL;
  if (fd < 0 || fstat(fd, &status)) *why = strerror(errno);
  else if (S_ISDIR(status.st_mode)) *why = strerror(EISDIR);
  else if (regular && !S_ISREG(status.st_mode)) *why = "not a regular file";
  else if (S_ISFIFO(status.st_mode) && !has_writer(fd, &first)) *why = "nobody writes into this pipe (a regular file or a pipe with a writer is right)";
  FILE *file = NULL;
  if (!*why && (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) < 0 || !(file = fdopen(fd, "r")))) *why = strerror(errno);
  if (first != EOF && file) ungetc(first, file);
  if (!file && fd >= 0) close(fd);
  return file;
}

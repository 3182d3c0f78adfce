/*
 * store: one file on its way into the model cache.
 *
 * What arrives is written to FILE.part, beside its final place, and hashed on the way; only a whole one of the expected
 * size and SHA-256 is renamed, so a file in the cache is always complete. FILE.part and FILE.part.from may stay behind
 * for a later process to continue from: the second says what the first is the beginning of. Processes that fetch the
 * same file take turns: the part file is locked while it is open.
 */
#ifndef CLI_STORE_H
#define CLI_STORE_H

#include <sha2.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

#define STORE_PATH 4096
#define STORE_PART ".part"
#define STORE_FROM ".part.from"
#define STORE_KEY 2048      /* bytes of what a part is the beginning of: an address or a hash */
#define STORE_VALIDATOR 256 /* bytes of what the server called that version of it */
#define STORE_HEX (2 * SHA256_DIGEST_LENGTH + 1)

struct store {
    char path[STORE_PATH], part[STORE_PATH + 16], from[STORE_PATH + 16];
    int fd; /* of the part, locked; -1 = closed */
    SHA2_CTX hash;
    uint64_t size; /* bytes of the part, all of them hashed */
    uint64_t room_at; /* size at which the disk is looked at again */
};

/* Makes the folders, opens the part and waits for its lock. ST_CANCELLED after a signal. On failure it is closed. */
MUST_CHECK enum status store_open(struct store *s, const char *path, struct err *e);

/* Keeps what the part holds if it is the beginning of `key`, else empties it. `validator` gets the server's name of that
 * version, which may be "". */
MUST_CHECK enum status store_resume(struct store *s, const char *key, char validator[STORE_VALIDATOR], struct err *e);

/* Empties the part. */
MUST_CHECK enum status store_restart(struct store *s, struct err *e);

/* Says what the part is the beginning of. */
MUST_CHECK enum status store_note(struct store *s, const char *key, const char *validator, struct err *e);

/* Looks now and then whether the disk has room left: ST_IO when it has not. */
MUST_CHECK enum status store_write(struct store *s, const void *data, size_t n, struct err *e);

/* ST_IO unless the disk that `path` lies on has room for `bytes` more of `name`. */
MUST_CHECK enum status store_room(const char *path, const char *name, uint64_t bytes, struct err *e);

/* Gives the part its name when it is a GGUF file of `bytes` bytes (0 = any) and that SHA-256 (NULL = any); `name` is what
 * the texts call it. ST_MODEL when it is something else. */
MUST_CHECK enum status store_publish(struct store *s, const char *name, uint64_t bytes, const char *sha256,
                                     struct err *e);

/* Closes it; what the part holds is removed unless `keep`. */
void store_close(struct store *s, bool keep);

/* Compares the SHA-256 of a file with `sha256`: ST_MODEL when it is another one. */
MUST_CHECK enum status store_verify(const char *path, const char *name, const char *sha256, struct err *e);

/* Is `path` still what the open file is called? Whoever had its lock before may have renamed or removed it. */
bool store_is_still(int fd, const char *path);

/* Is `s` a SHA-256 in hexadecimal? */
bool store_is_sha256(const char *s);

#endif

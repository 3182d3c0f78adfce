/*
 * packed: panels in a file, private to weights/.
 *
 * A file <key>.panels holds the panels of one model exactly as they lie in memory, so that using it means mapping it. Its
 * first PACKED_CHUNK bytes are the head: what the file is, a hash of each chunk of panels, and a hash of all that. Panels
 * follow in whole chunks, the last one filled up with zeros. Numbers are in the machine's own order: it is no format for
 * exchange.
 *
 * Never a wrong number. The key is a hash of everything the panels depend on: each source file's device, inode, size,
 * ctime and header bytes; name, type, shape, place and first 4 KiB of each matrix; what this build's packer makes of a
 * known matrix of each type. So a changed source or another layout never meets an old file. It is the ctime because no
 * program can set that, as "cp -p" and rsync set the mtime; a model that is renamed, linked or has other permissions has a
 * new one too, and is packed once more. Every chunk is hashed when a file is
 * found, which reads it into memory besides; a damaged one is removed and made anew. Only files of this user that nobody
 * else may write are looked at.
 *
 * A file is made without a name (O_TMPFILE), filled, and linked into the folder when it is complete: a process that dies
 * leaves nothing, and of two that make the same file at once both are right. It is not forced to the disk: what a crash
 * of the machine leaves half written does not have its hashes. It is never changed afterwards; somebody who shortens it
 * while it is mapped gets this process a SIGBUS, as with any mapped file.
 *
 * Huge pages or nothing. Panels are read from end to end for each token, and from pages of 4 KiB that takes about 15 %
 * longer. Where files do not get huge pages (ext4 before Linux 6.16, for one), they are not kept; and a file that did not
 * get them this time, because memory is in pieces, is copied.
 */
#ifndef WEIGHTS_PACKED_H
#define WEIGHTS_PACKED_H

#include "weights/weights.h"

#define PACKED_CHUNK ((size_t)2 << 20) /* a huge page; also the unit of hashing */
#define PACKED_KEY 16u                 /* bytes */
#define PACKED_PATH 4096u

struct packed_file {
    int fd;       /* locked (shared) while it is used, so that nobody makes room by removing it; -1 = there is no file */
    uint8_t *map; /* begins at a multiple of PACKED_CHUNK */
    size_t bytes; /* mapped: a multiple of PACKED_CHUNK */
};

/* --- packed_file.c: one file ----------------------------------------------------------------------------------------- */

/* Of the file for `bytes` of panels; 0 when there cannot be one. */
size_t packed_file_bytes(size_t bytes);

/* Maps the file at `path`, read-only, if it is what `key` says, whole and undamaged; `bytes` are those of the panels. A
 * file that is found to be something else is removed, one that cannot be read now is left. *huge: in huge pages, all but a
 * few. */
bool packed_file_find(struct packed_file *f, const char *path, const uint8_t key[PACKED_KEY], size_t bytes,
                      struct pool *pool, bool *huge);

/* Makes the folder, if the one above it is there, and maps a new file without a name. Only its first chunks are filled,
 * which shows whether files there get huge pages: where they do not, this is all that a start pays, and nothing is removed
 * to make room. False, with a line in the log, then and when this process may not have such a file. */
bool packed_file_make(struct packed_file *f, const char *dir, size_t bytes, bool small_pages, struct pool *pool);

/* Takes all of its space, and fills it with zeros to be written over. False, with a line in the log and the file released,
 * when there is no space, and as soon as too many of its pages are small ones. */
bool packed_file_fill(struct packed_file *f, const char *dir, bool small_pages, struct pool *pool);

/* Completes what packed_file_fill() filled and names it; it can only be read from now on. False, with a line in the log,
 * when it could not be named: the mapping stays good. */
bool packed_file_keep(struct packed_file *f, const char *path, const uint8_t key[PACKED_KEY], struct pool *pool);
void packed_file_release(struct packed_file *f);

/* --- packed_dir.c: the folder ---------------------------------------------------------------------------------------- */

/* <dir>/<key>.panels; false when that is too long. */
bool packed_dir_path(char path[PACKED_PATH], const char *dir, const uint8_t key[PACKED_KEY]);

/* Removes files that nobody uses, the one that was used longest ago first, until `bytes` more fit below `most`. False
 * when they do not. */
bool packed_dir_room(const char *dir, uint64_t most, uint64_t bytes);

#endif

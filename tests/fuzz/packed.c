/*
 * packed: a file of kept panels, written over at any places and cut short. It is used exactly if what is read of it is what
 * was kept, and removed otherwise. An input is how many of the file's last bytes are cut off, 0 to 255, and then changes:
 * three bytes of place and one of value.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/kit/fuzz.h"
#include "weights/packed.h"

#define BYTES (2 * PACKED_CHUNK) /* a head and one chunk */
#define HEAD 64                  /* bytes of it that are read: with the hash of one chunk */
#define FILL 7                   /* every byte of the chunk */

static const uint8_t key[PACKED_KEY] = "a model's key";
static char dir[64], kept[96], path[96]; /* two names of one file, of which `path` may be removed */
static uint8_t good[BYTES], changed[BYTES];
static struct pool *pool;

static void clean(void)
{
    unlink(kept);
    unlink(path);
    rmdir(dir);
}

/* Makes a good file; false where there can be none. */
static bool make(void)
{
    struct packed_file f;
    if (!packed_file_make(&f, dir, PACKED_CHUNK, true, pool) || !packed_file_fill(&f, dir, true, pool)) {
        printf("note: no packed file can be made in %s: its reader is NOT TESTED\n", dir);
        return false;
    }
    memset(f.map, FILL, f.bytes);
    FUZZ_CHECK(packed_file_keep(&f, kept, key, pool), "it is not kept");
    packed_file_release(&f);
    int fd = open(kept, O_RDONLY | O_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && pread(fd, good, BYTES, 0) == (ssize_t)BYTES, "it has another size");
    close(fd);
    return true;
}

static bool begin(void)
{
    static bool begun, can;
    if (!begun) {
        begun = true;
        log_set_level(LOG_SILENT);
        snprintf(dir, sizeof dir, "/tmp/ffwd-fuzz-XXXXXX");
        FUZZ_CHECK(mkdtemp(dir) && pool_new(&pool, 1, NULL) == ST_OK, "no folder");
        snprintf(kept, sizeof kept, "%s/kept", dir);
        snprintf(path, sizeof path, "%s/file", dir);
        atexit(clean);
        can = make();
    }
    return can;
}

/* Gives the file these bytes, in place of others, and its second name. */
static void write_file(size_t size)
{
    FUZZ_CHECK(chmod(kept, 0600) == 0, "it cannot be written");
    int fd = open(kept, O_WRONLY | O_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, changed, size, 0) == (ssize_t)size, "it cannot be written");
    close(fd);
    unlink(path);
    FUZZ_CHECK(link(kept, path) == 0, "it cannot be linked");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz f = {(const char *)data, n};
    struct packed_file found;
    bool huge;
    if (!begin())
        return 0;
    size_t size = BYTES - fuzz_byte(&f);
    memcpy(changed, good, BYTES);
    while (f.n >= 4) {
        size_t at = fuzz_byte(&f);
        at = at << 8 | fuzz_byte(&f);
        at = at << 8 | fuzz_byte(&f);
        changed[at % BYTES] = fuzz_byte(&f);
    }
    write_file(size);
    bool same = size == BYTES && memcmp(changed, good, HEAD) == 0 &&
                memcmp(changed + PACKED_CHUNK, good + PACKED_CHUNK, PACKED_CHUNK) == 0;
    bool used = packed_file_find(&found, path, key, PACKED_CHUNK, pool, &huge);
    FUZZ_CHECK(used == same, "%s", used ? "it is used" : "it is not used");
    FUZZ_CHECK((access(path, F_OK) == 0) == same, "%s", same ? "it is removed" : "it is left");
    FUZZ_CHECK(!used || (found.bytes == PACKED_CHUNK && found.map[0] == FILL), "something else is mapped");
    packed_file_release(&found);
    return 0;
}

/* packed_dir: the folder of packed weights, and its ceiling. A file's time of change is when it was last used. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "weights/packed.h"

#define ENDING ".panels"
#define NAME_BYTES (2 * PACKED_KEY + sizeof ENDING)

bool packed_dir_path(char path[PACKED_PATH], const char *dir, const uint8_t key[PACKED_KEY])
{
    char hex[2 * PACKED_KEY + 1];
    for (uint32_t i = 0; i < PACKED_KEY; i++)
        snprintf(hex + 2 * i, 3, "%02x", key[i]);
    int n = snprintf(path, PACKED_PATH, "%s/%s" ENDING, dir, hex);
    return n > 0 && (size_t)n < PACKED_PATH;
}

static bool is_ours(const char *name)
{
    return strlen(name) == NAME_BYTES - 1 && strspn(name, "0123456789abcdef") == 2 * PACKED_KEY &&
           strcmp(name + 2 * PACKED_KEY, ENDING) == 0;
}

/* Users hold a shared lock. */
static bool in_use(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool used = flock(fd, LOCK_EX | LOCK_NB) != 0;
    close(fd);
    return used;
}

struct found {
    uint64_t total;          /* bytes of all files */
    char oldest[NAME_BYTES]; /* of those that nobody uses; "" = there is none */
    struct timespec when;
};

static bool older(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static struct found look(DIR *d)
{
    struct found f = {0};
    struct stat st;
    rewinddir(d);
    for (struct dirent *ent; (ent = readdir(d));) {
        if (!is_ours(ent->d_name) || fstatat(dirfd(d), ent->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        f.total += (uint64_t)st.st_size;
        if ((f.oldest[0] && !older(&st.st_mtim, &f.when)) || in_use(dirfd(d), ent->d_name))
            continue;
        memcpy(f.oldest, ent->d_name, NAME_BYTES);
        f.when = st.st_mtim;
    }
    return f;
}

/* What all files may take where nothing else was asked for. */
static uint64_t usual(DIR *d, uint64_t total)
{
    struct statvfs fs;
    if (fstatvfs(dirfd(d), &fs) != 0)
        return 0;
    uint64_t share = ((uint64_t)fs.f_bavail * fs.f_frsize + total) / LIMIT_PACKED_SHARE;
    return share < LIMIT_PACKED ? share : LIMIT_PACKED;
}

bool packed_dir_room(const char *dir, uint64_t most, uint64_t bytes)
{
    DIR *d = opendir(dir);
    if (!d)
        return false;
    struct found f = look(d);
    if (most == 0)
        most = usual(d, f.total);
    bool fits = bytes <= most;
    while (fits && f.total > most - bytes) {
        fits = f.oldest[0] && unlinkat(dirfd(d), f.oldest, 0) == 0;
        f = look(d);
    }
    closedir(d);
    return fits;
}

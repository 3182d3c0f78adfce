/* map: bytes of a model file in memory, and a clear refusal of files that are something else. See gguf.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weights/gguf.h"

/* What people hand over by mistake, by its first bytes. */
static const struct {
    const char *bytes;
    size_t n;
    const char *what;
} foreign[] = {
    {"PK\3\4", 4, "is a ZIP archive (a PyTorch checkpoint, perhaps)"},
    {"\x80\x02", 2, "is a Python pickle (a PyTorch checkpoint, perhaps)"},
    {"version https://git-lfs", 23, "is a Git LFS pointer, not the model itself"},
    {"lmgg", 4, "is in the GGML format that GGUF replaced"},
    {"fmgg", 4, "is in the GGML format that GGUF replaced"},
    {"tjgg", 4, "is in the GGML format that GGUF replaced"},
    {"FUGG", 4, "has its bytes in big-endian order"},
    {"\x1f\x8b", 2, "is compressed (gzip)"},
    {"\x28\xb5\x2f\xfd", 4, "is compressed (zstd)"},
    {"\xfd" "7zXZ", 5, "is compressed (xz)"},
    {"BZh", 3, "is compressed (bzip2)"},
    {"\x7f" "ELF", 4, "is a program (ELF)"},
    {"\x93NUMPY", 6, "is a NumPy array"},
    {"\x89HDF", 4, "is an HDF5 file"},
    {"{", 1, "is a JSON file"},
};

static bool looks_html(const uint8_t *p, size_t n)
{
    size_t i = 0;
    if (n >= 3 && memcmp(p, "\xEF\xBB\xBF", 3) == 0)
        i = 3;
    while (i < n && (p[i] == ' ' || p[i] == '\t' || p[i] == '\r' || p[i] == '\n'))
        i++;
    return i < n && p[i] == '<';
}

/* Safetensors: a 64-bit length, then that much JSON. */
static bool looks_safetensors(const uint8_t *p, size_t n)
{
    uint64_t header;
    if (n < 9)
        return false;
    memcpy(&header, p, sizeof header);
    return header >= 2 && header <= n - 8 && p[8] == '{';
}

/* NULL when the bytes begin like GGUF, otherwise what they seem to be. */
static const char *foreign_kind(const uint8_t *p, size_t n, char other[static 64])
{
    if (n == 0)
        return "is empty";
    if (n >= 4 && memcmp(p, "GGUF", 4) == 0)
        return NULL;
    if (looks_html(p, n))
        return "is a web page (HTML or XML; was a login needed to download it?)";
    if (looks_safetensors(p, n))
        return "is a safetensors file";
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (n >= foreign[i].n && memcmp(p, foreign[i].bytes, foreign[i].n) == 0)
            return foreign[i].what;
    if (n < 4)
        return "is too short to be a model";
    snprintf(other, 64, "begins with the bytes %02x %02x %02x %02x", p[0], p[1], p[2], p[3]);
    return other;
}

static enum status check_foreign(const struct gguf_file *f, struct err *e)
{
    char other[64];
    const char *kind = foreign_kind(f->base, f->size, other);
    if (kind)
        return err_set(e, ST_MODEL, f->path, "%s %s; a GGUF model file was expected", f->shown, kind);
    return ST_OK;
}

static const char *special_kind(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR: return "a directory";
    case S_IFIFO: return "a pipe";
    case S_IFCHR:
    case S_IFBLK: return "a device";
    case S_IFSOCK: return "a socket";
    default: return "not a regular file";
    }
}

static enum status refuse_special(const struct gguf_file *f, const struct stat *st, struct err *e)
{
    if (S_ISREG(st->st_mode))
        return ST_OK;
    return err_set(e, ST_MODEL, f->path, "%s is %s; a GGUF model file was expected", f->shown,
                   special_kind(st->st_mode));
}

/* Sets path and shown: the end of a long path, from a whole character on. */
static enum status set_path(struct gguf_file *f, const char *path, struct err *e)
{
    f->path = strdup(path);
    if (!f->path)
        return err_set(e, ST_NO_MEMORY, path, "no memory to open the model");
    size_t n = strlen(path), skip = n > GGUF_SHOWN ? n - GGUF_SHOWN : 0;
    while (skip && ((unsigned char)path[skip] & 0xC0) == 0x80)
        skip++;
    f->shown = f->path + skip;
    return ST_OK;
}

static enum status map_fd(struct gguf_file *f, int fd, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_errno(e, ST_IO, f->path, "cannot examine %s", f->shown);
    TRY(refuse_special(f, &st, e));
    f->size = (size_t)st.st_size;
    if (f->size == 0)
        return check_foreign(f, e);
    void *p = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return err_errno(e, errno == ENOMEM ? ST_NO_MEMORY : ST_IO, f->path, "cannot map %s", f->shown);
    f->base = p;
    f->mapped = true;
    f->identity[0] = st.st_dev;
    f->identity[1] = st.st_ino;
    f->identity[2] = (uint64_t)st.st_ctim.tv_sec;
    f->identity[3] = (uint64_t)st.st_ctim.tv_nsec;
    madvise(p, f->size, MADV_SEQUENTIAL); /* headers and tensors are each read once, front to back */
    return check_foreign(f, e);
}

/* Opening a device can do things, and a pipe waits for its writer: look before opening, and again at what was opened.
 */
static enum status open_and_map(struct gguf_file *f, const char *part, struct err *e)
{
    struct stat st;
    if (stat(f->path, &st) != 0)
        return err_errno(e, ST_IO, f->path, "cannot open %s%s", f->shown, part);
    TRY(refuse_special(f, &st, e));
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return err_errno(e, ST_IO, f->path, "cannot open %s%s", f->shown, part);
    enum status s = map_fd(f, fd, e);
    close(fd); /* the mapping keeps the file */
    return s;
}

enum status gguf_map(struct gguf_file *f, const char *path, const char *part, struct err *e)
{
    *f = (struct gguf_file){0};
    enum status s = set_path(f, path, e);
    if (s == ST_OK)
        s = open_and_map(f, part, e);
    if (s != ST_OK)
        gguf_release(f);
    return s;
}

enum status gguf_borrow(struct gguf_file *f, const char *name, const void *bytes, size_t size, struct err *e)
{
    *f = (struct gguf_file){.base = bytes, .size = size};
    enum status s = set_path(f, name, e);
    if (s == ST_OK)
        s = check_foreign(f, e);
    if (s != ST_OK)
        gguf_release(f);
    return s;
}

void gguf_release(struct gguf_file *f)
{
    if (f->mapped)
        munmap((void *)(uintptr_t)f->base, f->size);
    free(f->path);
    free(f->meta);
    free(f->keys);
    free(f->tensors);
    *f = (struct gguf_file){0};
}

static void advise(const struct gguf_file *f, uintptr_t from, uintptr_t to, int advice)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    from = from / page * page; /* the pages before belong to the same mapping, which begins at a page */
    if (f->mapped && to > from)
        madvise((void *)from, to - from, advice);
}

void gguf_will_need(const struct gguf_file *f, const void *at, size_t bytes)
{
    advise(f, (uintptr_t)at, (uintptr_t)at + bytes, MADV_WILLNEED);
}

/* The first page may hold the end of the tensor before: it is read again from the page cache if it is still needed.
 * The last one is left for the tensor after, whose first page it is. */
void gguf_forget(const struct gguf_file *f, const void *at, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = (uintptr_t)at + bytes;
    advise(f, (uintptr_t)at, end / page * page, MADV_DONTNEED);
}

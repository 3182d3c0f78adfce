/* packed: panels that are kept between processes are found again, and never wrong ones. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffwd.h"
#include "gguf_write.h"
#include "quant.h"
#include "weights/gguf.h"
#include "weights/packed.h"

#define MATRICES 3
#define COLS 512u
#define ROWS 8192u      /* of the largest: several chunks of panels */
#define FILE_CHUNKS 4   /* of a kept file, head included; test_found() looks */
#define HEAD_BYTES (56 + 8 * (FILE_CHUNKS - 1))

static char dir[64], model[96], store_dir[96];
static struct pool *pool;

static struct packed_store store_of(void)
{
    return (struct packed_store){.dir = store_dir, .least = 1, .small_pages = true, .most = 1 << 30};
}

/* --- models ---------------------------------------------------------------------------------------------------------- */

static const uint64_t shape[MATRICES][2] = {{COLS, ROWS}, {256, 33}, {COLS, 1001}};
static const enum tiny_type type[MATRICES] = {TINY_Q8_0, TINY_Q4_K, TINY_BF16};

static void add_matrix(struct gw *g, int i, uint32_t seed)
{
    char name[8];
    size_t n = tiny_row_bytes(type[i], shape[i][0] * shape[i][1]);
    uint8_t *data = malloc(n);
    assert_non_null(data);
    for (size_t k = 0; k < n; k++)
        data[k] = (uint8_t)((k + seed) * 2654435761u >> 15);
    snprintf(name, sizeof name, "m%d", i);
    gw_tensor(g, name, type[i], 2, shape[i], data, n);
    free(data);
}

static void save(const struct gw *g, const char *path)
{
    struct buf b;
    buf_init(&b, (size_t)1 << 30);
    assert_true(gw_build(g, &b) && gw_save(path, b.data, b.len));
    buf_release(&b);
}

/* The vector between the matrices has no panels. */
static void write_model(const char *path, const char *name, uint32_t seed)
{
    struct gw g;
    gw_init(&g);
    gw_text(&g, "general.name", name);
    add_matrix(&g, 0, seed);
    gw_tensor(&g, "norm", TINY_F32, 1, (uint64_t[]){7}, NULL, 28);
    add_matrix(&g, 1, seed + 1);
    add_matrix(&g, 2, seed + 2);
    save(&g, path);
    gw_release(&g);
}

static struct weights *open_ok(const char *path)
{
    struct weights *w;
    struct err e;
    if (weights_open(&w, path, &e) != ST_OK)
        fail_msg("%s", e.text);
    return w;
}

/* A model with its panels, all of them asked for and kept. */
struct loaded {
    struct weights *w;
    struct packed *p;
    struct kern_mat mat[MATRICES];
};

static struct loaded load_with(const char *path, const struct packed_store *s, struct pool *workers)
{
    struct loaded l = {.w = open_ok(path)};
    struct err e;
    if (packed_new(&l.p, l.w, s, workers, &e) != ST_OK)
        fail_msg("%s", e.text);
    for (int i = MATRICES; i-- > 0;) { /* in another order than they lie in */
        char name[8];
        snprintf(name, sizeof name, "m%d", i);
        const struct tensor *t = weights_find(l.w, name);
        if (t)
            packed_matrix(l.p, t, workers, &l.mat[i]);
    }
    packed_keep(l.p, workers);
    return l;
}

static void unload(struct loaded *l)
{
    packed_free(l->p);
    weights_free(l->w);
}

static void same_panels(const struct kern_mat *a, const struct kern_mat *b)
{
    assert_true(a->type == b->type && a->rows == b->rows && a->cols == b->cols && a->stride == b->stride);
    assert_memory_equal(a->panels, b->panels, kern_mat_bytes(a->type, a->rows, a->cols));
}

/* Loads the model; its panels are those of a load without a store. Where they came from. */
static enum packed_origin load(const char *path, const struct packed_store *s)
{
    struct loaded plain = load_with(path, NULL, pool), l = load_with(path, s, pool);
    assert_int_equal(packed_origin(plain.p), PACKED_HERE);
    for (int i = 0; i < MATRICES; i++)
        same_panels(&l.mat[i], &plain.mat[i]);
    enum packed_origin origin = packed_origin(l.p);
    unload(&l);
    unload(&plain);
    return origin;
}

/* --- the folder ------------------------------------------------------------------------------------------------------ */

static void each_file(void (*fn)(const char *path))
{
    DIR *d = opendir(store_dir);
    char path[512];
    for (struct dirent *ent; d && (ent = readdir(d));) {
        if (ent->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", store_dir, ent->d_name);
        fn(path);
    }
    if (d)
        closedir(d);
}

static int seen;
static char last[512];

static void note(const char *path)
{
    seen++;
    snprintf(last, sizeof last, "%s", path);
}

static int files(void)
{
    seen = 0;
    each_file(note);
    return seen;
}

static void drop(const char *path)
{
    assert_int_equal(remove(path), 0);
}

/* An empty store and a model that it does not know. */
static int setup(void **state)
{
    (void)state;
    each_file(drop);
    write_model(model, "one", 1);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ffwd-packed-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(model, sizeof model, "%s/model.gguf", dir);
    snprintf(store_dir, sizeof store_dir, "%s/packed", dir);
    log_set_level(LOG_SILENT);
    return pool_new(&pool, 2, NULL) == ST_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    each_file(drop);
    pool_free(pool);
    remove(model);
    rmdir(store_dir);
    return rmdir(dir);
}

/* Skips a test where /tmp has no files without names, on which all that is kept depends. */
static void need_files(void)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || fallocate(fd, 0, 0, 4096) != 0)
        skip();
    close(fd);
}

/* --- found again ----------------------------------------------------------------------------------------------------- */

static void test_found(void **state)
{
    struct packed_store s = store_of();
    struct stat st;
    (void)state;
    need_files();
    assert_int_equal(load(model, &s), PACKED_KEPT);
    assert_int_equal(files(), 1);
    assert_int_equal(stat(last, &st), 0);
    assert_int_equal(st.st_size, FILE_CHUNKS * PACKED_CHUNK);
    assert_int_equal(st.st_mode & 0777, 0600);
    for (int i = 0; i < 3; i++)
        assert_int_equal(load(model, &s), PACKED_FOUND);
    assert_int_equal(files(), 1);
}

/* Without a store, below its least size, from memory instead of a file, and where loading ends early. */
static void test_not_kept(void **state)
{
    struct packed_store s = store_of(), none = {0}, large = store_of();
    (void)state;
    large.least = 0;
    assert_int_equal(load(model, &none), PACKED_HERE);
    assert_int_equal(load(model, &large), PACKED_HERE);
    struct weights *w = open_ok(model);
    struct packed *p;
    assert_int_equal(packed_new(&p, w, &s, pool, NULL), ST_OK);
    packed_free(p);
    weights_free(w);
    assert_int_equal(files(), 0);

    struct gw g;
    struct buf b;
    gw_init(&g);
    add_matrix(&g, 1, 5);
    buf_init(&b, 1 << 20);
    assert_true(gw_build(&g, &b));
    assert_int_equal(gguf_open_bytes(&w, "bytes", b.data, b.len, NULL), ST_OK);
    assert_int_equal(packed_new(&p, w, &s, pool, NULL), ST_OK);
    packed_keep(p, pool);
    assert_int_equal(packed_origin(p), PACKED_HERE);
    packed_free(p);
    weights_free(w);
    buf_release(&b);
    gw_release(&g);
    assert_int_equal(files(), 0);
}

/* --- another source -------------------------------------------------------------------------------------------------- */

static void set_time(const char *path, struct timespec when)
{
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){when, when}, 0), 0);
}

static void flip(const char *path, off_t at)
{
    uint8_t byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void test_changed_source(void **state)
{
    struct packed_store s = store_of();
    struct stat st;
    char moved[128];
    (void)state;
    need_files();
    assert_int_equal(load(model, &s), PACKED_KEPT);
    assert_int_equal(stat(model, &st), 0);
    st.st_mtim.tv_sec--;
    set_time(model, st.st_mtim);
    assert_int_equal(load(model, &s), PACKED_KEPT); /* touched */
    assert_int_equal(load(model, &s), PACKED_FOUND);
    snprintf(moved, sizeof moved, "%s.moved", model);
    assert_int_equal(rename(model, moved), 0);
    assert_int_equal(load(moved, &s), PACKED_KEPT); /* renamed, which nothing tells from a change */
    write_model(model, "one", 1);
    set_time(model, st.st_mtim);
    assert_int_equal(load(model, &s), PACKED_KEPT); /* a copy: another inode */
    assert_int_equal(remove(moved), 0);
    assert_int_equal(stat(model, &st), 0);
    write_model(model, "two", 1); /* other metadata of the same size, in place and at the same time */
    set_time(model, st.st_mtim);
    assert_int_equal(load(model, &s), PACKED_KEPT);
    assert_int_equal(files(), 5);
}

/* The ctime tells when the file was written, whatever the mtime is set to. */
static void test_changed_data(void **state)
{
    struct packed_store s = store_of();
    struct stat before, after;
    (void)state;
    need_files();
    assert_int_equal(load(model, &s), PACKED_KEPT);
    assert_int_equal(stat(model, &before), 0);
    flip(model, before.st_size - 1); /* beyond what is looked at of any matrix */
    set_time(model, before.st_mtim);
    assert_int_equal(stat(model, &after), 0);
    assert_true(after.st_ino == before.st_ino && after.st_size == before.st_size);
    assert_memory_equal(&after.st_mtim, &before.st_mtim, sizeof before.st_mtim);
    assert_int_equal(load(model, &s), PACKED_KEPT);
    assert_int_equal(files(), 2);
}

/* Data at the beginning of a matrix tell even where the file looks untouched. */
static void test_changed_sample(void **state)
{
    struct packed_store s = store_of();
    (void)state;
    need_files();
    assert_int_equal(load(model, &s), PACKED_KEPT);
    for (size_t i = 0; i < MATRICES; i++) {
        struct weights *w = open_ok(model);
        struct packed *p;
        char name[8];
        snprintf(name, sizeof name, "m%zu", i);
        uint8_t *byte = (uint8_t *)(uintptr_t)weights_find(w, name)->data + 100;
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)byte / page * page;
        assert_int_equal(mprotect((void *)at, page, PROT_READ | PROT_WRITE), 0);
        *byte ^= 1;
        assert_int_equal(packed_new(&p, w, &s, pool, NULL), ST_OK);
        assert_int_equal(packed_origin(p), PACKED_HERE);
        packed_free(p);
        weights_free(w);
    }
    assert_int_equal(load(model, &s), PACKED_FOUND);
}

/* Every part of a split model counts. */
static void test_split(void **state)
{
    struct packed_store s = store_of();
    char part[2][128];
    struct stat st;
    (void)state;
    need_files();
    for (uint16_t i = 0; i < 2; i++) {
        struct gw g;
        snprintf(part[i], sizeof part[i], "%s/split-%05u-of-00002.gguf", dir, i + 1u);
        gw_init(&g);
        gw_key(&g, "split.no", GW_U16, &i, sizeof i);
        gw_key(&g, "split.count", GW_U16, &(uint16_t){2}, sizeof(uint16_t));
        gw_key(&g, "split.tensors.count", GW_U16, &(uint16_t){2}, sizeof(uint16_t));
        add_matrix(&g, i, i);
        save(&g, part[i]);
        gw_release(&g);
    }
    for (int i = 0; i < 4; i++) {
        struct loaded l = load_with(part[i % 2], &s, pool), plain = load_with(part[0], NULL, pool);
        assert_int_equal(packed_origin(l.p), i % 2 == 0 ? PACKED_KEPT : PACKED_FOUND);
        same_panels(&l.mat[0], &plain.mat[0]);
        same_panels(&l.mat[1], &plain.mat[1]);
        unload(&l);
        unload(&plain);
        if (i == 1) {
            assert_int_equal(stat(part[1], &st), 0);
            st.st_mtim.tv_sec--;
            set_time(part[1], st.st_mtim);
        }
    }
    remove(part[0]);
    remove(part[1]);
}

/* --- damage ---------------------------------------------------------------------------------------------------------- */

/* Damaged at `at`, or shortened or lengthened to `size` where that is not 0: packed anew, and the next load is well. */
static void repaired(off_t at, off_t size)
{
    struct packed_store s = store_of();
    assert_int_equal(files(), 1);
    if (size)
        assert_int_equal(truncate(last, size), 0);
    else
        flip(last, at);
    assert_int_equal(load(model, &s), PACKED_KEPT);
    assert_int_equal(load(model, &s), PACKED_FOUND);
}

static void test_damaged(void **state)
{
    struct packed_store s = store_of();
    const off_t whole = FILE_CHUNKS * PACKED_CHUNK;
    (void)state;
    need_files();
    assert_int_equal(load(model, &s), PACKED_KEPT);
    for (off_t at = 0; at < HEAD_BYTES; at++) /* magic, version, sizes, key, hashes */
        repaired(at, 0);
    const off_t places[] = {PACKED_CHUNK, PACKED_CHUNK + 12345, whole / 2, whole - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        repaired(places[i], 0);
    const off_t sizes[] = {1, HEAD_BYTES, PACKED_CHUNK, whole - PACKED_CHUNK, whole - 1, whole + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        repaired(0, sizes[i]);
}

/* Not ours alone, or no file at all: neither used nor followed, and packed as ever. */
static void test_not_trusted(void **state)
{
    struct packed_store s = store_of();
    char moved[600], kept[512];
    (void)state;
    need_files();
    assert_int_equal(load(model, &s), PACKED_KEPT);
    assert_int_equal(files(), 1);
    snprintf(kept, sizeof kept, "%s", last);
    assert_int_equal(chmod(kept, 0620), 0);
    assert_int_equal(load(model, &s), PACKED_KEPT);
    assert_int_equal(load(model, &s), PACKED_FOUND);
    snprintf(moved, sizeof moved, "%s/elsewhere", dir);
    assert_int_equal(rename(kept, moved), 0);
    assert_int_equal(symlink(moved, kept), 0);
    assert_int_equal(load(model, &s), PACKED_KEPT);
    assert_int_equal(access(moved, F_OK), 0);
    remove(moved);
    remove(kept);
    assert_int_equal(mkdir(kept, 0700), 0);
    assert_int_equal(load(model, &s), PACKED_HERE);
    rmdir(kept);
}

/* --- no room --------------------------------------------------------------------------------------------------------- */

static void test_no_room(void **state)
{
    struct packed_store s = store_of(), tight = store_of(), nowhere = store_of(), under = store_of();
    struct rlimit before, small;
    char file[128], below[160], missing[128];
    (void)state;
    tight.most = FILE_CHUNKS * PACKED_CHUNK - 1;
    assert_int_equal(load(model, &tight), PACKED_HERE);

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = PACKED_CHUNK;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0); /* going beyond it would be a signal */
    enum packed_origin limited = load(model, &s);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(limited, PACKED_HERE);

    snprintf(missing, sizeof missing, "%s/not/there", dir);
    nowhere.dir = missing;
    assert_int_equal(load(model, &nowhere), PACKED_HERE);
    snprintf(file, sizeof file, "%s/file", dir);
    assert_true(gw_save(file, "x", 1));
    snprintf(below, sizeof below, "%s/packed", file);
    under.dir = below;
    assert_int_equal(load(model, &under), PACKED_HERE);
    remove(file);
    assert_int_equal(files(), 0);
}

/* A folder that this user may not write to. Root may write to any, so it becomes somebody else meanwhile. */
static void test_read_only(void **state)
{
    struct packed_store s = store_of();
    const uid_t self = geteuid();
    (void)state;
    need_files();
    assert_int_equal(load(model, &s), PACKED_KEPT);
    each_file(drop);
    assert_true(chmod(dir, 0755) == 0 && chmod(store_dir, 0555) == 0);
    if (self == 0)
        assert_int_equal(seteuid(65534), 0);
    enum packed_origin origin = load(model, &s);
    if (self == 0)
        assert_int_equal(seteuid(self), 0);
    assert_int_equal(chmod(store_dir, 0700), 0);
    assert_int_equal(origin, PACKED_HERE);
    assert_int_equal(files(), 0);
}

/* Nobody holds the one file. */
static bool file_is_free(void)
{
    int fd = files() == 1 ? open(last, O_RDONLY | O_CLOEXEC) : -1;
    bool is_free = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0)
        close(fd);
    return is_free;
}

/* --- small pages ----------------------------------------------------------------------------------------------------- */

/* Files in memory have small pages where the system does not give them huge ones. */
static bool small_store;
static char usual_store[sizeof store_dir];

static int small_setup(void **state)
{
    char never[64] = "", shm[] = "/dev/shm/ffwd-packed-XXXXXX";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
    small_store = f && fgets(never, sizeof never, f) && strstr(never, "[never]") && mkdtemp(shm);
    if (f)
        fclose(f);
    memcpy(usual_store, store_dir, sizeof usual_store);
    if (small_store)
        snprintf(store_dir, sizeof store_dir, "%s", shm);
    return setup(state);
}

static int small_teardown(void **state)
{
    (void)state;
    each_file(drop);
    if (small_store)
        rmdir(store_dir);
    memcpy(store_dir, usual_store, sizeof store_dir);
    return 0;
}

/* None is kept, and one that is there is copied and not mapped. */
static void test_small_pages(void **state)
{
    struct packed_store s = store_of(), huge = store_of();
    (void)state;
    if (!small_store)
        skip();
    huge.small_pages = false;
    assert_int_equal(load(model, &huge), PACKED_HERE);
    assert_int_equal(load(model, &s), PACKED_KEPT);
    struct loaded l = load_with(model, &huge, pool);
    assert_int_equal(packed_origin(l.p), PACKED_FOUND);
    assert_true(file_is_free());
    unload(&l);
    assert_int_equal(load(model, &huge), PACKED_FOUND);
}

/* No file makes way for one that would not be kept. */
static void test_small_pages_no_room(void **state)
{
    struct packed_store s = store_of();
    (void)state;
    if (!small_store)
        skip();
    assert_int_equal(load(model, &s), PACKED_KEPT);
    s.most = FILE_CHUNKS * PACKED_CHUNK;
    s.small_pages = false;
    write_model(model, "two", 2);
    assert_int_equal(load(model, &s), PACKED_HERE);
    assert_int_equal(files(), 1);
}

/* Until the next call this process gets `bytes` more of address space; 0 = as many as before. */
static void allow(size_t bytes)
{
    static struct rlimit before;
    struct rlimit now;
    size_t pages = 0;
    if (bytes) {
        FILE *f = fopen("/proc/self/statm", "re");
        assert_true(f && fscanf(f, "%zu", &pages) == 1);
        fclose(f);
        assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    }
    now = before;
    if (bytes)
        now.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + bytes;
    assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
}

/* A copy that there is no memory for is not made: the file's small pages serve. */
static void test_small_pages_no_memory(void **state)
{
    struct packed_store s = store_of();
    struct packed *p;
    (void)state;
    if (!small_store)
        skip();
    assert_int_equal(load(model, &s), PACKED_KEPT);
    s.small_pages = false;
    struct loaded plain = load_with(model, NULL, pool);
    struct weights *w = open_ok(model);
    allow((FILE_CHUNKS + 1) * PACKED_CHUNK); /* the mapping, and not as much again */
    enum status st = packed_new(&p, w, &s, pool, NULL);
    allow(0);
    assert_int_equal(st, ST_OK);
    assert_int_equal(packed_origin(p), PACKED_FOUND);
    assert_false(file_is_free());
    for (int i = 0; i < MATRICES; i++) {
        char name[8];
        struct kern_mat mat;
        snprintf(name, sizeof name, "m%d", i);
        packed_matrix(p, weights_find(w, name), pool, &mat);
        same_panels(&mat, &plain.mat[i]);
    }
    packed_free(p);
    weights_free(w);
    unload(&plain);
}

/* A good file is not taken for a damaged one because it cannot be mapped. */
static void test_no_memory(void **state)
{
    struct packed_store s = store_of();
    struct packed *p;
    (void)state;
    need_files();
    assert_int_equal(load(model, &s), PACKED_KEPT);
    struct weights *w = open_ok(model);
    allow(PACKED_CHUNK);
    enum status st = packed_new(&p, w, &s, pool, NULL);
    allow(0);
    weights_free(w);
    assert_int_equal(st, ST_NO_MEMORY);
    assert_int_equal(load(model, &s), PACKED_FOUND);
}

/* --- the ceiling ----------------------------------------------------------------------------------------------------- */

/* The one that was used longest ago goes first, and none that is in use. */
static void test_ceiling(void **state)
{
    struct packed_store s = store_of();
    char other[2][128];
    (void)state;
    need_files();
    s.most = 2 * FILE_CHUNKS * PACKED_CHUNK;
    for (int i = 0; i < 2; i++) {
        snprintf(other[i], sizeof other[i], "%s/other%d.gguf", dir, i);
        write_model(other[i], "one", 100 + (uint32_t)i);
    }
    assert_int_equal(load(model, &s), PACKED_KEPT);
    assert_int_equal(files(), 1);
    set_time(last, (struct timespec){.tv_sec = 1000});
    assert_int_equal(load(other[0], &s), PACKED_KEPT);
    assert_int_equal(load(model, &s), PACKED_FOUND); /* used now, so the other is older */
    assert_int_equal(load(other[1], &s), PACKED_KEPT);
    assert_int_equal(files(), 2);
    assert_int_equal(load(model, &s), PACKED_FOUND);
    assert_int_equal(load(other[1], &s), PACKED_FOUND);

    struct loaded a = load_with(model, &s, pool), b = load_with(other[1], &s, pool);
    assert_int_equal(load(other[0], &s), PACKED_HERE); /* both are in use */
    unload(&a);
    assert_int_equal(load(other[0], &s), PACKED_KEPT);
    unload(&b);
    assert_int_equal(load(other[1], &s), PACKED_FOUND);
    assert_int_equal(files(), 2);
    remove(other[0]);
    remove(other[1]);
}

/* --- at once --------------------------------------------------------------------------------------------------------- */

struct rival {
    pthread_t thread;
    struct loaded l;
};

static void *load_main(void *arg)
{
    struct rival *r = arg;
    struct packed_store s = store_of();
    struct pool *own;
    if (pool_new(&own, 1, NULL) != ST_OK)
        return NULL;
    r->l = load_with(model, &s, own);
    pool_free(own);
    return r;
}

static void test_two_at_once(void **state)
{
    struct packed_store s = store_of();
    struct loaded plain = load_with(model, NULL, pool);
    (void)state;
    need_files();
    for (int round = 0; round < 10; round++) {
        struct rival r[2];
        void *ok[2];
        each_file(drop);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&r[i].thread, NULL, load_main, &r[i]), 0);
        for (int i = 0; i < 2; i++) {
            pthread_join(r[i].thread, &ok[i]);
            assert_non_null(ok[i]);
        }
        for (int i = 0; i < 2; i++) { /* each good, also after the other is gone */
            for (int m = 0; m < MATRICES; m++)
                same_panels(&r[i].l.mat[m], &plain.mat[m]);
            unload(&r[i].l);
        }
        assert_int_equal(files(), 1);
        assert_int_equal(load(model, &s), PACKED_FOUND);
    }
    unload(&plain);
}

/* --- the library ----------------------------------------------------------------------------------------------------- */

/* Keeps nothing unless it is told where. The second start finds what the first one kept, and marks it as used. */
static void test_library(void **state)
{
    const char *real = getenv("SMOLLM2");
    struct stat first, second;
    ffwd_options o;
    (void)state;
    need_files();
    if (!real)
        skip();
    ffwd_options_init(&o);
    o.context = 128;
    ffwd_close(ffwd_open(real, &o, NULL));
    assert_int_equal(files(), 0);
    o.packed_cache = store_dir;
    ffwd_close(ffwd_open(real, &o, NULL));
    if (files() == 0)
        skip(); /* files get no huge pages here */
    assert_int_equal(stat(last, &first), 0);
    ffwd_engine *en = ffwd_open(real, &o, NULL);
    assert_non_null(en);
    ffwd_close(en);
    assert_int_equal(files(), 1);
    assert_int_equal(stat(last, &second), 0);
    assert_true(second.st_ino == first.st_ino);
    assert_true(second.st_mtim.tv_sec > first.st_mtim.tv_sec || second.st_mtim.tv_nsec > first.st_mtim.tv_nsec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_found, setup),       cmocka_unit_test_setup(test_not_kept, setup),
        cmocka_unit_test_setup(test_changed_source, setup), cmocka_unit_test_setup(test_changed_data, setup),
        cmocka_unit_test_setup(test_changed_sample, setup), cmocka_unit_test_setup(test_split, setup),
        cmocka_unit_test_setup(test_damaged, setup),     cmocka_unit_test_setup(test_not_trusted, setup),
        cmocka_unit_test_setup(test_no_room, setup),     cmocka_unit_test_setup(test_read_only, setup),
        cmocka_unit_test_setup_teardown(test_small_pages, small_setup, small_teardown),
        cmocka_unit_test_setup_teardown(test_small_pages_no_room, small_setup, small_teardown),
        cmocka_unit_test_setup_teardown(test_small_pages_no_memory, small_setup, small_teardown),
        cmocka_unit_test_setup(test_no_memory, setup),   cmocka_unit_test_setup(test_ceiling, setup),
        cmocka_unit_test_setup(test_two_at_once, setup), cmocka_unit_test_setup(test_library, setup),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

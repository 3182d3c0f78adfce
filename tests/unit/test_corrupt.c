/*
 * corrupt: a model file that was cut short or changed at 2,000 seeded places never crashes, hangs or reads beyond its
 * end. Whatever still opens is used to the full: every metadata entry read, every tensor packed, a model loaded and run.
 *
 * Bytes are laid before an unreadable page, their last byte against it, so that reading one byte too many is seen
 * without any sanitizer; each case goes through a file as well, which is the way users' files come.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "gguf_write.h"
#include "model/model.h"
#include "tiny.h"
#include "use_weights.h"
#include "weights/gguf.h"
#include "weights/weights.h"

#define CASES 2000
#define IDS 3 /* fed to models that load */
#define SECONDS 600 /* a hang is a failure: the alarm ends the program */

static struct pool *pool;
static char path[64];
static unsigned models_run;

/* --- a file with its end against an unreadable page ------------------------------------------------------------------ */

struct guarded {
    uint8_t *map;
    size_t bytes;
    uint8_t *end; /* of what can be read */
};

static struct guarded guard(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (size + page - 1) / page * page;
    struct guarded g = {.bytes = room + page};
    g.map = mmap(NULL, g.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    assert_int_equal(mprotect(g.map + room, page, PROT_NONE), 0);
    g.end = g.map + room;
    return g;
}

/* --- using whatever opened -------------------------------------------------------------------------------------------- */

/* One step of three tokens and the logits of the last. Any number may come out. */
static void run_model(const struct model *m)
{
    const struct model_info *info = model_info(m);
    struct kv_config cfg = {.format = KERN_KV_F16, .groups = info->kv_groups, .positions = KV_BLOCK, .rows = 1,
                            .context = KV_BLOCK, .span = IDS};
    memcpy(cfg.group, info->kv_group, sizeof cfg.group);
    struct kv_pool *kv;
    struct kv_seq seq;
    struct model_run *run;
    tok_id ids[IDS];
    for (uint32_t i = 0; i < IDS; i++)
        ids[i] = (tok_id)((40 + i) % info->vocab);
    float *logits = malloc(info->vocab * sizeof *logits);
    assert_non_null(logits);
    assert_int_equal(kv_pool_new(&kv, &cfg, NULL), ST_OK);
    assert_int_equal(kv_seq_init(&seq, kv, NULL), ST_OK);
    assert_int_equal(kv_seq_reserve(&seq, IDS, NULL), ST_OK);
    assert_int_equal(model_run_new(&run, m, pool, IDS, KV_BLOCK, NULL), ST_OK);
    model_forward(run, &(struct model_span){&seq, ids, IDS}, 1);
    kv_seq_commit(&seq, IDS);
    model_head(run, &(uint32_t){IDS - 1}, 1, logits, NULL);
    models_run++;
    model_run_free(run);
    kv_seq_release(&seq);
    kv_pool_free(kv);
    free(logits);
}

static void load_model(struct weights *w)
{
    struct model *m;
    struct err e = {0};
    struct model_options o = {.pool = pool};
    assert_int_equal(kern_choose(&o.ops, &e), ST_OK);
    enum status s = model_new(&m, w, &o, &e);
    if (s == ST_OK) {
        run_model(m);
        model_free(m);
        return;
    }
    assert_null(m);
    assert_int_equal(e.code, s);
    if (s != ST_MODEL && s != ST_UNSUPPORTED)
        fail_msg("%s: %s", status_name(s), e.text);
    assert_true(e.text[0] != 0);
}

static void after_open(struct weights *w)
{
    use_weights(w, pool);
    load_model(w);
}

/* --- ways to spoil a file -------------------------------------------------------------------------------------------- */

struct change {
    size_t at, n;       /* bytes that change, */
    uint8_t bytes[8];   /* to these */
    size_t size;        /* of the file afterwards */
};

static uint64_t draw(uint32_t seed, uint32_t i)
{
    uint32_t r[4];
    rng_philox(20, seed, i, r);
    return (uint64_t)r[0] << 32 | r[1];
}

/* Half of the places are in the header, which is a small part of the file. Numbers become what overflows. */
static struct change draw_change(uint32_t seed, const uint8_t *file, size_t header, size_t size)
{
    static const uint64_t numbers[] = {0, 1, 2, 255, 0x7FFFFFFF, 0xFFFFFFFF, 1ull << 32, 1ull << 61, 1ull << 63,
                                       UINT64_MAX, UINT64_MAX - 31};
    struct change c = {.size = size};
    size_t reach = draw(seed, 0) % 4 ? header : size;
    uint64_t kind = draw(seed, 1) % 8, number = numbers[draw(seed, 3) % (sizeof numbers / sizeof *numbers)];
    c.at = draw(seed, 2) % reach;
    c.n = kind < 4 ? 1 : kind < 6 ? 8 : 0;
    if (c.n > size - c.at)
        c.n = size - c.at;
    if (kind < 2) /* one bit */
        c.bytes[0] = file[c.at] ^ (uint8_t)(1u << draw(seed, 4) % 8);
    else if (kind < 4)
        c.bytes[0] = (uint8_t)draw(seed, 4);
    else if (kind < 6)
        memcpy(c.bytes, &number, sizeof number);
    else
        c.size = c.at;
    return c;
}

static void check_status(enum status s, const struct weights *w, const struct err *e, bool truncated)
{
    if (s == ST_OK) {
        assert_false(truncated);
        assert_non_null(w);
        return;
    }
    assert_null(w);
    assert_int_equal(e->code, s);
    assert_true(s == ST_MODEL || s == ST_UNSUPPORTED || s == ST_IO); /* ST_IO: turned into part of a split model */
    assert_non_null(strstr(e->text, "m.gguf"));
    for (const char *p = e->text; *p; p++)
        assert_true((unsigned char)*p >= 0x20 && *p != 0x7F);
}

/* Opens size bytes at the end of `g` and, if it opens, uses it. */
static bool try_bytes(const struct guarded *g, size_t size, bool truncated)
{
    struct weights *w;
    struct err e = {0};
    enum status s = gguf_open_bytes(&w, "m.gguf", g->end - size, size, &e);
    check_status(s, w, &e, truncated);
    if (s == ST_OK) {
        use_weights(w, pool);
    }
    weights_free(w);
    return s == ST_OK;
}

static bool try_file(bool truncated)
{
    struct weights *w;
    struct err e = {0};
    enum status s = weights_open(&w, path, &e);
    check_status(s, w, &e, truncated);
    if (s == ST_OK)
        after_open(w);
    weights_free(w);
    return s == ST_OK;
}

static void put(int fd, const void *bytes, size_t n, size_t at)
{
    assert_int_equal(pwrite(fd, bytes, n, (off_t)at), n);
}

/* One seeded case: through memory, through the file, and both as they were before. */
static bool try_change(int fd, const struct guarded *g, const uint8_t *file, size_t size, const struct change *c)
{
    bool truncated = c->size < size;
    uint8_t *copy = g->end - c->size;
    memcpy(copy, file, c->size);
    if (c->n)
        memcpy(copy + c->at, c->bytes, c->n);
    bool opened = try_bytes(g, c->size, truncated);
    put(fd, copy, c->size, 0);
    assert_int_equal(ftruncate(fd, (off_t)c->size), 0);
    assert_int_equal(try_file(truncated), opened);
    return opened;
}

/* --- tests ----------------------------------------------------------------------------------------------------------- */

static void test_seeded(void **state)
{
    (void)state;
    struct buf b;
    struct weights *w;
    struct err e;
    unsigned opened = 0, cut = 0;
    buf_init(&b, 16u << 20);
    if (tiny_build("smollm2", TINY_Q4_1, false, &b, &e) != ST_OK)
        fail_msg("%s", e.text);
    const uint8_t *file = (const uint8_t *)b.data;
    assert_int_equal(gguf_open_bytes(&w, "m.gguf", file, b.len, &e), ST_OK);
    size_t header = w->parts[0].data_at;
    weights_free(w);
    struct guarded g = guard(b.len);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (uint32_t seed = 0; seed < CASES; seed++) {
        struct change c = draw_change(seed, file, header, b.len);
        opened += try_change(fd, &g, file, b.len, &c);
        cut += c.size < b.len;
    }
    print_message("%u cases: %u cut short and refused, %u changed and refused, %u changed and opened, %u of them ran\n",
                  CASES, cut, CASES - cut - opened, opened, models_run);
    assert_in_range(opened, CASES / 10, CASES - cut - CASES / 10); /* both kinds were really tried */
    assert_in_range(models_run, CASES / 10, opened);
    close(fd);
    munmap(g.map, g.bytes);
    buf_release(&b);
}

/* Every value type, every tensor type and a split model's keys in about 2 KB, so that every length can be tried. */
static void write_small(struct gw *g)
{
    static const uint8_t zeros[8];
    gw_init(g);
    gw_text(g, "general.architecture", "llama");
    for (uint32_t type = GW_U8; type <= GW_F64; type++) {
        char key[16];
        snprintf(key, sizeof key, "key.%u", type);
        if (type != GW_STRING && type != GW_ARRAY)
            gw_key(g, key, type, zeros, gguf_type_size(type));
    }
    gw_array(g, "strings", GW_STRING, 3);
    gw_element(g, "one", 3);
    gw_element(g, "", 0);
    gw_element(g, "three", 5);
    gw_array(g, "floats", GW_F32, 2);
    gw_raw(g, zeros, 8);
    gw_array(g, "nested", GW_ARRAY, 1);
    gw_raw(g, &(uint32_t){GW_U8}, 4);
    gw_raw(g, &(uint64_t){1}, 8);
    gw_raw(g, zeros, 1);
    gw_u32(g, "general.alignment", 32);
    for (size_t i = 0; i < TINY_TYPES; i++)
        gw_tensor(g, tiny_type_name(tiny_types[i]), tiny_types[i], 2,
                  (uint64_t[]){tiny_type_block(tiny_types[i]) == 1 ? 3 : tiny_type_block(tiny_types[i]), 1}, NULL,
                  tiny_row_bytes(tiny_types[i], tiny_type_block(tiny_types[i]) == 1 ? 3 : tiny_type_block(tiny_types[i])));
    gw_tensor(g, "last", TINY_F32, 1, (uint64_t[]){8}, NULL, 32); /* ends at a multiple of the alignment */
}

static void test_every_length(void **state)
{
    (void)state;
    struct gw gw;
    struct buf b;
    buf_init(&b, 1u << 20);
    write_small(&gw);
    assert_true(gw_build(&gw, &b));
    assert_true(gw_save(path, b.data, b.len));
    struct guarded g = guard(b.len);
    memcpy(g.end - b.len, b.data, b.len);
    assert_true(try_bytes(&g, b.len, false));
    for (size_t n = b.len - 1; n > 0; n--) {
        memcpy(g.end - n, b.data, n);
        assert_false(try_bytes(&g, n, true));
        assert_int_equal(truncate(path, (off_t)n), 0);
        assert_false(try_file(true));
    }
    munmap(g.map, g.bytes);
    buf_release(&b);
    gw_release(&gw);
}

/* Every byte of the small file, with each bit turned. */
static void test_every_bit(void **state)
{
    (void)state;
    struct gw gw;
    struct buf b;
    buf_init(&b, 1u << 20);
    write_small(&gw);
    assert_true(gw_build(&gw, &b));
    struct guarded g = guard(b.len);
    uint8_t *file = g.end - b.len;
    memcpy(file, b.data, b.len);
    for (size_t i = 0; i < 8 * b.len; i++) {
        file[i / 8] ^= (uint8_t)(1u << i % 8);
        (void)try_bytes(&g, b.len, false);
        file[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    munmap(g.map, g.bytes);
    buf_release(&b);
    gw_release(&gw);
}

static char dir[] = "/tmp/ffwd-corrupt-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    alarm(SECONDS);
    if (!mkdtemp(dir) || pool_new(&pool, 1, NULL) != ST_OK)
        return -1;
    snprintf(path, sizeof path, "%s/m.gguf", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pool_free(pool);
    remove(path);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_every_bit),
        cmocka_unit_test(test_seeded),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

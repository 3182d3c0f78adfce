/*
 * keys: the file of API keys without a server: what a line may be, what a key may use, and threads that come and go while
 * the file changes. Made to be run under ThreadSanitizer as well.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/http/watched.h"
#include "server/keys.h"

#define THREADS 4
#define ROUNDS 200

static char path[] = "/tmp/ffwd-test-keys-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_file(const char *text, size_t n)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static struct server_keys *open_keys(const char *text)
{
    struct server_keys *k;
    struct err e = {0};
    write_file(text, strlen(text));
    if (server_keys_new(&k, path, &e) != ST_OK)
        fail_msg("%s", e.text);
    return k;
}

static void lines(void **state)
{
    (void)state;
    static const struct {
        const char *key, *name; /* name NULL = unknown */
    } all[] = {{"plain", "line 2"}, {"named", "n"}, {"tabs", "line 4"}, {"last", "line 6"}, {"#", NULL}, {"", NULL},
               {"named ", NULL}, {"comment", NULL}, {"returns", "line 5"}};
    struct server_keys *k = open_keys("# comment\nplain\nnamed name=x name=n # the last counts\n"
                                      "\ttabs\trpm=1\ttpm=4000000 \nreturns concurrent=2\r\nlast");
    char name[LIMIT_KEY_NAME + 1];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct server_key *key = server_keys_find(k, all[i].key, name);
        assert_int_equal(key != NULL, all[i].name != NULL);
        if (!key)
            continue;
        assert_string_equal(name, all[i].name);
        server_keys_leave(k, key, false, 0);
    }
    server_keys_free(k);
}

static void wrong_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
        size_t n; /* 0 = strlen */
    } all[] = {
        {"", "there is no key", 0},
        {"\n\n#a\n", "there is no key", 0},
        {"a\nb rpm=", "line 2: rpm must be", 0},
        {"a rpm=-1", "rpm must be", 0},
        {"a rpm=99999999999", "rpm must be", 0},
        {"a tpm=1.5", "tpm must be", 0},
        {"a rpm", "line 1: behind its key a line has only", 0},
        {"a name=", "line 1: behind its key", 0},
        {"#\na secret", "line 2: behind its key", 0},
        {"a c2VjcmV0secret==", "line 1: behind its key", 0},
        {"a name=123456789012345678901234567890123456789012345678901234567890123456", "at most 64 bytes", 0},
        {"a\na", "line 2: this key was there", 0},
        {"sha256:00", "64 digits", 0},
        {"sha256:zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", "64 digits", 0},
        {"a\0b\n", "line 1 holds a NUL", 4},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct server_keys *k;
        struct err e = {0};
        write_file(all[i].text, all[i].n ? all[i].n : strlen(all[i].text));
        assert_int_equal(server_keys_new(&k, path, &e), ST_ARGUMENT);
        assert_null(k);
        if (!strstr(e.text, all[i].said))
            fail_msg("'%s' is not in '%s'", all[i].said, e.text);
        assert_non_null(strstr(e.text, path));
        assert_null(strstr(e.text, "secret")); /* no part of a key gets into the log */
    }
}

static void limits(void **state)
{
    (void)state;
    struct server_keys *k = open_keys("a rpm=3 concurrent=2\nb tpm=600\n");
    char name[LIMIT_KEY_NAME + 1];
    struct err e = {0};
    struct server_key *a = server_keys_find(k, "a", name), *b = server_keys_find(k, "b", name);
    assert_int_equal(server_keys_enter(k, a, &e), ST_OK);
    assert_int_equal(server_keys_enter(k, a, &e), ST_OK);
    assert_int_equal(server_keys_enter(k, a, &e), ST_BUSY); /* two at a time */
    assert_int_equal(e.retry_after, 1);
    server_keys_leave(k, a, true, 0);
    a = server_keys_find(k, "a", name);
    assert_int_equal(server_keys_enter(k, a, &e), ST_OK);
    server_keys_leave(k, a, true, 0);
    a = server_keys_find(k, "a", name);
    assert_int_equal(server_keys_enter(k, a, &e), ST_BUSY); /* three a minute: the next in 20 s */
    assert_in_range(e.retry_after, 19, 20);
    assert_int_equal(server_keys_enter(k, b, &e), ST_OK);
    server_keys_leave(k, b, true, 1000); /* 400 more than there were, at ten a second */
    b = server_keys_find(k, "b", name);
    assert_int_equal(server_keys_enter(k, b, &e), ST_BUSY);
    assert_in_range(e.retry_after, 40, 41);
    server_keys_leave(k, b, false, 0);
    server_keys_leave(k, a, false, 0);
    server_keys_free(k);
}

static void check_limit(struct server_key_limit l, uint32_t limit, uint32_t left, uint32_t seconds)
{
    assert_int_equal(l.limit, limit);
    assert_in_range(l.left, left, left + 1);
    assert_in_range(l.seconds, seconds ? seconds - 1 : 0, seconds); /* time goes by */
}

static void what_is_left(void **state)
{
    (void)state;
    struct server_keys *k = open_keys("a rpm=3 tpm=600\nb\n");
    char name[LIMIT_KEY_NAME + 1];
    struct err e = {0};
    struct server_key *a = server_keys_find(k, "a", name), *b = server_keys_find(k, "b", name);
    check_limit(server_keys_left(k, a).requests, 3, 3, 0);
    check_limit(server_keys_left(k, a).tokens, 600, 600, 0);
    assert_int_equal(server_keys_enter(k, a, &e), ST_OK);
    check_limit(server_keys_left(k, a).requests, 3, 2, 20);
    server_keys_leave(k, a, true, 900); /* in debt: nothing is left, and it takes longer than a minute */
    a = server_keys_find(k, "a", name);
    check_limit(server_keys_left(k, a).tokens, 600, 0, 90);
    check_limit(server_keys_left(k, b).requests, 0, 0, 0);
    server_keys_leave(k, a, false, 0);
    server_keys_leave(k, b, false, 0);
    server_keys_free(k);
}

/* What is under way is not forgotten when its key goes and comes back. */
static void a_key_that_comes_back(void **state)
{
    (void)state;
    struct server_keys *k = open_keys("a concurrent=1\n");
    char name[LIMIT_KEY_NAME + 1];
    struct err e = {0};
    struct server_key *first = server_keys_find(k, "a", name);
    assert_int_equal(server_keys_enter(k, first, &e), ST_OK);
    write_file("b\n", 2);
    assert_int_equal(server_keys_reload(k, &e), ST_OK);
    assert_null(server_keys_find(k, "a", name));
    write_file("a concurrent=1\n", 15);
    assert_int_equal(server_keys_reload(k, &e), ST_OK);
    struct server_key *second = server_keys_find(k, "a", name);
    assert_ptr_equal(first, second);
    assert_int_equal(server_keys_enter(k, second, &e), ST_BUSY);
    server_keys_leave(k, first, true, 0);
    assert_int_equal(server_keys_enter(k, second, &e), ST_OK);
    server_keys_leave(k, second, true, 0);
    server_keys_free(k);
}

/* As many as there may be, none of them those that were there, again and again while some are held. */
static void all_of_them_change(void **state)
{
    (void)state;
    struct server_keys *k = open_keys("x\n");
    char name[LIMIT_KEY_NAME + 1], key[20];
    struct server_key *held[8];
    struct err e = {0};
    struct buf text;
    buf_init(&text, LIMIT_KEY_FILE);
    for (int round = 0; round < 8; round++) {
        buf_clear(&text);
        for (unsigned i = 0; i < LIMIT_KEYS; i++)
            buf_addf(&text, "key-%d-%u\n", round, i);
        write_file(text.data, text.len);
        assert_int_equal(server_keys_reload(k, &e), ST_OK);
        snprintf(key, sizeof key, "key-%d-%u", round, LIMIT_KEYS - 1);
        held[round] = server_keys_find(k, key, name);
        assert_non_null(held[round]);
    }
    buf_addf(&text, "one-too-many\n");
    write_file(text.data, text.len);
    assert_int_equal(server_keys_reload(k, &e), ST_TOO_LONG);
    for (int round = 0; round < 8; round++)
        server_keys_leave(k, held[round], false, 0);
    buf_release(&text);
    server_keys_free(k);
}

static struct server_keys *shared;
static atomic_uint entered;

static void *come_and_go(void *arg)
{
    char name[LIMIT_KEY_NAME + 1];
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct err e;
        struct server_key *key = server_keys_find(shared, i % 2 ? "a" : "b", name);
        if (!key)
            continue;
        bool in = server_keys_enter(shared, key, &e) == ST_OK;
        atomic_fetch_add(&entered, in);
        server_keys_leave(shared, key, in, 1);
    }
    return NULL;
}

static void threads(void **state)
{
    (void)state;
    pthread_t t[THREADS];
    struct err e;
    shared = open_keys("a\nb\n");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, come_and_go, NULL), 0);
    for (int i = 0; i < 40; i++) {
        write_file(i % 2 ? "a\nb\n" : "c\na rpm=1000000\n", i % 2 ? 4 : 16);
        assert_int_equal(server_keys_reload(shared, &e), ST_OK);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    assert_true(atomic_load(&entered) >= THREADS * ROUNDS / 2); /* a is always there */
    server_keys_free(shared);
}

/* It can be looked at, and is tried once until it changes. A socket is one that even root cannot open. */
static void a_file_that_cannot_be_opened(void **state)
{
    (void)state;
    struct http_watched w;
    struct buf text;
    struct err e = {0};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(a.sun_path, path, sizeof path);
    unlink(path);
    assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof a), 0);
    buf_init(&text, 100);
    http_watched_init(&w, path, "file");
    assert_true(http_watched_changed(&w));
    assert_int_equal(http_watched_read(&w, &text, &e), ST_IO);
    w.looked = 0;
    assert_false(http_watched_changed(&w));
    assert_int_equal(chmod(path, 0700), 0);
    w.looked = 0;
    assert_true(http_watched_changed(&w)); /* it may be readable now */
    close(fd);
    unlink(path);
    write_file("text", 4);
    w.looked = 0;
    assert_true(http_watched_changed(&w));
    assert_int_equal(http_watched_read(&w, &text, &e), ST_OK);
    assert_int_equal(text.len, 4);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),  cmocka_unit_test(wrong_lines),           cmocka_unit_test(limits),
        cmocka_unit_test(what_is_left),
        cmocka_unit_test(threads), cmocka_unit_test(a_key_that_comes_back), cmocka_unit_test(all_of_them_change),
        cmocka_unit_test(a_file_that_cannot_be_opened),
    };
    return cmocka_run_group_tests_name("keys", tests, set_up, tear_down);
}

/* server/replay_store: what is kept, for whom, and for how long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "server/limits.h"
#include "server/replay_store.h"

static struct server_name name(const char *s)
{
    return (struct server_name){s, strlen(s)};
}

static const struct server_name nobody = {NULL, 0};

/* A record of n ids that all are `id`. */
static void put(struct server_replay *st, struct server_name salt, const char *a, const char *b, tok_id id, size_t n)
{
    tok_id *ids = malloc(n * sizeof *ids);
    bool *generated = calloc(n, sizeof *generated);
    for (size_t i = 0; i < n; i++)
        ids[i] = id;
    generated[n - 1] = true;
    const struct server_name names[] = {name(a), name(b)};
    server_replay_put(st, salt, names, 2, &(struct chat_record){ids, generated, n});
    free(ids);
    free(generated);
}

/* The first id of the latest record of that name, or -1; *count is how many have it. */
static tok_id find(struct server_replay *st, struct server_name salt, const char *s, size_t *count)
{
    struct server_record *found[LIMIT_REPLAY_CANDIDATES];
    *count = 0;
    server_replay_find(st, salt, name(s), found, count, LIMIT_REPLAY_CANDIDATES);
    tok_id id = *count ? found[0]->ids.ids[0] : -1;
    server_replay_drop(st, found, *count);
    return id;
}

static struct server_replay *make(void)
{
    struct server_replay *st;
    struct err e;
    assert_int_equal(server_replay_new(&st, &e), ST_OK);
    return st;
}

static void test_names(void **state)
{
    (void)state;
    struct server_replay *st = make();
    size_t n;
    put(st, nobody, "reply-1", "key", 1, 3);
    put(st, nobody, "reply-2", "key", 2, 3);
    assert_int_equal(find(st, nobody, "reply-1", &n), 1);
    assert_int_equal(n, 1);
    assert_int_equal(find(st, nobody, "key", &n), 2); /* the latest first */
    assert_int_equal(n, 2);
    assert_int_equal(find(st, nobody, "reply-3", &n), -1);
    assert_int_equal(find(st, nobody, "", &n), -1);
    /* found by two names it is there once */
    struct server_record *found[4];
    n = 0;
    server_replay_find(st, nobody, name("reply-2"), found, &n, 4);
    server_replay_find(st, nobody, name("key"), found, &n, 4);
    assert_int_equal(n, 2);
    assert_true(found[0]->ids.generated[2] && !found[0]->ids.generated[1]);
    server_replay_drop(st, found, n);
    n = 0;
    server_replay_find(st, nobody, name("key"), found, &n, 1);
    assert_int_equal(n, 1);
    server_replay_drop(st, found, n);
    server_replay_free(st);
}

static void test_namespaces(void **state)
{
    (void)state;
    struct server_replay *st = make();
    size_t n;
    put(st, name("anna"), "key", "x", 1, 3);
    put(st, name("bert"), "key", "y", 2, 3);
    assert_int_equal(find(st, name("anna"), "key", &n), 1);
    assert_int_equal(n, 1);
    assert_int_equal(find(st, name("bert"), "key", &n), 2);
    assert_int_equal(find(st, nobody, "key", &n), -1);
    assert_int_equal(find(st, name("annak"), "ey", &n), -1); /* the border between the two counts */
    server_replay_free(st);
}

static void test_names_too_long(void **state)
{
    (void)state;
    struct server_replay *st = make();
    char longest[LIMIT_REPLAY_NAME + 2], salt[LIMIT_SALT + 2];
    size_t n, records, ids;
    memset(longest, 'a', sizeof longest);
    longest[LIMIT_REPLAY_NAME] = 0;
    put(st, nobody, longest, "", 1, 1);
    assert_int_equal(find(st, nobody, longest, &n), 1);
    longest[LIMIT_REPLAY_NAME] = 'a';
    longest[LIMIT_REPLAY_NAME + 1] = 0;
    put(st, nobody, longest, "", 2, 1); /* under no name at all: not kept */
    assert_int_equal(find(st, nobody, longest, &n), -1);
    memset(salt, 's', sizeof salt);
    salt[LIMIT_SALT + 1] = 0;
    put(st, name(salt), "a", "b", 3, 1);
    assert_int_equal(find(st, name(salt), "a", &n), -1);
    salt[LIMIT_SALT] = 0;
    put(st, name(salt), "a", "b", 4, 1);
    assert_int_equal(find(st, name(salt), "a", &n), 4);
    server_replay_size(st, &records, &ids);
    assert_true(records == 2 && ids == 2);
    server_replay_free(st);
}

/* The limit of records: what was asked for stays, what was not goes, oldest first. */
static void test_least_recently_used(void **state)
{
    (void)state;
    struct server_replay *st = make();
    char a[16];
    size_t n, records, ids;
    for (unsigned i = 0; i < LIMIT_REPLAY_RECORDS; i++) {
        snprintf(a, sizeof a, "r%u", i);
        put(st, nobody, a, "all", (tok_id)i, 2);
    }
    server_replay_size(st, &records, &ids);
    assert_true(records == LIMIT_REPLAY_RECORDS && ids == 2 * LIMIT_REPLAY_RECORDS);
    assert_int_equal(find(st, nobody, "r0", &n), 0);
    put(st, nobody, "more", "all", 7777, 2);
    assert_int_equal(find(st, nobody, "r0", &n), 0);
    assert_int_equal(find(st, nobody, "r1", &n), -1);
    assert_int_equal(find(st, nobody, "r2", &n), 2);
    assert_int_equal(find(st, nobody, "more", &n), 7777);
    server_replay_size(st, &records, &ids);
    assert_true(records == LIMIT_REPLAY_RECORDS && ids == 2 * LIMIT_REPLAY_RECORDS);
    assert_int_equal(find(st, nobody, "all", &n), 7777);
    assert_int_equal(n, LIMIT_REPLAY_CANDIDATES);
    server_replay_free(st);
}

/* Who fills the store does not push others out: it makes room at its own expense. */
static void test_nobody_takes_all(void **state)
{
    (void)state;
    struct server_replay *st = make();
    char a[16];
    size_t n;
    put(st, name("small"), "mine", "", 1, 2);
    for (unsigned i = 0; i < 3 * LIMIT_REPLAY_RECORDS; i++) {
        snprintf(a, sizeof a, "r%u", i);
        put(st, name("large"), a, "", (tok_id)i, 2);
    }
    assert_int_equal(find(st, name("small"), "mine", &n), 1);
    assert_int_equal(find(st, name("large"), a, &n), 3 * LIMIT_REPLAY_RECORDS - 1);
    /* A third one gets a place all the same. */
    put(st, name("third"), "too", "", 9, 2);
    assert_int_equal(find(st, name("third"), "too", &n), 9);
    assert_int_equal(find(st, name("small"), "mine", &n), 1);
    server_replay_free(st);
}

/* The limit of ids: one large record may push many out; one that is too large by itself pushes nothing. */
static void test_ids_bound(void **state)
{
    (void)state;
    struct server_replay *st = make();
    size_t n, records, ids;
    for (tok_id i = 0; i < 4; i++)
        put(st, nobody, (const char *[]){"q0", "q1", "q2", "q3"}[i], "", i, LIMIT_REPLAY_IDS / 4);
    server_replay_size(st, &records, &ids);
    assert_true(records == 4 && ids == LIMIT_REPLAY_IDS);
    put(st, nobody, "too large", "", 5, LIMIT_REPLAY_IDS + 1);
    server_replay_size(st, &records, &ids);
    assert_int_equal(records, 4);
    put(st, nobody, "one", "", 6, 1);
    assert_int_equal(find(st, nobody, "q0", &n), -1);
    assert_int_equal(find(st, nobody, "q1", &n), 1);
    put(st, nobody, "half", "", 7, LIMIT_REPLAY_IDS / 2);
    server_replay_size(st, &records, &ids);
    assert_true(records == 3 && ids == LIMIT_REPLAY_IDS * 3 / 4 + 1);
    assert_int_equal(find(st, nobody, "q1", &n), 1); /* it was asked for: q2 and q3 went */
    put(st, nobody, "all", "", 8, LIMIT_REPLAY_IDS);
    server_replay_size(st, &records, &ids);
    assert_true(records == 1 && ids == LIMIT_REPLAY_IDS);
    server_replay_free(st);
}

/* What was found outlives its place in the store. */
static void test_found_records_stay(void **state)
{
    (void)state;
    struct server_replay *st = make();
    struct server_record *found[2];
    size_t n = 0, gone;
    put(st, nobody, "a", "b", 9, LIMIT_REPLAY_IDS);
    server_replay_find(st, nobody, name("a"), found, &n, 2);
    put(st, nobody, "c", "d", 1, 1);
    assert_int_equal(find(st, nobody, "a", &gone), -1);
    assert_true(found[0]->ids.n == LIMIT_REPLAY_IDS && found[0]->ids.ids[LIMIT_REPLAY_IDS - 1] == 9);
    server_replay_drop(st, found, n);
    server_replay_free(st);
}

static void *busy(void *arg)
{
    struct server_replay *st = arg;
    char a[16];
    size_t n;
    for (int i = 0; i < 3000; i++) {
        snprintf(a, sizeof a, "r%d", i % 1500);
        put(st, nobody, a, "shared", i, 20);
        (void)find(st, nobody, "shared", &n);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct server_replay *st = make();
    pthread_t t[3];
    size_t records, ids;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&t[i], NULL, busy, st), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    server_replay_size(st, &records, &ids);
    assert_true(records == LIMIT_REPLAY_RECORDS && ids == 20 * LIMIT_REPLAY_RECORDS);
    server_replay_free(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_namespaces),
        cmocka_unit_test(test_names_too_long),
        cmocka_unit_test(test_least_recently_used),
        cmocka_unit_test(test_nobody_takes_all), cmocka_unit_test(test_ids_bound),
        cmocka_unit_test(test_found_records_stay),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* server/response_store: what is kept, for whom, for how long, and what conversations hold on to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/limits.h"
#include "server/response_store.h"

static const struct server_name ada = {"01234567890123456789012345678901", 32};
static const struct server_name bob = {"x1234567890123456789012345678901", 32};

static struct server_name name(const char *s)
{
    return (struct server_name){s, strlen(s)};
}

static struct text_view view(const char *s)
{
    return (struct text_view){s, strlen(s)};
}

static struct server_responses *make(void)
{
    struct server_responses *st;
    struct err e;
    assert_int_equal(server_responses_new(&st, &e), ST_OK);
    return st;
}

/* Keeps a response of that id; `before` is the id of what it continues, or NULL. */
static void put(struct server_responses *st, struct server_name owner, const char *id, const char *before,
                struct text_view object)
{
    struct server_response *held = before ? server_responses_find(st, owner, name(before)) : NULL;
    char output[200];
    assert_true(!before || held);
    snprintf(output, sizeof output, "[{\"id\":\"m-%s\",\"n\":1}, {\"id\":\"c-%s\"},{}]", id, id);
    const struct server_response texts = {.object = object, .input = view("[{}]"), .output = view(output)};
    server_responses_put(st, owner, name(id), held, &texts);
    server_responses_drop(st, held);
}

static bool has(struct server_responses *st, struct server_name owner, const char *id)
{
    struct server_response *r = server_responses_find(st, owner, name(id));
    server_responses_drop(st, r);
    return r != NULL;
}

static void test_names(void **state)
{
    (void)state;
    struct server_responses *st = make();
    size_t n, bytes;
    put(st, ada, "one", NULL, view("{\"a\":1}"));
    struct server_response *r = server_responses_find(st, ada, name("one"));
    assert_memory_equal(r->object.data, "{\"a\":1}", r->object.n);
    assert_memory_equal(r->input.data, "[{}]", r->input.n);
    assert_true(r->items_n == 3 && r->turns == 1 && !r->before);
    assert_false(has(st, bob, "one"));
    assert_false(has(st, ada, "on"));
    assert_false(has(st, ada, ""));
    assert_false(has(st, ada, "an id that is longer than any that is given out"));
    /* who has found it can read it when it is gone */
    assert_false(server_responses_remove(st, bob, name("one")));
    assert_true(server_responses_remove(st, ada, name("one")));
    assert_false(server_responses_remove(st, ada, name("one")));
    assert_memory_equal(r->object.data, "{\"a\":1}", 7);
    server_responses_size(st, &n, &bytes);
    assert_true(n == 0 && bytes == r->bytes);
    server_responses_drop(st, r);
    server_responses_size(st, &n, &bytes);
    assert_true(n == 0 && bytes == 0);
    server_responses_free(st);
}

static void test_items(void **state)
{
    (void)state;
    struct server_responses *st = make();
    struct buf out;
    buf_init(&out, 1000);
    put(st, ada, "one", NULL, view("{}"));
    put(st, ada, "two", "one", view("{}"));
    assert_true(server_responses_item(st, ada, name("m-two"), &out));
    assert_string_equal(out.data, "{\"id\":\"m-two\",\"n\":1}");
    buf_clear(&out);
    assert_true(server_responses_item(st, ada, name("c-one"), &out));
    assert_string_equal(out.data, "{\"id\":\"c-one\"}");
    assert_false(server_responses_item(st, bob, name("c-one"), &out));
    assert_false(server_responses_item(st, ada, name("c-"), &out));
    assert_false(server_responses_item(st, ada, name(""), &out));
    buf_release(&out);
    server_responses_free(st);
}

/* A conversation keeps its earlier turns, whatever became of their names, and gives them back with its last. */
static void test_chains(void **state)
{
    (void)state;
    struct server_responses *st = make();
    size_t n, bytes, alone;
    put(st, ada, "one", NULL, view("{}"));
    server_responses_size(st, &n, &alone);
    put(st, ada, "two", "one", view("{}"));
    put(st, ada, "odd", "one", view("{}"));
    put(st, ada, "tri", "two", view("{}"));
    assert_true(server_responses_remove(st, ada, name("one")));
    assert_true(server_responses_remove(st, ada, name("two")));
    struct server_response *r = server_responses_find(st, ada, name("tri"));
    assert_true(r->turns == 3 && r->before->turns == 2 && r->before->before->turns == 1 && !r->before->before->before);
    assert_int_equal(r->chain_bytes, 3 * alone);
    server_responses_drop(st, r);
    assert_true(server_responses_remove(st, ada, name("tri")));
    server_responses_size(st, &n, &bytes);
    assert_true(n == 1 && bytes == 2 * alone); /* "odd" and "one" */
    /* longer than a stack would bear */
    char id[20] = "odd", next[20];
    for (int i = 0; i < 400; i++) {
        snprintf(next, sizeof next, "turn-%d", i);
        put(st, ada, next, id, view("{}"));
        assert_true(server_responses_remove(st, ada, name(id)));
        memcpy(id, next, sizeof id);
    }
    server_responses_size(st, &n, &bytes);
    assert_int_equal(n, 1);
    assert_true(server_responses_remove(st, ada, name(id)));
    server_responses_size(st, &n, &bytes);
    assert_true(n == 0 && bytes == 0);
    server_responses_free(st);
}

static void test_number(void **state)
{
    (void)state;
    struct server_responses *st = make();
    char id[20];
    size_t n, bytes;
    put(st, bob, "bob's", NULL, view("{}"));
    for (unsigned i = 0; i < LIMIT_RESPONSES + 10; i++) {
        snprintf(id, sizeof id, "id-%u", i);
        put(st, ada, id, NULL, view("{}"));
        assert_true(has(st, ada, "id-0")); /* what is asked for stays */
    }
    server_responses_size(st, &n, &bytes);
    assert_int_equal(n, LIMIT_RESPONSES);
    assert_true(has(st, bob, "bob's")); /* who has more than half makes room */
    assert_true(has(st, ada, id));
    assert_false(has(st, ada, "id-1"));
    server_responses_free(st);
}

static void test_bytes(void **state)
{
    (void)state;
    struct server_responses *st = make();
    const size_t big = LIMIT_RESPONSES_BYTES / 5;
    char *text = calloc(1, 3 * big), id[20];
    size_t n, bytes;
    for (int i = 0; i < 8; i++) {
        snprintf(id, sizeof id, "id-%d", i);
        put(st, ada, id, NULL, (struct text_view){text, big});
        server_responses_size(st, &n, &bytes);
        assert_true(bytes <= LIMIT_RESPONSES_BYTES);
    }
    assert_true(has(st, ada, "id-7") && !has(st, ada, "id-0"));
    /* more than half by itself, or with what it continues, is not kept, and pushes nothing out */
    put(st, ada, "huge", NULL, (struct text_view){text, 3 * big});
    assert_false(has(st, ada, "huge"));
    put(st, ada, "next", "id-7", (struct text_view){text, big});
    put(st, ada, "after", "next", (struct text_view){text, big});
    assert_true(has(st, ada, "next") && !has(st, ada, "after"));
    free(text);
    server_responses_free(st);
}

/* What conversations hold on to without a name is their owner's too. */
static void test_shares(void **state)
{
    (void)state;
    struct server_responses *st = make();
    const size_t big = LIMIT_RESPONSES_BYTES / 6;
    char *text = calloc(1, big);
    const struct text_view object = {text, big};
    put(st, bob, "bob-1", NULL, object);
    for (int i = 0; i < 2; i++) {
        put(st, ada, i ? "a-1" : "b-1", NULL, object);
        put(st, ada, i ? "a-2" : "b-2", i ? "a-1" : "b-1", object);
        assert_true(server_responses_remove(st, ada, name(i ? "a-1" : "b-1")));
    }
    put(st, bob, "bob-2", NULL, object);
    assert_true(has(st, bob, "bob-1") && has(st, bob, "bob-2"));
    assert_true(has(st, ada, "a-2") && !has(st, ada, "b-2"));
    free(text);
    server_responses_free(st);
}

/* What requests under way hold cannot be pushed out. */
static void test_held(void **state)
{
    (void)state;
    struct server_responses *st = make();
    const size_t big = LIMIT_RESPONSES_BYTES / 3;
    char *text = calloc(1, big);
    struct server_response *held[2];
    size_t n, bytes;
    for (int i = 0; i < 2; i++) {
        put(st, ada, i ? "b" : "a", NULL, (struct text_view){text, big});
        held[i] = server_responses_find(st, ada, name(i ? "b" : "a"));
    }
    put(st, ada, "c", NULL, (struct text_view){text, big});
    server_responses_size(st, &n, &bytes);
    assert_true(n == 0 && bytes <= LIMIT_RESPONSES_BYTES);
    for (int i = 0; i < 2; i++)
        server_responses_drop(st, held[i]);
    put(st, ada, "c", NULL, (struct text_view){text, big});
    assert_true(has(st, ada, "c"));
    free(text);
    server_responses_free(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),  cmocka_unit_test(test_items), cmocka_unit_test(test_chains),
        cmocka_unit_test(test_number), cmocka_unit_test(test_bytes), cmocka_unit_test(test_held),
        cmocka_unit_test(test_shares),
    };
    return cmocka_run_group_tests_name("response_store", tests, NULL, NULL);
}

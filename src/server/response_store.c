/* response_store: see response_store.h. A table that is looked through: it is short, and asked a few times a request. */
#include "server/response_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "chat/chat.h"

struct server_response_item {
    char id[LIMIT_RESPONSE_ID];
    size_t at, n; /* in the response's output */
};

#define OWNER_MAX 32u /* bytes of an owner: SERVER_OWNER */

/* What an owner holds; there while that is anything. */
struct server_response_account {
    struct server_response_account *next;
    char owner[OWNER_MAX];
    size_t named, bytes;
};

struct place {
    struct server_response *r; /* NULL = free */
    uint64_t used;             /* when it was put or found last, by the store's counter */
    char id[LIMIT_RESPONSE_ID];
};

struct server_responses {
    pthread_mutex_t lock; /* over everything below, and over `owners` and `account` of every response */
    struct place places[LIMIT_RESPONSES];
    struct server_response_account *accounts; /* owned; a list */
    size_t named, bytes;
    uint64_t now;
};

enum status server_responses_new(struct server_responses **out, struct err *e)
{
    struct server_responses *st = calloc(1, sizeof *st);
    *out = st;
    if (!st)
        return err_set(e, ST_NO_MEMORY, "", "no memory for earlier responses");
    pthread_mutex_init(&st->lock, NULL);
    return ST_OK;
}

/* ---- accounts ---- */

static bool is_owner(const struct server_response_account *a, struct server_name owner)
{
    return owner.n == OWNER_MAX && memcmp(a->owner, owner.s, OWNER_MAX) == 0;
}

/* Counts n bytes and one name; an account that is new has nothing else. NULL: no memory. */
static struct server_response_account *charge(struct server_responses *st, struct server_name owner, size_t n)
{
    struct server_response_account *a = st->accounts;
    while (a && !is_owner(a, owner))
        a = a->next;
    if (!a) {
        a = calloc(1, sizeof *a);
        if (!a)
            return NULL;
        memcpy(a->owner, owner.s, OWNER_MAX);
        a->next = st->accounts;
        st->accounts = a;
    }
    a->named++;
    a->bytes += n;
    return a;
}

static void discharge(struct server_responses *st, struct server_response_account *a, size_t n)
{
    struct server_response_account **at = &st->accounts;
    a->bytes -= n;
    if (a->bytes)
        return;
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    free(a);
}

static bool has_too_much(const struct server_response_account *a)
{
    return a->named > LIMIT_RESPONSES / 2 || a->bytes > LIMIT_RESPONSES_BYTES / 2;
}

/* ---- responses ---- */

/* Gives one ownership up, and what was held by it alone; a loop, since chains are long. */
static void disown(struct server_responses *st, struct server_response *r)
{
    while (r && --r->owners == 0) {
        struct server_response *before = r->before;
        st->bytes -= r->bytes;
        discharge(st, r->account, r->bytes);
        free(r->items);
        free(r);
        r = before;
    }
}

static struct text_view copy(char **to, struct text_view from)
{
    struct text_view v = {*to, from.n};
    if (from.n)
        memcpy(*to, from.data, from.n);
    *to += from.n;
    return v;
}

/* Ids that are longer than ours are nobody's. */
static void index_items(struct server_response *r)
{
    struct cut_iter it = chat_cut_open(chat_cut_text(r->output.data, r->output.n));
    struct cut key, one;
    for (size_t i = 0; i < r->items_n && chat_cut_next(&it, &key, &one); i++) {
        const struct cut id = chat_cut_member(one, "id");
        struct server_response_item *item = &r->items[i];
        item->at = (size_t)(one.s - r->output.data);
        item->n = one.n;
        if (chat_cut_kind_of(id) == CUT_STRING && id.n - 2 < sizeof item->id)
            memcpy(item->id, id.s + 1, id.n - 2);
    }
}

static struct server_response *make(struct server_response *before, const struct server_response *texts)
{
    const size_t n = texts->object.n + texts->input.n + texts->output.n;
    const size_t items_n = chat_cut_count(chat_cut_text(texts->output.data, texts->output.n));
    struct server_response *r = calloc(1, sizeof *r + n);
    struct server_response_item *items = calloc(items_n + 1, sizeof *items);
    if (!r || !items) {
        free(r);
        free(items);
        return NULL;
    }
    char *to = r->data;
    r->object = copy(&to, texts->object);
    r->input = copy(&to, texts->input);
    r->output = copy(&to, texts->output);
    r->items = items;
    r->items_n = items_n;
    r->bytes = sizeof *r + n + items_n * sizeof *items;
    r->chain_bytes = r->bytes + (before ? before->chain_bytes : 0);
    r->turns = 1 + (before ? before->turns : 0);
    r->before = before;
    r->owners = 1;
    index_items(r);
    return r;
}

/* ---- places ---- */

static bool is_id(const char *kept, struct server_name id)
{
    return id.n && id.n < LIMIT_RESPONSE_ID && strlen(kept) == id.n && memcmp(kept, id.s, id.n) == 0;
}

static bool owns(const struct place *p, struct server_name owner)
{
    return is_owner(p->r->account, owner);
}

static struct place *look_up(struct server_responses *st, struct server_name owner, struct server_name id)
{
    for (size_t i = 0; i < LIMIT_RESPONSES; i++)
        if (st->places[i].r && is_id(st->places[i].id, id) && owns(&st->places[i], owner))
            return &st->places[i];
    return NULL;
}

static void vacate(struct server_responses *st, struct place *p)
{
    p->r->account->named--;
    disown(st, p->r);
    *p = (struct place){0};
    st->named--;
}

/* The place that was used longest ago, of those who have too much alone if that is said; NULL: there is none. */
static struct place *oldest(struct server_responses *st, bool too_much)
{
    struct place *found = NULL;
    for (size_t i = 0; i < LIMIT_RESPONSES; i++) {
        struct place *p = &st->places[i];
        if (p->r && (!too_much || has_too_much(p->r->account)) && (!found || p->used < found->used))
            found = p;
    }
    return found;
}

/* For n bytes, which are charged already. False: what is left belongs to requests under way, and is too much. */
static bool make_room(struct server_responses *st, size_t n)
{
    while (st->named == LIMIT_RESPONSES || n > LIMIT_RESPONSES_BYTES || st->bytes > LIMIT_RESPONSES_BYTES - n) {
        struct place *victim = oldest(st, true);
        victim = victim ? victim : oldest(st, false);
        if (!victim)
            return false;
        vacate(st, victim);
    }
    return true;
}

static struct place *free_place(struct server_responses *st)
{
    size_t i = 0;
    while (st->places[i].r)
        i++;
    return &st->places[i];
}

/* ---- the store ---- */

void server_responses_free(struct server_responses *st)
{
    if (!st)
        return;
    for (size_t i = 0; i < LIMIT_RESPONSES; i++)
        if (st->places[i].r)
            vacate(st, &st->places[i]);
    pthread_mutex_destroy(&st->lock);
    free(st);
}

/* Gives a response a place. False: it has none, and is the caller's still. */
static bool keep(struct server_responses *st, struct server_name owner, struct server_name id, struct server_response *r)
{
    r->account = charge(st, owner, r->bytes);
    if (!r->account)
        return false;
    if (!make_room(st, r->bytes)) {
        r->account->named--;
        discharge(st, r->account, r->bytes);
        return false;
    }
    struct place *p = free_place(st);
    *p = (struct place){.r = r, .used = ++st->now};
    memcpy(p->id, id.s, id.n);
    if (r->before)
        r->before->owners++;
    st->bytes += r->bytes;
    st->named++;
    return true;
}

void server_responses_put(struct server_responses *st, struct server_name owner, struct server_name id,
                          struct server_response *before, const struct server_response *texts)
{
    if (owner.n != OWNER_MAX || !id.n || id.n >= LIMIT_RESPONSE_ID)
        return;
    struct server_response *r = make(before, texts);
    if (!r)
        return;
    pthread_mutex_lock(&st->lock);
    const bool kept = r->chain_bytes <= LIMIT_RESPONSES_BYTES / 2 && keep(st, owner, id, r);
    pthread_mutex_unlock(&st->lock);
    if (!kept) {
        free(r->items);
        free(r);
    }
}

struct server_response *server_responses_find(struct server_responses *st, struct server_name owner,
                                              struct server_name id)
{
    pthread_mutex_lock(&st->lock);
    struct place *p = look_up(st, owner, id);
    struct server_response *r = p ? p->r : NULL;
    if (r) {
        p->used = ++st->now;
        r->owners++;
    }
    pthread_mutex_unlock(&st->lock);
    return r;
}

void server_responses_drop(struct server_responses *st, struct server_response *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&st->lock);
    disown(st, r);
    pthread_mutex_unlock(&st->lock);
}

bool server_responses_remove(struct server_responses *st, struct server_name owner, struct server_name id)
{
    pthread_mutex_lock(&st->lock);
    struct place *p = look_up(st, owner, id);
    if (p)
        vacate(st, p);
    pthread_mutex_unlock(&st->lock);
    return p != NULL;
}

static const struct server_response_item *item_of(const struct server_response *r, struct server_name id)
{
    for (size_t i = 0; i < r->items_n; i++)
        if (is_id(r->items[i].id, id))
            return &r->items[i];
    return NULL;
}

bool server_responses_item(struct server_responses *st, struct server_name owner, struct server_name id, struct buf *out)
{
    const struct server_response_item *item = NULL;
    pthread_mutex_lock(&st->lock);
    for (size_t i = 0; i < LIMIT_RESPONSES && !item; i++) {
        struct place *p = &st->places[i];
        item = p->r && owns(p, owner) ? item_of(p->r, id) : NULL;
        if (item)
            buf_add(out, p->r->output.data + item->at, item->n);
    }
    pthread_mutex_unlock(&st->lock);
    return item != NULL;
}

void server_responses_size(struct server_responses *st, size_t *responses, size_t *bytes)
{
    pthread_mutex_lock(&st->lock);
    *responses = st->named;
    *bytes = st->bytes;
    pthread_mutex_unlock(&st->lock);
}

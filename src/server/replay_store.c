/* replay_store: see replay_store.h. A table of records in the order of their use, of all and of each owner's, and hash
 * tables over names and owners. To keep one takes no longer the more are kept, unless they share a name. */
#include "server/replay_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096u
#define NAMES (LIMIT_REPLAY_RECORDS * SERVER_REPLAY_NAMES)
#define NONE UINT32_MAX

/* The names of record i are the SERVER_REPLAY_NAMES from names[i * SERVER_REPLAY_NAMES] on; a name in use is in the list of
 * its bucket, newest first. */
struct name {
    char *key; /* owned; NULL = not in use */
    size_t n;
    uint64_t hash;
    uint32_t next;
};

/* Places in the order of their use. */
struct order {
    uint32_t oldest, newest; /* or NONE */
};

enum { ALL, OWN, ORDERS }; /* a place in use is in two: that of all, and that of its account */

struct place {
    struct server_record *record; /* NULL = free */
    uint32_t account;
    struct {
        uint32_t older, newer; /* places, or NONE */
    } in[ORDERS];
    uint32_t next_free;
};

/* What one owner holds. */
struct account {
    uint64_t owner; /* hash of its namespace */
    size_t records, ids;
    struct order used;
    uint32_t next; /* of its bucket, or of the free ones */
};

struct server_replay {
    pthread_mutex_t lock; /* over everything below */
    struct place places[LIMIT_REPLAY_RECORDS];
    struct account accounts[LIMIT_REPLAY_RECORDS];
    struct name names[NAMES];
    uint32_t buckets[BUCKETS], account_buckets[BUCKETS]; /* the first of each, or NONE */
    struct order used;
    uint32_t free_place, free_account; /* the first, or NONE */
    size_t ids, records;
    uint64_t seed;
};

enum status server_replay_new(struct server_replay **out, struct err *e)
{
    struct server_replay *st = calloc(1, sizeof *st);
    *out = st;
    if (!st)
        return err_set(e, ST_NO_MEMORY, "", "no memory for the ids of replies");
    pthread_mutex_init(&st->lock, NULL);
    for (size_t i = 0; i < BUCKETS; i++)
        st->buckets[i] = st->account_buckets[i] = NONE;
    for (uint32_t i = 0; i < LIMIT_REPLAY_RECORDS; i++)
        st->places[i].next_free = st->accounts[i].next = i + 1 < LIMIT_REPLAY_RECORDS ? i + 1 : NONE;
    st->used = (struct order){NONE, NONE};
    st->seed = clock_ns();
    return ST_OK;
}

/* ---- records ---- */

static void free_record(struct server_record *r)
{
    if (!r)
        return;
    free((void *)r->ids.ids);
    free((void *)r->ids.generated);
    free(r);
}

static struct server_record *copy_record(const struct chat_record *from)
{
    struct server_record *r = calloc(1, sizeof *r);
    tok_id *ids = malloc(from->n * sizeof *ids);
    bool *generated = malloc(from->n * sizeof *generated);
    if (!r || !ids || !generated) {
        free(r);
        free(ids);
        free(generated);
        return NULL;
    }
    memcpy(ids, from->ids, from->n * sizeof *ids);
    memcpy(generated, from->generated, from->n * sizeof *generated);
    *r = (struct server_record){.ids = {ids, generated, from->n}, .owners = 1};
    return r;
}

/* Gives one ownership up; what is to be freed, if it was the last. */
static struct server_record *disown(struct server_record *r)
{
    return --r->owners ? NULL : r;
}

/* ---- names ---- */

/* FNV-1a, one number after another's end: salt and name cannot be shifted into each other. */
static uint64_t hash_bytes(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return (h ^ n) * 1099511628211u;
}

static uint64_t hash_name(const struct server_replay *st, struct server_name salt, struct server_name name)
{
    return hash_bytes(hash_bytes(14695981039346656037u ^ st->seed, salt.s, salt.n), name.s, name.n);
}

/* The salt's length, the salt, the name. */
static size_t write_key(char *to, struct server_name salt, struct server_name name)
{
    uint16_t length = (uint16_t)salt.n;
    memcpy(to, &length, sizeof length);
    if (salt.n)
        memcpy(to + sizeof length, salt.s, salt.n);
    memcpy(to + sizeof length + salt.n, name.s, name.n);
    return sizeof length + salt.n + name.n;
}

#define KEY_MAX (sizeof(uint16_t) + LIMIT_SALT + LIMIT_REPLAY_NAME)

static bool fits(struct server_name salt, struct server_name name)
{
    return salt.n <= LIMIT_SALT && name.n && name.n <= LIMIT_REPLAY_NAME;
}

static void link_name(struct server_replay *st, uint32_t at, char *key, size_t n, uint64_t hash)
{
    uint32_t *head = &st->buckets[hash % BUCKETS];
    st->names[at] = (struct name){.key = key, .n = n, .hash = hash, .next = *head};
    *head = at;
}

static void unlink_name(struct server_replay *st, uint32_t at)
{
    struct name *m = &st->names[at];
    if (!m->key)
        return;
    uint32_t *link = &st->buckets[m->hash % BUCKETS];
    while (*link != at)
        link = &st->names[*link].next;
    *link = m->next;
    free(m->key);
    *m = (struct name){0};
}

/* ---- accounts ---- */

/* Where the index of an owner's account stands; *link is NONE if it has none. */
static uint32_t *account_link(struct server_replay *st, uint64_t owner)
{
    uint32_t *link = &st->account_buckets[owner % BUCKETS];
    while (*link != NONE && st->accounts[*link].owner != owner)
        link = &st->accounts[*link].next;
    return link;
}

/* Each account has a record, so that there are enough of them for one more. */
static uint32_t open_account(struct server_replay *st, uint64_t owner)
{
    uint32_t *link = account_link(st, owner);
    if (*link == NONE) {
        uint32_t at = st->free_account;
        st->free_account = st->accounts[at].next;
        st->accounts[at] = (struct account){.owner = owner, .used = {NONE, NONE}, .next = NONE};
        *link = at;
    }
    return *link;
}

static void close_account(struct server_replay *st, uint32_t at)
{
    uint32_t *link = account_link(st, st->accounts[at].owner);
    *link = st->accounts[at].next;
    st->accounts[at].next = st->free_account;
    st->free_account = at;
}

/* An owner who would hold more than half, with n more ids, makes room at its own expense. */
static bool too_much(struct server_replay *st, uint64_t owner, size_t n)
{
    uint32_t at = *account_link(st, owner);
    size_t records = at == NONE ? 0 : st->accounts[at].records, ids = at == NONE ? 0 : st->accounts[at].ids;
    return records + 1 > LIMIT_REPLAY_RECORDS / 2 || ids + n > LIMIT_REPLAY_IDS / 2;
}

/* ---- the order of use ---- */

static struct order *order_of(struct server_replay *st, uint32_t at, int which)
{
    return which == ALL ? &st->used : &st->accounts[st->places[at].account].used;
}

static void take_out(struct server_replay *st, uint32_t at)
{
    for (int i = 0; i < ORDERS; i++) {
        struct order *o = order_of(st, at, i);
        uint32_t older = st->places[at].in[i].older, newer = st->places[at].in[i].newer;
        *(older == NONE ? &o->oldest : &st->places[older].in[i].newer) = newer;
        *(newer == NONE ? &o->newest : &st->places[newer].in[i].older) = older;
    }
}

static void put_newest(struct server_replay *st, uint32_t at)
{
    for (int i = 0; i < ORDERS; i++) {
        struct order *o = order_of(st, at, i);
        st->places[at].in[i].older = o->newest;
        st->places[at].in[i].newer = NONE;
        *(o->newest == NONE ? &o->oldest : &st->places[o->newest].in[i].newer) = at;
        o->newest = at;
    }
}

/* The oldest record, of that owner if it has any. */
static uint32_t oldest_of(struct server_replay *st, uint64_t owner)
{
    uint32_t account = *account_link(st, owner);
    return account == NONE ? st->used.oldest : st->accounts[account].used.oldest;
}

/* ---- the store ---- */

/* Empties a place; what is to be freed, if nobody else holds it. */
static struct server_record *evict(struct server_replay *st, uint32_t at)
{
    struct server_record *r = st->places[at].record;
    uint32_t account_at = st->places[at].account;
    struct account *account = &st->accounts[account_at];
    for (uint32_t i = 0; i < SERVER_REPLAY_NAMES; i++)
        unlink_name(st, at * SERVER_REPLAY_NAMES + i);
    take_out(st, at);
    st->places[at] = (struct place){.next_free = st->free_place};
    st->free_place = at;
    st->records--;
    st->ids -= r->ids.n;
    account->ids -= r->ids.n;
    if (!--account->records)
        close_account(st, account_at);
    return disown(r);
}

/* There is room. Returns the place. */
static uint32_t admit(struct server_replay *st, uint64_t owner, struct server_record *r)
{
    uint32_t at = st->free_place;
    struct place *p = &st->places[at];
    st->free_place = p->next_free;
    *p = (struct place){.record = r, .account = open_account(st, owner)};
    put_newest(st, at);
    st->records++;
    st->ids += r->ids.n;
    st->accounts[p->account].records++;
    st->accounts[p->account].ids += r->ids.n;
    return at;
}

/* The oldest record that is in the way of n more ids, emptied; false when there is room. */
static bool make_room(struct server_replay *st, uint64_t owner, size_t n, struct server_record **gone)
{
    *gone = NULL;
    if (st->records < LIMIT_REPLAY_RECORDS && n <= LIMIT_REPLAY_IDS - st->ids)
        return false;
    *gone = evict(st, too_much(st, owner, n) ? oldest_of(st, owner) : st->used.oldest);
    return true;
}

void server_replay_free(struct server_replay *st)
{
    if (!st)
        return;
    while (st->used.oldest != NONE)
        free_record(evict(st, st->used.oldest));
    pthread_mutex_destroy(&st->lock);
    free(st);
}

static uint64_t hash_owner(const struct server_replay *st, struct server_name salt)
{
    return hash_bytes(14695981039346656037u ^ st->seed, salt.s, salt.n);
}

void server_replay_put(struct server_replay *st, struct server_name salt, const struct server_name *names, size_t n,
                       const struct chat_record *record)
{
    char *keys[SERVER_REPLAY_NAMES] = {NULL};
    size_t sizes[SERVER_REPLAY_NAMES] = {0}, count = 0;
    struct server_record *r = NULL, *gone;
    if (!record->n || record->n > LIMIT_REPLAY_IDS || n > SERVER_REPLAY_NAMES)
        return;
    for (size_t i = 0; i < n; i++)
        if (fits(salt, names[i]) && (keys[i] = malloc(KEY_MAX)) != NULL) {
            sizes[i] = write_key(keys[i], salt, names[i]);
            count++;
        }
    if (!count || !(r = copy_record(record)))
        goto done;
    pthread_mutex_lock(&st->lock);
    const uint64_t owner = hash_owner(st, salt);
    while (make_room(st, owner, record->n, &gone))
        free_record(gone);
    uint32_t at = admit(st, owner, r);
    for (uint32_t i = 0; i < n; i++) {
        if (keys[i])
            link_name(st, at * SERVER_REPLAY_NAMES + i, keys[i], sizes[i], hash_name(st, salt, names[i]));
        keys[i] = NULL;
    }
    pthread_mutex_unlock(&st->lock);
done:
    for (size_t i = 0; i < SERVER_REPLAY_NAMES; i++)
        free(keys[i]);
}

static bool among(struct server_record *const *list, size_t n, const struct server_record *r)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == r)
            return true;
    return false;
}

void server_replay_find(struct server_replay *st, struct server_name salt, struct server_name name,
                        struct server_record **out, size_t *count, size_t cap)
{
    char key[KEY_MAX];
    if (!fits(salt, name))
        return;
    size_t n = write_key(key, salt, name);
    pthread_mutex_lock(&st->lock);
    uint64_t hash = hash_name(st, salt, name);
    for (uint32_t i = st->buckets[hash % BUCKETS]; i != NONE && *count < cap; i = st->names[i].next) {
        const struct name *m = &st->names[i];
        uint32_t at = i / SERVER_REPLAY_NAMES;
        struct place *p = &st->places[at];
        if (m->hash != hash || m->n != n || memcmp(m->key, key, n) != 0 || among(out, *count, p->record))
            continue;
        take_out(st, at);
        put_newest(st, at);
        p->record->owners++;
        out[(*count)++] = p->record;
    }
    pthread_mutex_unlock(&st->lock);
}

void server_replay_drop(struct server_replay *st, struct server_record **found, size_t count)
{
    pthread_mutex_lock(&st->lock);
    for (size_t i = 0; i < count; i++)
        found[i] = disown(found[i]);
    pthread_mutex_unlock(&st->lock);
    for (size_t i = 0; i < count; i++)
        free_record(found[i]);
}

void server_replay_size(struct server_replay *st, size_t *records, size_t *ids)
{
    pthread_mutex_lock(&st->lock);
    *records = st->records;
    *ids = st->ids;
    pthread_mutex_unlock(&st->lock);
}

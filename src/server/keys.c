/* keys: see keys.h. */
#include "server/keys.h"

#include <math.h>
#include <pthread.h>
#include <sha2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/watched.h"

#define SLOTS (LIMIT_KEYS + 2 * LIMIT_CONNECTIONS) /* keys that are gone stay while requests hold them */
#define HASHED "sha256:"

struct server_key {
    uint8_t hash[SHA256_DIGEST_LENGTH];
    char name[LIMIT_KEY_NAME + 1];
    uint32_t rpm, tpm, concurrent; /* 0 = no limit */
    bool live;                     /* in the file */
    uint32_t holders;              /* calls that know it; its slot is not given away meanwhile */
    uint32_t running;              /* those that entered */
    double requests, tokens;       /* left of a minute's */
    uint64_t at;                   /* clock_ns() of that */
};

struct server_keys {
    pthread_mutex_t lock; /* over everything below */
    struct http_watched file;
    uint32_t used; /* slots that ever held a key: the first ones */
    struct server_key slots[SLOTS];
};

/* ---- the file ---- */

static int digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static bool read_hash(const char *s, size_t n, uint8_t *hash)
{
    if (n != 2 * SHA256_DIGEST_LENGTH)
        return false;
    for (size_t i = 0; i < SHA256_DIGEST_LENGTH; i++) {
        int high = digit(s[2 * i]), low = digit(s[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        hash[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static void hash_key(const char *s, size_t n, uint8_t *hash)
{
    SHA2_CTX ctx;
    SHA256Init(&ctx);
    SHA256Update(&ctx, (const uint8_t *)s, n);
    SHA256Final(hash, &ctx);
}

/* "rpm=60" for name "rpm": whether that is it, and a number from 1 to a milliard in *v, or 0 when it is none. */
static bool read_limit(const char *word, size_t n, const char *name, uint32_t *v)
{
    size_t len = strlen(name);
    if (n <= len || memcmp(word, name, len) != 0 || word[len] != '=')
        return false;
    uint64_t sum = 0;
    for (size_t i = len + 1; i < n; i++) {
        if (word[i] < '0' || word[i] > '9' || sum > 100000000u) {
            *v = 0;
            return true;
        }
        sum = sum * 10 + (uint64_t)(word[i] - '0');
    }
    *v = (uint32_t)sum;
    return true;
}

static enum status read_option(struct server_key *k, const char *word, size_t n, unsigned line, struct err *e)
{
    const struct {
        const char *name;
        uint32_t *v;
    } limits[] = {{"rpm", &k->rpm}, {"tpm", &k->tpm}, {"concurrent", &k->concurrent}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (!read_limit(word, n, limits[i].name, limits[i].v))
            continue;
        if (*limits[i].v)
            return ST_OK;
        return err_set(e, ST_ARGUMENT, "api-key-file", "line %u: %s must be a whole number from 1 on", line,
                       limits[i].name);
    }
    const size_t prefix = strlen("name=");
    if (n > prefix && memcmp(word, "name=", prefix) == 0 && n - prefix <= LIMIT_KEY_NAME) {
        memcpy(k->name, word + prefix, n - prefix);
        k->name[n - prefix] = '\0';
        return ST_OK;
    }
    /* The word may be a second key, and errors are logged. */
    return err_set(e, ST_ARGUMENT, "api-key-file", "line %u: behind its key a line has only name= (of at most %u bytes), "
                   "rpm=, tpm= and concurrent=", line, LIMIT_KEY_NAME);
}

/* The next word of a line. */
static size_t next_word(const char **at, const char *end)
{
    while (*at < end && strchr(" \t\r", **at))
        ++*at;
    size_t n = 0;
    while (*at + n < end && !strchr(" \t\r", (*at)[n]))
        n++;
    return n;
}

/* k->live stays false for a line without a key. */
static enum status read_line(struct server_key *k, const char *s, const char *end, unsigned line, struct err *e)
{
    const size_t prefix = strlen(HASHED);
    size_t n = next_word(&s, end);
    *k = (struct server_key){.live = false};
    if (!n || *s == '#')
        return ST_OK;
    if (n > prefix && memcmp(s, HASHED, prefix) == 0) {
        if (!read_hash(s + prefix, n - prefix, k->hash))
            return err_set(e, ST_ARGUMENT, "api-key-file", "line %u: behind " HASHED " there must be 64 digits from 0 to f",
                           line);
    } else {
        hash_key(s, n, k->hash);
    }
    k->live = true;
    snprintf(k->name, sizeof k->name, "line %u", line);
    for (s += n; (n = next_word(&s, end)) && *s != '#'; s += n)
        TRY(read_option(k, s, n, line, e));
    return ST_OK;
}

static enum status read_lines(const struct buf *text, struct server_key *to, uint32_t *n, struct err *e)
{
    const char *s = text->len ? text->data : "", *end = s + text->len;
    *n = 0;
    for (unsigned line = 1; s < end; line++) {
        struct server_key k;
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        stop = stop ? stop : end;
        if (memchr(s, '\0', (size_t)(stop - s)))
            return err_set(e, ST_ARGUMENT, "api-key-file", "line %u holds a NUL", line);
        TRY(read_line(&k, s, stop, line, e));
        for (uint32_t i = 0; k.live && i < *n; i++)
            if (memcmp(to[i].hash, k.hash, sizeof k.hash) == 0)
                return err_set(e, ST_ARGUMENT, "api-key-file", "line %u: this key was there already", line);
        if (k.live && *n == LIMIT_KEYS)
            return err_set(e, ST_TOO_LONG, "api-key-file", "there are more than %u keys", LIMIT_KEYS);
        if (k.live)
            to[(*n)++] = k;
        s = stop + 1;
    }
    return *n ? ST_OK : err_set(e, ST_ARGUMENT, "api-key-file", "there is no key in it");
}

/* ---- the table ---- */

/* Looks at every key, at all of it, so that the time this takes says nothing about them. */
static struct server_key *find(struct server_keys *k, const uint8_t *hash, bool live)
{
    struct server_key *found = NULL;
    for (uint32_t i = 0; i < k->used; i++) {
        struct server_key *s = &k->slots[i];
        unsigned different = 0;
        for (size_t j = 0; j < sizeof s->hash; j++)
            different |= s->hash[j] ^ hash[j];
        if (!different && (s->live || (!live && s->holders)))
            found = s;
    }
    return found;
}

static struct server_key *free_slot(struct server_keys *k)
{
    for (uint32_t i = 0; i < k->used; i++)
        if (!k->slots[i].live && !k->slots[i].holders)
            return &k->slots[i];
    if (k->used == SLOTS)
        BUG("no slot for a key is free");
    return &k->slots[k->used++];
}

/* A bucket that had no limit before is full. */
static double refit(double left, uint32_t before, uint32_t now)
{
    return before ? fmin(left, now) : now;
}

/* Those that stay keep their slots and counts, which goes first so that no new one takes them. */
static void apply(struct server_keys *k, const struct server_key *lines, uint32_t n)
{
    struct server_key *kept[LIMIT_KEYS];
    for (uint32_t i = 0; i < n; i++)
        kept[i] = find(k, lines[i].hash, false);
    for (uint32_t i = 0; i < k->used; i++)
        k->slots[i].live = false;
    for (uint32_t i = 0; i < n; i++) {
        struct server_key *s = kept[i];
        if (!s)
            continue;
        memcpy(s->name, lines[i].name, sizeof s->name);
        s->requests = refit(s->requests, s->rpm, lines[i].rpm);
        s->tokens = refit(s->tokens, s->tpm, lines[i].tpm);
        s->rpm = lines[i].rpm;
        s->tpm = lines[i].tpm;
        s->concurrent = lines[i].concurrent;
        s->live = true;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (kept[i])
            continue;
        struct server_key *s = free_slot(k);
        *s = lines[i];
        s->requests = s->rpm;
        s->tokens = s->tpm;
        s->at = clock_ns();
    }
}

/* Which file it is that has the line. */
static enum status name_file(const char *path, struct err *e)
{
    const struct err what = *e;
    return err_set(e, what.code, what.field, "%s: %s", path, what.text);
}

static enum status reload(struct server_keys *k, struct err *e)
{
    struct server_key *lines = calloc(LIMIT_KEYS, sizeof *lines);
    struct buf text;
    uint32_t n;
    if (!lines)
        return err_set(e, ST_NO_MEMORY, "api-key-file", "no memory for the keys");
    buf_init(&text, LIMIT_KEY_FILE);
    enum status st = http_watched_read(&k->file, &text, e);
    if (st == ST_OK && read_lines(&text, lines, &n, e))
        st = name_file(k->file.path, e);
    if (st == ST_OK)
        apply(k, lines, n);
    if (text.data)
        explicit_bzero(text.data, text.len);
    buf_release(&text);
    free(lines);
    return st;
}

enum status server_keys_new(struct server_keys **out, const char *path, struct err *e)
{
    *out = NULL;
    struct server_keys *k = calloc(1, sizeof *k);
    if (!k)
        return err_set(e, ST_NO_MEMORY, "api-key-file", "no memory for the keys");
    http_watched_init(&k->file, path, "api-key-file");
    enum status st = reload(k, e);
    if (st != ST_OK) {
        free(k);
        return st;
    }
    pthread_mutex_init(&k->lock, NULL);
    *out = k;
    return ST_OK;
}

void server_keys_free(struct server_keys *k)
{
    if (!k)
        return;
    pthread_mutex_destroy(&k->lock);
    free(k);
}

enum status server_keys_reload(struct server_keys *k, struct err *e)
{
    pthread_mutex_lock(&k->lock);
    enum status st = reload(k, e);
    pthread_mutex_unlock(&k->lock);
    return st;
}

/* ---- requests ---- */

static void look_at_file(struct server_keys *k)
{
    struct err e;
    if (!http_watched_changed(&k->file))
        return;
    if (reload(k, &e) == ST_OK)
        log_line(LOG_INFO, "the API keys were read again");
    else
        log_line(LOG_ERROR, "the API keys stay as they were: %s", e.text);
}

struct server_key *server_keys_find(struct server_keys *k, const char *key, char *name)
{
    uint8_t hash[SHA256_DIGEST_LENGTH];
    hash_key(key, strlen(key), hash);
    pthread_mutex_lock(&k->lock);
    look_at_file(k);
    struct server_key *s = find(k, hash, true);
    if (s) {
        s->holders++;
        memcpy(name, s->name, sizeof s->name);
    }
    pthread_mutex_unlock(&k->lock);
    return s;
}

static void refill(struct server_key *s)
{
    const uint64_t now = clock_ns();
    const double minutes = (double)(now - s->at) * 1e-9 / 60;
    s->requests = fmin(s->rpm, s->requests + minutes * s->rpm);
    s->tokens = fmin(s->tpm, s->tokens + minutes * s->tpm);
    s->at = now;
}

/* Until `missing` more are in a bucket of so many a minute. */
static enum status come_back(double missing, uint32_t a_minute, const char *what, struct err *e)
{
    (void)err_set(e, ST_BUSY, "", "this API key may use %u %s a minute, which are used up", a_minute, what);
    const double seconds = ceil(missing * 60 / a_minute);
    e->retry_after = seconds < 1 ? 1 : seconds > 3600 ? 3600 : (int)seconds;
    return ST_BUSY;
}

static enum status enter(struct server_key *s, struct err *e)
{
    refill(s);
    if (s->concurrent && s->running >= s->concurrent) {
        (void)err_set(e, ST_BUSY, "", "this API key may have %u requests under way, and has them", s->concurrent);
        e->retry_after = 1;
        return ST_BUSY;
    }
    if (s->rpm && s->requests < 1)
        return come_back(1 - s->requests, s->rpm, "requests", e);
    if (s->tpm && s->tokens < 1)
        return come_back(1 - s->tokens, s->tpm, "tokens", e);
    s->requests -= 1;
    s->running++;
    return ST_OK;
}

enum status server_keys_enter(struct server_keys *k, struct server_key *key, struct err *e)
{
    pthread_mutex_lock(&k->lock);
    enum status st = enter(key, e);
    pthread_mutex_unlock(&k->lock);
    return st;
}

static struct server_key_limit limit_of(double left, uint32_t a_minute)
{
    struct server_key_limit l = {.limit = a_minute, .left = left > 0 ? (uint32_t)left : 0};
    if (a_minute)
        l.seconds = (uint32_t)fmin(ceil((a_minute - left) * 60 / a_minute), UINT32_MAX);
    return l;
}

struct server_key_left server_keys_left(struct server_keys *k, struct server_key *key)
{
    pthread_mutex_lock(&k->lock);
    refill(key);
    struct server_key_left left = {limit_of(key->requests, key->rpm), limit_of(key->tokens, key->tpm)};
    pthread_mutex_unlock(&k->lock);
    return left;
}

void server_keys_leave(struct server_keys *k, struct server_key *key, bool entered, uint64_t tokens)
{
    pthread_mutex_lock(&k->lock);
    key->holders--;
    if (entered) {
        key->running--;
        refill(key);
        key->tokens -= (double)tokens;
    }
    pthread_mutex_unlock(&k->lock);
}

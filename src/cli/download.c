/* download: see download.h. */
#include "cli/download.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/bar.h"
#include "cli/cli.h"
#include "cli/get.h"
#include "cli/store.h"

#define STEP (64u << 10) /* bytes beyond the best try so far that make a try count as progress */

struct job {
    const struct download *d;
    struct store store;
    struct bar bar;
    char key[STORE_KEY];
    char validator[STORE_VALIDATOR];
    char said[STORE_HEX]; /* SHA-256 by the server, "" = none */
    uint64_t total;       /* 0 = unknown */
    bool judged;          /* the reply at hand was found fit to be taken */
    bool stale;           /* it was not a continuation of what there is: begin again */
    bool resumed;         /* some of the part was fetched by another process, or by another try */
};

bool download_there(const char *path, uint64_t bytes)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (bytes == 0 || (uint64_t)st.st_size == bytes);
}

uint64_t download_missing(const char *path, uint64_t bytes)
{
    struct stat st;
    char part[STORE_PATH + 16];
    if (download_there(path, bytes))
        return 0;
    snprintf(part, sizeof part, "%s" STORE_PART, path);
    uint64_t held = stat(part, &st) == 0 ? (uint64_t)st.st_size : 0;
    return held < bytes ? bytes - held : 0;
}

/* Is what the part holds known to be the beginning of what will come? */
static bool can_resume(const struct job *j)
{
    return j->d->sha256 || j->validator[0];
}

/* --- one try ------------------------------------------------------------------------------------------------------ */

static enum status stale(struct job *j, struct err *e)
{
    j->stale = true;
    return err_set(e, ST_IO, j->d->name, "%s: the server has another version of the file now", j->d->name);
}

/* Judges a reply by its headers, before its first byte is taken. */
static enum status judge(struct job *j, const struct get_reply *r, struct err *e)
{
    const struct download *d = j->d;
    if (r->status == 206 && (!r->ranged || r->first != j->store.size))
        return stale(j, e);
    if (r->status == 206 && j->validator[0] && r->validator[0] && strcmp(j->validator, r->validator) != 0)
        return stale(j, e);
    if (r->status == 200 && j->store.size) /* no ranges here, or another version: it sends all of it */
        TRY(store_restart(&j->store, e));
    if (d->bytes && r->total && r->total != d->bytes)
        return err_set(e, ST_MODEL, d->name, "%s: the server wants to send %llu bytes, expected %llu", d->name,
                       (unsigned long long)r->total, (unsigned long long)d->bytes);
    if (d->sha256 && r->sha256[0] && strcasecmp(d->sha256, r->sha256) != 0)
        return err_set(e, ST_MODEL, d->name, "%.60s: the server's file has SHA-256 %s, expected %s", d->name, r->sha256,
                       d->sha256);
    j->total = d->bytes ? d->bytes : r->total;
    memcpy(j->said, r->sha256, sizeof j->said);
    if (r->status == 200 || r->validator[0])
        memcpy(j->validator, r->validator, sizeof j->validator);
    TRY(store_room(j->store.part, d->name, j->total > j->store.size ? j->total - j->store.size : 0, e));
    bar_begin(&j->bar, d->name, j->store.size);
    j->judged = true;
    return can_resume(j) ? store_note(&j->store, j->key, j->validator, e) : ST_OK;
}

static enum status take(void *ctx, const struct get_reply *r, const void *data, size_t n, struct err *e)
{
    struct job *j = ctx;
    if (!j->judged)
        TRY(judge(j, r, e));
    if (j->store.size == 0 && n >= 4 && memcmp(data, "GGUF", 4) != 0)
        return err_set(e, ST_MODEL, j->d->name, "%s: what the server sends is not a GGUF file", j->d->name);
    if (j->total && (j->store.size > j->total || n > j->total - j->store.size))
        return err_set(e, ST_MODEL, j->d->name, "%s: the server sends more than the %llu bytes expected", j->d->name,
                       (unsigned long long)j->total);
    TRY(store_write(&j->store, data, n, e));
    if (!j->d->quiet)
        bar_show(&j->bar, j->store.size, j->total);
    return ST_OK;
}

static enum status attempt(struct job *j, struct get_reply *r, bool *again, struct err *e)
{
    if (j->store.size && !can_resume(j))
        TRY(store_restart(&j->store, e));
    struct get g = {.url = j->d->url, .token = j->d->token, .from = j->store.size, .take = take, .ctx = j};
    if (g.from && j->validator[0])
        g.if_range = j->validator;
    j->resumed = g.from != 0;
    j->judged = j->stale = false;
    enum status st = get_url(&g, r, again, e);
    if (j->stale || (r->status == 416 && g.from)) {
        *again = true;
        j->validator[0] = '\0';
        TRY(store_restart(&j->store, e));
    } else if (st == ST_OK && j->total && j->store.size < j->total) { /* a range that ends early */
        *again = true;
        return err_set(e, ST_IO, j->d->name, "%s: the server sent less than it should", j->d->name);
    }
    return st;
}

/* --- until it is there -------------------------------------------------------------------------------------------- */

static enum status transfer(struct job *j, struct err *e)
{
    uint64_t best = j->store.size;
    struct get_reply r;
    bool again = false;
    if (j->total && j->store.size == j->total) /* only its end was missing */
        return ST_OK;
    for (uint32_t failed = 0;;) {
        enum status st = attempt(j, &r, &again, e);
        if (st == ST_OK || !again)
            return st;
        failed++;
        if (j->store.size >= best + STEP) {
            best = j->store.size;
            failed = 1;
        }
        if (failed == GET_TRIES)
            return st;
        cli_progress("%s: trying again", j->d->name);
        TRY(get_pause(failed, &r, e));
    }
}

static enum status publish(struct job *j, struct err *e)
{
    const char *sha256 = j->d->sha256 ? j->d->sha256 : j->said[0] ? j->said : NULL;
    return store_publish(&j->store, j->d->name, j->d->bytes, sha256, e);
}

static enum status fetch(struct job *j, struct err *e)
{
    TRY(transfer(j, e));
    enum status st = publish(j, e);
    if (st != ST_MODEL || !j->resumed)
        return st;
    /* the fault may lie in what an earlier try left: once more, from the first byte */
    j->validator[0] = '\0';
    TRY(store_restart(&j->store, e));
    TRY(transfer(j, e));
    return publish(j, e);
}

enum status download_file(const struct download *d, const char *path, struct err *e)
{
    struct job j = {.d = d, .total = d->bytes};
    if (download_there(path, d->bytes))
        return ST_OK;
    int n = d->sha256 ? snprintf(j.key, sizeof j.key, "sha256:%s", d->sha256)
                      : snprintf(j.key, sizeof j.key, "%s", d->url);
    if (n < 0 || (size_t)n >= sizeof j.key)
        return err_set(e, ST_ARGUMENT, d->name, "%s: the address is too long", d->name);
    TRY(store_open(&j.store, path, e));
    bool there = download_there(path, d->bytes); /* another process may have fetched it meanwhile */
    enum status st = there ? ST_OK : store_resume(&j.store, j.key, j.validator, e);
    if (!there && st == ST_OK) {
        j.resumed = j.store.size != 0;
        st = fetch(&j, e);
    }
    cli_progress("%s", "");
    bool resumable = (st == ST_IO || st == ST_CANCELLED) && j.store.size && can_resume(&j);
    store_close(&j.store, resumable || (st == ST_OK && !there)); /* a published one has no part any more */
    return st;
}

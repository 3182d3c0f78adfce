/*
 * rows: what a template determines, as data: runs of ids, each with the place in a reply where it holds.
 *
 * Rows are found by the last id of their trigger: chains in a small hash table.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "format/inside.h"

#define CHAINS 512u

struct template_rows {
    atomic_uint refs;
    struct recogniser_config cfg;
    struct format_tools *tools; /* retained; what cfg.tools points to */
    struct arena memory;
    struct template_row *rows; /* [LIMIT_TEMPLATE_ROWS] at most: n, room for `room` */
    uint32_t *next;            /* of the same chain, + 1; 0 ends it */
    size_t n, room, ids;
    uint32_t heads[CHAINS];
};

enum status template_rows_new(struct template_rows **out, const struct recogniser_config *cfg, struct err *e)
{
    struct template_rows *t = *out = calloc(1, sizeof *t);
    if (!t)
        return err_set(e, ST_NO_MEMORY, "tools", "no memory");
    atomic_init(&t->refs, 1);
    t->cfg = *cfg;
    arena_init(&t->memory, LIMIT_TEMPLATE_IDS * sizeof(tok_id) + LIMIT_TEMPLATE_ROWS * 128u);
    t->tools = (struct format_tools *)cfg->tools; /* the count of references is all that is written */
    if (t->tools)
        format_tools_retain(t->tools);
    return ST_OK;
}

void template_rows_retain(struct template_rows *rows)
{
    atomic_fetch_add(&rows->refs, 1);
}

void template_rows_free(struct template_rows *rows)
{
    if (!rows || atomic_fetch_sub(&rows->refs, 1) != 1)
        return;
    format_tools_free(rows->tools);
    arena_release(&rows->memory);
    free(rows->rows);
    free(rows->next);
    free(rows);
}

static uint32_t chain_of(tok_id last)
{
    return (uint32_t)last * 2654435761u >> 16 & (CHAINS - 1);
}

static bool grow(struct template_rows *t)
{
    size_t room = t->room ? 2 * t->room : 32;
    struct template_row *rows = realloc(t->rows, room * sizeof *rows);
    if (rows)
        t->rows = rows;
    uint32_t *next = rows ? realloc(t->next, room * sizeof *next) : NULL;
    if (next)
        t->next = next, t->room = room;
    return next != NULL;
}

static const tok_id *copy(struct template_rows *t, const tok_id *ids, size_t n)
{
    tok_id *own = arena_try(&t->memory, n * sizeof *own);
    if (own)
        memcpy(own, ids, n * sizeof *own);
    return own;
}

enum status template_rows_add(struct template_rows *rows, const struct template_row *row, struct err *e)
{
    struct template_rows *t = rows;
    size_t ids = (size_t)row->trigger_n + row->append_n;
    if (!row->trigger_n || !row->append_n)
        return err_set(e, ST_ARGUMENT, "template", "a row needs ids that it follows and ids to append");
    if (t->n == LIMIT_TEMPLATE_ROWS || ids > LIMIT_TEMPLATE_IDS - t->ids)
        return err_set(e, ST_TOO_LONG, "template", "more than %u rows or %u ids", LIMIT_TEMPLATE_ROWS,
                       LIMIT_TEMPLATE_IDS);
    if (t->n == t->room && !grow(t))
        return err_set(e, ST_NO_MEMORY, "template", "no memory");
    struct template_row own = *row;
    own.trigger = copy(t, row->trigger, row->trigger_n);
    own.append = copy(t, row->append, row->append_n);
    if (!own.trigger || !own.append)
        return err_set(e, ST_TOO_LONG, "template", "the rows take more memory than is allowed");
    uint32_t *head = &t->heads[chain_of(row->trigger[row->trigger_n - 1])];
    t->rows[t->n] = own;
    t->next[t->n] = *head;
    *head = (uint32_t)++t->n;
    t->ids += ids;
    return ST_OK;
}

size_t template_rows_n(const struct template_rows *rows)
{
    return rows->n;
}

const struct template_row *template_rows_at(const struct template_rows *rows, size_t i)
{
    return &rows->rows[i];
}

const struct recogniser_config *template_rows_config(const struct template_rows *rows)
{
    return &rows->cfg;
}

static bool permits(const struct template_row *row, const struct recogniser_state *s)
{
    if (s->broken)
        return false;
    if (s->place == RECOGNISER_AT_START || s->place == RECOGNISER_AT_TEXT || s->place == RECOGNISER_AT_BETWEEN)
        return row->at_text;
    return s->place == RECOGNISER_AT_CALL && row->points >> s->point & 1 && (row->tool < 0 || row->tool == s->tool) &&
           (row->key < 0 || row->key == s->key) && (row->keys & ~s->keys) == 0 && !(row->absent & s->keys);
}

static bool same(const struct template_row *a, const struct template_row *b)
{
    return a->append_n == b->append_n && !memcmp(a->append, b->append, a->append_n * sizeof *a->append);
}

const struct template_row *template_rows_match(const struct template_rows *rows, const tok_id *ids, size_t n,
                                               const struct recogniser_state *state)
{
    const struct template_row *best = NULL;
    bool doubt = false;
    for (uint32_t i = n ? rows->heads[chain_of(ids[n - 1])] : 0; i; i = rows->next[i - 1]) {
        const struct template_row *row = &rows->rows[i - 1];
        size_t len = row->trigger_n;
        if (len > n || (best && len < best->trigger_n) || memcmp(ids + n - len, row->trigger, len * sizeof *ids) ||
            !permits(row, state))
            continue;
        doubt = best && len == best->trigger_n && (doubt || !same(row, best));
        best = row;
    }
    return doubt ? NULL : best;
}

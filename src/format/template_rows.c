/*
 * template_rows: the runs of ids that a template determines, found by the id they stand behind.
 *
 * Rows hang in chains by the last id of their trigger, so that an id that ends none costs one look.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"

#define CHAINS 1024u                                                                  /* 2^n */
#define ROW_BYTES (LIMIT_TEMPLATE_IDS * sizeof(tok_id) + LIMIT_TEMPLATE_ROWS * 128u) /* with what alignment adds */

struct template_rows {
    _Atomic uint32_t refs;
    struct recogniser_config cfg; /* tools retained */
    struct template_row *rows;    /* [n], room for `room` */
    uint32_t *next;               /* [n] 1 + the next row of the chain; 0: none */
    uint32_t n, room, ids;
    struct arena arena; /* of the ids */
    uint32_t chains[CHAINS];
};

enum status template_rows_new(struct template_rows **out, const struct recogniser_config *cfg, struct err *e)
{
    struct template_rows *t = calloc(1, sizeof *t);
    *out = t;
    if (!t)
        return err_set(e, ST_NO_MEMORY, "tools", "no memory for what the template determines");
    t->refs = 1;
    t->cfg = *cfg;
    if (cfg->tools)
        format_tools_retain((struct format_tools *)cfg->tools);
    arena_init(&t->arena, ROW_BYTES);
    return ST_OK;
}

void template_rows_retain(struct template_rows *rows)
{
    rows->refs++;
}

void template_rows_free(struct template_rows *rows)
{
    if (!rows || --rows->refs)
        return;
    format_tools_free((struct format_tools *)rows->cfg.tools);
    arena_release(&rows->arena);
    free(rows->rows);
    free(rows->next);
    free(rows);
}

static bool grow(struct template_rows *t)
{
    uint32_t room = t->room ? t->room * 2 : 32;
    struct template_row *rows = realloc(t->rows, room * sizeof *rows);
    if (rows)
        t->rows = rows;
    uint32_t *next = realloc(t->next, room * sizeof *next);
    if (next)
        t->next = next;
    if (!rows || !next)
        return false;
    t->room = room;
    return true;
}

static uint32_t *chain(struct template_rows *t, tok_id id)
{
    return &t->chains[(uint32_t)id * 2654435761u >> 22 & (CHAINS - 1)];
}

enum status template_rows_add(struct template_rows *t, const struct template_row *row, struct err *e)
{
    if (!row->trigger_n || !row->append_n || row->sure_n > row->append_n)
        return err_set(e, ST_ARGUMENT, "tools", "a row needs a trigger and something to append");
    uint64_t ids = (uint64_t)row->trigger_n + row->append_n;
    if (t->n == LIMIT_TEMPLATE_ROWS || ids > LIMIT_TEMPLATE_IDS - t->ids)
        return err_set(e, ST_TOO_LONG, "tools", "a template determines more than %u runs or %u tokens",
                       LIMIT_TEMPLATE_ROWS, LIMIT_TEMPLATE_IDS);
    tok_id *copy = arena_try(&t->arena, ids * sizeof *copy);
    if (!copy || (t->n == t->room && !grow(t)))
        return err_set(e, ST_NO_MEMORY, "tools", "no memory for what the template determines");
    memcpy(copy, row->trigger, row->trigger_n * sizeof *copy);
    memcpy(copy + row->trigger_n, row->append, row->append_n * sizeof *copy);
    struct template_row *own = &t->rows[t->n];
    *own = *row;
    own->trigger = copy;
    own->append = copy + row->trigger_n;
    uint32_t *head = chain(t, copy[row->trigger_n - 1]);
    t->next[t->n] = *head;
    *head = ++t->n;
    t->ids += (uint32_t)ids;
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
    if (s->place == RECOGNISER_AT_CALL) {
        if (!(row->points >> s->point & 1))
            return false;
    } else if (!row->at_text || (s->place != RECOGNISER_AT_START && s->place != RECOGNISER_AT_TEXT &&
                                 s->place != RECOGNISER_AT_BETWEEN)) {
        return false;
    }
    return !s->broken && (row->tool < 0 || row->tool == s->tool) && (row->key < 0 || row->key == s->key) &&
           (row->keys & s->keys) == row->keys && !(row->absent & s->keys);
}

static bool same_ids(const tok_id *a, const tok_id *b, size_t n)
{
    return !memcmp(a, b, n * sizeof *a);
}

const struct template_row *template_rows_match(const struct template_rows *rows, const tok_id *ids, size_t n,
                                               const struct recogniser_state *state)
{
    const struct template_row *best = NULL;
    bool doubt = false;
    if (!n)
        return NULL;
    for (uint32_t i = *chain((struct template_rows *)rows, ids[n - 1]); i; i = rows->next[i - 1]) {
        const struct template_row *row = &rows->rows[i - 1];
        if (row->trigger_n > n || (best && row->trigger_n < best->trigger_n) || !permits(row, state) ||
            !same_ids(row->trigger, ids + n - row->trigger_n, row->trigger_n))
            continue;
        if (!best || row->trigger_n > best->trigger_n) {
            best = row;
            doubt = false;
            continue;
        }
        /* Two of them: what both say. */
        const struct template_row *less = row->append_n < best->append_n ? row : best;
        doubt = doubt || !same_ids(row->append, best->append, less->append_n);
        best = less;
    }
    return doubt ? NULL : best;
}

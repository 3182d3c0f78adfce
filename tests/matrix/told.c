/* told: see told.h. */
#include "told.h"

#include <string.h>

static bool is_it(const struct told *t, const struct source_row *row)
{
    return row->prompt_n == t->prompt_n && !memcmp(row->ids, t->prompt, t->prompt_n * sizeof *t->prompt);
}

/* Five ids at a time, and a pause; mixed: the fourth is wrong. Others get two wrong ones now and then. */
static void propose_one(struct told *t, const struct source_ask *ask)
{
    const struct source_row *row = ask->row;
    struct source_proposal *p = ask->out;
    bool it = is_it(t, row);
    uint32_t at = row->n - row->prompt_n;
    p->trust = t->habit == TOLD_CERTAIN ? SOURCE_ASSERT : SOURCE_VERIFY;
    if (t->quiet && (!it || at < t->quiet))
        return;
    if (t->habit == TOLD_CERTAIN && (!it || at % 6 == 5))
        return;
    for (uint32_t i = 0; i < (it ? 5u : 2u) && i < ask->most; i++) {
        if (it ? at + i >= t->reply_n : at % 3 == 0)
            return;
        tok_id right = it ? t->reply[at + i] : 3;
        p->chance[p->n] = 0.9f;
        p->id[p->n++] = t->habit == TOLD_MIXED && i == 3 ? right ^ 1 : right;
        if (t->habit == TOLD_CERTAIN && (at + i) % 6 == 4)
            return;
    }
}

static void propose(struct source *s, const struct source_ask *asks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        propose_one((struct told *)s, &asks[i]);
}

static void stay(struct source *s)
{
    (void)s;
}

void told_init(struct told *t, enum told_habit habit, const tok_id *prompt, uint32_t prompt_n, const tok_id *reply,
               uint32_t reply_n)
{
    *t = (struct told){.habit = habit, .prompt = prompt, .prompt_n = prompt_n, .reply = reply, .reply_n = reply_n};
    t->ops = (struct source_ops){.kind = habit == TOLD_CERTAIN ? SOURCE_GRAMMAR : SOURCE_TEMPLATE,
                                 .propose = propose, .free = stay};
    t->source.ops = &t->ops;
}

/* emit: see emit.h. */
#include "engine/emit.h"

#include <string.h>

#include "engine/inside.h"

uint32_t emit_whole(const char *s, uint32_t n, uint32_t cap)
{
    if (n <= cap)
        return n;
    uint32_t m = cap;
    while (m && ((uint8_t)s[m] & 0xC0) == 0x80)
        m--;
    return m ? m : cap;
}

static void fill_event(struct event *ev, const struct row *r, bool first)
{
    ev->kind = EVENT_TOKEN;
    ev->id = first ? r->chosen : -1;
    ev->text_n = ev->top_n = 0;
    ev->logprob = 0;
    if (!first || !r->logprobs)
        return;
    ev->logprob = r->logprob;
    ev->top_n = r->logprobs - 1;
    for (uint32_t i = 0; i < ev->top_n; i++)
        ev->top[i] = (struct event_logprob){r->top[i].id, r->top[i].logprob};
}

/* Publishes what is certain, in as many events as it takes, one at least for a new id. False when there is more than the
 * ring has room for; one cell is kept for the end. */
static bool publish(struct engine *en, struct row *r)
{
    for (; r->certain || r->untold; r->untold = false) {
        if (slot_room(r->slot) < 2)
            return false;
        struct event *ev = slot_next(r->slot);
        fill_event(ev, r, r->untold);
        ev->text_n = emit_whole(r->stops.text, r->certain, LIMIT_EVENT_BYTES);
        memcpy(ev->text, r->stops.text, ev->text_n);
        r->certain -= ev->text_n;
        stop_take(&r->stops, ev->text_n);
        slot_publish(r->slot);
        engine_news(en, r->slot);
    }
    return true;
}

/* Looks for stop strings in some more text. */
static void look(struct row *r, const char *text, size_t n)
{
    r->hit = stop_feed(&r->stops, text, n);
    r->certain = r->hit ? r->stops.text_n : stop_certain(&r->stops);
}

void emit_more(struct engine *en, struct row *r)
{
    char chunk[STOP_FEED];
    for (;;) {
        if (!publish(en, r))
            return;
        size_t n = en->has_words && !r->hit ? en->words.more(r->stream, chunk, sizeof chunk) : 0;
        if (!n)
            break;
        look(r, chunk, n);
    }
    r->telling = false;
    if (r->hit)
        row_end(en, r, FINISH_STOP, NULL, r->hit);
    else if (r->n - r->prompt_n == r->max_tokens)
        row_end(en, r, FINISH_LENGTH, NULL, NULL);
}

void emit_chosen(struct engine *en, struct row *r)
{
    struct err e;
    if (atomic_load(&r->slot->cancelled)) {
        err_set(&e, ST_CANCELLED, "", "the request was cancelled");
        row_end(en, r, FINISH_CANCELLED, &e, NULL);
        return;
    }
    if (r->status) {
        row_end(en, r, FINISH_ERROR, &r->err, NULL);
        return;
    }
    stats_add(&en->stats, STAT_COMPLETION, 1);
    if (r->first <= 0) {
        r->first = en->now;
        stats_time(&en->stats, STAT_TTFT, en->now - r->submitted);
    } else {
        stats_time(&en->stats, STAT_ITL, en->now - r->last);
    }
    r->last = en->now;
    r->ids[r->n++] = r->chosen;
    if (en->has_words && !r->ignore_eos && en->words.ends(en->words.ctx, r->chosen)) {
        row_end(en, r, FINISH_STOP, NULL, NULL);
        return;
    }
    r->telling = r->untold = true;
    if (en->has_words) {
        char chunk[STOP_FEED];
        look(r, chunk, en->words.put(r->stream, r->chosen, chunk, sizeof chunk));
    }
    emit_more(en, r);
}

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

/* The choice of ids[said - 1]. Choices lie in a ring: there are never more of them unsaid than a step can add. */
static const struct row_choice *choice_of(const struct row *r)
{
    return &r->choice[(r->said - 1) % ROW_CHOICES];
}

void emit_id(const struct row *r, struct event *ev)
{
    const struct row_choice *c = choice_of(r);
    ev->id = r->ids[r->said - 1];
    ev->origin = c->origin;
    if (!r->logprobs)
        return;
    ev->logprob = c->logprob;
    ev->top_n = r->logprobs - 1;
    for (uint32_t i = 0; i < ev->top_n; i++)
        ev->top[i] = (struct event_logprob){c->top[i].id, c->top[i].logprob};
}

static void fill_event(struct event *ev, const struct row *r, bool first)
{
    ev->kind = EVENT_TOKEN;
    ev->id = -1;
    ev->text_n = ev->top_n = 0;
    ev->logprob = 0;
    ev->origin = choice_of(r)->origin;
    if (first)
        emit_id(r, ev);
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

void emit_progress(struct engine *en, struct row *r)
{
    const uint32_t fed = r->seq->len < r->prompt_n ? r->seq->len : r->prompt_n;
    if (!r->progress || (r->began && fed <= r->told_fed) || slot_room(r->slot) < 2)
        return;
    struct event *ev = slot_next(r->slot);
    ev->kind = EVENT_PROGRESS;
    ev->id = -1;
    ev->text_n = ev->top_n = 0;
    ev->cached = r->cached;
    ev->fed = r->told_fed = fed;
    ev->ms = (float)((en->now - r->admitted) * 1e3);
    r->began = true;
    slot_publish(r->slot);
    engine_news(en, r->slot);
}

/* Looks for stop strings in some more text. */
static void look(struct row *r, const char *text, size_t n)
{
    r->hit = stop_feed(&r->stops, text, n);
    r->certain = r->hit ? r->stops.text_n : stop_certain(&r->stops);
}

/* Says the next id. False when that ended the row. */
static bool say(struct engine *en, struct row *r)
{
    tok_id id = r->ids[r->said++];
    const struct row_choice *c = choice_of(r);
    stats_add(&en->stats, STAT_COMPLETION, 1);
    if (c->origin != ORIGIN_SAMPLED) {
        r->by_source[c->origin].accepted++;
        r->by_source[c->origin].asserted += c->asserted;
    }
    if (r->first <= 0) {
        r->first = en->now;
        stats_time(&en->stats, STAT_TTFT, en->now - r->submitted);
    } else {
        stats_time(&en->stats, STAT_ITL, en->now - r->last);
    }
    r->last = en->now;
    if (!r->ignore_eos && engine_ends(en, id)) {
        r->telling = false;
        r->by_id = true;
        row_end(en, r, FINISH_STOP, NULL, NULL);
        return false;
    }
    r->untold = true;
    if (en->has_words) {
        char chunk[STOP_FEED];
        look(r, chunk, en->words.put(r->stream, id, chunk, sizeof chunk));
    }
    return true;
}

/* Everything that was chosen is said. */
static void after_all(struct engine *en, struct row *r)
{
    r->telling = false;
    if (r->status)
        row_end(en, r, FINISH_ERROR, &r->err, NULL);
    else if (r->complete)
        row_end(en, r, FINISH_STOP, NULL, NULL);
    else if (row_is_full(r))
        row_end(en, r, FINISH_LENGTH, NULL, NULL);
}

void emit_more(struct engine *en, struct row *r)
{
    char chunk[STOP_FEED];
    for (;;) {
        if (!publish(en, r))
            return;
        size_t n = en->has_words && !r->hit ? en->words.more(r->stream, chunk, sizeof chunk) : 0;
        if (n) {
            look(r, chunk, n);
            continue;
        }
        if (r->hit) {
            r->telling = false;
            row_end(en, r, FINISH_STOP, NULL, r->hit);
            return;
        }
        if (atomic_load(&r->slot->cancelled)) {
            struct err e;
            err_set(&e, ST_CANCELLED, "", "the request was cancelled");
            row_end(en, r, FINISH_CANCELLED, &e, NULL);
            return;
        }
        if (r->said == r->n) {
            after_all(en, r);
            return;
        }
        if (!say(en, r))
            return;
    }
}

void emit_chosen(struct engine *en, struct row *r)
{
    r->telling = true;
    emit_more(en, r);
}

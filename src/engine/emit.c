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

/* Publishes the first `n` bytes of the row's text, in as many events as it takes; one at least if `first`. False when
 * the ring would not keep a cell for the end. */
static bool publish(struct engine *en, struct row *r, uint32_t n, bool first)
{
    while (n || first) {
        if (slot_room(r->slot) < 2)
            return false;
        struct event *ev = slot_next(r->slot);
        fill_event(ev, r, first);
        ev->text_n = emit_whole(r->stops.text, n, LIMIT_EVENT_BYTES);
        memcpy(ev->text, r->stops.text, ev->text_n);
        n -= ev->text_n;
        stop_take(&r->stops, ev->text_n);
        slot_publish(r->slot);
        first = false;
    }
    engine_news(en, r->slot);
    return true;
}

/* Detokenise, look for stop strings, publish what is certain. */
static bool publish_token(struct engine *en, struct row *r, const struct stop_rule **hit)
{
    *hit = NULL;
    if (!en->has_words)
        return publish(en, r, 0, true);
    char chunk[STOP_FEED];
    bool first = true;
    size_t n = en->words.put(r->stream, r->chosen, chunk, sizeof chunk);
    do {
        *hit = stop_feed(&r->stops, chunk, n);
        if (!publish(en, r, *hit ? r->stops.text_n : stop_certain(&r->stops), first))
            return false;
        first = false;
        n = *hit ? 0 : en->words.more(r->stream, chunk, sizeof chunk);
    } while (n);
    return true;
}

void emit_chosen(struct engine *en, struct row *r)
{
    struct err e;
    const struct stop_rule *hit;
    if (atomic_load(&r->slot->cancelled)) {
        err_set(&e, ST_CANCELLED, "", "the request was cancelled");
        row_end(en, r, FINISH_CANCELLED, &e, NULL);
        return;
    }
    if (r->status) {
        row_end(en, r, FINISH_ERROR, &r->err, NULL);
        return;
    }
    if (r->first <= 0)
        r->first = en->now;
    r->ids[r->n++] = r->chosen;
    if (en->has_words && !r->ignore_eos && en->words.ends(en->words.ctx, r->chosen)) {
        row_end(en, r, FINISH_STOP, NULL, NULL);
    } else if (!publish_token(en, r, &hit)) {
        err_set(&e, ST_UNSUPPORTED, "", "the text of token %d is too long", (int)r->chosen);
        row_end(en, r, FINISH_ERROR, &e, NULL);
    } else if (hit) {
        row_end(en, r, FINISH_STOP, NULL, hit);
    } else if (r->n - r->prompt_n == r->max_tokens) {
        row_end(en, r, FINISH_LENGTH, NULL, NULL);
    }
}

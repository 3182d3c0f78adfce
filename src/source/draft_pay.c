/* draft_pay: see draft_pay.h. */
#include "source/draft_pay.h"

#define DECAY 0.85f     /* of older outcomes, with each new one */
#define LONG_FEED 32u   /* ids from which a forward's time is one of products, not of reading weights */
#define SLOWER 0.2      /* how fast a longer time is believed, */
#define FASTER 0.5      /* and a shorter one */
#define FORGET 0.01
#define PURSE_START 64.0  /* in ids' worth: what may be lost before anything was seen, */
#define PURSE_MOST 512.0  /* and what can be saved up */
#define PURSE_SHARE 0.015 /* of the work that is done anyway */

void source_draft_rate_begin(struct draft_rate *r)
{
    *r = (struct draft_rate){3, 2};
}

void source_draft_rate_learn(struct draft_rate *r, bool hit)
{
    r->hits = r->hits * DECAY + (hit ? 1.0f : 0.0f);
    r->misses = r->misses * DECAY + (hit ? 0.0f : 1.0f);
}

double source_draft_rate(const struct draft_rate *r)
{
    return (double)r->hits / ((double)r->hits + (double)r->misses);
}

static void move(double *mean, double *least, double ms)
{
    *mean = *mean > 0 ? *mean + (ms - *mean) * (ms < *mean ? FASTER : SLOWER) : ms;
    *least = *least > 0 && *least < ms ? *least : ms;
}

static uint32_t size_of(uint32_t ids)
{
    uint32_t i = 0;
    while (i + 1 < DRAFT_SIZES && 1u << i < ids)
        i++;
    return i;
}

void source_draft_times_round(struct draft_times *t, uint32_t ids, double ms)
{
    uint32_t i = size_of(ids);
    move(&t->round[i], &t->least[i], ms);
}

void source_draft_times_feed(struct draft_times *t, uint32_t ids, double ms)
{
    if (ids >= LONG_FEED)
        move(&t->feed, &t->feed_least, ms / ids);
}

void source_draft_times_rest(struct draft_times *t)
{
    for (uint32_t i = 0; i < DRAFT_SIZES; i++)
        t->round[i] += (t->least[i] - t->round[i]) * FORGET;
    t->feed += (t->feed_least - t->feed) * FORGET;
}

/* A size that was not seen is taken for the next smaller one that was: it is tried soon, and then known. */
double source_draft_round_ms(const struct draft_times *t, uint32_t ids)
{
    uint32_t i = size_of(ids);
    while (i && t->round[i] <= 0)
        i--;
    while (i + 1 < DRAFT_SIZES && t->round[i] <= 0)
        i++;
    return t->round[i];
}

double source_draft_feed_ms(const struct draft_times *t, uint32_t ids)
{
    return ids < LONG_FEED ? source_draft_round_ms(t, ids) : ids * t->feed + source_draft_round_ms(t, 1);
}

void source_draft_purse_see(struct draft_purse *p, double worth_ms)
{
    if (worth_ms > 0 && !p->open)
        *p = (struct draft_purse){PURSE_START * worth_ms, true};
}

void source_draft_purse_earn(struct draft_purse *p, double ms, double worth_ms)
{
    p->ms += ms;
    if (worth_ms > 0 && p->ms > PURSE_MOST * worth_ms)
        p->ms = PURSE_MOST * worth_ms;
}

void source_draft_purse_work(struct draft_purse *p, uint32_t ids, double worth_ms)
{
    source_draft_purse_earn(p, PURSE_SHARE * worth_ms * ids, worth_ms);
}

double source_draft_purse_has(const struct draft_purse *p)
{
    return p->ms;
}

bool source_draft_purse_goes_on(const struct draft_purse *p, double worth_ms)
{
    return p->ms > -PURSE_START * worth_ms;
}

/* rate: see rate.h. */
#include "source/rate.h"

#define PULL 4.0f            /* guesses that the next wider counts weigh as */
#define KEEP_OWN 0.96875f    /* of a row's counts, at each guess of a class: the last 32 */
#define KEEP_ALL 0.998f      /* of the engine's: the last 500 */
#define BEGIN 1.0f           /* credit, in ids */
#define MOST 24.0f           /* gains beyond it do not count */
#define SHARE 0.001953125f   /* credit for each id that comes: 1/512 */
#define IN_MIND 0.015625f    /* what a guess adds, as a share of what a proposal of this one id would have */
#define MOST_LOSSES 4.0f
#define FORGIVE 0.984375f    /* of the losses, at each right guess */
#define MARGIN 1.15f         /* what an id is taken to cost: the asked price may be that of longer spans */
#define LEAST 2u             /* ids of a proposal */
#define PRICE_UNITS 65536.0f /* a ticket is the price in these units times 256, and the number of ids */

void source_rate_begin(struct source_rate *r)
{
    *r = (struct source_rate){.credit = BEGIN, .price = 1};
}

uint32_t source_rate_class(const struct source_rates *all, uint32_t match)
{
    uint32_t c = 0;
    while (c + 1 < SOURCE_RATE_CLASSES && all->from[c + 1] <= match)
        c++;
    return c;
}

float source_rate_chance(const struct source_rates *all, const struct source_rate *r, uint32_t match)
{
    const uint32_t c = source_rate_class(all, match);
    const float wide = (all->all.right[c] + PULL * all->prior[c]) / (all->all.seen[c] + PULL);
    return (r->own.right[c] + PULL * wide) / (r->own.seen[c] + PULL);
}

static float cost_of(uint32_t units)
{
    return MARGIN * (float)units / PRICE_UNITS;
}

void source_rate_propose(const struct source_rates *all, struct source_rate *r, uint32_t match, uint32_t n,
                         const struct source_ask *ask)
{
    struct source_proposal *p = ask->out;
    const uint32_t units = ask->price < 1 ? (uint32_t)(ask->price * PRICE_UNITS) : (uint32_t)PRICE_UNITS;
    const float cost = cost_of(units);
    float chance = ask->chance;
    uint32_t j = 0;
    for (; j < n && j < ask->most; j++) {
        p->chance[j] = source_rate_chance(all, r, match + j);
        chance *= p->chance[j];
        if (chance < ask->price || cost * (float)(j + 1) > r->credit)
            break;
    }
    p->n = j < LEAST ? 0 : j;
    p->trust = SOURCE_VERIFY;
    p->ticket = units << 8 | p->n;
    r->credit -= cost * (float)p->n; /* until it is settled: the source may be asked again before */
}

static void add(struct source_rate *r, float credit)
{
    r->credit += credit;
    if (r->credit > MOST)
        r->credit = MOST;
}

void source_rate_passed(struct source_rate *r)
{
    add(r, SHARE / (float)(1u << (uint32_t)r->losses));
}

static void count(struct source_tally *k, uint32_t c, float keep, bool right)
{
    k->seen[c] = k->seen[c] * keep + 1;
    k->right[c] = k->right[c] * keep + (right ? 1 : 0);
}

void source_rate_guessed(struct source_rates *all, struct source_rate *r, uint32_t match, bool right)
{
    const uint32_t c = source_rate_class(all, match);
    if (source_rate_chance(all, r, match) >= r->price) {
        const float some = IN_MIND / (float)(1u << (uint32_t)r->losses);
        if (right)
            add(r, some * (1 - r->price));
        else if (r->credit > 0) /* only real losses make debts */
            r->credit = r->credit > some * r->price ? r->credit - some * r->price : 0;
        r->losses *= right ? FORGIVE : 1;
    }
    count(&r->own, c, KEEP_OWN, right);
    count(&all->all, c, KEEP_ALL, right);
}

void source_rate_settle(struct source_rate *r, uint32_t ticket, uint32_t offered, uint32_t accepted)
{
    const float cost = cost_of(ticket >> 8);
    const float gain = (float)accepted - cost * (float)offered;
    add(r, cost * (float)(ticket & 255) + gain);
    if (offered == 0)
        return;
    if (gain >= 0)
        r->losses = 0;
    else
        r->losses = r->losses < MOST_LOSSES - 1 ? r->losses + 1 : MOST_LOSSES;
}

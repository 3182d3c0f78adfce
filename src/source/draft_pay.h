/*
 * draft_pay: when a draft is worth its time. Private to source; arithmetic alone.
 *
 * Three questions, three parts. How likely is the next id accepted? By its place in the proposal, from what became of
 * earlier ones (rate). How long does a forward of the draft model take? As long as it took (times). And how much may be
 * spent on rows that have not shown that they can be drafted: feeding a prompt, catching up after a pause, trying again?
 * What was earned, plus a small share of the work that is done anyway (purse). So a model that is always wrong costs that
 * share, whatever the prices are.
 */
#ifndef SOURCE_DRAFT_PAY_H
#define SOURCE_DRAFT_PAY_H

#include <stdbool.h>
#include <stdint.h>

#define DRAFT_MARGIN 1.03 /* what is expected must be worth that much more than its price */
#define DRAFT_PRIOR 0.6   /* chance of an id while nothing is known: 3 accepted, 2 refused */

/* Accepted and refused ids at one place of a proposal; older ones count less. */
struct draft_rate {
    float hits, misses;
};

void source_draft_rate_begin(struct draft_rate *r);
void source_draft_rate_learn(struct draft_rate *r, bool hit);
double source_draft_rate(const struct draft_rate *r);

/* Milliseconds, measured. */
#define DRAFT_SIZES 9u /* forwards of up to 1, 2, 4, ... 256 ids */

struct draft_times {
    double round[DRAFT_SIZES]; /* forward, head and draw; 0 = not seen yet */
    double least[DRAFT_SIZES]; /* the shortest that was seen */
    double feed, feed_least;   /* an id of a long forward, without head */
};

void source_draft_times_round(struct draft_times *t, uint32_t ids, double ms);
void source_draft_times_feed(struct draft_times *t, uint32_t ids, double ms); /* short forwards are left out */

/* Nothing was run: what was measured in a bad moment is forgotten slowly, or it would never be measured again. */
void source_draft_times_rest(struct draft_times *t);

double source_draft_round_ms(const struct draft_times *t, uint32_t ids);
double source_draft_feed_ms(const struct draft_times *t, uint32_t ids); /* ids fed, then a round */

struct draft_purse {
    double ms;
    bool open;
};

void source_draft_purse_see(struct draft_purse *p, double worth_ms); /* opens it once the worth of an id is known */
void source_draft_purse_work(struct draft_purse *p, uint32_t ids, double worth_ms); /* ids of the target */
void source_draft_purse_earn(struct draft_purse *p, double ms, double worth_ms);    /* or lose */

/* What may be spent on something that has to be paid in advance, and on what earns, as far as is known. */
double source_draft_purse_has(const struct draft_purse *p);
bool source_draft_purse_goes_on(const struct draft_purse *p, double worth_ms);

#endif

/* cover: see cover.h. */
#include "cover.h"

#include <stdbool.h>
#include <string.h>

#include "base/base.h"

/* [factor][value][other factor][its value]; symmetric. */
typedef bool pair_table[COVER_FACTORS][COVER_VALUES][COVER_FACTORS][COVER_VALUES];

static void start(struct cover *c, const uint32_t *values, uint32_t factors)
{
    memset(c, 0, sizeof *c);
    c->factors = factors;
    if (factors > COVER_FACTORS)
        BUG("%u factors", factors);
    for (uint32_t f = 0; f < factors; f++) {
        if (!values[f] || values[f] > COVER_VALUES)
            BUG("a factor of %u values", values[f]);
        c->values[f] = values[f];
    }
}

static uint8_t *add(struct cover *c)
{
    if (c->n == COVER_MOST)
        BUG("more than %u combinations", COVER_MOST);
    return c->at[c->n++];
}

void cover_full(struct cover *c, const uint32_t *values, uint32_t factors)
{
    uint8_t now[COVER_FACTORS] = {0};
    start(c, values, factors);
    for (uint32_t f = 0; f < factors;) {
        memcpy(add(c), now, sizeof now);
        for (f = 0; f < factors && ++now[f] == values[f]; f++)
            now[f] = 0;
    }
}

static void mark(const struct cover *c, pair_table seen, const uint8_t *row)
{
    for (uint32_t f = 0; f < c->factors; f++)
        for (uint32_t g = 0; g < c->factors; g++)
            if (f != g)
                seen[f][row[f]][g][row[g]] = true;
}

/* Pairs that value v of factor f would add to a combination whose factors in `set` have values already; below them, how
 * many it could still add with the others. */
static uint32_t gain(const struct cover *c, pair_table seen, const uint8_t *row, uint32_t set, uint32_t f, uint32_t v)
{
    uint32_t now = 0, later = 0;
    for (uint32_t g = 0; g < c->factors; g++)
        if (g != f && set & 1u << g)
            now += !seen[f][v][g][row[g]];
        else if (g != f)
            for (uint32_t w = 0; w < c->values[g]; w++)
                later += !seen[f][v][g][w];
    return now * 1000 + later;
}

/* Begins with the first pair that is missing, then gives each factor in turn the value that adds most, the lowest of
 * equal ones. False when nothing is missing. */
static bool next(const struct cover *c, pair_table seen, uint8_t *row)
{
    uint32_t set = 0;
    for (uint32_t f = 0; f < c->factors && !set; f++)
        for (uint32_t v = 0; v < c->values[f] && !set; v++)
            for (uint32_t g = f + 1; g < c->factors && !set; g++)
                for (uint32_t w = 0; w < c->values[g] && !set; w++)
                    if (!seen[f][v][g][w]) {
                        row[f] = (uint8_t)v;
                        row[g] = (uint8_t)w;
                        set = 1u << f | 1u << g;
                    }
    if (!set)
        return false;
    for (uint32_t f = 0; f < c->factors; f++) {
        if (set & 1u << f)
            continue;
        for (uint32_t v = 0; v < c->values[f]; v++)
            if (!v || gain(c, seen, row, set, f, v) > gain(c, seen, row, set, f, row[f]))
                row[f] = (uint8_t)v;
        set |= 1u << f;
    }
    return true;
}

void cover_pairs(struct cover *c, const uint32_t *values, uint32_t factors)
{
    pair_table seen = {0};
    uint8_t row[COVER_FACTORS] = {0};
    start(c, values, factors);
    while (next(c, seen, row)) {
        memcpy(add(c), row, sizeof row);
        mark(c, seen, row);
    }
}

uint32_t cover_missing(const struct cover *c)
{
    pair_table seen = {0};
    uint32_t missing = 0;
    for (uint32_t i = 0; i < c->n; i++)
        mark(c, seen, c->at[i]);
    for (uint32_t f = 0; f < c->factors; f++)
        for (uint32_t g = f + 1; g < c->factors; g++)
            for (uint32_t v = 0; v < c->values[f]; v++)
                for (uint32_t w = 0; w < c->values[g]; w++)
                    missing += !seen[f][v][g][w];
    return missing;
}

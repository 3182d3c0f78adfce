/* stops: see stops.h. */
#include "engine/stops.h"

#include <string.h>

static void fill_borders(const uint8_t *s, uint16_t *fail, uint32_t n)
{
    fail[0] = 0;
    for (uint32_t i = 1, k = 0; i < n; i++) {
        while (k && s[i] != s[k])
            k = fail[k - 1];
        k += s[i] == s[k];
        fail[i] = (uint16_t)k;
    }
}

enum status stop_init(struct stop_set *set, struct arena *a, const struct request_stop *stops, uint32_t n,
                      struct err *e)
{
    set->rules = set->text_n = 0;
    if (n > LIMIT_STOPS)
        return err_set(e, ST_ARGUMENT, "stop", "at most %u stop strings are possible, not %u", LIMIT_STOPS, n);
    for (uint32_t i = 0; i < n; i++) {
        if (!stops[i].n || stops[i].n >= LIMIT_STOP_BYTES)
            return err_set(e, ST_ARGUMENT, "stop", "a stop string has 1 to %u bytes, not %zu", LIMIT_STOP_BYTES - 1,
                           stops[i].n);
        /* One that begins within a character would cut the text there. */
        if (((uint8_t)stops[i].s[0] & 0xC0) == 0x80)
            return err_set(e, ST_ARGUMENT, "stop", "stop string %u is not UTF-8", i);
        uint8_t *s = (uint8_t *)arena_copy(a, stops[i].s, stops[i].n);
        uint16_t *fail = arena_try(a, stops[i].n * sizeof *fail);
        if (!s || !fail)
            return err_set(e, ST_NO_MEMORY, "stop", "no memory for stop strings");
        fill_borders(s, fail, (uint32_t)stops[i].n);
        set->rule[set->rules++] = (struct stop_rule){s, fail, (uint32_t)stops[i].n, 0};
    }
    return ST_OK;
}

/* Advances every rule by one byte; returns the longest that is complete. */
static const struct stop_rule *advance(struct stop_set *set, uint8_t c)
{
    const struct stop_rule *hit = NULL;
    for (uint32_t i = 0; i < set->rules; i++) {
        struct stop_rule *r = &set->rule[i];
        while (r->state && r->s[r->state] != c)
            r->state = r->fail[r->state - 1];
        r->state += r->s[r->state] == c;
        if (r->state == r->n && (!hit || r->n > hit->n))
            hit = r;
    }
    return hit;
}

const struct stop_rule *stop_feed(struct stop_set *set, const char *bytes, size_t n)
{
    if (n > sizeof set->text - set->text_n)
        BUG("%zu bytes of text onto %u", n, set->text_n);
    for (size_t i = 0; i < n; i++) {
        set->text[set->text_n++] = bytes[i];
        const struct stop_rule *hit = set->rules ? advance(set, (uint8_t)bytes[i]) : NULL;
        if (hit) {
            set->text_n -= hit->n;
            for (uint32_t k = 0; k < set->rules; k++)
                set->rule[k].state = 0;
            return hit;
        }
    }
    return NULL;
}

uint32_t stop_certain(const struct stop_set *set)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < set->rules; i++)
        held = set->rule[i].state > held ? set->rule[i].state : held;
    return set->text_n - held;
}

void stop_take(struct stop_set *set, uint32_t n)
{
    set->text_n -= n;
    memmove(set->text, set->text + n, set->text_n);
}

/* sets: ids of a vocabulary as bitmaps. See text.h. */
#include <stdlib.h>
#include <string.h>

#include "text/text.h"

uint8_t *tok_set_new(const struct tok *t)
{
    return calloc(tok_vocab(t) / 8 + 1, 1);
}

void tok_set_free(uint8_t *set)
{
    free(set);
}

static void add(uint8_t *set, size_t id)
{
    set[id / 8] |= (uint8_t)(1u << id % 8);
}

void tok_set_add_eos(uint8_t *set, const struct tok *t)
{
    size_t n;
    const tok_id *ends = tok_eos(t, &n);
    for (size_t i = 0; i < n; i++)
        if (ends[i] >= 0 && (size_t)ends[i] < tok_vocab(t))
            add(set, (size_t)ends[i]);
}

void tok_set_add_text(uint8_t *set, const struct tok *t, const char *text, size_t n)
{
    for (size_t id = 0; id < tok_vocab(t); id++) {
        size_t bytes;
        const char *s = tok_bytes(t, (tok_id)id, &bytes);
        if (bytes == n && n && memcmp(s, text, n) == 0)
            add(set, id);
    }
}

static bool contains(const char *s, size_t n, const struct text_view *parts, size_t parts_n)
{
    for (size_t i = 0; i < parts_n; i++)
        if (n && parts[i].n && memmem(s, n, parts[i].data, parts[i].n))
            return true;
    return false;
}

void tok_set_add_containing(uint8_t *set, const struct tok *t, const struct text_view *parts, size_t parts_n)
{
    for (size_t id = 0; id < tok_vocab(t); id++) {
        size_t n;
        const char *s = tok_bytes(t, (tok_id)id, &n);
        if (contains(s, n, parts, parts_n))
            add(set, id);
    }
}

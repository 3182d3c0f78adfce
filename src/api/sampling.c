/* sampling: the sets of ids that sampling parameters ask for, from a tokenizer. See api.h. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "engine/engine.h"
#include "text/text.h"

static enum status make(uint8_t **set, const struct tok *t, struct sample_set *out, struct err *e)
{
    *set = tok_set_new(t);
    if (!*set)
        return err_set(e, ST_NO_MEMORY, "", "no memory for sets of ids");
    *out = (struct sample_set){*set, (uint32_t)tok_vocab(t)};
    return ST_OK;
}

enum status api_sets_init(struct api_sets *s, const struct tok *t, const char *const *breakers, size_t breakers_n,
                          struct sample_params *p, struct err *e)
{
    *s = (struct api_sets){0};
    if (breakers_n > LIMIT_BREAKERS)
        return err_set(e, ST_ARGUMENT, "dry_sequence_breakers", "at most %u dry_sequence_breakers are possible, not %zu",
                       LIMIT_BREAKERS, breakers_n);
    if (p->min_tokens) {
        TRY(make(&s->ends, t, &p->ends, e));
        tok_set_add_eos(s->ends, t);
    }
    if (p->xtc_probability > 0.0f) {
        TRY(make(&s->protect, t, &p->protect, e));
        tok_set_add_eos(s->protect, t);
        tok_set_add_text(s->protect, t, "\n", 1);
    }
    if (p->dry_multiplier > 0.0f) {
        const char *const *texts = breakers ? breakers : sample_breakers;
        TRY(make(&s->breakers, t, &p->breakers, e));
        for (size_t i = 0; i < (breakers ? breakers_n : SAMPLE_BREAKERS); i++) {
            const struct text_view one = {texts[i], strlen(texts[i])};
            if (!one.n || one.n > LIMIT_BREAKER_BYTES)
                return err_set(e, ST_ARGUMENT, "dry_sequence_breakers",
                               "each of the dry_sequence_breakers has 1 to %u bytes, not %zu", LIMIT_BREAKER_BYTES,
                               one.n);
            tok_set_add_containing(s->breakers, t, &one, 1);
        }
    }
    return ST_OK;
}

void api_sets_release(struct api_sets *s)
{
    tok_set_free(s->ends);
    tok_set_free(s->protect);
    tok_set_free(s->breakers);
    *s = (struct api_sets){0};
}

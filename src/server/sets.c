/* sets: the sets of ids that sampling may ask for; those of the model are made once, at the start. See private.h. */
#include <string.h>

#include "server/reply.h"

enum status server_sets_init(struct server *s, struct err *e)
{
    s->ends = tok_set_new(s->tok);
    s->protect = tok_set_new(s->tok);
    s->breakers = tok_set_new(s->tok);
    if (!s->ends || !s->protect || !s->breakers)
        return err_set(e, ST_NO_MEMORY, "", "no memory for sets of ids");
    tok_set_add_eos(s->ends, s->tok);
    tok_set_add_eos(s->protect, s->tok);
    tok_set_add_text(s->protect, s->tok, "\n", 1);
    for (uint32_t i = 0; i < SAMPLE_BREAKERS; i++) {
        const struct text_view one = {sample_breakers[i], strlen(sample_breakers[i])};
        tok_set_add_containing(s->breakers, s->tok, &one, 1);
    }
    return ST_OK;
}

void server_sets_release(struct server *s)
{
    tok_set_free(s->ends);
    tok_set_free(s->protect);
    tok_set_free(s->breakers);
    s->ends = s->protect = s->breakers = NULL;
}

static enum status own_breakers(const struct server *s, struct reply_job *job, struct err *e)
{
    if (!job->breaker_set)
        job->breaker_set = tok_set_new(s->tok);
    if (!job->breaker_set)
        return err_set(e, ST_NO_MEMORY, "dry_sequence_breakers", "no memory for dry_sequence_breakers");
    tok_set_add_containing(job->breaker_set, s->tok, job->breakers, job->breakers_n);
    return ST_OK;
}

enum status server_job_sets(const struct server *s, struct reply_job *job, struct err *e)
{
    struct sample_params *p = &job->sampling;
    uint32_t n = (uint32_t)tok_vocab(s->tok);
    if (p->min_tokens)
        p->ends = (struct sample_set){s->ends, n};
    if (p->xtc_probability > 0.0f)
        p->protect = (struct sample_set){s->protect, n};
    if (p->dry_multiplier <= 0.0f)
        return ST_OK;
    if (job->own_breakers)
        TRY(own_breakers(s, job, e));
    p->breakers = (struct sample_set){job->own_breakers ? job->breaker_set : s->breakers, n};
    return ST_OK;
}

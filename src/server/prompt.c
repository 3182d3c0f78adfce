/* prompt: what dialects do to a prompt once it is encoded. See reply.h. */
#include <stdlib.h>
#include <string.h>

#include "server/reply.h"

enum status server_prompt_append(const struct server *s, const char *text, size_t n, const char *field,
                                 struct reply_prompt *p, struct err *e)
{
    tok_id *more, *all;
    size_t count;
    TRY(tok_encode(s->tok, text, n, TOK_INNER, &more, &count, e));
    all = malloc((p->n + count) * sizeof *all);
    if (!all) {
        tok_ids_free(more, count);
        return err_set(e, ST_NO_MEMORY, field, "no memory for a prompt of %zu tokens", p->n + count);
    }
    memcpy(all, p->ids, p->n * sizeof *all);
    memcpy(all + p->n, more, count * sizeof *all);
    tok_ids_free(more, count);
    tok_ids_free(p->ids, p->n);
    p->ids = all;
    p->n += count;
    p->from_tok = false;
    return ST_OK;
}

void server_fit_context(const struct server *s, struct reply_job *job)
{
    const size_t context = engine_context(s->engine), n = job->prompts[0].n;
    if (n < context && job->max_tokens > context - n)
        job->max_tokens = 0;
}

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

enum status server_check_bytes(const struct server *s, size_t n, const char *shown, const char *field, struct err *e)
{
    if (s->prompt_bytes && n > s->prompt_bytes)
        return err_set(e, ST_NEVER_FITS, field, "%s has %zu bytes; at most %zu can fit the context", shown, n,
                       s->prompt_bytes);
    return ST_OK;
}

enum status server_read_ids(const struct server *s, const json_t *list, const char *field, tok_id *ids, struct err *e)
{
    const size_t vocab = tok_vocab(s->tok);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || (uint64_t)json_integer_value(id) >= vocab)
            return err_set(e, ST_ARGUMENT, field, "%s: number %zu is no id of the vocabulary of %zu", field, i, vocab);
        ids[i] = (tok_id)json_integer_value(id);
    }
    return ST_OK;
}

void server_fit_context(const struct server *s, struct reply_job *job)
{
    const size_t context = engine_context(s->engine), n = job->prompts[0].n;
    if (n < context && job->max_tokens > context - n)
        job->max_tokens = 0;
}

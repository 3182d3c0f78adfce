/* replay_ask: see replay_ask.h. */
#include "cli/replay_ask.h"

#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "text/text.h"

/* Whether the grammar lets the reply come as it was recorded: all but the id that ends the turn. */
static enum status check_reply(const struct replay_item *it, struct err *e)
{
    struct matcher *m;
    struct matcher_next next = {0};
    TRY(matcher_new(&m, it->grammar, e));
    uint32_t n = (uint32_t)it->reply_n - 1, went = matcher_consume(m, it->reply, n);
    uint32_t *mask = malloc(matcher_words(m) * sizeof *mask);
    enum status st = mask ? ST_OK : err_set(e, ST_NO_MEMORY, "", "no memory for a mask");
    if (st == ST_OK && went == n)
        st = matcher_mask(m, mask, &next, e);
    if (st == ST_OK && went < n)
        st = err_set(e, ST_UNSUPPORTED, "reply", "the request does not allow the reply from its token %u on", went);
    else if (st == ST_OK && !next.end)
        st = err_set(e, ST_UNSUPPORTED, "reply", "the request does not allow the reply to end where it does");
    free(mask);
    matcher_free(m);
    return st;
}

enum status replay_ask(const struct server *s, struct replay_item *it, struct err *e)
{
    struct server_asked *a;
    TRY(server_ask(s, it->line->json, it->line->n, &a, e));
    const struct request *rq = server_asked_request(a);
    it->prompt = malloc(rq->prompt_n * sizeof *it->prompt);
    if (it->prompt)
        memcpy(it->prompt, rq->prompt, rq->prompt_n * sizeof *it->prompt);
    it->prompt_n = rq->prompt_n;
    it->grammar = rq->grammar;
    it->rows = rq->rows;
    if (it->grammar)
        grammar_retain(it->grammar);
    if (it->rows)
        template_rows_retain(it->rows);
    server_asked_free(a);
    if (!it->prompt)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a prompt of %zu tokens", it->prompt_n);
    return it->grammar ? check_reply(it, e) : ST_OK;
}

/* recall: between the prompts of a request and the store of earlier replies. See reply.h. */
#include <stdlib.h>
#include <string.h>

#include "server/reply.h"

void server_look_up(struct reply_job *job, struct server_name name)
{
    for (uint32_t i = 0; i < job->lookups_n; i++)
        if (job->lookups[i].n == name.n && memcmp(job->lookups[i].s, name.s, name.n) == 0)
            return;
    if (name.n && name.n <= LIMIT_REPLAY_NAME && job->lookups_n < LIMIT_REPLAY_LOOKUPS)
        job->lookups[job->lookups_n++] = name;
}

/* The record that spells the longest beginning of the prompt. */
static const struct chat_record *best_of(struct server_record *const *found, size_t count, const struct tok *tok,
                                         const struct reply_prompt *p, struct chat_replay *at)
{
    const struct chat_record *best = NULL;
    *at = (struct chat_replay){0};
    for (size_t i = 0; i < count; i++) {
        struct chat_replay one;
        chat_replay_match(tok, &found[i]->ids, p->ids, p->n, &one);
        if (one.reused && one.fresh > at->fresh) {
            *at = one;
            best = &found[i]->ids;
        }
    }
    return best;
}

/* Without memory the prompt stays as it was encoded. */
static void replay(const struct chat_record *record, const struct chat_replay *at, struct reply_prompt *p)
{
    size_t n = at->recorded + p->n - at->fresh;
    tok_id *ids = malloc(n * sizeof *ids);
    bool *generated = malloc(n * sizeof *generated);
    if (!ids || !generated) {
        free(ids);
        free(generated);
        return;
    }
    (void)chat_replay_apply(record, at, p->ids, p->n, ids, generated);
    tok_ids_free(p->ids, p->n);
    p->ids = ids;
    p->n = n;
    p->from_tok = false;
    p->generated = generated;
    p->replayed = at->reused;
}

/* A split that is much finer than the usual one is not a model's, and a finer one must not be what makes a request too
 * long, or leaves no room for a reply of open length. */
static bool worth_it(const struct chat_replay *at, size_t n, uint32_t max_tokens, uint32_t context)
{
    size_t longer = at->recorded + n - at->fresh;
    if (longer <= n)
        return true;
    if (at->recorded - at->fresh > at->fresh / 8 + 8 || n >= context)
        return false;
    return max_tokens ? longer + max_tokens < context : longer - n <= (context - n) / 8;
}

void server_recall(struct server_replay *store, const struct tok *tok, uint32_t context, struct reply_job *job)
{
    struct server_record *found[LIMIT_REPLAY_CANDIDATES];
    size_t count = 0;
    for (uint32_t i = 0; i < job->lookups_n && store; i++)
        server_replay_find(store, job->owner, job->lookups[i], found, &count, LIMIT_REPLAY_CANDIDATES);
    for (uint32_t i = 0; i < job->prompts_n && count; i++) {
        struct reply_prompt *p = &job->prompts[i];
        struct chat_replay at;
        /* Ids that the client sent stay; log-probabilities of a prompt are those of its usual encoding. */
        const struct chat_record *best = p->from_tok && !job->echo ? best_of(found, count, tok, p, &at) : NULL;
        if (best && worth_it(&at, p->n, job->max_tokens, context))
            replay(best, &at, p);
    }
    if (count)
        server_replay_drop(store, found, count);
}

void server_remember(struct server_replay *store, struct server_name owner, const struct server_name *names,
                     size_t names_n, const struct reply_prompt *prompt, const tok_id *reply, size_t n)
{
    size_t all = prompt->n + n;
    if (!store || all > LIMIT_REPLAY_IDS)
        return;
    tok_id *ids = malloc(all * sizeof *ids);
    bool *generated = malloc(all * sizeof *generated);
    if (ids && generated) {
        memcpy(ids, prompt->ids, prompt->n * sizeof *ids);
        memcpy(ids + prompt->n, reply, n * sizeof *ids);
        for (size_t i = 0; i < all; i++)
            generated[i] = i >= prompt->n || (prompt->generated && prompt->generated[i]);
        server_replay_put(store, owner, names, names_n, &(struct chat_record){ids, generated, all});
    }
    free(ids);
    free(generated);
}

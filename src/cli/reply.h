/*
 * reply: one request through the engine, as run and chat need it: sampling options, streaming to stdout, figures.
 */
#ifndef CLI_REPLY_H
#define CLI_REPLY_H

#include "cli/cli.h"
#include "engine/engine.h"

#define REPLY_TOKENS 512u             /* of a reply when -n is not given, where the context has room for as many */
#define REPLY_NOT_GIVEN UINT32_MAX    /* max_tokens without -n: what does not fit is then no error */

/* What both verbs let users choose; filled by the option table. */
struct reply_options {
    uint32_t max_tokens, top_k, logprobs;
    float temperature, top_p, min_p, repeat_penalty;
    uint64_t seed;
    struct opt_list stops;
};

#define REPLY_DEFAULTS \
    {.max_tokens = REPLY_NOT_GIVEN, .temperature = 0, .top_p = 1, .min_p = 0, .repeat_penalty = 1}

/* `F` is the member of struct S that holds the reply_options. */
#define REPLY_OPTS(S, F) \
    {"max-tokens", 'n', OPT_U32, offsetof(S, F.max_tokens), 0, LIMIT_CONTEXT, "N", \
     "tokens of a reply, at most (512, or what the context still holds); 0 = what the context holds"}, \
    {"temp", 0, OPT_F32, offsetof(S, F.temperature), 0, 100, "T", "temperature (0: always the likeliest token)"}, \
    {"seed", 0, OPT_U64, offsetof(S, F.seed), 0, 0, "S", "seed of the draws (0)"}, \
    {"top-k", 0, OPT_U32, offsetof(S, F.top_k), 0, LIMIT_VOCAB, "K", "draw among the K likeliest (0: all)"}, \
    {"top-p", 0, OPT_F32, offsetof(S, F.top_p), 0.000001, 1, "P", "draw among the likeliest that reach P together (1)"}, \
    {"min-p", 0, OPT_F32, offsetof(S, F.min_p), 0, 0.999999, "P", \
     "draw among those at least P times as likely as the likeliest (0)"}, \
    {"repeat-penalty", 0, OPT_F32, offsetof(S, F.repeat_penalty), 0.01, 100, "R", \
     "divide the scores of tokens that occurred before (1: off)"}, \
    {"stop", 0, OPT_LIST, offsetof(S, F.stops), 0, 0, "TEXT", "end before this text; may be given several times"}

struct reply {
    struct buf ids;      /* tok_id each: those chosen */
    struct buf text;
    json_t *logprobs;    /* array, when asked for */
    double first_s;      /* seconds from the process's start to the first token; 0 = none came */
    double submitted_s;  /* the same for the submission */
    double load_s;       /* set by the caller: the same for a loaded model */
    uint32_t prompt_n;
    struct request_result result;
};

/* Runs the prompt to its end, an interrupt, or a closed stdout. With `stream` text goes to stdout as it comes. On ST_OK
 * the result says how it ended; ST_… when it could not begin or the engine ended it with an error. The caller calls
 * reply_release() either way. */
MUST_CHECK enum status reply_run(struct engine *en, const tok_id *prompt, size_t n, const struct reply_options *o,
                                 bool stream, struct reply *r, struct err *e);
void reply_release(struct reply *r);

/* One line of figures on stderr. */
void reply_print_figures(const struct reply *r);

/* The members of `usage`. */
json_t *reply_usage(const struct reply *r);

#endif

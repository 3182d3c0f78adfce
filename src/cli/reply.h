/*
 * reply: one request through the engine, as run and chat need it: sampling options, streaming to stdout, figures.
 */
#ifndef CLI_REPLY_H
#define CLI_REPLY_H

#include "cli/cli.h"
#include "cli/sources.h"
#include "engine/engine.h"

#define REPLY_TOKENS 512u             /* of a reply when -n is not given, where the context has room for as many */
#define REPLY_NOT_GIVEN UINT32_MAX    /* max_tokens without -n: what does not fit is then no error */

/* What both verbs let users choose; filled by the option table, then by reply_options_finish(). */
struct reply_options {
    uint32_t max_tokens, logprobs;
    struct sample_params sampling;
    struct opt_list stops, biases, breakers;
    uint32_t fill;                        /* enum fill_mode */
    const char *sources;                  /* NULL = all */
    uint32_t sources_off;                 /* what that comes to */
    const struct request *asked;          /* grammar, rows and what else goes with them; NULL = none of it */
    bool keep_special;                    /* control tokens appear in the text */
    bool colours;                         /* text is painted by origin */
    void (*listen)(void *listener, const struct event *ev); /* shows the events of a streamed reply; NULL: their text is */
    void *listener;
    const char *order;                    /* NULL = the default */
    struct sample_bias bias[LIMIT_STOPS]; /* of `biases` */
};

#define REPLY_DEFAULTS {.max_tokens = REPLY_NOT_GIVEN, .sampling = sample_defaults()}

#define REPLY_F32(S, F, NAME, FIELD, LO, HI, ARG, HELP) \
    {NAME, 0, OPT_F32, offsetof(S, F.sampling.FIELD), LO, HI, ARG, HELP}
#define REPLY_U32(S, F, NAME, FIELD, LO, HI, ARG, HELP) \
    {NAME, 0, OPT_U32, offsetof(S, F.sampling.FIELD), LO, HI, ARG, HELP}

/* `F` is the member of struct S that holds the reply_options. */
#define REPLY_OPTS(S, F) \
    {"max-tokens", 'n', OPT_U32, offsetof(S, F.max_tokens), 0, LIMIT_CONTEXT, "N", \
     "tokens of a reply, at most (512, or what the context still holds); 0 = what the context holds"}, \
    REPLY_U32(S, F, "min-tokens", min_tokens, 0, LIMIT_CONTEXT, "N", "no end of the reply before N tokens (0)"), \
    REPLY_F32(S, F, "temp", temperature, 0, 100, "T", "temperature (0: always the likeliest token)"), \
    {"seed", 0, OPT_U64, offsetof(S, F.sampling.seed), 0, 0, "S", "seed of the draws (0)"}, \
    REPLY_U32(S, F, "top-k", top_k, 0, LIMIT_VOCAB, "K", "draw among the K likeliest (0: all)"), \
    REPLY_F32(S, F, "top-p", top_p, 0.000001, 1, "P", "draw among the likeliest that reach P together (1)"), \
    REPLY_F32(S, F, "min-p", min_p, 0, 0.999999, "P", \
              "draw among those at least P times as likely as the likeliest (0)"), \
    REPLY_F32(S, F, "typical-p", typical_p, 0.000001, 1, "P", \
              "draw among those nearest to the usual surprise that reach P together (1)"), \
    REPLY_F32(S, F, "top-n-sigma", top_n_sigma, 0, 100, "N", \
              "draw among those at most N standard deviations below the likeliest (0: off)"), \
    REPLY_F32(S, F, "xtc-probability", xtc_probability, 0, 1, "P", \
              "how often the likeliest tokens are excluded (0)"), \
    REPLY_F32(S, F, "xtc-threshold", xtc_threshold, 0, 1, "P", \
              "and which: all but the last of those at least as likely as P (0.1)"), \
    REPLY_F32(S, F, "repeat-penalty", repetition_penalty, 0.01, 100, "R", \
              "divide the scores of tokens that occurred before (1: off)"), \
    REPLY_F32(S, F, "presence-penalty", presence_penalty, -2, 2, "P", \
              "taken off the scores of tokens that occurred before (0)"), \
    REPLY_F32(S, F, "frequency-penalty", frequency_penalty, -2, 2, "P", "the same for each time they occurred (0)"), \
    REPLY_U32(S, F, "penalty-last", penalty_last, 0, LIMIT_CONTEXT, "N", \
              "tokens that these three look back at (0: all)"), \
    REPLY_F32(S, F, "dry-multiplier", dry_multiplier, 0, 100, "M", \
              "penalty on going on with a repeat of length L: M * B^(L - A) (0: off)"), \
    REPLY_F32(S, F, "dry-base", dry_base, 1, 100, "B", "its base (1.75)"), \
    REPLY_U32(S, F, "dry-allowed-length", dry_allowed, 1, LIMIT_DRY_MATCH, "A", "shorter repeats are free (2)"), \
    REPLY_U32(S, F, "dry-last", dry_last, 0, LIMIT_CONTEXT, "N", "tokens it looks back at (0: all)"), \
    {"dry-sequence-breaker", 0, OPT_LIST, offsetof(S, F.breakers), 0, 0, "TEXT", \
     "ends repeats; may be given several times (newline, colon, double quote, asterisk)"}, \
    REPLY_F32(S, F, "dynatemp-range", dynatemp_range, 0, 100, "R", \
              "temperature from T - R to T + R by the entropy (0: off)"), \
    REPLY_F32(S, F, "dynatemp-exponent", dynatemp_exponent, 0, 100, "E", "exponent of the entropy (1)"), \
    REPLY_U32(S, F, "mirostat", mirostat, 0, 2, "V", "version 1 or 2 instead of the other cuts (0: off)"), \
    REPLY_F32(S, F, "mirostat-tau", mirostat_tau, 0, 100, "BITS", "the surprise it aims at (5)"), \
    REPLY_F32(S, F, "mirostat-eta", mirostat_eta, 0, 1, "ETA", "how fast (0.1)"), \
    {"logit-bias", 0, OPT_LIST, offsetof(S, F.biases), 0, 0, "ID=BIAS", \
     "added to the score of a token id, -100 = never; may be given several times"}, \
    {"samplers", 0, OPT_STR, offsetof(S, F.order), 0, 0, "A;B;C", \
     "another order (penalties;dry;top_n_sigma;top_p;min_p;typ_p;xtc;top_k;temperature)"}, \
    {"fill", 0, OPT_CHOICE, offsetof(S, F.fill), 0, 0, SOURCES_FILL_WORDS, \
     "how tokens that are known or likely beforehand are used (lossless); only strict can change the answer"}, \
    {"sources", 0, OPT_STR, offsetof(S, F.sources), 0, 0, "LIST", \
     "what may propose tokens: some of grammar,grammar_likely,template,echo,ngram,draft (all); none = nothing may"}, \
    {"stop", 0, OPT_LIST, offsetof(S, F.stops), 0, 0, "TEXT", "end before this text; may be given several times"}

/* Reads what the table keeps as text, and checks that the options go together: 0, or says what is wrong and returns 2. */
int reply_options_finish(const struct opt_verb *v, struct reply_options *o);

struct reply {
    struct buf ids;      /* tok_id each: those chosen */
    struct buf text;
    struct buf origins;  /* int8_t each: where ids came from, as in struct event */
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
MUST_CHECK enum status reply_run(struct engine *en, const struct tok *tok, const tok_id *prompt, size_t n,
                                 const struct reply_options *o, bool stream, struct reply *r, struct err *e);
void reply_release(struct reply *r);

/* One line of figures on stderr. */
void reply_print_figures(const struct reply *r);

/* The members of `usage`. */
json_t *reply_usage(const struct reply *r);

#endif

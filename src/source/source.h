/*
 * source: what proposes the next ids of a row.
 *
 * A source looks at what a row has so far and says how it may go on: because nothing else is possible (a grammar), because
 * a template would write it so, because the same text stood there before, because a smaller model thinks so. The engine
 * appends proposals to the span that the row feeds anyway, asks again at the new end until nobody knows more or it would
 * not pay, and compares what has to be compared with the row's own sampler. So a source decides how fast a reply comes,
 * never what is in it.
 *
 * Between two steps a row is `known` ids long; while its next span is built, ids[known, n) are tentative. A source must
 * not change a row, and keeps what it remembers of one in row->state[kind], of a size that its ceiling bounds.
 *
 * Threads: open() on any thread, before the engine knows the row; everything else on the engine thread.
 */
#ifndef SOURCE_SOURCE_H
#define SOURCE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "sample/sample.h"
#include "text/text.h"

#define SOURCE_SPAN 64u /* ids of one proposal at most */

/* In the order in which they are asked. */
enum source_kind {
    SOURCE_GRAMMAR,  /* ids that the row's grammar leaves no choice about */
    SOURCE_LIKELY,   /* the same, if white space goes on as it did so far */
    SOURCE_TEMPLATE, /* tool calls as the chat template writes them */
    SOURCE_ECHO,     /* copies of longer stretches of the row's own ids */
    SOURCE_NGRAM,    /* what followed the last few ids when they came before */
    SOURCE_DRAFT,    /* a smaller model of the same vocabulary */
    SOURCE_KINDS
};

const char *source_name(enum source_kind k); /* "grammar", "grammar_likely", "template", "echo", "ngram", "draft" */

/* The kind of that name; SOURCE_KINDS for none. */
enum source_kind source_find(const char *name, size_t n);

enum source_trust {
    SOURCE_VERIFY, /* compared with what the row's sampler chooses, and cut at the first difference */
    SOURCE_ASSERT  /* taken as chosen: no head is computed for it */
};

struct template_rows;

/* A row as sources see it. */
struct source_row {
    const tok_id *ids;   /* [n]: prompt, output, then tentative ids */
    uint32_t prompt_n;   /* output begins here */
    uint32_t known;      /* tentative ids begin here */
    uint32_t n;
    struct matcher *matcher; /* stands behind ids[0, n), and does so again when a call returns; NULL = no grammar */
    const struct grammar *grammar; /* what it was made of; NULL = none. Lives as long as the row */
    const struct matcher_next *next; /* with a matcher: what may come behind ids[0, known) */
    const struct template_rows *rows; /* what the chat template determines; NULL = nothing is known */
    const struct sample_params *sampling;
    void *state[SOURCE_KINDS]; /* each source's own */
};

struct source_proposal {
    enum source_trust trust;
    uint32_t n;                 /* 0 = nothing to say */
    tok_id id[SOURCE_SPAN];
    float chance[SOURCE_SPAN];  /* verified ids: that the sampler chooses it, provided it chose all before */
    uint32_t sure;              /* of a template's ids, the first so many are determined: strict mode may take them as
                                   chosen, and no others */
    uint32_t ticket;            /* anything; comes back with settle() */
};

struct source_ask {
    const struct source_row *row;
    uint32_t most;    /* ids wanted, at most SOURCE_SPAN */
    float chance;     /* that everything tentative so far will be accepted */
    float price;      /* of computing one more id, as a share of what an accepted one is worth: an id that is accepted with
                         less than this chance, counted from the beginning of the span, does not pay */
    double worth_ms;  /* milliseconds that an accepted id saves; sources that compute weigh their own time against it.
                         0 = not known: their time counts nothing */
    double budget_ms; /* what a source that computes may take for all rows of this step; 0 = not known */
    struct source_proposal *out; /* empty when asked */
};

struct source;

struct source_ops {
    enum source_kind kind;

    /* Makes row->state[kind]; `longest` = ids that the row can grow to. NULL: it needs none. A failure ends the request. */
    enum status (*open)(struct source *s, struct source_row *row, uint32_t longest, struct err *e);
    void (*close)(struct source *s, struct source_row *row); /* state may be NULL; sets it to NULL */

    /* Fills in asks[i].out of the rows that it knows something about. */
    void (*propose)(struct source *s, const struct source_ask *asks, uint32_t n);

    /* What became of a proposal: once for each that was not empty, before observe(). Of its ids `offered` were computed
     * (0: none, or one before them was wrong already; that is no rejection), and the first `accepted` were what the
     * sampler chose. */
    void (*settle)(struct source *s, const struct source_row *row, uint32_t ticket, uint32_t offered, uint32_t accepted);

    /* ids[from, known) are new: chosen or imposed. NULL: not interested. */
    void (*observe)(struct source *s, const struct source_row *row, uint32_t from);

    /* It has given up on this row, because what came contradicted what it stands on. NULL: never. */
    bool (*disarmed)(const struct source *s, const struct source_row *row);

    void (*free)(struct source *s);
};

/* Sources of one engine; each embeds this as its first member. */
struct source {
    const struct source_ops *ops;
};

MUST_CHECK enum status source_grammar_new(struct source **out, struct err *e);
MUST_CHECK enum status source_likely_new(struct source **out, const struct tok *t, struct err *e);
MUST_CHECK enum status source_template_new(struct source **out, const struct tok *t, struct err *e);
MUST_CHECK enum status source_echo_new(struct source **out, const struct tok *t, struct err *e); /* t may be NULL */
MUST_CHECK enum status source_ngram_new(struct source **out, struct err *e);

struct model;
struct pool;

struct source_draft_config {
    const struct model *model; /* the smaller one, of the same vocabulary; outlives the source */
    struct pool *pool;         /* the engine's */
    const struct tok *tok;     /* the target's, for the ids that end a reply; NULL: none is known. Outlives the source */
    uint32_t vocab;            /* the target's ids */
    uint32_t rows, context;    /* as the engine's; a model made for less proposes up to there */
    size_t kv_bytes;           /* most that keys and values may take; 0 = LIMIT_DRAFT_KV, which is also the most */
};

/* ST_ARGUMENT: another vocabulary, too many rows; ST_NEVER_FITS: kv_bytes do not hold one row. Feeds the model a few ids,
 * to see how long it takes. */
MUST_CHECK enum status source_draft_new(struct source **out, const struct source_draft_config *cfg, struct err *e);

/* ST_ARGUMENT with the first difference, unless the same ids stand for the same bytes, are of the same kind and end a
 * reply: what the draft model says is then what the target would have meant. */
MUST_CHECK enum status source_draft_same_vocabulary(const struct tok *target, const struct tok *draft, struct err *e);

/* What the draft model has done so far. Engine thread. */
struct source_draft_counts {
    uint64_t fed;      /* ids, prompts included */
    uint64_t forwards;
    uint64_t drawn;    /* ids proposed */
    double ms;         /* all of it */
    size_t kv_bytes;   /* reserved for keys and values */
};
struct source_draft_counts source_draft_counts(const struct source *s);

#endif

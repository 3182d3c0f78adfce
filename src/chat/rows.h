/*
 * rows: which ids a template determines once a model has begun to call a tool.
 */
#ifndef CHAT_ROWS_H
#define CHAT_ROWS_H

#include "chat/probe.h"

/* The rows for these tools, a JSON array as clients send it, whose names and schemas cfg->tools has in the same order.
 * cfg->in_reasoning is that of the request. NULL: none, and `why` says why in one sentence. */
struct template_rows *chat_rows_compile(const struct chat *c, const struct recogniser_config *cfg, struct cut tools,
                                        struct cut kwargs, char why[CHAT_WHY]);

/* Opens a prober that renders calls as this template does: without the tools where they make no difference, with
 * arguments as a string where the template wants that. False: p->why. Close in any case. */
bool chat_rows_prober(struct chat_prober *p, const struct chat *c, const struct recogniser_config *cfg, struct cut tools,
                      struct cut kwargs);

/* function.name and function.parameters of a tool of a request. */
struct cut chat_rows_name(struct cut tool);
struct cut chat_rows_schema(struct cut tool);

/* Writes the arguments: keys[n] of the schema (-1: a key it does not name), values of the variant, 0 or 1; `pick` of
 * [0, values_n) is the value of the first key instead, where that has few; -1: by the variant. */
void chat_rows_arguments(struct buf *b, const struct chat_schema *s, const int *keys, uint32_t n, int variant, int pick);

/* ---- trie.c: what is common to several replies ---- */

/* A part of a reply: ids[from, to). The one before the first choice, ids[from], is there already. */
struct chat_run {
    const struct chat_probe *p;
    uint32_t from, to;
    uint32_t pair; /* two runs of one pair differ in free text alone: where only one of them goes on, nothing is known */
    int label;     /* the key it leads to, CHAT_RUN_END or CHAT_RUN_OTHER */
    int prev;      /* of the reply: the key whose value it follows; -1: none */
};

enum { CHAT_RUN_END = (int)CHAT_SCHEMA_KEYS, CHAT_RUN_OTHER, CHAT_RUN_LABELS };

struct chat_trie {
    const struct tok *tok;
    struct template_rows *rows;
    struct chat_run *runs; /* [n], all that may come; sorted by chat_trie_rows() */
    uint32_t n;
    uint32_t first;     /* ids of a run that have to be there at least */
    uint8_t *seen;      /* [pairs], zero */
    bool single;        /* runs come alone, not in pairs */
    const struct chat_schema *schema; /* NULL: names of tools are being chosen */
    const struct chat_run *ghosts;    /* [ghosts_n] what may come as well if the model does as it likes */
    uint32_t ghosts_n;
    bool sure;          /* all is determined: ghosts need not be looked at */
    bool unknown;       /* nothing is: a ghost is missing */
    int prev;           /* rows are for what follows the value of this key; -1: none */
    bool value;         /* runs are values */
};

/* Adds the rows; false: a limit was reached. */
bool chat_trie_rows(struct chat_trie *t, struct err *e);

#endif

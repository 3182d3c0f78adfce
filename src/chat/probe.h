/*
 * probe: calls as the template writes them, in tokens.
 *
 * A prober renders conversations that end in a call with given name and arguments, encodes them whole, and cuts the reply
 * out: ids as the model would see them, never those of a piece encoded alone. A recogniser that reads along says of each
 * id what stands behind it.
 */
#ifndef CHAT_PROBE_H
#define CHAT_PROBE_H

#include "chat/chat.h"
#include "chat/cut.h"
#include "chat/schema.h"
#include "format/format.h"

#define CHAT_WHY 160u /* bytes of the sentence that says why there are no rows */

/* A key that a call writes. */
struct chat_written {
    int32_t key;      /* index in the schema; -1: not in it */
    uint32_t name_at; /* bytes of the reply before the key's first */
    uint32_t keyed;   /* ids up to where the key is complete */
    uint32_t done;    /* ids up to where its value is complete, the id that completes it included */
};

/* A reply, in the prober's memory. */
struct chat_probe {
    const tok_id *ids;                    /* [n], of a whole rendering, in order */
    const struct recogniser_state *after; /* [n] behind each id */
    const uint32_t *ends;                 /* [n] bytes of the reply up to the end of each id */
    const bool *in_key;                   /* [n] the id has bytes of a key, or what ends one */
    const char *text;                     /* [text_n] */
    uint32_t n, text_n;
    uint32_t begin, end;                  /* ids[begin, end) are the call */
    uint32_t mark, close;                 /* text[mark, close) is it */
    struct chat_written keys[CHAT_SCHEMA_KEYS + 1]; /* [keys_n] */
    uint32_t keys_n;
};

/* How conversations are put to the template. */
enum {
    CHAT_PROBE_STRING = 1, /* arguments as a string */
    CHAT_PROBE_NULL = 2,   /* content that is null beside a call */
    CHAT_PROBE_TOOLS = 4   /* with the tools */
};

struct chat_prober {
    const struct chat *c;
    struct recogniser_config cfg;
    struct cut tools, kwargs;
    unsigned ways;         /* CHAT_PROBE_… */
    tok_id *prompt;        /* [prompt_n] what a reply follows */
    size_t prompt_n;
    char *prompt_text; /* [prompt_text_n] */
    size_t prompt_text_n;
    uint32_t left; /* renderings that may still be made */
    struct arena arena;
    char why[CHAT_WHY];
};

#define CHAT_LIMIT_PROBES (2u * LIMIT_TOOLS + 1024u) /* renderings for one set of tools */
#define CHAT_LIMIT_PROBE_ARENA (64u << 20) /* bytes of all replies of one prober */
#define CHAT_LIMIT_PROBE_TEXT (1u << 16)   /* bytes of one reply */

/* False: `why` says it. Close in any case. */
bool chat_prober_open(struct chat_prober *p, const struct chat *c, const struct recogniser_config *cfg, struct cut tools,
                      struct cut kwargs, unsigned ways);
void chat_prober_close(struct chat_prober *p);

/* A reply that is a call of the tool `name`, JSON with its quotes, with these arguments, a JSON object; NULL and `why`
 * where the template does not write a complete call of just that tool. `variant` tells apart what is free: ids of calls. */
const struct chat_probe *chat_probe_call(struct chat_prober *p, struct cut name, const char *arguments, size_t n,
                                         int variant);

/* The id that such a call has, nine letters and digits. */
const char *chat_probe_id(int variant);

/* A reply without a call. */
const struct chat_probe *chat_probe_content(struct chat_prober *p, const char *text);

/* The text of a reply of so many calls with the same name and arguments, behind reasoning if that is not NULL. *n == 0:
 * not possible. In the prober's memory. */
const char *chat_probe_text(struct chat_prober *p, struct cut name, const char *arguments, size_t arguments_n,
                            uint32_t calls, const char *reasoning, size_t *n);

#endif

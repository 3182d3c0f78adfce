/*
 * calls: tools, templates and small vocabularies for tests of tool calls, and a model that writes what it is told through
 * a source of proposals.
 */
#ifndef TESTS_LIB_CALLS_H
#define TESTS_LIB_CALLS_H

#include "chat/rows.h"
#include "source/source.h"

/* Parts of templates: how a message begins, and its content and calls as Hermes and Qwen's coders write them. */
#define CALLS_TURN "{% for m in messages %}<|im_start|>{{ m.role }}\n"
#define CALLS_HERMES \
    "{{ m.content }}{% for c in m.tool_calls %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": " \
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}"
#define CALLS_XML \
    "{{ m.content }}{% for c in m.tool_calls %}<tool_call>\n<function={{ c.function.name }}>\n" \
    "{% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}" \
    "</function>\n</tool_call>{% endfor %}"

/* A vocabulary of the 256 bytes and a few words; merged[n] are pairs that become one token, "= g". */
struct tok *calls_tok(const char *const *merged, size_t n);

/* Id of a byte in it, and of its end token. */
#define CALLS_END 257
#define CALLS_THINK 258 /* "<think>", "</think>" follows */

/* Folder of the real vocabularies and templates, or NULL; then a note says which tests are left out. */
const char *calls_corpus(void);
char *calls_read(const char *path, size_t *n); /* NUL-terminated; aborts without the file */

/* A template with tools and what was compiled for them. */
struct calls {
    const struct tok *tok;
    struct chat *chat;
    struct format_tools *tools;
    struct cut list; /* as in a request */
    struct recogniser_config cfg;
    struct template_rows *rows; /* NULL: `why` says it */
    char why[CHAT_WHY];
};

/* `tools`: JSON of an array of {"name": …, "parameters": …}; in memory that outlives c. */
void calls_open(struct calls *c, const struct tok *tok, const char *source, size_t n, const char *tools);
void calls_close(struct calls *c);

/* ids of a reply as they come out of a whole rendering of a request, up to the end of the turn. `message` is the
 * assistant's without its braces. `more` ids of the prompt come first, for a prompt may end in what calls begin with.
 * 0: the template does not render it. Freed with free(). */
size_t calls_reply(const struct calls *c, const char *message, size_t more, tok_id **ids);

struct calls_run {
    uint32_t asked, proposed, offered, accepted, sure_wrong; /* sure_wrong: determined ids that were not */
    bool disarmed;
};

/* A model that writes the ids; `most` = of one proposal. Aborts unless the ids come out as they are. */
void calls_write(struct source *s, const struct calls *c, const tok_id *ids, size_t n, uint32_t most,
                 struct calls_run *out);

#endif

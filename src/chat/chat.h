/*
 * chat: from a conversation to the ids of a prompt, and from a reply's text to what it consists of.
 *
 * A `chat` is a model's chat template together with what was found out about it once: which shape of message content it
 * reads, whether it knows the developer role, whether it shows tools. A request comes as the JSON object a client sent;
 * of its members chat reads `messages`, `tools` and `chat_template_kwargs` and nothing else. Their bytes are cut out of
 * the request and handed on as they are, so 64-bit integers, 0.1 and \u0000 reach the template unharmed; what is
 * normalised is listed at chat_variables().
 *
 * An `assembly` goes the other way: from the text of a reply to reasoning, content and tool calls.
 *
 * Knows no protocol: a dialect that spells conversations differently translates them to this shape first.
 * Threads: immutable once made, usable from any number of threads.
 */
#ifndef CHAT_CHAT_H
#define CHAT_CHAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "chat/cut.h" /* part of this interface: whoever else reads a request's own bytes cuts them the same way */
#include "format/format.h"
#include "text/text.h"

struct chat;

/* Compiles the template in source[n] and looks at what it can do. `tok` outlives the chat. source == NULL: the model has
 * no template; the chat is made all the same and every prompt asked of it is ST_UNSUPPORTED (no other model's template
 * is ever guessed). ST_MODEL where the template does not compile. */
MUST_CHECK enum status chat_new(struct chat **out, const struct tok *tok, const char *source, size_t n, struct err *e);
void chat_free(struct chat *c); /* NULL is fine */

bool chat_has_template(const struct chat *c);
bool chat_knows_tools(const struct chat *c); /* the template mentions tools; without any the model is told (tell.c) */
bool chat_knows_effort(const struct chat *c); /* the template reads the variable reasoning_effort */

struct chat_options {
    bool hide_tools;    /* leave `tools` out of the prompt (tool choice "none") */
    bool no_generation; /* do not open the assistant's turn */
    int64_t unix_time;  /* what strftime_now() sees; 0 = now */
    size_t max_bytes;   /* a longer rendering is refused before it is encoded; 0 = none is */
};

/* Writes the variables the template sees, one JSON object, to the empty buffer `out`. Differences from the request:
 * messages' content parts are joined by line feeds into one string (or a string becomes one part, for templates that
 * read parts only); the role developer becomes system where the template does not know it; the arguments of a tool call
 * become the JSON object they spell, or stay the string they are; the members of chat_template_kwargs become variables,
 * and may set add_generation_prompt. Where the template says nothing of tools, the system's text does (tell.c).
 *
 * ST_ARGUMENT or ST_UNSUPPORTED name the part, as in "messages[2].content[0].type". */
MUST_CHECK enum status chat_variables(const struct chat *c, const char *request, size_t n,
                                      const struct chat_options *o, struct buf *out, struct err *e);

/* chat_variables(), rendering and encoding in one. On success the caller gives *ids back with tok_ids_free(); on failure
 * *ids is NULL. A template that raises is ST_ARGUMENT with its own words; one beyond a limit of the renderer is
 * ST_TOO_LONG, a rendering beyond max_bytes ST_NEVER_FITS. */
MUST_CHECK enum status chat_prompt(const struct chat *c, const char *request, size_t n, const struct chat_options *o,
                                   tok_id **ids, size_t *count, struct err *e);

/* The rendering as text, appended to `out`; errors as there. */
MUST_CHECK enum status chat_text(const struct chat *c, const char *request, size_t n, const struct chat_options *o,
                                 struct buf *out, struct err *e);

/* ---- tool calls in replies (tools.c) ---- */

/* How a reply to a request may be written, and what its template determines. */
struct chat_tools {
    const struct format *format;              /* NULL: no calls are looked for */
    const struct format_reasoning *reasoning; /* NULL: none is looked for */
    bool in_reasoning;                        /* the prompt has opened it */
    struct format_shape shape;                /* of `format`, as this template writes it */
    struct format_tools *tools;               /* the request's; NULL: it has none */
    struct template_rows *rows;               /* NULL: nothing is determined, and `why` says why in one sentence */
    char why[160];
};

struct chat_tools_options {
    const struct format *format;              /* NULL: what the template writes */
    const struct format_reasoning *reasoning; /* likewise */
    bool no_calls, no_reasoning;              /* neither is looked for */
    bool no_rows;                             /* template rows are not wanted */
};

/* What was found out about the latest sets of tools: agents send the same with every turn. Any thread. */
struct chat_tools_cache;
MUST_CHECK enum status chat_tools_cache_new(struct chat_tools_cache **out, const struct chat *c, struct err *e);
void chat_tools_cache_free(struct chat_tools_cache *k); /* NULL is fine */

/* For a request, of which `tools` and `chat_template_kwargs` are read, and its prompt ids[prompt_n]. Takes up to some
 * hundred milliseconds for tools that are new. Failures are those of the tools themselves; what a template does not let
 * find out is no failure. On success the caller gives *out back with chat_tools_release(). */
MUST_CHECK enum status chat_tools_get(struct chat_tools_cache *k, const char *request, size_t n,
                                      const struct chat_tools_options *o, const tok_id *prompt, size_t prompt_n,
                                      struct chat_tools *out, struct err *e);
void chat_tools_release(struct chat_tools *t);

/* How this template writes calls of the format, found by rendering some; what cannot be found out is as
 * format_shape_init() has it. `kwargs`[n]: chat_template_kwargs, or n == 0. True: a call written so was found equal, byte
 * for byte, to one that the template rendered. */
bool chat_shape(const struct chat *c, const struct format *f, const struct format_reasoning *g, const char *kwargs,
                size_t n, struct format_shape *out);

/* ---- replay of generated ids (replay.c) ---- */

/* A prompt and its reply as they were fed: ids[n], and which of them a model chose. */
struct chat_record {
    const tok_id *ids;
    const bool *generated;
    size_t n;
};

/* ids[0, recorded) of a record spell the same bytes as [0, fresh) of a fresh encoding; `reused` of the former were
 * generated. */
struct chat_replay {
    size_t recorded, fresh, reused;
};

/* Finds the longest such beginning that ends between tokens of both. Ids may differ only where the record's are
 * generated and both are plain text: a control token is equal to itself and to nothing that merely looks like it. */
void chat_replay_match(const struct tok *t, const struct chat_record *record, const tok_id *fresh, size_t n,
                       struct chat_replay *out);

/* Writes the prompt that begins as recorded and goes on as encoded: at->recorded + n - at->fresh ids, which is returned.
 * Its bytes are those of fresh[n]. */
size_t chat_replay_apply(const struct chat_record *record, const struct chat_replay *at, const tok_id *fresh, size_t n,
                         tok_id *ids, bool *generated);

/* ---- replies (assemble.c) ---- */

/* What a reply consists of, in the order in which a client is told. */
enum chat_piece_kind {
    CHAT_CONTENT,
    CHAT_REASONING,
    CHAT_CALL,       /* a call begins: text is the tool's name */
    CHAT_ARGUMENTS,  /* more of its arguments, all together the text of a JSON object */
    CHAT_CALL_END,   /* it is complete */
    CHAT_CALL_BROKEN /* it began, but is no call after all; see take_back */
};

struct chat_piece {
    enum chat_piece_kind kind;
    const char *text; /* [n] whole characters, valid during the call of the sink */
    size_t n;
    uint32_t call; /* of calls: its number, from 0 */
};

typedef void chat_sink(void *user, const struct chat_piece *piece);

struct chat_assembly_config {
    const struct tok *tok;
    struct recogniser_config recognise; /* what it points to outlives the assembly */
    bool take_back; /* nobody has seen a call before its end: of one that breaks, what the model wrote follows as content,
                       and the next call gets its number. Otherwise what was told stands */
    bool one_call;  /* all calls behind the first are content, as the model wrote them */
    size_t most;    /* bytes of one call that are kept for either */
};

/* Whether the text that an assembly is fed has to contain control tokens by their spelling. */
bool chat_reads_special(const struct recogniser_config *cfg);

/* Makes pieces of one reply's text as it comes. */
struct chat_assembly;
MUST_CHECK enum status chat_assembly_new(struct chat_assembly **out, const struct chat_assembly_config *cfg,
                                         struct err *e);
void chat_assembly_free(struct chat_assembly *a); /* NULL is fine */

/* The reply's next id, or -1, and the n bytes of text that became certain with it. Of control tokens only those reach
 * the pieces that tags and marks are made of. However the text is cut, the pieces of one kind joined are the same. */
void chat_assembly_put(struct chat_assembly *a, tok_id id, const char *text, size_t n, chat_sink *sink, void *user);

/* The reply has ended: what was held back comes out, and a call that is open is complete or broken. */
void chat_assembly_end(struct chat_assembly *a, chat_sink *sink, void *user);

/* Bytes kept; SIZE_MAX when there was no room for what take_back or one_call need. */
size_t chat_assembly_held(const struct chat_assembly *a);

#endif

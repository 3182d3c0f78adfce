/*
 * asked: options that say what an answer has to look like, taken the way the server takes such requests.
 */
#ifndef CLI_ASKED_H
#define CLI_ASKED_H

#include "api/api.h"
#include "cli/opt.h"
#include "server/server.h"

struct asked_options {
    const char *schema, *regex, *grammar, *tools, *tool_choice; /* at most one of the first four; NULL = not given */
};

/* `F` is the member of struct S that holds the asked_options. */
#define ASKED_OPTS(S, F) \
    {"schema", 0, OPT_STR, offsetof(S, F.schema), 0, 0, "FILE", "the answer is JSON of the schema in this file"}, \
    {"regex", 0, OPT_STR, offsetof(S, F.regex), 0, 0, "REGEX", "the answer matches this"}, \
    {"grammar", 0, OPT_STR, offsetof(S, F.grammar), 0, 0, "FILE", \
     "the answer is of the grammar in this file (GBNF, or llguidance's Lark)"}, \
    {"tools", 0, OPT_STR, offsetof(S, F.tools), 0, 0, "FILE", \
     "the answer may call these functions: a JSON array as in the OpenAI API"}, \
    {"tool-choice", 0, OPT_STR, offsetof(S, F.tool_choice), 0, 0, "CHOICE", \
     "with --tools: auto (the default), none, required, or the name of a function"}

/* 0, or says what is wrong and returns 2. */
int asked_options_check(const struct opt_verb *v, const struct asked_options *o);

bool asked_any(const struct asked_options *o);

/* Appends the members that the options stand for, each with a comma before it, to a request's body. */
MUST_CHECK enum status asked_add(const struct asked_options *o, struct buf *body, struct err *e);

/* A server that only takes requests, for server_ask(); `context` = 0: not known. */
MUST_CHECK enum status asked_server(struct server **out, const struct api_model *m, struct engine *en, struct err *e);

#endif

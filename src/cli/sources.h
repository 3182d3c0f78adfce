/* sources: options that say what may propose tokens, and how. */
#ifndef CLI_SOURCES_H
#define CLI_SOURCES_H

#include "cli/cli.h"
#include "engine/engine.h"

#define SOURCES_ALL ((1u << SOURCE_KINDS) - 1)

#define SOURCES_FILL_WORDS "lossless|off|strict" /* in the order of enum fill_mode */

/* "grammar,echo" as the sources that are off (bit 1 << enum source_kind); "none" is a list of none, NULL of all. False when
 * the list names something that is no source. */
bool sources_parse(const char *list, uint32_t *off);

/* How a wrong list is told. */
#define SOURCES_WRONG "--sources must be 'none' or some of grammar,grammar_likely,template,echo,ngram,draft, not '%.60s'"

/* Opens the draft model, as cli_load() does, and compares its vocabulary with the model's; nothing when path is NULL. */
MUST_CHECK enum status sources_load_draft(struct api_model *out, const char *path, uint32_t threads, bool fresh,
                                          const struct api_model *target, struct err *e);

/* The members of `usage.ffwd` that tell what sources did (docs/fast-forwarding.md). NULL without memory. */
json_t *sources_usage(const struct request_usage *u, const char *relaxed);

/* Each feature of a plan: {"on", "why"}. */
json_t *sources_plan(const struct plan *p);

#endif

/* infill: the control tokens between which a model fills in what is missing. See text.h. */
#include <string.h>

#include "text/shim.h"
#include "text/text.h"

/* How models spell them, where the file does not say which they are. */
static const char *const prefixes[] = {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<|code_prefix|>",
                                       "<｜fim▁begin｜>", "<PRE>", " <PRE>", NULL};
static const char *const suffixes[] = {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<|code_suffix|>",
                                       "<｜fim▁hole｜>", "<SUF>", " <SUF>", NULL};
static const char *const middles[] = {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<|code_middle|>",
                                      "<｜fim▁end｜>", "<MID>", " <MID>", NULL};
static const char *const repos[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", NULL};
static const char *const files[] = {"<|file_sep|>", NULL};

static void find(const struct tok *t, const char *const *names, tok_id *to)
{
    for (; *names && *to == TOK_NONE; names++)
        *to = tok_find_special(t, *names, strlen(*names));
}

void text_find_infill(const struct tok *t, struct tok_infill *in)
{
    find(t, prefixes, &in->prefix);
    find(t, suffixes, &in->suffix);
    find(t, middles, &in->middle);
    find(t, repos, &in->repo);
    find(t, files, &in->file);
}

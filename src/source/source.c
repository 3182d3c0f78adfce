/* source: names. */
#include "source/source.h"

#include <string.h>

static const char *const names[SOURCE_KINDS] = {"grammar", "grammar_likely", "template", "echo", "ngram", "draft"};

const char *source_name(enum source_kind k)
{
    return (unsigned)k < SOURCE_KINDS ? names[k] : "unknown";
}

enum source_kind source_find(const char *name, size_t n)
{
    unsigned k = 0;
    while (k < SOURCE_KINDS && (strlen(names[k]) != n || memcmp(names[k], name, n) != 0))
        k++;
    return (enum source_kind)k;
}

/*
 * cut: finds the members and elements of a JSON text without changing or copying a byte of it.
 *
 * chat passes a client's messages and tools on as they were written; this is what finds where they begin and end. It is
 * not a validator: a well-formed text is cut correctly, any other ends an iteration with `bad` set or yields pieces that
 * the next parser refuses, and nothing outside the text is ever read. No recursion.
 */
#ifndef CHAT_CUT_H
#define CHAT_CUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

/* A piece of the text, white space around it removed. n == 0: no such piece. */
struct cut {
    const char *s;
    size_t n;
};

enum cut_kind { CUT_NONE, CUT_OBJECT, CUT_ARRAY, CUT_STRING, CUT_NUMBER, CUT_BOOL, CUT_NULL };

enum cut_kind chat_cut_kind_of(struct cut v);
const char *chat_cut_kind_name(struct cut v); /* "a string", "nothing", ... */

/* A whole text as one value. */
struct cut chat_cut_text(const char *s, size_t n);

struct cut_iter {
    const char *p, *end; /* what is left between the brackets */
    bool object, first, bad;
};

/* Iterates an object or an array; any other value has no pieces and is not bad. */
struct cut_iter chat_cut_open(struct cut v);

/* The next piece; false at the end or when `bad`. In an object *key is the name with its quotes, in an array nothing. */
bool chat_cut_next(struct cut_iter *it, struct cut *key, struct cut *value);

/* Pieces of an object or an array, up to where it is bad. */
size_t chat_cut_count(struct cut v);

/* The member of that name, or an empty cut. */
struct cut chat_cut_member(struct cut object, const char *name);

/* Whether a string piece, its escapes undone, equals `text`. */
bool chat_cut_is(struct cut string, const char *text);

/* Appends the characters of a string piece, its escapes undone, as UTF-8. A lone surrogate becomes U+FFFD. */
void chat_cut_unescape(struct cut string, struct buf *out);

/* Appends `,"name":v`; nothing where there is no v, or it is null. */
void chat_cut_put(const char *name, struct cut v, struct buf *out);

/* Deepest nesting of brackets in s[n]. */
size_t chat_cut_depth(const char *s, size_t n);

#endif

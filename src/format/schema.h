/*
 * schema: what is found out about JSON Schemas (schema.c), and which of their keywords did not become grammar (left_out.c).
 *
 * `left` counts the parts down, from LIMIT_TOOL_NODES, that may still be looked at.
 */
#ifndef FORMAT_SCHEMA_H
#define FORMAT_SCHEMA_H

#include <jansson.h>

#include "format/inside.h"

/* The schema of a tool, or NULL: any object. The caller drops its reference. */
json_t *format_tools_schema(const struct format_tools *t, size_t tool);

#define FORMAT_REF_DEPTH 8    /* references and unions followed into one another */
#define FORMAT_SCHEMA_ROOT "root"

/* format_type bits of the values; TYPE_ANY where that takes too much looking. */
unsigned format_schema_types(const json_t *root, const json_t *schema, unsigned *left);
unsigned format_schema_type_of(const json_t *value);

/* What "#/a/b" stands for, or NULL. */
const json_t *format_schema_resolve(const json_t *root, const char *ref);

/* The schema of an object that root is, or refers to and says nothing else; *ref, if not NULL: the last reference. */
const json_t *format_schema_object(const json_t *root, const char **ref);

/* The names that are required, as members of an object. The caller drops its reference. */
json_t *format_schema_required(const json_t *schema);

/* All values that the schema allows, or NULL: not so few, or not known. The caller drops its reference. */
json_t *format_schema_values(const json_t *root, const json_t *schema, unsigned types, unsigned *left);

/* Whether a reference leads to anything but the root's definitions; a copy of a part in which all of them lead into the
 * definition FORMAT_SCHEMA_ROOT instead. */
bool format_schema_elsewhere(const json_t *root);
json_t *format_schema_rebase(const json_t *root, const json_t *part);

/* ---- left_out.c: keywords that did not become grammar ---- */

/* A place in a schema, from its end to its root. */
struct format_place {
    const struct format_place *up;
    const char *key;
    bool whole; /* key is a pointer of its own */
};

struct format_scan {
    struct lark *lark;
    size_t tool;
    const json_t *root;
    unsigned types; /* values of these are free: other keywords do not matter */
    bool untyped;   /* of any type, in truth */
    bool listed;    /* only values that const and enum list are written */
    unsigned left;
};

/* keyword NULL: the place itself. */
void format_left_out(const struct format_scan *s, const struct format_place *at, const char *keyword);

/* All that the schema says of values that are free. */
void format_left_out_free(struct format_scan *s, const struct format_place *at, const json_t *schema);

/* What it says of an object that is written with its properties, or, without any, with whatever keys (`open`). */
void format_left_out_object(struct format_scan *s, const struct format_place *at, const json_t *schema, bool open);

/* What an array's schema says beside items. */
void format_left_out_array(struct format_scan *s, const struct format_place *at, const json_t *schema);

/* Whether it says anything of values of these types beside `type` and the keyword `but`. */
bool format_says_more(const json_t *schema, unsigned types, const char *but);

#endif

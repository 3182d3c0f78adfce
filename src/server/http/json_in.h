/*
 * json_in: the reader of request bodies: jansson behind a scan that bounds what it may allocate, and getters that name
 * the field which is wrong.
 *
 * In every getter JSON null counts as absent, and an absent field leaves *v as it was. Duplicate names are an error:
 * two readers of one body (jansson here, the template engine later) might otherwise see different requests.
 */
#ifndef SERVER_HTTP_JSON_IN_H
#define SERVER_HTTP_JSON_IN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* Nesting and number of values within LIMIT_JSON_DEPTH and LIMIT_JSON_VALUES. Says nothing about well-formedness. */
MUST_CHECK enum status http_json_scan(const char *s, size_t n, struct err *e);

/* Parses an object. ST_ARGUMENT with line and column; ST_TOO_LONG from http_json_scan(). The caller drops *out with
 * json_decref(). Integers beyond 64 signed bits are kept as reals. */
MUST_CHECK enum status http_json_parse(const char *s, size_t n, json_t **out, struct err *e);

MUST_CHECK enum status http_get_bool(const json_t *o, const char *key, bool *v, struct err *e);
MUST_CHECK enum status http_get_number(const json_t *o, const char *key, double *v, struct err *e);

/* An integer in [lo, hi]; 16.0 counts as one. */
MUST_CHECK enum status http_get_int(const json_t *o, const char *key, int64_t lo, int64_t hi, int64_t *v, struct err *e);

/* The string lives as long as o and may contain NUL. */
MUST_CHECK enum status http_get_string(const json_t *o, const char *key, const char **v, size_t *n, struct err *e);

/* The member, or NULL when absent or null. */
const json_t *http_get(const json_t *o, const char *key);

/* "a string", "an object", ... */
const char *http_json_type(const json_t *v);

/* ST_ARGUMENT "<key> must be <want>, not <type of v>". */
enum status http_wrong_type(const json_t *v, const char *key, const char *want, struct err *e);

#endif

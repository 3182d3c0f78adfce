/* json_in: see json_in.h. */
#include "server/http/json_in.h"

#include <math.h>
#include <string.h>

#include "server/limits.h"

enum status http_json_scan(const char *s, size_t n, struct err *e)
{
    uint32_t depth = 0, values = 1;
    bool string = false;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                string = false;
            continue;
        }
        if (c == '"') {
            string = true;
        } else if (c == '[' || c == '{') {
            values++;
            if (++depth > LIMIT_JSON_DEPTH)
                return err_set(e, ST_TOO_LONG, "", "the JSON body is nested deeper than %u levels", LIMIT_JSON_DEPTH);
        } else if ((c == ']' || c == '}') && depth) {
            depth--;
        } else if (c == ',' || c == ':') {
            values++;
        }
        if (values > LIMIT_JSON_VALUES)
            return err_set(e, ST_TOO_LONG, "", "the JSON body has more than %u values", LIMIT_JSON_VALUES);
    }
    return ST_OK;
}

enum status http_json_parse(const char *s, size_t n, json_t **out, struct err *e)
{
    const size_t flags = JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES;
    json_error_t je;
    *out = NULL;
    if (!n)
        return err_set(e, ST_ARGUMENT, "", "the body is empty; a JSON object was expected");
    TRY(http_json_scan(s, n, e));
    json_t *root = json_loadb(s, n, flags, &je);
    if (!root && json_error_code(&je) == json_error_numeric_overflow)
        root = json_loadb(s, n, flags | JSON_DECODE_INT_AS_REAL, &je);
    if (!root)
        return err_set(e, ST_ARGUMENT, "", "the body is not valid JSON: %s (line %d, column %d)", je.text, je.line,
                       je.column);
    if (!json_is_object(root)) {
        json_decref(root);
        return err_set(e, ST_ARGUMENT, "", "the body must be a JSON object, not an array");
    }
    *out = root;
    return ST_OK;
}

const json_t *http_get(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_null(v) ? NULL : v;
}

const char *http_json_type(const json_t *v)
{
    if (!v)
        return "nothing";
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    default:
        return "null";
    }
}

enum status http_wrong_type(const json_t *v, const char *key, const char *want, struct err *e)
{
    return err_set(e, ST_ARGUMENT, key, "%s must be %s, not %s", key, want, http_json_type(v));
}

enum status http_get_bool(const json_t *o, const char *key, bool *v, struct err *e)
{
    const json_t *j = http_get(o, key);
    if (!j)
        return ST_OK;
    if (!json_is_boolean(j))
        return http_wrong_type(j, key, "a boolean", e);
    *v = json_is_true(j);
    return ST_OK;
}

enum status http_get_number(const json_t *o, const char *key, double *v, struct err *e)
{
    const json_t *j = http_get(o, key);
    if (!j)
        return ST_OK;
    if (!json_is_number(j))
        return http_wrong_type(j, key, "a number", e);
    *v = json_number_value(j);
    return ST_OK;
}

enum status http_get_int(const json_t *o, const char *key, int64_t lo, int64_t hi, int64_t *v, struct err *e)
{
    const json_t *j = http_get(o, key);
    if (!j)
        return ST_OK;
    if (!json_is_number(j))
        return http_wrong_type(j, key, "an integer", e);
    int64_t x;
    if (json_is_integer(j)) {
        x = json_integer_value(j);
    } else {
        double d = json_real_value(j);
        /* Beyond 2^53 a real no longer says which integer was meant. */
        if (d != floor(d) || fabs(d) > 9007199254740992.0)
            return err_set(e, ST_ARGUMENT, key, "%s must be an integer between %lld and %lld", key, (long long)lo,
                           (long long)hi);
        x = (int64_t)d;
    }
    if (x < lo || x > hi)
        return err_set(e, ST_ARGUMENT, key, "%s must be an integer between %lld and %lld, not %lld", key,
                       (long long)lo, (long long)hi, (long long)x);
    *v = x;
    return ST_OK;
}

enum status http_get_string(const json_t *o, const char *key, const char **v, size_t *n, struct err *e)
{
    const json_t *j = http_get(o, key);
    if (!j)
        return ST_OK;
    if (!json_is_string(j))
        return http_wrong_type(j, key, "a string", e);
    *v = json_string_value(j);
    *n = json_string_length(j);
    return ST_OK;
}

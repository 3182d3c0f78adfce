/*
 * json_out: the writer of replies: pieces of JSON appended to a buf.
 *
 * Nothing here can produce invalid JSON or invalid UTF-8, whatever the bytes. Failure is the buf's (`failed`), checked
 * once by whoever sends it.
 */
#ifndef SERVER_HTTP_JSON_OUT_H
#define SERVER_HTTP_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void http_json_str(struct buf *b, const char *s, size_t n);
void http_json_text(struct buf *b, const char *s, size_t n); /* the inside of one */
void http_json_cstr(struct buf *b, const char *s); /* the same; NULL is written as null */

void http_json_u64(struct buf *b, uint64_t v);

/* With six decimals, whatever the locale; values that JSON has no word for become -9999.000000, as in OpenAI's API. */
void http_json_fixed(struct buf *b, double v);

/* The shortest of the usual notations that reads back as the same float; v is finite. */
void http_json_float(struct buf *b, float v);

/* n bytes as a string in base64. https://www.rfc-editor.org/rfc/rfc4648#section-4 */
void http_json_base64(struct buf *b, const void *data, size_t n);

/* Length of the UTF-8 character at s[n], or 0 when the bytes there are not one (overlong forms and surrogates are not). */
size_t http_utf8_char(const char *s, size_t n);
bool http_utf8_valid(const char *s, size_t n);

#endif

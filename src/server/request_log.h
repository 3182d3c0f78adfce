/*
 * request_log: one line of JSON for each request: who, what, how long, how many tokens, under which trace. What was said
 * is in it only where the operator asked for that.
 *
 * Threads: any; a line is written by one call.
 */
#ifndef SERVER_REQUEST_LOG_H
#define SERVER_REQUEST_LOG_H

#include "server/http/http.h"

struct server_request_log;

/* `path` outlives *out. */
MUST_CHECK enum status server_request_log_new(struct server_request_log **out, const char *path, bool content,
                                              struct err *e);
void server_request_log_free(struct server_request_log *l); /* NULL is fine */

/* After the file was moved away, lines go to a new one. */
MUST_CHECK enum status server_request_log_reopen(struct server_request_log *l, struct err *e);

/* Writes the line of a call that is over; how "" = well. `l` may be NULL. */
void server_request_log_write(struct server_request_log *l, const struct http_call *call, const char *how);

/* http_watch.came and .sent: keep what was said, if that is logged. */
void server_keep_body(struct http_call *call);
void server_keep_reply(struct http_call *call, const char *data, size_t n);

#endif

/*
 * streams: one thread that sends what is new of all streams.
 *
 * A stream's own thread could wait for its events and send them, but waking it for each token costs more than what it
 * does then: two thirds of a token's price where many streams run. So it hands its call over to this thread, which waits
 * for the news of all of them at one descriptor, asks each for its own, and does what is usual: something came, and the
 * client's socket takes it. Whatever else happens gives the call back to its own thread, which finds out what it is: the
 * client left, does not read, or the stream ended, or nothing was sent for long.
 *
 * What is sent here goes past the library, as chunks of HTTP/1.1 that look like the library's own (http_stream() decides
 * which calls that is possible for). It never has anything unsent of its own when it asks for more.
 */
#ifndef SERVER_HTTP_STREAMS_H
#define SERVER_HTTP_STREAMS_H

#include "server/http/http.h"

struct http_streams;

#define HTTP_FRAME 32u                         /* bytes of a chunk beside its text, at most, */
#define HTTP_CHUNK (LIMIT_REPLY + HTTP_FRAME)  /* and of all of it */

/* news_fd: http_config's. The thread ends once stop_fd is readable, which is to be before http_streams_free(); calls stay
 * with their own threads from then on. */
MUST_CHECK enum status http_streams_new(struct http_streams **out, int stop_fd, int news_fd, http_sent *sent,
                                        struct err *e);
void http_streams_free(struct http_streams *s); /* NULL is fine */

/* For a call whose `out` is empty and which has not ended: returns when its own thread is to go on. False: `fill` says
 * that it is over. call->rest is what has to be sent before anything else. */
bool http_streams_serve(struct http_streams *s, struct http_call *call);

#endif

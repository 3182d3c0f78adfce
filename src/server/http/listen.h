/* listen: a listening socket, or one sentence why there is none. */
#ifndef SERVER_HTTP_LISTEN_H
#define SERVER_HTTP_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/* Binds host:port (port 0 = any free one) and listens. On success the caller owns *fd, *bound is the port. ST_IO when
 * the address is taken or not ours, ST_ARGUMENT when host is no address or name. */
MUST_CHECK enum status http_listen(const char *host, uint16_t port, int *fd, uint16_t *bound, struct err *e);

/* The same for a UNIX socket at `path`, with the permissions `mode`. A file that a server which is gone has left there is
 * replaced; anything else is ST_IO. The caller removes the file in the end. */
MUST_CHECK enum status http_listen_unix(const char *path, uint32_t mode, int *fd, struct err *e);

/* Whether fd is a stream socket that listens; *port is 0 for a UNIX socket. ST_ARGUMENT when not. */
MUST_CHECK enum status http_check_listening(int fd, uint16_t *port, struct err *e);

/* The address it is bound to, as a URL has it: "127.0.0.1", "[::1]". */
void http_bound_host(int fd, char *to, size_t cap);

/* Whether only this machine can reach the socket: it is bound to a loopback address, or it is a UNIX socket. */
bool http_is_local(int fd);

#endif

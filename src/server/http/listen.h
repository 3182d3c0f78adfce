/* listen: a listening TCP socket, or one sentence why there is none. */
#ifndef SERVER_HTTP_LISTEN_H
#define SERVER_HTTP_LISTEN_H

#include <stdint.h>

#include "base/base.h"

/* Binds host:port (port 0 = any free one) and listens. On success the caller owns *fd, *bound is the port. ST_IO when
 * the address is taken or not ours, ST_ARGUMENT when host is no address or name. */
MUST_CHECK enum status http_listen(const char *host, uint16_t port, int *fd, uint16_t *bound, struct err *e);

#endif

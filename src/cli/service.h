/*
 * service: the server as a service: the socket that a service manager passes, what it wants to be told, and memory that
 * stays where it is.
 *
 * The protocol is systemd's (sd_listen_fds(3), sd_notify(3)): two variables and a datagram.
 */
#ifndef CLI_SERVICE_H
#define CLI_SERVICE_H

#include <stdbool.h>

#include "base/base.h"

/* The one socket that was passed to this process, or 0. ST_ARGUMENT when there are several. Once only: the variables
 * are taken away, so that no child believes they are for it. */
MUST_CHECK enum status service_socket(int *fd, struct err *e);

/* Whether anybody wants to be told. */
bool service_is_managed(void);

/* Tells "READY=1", "STOPPING=1", …; nothing happens where nobody listens. */
void service_notify(const char *state);

/* "RELOADING=1" with the time, to be followed by "READY=1". */
void service_notify_reloading(void);

/* Keeps the pages of all that is mapped now from being swapped out, once they were touched. ST_IO when that is beyond
 * the process's limit. */
MUST_CHECK enum status service_lock_memory(struct err *e);

#endif

/* service: see service.h. */
#include "cli/service.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_PASSED 3

/* The variable as a number; 0 when it is none. */
static long number(const char *name)
{
    const char *s = getenv(name);
    char *end;
    if (!s || *s < '0' || *s > '9')
        return 0;
    errno = 0;
    long v = strtol(s, &end, 10);
    return *end || errno ? 0 : v;
}

enum status service_socket(int *fd, struct err *e)
{
    const bool ours = number("LISTEN_PID") == getpid();
    const long n = ours ? number("LISTEN_FDS") : 0;
    *fd = 0;
    if (ours) {
        unsetenv("LISTEN_PID");
        unsetenv("LISTEN_FDS");
        unsetenv("LISTEN_FDNAMES");
    }
    if (!n)
        return ST_OK;
    if (n > 1)
        return err_set(e, ST_ARGUMENT, "", "%ld sockets were passed to this process; it listens on one", n);
    *fd = FIRST_PASSED;
    if (fcntl(*fd, F_SETFD, FD_CLOEXEC) == 0)
        return ST_OK;
    return err_errno(e, ST_IO, "", "cannot use descriptor %d, which was passed", *fd);
}

bool service_is_managed(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    return path && (path[0] == '/' || path[0] == '@');
}

/* A name that begins with '@' is not in the file system: its first byte is NUL. */
void service_notify(const char *state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    if (!service_is_managed() || strlen(path) >= sizeof a.sun_path)
        return;
    const size_t n = strlen(path);
    memcpy(a.sun_path, path, n);
    if (path[0] == '@')
        a.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    const socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&a, len) < 0)
        log_line(LOG_ERROR, "the service manager cannot be told: %s", strerror(errno));
    close(fd);
}

void service_notify_reloading(void)
{
    char text[80];
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_ns() / 1000);
    service_notify(text);
}

/* Only what is mapped already: were later mappings locked too, one beyond the limit would fail in the middle of serving. */
enum status service_lock_memory(struct err *e)
{
    struct rlimit limit = {0};
    if (mlockall(MCL_CURRENT | MCL_ONFAULT) == 0)
        return ST_OK;
    const int why = errno;
    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    errno = why;
    if (why == ENOMEM || why == EPERM)
        return err_set(e, ST_IO, "mlock", "cannot lock the memory: this process may lock %llu MB (`ulimit -l`, or "
                       "LimitMEMLOCK= of a systemd unit, raise that)", (unsigned long long)limit.rlim_cur >> 20);
    return err_errno(e, ST_IO, "mlock", "cannot lock the memory");
}

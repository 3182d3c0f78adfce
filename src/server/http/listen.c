/* listen: see listen.h. */
#include "server/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 128

static uint16_t port_of(int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        return 0;
    if (a.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&a)->sin6_port);
    return ntohs(((struct sockaddr_in *)&a)->sin_port);
}

bool http_is_local(int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        return false;
    if (a.ss_family == AF_INET)
        return ntohl(((struct sockaddr_in *)&a)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    if (a.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&a)->sin6_addr);
    return a.ss_family == AF_UNIX;
}

/* Returns the socket, or -1 with errno set. */
static int open_one(const struct addrinfo *a)
{
    const int one = 1;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    /* Lets a restarted server take its port again; a port somebody listens on stays refused. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (a->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

enum status http_listen(const char *host, uint16_t port, int *fd, uint16_t *bound, struct err *e)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    char service[8];
    *fd = -1;
    snprintf(service, sizeof service, "%u", port);
    int rc = getaddrinfo(host, service, &hints, &list);
    if (rc != 0)
        return err_set(e, ST_ARGUMENT, "host", "cannot listen on '%.100s': %s", host, gai_strerror(rc));
    errno = EADDRNOTAVAIL;
    /* Of a name's addresses the IPv4 one comes first: of "localhost" that is the one every client tries. Where its port
     * is taken, another address would hide that. */
    for (int pass = 0; pass < 2; pass++)
        for (struct addrinfo *a = list; a && *fd < 0 && errno != EADDRINUSE; a = a->ai_next)
            if ((a->ai_family == AF_INET) == (pass == 0))
                *fd = open_one(a);
    int saved = errno;
    freeaddrinfo(list);
    errno = saved;
    if (*fd < 0 && errno == EADDRINUSE)
        return err_set(e, ST_IO, "port", "cannot listen on %.100s port %u: another program uses that port", host, port);
    if (*fd < 0)
        return err_errno(e, ST_IO, "port", "cannot listen on %.100s port %u", host, port);
    *bound = port_of(*fd);
    return ST_OK;
}

/* A file that nobody listens behind any more. */
static bool is_left_over(const struct sockaddr_un *a)
{
    struct stat s;
    if (lstat(a->sun_path, &s) != 0 || !S_ISSOCK(s.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool refused = connect(fd, (const struct sockaddr *)a, sizeof *a) != 0 && errno == ECONNREFUSED;
    close(fd);
    return refused;
}

/* Its permissions are set before anybody is let in: connecting to a socket that does not listen fails. */
static bool bind_unix(int fd, const struct sockaddr_un *a, uint32_t mode)
{
    if (bind(fd, (const struct sockaddr *)a, sizeof *a) != 0 &&
        !(errno == EADDRINUSE && is_left_over(a) && unlink(a->sun_path) == 0 &&
          bind(fd, (const struct sockaddr *)a, sizeof *a) == 0))
        return false;
    if (chmod(a->sun_path, mode) == 0 && listen(fd, BACKLOG) == 0)
        return true;
    int saved = errno;
    (void)unlink(a->sun_path);
    errno = saved;
    return false;
}

enum status http_listen_unix(const char *path, uint32_t mode, int *fd, struct err *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    *fd = -1;
    if (!path[0] || strlen(path) >= sizeof a.sun_path)
        return err_set(e, ST_ARGUMENT, "unix", "the path of a UNIX socket has 1 to %zu bytes, not %zu",
                       sizeof a.sun_path - 1, strlen(path));
    memcpy(a.sun_path, path, strlen(path));
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || !bind_unix(s, &a, mode)) {
        enum status st = errno == EADDRINUSE
                             ? err_set(e, ST_IO, "unix", "cannot listen on '%s': something is there already", path)
                             : err_errno(e, ST_IO, "unix", "cannot listen on '%s'", path);
        if (s >= 0)
            close(s);
        return st;
    }
    *fd = s;
    return ST_OK;
}

enum status http_check_listening(int fd, uint16_t *port, struct err *e)
{
    int listening = 0, type = 0;
    socklen_t n = sizeof listening, m = sizeof type;
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof a;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) != 0 || !listening ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &m) != 0 || type != SOCK_STREAM ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        return err_set(e, ST_ARGUMENT, "", "descriptor %d, which was passed to this process, is no stream socket that "
                       "listens (Accept=no in its unit?)", fd);
    *port = a.ss_family == AF_UNIX ? 0 : port_of(fd);
    return ST_OK;
}

void http_bound_host(int fd, char *to, size_t cap)
{
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof a;
    char text[INET6_ADDRSTRLEN] = "";
    (void)getsockname(fd, (struct sockaddr *)&a, &n);
    if (a.ss_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&a)->sin6_addr, text, sizeof text);
    else if (a.ss_family == AF_INET)
        (void)inet_ntop(AF_INET, &((struct sockaddr_in *)&a)->sin_addr, text, sizeof text);
    snprintf(to, cap, a.ss_family == AF_INET6 ? "[%s]" : "%s", text);
}

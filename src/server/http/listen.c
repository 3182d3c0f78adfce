/* listen: see listen.h. */
#include "server/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
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

/*
 * address: where the server listens, and who can reach it there.
 *
 * Without keys whoever reaches the socket may use the model, so then it has to be one that other machines do not reach,
 * unless the operator says that this is meant. It is judged by what the socket is bound to, whatever name led there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/http/listen.h"
#include "server/private.h"

static enum status open_socket(struct server *s, const struct server_config *cfg, const char *host, int *fd, struct err *e)
{
    if (cfg->inherited) {
        *fd = cfg->inherited;
        return http_check_listening(*fd, &s->port, e);
    }
    if (!cfg->unix_path)
        return http_listen(host, cfg->port, fd, &s->port, e);
    TRY(http_listen_unix(cfg->unix_path, cfg->unix_mode, fd, e));
    if (lstat(cfg->unix_path, &s->unix_file) != 0)
        return err_errno(e, ST_IO, "unix", "cannot look at '%s'", cfg->unix_path);
    s->unix_path = strdup(cfg->unix_path);
    return s->unix_path ? ST_OK : err_set(e, ST_NO_MEMORY, "unix", "no memory for the socket's name");
}

static enum status check_reach(const struct server_config *cfg, int fd, struct err *e)
{
    char bound[100];
    if (cfg->key_file || cfg->without_keys || http_is_local(fd))
        return ST_OK;
    http_bound_host(fd, bound, sizeof bound);
    return err_set(e, ST_ARGUMENT, "host", "without API keys anybody who reaches %s could use the model; give "
                   "--api-key-file FILE, or --without-keys if that is meant", bound);
}

static void write_url(struct server *s, const struct server_config *cfg, const char *host, int fd)
{
    const char *scheme = s->tls ? "https" : "http";
    char bound[100];
    http_bound_host(fd, bound, sizeof bound);
    if (s->gate.unix_socket)
        snprintf(s->url, sizeof s->url, "unix:%s", cfg->unix_path ? cfg->unix_path : "(inherited)");
    else if (cfg->inherited)
        snprintf(s->url, sizeof s->url, "%s://%s:%u", scheme, bound, s->port);
    else
        snprintf(s->url, sizeof s->url, strchr(host, ':') ? "%s://[%s]:%u" : "%s://%s:%u", scheme, host, s->port);
}

enum status server_listen(struct server *s, const struct server_config *cfg, int *fd, struct err *e)
{
    const char *host = cfg->host && cfg->host[0] ? cfg->host : "127.0.0.1";
    *fd = -1;
    enum status st = open_socket(s, cfg, host, fd, e);
    if (st == ST_OK)
        st = check_reach(cfg, *fd, e);
    if (st == ST_OK) {
        s->gate.unix_socket = s->port == 0;
        write_url(s, cfg, host, *fd);
        return ST_OK;
    }
    if (*fd >= 0)
        close(*fd);
    return st;
}

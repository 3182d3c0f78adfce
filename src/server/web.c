/*
 * web: GET / and /web/…, the page for people.
 *
 * The page is a client like any other: it talks to the addresses of the API and to nothing else. The policy below has the
 * browser hold it to that: scripts and styles only from here and never inside the page or a reply, no address but ours,
 * no frame around it, and no text turned into elements by any way but the sanitiser's.
 */
#include "server/web.h"

#include <string.h>

#include "server/private.h"

static const struct http_header_line headers[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
     "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {NULL, NULL},
};

void server_web(struct http_call *call)
{
    const struct server *srv = call->app;
    const struct server_web_file *f = server_web_files;
    const char *path = call->path_rest[0] ? call->path_rest : "index.html";
    struct err e;
    while (f->path && strcmp(f->path, path) != 0)
        f++;
    if (f->path && !srv->no_web) {
        http_reply_file(call, &f->file, headers);
        return;
    }
    (void)err_set(&e, ST_ARGUMENT, "", srv->no_web ? "this server has no web page" : "there is nothing at this address");
    server_refuse(call, 404, &e);
}

/*
 * request: any bytes as the body of a request, at every address of the server, with fakes below (unit/server_fake.h).
 *
 * The first byte chooses the route, the second how the body is cut. A reply is what its Content-Type says, no request is
 * an error of the server's own unless the engine had it, and what was given to the engine is taken back.
 */
#include "fuzz/kit/events.h"
#include "fuzz/kit/served.h"

#include "server/private.h"

/* What only an engine can answer with. */
static bool is_own_fault(int status)
{
    return status == 500 || status == 501 || status == 502 || status == 504;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz f = {(const char *)data, n};
    struct wire_reply r;
    char path[LIMIT_LOG_PATH];
    size_t routes = 0;
    served_start(NULL);
    while (server_routes[routes].path)
        routes++;
    const struct http_route *route = &server_routes[fuzz_byte(&f) % routes];
    struct wire_request rq = {.method = route->method, .path = path, .piece = fuzz_byte(&f) & 63, .body = f.at, .n = f.n};
    bool folder = route->path[strlen(route->path) - 1] == '/';
    char *rest = fuzz_string(f.at, folder ? f.n : 0);
    snprintf(path, sizeof path, "%s%s", route->path, rest);
    const unsigned before = atomic_load(&submitted);
    wire_ask(&rq, &r);
    const unsigned given = atomic_load(&submitted) - before;
    FUZZ_CHECK(atomic_load(&submitted) == atomic_load(&closed), "a request was not closed");
    FUZZ_CHECK(given || !is_own_fault(r.status), "%s: status %d: %s", path, r.status, r.body.data ? r.body.data : "");
    FUZZ_CHECK(given || r.status, "%s: no reply", path);
    (void)events_read(&r, NULL, NULL);
    wire_release(&r);
    free(rest);
    return 0;
}

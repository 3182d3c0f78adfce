/*
 * request: any method, address, headers and body, to a server with fakes below (unit/server_fake.h): routes, the name a
 * request is for, its origin, ids and trace, every dialect's reader, and the line of the log that it ends up in.
 *
 * An input is "METHOD PATH?QUERY", lines "Name: value", an empty line, and the body, which comes in pieces. A reply is what
 * its Content-Type says; no request is an error of the server's own unless the engine had it; what was given to the engine
 * is taken back; each request is a line of JSON in the log; and nobody is served under a name that others could point here.
 */
#include "fuzz/kit/events.h"
#include "fuzz/kit/served.h"

#include <ctype.h>
#include <sys/mman.h>

static int log_fd = -1;

static void start_logged(void)
{
    char path[40];
    if (log_fd >= 0)
        return;
    log_fd = memfd_create("log", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", log_fd);
    served_start(path);
}

/* What stands before `end` on a line, as a string of its own. */
static char *word(struct fuzz *line, char end)
{
    struct fuzz part = fuzz_until(line, end);
    while (part.n && *part.at == ' ')
        part = (struct fuzz){part.at + 1, part.n - 1};
    return fuzz_string(part.at, part.n);
}

/* What looks at the server all the time is not logged where that went well. */
static void check_log(const char *path, int status)
{
    char line[16384];
    if (status < 400 && (!strcmp(path, "/health") || !strcmp(path, "/metrics") || !strcmp(path, "/v1/ffwd/rows")))
        return;
    ssize_t n = pread(log_fd, line, sizeof line - 1, 0);
    FUZZ_CHECK(n > 0 && ftruncate(log_fd, 0) == 0, "the request is not in the log");
    line[n] = '\0';
    json_t *v = json_loadb(line, (size_t)n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
    FUZZ_CHECK(v && strchr(line, '\n') == line + n - 1, "not one line of JSON: %s", line);
    json_decref(v);
}

/* An address, or a name of this machine: nothing that a name server could have said. */
static bool is_own_name(const char *host)
{
    char name[300];
    size_t n = strlen(host);
    while (n && (isdigit((unsigned char)host[n - 1])))
        n--;
    n = n && host[n - 1] == ':' ? n - 1 : strlen(host);
    snprintf(name, sizeof name, "%.*s", (int)(n && host[n - 1] == '.' ? n - 1 : n), host);
    n = strlen(name);
    return !name[strspn(name, "0123456789.")] || name[0] == '[' ||
           (n >= 9 && strcasecmp(name + n - 9, "localhost") == 0 && (n == 9 || name[n - 10] == '.'));
}

static void check_name(const struct wire_request *rq, const struct wire_reply *r)
{
    for (size_t i = 0; i < rq->headers; i++)
        if (strcasecmp(rq->header[i].name, "Host") == 0) {
            FUZZ_CHECK(r->status != 200 || is_own_name(rq->header[i].value), "served as %s", rq->header[i].value);
            return;
        }
}

/* What only an engine can answer with. */
static bool is_own_fault(int status)
{
    return status == 500 || status == 501 || status == 502 || status == 504;
}

static void ask(const struct wire_request *rq)
{
    struct wire_reply r;
    const unsigned before = atomic_load(&submitted);
    wire_ask(rq, &r);
    const bool given = atomic_load(&submitted) != before;
    FUZZ_CHECK(atomic_load(&submitted) == atomic_load(&closed), "a request was not closed");
    FUZZ_CHECK(given || (r.status && !is_own_fault(r.status)), "%s: status %d: %s", rq->path, r.status,
               r.body.data ? r.body.data : "");
    (void)events_read(&r, NULL, NULL);
    check_name(rq, &r);
    check_log(rq->path, r.status);
    wire_release(&r);
}

/* Cuts "PATH?NAME=VALUE&NAME" up. */
static void take_query(struct wire_request *rq, char *path)
{
    for (char *at = strchr(path, '?'); at && rq->queries < WIRE_HEADERS;) {
        *at++ = '\0';
        char *equals = at + strcspn(at, "=&"), *next = at + strcspn(at, "&");
        rq->query[rq->queries++] = (struct wire_pair){at, *equals == '=' ? equals + 1 : ""};
        if (*equals == '=')
            *equals = '\0';
        at = *next ? next : NULL;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz f = {(const char *)data, n}, line = fuzz_until(&f, '\n');
    struct wire_request rq = {.piece = n % 64};
    char *method, *path;
    start_logged();
    rq.method = method = word(&line, ' ');
    rq.path = path = word(&line, ' ');
    take_query(&rq, path);
    for (line = fuzz_until(&f, '\n'); line.n && rq.headers < WIRE_HEADERS; line = fuzz_until(&f, '\n')) {
        struct wire_pair *h = &rq.header[rq.headers++];
        h->name = word(&line, ':');
        h->value = word(&line, '\0');
    }
    rq.body = f.at;
    rq.n = f.n;
    ask(&rq);
    for (size_t i = 0; i < rq.headers; i++) {
        free((char *)rq.header[i].name);
        free((char *)rq.header[i].value);
    }
    free(method);
    free(path);
    return 0;
}

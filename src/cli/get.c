/* get: see get.h. */
#include "cli/get.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/curl.h"

#define REDIRECTS 5L
#define CONNECT_S 15L
#define STALL_S 30L /* a transfer that gets no byte for so long has failed */
#define HEADER 1024 /* bytes of a header line that are looked at */
#define SHOWN 120   /* bytes of an address in error texts */
#define MOST_WAIT_S 60u
#define PAUSE_MS 500u
#define SLICE_MS 50u

struct exchange {
    const struct get *g;
    const struct curl_calls *curl;
    CURL *easy;
    struct get_reply *reply;
    struct err err; /* what take() said */
    bool took;
};

/* --- the reply's headers ------------------------------------------------------------------------------------------ */

/* The value of header `name` in `line`, or NULL. */
static const char *header(const char *line, const char *name)
{
    size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':')
        return NULL;
    return line + n + 1 + strspn(line + n + 1, " \t");
}

/* Digits at *s, which is moved behind them; false when there are none, or too many. */
static bool number(const char **s, uint64_t *out)
{
    size_t n = strspn(*s, "0123456789");
    if (n == 0 || n > 18)
        return false;
    *out = strtoull(*s, NULL, 10);
    *s += n;
    return true;
}

/* "bytes 100-199/200"; the total may be "*". */
static void read_range(const char *s, struct get_reply *r)
{
    uint64_t first, last, total = 0;
    if (strncasecmp(s, "bytes ", 6) != 0)
        return;
    s += 6;
    if (!number(&s, &first) || *s++ != '-' || !number(&s, &last) || *s++ != '/' || last < first)
        return;
    if (*s != '*' && (!number(&s, &total) || last >= total))
        return;
    r->first = first;
    r->total = total;
    r->ranged = true;
}

/* The hub names the SHA-256 of large files in the reply that redirects to where they are kept. */
static void read_linked(const char *s, struct get_reply *r)
{
    char hex[STORE_HEX];
    snprintf(hex, sizeof hex, "%s", *s == '"' ? s + 1 : s);
    if (store_is_sha256(hex))
        memcpy(r->sha256, hex, sizeof hex);
}

static void read_validator(const char *s, bool etag, struct get_reply *r)
{
    if (strlen(s) >= sizeof r->validator || (etag && *s != '"') || (!etag && r->validator[0] == '"'))
        return; /* too long, weak, or worse than what there is */
    snprintf(r->validator, sizeof r->validator, "%s", s);
}

static void read_header(const char *line, struct get_reply *r)
{
    const char *v;
    uint64_t n;
    if (strncmp(line, "HTTP/", 5) == 0) { /* a reply begins: what a redirect said does not count, but for the hash */
        struct get_reply fresh = {0};
        memcpy(fresh.sha256, r->sha256, sizeof fresh.sha256);
        *r = fresh;
    } else if ((v = header(line, "Content-Type"))) {
        r->page = strncasecmp(v, "text/html", 9) == 0;
    } else if ((v = header(line, "Content-Range"))) {
        read_range(v, r);
    } else if ((v = header(line, "Content-Length"))) {
        if (!r->ranged && number(&v, &n))
            r->total = n;
    } else if ((v = header(line, "ETag"))) {
        read_validator(v, true, r);
    } else if ((v = header(line, "Last-Modified"))) {
        read_validator(v, false, r);
    } else if ((v = header(line, "X-Linked-ETag"))) {
        read_linked(v, r);
    } else if ((v = header(line, "Retry-After"))) {
        if (number(&v, &n))
            r->wait_s = n < MOST_WAIT_S ? (uint32_t)n : MOST_WAIT_S;
    }
}

static size_t on_header(char *bytes, size_t size, size_t n, void *user)
{
    struct exchange *x = user;
    char line[HEADER];
    n *= size;
    snprintf(line, sizeof line, "%.*s", (int)(n < HEADER ? n : HEADER - 1), bytes);
    for (size_t end = strlen(line); end && isspace((unsigned char)line[end - 1]);)
        line[--end] = '\0';
    read_header(line, x->reply);
    return n;
}

/* --- the body ----------------------------------------------------------------------------------------------------- */

static bool is_body(const struct get_reply *r)
{
    return (r->status == 200 || r->status == 206) && !r->page;
}

/* Bodies of refusals are not read. */
static size_t on_body(char *bytes, size_t size, size_t n, void *user)
{
    struct exchange *x = user;
    n *= size;
    x->curl->easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &x->reply->status);
    if (!is_body(x->reply))
        return 0;
    x->took = true;
    return x->g->take(x->g->ctx, x->reply, bytes, n, &x->err) == ST_OK ? n : 0;
}

static int on_tick(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up)
{
    (void)total, (void)now, (void)up_total, (void)up;
    struct exchange *x = user;
    if (x->g->tick)
        x->g->tick(x->g->ctx);
    return cli_interrupted();
}

/* --- how it ended ------------------------------------------------------------------------------------------------- */

/* An address without its query, which may hold a key. */
static const char *shown(const char *url, char out[SHOWN])
{
    snprintf(out, SHOWN, "%.*s", (int)strcspn(url, "?#"), url);
    return out;
}

static enum status refused(const struct exchange *x, bool *again, struct err *e)
{
    char url[SHOWN];
    long status = x->reply->status;
    shown(x->g->url, url);
    *again = status == 408 || status == 416 || status == 429 || status >= 500;
    if (status == 401 || status == 403)
        return err_set(e, ST_IO, url, "%s: the server wants a permission (HTTP %ld); HF_TOKEN opens private and gated "
                       "repositories", url, status);
    if (status == 404 || status == 410)
        return err_set(e, ST_IO, url, "%s: there is no such thing (HTTP %ld)", url, status);
    if (x->reply->page && status < 300)
        return err_set(e, ST_MODEL, url, "%s: that is a web page, not a file", url);
    return err_set(e, ST_IO, url, "%s: the server answered with HTTP %ld", url, status);
}

static bool is_passing(CURLcode code)
{
    return code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
           code == CURLE_GOT_NOTHING || code == CURLE_OPERATION_TIMEDOUT || code == CURLE_COULDNT_CONNECT ||
           code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM;
}

static enum status judge(struct exchange *x, CURLcode code, bool *again, struct err *e)
{
    char url[SHOWN];
    shown(x->g->url, url);
    x->curl->easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &x->reply->status);
    *again = false;
    if (cli_interrupted())
        return err_set(e, ST_CANCELLED, url, "%s: interrupted", url);
    if (x->err.code != ST_OK) {
        *e = x->err;
        return e->code;
    }
    if (code == CURLE_OK || code == CURLE_WRITE_ERROR) {
        if (!is_body(x->reply))
            return refused(x, again, e);
        if (x->took)
            return ST_OK;
        return err_set(e, ST_MODEL, url, "%s: the server sent nothing", url);
    }
    *again = is_passing(code);
    if (code == CURLE_TOO_MANY_REDIRECTS)
        return err_set(e, ST_IO, url, "%s: more than %ld redirects", url, REDIRECTS);
    return err_set(e, ST_IO, url, "%s: %s", url, x->curl->easy_strerror(code));
}

/* --- one request -------------------------------------------------------------------------------------------------- */

static bool add_line(const struct curl_calls *curl, struct curl_slist **list, const char *name, const char *value)
{
    char line[STORE_KEY];
    if (!value || !value[0])
        return true;
    snprintf(line, sizeof line, "%s%s", name, value);
    struct curl_slist *longer = curl->slist_append(*list, line);
    *list = longer ? longer : *list;
    return longer != NULL;
}

static bool set_up(struct exchange *x, struct curl_slist *lines)
{
    const struct curl_calls *c = x->curl;
    const struct get *g = x->g;
    char range[32];
    snprintf(range, sizeof range, "%llu-", (unsigned long long)g->from);
    bool safe = strncasecmp(g->url, "https:", 6) == 0;
    bool ok = c->easy_setopt(x->easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
              c->easy_setopt(x->easy, CURLOPT_REDIR_PROTOCOLS_STR, safe ? "https" : "http,https") == CURLE_OK &&
              c->easy_setopt(x->easy, CURLOPT_URL, g->url) == CURLE_OK &&
              (!g->from || c->easy_setopt(x->easy, CURLOPT_RANGE, range) == CURLE_OK);
    c->easy_setopt(x->easy, CURLOPT_HTTPHEADER, lines);
    c->easy_setopt(x->easy, CURLOPT_USERAGENT, "ffwd");
    c->easy_setopt(x->easy, CURLOPT_FOLLOWLOCATION, 1L);
    c->easy_setopt(x->easy, CURLOPT_MAXREDIRS, REDIRECTS);
    c->easy_setopt(x->easy, CURLOPT_NOSIGNAL, 1L);
    c->easy_setopt(x->easy, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    c->easy_setopt(x->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    c->easy_setopt(x->easy, CURLOPT_LOW_SPEED_TIME, STALL_S);
    c->easy_setopt(x->easy, CURLOPT_HEADERFUNCTION, on_header);
    c->easy_setopt(x->easy, CURLOPT_HEADERDATA, x);
    c->easy_setopt(x->easy, CURLOPT_WRITEFUNCTION, on_body);
    c->easy_setopt(x->easy, CURLOPT_WRITEDATA, x);
    c->easy_setopt(x->easy, CURLOPT_NOPROGRESS, 0L);
    c->easy_setopt(x->easy, CURLOPT_XFERINFOFUNCTION, on_tick);
    c->easy_setopt(x->easy, CURLOPT_XFERINFODATA, x);
    return ok;
}

enum status get_url(const struct get *g, struct get_reply *r, bool *again, struct err *e)
{
    struct exchange x = {.g = g, .reply = r};
    struct curl_slist *lines = NULL;
    enum status st;
    *r = (struct get_reply){0};
    *again = false;
    TRY(cli_curl(&x.curl, e));
    x.easy = x.curl->easy_init();
    bool ok = x.easy && add_line(x.curl, &lines, "Authorization: Bearer ", g->token) &&
              add_line(x.curl, &lines, "If-Range: ", g->if_range);
    if (!ok)
        st = err_set(e, ST_NO_MEMORY, "", "no memory for a download");
    else if (!set_up(&x, lines))
        st = err_set(e, ST_UNSUPPORTED, "", "libcurl is too old (7.85 is needed), or this is no address: %.100s", g->url);
    else
        st = judge(&x, x.curl->easy_perform(x.easy), again, e);
    x.curl->slist_free_all(lines);
    if (x.easy)
        x.curl->easy_cleanup(x.easy);
    return st;
}

enum status get_pause(uint32_t n, const struct get_reply *r, struct err *e)
{
    uint32_t ms = r->wait_s ? r->wait_s * 1000 : PAUSE_MS << (n - 1);
    for (uint32_t at = 0; at < ms; at += SLICE_MS) {
        if (cli_interrupted())
            return err_set(e, ST_CANCELLED, "", "interrupted");
        nanosleep(&(struct timespec){.tv_nsec = SLICE_MS * 1000000L}, NULL);
    }
    return ST_OK;
}

/* --- short replies ------------------------------------------------------------------------------------------------ */

static enum status take_text(void *ctx, const struct get_reply *r, const void *data, size_t n, struct err *e)
{
    (void)r;
    struct buf *out = ctx;
    if (!buf_add(out, data, n))
        return err_set(e, ST_MODEL, "", "the server's list is longer than %zu bytes", out->limit);
    return ST_OK;
}

enum status get_text(const char *url, const char *token, size_t limit, struct buf *out, struct err *e)
{
    struct get g = {.url = url, .token = token, .take = take_text, .ctx = out};
    struct get_reply r;
    bool again;
    buf_init(out, limit);
    for (uint32_t n = 1;; n++) {
        buf_clear(out);
        enum status st = get_url(&g, &r, &again, e);
        if (st == ST_OK || !again || n == GET_TRIES)
            return st;
        TRY(get_pause(n, &r, e));
    }
}

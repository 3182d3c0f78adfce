/* drive: see drive.h. */
#include "cli/drive.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"
#include "cli/curl.h"
#include "cli/stream.h"

static const struct curl_calls *curl; /* set by drive_run() */

#define DRAIN_S 5u        /* requests under way when the window ends may take this long to end */
#define LONG_WAIT_S 120u  /* the window may end as much later while the long request is under way */
#define STALL_S 120L      /* a request that gets no byte for so long has failed */
#define CONNECT_S 10L
#define ERROR_PAUSE_MS 250u /* before a client whose request failed sends its next one */
#define POLL_MS 100
#define PROGRESS_NS 500000000u
#define REFUSAL 1024u     /* bytes of an error reply that are kept */

struct drive;

/* A client, or the long request. Times are clock_ns(). */
struct client {
    struct drive *d;
    CURL *easy;
    struct buf body;
    struct stream stream;
    bool busy;
    uint32_t turn;
    uint64_t due;              /* when to send the next request, while not busy */
    uint64_t sent, first, last; /* first and last: text of the request under way; 0 = none yet */
    uint64_t counted;          /* tokens of it that the result holds already */
    struct err err;            /* why the write callback broke it off */
    char refusal[REFUSAL];     /* body of a reply that is not 200 */
    size_t refusal_len;
};

struct drive {
    const struct drive_config *c;
    struct drive_result *r;
    CURLM *multi;
    struct curl_slist *headers;
    struct client *clients; /* [c->clients + 1]; the last one is the long request */
    struct client *long_one;
    bool long_sent, long_over;
    uint32_t begun, busy, over; /* requests of the clients; `busy` counts the long one too */
    uint64_t start, window_end; /* window_end: 0 = open */
    uint64_t shown;             /* when progress was written last */
    struct buf url;
};

/* --- accounting ------------------------------------------------------------------------------------------------------ */

static void count_error(struct drive_result *r, int status, const char *text)
{
    uint32_t i = 0;
    r->errors++;
    while (i < r->n_kinds && (r->kinds[i].status != status || strncmp(r->kinds[i].text, text, ERR_TEXT - 1) != 0))
        i++;
    if (i == LIMIT_LOAD_ERRORS)
        return;
    if (i == r->n_kinds) {
        r->kinds[i] = (struct drive_error){.status = status};
        snprintf(r->kinds[i].text, sizeof r->kinds[i].text, "%s", text);
        r->n_kinds++;
    }
    r->kinds[i].count++;
}

/* Tokens count for the rates while the window is open. `n` may be negative: less came than the chunks seemed to say. */
static void count_tokens(struct client *k, int64_t n)
{
    struct drive *d = k->d;
    if (d->window_end || k == d->long_one)
        return;
    k->counted += (uint64_t)n;
    d->r->tokens_out += (uint64_t)n;
    d->r->by_client[k - d->clients] += (uint64_t)n;
}

static void take_text(struct client *k, uint64_t now)
{
    struct drive *d = k->d;
    bool first = k->first == 0;
    if (k == d->long_one) {
        if (first)
            d->r->long_first = (double)(now - k->sent) / 1e6;
    } else if (first) {
        hist_add(&d->r->first, (now - k->sent) / 1000);
    } else {
        hist_add(&d->r->gap, (now - k->last) / 1000);
        const struct client *l = d->long_one;
        /* still without text, or its first came after this gap began */
        bool overlaps = d->long_sent && now > l->sent && (l->first ? k->last < l->first : !d->long_over);
        if (overlaps && !((double)(now - k->last) / 1e6 <= d->r->long_gap)) /* NaN at first */
            d->r->long_gap = (double)(now - k->last) / 1e6;
    }
    if (first)
        k->first = now;
    k->last = now;
    count_tokens(k, 1);
}

static void take_ended(struct client *k, uint64_t now)
{
    struct drive *d = k->d;
    struct drive_result *r = d->r;
    const struct stream *s = &k->stream;
    if (k == d->long_one) {
        r->long_total = (double)(now - k->sent) / 1e6;
        r->long_tokens = s->tokens_in;
        return;
    }
    r->ended++;
    r->ended_inside += d->window_end == 0;
    r->with_usage += s->has_usage && d->window_end == 0;
    r->tokens_in += s->tokens_in;
    r->tokens_cached += s->tokens_cached;
    hist_add(&r->whole, (now - k->sent) / 1000);
    if (s->has_usage) { /* tokens without text of their own, chunks of several tokens or of parts of one */
        uint64_t most = d->c->ask.max_tokens > k->counted ? d->c->ask.max_tokens : k->counted;
        uint64_t said = s->tokens_out < most ? s->tokens_out : most; /* no server is believed more than was asked for */
        count_tokens(k, (int64_t)said - (int64_t)k->counted);
    }
}

/* --- one request ----------------------------------------------------------------------------------------------------- */

static bool is_event_stream(CURL *easy)
{
    char *type = NULL;
    curl->easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &type);
    return type && strncasecmp(type, "text/event-stream", 17) == 0;
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *user)
{
    struct client *k = user;
    uint64_t now = clock_ns();
    uint32_t with_text;
    long status = 0;
    n *= size;
    curl->easy_getinfo(k->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200) {
        size_t room = REFUSAL - k->refusal_len, take = n < room ? n : room;
        memcpy(k->refusal + k->refusal_len, bytes, take);
        k->refusal_len += take;
        return n;
    }
    if (!is_event_stream(k->easy)) {
        (void)err_set(&k->err, ST_UNSUPPORTED, "", "the reply is not a stream of events (text/event-stream)");
        return 0;
    }
    enum status st = stream_feed(&k->stream, bytes, n, &with_text, &k->err);
    while (with_text--)
        take_text(k, now);
    return st == ST_OK ? n : 0;
}

static enum status begin(struct client *k, struct err *e)
{
    struct drive *d = k->d;
    const struct ask *a = &d->c->ask;
    bool is_long = k == d->long_one;
    uint32_t who = is_long ? d->c->clients : (uint32_t)(k - d->clients);
    uint32_t words = is_long ? d->c->long_prompt : ask_words(a, who, k->turn);
    TRY(ask_body(a, who, k->turn++, words, &k->body, e));
    stream_clear(&k->stream);
    k->refusal_len = 0;
    k->err = (struct err){0};
    k->first = k->last = k->counted = 0;
    k->sent = clock_ns();
    curl->easy_setopt(k->easy, CURLOPT_POSTFIELDS, k->body.data);
    curl->easy_setopt(k->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)k->body.len);
    CURLMcode code = curl->multi_add_handle(d->multi, k->easy);
    if (code != CURLM_OK)
        return err_set(e, ST_IO, "", "cannot begin a request: %s", curl->multi_strerror(code));
    k->busy = true;
    d->busy++;
    if (is_long)
        d->long_sent = true;
    else
        d->begun++;
    return ST_OK;
}

/* Whether it ended well; otherwise one sentence in `text` and the HTTP status, 0 when there was no whole reply. */
static bool ended_well(struct client *k, CURLcode code, long *status, char *text, size_t cap)
{
    long os = 0;
    curl->easy_getinfo(k->easy, CURLINFO_RESPONSE_CODE, status);
    curl->easy_getinfo(k->easy, CURLINFO_OS_ERRNO, &os);
    if (k->err.code == ST_OK && code == CURLE_OK && *status == 200 && stream_end(&k->stream, &k->err) == ST_OK)
        return true;
    if (k->err.code != ST_OK)
        snprintf(text, cap, "%s", k->err.text);
    else if (code == CURLE_OPERATION_TIMEDOUT)
        snprintf(text, cap, "no connection within %ld s, or no byte of the reply for %ld s", CONNECT_S, STALL_S);
    else if (code != CURLE_OK)
        snprintf(text, cap, "%s%s%s", curl->easy_strerror(code), os ? ": " : "", os ? strerror((int)os) : "");
    else
        stream_error_text(k->refusal, k->refusal_len, text, cap);
    if (!text[0])
        snprintf(text, cap, "the reply has no text");
    return false;
}

static void end(struct client *k, CURLcode code)
{
    struct drive *d = k->d;
    uint64_t now = clock_ns();
    char text[ERR_TEXT] = "";
    long status = 0;
    bool well = ended_well(k, code, &status, text, sizeof text);
    curl->multi_remove_handle(d->multi, k->easy);
    k->busy = false;
    d->busy--;
    if (well)
        take_ended(k, now);
    else
        count_error(d->r, (int)status, text);
    if (k == d->long_one)
        d->long_over = true;
    else
        d->over++;
    k->due = now + (well ? d->c->think_ms : ERROR_PAUSE_MS) * UINT64_C(1000000);
}

/* --- the run --------------------------------------------------------------------------------------------------------- */

static bool may_begin(const struct drive *d)
{
    return !d->window_end && !(d->c->requests && d->begun >= d->c->requests);
}

static enum status begin_due(struct drive *d, struct err *e)
{
    uint64_t now = clock_ns();
    for (uint32_t i = 0; i < d->c->clients && may_begin(d); i++) {
        if (!d->clients[i].busy && d->clients[i].due <= now)
            TRY(begin(&d->clients[i], e));
    }
    if (d->c->long_prompt && !d->long_sent && !d->window_end && d->long_one->due <= now)
        TRY(begin(d->long_one, e));
    return ST_OK;
}

/* Milliseconds until somebody has something to begin, or the window ends. */
static int patience(const struct drive *d)
{
    uint64_t now = clock_ns(), soonest = now + POLL_MS * UINT64_C(1000000);
    uint64_t window = d->start + d->c->seconds * UINT64_C(1000000000);
    if (window > now && window < soonest)
        soonest = window;
    for (uint32_t i = 0; i < d->c->clients && may_begin(d); i++) {
        if (!d->clients[i].busy && d->clients[i].due < soonest)
            soonest = d->clients[i].due;
    }
    if (d->c->long_prompt && !d->long_sent && d->long_one->due < soonest)
        soonest = d->long_one->due;
    return soonest > now ? (int)((soonest - now + 999999) / 1000000) : 0;
}

static void close_window(struct drive *d, uint64_t now, enum drive_end why)
{
    if (d->window_end)
        return;
    d->window_end = now;
    d->r->end = why;
    d->r->seconds = (double)(now - d->start) / 1e9;
}

static void look_at_clock(struct drive *d)
{
    const struct drive_config *c = d->c;
    uint64_t now = clock_ns(), s = UINT64_C(1000000000), age = now - d->start;
    bool long_open = c->long_prompt && !d->long_over;
    if (cli_interrupted())
        close_window(d, now, DRIVE_INTERRUPTED);
    else if (d->r->errors >= c->max_errors)
        close_window(d, now, DRIVE_ERRORS);
    else if (c->requests && d->over >= c->requests && !(long_open && d->long_sent))
        close_window(d, now, DRIVE_REQUESTS);
    else if (c->seconds && age >= (c->seconds + (long_open ? LONG_WAIT_S : 0)) * s)
        close_window(d, now, DRIVE_SECONDS);
    if (now - d->shown < PROGRESS_NS)
        return;
    d->shown = now;
    cli_progress("%.0f s, %llu requests, %llu errors, %.0f tok/s", (double)age / 1e9, (unsigned long long)d->r->ended,
                 (unsigned long long)d->r->errors, (double)d->r->tokens_out / ((double)age / 1e9));
}

static bool is_over(const struct drive *d)
{
    uint64_t drain = DRAIN_S * UINT64_C(1000000000);
    return d->window_end && (d->busy == 0 || cli_interrupted() || clock_ns() - d->window_end > drain);
}

static enum status run(struct drive *d, struct err *e)
{
    d->start = clock_ns();
    for (uint32_t i = 0; i <= d->c->clients; i++)
        d->clients[i].due = d->start;
    d->long_one->due += d->c->long_at * UINT64_C(1000000000);
    while (!is_over(d)) {
        int running, left;
        CURLMsg *m;
        TRY(begin_due(d, e));
        CURLMcode code = curl->multi_perform(d->multi, &running);
        while ((m = curl->multi_info_read(d->multi, &left))) {
            char *owner = NULL;
            CURLcode result = m->data.result;
            curl->easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &owner);
            end((struct client *)(void *)owner, result);
        }
        look_at_clock(d);
        if (code == CURLM_OK)
            code = curl->multi_poll(d->multi, NULL, 0, patience(d), NULL);
        if (code != CURLM_OK)
            return err_set(e, ST_IO, "", "cannot wait for replies: %s", curl->multi_strerror(code));
    }
    return ST_OK;
}

/* --- set-up ---------------------------------------------------------------------------------------------------------- */

static enum status set_url(struct drive *d, struct err *e)
{
    const char *url = d->c->url;
    size_t n = strlen(url);
    if (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0)
        return err_set(e, ST_ARGUMENT, "--url", "--url must begin with http:// or https://, not \"%.60s\"", url);
    while (n && url[n - 1] == '/')
        n--;
    if (n > 3 && memcmp(url + n - 3, "/v1", 3) == 0)
        n -= 3;
    buf_add(&d->url, url, n);
    if (!buf_adds(&d->url, d->c->ask.completion ? "/v1/completions" : "/v1/chat/completions"))
        return err_set(e, ST_TOO_LONG, "--url", "--url is longer than %u bytes", (unsigned)d->url.limit);
    return ST_OK;
}

static enum status add_header(struct drive *d, const char *line, struct err *e)
{
    struct curl_slist *longer = curl->slist_append(d->headers, line);
    if (!longer)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a request's head");
    d->headers = longer;
    return ST_OK;
}

static enum status set_headers(struct drive *d, struct err *e)
{
    TRY(add_header(d, "Content-Type: application/json", e));
    TRY(add_header(d, "Accept: text/event-stream", e));
    TRY(add_header(d, "Expect:", e)); /* a long body goes out at once */
    if (!d->c->api_key)
        return ST_OK;
    struct buf line;
    buf_init(&line, 64u << 10);
    buf_addf(&line, "Authorization: Bearer %s", d->c->api_key);
    enum status st = line.failed ? err_set(e, ST_TOO_LONG, "--api-key", "--api-key is longer than 64 kB")
                                 : add_header(d, line.data, e);
    buf_release(&line);
    return st;
}

static enum status client_init(struct client *k, struct drive *d, struct err *e)
{
    k->d = d;
    buf_init(&k->body, LIMIT_LOAD_BODY);
    stream_init(&k->stream);
    k->easy = curl->easy_init();
    if (!k->easy)
        return err_set(e, ST_NO_MEMORY, "", "no memory for %u clients", d->c->clients);
    curl->easy_setopt(k->easy, CURLOPT_URL, d->url.data);
    curl->easy_setopt(k->easy, CURLOPT_HTTPHEADER, d->headers);
    curl->easy_setopt(k->easy, CURLOPT_POST, 1L);
    curl->easy_setopt(k->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl->easy_setopt(k->easy, CURLOPT_WRITEDATA, k);
    curl->easy_setopt(k->easy, CURLOPT_PRIVATE, k);
    curl->easy_setopt(k->easy, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(k->easy, CURLOPT_NOPROXY, "*"); /* the server is measured, not what stands before it */
    curl->easy_setopt(k->easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl->easy_setopt(k->easy, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    curl->easy_setopt(k->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl->easy_setopt(k->easy, CURLOPT_LOW_SPEED_TIME, STALL_S);
    return ST_OK;
}

static enum status prepare(struct drive *d, struct err *e)
{
    TRY(set_url(d, e));
    TRY(set_headers(d, e));
    d->multi = curl->multi_init();
    d->clients = calloc(d->c->clients + 1, sizeof *d->clients);
    if (!d->multi || !d->clients)
        return err_set(e, ST_NO_MEMORY, "", "no memory for %u clients", d->c->clients);
    d->long_one = &d->clients[d->c->clients];
    curl->multi_setopt(d->multi, CURLMOPT_MAXCONNECTS, (long)d->c->clients + 1);
    for (uint32_t i = 0; i <= d->c->clients; i++)
        TRY(client_init(&d->clients[i], d, e));
    return ST_OK;
}

static void release(struct drive *d)
{
    for (uint32_t i = 0; d->clients && i <= d->c->clients; i++) {
        struct client *k = &d->clients[i];
        if (k->busy) {
            d->r->cancelled++;
            curl->multi_remove_handle(d->multi, k->easy);
        }
        curl->easy_cleanup(k->easy);
        buf_release(&k->body);
        stream_release(&k->stream);
    }
    free(d->clients);
    curl->multi_cleanup(d->multi);
    curl->slist_free_all(d->headers);
    buf_release(&d->url);
}

enum status drive_run(const struct drive_config *c, struct drive_result *out, struct err *e)
{
    struct drive d = {.c = c, .r = out};
    *out = (struct drive_result){.long_first = NAN, .long_total = NAN, .long_gap = NAN};
    buf_init(&d.url, 4096);
    TRY(cli_curl(&curl, e));
    if (curl->global_init(CURL_GLOBAL_DEFAULT) != 0)
        return err_set(e, ST_NO_MEMORY, "", "libcurl does not start");
    enum status st = prepare(&d, e);
    if (st == ST_OK)
        st = run(&d, e);
    cli_progress("%s", "");
    release(&d);
    curl->global_cleanup();
    return st;
}

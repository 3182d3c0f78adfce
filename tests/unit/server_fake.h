/*
 * server_fake: what stands in for the engine below a real server; included by one file of a program.
 *
 * A token is a byte, and what the engine does is written in the prompt's first word (see script()), so that every
 * outcome can be had at once and without a model.
 */
#ifndef TESTS_SERVER_FAKE_H
#define TESTS_SERVER_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include <jansson.h>

#include "server/limits.h"
#include "server/server.h"
#include "server_fake_text.h"

#define SLOTS 512

struct slot {
    bool used;
    int fd;
    char script[32];
    const char *says; /* what is still to be said, NUL-terminated */
    bool keep_special;
    char held[LIMIT_EVENT_BYTES]; /* "say": text that is not told yet */
    uint32_t held_n;
    uint32_t said, max, choice, logprobs, progress; /* EVENT_PROGRESSes to come */
    tok_id prompt[64];
    uint32_t prompt_n, prompt_told; /* told as EVENT_PROMPTs */
    char name[REQUEST_NAME];
    bool ended;
    enum finish finish;
    struct err err;
};

static struct slot slots[SLOTS];
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint submitted, closed;

/* What the last request said beside its prompt and limits; its pointers are not to be followed. */
static struct request last_request;
static unsigned char last_salt[LIMIT_SALT];

/* What "say" says, and how many bytes of it are held back at most, as if they could begin a stop string. */
static const char *fake_reply = "";
static uint32_t fake_holds;

/* "say": fake_reply; "hang" and "dead": never say anything, and with the latter engine_look() fails; "busy", "long",
 * "never": refused;
 * "fail": fails at once; "tear": fails after "Hel"; "late" and "latetear" miss their deadline so; "full": ends since
 * memory ran out; "filled": sources had some of its tokens; "fuel": its template never ends (server_fake_text.h);
 * "utf8": bytes that are no characters; "endless": talks until closed; anything else: "Hello, \"world\"\n". */
static inline const char *script(const char *s)
{
    if (strcmp(s, "hang") == 0 || strcmp(s, "fail") == 0 || strcmp(s, "late") == 0)
        return "";
    if (strcmp(s, "tear") == 0 || strcmp(s, "latetear") == 0)
        return "Hel";
    if (strcmp(s, "utf8") == 0)
        return "a\xFF\xC3";
    if (strcmp(s, "say") == 0)
        return fake_reply;
    return "Hello, \"world\"\n";
}

static inline bool talks(const char *s)
{
    return strcmp(s, "hang") != 0 && strcmp(s, "dead") != 0;
}

enum status engine_submit(struct engine *en, const struct request *rq, request_id *id, struct err *e)
{
    struct slot s = {.used = true, .max = rq->max_tokens, .choice = rq->sampling.choice, .logprobs = rq->logprobs,
                     .keep_special = rq->keep_special};
    (void)en;
    s.prompt_n = rq->prompt_n < 64 ? rq->prompt_n : 64;
    memcpy(s.prompt, rq->prompt, s.prompt_n * sizeof *s.prompt);
    s.prompt_told = rq->prompt_logprobs ? 0 : s.prompt_n;
    s.progress = rq->progress ? 2 : 0;
    snprintf(s.name, sizeof s.name, "%s", rq->name);
    for (uint32_t i = 0; i < rq->prompt_n && i < sizeof s.script - 1 && rq->prompt[i] != ' '; i++)
        s.script[i] = (char)rq->prompt[i];
    if (strcmp(s.script, "busy") == 0) {
        err_set(e, ST_BUSY, "", "the queue is full");
        e->retry_after = 7;
        return ST_BUSY;
    }
    if (strcmp(s.script, "long") == 0)
        return err_set(e, ST_TOO_LONG, "", "the prompt has %u tokens, the context 3", rq->prompt_n);
    if (strcmp(s.script, "never") == 0)
        return err_set(e, ST_NEVER_FITS, "max_tokens", "prompt and max_tokens do not fit");
    s.says = rq->prompt_only ? "" : script(s.script);
    s.fd = eventfd(talks(s.script), EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_lock(&slots_lock);
    size_t i = 0;
    while (i < SLOTS && slots[i].used)
        i++;
    assert_true(i < SLOTS);
    slots[i] = s;
    last_request = *rq;
    if (rq->salt_n)
        memcpy(last_salt, rq->salt, rq->salt_n);
    pthread_mutex_unlock(&slots_lock);
    *id = i + 1;
    atomic_fetch_add(&submitted, 1);
    return ST_OK;
}

/* An id's text joins what is held back; some of that is told, whole characters only. */
static inline void tell(struct slot *s, struct event *ev, bool end)
{
    size_t n = 0;
    const char *text = end ? "" : tok_bytes(NULL, ev->id, &n);
    n = !end && tok_is_special(NULL, ev->id) && !s->keep_special ? 0 : n;
    memcpy(s->held + s->held_n, text, n);
    s->held_n += (uint32_t)n;
    const uint32_t whole = s->held_n - (end ? 0 : unfinished(s->held, s->held_n));
    uint32_t least = whole > fake_holds ? whole - fake_holds : 0;
    ev->text_n = end ? whole : least + (s->said * 7 + 3) % (whole - least + 1);
    while (!end && ev->text_n < whole && ev->text_n && ((unsigned char)s->held[ev->text_n] & 0xC0) == 0x80)
        ev->text_n--;
    memcpy(ev->text, s->held, ev->text_n);
    s->held_n -= ev->text_n;
    memmove(s->held, s->held + ev->text_n, s->held_n);
}

size_t engine_take(struct engine *en, request_id id, struct event *out, size_t n)
{
    struct slot *s = &slots[id - 1];
    (void)en;
    (void)n;
    if (s->ended || !talks(s->script))
        return 0;
    bool endless = strcmp(s->script, "endless") == 0;
    if (endless && !*s->says)
        s->says = script(s->script);
    *out = (struct event){.kind = EVENT_TOKEN, .logprob = -0.5f, .origin = ORIGIN_SAMPLED};
    if (s->progress) {
        *out = (struct event){.kind = EVENT_PROGRESS, .cached = 2, .fed = --s->progress ? 2 : s->prompt_n, .ms = 1.5f};
        return 1;
    }
    if (s->prompt_told < s->prompt_n) {
        out->kind = EVENT_PROMPT;
        out->id = s->prompt[s->prompt_told];
        out->logprob = s->prompt_told++ ? -2.0f : 0;
        return 1;
    }
    if (*s->says && (!s->max || s->said < s->max)) {
        out->id = (unsigned char)*s->says++;
        tell(s, out, false);
        out->origin = out->id == '{' ? SOURCE_GRAMMAR : ORIGIN_SAMPLED;
        out->top_n = s->logprobs ? s->logprobs - 1 : 0;
        for (uint32_t i = 0; i < out->top_n; i++)
            out->top[i] = (struct event_logprob){(tok_id)('a' + i), -1.0f - (float)i};
        s->said++;
        return 1;
    }
    s->ended = true;
    s->finish = *s->says ? FINISH_LENGTH : FINISH_STOP;
    if (strcmp(s->script, "fail") == 0 || strcmp(s->script, "tear") == 0) {
        s->finish = FINISH_ERROR;
        (void)err_set(&s->err, ST_STEP_FAILED, "", "the model's values are not finite");
    }
    if (strncmp(s->script, "late", 4) == 0) {
        s->finish = FINISH_ERROR;
        (void)err_set(&s->err, ST_DEADLINE, "", "the request was not done within its 5 seconds");
    }
    *out = (struct event){.kind = EVENT_END, .id = -1, .origin = ORIGIN_SAMPLED};
    tell(s, out, true);
    return 1;
}

int engine_fd(struct engine *en, request_id id)
{
    (void)en;
    return slots[id - 1].fd;
}

void engine_result(struct engine *en, request_id id, struct request_result *out)
{
    const struct slot *s = &slots[id - 1];
    (void)en;
    *out = (struct request_result){.finish = s->finish, .err = s->err, .kv_exhausted = strcmp(s->script, "full") == 0};
    out->usage = (struct request_usage){.prompt_tokens = 5, .completion_tokens = s->said, .cached_tokens = 2,
                                        .miss = MISS_DIFFERS, .sampled = s->said, .steps = 3, .head_positions = 4,
                                        .preemptions = 1, .queue_s = 0.25, .prefill_s = 0.5, .decode_s = 1};
    if (strcmp(s->script, "filled") == 0) {
        out->usage.sampled = 4;
        out->usage.by_source[SOURCE_GRAMMAR] = (struct source_counts){8, 8, 0, 8};
        out->usage.by_source[SOURCE_ECHO] = (struct source_counts){5, 3, 2, 0};
        out->usage.disarmed = s->choice > 0;
        out->usage.grammar_s = 0.125;
    }
    out->plan = (struct plan){.match = {.on = true}, .publish = {.why = "it is \"so\""}};
    out->plan.source[SOURCE_ECHO].on = true;
    out->plan.source[SOURCE_DRAFT].why = "there is none";
    out->plan.skip_head.why = "log-probabilities";
}

void engine_close(struct engine *en, request_id id)
{
    (void)en;
    pthread_mutex_lock(&slots_lock);
    close(slots[id - 1].fd);
    slots[id - 1].used = false;
    pthread_mutex_unlock(&slots_lock);
    atomic_fetch_add(&closed, 1);
}

uint32_t engine_context(const struct engine *en)
{
    (void)en;
    return 3;
}

uint32_t engine_rows(const struct engine *en)
{
    (void)en;
    return 2;
}

enum status engine_plan(const struct engine *en, const struct request *rq, struct plan *out, struct err *e)
{
    (void)en;
    *out = (struct plan){.match = {.on = true}, .skip_head.why = "so it is"};
    return rq->prompt_n ? ST_OK : err_set(e, ST_ARGUMENT, "prompt", "prompt is empty");
}

void engine_load(const struct engine *en, uint32_t *running, uint32_t *waiting)
{
    (void)en;
    *running = atomic_load(&submitted) - atomic_load(&closed);
    *waiting = 0;
}

const char *finish_name(enum finish f)
{
    return f == FINISH_STOP ? "stop" : f == FINISH_LENGTH ? "length" : "error";
}

const char *cache_miss_name(enum cache_miss m)
{
    return m == MISS_DIFFERS ? "text differs" : "none";
}

static const double bounds[] = {0.001, 0.5};

void engine_stats(struct engine *en, struct engine_stats *out)
{
    const struct engine_histogram h = {.bound = bounds, .n = 2, .count = {3, 4, 5}, .sum = 9.5};
    (void)en;
    *out = (struct engine_stats){
        .finished = {[FINISH_STOP] = 11, [FINISH_LENGTH] = 12, [FINISH_ERROR] = 13, [FINISH_CANCELLED] = 14},
        .prompt_tokens = 1ull << 40, .completion_tokens = 22, .cache_queries = 23, .cache_hits = 24, .preemptions = 25,
        .refused = 26, .steps = 27, .forward_s = 1.5, .head_s = 2.5, .sample_s = 3.5, .other_s = 4.5,
        .queue = h, .ttft = h, .itl = h, .e2e = h, .step = h,
        .by_source = {[SOURCE_GRAMMAR] = {31, 32, 33, 34}, [SOURCE_DRAFT] = {41, 42, 43, 44}},
    };
}

/* Everything that was submitted and not closed runs; nothing does after a "dead" prompt. */
enum status engine_look(struct engine *en, struct engine_view *out, struct err *e)
{
    (void)en;
    bool dead = false;
    out->n = out->queued = 0;
    pthread_mutex_lock(&slots_lock);
    for (size_t i = 0; i < SLOTS; i++) {
        const struct slot *s = &slots[i];
        if (!s->used)
            continue;
        dead = dead || strcmp(s->script, "dead") == 0;
        if (out->n < out->cap) {
            out->rows[out->n] = (struct engine_row_view){.running = true, .priority = -3, .prompt_tokens = s->prompt_n,
                                                         .age_s = 1.25};
            memcpy(out->rows[out->n++].name, s->name, sizeof s->name);
        }
    }
    pthread_mutex_unlock(&slots_lock);
    out->kv.blocks = 8;
    out->kv.used = 2;
    out->kv.cached = 1;
    return dead ? err_set(e, ST_BUSY, "", "the engine does not answer") : ST_OK;
}

#endif

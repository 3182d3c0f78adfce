/*
 * sim: the engine under random load, turn by turn, with a fake model and a clock of its own.
 *
 *     sim [SCENARIOS [FIRST_SEED]]
 *
 * A scenario is a function of its seed: sizes of the engine, requests of all kinds (lengths, common beginnings, salts,
 * priorities, deadlines, stop strings, seeds, log-probabilities), clients that read at once, late or never, that cancel or
 * vanish. After each turn: every block reference is accounted for, the tree's keys are what was fed, the step's time is
 * within its budget as priced here, and somebody made progress unless everybody waits for a reader. At the end: every
 * reply is exactly what the request gives alone, or a beginning of it where the request was ended early; requests whose
 * prompts hold poison failed, and only those; no block is held any more; and where blocks were plenty and everybody read,
 * nothing was fed twice.
 * A failure prints its seed, which repeats it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine_client.h"
#include "fake_source.h"

#define MOST_REQUESTS 40u
#define MOST_CONTEXT 512u
#define MOST_TURNS 200000u

static uint64_t scenario; /* its seed */
static uint32_t draws;

/* Uniform in [0, n). */
static uint32_t any(uint32_t n)
{
    uint32_t out[4];
    rng_philox(scenario, draws++, 77, out);
    return (uint32_t)((uint64_t)out[0] * n >> 32);
}

static bool chance(uint32_t percent)
{
    return any(100) < percent;
}

enum reader { READS_AT_ONCE, READS_A_LITTLE_LATE, READS_LATE, READS_NEVER };

struct client {
    struct request rq;
    tok_id prompt[MOST_CONTEXT];
    struct request_stop stop;
    char salt;
    bool poisoned;
    double arrives, cancels, vanishes; /* cancels and vanishes: 0 = not */
    enum reader reader;
    bool submitted, refused, cancelled, gone;
    double submitted_at;
    request_id id;
    uint32_t prompt_events;
    struct client_reply reply;
};

static struct client clients[MOST_REQUESTS];
static uint32_t clients_n;
static struct engine_cost cost;
static bool easy;         /* plenty of blocks, everybody reads every second turn at least */
static double longest_s;  /* of a turn */
static uint32_t turns_n;
static struct fake_model fake;
static struct source *sources[SOURCE_KINDS];
static struct engine *en;
static double now;
static struct {
    uint64_t scenarios, requests, refused, cancelled, vanished, stalled, deadlines, preemptions, turns, cached;
    uint64_t exhausted, poisoned, asserted, accepted, rejected, stopped_inside;
} seen;

#define CHECK(x, ...)                                                                                                 \
    do {                                                                                                              \
        if (!(x))                                                                                                     \
            BUG(__VA_ARGS__);                                                                                         \
    } while (0)

static double sim_clock(void *ctx)
{
    (void)ctx;
    return now;
}

static void say_seed(int sig)
{
    char line[80];
    int n = snprintf(line, sizeof line, "sim: failed in the scenario of seed %llu\n", (unsigned long long)scenario);
    (void)!write(STDERR_FILENO, line, (size_t)n);
    signal(sig, SIG_DFL);
    raise(sig);
}

/* --- making a scenario ----------------------------------------------------------------------------------------------- */

/* Some prompts begin alike for a while, and some are the same. */
static void make_prompt(struct client *c, uint32_t n)
{
    uint32_t common = chance(60) ? any(n + 1) : 0, kind = any(3);
    client_prompt(c->prompt, n, 1000 + (chance(20) ? kind : any(100000)));
    if (common)
        client_prompt(c->prompt, common, kind);
    c->rq.prompt = c->prompt;
    c->rq.prompt_n = n;
}

/* Greedy, plain, and those that look back or carry something from position to position. */
static void make_sampling(struct sample_params *p)
{
    if (chance(50))
        return;
    p->temperature = 0.5f + (float)any(10) * 0.1f;
    p->seed = any(1000);
    if (chance(20)) {
        p->mirostat = 1 + any(2);
        p->mirostat_tau = 3;
        p->mirostat_eta = 0.1f;
    } else if (chance(50)) {
        p->top_p = 0.9f;
        p->top_k = any(40);
    }
    if (chance(30)) {
        p->repetition_penalty = 1.2f;
        p->frequency_penalty = 0.3f;
        p->penalty_last = any(30);
    }
}

static void make_request(struct client *c, uint32_t context)
{
    static const char *const stops[] = {"q", "ab", "xyz", "na"};
    uint32_t n = 1 + any(chance(30) ? context - 1 : (context - 1) / 4 + 1);
    if (n > context - 1)
        n = context - 1;
    memset(c, 0, sizeof *c);
    c->rq = client_request(NULL, 0, chance(10) ? 0 : 1 + any(context - n));
    make_prompt(c, n);
    make_sampling(&c->rq.sampling);
    c->rq.ignore_eos = chance(20);
    if (chance(30)) {
        c->stop.s = stops[any(4)];
        c->stop.n = strlen(c->stop.s);
        c->rq.stops = &c->stop;
        c->rq.stops_n = 1;
    }
    c->rq.priority = chance(30) ? (int32_t)any(21) - 10 : 0;
    c->rq.deadline_ms = chance(10) ? 1 + any(3000) : 0;
    c->rq.logprobs = chance(20) ? 1 + any(3) : 0;
    c->rq.prompt_logprobs = c->rq.logprobs && chance(50);
    c->rq.prompt_only = c->rq.prompt_logprobs && chance(40);
    c->rq.no_prefix_cache = chance(10);
    c->rq.fill = chance(20) ? FILL_OFF : FILL_LOSSLESS;
    c->rq.sources_off = chance(20) ? any(1u << SOURCE_KINDS) : 0;
    c->salt = (char)('a' + any(2));
    c->rq.salt = &c->salt;
    c->rq.salt_n = chance(30);
    c->arrives = now + any(chance(50) ? 3000 : 50) * 1e-3;
    c->cancels = chance(15) ? c->arrives + any(1500) * 1e-3 + 1e-6 : 0;
    c->vanishes = chance(10) ? c->arrives + any(1500) * 1e-3 + 1e-6 : 0;
    c->reader = chance(70) ? READS_AT_ONCE : chance(80) ? READS_LATE : READS_NEVER;
    if (easy || (c->reader == READS_AT_ONCE && chance(20)))
        c->reader = chance(50) ? READS_A_LITTLE_LATE : READS_AT_ONCE;
    uint32_t at = any(n);
    /* Nothing is computed after the last id of a prompt that is only scored. */
    c->poisoned = chance(5) && !(c->rq.prompt_only && at == n - 1);
    if (c->poisoned)
        c->prompt[at] = FAKE_POISON;
}

/* In a third of the scenarios none, otherwise several of all habits. */
static void make_sources(void)
{
    bool none = chance(33);
    for (int k = 0; k < SOURCE_KINDS; k++) {
        sources[k] = NULL;
        if (none || chance(40))
            continue;
        enum fake_habit habit = k == SOURCE_GRAMMAR ? FAKE_SURE : (enum fake_habit)(1 + any(FAKE_HABITS - 1));
        sources[k] = fake_source_new(&fake, (enum source_kind)k, habit);
    }
}

static void make_engine(struct pool *pool)
{
    static const uint32_t chunks[] = {1, 3, 7, 32, 100, 512};
    struct err e = {.text = ""};
    uint32_t context = 64 + any(MOST_CONTEXT - 63);
    fake_init(&fake, context);
    fake.no_eos = chance(50);
    make_sources();
    fake.tuning = (struct engine_tuning){
        .manual = true, .clock = sim_clock, .stall_ms = 500 + any(1500), .source = sources};
    easy = chance(25);
    if (!easy && chance(70)) /* often too few for all rows, sometimes for one */
        fake.tuning.positions = chance(80) ? context + any(3 * context) : context / 2 + any(context / 2);
    double per_id = 0.05 + any(100) * 0.02;
    cost = (struct engine_cost){.n = 2,
                                     .point = {{1, 2 * per_id + 1}, {1000, 1000 * per_id + 1}},
                                     .head_ms = 0.1,
                                     .attention_ms = 1 + any(100),
                                     .decode_attention_ms = 1 + any(300),
                                     .frozen = true};
    const struct engine_config cfg = {.pool = pool,
                                      .rows = 1 + any(8),
                                      .queue = 1 + any(chance(50) ? 4 : MOST_REQUESTS),
                                      .chunk = chunks[any(6)],
                                      .itl_ms = 1 + any(80),
                                      .no_prefix_cache = chance(10),
                                      .cost = &cost};
    if (fake_engine(&en, &fake, &cfg, true, &e))
        BUG("engine: %s: %s", e.field, e.text);
    clients_n = 1 + any(MOST_REQUESTS);
    for (uint32_t i = 0; i < clients_n; i++)
        make_request(&clients[i], context);
}

/* --- what clients do between turns ----------------------------------------------------------------------------------- */

static void submit(struct client *c)
{
    struct err e = {.text = ""};
    enum status st = engine_submit(en, &c->rq, &c->id, &e);
    CHECK(st == ST_OK || st == ST_BUSY || st == ST_NEVER_FITS, "submit: %s: %s", e.field, e.text);
    c->submitted = true;
    c->refused = st != ST_OK;
    c->submitted_at = now;
    seen.requests++;
    seen.refused += c->refused;
}

static void take(struct client *c)
{
    struct event ev;
    while (!c->reply.ended && engine_take(en, c->id, &ev, 1)) {
        if (ev.kind == EVENT_PROMPT) {
            CHECK(ev.id == c->prompt[c->prompt_events], "prompt id %u told as %d", c->prompt_events, (int)ev.id);
            c->prompt_events++;
            continue;
        }
        CHECK(c->reply.text_n + ev.text_n < CLIENT_TEXT, "too much text");
        memcpy(c->reply.text + c->reply.text_n, ev.text, ev.text_n);
        c->reply.text_n += ev.text_n;
        if (ev.kind == EVENT_TOKEN && ev.id >= 0)
            c->reply.ids[c->reply.n++] = ev.id;
        c->reply.ended = ev.kind == EVENT_END;
    }
    if (c->reply.ended)
        engine_result(en, c->id, &c->reply.result);
}

static void act(struct client *c)
{
    if (!c->submitted && now >= c->arrives)
        submit(c);
    if (!c->submitted || c->refused || c->gone || c->reply.ended)
        return;
    if (c->vanishes > 0 && now >= c->vanishes) {
        engine_close(en, c->id);
        c->gone = true;
        seen.vanished++;
        return;
    }
    if (c->cancels > 0 && now >= c->cancels && !c->cancelled) {
        engine_cancel(en, c->id);
        c->cancelled = true;
    }
    if (c->reader == READS_AT_ONCE || (c->reader == READS_A_LITTLE_LATE && turns_n % 2) ||
        (c->reader == READS_LATE && chance(3)))
        take(c);
    else if (c->reader == READS_NEVER && now > c->submitted_at + 60)
        take(c); /* looks once, long after the engine gave it up */
}

static bool all_done(void)
{
    for (uint32_t i = 0; i < clients_n; i++) {
        const struct client *c = &clients[i];
        if (!c->submitted || !(c->refused || c->gone || c->reply.ended))
            return false;
    }
    return true;
}

/* --- checks ---------------------------------------------------------------------------------------------------------- */

/* What the fake model did, in what it has counted since `before`, at the prices of this scenario. */
static double price(const struct fake_model *before)
{
    double tokens = fake.fed - before->fed, per_id = (cost.point[1].ms - cost.point[0].ms) / 999;
    return (tokens > 0 ? cost.point[0].ms + (tokens - 1) * per_id : 0) + (fake.heads - before->heads) * cost.head_ms
           + (fake.keys - before->keys) * cost.attention_ms * 1e-6
           + (fake.decode_keys - before->decode_keys) * cost.decode_attention_ms * 1e-6;
}

static uint32_t idle_turns;

static void check_turn(const struct fake_model *before, bool worked)
{
    double predicted, budget, ms = price(before);
    uint32_t fed = fake.fed - before->fed, spans = fake.spans - before->spans;
    engine_verify(en);
    engine_last_step(en, &predicted, &budget);
    if (fed > spans + 8) /* more than one id a row and the four of a prompt and four certain ones that always may */
        CHECK(ms <= budget * 1.000001, "a step of %u ids took %.3f ms, the budget is %.3f", fed, ms, budget);
    idle_turns = worked ? 0 : idle_turns + 1;
    uint32_t running, waiting;
    engine_load(en, &running, &waiting);
    for (uint32_t i = 0; i < clients_n; i++) {
        struct client *c = &clients[i];
        if (!c->cancelled || c->gone || c->reply.ended || c->reader != READS_AT_ONCE)
            continue;
        take(c);
        CHECK(c->reply.ended, "client %u cancelled, and a turn later it still runs", i);
    }
    if (idle_turns < 20) /* a second: a row that waits for its reader keeps its blocks for a moment */
        return;
    for (uint32_t i = 0; i < clients_n; i++) {
        struct client *c = &clients[i];
        if (!c->submitted || c->refused || c->gone || c->reply.ended || c->reader != READS_AT_ONCE)
            continue;
        take(c); /* it may have ended in this turn */
        CHECK(c->reply.ended || (!running && !waiting), "nothing was done, though client %u reads", i);
    }
}

/* Where the text of ids[0, n) has the stop string first: *cut is that place and n the ids it took; otherwise n. */
static uint32_t stop_at(const struct client *c, const tok_id *ids, uint32_t n, size_t *cut)
{
    char text[CLIENT_IDS * 2];
    size_t len = 0;
    *cut = SIZE_MAX;
    for (uint32_t i = 0; i < n; i++) {
        const char *s = fake_text(&fake, ids[i]);
        memcpy(text + len, s, strlen(s) + 1);
        len += strlen(s);
        const char *hit = c->rq.stops_n ? strstr(text, c->stop.s) : NULL;
        if (hit) {
            *cut = (size_t)(hit - text);
            return i + 1;
        }
    }
    return n;
}

/* What a request gives alone: its ids (with an end token), how it ends, and the text. */
static void check_whole(const struct client *c, const tok_id *want, uint32_t n, uint32_t most)
{
    size_t cut;
    const struct request_result *r = &c->reply.result;
    bool eos = n && want[n - 1] == FAKE_EOS && !c->rq.ignore_eos;
    uint32_t used = stop_at(c, want, n - eos, &cut);
    bool stopped = cut != SIZE_MAX;
    if (r->kv_exhausted) {
        CHECK(c->reply.n < most && c->reply.n <= used, "exhausted after all");
        return;
    }
    CHECK(c->reply.n == used, "%u ids, not %u", c->reply.n, used);
    CHECK(r->finish == (stopped || eos ? FINISH_STOP : FINISH_LENGTH), "ended with %s", finish_name(r->finish));
    CHECK(!stopped || c->reply.text_n == cut, "%zu bytes before the stop, not %zu", c->reply.text_n, cut);
    CHECK(r->usage.completion_tokens == used + (eos && !stopped), "%u tokens counted", r->usage.completion_tokens);
}

/* L7: every token has an origin, and nothing was asked that the request switched off. */
static void check_sources(const struct client *c)
{
    const struct request_usage *u = &c->reply.result.usage;
    uint64_t filled = 0;
    for (int k = 0; k < SOURCE_KINDS; k++) {
        const struct source_counts *s = &u->by_source[k];
        bool on = sources[k] && c->rq.fill != FILL_OFF && !(c->rq.sources_off & 1u << k);
        CHECK(on || !s->proposed, "%s proposed %llu ids, though it is off", source_name((enum source_kind)k),
              (unsigned long long)s->proposed);
        CHECK(s->accepted + s->rejected <= s->proposed && s->asserted <= s->accepted, "counts of %s do not add up",
              source_name((enum source_kind)k));
        filled += s->accepted;
        seen.asserted += s->asserted;
        seen.accepted += s->accepted - s->asserted;
        seen.rejected += s->rejected;
        seen.stopped_inside += s->accepted + s->rejected < s->proposed;
    }
    CHECK(u->sampled + filled == u->completion_tokens, "%u sampled and %llu filled of %u tokens", u->sampled,
          (unsigned long long)filled, u->completion_tokens);
}

static void check_client(const struct client *c)
{
    static tok_id want[CLIENT_IDS];
    const struct request_result *r = &c->reply.result;
    uint32_t rest = fake.context - c->rq.prompt_n, most = c->rq.max_tokens ? c->rq.max_tokens : rest;
    if (c->refused || c->gone)
        return;
    if (c->poisoned) { /* L4: it fails, and nobody else does. What it chose before the end of its prompt is nothing. */
        CHECK(c->reply.n <= r->usage.by_source[SOURCE_GRAMMAR].asserted, "%u ids after poison", c->reply.n);
        CHECK(r->err.code == ST_STEP_FAILED || r->err.code == ST_DEADLINE || r->err.code == ST_CANCELLED ||
                  r->kv_exhausted,
              "a poisoned request ended with %s", finish_name(r->finish));
        seen.poisoned += r->err.code == ST_STEP_FAILED;
        return;
    }
    /* A reader is waited for; two turns are too long for that only where turns are very long. */
    CHECK(!easy || 2 * longest_s >= 0.25 || !r->usage.preemptions, "put back %u times, with plenty of blocks",
          r->usage.preemptions);
    seen.preemptions += r->usage.preemptions;
    seen.cached += r->usage.cached_tokens;
    check_sources(c);
    uint32_t n = c->rq.prompt_only ? 0 : fake_expect(&fake, &c->rq, most, want);
    CHECK(c->reply.n <= n && !memcmp(c->reply.ids, want, c->reply.n * sizeof *want), "ids that it does not give alone");
    bool whole = r->finish == FINISH_STOP || r->finish == FINISH_LENGTH;
    seen.exhausted += r->kv_exhausted;
    if (c->rq.prompt_logprobs && whole && !r->kv_exhausted)
        CHECK(c->prompt_events == c->rq.prompt_n, "%u of %u prompt ids told", c->prompt_events, c->rq.prompt_n);
    if (whole && !c->rq.prompt_only) {
        check_whole(c, want, n, most);
    } else if (r->err.code == ST_DEADLINE) {
        CHECK(c->rq.deadline_ms, "a deadline that nobody set");
        seen.deadlines++;
    } else if (!whole) {
        CHECK(r->err.code == ST_CANCELLED, "failed: %s", r->err.text);
        CHECK(c->cancelled || c->reader != READS_AT_ONCE, "cancelled without a reason: %s", r->err.text);
        *(c->cancelled ? &seen.cancelled : &seen.stalled) += 1;
    }
}

static void run(struct pool *pool)
{
    now = 5000;
    idle_turns = turns_n = 0;
    longest_s = 0;
    make_engine(pool);
    uint32_t all = engine_kv_available(en), turns = 0;
    for (; !all_done(); turns++) {
        CHECK(turns < MOST_TURNS, "no end after %u turns", turns);
        for (uint32_t i = 0; i < clients_n; i++)
            act(&clients[i]);
        struct fake_model before;
        memcpy(&before, &fake, sizeof before);
        bool worked = engine_turn(en);
        check_turn(&before, worked);
        double predicted, budget;
        engine_last_step(en, &predicted, &budget);
        double took = worked ? (predicted > 0 ? predicted * 1e-3 : 1e-4) : 0.05;
        now += took;
        longest_s = took > longest_s ? took : longest_s;
        turns_n++;
    }
    engine_turn(en); /* those that vanished last */
    engine_verify(en);
    for (uint32_t i = 0; i < clients_n; i++) {
        check_client(&clients[i]);
        if (!clients[i].refused && !clients[i].gone)
            engine_close(en, clients[i].id);
    }
    CHECK(engine_kv_available(en) == all, "%u blocks are held, and nobody is there", all - engine_kv_available(en));
    seen.scenarios++;
    seen.turns += turns;
    engine_free(en);
    fake_release(&fake);
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 300, first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct pool *pool;
    if (pool_new(&pool, 2, NULL))
        return 1;
    signal(SIGABRT, say_seed);
    signal(SIGSEGV, say_seed);
    for (scenario = first; scenario < first + n; scenario++) {
        draws = 0;
        run(pool);
    }
    pool_free(pool);
    printf("note: %llu scenarios, seeds %llu to %llu: %llu requests in %llu turns; %llu refused, %llu cancelled, %llu "
           "vanished, %llu not read, %llu deadlines, %llu times put back, %llu ends for lack of blocks, %llu poisoned, "
           "%llu ids reused; of sources: %llu asserted, %llu accepted, %llu rejected, %llu ends inside of what they said\n",
           (unsigned long long)seen.scenarios, (unsigned long long)first, (unsigned long long)(first + n - 1),
           (unsigned long long)seen.requests, (unsigned long long)seen.turns, (unsigned long long)seen.refused,
           (unsigned long long)seen.cancelled, (unsigned long long)seen.vanished, (unsigned long long)seen.stalled,
           (unsigned long long)seen.deadlines, (unsigned long long)seen.preemptions, (unsigned long long)seen.exhausted,
           (unsigned long long)seen.poisoned,
           (unsigned long long)seen.cached, (unsigned long long)seen.asserted, (unsigned long long)seen.accepted,
           (unsigned long long)seen.rejected, (unsigned long long)seen.stopped_inside);
    /* A simulation in which something never happens proves nothing about it. */
    bool all = n < 200 || (seen.refused && seen.cancelled && seen.vanished && seen.stalled && seen.deadlines &&
                           seen.preemptions && seen.cached && seen.exhausted && seen.poisoned && seen.asserted &&
                           seen.accepted && seen.rejected && seen.stopped_inside);
    printf("%llu passed, %d failed\n", (unsigned long long)seen.scenarios, !all);
    return !all;
}

/* scene: see scene.h. */
#include "scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine_client.h"
#include "told.h"

#define LONGEST 512u
#define OTHERS 7u       /* with the request under test a batch of 8 */
#define REPLY 48u       /* tokens of a neighbour: its ring of LIMIT_EVENTS never fills, though nobody reads it */
#define PATIENCE_S 600  /* until an engine that says nothing is taken to hang */

/* Everything of the run under way. */
struct run {
    const struct scene *s;
    const struct way *way;
    struct watch watch;
    struct engine *en;
    struct told told;
    tok_id prompt[LONGEST];
    struct neighbour {
        request_id id;
        tok_id prompt[LONGEST];
    } other[OTHERS];
};

static struct run run;
static struct client_reply reply;
static char sentence[256];

#define SAY(...) (snprintf(sentence, sizeof sentence, __VA_ARGS__), sentence)

static bool is_put_back(enum past past)
{
    return past == PAST_PUT_BACK || past == PAST_RESUMED;
}

/* --- requests -------------------------------------------------------------------------------------------------------- */

static void make_prompt(const struct scene *s, uint32_t seed, tok_id *out, uint32_t n)
{
    uint32_t vocab = model_info(s->model.model)->vocab;
    for (uint32_t i = 0; i < n; i++)
        out[i] = 8 + (tok_id)(rng_uniform(seed, 5, i, RNG_FINAL) * (float)(vocab - 8) * 0.99f);
}

static struct request under_test(enum sampling sampling)
{
    struct request rq = client_request(run.prompt, run.s->scale.prompt, run.s->scale.tokens);
    rq.ignore_eos = true;
    rq.fill = run.way->fill == FILL_NONE ? FILL_OFF : FILL_LOSSLESS;
    if (sampling == SAMPLING_SEEDED) {
        rq.sampling.temperature = 0.9f;
        rq.sampling.top_p = 0.95f;
        rq.sampling.repetition_penalty = 1.1f;
        rq.sampling.seed = 20240607;
    }
    return rq;
}

static void must_submit(const struct request *rq, request_id *id)
{
    struct err e;
    if (engine_submit(run.en, rq, id, &e))
        BUG("submit: %s: %s", e.field, e.text);
}

/* Neighbour i: `n` ids, of which the first `shared` are those of the request under test. */
static void join(uint32_t i, uint32_t n, uint32_t shared)
{
    struct neighbour *o = &run.other[i];
    make_prompt(run.s, 100 + i, o->prompt, n);
    memcpy(o->prompt, run.prompt, shared * sizeof *run.prompt);
    struct request rq = client_request(o->prompt, n, REPLY - i);
    rq.ignore_eos = true;
    rq.fill = is_put_back(run.way->past) ? FILL_OFF : FILL_LOSSLESS;
    rq.sampling.temperature = i % 2 ? 0.3f * (float)i : 0;
    rq.sampling.seed = i;
    must_submit(&rq, &o->id);
}

static void leave_all(void)
{
    for (uint32_t i = 0; i < OTHERS; i++)
        if (run.other[i].id)
            engine_close(run.en, run.other[i].id); /* cancels what still runs */
}

/* --- the engine ------------------------------------------------------------------------------------------------------ */

static void begin(struct scene *s, const struct way *way, uint32_t positions)
{
    struct err e = {.text = ""};
    struct engine_net net;
    struct engine_words words;
    memset(&run, 0, sizeof run);
    run.s = s;
    run.way = way;
    make_prompt(s, 1, run.prompt, s->scale.prompt);
    watch_init(&run.watch, run.prompt, s->scale.prompt);
    /* Chunks are as long as the way says, however slow the level, and what sources say always pays. */
    static const struct engine_cost nothing = {.n = 2, .point = {{1, 1e-3}, {2048, 2e-3}}, .head_ms = 1e-9,
                                               .attention_ms = 1e-9, .decode_attention_ms = 1e-9, .frozen = true};
    const struct outcome *want = s->want[way->sampling];
    struct source *sources[SOURCE_KINDS] = {NULL};
    bool told = way->fill > FILL_NONE && way->fill < FILL_REAL;
    if (told) {
        told_init(&run.told, (enum told_habit)(way->fill - FILL_TOLD), run.prompt, s->scale.prompt, want->ids, want->n);
        /* Who is put back is so at the step at which it would be alone; it goes on with sources. */
        run.told.quiet = is_put_back(way->past) ? 11 : 0;
        sources[run.told.ops.kind] = &run.told.source;
    }
    run.watch.reply = want ? want->ids : NULL;
    struct engine_config cfg = {
        .model = s->model.model,
        .tok = s->model.tok,
        .pool = s->pools[way->threads - 1],
        .kv_format = KERN_KV_F16,
        .context = 2 * s->scale.prompt + REPLY,
        .rows = OTHERS + 1,
        .chunk = way->chunk,
        .no_prefix_cache = way->past == PAST_PUT_BACK,
        .cost = &nothing,
    };
    uint32_t most = model_info(s->model.model)->context;
    cfg.context = cfg.context < most ? cfg.context : most;
    const struct engine_tuning tuning = {.positions = positions, .source = told ? sources : NULL};
    enum status st = engine_net_model(&net, &words, &cfg, &e);
    if (!st) {
        net = watch_net(&run.watch, &net);
        st = engine_new_net(&run.en, &cfg, &net, cfg.tok ? &words : NULL, &tuning, &e);
    }
    if (st)
        BUG("engine: %s: %s", e.field, e.text);
}

/* A request that ended while its stop was awaited (await_stop()) may have brought that about with its last token: the next
 * step, of the others, stops then, and nobody would let it go on. */
static void end(void)
{
    watch_go(&run.watch);
    leave_all();
    engine_free(run.en);
    watch_release(&run.watch);
}

static void stop_at(enum watch_when when, uint32_t count)
{
    run.watch.count = count;
    run.watch.stop = when;
}

/* Until the engine stopped where it was told to. False when the request under test ended before. */
static bool await_stop(request_id id, struct client_reply *r)
{
    for (int ms = 0; ms < PATIENCE_S * 1000; ms += 20) {
        if (watch_stopped(&run.watch, 20))
            return true;
        if (id)
            client_take(run.en, id, r);
        if (id && r->ended)
            return false;
    }
    BUG("no step for %d s", PATIENCE_S);
}

static void fill_outcome(struct outcome *out)
{
    const struct watch *w = &run.watch;
    *out = (struct outcome){.n = reply.n, .text = XXH3_64bits(reply.text, reply.text_n)};
    memcpy(out->ids, reply.ids, (reply.n < WATCH_TOKENS ? reply.n : WATCH_TOKENS) * sizeof *out->ids);
    memcpy(out->hash, w->hash, sizeof out->hash);
    memcpy(out->have, w->have, sizeof out->have);
}

/* --- what every run has to show -------------------------------------------------------------------------------------- */

static const char *check_end(const struct client_reply *r)
{
    if (r->result.finish != FINISH_LENGTH || r->result.kv_exhausted)
        return SAY("it ended with \"%s\": %s", finish_name(r->result.finish), r->result.err.text);
    bool heads = run.way->fill == FILL_CERTAIN ? run.watch.heads < r->n : run.watch.heads == r->n;
    if (r->n != run.s->scale.tokens || !heads)
        return SAY("%u tokens and %u head positions, not %u", r->n, run.watch.heads, run.s->scale.tokens);
    if (run.watch.clashes)
        return SAY("%u head positions had two hashes in one run", run.watch.clashes);
    return NULL;
}

static const char *check_exercised(void)
{
    const struct watch *w = &run.watch;
    const struct way *way = run.way;
    uint32_t prompt = run.s->scale.prompt, cached = reply.result.usage.cached_tokens;
    bool warm = way->past == PAST_WARM || way->past == PAST_PART_WARM;
    if (warm ? cached < (way->past == PAST_WARM ? prompt - 1 : KV_BLOCK) : cached > 0)
        return SAY("not exercised: %u cached tokens", cached);
    if (way->past == PAST_PART_WARM && cached >= prompt - 1)
        return SAY("not exercised: all %u tokens were cached", cached);
    if (way->fill == FILL_NONE && w->longest > way->chunk)
        return SAY("a span of %u ids", w->longest);
    uint32_t whole = prompt < way->chunk ? prompt : way->chunk;
    if (way->fill == FILL_NONE && way->past == PAST_COLD && way->company == COMPANY_ALONE && w->longest != whole)
        return SAY("not exercised: its longest span had %u ids", w->longest);
    if (way->company == COMPANY_BATCH ? w->beside < 4 : w->beside > is_put_back(way->past))
        return SAY("not exercised: at most %u others in one step", w->beside);
    const struct source_counts *told = &reply.result.usage.by_source[run.told.ops.kind];
    bool tells = way->fill > FILL_NONE && way->fill < FILL_REAL;
    if (tells && !told->accepted)
        return SAY("not exercised: nothing that was proposed was accepted");
    if (way->fill == FILL_MIXED && !told->rejected)
        return SAY("not exercised: all that was proposed was accepted");
    if (way->fill != FILL_REAL && is_put_back(way->past) != (w->returns > 0))
        return SAY("not exercised: it was put back %u times", w->returns);
    if (way->past == PAST_PUT_BACK && w->returns && w->again < prompt)
        return SAY("not exercised: only %u positions were fed again", w->again);
    if (way->past == PAST_RESUMED && w->returns && !w->kept)
        return SAY("not exercised: nothing of it was left in the cache");
    bool rejects = way->fill == FILL_MIXED || way->fill == FILL_REAL;
    if (!is_put_back(way->past) && !rejects && w->again)
        return SAY("%u positions were fed twice", w->again);
    return NULL;
}

/* --- company --------------------------------------------------------------------------------------------------------- */

/* Four others are there, joined while the engine is stopped at the first one's first step; then the request under test,
 * so that it is the youngest. After three of its tokens three more join and one leaves, after six another leaves. */
static void play_batch(const struct request *rq, request_id *id)
{
    uint32_t p = run.s->scale.prompt;
    stop_at(WATCH_STEP, 0);
    join(0, p - 10, 0);
    await_stop(0, NULL);
    join(1, 1, 0);
    join(2, p - 25, 0);
    join(3, 33, 0);
    must_submit(rq, id);
    stop_at(WATCH_CHOSEN, 3);
    watch_go(&run.watch);
    if (!await_stop(*id, &reply))
        return;
    engine_cancel(run.en, run.other[2].id);
    join(4, p / 2, 0);
    join(5, 2, 0);
    join(6, p, run.way->past == PAST_COLD ? 0 : 40); /* it shares a block with the request under test */
    stop_at(WATCH_CHOSEN, 6);
    watch_go(&run.watch);
    if (!await_stop(*id, &reply))
        return;
    engine_cancel(run.en, run.other[5].id);
    watch_go(&run.watch);
}

/* The others are older. All cross the next block's edge a few tokens on, and one block is missing. While the request
 * under test is away, two of them leave (or the only one), which lets it come back, and three others join behind it. */
static void play_put_back(const struct request *rq, request_id *id)
{
    uint32_t p = run.s->scale.prompt;
    bool batch = run.way->company == COMPANY_BATCH;
    stop_at(WATCH_STEP, 0);
    join(0, p - 1, 0);
    await_stop(0, NULL);
    if (batch) {
        join(1, p - 3, 0);
        join(2, p, 0);
        join(3, p - 2, 0);
    }
    must_submit(rq, id);
    stop_at(WATCH_AWAY, 1);
    watch_go(&run.watch);
    if (!await_stop(*id, &reply))
        return;
    if (batch) {
        engine_cancel(run.en, run.other[1].id);
        engine_cancel(run.en, run.other[3].id);
        join(4, p / 2, 0);
        join(5, 1, 0);
        join(6, 33, 0);
    } else {
        engine_cancel(run.en, run.other[0].id);
    }
    watch_go(&run.watch);
}

static void ask_before(enum sampling sampling, uint32_t n)
{
    struct request rq = under_test(sampling);
    request_id id;
    rq.prompt_n = n;
    must_submit(&rq, &id);
    memset(&reply, 0, sizeof reply);
    client_finish(run.en, id, &reply);
    watch_begin(&run.watch);
}

const char *scene_run(struct scene *s, const struct way *way, struct outcome *out)
{
    uint32_t blocks = (s->scale.prompt + KV_BLOCK - 1) / KV_BLOCK;
    uint32_t rows = way->company == COMPANY_BATCH ? 5 : 2;
    begin(s, way, is_put_back(way->past) ? (rows * (blocks + 1) - 1) * KV_BLOCK : 0);
    if (way->past == PAST_WARM)
        ask_before(way->sampling, s->scale.prompt);
    if (way->past == PAST_PART_WARM)
        ask_before(way->sampling, s->scale.prompt - 20);
    struct request rq = under_test(way->sampling);
    request_id id;
    memset(&reply, 0, sizeof reply);
    if (is_put_back(way->past))
        play_put_back(&rq, &id);
    else if (way->company == COMPANY_BATCH)
        play_batch(&rq, &id);
    else
        must_submit(&rq, &id);
    client_finish(run.en, id, &reply);
    fill_outcome(out);
    const char *why = check_end(&reply);
    why = why ? why : check_exercised();
    end();
    return why;
}

/* --- two cases by name ----------------------------------------------------------------------------------------------- */

/* CC6: the same seed gives the same text under any load. */
const char *scene_copies(struct scene *s, int threads, struct outcome *out)
{
    static struct client_reply replies[4];
    /* A prompt takes two steps, so that the first copy still writes when the last one joins. */
    const uint32_t chunk = (s->scale.prompt + SCENE_BEFORE_EDGE) / 2;
    const struct way way = {COMPANY_BATCH, chunk, threads, PAST_COLD, SAMPLING_SEEDED, FILL_NONE};
    struct request rq;
    request_id id[4];
    const char *why = NULL;
    begin(s, &way, 0);
    rq = under_test(way.sampling);
    memset(replies, 0, sizeof replies);
    stop_at(WATCH_STEP, 0);
    join(0, 40, 0);
    await_stop(0, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        must_submit(&rq, &id[i]);
        if (i)
            join(i, 10 * i, 0);
    }
    watch_go(&run.watch);
    for (uint32_t i = 0; i < 4; i++) {
        client_finish(run.en, id[i], &replies[i]);
        why = why ? why : check_end(&replies[i]); /* clashes: a copy whose logits are not the first one's */
    }
    for (uint32_t i = 1; i < 4 && !why; i++)
        if (memcmp(replies[i].ids, replies[0].ids, sizeof replies[0].ids)
            || strcmp(replies[i].text, replies[0].text) != 0)
            why = SAY("copy %u has another text than the first", i);
    if (!why && run.watch.beside < 7)
        why = SAY("not exercised: at most %u others in one step", run.watch.beside);
    reply = replies[0];
    fill_outcome(out);
    end();
    return why;
}

/* PC6: nothing of a slot's, a sequence's or a block's last user is left. */
const char *scene_recycled(struct scene *s, enum sampling sampling, struct outcome *out)
{
    const struct way way = {COMPANY_ALONE, 32, 2, PAST_PUT_BACK, sampling, FILL_NONE}; /* (without a prefix cache) */
    struct request rq;
    request_id id;
    const char *why;
    /* room for one row of the whole length: everybody gets the blocks of whoever was there before */
    begin(s, &way, ((s->scale.prompt + REPLY) / KV_BLOCK + 2) * KV_BLOCK);
    for (uint32_t i = 0; i < OTHERS; i++) {
        if (i % 3 == 1)
            stop_at(WATCH_STEP, 6); /* some tokens into its reply */
        join(i, s->scale.prompt - 3 * i, 0);
        if (i % 3 == 1) {
            await_stop(0, NULL);
            engine_cancel(run.en, run.other[i].id);
            watch_go(&run.watch);
        }
        memset(&reply, 0, sizeof reply);
        client_finish(run.en, run.other[i].id, &reply);
        run.other[i].id = 0;
    }
    rq = under_test(sampling);
    memset(&reply, 0, sizeof reply);
    must_submit(&rq, &id);
    client_finish(run.en, id, &reply);
    fill_outcome(out);
    why = check_end(&reply);
    if (!why && (!run.watch.old_slot || !run.watch.old_seq))
        why = SAY("not exercised: its %s is new", run.watch.old_slot ? "sequence" : "slot");
    end();
    return why;
}

const char *scene_differs(const struct outcome *want, const struct outcome *got)
{
    for (uint32_t i = 0; i < want->n; i++) {
        if (got->have[i] && want->hash[i] != got->hash[i])
            return SAY("other logits for output position %u", i);
        if (want->ids[i] != got->ids[i])
            return SAY("output position %u is id %d, not %d", i, (int)got->ids[i], (int)want->ids[i]);
    }
    return want->n != got->n || want->text != got->text ? SAY("another text") : NULL;
}

bool scene_prompt_fits(uint32_t prompt)
{
    return prompt > KV_BLOCK && prompt <= LONGEST && prompt % KV_BLOCK == SCENE_BEFORE_EDGE;
}

/* --- the model ------------------------------------------------------------------------------------------------------- */

enum status scene_init(struct scene *s, const char *path, struct scale scale, struct err *e)
{
    *s = (struct scene){.scale = scale};
    if (scale.prompt > LONGEST || scale.tokens > WATCH_TOKENS || scale.prompt < 1 || scale.tokens < 1)
        BUG("a scene of %u and %u tokens", scale.prompt, scale.tokens);
    const struct api_open o = {.path = path, .want = API_MODEL | API_TOK, .threads = 2};
    TRY(api_open(&s->model, &o, e));
    for (int i = 0; i < SCENE_THREADS; i++) {
        enum status st = pool_new(&s->pools[i], i + 1, e);
        if (st) {
            scene_release(s);
            return st;
        }
    }
    return ST_OK;
}

void scene_release(struct scene *s)
{
    for (int i = 0; i < SCENE_THREADS; i++)
        pool_free(s->pools[i]);
    api_close(&s->model);
    *s = (struct scene){0};
}

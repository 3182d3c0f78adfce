/* profile: where the time of the engine's steps goes, with rows that all decode. See profile.h. */
#include "cli/profile.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

#define PROMPT 16u /* ids of each row's prompt */
#define TAKE 16

struct profile {
    struct engine *en;
    uint32_t rows, tokens;
    request_id id[LIMIT_ROWS];
    bool ended[LIMIT_ROWS];
};

static enum status submit_all(struct profile *p, uint32_t vocab, struct err *e)
{
    for (uint32_t r = 0; r < p->rows; r++) {
        tok_id prompt[PROMPT];
        for (uint32_t i = 0; i < PROMPT; i++) {
            uint32_t out[4];
            rng_philox(r, i, 3, out);
            prompt[i] = (tok_id)(out[0] % vocab);
        }
        struct request rq = {.prompt = prompt, .prompt_n = PROMPT, .max_tokens = p->tokens,
                             .sampling = sample_defaults(), .ignore_eos = true,
                        .fill = FILL_OFF};
        TRY(engine_submit(p->en, &rq, &p->id[r], e));
    }
    return ST_OK;
}

/* Reads like a server's connections do, all on this thread. */
static enum status read_all(struct profile *p, struct err *e)
{
    uint32_t open = p->rows;
    while (open) {
        struct pollfd fds[LIMIT_ROWS];
        for (uint32_t r = 0; r < p->rows; r++)
            fds[r] = (struct pollfd){.fd = p->ended[r] ? -1 : engine_fd(p->en, p->id[r]), .events = POLLIN};
        if (poll(fds, p->rows, 1000) < 0 || cli_interrupted())
            return err_set(e, ST_CANCELLED, "", "interrupted");
        for (uint32_t r = 0; r < p->rows; r++) {
            struct event ev[TAKE];
            size_t n;
            while (!p->ended[r] && (n = engine_take(p->en, p->id[r], ev, TAKE)) > 0)
                p->ended[r] = ev[n - 1].kind == EVENT_END;
            open -= fds[r].fd >= 0 && p->ended[r];
        }
    }
    return ST_OK;
}

/* The value below which a share q of the counts lies, within its bucket in proportion; seconds. */
static double quantile(const struct engine_histogram *h, double q)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i <= h->n; i++)
        all += h->count[i];
    double want = q * (double)all, below = 0;
    for (uint32_t i = 0; i <= h->n; i++) {
        double n = (double)h->count[i], low = i ? h->bound[i - 1] : 0;
        if (n > 0 && below + n >= want)
            return i == h->n ? low : low + (h->bound[i] - low) * (want - below) / n;
        below += n;
    }
    return 0;
}

static json_t *describe(const struct profile *p, const struct engine_stats *s)
{
    double steps = s->steps ? (double)s->steps : 1;
    return json_pack("{s:i, s:I, s:{s:f, s:f, s:f}, s:f, s:f, s:f}", "rows", (int)p->rows, "steps",
                     (json_int_t)s->steps, "overhead_us", "p50", quantile(&s->overhead, 0.5) * 1e6, "p95",
                     quantile(&s->overhead, 0.95) * 1e6, "mean", s->other_s / steps * 1e6, "forward_ms",
                     s->forward_s / steps * 1e3, "head_ms", s->head_s / steps * 1e3, "sample_ms",
                     s->sample_s / steps * 1e3);
}

static double number(const json_t *root, const char *name)
{
    return json_number_value(json_object_get(root, name));
}

static int print(json_t *root, bool json)
{
    if (json || !root)
        return cli_print_json(root);
    const json_t *us = json_object_get(root, "overhead_us");
    printf("%.0f steps of %.0f rows: forward %.3f ms, heads %.3f ms, sampling %.3f ms a step\n", number(root, "steps"),
           number(root, "rows"), number(root, "forward_ms"), number(root, "head_ms"), number(root, "sample_ms"));
    printf("everything else: %.0f us at the median, %.0f us at 95 %%, %.0f us on average\n", number(us, "p50"),
           number(us, "p95"), number(us, "mean"));
    json_decref(root);
    return cli_flush();
}

int profile_run(const struct api_model *m, uint32_t rows, uint32_t tokens, enum kern_kv kv, bool json)
{
    struct profile p = {.rows = rows, .tokens = tokens};
    struct err e = {0};
    const struct engine_config c = {.model = m->model, .pool = m->pool, .kv_format = kv, .rows = rows,
                                    .context = PROMPT + tokens, .queue = 1, .no_prefix_cache = false};
    struct engine_stats s;
    enum status st = engine_new(&p.en, &c, &e);
    if (st != ST_OK)
        return cli_fail(&e);
    st = submit_all(&p, model_info(m->model)->vocab, &e);
    if (st == ST_OK)
        st = read_all(&p, &e);
    engine_stats(p.en, &s);
    for (uint32_t r = 0; r < rows; r++)
        engine_close(p.en, p.id[r]);
    engine_free(p.en);
    return st == ST_OK ? print(describe(&p, &s), json) : cli_fail(&e);
}

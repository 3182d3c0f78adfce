/* sources: see sources.h. */
#include "cli/sources.h"

#include <string.h>

bool sources_parse(const char *list, uint32_t *off)
{
    *off = list ? SOURCES_ALL : 0;
    if (!list || strcmp(list, "none") == 0)
        return true;
    for (;;) {
        size_t n = strcspn(list, ",");
        enum source_kind k = source_find(list, n);
        if (k == SOURCE_KINDS)
            return false;
        *off &= ~(1u << k);
        if (!list[n])
            return true;
        list += n + 1;
    }
}

enum status sources_load_draft(struct api_model *out, const char *path, uint32_t threads, bool fresh,
                               const struct api_model *target, struct err *e)
{
    *out = (struct api_model){0};
    if (!path)
        return ST_OK;
    TRY(cli_load(out, path, threads, API_MODEL | API_TOK, fresh, e));
    enum status st = source_draft_same_vocabulary(target->tok, out->tok, e);
    if (st != ST_OK)
        api_close(out);
    return st;
}

static json_t *counts(const struct source_counts *c)
{
    if (!c->proposed)
        return json_object();
    return json_pack("{s:I, s:I, s:I, s:I}", "proposed", (json_int_t)c->proposed, "accepted", (json_int_t)c->accepted,
                     "rejected", (json_int_t)c->rejected, "asserted", (json_int_t)c->asserted);
}

json_t *sources_usage(const struct request_usage *u, const char *relaxed)
{
    json_t *by = json_object();
    for (int k = 0; k < SOURCE_KINDS; k++)
        json_object_set_new(by, source_name((enum source_kind)k), counts(&u->by_source[k]));
    json_t *miss = u->miss == MISS_NONE ? json_null()
                                        : json_pack("{s:i, s:s}", "at", (int)u->cached_tokens, "cause",
                                                    cache_miss_name(u->miss));
    json_t *list = json_loads(relaxed ? relaxed : "[]", 0, NULL);
    return json_pack("{s:i, s:i, s:i, s:i, s:o, s:o, s:b, s:o, s:{s:f, s:f, s:f, s:f}}", "sampled", (int)u->sampled,
                     "steps", (int)u->steps, "head_positions", (int)u->head_positions, "replayed_ids", 0, "relaxed",
                     list ? list : json_array(), "by_source", by, "disarmed", u->disarmed, "cache_miss", miss, "seconds",
                     "queue", u->queue_s, "prefill", u->prefill_s, "decode", u->decode_s, "grammar", u->grammar_s);
}

static json_t *feature(const struct plan_feature *f)
{
    return json_pack("{s:b, s:s?}", "on", f->on, "why", f->why);
}

json_t *sources_plan(const struct plan *p)
{
    json_t *sources = json_object();
    for (int k = 0; k < SOURCE_KINDS; k++)
        json_object_set_new(sources, source_name((enum source_kind)k), feature(&p->source[k]));
    return json_pack("{s:{s:o, s:o}, s:o, s:o}", "prefix_cache", "match", feature(&p->match), "publish",
                     feature(&p->publish), "sources", sources, "skip_head", feature(&p->skip_head));
}

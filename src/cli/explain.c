/* explain: how a request would be served, and why, without running it. */
#include <stdio.h>
#include <string.h>

#include "cli/asked.h"
#include "cli/cli.h"
#include "cli/sources.h"
#include "engine/engine.h"
#include "format/format.h"
#include "model/model.h"

struct options {
    const char *model, *draft_model, *sources;
    uint32_t threads, ctx, kv;
    bool json, no_packed_cache;
    struct opt_list files;
};

static const struct opt opts[] = {
    {NULL, 0, OPT_LIST, offsetof(struct options, files), 0, 0, "FILE.json",
     "a body of /v1/chat/completions or /v1/completions (default: stdin)"},
    CLI_OPT_MODEL_OR_DEFAULT(struct options),
    {"draft-model", 0, OPT_STR, offsetof(struct options, draft_model), 0, 0, "FILE", "as for `serve`"},
    {"sources", 0, OPT_STR, offsetof(struct options, sources), 0, 0, "LIST", "as for `serve`"},
    CLI_OPT_CTX(struct options),
    CLI_OPT_KV(struct options),
    CLI_OPT_THREADS(struct options),
    CLI_OPT_PACKED(struct options),
    CLI_OPT_JSON(struct options),
};
static const struct opt_verb verb = {
    "explain",
    "Says how a server with this model would serve a request: what it is taken for, and which parts of the engine would "
    "help, or why not. Nothing is generated; a request that would be refused is refused in the same words. JSON: "
    "{prompt_tokens, max_tokens, constrained, relaxed, template_rows, fill, plan}.",
    "[-m FILE] FILE.json [OPTIONS]", opts, sizeof opts / sizeof *opts};

static int show_json(const struct request *rq, const struct plan *p, const char *relaxed)
{
    json_t *list = json_loads(relaxed, 0, NULL);
    const int rows = rq->rows ? (int)template_rows_n(rq->rows) : 0;
    return cli_print_json(json_pack("{s:i, s:i, s:b, s:o, s:i, s:s, s:o}", "prompt_tokens", (int)rq->prompt_n,
                                    "max_tokens", (int)rq->max_tokens, "constrained", rq->grammar != NULL, "relaxed",
                                    list ? list : json_array(), "template_rows", rows, "fill",
                                    server_fill_name(rq->fill), "plan", sources_plan(p)));
}

static void show_feature(const char *name, const struct plan_feature *f)
{
    printf("  %-16s %-4s%s%s\n", name, f->on ? "on" : "off", f->why ? "  " : "", f->why ? f->why : "");
}

static int show(const struct request *rq, const struct plan *p, const char *relaxed)
{
    printf("prompt            %u tokens\n", rq->prompt_n);
    if (rq->max_tokens)
        printf("reply             at most %u tokens\n", rq->max_tokens);
    else
        puts("reply             as long as the context allows");
    printf("constrained       %s\n", rq->grammar ? "yes" : "no");
    if (strcmp(relaxed, "[]") != 0)
        printf("not enforced      %s\n", relaxed);
    if (rq->rows)
        printf("template rows     %zu\n", template_rows_n(rq->rows));
    printf("fill              %s\n\nprefix cache\n", server_fill_name(rq->fill));
    show_feature("match", &p->match);
    show_feature("publish", &p->publish);
    puts("sources");
    for (int k = 0; k < SOURCE_KINDS; k++)
        show_feature(source_name((enum source_kind)k), &p->source[k]);
    puts("heads");
    show_feature("skipped", &p->skip_head);
    return cli_flush();
}

static int explain(const struct options *o, const struct api_model *m, struct engine *en, const struct buf *body)
{
    struct server *s = NULL;
    struct server_asked *a = NULL;
    struct plan p;
    struct err e = {0};
    enum status st = asked_server(&s, m, en, &e);
    if (st == ST_OK)
        st = server_ask(s, body->data, body->len, &a, &e);
    if (st == ST_OK)
        st = engine_plan(en, server_asked_request(a), &p, &e);
    const char *relaxed = st == ST_OK ? server_asked_relaxed(a) : NULL;
    int status = st != ST_OK ? cli_fail(&e)
                 : o->json   ? show_json(server_asked_request(a), &p, relaxed)
                             : show(server_asked_request(a), &p, relaxed);
    server_asked_free(a);
    server_stop(s, 0);
    return status;
}

int verb_explain(int argc, char **argv)
{
    struct options o = {0};
    int status;
    uint32_t off;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (o.files.n > 1)
        return opt_wrong(&verb, "one FILE.json at a time");
    if (!sources_parse(o.sources, &off))
        return opt_wrong(&verb, SOURCES_WRONG, o.sources);
    struct api_model m, draft;
    struct engine *en;
    struct buf body;
    struct err e = {0};
    if (cli_read(o.files.n ? o.files.item[0] : NULL, LIMIT_BODY, &body, &e) != ST_OK ||
        cli_load(&m, o.model, o.threads, API_MODEL | API_TOK | API_CHAT, o.no_packed_cache, &e) != ST_OK)
        return cli_fail(&e);
    enum status st = sources_load_draft(&draft, o.draft_model, o.threads, o.no_packed_cache, &m, &e);
    const struct engine_config c = {.model = m.model, .tok = m.tok, .pool = m.pool, .context = o.ctx, .sources_off = off,
                                    .kv_format = o.kv ? KERN_KV_F32 : KERN_KV_F16, .draft = draft.model};
    if (st == ST_OK)
        st = engine_new(&en, &c, &e);
    if (st == ST_OK) {
        status = explain(&o, &m, en, &body);
        engine_free(en);
    } else {
        status = cli_fail(&e);
    }
    buf_release(&body);
    api_close(&draft);
    api_close(&m);
    return status;
}

/* info: this machine and build, and what a model file says of itself. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/curve.h"
#include "ffwd.h"
#include "format/format.h"
#include "kern/kern.h"
#include "model/model.h"
#include "text/text.h"
#include "weights/weights.h"

struct options {
    const char *model;
    uint32_t threads;
    bool json, cost, no_packed_cache;
};

static const struct opt opts[] = {
    CLI_OPT_MODEL(struct options),
    CLI_OPT_THREADS(struct options),
    CLI_OPT_PACKED(struct options),
    {"cost", 0, OPT_FLAG, offsetof(struct options, cost), 0, 0, NULL,
     "measure what steps of the model cost here, and print that curve alone; `serve --cost-file` reads the JSON"},
    CLI_OPT_JSON(struct options),
};
static const struct opt_verb verb = {
    "info",
    "Says which kernels are used and why, which memory node (home), what memory there is, and, with -m, what the model "
    "looks like, how it writes tool calls and reasoning, which tokens end its replies, and what its metadata says. JSON: "
    "{version, isa, why, threads, home, memory, libraries, model, chat: {template, tools, reasoning}, "
    "tokens: [{role, id, text}], metadata}; "
    "with --cost {points: [{tokens, ms}], head_ms_per_position, attention_ms_per_mkey, decode_attention_ms_per_mkey, "
    "model, isa, threads}.",
    "[-m FILE] [--cost] [--json]", opts, sizeof opts / sizeof *opts};

#define SHOWN 100 /* characters of a metadata value in the plain output */

static json_t *describe_machine(const struct kern_ops *ops, uint32_t threads, uint64_t memory)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:I, s:s}", "version", ffwd_version(), "isa", ops->name, "why", kern_why(),
                     "threads", threads ? (int)threads : pool_default_threads(), "home", home_here()->why, "memory",
                     (json_int_t)memory, "libraries", text_versions());
}

/* json_pack() would fail as a whole on a name that is not UTF-8. */
static json_t *text_or_null(const char *s)
{
    json_t *j = s ? json_string(s) : NULL;
    return j ? j : json_null();
}

static json_t *describe_groups(const struct model_info *i)
{
    json_t *a = json_array();
    for (uint32_t g = 0; g < i->kv_groups; g++) {
        const struct kv_shape *s = &i->kv_group[g];
        json_array_append_new(a, json_pack("{s:i, s:i, s:i, s:i}", "layers", (int)s->layers, "heads", (int)s->heads,
                                           "head_dim", (int)s->head_dim, "window", (int)s->window));
    }
    return a;
}

static json_t *describe_model(const struct api_model *m)
{
    const struct model_info *i = model_info(m->model);
    struct kv_config kv = {.format = KERN_KV_F16, .groups = i->kv_groups};
    memcpy(kv.group, i->kv_group, sizeof kv.group);
    return json_pack("{s:o, s:o, s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, "
                     "s:I, s:I, s:s, s:o}",
                     "path", text_or_null(weights_path(m->weights)), "architecture", text_or_null(i->architecture),
                     "name", text_or_null(i->name), "types", text_or_null(i->types), "layers", (int)i->layers,
                     "width", (int)i->width, "ffn", (int)i->ffn, "heads", (int)i->heads, "kv_heads",
                     (int)i->kv_heads, "head_dim", (int)i->head_dim, "vocab", (int)i->vocab, "context",
                     (int)i->context, "window", (int)i->window, "parameters", (json_int_t)i->parameters, "file_bytes",
                     (json_int_t)weights_file_bytes(m->weights), "weight_bytes", (json_int_t)i->weight_bytes,
                     "huge_page_bytes", (json_int_t)mem_huge(), "token_bytes", (json_int_t)i->token_bytes, "token_macs",
                     (json_int_t)i->token_macs, "head_macs", (json_int_t)i->head_macs, "kv_position_bytes",
                     (json_int_t)kv_position_bytes(&kv), "panels", cli_panels(i->panels), "kv_groups",
                     describe_groups(i));
}

/* Nothing where there is no such token. */
static void add_token(json_t *list, const char *role, const struct tok *t, tok_id id)
{
    size_t n;
    const char *s = tok_bytes(t, id, &n);
    json_t *text = json_stringn(s, n); /* NULL where it is no UTF-8 */
    if (id != TOK_NONE)
        json_array_append_new(list, json_pack("{s:s, s:i, s:o?}", "role", role, "id", (int)id, "text", text));
    else
        json_decref(text);
}

/* The tokens that a reply ends with, and those that the model fills in with; null where the tokenizer is not known. */
static json_t *describe_tokens(const struct weights *w)
{
    struct api_model m;
    struct err ignored;
    const struct api_open o = {.path = weights_path(w), .want = API_TOK};
    if (api_open(&m, &o, &ignored) != ST_OK)
        return json_null();
    size_t n;
    const tok_id *ends = tok_eos(m.tok, &n);
    const struct tok_infill *in = tok_infill(m.tok);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        add_token(list, "end", m.tok, ends[i]);
    add_token(list, "prefix", m.tok, in->prefix);
    add_token(list, "suffix", m.tok, in->suffix);
    add_token(list, "middle", m.tok, in->middle);
    add_token(list, "repo", m.tok, in->repo);
    add_token(list, "file", m.tok, in->file);
    api_close(&m);
    return list;
}

/* How conversations are written: null for what the chat template does not have, or has in a way that is not known. */
static json_t *describe_chat(const struct weights *w)
{
    struct weights_str source = {0};
    bool template = weights_string(w, "tokenizer.chat_template", &source);
    const struct format *f = template ? format_detect(source.s, source.n) : NULL;
    const struct format_reasoning *r = template ? format_detect_reasoning(source.s, source.n) : NULL;
    return json_pack("{s:b, s:s?, s:s?}", "template", template, "tools", f ? format_name(f) : NULL, "reasoning",
                     r ? r->name : NULL);
}

static void add_meta(void *ctx, const char *key, const char *value)
{
    json_object_set_new(ctx, key, text_or_null(value));
}

/* --- plain output: the same object as lines ------------------------------------------------------------------------- */

static void print_object(const json_t *object, const char *indent)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        if (json_is_object(value)) {
            printf("%s%s:\n", indent, key);
            print_object(value, "  ");
            continue;
        }
        char *s = json_dumps(value, JSON_ENCODE_ANY);
        size_t n = s ? strlen(s) : 0;
        if (n > SHOWN && json_is_string(value))
            printf("%s%s: %.*s ...\n", indent, key, SHOWN, s);
        else if (n && json_is_string(value) && !strchr(s, '\\'))
            printf("%s%s: %s\n", indent, key, json_string_value(value));
        else /* escaped, so that it stays one line and no terminal obeys it */
            printf("%s%s: %s\n", indent, key, s ? s : "");
        free(s);
    }
}

static int print_info(json_t *root, bool json)
{
    if (json || !root)
        return cli_print_json(root);
    print_object(root, "");
    json_decref(root);
    return cli_flush();
}

/* --- the cost curve -------------------------------------------------------------------------------------------------- */

static void print_curve(const struct engine_cost *c)
{
    printf("tokens        ms   ms/token\n");
    for (uint32_t i = 0; i < c->n; i++)
        printf("%6u %9.3f %10.3f\n", c->point[i].tokens, c->point[i].ms, c->point[i].ms / c->point[i].tokens);
    printf("head: %.3f ms a position; attention, a million keys (all layers): prefill %.3f ms, decode %.3f ms\n",
           c->head_ms, c->attention_ms, c->decode_attention_ms);
}

static int print_cost(const struct api_model *m, bool json)
{
    struct engine_cost c;
    struct err e = {0};
    cli_catch_signals();
    if (curve_sweep(m, &c, &e) != ST_OK)
        return cli_fail(&e);
    if (!json) {
        print_curve(&c);
        return cli_flush();
    }
    json_t *root = curve_json(&c);
    json_object_set_new(root, "model", text_or_null(model_info(m->model)->name));
    json_object_set_new(root, "isa", json_string(m->ops->name));
    json_object_set_new(root, "threads", json_integer(pool_size(m->pool)));
    return cli_print_json(root);
}

int verb_info(int argc, char **argv)
{
    struct options o = {0};
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (o.cost && !o.model)
        return opt_wrong(&verb, "--cost needs -m FILE");
    const struct kern_ops *ops;
    struct err e = {0};
    if (kern_choose(&ops, &e) != ST_OK)
        return cli_fail(&e);
    uint64_t memory = mem_available();
    if (!o.model)
        return print_info(describe_machine(ops, o.threads, memory), o.json);
    struct api_model m;
    if (cli_load(&m, o.model, o.threads, API_MODEL, o.no_packed_cache, &e) != ST_OK)
        return cli_fail(&e);
    if (o.cost) {
        status = print_cost(&m, o.json);
        api_close(&m);
        return status;
    }
    json_t *root = describe_machine(ops, o.threads, memory); /* loading decided on the home */
    json_object_set_new(root, "model", describe_model(&m));
    json_object_set_new(root, "tokens", describe_tokens(m.weights));
    json_object_set_new(root, "chat", describe_chat(m.weights));
    json_t *meta = json_object();
    weights_each_meta(m.weights, add_meta, meta);
    json_object_set_new(root, "metadata", meta);
    status = print_info(root, o.json);
    api_close(&m);
    return status;
}

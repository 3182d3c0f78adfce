/* ollama_models: what Ollama's clients ask about the server: the one model that is here, and the version of the API. */
#include <sha2.h>
#include <stdio.h>
#include <string.h>

#include "server/dialect/ollama.h"
#include "server/dialect/openai_fields.h"
#include "server/http/json_in.h"
#include "server/http/json_out.h"

#define API_VERSION "0.12.11" /* the Ollama whose API this is: clients insist on one that has what they use */

static const struct server_facts nothing = {.architecture = "", .weights = ""};

static const struct server_facts *facts_of(const struct server *srv)
{
    return srv->facts ? srv->facts : &nothing;
}

/* "134.5M", "8.0B" */
static void write_parameters(uint64_t n, struct buf *out)
{
    const bool large = n >= 1000000000u;
    const uint64_t unit = large ? 1000000000u : 1000000u, tenths = (n + unit / 20) / (unit / 10);
    buf_addf(out, "\"%llu.%u%c\"", (unsigned long long)(tenths / 10), (unsigned)(tenths % 10), large ? 'B' : 'M');
}

static void write_details(const struct server *srv, struct buf *out)
{
    const struct server_facts *f = facts_of(srv);
    buf_adds(out, "\"details\":{\"parent_model\":\"\",\"format\":\"gguf\",\"family\":");
    http_json_cstr(out, f->architecture);
    buf_adds(out, ",\"families\":[");
    http_json_cstr(out, f->architecture);
    buf_adds(out, "],\"parameter_size\":");
    write_parameters(f->parameters, out);
    buf_adds(out, ",\"quantization_level\":");
    http_json_cstr(out, f->weights);
    buf_adds(out, "}");
}

/* Clients want one to tell models apart. This is no hash of the file, which would take seconds, but of what it is known
 * by: name, size and time of change. */
static void write_digest(const struct server *srv, struct buf *out)
{
    const struct server_facts *f = facts_of(srv);
    char known[SHA256_DIGEST_STRING_LENGTH];
    SHA2_CTX hash;
    SHA256Init(&hash);
    SHA256Update(&hash, (const uint8_t *)srv->model, strlen(srv->model));
    SHA256Update(&hash, (const uint8_t *)&f->bytes, sizeof f->bytes);
    SHA256Update(&hash, (const uint8_t *)&f->modified, sizeof f->modified);
    SHA256End(&hash, known);
    buf_addf(out, "\"digest\":\"%s\"", known);
}

/* {"models":[…]}; `running`: as /api/ps has it. */
static void reply_models(struct http_call *call, bool running)
{
    const struct server *srv = call->app;
    struct buf out;
    buf_init(&out, 1u << 16);
    buf_adds(&out, "{\"models\":[{\"name\":");
    http_json_cstr(&out, srv->model);
    buf_adds(&out, ",\"model\":");
    http_json_cstr(&out, srv->model);
    buf_addf(&out, ",\"size\":%llu,", (unsigned long long)facts_of(srv)->bytes);
    write_digest(srv, &out);
    buf_adds(&out, ",");
    write_details(srv, &out);
    if (running) {
        buf_addf(&out, ",\"expires_at\":\"9999-12-31T23:59:59Z\",\"size_vram\":0,\"context_length\":%u",
                 engine_context(srv->engine));
    } else {
        buf_adds(&out, ",\"modified_at\":");
        ollama_write_time(facts_of(srv)->modified, &out);
    }
    buf_adds(&out, "}]}");
    http_reply(call, 200, &out, 0);
    buf_release(&out);
}

void ollama_tags(struct http_call *call)
{
    reply_models(call, false);
}

void ollama_ps(struct http_call *call)
{
    reply_models(call, true);
}

void ollama_version(struct http_call *call)
{
    const struct server *srv = call->app;
    struct buf out;
    buf_init(&out, 4096);
    buf_adds(&out, "{\"version\":\"" API_VERSION "\",\"ffwd\":");
    http_json_cstr(&out, srv->version);
    buf_adds(&out, "}");
    http_reply(call, 200, &out, 0);
    buf_release(&out);
}

/* ---- /api/show ---- */

/* Whether the model's template has thinking; it is what recognisers are made of. */
static bool thinks(const struct server *srv)
{
    const struct chat_tools_options o = {.no_calls = true};
    struct chat_tools t;
    struct err e;
    if (!srv->chat || !chat_has_template(srv->chat) ||
        chat_tools_get(srv->tools, "{}", 2, &o, NULL, 0, &t, &e) != ST_OK)
        return false;
    const bool yes = t.reasoning != NULL;
    chat_tools_release(&t);
    return yes;
}

/* A model that can chat is told of tools, by its template or by a message of the system. One that does not write has
 * nothing but its vectors. */
static void write_capabilities(const struct server *srv, struct buf *out)
{
    const bool vectors = engine_vector_size(srv->engine) && engine_pooling(srv->engine) != POOLING_RANK;
    if (srv->facts && srv->facts->mute) {
        buf_adds(out, vectors ? "\"capabilities\":[\"embedding\"]" : "\"capabilities\":[]");
        return;
    }
    buf_adds(out, "\"capabilities\":[\"completion\"");
    buf_adds(out, vectors ? ",\"embedding\"" : "");
    buf_adds(out, srv->chat && chat_has_template(srv->chat) ? ",\"tools\"" : "");
    buf_adds(out, thinks(srv) ? ",\"thinking\"]" : "]");
}

static void write_number(const struct server_facts *f, const char *key, uint64_t n, struct buf *out)
{
    buf_adds(out, ",");
    if (strncmp(key, "general.", 8) == 0) {
        buf_addf(out, "\"%s\"", key);
    } else {
        buf_adds(out, "\"");
        http_json_text(out, f->architecture, strlen(f->architecture));
        buf_addf(out, ".%s\"", key);
    }
    buf_addf(out, ":%llu", (unsigned long long)n);
}

/* The context is the server's: what clients take from here is how much they may send. */
static void write_model_info(const struct server *srv, struct buf *out)
{
    const struct server_facts *f = facts_of(srv);
    buf_adds(out, "\"model_info\":{\"general.architecture\":");
    http_json_cstr(out, f->architecture);
    write_number(f, "general.parameter_count", f->parameters, out);
    write_number(f, "context_length", engine_context(srv->engine), out);
    write_number(f, "embedding_length", f->width, out);
    write_number(f, "block_count", f->layers, out);
    write_number(f, "feed_forward_length", f->ffn, out);
    write_number(f, "attention.head_count", f->heads, out);
    write_number(f, "attention.head_count_kv", f->kv_heads, out);
    write_number(f, "vocab_size", f->vocab, out);
    buf_adds(out, "}");
}

static void write_show(const struct server *srv, struct buf *out)
{
    const struct server_facts *f = facts_of(srv);
    buf_addf(out, "{\"parameters\":\"num_ctx %u\",\"template\":", engine_context(srv->engine));
    http_json_str(out, f->chat_template, f->chat_template_n);
    buf_adds(out, ",");
    write_details(srv, out);
    buf_adds(out, ",");
    write_model_info(srv, out);
    buf_adds(out, ",");
    write_capabilities(srv, out);
    buf_adds(out, ",\"modified_at\":");
    ollama_write_time(f->modified, out);
    buf_adds(out, "}");
}

static const struct openai_refused refused[] = {
    {"options", NEUTRAL_EMPTY},
    {"system", NEUTRAL_EMPTY},
    {"template", NEUTRAL_EMPTY},
    {"verbose", NEUTRAL_FALSE}, /* the vocabulary as JSON */
    {NULL, NEUTRAL_NULL},
};
static const char *const known[] = {"model", "name", "options", "system", "template", "verbose", NULL};

void ollama_show(struct http_call *call)
{
    struct err e;
    json_t *root = ollama_body(call);
    if (!root)
        return;
    if (openai_refuse_fields(root, refused, &e) == ST_OK) {
        struct buf out;
        server_log_ignored("/api/show", root, known);
        buf_init(&out, LIMIT_REPLY);
        write_show(call->app, &out);
        http_reply(call, 200, &out, 0);
        buf_release(&out);
    } else {
        ollama_refuse(call, 0, &e);
    }
    json_decref(root);
}

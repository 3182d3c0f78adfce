/* bench load: a server of OpenAI's API under load; its options and its report. What happens in between is in drive.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/drive.h"

#define DEFAULT_SECONDS 10u

struct options {
    const char *url, *model, *api_key;
    uint32_t clients, seconds, requests, prompt, spread, max_tokens, mode, shared, long_prompt, long_at, think, max_errors;
    uint64_t seed;
    bool ignore_eos, each_token, json;
};

static const struct opt opts[] = {
    {"url", 0, OPT_STR, offsetof(struct options, url), 0, 0, "URL", "the server, with or without /v1"},
    {"clients", 0, OPT_U32, offsetof(struct options, clients), 1, LIMIT_LOAD_CLIENTS, "C",
     "clients, each with one request under way at a time (8)"},
    {"seconds", 0, OPT_U32, offsetof(struct options, seconds), 1, LIMIT_LOAD_SECONDS, "S",
     "how long requests begin (10, unless --requests is given)"},
    {"requests", 0, OPT_U32, offsetof(struct options, requests), 1, UINT32_MAX, "N",
     "stop after N requests, failed ones included"},
    {"prompt-tokens", 0, OPT_U32, offsetof(struct options, prompt), 1, LIMIT_LOAD_WORDS, "N",
     "words of a prompt, most of which are one token (40)"},
    {"prompt-spread", 0, OPT_U32, offsetof(struct options, spread), 0, 100, "PERCENT",
     "by how much a prompt may be shorter or longer (0)"},
    {"max-tokens", 'n', OPT_U32, offsetof(struct options, max_tokens), 1, LIMIT_CONTEXT, "N", "tokens of a reply (64)"},
    {"ignore-eos", 0, OPT_FLAG, offsetof(struct options, ignore_eos), 0, 0, NULL,
     "replies go on to --max-tokens; for servers that know `ignore_eos`"},
    {"each-token", 0, OPT_FLAG, offsetof(struct options, each_token), 0, 0, NULL,
     "ask for log-probabilities, so that tokens without text of their own come as chunks and count in the gaps"},
    {"mode", 0, OPT_CHOICE, offsetof(struct options, mode), 0, 0, "chat|completion", "which endpoint (chat)"},
    {"shared-prefix", 0, OPT_U32, offsetof(struct options, shared), 0, LIMIT_LOAD_WORDS, "N",
     "words that all prompts begin with: the system prompt of a chat (0)"},
    {"long-prompt", 0, OPT_U32, offsetof(struct options, long_prompt), 1, LIMIT_LOAD_WORDS, "N",
     "one more request with a prompt of N words, which the other figures leave out"},
    {"long-at", 0, OPT_U32, offsetof(struct options, long_at), 0, LIMIT_LOAD_SECONDS, "S", "when it is sent (2)"},
    {"think-time", 0, OPT_U32, offsetof(struct options, think), 0, 3600000, "MS",
     "from a reply to the client's next request (0)"},
    {"max-errors", 0, OPT_U32, offsetof(struct options, max_errors), 1, UINT32_MAX, "N", "stop after N errors (100)"},
    {"seed", 0, OPT_U64, offsetof(struct options, seed), 0, 0, "N",
     "of the prompts (0): the same seed gives the same ones"},
    {"model", 0, OPT_STR, offsetof(struct options, model), 0, 0, "NAME", "the model's name in requests (default)"},
    {"api-key", 0, OPT_STR, offsetof(struct options, api_key), 0, 0, "KEY", "sent as a bearer token"},
    CLI_OPT_JSON(struct options),
};
static const struct opt_verb verb = {
    "bench load",
    "Puts load on a server of OpenAI's API, any program's, and says how it bore it. Each client sends streamed requests "
    "with prompts that no other shares, one after the other, at temperature 0. Times are from sending a request to its "
    "first text (ttft), between two pieces of text (itl), and to its end (e2e); percentiles are within 2 %. Rates are over "
    "the time in which requests begin; requests under way then have 5 s more. JSON: {url, mode, clients, seconds, "
    "ended_by, requests, cancelled, errors, error_list: [{status, text, count}], token_source, tokens_in, tokens_cached, "
    "tokens_out, tokens_per_s, requests_per_s, ttft_ms: {n, p50, p95, p99, max}, itl_ms, e2e_ms: {the same}, jain, long: "
    "{prompt_tokens, ttft_ms, total_ms, longest_gap_ms}}; longest_gap_ms is of the other streams, while the long request "
    "waited for its first text.",
    "--url URL [OPTIONS]", opts, sizeof opts / sizeof *opts};

static const char *const ends[] = {"seconds", "requests", "errors", "interrupted"};

/* Where tokens_out comes from: `usage` of the replies, or a count of pieces of text where they have none. Requests that
 * were cut off, or ended after the window, are counted by pieces in any case. */
static const char *token_source(const struct drive_result *r)
{
    bool all = r->with_usage == r->ended && !r->cancelled;
    return r->with_usage == 0 ? "chunks" : all ? "usage" : "usage and chunks";
}

static double rate(uint64_t n, const struct drive_result *r)
{
    return r->seconds > 0 ? (double)n / r->seconds : 0;
}

/* --- JSON ------------------------------------------------------------------------------------------------------------ */

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *spread_json(const struct hist *h)
{
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "n", (json_int_t)h->n, "p50", number(hist_quantile(h, 0.50)), "p95",
                     number(hist_quantile(h, 0.95)), "p99", number(hist_quantile(h, 0.99)), "max",
                     number(hist_quantile(h, 1)));
}

static json_t *errors_json(const struct drive_result *r)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->n_kinds; i++) {
        /* what a server sent may be cut within a character, or be no UTF-8 at all */
        json_t *text = json_string(r->kinds[i].text);
        json_array_append_new(list, json_pack("{s:i, s:o, s:I}", "status", r->kinds[i].status, "text",
                                              text ? text : json_string("text that is not UTF-8"), "count",
                                              (json_int_t)r->kinds[i].count));
    }
    return list;
}

static int print_json(const struct options *o, const struct drive_result *r)
{
    json_t *root = json_pack(
        "{s:s, s:s, s:i, s:f, s:s, s:I, s:I, s:I, s:o, s:s}", "url", o->url, "mode", o->mode ? "completion" : "chat",
        "clients", (int)o->clients, "seconds", r->seconds, "ended_by", ends[r->end], "requests", (json_int_t)r->ended,
        "cancelled", (json_int_t)r->cancelled, "errors", (json_int_t)r->errors, "error_list", errors_json(r),
        "token_source", token_source(r));
    json_t *more = json_pack(
        "{s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:o, s:o}", "tokens_in", (json_int_t)r->tokens_in, "tokens_cached",
        (json_int_t)r->tokens_cached, "tokens_out", (json_int_t)r->tokens_out, "tokens_per_s", rate(r->tokens_out, r),
        "requests_per_s", rate(r->ended_inside, r), "ttft_ms", spread_json(&r->first), "itl_ms", spread_json(&r->gap),
        "e2e_ms", spread_json(&r->whole), "jain",
        r->tokens_out ? json_real(hist_jain(r->by_client, o->clients)) : json_null());
    json_object_update_missing(root, more);
    json_decref(more);
    if (o->long_prompt)
        json_object_set_new(root, "long",
                            json_pack("{s:I, s:o, s:o, s:o}", "prompt_tokens", (json_int_t)r->long_tokens, "ttft_ms",
                                      number(r->long_first), "total_ms", number(r->long_total), "longest_gap_ms",
                                      number(r->long_gap)));
    return cli_print_json(root);
}

/* --- for people ------------------------------------------------------------------------------------------------------ */

static void print_spread(const char *name, const struct hist *h)
{
    printf("%-22s", name);
    for (int i = 0; i < 4; i++) {
        static const double at[] = {0.50, 0.95, 0.99, 1};
        if (h->n)
            printf(" %9.1f", hist_quantile(h, at[i]));
        else
            printf(" %9s", "-");
    }
    putchar('\n');
}

/* A server's own words: one line, and nothing that a terminal obeys. */
static void print_text(const char *s)
{
    for (; *s; s++)
        putchar((unsigned char)*s < ' ' || *s == 127 ? ' ' : *s);
    putchar('\n');
}

static int print_plain(const struct options *o, const struct drive_result *r)
{
    printf("%u clients, %.1f s, ended by %s: %llu requests, %llu cut off, %llu errors\n", o->clients, r->seconds,
           ends[r->end], (unsigned long long)r->ended, (unsigned long long)r->cancelled, (unsigned long long)r->errors);
    printf("%.1f tok/s, %.2f requests/s, fairness %.3f; %llu tokens out (%s), %llu in, %llu of them cached\n\n",
           rate(r->tokens_out, r), rate(r->ended_inside, r), hist_jain(r->by_client, o->clients),
           (unsigned long long)r->tokens_out, token_source(r), (unsigned long long)r->tokens_in,
           (unsigned long long)r->tokens_cached);
    printf("%-22s %9s %9s %9s %9s\n", "ms", "p50", "p95", "p99", "max");
    print_spread("first token", &r->first);
    print_spread("between tokens", &r->gap);
    print_spread("whole request", &r->whole);
    if (o->long_prompt && isfinite(r->long_first))
        printf("\nlong prompt: first token after %.0f ms; longest gap of the others meanwhile %.0f ms\n", r->long_first,
               r->long_gap);
    else if (o->long_prompt)
        printf("\nlong prompt: no token of it came\n");
    for (uint32_t i = 0; i < r->n_kinds; i++) {
        printf("%s%llu x ", i ? "" : "\n", (unsigned long long)r->kinds[i].count);
        if (r->kinds[i].status)
            printf("HTTP %d: ", r->kinds[i].status);
        print_text(r->kinds[i].text);
    }
    return cli_flush();
}

/* --- the verb -------------------------------------------------------------------------------------------------------- */

int verb_bench_load(int argc, char **argv)
{
    static struct drive_result r; /* tens of kB */
    struct options o = {.clients = 8, .prompt = 40, .max_tokens = 64, .long_at = 2, .max_errors = 100, .model = "default"};
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (!o.url)
        return opt_wrong(&verb, "--url URL is missing");
    if (!o.seconds && !o.requests)
        o.seconds = DEFAULT_SECONDS;
    if (o.long_prompt && o.long_at >= o.seconds)
        return opt_wrong(&verb, "--long-at must be before the end of --seconds, which --long-prompt needs");
    struct drive_config c = {.ask = {.model = o.model,
                                     .seed = o.seed,
                                     .completion = o.mode == 1,
                                     .ignore_eos = o.ignore_eos,
                                     .each_token = o.each_token,
                                     .shared = o.shared,
                                     .words = o.prompt,
                                     .spread = o.spread,
                                     .max_tokens = o.max_tokens},
                             .url = o.url,
                             .api_key = o.api_key,
                             .clients = o.clients,
                             .seconds = o.seconds,
                             .requests = o.requests,
                             .think_ms = o.think,
                             .max_errors = o.max_errors,
                             .long_prompt = o.long_prompt,
                             .long_at = o.long_at};
    struct err e = {0};
    cli_catch_signals();
    if (drive_run(&c, &r, &e) != ST_OK)
        return cli_fail(&e);
    bool answered = r.ended || r.first.n; /* some may have broken off in the middle */
    if (!answered && !r.errors) {
        (void)err_set(&e, ST_IO, "", "%.100s: no request was answered in time", o.url);
        return cli_fail(&e);
    }
    if (!answered) {
        char status_text[24] = "";
        if (r.kinds[0].status)
            snprintf(status_text, sizeof status_text, "HTTP %d: ", r.kinds[0].status);
        (void)err_set(&e, ST_IO, "", "%.100s: no request got an answer, %llu failed: %s%s", o.url,
                      (unsigned long long)r.errors, status_text, r.kinds[0].text);
        return cli_fail(&e);
    }
    return o.json ? print_json(&o, &r) : print_plain(&o, &r);
}

/* tokenize: text in, token ids out. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "text/text.h"

struct options {
    const char *model, *prompt;
    bool trusted, no_bos, json;
};

static const struct opt opts[] = {
    CLI_OPT_MODEL(struct options),
    {"prompt", 'p', OPT_STR, offsetof(struct options, prompt), 0, 0, "TEXT", "the text (default: all of stdin)"},
    {"trusted", 0, OPT_FLAG, offsetof(struct options, trusted), 0, 0, NULL,
     "control tokens written in the text are meant"},
    {"no-bos", 0, OPT_FLAG, offsetof(struct options, no_bos), 0, 0, NULL,
     "no BOS, even where the model's metadata asks for it"},
    CLI_OPT_JSON(struct options),
};
static const struct opt_verb verb = {
    "tokenize",
    "Prints the token ids of a text, BOS as the model's metadata says. Control tokens written in the text count as "
    "plain text unless --trusted. JSON: {ids}.",
    "-m FILE [-p TEXT] [OPTIONS]", opts, sizeof opts / sizeof *opts};

static int print_ids(const tok_id *ids, size_t n, bool json)
{
    fputs(json ? "{\"ids\": [" : "", stdout);
    for (size_t i = 0; i < n; i++)
        printf("%s%d", i == 0 ? "" : json ? ", " : " ", ids[i]);
    puts(json ? "]}" : "");
    return cli_flush();
}

int verb_tokenize(int argc, char **argv)
{
    struct options o = {0};
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (!o.model)
        return opt_wrong(&verb, "-m FILE is missing");
    struct api_model m;
    struct err e = {0};
    struct buf in = {0};
    enum status st = cli_load(&m, o.model, 0, API_TOK, true, &e);
    if (st != ST_OK)
        return cli_fail(&e);
    if (!o.prompt)
        st = cli_read(NULL, CLI_LIMIT_TEXT, &in, &e);
    const char *text = o.prompt ? o.prompt : in.data;
    size_t n = o.prompt ? strlen(o.prompt) : in.len, count = 0;
    tok_id *ids = NULL;
    if (st == ST_OK)
        st = tok_encode(m.tok, text, n, (o.trusted ? TOK_TRUSTED : TOK_PLAIN) | (o.no_bos ? 0u : TOK_BOS), &ids,
                        &count, &e);
    status = st == ST_OK ? print_ids(ids, count, o.json) : cli_fail(&e);
    if (ids)
        tok_ids_free(ids, count);
    buf_release(&in);
    api_close(&m);
    return status;
}

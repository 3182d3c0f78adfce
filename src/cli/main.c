/* main: finds the verb. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/near.h"
#include "ffwd.h"

struct verb {
    const char *name; /* of two words: for the overview; the first one's function finds it */
    int (*run)(int argc, char **argv);
    const char *about;
};

static const struct verb verbs[] = {
    {"run", verb_run, "answer one prompt"},
    {"chat", verb_chat, "talk with a model in the terminal"},
    {"serve", verb_serve, "serve the OpenAI API over HTTP"},
    {"explain", verb_explain, "say how a request would be served, and why"},
    {"pull", verb_pull, "fetch a model into the cache"},
    {"ls", verb_ls, "list the models in the cache"},
    {"rm", verb_rm, "remove models from the cache"},
    {"bench", verb_bench, "measure prompt and decode speed"},
    {"bench load", verb_bench, "measure a server under load"},
    {"bench replay", verb_bench, "measure what fast-forwarding saves on recorded replies"},
    {"perplexity", verb_perplexity, "score a text"},
    {"tokenize", verb_tokenize, "turn text into token ids"},
    {"template", verb_template, "render a conversation with the model's chat template"},
    {"info", verb_info, "describe this machine and a model"},
    {"quantize", verb_quantize, "write a model with smaller weights"},
    {"fit", verb_fit, "say whether a model fits this machine, and how fast it should run"},
    {"logits", verb_logits, "hash a model's logits, to compare runs bit by bit"},
};
#define VERBS (sizeof verbs / sizeof *verbs)

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < VERBS; i++) {
        if (strcmp(verbs[i].name, name) == 0 && !strchr(name, ' '))
            return &verbs[i];
    }
    return NULL;
}

static const char environment[] =
    "Environment:\n"
    "  FFWD_CPU           instruction set to use instead of the best one: ref, avx2, avx512 or neon\n"
    "  FFWD_PACKED_CACHE  bytes that packed weights may take in the cache; off keeps none\n"
    "  XDG_CACHE_HOME     where models and packed weights are kept, in ffwd/models and ffwd/packed (~/.cache)\n"
    "  XDG_STATE_HOME     where chat keeps the lines that were typed, in ffwd/chat.history (~/.local/state)\n"
    "  NO_COLOR           if set to anything, no colours\n";

static int print_usage(void)
{
    puts("usage: ffwd VERB [OPTIONS]\n");
    for (size_t i = 0; i < VERBS; i++)
        printf("  %-14s  %s\n", verbs[i].name, verbs[i].about);
    puts("\n`ffwd help VERB` lists a verb's options, `ffwd --version` says which version this is. Exit status: 0 fine, "
         "1 failed,\n2 wrong usage.\n");
    fputs(environment, stdout);
    return cli_flush();
}

/* For tools. */
static int print_json(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < VERBS; i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", verbs[i].name, "about", verbs[i].about));
    return cli_print_json(json_pack("{s:s, s:o, s:s}", "version", ffwd_version(), "verbs", list, "environment",
                                    environment));
}

static int unknown(const char *name)
{
    struct near near;
    near_init(&near, name, strlen(name));
    for (size_t i = 0; i < VERBS; i++)
        near_offer(&near, verbs[i].name, strlen(verbs[i].name));
    if (near.best)
        fprintf(stderr, "ffwd: \"%s\" is not a verb, but \"%s\" is; see `ffwd help`\n", name, near.best);
    else
        fprintf(stderr, "ffwd: \"%s\" is not a verb; see `ffwd help`\n", name);
    return 2;
}

/* Where there are verbs of two words that begin with `verb`: the second word that `word` is near to without being it. */
static const char *mistyped_second(const char *verb, const char *word)
{
    struct near near;
    size_t n = strlen(verb);
    near_init(&near, word, strlen(word));
    for (size_t i = 0; i < VERBS; i++) {
        const char *second = verbs[i].name + n + 1;
        if (strncmp(verbs[i].name, verb, n) != 0 || verbs[i].name[n] != ' ')
            continue;
        if (strcmp(second, word) == 0)
            return NULL;
        near_offer(&near, second, strlen(second));
    }
    return near.best;
}

/* argv[0] is the verb's name. */
static int run(int argc, char **argv)
{
    const struct verb *v = find_verb(argv[0]);
    if (!v)
        return unknown(argv[0]);
    const char *meant = argc > 1 ? mistyped_second(argv[0], argv[1]) : NULL;
    if (meant) {
        fprintf(stderr, "ffwd %s: \"%s\" does not follow it, but \"%s\" does; see `ffwd help %s`\n", argv[0], argv[1],
                meant, argv[0]);
        return 2;
    }
    int status = v->run(argc, argv);
    return status ? status : cli_flush(); /* a verb that forgot to look cannot end well on a full disk */
}

static int help(int argc, char **argv)
{
    if (argc < 3)
        return print_usage();
    char option[] = "--help";
    char *ask[] = {argv[2], argc > 3 ? argv[3] : option, option, NULL}; /* `help bench load`: the verb finds the rest */
    return run(argc > 3 ? 3 : 2, ask);
}

int main(int argc, char **argv)
{
    cli_begin();
    if (argc < 2) {
        fputs("ffwd: a verb is missing; see `ffwd help`\n", stderr);
        return 2;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return help(argc, argv);
    if (strcmp(argv[1], "--help=json") == 0)
        return print_json();
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        printf("ffwd %s\n", ffwd_version());
        return cli_flush();
    }
    return run(argc - 1, argv + 1);
}

/* main: finds the verb. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "ffwd.h"

struct verb {
    const char *name;
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
    {"bench", verb_bench, "measure prompt and decode speed, or a server under load"},
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
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    }
    return NULL;
}

static int print_usage(void)
{
    puts("usage: ffwd VERB [OPTIONS]\n");
    for (size_t i = 0; i < VERBS; i++)
        printf("  %-12s %s\n", verbs[i].name, verbs[i].about);
    puts("\n`ffwd help VERB` lists a verb's options, `ffwd --version` says which version this is.");
    return cli_flush();
}

static int unknown(const char *name)
{
    fprintf(stderr, "ffwd: \"%s\" is not a verb; see `ffwd help`\n", name);
    return 2;
}

static int help(int argc, char **argv)
{
    if (argc < 3)
        return print_usage();
    const struct verb *v = find_verb(argv[2]);
    if (!v)
        return unknown(argv[2]);
    char option[] = "--help";
    char *ask[] = {argv[2], argc > 3 ? argv[3] : option, option, NULL}; /* `help bench load`: the verb finds the rest */
    int status = v->run(argc > 3 ? 3 : 2, ask);
    return status ? status : cli_flush();
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
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        printf("ffwd %s\n", ffwd_version());
        return cli_flush();
    }
    const struct verb *v = find_verb(argv[1]);
    if (!v)
        return unknown(argv[1]);
    int status = v->run(argc - 1, argv + 1);
    return status ? status : cli_flush(); /* a verb that forgot to look cannot end well on a full disk */
}

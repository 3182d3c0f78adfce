/* command: see command.h. */
#include "cli/command.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/near.h"
#include "cli/paint.h"

#define MOST_WORDS 32u /* of /params */

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* In brackets, on stderr. It may quote a file, so nothing in it is left for a terminal to obey. */
static void say(const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    fputc('[', stderr);
    for (size_t i = 0, skip; i < (size_t)n; i += skip ? skip : 1) {
        skip = paint_control(text + i, (size_t)n - i);
        fputc(skip ? ' ' : text[i], stderr);
    }
    fputs("]\n", stderr);
    free(text);
}

/* --- the conversation ------------------------------------------------------------------------------------------------ */

static enum status run_clear(struct command_session *s, char *arg, struct err *e)
{
    (void)arg;
    (void)e;
    talk_clear(s->talk);
    say("the conversation is forgotten%s", talk_system(s->talk) ? ", but for the system message" : "");
    return ST_OK;
}

static enum status run_system(struct command_session *s, char *arg, struct err *e)
{
    bool none = strcmp(arg, "-") == 0;
    if (arg[0])
        TRY(talk_set_system(s->talk, none ? NULL : arg, e));
    const char *now = talk_system(s->talk);
    if (now)
        say("the system message%s: %s", arg[0] ? " from now on" : "", now);
    else
        say("there is no system message");
    return ST_OK;
}

static enum status run_undo(struct command_session *s, char *arg, struct err *e)
{
    (void)arg;
    if (!talk_undo(s->talk))
        return err_set(e, ST_ARGUMENT, "/undo", "there is no question to take back");
    say("the latest question and its reply are taken back");
    return ST_OK;
}

static enum status run_retry(struct command_session *s, char *arg, struct err *e)
{
    (void)arg;
    if (s->how->sampling.temperature <= 0)
        say("at temperature 0 every try gives the same reply; `/params temp 0.8` lets it differ");
    return talk_retry(s->talk, s->how, e);
}

/* --- files ----------------------------------------------------------------------------------------------------------- */

/* The file that is meant: `arg`, in which a leading ~/ is the home folder, or the conversation's own. */
static enum status file_of(const struct command_session *s, const char *arg, char *out, size_t cap, struct err *e)
{
    const char *home = arg[0] == '~' && arg[1] == '/' ? getenv("HOME") : NULL;
    int n = snprintf(out, cap, "%s%s", home ? home : "", !arg[0] ? s->file : home ? arg + 1 : arg);
    if (n == 0)
        return err_set(e, ST_ARGUMENT, "FILE", "the name of a file is missing");
    return n < 0 || (size_t)n >= cap ? err_set(e, ST_ARGUMENT, "FILE", "the path is too long") : ST_OK;
}

static enum status run_save(struct command_session *s, char *arg, struct err *e)
{
    char path[PATH_MAX];
    TRY(file_of(s, arg, path, sizeof path, e));
    TRY(talk_save(s->talk, path, strcmp(path, s->file) == 0, e));
    memcpy(s->file, path, sizeof path);
    say("%zu messages are in %s", json_array_size(s->talk->messages), path);
    return ST_OK;
}

static enum status run_load(struct command_session *s, char *arg, struct err *e)
{
    char path[PATH_MAX];
    TRY(file_of(s, arg, path, sizeof path, e));
    TRY(talk_load(s->talk, path, e));
    memcpy(s->file, path, sizeof path);
    say("%zu messages from %s", json_array_size(s->talk->messages), path);
    return ST_OK;
}

/* --- how replies are made -------------------------------------------------------------------------------------------- */

struct params {
    struct reply_options reply;
};

static const struct opt all_params[] = {REPLY_OPTS(struct params, reply)};
#define PARAMS (sizeof all_params / sizeof *all_params)

/* The options whose values are no pointers: those of the command line outlive everything, but what is typed does not. */
static size_t settable(struct opt *out)
{
    size_t n = 0;
    for (size_t i = 0; i < PARAMS; i++)
        if (all_params[i].kind != OPT_STR && all_params[i].kind != OPT_LIST)
            out[n++] = all_params[i];
    return n;
}

/* "temp 0.8 top-k=40" as the words of a command line. False: too many of them. */
static bool split(char *arg, char **words, int *n)
{
    for (*n = 0; *arg; arg += strspn(arg, " ="), (*n)++) {
        if (*n == (int)MOST_WORDS)
            return false;
        words[*n] = arg;
        arg += strcspn(arg, " =");
        if (*arg)
            *arg++ = '\0';
    }
    return true;
}

/* Wrong values are told by the options' own parser, which leaves `e` empty. */
static enum status set_params(struct command_session *s, const struct opt_verb *v, char *arg, struct err *e)
{
    struct params new = {*s->how};
    char *words[MOST_WORDS], *argv[MOST_WORDS + 1] = {(char *)(size_t)"chat"}, names[MOST_WORDS][40];
    int n = 0, status;
    if (!split(arg, words, &n) || n % 2 != 0)
        return err_set(e, ST_ARGUMENT, "/params", "/params takes names and values, at most %u: `/params temp 0.8 seed 7`",
                       MOST_WORDS / 2);
    for (int i = 0; i < n; i++) {
        if (i % 2 == 0 && strcmp(words[i], "help") == 0)
            return err_set(e, ST_ARGUMENT, "/params", "help has no value; `ffwd help chat` says what the names mean");
        snprintf(names[i], sizeof names[i], "--%.36s", words[i]);
        argv[i + 1] = i % 2 == 0 ? names[i] : words[i];
    }
    if (!opt_parse(v, n + 1, argv, &new, &status) || reply_options_finish(v, &new.reply) != 0)
        return ST_ARGUMENT;
    *s->how = new.reply;
    s->how->sampling.bias = s->how->bias;
    return ST_OK;
}

static enum status run_params(struct command_session *s, char *arg, struct err *e)
{
    struct opt opts[PARAMS];
    const struct opt_verb v = {"chat", "", "", opts, settable(opts)};
    if (arg[0])
        TRY(set_params(s, &v, arg, e));
    const struct params now = {*s->how};
    opt_show(&v, &now, stderr);
    return ST_OK;
}

static enum status run_origin(struct command_session *s, char *arg, struct err *e)
{
    bool on = strcmp(arg, "on") == 0, off = strcmp(arg, "off") == 0;
    if (arg[0] && !on && !off)
        return err_set(e, ST_ARGUMENT, "/origin", "/origin must be on or off, not \"%.40s\"", arg);
    s->how->colours = arg[0] ? on : !s->how->colours;
    if (s->how->colours && !paint_possible())
        say("tokens would have the colours of where they came from, if stdout were a terminal and NO_COLOR not set");
    else
        say("tokens have %s", s->how->colours ? "the colours of where they came from" : "no colours");
    return ST_OK;
}

/* --- all of them ----------------------------------------------------------------------------------------------------- */

static enum status run_quit(struct command_session *s, char *arg, struct err *e)
{
    (void)arg;
    (void)e;
    s->quit = true;
    return ST_OK;
}

static enum status run_help(struct command_session *s, char *arg, struct err *e);

struct command {
    const char *name, *arg, *help; /* arg: NULL = it takes none */
    enum status (*run)(struct command_session *s, char *arg, struct err *e);
};

static const struct command commands[] = {
    {"/help", NULL, "say this", run_help},
    {"/clear", NULL, "forget the conversation, but for the system message", run_clear},
    {"/system", "[TEXT]", "show the system message, or set it (- removes it)", run_system},
    {"/save", "[FILE]", "write the conversation as JSON; without FILE to where it was saved or loaded before", run_save},
    {"/load", "FILE", "go on with a conversation from such a file", run_load},
    {"/undo", NULL, "take back the latest question and its reply", run_undo},
    {"/retry", NULL, "ask the latest question again, with the next seed", run_retry},
    {"/params", "[NAME VALUE...]", "show how replies are sampled, or change it: the options' names without dashes",
     run_params},
    {"/origin", "[on|off]", "colours of tokens by where they came from", run_origin},
    {"/quit", NULL, "leave, as Ctrl-D does", run_quit},
};
#define COMMANDS (sizeof commands / sizeof *commands)

const char *const *command_names(void)
{
    static const char *names[COMMANDS + 1];
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    return names;
}

static enum status run_help(struct command_session *s, char *arg, struct err *e)
{
    (void)s;
    (void)arg;
    (void)e;
    for (size_t i = 0; i < COMMANDS; i++) {
        char left[40];
        snprintf(left, sizeof left, "%s %s", commands[i].name, commands[i].arg ? commands[i].arg : "");
        fprintf(stderr, "  %-24s%s\n", left, commands[i].help);
    }
    fputs("A line that ends with a backslash goes on in the next one, and so does everything between \"\"\" and \"\"\".\n"
          "Alt-Enter begins a line. Ctrl-C ends a reply, or throws away what is typed.\n",
          stderr);
    return ST_OK;
}

/* Of the command's word, the slash included. */
static size_t word_length(const char *text)
{
    size_t n = 1;
    while (isalpha((unsigned char)text[n]))
        n++;
    return n;
}

bool command_is(const char *text, size_t n)
{
    size_t word = n && text[0] == '/' ? word_length(text) : 0;
    return word > 1 && (word == n || text[word] == ' ' || text[word] == '\n');
}

static enum status unknown(const char *text, size_t n, struct err *e)
{
    struct near near;
    near_init(&near, text, n);
    for (size_t i = 0; i < COMMANDS; i++)
        near_offer(&near, commands[i].name, strlen(commands[i].name));
    if (near.best)
        return err_set(e, ST_ARGUMENT, "", "%.*s is not a command, but %s is; see /help", (int)(n < 40 ? n : 40), text,
                       near.best);
    return err_set(e, ST_ARGUMENT, "", "%.*s is not a command; see /help", (int)(n < 40 ? n : 40), text);
}

static enum status follow(struct command_session *s, char *text, struct err *e)
{
    size_t n = word_length(text);
    char *arg = text + n + strspn(text + n, " \n");
    for (size_t i = 0; i < COMMANDS; i++) {
        const struct command *c = &commands[i];
        if (strlen(c->name) != n || memcmp(c->name, text, n) != 0)
            continue;
        if (!c->arg && arg[0])
            return err_set(e, ST_ARGUMENT, c->name, "%s takes nothing", c->name);
        return c->run(s, arg, e);
    }
    return unknown(text, n, e);
}

bool command_run(struct command_session *s, char *text)
{
    struct err e = {0};
    for (size_t n = strlen(text); n && text[n - 1] == ' '; n--)
        text[n - 1] = '\0';
    if (follow(s, text, &e) == ST_OK)
        return true;
    if (e.text[0])
        cli_fail(&e);
    return false;
}

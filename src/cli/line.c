/*
 * line: see line.h.
 *
 * libedit takes bytes apart with mbrtowc(), which in the "C" locale drops everything beyond ASCII. So the calling thread
 * gets the character type of C.UTF-8, and nothing else of it, while a line is read: numbers and messages of the process
 * keep the "C" locale, which is what the ban on locale functions is there for.
 */
#include "cli/line.h"

#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/cli.h"

#define HISTORY_LINES 200
#define LOOK_UP_MS 100

struct line {
    const char *prompt;
    EditLine *el;     /* NULL: plain reading */
    History *history;
    locale_t utf8;    /* 0 = not available */
    char *plain;      /* getline()'s */
    size_t plain_cap;
};

static char *show_prompt(EditLine *el)
{
    struct line *l = NULL;
    el_get(el, EL_CLIENTDATA, &l);
    return (char *)(size_t)l->prompt;
}

/*
 * One character of the terminal for libedit: 1, or 0 at the end. Its own reader would not do: it takes up an interrupted
 * read again, and the signal may have come to another thread anyway. So this one looks up now and then.
 */
static int read_character(EditLine *el, wchar_t *out)
{
    (void)el;
    mbstate_t state = {0};
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    for (;;) {
        char byte;
        int ready = poll(&p, 1, LOOK_UP_MS);
        if (cli_interrupted())
            return 0;
        if (ready <= 0)
            continue;
        if (read(STDIN_FILENO, &byte, 1) != 1)
            return 0;
        size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1)
            state = (mbstate_t){0}; /* half a character: forget it */
        else if (used != (size_t)-2)
            return 1;
    }
}

static void set_up_editor(struct line *l)
{
    HistEvent ev;
    l->el = el_init("ffwd", stdin, stderr, stderr);
    if (!l->el)
        return;
    el_set(l->el, EL_CLIENTDATA, l);
    el_set(l->el, EL_PROMPT, show_prompt);
    el_set(l->el, EL_EDITOR, "emacs");
    el_set(l->el, EL_GETCFN, read_character);
    l->history = history_init();
    if (l->history) {
        history(l->history, &ev, H_SETSIZE, HISTORY_LINES);
        history(l->history, &ev, H_SETUNIQUE, 1);
        el_set(l->el, EL_HIST, history, l->history);
    }
}

struct line *line_new(const char *prompt)
{
    struct line *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->prompt = prompt;
    if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {
        l->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
        locale_t old = l->utf8 ? uselocale(l->utf8) : (locale_t)0;
        set_up_editor(l);
        if (old)
            uselocale(old);
    }
    return l;
}

void line_free(struct line *l)
{
    if (!l)
        return;
    if (l->el)
        el_end(l->el);
    if (l->history)
        history_end(l->history);
    if (l->utf8)
        freelocale(l->utf8);
    free(l->plain);
    free(l);
}

static const char *read_edited(struct line *l, size_t *n)
{
    int count = 0;
    locale_t old = l->utf8 ? uselocale(l->utf8) : (locale_t)0;
    const char *s = el_gets(l->el, &count);
    if (old)
        uselocale(old);
    if (!s || count <= 0 || cli_interrupted())
        return NULL;
    *n = (size_t)count - (s[count - 1] == '\n');
    if (*n && l->history) {
        HistEvent ev;
        history(l->history, &ev, H_ENTER, s);
    }
    return s;
}

const char *line_read(struct line *l, size_t *n)
{
    if (l->el)
        return read_edited(l, n);
    ssize_t got = getline(&l->plain, &l->plain_cap, stdin);
    if (got < 0 || cli_interrupted()) {
        clearerr(stdin); /* an interrupted read is not the end */
        return NULL;
    }
    *n = (size_t)got - (got > 0 && l->plain[got - 1] == '\n');
    return l->plain;
}

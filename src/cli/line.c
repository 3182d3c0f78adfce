/*
 * line: see line.h.
 *
 * libedit takes bytes apart with mbrtowc(), which in the "C" locale drops everything beyond ASCII. So the calling thread
 * gets the character type of C.UTF-8, and nothing else of it, while a line is read: numbers and messages of the process
 * keep the "C" locale, which is what the ban on locale functions is there for.
 */
#include "cli/line.h"

#include <histedit.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/cli.h"
#include "cli/line_history.h"

#define HISTORY_LINES 1000
#define LOOK_UP_MS 100
#define FENCE "\"\"\""

/* Terminals that know it put these around what is pasted, once they are asked to. */
#define PASTE_ON "\033[?2004h"
#define PASTE_OFF "\033[?2004l"
#define PASTE_END L"\033[201~"

struct line {
    struct line_config config;
    EditLine *el;        /* NULL: plain reading */
    History *history;
    locale_t utf8;       /* 0 = not available */
    const char *shown;   /* the prompt at this time */
    struct buf text;     /* the input so far */
    char file[PATH_MAX]; /* of the history; "" = none */
};

/* --- what libedit calls ---------------------------------------------------------------------------------------------- */

static struct line *line_of(EditLine *el)
{
    struct line *l = NULL;
    el_get(el, EL_CLIENTDATA, &l);
    return l;
}

static char *show_prompt(EditLine *el)
{
    return (char *)(size_t)line_of(el)->shown;
}

static bool pastes(void)
{
    const char *term = getenv("TERM");
    return term && strcmp(term, "dumb") != 0;
}

/* After Ctrl-Z and `fg` the terminal is as the shell likes it, and what was shown is somewhere above. */
static void take_back_terminal(EditLine *el)
{
    struct termios now;
    if (tcgetattr(STDIN_FILENO, &now) != 0 || !(now.c_lflag & ICANON))
        return;
    el_set(el, EL_PREP_TERM, 0);
    el_set(el, EL_PREP_TERM, 1);
    if (pastes())
        fputs(PASTE_ON, stderr);
    el_set(el, EL_REFRESH);
}

/*
 * One character of the terminal for libedit: 1, or 0 at the end. Its own reader would not do: it takes up an interrupted
 * read again, and the signal may have come to another thread anyway. So this one looks up now and then.
 */
static int read_character(EditLine *el, wchar_t *out)
{
    mbstate_t state = {0};
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    for (;;) {
        char byte;
        int ready = poll(&p, 1, LOOK_UP_MS);
        if (cli_interrupted())
            return 0;
        if (ready <= 0) {
            take_back_terminal(el);
            continue;
        }
        if (read(STDIN_FILENO, &byte, 1) != 1)
            return 0;
        size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1)
            state = (mbstate_t){0}; /* half a character: forget it */
        else if (used != (size_t)-2)
            return 1;
    }
}

static unsigned char on_newline(EditLine *el, int c)
{
    (void)c;
    return el_winsertstr(el, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

/* A character of a paste, in which the terminal's driver has made line feeds of the line ends; other control characters
 * are left out. */
static void add_pasted(struct buf *out, wchar_t c)
{
    if (c == L'\n' || c == L'\t' || (c >= L' ' && c != 127))
        buf_add(out, &c, sizeof c);
}

/* A paste begins: all of it is put in at the cursor, without its last line's end. What is beyond the limit is lost. */
static unsigned char on_paste(EditLine *el, int c)
{
    struct buf pasted;
    size_t ended = 0; /* characters of the mark that have come */
    wchar_t got;
    (void)c;
    buf_init(&pasted, LINE_LONGEST * sizeof(wchar_t));
    while (PASTE_END[ended] && read_character(el, &got) == 1) {
        ended = got == PASTE_END[ended] ? ended + 1 : got == PASTE_END[0];
        if (!ended)
            add_pasted(&pasted, got);
    }
    size_t n = pasted.len / sizeof got;
    if (n && (((wchar_t *)(void *)pasted.data)[n - 1] == L'\n' || !buf_add(&pasted, L"", sizeof got)))
        n--;
    if (n) {
        ((wchar_t *)(void *)pasted.data)[n] = 0;
        el_winsertstr(el, (wchar_t *)(void *)pasted.data);
    }
    buf_release(&pasted);
    return PASTE_END[ended] ? CC_EOF : CC_REFRESH;
}

/* Tab at the end of a command that is begun: goes on as far as all that begin so agree. */
static unsigned char on_tab(EditLine *el, int c)
{
    const LineInfoW *at = el_wline(el);
    const char *const *words = line_of(el)->config.commands;
    const char *found = NULL;
    size_t n = (size_t)(at->cursor - at->buffer), agree = 0, count = 0;
    wchar_t rest[32] = {0};
    (void)c;
    for (; *words; words++) {
        size_t same = 0;
        while (same < n && (*words)[same] && (wchar_t)(*words)[same] == at->buffer[same])
            same++;
        if (same < n)
            continue;
        while (found && same < agree && found[same] && found[same] == (*words)[same])
            same++;
        agree = found ? same : strlen(*words);
        found = *words;
        count++;
    }
    for (size_t i = n; i < agree && i - n < 30; i++)
        rest[i - n] = (wchar_t)found[i];
    if (count == 1)
        rest[wcslen(rest)] = L' ';
    if (n == 0 || !rest[0] || at->cursor != at->lastchar)
        return CC_REFRESH_BEEP;
    return el_winsertstr(el, rest) == 0 ? CC_REFRESH : CC_ERROR;
}

/* --- set-up ---------------------------------------------------------------------------------------------------------- */

static void add_to_editor(void *user, const char *text)
{
    struct line *l = user;
    HistEvent ev;
    history(l->history, &ev, H_ENTER, text);
}

static void set_up_history(struct line *l)
{
    HistEvent ev;
    struct err e = {0};
    l->history = history_init();
    if (!l->history)
        return;
    history(l->history, &ev, H_SETSIZE, HISTORY_LINES);
    history(l->history, &ev, H_SETUNIQUE, 1);
    el_set(l->el, EL_HIST, history, l->history);
    if (l->config.no_history || !line_history_path(l->file, sizeof l->file)) {
        l->file[0] = '\0';
    } else if (line_history_load(l->file, add_to_editor, l, &e) != ST_OK) {
        cli_fail(&e);
        l->file[0] = '\0';
    }
}

static void set_up_editor(struct line *l)
{
    l->el = el_init("ffwd", stdin, stderr, stderr);
    if (!l->el)
        return;
    el_set(l->el, EL_CLIENTDATA, l);
    el_set(l->el, EL_PROMPT, show_prompt);
    el_set(l->el, EL_EDITOR, "emacs");
    el_set(l->el, EL_GETCFN, read_character);
    el_set(l->el, EL_ADDFN, "ffwd-newline", "begins a line", on_newline);
    el_set(l->el, EL_ADDFN, "ffwd-paste", "puts in what is pasted", on_paste);
    el_set(l->el, EL_ADDFN, "ffwd-tab", "completes a command", on_tab);
    el_set(l->el, EL_BIND, "\\e\\r", "ffwd-newline", NULL);
    el_set(l->el, EL_BIND, "\\e\\n", "ffwd-newline", NULL);
    el_set(l->el, EL_BIND, "\\e[200~", "ffwd-paste", NULL);
    el_set(l->el, EL_BIND, "\\t", "ffwd-tab", NULL);
    el_set(l->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    set_up_history(l);
}

struct line *line_new(const struct line_config *c)
{
    struct line *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->config = *c;
    buf_init(&l->text, LINE_LONGEST);
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
    buf_release(&l->text);
    free(l);
}

/* --- one line -------------------------------------------------------------------------------------------------------- */

/* Appends the next line, without its end, to the input. *ended: there is none. */
static void read_edited(struct line *l, bool *ended)
{
    int count = 0;
    locale_t old = l->utf8 ? uselocale(l->utf8) : (locale_t)0;
    el_set(l->el, EL_PREP_TERM, 1); /* before anything invites to type: Ctrl-D would be lost, and so would long pastes */
    if (pastes())
        fputs(PASTE_ON, stderr);
    el_resize(l->el);
    const char *s = el_gets(l->el, &count);
    if (pastes())
        fputs(PASTE_OFF, stderr);
    if (old)
        uselocale(old);
    *ended = !s || count <= 0;
    if (!*ended)
        buf_add(&l->text, s, (size_t)count - (s[count - 1] == '\n'));
}

/* The same from a file or a pipe. */
static void read_plain(struct line *l, bool *ended)
{
    int c = getc(stdin);
    *ended = c == EOF;
    for (; c != EOF && c != '\n' && !l->text.failed; c = getc(stdin)) {
        const char byte = (char)c;
        buf_add(&l->text, &byte, 1);
    }
    if (cli_interrupted())
        clearerr(stdin); /* an interrupted read is not the end */
}

static enum status read_line(struct line *l, const char *prompt, bool *ended, struct err *e)
{
    l->shown = prompt;
    if (l->el)
        read_edited(l, ended);
    else
        read_plain(l, ended);
    if (cli_interrupted())
        return err_set(e, ST_CANCELLED, "", "interrupted");
    if (l->text.failed)
        return err_set(e, ST_TOO_LONG, "", "more than %u bytes were typed at once", LINE_LONGEST);
    return ST_OK;
}

/* --- one input ------------------------------------------------------------------------------------------------------- */

static bool ends_with(const struct buf *b, const char *end)
{
    size_t n = strlen(end);
    return b->len >= n && memcmp(b->data + b->len - n, end, n) == 0;
}

static bool opens_block(const struct buf *b)
{
    return b->len >= strlen(FENCE) && memcmp(b->data, FENCE, strlen(FENCE)) == 0;
}

static bool closes_block(const struct buf *b)
{
    return b->len >= 2 * strlen(FENCE) && ends_with(b, FENCE);
}

static void remember(struct line *l)
{
    HistEvent ev;
    struct err e = {0};
    if (!l->history || l->text.len == 0)
        return;
    history(l->history, &ev, H_ENTER, l->text.data);
    if (l->file[0] && line_history_add(l->file, l->text.data, l->text.len, &e) != ST_OK) {
        cli_fail(&e); /* once */
        l->file[0] = '\0';
    }
}

/* The input without what marks it as a block, and without the line ends next to those. */
static void hand_out(const struct line *l, struct line_text *out)
{
    size_t mark = strlen(FENCE);
    *out = (struct line_text){l->text.data, l->text.len, opens_block(&l->text)};
    if (!out->block)
        return;
    out->n -= closes_block(&l->text) ? 2 * mark : mark;
    out->s += mark;
    if (out->n && out->s[0] == '\n') {
        out->s++;
        out->n--;
    }
    out->n -= out->n && out->s[out->n - 1] == '\n';
    out->s[out->n] = '\0';
}

enum status line_read(struct line *l, struct line_text *out, struct err *e)
{
    bool ended;
    *out = (struct line_text){0};
    buf_clear(&l->text);
    TRY(read_line(l, l->config.prompt, &ended, e));
    if (ended)
        return ST_OK;
    buf_adds(&l->text, ""); /* so that an empty one is "" and not NULL */
    while (!ended && (opens_block(&l->text) ? !closes_block(&l->text) : ends_with(&l->text, "\\"))) {
        l->text.len -= !opens_block(&l->text); /* the backslash */
        buf_adds(&l->text, "\n");
        TRY(read_line(l, l->config.more, &ended, e));
    }
    remember(l);
    hand_out(l, out);
    return ST_OK;
}

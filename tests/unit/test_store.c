/* cli/store, cli/download: what a file on its way into the cache takes of the disk, and what is checked at its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/download.h"
#include "cli/store.h"

#define MB ((uint64_t)1 << 20)

static char top[] = "/tmp/ffwd-store-XXXXXX";
static char path[STORE_PATH], part[STORE_PATH + 16];
static uint64_t disk_free = 1000 * MB;

/* Stands in for the C library's: every disk has `disk_free` bytes. */
int statvfs(const char *restrict file, struct statvfs *restrict v)
{
    (void)file;
    *v = (struct statvfs){.f_bsize = 4096, .f_frsize = 4096, .f_bavail = disk_free / 4096};
    return 0;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void room_is_looked_at_while_writing(void **state)
{
    (void)state;
    static char data[1 << 20] = "GGUF";
    struct store s;
    struct err e = {0};
    assert_int_equal(store_open(&s, path, &e), ST_OK);
    assert_int_equal(store_restart(&s, &e), ST_OK);
    assert_int_equal(store_write(&s, data, sizeof data, &e), ST_OK);
    disk_free = 60 * MB; /* less than what is left alone */
    enum status st = ST_OK;
    while (st == ST_OK && s.size < 200 * MB)
        st = store_write(&s, data, sizeof data, &e);
    assert_int_equal(st, ST_IO);
    assert_non_null(strstr(e.text, "m.gguf needs 1.0 MB more"));
    assert_int_equal(s.size, 64 * MB);
    disk_free = 1000 * MB;
    store_close(&s, false);
    assert_int_not_equal(access(part, F_OK), 0);
}

static void what_a_part_holds_is_not_needed_again(void **state)
{
    (void)state;
    assert_int_equal(download_missing(path, 10), 10);
    put(part, "1234");
    assert_int_equal(download_missing(path, 10), 6);
    assert_int_equal(download_missing(path, 3), 0);
    put(path, "1234567890");
    assert_int_equal(download_missing(path, 10), 0);
    assert_int_equal(download_missing(path, 11), 7);
    unlink(path);
    unlink(part);
}

static void a_part_of_another_length_is_not_published(void **state)
{
    (void)state;
    struct store s;
    struct err e = {0};
    assert_int_equal(store_open(&s, path, &e), ST_OK);
    assert_int_equal(store_write(&s, "GGUF", 4, &e), ST_OK);
    assert_int_equal(truncate(part, 5), 0);
    assert_int_equal(store_publish(&s, "m", 0, NULL, &e), ST_MODEL);
    assert_int_equal(truncate(part, 4), 0);
    assert_int_equal(store_publish(&s, "m", 0, NULL, &e), ST_OK);
    store_close(&s, true);
    assert_int_equal(unlink(path), 0);
}

static void nobody_else_reads_the_address(void **state)
{
    (void)state;
    struct store s;
    struct err e = {0};
    struct stat st;
    mode_t before = umask(0);
    assert_int_equal(store_open(&s, path, &e), ST_OK);
    for (int old = 0; old < 2; old++) { /* a new note, and one that was there */
        assert_int_equal(store_note(&s, "https://host/m.gguf?key=secret", "", &e), ST_OK);
        assert_int_equal(stat(s.from, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(chmod(s.from, 0644), 0);
    }
    umask(before);
    store_close(&s, false);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(top))
        return -1;
    snprintf(path, sizeof path, "%s/m.gguf", top);
    snprintf(part, sizeof part, "%s" STORE_PART, path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(top); /* nothing is left in it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room_is_looked_at_while_writing),
        cmocka_unit_test(what_a_part_holds_is_not_needed_again),
        cmocka_unit_test(a_part_of_another_length_is_not_published),
        cmocka_unit_test(nobody_else_reads_the_address),
    };
    return cmocka_run_group_tests_name("store", tests, set_up, tear_down);
}

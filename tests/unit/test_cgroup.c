/* cgroup: what made-up control groups leave to a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/cgroup.h"

#define MB (1ull << 20)

static char root[64], paths[32][160]; /* what was made, in that order */
static int made;

static const char *note(const char *name)
{
    assert_true(made < 32);
    snprintf(paths[made], sizeof paths[made], "%s/%s", root, name);
    return paths[made++];
}

static void put_folder(const char *name)
{
    assert_int_equal(mkdir(note(name), 0700), 0);
}

static void put_file(const char *name, const char *text)
{
    FILE *f = fopen(note(name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void put_number(const char *name, const char *key, uint64_t bytes)
{
    char text[64];
    snprintf(text, sizeof text, "%s%llu\n", key, (unsigned long long)bytes);
    put_file(name, text);
}

static int begin(void **state)
{
    static const char *const folders[] = {"proc", "proc/self", "sys", "sys/fs", "sys/fs/cgroup"};
    (void)state;
    made = 0;
    snprintf(root, sizeof root, "/tmp/ffwd-cgroup-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        put_folder(folders[i]);
    return 0;
}

static int end(void **state)
{
    (void)state;
    while (made)
        remove(paths[--made]);
    return rmdir(root);
}

/* What is left to a process that uses `mapped` bytes of files. */
static uint64_t left_beside(uint64_t mapped)
{
    uint64_t limit, left;
    assert_true(cgroup_memory(root, mapped, &limit, &left));
    return left;
}

static void no_limit(void **state)
{
    (void)state;
    uint64_t limit, left;
    assert_false(cgroup_memory(root, 0, &limit, &left)); /* no group at all */
    put_file("proc/self/cgroup", "0::/\n");
    put_file("sys/fs/cgroup/memory.max", "max\n");
    assert_false(cgroup_memory(root, 0, &limit, &left));
}

static void files_in_use_are_counted_once(void **state)
{
    (void)state;
    put_file("proc/self/cgroup", "0::/a\n");
    put_folder("sys/fs/cgroup/a");
    put_number("sys/fs/cgroup/a/memory.max", "", 1000 * MB);
    put_number("sys/fs/cgroup/a/memory.current", "", 700 * MB);
    put_number("sys/fs/cgroup/a/memory.stat", "inactive_file ", 200 * MB);
    assert_int_equal(left_beside(0), 500 * MB);
    assert_int_equal(left_beside(50 * MB), 450 * MB);
    assert_int_equal(left_beside(600 * MB), 300 * MB); /* 400 of them are active, and in no cache that could be dropped */
}

static void the_tightest_level_counts(void **state)
{
    (void)state;
    uint64_t limit, left;
    put_file("proc/self/cgroup", "3:cpu:/x\n5:memory:/a\n");
    put_folder("sys/fs/cgroup/memory");
    put_folder("sys/fs/cgroup/memory/a");
    put_number("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "", 900 * MB);
    put_number("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "", 100 * MB);
    put_number("sys/fs/cgroup/memory/memory.limit_in_bytes", "", 1000 * MB);
    put_number("sys/fs/cgroup/memory/memory.usage_in_bytes", "", 700 * MB);
    put_number("sys/fs/cgroup/memory/memory.stat", "total_inactive_file ", 450 * MB);
    assert_true(cgroup_memory(root, 0, &limit, &left));
    assert_int_equal(limit, 900 * MB);
    assert_int_equal(left, 750 * MB);
    assert_int_equal(left_beside(450 * MB), 300 * MB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_limit, begin, end),
        cmocka_unit_test_setup_teardown(files_in_use_are_counted_once, begin, end),
        cmocka_unit_test_setup_teardown(the_tightest_level_counts, begin, end),
    };
    return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}

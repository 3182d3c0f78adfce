/* home: which memory node a process keeps to, read from made-up machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

#define GB (1ull << 30)

static char root[64], paths[64][160]; /* what was made, in that order */
static int made;

static const char *note(const char *name)
{
    assert_true(made < 64);
    snprintf(paths[made], sizeof paths[made], "%s/%s", root, name);
    return paths[made++];
}

static void put_file(const char *name, const char *text)
{
    FILE *f = fopen(note(name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void put_folder(const char *name)
{
    assert_int_equal(mkdir(note(name), 0700), 0);
}

static void begin(void)
{
    made = 0;
    snprintf(root, sizeof root, "/tmp/ffwd-home-XXXXXX");
    assert_non_null(mkdtemp(root));
    put_folder("node");
    put_folder("cpu");
}

static void end(void)
{
    while (made)
        remove(paths[--made]);
    assert_int_equal(rmdir(root), 0);
}

static void put_node_with(int id, const char *list, uint64_t free_bytes, uint64_t file_bytes, uint64_t mapped,
                          uint64_t shared)
{
    char name[64], text[400];
    snprintf(name, sizeof name, "node/node%d", id);
    put_folder(name);
    snprintf(name, sizeof name, "node/node%d/cpulist", id);
    put_file(name, list);
    snprintf(name, sizeof name, "node/node%d/meminfo", id);
    snprintf(text, sizeof text,
             "Node %d MemTotal: 99999999999 kB\nNode %d MemFree:  %llu kB\nNode %d FilePages:  %llu kB\n"
             "Node %d Mapped:  %llu kB\nNode %d Shmem:  %llu kB\nNode %d ShmemHugePages:  7777777777 kB\n",
             id, id, (unsigned long long)free_bytes / 1024, id, (unsigned long long)file_bytes / 1024, id,
             (unsigned long long)mapped / 1024, id, (unsigned long long)shared / 1024, id);
    put_file(name, text);
}

static void put_node(int id, const char *list, uint64_t free_bytes, uint64_t file_bytes)
{
    put_node_with(id, list, free_bytes, file_bytes, 0, 0);
}

/* Processors cpu and cpu + `apart` are siblings, for cpu < apart. */
static void put_siblings(int apart)
{
    for (int cpu = 0; cpu < 2 * apart; cpu++) {
        char name[64], text[64];
        snprintf(name, sizeof name, "cpu/cpu%d", cpu);
        put_folder(name);
        snprintf(name, sizeof name, "cpu/cpu%d/topology", cpu);
        put_folder(name);
        snprintf(name, sizeof name, "cpu/cpu%d/topology/thread_siblings_list", cpu);
        snprintf(text, sizeof text, "%d,%d\n", cpu % apart, cpu % apart + apart);
        put_file(name, text);
    }
}

static struct cpus range(int from, int to)
{
    struct cpus c = {0};
    for (int cpu = from; cpu < to; cpu++)
        CPU_SET_S((size_t)cpu, sizeof c, c.set);
    return c;
}

static bool is(const struct cpus *a, struct cpus b)
{
    return CPU_EQUAL_S(sizeof b, a->set, b.set);
}

/* Two sockets of four cores. */
static void two_nodes(void)
{
    begin();
    put_file("node/online", "0-1\n");
    put_node(0, "0-3\n", 10 * GB, 2 * GB);
    put_node(1, "4-7\n", 20 * GB, 0);
}

/* CP3: a second socket makes nothing slower, since by default all threads and pages keep to one. */
static void keeps_to_one_node(void **state)
{
    (void)state;
    static struct home h;
    struct cpus all = range(0, 8);
    two_nodes();
    home_look(&h, root, &all, 15 * GB, 0);
    assert_int_equal(h.nodes, 2);
    assert_int_equal(h.node, 1); /* as many cores, more memory */
    assert_int_equal(h.cores, 4);
    assert_int_equal(h.processors, 4);
    assert_true(is(&h.cpus, range(4, 8)));
    home_look(&h, root, &all, 15 * GB, 4);
    assert_int_equal(h.node, 1);
    end();
}

static void most_cores_come_first(void **state)
{
    (void)state;
    static struct home h;
    struct cpus some = range(1, 6); /* three of node 0, two of node 1 */
    two_nodes();
    home_look(&h, root, &some, 12 * GB, 0); /* files make way for weights */
    assert_int_equal(h.node, 0);
    assert_int_equal(h.cores, 3);
    assert_true(is(&h.cpus, range(1, 4)));
    struct cpus one_side = range(5, 7);
    home_look(&h, root, &one_side, 100 * GB, 100); /* there is no other to go to */
    assert_int_equal(h.nodes, 1);
    assert_int_equal(h.node, -1);
    assert_int_equal(h.cores, 2);
    assert_true(is(&h.cpus, one_side));
    end();
}

static void spreads_what_does_not_fit(void **state)
{
    (void)state;
    static struct home h;
    struct cpus all = range(0, 8);
    two_nodes();
    home_look(&h, root, &all, 21 * GB, 0);
    assert_int_equal(h.node, -1);
    assert_int_equal(h.cores, 8);
    assert_true(is(&h.cpus, all));
    assert_non_null(strstr(h.why, "all 2 nodes: the largest has 20480 MB to give, the weights take 21504"));
    home_look(&h, root, &all, 0, 5);
    assert_int_equal(h.node, -1);
    assert_non_null(strstr(h.why, "the largest has 4 cores, 5 threads were asked for"));
    end();
}

/* Files that are mapped, and shared memory, stay where they are. */
static void used_pages_are_not_free(void **state)
{
    (void)state;
    static struct home h;
    struct cpus all = range(0, 8);
    begin();
    put_file("node/online", "0-1\n");
    put_node_with(0, "0-3\n", 2 * GB, 20 * GB, 9 * GB, 7 * GB); /* 6 to give */
    put_node_with(1, "4-7\n", 5 * GB, 3 * GB, 3 * GB, 2 * GB);  /* what is free is free */
    home_look(&h, root, &all, 6 * GB, 0);
    assert_int_equal(h.node, 0);
    home_look(&h, root, &all, 6 * GB + 1, 0);
    assert_int_equal(h.node, -1);
    assert_non_null(strstr(h.why, "the largest has 6144 MB to give"));
    struct cpus second = range(3, 8);
    home_look(&h, root, &second, 5 * GB, 0);
    assert_int_equal(h.node, 1);
    home_look(&h, root, &second, 5 * GB + 1, 0);
    assert_int_equal(h.node, -1);
    end();
}

static void siblings_are_one_core(void **state)
{
    (void)state;
    static struct home h;
    begin();
    put_siblings(4);
    put_file("node/online", "0,2\n"); /* numbers have gaps */
    put_node(0, "0-1,4-5\n", 10 * GB, 0);
    put_node(2, "2-3,6-7\n", 10 * GB, 0);
    struct cpus all = range(0, 8), without_0 = range(1, 8);
    home_look(&h, root, &all, 0, 0);
    assert_int_equal(h.node, 0); /* alike: the first */
    assert_int_equal(h.cores, 2);
    assert_int_equal(h.processors, 4);
    home_look(&h, root, &without_0, 0, 0);
    assert_int_equal(h.node, 0); /* its sibling 4 is still there */
    assert_int_equal(h.cores, 2);
    assert_int_equal(h.processors, 3);
    end();
}

static void nothing_known_is_one_node(void **state)
{
    (void)state;
    static struct home h;
    struct cpus two = range(0, 2);
    home_look(&h, "/nonexistent", &two, 5 * GB, 0);
    assert_int_equal(h.nodes, 1);
    assert_int_equal(h.node, -1);
    assert_int_equal(h.cores, 2);
    assert_int_equal(h.processors, 2);
    begin();
    put_file("node/online", "garbage\n");
    home_look(&h, root, &two, 0, 0);
    assert_int_equal(h.node, -1);
    assert_int_equal(h.cores, 2);
    end();
}

/* This machine's own first node, as if it had been chosen. */
static void threads_and_memory_follow(void **state)
{
    (void)state;
    static struct home h;
    static struct cpus before, now;
    assert_int_equal(sched_getaffinity(0, sizeof before, before.set), 0);
    int cpu = sched_getcpu();
    h = (struct home){.nodes = 2, .node = -1, .cpus = range(cpu, cpu + 1)};
    assert_false(home_thread(&h));
    h.node = 0;
    assert_true(home_thread(&h));
    assert_int_equal(sched_getaffinity(0, sizeof now, now.set), 0);
    assert_true(is(&now, h.cpus));
    assert_int_equal(sched_setaffinity(0, sizeof before, before.set), 0);
    size_t n = 4u << 20;
    char *p = mem_map(n);
    assert_non_null(p);
    (void)home_memory(&h, p, n); /* some containers refuse it */
    memset(p, 1, n);
    mem_unmap(p, n);
    assert_true(home_here()->cores >= 1 && home_here()->processors >= home_here()->cores);
    assert_true(strlen(home_here()->why) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_to_one_node),         cmocka_unit_test(most_cores_come_first),
        cmocka_unit_test(spreads_what_does_not_fit), cmocka_unit_test(siblings_are_one_core),
        cmocka_unit_test(nothing_known_is_one_node), cmocka_unit_test(threads_and_memory_follow),
        cmocka_unit_test(used_pages_are_not_free),
    };
    return cmocka_run_group_tests_name("home", tests, NULL, NULL);
}

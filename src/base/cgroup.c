/* cgroup: see cgroup.h. */
#include "base/cgroup.h"

#include <stdio.h>
#include <string.h>

#define ROOT "/sys/fs/cgroup"
#define PATH_CAP 1024
#define HUGE_LIMIT (1ull << 60) /* what version 1 writes for "no limit" is about 2^63 */

/* Where the process sits below `controller`'s root ("" = version 2): "/a/b" with "/" as "". False when unknown. */
static bool own_group(const char *root, const char *controller, char *out, size_t cap)
{
    char line[PATH_CAP];
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *f = fopen(line, "re");
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) { /* "4:cpu,cpuacct:/path" or "0::/path" */
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        list++;
        path[strcspn(path, "\n")] = 0;
        size_t n = strlen(controller);
        for (const char *p = list; !found; p = strchr(p, ',') + 1) {
            found = strncmp(p, controller, n) == 0 && (p[n] == 0 || p[n] == ',');
            if (!strchr(p, ','))
                break;
        }
        if (found)
            snprintf(out, cap, "%s", strcmp(path, "/") ? path : "");
    }
    if (f)
        fclose(f);
    return found;
}

/* A number in the file `name` of a group: the whole file, or the value after `key` on a line of its own. */
static bool number(const char *dir, const char *group, const char *name, const char *key, uint64_t *out)
{
    char path[2 * PATH_CAP], line[256];
    snprintf(path, sizeof path, "%s%s/%s", dir, group, name);
    FILE *f = fopen(path, "re");
    bool found = false;
    size_t n = key ? strlen(key) : 0;
    while (f && !found && fgets(line, sizeof line, f)) {
        unsigned long long v;
        if ((!key || (strncmp(line, key, n) == 0 && line[n] == ' ')) && sscanf(line + n, "%llu", &v) == 1) {
            *out = v;
            found = true;
        } else if (!key) {
            break; /* "max" */
        }
    }
    if (f)
        fclose(f);
    return found;
}

struct layout {
    const char *controller, *dir, *limit, *used, *reclaimable;
};

static const struct layout memory_layouts[] = {
    {"", "", "memory.max", "memory.current", "inactive_file"},
    {"memory", "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

bool cgroup_memory(const char *root, uint64_t mapped, uint64_t *limit, uint64_t *left)
{
    *limit = *left = UINT64_MAX;
    for (size_t i = 0; i < sizeof memory_layouts / sizeof *memory_layouts; i++) {
        const struct layout *l = &memory_layouts[i];
        char dir[PATH_CAP], group[PATH_CAP];
        snprintf(dir, sizeof dir, "%s" ROOT "%s", root, l->dir);
        if (!own_group(root, l->controller, group, sizeof group))
            continue;
        for (;;) { /* this group, then those above it */
            uint64_t max, used = 0, cache = 0;
            if (number(dir, group, l->limit, NULL, &max) && max < HUGE_LIMIT) {
                number(dir, group, l->used, NULL, &used);
                number(dir, group, "memory.stat", l->reclaimable, &cache);
                cache = cache > mapped ? cache - mapped : 0;
                used = used > cache ? used - cache : 0;
                *limit = max < *limit ? max : *limit;
                uint64_t room = max > used ? max - used : 0;
                *left = room < *left ? room : *left;
            }
            char *slash = strrchr(group, '/');
            if (!slash)
                break;
            *slash = 0;
        }
    }
    return *limit != UINT64_MAX;
}

/* quota / period of one group, in processors rounded up; 0 = none. */
static int quota_of(const char *dir, const char *group, bool v2)
{
    long long quota = -1, period = 0;
    if (v2) {
        char path[2 * PATH_CAP];
        snprintf(path, sizeof path, "%s%s/cpu.max", dir, group);
        FILE *f = fopen(path, "re");
        if (!f || fscanf(f, "%lld %lld", &quota, &period) != 2)
            quota = -1;
        if (f)
            fclose(f);
    } else {
        uint64_t q, p;
        if (number(dir, group, "cpu.cfs_quota_us", NULL, &q) && number(dir, group, "cpu.cfs_period_us", NULL, &p)
            && q < HUGE_LIMIT) {
            quota = (long long)q;
            period = (long long)p;
        }
    }
    long long n = quota > 0 && period > 0 ? (quota + period - 1) / period : 0;
    return n > 1 << 20 ? 0 : (int)n;
}

int cgroup_cpus(void)
{
    int least = 0;
    for (int v2 = 0; v2 < 2; v2++) {
        char group[PATH_CAP];
        if (!own_group("", v2 ? "" : "cpu", group, sizeof group))
            continue;
        for (;;) {
            int n = quota_of(v2 ? ROOT : ROOT "/cpu", group, v2);
            if (n && (!least || n < least))
                least = n;
            char *slash = strrchr(group, '/');
            if (!slash)
                break;
            *slash = 0;
        }
    }
    return least;
}

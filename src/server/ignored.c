/* ignored: telling of fields that a dialect does not know. See reply.h. */
#include <stdio.h>
#include <string.h>

#include "server/reply.h"

static bool is_among(const char *key, const char *const *list)
{
    while (*list && strcmp(*list, key) != 0)
        list++;
    return *list != NULL;
}

void server_log_ignored_beside(const char *where, const json_t *object, const char *const *known,
                               const char *const *more)
{
    char list[200] = ""; /* as many as have room */
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)object, key, v) {
        size_t n = strlen(list);
        if (!is_among(key, known) && !is_among(key, more))
            snprintf(list + n, sizeof list - n, n ? ", %.40s" : "%.40s", key);
    }
    for (char *p = list; *p; p++) /* names are the client's: they may not look like lines of the log */
        *p = (char)((unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p);
    if (list[0])
        log_line(LOG_INFO, "server: %s knows no such fields, they were ignored: %s", where, list);
}

void server_log_ignored(const char *where, const json_t *object, const char *const *known)
{
    static const char *const none[] = {NULL};
    server_log_ignored_beside(where, object, known, none);
}

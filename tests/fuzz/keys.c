/* keys: any bytes as a file of API keys. Of one that is taken, the first word of each line is a key, and no other is. */
#include "fuzz/kit/fuzz.h"
#include "server/keys.h"

static void check_line(struct server_keys *k, struct fuzz line)
{
    char name[LIMIT_KEY_NAME + 1];
    while (line.n && strchr(" \t\r", *line.at))
        line = (struct fuzz){line.at + 1, line.n - 1};
    char *key = fuzz_string(line.at, line.n);
    key[strcspn(key, " \t\r")] = '\0';
    struct server_key *found = server_keys_find(k, key, name);
    bool written = key[0] && key[0] != '#' && strncmp(key, "sha256:", 7) != 0;
    FUZZ_CHECK(!written || found, "%s is not found", key);
    FUZZ_CHECK(!found || (name[0] && strlen(name) <= LIMIT_KEY_NAME), "%s has no name", key);
    if (found)
        server_keys_leave(k, found, false, 0);
    free(key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz f = {(const char *)data, n};
    struct server_keys *k;
    struct err e;
    char name[LIMIT_KEY_NAME + 1];
    if (server_keys_new(&k, fuzz_file(data, n), &e) != ST_OK) {
        FUZZ_CHECK(!k && e.text[0], "no reason");
        return 0;
    }
    while (f.n)
        check_line(k, fuzz_until(&f, '\n'));
    FUZZ_CHECK(!server_keys_find(k, "", name), "no key is a key");
    server_keys_free(k);
    return 0;
}

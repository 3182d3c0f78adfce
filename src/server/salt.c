/*
 * salt: who shares prefixes and records of replies with whom.
 *
 * Prefixes are shared between equal salts. A client names its own; with cache_per_key the key that it authenticates with
 * goes in too, and both are hashed together so that the key itself is kept nowhere and nobody can choose a salt that
 * stands for somebody else's key. Sharing a prefix changes no bit of a reply; replaying the ids of an earlier reply may,
 * so records of replies are kept apart by key always.
 */
#include <sha2.h>
#include <string.h>

#include "server/gate.h"
#include "server/private.h"

_Static_assert(SHA256_DIGEST_LENGTH <= LIMIT_SALT, "a hash is a salt");
_Static_assert(SHA256_DIGEST_LENGTH == SERVER_OWNER, "and an owner");

static size_t hash_both(const struct http_call *call, struct server_name asked, char *to)
{
    const char *key = server_key_of(call);
    const uint64_t n = strlen(key);
    SHA2_CTX hash;
    SHA256Init(&hash);
    SHA256Update(&hash, (const uint8_t *)&n, sizeof n);
    SHA256Update(&hash, (const uint8_t *)key, n);
    if (asked.n)
        SHA256Update(&hash, (const uint8_t *)asked.s, asked.n);
    SHA256Final((uint8_t *)to, &hash);
    return SHA256_DIGEST_LENGTH;
}

size_t server_salt(const struct http_call *call, struct server_name asked, char *to)
{
    const struct server *srv = call->app;
    if (srv->cache_per_key)
        return hash_both(call, asked, to);
    if (asked.n)
        memcpy(to, asked.s, asked.n);
    return asked.n;
}

size_t server_owner(const struct http_call *call, struct server_name asked, char *to)
{
    return hash_both(call, asked, to);
}

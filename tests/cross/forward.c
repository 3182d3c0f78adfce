/*
 * forward: the logits of a tiny model of every family, and of the last in every weight type, as one hash a line. On
 * every machine and level the lines have to be the same, but for the first, which says which level it was.
 */
#define XXH_INLINE_ALL
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

#include "feed.h"
#include "tiny.h"

#define CHUNK 19 /* of the 44 ids: two whole steps and a shorter one */

static void print_hash(const char *family, enum tiny_type type)
{
    char path[] = "/tmp/ffwd-forward-XXXXXX";
    static float logits[TINY_PROMPT * TINY_VOCAB];
    tok_id ids[TINY_PROMPT];
    struct feed f;
    struct err e = {0};
    int fd = mkstemp(path);
    if (fd < 0)
        BUG("no temporary file");
    close(fd);
    enum status st = tiny_write(path, family, type, &e);
    if (!st)
        st = feed_open(&f, path, 1, KERN_KV_F16, 128, &e);
    unlink(path);
    if (st)
        BUG("%s: %s", family, e.text);
    for (size_t i = 0; i < TINY_PROMPT; i++)
        ids[i] = tiny_prompt(i);
    feed_logits(&f, ids, TINY_PROMPT, CHUNK, logits);
    feed_release(&f);
    printf("%s %s %016llx\n", family, tiny_type_name(type), (unsigned long long)XXH64(logits, sizeof logits, 0));
}

int main(void)
{
    printf("%s\n", kern_why());
    for (size_t f = 0; f + 1 < TINY_FAMILIES; f++)
        print_hash(tiny_families[f], TINY_Q4_1);
    for (size_t t = 0; t < TINY_TYPES; t++) /* the last one's widths fit all types */
        print_hash(tiny_families[TINY_FAMILIES - 1], tiny_types[t]);
    return 0;
}

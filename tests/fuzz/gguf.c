/* gguf: any bytes as a model file. One that opens is read and packed to the end; memory keeps to what the file holds. */
#include "fuzz/kit/fuzz.h"
#include "use_weights.h"
#include "weights/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct pool *pool;
    struct weights *w;
    struct err e = {0};
    if (!pool)
        FUZZ_CHECK(pool_new(&pool, 1, &e) == ST_OK, "%s", e.text);
    char *file = fuzz_copy((const char *)data, n);
    enum status st = gguf_open_bytes(&w, "m.gguf", file, n, &e);
    FUZZ_CHECK((st == ST_OK) == (w != NULL), "%s", status_name(st));
    if (st == ST_OK)
        use_weights(w, pool);
    else
        FUZZ_CHECK(e.code == st && strstr(e.text, "m.gguf"), "%s: %s", status_name(st), e.text);
    for (const char *p = e.text; *p; p++)
        FUZZ_CHECK((unsigned char)*p >= 0x20 && *p != 0x7F, "a control character in %s", e.text);
    weights_free(w);
    free(file);
    return 0;
}

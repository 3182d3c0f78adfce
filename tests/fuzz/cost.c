/* cost: any bytes as a file of a cost curve. One that is taken can be written and read again, and predicts numbers. */
#include <math.h>

#include "cli/curve.h"
#include "engine/cost.h"
#include "fuzz/kit/fuzz.h"

static void same_curve(const struct engine_cost *a, const struct engine_cost *b)
{
    FUZZ_CHECK(a->n == b->n && a->head_ms == b->head_ms && a->attention_ms == b->attention_ms &&
               a->decode_attention_ms == b->decode_attention_ms, "another curve");
    for (uint32_t i = 0; i < a->n; i++)
        FUZZ_CHECK(a->point[i].tokens == b->point[i].tokens && a->point[i].ms == b->point[i].ms, "another point %u", i);
}

static void check_predictions(const struct engine_cost *curve)
{
    struct cost c;
    struct engine_cost learns = *curve;
    learns.frozen = false;
    cost_begin(&c, &learns);
    for (uint32_t tokens = 1; tokens <= LIMIT_STEP; tokens *= 2) {
        const struct cost_work w = {.tokens = tokens, .heads = 1, .keys = 1e6, .decode_keys = 1e5};
        FUZZ_CHECK(cost_ms(curve, &w) >= 0 && isfinite(cost_ms(curve, &w)), "%u tokens", tokens);
        cost_saw_forward(&c, &w, 10);
        cost_saw_heads(&c, 1, 1);
        FUZZ_CHECK(cost_ms(&c.curve, &w) >= 0 && isfinite(cost_ms(&c.curve, &w)), "%u tokens, learnt", tokens);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct engine_cost c, again;
    struct err e;
    if (curve_read(fuzz_file(data, n), &c, &e) != ST_OK) {
        FUZZ_CHECK(e.text[0], "no reason");
        return 0;
    }
    json_t *v = curve_json(&c);
    char *text = json_dumps(v, 0);
    FUZZ_CHECK(text && curve_read(fuzz_file(text, strlen(text)), &again, &e) == ST_OK, "%s", e.text);
    same_curve(&c, &again);
    check_predictions(&c);
    free(text);
    json_decref(v);
    return 0;
}

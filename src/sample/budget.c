/* budget: replies that think no longer than they may. See sample.h. */
#include "sample/sample.h"

void sample_budget_begin(struct sample_budget *b, const struct sample_limit *of)
{
    *b = (struct sample_budget){.of = *of, .left = of->ids, .inside = of->inside};
}

static bool is_up(const struct sample_budget *b)
{
    return b->of.close_n && b->inside && !b->left;
}

tok_id sample_budget_imposes(const struct sample_budget *b, const uint32_t *mask)
{
    for (uint32_t i = b->closing; is_up(b) && i < b->of.close_n; i++) {
        tok_id id = b->of.close[i];
        if (!mask || mask[id / 32] >> id % 32 & 1)
            return id;
    }
    return -1;
}

void sample_budget_take(struct sample_budget *b, tok_id id)
{
    if (!b->of.close_n)
        return;
    if (id == b->of.close[b->of.close_n - 1] || id == b->of.open) {
        b->inside = id == b->of.open;
        b->closing = 0;
    } else if (is_up(b)) {
        uint32_t i = b->closing;
        while (i < b->of.close_n && b->of.close[i] != id)
            i++;
        b->closing = i < b->of.close_n ? i + 1 : 0;
    } else if (b->inside) {
        b->left--;
    }
}

/* sample_params: defaults and ranges. Comparisons are written so that a NaN fails them. */
#include "sample/sample.h"

struct sample_params sample_defaults(void)
{
    return (struct sample_params){.top_p = 1.0f, .repetition_penalty = 1.0f};
}

enum status sample_check(const struct sample_params *p, struct err *e)
{
    if (!(p->temperature >= 0.0f && p->temperature <= 100.0f))
        return err_set(e, ST_ARGUMENT, "temperature", "temperature must be between 0 and 100");
    if (!(p->top_p > 0.0f && p->top_p <= 1.0f))
        return err_set(e, ST_ARGUMENT, "top_p", "top_p must be above 0 and at most 1");
    if (!(p->min_p >= 0.0f && p->min_p < 1.0f))
        return err_set(e, ST_ARGUMENT, "min_p", "min_p must be at least 0 and below 1");
    if (!(p->repetition_penalty > 0.0f && p->repetition_penalty <= 100.0f))
        return err_set(e, ST_ARGUMENT, "repetition_penalty", "repetition_penalty must be above 0 and at most 100");
    return ST_OK;
}

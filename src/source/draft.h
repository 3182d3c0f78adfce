/* draft: what only tests look at and change. Private to source. */
#ifndef SOURCE_DRAFT_H
#define SOURCE_DRAFT_H

#include "source/source.h"

struct source_draft_tuning {
    double (*clock)(void *ctx); /* seconds; NULL = clock_seconds() */
    /* The logits [vocab] behind ids[n], before an id is drawn from them; NULL = nobody looks. */
    void (*see)(void *ctx, const struct source_row *row, const tok_id *ids, uint32_t n, const float *logits);
    void *ctx;
};

/* Before the first row. Measures the model again, by the other clock. */
void source_draft_tune(struct source *s, const struct source_draft_tuning *tuning);

/* Aborts when blocks, references and sequences do not add up; how many sequences rows have. */
uint32_t source_draft_verify(const struct source *s);

#endif

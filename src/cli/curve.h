/*
 * curve: the cost curve of a model on this machine, measured (`ffwd info --cost`), and as a file (`--cost-file`), which
 * freezes it: then scheduling depends on no clock.
 *
 * The file is the object that `info --cost --json` prints; of it, "points" ([{tokens, ms}], ascending) and
 * "head_ms_per_position" must be there, "attention_ms_per_mkey" and "decode_attention_ms_per_mkey" may.
 */
#ifndef CLI_CURVE_H
#define CLI_CURVE_H

#include <jansson.h>

#include "api/api.h"
#include "engine/engine.h"

/* Real steps of 1 to 1024 ids. Takes seconds to a minute; shows progress. */
MUST_CHECK enum status curve_sweep(const struct api_model *m, struct engine_cost *c, struct err *e);

/* What the file says or, without one (path NULL), a guess from this machine's figures (machine.h), not frozen. */
MUST_CHECK enum status curve_choose(const char *path, const struct api_model *m, struct engine_cost *c, struct err *e);

MUST_CHECK enum status curve_read(const char *path, struct engine_cost *c, struct err *e);
json_t *curve_json(const struct engine_cost *c); /* NULL without memory */

#endif

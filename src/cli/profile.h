/*
 * profile: `ffwd bench --profile`. Rows decode through the engine, with a reader for each, as under a server; what is
 * reported is where the engine's own thread spent its time: forward passes, heads, sampling, and everything else
 * (commands, admission, planning, KV bookkeeping, text, events, waking readers).
 */
#ifndef CLI_PROFILE_H
#define CLI_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "engine/engine.h"

/* Prints and returns the exit status. */
int profile_run(const struct api_model *m, uint32_t rows, uint32_t tokens, enum kern_kv kv, bool json);

#endif

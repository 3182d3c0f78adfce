/* machine: what this machine does at best; see machine.c. */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

#include "engine/engine.h"

struct kern_ops;

/* From the cache folder, or measured now and kept there. Cannot fail. */
void machine_figures(struct pool *workers, const struct kern_ops *ops, struct engine_machine *m);

/* Bytes per second that all workers read together, the best of three passes; 0 without memory. */
double machine_probe_memory(struct pool *workers);

#endif

/* facts: what a server may tell its clients of the model's file. */
#ifndef CLI_FACTS_H
#define CLI_FACTS_H

#include "api/api.h"
#include "server/server.h"

/* Texts live as long as the model. */
void cli_facts(const struct api_model *m, struct server_facts *out);

#endif

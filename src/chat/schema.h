/*
 * schema: what a JSON Schema of a tool's arguments leaves open, as far as it takes to write calls of it.
 */
#ifndef CHAT_SCHEMA_H
#define CHAT_SCHEMA_H

#include <stdint.h>

#include "chat/cut.h"

#define CHAT_SCHEMA_KEYS 32u  /* tools with more are called by name only */
#define CHAT_SCHEMA_VALUES 8u /* values of one key that are all known */

/* How a value begins and ends is all that matters of it. */
enum chat_value {
    CHAT_STRING,
    CHAT_NUMBER,
    CHAT_BOOLEAN,
    CHAT_ARRAY,
    CHAT_OBJECT,
    CHAT_MIXED /* one of several, or unknown */
};

struct chat_key {
    struct cut name; /* with its quotes, as the client wrote it */
    enum chat_value value;
    bool required;
    struct cut values[CHAT_SCHEMA_VALUES]; /* [values_n] all it can be; 0: not so few */
    uint32_t values_n;
};

struct chat_schema {
    struct chat_key keys[CHAT_SCHEMA_KEYS]; /* [keys_n], in the schema's order */
    uint32_t keys_n;
    uint8_t order[CHAT_SCHEMA_KEYS]; /* [keys_n] in which a template writes them: the schema's order, or its own */
    uint8_t place[CHAT_SCHEMA_KEYS]; /* [keys_n] of each key in that order */
    bool closed;                     /* no other keys */
    bool whole;                      /* all keys are in `keys` */
};

/* `schema` with n == 0 stands for any object. Never fails: what is not understood is open. */
void chat_schema_read(struct cut schema, struct chat_schema *out);

/* Which keys can follow key `at` (-1: the beginning) where keys come in order, as a set of bits, and whether the arguments
 * may end there. */
uint64_t chat_schema_next(const struct chat_schema *s, int at, bool *end);

/* Keys, their order and so all of the arguments but their values are fixed. */
bool chat_schema_fixed(const struct chat_schema *s);

#endif

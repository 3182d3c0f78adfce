/* ask: see ask.h. */
#include "cli/ask.h"

#include <jansson.h>
#include <stdlib.h>

#define SHARED UINT32_MAX /* in place of a client: the words that all have in common */

/* 128 of them: a word is 7 bits of a draw. */
static const char *const vocabulary[] = {
    "time",  "year",  "people", "way",   "day",    "man",    "thing",  "woman", "life",   "child",  "world", "school",
    "state", "family", "student", "group", "country", "problem", "hand", "part", "place", "case",   "week",  "company",
    "system", "program", "question", "work", "government", "number", "night", "point", "home", "water", "room", "mother",
    "area",  "money", "story",  "fact",  "month",  "lot",    "right",  "study", "book",   "eye",    "job",   "word",
    "business", "issue", "side", "kind", "head",   "house",  "service", "friend", "father", "power", "hour", "game",
    "line",  "end",   "member", "law",   "car",    "city",   "community", "name", "president", "team", "minute", "idea",
    "body",  "back",  "parent", "face",  "others", "level",  "office", "door",  "health", "person", "art",   "war",
    "history", "party", "result", "change", "morning", "reason", "research", "girl", "guy", "moment", "air", "teacher",
    "force", "education", "foot", "boy", "age",    "policy", "music",  "light", "river",  "road",   "field", "paper",
    "king",  "north", "south",  "table", "color",  "tree",   "bird",   "stone", "ship",   "snow",   "green", "black",
    "white", "long",  "small",  "open",  "early",  "strong", "clear",  "late"};
_Static_assert(sizeof vocabulary / sizeof *vocabulary == 128, "a word is 7 bits");

static uint32_t draw(const struct ask *a, uint32_t client, uint32_t turn, uint32_t at)
{
    uint32_t four[4];
    rng_philox(a->seed, (uint64_t)client << 32 | turn, at / 4, four);
    return four[at % 4];
}

static void add_words(const struct ask *a, uint32_t client, uint32_t turn, uint32_t n, struct buf *out)
{
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            buf_add(out, " ", 1);
        buf_adds(out, vocabulary[draw(a, client, turn, i) & 127]);
    }
}

uint32_t ask_words(const struct ask *a, uint32_t client, uint32_t turn)
{
    uint32_t most = (uint32_t)((uint64_t)a->words * a->spread / 100);
    uint32_t low = a->words - most, range = 2 * most + 1;
    uint32_t n = low + draw(a, client, turn, UINT32_MAX) % range;
    return n ? n : 1;
}

enum status ask_body(const struct ask *a, uint32_t client, uint32_t turn, uint32_t words, struct buf *out, struct err *e)
{
    json_t *name = json_string(a->model);
    char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
    json_decref(name);
    buf_clear(out);
    buf_addf(out, "{\"model\":%s,\"stream\":true,\"stream_options\":{\"include_usage\":true},\"temperature\":0,"
             "\"max_tokens\":%u,%s", quoted ? quoted : "\"\"", a->max_tokens, a->ignore_eos ? "\"ignore_eos\":true," : "");
    if (a->each_token)
        buf_adds(out, a->completion ? "\"logprobs\":1," : "\"logprobs\":true,");
    buf_adds(out, a->completion ? "\"prompt\":\"" : "\"messages\":[");
    if (a->shared) {
        buf_adds(out, a->completion ? "" : "{\"role\":\"system\",\"content\":\"");
        add_words(a, SHARED, 0, a->shared, out);
        buf_adds(out, a->completion ? " " : "\"},");
    }
    buf_adds(out, a->completion ? "" : "{\"role\":\"user\",\"content\":\"");
    add_words(a, client, turn, words, out);
    buf_adds(out, a->completion ? "\"}" : "\"}]}");
    bool whole = quoted && !out->failed;
    free(quoted);
    return whole ? ST_OK : err_set(e, ST_NO_MEMORY, "", "no memory for a request of %u words", a->shared + words);
}

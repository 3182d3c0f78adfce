/*
 * cli: the program. One file per verb; main.c finds the verb, opt.c reads its options, load.c opens the model it names.
 *
 * Only this folder prints. stdout carries what was asked for and nothing else; progress, figures and errors go to
 * stderr. Exit status: 0 fine, 1 failed, 2 wrong usage. An error is one sentence.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"
#include "base/base.h"
#include "cli/opt.h"
#include "weights/weights.h"

#define CLI_DEFAULT_MODEL "smollm2"
#define CLI_LIMIT_TEXT (256u << 20) /* bytes of a text to tokenize, score or answer */

/* Each verb: argv[0] is its name. Returns the exit status. */
int verb_run(int argc, char **argv);
int verb_chat(int argc, char **argv);
int verb_serve(int argc, char **argv);
int verb_explain(int argc, char **argv);
int verb_pull(int argc, char **argv);
int verb_ls(int argc, char **argv);
int verb_rm(int argc, char **argv);
int verb_bench(int argc, char **argv);
int verb_bench_load(int argc, char **argv); /* `ffwd bench load`; argv[0] is "load" */
int verb_bench_replay(int argc, char **argv);
int verb_perplexity(int argc, char **argv);
int verb_tokenize(int argc, char **argv);
int verb_template(int argc, char **argv);
int verb_info(int argc, char **argv);
int verb_fit(int argc, char **argv);
int verb_quantize(int argc, char **argv);
int verb_logits(int argc, char **argv);

/* --- options that many verbs share ------------------------------------------------------------------------------------ */

#define CLI_OPT_MODEL(S) \
    {"model", 'm', OPT_STR, offsetof(S, model), 0, 0, "FILE", \
     "model file (GGUF), a name that `ffwd pull` knows, or one of the cache"}
#define CLI_OPT_MODEL_OR_DEFAULT(S) \
    {"model", 'm', OPT_STR, offsetof(S, model), 0, 0, "FILE", \
     "model file (GGUF), a name that `ffwd pull` knows, or one of the cache (" CLI_DEFAULT_MODEL ")"}
#define CLI_OPT_THREADS(S) \
    {"threads", 't', OPT_U32, offsetof(S, threads), 1, LIMIT_THREADS, "N", \
     "worker threads (default: the cores of one memory node; more than it has are spread over all nodes)"}
#define CLI_OPT_PACKED(S) \
    {"no-packed-cache", 0, OPT_FLAG, offsetof(S, no_packed_cache), 0, 0, NULL, \
     "pack the weights anew, and do not keep them for the next start (FFWD_PACKED_CACHE=off does it always)"}
#define CLI_OPT_CTX(S) \
    {"ctx", 'c', OPT_U32, offsetof(S, ctx), 1, LIMIT_CONTEXT, "N", \
     "longest sequence in tokens (default: what the model and memory allow)"}
#define CLI_OPT_KV(S) {"kv", 0, OPT_CHOICE, offsetof(S, kv), 0, 0, "f16|f32", "how keys and values are stored (f16)"}
#define CLI_OPT_JSON(S) {"json", 0, OPT_FLAG, offsetof(S, json), 0, 0, NULL, "print one JSON object and nothing else"}

/* --- the model (load.c) ----------------------------------------------------------------------------------------------- */

/* Opens the model that -m names: a file, else a known name, which is fetched when it is not in the cache, else a model of
 * the cache (cached.h). NULL means CLI_DEFAULT_MODEL. Packed weights are kept in the cache unless `fresh` or
 * FFWD_PACKED_CACHE says otherwise. `want` is of enum api_want. Shows progress on a terminal. */
MUST_CHECK enum status cli_load(struct api_model *out, const char *model, uint32_t threads, unsigned want, bool fresh,
                                struct err *e);

/* The path of the file that it would open; a known model is fetched when it is not in the cache. */
MUST_CHECK enum status cli_model_path(const char *model, char *path, size_t cap, struct err *e);

/* Where its packed weights came from: "found" in the cache, "kept" there for the next start, or "packed" for this process
 * alone. */
const char *cli_panels(enum packed_origin origin);

/* A whole file, or stdin when path is NULL, up to `limit` bytes. */
MUST_CHECK enum status cli_read(const char *path, size_t limit, struct buf *out, struct err *e);

/* --- the cache folder (cache.c) --------------------------------------------------------------------------------------- */

/* The path of a folder in it, "models", which need not be there yet. */
MUST_CHECK enum status cli_cache_dir(const char *sub, char *out, size_t cap, struct err *e);

/* Makes a folder and those above it; changes `path` meanwhile. */
MUST_CHECK enum status cli_make_dirs(char *path, struct err *e);

MUST_CHECK enum status cli_join(char *out, size_t cap, const char *dir, const char *file, struct err *e);

/* --- output (out.c) --------------------------------------------------------------------------------------------------- */

/* Prints the sentence and returns 1. */
int cli_fail(const struct err *e);

/* Writes what stdout still holds: 0, or says what went wrong and returns 1. Every verb's last call. */
int cli_flush(void);

/* Writes to stdout at once. A failure shows in cli_broken() and is reported by cli_flush(). */
void cli_write(const char *text, size_t n);
bool cli_broken(void);

/* Prints `root` on one line, drops the reference and flushes. NULL counts as no memory. */
int cli_print_json(json_t *root);

/* A JSON array of n ids; NULL without memory. */
json_t *cli_json_ids(const tok_id *ids, size_t n);

/* Seconds since the process began. */
double cli_seconds(void);

/* Progress on a line of its own that is written over; nothing unless stderr is a terminal. "" wipes it. */
void cli_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* --- signals (out.c) -------------------------------------------------------------------------------------------------- */

/* From now on the first SIGINT or SIGTERM sets a flag; one that comes half a second later or more ends the process. */
void cli_catch_signals(void);
bool cli_interrupted(void);
bool cli_terminated(void);    /* by SIGTERM */
void cli_rearm_signals(void); /* forgets the flag */

/* Called by main() before anything else. */
void cli_begin(void);

#endif

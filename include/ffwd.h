/*
 * ffwd: language models on the CPU, as a library.
 *
 * An engine is one open model and the thread that runs it; any number of requests share it. A request is a list of token
 * ids in, a stream of events out. Turning text or a conversation into ids is a separate, optional call, so a program
 * that has ids needs neither.
 *
 *     ffwd_error err;
 *     ffwd_engine *en = ffwd_open("model.gguf", NULL, &err);
 *     ffwd_encode(en, "Once upon a time", 16, FFWD_BOS, &ids, &n, &err);
 *     ffwd_params p;
 *     ffwd_params_init(&p);
 *     p.prompt = ids, p.prompt_n = n;
 *     ffwd_request *rq = ffwd_start(en, &p, &err);
 *     ffwd_event ev = {0};
 *     while (ev.kind != FFWD_END && ffwd_next(rq, &ev, -1) == 1)
 *         fwrite(ev.text, 1, ev.text_n, stdout);
 *     ffwd_finish(rq, NULL);
 *
 * Threads: an engine may be used from any number of threads; a request from one at a time, except that ffwd_cancel() may
 * be called from anywhere. Failures: functions that can fail fill the ffwd_error, which may be NULL. Nothing here
 * prints, exits, or changes the process's signals or locale.
 */
#ifndef FFWD_H
#define FFWD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FFWD_VERSION "0.1.0"

/* The library's version, which may differ from the header's FFWD_VERSION. */
const char *ffwd_version(void);

typedef struct ffwd_engine ffwd_engine;
typedef struct ffwd_request ffwd_request;

/* What went wrong. New codes may be added. */
enum ffwd_code {
    FFWD_OK = 0,
    FFWD_ARGUMENT = 1,    /* a value is out of range or malformed */
    FFWD_TOO_LONG = 2,    /* prompt or text beyond a limit */
    FFWD_BUSY = 3,        /* too many requests wait: try again after retry_after seconds */
    FFWD_NEVER_FITS = 4,  /* would not fit even on an idle machine */
    FFWD_UNSUPPORTED = 5, /* well-formed, but not something this build or model can do */
    FFWD_MODEL = 6,       /* the model file is foreign, truncated or inconsistent */
    FFWD_IO = 7,          /* the operating system refused */
    FFWD_NO_MEMORY = 8,
    FFWD_CANCELLED = 9,
    FFWD_DEADLINE = 10,
    FFWD_STEP_FAILED = 11, /* the model produced values that are not finite */
    FFWD_BUG = 12
};

typedef struct ffwd_error {
    int code;        /* of enum ffwd_code */
    char field[64];  /* the option, file or JSON path the text is about, or "" */
    char text[256];  /* one sentence */
    int retry_after; /* seconds; 0 = not a matter of time */
} ffwd_error;

/* --- engines ---------------------------------------------------------------------------------------------------------- */

typedef struct ffwd_options {
    int threads;        /* 0 = the cores of one memory node; more than it has are spread over all nodes */
    uint32_t context;   /* longest sequence in tokens; 0 = what the model and memory allow */
    uint32_t rows;      /* requests that run at the same time; 0 = 8 */
    uint64_t kv_budget; /* bytes for keys and values; 0 = from free memory */
    int kv_f32;         /* keys and values as 32-bit floats instead of 16-bit */
    uint32_t itl_ms;    /* how long a step may take while requests decode: prompts of others are cut to fit; 0 = 50 */
    int no_prefix_cache; /* nothing is reused between requests */

    /* A folder in which the packed weights of large models are kept, so that the next process starts several times as
     * fast: it is made if the one above it is there, and may be shared by any number of processes. Nothing is kept where
     * the file system does not map files in huge pages (ext4 does from Linux 6.16 on). NULL = nothing is kept. What goes
     * wrong with it never fails ffwd_open(). */
    const char *packed_cache;
    /* All its files together; 0 = 20 GiB, or a quarter of what they take and the disk has free, if that is less. */
    uint64_t packed_cache_bytes;
} ffwd_options;

/* Everything at its default. Call it before setting members: later versions may add some. */
void ffwd_options_init(ffwd_options *o);

/* Opens a GGUF file (any part of a split one). `options` may be NULL. NULL on failure. */
ffwd_engine *ffwd_open(const char *path, const ffwd_options *options, ffwd_error *err);

/* Every request must have been given to ffwd_finish() before. NULL is fine. */
void ffwd_close(ffwd_engine *en);

uint32_t ffwd_context(const ffwd_engine *en); /* longest sequence in tokens */
uint32_t ffwd_vocab(const ffwd_engine *en);   /* ids are 0 .. ffwd_vocab() - 1 */
int ffwd_is_eos(const ffwd_engine *en, int32_t id);

/* --- text and chat, both optional ------------------------------------------------------------------------------------- */

enum ffwd_encode_flags {
    FFWD_PLAIN = 0,
    FFWD_TRUSTED = 1, /* control tokens written in the text are meant; never for text from outside */
    FFWD_BOS = 2      /* begin as the model's metadata says */
};

/* Each returns an enum ffwd_code. On FFWD_OK the array or string belongs to the caller, who gives it to ffwd_free(); on
 * failure it is NULL and the count 0. */

/* n bytes of UTF-8 to token ids. */
int ffwd_encode(const ffwd_engine *en, const char *text, size_t n, unsigned flags, int32_t **ids, size_t *count,
                ffwd_error *err);

/* A conversation to the ids of a prompt, through the model's chat template. `json` is an array of messages or an object
 * with `messages` and, if wanted, `tools` and `chat_template_kwargs`, as OpenAI's chat API spells them. Control tokens
 * written in message text do not become control ids. */
int ffwd_chat_encode(const ffwd_engine *en, const char *json, size_t n, int32_t **ids, size_t *count,
                     ffwd_error *err);

/* Token ids to n bytes of UTF-8 and a NUL; control tokens appear only if `special`. */
int ffwd_decode(const ffwd_engine *en, const int32_t *ids, size_t count, int special, char **text, size_t *n,
                ffwd_error *err);

void ffwd_free(void *p);

/* --- requests --------------------------------------------------------------------------------------------------------- */

typedef struct ffwd_bias {
    int32_t id;
    float bias; /* [-100, 100], added to the id's logit; -100 = never */
} ffwd_bias;

typedef struct ffwd_params {
    const int32_t *prompt; /* copied by ffwd_start(), like everything here */
    size_t prompt_n;       /* at least 1 */
    uint32_t max_tokens;   /* 0 = the rest of the context */
    float temperature;     /* 0 = always the likeliest token */
    float top_p;           /* 1 = off */
    float min_p;           /* 0 = off */
    uint32_t top_k;        /* 0 = off */
    float repeat_penalty;  /* 1 = off */
    uint64_t seed;         /* the same seed gives the same ids, whatever else runs */
    const char *const *stop; /* texts that end the reply and are not part of it */
    size_t stop_n;
    int ignore_eos;        /* go on past end tokens */
    int special;           /* control tokens appear in the text */
    int logprobs;          /* events carry the chosen token's log-probability */

    /* Further samplers: off, as ffwd_params_init() leaves them. */
    const ffwd_bias *logit_bias;
    size_t logit_bias_n;      /* at most 1024 */
    float presence_penalty;   /* [-2, 2], once for each id of prompt and reply; 0 = off */
    float frequency_penalty;  /* [-2, 2], for each time it occurred; 0 = off */
    uint32_t penalty_last;    /* ids that these and repeat_penalty look back at; 0 = all */
    float dry_multiplier;     /* penalty on going on with a repeat; 0 = off */
    float dry_base;           /* multiplier × base^(length - allowed) */
    uint32_t dry_allowed_length;
    uint32_t dry_last;        /* ids looked back at; 0 = all */
    const char *const *dry_breakers; /* texts that end repeats; NULL = newline, colon, quote, asterisk */
    size_t dry_breakers_n;
    float top_n_sigma;        /* standard deviations below the largest logit; 0 = off */
    float typical_p;          /* 1 = off */
    float xtc_probability;    /* 0 = off */
    float xtc_threshold;
    float dynatemp_range;     /* temperature ± this, by entropy; 0 = off */
    float dynatemp_exponent;
    uint32_t mirostat;        /* 1 or 2, instead of the cuts; 0 = off */
    float mirostat_tau, mirostat_eta;
    const char *const *samplers; /* the order of "penalties", "dry", "top_n_sigma", "top_p", "min_p", "typ_p", "xtc", */
    size_t samplers_n;        /* "top_k", "temperature"; 0 = this one. What is set but left out is an error */
    uint32_t min_tokens;      /* no end token before this many */

    /* How it is served. */
    int32_t priority;         /* lower goes first, [-100, 100]; 0 is usual */
    uint32_t deadline_ms;     /* from here to the end, else it fails with FFWD_DEADLINE; 0 = none */
    const void *cache_salt;   /* prefixes are shared only between requests of equal salts; NULL = the common one */
    size_t cache_salt_n;      /* bytes, at most 256 */
} ffwd_params;

void ffwd_params_init(ffwd_params *p);

/* NULL on failure. Otherwise ffwd_finish() must be called, before ffwd_close(). */
ffwd_request *ffwd_start(ffwd_engine *en, const ffwd_params *p, ffwd_error *err);

enum ffwd_event_kind {
    FFWD_TOKEN = 1, /* a token was chosen; text that became certain comes with it, never half a character */
    FFWD_TEXT = 2,  /* more text of the last token */
    FFWD_END = 3    /* the last event; text that was held back comes with it */
};

typedef struct ffwd_event {
    int kind;
    int32_t id;       /* of FFWD_TOKEN; -1 otherwise */
    const char *text; /* text_n bytes and a NUL, valid until the next call for this request */
    size_t text_n;
    float logprob;    /* 0 unless asked for */
} ffwd_event;

/* Waits up to timeout_ms (-1 = without limit, 0 = not at all) for the next event. 1: *ev is it; 0: none came. After
 * FFWD_END every call returns FFWD_END again, without text. */
int ffwd_next(ffwd_request *rq, ffwd_event *ev, int timeout_ms);

/* Asks for an early end; FFWD_END still comes. */
void ffwd_cancel(ffwd_request *rq);

enum ffwd_finish_reason { FFWD_STOP = 1, FFWD_LENGTH = 2, FFWD_FAILED = 3, FFWD_ABORTED = 4 };

typedef struct ffwd_result {
    int finish;       /* of enum ffwd_finish_reason */
    ffwd_error error; /* code FFWD_OK unless finish is FFWD_FAILED or FFWD_ABORTED */
    uint32_t prompt_tokens, completion_tokens, cached_tokens;
    double prefill_seconds, decode_seconds;
    int kv_exhausted; /* FFWD_LENGTH because memory for keys and values ran out, not because of a limit */
} ffwd_result;

/* Gives the request up, cancelling it if it still runs, and frees it. `out` may be NULL. NULL request is fine. */
void ffwd_finish(ffwd_request *rq, ffwd_result *out);

#ifdef __cplusplus
}
#endif
#endif

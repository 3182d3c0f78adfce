/*
 * err: the one error type.
 *
 * Every function that can fail returns `enum status` and takes a caller-owned `struct err *`, which it fills when (and
 * only when) the status is not ST_OK. The text is one plain sentence that names the file or field and says what was
 * expected. Only server/ turns codes into HTTP statuses; only cli/ prints.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>

enum status {
    ST_OK = 0,
    ST_ARGUMENT,    /* a field or option has a wrong type or value */
    ST_TOO_LONG,    /* prompt or body beyond a stated limit */
    ST_BUSY,        /* the queue is full; retry_after says when to come back */
    ST_NEVER_FITS,  /* would not fit even on an idle machine */
    ST_UNSUPPORTED, /* well-formed, but not something this build or model can do */
    ST_MODEL,       /* the model file is foreign, truncated or inconsistent */
    ST_IO,          /* the operating system refused: errno is in the text */
    ST_NO_MEMORY,
    ST_CANCELLED,
    ST_DEADLINE,
    ST_STEP_FAILED, /* the forward failed for this row (non-finite activations) */
    ST_BUG,
    ST_COUNT
};

#define ERR_FIELD 64
#define ERR_TEXT 256

struct err {
    enum status code;
    char field[ERR_FIELD]; /* the JSON path, option or file the text is about, or "" */
    char text[ERR_TEXT];
    int retry_after; /* seconds; 0 = not a matter of time */
};

#define MUST_CHECK __attribute__((warn_unused_result))

/* Fills `e` (which may be NULL) and returns `code`, so that a failure is one line: `return err_set(e, ST_IO, path, …);` */
enum status err_set(struct err *e, enum status code, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* As err_set(), with ": <strerror(errno)>" appended. */
enum status err_errno(struct err *e, enum status code, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* A short stable name ("too_long") for logs and machine-readable replies. */
const char *status_name(enum status code);

/* Returns the status of `x` from the enclosing function unless it is ST_OK. */
#define TRY(x)                          \
    do {                                \
        enum status try_status_ = (x);  \
        if (try_status_ != ST_OK)       \
            return try_status_;         \
    } while (0)

/* A broken invariant: prints where and what, and aborts. Never for bad input. */
#define BUG(...) bug_abort(__FILE__, __LINE__, __VA_ARGS__)
_Noreturn void bug_abort(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif

/*
 * format_told: what a recogniser tells, as one line of text, for tests to compare.
 *
 *     R{reasoning} C{content} [name arguments] and [name arguments! for a call that broke
 */
#ifndef FORMAT_TOLD_H
#define FORMAT_TOLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "format/format.h"

/* How calls are written. */
#define HERMES(name, args) "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " args "}\n</tool_call>"
#define XML(name, pairs) "<tool_call>\n<function=" name ">\n" pairs "</function>\n</tool_call>"
#define PAIR(k, v) "<parameter=" k ">\n" v "\n</parameter>\n"
#define GLM(name, pairs) "<tool_call>" name "\n" pairs "</tool_call>"
#define ARG(k, v) "<arg_key>" k "</arg_key>\n<arg_value>" v "</arg_value>\n"
#define DS(name, args) "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" name "\n```json\n" args "\n```<｜tool▁call▁end｜>"
#define DS31(name, args) "<｜tool▁call▁begin｜>" name "<｜tool▁sep｜>" args "<｜tool▁call▁end｜>"
#define BEGIN "<｜tool▁calls▁begin｜>"
#define ENDS "<｜tool▁calls▁end｜>"
#define D "｜DSML｜"
#define INVOKE(name, p) "<" D "invoke name=\"" name "\">\n" p "</" D "invoke>\n"
#define PARAM(k, s, v) "<" D "parameter name=\"" k "\" string=\"" s "\">" v "</" D "parameter>\n"

#define TOOL(n, s) {n, sizeof n - 1, s, sizeof s - 1}

struct told {
    struct buf text, arguments; /* all that was told; of the latest call */
    enum recogniser_kind last;
    bool any;
    uint32_t begun, ended, broken;
    uint64_t from, at; /* of the latest BEGIN, END or BROKEN */
};

static inline void told_init(struct told *t)
{
    memset(t, 0, sizeof *t);
    buf_init(&t->text, 1 << 22);
    buf_init(&t->arguments, 1 << 22);
}

static inline void told_release(struct told *t)
{
    buf_release(&t->text);
    buf_release(&t->arguments);
}

/* The arguments of a complete call are a JSON object. (jansson refuses three things that RFC 8259 lets be: half
 * surrogate pairs, keys with a NUL, and numbers that fit no double or 64-bit integer. Damaged UTF-8 stays so.) */
static inline void told_check(struct told *t)
{
    json_error_t bad;
    json_t *j = json_loadb(t->arguments.data, t->arguments.len, JSON_ALLOW_NUL, &bad);
    if (!j && !strstr(bad.text, "Unicode") && !strstr(bad.text, "overflow") && !strstr(bad.text, "too big") &&
        !strstr(bad.text, "decode") && !strstr(bad.text, "NUL byte in object key"))
        fail_msg("arguments %.*s: %s", (int)t->arguments.len, t->arguments.data, bad.text);
    assert_true(!j || json_is_object(j));
    json_decref(j);
}

static inline void told_close(struct told *t)
{
    if (t->any && (t->last == RECOGNISER_CONTENT || t->last == RECOGNISER_REASONING))
        buf_adds(&t->text, "}");
    t->any = false;
}

static inline void told_sink(void *user, const struct recogniser_event *ev)
{
    struct told *t = user;
    if (!t->any || t->last != ev->kind) {
        told_close(t);
        if (ev->kind == RECOGNISER_CONTENT)
            buf_adds(&t->text, "C{");
        else if (ev->kind == RECOGNISER_REASONING)
            buf_adds(&t->text, "R{");
    }
    if (ev->kind == RECOGNISER_BEGIN) {
        buf_adds(&t->text, "[");
        buf_clear(&t->arguments);
        t->begun++;
    }
    buf_add(&t->text, ev->text, ev->n);
    if (ev->kind == RECOGNISER_ARGUMENTS)
        buf_add(&t->arguments, ev->text, ev->n);
    if (ev->kind == RECOGNISER_END)
        told_check(t);
    if (ev->kind == RECOGNISER_BEGIN)
        buf_adds(&t->text, " ");
    else if (ev->kind == RECOGNISER_END)
        buf_adds(&t->text, "]");
    else if (ev->kind == RECOGNISER_BROKEN)
        buf_adds(&t->text, "!");
    t->ended += ev->kind == RECOGNISER_END;
    t->broken += ev->kind == RECOGNISER_BROKEN;
    if (ev->kind == RECOGNISER_BEGIN || ev->kind == RECOGNISER_END || ev->kind == RECOGNISER_BROKEN)
        t->from = ev->from, t->at = ev->at;
    t->last = ev->kind;
    t->any = true;
}

static inline const char *told_text(struct told *t)
{
    told_close(t);
    return t->text.data ? t->text.data : "";
}

#endif

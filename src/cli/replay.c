/*
 * bench replay: what fast-forwarding saves on recorded conversations, with any model: the reply's ids are imposed, so a
 * model of random weights serves as well as one that would have written them.
 *
 * A class of conversations is run in groups of --batch. Within a pair each group is run in every mode in turn, in one order
 * and the next time in the other, so that what the machine does meanwhile meets all modes alike.
 */
#include "cli/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/chat.h"
#include "cli/asked.h"
#include "cli/cli.h"
#include "cli/curve.h"
#include "cli/replay_ask.h"
#include "cli/sources.h"
#include "model/model.h"
#include "weights/weights.h"

#define SLACK 64u              /* positions beyond the longest sequence: a kept prompt's last block is copied, not shared */

struct options {
    const char *model, *template, *cost_file, *sources;
    uint32_t batch, limit, repeat, threads, kv, fill;
    bool each, json, no_packed_cache;
    struct opt_list files, classes;
};

static const struct opt opts[] = {
    {NULL, 0, OPT_LIST, offsetof(struct options, files), 0, 0, "FILE.jsonl", "the recorded conversations"},
    CLI_OPT_MODEL(struct options),
    {"chat-template", 0, OPT_STR, offsetof(struct options, template), 0, 0, "FILE",
     "a chat template in place of the model's own, for instance one that shows tools"},
    {"batch", 0, OPT_U32, offsetof(struct options, batch), 1, LIMIT_ROWS, "N", "requests at a time (1)"},
    {"repeat", 0, OPT_U32, offsetof(struct options, repeat), 1, LIMIT_REPLAY_PAIRS, "N",
     "pairs of runs, off and on; the medians of their ratios count (5)"},
    {"limit", 0, OPT_U32, offsetof(struct options, limit), 1, LIMIT_REPLAY_LINES, "N",
     "at most the first N conversations of each class"},
    {"class", 0, OPT_LIST, offsetof(struct options, classes), 0, 0, "NAME", "only this class; may be given several times"},
    {"sources", 0, OPT_STR, offsetof(struct options, sources), 0, 0, "LIST",
     "what is on while fast-forwarding is, separated by commas: grammar, grammar_likely, template, echo, ngram (all)"},
    {"each", 0, OPT_FLAG, offsetof(struct options, each), 0, 0, NULL, "also run each of these sources alone"},
    {"fill", 0, OPT_CHOICE, offsetof(struct options, fill), 0, 0, "lossless|strict",
     "lossless (the default), or strict: what the chat template determines is taken without being compared"},
    {"cost-file", 0, OPT_STR, offsetof(struct options, cost_file), 0, 0, "FILE",
     "what steps cost, as `info --cost --json` printed it; not corrected by real steps"},
    CLI_OPT_THREADS(struct options),
    CLI_OPT_PACKED(struct options),
    CLI_OPT_KV(struct options),
    CLI_OPT_JSON(struct options),
};
static const struct opt_verb verb = {
    "bench replay",
    "Times recorded conversations with fast-forwarding off and on. Each line of the file is {class, messages, tools, "
    "tool_choice, response_format, reply}: the model is taken to write the reply; every forward pass is made. Times are of "
    "decoding, from the first token on: prompts are fed beforehand. Ratios are on / off, so less is better: of the time, "
    "of the forward passes, and of the cost that the engine's cost curve predicts for them. JSON: {model, isa, threads, "
    "batch, pairs, fill, cost, classes: {NAME: {lines, left_out, tokens, ratio_time, ratio_time_range, ratio_steps, "
    "ratio_cost, off: "
    "{seconds, forwards, head_positions, computed, sampled, prompt_fed}, on: {the same}, by_source: {NAME: {proposed, "
    "accepted, rejected, asserted, alone: {the same as off, and ratios}}}}}}; alone with --each.",
    "FILE.jsonl -m FILE [OPTIONS]", opts, sizeof opts / sizeof *opts};

struct job {
    const struct options *o;
    const char *name; /* of the file */
    struct api_model m;
    struct replay_lines lines;
    struct buf template_text; /* of --chat-template */
    struct server *server;    /* takes lines as requests */
    struct replay_item *item; /* [lines.n] */
    uint32_t items, longest;  /* ids of prompt and reply */
    uint32_t left_out[LIMIT_REPLAY_CLASSES]; /* lines whose requests do not allow their replies */
    struct err left_why;      /* of the first of them */
    struct replay_mode mode[REPLAY_MODES];
    enum source_kind alone[SOURCE_KINDS];
    struct replay_run run;
    struct replay_class cls[LIMIT_REPLAY_CLASSES];
    uint32_t classes;
};

/* --- from lines to ids ----------------------------------------------------------------------------------------------- */

/* The id that the chat template puts after a reply, or else the one that the file names first. */
static tok_id end_of_turn(const struct api_model *m)
{
    static const char probe[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}";
    const struct chat_options co = {.no_generation = true};
    tok_id *ids, end = tok_eos_main(m->tok);
    size_t n;
    if (chat_prompt(m->chat, probe, sizeof probe - 1, &co, &ids, &n, NULL) != ST_OK)
        return end;
    for (size_t i = n; i-- > 0;) {
        if (tok_is_eos(m->tok, ids[i])) {
            end = ids[i];
            break;
        }
    }
    tok_ids_free(ids, n);
    return end;
}

static enum status encode_reply(const struct api_model *m, tok_id end, struct replay_item *it, struct err *e)
{
    tok_id *ids;
    size_t n;
    TRY(tok_encode(m->tok, it->line->reply, it->line->reply_n, TOK_TRUSTED | TOK_INNER, &ids, &n, e));
    enum status st = ST_OK;
    for (size_t i = 0; i < n && st == ST_OK; i++)
        if (tok_is_eos(m->tok, ids[i]))
            st = err_set(e, ST_ARGUMENT, "reply", "reply holds what ends a turn, as its token %zu", i);
    it->reply = st == ST_OK ? malloc((n + 1) * sizeof *it->reply) : NULL;
    if (st == ST_OK && !it->reply)
        st = err_set(e, ST_NO_MEMORY, "reply", "no memory for a reply of %zu tokens", n);
    if (st == ST_OK) {
        memcpy(it->reply, ids, n * sizeof *ids);
        it->reply[n] = end;
        it->reply_n = n + 1;
    }
    tok_ids_free(ids, n);
    return st;
}

static enum status encode(const struct job *j, tok_id end, struct replay_item *it, struct err *e)
{
    TRY(encode_reply(&j->m, end, it, e));
    TRY(replay_ask(j->server, it, e));
    uint32_t context = model_info(j->m.model)->context;
    if (it->prompt_n + it->reply_n > context)
        return err_set(e, ST_NEVER_FITS, "", "a prompt of %zu tokens and a reply of %zu exceed the model's context of %u",
                       it->prompt_n, it->reply_n, context);
    return ST_OK;
}

static void release_item(struct replay_item *it)
{
    free(it->prompt);
    free(it->reply);
    grammar_free(it->grammar);
    template_rows_free(it->rows);
    *it = (struct replay_item){0};
}

/* False: an error; or, with e->code ST_OK, the line is left out because its request does not allow its reply. */
static bool take_line(struct job *j, tok_id end, struct replay_item *it, struct err *e)
{
    struct err why = {0};
    *e = (struct err){0};
    enum status st = encode(j, end, it, &why);
    if (st == ST_OK)
        return true;
    bool left_out = st == ST_UNSUPPORTED && strcmp(why.field, "reply") == 0;
    if (!left_out || j->left_why.code == ST_OK)
        (void)err_set(left_out ? &j->left_why : e, st, why.field, "%.80s: line %u: %.150s", j->name, it->line->number,
                      why.text);
    return false;
}

static bool is_wanted(const struct job *j, const char *cls)
{
    const struct opt_list *want = &j->o->classes;
    for (uint32_t i = 0; i < want->n; i++)
        if (strcmp(want->item[i], cls) == 0)
            return true;
    return want->n == 0;
}

static enum status encode_all(struct job *j, struct err *e)
{
    uint32_t taken[LIMIT_REPLAY_CLASSES] = {0};
    tok_id end = end_of_turn(&j->m);
    if (end == TOK_NONE)
        return err_set(e, ST_UNSUPPORTED, "", "%.200s: no token of the vocabulary ends a reply",
                       weights_path(j->m.weights));
    j->item = calloc(j->lines.n, sizeof *j->item);
    if (!j->item)
        return err_set(e, ST_NO_MEMORY, "", "no memory for %u conversations", j->lines.n);
    for (uint32_t i = 0; i < j->lines.n; i++) {
        const struct replay_line *l = &j->lines.line[i];
        struct replay_item *it = &j->item[j->items];
        if (!is_wanted(j, j->lines.cls[l->cls]) || (j->o->limit && taken[l->cls] == j->o->limit))
            continue;
        j->items++; /* from here on it is released */
        it->line = l;
        if (!take_line(j, end, it, e)) {
            if (e->code != ST_OK)
                return e->code;
            j->left_out[l->cls]++;
            release_item(it);
            j->items--;
            continue;
        }
        taken[l->cls]++;
        uint32_t n = (uint32_t)(it->prompt_n + it->reply_n);
        j->longest = n > j->longest ? n : j->longest;
        cli_progress("encoding: line %u", l->number);
        if (cli_interrupted())
            return err_set(e, ST_CANCELLED, "", "interrupted");
    }
    return ST_OK;
}

/* --- modes ----------------------------------------------------------------------------------------------------------- */

static void make_modes(struct job *j, uint32_t on)
{
    enum fill_mode fill = j->o->fill ? FILL_STRICT : FILL_LOSSLESS;
    j->mode[REPLAY_OFF] = (struct replay_mode){"off", FILL_OFF, SOURCES_ALL};
    j->mode[REPLAY_ON] = (struct replay_mode){"on", fill, SOURCES_ALL & ~on};
    j->run.modes = REPLAY_EACH;
    for (unsigned k = 0; k < SOURCE_KINDS && j->o->each; k++) {
        if (!(on >> k & 1))
            continue;
        j->alone[j->run.modes - REPLAY_EACH] = (enum source_kind)k;
        j->mode[j->run.modes++] = (struct replay_mode){source_name((enum source_kind)k), fill, SOURCES_ALL & ~(1u << k)};
    }
    j->run.mode = j->mode;
    j->run.batch = j->o->batch;
}

/* --- running --------------------------------------------------------------------------------------------------------- */

/* Replies of a group should end at about the same time: otherwise the last of them runs alone. */
static int by_length(const void *pa, const void *pb)
{
    const struct replay_item *a = *(const struct replay_item *const *)pa, *b = *(const struct replay_item *const *)pb;
    if (a->reply_n != b->reply_n)
        return a->reply_n < b->reply_n ? -1 : 1;
    return a->line->number < b->line->number ? -1 : a->line->number > b->line->number;
}

/* One group in every mode of `modes`, in one order or the other. */
static enum status run_modes(const struct job *j, const struct replay_item *const *items, uint32_t n, uint32_t modes,
                             bool backwards, struct replay_total *totals, struct err *e)
{
    TRY(replay_run_warm(&j->run, items, n, e));
    for (uint32_t k = 0; k < j->run.modes; k++) {
        uint32_t mode = backwards ? j->run.modes - 1 - k : k;
        if (modes >> mode & 1)
            TRY(replay_run_group(&j->run, items, n, mode, &totals[mode], e));
    }
    return ST_OK;
}

/* Which modes say something about a class: off, on, and each source alone that its requests have. */
static uint32_t useful_modes(const struct job *j, uint32_t sources_on)
{
    uint32_t modes = 1u << REPLAY_OFF | 1u << REPLAY_ON;
    for (uint32_t m = REPLAY_EACH; m < j->run.modes; m++)
        if (sources_on >> j->alone[m - REPLAY_EACH] & 1)
            modes |= 1u << m;
    return modes;
}

static enum status run_class(const struct job *j, struct replay_class *c, const struct replay_item *const *items,
                             struct err *e)
{
    struct replay_total first[REPLAY_MODES] = {0};
    uint32_t batch = j->o->batch, n = c->lines < batch ? c->lines : batch;
    /* One group that does not count: pages, clocks, and what the engine learns of its steps. */
    TRY(run_modes(j, items, n, 1u << REPLAY_OFF | 1u << REPLAY_ON, false, first, e));
    uint32_t modes = useful_modes(j, first[REPLAY_ON].sources_on);
    for (uint32_t p = 0; p < j->o->repeat; p++) {
        for (uint32_t at = 0, group = 0; at < c->lines; at += n, group++) {
            n = c->lines - at < batch ? c->lines - at : batch;
            cli_progress("%s: pair %u of %u, %u of %u", c->name, p + 1, j->o->repeat, at, c->lines);
            TRY(run_modes(j, items + at, n, modes, (p + group) % 2, &c->totals[(size_t)p * j->run.modes], e));
        }
    }
    return ST_OK;
}

static enum status run_classes(struct job *j, struct err *e)
{
    const struct replay_item **items = malloc((j->items + (size_t)1) * sizeof *items);
    enum status st = items ? ST_OK : err_set(e, ST_NO_MEMORY, "", "no memory for %u conversations", j->items);
    for (uint32_t k = 0; k < j->lines.classes && st == ST_OK; k++) {
        struct replay_class *c = &j->cls[j->classes];
        *c = (struct replay_class){.name = j->lines.cls[k], .left_out = j->left_out[k]};
        for (uint32_t i = 0; i < j->items; i++)
            if (j->item[i].line->cls == k)
                items[c->lines++] = &j->item[i];
        if (!c->lines)
            continue;
        if (j->o->batch > 1)
            qsort(items, c->lines, sizeof *items, by_length);
        c->totals = calloc((size_t)j->o->repeat * j->run.modes, sizeof *c->totals);
        st = c->totals ? run_class(j, c, items, e) : err_set(e, ST_NO_MEMORY, "", "no memory for the results");
        j->classes++; /* its totals are released, run or not */
    }
    free(items);
    return st;
}

static enum status open_engine(struct job *j, struct err *e)
{
    struct engine_cost curve;
    uint32_t most = model_info(j->m.model)->context;
    struct engine_config c = {.model = j->m.model,
                              .tok = j->m.tok,
                              .pool = j->m.pool,
                              .kv_format = j->o->kv ? KERN_KV_F32 : KERN_KV_F16,
                              .context = j->longest + SLACK < most ? j->longest + SLACK : most,
                              .rows = j->o->batch,
                              .queue = j->o->batch};
    TRY(curve_choose(j->o->cost_file, &j->m, &curve, e));
    c.cost = &curve;
    return engine_new(&j->run.en, &c, e);
}

static int report(const struct job *j)
{
    struct engine_row_view none;
    struct engine_view view = {.rows = &none};
    struct err e;
    if (engine_look(j->run.en, &view, &e) != ST_OK)
        return cli_fail(&e);
    struct replay_report r = {.model = &j->m, .mode = j->mode, .alone = j->alone, .modes = j->run.modes,
                              .pairs = j->o->repeat, .batch = j->o->batch, .cls = j->cls, .classes = j->classes,
                              .cost = view.cost};
    return j->o->json ? replay_print_json(&r) : replay_print_plain(&r);
}

/* --- the verb -------------------------------------------------------------------------------------------------------- */

static enum status check_classes(const struct job *j, struct err *e)
{
    for (uint32_t i = 0; i < j->o->classes.n; i++) {
        uint32_t k = 0;
        while (k < j->lines.classes && strcmp(j->lines.cls[k], j->o->classes.item[i]) != 0)
            k++;
        if (k == j->lines.classes)
            return err_set(e, ST_ARGUMENT, "--class", "%.100s: no line has the class \"%.60s\"", j->name,
                           j->o->classes.item[i]);
    }
    return ST_OK;
}

/* The model's chat template or the one given in its place, and a server that takes lines as requests. */
static enum status use_template(struct job *j, struct err *e)
{
    struct err why;
    if (j->o->template) {
        TRY(cli_read(j->o->template, TEXT_LIMIT_TEMPLATE, &j->template_text, e));
        chat_free(j->m.chat);
        j->m.chat = NULL;
        enum status st = chat_new(&j->m.chat, j->m.tok, j->template_text.data, j->template_text.len, &why);
        if (st != ST_OK)
            return err_set(e, st, why.field, "%.100s: %.150s", j->o->template, why.text);
        j->m.chat_err.code = ST_OK; /* whatever the model's own was */
    } else if (j->m.chat_err.code != ST_OK) {
        *e = j->m.chat_err;
        return e->code;
    }
    return asked_server(&j->server, &j->m, NULL, e);
}

static enum status run_all(struct job *j, struct err *e)
{
    struct buf text;
    TRY(cli_read(j->name, LIMIT_REPLAY_BYTES, &text, e));
    TRY(replay_lines_init(&j->lines, &text, j->name, e));
    TRY(check_classes(j, e));
    TRY(cli_load(&j->m, j->o->model, j->o->threads, API_MODEL | API_TOK | API_CHAT, j->o->no_packed_cache, e));
    cli_catch_signals();
    TRY(use_template(j, e));
    TRY(encode_all(j, e));
    if (!j->items) {
        *e = j->left_why; /* there is at least one line, and each was left out */
        return e->code;
    }
    TRY(open_engine(j, e));
    return run_classes(j, e);
}

static void release(struct job *j)
{
    engine_free(j->run.en);
    for (uint32_t i = 0; i < j->classes; i++)
        free(j->cls[i].totals);
    for (uint32_t i = 0; i < j->items; i++)
        release_item(&j->item[i]);
    free(j->item);
    server_stop(j->server, 0);
    buf_release(&j->template_text);
    replay_lines_release(&j->lines);
    api_close(&j->m);
}

int verb_bench_replay(int argc, char **argv)
{
    static struct job j; /* kilobytes of totals' heads */
    struct options o = {.batch = 1, .repeat = 5};
    struct err e = {0};
    uint32_t off;
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (o.files.n != 1)
        return opt_wrong(&verb, o.files.n ? "one FILE.jsonl at a time" : "FILE.jsonl is missing");
    if (!o.model)
        return opt_wrong(&verb, "-m FILE is missing");
    if (!sources_parse(o.sources, &off))
        return opt_wrong(&verb, SOURCES_WRONG, o.sources);
    j = (struct job){.o = &o, .name = o.files.item[0]};
    make_modes(&j, SOURCES_ALL & ~off);
    enum status st = run_all(&j, &e);
    cli_progress("%s", "");
    if (st == ST_OK && j.left_why.code != ST_OK)
        fprintf(stderr, "ffwd: some conversations are left out, for instance %s\n", j.left_why.text);
    status = st == ST_OK ? report(&j) : cli_fail(&e);
    release(&j);
    return status;
}

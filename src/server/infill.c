/* infill: see infill.h. */
#include "server/infill.h"

#include <stdlib.h>
#include <string.h>

struct ids {
    const struct server *s;
    const char *field;
    struct buf list; /* of tok_id */
};

static void put_id(struct ids *to, tok_id id)
{
    if (id != TOK_NONE)
        buf_add(&to->list, &id, sizeof id);
}

/* `inner`: it goes on with a text, so no space is put before it. */
static enum status put(struct ids *to, struct text_view text, bool inner, struct err *e)
{
    tok_id *ids;
    size_t n;
    struct err why;
    if (!text.n)
        return ST_OK;
    if (tok_encode(to->s->tok, text.data, text.n, inner ? TOK_INNER : TOK_PLAIN, &ids, &n, &why) != ST_OK)
        return err_set(e, why.code, to->field, "%s: %s", to->field, why.text);
    buf_add(&to->list, ids, n * sizeof *ids);
    tok_ids_free(ids, n);
    return ST_OK;
}

static enum status put_words(struct ids *to, const char *words, struct err *e)
{
    return put(to, (struct text_view){words, strlen(words)}, false, e);
}

/* Other files, behind their names where the model has a token for that, and the name of the one with the gap, which no
 * request says. */
static enum status put_project(struct ids *to, const struct server_infill *in, struct err *e)
{
    const struct tok_infill *t = tok_infill(to->s->tok);
    put_id(to, t->repo);
    if (t->repo != TOK_NONE)
        TRY(put_words(to, "myproject\n", e));
    for (size_t i = 0; i < in->files_n; i++) {
        put_id(to, t->file);
        if (t->file == TOK_NONE) {
            TRY(put_words(to, "\n\n--- snippet ---\n\n", e));
        } else {
            TRY(put(to, in->files[i].name, false, e));
            TRY(put_words(to, "\n", e));
        }
        TRY(put(to, in->files[i].text, false, e));
    }
    put_id(to, t->file);
    return t->file == TOK_NONE ? ST_OK : put_words(to, "filename\n", e);
}

static enum status put_gap(struct ids *to, const struct server_infill *in, struct err *e)
{
    const struct tok_infill *t = tok_infill(to->s->tok);
    put_id(to, t->prefix);
    TRY(put(to, in->before, false, e));
    TRY(put(to, in->line, in->before.n != 0, e));
    put_id(to, t->suffix);
    TRY(put(to, in->after, true, e));
    put_id(to, t->middle);
    return ST_OK;
}

/* A longer text cannot fit the context; encoding it to find out would take seconds. */
static enum status check_bytes(const struct server *s, const struct server_infill *in, struct err *e)
{
    size_t n = in->before.n + in->after.n + in->line.n;
    for (size_t i = 0; i < in->files_n; i++)
        n += in->files[i].name.n + in->files[i].text.n;
    if (s->prompt_bytes && n > s->prompt_bytes)
        return err_set(e, ST_NEVER_FITS, in->field, "the texts have %zu bytes; at most %zu can fit the context", n,
                       s->prompt_bytes);
    return ST_OK;
}

enum status server_infill(const struct server *s, const struct server_infill *in, struct reply_prompt *p, struct err *e)
{
    const struct tok_infill *t = tok_infill(s->tok);
    struct ids to = {.s = s, .field = in->field};
    if (t->prefix == TOK_NONE || t->suffix == TOK_NONE || t->middle == TOK_NONE)
        return err_set(e, ST_UNSUPPORTED, in->field, "%s: this model has no tokens for filling in a text", in->field);
    TRY(check_bytes(s, in, e));
    buf_init(&to.list, LIMIT_BODY * sizeof(tok_id));
    put_id(&to, tok_adds_bos(s->tok) ? tok_bos(s->tok) : TOK_NONE);
    enum status st = in->project ? put_project(&to, in, e) : ST_OK;
    if (st == ST_OK)
        st = put_gap(&to, in, e);
    if (st == ST_OK && to.list.failed)
        st = err_set(e, ST_NO_MEMORY, in->field, "no memory for the prompt");
    if (st != ST_OK) {
        buf_release(&to.list);
        return st;
    }
    p->ids = (tok_id *)(void *)to.list.data;
    p->n = to.list.len / sizeof(tok_id);
    p->from_tok = false;
    return ST_OK;
}

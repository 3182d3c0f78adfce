/*
 * tiny: see tiny.h. In reading order: the families, the generator, the vocabulary, the metadata, the tensors, the file.
 *
 * tests/golden/families.py and tiny_gguf.py are the same in Python; tests/golden/check_llama.py compares the bytes.
 */
#include "tiny.h"

#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum scaling { PLAIN, LINEAR, YARN, LLAMA3 };

/* What some architectures have and others lack. */
enum {
    BIAS = 1,         /* on Q, K and V */
    QK_NORM = 2,      /* per head, before the rotation */
    SANDWICH = 4,     /* norms after attention and after the FFN as well */
    PERMUTED = 8,     /* Q and K rows in the order of the interleaved rotation */
    TIED = 16,        /* no output.weight: the embedding is the head */
    NO_HEAD_DIM = 32, /* key_length and value_length are left out: the reader divides */
    DENSE = 64,       /* vectors: the mean, through two dense layers; texts end with EOS */
    RANK = 128,       /* classes of a pair of texts */
};

struct family {
    const char *name, *arch;
    uint32_t width, layers, heads, kv_heads, head_dim, ffn, context;
    float eps, theta, theta_swa; /* theta_swa 0: not in the file, readers fall back to 10000 */
    uint32_t window;
    enum scaling scaling;
    float factor;
    uint32_t original; /* context before scaling */
    unsigned has;
};

#define LLAMA_TIED (PERMUTED | TIED)
#define GEMMA (QK_NORM | SANDWICH | TIED)

static const struct family families[] = {
    {"llama", "llama", 128, 3, 4, 2, 32, 192, 512, 1e-5f, 5e5f, 0, 0, LLAMA3, 8, 64, PERMUTED},
    {"smollm2", "llama", 192, 3, 3, 1, 64, 192, 512, 1e-5f, 1e5f, 0, 0, PLAIN, 0, 0, LLAMA_TIED},
    {"mistral", "llama", 128, 3, 6, 2, 32, 192, 512, 1e-5f, 1e6f, 0, 0, PLAIN, 0, 0, PERMUTED},
    {"llama_linear", "llama", 128, 3, 4, 2, 32, 192, 512, 1e-5f, 1e4f, 0, 0, LINEAR, 4, 0, LLAMA_TIED},
    {"llama_yarn", "llama", 128, 3, 4, 2, 32, 192, 128, 1e-5f, 1e4f, 0, 0, YARN, 4, 32, LLAMA_TIED},
    {"llama256", "llama", 256, 2, 4, 2, 64, 512, 512, 1e-5f, 1e5f, 0, 0, PLAIN, 0, 0, PERMUTED},
    {"qwen2", "qwen2", 128, 3, 4, 2, 32, 192, 512, 1e-6f, 1e6f, 0, 0, PLAIN, 0, 0, BIAS | TIED | NO_HEAD_DIM},
    {"qwen3", "qwen3", 128, 3, 4, 2, 64, 192, 512, 1e-6f, 1e6f, 0, 0, PLAIN, 0, 0, QK_NORM | TIED},
    {"gemma3", "gemma3", 128, 7, 4, 1, 64, 192, 512, 1e-6f, 1e6f, 0, TINY_WINDOW, PLAIN, 0, 0, GEMMA},
    {"gemma3_256", "gemma3", 256, 7, 4, 2, 64, 256, 512, 1e-6f, 1e6f, 2e4f, TINY_WINDOW, PLAIN, 0, 0, GEMMA},
    {"gemma_embedding", "gemma-embedding", 128, 7, 4, 1, 64, 192, 512, 1e-6f, 1e6f, 0, TINY_WINDOW, PLAIN, 0, 0,
     GEMMA | DENSE},
    {"qwen3_rank", "qwen3", 128, 3, 4, 2, 64, 192, 512, 1e-6f, 1e6f, 0, 0, PLAIN, 0, 0, QK_NORM | TIED | RANK},
};

const char *const tiny_families[TINY_FAMILIES] = {
    "llama", "smollm2", "mistral", "llama_linear", "llama_yarn", "llama256", "qwen2", "qwen3", "gemma3", "gemma3_256",
};

int32_t tiny_prompt(size_t i)
{
    return (int32_t)((7 * i * i + 31 * i + 11) % 500 + 8);
}

/* ---- the generator ---- */

static uint64_t splitmix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Number i is splitmix64 of counter i + 1 under the FNV-1a hash of the name: its upper 24 bits, centred. */
void tiny_draws(const char *name, size_t count, float *out)
{
    uint64_t key = 0xcbf29ce484222325u;
    for (const char *p = name; *p; p++)
        key = (key ^ (unsigned char)*p) * 0x100000001b3u;
    for (size_t i = 0; i < count; i++) {
        int32_t u = (int32_t)(splitmix(key + (i + 1) * 0x9e3779b97f4a7c15u) >> 40);
        out[i] = (float)(u - (1 << 23)) * 0x1p-23f;
    }
}

/* ---- writing fields ---- */

enum { U32 = 4, I32 = 5, FLOAT32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

struct writer {
    struct buf *out;
    uint64_t keys;
    const char *arch;
};

static void put_u32(struct buf *b, uint32_t v)
{
    uint8_t p[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    buf_add(b, p, 4);
}

static void put_u64(struct buf *b, uint64_t v)
{
    put_u32(b, (uint32_t)v);
    put_u32(b, (uint32_t)(v >> 32));
}

static void put_text(struct buf *b, const char *s)
{
    put_u64(b, strlen(s));
    buf_adds(b, s);
}

/* Key and type; a key that begins with a dot gets the architecture before it. */
static void put_key(struct writer *w, const char *key, uint32_t type)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", *key == '.' ? w->arch : "", key);
    put_text(w->out, full);
    put_u32(w->out, type);
    w->keys++;
}

static void key_u32(struct writer *w, const char *key, uint32_t v)
{
    put_key(w, key, U32);
    put_u32(w->out, v);
}

static void key_float(struct writer *w, const char *key, float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    put_key(w, key, FLOAT32);
    put_u32(w->out, u);
}

static void key_text(struct writer *w, const char *key, const char *v)
{
    put_key(w, key, STRING);
    put_text(w->out, v);
}

static void key_array(struct writer *w, const char *key, uint32_t of, uint64_t count)
{
    put_key(w, key, ARRAY);
    put_u32(w->out, of);
    put_u64(w->out, count);
}

/* ---- the vocabulary: 8 specials, 256 bytes, 248 merges ---- */

#define SPECIALS 8
#define MERGES (TINY_VOCAB - SPECIALS - 256)

struct merge {
    char left[8], right[8];
};

/* The character that stands for a byte in a byte-level vocabulary, UTF-8: printable Latin-1 stands for itself, the
 * other bytes, in order, for U+0100 and up. */
static void byte_char(unsigned byte, char out[8])
{
    unsigned spare = 0, c = byte;
    for (unsigned b = 0; b <= byte; b++) {
        bool plain = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte && !plain)
            c = 0x100 + spare;
        spare += !plain;
    }
    if (c < 0x80)
        snprintf(out, 8, "%c", (int)c);
    else
        snprintf(out, 8, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 0x3f)));
}

static void add_merge(struct merge m[MERGES], size_t *n, const char *left, const char *right)
{
    if (*n >= MERGES)
        BUG("more than %d merges", MERGES);
    snprintf(m[*n].left, sizeof m->left, "%s", left);
    snprintf(m[*n].right, sizeof m->right, "%s", right);
    ++*n;
}

/* A space with each letter, consonant and vowel, vowel and consonant, and a dozen more, some on a second level. */
static void make_merges(struct merge m[MERGES])
{
    static const char vowels[] = "aeiou", others[] = "bcdfghjklmnpqrstvwxyz";
    static const char more[][2][3] = {{"t", "h"}, {"s", "t"}, {"c", "k"},  {"l", "l"},  {"e", "e"},
                                      {"o", "o"}, {"", "he"}, {"in", "g"}, {"an", "d"}, {"er", "s"}};
    char space[8], line[8], space_t[10], a[2] = "", b[2] = "";
    size_t n = 0;
    byte_char(' ', space);
    byte_char('\n', line);
    snprintf(space_t, sizeof space_t, "%st", space);
    for (*a = 'a'; *a <= 'z'; ++*a)
        add_merge(m, &n, space, a);
    for (size_t i = 0; i < sizeof vowels + sizeof others - 2; i++) {
        bool vowel = i >= sizeof others - 1;
        const char *second = vowel ? others : vowels;
        *a = vowel ? vowels[i - (sizeof others - 1)] : others[i];
        for (; *second; second++) {
            *b = *second;
            add_merge(m, &n, a, b);
        }
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        add_merge(m, &n, *more[i][0] ? more[i][0] : space_t, more[i][1]);
    add_merge(m, &n, space, space);
    add_merge(m, &n, line, line);
    if (n != MERGES)
        BUG("%zu merges instead of %d", n, MERGES);
}

static void put_tokens(struct writer *w, const struct merge m[MERGES])
{
    static const char *const named[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    char text[32];
    key_array(w, "tokenizer.ggml.tokens", STRING, TINY_VOCAB);
    for (unsigned i = 0; i < SPECIALS; i++) {
        snprintf(text, sizeof text, "<|reserved_%u|>", i);
        put_text(w->out, i < 3 ? named[i] : text);
    }
    for (unsigned i = 0; i < 256; i++) {
        byte_char(i, text);
        put_text(w->out, text);
    }
    for (size_t i = 0; i < MERGES; i++) {
        snprintf(text, sizeof text, "%s%s", m[i].left, m[i].right);
        put_text(w->out, text);
    }
    key_array(w, "tokenizer.ggml.token_type", I32, TINY_VOCAB);
    for (unsigned i = 0; i < TINY_VOCAB; i++)
        put_u32(w->out, i < SPECIALS ? 3 : 1); /* control, normal */
    key_array(w, "tokenizer.ggml.merges", STRING, MERGES);
    for (size_t i = 0; i < MERGES; i++) {
        snprintf(text, sizeof text, "%s %s", m[i].left, m[i].right);
        put_text(w->out, text);
    }
}

static void put_tokenizer(struct writer *w, const struct family *f)
{
    static const char chat[] =
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
        "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
    struct merge merges[MERGES];
    make_merges(merges);
    key_text(w, "tokenizer.ggml.model", "gpt2");
    key_text(w, "tokenizer.ggml.pre", "gpt-2");
    put_tokens(w, merges);
    key_u32(w, "tokenizer.ggml.bos_token_id", 1);
    key_u32(w, "tokenizer.ggml.eos_token_id", 2);
    key_u32(w, "tokenizer.ggml.padding_token_id", 0);
    put_key(w, "tokenizer.ggml.add_bos_token", BOOL);
    buf_add(w->out, "\0", 1);
    if (f->has & DENSE) {
        put_key(w, "tokenizer.ggml.add_eos_token", BOOL);
        buf_add(w->out, "\1", 1);
    }
    key_text(w, "tokenizer.chat_template", chat);
    if (f->has & RANK)
        key_text(w, "tokenizer.chat_template.rerank", "<|im_start|>{query}\n{document}<|im_end|>\n");
}

/* ---- the model's keys ---- */

static void put_rope_keys(struct writer *w, const struct family *f)
{
    key_float(w, ".rope.freq_base", f->theta);
    if (f->has & PERMUTED) { /* architecture llama */
        key_u32(w, ".rope.dimension_count", f->head_dim);
        key_u32(w, ".vocab_size", TINY_VOCAB);
    }
    if (f->theta_swa != 0)
        key_float(w, ".rope.freq_base_swa", f->theta_swa);
    if (f->window)
        key_u32(w, ".attention.sliding_window", f->window);
    if (f->scaling == LINEAR || f->scaling == YARN) {
        key_text(w, ".rope.scaling.type", f->scaling == YARN ? "yarn" : "linear");
        key_float(w, ".rope.scaling.factor", f->factor);
    }
    if (f->scaling == YARN)
        key_u32(w, ".rope.scaling.original_context_length", f->original);
}

static void put_vector_keys(struct writer *w, const struct family *f)
{
    if (f->has & DENSE) {
        key_u32(w, ".pooling_type", 1);
        key_u32(w, ".dense_2_feat_in", f->width);
        key_u32(w, ".dense_2_feat_out", TINY_DENSE);
        key_u32(w, ".dense_3_feat_in", TINY_DENSE);
        key_u32(w, ".dense_3_feat_out", f->width);
    }
    if (f->has & RANK) {
        key_u32(w, ".pooling_type", 4);
        key_array(w, ".classifier.output_labels", STRING, TINY_CLASSES);
        put_text(w->out, "yes");
        put_text(w->out, "no");
    }
}

static uint64_t put_metadata(struct buf *out, const struct family *f)
{
    struct writer w = {out, 0, f->arch};
    char name[64];
    snprintf(name, sizeof name, "tiny %s", f->name);
    key_text(&w, "general.architecture", f->arch);
    key_text(&w, "general.name", name);
    key_u32(&w, "general.alignment", 32);
    key_u32(&w, ".context_length", f->context);
    key_u32(&w, ".embedding_length", f->width);
    key_u32(&w, ".block_count", f->layers);
    key_u32(&w, ".feed_forward_length", f->ffn);
    key_u32(&w, ".attention.head_count", f->heads);
    key_u32(&w, ".attention.head_count_kv", f->kv_heads);
    if (!(f->has & NO_HEAD_DIM)) {
        key_u32(&w, ".attention.key_length", f->head_dim);
        key_u32(&w, ".attention.value_length", f->head_dim);
    }
    key_float(&w, ".attention.layer_norm_rms_epsilon", f->eps);
    put_rope_keys(&w, f);
    put_vector_keys(&w, f);
    put_tokenizer(&w, f);
    return w.keys;
}

/* ---- the tensors ---- */

enum kind { MATRIX, NORM, BIAS_VECTOR, FREQS };

struct tensor {
    char name[48];
    enum kind kind;
    uint32_t rows, columns; /* rows = 1 for a vector */
    uint32_t heads;         /* rows are permuted within each of these; 0: not at all */
};

#define MAX_TENSORS 128

struct list {
    struct tensor items[MAX_TENSORS];
    size_t count;
    int layer; /* -1 outside the layers */
};

static void add(struct list *l, const char *name, enum kind kind, uint32_t rows, uint32_t columns, uint32_t heads)
{
    char prefix[16] = "";
    if (l->count == MAX_TENSORS)
        BUG("more than %d tensors", MAX_TENSORS);
    struct tensor *t = &l->items[l->count++];
    if (l->layer >= 0)
        snprintf(prefix, sizeof prefix, "blk.%d.", l->layer);
    snprintf(t->name, sizeof t->name, "%s%s", prefix, name);
    t->kind = kind;
    t->rows = rows;
    t->columns = columns;
    t->heads = heads;
}

static void add_layer(struct list *l, const struct family *f)
{
    uint32_t q = f->heads * f->head_dim, kv = f->kv_heads * f->head_dim, d = f->width;
    bool permuted = f->has & PERMUTED;
    add(l, "attn_norm.weight", NORM, 1, d, 0);
    add(l, "attn_q.weight", MATRIX, q, d, permuted ? f->heads : 0);
    add(l, "attn_k.weight", MATRIX, kv, d, permuted ? f->kv_heads : 0);
    add(l, "attn_v.weight", MATRIX, kv, d, 0);
    add(l, "attn_output.weight", MATRIX, d, q, 0);
    if (f->has & BIAS) {
        add(l, "attn_q.bias", BIAS_VECTOR, 1, q, 0);
        add(l, "attn_k.bias", BIAS_VECTOR, 1, kv, 0);
        add(l, "attn_v.bias", BIAS_VECTOR, 1, kv, 0);
    }
    if (f->has & QK_NORM) {
        add(l, "attn_q_norm.weight", NORM, 1, f->head_dim, 0);
        add(l, "attn_k_norm.weight", NORM, 1, f->head_dim, 0);
    }
    if (f->has & SANDWICH)
        add(l, "post_attention_norm.weight", NORM, 1, d, 0);
    add(l, "ffn_norm.weight", NORM, 1, d, 0);
    if (f->has & SANDWICH)
        add(l, "post_ffw_norm.weight", NORM, 1, d, 0);
    add(l, "ffn_gate.weight", MATRIX, f->ffn, d, 0);
    add(l, "ffn_up.weight", MATRIX, f->ffn, d, 0);
    add(l, "ffn_down.weight", MATRIX, d, f->ffn, 0);
}

static void list_tensors(struct list *l, const struct family *f)
{
    l->count = 0;
    l->layer = -1;
    add(l, "token_embd.weight", MATRIX, TINY_VOCAB, f->width, 0);
    for (l->layer = 0; l->layer < (int)f->layers; l->layer++)
        add_layer(l, f);
    l->layer = -1;
    add(l, "output_norm.weight", NORM, 1, f->width, 0);
    if (!(f->has & TIED))
        add(l, "output.weight", MATRIX, TINY_VOCAB, f->width, 0);
    if (f->scaling == LLAMA3)
        add(l, "rope_freqs.weight", FREQS, 1, f->head_dim / 2, 0);
    if (f->has & DENSE) {
        add(l, "dense_2.weight", MATRIX, TINY_DENSE, f->width, 0);
        add(l, "dense_3.weight", MATRIX, f->width, TINY_DENSE, 0);
    }
    if (f->has & RANK)
        add(l, "cls.output.weight", MATRIX, TINY_CLASSES, f->width, 0);
}

/* What llama3 scaling divides each frequency by: 1 for short waves, `factor` for long ones, a ramp between 1 and 4
 * turns in the original context. */
static void make_freqs(const struct family *f, float *out)
{
    for (uint32_t i = 0; i < f->head_dim; i += 2) {
        double power = pow((double)f->theta, (double)i / f->head_dim);
        double turns = f->original / (2 * 3.141592653589793 * power), ramp = (turns - 1.0) / (4.0 - 1.0);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        out[i / 2] = (float)(1.0 / ((1.0 - ramp) / (double)f->factor + ramp));
    }
}

/* From halves (i, i + half) to neighbours (2i, 2i + 1), head by head. */
static void permute(const struct tensor *t, const float *from, float *to)
{
    uint32_t per_head = t->rows / t->heads, half = per_head / 2;
    for (uint32_t r = 0; r < t->rows; r++) {
        uint32_t head = r / per_head, i = r % per_head;
        uint32_t target = head * per_head + i % half * 2 + i / half;
        memcpy(to + (size_t)target * t->columns, from + (size_t)r * t->columns, t->columns * sizeof *to);
    }
}

/* Matrices r/8, norms 1 + r/4, biases r/2: powers of two, so that nothing but the sum rounds. `room` is scratch of the
 * same size, [rows][columns] as `out`. */
static void make_values(const struct family *f, const struct tensor *t, float *out, float *room)
{
    size_t n = (size_t)t->rows * t->columns;
    if (t->kind == FREQS) {
        make_freqs(f, out);
        return;
    }
    float *values = t->heads ? room : out;
    tiny_draws(t->name, n, values);
    for (size_t i = 0; i < n; i++)
        values[i] = t->kind == NORM     ? 1.0f + values[i] * 0.25f
                    : t->kind == MATRIX ? values[i] * 0.125f
                                        : values[i] * 0.5f;
    if (t->heads)
        permute(t, room, out);
}

/* ---- the file ---- */

static enum tiny_type stored_type(const struct tensor *t, enum tiny_type type, bool rounded)
{
    return t->kind == MATRIX && !rounded ? type : TINY_F32;
}

static void pad(struct buf *b, size_t start)
{
    static const char zeros[32];
    buf_add(b, zeros, (32 - (b->len - start) % 32) % 32);
}

static void put_directory(struct buf *out, const struct list *l, enum tiny_type type, bool rounded)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct tensor *t = &l->items[i];
        enum tiny_type stored = stored_type(t, type, rounded);
        put_text(out, t->name);
        put_u32(out, t->kind == MATRIX ? 2 : 1);
        put_u64(out, t->columns); /* the file's first dimension is the contiguous one */
        if (t->kind == MATRIX)
            put_u64(out, t->rows);
        put_u32(out, stored);
        put_u64(out, offset);
        offset += (tiny_row_bytes(stored, t->columns) * t->rows + 31) / 32 * 32;
    }
}

/* `values`: n f32, overwritten when rounding. */
static void put_values(struct buf *out, const struct tensor *t, enum tiny_type type, bool rounded, float *values)
{
    enum tiny_type stored = stored_type(t, type, rounded);
    size_t n = (size_t)t->rows * t->columns, bytes = tiny_row_bytes(stored, n);
    if (t->kind == MATRIX && rounded) {
        uint8_t *room = malloc(tiny_row_bytes(type, n));
        if (!room) {
            out->failed = true;
            return;
        }
        tiny_encode(type, values, n, room);
        tiny_decode(type, room, n, values);
        free(room);
    }
    uint8_t *p = (uint8_t *)buf_reserve(out, bytes);
    if (!p)
        return;
    tiny_encode(stored, values, n, p);
    out->len += bytes;
}

static enum status find(const char *name, enum tiny_type type, const struct family **out, struct list *l, struct err *e)
{
    *out = NULL;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].name, name) == 0)
            *out = &families[i];
    if (!*out)
        return err_set(e, ST_ARGUMENT, "family", "%s: no such tiny family", name);
    list_tensors(l, *out);
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i].kind == MATRIX && !tiny_row_bytes(type, l->items[i].columns))
            return err_set(e, ST_ARGUMENT, "type", "%s of %s: %u columns are not whole blocks of type %d",
                           l->items[i].name, name, l->items[i].columns, (int)type);
    return ST_OK;
}

enum status tiny_build(const char *family, enum tiny_type type, bool rounded, struct buf *out, struct err *e)
{
    struct list l;
    const struct family *f;
    size_t start = out->len, largest = 0, keys_at;
    TRY(find(family, type, &f, &l, e));
    for (size_t i = 0; i < l.count; i++) {
        size_t n = (size_t)l.items[i].rows * l.items[i].columns;
        largest = n > largest ? n : largest;
    }
    float *values = malloc(2 * largest * sizeof *values);
    if (!values)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a tiny model's weights");
    buf_add(out, "GGUF", 4);
    put_u32(out, 3);
    put_u64(out, l.count);
    keys_at = out->len;
    put_u64(out, 0);
    uint64_t keys = put_metadata(out, f);
    for (int i = 0; i < 8 && !out->failed; i++)
        out->data[keys_at + (size_t)i] = (char)(keys >> 8 * i);
    put_directory(out, &l, type, rounded);
    for (size_t i = 0; i < l.count && !out->failed; i++) {
        pad(out, start);
        make_values(f, &l.items[i], values, values + largest);
        put_values(out, &l.items[i], type, rounded, values);
    }
    pad(out, start);
    free(values);
    return out->failed ? err_set(e, ST_NO_MEMORY, "", "%s does not fit its buffer", family) : ST_OK;
}

static enum status write_file(const char *path, const char *family, enum tiny_type type, bool rounded, struct err *e)
{
    struct buf b;
    buf_init(&b, 32u << 20);
    enum status s = tiny_build(family, type, rounded, &b, e);
    FILE *out = s == ST_OK ? fopen(path, "wb") : NULL;
    if (s == ST_OK && !out)
        s = err_errno(e, ST_IO, path, "%s: cannot write", path);
    if (out) {
        bool whole = fwrite(b.data, 1, b.len, out) == b.len;
        if (fclose(out) != 0 || !whole) {
            s = err_errno(e, ST_IO, path, "%s: cannot write", path);
            remove(path);
        }
    }
    buf_release(&b);
    return s;
}

enum status tiny_write(const char *path, const char *family, enum tiny_type type, struct err *e)
{
    return write_file(path, family, type, false, e);
}

enum status tiny_write_rounded(const char *path, const char *family, enum tiny_type type, struct err *e)
{
    return write_file(path, family, type, true, e);
}

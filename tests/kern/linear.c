/* linear: packing and matrix products. The odd sizes are those that have a path of their own somewhere: rows around a
 * panel, tokens around tiles, chunks and the unpacking threshold, panel ranges that do not begin at 0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* What fills a matrix or its activations. */
enum fill {
    RANDOM,
    ONES,      /* weights: every bit set */
    HIGH_BITS, /* weights: bytes 0x80 */
    ZEROS,     /* weights: every bit clear: the lowest of the codes with an offset, and of the signed scales */
    SEVENS,    /* weights: nibbles of 7: the largest of MXFP4 */
    ENDS,      /* weights: scales at the ends of their range, a pair for each row */
    EQUAL,     /* activations of one magnitude, so that all quantise to ±127: a token of one sign, of the other, of both */
    FAINT,     /* activations: every other token so small that with scales at their ends nothing overflows */
    BROKEN     /* activations: a NaN in the first token, an infinity in the last */
};

/* Byte ranges of a file block that hold f16 scales. */
static int scale_at(enum kern_type type, uint32_t at[2])
{
    switch (type) {
    case KERN_Q8_0:
    case KERN_Q4_0:
    case KERN_Q5_0:
    case KERN_IQ4_NL:
    case KERN_IQ4_XS: at[0] = 0; return 1;
    case KERN_Q4_1:
    case KERN_Q5_1:
    case KERN_Q4_K:
    case KERN_Q5_K: at[0] = 0, at[1] = 2; return 2;
    case KERN_Q6_K: at[0] = 208; return 1;
    case KERN_Q2_K: at[0] = 80, at[1] = 82; return 2;
    case KERN_Q3_K: at[0] = 108; return 1;
    default: return 0;
    }
}

/* Gives the block at w, in row r, scales that keep sums finite, or such at the ends of their range. */
static void set_scales(struct check *c, enum kern_type type, enum fill fill, uint32_t r, uint8_t *w)
{
    static const uint16_t ends[] = {0x7BFF, 0xFBFF, 0x0001, 0x8001, 0x0400, 0x0000};
    static const uint8_t exponents[] = {0, 1, 2, 3, 254, 255};
    uint32_t at[2];
    int n = scale_at(type, at);
    for (int i = 0; i < n; i++) {
        uint16_t h = fill == ENDS ? ends[(r + (uint32_t)i) % 6] : kern_f32_to_f16(rnd_float(c, 0.05f));
        memcpy(w + at[i], &h, 2);
    }
    if (type == KERN_MXFP4)
        w[0] = fill == ENDS ? exponents[r % 6] : (uint8_t)(116 + rnd_below(c, 12));
}

static uint8_t *make_weights(struct check *c, enum kern_type type, uint32_t rows, uint32_t cols, enum fill fill)
{
    const struct kern_type_info *ti = kern_type_info(type);
    uint32_t blocks = cols / ti->block;
    size_t n = (size_t)rows * blocks * ti->file_bytes;
    uint8_t *w = guard_alloc(n, 4);
    if (!ti->quantised) {
        for (size_t i = 0; i < (size_t)rows * blocks; i++) {
            float f = rnd_float(c, 1);
            uint32_t u;
            uint16_t h = kern_f32_to_f16(f);
            memcpy(&u, &f, 4);
            if (type == KERN_BF16)
                h = (uint16_t)(u >> 16);
            memcpy(w + i * ti->file_bytes, ti->file_bytes == 4 ? (void *)&f : (void *)&h, ti->file_bytes);
        }
        return w;
    }
    static const uint8_t bytes[] = {[ONES] = 0xFF, [HIGH_BITS] = 0x80, [ZEROS] = 0, [SEVENS] = 0x77};
    for (size_t i = 0; i < n; i++)
        w[i] = fill == RANDOM || fill == ENDS ? (uint8_t)rnd(c) : bytes[fill];
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t b = 0; b < blocks; b++)
            set_scales(c, type, fill, r, w + ((size_t)r * blocks + b) * ti->file_bytes);
    return w;
}

uint8_t *random_weights(struct check *c, enum kern_type type, uint32_t rows, uint32_t cols)
{
    return make_weights(c, type, rows, cols, RANDOM);
}

void check_pack(struct check *c)
{
    c->level = "pack";
    for (int t = 0; t < KERN_TYPES; t++) {
        enum kern_type type = (enum kern_type)t;
        const struct kern_type_info *ti = kern_type_info(type);
        uint32_t cols = ti->block * 3 < 96 ? 96 : ti->block * 3, rows = 21;
        uint8_t *src = random_weights(c, type, rows, cols);
        struct kern_mat m = {type, rows, cols, kern_panel_stride(type, cols), NULL};
        uint8_t *dst = guard_alloc(kern_mat_bytes(type, rows, cols), 64);
        kern_pack(type, rows, cols, src, 0, kern_panels(rows), dst);
        m.panels = dst;
        for (uint32_t r = 0; r < rows; r++) {
            float *want = guard_alloc(cols * 4, 4), *got = guard_alloc(cols * 4, 4);
            kern_to_f32(type, src + (size_t)r * (cols / ti->block) * ti->file_bytes, cols, want);
            kern_unpack_row(&m, r, got);
            same(c, ti->name, want, got, cols * 4);
        }
        guard_release();
    }
}

struct act {
    struct kern_act a;
    size_t q_bytes, meta_bytes;
};

static struct act make_act(struct check *c, uint32_t tokens, uint32_t cols, enum fill fill)
{
    struct act r = {.q_bytes = (size_t)tokens * cols,
                    .meta_bytes = (size_t)tokens * (cols / 32) * sizeof(struct kern_xmeta)};
    float *x = guard_alloc((size_t)tokens * cols * 4, 4);
    for (size_t i = 0; i < (size_t)tokens * cols; i++) {
        size_t t = i / cols;
        bool negative = t % 3 == 2 ? rnd(c) & 1 : t % 3;
        x[i] = fill == EQUAL ? (negative ? -3.5f : 3.5f) : rnd_float(c, fill == FAINT && t % 2 == 0 ? 1e-8f : 4);
    }
    if (fill == BROKEN) {
        x[cols - 1] = __builtin_nanf("");
        x[(size_t)(tokens - 1) * cols] = __builtin_inff();
    }
    r.a = (struct kern_act){tokens, cols, x, guard_alloc(r.q_bytes, 64), guard_alloc(r.meta_bytes, 16)};
    return r;
}

static void poison(float *p, size_t n)
{
    memset(p, 0xA5, n * sizeof *p);
}

/* NaNs compare equal here: which of its many patterns a NaN has is no one's business. */
static void one_nan(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] == x[i] ? x[i] : __builtin_nanf("");
}

struct shape {
    uint32_t rows, cols, tokens;
};

static void one_linear(struct check *c, enum kern_type type, struct shape s, enum fill weights, enum fill act)
{
    const struct kern_type_info *ti = kern_type_info(type);
    uint32_t rows = s.rows, cols = s.cols, tokens = s.tokens;
    char what[96];
    snprintf(what, sizeof what, "linear %s %u × %u, %u tokens, fills %d and %d", ti->name, rows, cols, tokens,
             (int)weights, (int)act);
    uint8_t *src = make_weights(c, type, rows, cols, weights);
    uint8_t *dst = guard_alloc(kern_mat_bytes(type, rows, cols), 64);
    kern_pack(type, rows, cols, src, 0, kern_panels(rows), dst);
    struct kern_mat m = {type, rows, cols, kern_panel_stride(type, cols), dst};
    struct act x = make_act(c, tokens, cols, act);
    if (ti->quantised)
        kern_level_ops(KERN_REF)->quantise(&x.a, 0, tokens, 0, cols / 32);
    uint32_t p0 = kern_panels(rows) > 2 ? 1 : 0, p1 = kern_panels(rows);
    size_t n = (size_t)tokens * rows;
    float *want = guard_alloc(n * 4, 4), *got = guard_alloc(n * 4, 4);
    poison(want, n);
    poison(got, n);
    kern_level_ops(KERN_REF)->linear(&m, p0, p1, &x.a, want, rows);
    c->ops->linear(&m, p0, p1, &x.a, got, rows);
    one_nan(want, n);
    one_nan(got, n);
    same(c, what, want, got, n * 4);
    guard_release();
}

static void one_quantise(struct check *c, uint32_t tokens, uint32_t cols, enum fill fill)
{
    char what[64];
    snprintf(what, sizeof what, "quantise %u tokens of %u, fill %d", tokens, cols, (int)fill);
    struct act x = make_act(c, tokens, cols, fill);
    struct kern_act y = x.a;
    y.q = guard_alloc(x.q_bytes, 64);
    y.meta = guard_alloc(x.meta_bytes, 16);
    kern_level_ops(KERN_REF)->quantise(&x.a, 0, tokens, 0, cols / 32);
    c->ops->quantise(&y, 0, tokens, 0, cols / 64);
    c->ops->quantise(&y, 0, tokens, cols / 64, cols / 32);
    same(c, what, x.a.q, y.q, x.q_bytes);
    for (size_t i = 0; i < x.meta_bytes / sizeof *y.meta; i++) /* NaN scales: the payload is no one's business */
        if (x.a.meta[i].d != x.a.meta[i].d && y.meta[i].d != y.meta[i].d && y.meta[i].ds != y.meta[i].ds)
            y.meta[i] = x.a.meta[i];
    same(c, what, x.a.meta, y.meta, x.meta_bytes);
    guard_release();
}

static void check_type(struct check *c, enum kern_type type)
{
    static const uint32_t rows[] = {1, 15, 16, 17, 33, 64, 83};
    static const uint32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 17, 63, 64, 65, 71, 130};
    static const enum fill extremes[][2] = {{ONES, EQUAL},   {HIGH_BITS, EQUAL}, {ZEROS, EQUAL},
                                            {SEVENS, EQUAL}, {ENDS, FAINT},      {RANDOM, BROKEN}};
    bool slow = strstr(c->level, "emulated") != NULL;
    uint32_t block = kern_type_info(type)->block, unit = block < 32 ? 32 : block;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        if (slow && tokens[i] > 20 && i % 2)
            continue;
        uint32_t r = rows[rnd_below(c, sizeof rows / sizeof *rows)];
        uint32_t k = unit * (1 + rnd_below(c, block == 256 ? 3 : 18));
        one_linear(c, type, (struct shape){r, k, tokens[i]}, RANDOM, RANDOM);
    }
    for (uint32_t n = 1; n < 12; n += 2)
        for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++)
            one_linear(c, type, (struct shape){32, unit * 2, n}, extremes[i][0], extremes[i][1]);
}

void check_linear(struct check *c)
{
    for (int t = 0; t < KERN_TYPES; t++)
        check_type(c, (enum kern_type)t);
    /* unquantised widths that are no multiple of anything */
    for (int t = KERN_F32; t <= KERN_BF16; t++)
        for (uint32_t k = 1; k < 600; k += 83)
            one_linear(c, (enum kern_type)t, (struct shape){70, k, 1 + k % 6}, RANDOM, RANDOM);
    static const enum fill fills[] = {RANDOM, EQUAL, FAINT, BROKEN};
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
        one_quantise(c, 1, 64, fills[i]);
        one_quantise(c, 70, 576, fills[i]);
        one_quantise(c, 129, 96, fills[i]);
    }
}

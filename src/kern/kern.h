/*
 * kern: the arithmetic.
 *
 * Every operation is defined by the plain loop in ref/ and has the same bits at every level (docs/architecture.md, law
 * L1): SIMD lanes hold different outputs, reductions keep their index order and use fused multiply-add. One struct of
 * functions per level, chosen once at start; weights are packed once into one layout that all levels read.
 *
 * Panels. A weight matrix has `rows` outputs and `cols` inputs (k). It is stored as panels of KERN_LANES outputs; the
 * last panel is padded with zero weights. Unquantised panels are [k][16]. Quantised panels are a sequence of blocks; a
 * block covers 16 outputs × `block` k and holds, for each 32 k, eight groups of [16 outputs][4 k] (see panel.h), so that
 * one 32-bit lane carries four consecutive k of one output.
 */
#ifndef KERN_KERN_H
#define KERN_KERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define KERN_LANES 16u     /* outputs of a panel */
#define KERN_QBLOCK 32u    /* k values that share an activation scale */
#define KERN_CHUNK 64u     /* tokens of one activation tile: 64 × 32 bytes a block stay in the first-level cache */
#define KERN_SECTION 256u  /* unquantised sums: k ascending within a section, sections added in order */
#define KERN_PARTIAL 256u  /* keys of one attention partial */
#define KERN_KV_TOKENS 32u /* tokens of one KV block */

enum kern_type {
    KERN_F32,
    KERN_F16,
    KERN_BF16,
    KERN_Q8_0,
    KERN_Q4_0,
    KERN_Q4_1,
    KERN_Q5_0,
    KERN_Q5_1,
    KERN_Q4_K,
    KERN_Q5_K,
    KERN_Q6_K,
    KERN_Q2_K,
    KERN_Q3_K,
    KERN_IQ4_NL,
    KERN_IQ4_XS,
    KERN_MXFP4,
    KERN_TYPES
};

struct kern_type_info {
    const char *name;      /* as files and users spell it: "Q4_K" */
    uint32_t block;        /* k values of one file block */
    uint32_t file_bytes;   /* bytes of one file block */
    bool quantised;        /* multiplies int8 activations; otherwise f32 ones */
};

/* Never NULL for type < KERN_TYPES. */
const struct kern_type_info *kern_type_info(enum kern_type type);

/* A packed matrix. `panels` is 64-byte aligned and not owned. */
struct kern_mat {
    enum kern_type type;
    uint32_t rows, cols;
    size_t stride; /* bytes from one panel to the next */
    const uint8_t *panels;
};

/* Panels of a matrix, and bytes of all of them; SIZE_MAX on overflow. cols must be a multiple of the type's block. */
static inline uint32_t kern_panels(uint32_t rows)
{
    return (rows + KERN_LANES - 1) / KERN_LANES;
}
size_t kern_panel_stride(enum kern_type type, uint32_t cols);
size_t kern_mat_bytes(enum kern_type type, uint32_t rows, uint32_t cols);

/* Packs panels [p0, p1) of the row-major file tensor `src` into `dst` (the first panel of the whole matrix). Reads
 * exactly the file's bytes of those rows. */
void kern_pack(enum kern_type type, uint32_t rows, uint32_t cols, const void *src, uint32_t p0, uint32_t p1,
               uint8_t *dst);

/* Row `r` of a packed matrix as f32[cols]: embeddings are stored once and read both ways. */
void kern_unpack_row(const struct kern_mat *m, uint32_t r, float *out);

/* Row-major file data of any type to f32[n]; n a multiple of the type's block. For norms, biases and tests. */
void kern_to_f32(enum kern_type type, const void *src, size_t n, float *out);

/* The other way, for files that are made: finite values within ±65504 to Q8_0, Q4_0 (as ggml's reference does), Q4_K or
 * Q6_K (a search for the least squared error). See encode.c. */
bool kern_can_encode(enum kern_type type);
void kern_from_f32(enum kern_type type, const float *x, size_t n, void *out);

float kern_f16_to_f32(uint16_t h);
uint16_t kern_f32_to_f16(float f); /* nearest even; overflow gives infinity */

/* --- activations ------------------------------------------------------------------------------------------------- */

/* What belongs to 32 quantised activations of one token. */
struct kern_xmeta {
    float d;        /* scale: amax / 127; 0 when amax < 1e-30, NaN when a value is not finite */
    float ds;       /* d × (float)s */
    int32_t s;      /* sum of the 32 quantised values */
    int16_t s16[2]; /* sums of the first and the second 16 */
};

/*
 * Activations of `tokens` tokens, in the forms linear layers read. Chunk c holds n = min(KERN_CHUNK, tokens - c ×
 * KERN_CHUNK) tokens; within it, block b of token t is at q + c × KERN_CHUNK × cols + (b × n + t) × 32, and its meta at
 * the same place counted in blocks.
 */
struct kern_act {
    uint32_t tokens, cols;
    const float *x;           /* [tokens][cols] f32: read by unquantised matrices */
    int8_t *q;                /* read by quantised matrices; 64-byte aligned */
    struct kern_xmeta *meta;
};

/* --- attention ----------------------------------------------------------------------------------------------------- */

enum kern_kv { KERN_KV_F16, KERN_KV_F32 };

/*
 * Where one layer's keys and values of one sequence and KV head lie. Position p is token p % 32 of block
 * base + table[p / 32] × block_bytes; K starts at k_offset there as [head_dim][32 tokens], V at v_offset as
 * [32 tokens][head_dim].
 */
struct kern_kv_view {
    uint8_t *base;
    const uint32_t *table;
    size_t block_bytes, k_offset, v_offset;
    enum kern_kv format;
    uint32_t head_dim;   /* a multiple of 16 */
};

/*
 * Queries of consecutive positions that share one KV head, against the partials [part0, part1) of their keys.
 * A partial covers keys [256 p, 256 p + 256); kern_attn_sees() says which of them a query sees.
 */
struct kern_attn {
    struct kern_kv_view kv;
    const float *q;                /* query i, head h of the group: q + i × q_token + h × head_dim */
    size_t q_token;                /* floats from one token's queries to the next's */
    uint32_t queries, heads;       /* tokens; query heads that share this KV head. At most KERN_ATTN_VECTORS together */
    uint64_t pos0;
    uint32_t window;
    uint64_t keys;                 /* queries look ahead, too, and there are so many keys; 0 = they do not */
    float scale;                   /* multiplies the score once */
    float softcap;                 /* then score = softcap × tanh(score / softcap); 0 = none */
    uint64_t part0, part1;
};

/*
 * The keys [*lo, *hi) that a query at `pos` sees: its own and those before it, the last `window` of these where that is
 * not 0. Where it looks ahead (keys > 0): all there are, or those at most window / 2 away on either side.
 */
static inline void kern_attn_sees(uint32_t window, uint64_t keys, uint64_t pos, uint64_t *lo, uint64_t *hi)
{
    uint64_t back = keys ? window / 2 : window - 1u, end = pos + 1 + (keys ? back : 0);
    *lo = window && pos > back ? pos - back : 0;
    *hi = keys && (!window || end > keys) ? keys : end;
}

/* A running softmax-weighted sum: m = maximum score, l = sum of exp(score - m), o = sum of exp(score - m) × value.
 * Nothing was seen yet while l is 0. In memory: float[head_dim + KERN_ACC_EXTRA], o first, then m, then l. */
#define KERN_ACC_EXTRA 2u

/* The largest of some values, as argmax() finds it. */
struct kern_top {
    bool finite;    /* all of them are; otherwise the rest means nothing */
    uint32_t index; /* the lowest one where ties are */
    float value;
};

/* --- the operation table ------------------------------------------------------------------------------------------- */

enum kern_glu { KERN_SILU, KERN_GELU_TANH };

struct kern_ops {
    const char *name; /* that of its level */

    /* out[t × stride + o] = sum over k of W[o][k] × x[t][k], for the outputs of panels [p0, p1) and all tokens. */
    void (*linear)(const struct kern_mat *m, uint32_t p0, uint32_t p1, const struct kern_act *x, float *out,
                   size_t stride);

    /* Quantises tokens [t0, t1), k in [32 b0, 32 b1), of a->x into a->q and a->meta. */
    void (*quantise)(const struct kern_act *a, uint32_t t0, uint32_t t1, uint32_t b0, uint32_t b1);

    /* y = x × (1 / sqrt(mean(x²) + eps)) × w, over n values. x == y is allowed. */
    void (*rms_norm)(const float *x, const float *w, uint32_t n, float eps, float *y);

    /* y[i] = act(gate[i]) × up[i]. gate == y is allowed. */
    void (*glu)(enum kern_glu kind, const float *gate, const float *up, uint32_t n, float *y);

    /* x[i] += y[i], and x[i] = softcap × tanh(x[i] / softcap). */
    void (*add)(float *x, const float *y, uint32_t n);
    void (*softcap)(float *x, uint32_t n, float cap);

    /* Rotates n pairs by the angles in cs: cs[0..n) cosines, cs[n..2n) sines. Pair i is (x[i], x[i + n]), or, where
     * `interleaved`, (x[2i], x[2i + 1]). */
    void (*rope)(float *x, const float *cs, uint32_t n, bool interleaved);

    /* Stores keys and values of positions [pos, pos + n): k and v are [n] vectors of head_dim, `stride` floats apart. */
    void (*kv_store)(const struct kern_kv_view *kv, uint64_t pos, uint32_t n, const float *k, const float *v,
                     size_t stride);

    /* Partial results of a: acc of (partial p, query i, head h) is at
     * acc + (((p - part0) × queries + i) × heads + h) × (head_dim + 2). A partial without a live key has l = 0.
     * `scratch` is KERN_ATTN_SCRATCH bytes, 64-byte aligned. */
    void (*attn)(const struct kern_attn *a, float *acc, void *scratch);

    /* Folds the next partial into a running accumulator (l = 0: none yet), rescaling both to the larger maximum. A
     * partial with l = 0 changes nothing. Partials must come in ascending order. */
    void (*attn_fold)(float *run, const float *part, uint32_t head_dim);

    /* out[head_dim] = o × (1 / l). */
    void (*attn_finish)(const float *run, uint32_t head_dim, float *out);

    struct kern_top (*argmax)(const float *x, uint32_t n);

    /* Sum over i of exp(x[i] - max): 16 partial sums (i mod 16), one tree. For log-probabilities. */
    float (*exp_sum)(const float *x, uint32_t n, float max);
};

#define KERN_ATTN_VECTORS 64u                                          /* queries × heads of one attention call */
#define KERN_ATTN_SCRATCH (KERN_ATTN_VECTORS * KERN_PARTIAL * 4u)

enum kern_level { KERN_REF, KERN_AVX2, KERN_AVX512, KERN_NEON, KERN_LEVELS };

/* As FFWD_CPU spells it: "avx2". Never NULL for level < KERN_LEVELS. */
const char *kern_level_name(enum kern_level level);

/* The table of a level, or NULL when this build or this processor lacks it. */
const struct kern_ops *kern_level_ops(enum kern_level level);

/* The table in use: the best this processor has, or what the environment variable FFWD_CPU names (ref, avx2, avx512,
 * neon). Fails with ST_UNSUPPORTED when FFWD_CPU names a level that is unknown or missing here. */
MUST_CHECK enum status kern_choose(const struct kern_ops **out, struct err *e);

/* One sentence on which level is used and why, for `ffwd info`. */
const char *kern_why(void);

/* --- scalars the model computes at load ------------------------------------------------------------------------------ */

/* exp of the reference polynomial; sampling uses it, so that a draw has the same bits everywhere. */
float kern_exp(float x);

/* cos and sin of a finite float of any size, correctly reduced. */
void kern_sincos(float x, float *s, float *c);

#endif

/*
 * pack: from the file's row-major blocks to panels, and back to single rows. File layouts as in ggml's ggml-common.h;
 * panel layout in panel.h. One output is written at a time: its 32-bit lanes are 64 bytes apart. Bits are moved four k at a
 * time, in the 32-bit words that lanes are made of.
 */
#include <string.h>

#include "kern/panel_read.h"

#define PLAIN_TILE 128u

static uint32_t load_u32(const uint8_t *p)
{
    uint32_t u;
    memcpy(&u, p, sizeof u);
    return u;
}

static void put4(uint8_t *q, uint32_t vec, uint32_t lane, const uint8_t *four)
{
    memcpy(q + vec * 64 + lane * 4, four, 4);
}

static void put_word(uint8_t *q, uint32_t vec, uint32_t lane, uint32_t word)
{
    memcpy(q + vec * 64 + lane * 4, &word, 4);
}

static void put_u16(uint8_t *meta, uint32_t array, uint32_t lane, const uint8_t *two)
{
    memcpy(meta + array + 2 * lane, two, 2);
}

/* 32 nibbles as the 4-bit legacy formats store them: byte i holds k = i and k = i + 16, which is the panel's pairing. */
static void put_nibbles(uint8_t *q, uint32_t lane, const uint8_t *qs)
{
    for (uint32_t v = 0; v < 4; v++)
        put4(q, v, lane, qs + 4 * v);
}

/* 32 values of four bits, which are at bits [shift, shift + 4) of as many bytes. */
static void put_nibble_values(uint8_t *q, uint32_t lane, const uint8_t *from, uint32_t shift)
{
    for (uint32_t v = 0; v < 4; v++) {
        uint32_t low = load_u32(from + 4 * v) >> shift, high = load_u32(from + 16 + 4 * v) >> shift;
        put_word(q, v, lane, (low & 0x0f0f0f0f) | (high & 0x0f0f0f0f) << 4);
    }
}

/* 32 values of two bits, likewise. */
static void put_bit_pairs(uint8_t *h, uint32_t lane, const uint8_t *from, uint32_t shift)
{
    uint32_t w[2] = {0};
    for (uint32_t g = 0; g < 8; g++)
        w[g / 4] |= ((load_u32(from + 4 * g) >> shift) & 0x03030303) << (2 * (g % 4));
    put_word(h, 0, lane, w[0]);
    put_word(h, 1, lane, w[1]);
}

/* 32 values of one bit, likewise. */
static void put_bits(uint8_t *h, uint32_t lane, const uint8_t *from, uint32_t shift)
{
    uint32_t w = 0;
    for (uint32_t g = 0; g < 8; g++)
        w |= ((load_u32(from + 4 * g) >> shift) & 0x01010101) << g;
    put_word(h, 0, lane, w);
}

/* The same from a mask whose bit k belongs to k. The product puts bit i of a nibble at bit 8i, among others. */
static void put_mask(uint8_t *h, uint32_t lane, uint32_t mask)
{
    uint32_t w = 0;
    for (uint32_t g = 0; g < 8; g++)
        w |= (((mask >> (4 * g)) & 15) * 0x00204081 & 0x01010101) << g;
    put_word(h, 0, lane, w);
}

/* Scale and minimum `i` of the 12 packed bytes of Q4_K and Q5_K: 6 bits each, the last four split in two. */
static void k_scale_min(const uint8_t *s, int i, uint8_t *sc, uint8_t *mn)
{
    if (i < 4) {
        *sc = s[i] & 63;
        *mn = s[i + 4] & 63;
    } else {
        *sc = (uint8_t)((s[i + 4] & 15) | (s[i - 4] >> 6) << 4);
        *mn = (uint8_t)((s[i + 4] >> 4) | (s[i] >> 6) << 4);
    }
}

/* File: d, dmin, scales[12], (Q5_K: qh[32],) qs[128]; qs byte 32c + k holds sub-blocks 2c (low) and 2c + 1 (high). */
static void pack_k45(enum kern_type type, const uint8_t *f, uint32_t lane, uint8_t *q, uint8_t *meta)
{
    const uint8_t *scales = f + 4, *qh = f + 16, *qs = type == KERN_Q5_K ? f + 48 : f + 16;
    uint32_t qb = panel_layout(type).quant_bytes;
    for (uint32_t s = 0; s < 8; s++) {
        put_nibble_values(q + s * qb, lane, qs + s / 2 * 32, s % 2 * 4);
        if (type == KERN_Q5_K)
            put_bits(q + s * qb + 256, lane, qh, s);
        k_scale_min(scales, (int)s, &meta[s * 16 + lane], &meta[META_K_MIN + s * 16 + lane]);
    }
    put_u16(meta, META_K_D, lane, f);
    put_u16(meta, META_K_DMIN, lane, f + 2);
}

/* File: ql[128], qh[64], scales[16] signed, d. Each half of 128 values: value 32 r + l has its low bits in nibble r / 2
 * of ql[(r % 2) × 32 + l], its high two at bits 2r of qh[l]. */
static void pack_q6k(const uint8_t *f, uint32_t lane, uint8_t *q, uint8_t *meta)
{
    uint32_t qb = panel_layout(KERN_Q6_K).quant_bytes;
    for (uint32_t s = 0; s < 8; s++) {
        const uint8_t *ql = f + s / 4 * 64 + s % 2 * 32, *qh = f + 128 + s / 4 * 32;
        put_nibble_values(q + s * qb, lane, ql, s % 4 / 2 * 4);
        put_bit_pairs(q + s * qb + 256, lane, qh, s % 4 * 2);
    }
    for (uint32_t i = 0; i < 16; i++)
        meta[i * 16 + lane] = f[192 + i];
    put_u16(meta, META_K_D, lane, f + 208);
}

/* The low two bits of sub-block s in Q2_K and Q3_K: value l of the half it lies in, at bits 2 (s % 4) of qs[l]. */
static void put_low_bits(uint8_t *q, uint32_t lane, const uint8_t *qs, uint32_t s)
{
    put_bit_pairs(q, lane, qs + s / 4 * 32, s % 4 * 2);
}

/* File: scales[16], each with a minimum in its high nibble, qs[64], d, dmin. */
static void pack_q2k(const uint8_t *f, uint32_t lane, uint8_t *q, uint8_t *meta)
{
    for (uint32_t s = 0; s < 8; s++)
        put_low_bits(q + s * panel_layout(KERN_Q2_K).quant_bytes, lane, f + 16, s);
    for (uint32_t i = 0; i < 16; i++)
        meta[i * 16 + lane] = f[i];
    put_u16(meta, META_K_D, lane, f + 80);
    put_u16(meta, META_K_DMIN, lane, f + 82);
}

/* File: hmask[32], qs[64], scales[12], d. Bit s of hmask[k] is the third bit of value k of sub-block s. Scales have 6 bits
 * and are stored 32 too large: the low four of scale i are nibble i / 8 of scales[i % 8], the others are at bits
 * 2 (i / 4) of scales[8 + i % 4]. */
static void pack_q3k(const uint8_t *f, uint32_t lane, uint8_t *q, uint8_t *meta)
{
    const uint8_t *scales = f + 96;
    for (uint32_t s = 0; s < 8; s++, q += panel_layout(KERN_Q3_K).quant_bytes) {
        put_low_bits(q, lane, f + 32, s);
        put_bits(q + 128, lane, f, s);
    }
    for (uint32_t i = 0; i < 16; i++) {
        int low = (scales[i % 8] >> (i / 8 * 4)) & 15, high = (scales[8 + i % 4] >> (i / 4 * 2)) & 3;
        meta[i * 16 + lane] = (uint8_t)((low | high << 4) - 32);
    }
    put_u16(meta, META_K_D, lane, f + 108);
}

/* File: d, u16 high, low[4], qs[128]. Scales have 6 bits and are stored 32 too large: the low four of scale s are nibble
 * s % 2 of low[s / 2], the others are at bits 2s of `high`. */
static void pack_iq4xs(const uint8_t *f, uint32_t lane, uint8_t *q, uint8_t *meta)
{
    uint32_t high = f[2] | (uint32_t)f[3] << 8;
    for (uint32_t s = 0; s < 8; s++) {
        put_nibbles(q + s * panel_layout(KERN_IQ4_XS).quant_bytes, lane, f + 8 + 16 * s);
        uint32_t scale = ((f[4 + s / 2] >> (s % 2 * 4)) & 15u) | ((high >> (2 * s)) & 3) << 4;
        meta[s * 16 + lane] = (uint8_t)(scale - 32);
    }
    put_u16(meta, META_XS_D, lane, f);
}

static void pack_block(enum kern_type type, const uint8_t *f, uint32_t lane, uint8_t *q, uint8_t *meta)
{
    switch (type) {
    case KERN_Q8_0: /* d, qs[32] */
        for (uint32_t g = 0; g < 8; g++)
            put4(q, g, lane, f + 2 + 4 * g);
        break;
    case KERN_Q4_0:
    case KERN_IQ4_NL: /* d, qs[16] */
        put_nibbles(q, lane, f + 2);
        break;
    case KERN_Q4_1: /* d, m, qs[16] */
        put_nibbles(q, lane, f + 4);
        put_u16(meta, 32, lane, f + 2);
        break;
    case KERN_Q5_0: /* d, qh[4], qs[16] */
        put_nibbles(q, lane, f + 6);
        put_mask(q + 256, lane, load_u32(f + 2));
        break;
    case KERN_Q5_1: /* d, m, qh[4], qs[16] */
        put_nibbles(q, lane, f + 8);
        put_mask(q + 256, lane, load_u32(f + 4));
        put_u16(meta, 32, lane, f + 2);
        break;
    case KERN_MXFP4: /* e, qs[16] */
        put_nibbles(q, lane, f + 1);
        meta[lane] = f[0];
        return;
    case KERN_Q4_K:
    case KERN_Q5_K: pack_k45(type, f, lane, q, meta); return;
    case KERN_Q6_K: pack_q6k(f, lane, q, meta); return;
    case KERN_Q2_K: pack_q2k(f, lane, q, meta); return;
    case KERN_Q3_K: pack_q3k(f, lane, q, meta); return;
    case KERN_IQ4_XS: pack_iq4xs(f, lane, q, meta); return;
    default:
        BUG("packing type %d", (int)type);
    }
    put_u16(meta, 0, lane, f);
}

/* Some k of a row at a time, so that the lines they are spread over stay in the cache until all lanes are written. */
static void pack_plain(size_t esize, uint32_t rows, uint32_t cols, const uint8_t *src, uint32_t p, uint8_t *panel)
{
    uint32_t lanes = rows - p * KERN_LANES < KERN_LANES ? rows - p * KERN_LANES : KERN_LANES;
    for (uint32_t k0 = 0; k0 < cols; k0 += PLAIN_TILE) {
        uint32_t k1 = k0 + PLAIN_TILE < cols ? k0 + PLAIN_TILE : cols;
        for (uint32_t lane = 0; lane < lanes; lane++) {
            const uint8_t *row = src + (size_t)(p * KERN_LANES + lane) * cols * esize;
            for (uint32_t k = k0; k < k1; k++)
                memcpy(panel + ((size_t)k * KERN_LANES + lane) * esize, row + k * esize, esize);
        }
    }
}

void kern_pack(enum kern_type type, uint32_t rows, uint32_t cols, const void *src, uint32_t p0, uint32_t p1,
               uint8_t *dst)
{
    const struct kern_type_info *ti = kern_type_info(type);
    struct panel_layout l = panel_layout(type);
    size_t stride = kern_panel_stride(type, cols), row_bytes = (size_t)(cols / ti->block) * ti->file_bytes;
    for (uint32_t p = p0; p < p1; p++) {
        uint8_t *panel = dst + (size_t)p * stride;
        if ((p + 1) * KERN_LANES > rows) /* lanes without a row must read as zero weights */
            memset(panel, 0, stride);
        if (!ti->quantised) {
            if (ti->file_bytes == 4) /* so that the compiler knows how much is copied */
                pack_plain(4, rows, cols, src, p, panel);
            else
                pack_plain(2, rows, cols, src, p, panel);
            continue;
        }
        uint8_t *meta = panel + (size_t)(cols / KERN_QBLOCK) * l.quant_bytes;
        for (uint32_t b = 0; b < cols / ti->block; b++)
            for (uint32_t lane = 0; lane < KERN_LANES && p * KERN_LANES + lane < rows; lane++)
                pack_block(type, (const uint8_t *)src + (size_t)(p * KERN_LANES + lane) * row_bytes
                                     + (size_t)b * ti->file_bytes,
                           lane, panel + (size_t)b * l.per_block * l.quant_bytes, meta + (size_t)b * l.meta_bytes);
    }
}

static void unpack_block(enum kern_type type, const uint8_t *q, const uint8_t *meta, uint32_t sub, uint32_t lane,
                         float *out)
{
    struct panel_scale s = panel_scale(type, meta, sub, lane);
    for (uint32_t half = 0; half < 2; half++) {
        float m = s.neg_m * (float)s.mn[half];
        for (uint32_t k = 16 * half; k < 16 * half + 16; k++)
            out[k] = s.ds * (float)(s.sc[half] * panel_weight(type, q, lane, k)) + m;
    }
}

void kern_unpack_row(const struct kern_mat *m, uint32_t r, float *out)
{
    const struct kern_type_info *ti = kern_type_info(m->type);
    const uint8_t *panel = m->panels + (size_t)(r / KERN_LANES) * m->stride;
    uint32_t lane = r % KERN_LANES;
    if (!ti->quantised) {
        for (uint32_t k = 0; k < m->cols; k++)
            kern_to_f32(m->type, panel + ((size_t)k * KERN_LANES + lane) * ti->file_bytes, 1, out + k);
        return;
    }
    struct panel_layout l = panel_layout(m->type);
    const uint8_t *meta = panel_meta(panel, m->type, m->cols);
    for (uint32_t b = 0; b < m->cols / KERN_QBLOCK; b++)
        unpack_block(m->type, panel + (size_t)b * l.quant_bytes, meta + (size_t)(b / l.per_block) * l.meta_bytes,
                     b % l.per_block, lane, out + (size_t)b * KERN_QBLOCK);
}

void kern_to_f32(enum kern_type type, const void *src, size_t n, float *out)
{
    const struct kern_type_info *ti = kern_type_info(type);
    const uint8_t *p = src;
    if (type == KERN_F32) {
        memcpy(out, src, n * sizeof *out);
        return;
    }
    if (!ti->quantised) {
        for (size_t i = 0; i < n; i++) {
            uint16_t h;
            memcpy(&h, p + 2 * i, sizeof h);
            out[i] = type == KERN_F16 ? half_f32(h) : bf16_f32(h);
        }
        return;
    }
    /* Through a one-lane panel, so that each format is decoded in one place only. */
    _Alignas(64) uint8_t panel[8 * 384 + 320];
    struct panel_layout l = panel_layout(type);
    for (size_t b = 0; b < n / ti->block; b++) {
        uint8_t *meta = panel + l.per_block * l.quant_bytes;
        pack_block(type, p + b * ti->file_bytes, 0, panel, meta);
        for (uint32_t s = 0; s < l.per_block; s++)
            unpack_block(type, panel + s * l.quant_bytes, meta, s, 0, out + b * ti->block + s * KERN_QBLOCK);
    }
}

float kern_f16_to_f32(uint16_t h)
{
    return half_f32(h);
}

uint16_t kern_f32_to_f16(float f)
{
    return f32_half(f);
}

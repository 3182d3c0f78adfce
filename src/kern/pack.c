/*
 * pack: from the file's row-major blocks to panels, and back to single rows. File layouts as in ggml's ggml-common.h;
 * panel layout in panel.h. One output is written at a time: its 32-bit lanes are 64 bytes apart.
 */
#include <string.h>

#include "kern/half.h"
#include "kern/panel.h"

static void put4(uint8_t *q, uint32_t vec, uint32_t lane, const uint8_t *four)
{
    memcpy(q + vec * 64 + lane * 4, four, 4);
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

/* 32 values below 16 as nibbles. */
static void put_nibble_values(uint8_t *q, uint32_t lane, const uint8_t *x)
{
    uint8_t b[16];
    for (int i = 0; i < 16; i++)
        b[i] = (uint8_t)((x[i] & 15) | (x[i + 16] & 15) << 4);
    put_nibbles(q, lane, b);
}

/* The fifth bits of 32 values, from a mask whose bit k belongs to k. */
static void put_fifth(uint8_t *q, uint32_t lane, uint32_t mask)
{
    uint8_t h[4] = {0};
    for (int k = 0; k < 32; k++)
        h[k % 4] |= (uint8_t)(((mask >> k) & 1) << (k / 4));
    put4(q + 256, 0, lane, h);
}

static uint32_t load_u32(const uint8_t *p)
{
    uint32_t u;
    memcpy(&u, p, sizeof u);
    return u;
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
    for (int s = 0; s < 8; s++) {
        uint8_t x[32];
        uint32_t fifth = 0;
        for (int k = 0; k < 32; k++) {
            uint8_t byte = qs[s / 2 * 32 + k];
            x[k] = s % 2 ? byte >> 4 : byte & 15;
            if (type == KERN_Q5_K)
                fifth |= (uint32_t)((qh[k] >> s) & 1) << k;
        }
        put_nibble_values(q + (uint32_t)s * qb, lane, x);
        if (type == KERN_Q5_K)
            put_fifth(q + (uint32_t)s * qb, lane, fifth);
        k_scale_min(scales, s, &meta[s * 16 + (int)lane], &meta[META_K_MIN + (uint32_t)s * 16 + lane]);
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
        uint32_t r = s % 4;
        uint8_t x[32], h[2][4] = {{0}};
        for (uint32_t k = 0; k < 32; k++) {
            x[k] = r < 2 ? ql[k] & 15 : ql[k] >> 4;
            uint32_t top = (qh[k] >> (2 * r)) & 3, g = k / 4;
            h[g / 4][k % 4] |= (uint8_t)(top << (2 * (g % 4)));
        }
        put_nibble_values(q + s * qb, lane, x);
        put4(q + s * qb + 256, 0, lane, h[0]);
        put4(q + s * qb + 256, 1, lane, h[1]);
    }
    for (uint32_t i = 0; i < 16; i++)
        meta[i * 16 + lane] = f[192 + i];
    put_u16(meta, META_Q6_D, lane, f + 208);
}

static void pack_block(enum kern_type type, const uint8_t *f, uint32_t lane, uint8_t *q, uint8_t *meta)
{
    switch (type) {
    case KERN_Q8_0: /* d, qs[32] */
        for (uint32_t g = 0; g < 8; g++)
            put4(q, g, lane, f + 2 + 4 * g);
        break;
    case KERN_Q4_0: /* d, qs[16] */
        put_nibbles(q, lane, f + 2);
        break;
    case KERN_Q4_1: /* d, m, qs[16] */
        put_nibbles(q, lane, f + 4);
        put_u16(meta, 32, lane, f + 2);
        break;
    case KERN_Q5_0: /* d, qh[4], qs[16] */
        put_nibbles(q, lane, f + 6);
        put_fifth(q, lane, load_u32(f + 2));
        break;
    case KERN_Q5_1: /* d, m, qh[4], qs[16] */
        put_nibbles(q, lane, f + 8);
        put_fifth(q, lane, load_u32(f + 4));
        put_u16(meta, 32, lane, f + 2);
        break;
    case KERN_Q4_K:
    case KERN_Q5_K:
        pack_k45(type, f, lane, q, meta);
        return;
    case KERN_Q6_K:
        pack_q6k(f, lane, q, meta);
        return;
    default:
        BUG("packing type %d", (int)type);
    }
    put_u16(meta, 0, lane, f);
}

static void pack_plain(size_t esize, uint32_t rows, uint32_t cols, const uint8_t *src, uint32_t p, uint8_t *panel)
{
    for (uint32_t lane = 0; lane < KERN_LANES; lane++) {
        uint32_t r = p * KERN_LANES + lane;
        if (r >= rows)
            break;
        const uint8_t *row = src + (size_t)r * cols * esize;
        for (uint32_t k = 0; k < cols; k++)
            memcpy(panel + ((size_t)k * KERN_LANES + lane) * esize, row + k * esize, esize);
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
            pack_plain(ti->file_bytes, rows, cols, src, p, panel);
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

static float get_half(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return half_f32(h);
}

/* Stored quant of k (0..31) of one lane of a 32-k block. */
static int quant_at(enum kern_type type, const uint8_t *q, uint32_t lane, uint32_t k)
{
    uint32_t at = lane * 4 + k % 4, g = k / 4;
    if (type == KERN_Q8_0)
        return (int8_t)q[g * 64 + at];
    int x = k < 16 ? q[g * 64 + at] & 15 : q[(g - 4) * 64 + at] >> 4;
    if (type == KERN_Q5_0 || type == KERN_Q5_1 || type == KERN_Q5_K)
        return x | ((q[256 + at] >> g) & 1) << 4;
    if (type == KERN_Q6_K)
        return x | ((q[256 + g / 4 * 64 + at] >> (2 * (g % 4))) & 3) << 4;
    return x;
}

static void unpack_block(enum kern_type type, const uint8_t *q, const uint8_t *meta, uint32_t sub, uint32_t lane,
                         float *out)
{
    float d, m = 0;
    if (type == KERN_Q4_K || type == KERN_Q5_K) {
        d = get_half(meta + META_K_D + 2 * lane) * (float)meta[sub * 16 + lane];
        m = -(get_half(meta + META_K_DMIN + 2 * lane) * (float)meta[META_K_MIN + sub * 16 + lane]);
    } else {
        d = get_half(meta + (type == KERN_Q6_K ? META_Q6_D : 0) + 2 * lane);
        if (type == KERN_Q4_1 || type == KERN_Q5_1)
            m = get_half(meta + 32 + 2 * lane);
    }
    int offset = panel_layout(type).offset;
    for (uint32_t k = 0; k < 32; k++) {
        int x = quant_at(type, q, lane, k) - offset;
        if (type == KERN_Q6_K)
            x *= (int8_t)meta[(2 * sub + k / 16) * 16 + lane];
        out[k] = d * (float)x + m;
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

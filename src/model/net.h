/* net: the loaded network. Private to model; read-only after model_new(). */
#ifndef MODEL_NET_H
#define MODEL_NET_H

#include "model/family.h"
#include "model/model.h"

/* Rotation of one kind of layer: position p turns pair i by the f32 product p × freq[i]; cos and sin are multiplied by
 * mscale (yarn). */
struct rope {
    uint32_t pairs;
    float *freq;
    float mscale;
};

struct layer {
    struct kern_mat q, k, v, o, gate, up, down;
    const float *attn_norm, *ffn_norm;           /* [width] */
    const float *post_attn_norm, *post_ffn_norm; /* [width]; NULL without sandwich norms */
    const float *q_norm, *k_norm;                /* [head_dim]; NULL without */
    const float *q_bias, *k_bias, *v_bias;       /* NULL without */
    uint32_t group, slot;                        /* KV group, and which of its layers */
    uint32_t window;
    const struct rope *rope;
};

struct model {
    struct model_info info;
    const struct family *family;
    const struct kern_ops *ops;
    struct arena arena;          /* names, norms, biases, rotations, layers */
    struct packed *packed;       /* the panels of all matrices */
    float eps, attn_scale, attn_softcap, final_softcap, embed_scale;
    struct kern_mat embed, head; /* the same panels when tied */
    struct kern_mat dense[2];    /* of vectors, in order; */
    uint32_t dense_n;            /* how many there are */
    struct kern_mat classes;     /* of POOLING_RANK; rows 0 = none */
    const float *classes_bias;   /* NULL without */
    const float *final_norm;
    struct layer *layers;
    struct rope rope_full, rope_local;
};

/* An optional number: left alone when absent, ST_MODEL when it is no number or outside [lo, hi]. load.c */
MUST_CHECK enum status model_may_f32(const struct weights *w, const char *key, float lo, float hi, float *out,
                                     struct err *e);

/* Bytes of a file as text that is safe to print anywhere: what is not printable ASCII becomes '?'. Returns buf. load.c */
const char *model_plain(struct weights_str s, char *buf, size_t cap);

/* Fills m->rope_full and m->rope_local from the metadata. rope.c */
MUST_CHECK enum status rope_load(struct model *m, const struct weights *w, uint32_t pairs, const float *factors,
                                 struct err *e);

/* cs[0..pairs) cosines and cs[pairs..2 pairs) sines of position `pos`. */
void rope_angles(const struct rope *r, uint32_t pos, float *cs);

#endif

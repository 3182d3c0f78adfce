/* types: what the weight types are called and how large they are. File layouts as in ggml's ggml-common.h. */
#include "kern/kern.h"
#include "kern/panel.h"

static const struct kern_type_info infos[KERN_TYPES] = {
    [KERN_F32] = {"F32", 1, 4, false},      [KERN_F16] = {"F16", 1, 2, false},
    [KERN_BF16] = {"BF16", 1, 2, false},    [KERN_Q8_0] = {"Q8_0", 32, 34, true},
    [KERN_Q4_0] = {"Q4_0", 32, 18, true},   [KERN_Q4_1] = {"Q4_1", 32, 20, true},
    [KERN_Q5_0] = {"Q5_0", 32, 22, true},   [KERN_Q5_1] = {"Q5_1", 32, 24, true},
    [KERN_Q4_K] = {"Q4_K", 256, 144, true}, [KERN_Q5_K] = {"Q5_K", 256, 176, true},
    [KERN_Q6_K] = {"Q6_K", 256, 210, true}, [KERN_Q2_K] = {"Q2_K", 256, 84, true},
    [KERN_Q3_K] = {"Q3_K", 256, 110, true}, [KERN_IQ4_NL] = {"IQ4_NL", 32, 18, true},
    [KERN_IQ4_XS] = {"IQ4_XS", 256, 136, true}, [KERN_MXFP4] = {"MXFP4", 32, 17, true},
};

const struct kern_type_info *kern_type_info(enum kern_type type)
{
    if ((unsigned)type >= KERN_TYPES)
        BUG("weight type %d", (int)type);
    return &infos[type];
}

size_t kern_panel_stride(enum kern_type type, uint32_t cols)
{
    const struct kern_type_info *ti = kern_type_info(type);
    if (!ti->quantised)
        return mem_round((size_t)cols * KERN_LANES * ti->file_bytes, 64);
    struct panel_layout l = panel_layout(type);
    return mem_round((size_t)(cols / KERN_QBLOCK) * l.quant_bytes + (size_t)(cols / ti->block) * l.meta_bytes, 64);
}

size_t kern_mat_bytes(enum kern_type type, uint32_t rows, uint32_t cols)
{
    return mem_mul(kern_panel_stride(type, cols), kern_panels(rows));
}

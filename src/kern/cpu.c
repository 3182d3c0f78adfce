/* cpu: which level this processor can run, and which one is used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kern/kern.h"
#include "kern/ref/ref.h"
#if defined(__x86_64__)
#include "kern/avx2/avx2.h"
#include "kern/avx512/avx512.h"
#endif

static const char *const level_names[KERN_LEVELS] = {"ref", "avx2", "avx512"};
static char why[160] = "no level was chosen yet";

#if defined(__x86_64__)
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
           && __builtin_cpu_supports("avx512vnni");
}
#endif

const struct kern_ops *kern_level_ops(enum kern_level level)
{
    switch (level) {
    case KERN_REF: return &kern_ref_ops;
#if defined(__x86_64__)
    case KERN_AVX2: return has_avx2() ? &kern_avx2_ops : NULL;
    case KERN_AVX512: return has_avx512() ? &kern_avx512_ops : NULL;
#endif
    default: return NULL;
    }
}

enum status kern_choose(const struct kern_ops **out, struct err *e)
{
    const char *want = getenv("FFWD_CPU");
    *out = NULL;
    for (int level = KERN_LEVELS - 1; level >= 0; level--) {
        const struct kern_ops *ops = kern_level_ops((enum kern_level)level);
        if (want && *want) {
            if (strcmp(want, level_names[level]) != 0)
                continue;
            if (!ops)
                return err_set(e, ST_UNSUPPORTED, "FFWD_CPU", "FFWD_CPU asks for %s, which this processor lacks", want);
            snprintf(why, sizeof why, "%s, because FFWD_CPU says so", level_names[level]);
        } else if (!ops) {
            continue;
        } else if (level == KERN_AVX512) {
            snprintf(why, sizeof why, "avx512, because the processor has AVX-512 F, BW, VL, DQ and VNNI");
        } else if (level == KERN_AVX2) {
            snprintf(why, sizeof why, "avx2, because the processor has AVX2, FMA and F16C but not AVX-512 with VNNI");
        } else {
            snprintf(why, sizeof why, "ref (plain C, slow), because the processor lacks AVX2, FMA or F16C");
        }
        *out = ops;
        return ST_OK;
    }
    return err_set(e, ST_UNSUPPORTED, "FFWD_CPU", "FFWD_CPU must be ref, avx2 or avx512, not \"%.40s\"", want ? want : "");
}

const char *kern_why(void)
{
    return why;
}

/* cpu: which level this processor can run, and which one is used. */
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "kern/kern.h"
#include "kern/ref/ref.h"
#if defined(__x86_64__)
#include "kern/avx2/avx2.h"
#include "kern/avx512/avx512.h"
#elif defined(__aarch64__)
#include "kern/neon/neon.h"
#endif

const char *kern_level_name(enum kern_level level)
{
    static const char *const names[KERN_LEVELS] = {"ref", "avx2", "avx512", "neon"};
    return names[level];
}

#if defined(__x86_64__)
/* clang 14 has no name for it. Whether the system keeps the registers it needs, AVX2's answer says. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c() && __builtin_cpu_supports("bmi2");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
           && __builtin_cpu_supports("avx512vnni");
}
#elif defined(__aarch64__)
static bool has_dot_products(void)
{
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
}
#endif

const struct kern_ops *kern_level_ops(enum kern_level level)
{
    switch (level) {
    case KERN_REF: return &kern_ref_ops;
#if defined(__x86_64__)
    case KERN_AVX2: return has_avx2() ? &kern_avx2_ops : NULL;
    case KERN_AVX512: return has_avx512() ? &kern_avx512_ops : NULL;
#elif defined(__aarch64__)
    case KERN_NEON: return has_dot_products() ? &kern_neon_ops : NULL;
#endif
    default: return NULL;
    }
}

/* The level FFWD_CPU names; KERN_LEVELS when it names none that is known; -1 when it is not set. */
static int forced_level(const char **name)
{
    const char *want = *name = getenv("FFWD_CPU");
    if (!want || !*want)
        return -1;
    int level = 0;
    while (level < KERN_LEVELS && strcmp(want, kern_level_name((enum kern_level)level)) != 0)
        level++;
    return level;
}

static int best_level(void)
{
    int level = KERN_LEVELS - 1;
    while (!kern_level_ops((enum kern_level)level))
        level--;
    return level;
}

enum status kern_choose(const struct kern_ops **out, struct err *e)
{
    const char *want;
    int level = forced_level(&want);
    *out = NULL;
    if (level == KERN_LEVELS)
        return err_set(e, ST_UNSUPPORTED, "FFWD_CPU", "FFWD_CPU must be ref, avx2, avx512 or neon, not \"%.40s\"", want);
    *out = kern_level_ops((enum kern_level)(level < 0 ? best_level() : level));
    if (!*out)
        return err_set(e, ST_UNSUPPORTED, "FFWD_CPU", "FFWD_CPU asks for %s, which this processor lacks", want);
    return ST_OK;
}

const char *kern_why(void)
{
    static const char *const by_choice[KERN_LEVELS] = {
        "ref, because FFWD_CPU says so",
        "avx2, because FFWD_CPU says so",
        "avx512, because FFWD_CPU says so",
        "neon, because FFWD_CPU says so",
    };
    static const char *const by_processor[KERN_LEVELS] = {
#if defined(__aarch64__)
        "ref (plain C, slow), because the processor lacks NEON's dot products",
#else
        "ref (plain C, slow), because the processor lacks AVX2, FMA, F16C or BMI2",
#endif
        "avx2, because the processor has AVX2, FMA, F16C and BMI2, but not AVX-512 with VNNI",
        "avx512, because the processor has AVX-512 F, BW, VL, DQ and VNNI",
        "neon, because the processor has NEON with dot products",
    };
    const char *want;
    int level = forced_level(&want);
    if (level == KERN_LEVELS)
        return "none, because FFWD_CPU names no level";
    return level < 0 ? by_processor[best_level()] : by_choice[level];
}

/*
 * limits: what this machine's memory and processors can do at best, whatever program runs on them.
 *
 *     limits [THREADS ...]      for each number of threads; without one, for 1 and for every processor it may use
 *
 * Prints one JSON object: {"runs": [{"threads", "read_gb_s", "vpdpbusd_gmac_s", "maddubs_gmac_s",
 * "two_maddubs_gmac_s", "fma_gmac_s", "barrier_us"}]}, all threads together; null where the processor lacks the
 * instructions. A MAC is one multiplication and one addition; what adding them up in a wider type costs is part of it:
 * vpdpbusd needs nothing more, maddubs (16-bit pairs) a madd and an add, two maddubs one of each between them, as 4-bit
 * weights allow.
 *
 * Uses nothing of ffwd, since it is what ffwd is measured by. Threads are pinned; the best of REPS repetitions counts.
 * Loops keep all operands in registers and have more independent sums than the instructions' latency asks for. So that
 * the compiler cannot compute ahead, an operand passes through an empty asm statement before each use, and every sum is
 * compared with what it must be: a loop that was left out is an error, not a record.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 1024
#define REPS 15
#define ROUNDS (1u << 20)     /* of a register loop: a few milliseconds; every sum of floats stays exact */
#define BARRIERS (1u << 14)
#define LEAST_MEMORY ((size_t)256 << 20)
#define MOST_MEMORY ((size_t)2 << 30)

/* Passed by all threads or by none. */
struct barrier {
    _Alignas(64) _Atomic unsigned arrived;
    _Alignas(64) _Atomic unsigned phase;
    unsigned threads;
};

struct job;
typedef bool work_fn(struct job *j, int thread); /* one repetition; whether its sums are right */

struct job {
    struct barrier gate;
    work_fn *work;
    int threads;
    cpu_set_t allowed;
    uint64_t *memory;         /* [words], all 1; each thread fills and reads its part */
    size_t words;
    _Atomic bool wrong;
    double begin[MOST_THREADS], end[MOST_THREADS];
    double best;              /* seconds from the first thread's begin to the last one's end */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void barrier_wait(struct barrier *b)
{
    unsigned phase = atomic_load_explicit(&b->phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&b->arrived, 1, memory_order_acq_rel) + 1 == b->threads) {
        atomic_store_explicit(&b->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&b->phase, phase + 1, memory_order_release);
        return;
    }
    for (unsigned i = 1; atomic_load_explicit(&b->phase, memory_order_acquire) == phase; i++) {
        relax();
        if (i % (1u << 20) == 0)
            sched_yield(); /* more threads than processors */
    }
}

/* --- what is measured ------------------------------------------------------------------------------------------------ */

static bool pass_barriers(struct job *j, int thread)
{
    (void)thread;
    for (unsigned i = 0; i < BARRIERS; i++)
        barrier_wait(&j->gate);
    return true;
}

/* One ascending stream for each thread. */
static bool read_memory(struct job *j, int thread)
{
    typedef uint64_t lanes __attribute__((vector_size(32)));
    size_t n = j->words / (size_t)j->threads / 16;
    const lanes *p = (const lanes *)(const void *)(j->memory + (size_t)thread * n * 16);
    lanes a = {0}, b = {0}, c = {0}, d = {0};
    for (size_t i = 0; i < n; i++, p += 4) {
        a += p[0];
        b += p[1];
        c += p[2];
        d += p[3];
    }
    a += b + (c + d);
    return a[0] + a[1] + a[2] + a[3] == n * 16;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define WEIGHT 13   /* of 4 bits, so that two products of maddubs can be added in 16 bits */
#define INPUT (-93)

/* Every loop over the sums, so that they are registers to the compiler and no array. */
#define UNROLLED _Pragma("GCC unroll 16")

/* As far as the compiler knows, the value may be any from here on, and was in a register. */
#define OPAQUE(v) __asm__ volatile("" : "+v"(v))

#define VNNI_SUMS 16 /* two a cycle at most, 5 cycles each */
#define VNNI_MACS (VNNI_SUMS * 64)

__attribute__((target("avx512f,avx512vnni"))) static bool vpdpbusd(struct job *j, int thread)
{
    (void)j;
    (void)thread;
    __m512i w = _mm512_set1_epi8(WEIGHT), x = _mm512_set1_epi8(INPUT), sum[VNNI_SUMS];
    UNROLLED
    for (int i = 0; i < VNNI_SUMS; i++)
        sum[i] = _mm512_setzero_si512();
    for (unsigned r = 0; r < ROUNDS; r++) {
        UNROLLED
        for (int i = 0; i < VNNI_SUMS; i++) {
            OPAQUE(w);
            sum[i] = _mm512_dpbusd_epi32(sum[i], w, x);
            OPAQUE(sum[i]);
        }
    }
    __mmask16 right = 0xFFFF;
    UNROLLED
    for (int i = 0; i < VNNI_SUMS; i++)
        right &= _mm512_cmpeq_epi32_mask(sum[i], _mm512_set1_epi32((int32_t)(ROUNDS * (4u * WEIGHT * INPUT))));
    return right == 0xFFFF;
}

#define AVX2_SUMS 8
#define MADDUBS_MACS (AVX2_SUMS * 32)

/* All lanes of all sums must be ROUNDS × `each`, modulo 2^32. */
__attribute__((target("avx2"), always_inline)) static inline bool sums_are(const __m256i *sum, uint32_t each)
{
    int right = -1;
    UNROLLED
    for (int i = 0; i < AVX2_SUMS; i++)
        right &= _mm256_movemask_epi8(_mm256_cmpeq_epi32(sum[i], _mm256_set1_epi32((int32_t)(ROUNDS * each))));
    return right == -1;
}

__attribute__((target("avx2"))) static bool maddubs(struct job *j, int thread)
{
    (void)j;
    (void)thread;
    __m256i w = _mm256_set1_epi8(WEIGHT), x = _mm256_set1_epi8(INPUT), ones = _mm256_set1_epi16(1), sum[AVX2_SUMS];
    UNROLLED
    for (int i = 0; i < AVX2_SUMS; i++)
        sum[i] = _mm256_setzero_si256();
    for (unsigned r = 0; r < ROUNDS; r++) {
        UNROLLED
        for (int i = 0; i < AVX2_SUMS; i++) {
            OPAQUE(w);
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), ones));
            OPAQUE(sum[i]);
        }
    }
    return sums_are(sum, 4u * WEIGHT * INPUT);
}

__attribute__((target("avx2"))) static bool two_maddubs(struct job *j, int thread)
{
    (void)j;
    (void)thread;
    __m256i w = _mm256_set1_epi8(WEIGHT), v = w, x = _mm256_set1_epi8(INPUT), ones = _mm256_set1_epi16(1);
    __m256i sum[AVX2_SUMS];
    UNROLLED
    for (int i = 0; i < AVX2_SUMS; i++)
        sum[i] = _mm256_setzero_si256();
    for (unsigned r = 0; r < ROUNDS / 2; r++) {
        UNROLLED
        for (int i = 0; i < AVX2_SUMS; i++) {
            OPAQUE(w);
            OPAQUE(v);
            __m256i both = _mm256_add_epi16(_mm256_maddubs_epi16(w, x), _mm256_maddubs_epi16(v, x));
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(both, ones));
            OPAQUE(sum[i]);
        }
    }
    return sums_are(sum, 4u * WEIGHT * INPUT);
}

#define FMA_SUMS 12 /* two a cycle, 4 or 5 cycles each */
#define FMA_MACS (FMA_SUMS * 8)

__attribute__((target("avx2,fma"))) static bool fma_256(struct job *j, int thread)
{
    (void)j;
    (void)thread;
    __m256 w = _mm256_set1_ps(0.5f), x = _mm256_set1_ps(2), sum[FMA_SUMS];
    int right = 0xFF;
    UNROLLED
    for (int i = 0; i < FMA_SUMS; i++)
        sum[i] = _mm256_setzero_ps();
    for (unsigned r = 0; r < ROUNDS; r++) {
        UNROLLED
        for (int i = 0; i < FMA_SUMS; i++) {
            OPAQUE(w);
            sum[i] = _mm256_fmadd_ps(w, x, sum[i]);
            OPAQUE(sum[i]);
        }
    }
    UNROLLED
    for (int i = 0; i < FMA_SUMS; i++)
        right &= _mm256_movemask_ps(_mm256_cmp_ps(sum[i], _mm256_set1_ps(ROUNDS), _CMP_EQ_OQ));
    return right == 0xFF;
}

__attribute__((target("avx512f"))) static bool fma_512(struct job *j, int thread)
{
    (void)j;
    (void)thread;
    __m512 w = _mm512_set1_ps(0.5f), x = _mm512_set1_ps(2), sum[FMA_SUMS];
    __mmask16 right = 0xFFFF;
    UNROLLED
    for (int i = 0; i < FMA_SUMS; i++)
        sum[i] = _mm512_setzero_ps();
    for (unsigned r = 0; r < ROUNDS / 2; r++) {
        UNROLLED
        for (int i = 0; i < FMA_SUMS; i++) {
            OPAQUE(w);
            sum[i] = _mm512_fmadd_ps(w, x, sum[i]);
            OPAQUE(sum[i]);
        }
    }
    UNROLLED
    for (int i = 0; i < FMA_SUMS; i++)
        right &= _mm512_cmp_ps_mask(sum[i], _mm512_set1_ps(ROUNDS / 2), _CMP_EQ_OQ);
    return right == 0xFFFF;
}

static work_fn *if_avx2(work_fn *work)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? work : NULL;
}

static work_fn *if_avx512(work_fn *work)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni") ? work : NULL;
}

#else /* other processors: memory and barriers alone */

#define VNNI_MACS 0
#define MADDUBS_MACS 0
#define FMA_MACS 0
#define if_avx2(work) NULL
#define if_avx512(work) NULL

#endif

/* --- threads --------------------------------------------------------------------------------------------------------- */

struct thread {
    struct job *job;
    int index;
};

static void pin(const struct job *j, int thread)
{
    int wanted = thread % CPU_COUNT(&j->allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &j->allowed) && wanted-- == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            pthread_setaffinity_np(pthread_self(), sizeof one, &one); /* without it the figures are only less steady */
            return;
        }
    }
}

static void fill_memory(struct job *j, int thread)
{
    size_t part = j->words / (size_t)j->threads;
    for (size_t i = 0; i < part; i++)
        j->memory[(size_t)thread * part + i] = 1;
}

static void keep_best(struct job *j)
{
    double begin = j->begin[0], end = j->end[0];
    for (int i = 1; i < j->threads; i++) {
        begin = j->begin[i] < begin ? j->begin[i] : begin;
        end = j->end[i] > end ? j->end[i] : end;
    }
    j->best = end - begin < j->best ? end - begin : j->best;
}

static void *thread_main(void *arg)
{
    const struct thread *t = arg;
    struct job *j = t->job;
    pin(j, t->index);
    if (j->memory)
        fill_memory(j, t->index);
    for (int rep = 0; rep < REPS; rep++) {
        barrier_wait(&j->gate);
        j->begin[t->index] = now();
        if (!j->work(j, t->index))
            j->wrong = true;
        j->end[t->index] = now();
        barrier_wait(&j->gate);
        if (t->index == 0)
            keep_best(j);
    }
    return NULL;
}

static void die(const char *text)
{
    fprintf(stderr, "limits: %s\n", text);
    exit(1);
}

/* Seconds of the best repetition on all threads; 0 without work. */
static double seconds_of(work_fn *work, int threads, uint64_t *memory, size_t words)
{
    static struct job j;
    static struct thread all[MOST_THREADS];
    pthread_t id[MOST_THREADS];
    if (!work)
        return 0;
    j = (struct job){.gate.threads = (unsigned)threads, .work = work, .threads = threads, .memory = memory,
                     .words = words, .best = 1e9};
    if (sched_getaffinity(0, sizeof j.allowed, &j.allowed))
        die("cannot tell which processors may be used");
    for (int i = 0; i < threads; i++) {
        all[i] = (struct thread){&j, i};
        if (pthread_create(&id[i], NULL, thread_main, &all[i]))
            die("cannot start the threads");
    }
    for (int i = 0; i < threads; i++)
        pthread_join(id[i], NULL);
    if (j.wrong)
        die("a sum is wrong: the loop did not do what it was to do");
    return j.best;
}

/* --- the report ------------------------------------------------------------------------------------------------------ */

static void print_rate(const char *name, double amount, double seconds)
{
    if (seconds > 0)
        printf(", \"%s\": %.2f", name, amount / seconds * 1e-9);
    else
        printf(", \"%s\": null", name);
}

/* Several times the last-level cache, so that a pass finds nothing of the one before. */
static size_t memory_bytes(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t bytes = cache > 0 ? (size_t)cache * 4 : 0;
    bytes = bytes < LEAST_MEMORY ? LEAST_MEMORY : bytes;
    return bytes < MOST_MEMORY ? bytes : MOST_MEMORY;
}

static double read_seconds(int threads, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("no memory to read");
    madvise(memory, bytes, MADV_HUGEPAGE); /* where it is refused, small pages are what the machine has */
    double seconds = seconds_of(read_memory, threads, memory, bytes / sizeof(uint64_t));
    munmap(memory, bytes);
    return seconds;
}

static void report(int threads)
{
    double per_thread = (double)ROUNDS * threads;
    size_t bytes = memory_bytes();
    printf("{\"threads\": %d", threads);
    print_rate("read_gb_s", (double)bytes, read_seconds(threads, bytes));
    print_rate("vpdpbusd_gmac_s", VNNI_MACS * per_thread, seconds_of(if_avx512(vpdpbusd), threads, NULL, 0));
    print_rate("maddubs_gmac_s", MADDUBS_MACS * per_thread, seconds_of(if_avx2(maddubs), threads, NULL, 0));
    print_rate("two_maddubs_gmac_s", MADDUBS_MACS * per_thread, seconds_of(if_avx2(two_maddubs), threads, NULL, 0));
    work_fn *wide = if_avx512(fma_512); /* half as many rounds of twice as many lanes */
    print_rate("fma_gmac_s", FMA_MACS * per_thread, seconds_of(wide ? wide : if_avx2(fma_256), threads, NULL, 0));
    printf(", \"barrier_us\": %.3f}", seconds_of(pass_barriers, threads, NULL, 0) / BARRIERS * 1e6);
}

int main(int argc, char **argv)
{
    cpu_set_t allowed;
    int counts[2] = {1, 1}, n = argc > 1 ? argc - 1 : 2;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        counts[1] = CPU_COUNT(&allowed) < MOST_THREADS ? CPU_COUNT(&allowed) : MOST_THREADS;
    for (int i = 1; i < argc; i++) {
        char *end;
        long count = strtol(argv[i], &end, 10);
        if (*end || count < 1 || count > MOST_THREADS) {
            fprintf(stderr, "usage: limits [THREADS ...], each from 1 to %d\n", MOST_THREADS);
            return 2;
        }
    }
    printf("{\"runs\": [");
    for (int i = 0; i < n; i++) {
        printf("%s", i ? ", " : "");
        report(argc > 1 ? (int)strtol(argv[i + 1], NULL, 10) : counts[i]);
        fflush(stdout);
    }
    printf("]}\n");
    return fflush(stdout) != 0;
}

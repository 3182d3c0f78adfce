/*
 * trig: sine and cosine of a float angle, in double arithmetic, the same on every machine (no fused operations, no libm).
 *
 * x = k π/2 + r with π/2 in three parts of 33 bits (fdlibm's split), exact products for |k| < 2^20; larger angles are
 * first brought below 2^20 by fmod with 2π, whose error (2^-52 × x) is what a float angle of that size cannot tell apart.
 * The polynomials are fdlibm's __kernel_sin and __kernel_cos.
 */
#include <math.h>

#include "kern/kern.h"

static const double PIO2_1 = 1.57079632673412561417e+00, PIO2_2 = 6.07710050630396597660e-11,
                    PIO2_3 = 2.02226624871116645580e-21, TWO_OVER_PI = 6.36619772367581382433e-01;

static double poly_sin(double r)
{
    double z = r * r;
    double p = 1.58969099521155010221e-10;
    p = p * z + -2.50507602534068634195e-08;
    p = p * z + 2.75573137070700676789e-06;
    p = p * z + -1.98412698298579493134e-04;
    p = p * z + 8.33333333332248946124e-03;
    p = p * z + -1.66666666666666324348e-01;
    return r + r * (z * p);
}

static double poly_cos(double r)
{
    double z = r * r;
    double p = -1.13596475577881948265e-11;
    p = p * z + 2.08757232129817482790e-09;
    p = p * z + -2.75573143513906633035e-07;
    p = p * z + 2.48015872894767294178e-05;
    p = p * z + -1.38888888888741095749e-03;
    p = p * z + 4.16666666666666019037e-02;
    return 1.0 - (0.5 * z - z * (z * p));
}

void kern_sincos(float x, float *s, float *c)
{
    double a = (double)x;
    if (!(fabs(a) < 0x1p62)) { /* NaN, infinity, nonsense: such a row fails anyway */
        *s = *c = NAN;
        return;
    }
    if (fabs(a) > 0x1p20)
        a = fmod(a, 6.28318530717958647693);
    double k = (double)(int64_t)(a * TWO_OVER_PI + (a < 0 ? -0.5 : 0.5));
    double r = ((a - k * PIO2_1) - k * PIO2_2) - k * PIO2_3;
    float sn = (float)poly_sin(r), cs = (float)poly_cos(r);
    switch ((int64_t)k & 3) {
    case 0: *s = sn, *c = cs; break;
    case 1: *s = cs, *c = -sn; break;
    case 2: *s = -sn, *c = -cs; break;
    default: *s = -cs, *c = sn; break;
    }
}

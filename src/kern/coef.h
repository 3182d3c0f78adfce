/*
 * coef: the constants of the elementary functions, so that every level evaluates the same polynomials.
 *
 * exp: Cephes' expf (S. Moshier): x = n ln 2 + r, |r| <= ln 2 / 2, degree 7 in r, error below 1 ulp of 1.
 * tanh: Cephes' tanhf below 0.625, 1 - 2 / (exp(2|x|) + 1) above.
 */
#ifndef KERN_COEF_H
#define KERN_COEF_H

#define EXP_LO (-87.33654475f) /* below: exactly 0, so that no result is denormal */
#define EXP_HI 88.0f           /* above: exp(88); infinity is never produced */
#define EXP_LOG2E 1.44269504088896341f
#define EXP_LN2_HI 0.693359375f
#define EXP_LN2_LO (-2.12194440e-4f)
#define EXP_C0 1.9875691500e-4f
#define EXP_C1 1.3981999507e-3f
#define EXP_C2 8.3334519073e-3f
#define EXP_C3 4.1665795894e-2f
#define EXP_C4 1.6666665459e-1f
#define EXP_C5 5.0000001201e-1f

#define TANH_SMALL 0.625f
#define TANH_C0 (-5.70498872745e-3f)
#define TANH_C1 2.06390887954e-2f
#define TANH_C2 (-5.37397155531e-2f)
#define TANH_C3 1.33314422036e-1f
#define TANH_C4 (-3.33332819422e-1f)

/* gelu(x) = x / (1 + exp(-2u)), 2u = x (GELU_A + GELU_B x²): the tanh form, tanh(u) = 2 sigmoid(2u) - 1 */
#define GELU_A 1.5957691216057308f  /* 2 sqrt(2 / pi) */
#define GELU_B 0.07135481627159973f /* 2 sqrt(2 / pi) × 0.044715 */

#define AMAX_TINY 1e-30f /* activations smaller than this quantise to 0 */

#endif

/* math: see math.h. */
#include "base/math.h"

#include <math.h>

#define LN2 0.69314718055994530942

/* ln x = e ln 2 + 2 atanh((m - 1) / (m + 1)), m in [sqrt(1/2), sqrt(2)) */
double math_log(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752440) {
        m *= 2;
        e--;
    }
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
    for (int k = 39; k >= 1; k -= 2)
        sum = sum * s2 + 1.0 / k;
    return (double)e * LN2 + 2 * s * sum;
}

/* exp x = 2^n exp r, |r| <= ln 2 / 2 */
double math_exp(double x)
{
    double n = floor(x / LN2 + 0.5), r = x - n * LN2, sum = 1;
    for (int k = 20; k >= 1; k--)
        sum = 1 + sum * r / k;
    return ldexp(sum, (int)n);
}

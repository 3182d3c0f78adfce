/* math: exp and log in double from basic operations alone, so that a machine's libm does not decide about bits. Good to a
 * few units in the last place; not fast. */
#ifndef BASE_MATH_H
#define BASE_MATH_H

double math_exp(double x); /* |x| <= 700 */
double math_log(double x); /* x > 0 and finite */

#endif

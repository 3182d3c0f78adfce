/* clock: monotonic time. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_ns(void);     /* monotonic nanoseconds */
double clock_seconds(void);  /* the same in seconds */
int64_t clock_unix(void);    /* seconds since 1970 */

#endif

/* byte_stand_in: see byte_stand_in.h. */
#include "byte_stand_in.h"

#include <stdbool.h>
#include <string.h>

void byte_stand_in(unsigned byte, char out[4])
{
    unsigned c = byte, next = 256;
    bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    for (unsigned b = 0; !printable && b <= byte; b++)
        if (!((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174))
            c = next++;
    memset(out, 0, 4);
    if (c < 128) {
        out[0] = (char)c;
    } else {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
    }
}

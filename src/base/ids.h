/* ids: the type of a token id, shared by every folder that carries ids. */
#ifndef BASE_IDS_H
#define BASE_IDS_H

#include <stdint.h>

typedef int32_t tok_id; /* 0 <= id < vocabulary size; negative never occurs in valid data */

#endif

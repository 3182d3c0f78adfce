/* byte_stand_in: how byte-level vocabularies write bytes, for tests that make such a vocabulary. */
#ifndef BYTE_STAND_IN_H
#define BYTE_STAND_IN_H

/* GPT-2's stand-in for a byte, as UTF-8 and a NUL. */
void byte_stand_in(unsigned byte, char out[4]);

#endif

/* use_weights: reads all of a model file that opened, whatever it holds, so that a sanitizer or a guard page notices. */
#ifndef TESTS_LIB_USE_WEIGHTS_H
#define TESTS_LIB_USE_WEIGHTS_H

#include "weights/weights.h"

/* Reads every metadata entry and packs every tensor; aborts where something lies outside the file or has two types. */
void use_weights(const struct weights *w, struct pool *pool);

#endif

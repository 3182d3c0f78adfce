/*
 * base: what every other folder stands on. Includes libc only, knows nothing of models or requests.
 *
 * One include gives all of it; each part is described in its own header.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/home.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/log_file.h"
#include "base/math.h"
#include "base/mem.h"
#include "base/nice.h"
#include "base/pool.h"
#include "base/rng.h"

#endif

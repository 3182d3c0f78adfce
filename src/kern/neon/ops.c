/* ops: the table of this level; the bodies are in simd/, compiled here with this folder's instruction flags. */
#include "kern/neon/vec.h"

#include "kern/neon/neon.h"
#include "kern/simd/attn.h"
#include "kern/simd/ops.h"
#include "kern/simd/plain.h"
#include "kern/simd/store.h"
#include "kern/simd/table.h"

SIMD_TABLE(neon, "neon");

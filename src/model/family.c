/* family: the list. */
#include "model/family.h"

#include <string.h>

static const struct family *const families[] = {&family_llama, &family_qwen2, &family_qwen3, &family_gemma3,
                                                &family_gemma_embedding};

const struct family *family_find(const char *arch, size_t n)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strlen(families[i]->arch) == n && memcmp(families[i]->arch, arch, n) == 0)
            return families[i];
    return NULL;
}

const char *family_names(void)
{
    return "llama, qwen2, qwen3, gemma3, gemma-embedding";
}

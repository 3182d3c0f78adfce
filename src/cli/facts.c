/* facts: see facts.h. */
#include "cli/facts.h"

#include <sys/stat.h>

#include "kern/kern.h"
#include "model/model.h"
#include "weights/weights.h"

/* The type that most bytes of the weights have. */
static const char *most_used(const struct weights *w)
{
    size_t bytes[KERN_TYPES] = {0}, most = 0;
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct tensor *t = weights_at(w, i);
        bytes[t->type] += t->bytes;
    }
    for (size_t k = 1; k < KERN_TYPES; k++)
        most = bytes[k] > bytes[most] ? k : most;
    return kern_type_info((enum kern_type)most)->name;
}

void cli_facts(const struct api_model *m, struct server_facts *out)
{
    const struct model_info *info = model_info(m->model);
    struct weights_str source;
    struct stat st;
    *out = (struct server_facts){
        .architecture = info->architecture,
        .weights = most_used(m->weights),
        .path = weights_path(m->weights),
        .parameters = info->parameters,
        .bytes = weights_file_bytes(m->weights),
        .layers = info->layers,
        .width = info->width,
        .ffn = info->ffn,
        .heads = info->heads,
        .kv_heads = info->kv_heads,
        .vocab = info->vocab,
        .context = info->context,
        .mute = info->bidirectional,
        .matryoshka = info->matryoshka,
    };
    if (stat(out->path, &st) == 0)
        out->modified = (int64_t)st.st_mtime;
    if (weights_string(m->weights, "tokenizer.chat_template", &source)) {
        out->chat_template = source.s;
        out->chat_template_n = source.n;
    }
    if (weights_string(m->weights, "tokenizer.chat_template.rerank", &source)) {
        out->rerank_template = source.s;
        out->rerank_template_n = source.n;
    }
}

/*
 * vectors: addresses that give vectors of texts, or ranks of documents, in the shapes of their APIs.
 *
 *     /v1/embeddings                   OpenAI's (openai_embeddings.c)
 *     /api/embed, /api/embeddings      Ollama's (ollama_embed.c)
 *     /embedding, /embeddings          llama-server's (native_embedding.c)
 *     /v1/rerank and its other names   Jina's, as llama-server has it (native_rerank.c)
 *
 * A dialect parses and writes; the rest is the same for all of them (openai_vectors.c). Policy for fields as in openai.h.
 */
#ifndef SERVER_DIALECT_VECTORS_H
#define SERVER_DIALECT_VECTORS_H

#include "server/dialect/openai.h"
#include "server/vectors.h"

/* handlers */
http_handler openai_embeddings, ollama_embed, ollama_embeddings, native_embedding, native_rerank;

struct openai_vectors_ops {
    bool ranks; /* documents; for models that do, and only for them */
    MUST_CHECK enum status (*parse)(const struct server *srv, const json_t *root, struct server_vectors *v, struct err *e);
    /* The reply, when every text has its numbers; on any thread. `root` is NULL unless v->documents. */
    void (*write)(const struct http_call *call, const json_t *root, struct server_vectors *v, struct buf *out);
    void (*refuse)(struct http_call *call, const struct err *e);
};

/* The whole of a handler; drops root. */
void openai_serve_vectors(struct http_call *call, json_t *root, const struct openai_vectors_ops *ops);

/* openai_vectors_ops.refuse in the shape of the OpenAI API. */
void openai_refuse_vectors(struct http_call *call, const struct err *e);

/* The member dimensions. */
MUST_CHECK enum status openai_parse_dimensions(const struct server *srv, const json_t *root, struct server_vectors *v,
                                               struct err *e);

/* [0.1,…]: the vector of text i. */
void openai_write_vector(const struct server_vectors *v, size_t i, struct buf *out);

#endif

/*
 * hello: answers one prompt with the library.
 *
 *     cc hello.c $(pkg-config --cflags --libs ffwd) -o hello && ./hello model.gguf "What is a llama?"
 */
#include <ffwd.h>
#include <stdio.h>
#include <string.h>

static int fail(const ffwd_error *err)
{
    fprintf(stderr, "hello: %s\n", err->text);
    return 1;
}

/* A conversation of one message, which a JSON library should escape; or plain text where the model has no template. */
static int encode(const ffwd_engine *en, const char *text, int32_t **ids, size_t *n, ffwd_error *err)
{
    char json[4096];
    if (strpbrk(text, "\"\\\n") == NULL) {
        int len = snprintf(json, sizeof json, "[{\"role\": \"user\", \"content\": \"%s\"}]", text);
        if (len < (int)sizeof json && ffwd_chat_encode(en, json, (size_t)len, ids, n, err) == FFWD_OK)
            return FFWD_OK;
    }
    return ffwd_encode(en, text, strlen(text), FFWD_BOS, ids, n, err);
}

int main(int argc, char **argv)
{
    ffwd_error err;
    if (argc != 3) {
        fputs("usage: hello MODEL.gguf TEXT\n", stderr);
        return 2;
    }
    ffwd_engine *en = ffwd_open(argv[1], NULL, &err);
    if (!en)
        return fail(&err);
    ffwd_params p;
    ffwd_params_init(&p);
    p.max_tokens = 32;
    int32_t *ids;
    ffwd_request *rq = NULL;
    if (encode(en, argv[2], &ids, &p.prompt_n, &err) == FFWD_OK) {
        p.prompt = ids;
        rq = ffwd_start(en, &p, &err);
        ffwd_free(ids);
    }
    if (rq) {
        for (ffwd_event ev = {0}; ev.kind != FFWD_END; fflush(stdout)) {
            ffwd_next(rq, &ev, -1);
            fwrite(ev.text, 1, ev.text_n, stdout);
        }
        ffwd_result result;
        ffwd_finish(rq, &result);
        printf("\n[%u tokens]\n", result.completion_tokens);
    }
    ffwd_close(en);
    return rq ? 0 : fail(&err);
}

/*
 * limits: ceilings that only the HTTP side needs; those of requests in general are in base/limits.h.
 */
#ifndef SERVER_LIMITS_H
#define SERVER_LIMITS_H

#include "base/limits.h"

#define LIMIT_BODIES (256u << 20)          /* bytes of all request bodies held at one time */
#define LIMIT_DRAIN (4 * LIMIT_BODY)       /* bytes of a refused body read to the end, so that the refusal is read too */
#define LIMIT_JSON_VALUES (1u << 20)       /* values in one JSON document: each costs about 100 bytes once parsed */
#define LIMIT_CONNECTION_MEMORY (32u << 10) /* bytes of one request's head, and of one chunk of a reply */
#define LIMIT_CONNECTION_STACK (1u << 20)  /* address space of a connection thread's stack */
#define LIMIT_PARTS 32u                    /* choices of one request: prompts times n */
#define LIMIT_REPLY (64u << 20)            /* bytes of one reply that is not streamed */
#define LIMIT_TOP_LOGPROBS 20u             /* alternatives a token can be reported with */
#define LIMIT_TOKENIZE (4u << 20)          /* bytes of a text that is only to be tokenized */
#define LIMIT_INFILL_FILES 256u            /* files beside its own that one request for filling in shows the model */
#define LIMIT_RELAXED (256u << 10)         /* bytes of the list of what is not enforced of tools' schemas */
#define LIMIT_REPLAY_RECORDS 1024u         /* finished replies whose ids are kept for later turns */
#define LIMIT_REPLAY_IDS (8u << 20)        /* ids of all of them; each takes five bytes */
#define LIMIT_REPLAY_NAME 64u              /* bytes of a name that a client gives to find them again */
#define LIMIT_REPLAY_CALLS 4u              /* the first tool calls of a reply, by whose ids it is found again */
#define LIMIT_REPLAY_LOOKUPS 64u           /* names of one request that are looked up, the latest messages' first */
#define LIMIT_REPLAY_CANDIDATES 32u        /* records that are compared with one prompt */
#define LIMIT_KEYS 1024u                   /* API keys of one server */
#define LIMIT_KEY_FILE (512u << 10)        /* bytes of the file they are in */
#define LIMIT_KEY_NAME 64u                 /* bytes of the name that logs call one by */
#define LIMIT_CERTIFICATES 8u              /* certificates of one chain */
#define LIMIT_PEM (64u << 10)              /* bytes of a file of certificates, or of a key */
#define LIMIT_HOST 255u                    /* bytes of the name that a request is for */
#define LIMIT_REQUEST_ID 128u              /* bytes of an id that a client gives its request */
#define LIMIT_LOG_PATH 256u                /* bytes of a request's path that are logged, */
#define LIMIT_LOG_CONTENT (1u << 20)       /* and of its body and of its reply, where they are */
#define LIMIT_RESPONSES 1024u              /* finished responses that are kept */
#define LIMIT_RESPONSES_BYTES (64u << 20)  /* bytes of all of them, with what they continue */
#define LIMIT_RESPONSE_ID 40u              /* bytes of a response's or an item's id, the NUL counted */
#define LIMIT_RESPONSE_TURNS 1024u         /* responses that one conversation strings together */
#define LIMIT_RESPONSE_REFERENCES 1024u    /* items of earlier responses that one request refers to by their ids */
#define LIMIT_RESPONSE_ECHO (1u << 20)     /* bytes of a request that its response repeats, */
#define LIMIT_RESPONSE_USER 512u           /* and of the name of its user */
#define LIMIT_VECTOR_TEXTS 2048u           /* texts of one request for their vectors, or documents to rank, */
#define LIMIT_VECTOR_TOKENS (1u << 19)     /* tokens of all of them, */
#define LIMIT_VECTOR_ENCODED (1u << 22)    /* and before texts that are too long are cut */
#define LIMIT_RERANK_TEMPLATE (64u << 10)  /* bytes of the template that makes a prompt of query and document */
#define LIMIT_METADATA 16u                 /* pairs of one request's metadata, */
#define LIMIT_METADATA_KEY 64u             /* characters of one's name, */
#define LIMIT_METADATA_VALUE 512u          /* and of its value */

#endif

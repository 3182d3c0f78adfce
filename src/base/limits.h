/*
 * limits: the ceiling of everything a client or a file can grow. Each is checked before anything is allocated.
 */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

/* model files */
#define LIMIT_TENSORS 65536u                  /* tensors in a model, all split parts together */
#define LIMIT_META_KEYS 65536u                /* metadata entries in one file */
#define LIMIT_META_STRING (16u << 20)         /* bytes in one metadata string (chat templates are the largest) */
#define LIMIT_META_ARRAY (4u << 20)           /* elements in one metadata array (vocabularies are the largest) */
#define LIMIT_META_DEPTH 4u                   /* nesting of metadata arrays */
#define LIMIT_SPLITS 1024u                    /* parts of one split model */
#define LIMIT_LAYERS 512u                     /* transformer blocks */
#define LIMIT_HEADS 1024u                     /* attention heads in a layer */
#define LIMIT_HEAD_DIM 512u                   /* channels of one head */
#define LIMIT_WIDTH (1u << 20)                /* outputs or inputs of one linear layer other than the vocabulary */
#define LIMIT_VOCAB (4u << 20)                /* token ids */
#define LIMIT_NAME 200u                       /* bytes of a model's own name that are shown */
#define LIMIT_MODEL_ARENA ((size_t)1 << 30)   /* norms, biases and names of a model */
#define LIMIT_CONTEXT (16u << 20)             /* positions of one sequence */
#define LIMIT_PACKED ((uint64_t)20 << 30)     /* bytes of kept packed weights, unless another ceiling is asked for; */
#define LIMIT_PACKED_SHARE 4u                 /* nor more than one in so many of what they take and is free */

/* the machine */
#define LIMIT_THREADS 256

/* requests */
#define LIMIT_BODY (32u << 20)                /* bytes of one request body */
#define LIMIT_JSON_DEPTH 128u                 /* nesting of a JSON document */
#define LIMIT_MESSAGES 16384u                 /* messages of one conversation */
#define LIMIT_STOPS 16u                       /* stop strings of one request */
#define LIMIT_STOP_BYTES 256u                 /* bytes of one stop string */
#define LIMIT_STOP_ARENA (64u << 10)          /* bytes of one request's stop strings, prepared */
#define LIMIT_BIAS 1024u                      /* biased ids of one request */
#define LIMIT_DRY_MATCH 1024u                 /* ids of a repeat that DRY tells apart; longer ones count as this long */
#define LIMIT_SAMPLE_ARENA (LIMIT_BIAS * 8u + 3u * (LIMIT_VOCAB / 8u) + 256u) /* bytes of its biases and sets of ids */
#define LIMIT_VECTOR (1u << 17)               /* numbers of a vector that a text is made into */
#define LIMIT_ROW_ARENA (LIMIT_STOP_ARENA + LIMIT_SAMPLE_ARENA + LIMIT_VOCAB / 8u) /* bytes of one request's arena */
#define LIMIT_BREAKERS 32u                    /* texts at which DRY sees repeats end, of one request */
#define LIMIT_BREAKER_BYTES 64u               /* bytes of one of them */
#define LIMIT_LOGPROBS 20u                    /* alternatives reported for one token */
#define LIMIT_PRIORITY 100                    /* priorities are within ± this */
#define LIMIT_DEADLINE_MS (24u * 3600000u)    /* the longest deadline a request can name */
#define LIMIT_SALT 256u                       /* bytes of a cache salt */
#define LIMIT_ITL_MS 60000u                   /* the longest step that can be asked for */
#define LIMIT_ROWS 64u                        /* requests that run at the same time */
#define LIMIT_QUEUE 256u                      /* requests that wait */
#define LIMIT_SPAN 512u                       /* tokens one row may feed in one step */
#define LIMIT_STEP 2048u                      /* tokens of all rows in one step */
#define LIMIT_ECHO 131072u                    /* ids of a row that copies are looked for in: the first ones */
#define LIMIT_NGRAM (1u << 14)                /* short runs of a row's ids that are remembered, of each length; 2^n */
#define LIMIT_DRAFT_KV ((size_t)4 << 30)      /* bytes of a draft model's keys and values */
#define LIMIT_EVENTS 64u                      /* unread events of a request, 2^n; a full ring makes the row wait */
#define LIMIT_EVENT_BYTES 512u                /* text bytes carried by one event */
#define LIMIT_CONNECTIONS 256u                /* open HTTP connections */

/* tools */
#define LIMIT_TOOLS 1024u                     /* tools of one request */
#define LIMIT_TOOLS_MEMORY (64u << 20)         /* bytes of their names and schemas, with what is found out about them */
#define LIMIT_TOOL_NAME 128u                  /* bytes of a tool's name */
#define LIMIT_TOOL_KEYS 4096u                 /* top-level properties of one tool's schema */
#define LIMIT_TOOL_NODES 16384u               /* parts of one tool's schema that are looked at, references followed */
#define LIMIT_TOOL_REF 512u                   /* bytes of a reference in it that is followed */
#define LIMIT_CALL_KEY 128u                   /* bytes of an argument's name in formats of keys and values */
#define LIMIT_CALL_KEYS 64u                   /* arguments of one call in formats of keys and values */
#define LIMIT_TEMPLATE_ROWS 4096u             /* token runs that a template determines for one set of tools */
#define LIMIT_TEMPLATE_IDS (1u << 16)         /* ids in all of them */
#define LIMIT_GRAMMAR_TEXT (1u << 20)         /* bytes of a grammar made from tools */

/* fetching models */
#define LIMIT_PULL_PATH 1024u                 /* bytes of a file's path in a repository or an address */
#define LIMIT_HUB_FILES 16384u                /* files of one repository */
#define LIMIT_HUB_BYTES (16u << 20)           /* bytes of the list of them */
#define LIMIT_CACHE_FILES 65536u              /* files in the model cache that are looked at */

/* the load driver */
#define LIMIT_LOAD_CLIENTS 512u               /* requests under way, the long one not counted */
#define LIMIT_LOAD_WORDS (1u << 17)           /* words of one prompt, and of the shared prefix */
#define LIMIT_LOAD_BODY (8u << 20)            /* bytes of one request: both of those and its fields */
#define LIMIT_LOAD_EVENT (1u << 20)           /* bytes of one event of a stream */
#define LIMIT_LOAD_ERRORS 16u                 /* kinds of failures that are told apart */
#define LIMIT_LOAD_SECONDS 86400u             /* of one run */

/* replayed conversations */
#define LIMIT_REPLAY_BYTES (256u << 20)       /* bytes of a file of them */
#define LIMIT_REPLAY_LINES 65536u             /* conversations in one file */
#define LIMIT_REPLAY_CLASSES 32u              /* kinds of them that are told apart */
#define LIMIT_REPLAY_PAIRS 100u               /* repetitions of one run */

#endif

/*
 * hub: repositories of models at Hugging Face, or at another server of that interface that HF_ENDPOINT names. A token in
 * HF_TOKEN opens private and gated ones.
 *
 * A repository is listed at one commit, and its files are fetched from that commit, so that the parts of a model belong
 * together. Sizes and SHA-256 come with the list.
 */
#ifndef CLI_HUB_H
#define CLI_HUB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"
#include "cli/pick.h"

#define HUB_NAME 200 /* bytes of "owner/name" */
#define HUB_REV 128  /* bytes of a branch, tag or commit */

struct hub_name {
    char repo[HUB_NAME];
    char rev[HUB_REV];          /* "main" unless an address says otherwise */
    char want[LIMIT_PULL_PATH]; /* a file or quant; "" = whatever is usual */
};

struct hub_list {
    char commit[HUB_REV];
    struct pick_file *files; /* owned, with their paths */
    size_t n;
};

/* Reads "owner/name", "owner/name:quant", "owner/name:file", or the address of such a repository or file at the hub.
 * False when it is none of these. */
bool hub_parse(const char *s, struct hub_name *out);

/* The files of a repository. On failure there is nothing to free. */
MUST_CHECK enum status hub_list(const struct hub_name *name, struct hub_list *out, struct err *e);
void hub_list_free(struct hub_list *l);

/* The address of one file. */
MUST_CHECK enum status hub_url(const struct hub_name *name, const struct hub_list *l, const char *path, char *out,
                               size_t cap, struct err *e);

/* HF_TOKEN, or NULL. */
const char *hub_token(void);

#endif

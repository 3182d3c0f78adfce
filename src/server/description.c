/* description: GET /openapi.json, which says of every address what it takes and what it answers. It is the same for all
 * models and options, so it needs no key. */
#include "server/private.h"
#include "server/web.h"

void server_description(struct http_call *call)
{
    static const struct http_header_line headers[] = {{"X-Content-Type-Options", "nosniff"}, {NULL, NULL}};
    http_reply_file(call, &server_description_file, headers);
}

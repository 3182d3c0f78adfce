/* web: the files that the server shows as they are: the web page's, and the description of the API. The build makes one C
 * file of them (tools/embed.py). */
#ifndef SERVER_WEB_H
#define SERVER_WEB_H

#include "server/http/http.h"

struct server_web_file {
    const char *path; /* below web/; NULL ends the table */
    struct http_file file;
};

extern const struct server_web_file server_web_files[];

extern const struct http_file server_description_file; /* docs/openapi.json, as compact JSON */

#endif

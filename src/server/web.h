/* web: the files of the web page, which the build makes one C file of (tools/embed.py). */
#ifndef SERVER_WEB_H
#define SERVER_WEB_H

#include "server/http/http.h"

struct server_web_file {
    const char *path; /* below web/; NULL ends the table */
    struct http_file file;
};

extern const struct server_web_file server_web_files[];

#endif

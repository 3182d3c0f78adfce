/*
 * curl: libcurl, opened when it is wanted. Only the load driver and downloads want it, and linking it would make every
 * start of the program load twenty libraries more (4 ms and 2 MB on Debian 12).
 */
#ifndef CLI_CURL_H
#define CLI_CURL_H

#include <curl/curl.h>

#include "base/base.h"

struct curl_calls {
    CURLcode (*global_init)(long flags);
    void (*global_cleanup)(void);
    CURL *(*easy_init)(void);
    CURLcode (*easy_setopt)(CURL *easy, CURLoption option, ...);
    CURLcode (*easy_perform)(CURL *easy);
    CURLcode (*easy_getinfo)(CURL *easy, CURLINFO info, ...);
    const char *(*easy_strerror)(CURLcode code);
    void (*easy_cleanup)(CURL *easy);
    CURLM *(*multi_init)(void);
    CURLMcode (*multi_setopt)(CURLM *multi, CURLMoption option, ...);
    CURLMcode (*multi_add_handle)(CURLM *multi, CURL *easy);
    CURLMcode (*multi_remove_handle)(CURLM *multi, CURL *easy);
    CURLMcode (*multi_perform)(CURLM *multi, int *running);
    CURLMsg *(*multi_info_read)(CURLM *multi, int *left);
    CURLMcode (*multi_poll)(CURLM *multi, struct curl_waitfd fds[], unsigned n, int timeout_ms, int *ready);
    const char *(*multi_strerror)(CURLMcode code);
    CURLMcode (*multi_cleanup)(CURLM *multi);
    struct curl_slist *(*slist_append)(struct curl_slist *list, const char *s);
    void (*slist_free_all)(struct curl_slist *list);
};

/* The library's functions under their names without "curl_". ST_UNSUPPORTED when it is not installed. */
MUST_CHECK enum status cli_curl(const struct curl_calls **out, struct err *e);

#endif

/* curl: see curl.h. */
#include "cli/curl.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define CALL(name) {"curl_" #name, offsetof(struct curl_calls, name)}

static const struct {
    const char *name;
    size_t at;
} calls[] = {
    CALL(global_init), CALL(global_cleanup), CALL(easy_init), CALL(easy_setopt), CALL(easy_perform),
    CALL(easy_getinfo), CALL(easy_strerror), CALL(easy_cleanup), CALL(multi_init), CALL(multi_setopt),
    CALL(multi_add_handle), CALL(multi_remove_handle), CALL(multi_perform), CALL(multi_info_read), CALL(multi_poll),
    CALL(multi_strerror), CALL(multi_cleanup), CALL(slist_append), CALL(slist_free_all),
};
#define CALLS (sizeof calls / sizeof *calls)
_Static_assert(sizeof(struct curl_calls) == CALLS * sizeof(void *), "each call is looked up");

/* Debian's two forms and everybody else's have the same functions. It stays open: closing it would unload what it
 * registered for the end of the process. */
enum status cli_curl(const struct curl_calls **out, struct err *e)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4"};
    static struct curl_calls found;
    void *lib = NULL;
    *out = &found;
    for (size_t i = 0; i < sizeof names / sizeof *names && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return err_set(e, ST_UNSUPPORTED, "", "this needs libcurl, which is not installed (Debian: libcurl3-gnutls)");
    for (size_t i = 0; i < CALLS; i++) {
        void *f = dlsym(lib, calls[i].name);
        if (!f)
            return err_set(e, ST_UNSUPPORTED, "", "the installed libcurl is too old: it has no %s()", calls[i].name);
        memcpy((char *)&found + calls[i].at, &f, sizeof f);
    }
    return ST_OK;
}

/*
 * head: what the head of a request may not say, and which address it is for.
 *
 * The library lets these heads pass and reads each in some way of its own. A proxy before the server may read them in
 * another way, and then the two disagree about where a request ends or whom it is for, which is how requests are smuggled
 * past a proxy. They are refused as HTTP asks for (RFC 9112, sections 3.2, 5.1, 6.1 and 6.3), and the connection ends.
 */
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "server/http/private.h"

/* What the headers of one request amount to. */
struct seen {
    unsigned hosts, lengths;
    const char *transfer, *content; /* the encodings; NULL = none is named */
    bool odd;                       /* a name that none can be */
};

/* The library ends a name at the colon alone, so blanks can be left in it. */
static bool is_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] <= ' ' || (unsigned char)s[i] >= 0x7F)
            return false;
    return n > 0;
}

/* The library's 0.9.x takes a folded line ("Content-: 5", and below it " Length") for the rest of the name, and moves that
 * behind everything it has read; otherwise a value stands behind its name. */
static bool is_joined(const char *name, const char *value)
{
    return value && (uintptr_t)value < (uintptr_t)name;
}

static enum MHD_Result look(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_n, const char *value,
                            size_t value_n)
{
    struct seen *s = cls;
    (void)kind;
    (void)value_n;
    s->odd = s->odd || !is_name(name, name_n) || is_joined(name, value);
    if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0)
        s->hosts++;
    else if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0)
        s->lengths++;
    else if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0)
        s->transfer = s->transfer ? "" : value; /* two of them are no single "chunked" either */
    else if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_ENCODING) == 0)
        s->content = value;
    return MHD_YES;
}

static void refuse_and_close(struct http_call *call, int status, const char *text)
{
    call->closes = true;
    http_refuse(call, status, ST_ARGUMENT, text);
}

void http_check_head(struct http_call *call)
{
    struct seen s = {0};
    (void)MHD_get_connection_values_n(call->conn, MHD_HEADER_KIND, look, &s);
    if (s.odd)
        refuse_and_close(call, MHD_HTTP_BAD_REQUEST, "a header is folded, or its name is empty or has bytes that none may "
                         "have");
    else if (s.hosts > 1 || (!s.hosts && call->http_1_1))
        refuse_and_close(call, MHD_HTTP_BAD_REQUEST, "a request has one Host header");
    else if (s.transfer && !call->http_1_1)
        refuse_and_close(call, MHD_HTTP_BAD_REQUEST, "there is no Transfer-Encoding in HTTP/1.0");
    else if (s.lengths > 1 || (s.lengths && s.transfer))
        refuse_and_close(call, MHD_HTTP_BAD_REQUEST, "the body's length is given twice");
    else if (s.transfer && strcasecmp(s.transfer, "chunked") != 0)
        refuse_and_close(call, MHD_HTTP_NOT_IMPLEMENTED, "the only Transfer-Encoding known here is 'chunked'");
    else if (s.content && s.content[0] && strcasecmp(s.content, "identity") != 0)
        http_refuse(call, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, ST_UNSUPPORTED, "bodies are not decompressed here: send them "
                    "without Content-Encoding");
}

/* ---- the address ---- */

const char *http_take_target(struct http_call *call, const char *target)
{
    const char *name = strncasecmp(target, "http://", 7) == 0    ? target + 7
                       : strncasecmp(target, "https://", 8) == 0 ? target + 8
                                                                 : NULL;
    if (!name)
        return target;
    const size_t n = strcspn(name, "/");
    const bool fits = n && n < sizeof call->target_host; /* otherwise it is nobody's name */
    memcpy(call->target_host, fits ? name : "?", fits ? n : 1); /* the rest is zeros */
    return name[n] ? name + n : "/";
}

const char *http_host(const struct http_call *call)
{
    return call->target_host[0] ? call->target_host : http_header(call, MHD_HTTP_HEADER_HOST);
}

/* What %00 stands for would end the path there, and make it another one. */
size_t http_unescape(void *cls, struct MHD_Connection *conn, char *s)
{
    const size_t n = MHD_http_unescape(s);
    (void)cls;
    (void)conn;
    for (char *nul; (nul = memchr(s, '\0', n)) != NULL;)
        *nul = '\x01';
    return n;
}

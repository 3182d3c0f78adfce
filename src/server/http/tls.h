/*
 * tls: the certificate and key of HTTPS, which may be replaced while the server runs.
 *
 * The library asks for them at each handshake, so a new certificate serves new connections and old ones go on. The files
 * are looked at once a second while there are handshakes, and read again when one changed; where they do not fit
 * together, the old pair stays, and it is tried again when one of them changes once more.
 *
 * GnuTLS's question names no server, so there is one pair in a process.
 */
#ifndef SERVER_HTTP_TLS_H
#define SERVER_HTTP_TLS_H

#include <gnutls/abstract.h>

#include "base/base.h"

/* Reads both, in PEM: the certificate with those that lead to its authority behind it. The paths are not copied. ST_IO,
 * ST_ARGUMENT when they are no certificate and no key, or do not belong together; a pair that was there stays. */
MUST_CHECK enum status http_tls_load(const char *cert, const char *key, struct err *e);
void http_tls_release(void);

/* Reads the same files again now. */
MUST_CHECK enum status http_tls_reload(struct err *e);

/* For MHD_OPTION_HTTPS_CERT_CALLBACK2. */
int http_tls_choose(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **certs,
                    unsigned *certs_n, gnutls_ocsp_data_st **ocsp, unsigned *ocsp_n, gnutls_privkey_t *key,
                    unsigned *flags);

#endif

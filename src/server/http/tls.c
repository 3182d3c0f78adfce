/* tls: see tls.h. */
#include "server/http/tls.h"

#include <gnutls/x509.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/watched.h"
#include "server/limits.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over everything below */
static struct http_watched cert_file, key_file;
static struct buf cert_pem, key_pem; /* a pair that fits together */

static gnutls_datum_t datum(const struct buf *b)
{
    return (gnutls_datum_t){(unsigned char *)b->data, (unsigned)b->len};
}

static void forget(struct buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->len);
    buf_release(b);
}

/* New objects for one connection: certs[LIMIT_CERTIFICATES], of which *n are filled, and the key. 0 or GnuTLS's code. */
static int import(const struct buf *cert, const struct buf *key, gnutls_pcert_st *certs, unsigned *n,
                  gnutls_privkey_t *private)
{
    const gnutls_datum_t c = datum(cert), k = datum(key);
    *n = LIMIT_CERTIFICATES;
    int rc = gnutls_pcert_list_import_x509_raw(certs, n, &c, GNUTLS_X509_FMT_PEM, GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
    if (rc < 0)
        return rc;
    rc = gnutls_privkey_init(private);
    if (rc >= 0) {
        rc = gnutls_privkey_import_x509_raw(*private, &k, GNUTLS_X509_FMT_PEM, NULL, 0);
        if (rc >= 0)
            return 0;
        gnutls_privkey_deinit(*private);
    }
    for (unsigned i = 0; i < *n; i++)
        gnutls_pcert_deinit(&certs[i]);
    return rc;
}

static bool same_key(gnutls_pubkey_t a, gnutls_privkey_t private)
{
    unsigned char id_a[64], id_b[64];
    size_t n = sizeof id_a, m = sizeof id_b;
    gnutls_pubkey_t b;
    if (gnutls_pubkey_init(&b) < 0)
        return false;
    bool same = gnutls_pubkey_import_privkey(b, private, 0, 0) >= 0 &&
                gnutls_pubkey_get_key_id(a, GNUTLS_KEYID_USE_SHA256, id_a, &n) >= 0 &&
                gnutls_pubkey_get_key_id(b, GNUTLS_KEYID_USE_SHA256, id_b, &m) >= 0 && n == m &&
                memcmp(id_a, id_b, n) == 0;
    gnutls_pubkey_deinit(b);
    return same;
}

static enum status check_pair(const struct buf *cert, const struct buf *key, struct err *e)
{
    gnutls_pcert_st certs[LIMIT_CERTIFICATES];
    gnutls_privkey_t private;
    unsigned n;
    int rc = import(cert, key, certs, &n, &private);
    if (rc < 0)
        return err_set(e, ST_ARGUMENT, "tls-cert", "'%.60s' and '%.60s' are no certificate and key in PEM: %s",
                       cert_file.path, key_file.path, gnutls_strerror(rc));
    bool same = same_key(certs[0].pubkey, private);
    gnutls_privkey_deinit(private);
    for (unsigned i = 0; i < n; i++)
        gnutls_pcert_deinit(&certs[i]);
    return same ? ST_OK : err_set(e, ST_ARGUMENT, "tls-key", "the key in '%.60s' is not that of the certificate in '%.60s'",
                                  key_file.path, cert_file.path);
}

/* The new pair takes the old one's place once it is known to be one. */
static enum status reload(struct err *e)
{
    struct buf cert, key;
    struct err second; /* of two */
    buf_init(&cert, LIMIT_PEM);
    buf_init(&key, LIMIT_PEM);
    enum status st = http_watched_read(&cert_file, &cert, e);
    enum status st_key = http_watched_read(&key_file, &key, st == ST_OK ? e : &second);
    if (st == ST_OK)
        st = st_key == ST_OK ? check_pair(&cert, &key, e) : st_key;
    if (st == ST_OK) {
        struct buf old_cert = cert_pem, old_key = key_pem;
        cert_pem = cert;
        key_pem = key;
        cert = old_cert;
        key = old_key;
    }
    forget(&cert);
    forget(&key);
    return st;
}

enum status http_tls_load(const char *cert, const char *key, struct err *e)
{
    pthread_mutex_lock(&lock);
    http_watched_init(&cert_file, cert, "tls-cert");
    http_watched_init(&key_file, key, "tls-key");
    enum status st = reload(e);
    pthread_mutex_unlock(&lock);
    return st;
}

enum status http_tls_reload(struct err *e)
{
    pthread_mutex_lock(&lock);
    enum status st = reload(e);
    pthread_mutex_unlock(&lock);
    return st;
}

void http_tls_release(void)
{
    pthread_mutex_lock(&lock);
    forget(&cert_pem);
    forget(&key_pem);
    pthread_mutex_unlock(&lock);
}

static void look_at_files(void)
{
    struct err e;
    bool cert = http_watched_changed(&cert_file), key = http_watched_changed(&key_file);
    if (!cert && !key)
        return;
    if (reload(&e) == ST_OK)
        log_line(LOG_INFO, "the TLS certificate was read again");
    else
        log_line(LOG_ERROR, "the TLS certificate stays as it was: %s", e.text);
}

/* What is handed out belongs to the session, which frees it. */
int http_tls_choose(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **certs,
                    unsigned *certs_n, gnutls_ocsp_data_st **ocsp, unsigned *ocsp_n, gnutls_privkey_t *key,
                    unsigned *flags)
{
    (void)session;
    (void)info;
    *ocsp = NULL;
    *ocsp_n = 0;
    *certs = gnutls_calloc(LIMIT_CERTIFICATES, sizeof **certs);
    if (!*certs)
        return -1;
    pthread_mutex_lock(&lock);
    look_at_files();
    int rc = import(&cert_pem, &key_pem, *certs, certs_n, key);
    pthread_mutex_unlock(&lock);
    if (rc < 0) {
        gnutls_free(*certs);
        return -1;
    }
    *flags |= GNUTLS_CERT_RETR_DEINIT_ALL;
    return 0;
}

/* See trust_places.h. */
#include "sandbox-launcher/trust_places.h"

#include "common/cleanup.h"

/*
 * Where distributions keep their bundle, and Java's. A program that was started without our variables, or that obeys none, reads
 * one of these. First those that others are links to.
 */
static const char *const BUNDLES[] = {
	"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora, RHEL */
	"var/lib/ca-certificates/ca-bundle.pem",            /* openSUSE */
	"etc/ssl/certs/ca-certificates.crt",                /* Debian, Alpine, Arch, Gentoo */
	"etc/ssl/certs/ca-bundle.crt",                      /* Arch, Fedora */
	"etc/pki/tls/certs/ca-bundle.crt", "etc/pki/tls/cert.pem", "etc/ssl/ca-bundle.pem",
	"etc/ssl/cert.pem", /* Alpine, Arch; OpenSSL's own default */
};
static const char *const JAVA_STORES[] = {
	"etc/pki/ca-trust/extracted/java/cacerts",
	"var/lib/ca-certificates/java-cacerts",
	"etc/ssl/certs/java/cacerts",
	"etc/ssl/certs/adoptium/cacerts",
	"etc/pki/java/cacerts",
};

/* Chromium makes the other files of the database beside it. */
#define NSS_DATABASE VIEW_HOME "/.pki/nssdb/cert9.db"

static int add_aliases(struct view *v, const char *const *paths, size_t count, const char *of)
{
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++)
		r = view_add_alias(v, paths[i], of);
	return r;
}

int trust_places_add(struct view *v, const struct trust_files *t, struct failure *why)
{
	int r = view_add_folder(v, &TRUST_FOLDER_PATH[1]);
	if (r == 0)
		r = view_add_text(v, &TRUST_BUNDLE_PATH[1], buf_slice(&t->bundle));
	if (r == 0)
		r = view_add_text(v, &TRUST_JAVA_PATH[1], buf_slice(&t->java));
	if (r == 0)
		r = add_aliases(v, BUNDLES, array_size(BUNDLES), TRUST_BUNDLE_PATH);
	if (r == 0)
		r = add_aliases(v, JAVA_STORES, array_size(JAVA_STORES), TRUST_JAVA_PATH);
	if (r == 0)
		r = view_add_own(v, &NSS_DATABASE[1], buf_slice(&t->nss));
	return r < 0 ? failure_errno(why, r, "can't prepare what clients trust") : 0;
}

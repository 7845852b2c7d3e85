/* See trust_files.h. */
#include "sandbox-launcher/trust_files.h"

#include "common/file.h"
#include "common/upstream.h"
#include "sandbox-launcher/java_store.h"
#include "sandbox-launcher/nss_store.h"
#include "sandbox-launcher/pem.h"

#include <errno.h>

void trust_files_init(struct trust_files *t)
{
	buf_init(&t->bundle, 2 * TRUST_BUNDLE_MAX);
	buf_init(&t->java, 2 * TRUST_BUNDLE_MAX);
	buf_init(&t->java_bags, 2 * TRUST_BUNDLE_MAX);
	buf_init(&t->nss, NSS_STORE_BYTES);
}

void trust_files_fini(struct trust_files *t)
{
	buf_fini(&t->bundle);
	buf_fini(&t->java);
	buf_fini(&t->java_bags);
	buf_fini(&t->nss);
}

static int add_bag(struct slice der, void *arg)
{
	struct trust_files *t = arg;
	java_store_add(&t->java_bags, der);
	return t->java_bags.failed ? -ENOMEM : 0;
}

static int add_authority(struct slice der, void *arg)
{
	struct trust_files *t = arg;
	int r = buf_len(&t->nss) > 0 ? 0 : nss_store_write(der, &t->nss);
	return r < 0 ? r : add_bag(der, arg);
}

static int add_system(struct trust_files *t, int fd, struct failure *why)
{
	int r = file_read_fd(fd, TRUST_BUNDLE_MAX, &t->bundle);
	if (r == 0)
		r = pem_each(buf_slice(&t->bundle), add_bag, t);
	if (r == -EBADMSG)
		r = 0; /* a broken one of the system's: Java trusts those before it */
	return r < 0 ? failure_errno(why, r, "can't read the system's CA bundle") : 0;
}

static int add_more(struct trust_files *t, int fd, const char *path, struct failure *why)
{
	struct buf text;
	buf_init(&text, TRUST_BUNDLE_MAX);
	int r = file_read_fd(fd, TRUST_BUNDLE_MAX, &text);
	if (r == 0)
		r = pem_each(buf_slice(&text), add_bag, t);
	if (r == 0)
		r = buf_append(&t->bundle, SLICE("\n"));
	if (r == 0)
		r = pem_copy(buf_slice(&text), &t->bundle);
	buf_fini(&text);
	return r < 0
		? failure_errno(why, r, "--upstream-ca: can't read the certificates of %s", path)
		: 0;
}

int trust_files_begin(struct trust_files *t, const char *more, struct failure *why)
{
	struct upstream_files files = UPSTREAM_FILES_NONE;
	int r = upstream_open(&(struct upstream_options){.upstream_ca = more}, &files, why);
	if (r == 0)
		r = add_system(t, files.roots_fd, why);
	if (r == 0 && more != NULL)
		r = add_more(t, files.more_roots_fd, more, why);
	upstream_close(&files);
	return r;
}

int trust_files_finish(struct trust_files *t, struct slice ca_pem, struct failure *why)
{
	int r = buf_append(&t->bundle, SLICE("\n"));
	if (r == 0)
		r = buf_append(&t->bundle, ca_pem);
	if (r == 0)
		r = pem_each(ca_pem, add_authority, t);
	if (r == 0 && buf_len(&t->nss) == 0)
		r = -EBADMSG; /* there is none */
	if (r == 0) {
		java_store_write(buf_slice(&t->java_bags), &t->java);
		r = t->java.failed ? -ENOMEM : 0;
	}
	return r < 0 ? failure_errno(why, r, "can't merge the CA's certificate with the roots") : 0;
}

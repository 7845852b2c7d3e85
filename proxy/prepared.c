/* See prepared.h. */
#include "proxy/prepared.h"

#include "common/cleanup.h"
#include "policy/source.h"

#include <sys/mman.h>
#include <sys/stat.h>

int prepared_policy(int bundle_fd, struct policy **ret, struct policy_report *report)
{
	struct stat st;
	if (fstat(bundle_fd, &st) < 0)
		return -errno;
	if (st.st_size <= 0 || (size_t)st.st_size > POLICY_BUNDLE_BYTES_MAX)
		return -EFBIG;
	/* Mapped, not read: its file position is shared by all who have it. */
	size_t len = (size_t)st.st_size;
	void *text = mmap(NULL, len, PROT_READ, MAP_PRIVATE, bundle_fd, 0);
	if (text == MAP_FAILED)
		return -errno;
	int r = policy_compile((struct slice){text, len}, ret, report);
	(void)munmap(text, len); /* can't fail on what is mapped */
	return r;
}

int prepared_compile(struct prepared *p, const struct message_policy_step *m, int bundle_fd)
{
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	prepared_drop(p);
	if (report == NULL)
		return -ENOMEM;
	int r = prepared_policy(bundle_fd, &p->policy, report);
	if (r < 0)
		return r;
	p->version = m->version;
	p->origin = m->origin;
	return 0;
}

struct policy *prepared_take(struct prepared *p, uint32_t version)
{
	return p->version == version ? ptr_take(p->policy) : NULL;
}

void prepared_drop(struct prepared *p)
{
	policy_free(ptr_take(p->policy));
}

/*
 * Questions as a sandbox may send them, and what is answered. Byte 0: how much room the answer has. Holds: a question that is read is one to glibc's
 * parser, too, with the same name, type and class; every answer is a whole message to it, with the question's own bytes, an id
 * and flags that belong together, and an address only if the name is one that policy admits.
 */
#include "policy/source.h"
#include "proxy/dns_answer.h"

#include <arpa/nameser.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADER_BYTES 12

static const char *const rules[] = {"allowed.test", "*.wild.test", "tcp ssh.test:22"};

static struct policy *policy;
static struct dns_asker asker;

static void asker_init(void)
{
	struct buf bundle = {0};
	struct failure why = {0};
	struct policy_report *report = calloc(1, sizeof(*report));
	int fd = synthetic_create();
	assert(report != NULL && fd >= 0);
	assert(policy_source_rules(rules, sizeof(rules) / sizeof(rules[0]), &bundle, &why) == 0);
	assert(policy_compile(buf_slice(&bundle), &policy, report) == 0);
	asker.profile = policy_profile_at(policy, 0);
	asker.synthetic = synthetic_open(fd);
	asker.now_ms = UINT64_C(1795961863123);
	assert(asker.synthetic != NULL);
	buf_fini(&bundle);
	free(report);
}

static void compare_question(struct slice in, const struct dns_question *q)
{
	ns_msg message;
	ns_rr record;
	u_char wire[NS_MAXCDNAME];
	assert(ns_initparse((const u_char *)in.ptr, (int)in.len, &message) == 0);
	assert(ns_msg_id(message) == q->id && ns_msg_count(message, ns_s_qd) == 1);
	assert(ns_msg_getflag(message, ns_f_qr) == 0 && ns_msg_getflag(message, ns_f_opcode) == 0);
	assert(ns_parserr(&message, ns_s_qd, 0, &record) == 0);
	assert(ns_rr_type(record) == q->type && ns_rr_class(record) == q->class);
	int len = ns_name_unpack((const u_char *)in.ptr, (const u_char *)in.ptr + in.len,
		(const u_char *)in.ptr + HEADER_BYTES, wire, sizeof(wire));
	assert(len == (int)q->name.len && memcmp(wire, q->name.ptr, q->name.len) == 0);
}

static void check_names(const struct dns_question *q)
{
	char shown[DNS_NAME_TEXT_BYTES], plain[DNS_NAME_TEXT_BYTES], text[NS_MAXDNAME];
	(void)dns_name_show(q->name, shown);
	for (const char *c = shown; *c != '\0'; c++)
		assert(*c > ' ' && *c < 0x7f);
	if (!dns_name_plain(q->name, plain) || plain[0] == '\0')
		return;
	assert(strcmp(plain, shown) == 0);
	assert(ns_name_ntop((const u_char *)q->name.ptr, text, sizeof(text)) >= 0);
	if (strchr(text, '\\') == NULL) /* it escapes more than needs to be */
		assert(strcmp(plain, text) == 0);
}

static void check_records(ns_msg *message, const struct dns_question *q)
{
	static const ns_sect sections[] = {ns_s_an, ns_s_ns, ns_s_ar};
	ns_rr record;
	for (size_t s = 0; s < 3; s++) {
		for (int i = 0; i < ns_msg_count(*message, sections[s]); i++) {
			assert(ns_parserr(message, sections[s], i, &record) == 0);
			bool edns = sections[s] == ns_s_ar;
			assert(ns_rr_type(record) ==
				(sections[s] == ns_s_ns ? ns_t_soa
						: edns  ? ns_t_opt
							: q->type));
		}
	}
}

/** Written where one byte too far is seen, and read by another parser. */
static void check_answer(const struct dns_question *q, const struct dns_answer *a, size_t room)
{
	char *to = malloc(room);
	ns_msg message;
	assert(to != NULL);
	size_t len = dns_answer_write(q, a, to, room);
	assert(len >= HEADER_BYTES && len <= room);
	assert(ns_initparse((const u_char *)to, (int)len, &message) == 0);
	assert(ns_msg_id(message) == q->id && ns_msg_getflag(message, ns_f_qr) == 1);
	assert((unsigned)ns_msg_getflag(message, ns_f_rcode) == (a->rcode & 0xf));
	assert(ns_msg_count(message, ns_s_qd) == (q->asked.len > 0));
	assert(memcmp(to + HEADER_BYTES, q->asked.len > 0 ? q->asked.ptr : "", q->asked.len) == 0);
	assert(ns_msg_count(message, ns_s_ar) == q->edns);
	bool cut = ns_msg_getflag(message, ns_f_tc) != 0;
	assert(cut ? ns_msg_count(message, ns_s_an) == 0
		   : ns_msg_count(message, ns_s_an) ==
				(a->address.family != 0 || a->pointer != NULL));
	if (q->asked.len > 0)
		check_records(&message, q);
	free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dns_question q = {0};
	struct dns_reply reply;
	if (size == 0)
		return 0;
	if (asker.profile == NULL)
		asker_init();
	struct slice in = {(const char *)data + 1, size - 1};
	int parsed = dns_question_parse(in, &q);
	if (parsed == -EBADMSG)
		return 0;
	assert(parsed >= 0);
	if (parsed == DNS_NOERROR) {
		compare_question(in, &q);
		check_names(&q);
	}
	dns_reply_make(&asker, &q, parsed, &reply);
	if (reply.answer.address.family != 0 && synthetic_is(&reply.answer.address)) {
		struct policy_verdict verdict;
		policy_admits_host(asker.profile, &reply.host, asker.now_ms, &verdict);
		assert(reason_allows(verdict.reason) && q.type == DNS_TYPE_A);
	}
	check_answer(&q, &reply.answer, DNS_ANSWER_BYTES_MIN + 4u * data[0]);
	check_answer(&q, &reply.answer, dns_answer_room(&q));
	return 0;
}

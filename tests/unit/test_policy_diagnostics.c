/* Findings: every wrong line is refused with its exact place and a text that says what to do. */
#include "tests/unit/policy_setup.h"

struct finding_case {
	const char *text; /* after "policy 1\n[profile p]\n": line 3 */
	unsigned line;
	unsigned column;
	const char *code;
	const char *says; /* part of the text */
};

static const struct finding_case in_profile[] = {
	{"alow a.test", 3, 1, "unknown-statement", "did you mean allow?"},
	{"frobnicate", 3, 1, "unknown-statement", "unknown statement 'frobnicate'"},
	{"allow", 3, 1, "syntax", "a host is missing"},
	{"allow a.test reqbody=1k", 3, 14, "unknown-attribute", "did you mean req-body?"},
	{"allow a.test\tid=x zzzzzz=1", 3, 19, "unknown-attribute", "unknown attribute 'zzzzzz'"},
	/* A06, A12: hosts */
	{"allow *", 3, 7, "host", "a bare wildcard"},
	{"allow *.test", 3, 7, "host", "covers a whole public suffix"},
	{"allow *.test", 3, 7, "host", "the public suffix list does not know 'test'"},
	{"allow .com", 3, 7, "host", "in front of 'com', where anybody"},
	{"allow .com", 3, 7, "host", "covers a whole public suffix"},
	{"allow **.co.uk", 3, 7, "host", "in front of 'co.uk'"},
	{"allow *.kawasaki.jp", 3, 7, "host", "covers a whole public suffix"},
	{"allow *.xn--p1ai", 3, 7, "host", "in front of 'xn--p1ai'"},
	{"allow *.b\xc3\xbc"
	 "cher.example",
		3, 10, "host", "(xn--...): *.xn--bcher-kva.example"},
	{"allow xn--pple-43d.test", 3, 7, "mixed-script", "mixes scripts"},
	{"allow www*.test", 3, 10, "host", "leading *. or **."},
	{"allow sub*.wild.test", 3, 10, "host", "leading *. or **."},
	{"allow a.*.test", 3, 9, "host", "leading *. or **."},
	{"allow *.*.wild.test", 3, 9, "host", "leading *. or **."},
	{"allow ***.wild.test", 3, 7, "host", "leading *. or **."},
	{"allow a;b.test", 3, 7, "host", "not a host name"},
	{"allow a#b.test", 3, 7, "host", "not a host name"},
	{"allow 203.0.113.10", 3, 7, "host", "this is an address"},
	{"allow [2001:db8::1]:443", 3, 7, "host", "this is an address"},
	{"allow 10.0.0.0/8", 3, 7, "host", "this is an address"},
	{"allow 10.0.0.1:443", 3, 7, "host", "this is an address"},
	{"allow https://a.test/x", 3, 7, "host", "a rule is no URL"},
	{"deny http://a.test", 3, 6, "host", "a rule is no URL"},
	{"allow a.test/x", 3, 7, "host", "a blank stands before the path"},
	{"allow a.test:443/x", 3, 7, "host", "a blank stands before the path"},
	{"allow a.test,b.test", 3, 7, "host", "a rule for each"},
	{"allow a.test b.test", 3, 14, "method", "one host, and it first"},
	{"allow GET a.test", 3, 11, "method", "one host, and it first"},
	{"allow a.test v1/x", 3, 14, "method", "a path begins with /"},
	{"allow b\xc3\xbc.test", 3, 8, "host", "A-label (xn--...)"},
	{"deny *.test", 3, 6, "host", "covers a whole public suffix"},
	/* ports, methods, paths */
	{"allow a.test:0", 3, 14, "port", "1 to 65535"},
	{"allow a.test:65536", 3, 14, "port", "1 to 65535"},
	{"allow a.test:", 3, 14, "port", "1 to 65535"},
	{"allow a.test:80,", 3, 14, "port", "1 to 65535"},
	{"allow a.test:0443", 3, 14, "port", "1 to 65535"},
	{"allow a.test:90-80", 3, 14, "port", "ends before it starts"},
	{"allow a.test get", 3, 14, "method", "upper case"},
	{"allow a.test GET,", 3, 14, "method", "missing"},
	{"allow a.test GET,GET", 3, 14, "method", "twice"},
	{"allow a.test GET,ANY", 3, 14, "method", "ANY stands alone"},
	{"allow a.test CONNECT", 3, 14, "method", "tunnel"},
	{"allow a.test GET POST", 3, 18, "syntax", "one list of methods"},
	{"allow a.test id=x /v1", 3, 19, "syntax", "paths stand before attributes"},
	{"allow a.test /v1/**/x", 3, 18, "path", "whole last segment"},
	{"allow a.test /v1?x", 3, 17, "path", "no query"},
	{"allow a.test /a /b/../c", 3, 17, "path", "normalisation"},
	/* attributes */
	{"allow a.test id=x id=y", 3, 19, "duplicate-attribute", "id= stands twice"},
	{"allow a.test id=", 3, 17, "value", "a value is missing"},
	{"allow a.test id=\"a b\"", 3, 17, "value", "letters, digits"},
	{"allow a.test expires=tomorrow", 3, 22, "value", "YYYY-MM-DD"},
	{"allow a.test expires=2026-02-29", 3, 22, "value", "YYYY-MM-DD"},
	{"allow a.test req-body=1t", 3, 23, "value", "k, m or g"},
	{"allow a.test req-body=-1", 3, 23, "value", "k, m or g"},
	{"allow a.test query=no", 3, 20, "value", "allow or deny"},
	{"allow a.test scheme=ftp", 3, 21, "value", "http or https"},
	{"allow a.test enc-slash=decode", 3, 24, "value", "literal"},
	{"allow a.test addr=10.0.0.1/8", 3, 19, "value", "zero host bits"},
	{"allow a.test addr=0.0.0.0/0", 3, 19, "value", "every address"},
	{"allow a.test addr=localhost", 3, 19, "value", "addresses and prefixes"},
	{"deny a.test expires=2026-01-01", 3, 13, "attribute", "does not expire"},
	{"deny a.test req-body=1", 3, 13, "attribute", "no meaning on a deny rule"},
	/* limits of uses */
	{"allow a.test rate=50", 3, 19, "value", "50/s, 100/m or 1000/h"},
	{"allow a.test rate=50/d", 3, 19, "value", "50/s, 100/m or 1000/h"},
	{"allow a.test rate=0/s", 3, 19, "value", "would allow nothing"},
	{"allow a.test conns=0", 3, 20, "value", "would allow nothing"},
	{"allow a.test conns=many", 3, 20, "value", "whole number"},
	{"allow a.test time=10", 3, 19, "value", "ms, s, m, h or d"},
	{"allow a.test time=m", 3, 19, "value", "ms, s, m, h or d"},
	{"allow a.test time=0s", 3, 19, "value", "at least 1ms"},
	{"allow a.test time=3651d", 3, 19, "value", "at most 3650d"},
	{"allow a.test max-uses=0", 3, 23, "value", "would allow nothing"},
	{"allow a.test up=0", 3, 17, "value", "can never be used"},
	{"allow a.test down=0k", 3, 19, "value", "can never be used"},
	{"allow a.test requests=0", 3, 23, "value", "would allow nothing"},
	{"allow a.test window=1h", 3, 1, "window", "up=, down= or requests="},
	{"allow a.test window=1w up=1m", 3, 21, "value", "ms, s, m, h or d"},
	{"allow a.test upgrade=h2c", 3, 22, "value", "websocket or deny"},
	{"allow a.test header-deny=a,", 3, 26, "value", "missing in the list"},
	{"allow a.test header-deny=a,A", 3, 26, "value", "stands twice"},
	{"allow a.test header-deny=a:b", 3, 26, "value", "not the name of a header field"},
	{"allow a.test header-deny=Host", 3, 26, "value", "every request has"},
	{"deny a.test header-deny=cookie", 3, 13, "attribute", "no meaning on a deny rule"},
	{"deny a.test rate=1/s", 3, 13, "attribute", "no meaning on a deny rule"},
	{"deny a.test mode=observe", 3, 13, "attribute", "no meaning on a deny rule"},
	{"allow a.test tls=tunnel", 3, 18, "value", "inspect or splice"},
	{"allow a.test mode=audit", 3, 19, "value", "enforce or observe"},
	/* bytes that pass unread */
	{"allow a.test tls=splice GET", 3, 25, "syntax", "one list of methods"},
	{"allow a.test GET tls=splice", 3, 14, "unread", "methods and paths could not hold"},
	{"allow a.test /x tls=splice", 3, 14, "unread", "methods and paths could not hold"},
	{"allow a.test tls=splice query=allow", 3, 25, "unread", "could not hold"},
	{"allow a.test tls=splice req-body=1m", 3, 25, "unread", "could not hold"},
	{"allow a.test tls=splice resp-body=1m", 3, 25, "unread", "could not hold"},
	{"allow a.test tls=splice enc-slash=literal", 3, 25, "unread", "could not hold"},
	{"allow a.test tls=splice header-deny=x", 3, 25, "unread", "could not hold"},
	{"allow a.test tls=splice upgrade=websocket", 3, 25, "unread", "could not hold"},
	{"allow a.test tls=splice scheme=https", 3, 25, "unread", "could not hold"},
	{"allow ip:192.0.2.7 tls=splice", 3, 20, "unread", "no server name"},
	{"allow tcp a.test:22 GET", 3, 21, "unread", "methods and paths could not hold"},
	{"allow tcp a.test:22 query=deny", 3, 21, "unread", "could not hold"},
	{"allow tcp a.test:22 tls=splice", 3, 21, "unread", "carries no TLS"},
	{"allow tcp a.test", 3, 7, "tcp", "names its ports"},
	{"allow tcp", 3, 1, "syntax", "a host is missing"},
	{"deny tcp a.test:22", 3, 6, "tcp", "leave out tcp"},
	/* any and addresses */
	{"allow any", 3, 1, "any", "ticket="},
	{"allow any:8443 POST", 3, 1, "any", "ticket="},
	{"allow any. ticket=x", 3, 7, "host", "another meaning"},
	{"allow TCP.:443", 3, 7, "host", "another meaning"},
	{"deny ip.", 3, 6, "host", "another meaning"},
	{"allow ip:", 3, 10, "address", "zero host bits"},
	{"allow ip:a.test", 3, 10, "address", "zero host bits"},
	{"allow ip:10.0.0.1/8", 3, 10, "address", "zero host bits"},
	{"allow ip:0.0.0.0/0", 3, 10, "address", "every address"},
	{"allow ip:[192.0.2.7]", 3, 10, "address", "only IPv6"},
	{"allow ip:2001:db8::1", 3, 10, "address", "zero host bits"},
	{"allow ip:[2001:db8::]/32", 3, 10, "address", "zero host bits"},
	{"allow ip:192.0.2.7:0", 3, 20, "port", "1 to 65535"},
	{"allow ip:192.0.2.7:", 3, 20, "port", "1 to 65535"},
	{"allow ip:192.0.2.7 addr=10.0.0.0/8", 3, 20, "addr", "its own addresses"},
	{"set mode audit", 3, 10, "value", "enforce or observe"},
	{"set mode observe\nset mode enforce", 4, 1, "duplicate-setting", "on line 3"},
	{"set commit never", 3, 12, "value", "after or before"},
	{"set commit before\nset commit before", 4, 1, "duplicate-setting", "on line 3"},
	{"set on-full drop", 3, 13, "unsupported", "only deny"},
	{"set colour blue", 3, 5, "unknown-setting", "unknown setting"},
	{"set mode", 3, 1, "syntax", "set KEY VALUE"},
	/* sections and their order */
	{"include a.allow", 3, 1, "misplaced", "before the first section"},
	{"require owner", 3, 1, "misplaced", "before the first section"},
	{"defaults owner=x", 3, 1, "misplaced", "before the first section"},
	{"policy 1", 3, 1, "misplaced", "once a file"},
	{"[group]", 3, 1, "syntax", "[group NAME]"},
	{"[group a", 3, 1, "syntax", "[group NAME]"},
	{"[group a extends b]", 3, 1, "syntax", "[group NAME]"},
	{"[profile p]", 3, 10, "duplicate-section", "x.allow:2"},
	{"[profile a/b]", 3, 10, "name", "letters, digits"},
	{"[profile q extends x]", 3, 20, "unknown-section", "there is no profile x"},
	{"[profile base]\n[profile q extends bas]", 4, 20, "unknown-section", "mean base?"},
	{"[profile q extends q]", 3, 20, "too-deep", "in a circle"},
	{"[group g]\nset mode enforce", 4, 1, "misplaced", "in a profile"},
	{"use g", 3, 5, "unknown-section", "there is no group g"},
	{"use grp\n[group group]", 3, 5, "unknown-section", "did you mean group?"},
	{"use g\n[group g]\nuse g", 5, 5, "too-deep", "in a circle"},
	{"use", 3, 1, "syntax", "use GROUP"},
	{"use g owner=x\n[group g]", 3, 7, "attribute", "only narrows"},
	{"use g expires=2028-01-01\n[group g]\nallow a.test expires=2027-01-01", 3, 7, "widens",
		"expires=2028-01-01 is beyond 2027-01-01"},
	{"use g req-body=2m\n[group g]\nallow a.test POST", 3, 7, "widens",
		"req-body=2m is beyond 1m"},
	{"use g query=allow\n[group g]", 3, 7, "widens", "only narrows"},
	{"allow a.test id=x\nallow b.test id=x", 4, 1, "duplicate-id", "x.allow:3"},
	/* expect lines */
	{"expect maybe GET https://a.test/", 3, 1, "syntax", "expect allow|deny"},
	{"expect deny GET", 3, 1, "syntax", "expect allow|deny"},
	{"expect deny GET ftp://a.test/", 3, 17, "url", "https:// or http://"},
	{"expect deny GET https://a.test/ code=deny.nothing", 3, 33, "value", "no such reason"},
	{"expect deny GET https://a.test/ at=soon", 3, 33, "value", "YYYY-MM-DD"},
	{"expect deny GET https://a.test/ why=x", 3, 33, "value", "by=, code= and at="},
	{"expect allow GET https://a.test/", 3, 1, "expect", "expected allow, got deny.default"},
	{"allow a.test\nexpect deny GET https://a.test/", 4, 1, "expect",
		"expected deny, got allow.rule"},
	{"expect deny GET https://a.test/ code=deny.path", 3, 1, "expect",
		"expected deny.path, got deny.default"},
	{"allow a.test id=x\nexpect allow GET https://a.test/ by=y", 4, 1, "expect",
		"by x it is allow.rule"},
	/* bytes and quotes */
	{"allow a.test note=\"x", 3, 19, "syntax", "not closed"},
	{"allow a.test \"x\"", 3, 14, "syntax", "follow the ="},
	{"allow a.test note=\"x\"y", 3, 22, "syntax", "a blank must follow"},
	{"allow a.test note=\"x\ty\"", 3, 19, "byte", "a tab inside quotes"},
	{"allow a.test \\ GET", 3, 14, "syntax", "a backslash may only end a line"},
	{"allow a.test \\", 3, 14, "syntax", "nothing follows"},
	{"allow a.test\r\n", 3, 13, "byte", "carriage return"},
	{"allow a.test\r\nallow b.test\r\n", 3, 13, "byte", "dos2unix"},
	{"# \x01", 3, 3, "byte", "control byte"},
	{"# \x7f", 3, 3, "byte", "control byte"},
	{"# \xff", 3, 1, "byte", "not UTF-8"},
	{"# \xe2\x80\xae", 3, 3, "byte", "invisible"},
	{"allow a.test \\\n  GET \\\n  /x \\\n  bad", 6, 3, "syntax", "one list of methods"},
};

static const struct finding_case from_start[] = {
	{"", 1, 1, "version", "the file is empty"},
	{"# nothing\n\n", 1, 1, "version", "the file is empty"},
	{"\n  [profile p]", 2, 3, "version", "must be: policy 1"},
	{"policy 2", 1, 1, "version", "must be: policy 1"},
	{"policy 1 2", 1, 1, "version", "must be: policy 1"},
	{"\xef\xbb\xbfpolicy 1", 1, 1, "byte", "byte order mark"},
	{"\xef\xbb\xbfpolicy 1\n[profile p]\nallow a.test", 1, 1, "byte", "byte order mark"},
	{"policy 1\r\n[profile p]\r\nallow a.test\r\n", 1, 9, "byte", "carriage return"},
	{"policy 1\n[profile p]\n\xef\xbb\xbf", 3, 1, "byte", "invisible"},
	{"policy 1\nallow a.test", 2, 1, "misplaced", "before any section"},
	{"policy 1\nuse g", 2, 1, "misplaced", "before any section"},
	{"policy 1\nset mode enforce", 2, 1, "misplaced", "in a profile"},
	{"policy 1\nrequire", 2, 1, "syntax", "require owner"},
	{"policy 1\nrequire owner speed", 2, 15, "syntax", "require takes"},
	{"policy 1\ndefaults id=x", 2, 10, "attribute", "no meaning on defaults"},
	{"policy 1\ndefaults addr=10.0.0.0/8", 2, 10, "attribute", "no meaning on defaults"},
	{"policy 1\nrequire owner\n[profile p]\nallow a.test", 4, 1, "required", "owner="},
	{"policy 1\nrequire ticket\ndeny a.test", 3, 1, "required", "ticket="},
	{"policy 1\nrequire expires\n[profile p]\nallow a.test", 4, 1, "required", "expires="},
	{"policy 1\nrequire tests\n[profile p]\nallow a.test", 3, 10, "required", "no expect line"},
	{"policy 1\ninclude ../a.allow", 2, 9, "include", "no '..'"},
	{"policy 1\ninclude /etc/a.allow", 2, 9, "include", "below this file's folder"},
	{"policy 1\ninclude a//b.allow", 2, 9, "include", "no empty part"},
	{"policy 1\ninclude a.allow", 2, 9, "include", "was not loaded"},
	{"policy 1\ninclude x.allow", 2, 9, "include", "includes itself"},
	{"policy 1\ninclude", 2, 1, "syntax", "include PATH"},
};

static void finds(struct slice text, const struct finding_case *c)
{
	struct policy *p = NULL;
	int r = policy_setup_compile(text, &p);
	if (r != -EINVAL || p != NULL || policy_setup_report.errors == 0)
		fail_msg("'%s' gives %d", c->text, r);
	const struct policy_diagnostic *d = &policy_setup_report.items[0];
	char line[1024];
	(void)policy_diagnostic_format(d, line, sizeof(line));
	if (d->line != c->line || d->column != c->column || strcmp(d->code, c->code) != 0 ||
		strstr(d->text, c->says) == NULL || strcmp(d->file, "x.allow") != 0 ||
		d->severity != POLICY_ERROR)
		fail_msg("'%s': %s", c->text, line);
	if (policy_setup_report.errors != 1)
		fail_msg("'%s': %zu errors", c->text, policy_setup_report.errors);
}

static void every_wrong_line_has_its_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(in_profile); i++) {
		char text[1024];
		(void)snprintf(text, sizeof(text), "policy 1\n[profile p]\n%s", in_profile[i].text);
		finds(slice_of(text), &in_profile[i]);
	}
	for (size_t i = 0; i < array_size(from_start); i++)
		finds(slice_of(from_start[i].text), &from_start[i]);
}

static void a_nul_byte_hides_nothing(void **state)
{
	(void)state;
	static const struct finding_case c = {"NUL", 3, 8, "byte", "a NUL byte"};
	finds(SLICE("policy 1\n[profile p]\nallow a\0.test\n"), &c);
}

static void findings_come_in_order_of_place(void **state)
{
	(void)state;
	struct policy *p = NULL;
	int r = policy_setup_compile(SLICE("policy 1\n[profile p]\nuse nothing\nallow *\n"
					   "allow b.test GET,GET zz=1\n"),
		&p);
	assert_int_equal(r, -EINVAL);
	assert_int_equal(policy_setup_report.count, 4);
	for (size_t i = 0; i < 3; i++) {
		const struct policy_diagnostic *a = &policy_setup_report.items[i];
		const struct policy_diagnostic *b = &policy_setup_report.items[i + 1];
		assert_true(a->line < b->line || (a->line == b->line && a->column < b->column));
	}
}

static void a_finding_prints_as_one_line(void **state)
{
	(void)state;
	struct policy *p = NULL;
	char line[1024];
	assert_int_equal(
		policy_setup_compile(SLICE("policy 1\n[profile p]\nallow a.test idd=x"), &p),
		-EINVAL);
	assert_string_equal(
		policy_diagnostic_format(&policy_setup_report.items[0], line, sizeof(line)),
		"x.allow:3:14: error: unknown-attribute: unknown attribute 'idd'; did you mean id?");
}

static void a_line_has_a_longest_length(void **state)
{
	(void)state;
	static char text[8192];
	struct policy *p = NULL;
	int head = snprintf(text, sizeof(text), "policy 1\n#");
	for (size_t past = 0; past < 2; past++) {
		memset(text + head, 'x', 4095 + past);
		struct slice whole = {text, (size_t)head + 4095 + past};
		if (past == 0) {
			assert_int_equal(policy_setup_compile(whole, &p), 0);
			policy_free(p);
			p = NULL;
		} else {
			static const struct finding_case c = {
				"4097 bytes", 2, 4097, "too-long", "longer than 4096"};
			finds(whole, &c);
		}
	}
}

/** "policy 1\n[profile p]\n" and @count rules. */
static struct slice many_rules(size_t count, struct buf *to)
{
	buf_init(to, POLICY_BUNDLE_BYTES_MAX);
	(void)buf_append_text(to, "policy 1\n[profile p]\n");
	for (size_t i = 0; i < count; i++)
		(void)buf_printf(to, "allow h%zu.example.test\n", i);
	assert_false(to->failed);
	return buf_slice(to);
}

static void rules_have_a_highest_number(void **state)
{
	(void)state;
	struct buf text;
	struct policy *p = NULL;
	assert_int_equal(policy_setup_compile(many_rules(20000, &text), &p), 0);
	policy_free(p);
	buf_fini(&text);
	static const struct finding_case c = {
		"20001 rules", 20003, 1, "too-many", "more than 20000 rules"};
	finds(many_rules(20001, &text), &c);
	buf_fini(&text);
}

static void a_file_has_a_greatest_size(void **state)
{
	(void)state;
	struct buf text;
	struct policy *p = NULL;
	buf_init(&text, POLICY_BUNDLE_BYTES_MAX);
	(void)buf_append_text(&text, "policy 1\n");
	while (buf_len(&text) < POLICY_FILE_BYTES_MAX)
		(void)buf_append_text(&text, "\n");
	assert_int_equal(policy_setup_compile(buf_slice(&text), &p), 0);
	policy_free(p);
	(void)buf_append_text(&text, "\n");
	static const struct finding_case c = {"1 MiB + 1", 1, 1, "bundle", "larger than 1 MiB"};
	finds(buf_slice(&text), &c);
	buf_fini(&text);
}

static void groups_that_multiply_are_cut(void **state)
{
	(void)state;
	struct buf text;
	struct policy *p = NULL;
	buf_init(&text, 0);
	(void)buf_append_text(&text, "policy 1\n[profile p]\nuse g0\n");
	for (int group = 0; group < 7; group++) {
		(void)buf_printf(&text, "[group g%d]\n", group);
		for (int i = 0; i < 40; i++)
			(void)buf_printf(&text, "use g%d\n", group + 1);
	}
	(void)buf_append_text(&text, "[group g7]\n");
	assert_int_equal(policy_setup_compile(buf_slice(&text), &p), -EINVAL);
	assert_string_equal(policy_setup_report.items[0].code, "too-many");
	buf_fini(&text);
}

static void bytes_that_are_no_bundle_are_refused(void **state)
{
	(void)state;
	static const char *const wrong[] = {"", "x", "eclusa-bundle 1\n", "eclusa-bundle 2\n",
		"eclusa-bundle 1\nf 1 9\na\npolicy 1\n", "eclusa-bundle 1\nz 1 8\na\npolicy 1\n",
		"eclusa-bundle 1\nf 0 8\n\npolicy 1\n", "eclusa-bundle 1\nf 1 99\na\npolicy 1\n",
		"eclusa-bundle 1\nf 1 08\na\npolicy 1\n", "eclusa-bundle 1\nf 1\na\npolicy 1\n"};
	for (size_t i = 0; i < array_size(wrong); i++) {
		struct policy *p = NULL;
		int r = policy_compile(slice_of(wrong[i]), &p, &policy_setup_report);
		if (r != -EINVAL || policy_setup_report.errors == 0)
			fail_msg("'%s' gives %d", wrong[i], r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_wrong_line_has_its_place),
		cmocka_unit_test(a_nul_byte_hides_nothing),
		cmocka_unit_test(findings_come_in_order_of_place),
		cmocka_unit_test(a_finding_prints_as_one_line),
		cmocka_unit_test(a_line_has_a_longest_length),
		cmocka_unit_test(rules_have_a_highest_number),
		cmocka_unit_test(a_file_has_a_greatest_size),
		cmocka_unit_test(groups_that_multiply_are_cut),
		cmocka_unit_test(bytes_that_are_no_bundle_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* See message.h. */
#include "ipc/message.h"

#include "common/cleanup.h"
#include "ipc/channel.h"

#include <stdio.h>

const char *packet_class_name(enum packet_class class)
{
	static const char *const names[PACKET_CLASS_COUNT] = {
		[PACKET_PRIVATE] = "private",
		[PACKET_LINK_LOCAL] = "link-local",
		[PACKET_METADATA] = "metadata",
		[PACKET_SPECIAL] = "special",
		[PACKET_PUBLIC] = "public",
		[PACKET_SERVICE] = "service-port",
		[PACKET_UDP] = "udp",
		[PACKET_CONNECTIONS] = "connections",
		[PACKET_QUESTIONS] = "questions",
	};
	return class < PACKET_CLASS_COUNT ? names[class] : "unknown";
}

const struct packet_words *packet_class_words(enum packet_class class)
{
	static const struct packet_words words[] = {
		[PACKET_PRIVATE] = {REASON_DENY_ADDRESS_PRIVATE, "packets to private addresses",
			NULL},
		[PACKET_LINK_LOCAL] = {REASON_DENY_ADDRESS_PRIVATE,
			"packets to link-local addresses", NULL},
		[PACKET_METADATA] = {REASON_DENY_ADDRESS_METADATA,
			"packets to cloud metadata addresses", NULL},
		[PACKET_SPECIAL] = {REASON_DENY_ADDRESS_PRIVATE,
			"packets to special-purpose addresses", NULL},
		[PACKET_PUBLIC] = {REASON_DENY_PACKET,
			"packets to public addresses, past the proxy", NULL},
		[PACKET_SERVICE] = {REASON_DENY_PACKET,
			"packets to other ports of the proxy's address", NULL},
		[PACKET_UDP] = {REASON_DENY_PACKET, "UDP packets, such as look-ups of names", NULL},
		[PACKET_CONNECTIONS] = {REASON_DENY_RATE, "new connections",
			"the sandbox begins more connections in a second than it may"},
		[PACKET_QUESTIONS] = {REASON_DENY_RATE, "questions for names",
			"the sandbox asks for more names in a second than it may"},
	};
	static_assert(array_size(words) == PACKET_CLASS_COUNT, "one row a class");
	assert(class < PACKET_CLASS_COUNT);
	return &words[class];
}

void message_send_failed(int fd, int code, const char *text)
{
	struct message_failed failed = {.header = {.kind = MESSAGE_FAILED}, .code = code};
	(void)snprintf(failed.text, sizeof(failed.text), "%s", text);
	(void)channel_send(fd, &failed, sizeof(failed), NULL, 0); /* see message.h */
}

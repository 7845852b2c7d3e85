/* See message.h. */
#include "ipc/message.h"

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

void message_send_failed(int fd, int code, const char *text)
{
	struct message_failed failed = {.header = {.kind = MESSAGE_FAILED}, .code = code};
	(void)snprintf(failed.text, sizeof(failed.text), "%s", text);
	(void)channel_send(fd, &failed, sizeof(failed), NULL, 0); /* see message.h */
}

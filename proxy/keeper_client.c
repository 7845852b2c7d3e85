/* See keeper_client.h. */
#include "proxy/keeper_client.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "ipc/channel.h"
#include "proxy/keeper.h"

#include <fcntl.h>

#define MS_PER_SECOND 1000

/** A name that the keeper was asked for, or will be as soon as the channel has room. */
struct keeper_question {
	struct keeper_question *next;
	char sandbox[SANDBOX_ID_BYTES];
	struct host host;
	uint32_t id;
	bool sent;
	struct keeper_wait *waits;
};

struct keeper_client {
	uv_poll_t poll;
	int fd;
	bool ended; /* the keeper is gone, and so will be this run */
	bool writing;
	const struct leaf_key *key;
	struct leaf_cache *cache;
	struct keeper_question *questions;
	size_t question_count;
	uint32_t next_id;
};

static int64_t now_s(void)
{
	return (int64_t)(clock_wall_ms() / MS_PER_SECOND);
}

void keeper_wait_end(struct keeper_wait *wait)
{
	if (wait->at == NULL)
		return;
	*wait->at = wait->next;
	if (wait->next != NULL)
		wait->next->at = wait->at;
	wait->next = NULL;
	wait->at = NULL;
}

static void wait_add(struct keeper_question *q, struct keeper_wait *wait)
{
	wait->next = q->waits;
	wait->at = &q->waits;
	if (wait->next != NULL)
		wait->next->at = &wait->next;
	q->waits = wait;
}

/** Take the question off the list and tell all who wait for it. */
static void question_end(struct keeper_client *k, struct keeper_question *q, bool failed)
{
	struct keeper_question **at = &k->questions;
	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	k->question_count--;
	while (q->waits != NULL) {
		struct keeper_wait *wait = q->waits;
		keeper_wait_end(wait); /* before telling: it may ask again */
		wait->wake(wait->arg, failed);
	}
	free(q);
}

static void client_end(struct keeper_client *k)
{
	k->ended = true;
	(void)uv_poll_stop(&k->poll); /* can't fail */
	while (k->questions != NULL)
		question_end(k, k->questions, true);
}

static int question_send(struct keeper_client *k, struct keeper_question *q)
{
	struct slice key = leaf_key_public(k->key);
	struct keeper_request request = {.id = q->id, .public_key_len = (uint16_t)key.len};
	if (key.len > sizeof(request.public_key))
		return -EMSGSIZE;
	memcpy(request.public_key, key.ptr, key.len);
	memcpy(request.name, q->host.name, sizeof(request.name));
	int r = channel_send(k->fd, &request, sizeof(request), NULL, 0);
	q->sent = r == 0;
	return r;
}

static void on_keeper(uv_poll_t *poll, int status, int events);

static int client_watch(struct keeper_client *k)
{
	return uv_poll_start(&k->poll, UV_READABLE | (k->writing ? UV_WRITABLE : 0), on_keeper);
}

/** Send what has not been sent, while there is room. */
static void questions_send(struct keeper_client *k)
{
	bool full = false;
	for (struct keeper_question *q = k->questions; q != NULL && !full; q = q->next) {
		int r = q->sent ? 0 : question_send(k, q);
		full = r == -EAGAIN;
		if (r < 0 && r != -EAGAIN) {
			client_end(k);
			return;
		}
	}
	if (full != k->writing) {
		k->writing = full;
		if (client_watch(k) < 0)
			client_end(k);
	}
}

static void answer(struct keeper_client *k, const struct keeper_reply *reply)
{
	struct keeper_question *q = k->questions;
	while (q != NULL && (q->id != reply->id || !q->sent))
		q = q->next;
	if (q == NULL)
		return;
	struct leaf *leaf = NULL;
	struct slice der = {(const char *)reply->der, reply->der_len};
	bool failed = der.len == 0 || der.len > sizeof(reply->der) ||
		leaf_from_der(der, k->key, &leaf) < 0;
	if (!failed)
		leaf_cache_put(k->cache, &(struct leaf_place){q->sandbox, &q->host}, leaf);
	question_end(k, q, failed);
}

static void on_keeper(uv_poll_t *poll, int status, int events)
{
	struct keeper_client *k = poll->data;
	struct keeper_reply reply;
	int r = status < 0 ? -EIO : -EAGAIN;
	if ((events & UV_READABLE) != 0) {
		while ((r = channel_receive(k->fd, &reply, sizeof(reply), NULL, 0, NULL)) ==
			(int)sizeof(reply))
			answer(k, &reply);
	}
	if (r != -EAGAIN)
		client_end(k);
	else if ((events & UV_WRITABLE) != 0)
		questions_send(k);
}

int keeper_client_new(uv_loop_t *loop, int fd, const struct leaf_key *key,
	struct keeper_client **ret, struct failure *why)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return failure_errno(why, -errno, "keeper channel");
	struct keeper_client *k = calloc(1, sizeof(*k));
	if (k == NULL)
		return failure_set(why, -ENOMEM, "keeper channel: out of memory");
	k->fd = fd;
	k->key = key;
	k->cache = leaf_cache_new(LEAF_CACHE_MAX);
	random_bytes(&k->next_id, sizeof(k->next_id)); /* not those of a predecessor */
	int r = k->cache == NULL ? -ENOMEM : uv_poll_init(loop, &k->poll, fd);
	if (r < 0) {
		leaf_cache_free(k->cache);
		free(k);
		return failure_set(why, r, "keeper channel: can't be watched");
	}
	k->poll.data = k;
	*ret = k;
	return client_watch(k);
}

static void on_client_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void keeper_client_free(struct keeper_client *k)
{
	if (k == NULL)
		return;
	while (k->questions != NULL) {
		struct keeper_question *q = k->questions;
		k->questions = q->next;
		while (q->waits != NULL)
			keeper_wait_end(q->waits);
		free(q);
	}
	leaf_cache_free(ptr_take(k->cache));
	uv_close((uv_handle_t *)&k->poll, on_client_closed);
}

struct leaf *keeper_client_find(struct keeper_client *k, const struct leaf_place *place)
{
	return leaf_cache_find(k->cache, place, now_s());
}

static bool asks_for(const struct keeper_question *q, const struct leaf_place *place)
{
	return host_equal(&q->host, place->host) && strcmp(q->sandbox, place->sandbox) == 0;
}

int keeper_client_ask(
	struct keeper_client *k, const struct leaf_place *place, struct keeper_wait *wait)
{
	if (k->ended)
		return -EPIPE;
	struct keeper_question *q = k->questions;
	while (q != NULL && !asks_for(q, place))
		q = q->next;
	if (q != NULL) {
		wait_add(q, wait);
		return 0;
	}
	if (k->question_count >= KEEPER_REQUESTS_MAX)
		return -ENOSPC;
	q = calloc(1, sizeof(*q));
	if (q == NULL)
		return -ENOMEM;
	*q = (struct keeper_question){
		.next = k->questions, .host = *place->host, .id = k->next_id++};
	(void)slice_copy(slice_of(place->sandbox), q->sandbox, sizeof(q->sandbox)); /* same size */
	k->questions = q;
	k->question_count++;
	int r = k->writing ? -EAGAIN : question_send(k, q);
	if (r == -EAGAIN && !k->writing) {
		k->writing = true;
		r = client_watch(k) < 0 ? -EPIPE : 0;
	}
	if (r < 0 && r != -EAGAIN) {
		question_end(k, q, true); /* nobody waits yet */
		return -EPIPE;
	}
	wait_add(q, wait);
	return 0;
}

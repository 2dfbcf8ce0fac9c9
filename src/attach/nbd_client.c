/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket of one NBD client. Received bytes are parsed by the handshake first, then request by
 * request. Answers and replies are sent in as few sends as possible. Main thread; the socket does
 * not block.
 *
 * Many headers are received at once into rx. The data of a write is copied from rx as far as it has
 * arrived there; the rest is received into the write's own buffer.
 */
#include "attach/nbd.h"

#include "base/check.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum step {
	STEP_ON,   /* progress was made */
	STEP_MORE, /* needs more bytes from the client */
	STEP_WAIT, /* must first send, or get a request back from libweft */
};

struct nbd_client *nbd_client_create(const struct nbd_options *options, int fd,
				     const struct nbd_export *export, uint64_t now_ns)
{
	struct nbd_client *client = calloc(1, sizeof(*client));

	if (client == NULL)
		return NULL;
	if (weft_ns_dup(options->attached->handle.ns, &client->ns) != 0) {
		free(client);
		return NULL;
	}
	client->options = options;
	client->fd = fd;
	client->export = *export;
	client->deadline_ns = now_ns + NBD_HANDSHAKE_NS;
	list_init(&client->free_slots);
	list_init(&client->replies);
	for (unsigned i = 0; i < NBD_CLIENT_SLOTS; i++) {
		client->slots[i].client = client;
		list_push_back(&client->free_slots, &client->slots[i].node);
	}
	nbd_handshake_init(&client->handshake, &client->export);
	return client;
}

void nbd_client_destroy(struct nbd_client *client)
{
	CHECK(client->in_flight == 0);
	for (unsigned i = 0; i < NBD_CLIENT_SLOTS; i++)
		free(client->slots[i].buf);
	close(client->fd);
	weft_ns_close(client->ns);
	free(client);
}

bool nbd_client_is_shaking_hands(const struct nbd_client *client)
{
	return client->handshake.phase != NBD_PHASE_REQUEST;
}

static bool answer_is_sent(const struct nbd_client *client)
{
	return client->answer_sent_bytes == client->handshake.answer_bytes;
}

bool nbd_client_is_over(const struct nbd_client *client)
{
	if (client->in_flight > 0)
		return false;
	return client->is_broken ||
	       (client->is_ending && answer_is_sent(client) && list_empty(&client->replies));
}

void nbd_client_break(struct nbd_client *client)
{
	client->is_broken = true;
	client->is_ending = true;
	while (!list_empty(&client->replies)) {
		struct nbd_slot *slot = list_entry(client->replies.next, struct nbd_slot, node);

		list_remove(&slot->node);
		nbd_slot_drop(slot);
	}
}

/* ---- sending -------------------------------------------------------------------------------- */

static ssize_t client_send(struct nbd_client *client, struct iovec *iov, unsigned count)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = count};
	ssize_t sent;

	do
		sent = sendmsg(client->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	if (sent < 0 && errno != EAGAIN)
		nbd_client_break(client);
	return sent;
}

/* Whether the whole answer is sent. */
static bool answer_send(struct nbd_client *client)
{
	while (!answer_is_sent(client)) {
		struct iovec iov = {
			.iov_base = client->handshake.answer + client->answer_sent_bytes,
			.iov_len = client->handshake.answer_bytes - client->answer_sent_bytes,
		};
		ssize_t sent = client_send(client, &iov, 1);

		if (sent < 0)
			return false;
		client->answer_sent_bytes += (size_t)sent;
	}
	return true;
}

/* The part of the slot's reply that is not sent yet, in up to two pieces. */
static unsigned slot_pieces(struct nbd_slot *slot, struct iovec iov[2])
{
	unsigned count = 0;
	size_t data_sent = 0;

	if (slot->sent_bytes < slot->header_bytes)
		iov[count++] = (struct iovec){slot->header + slot->sent_bytes,
					      slot->header_bytes - slot->sent_bytes};
	else
		data_sent = slot->sent_bytes - slot->header_bytes;
	if (data_sent < slot->reply_bytes)
		iov[count++] = (struct iovec){slot->buf + slot->reply_offset + data_sent,
					      slot->reply_bytes - data_sent};
	return count;
}

static void replies_advance(struct nbd_client *client, size_t sent)
{
	while (sent > 0) {
		struct nbd_slot *slot = list_entry(client->replies.next, struct nbd_slot, node);
		size_t left = slot->header_bytes + slot->reply_bytes - slot->sent_bytes;

		if (sent < left) {
			slot->sent_bytes += sent;
			return;
		}
		sent -= left;
		list_remove(&slot->node);
		nbd_slot_release(slot);
	}
}

static void replies_send(struct nbd_client *client)
{
	while (!list_empty(&client->replies)) {
		struct iovec iov[NBD_SEND_PIECES];
		unsigned count = 0;
		struct list *node;
		ssize_t sent;

		for (node = client->replies.next;
		     node != &client->replies && count + 2 <= NBD_SEND_PIECES; node = node->next)
			count += slot_pieces(list_entry(node, struct nbd_slot, node), &iov[count]);
		sent = client_send(client, iov, count);
		if (sent < 0)
			return;
		replies_advance(client, (size_t)sent);
	}
}

/* ---- parsing -------------------------------------------------------------------------------- */

static size_t rx_bytes(const struct nbd_client *client)
{
	return client->rx_end - client->rx_begin;
}

static enum step handshake_step(struct nbd_client *client)
{
	int used;

	if (!answer_send(client))
		return STEP_WAIT;
	if (client->handshake.phase == NBD_PHASE_ENDED) {
		client->is_ending = true;
		return STEP_WAIT;
	}
	used = nbd_handshake_take(&client->handshake, client->rx + client->rx_begin,
				  rx_bytes(client));
	client->answer_sent_bytes = 0;
	if (used < 0) {
		nbd_client_break(client);
		return STEP_WAIT;
	}
	client->rx_begin += (size_t)used;
	/* Send the last answer before parsing the first request. */
	if (client->handshake.phase == NBD_PHASE_REQUEST)
		answer_send(client);
	return used > 0 ? STEP_ON : STEP_MORE;
}

static void filling_end(struct nbd_client *client)
{
	struct nbd_slot *slot = client->filling;

	client->filling = NULL;
	nbd_slot_submit(slot);
}

/* Takes data of a write, or skips data of a refused write. */
static enum step data_step(struct nbd_client *client)
{
	struct nbd_slot *slot = client->filling;
	uint64_t wanted = slot ? slot->held_bytes - client->filled_bytes : client->skip_bytes;
	size_t part = rx_bytes(client) < wanted ? rx_bytes(client) : (size_t)wanted;

	if (part == 0)
		return STEP_MORE;
	if (slot != NULL) {
		memcpy(slot->buf + client->filled_bytes, client->rx + client->rx_begin, part);
		client->filled_bytes += part;
		if (client->filled_bytes == slot->held_bytes)
			filling_end(client);
	} else {
		client->skip_bytes -= part;
	}
	client->rx_begin += part;
	return STEP_ON;
}

/* Whether one more request, already checked, fits the client's limit. A read counts all blocks that
 * it touches, so a single request may exceed the limit and is then served alone. */
static bool client_has_room(const struct nbd_client *client, const struct nbd_request *asked)
{
	size_t bytes = nbd_asked_bytes(asked, &client->export);

	return bytes == 0 || client->held_bytes == 0 ||
	       client->held_bytes + bytes <= NBD_CLIENT_BYTES;
}

static void request_take(struct nbd_client *client, const struct nbd_request *asked,
			 enum nbd_error error)
{
	struct nbd_slot *slot = list_entry(client->free_slots.next, struct nbd_slot, node);

	list_remove(&slot->node);
	slot->asked = *asked;
	if (error == NBD_OK && nbd_slot_hold(slot) != 0)
		error = NBD_ENOMEM;
	if (error != NBD_OK) {
		client->skip_bytes = asked->command == NBD_CMD_WRITE ? asked->length : 0;
		nbd_slot_answer(slot, error);
	} else if (asked->command == NBD_CMD_WRITE) {
		client->filling = slot;
		client->filled_bytes = 0;
	} else {
		nbd_slot_submit(slot);
	}
}

static enum step request_step(struct nbd_client *client)
{
	struct nbd_request asked;
	enum nbd_error error;

	if (client->filling != NULL || client->skip_bytes > 0)
		return data_step(client);
	if (rx_bytes(client) < NBD_REQUEST_BYTES)
		return STEP_MORE;
	if (nbd_request_decode(client->rx + client->rx_begin, &asked) != 0) {
		nbd_client_break(client);
		return STEP_WAIT;
	}
	if (asked.command == NBD_CMD_DISC) {
		client->is_ending = true;
		return STEP_WAIT;
	}
	error = nbd_request_check(&asked, &client->export, &client->handshake.terms);
	if (list_empty(&client->free_slots) ||
	    (error == NBD_OK && !client_has_room(client, &asked)))
		return STEP_WAIT;
	client->rx_begin += NBD_REQUEST_BYTES;
	request_take(client, &asked, error);
	return STEP_ON;
}

static enum step client_parse(struct nbd_client *client)
{
	enum step step = STEP_ON;

	while (step == STEP_ON && !client->is_ending)
		step = nbd_client_is_shaking_hands(client) ? handshake_step(client)
							   : request_step(client);
	return client->is_ending ? STEP_WAIT : step;
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* Whether bytes were received. */
static bool client_receive(struct nbd_client *client)
{
	struct nbd_slot *slot = client->filling;
	struct iovec iov[2];
	unsigned count = 0;
	size_t direct = 0;
	ssize_t got;

	memmove(client->rx, client->rx + client->rx_begin, rx_bytes(client));
	client->rx_end = rx_bytes(client);
	client->rx_begin = 0;
	if (slot != NULL) {
		direct = slot->held_bytes - client->filled_bytes;
		iov[count++] = (struct iovec){slot->buf + client->filled_bytes, direct};
	}
	iov[count++] = (struct iovec){client->rx + client->rx_end, NBD_RX_BYTES - client->rx_end};
	do
		got = readv(client->fd, iov, (int)count);
	while (got < 0 && errno == EINTR);
	if (got == 0 || (got < 0 && errno != EAGAIN))
		nbd_client_break(client);
	if (got <= 0)
		return false;
	if (slot != NULL) {
		size_t part = (size_t)got < direct ? (size_t)got : direct;

		client->filled_bytes += part;
		got -= (ssize_t)part;
		if (client->filled_bytes == slot->held_bytes)
			filling_end(client);
	}
	client->rx_end += (size_t)got;
	return true;
}

void nbd_client_work(struct nbd_client *client)
{
	enum step step = client_parse(client);

	for (unsigned i = 0; i < NBD_ROUNDS_MAX && step == STEP_MORE; i++) {
		if (!client_receive(client))
			break;
		step = client_parse(client);
	}
	if (!client->is_broken && answer_send(client))
		replies_send(client);
	/* Sent replies may have freed slots and bytes. */
	if (step == STEP_WAIT && !client->is_broken && list_empty(&client->replies))
		step = client_parse(client);
	client->poll_events = 0;
	if (client->is_broken)
		return;
	if (step == STEP_MORE && !client->is_ending)
		client->poll_events |= POLLIN;
	if (!answer_is_sent(client) || !list_empty(&client->replies))
		client->poll_events |= POLLOUT;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of the echo client. A turn is one receive of up to 256 KiB into the client's
 * memory (the bytes are really copied), and then one send with as many requests as were answered.
 *
 * Every answer's fields are always checked against its request; with --verify the data as well.
 */
#include "echo_client.h"

#include "base/check.h"
#include "base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int client_conn_open(struct client *client, struct client_conn *conn)
{
	const struct client_options *options = &client->options;
	int one = 1;

	conn->slots = calloc(options->depth, sizeof(*conn->slots));
	conn->free_tags = calloc(options->depth, sizeof(*conn->free_tags));
	CHECK(conn->slots && conn->free_tags);
	for (uint64_t i = 0; i < options->depth; i++) {
		conn->free_tags[conn->free_count++] = (uint32_t)(options->depth - 1 - i);
		if (!options->is_write)
			continue;
		conn->slots[i].data = aligned_alloc(4096, (options->io_bytes + 4095) & ~4095ull);
		CHECK(conn->slots[i].data != NULL);
		memset(conn->slots[i].data, 0x5a, options->io_bytes);
	}
	conn->fd = socket(options->addr.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (conn->fd < 0)
		return -errno;
	setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(conn->fd, (const struct sockaddr *)&options->addr.storage,
		    options->addr.len_bytes) != 0)
		return -errno;
	return 0;
}

void client_conn_close(const struct client *client, struct client_conn *conn)
{
	for (uint64_t i = 0; conn->slots && i < client->options.depth; i++)
		free(conn->slots[i].data);
	free(conn->slots);
	free(conn->free_tags);
	if (conn->fd >= 0)
		close(conn->fd);
}

/* ---- requests ------------------------------------------------------------------------------- */

uint64_t client_next_offset(struct client *client)
{
	const struct client_options *options = &client->options;
	uint64_t blocks = options->size_bytes / options->io_bytes;
	uint64_t offset = client->next_offset;

	if (options->is_random)
		return prng_below(&client->prng, blocks) * options->io_bytes;
	client->next_offset += options->io_bytes;
	if (client->next_offset == blocks * options->io_bytes)
		client->next_offset = 0;
	return offset;
}

void client_conn_ask(struct client *client, struct client_conn *conn, enum echo_op op,
		     uint64_t offset, uint64_t start_ns)
{
	uint32_t tag = conn->free_tags[--conn->free_count];
	struct client_slot *slot = &conn->slots[tag];
	uint32_t io_bytes = (uint32_t)client->options.io_bytes;
	struct echo_request request = {
		.magic = ECHO_MAGIC, .op = op, .tag = tag, .len_bytes = io_bytes, .offset = offset};

	CHECK(!slot->is_busy);
	slot->is_busy = true;
	slot->op = op;
	slot->offset = offset;
	slot->start_ns = start_ns;
	client->under_way++;
	if (op == ECHO_WRITE && client->options.wants_verify) {
		for (uint32_t i = 0; i < io_bytes; i++)
			slot->data[i] = echo_pattern_written(offset + i);
		client->written[offset / io_bytes] = 1;
	}
	/* The ring is as deep as the deepest queue. */
	CHECK(echo_gather_push(&conn->out, &request, sizeof(request), slot->data,
			       op == ECHO_WRITE ? io_bytes : 0));
}

/* ---- answers -------------------------------------------------------------------------------- */

static int client_fail(struct client *client, int res, const char *why)
{
	if (client->error[0] == '\0')
		snprintf(client->error, sizeof(client->error), "%s", why);
	return res;
}

static void answer_done(struct client *client, struct client_conn *conn)
{
	struct client_slot *slot = &conn->slots[conn->response.tag];

	conn->header_bytes = 0;
	slot->is_busy = false;
	conn->free_tags[conn->free_count++] = conn->response.tag;
	client->under_way--;
	client->ios++;
	histogram_record(&client->latency, client->now_ns - slot->start_ns);
	if (client->is_issuing && client->options.rate == 0)
		client_conn_ask(client, conn, slot->op, client_next_offset(client), client->now_ns);
}

/* The header is complete. */
static int answer_begin(struct client *client, struct client_conn *conn)
{
	const struct echo_response *response = &conn->response;
	const struct client_slot *slot =
		response->tag < client->options.depth ? &conn->slots[response->tag] : NULL;

	if (response->magic != ECHO_MAGIC || !slot || !slot->is_busy || response->op != slot->op ||
	    response->offset != slot->offset || response->len_bytes != client->options.io_bytes)
		return client_fail(client, -EPROTO, "an answer does not fit its request");
	conn->data_done_bytes = 0;
	conn->data_left_bytes = slot->op == ECHO_READ ? response->len_bytes : 0;
	if (conn->data_left_bytes == 0)
		answer_done(client, conn);
	return 0;
}

/* A byte is the server's initial one, or the one that a verifying client wrote; after our own write
 * it must be the latter. */
static int data_verify(struct client *client, struct client_conn *conn, const uint8_t *at,
		       size_t len_bytes)
{
	uint64_t offset = conn->response.offset + conn->data_done_bytes;

	for (size_t i = 0; i < len_bytes; i++) {
		if (at[i] == echo_pattern_written(offset + i) ||
		    (at[i] == echo_pattern(offset + i) && !client->is_reading_back))
			continue;
		return client_fail(client, -EILSEQ, "verify: data is not what was written");
	}
	return 0;
}

static int answers_parse(struct client *client, struct client_conn *conn, const uint8_t *at,
			 size_t left)
{
	int res = 0;

	while (left > 0 && res == 0) {
		size_t len;

		if (conn->data_left_bytes > 0) {
			len = left < conn->data_left_bytes ? left : conn->data_left_bytes;
			if (client->options.wants_verify)
				res = data_verify(client, conn, at, len);
			conn->data_done_bytes += (uint32_t)len;
			conn->data_left_bytes -= (uint32_t)len;
			if (conn->data_left_bytes == 0)
				answer_done(client, conn);
		} else {
			size_t missing = sizeof(conn->response) - conn->header_bytes;

			len = left < missing ? left : missing;
			memcpy((uint8_t *)&conn->response + conn->header_bytes, at, len);
			conn->header_bytes += (uint32_t)len;
			if (conn->header_bytes == sizeof(conn->response))
				res = answer_begin(client, conn);
		}
		at += len;
		left -= len;
	}
	return res;
}

/* A server that exits with unread requests resets the connection. */
static int client_fail_io(struct client *client, int error)
{
	if (error == ECONNRESET || error == EPIPE)
		return client_fail(client, -ECONNRESET,
				   "the server closed the connection (is --size larger than its "
				   "--memory?)");
	return client_fail(client, -error, strerror(error));
}

int client_conn_turn(struct client *client, struct client_conn *conn)
{
	ssize_t len = recv(conn->fd, client->bulk, ECHO_BULK_BYTES, MSG_DONTWAIT);
	int res = 0;

	if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR))
		return client_fail_io(client, len == 0 ? ECONNRESET : errno);
	if (len > 0) {
		client->now_ns = clock_monotonic_ns();
		res = answers_parse(client, conn, client->bulk, (size_t)len);
	}
	if (res == 0 && conn->out.count > 0) {
		res = echo_gather_flush(&conn->out, conn->fd);
		if (res != 0)
			return client_fail_io(client, -res);
	}
	return res;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request of an NBD client in libweft: its buffer, the command it becomes, and the reply. Main
 * thread, where libweft's callbacks run too.
 *
 * Trim becomes Dataset Management with Deallocate. Write Zeroes stays Write Zeroes; without NO_HOLE
 * the controller may deallocate. Trim with FUA is followed by a Flush, because Dataset Management
 * has no FUA (NVM Command Set 1.1, 3.3.3). Block Status becomes Get LBA Status if the controller
 * supports it; otherwise everything is reported as data.
 */
#include "attach/nbd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096

static bool asked_has_data(const struct nbd_request *asked)
{
	return asked->command == NBD_CMD_READ || asked->command == NBD_CMD_WRITE;
}

/* The blocks that the request touches; a read may touch more bytes than it asks for. */
static void asked_range(const struct nbd_request *asked, uint32_t block_bytes, uint64_t *ret_block,
			uint32_t *ret_count)
{
	uint64_t end = asked->offset + asked->length;

	*ret_block = asked->offset / block_bytes;
	*ret_count = (uint32_t)((end + block_bytes - 1) / block_bytes - *ret_block);
}

size_t nbd_asked_bytes(const struct nbd_request *asked, const struct nbd_export *export)
{
	uint64_t block;
	uint32_t count;

	if (asked->command == NBD_CMD_BLOCK_STATUS)
		return NBD_STATUS_BYTES;
	if (!asked_has_data(asked))
		return 0;
	asked_range(asked, export->block_bytes, &block, &count);
	return (size_t)count * export->block_bytes;
}

int nbd_slot_hold(struct nbd_slot *slot)
{
	size_t bytes = nbd_asked_bytes(&slot->asked, &slot->client->export);

	if (bytes > slot->buf_bytes) {
		size_t wanted = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;

		free(slot->buf);
		slot->buf = aligned_alloc(PAGE_BYTES, wanted);
		slot->buf_bytes = slot->buf != NULL ? wanted : 0;
		if (slot->buf == NULL)
			return -ENOMEM;
	}
	slot->held_bytes = bytes;
	slot->client->held_bytes += bytes;
	return 0;
}

void nbd_slot_release(struct nbd_slot *slot)
{
	struct nbd_client *client = slot->client;

	client->held_bytes -= slot->held_bytes;
	slot->held_bytes = 0;
	slot->tells_loss = false;
	if (slot->buf_bytes > NBD_SLOT_KEPT) {
		free(slot->buf);
		slot->buf = NULL;
		slot->buf_bytes = 0;
	}
	list_push_back(&client->free_slots, &slot->node);
}

void nbd_slot_drop(struct nbd_slot *slot)
{
	if (slot->tells_loss)
		weft_ns_repeat_loss(slot->client->ns);
	nbd_slot_release(slot);
}

static bool is_zero(const uint8_t *bytes, size_t len_bytes)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, len_bytes - 1) == 0;
}

/* Encodes the header and locates the data that follows it; an all-zero read in a structured reply
 * has no data. */
static void read_encode(struct nbd_slot *slot)
{
	const struct nbd_request *asked = &slot->asked;
	const struct nbd_client *client = slot->client;

	slot->reply_offset = asked->offset % client->export.block_bytes;
	slot->reply_bytes = asked->length;
	if (!client->handshake.terms.is_structured) {
		nbd_reply_encode(slot->header, asked->cookie, NBD_OK);
		slot->header_bytes = NBD_REPLY_BYTES;
	} else if (is_zero(slot->buf + slot->reply_offset, asked->length)) {
		slot->reply_bytes = 0;
		slot->header_bytes = nbd_chunk_hole(slot->header, asked);
	} else {
		slot->header_bytes = nbd_chunk_data(slot->header, asked);
	}
}

/* list: the controller's list, in the slot's buffer; or NULL. */
static void status_encode(struct nbd_slot *slot, const uint8_t *list)
{
	unsigned count = nbd_status_fill(&slot->asked, slot->client->export.block_bytes, list,
					 NBD_STATUS_LIST, slot->buf + NBD_STATUS_LIST);

	slot->reply_offset = NBD_STATUS_LIST;
	slot->reply_bytes = count * NBD_EXTENT_BYTES;
	slot->header_bytes = nbd_chunk_status(slot->header, slot->asked.cookie, count);
}

static void error_encode(struct nbd_slot *slot, enum nbd_error error)
{
	uint16_t command = slot->asked.command;

	slot->reply_bytes = 0;
	slot->header_bytes = NBD_REPLY_BYTES;
	/* With structured replies, these two commands require an error chunk. */
	if (slot->client->handshake.terms.is_structured &&
	    (command == NBD_CMD_READ || command == NBD_CMD_BLOCK_STATUS))
		slot->header_bytes = nbd_chunk_error(slot->header, slot->asked.cookie, error);
	else
		nbd_reply_encode(slot->header, slot->asked.cookie, error);
}

void nbd_slot_answer(struct nbd_slot *slot, enum nbd_error error)
{
	struct nbd_client *client = slot->client;

	if (client->is_broken) {
		nbd_slot_drop(slot);
		return;
	}
	slot->sent_bytes = 0;
	if (error != NBD_OK ||
	    (slot->asked.command != NBD_CMD_READ && slot->asked.command != NBD_CMD_BLOCK_STATUS))
		error_encode(slot, error);
	else if (slot->asked.command == NBD_CMD_READ)
		read_encode(slot);
	else
		status_encode(slot, slot->request.op == WEFT_LBA_STATUS ? slot->buf : NULL);
	list_push_back(&client->replies, &slot->node);
}

/* After -ESTALE the server checks the namespace and disconnects its clients. */
static void slot_end(struct nbd_slot *slot, int res)
{
	if (res == -ESTALE)
		slot->client->options->attached->is_stale = true;
	slot->tells_loss = res == -EIO && slot->request.op == WEFT_FLUSH;
	nbd_slot_answer(slot, nbd_error_from_errno(res));
}

static void slot_send(struct nbd_slot *slot)
{
	struct nbd_client *client = slot->client;
	int res = weft_submit(client->ns, &slot->request);

	if (res == 0)
		client->in_flight++;
	else
		slot_end(slot, res);
}

static void slot_done(struct weft_request *request)
{
	struct nbd_slot *slot = request->arg;

	slot->client->in_flight--;
	if (request->result == -EOPNOTSUPP && request->op == WEFT_LBA_STATUS) {
		slot->request.op = WEFT_READ; /* marks that the buffer holds no list */
		nbd_slot_answer(slot, NBD_OK);
		return;
	}
	if (request->result == 0 && request->op == WEFT_DEALLOCATE &&
	    (slot->asked.flags & NBD_CMD_FLAG_FUA)) {
		request->op = WEFT_FLUSH;
		request->block_count = 0;
		slot_send(slot);
		return;
	}
	slot_end(slot, request->result);
}

void nbd_slot_submit(struct nbd_slot *slot)
{
	const struct nbd_request *asked = &slot->asked;
	struct weft_request *request = &slot->request;

	memset(request, 0, sizeof(*request));
	request->done = slot_done;
	request->arg = slot;
	if (asked->command != NBD_CMD_FLUSH)
		asked_range(asked, slot->client->export.block_bytes, &request->block,
			    &request->block_count);
	if (asked->command == NBD_CMD_BLOCK_STATUS &&
	    !slot->client->options->attached->handle.info.reports_allocated) {
		nbd_slot_answer(slot, NBD_OK);
		return;
	}
	if (asked_has_data(asked) || asked->command == NBD_CMD_BLOCK_STATUS) {
		slot->iov = (struct iovec){.iov_base = slot->buf,
					   .iov_len = asked_has_data(asked) ? slot->held_bytes
									    : NBD_STATUS_LIST};
		request->iov = &slot->iov;
		request->iov_count = 1;
	}
	switch (asked->command) {
	case NBD_CMD_READ:
		request->op = WEFT_READ;
		break;
	case NBD_CMD_BLOCK_STATUS:
		request->op = WEFT_LBA_STATUS;
		break;
	case NBD_CMD_WRITE:
		request->op = WEFT_WRITE;
		request->flags = asked->flags & NBD_CMD_FLAG_FUA ? WEFT_FUA : 0;
		break;
	case NBD_CMD_TRIM:
		request->op = WEFT_DEALLOCATE;
		break;
	case NBD_CMD_WRITE_ZEROES:
		request->op = WEFT_WRITE_ZEROES;
		request->flags = asked->flags & NBD_CMD_FLAG_FUA ? WEFT_FUA : 0;
		request->flags |= asked->flags & NBD_CMD_FLAG_NO_HOLE ? 0 : WEFT_DEALLOCATE_OK;
		break;
	default:
		request->op = WEFT_FLUSH;
		break;
	}
	slot_send(slot);
}

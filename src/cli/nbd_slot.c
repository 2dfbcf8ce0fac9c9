/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request of an NBD client on its way through libweft: the buffer, the command that it becomes,
 * and the reply. Main thread, where libweft's callbacks run too.
 *
 * Trim becomes Dataset Management with Deallocate, Write Zeroes stays itself; without NO_HOLE the
 * controller may deallocate. Trim with FUA is followed by a Flush, since Dataset Management has no
 * FUA (NVM Command Set 1.1, 3.3.3).
 */
#include "cli/nbd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096

static bool asked_has_data(const struct nbd_request *asked)
{
	return asked->command == NBD_CMD_READ || asked->command == NBD_CMD_WRITE;
}

/* Blocks that the bytes touch: for what is read they may be more than was asked for. */
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
	if (slot->buf_bytes > NBD_SLOT_KEPT) {
		free(slot->buf);
		slot->buf = NULL;
		slot->buf_bytes = 0;
	}
	list_push_back(&client->free_slots, &slot->node);
}

void nbd_slot_answer(struct nbd_slot *slot, enum nbd_error error)
{
	struct nbd_client *client = slot->client;

	if (client->is_broken) {
		nbd_slot_release(slot);
		return;
	}
	nbd_reply_encode(slot->header, slot->asked.cookie, error);
	slot->sent_bytes = 0;
	slot->reply_bytes = 0;
	if (error == NBD_OK && slot->asked.command == NBD_CMD_READ) {
		slot->reply_offset = slot->asked.offset % client->export.block_bytes;
		slot->reply_bytes = slot->asked.length;
	}
	list_push_back(&client->replies, &slot->node);
}

/* After -ESTALE the server looks at the namespace and ends its clients. */
static void slot_end(struct nbd_slot *slot, int res)
{
	if (res == -ESTALE)
		slot->client->options->attached->is_stale = true;
	nbd_slot_answer(slot, nbd_error_from_errno(res));
}

static void slot_send(struct nbd_slot *slot)
{
	struct nbd_client *client = slot->client;
	int res = weft_submit(client->options->attached->handle.ns, &slot->request);

	if (res == 0)
		client->in_flight++;
	else
		slot_end(slot, res);
}

static void slot_done(struct weft_request *request)
{
	struct nbd_slot *slot = request->arg;

	slot->client->in_flight--;
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
	if (asked_has_data(asked)) {
		slot->iov = (struct iovec){.iov_base = slot->buf, .iov_len = slot->held_bytes};
		request->iov = &slot->iov;
		request->iov_count = 1;
	}
	switch (asked->command) {
	case NBD_CMD_READ:
		request->op = WEFT_READ;
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

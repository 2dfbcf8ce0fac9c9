/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of a ublk device. Every slot is fetched once. Each request of the block layer that a
 * slot gets becomes a libweft request, whose result is committed together with the next fetch. The
 * driver copies data to and from the slot's buffer. Main thread.
 */
#include "attach/ublk_device.h"

#include "base/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Command numbers of Linux 6.4 and newer; older headers lack them. */
#define IO_FETCH  _IOWR('u', UBLK_IO_FETCH_REQ, struct ublksrv_io_cmd)
#define IO_COMMIT _IOWR('u', UBLK_IO_COMMIT_AND_FETCH_REQ, struct ublksrv_io_cmd)

static void slot_command(struct ublk_slot *slot, uint32_t op, int result)
{
	struct ublk_device *device = slot->device;
	struct io_uring_sqe *sqe = ublk_ring_command(device, device->char_fd, op, slot->tag);
	struct ublksrv_io_cmd cmd = {
		.tag = slot->tag,
		.result = result,
		.addr = (uintptr_t)(device->bufs + (size_t)slot->tag * UBLK_IO_BYTES),
	};

	memcpy(sqe->cmd, &cmd, sizeof(cmd));
}

static uint64_t slot_bytes(const struct ublk_slot *slot)
{
	return (uint64_t)slot->device->descs[slot->tag].nr_sectors << UBLK_SECTOR_SHIFT;
}

static void slot_done(struct weft_request *request)
{
	struct ublk_slot *slot = request->arg;
	bool has_length = request->op != WEFT_FLUSH;

	if (request->result == -ESTALE)
		slot->device->options->attached->is_stale = true;
	slot_command(slot, IO_COMMIT,
		     request->result != 0 ? request->result
					  : (has_length ? (int)slot_bytes(slot) : 0));
}

/* 0, or -EOPNOTSUPP for operations that the device does not advertise. */
static int request_fill(const struct ublksrv_io_desc *desc, struct weft_request *request)
{
	uint32_t fua = desc->op_flags & UBLK_IO_F_FUA ? WEFT_FUA : 0;

	switch (ublksrv_get_op(desc)) {
	case UBLK_IO_OP_READ:
		request->op = WEFT_READ;
		return 0;
	case UBLK_IO_OP_WRITE:
		request->op = WEFT_WRITE;
		request->flags = fua;
		return 0;
	case UBLK_IO_OP_FLUSH:
		request->op = WEFT_FLUSH;
		return 0;
	case UBLK_IO_OP_DISCARD:
		request->op = WEFT_DEALLOCATE;
		return 0;
	case UBLK_IO_OP_WRITE_ZEROES:
		request->op = WEFT_WRITE_ZEROES;
		request->flags = fua;
		if (!(desc->op_flags & UBLK_IO_F_NOUNMAP))
			request->flags |= WEFT_DEALLOCATE_OK;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int slot_submit(struct ublk_slot *slot)
{
	struct ublk_device *device = slot->device;
	const struct ublksrv_io_desc *desc = &device->descs[slot->tag];
	struct weft_request *request = &slot->request;
	uint64_t bytes = slot_bytes(slot);
	int res;

	memset(request, 0, sizeof(*request));
	request->done = slot_done;
	request->arg = slot;
	res = request_fill(desc, request);
	if (res != 0)
		return res;
	if (request->op != WEFT_FLUSH) {
		request->block = (desc->start_sector << UBLK_SECTOR_SHIFT) / device->block_bytes;
		request->block_count = (uint32_t)(bytes / device->block_bytes);
	}
	if (request->op == WEFT_READ || request->op == WEFT_WRITE) {
		if (bytes > UBLK_IO_BYTES)
			return -EINVAL;
		slot->iov = (struct iovec){
			.iov_base = device->bufs + (size_t)slot->tag * UBLK_IO_BYTES,
			.iov_len = (size_t)bytes,
		};
		request->iov = &slot->iov;
		request->iov_count = 1;
	}
	return weft_submit(device->options->attached->handle.ns, request);
}

void ublk_queue_event(struct ublk_device *device, uint64_t tag, int result)
{
	struct ublk_slot *slot = &device->slots[tag];
	int res;

	if (result != UBLK_IO_RES_OK) {
		device->active--;
		return;
	}
	res = slot_submit(slot);
	if (res == -ESTALE)
		device->options->attached->is_stale = true;
	if (res != 0)
		slot_command(slot, IO_COMMIT, res);
}

int ublk_queue_open(struct ublk_device *device)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = UBLK_DEPTH * sizeof(struct ublksrv_io_desc);
	void *descs;

	device->descs_bytes = (bytes + page - 1) / page * page;
	descs = mmap(NULL, device->descs_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE,
		     device->char_fd, UBLKSRV_CMD_BUF_OFFSET);
	if (descs == MAP_FAILED)
		return -errno;
	device->descs = descs;
	device->bufs = aligned_alloc(page, (size_t)UBLK_DEPTH * UBLK_IO_BYTES);
	device->slots = calloc(UBLK_DEPTH, sizeof(*device->slots));
	if (device->bufs == NULL || device->slots == NULL)
		return -ENOMEM;
	for (uint16_t tag = 0; tag < UBLK_DEPTH; tag++) {
		device->slots[tag].device = device;
		device->slots[tag].tag = tag;
		slot_command(&device->slots[tag], IO_FETCH, -1);
		device->active++;
	}
	return 0;
}

void ublk_queue_close(struct ublk_device *device)
{
	/* Casts away const; the mapping is only read otherwise. */
	if (device->descs != NULL)
		munmap((void *)(uintptr_t)device->descs, device->descs_bytes);
	free(device->bufs);
	free(device->slots);
	device->descs = NULL;
	device->bufs = NULL;
	device->slots = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the ublk device share. The interface is the kernel's Documentation/block/ublk:
 * commands travel in io_uring entries of 128 bytes, control commands to /dev/ublk-control, those of
 * the queue to /dev/ublkcN. Whoever has fetched first must fetch for ever, so one thread does all.
 */
#ifndef WEFT_ATTACH_UBLK_DEVICE_H
#define WEFT_ATTACH_UBLK_DEVICE_H

#include "attach/ublk.h"

#include <liburing.h>
#include <linux/ublk_cmd.h>

#define UBLK_DEPTH        64
#define UBLK_IO_BYTES     (512u << 10) /* the longest read or write */
#define UBLK_SECTOR_SHIFT 9
#define UBLK_RING_ENTRIES 128 /* of 128 bytes; the queue's and a few more */

/* What an entry of the ring was for; else the slot of the queue. */
enum ublk_user_data {
	UBLK_DATA_CONTROL = UBLK_DEPTH,
	UBLK_DATA_WEFT,
	UBLK_DATA_SIGNAL,
	UBLK_DATA_EVENT, /* of the subsystem */
};

struct ublk_device;

/* One request of the block layer. */
struct ublk_slot {
	struct weft_request request;
	struct iovec iov;
	struct ublk_device *device;
	uint16_t tag;
};

struct ublk_device {
	const struct ublk_options *options;
	struct io_uring ring;
	int control_fd;
	int char_fd;
	int signal_fd;
	struct ublksrv_ctrl_dev_info info;
	uint32_t block_bytes;
	uint64_t size_bytes;
	/* The driver's descriptions of requests, by tag; it writes, we read. */
	const struct ublksrv_io_desc *descs;
	size_t descs_bytes;
	uint8_t *bufs;
	struct ublk_slot *slots;
	unsigned active; /* slots that the driver has or has given us, until it takes them back */
	bool is_control_done;
	int control_result;
	bool is_stopping; /* a signal has come, or the namespace is another than was described */
	bool has_failed;  /* the latter */
};

/* The next entry of the ring, for a command on fd. */
struct io_uring_sqe *ublk_ring_command(struct ublk_device *device, int fd, uint32_t op,
				       uint64_t user_data);
/* One round: submits, waits for something, and sees to it. 0 or -errno. */
int ublk_device_turn(struct ublk_device *device);

/* Maps the descriptions, allocates and fetches. 0 or -errno. */
int ublk_queue_open(struct ublk_device *device);
/* After the last slot was taken back. */
void ublk_queue_close(struct ublk_device *device);
/* The driver has a request for this slot, or takes it back. */
void ublk_queue_event(struct ublk_device *device, uint64_t tag, int result);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the ublk device share. The interface is in the kernel's
 * Documentation/block/ublk: commands are io_uring entries of 128 bytes, control commands to
 * /dev/ublk-control and queue commands to /dev/ublkcN. The thread that fetches first must keep
 * fetching, so one thread does everything.
 */
#ifndef WEFT_ATTACH_UBLK_DEVICE_H
#define WEFT_ATTACH_UBLK_DEVICE_H

#include "attach/ublk.h"

#include <liburing.h>
#include <linux/ublk_cmd.h>

#define UBLK_DEPTH        64
#define UBLK_IO_BYTES     (512u << 10) /* the longest read or write */
#define UBLK_SECTOR_SHIFT 9
#define UBLK_RING_ENTRIES 128 /* entries of 128 bytes: the queue's and a few more */

/* user_data of an entry of the ring; smaller values are tags of slots. */
enum ublk_user_data {
	UBLK_DATA_CONTROL = UBLK_DEPTH,
	UBLK_DATA_WEFT,
	UBLK_DATA_SIGNAL,
	UBLK_DATA_EVENT, /* eventfd of the subsystem */
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
	/* The driver's descriptions of requests, by tag. The driver writes, this process only
	 * reads. */
	const struct ublksrv_io_desc *descs;
	size_t descs_bytes;
	uint8_t *bufs;
	struct ublk_slot *slots;
	unsigned active; /* slots fetched and not yet taken back by the driver */
	bool is_control_done;
	int control_result;
	bool is_stopping; /* a signal arrived, or the namespace has changed */
	bool has_failed;  /* stopping because the namespace has changed */
};

/* Gets the next entry of the ring for a command on `fd`. */
struct io_uring_sqe *ublk_ring_command(struct ublk_device *device, int fd, uint32_t op,
				       uint64_t user_data);
/* One round: submits, waits for completions and handles them. 0 or -errno. */
int ublk_device_turn(struct ublk_device *device);

/* Maps the descriptions, allocates slots and buffers, and fetches. 0 or -errno. */
int ublk_queue_open(struct ublk_device *device);
/* Call after the driver has taken back the last slot. */
void ublk_queue_close(struct ublk_device *device);
/* A completion for slot `tag`: the driver has a request, or takes the slot back. */
void ublk_queue_event(struct ublk_device *device, uint64_t tag, int result);

#endif

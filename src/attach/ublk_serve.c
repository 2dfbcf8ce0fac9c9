/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a ublk device: adds, describes, starts, stops and deletes it by control commands on its
 * ring, and serves the queue, libweft and signals meanwhile. Main thread. The kernel runs control
 * commands on its own threads, so the loop also serves the reads by which a start looks for
 * partitions, and the writes that a stop still causes.
 */
#include "attach/ublk_device.h"

#include "base/check.h"
#include "base/text.h"
#include "base/tool_error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_PATH "/dev/ublk-control"
#define CONTROL(n)   _IOWR('u', n, struct ublksrv_ctrl_cmd)
/* Flag in struct ublksrv_ctrl_dev_info: command numbers are encoded as above. Linux 6.4. */
#define FLAG_IOCTL_ENCODE (1ull << 6)
#define ERASE_BYTES       (1ull << 30) /* longest discard or write of zeroes */
#define PHYSICAL_SHIFT    12
#define AGAIN_PAUSE_NS    1000000
#define IO_SHIFT          19 /* log2 of UBLK_IO_BYTES */

int ublk_check(const char *command)
{
	int res = access(CONTROL_PATH, R_OK | W_OK) == 0 ? 0 : -errno;

	if (res == 0)
		return 0;
	if (res == -ENOENT)
		tool_error(command,
			   "this kernel has no ublk (%s is missing): `modprobe ublk_drv` on Linux "
			   "6.4 or newer, or use --nbd SOCKET",
			   CONTROL_PATH);
	else
		tool_error(command, "%s: %s; ublk needs root, --nbd SOCKET does not", CONTROL_PATH,
			   strerror(-res));
	return res;
}

/* ---- the ring ------------------------------------------------------------------------------- */

static struct io_uring_sqe *ring_entry(struct ublk_device *device, uint64_t user_data)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&device->ring);

	if (sqe == NULL) {
		io_uring_submit(&device->ring);
		sqe = io_uring_get_sqe(&device->ring);
	}
	/* The ring has more entries than commands that can be in flight. */
	CHECK(sqe != NULL);
	memset(sqe, 0, 2 * sizeof(*sqe));
	sqe->user_data = user_data;
	return sqe;
}

struct io_uring_sqe *ublk_ring_command(struct ublk_device *device, int fd, uint32_t op,
				       uint64_t user_data)
{
	struct io_uring_sqe *sqe = ring_entry(device, user_data);

	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->cmd_op = op;
	return sqe;
}

static void ring_poll(struct ublk_device *device, int fd, uint64_t user_data)
{
	struct io_uring_sqe *sqe = ring_entry(device, user_data);

	sqe->opcode = IORING_OP_POLL_ADD;
	sqe->fd = fd;
	sqe->poll32_events = POLLIN;
}

static void signal_take(struct ublk_device *device)
{
	struct signalfd_siginfo info;

	ring_poll(device, device->signal_fd, UBLK_DATA_SIGNAL);
	if (read(device->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (device->is_stopping) {
		tool_error(device->options->command, "second signal: ending without cleanup");
		_exit(EXIT_FAILURE);
	}
	device->is_stopping = true;
}

static void ring_event(struct ublk_device *device, const struct io_uring_cqe *cqe)
{
	switch (cqe->user_data) {
	case UBLK_DATA_CONTROL:
		device->is_control_done = true;
		device->control_result = cqe->res;
		break;
	case UBLK_DATA_WEFT:
		weft_poll(device->options->weft, 0, 0);
		ring_poll(device, weft_poll_fd(device->options->weft), UBLK_DATA_WEFT);
		break;
	case UBLK_DATA_SIGNAL:
		signal_take(device);
		break;
	case UBLK_DATA_EVENT:
		/* device_look handles and drains the event after all completions of this turn. */
		ring_poll(device, device->options->attached->event_fd, UBLK_DATA_EVENT);
		break;
	default:
		ublk_queue_event(device, cqe->user_data, cqe->res);
		break;
	}
}

/* The size and block size of a block device are fixed when it is described, so the device ends when
 * they change. Attaching again uses the new format. */
static void device_look(struct ublk_device *device)
{
	struct attach_ns *attached = device->options->attached;

	if (device->is_stopping || !attach_ns_must_look(attached) ||
	    attach_ns_look(attached) != ATTACH_CHANGED)
		return;
	tool_error(device->options->command,
		   "removing the block device; attach the namespace again");
	device->has_failed = true;
	device->is_stopping = true;
}

/* EBUSY: completions must be taken before more is submitted, which follows. EAGAIN: the kernel is
 * short of memory for now; unsubmitted entries stay in the ring. Neither may remove a mounted
 * disk. */
static bool wait_goes_on(int res)
{
	const struct timespec pause = {.tv_nsec = AGAIN_PAUSE_NS};

	if (res == -EAGAIN)
		nanosleep(&pause, NULL);
	return res == -EINTR || res == -EBUSY || res == -EAGAIN;
}

int ublk_device_turn(struct ublk_device *device)
{
	struct io_uring_cqe *cqe;
	int res = io_uring_submit_and_wait(&device->ring, 1);

	if (res < 0 && !wait_goes_on(res))
		return res;
	while (io_uring_peek_cqe(&device->ring, &cqe) == 0) {
		struct io_uring_cqe event = *cqe;

		/* Before the event is handled, because commands it submits may complete at once. */
		io_uring_cqe_seen(&device->ring, cqe);
		ring_event(device, &event);
	}
	device_look(device);
	return 0;
}

/* Runs a control command and everything else until the command completes. 0 or -errno. */
static int device_control(struct ublk_device *device, uint32_t op, struct ublksrv_ctrl_cmd cmd)
{
	struct io_uring_sqe *sqe =
		ublk_ring_command(device, device->control_fd, op, UBLK_DATA_CONTROL);
	int res = 0;

	cmd.dev_id = device->info.dev_id;
	cmd.queue_id = UINT16_MAX;
	memcpy(sqe->cmd, &cmd, sizeof(cmd));
	device->is_control_done = false;
	while (res == 0 && !device->is_control_done)
		res = ublk_device_turn(device);
	return res != 0 ? res : device->control_result;
}

/* ---- the device ----------------------------------------------------------------------------- */

static int device_add(struct ublk_device *device)
{
	device->info = (struct ublksrv_ctrl_dev_info){
		.nr_hw_queues = 1,
		.queue_depth = UBLK_DEPTH,
		.max_io_buf_bytes = UBLK_IO_BYTES,
		.dev_id = (uint32_t)device->options->id,
		.ublksrv_pid = getpid(),
		.flags = FLAG_IOCTL_ENCODE,
	};
	return device_control(device, CONTROL(UBLK_CMD_ADD_DEV),
			      (struct ublksrv_ctrl_cmd){
				      .addr = (uintptr_t)&device->info,
				      .len = sizeof(device->info),
			      });
}

static int device_describe(struct ublk_device *device)
{
	uint8_t shift = (uint8_t)__builtin_ctz(device->block_bytes);
	struct ublk_params params = {
		.len = sizeof(params),
		.types = UBLK_PARAM_TYPE_BASIC | UBLK_PARAM_TYPE_DISCARD,
		.basic =
			{
				.attrs = UBLK_ATTR_VOLATILE_CACHE | UBLK_ATTR_FUA,
				.logical_bs_shift = shift,
				.physical_bs_shift =
					shift > PHYSICAL_SHIFT ? shift : PHYSICAL_SHIFT,
				.io_opt_shift = IO_SHIFT,
				.io_min_shift = shift > PHYSICAL_SHIFT ? shift : PHYSICAL_SHIFT,
				.max_sectors = UBLK_IO_BYTES >> UBLK_SECTOR_SHIFT,
				.dev_sectors = device->size_bytes >> UBLK_SECTOR_SHIFT,
			},
		.discard =
			{
				.discard_granularity = device->block_bytes,
				.max_discard_sectors = ERASE_BYTES >> UBLK_SECTOR_SHIFT,
				.max_write_zeroes_sectors = ERASE_BYTES >> UBLK_SECTOR_SHIFT,
				.max_discard_segments = 1,
			},
	};

	if (device->options->is_read_only)
		params.basic.attrs |= UBLK_ATTR_READ_ONLY;
	return device_control(
		device, CONTROL(UBLK_CMD_SET_PARAMS),
		(struct ublksrv_ctrl_cmd){.addr = (uintptr_t)&params, .len = sizeof(params)});
}

static int device_start(struct ublk_device *device)
{
	char path[32];
	int res;

	snprintf(path, sizeof(path), "/dev/ublkc%" PRIu32, device->info.dev_id);
	device->char_fd = open(path, O_RDWR | O_CLOEXEC);
	if (device->char_fd < 0)
		return -errno;
	res = ublk_queue_open(device);
	if (res != 0)
		return res;
	ring_poll(device, weft_poll_fd(device->options->weft), UBLK_DATA_WEFT);
	ring_poll(device, device->signal_fd, UBLK_DATA_SIGNAL);
	ring_poll(device, device->options->attached->event_fd, UBLK_DATA_EVENT);
	return device_control(device, CONTROL(UBLK_CMD_START_DEV),
			      (struct ublksrv_ctrl_cmd){.data = {(uint64_t)getpid()}});
}

/* Removes the disk; the kernel first writes back dirty data of a file system on it. */
static int device_stop(struct ublk_device *device)
{
	int res = device_control(device, CONTROL(UBLK_CMD_STOP_DEV), (struct ublksrv_ctrl_cmd){0});

	while (res == 0 && device->active > 0)
		res = ublk_device_turn(device);
	return res;
}

static void device_delete(struct ublk_device *device)
{
	/* The driver waits until no process has its character device open or mapped. */
	ublk_queue_close(device);
	if (device->char_fd >= 0)
		close(device->char_fd);
	device->char_fd = -1;
	device_control(device, CONTROL(UBLK_CMD_DEL_DEV), (struct ublksrv_ctrl_cmd){0});
}

static int device_fail(const struct ublk_device *device, const char *what, int res)
{
	const char *hint = "";

	if (res == -EEXIST)
		hint = "; the number is in use: choose another, or use --ublk without a number";
	else if (res == -EPERM || res == -EACCES)
		hint = "; ublk needs root";
	else if (res == -EOPNOTSUPP)
		hint = "; ublk needs Linux 6.4 or newer";
	tool_error(device->options->command, "cannot %s the ublk device: %s%s", what,
		   strerror(-res), hint);
	return -1;
}

/* Describes, starts, serves and stops the device. 0, or -1 after a message. */
static int device_run(struct ublk_device *device)
{
	char size[32];
	int res = device_describe(device);

	if (res != 0)
		return device_fail(device, "describe", res);
	res = device_start(device);
	if (res != 0) {
		device_fail(device, "start", res);
		if (device->active > 0)
			device_stop(device);
		return -1;
	}
	printf("%s: %s, blocks of %" PRIu32 " bytes%s\nBlock device: /dev/ublkb%" PRIu32 "\n",
	       device->options->description,
	       text_format_size(device->size_bytes, size, sizeof(size)), device->block_bytes,
	       device->options->is_read_only ? ", read-only" : "", device->info.dev_id);
	fflush(stdout);
	while (res == 0 && !device->is_stopping)
		res = ublk_device_turn(device);
	if (res == 0)
		res = device_stop(device);
	if (res != 0)
		return device_fail(device, "stop", res);
	return device->has_failed ? -1 : 0;
}

static int device_open(struct ublk_device *device)
{
	const struct weft_ns_info *info = &device->options->attached->handle.info;
	struct io_uring_params params = {.flags = IORING_SETUP_SQE128};
	sigset_t set;

	device->block_bytes = info->block_bytes;
	device->size_bytes = info->block_count * info->block_bytes;
	device->control_fd = open(CONTROL_PATH, O_RDWR | O_CLOEXEC);
	if (device->control_fd < 0)
		return -errno;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	device->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (device->signal_fd < 0)
		return -errno;
	return io_uring_queue_init_params(UBLK_RING_ENTRIES, &device->ring, &params);
}

int ublk_serve(const struct ublk_options *options)
{
	struct ublk_device device = {
		.options = options, .control_fd = -1, .char_fd = -1, .signal_fd = -1};
	int result = -1;
	int res = device_open(&device);

	if (res != 0) {
		device_fail(&device, "set up", res);
	} else {
		res = device_add(&device);
		if (res != 0) {
			device_fail(&device, "add", res);
		} else {
			result = device_run(&device);
			device_delete(&device);
		}
		io_uring_queue_exit(&device.ring);
	}
	if (device.signal_fd >= 0)
		close(device.signal_fd);
	if (device.control_fd >= 0)
		close(device.control_fd);
	return result;
}

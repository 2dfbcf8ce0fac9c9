/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft attach --ublk` over a driver that the test plays: from the control commands over one read
 * to the end by SIGTERM. Temporary errors (EAGAIN, EBUSY, EINTR) are injected in every turn and
 * must not end the disk. Other errors must end it and are reported.
 *
 * liburing's submit is wrapped (-Wl,--wrap). The ring is real: each command to the driver becomes a
 * NOP (which succeeds at once), a poll of a pipe (the driver keeps it until the device stops), or a
 * read that fails with the wanted error. libweft and the namespace are fakes too.
 */
#include "attach/ublk_device.h"
#include "base/tool_error.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEV_ID     7
#define BLOCKS     2048
#define TURNS_MAX  200
#define IN_A_ROW   3
#define NR_OF(op)  ((op)&0xffu) /* the number in what _IOWR makes */
#define SECTORS    8
#define START      16
#define TEXT_BYTES 256

int __real_io_uring_submit_and_wait(struct io_uring *ring, unsigned wait_nr);
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned wait_nr);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);

/* The driver, and what it recorded. */
static struct {
	int queue_fd;  /* what /dev/ublkcN maps */
	int stop[2];   /* readable once the device was stopped */
	unsigned turn; /* number of the current call of submit */
	unsigned fail_turn;
	unsigned fail_count; /* number of failing turns from fail_turn on */
	int fail_error;
	uint32_t refused;  /* control command that fails, or 0 */
	uint64_t controls; /* by number: control commands received */
	int committed;     /* result of the read */
} driver;

static struct weft_request *under_way;
static int weft_fd;
static bool has_changed; /* the namespace was replaced */
static char said[TEXT_BYTES];
static char printed[TEXT_BYTES];

/* ---- other functions that ublk_serve.c calls ------------------------------------------------- */

void tool_error(const char *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(said, sizeof(said), format, args);
	va_end(args);
}

int weft_poll_fd(struct weft *weft)
{
	return weft_fd;
}

int weft_poll(struct weft *weft, unsigned min, int timeout_ms)
{
	struct weft_request *request = under_way;
	uint64_t count;

	EXPECT_EQ(sizeof(count), read(weft_fd, &count, sizeof(count)));
	under_way = NULL;
	if (request == NULL)
		return 0;
	request->result = 0;
	request->done(request);
	return 1;
}

int weft_submit(struct weft_ns *ns, struct weft_request *request)
{
	EXPECT_EQ(WEFT_READ, request->op);
	EXPECT_EQ(START, request->block);
	EXPECT_EQ(SECTORS, request->block_count);
	under_way = request;
	return eventfd_write(weft_fd, 1) == 0 ? 0 : -errno;
}

bool attach_ns_must_look(const struct attach_ns *attached)
{
	return has_changed;
}

enum attach_news attach_ns_look(struct attach_ns *attached)
{
	return ATTACH_CHANGED;
}

/* ---- the driver ----------------------------------------------------------------------------- */

int __wrap_open(const char *path, int flags, ...)
{
	if (strcmp(path, "/dev/ublk-control") == 0)
		path = "/dev/null";
	if (strcmp(path, "/dev/ublkc7") == 0)
		return dup(driver.queue_fd);
	return openat(AT_FDCWD, path, flags);
}

/* open is open64 where off_t has 64 bits. */
int __wrap_open64(const char *path, int flags, ...)
{
	return __wrap_open(path, flags);
}

/* The entry succeeds at once. */
static void entry_succeed(struct io_uring_sqe *sqe)
{
	uint64_t user_data = sqe->user_data;

	memset(sqe, 0, 2 * sizeof(*sqe));
	sqe->opcode = IORING_OP_NOP;
	sqe->user_data = user_data;
}

/* The entry ends with -EBADF: its descriptor does not exist. */
static void entry_fail(struct io_uring_sqe *sqe)
{
	entry_succeed(sqe);
	sqe->opcode = IORING_OP_READ;
	sqe->fd = INT32_MAX;
}

/* The driver keeps the slot until the device stops. weft takes any result but 0 as an abort. */
static void entry_keep(struct io_uring_sqe *sqe)
{
	entry_succeed(sqe);
	sqe->opcode = IORING_OP_POLL_ADD;
	sqe->fd = driver.stop[0];
	sqe->poll32_events = POLLIN;
}

static void control_take(struct io_uring_sqe *sqe)
{
	uint32_t nr = NR_OF(sqe->cmd_op);
	struct ublksrv_ctrl_cmd cmd;

	memcpy(&cmd, sqe->cmd, sizeof(cmd));
	driver.controls |= 1ull << nr;
	if (nr == driver.refused) {
		entry_fail(sqe);
		return;
	}
	if (nr == UBLK_CMD_ADD_DEV)
		((struct ublksrv_ctrl_dev_info *)(uintptr_t)cmd.addr)->dev_id = DEV_ID;
	if (nr == UBLK_CMD_STOP_DEV)
		EXPECT_EQ(1, write(driver.stop[1], "x", 1));
	entry_succeed(sqe);
}

/* Slot 0 gets the read, the other slots nothing. After the read SIGTERM ends the device. */
static void slot_take(struct io_uring_sqe *sqe)
{
	struct ublksrv_io_cmd cmd;

	memcpy(&cmd, sqe->cmd, sizeof(cmd));
	if (NR_OF(sqe->cmd_op) == UBLK_IO_FETCH_REQ && cmd.tag == 0) {
		entry_succeed(sqe);
		return;
	}
	if (NR_OF(sqe->cmd_op) == UBLK_IO_COMMIT_AND_FETCH_REQ) {
		driver.committed = cmd.result;
		if (!has_changed)
			kill(getpid(), SIGTERM);
	}
	entry_keep(sqe);
}

int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned wait_nr)
{
	unsigned turn = driver.turn++;

	if (turn >= driver.fail_turn && turn < driver.fail_turn + driver.fail_count)
		return -driver.fail_error;
	if (turn >= TURNS_MAX) {
		printf("Bail out! the device does not end\n");
		exit(EXIT_FAILURE);
	}
	for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
		struct io_uring_sqe *sqe = &ring->sq.sqes[(i & (UBLK_RING_ENTRIES - 1)) * 2];

		if (sqe->opcode != IORING_OP_URING_CMD)
			continue;
		if (sqe->user_data == UBLK_DATA_CONTROL)
			control_take(sqe);
		else
			slot_take(sqe);
	}
	return __real_io_uring_submit_and_wait(ring, wait_nr);
}

/* ---- lives ---------------------------------------------------------------------------------- */

static int serve(void)
{
	struct attach_ns attached = {
		.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
		.handle.info = {.nsid = 1, .block_bytes = 512, .block_count = BLOCKS},
	};
	struct ublk_options options = {
		.command = "attach", .description = "fake", .id = -1, .attached = &attached};
	int shown = memfd_create("stdout", MFD_CLOEXEC), tap_out = dup(STDOUT_FILENO);
	int status;

	fflush(stdout);
	dup2(shown, STDOUT_FILENO);
	status = ublk_serve(&options);
	fflush(stdout);
	dup2(tap_out, STDOUT_FILENO);
	memset(printed, 0, sizeof(printed));
	EXPECT(pread(shown, printed, sizeof(printed) - 1, 0) >= 0);
	close(shown);
	close(tap_out);
	close(attached.event_fd);
	return status;
}

/* Drops a signal that was not read before the device ended: the next life must not get it. */
static void signal_drop(void)
{
	const struct timespec none = {0};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigtimedwait(&set, NULL, &none);
}

/* One life from add to delete, with failures by driver.fail_*, driver.refused. Exit status. */
static int live(void)
{
	struct ublksrv_io_desc desc = {
		.op_flags = UBLK_IO_OP_READ, .nr_sectors = SECTORS, .start_sector = START};
	int status;

	driver.turn = 0;
	driver.controls = 0;
	driver.committed = -1;
	driver.queue_fd = memfd_create("queue", MFD_CLOEXEC);
	weft_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	under_way = NULL;
	said[0] = '\0';
	EXPECT_EQ(0, pipe2(driver.stop, O_CLOEXEC));
	EXPECT_EQ(0, ftruncate(driver.queue_fd, UBLK_DEPTH * (off_t)sizeof(desc)));
	EXPECT_EQ(sizeof(desc), pwrite(driver.queue_fd, &desc, sizeof(desc), 0));
	status = serve();
	signal_drop();
	close(driver.queue_fd);
	close(driver.stop[0]);
	close(driver.stop[1]);
	close(weft_fd);
	return status;
}

static void expect_whole_life(int status)
{
	EXPECT_EQ(0, status);
	EXPECT_STR("", said);
	EXPECT_EQ(SECTORS << UBLK_SECTOR_SHIFT, driver.committed);
	EXPECT_STR("fake: 1 MiB, blocks of 512 bytes\nBlock device: /dev/ublkb7\n", printed);
	EXPECT_EQ(1ull << UBLK_CMD_ADD_DEV | 1ull << UBLK_CMD_SET_PARAMS |
			  1ull << UBLK_CMD_START_DEV | 1ull << UBLK_CMD_STOP_DEV |
			  1ull << UBLK_CMD_DEL_DEV,
		  driver.controls);
}

static void serves_a_read_and_ends_by_signal(void)
{
	driver.fail_count = 0;
	expect_whole_life(live());
}

/* Fails each turn of a life in turn: control commands, I/O and the end. */
static void each_turn_fails_with(int error)
{
	unsigned turn = 0;

	driver.fail_error = error;
	driver.fail_count = IN_A_ROW;
	do {
		driver.fail_turn = turn;
		expect_whole_life(live());
		if (tap_case_failed)
			printf("# with the failure at turn %u: \"%s\"\n", turn, said);
		turn++;
	} while (!tap_case_failed && driver.turn > turn);
	driver.fail_count = 0;
	/* Five control commands, with turns in between. */
	EXPECT_THAT(turn > 5, "more than five turns, not %u", turn);
}

static void eagain_does_not_end_the_disk(void)
{
	each_turn_fails_with(EAGAIN);
}

static void ebusy_does_not_end_the_disk(void)
{
	each_turn_fails_with(EBUSY);
}

static void eintr_does_not_end_the_disk(void)
{
	each_turn_fails_with(EINTR);
}

static void another_error_ends_it_and_is_reported(void)
{
	driver.fail_turn = 0;
	driver.fail_count = 1;
	driver.fail_error = EFAULT;
	EXPECT_EQ(-1, live());
	EXPECT_STR("cannot add the ublk device: Bad address", said);
	EXPECT_EQ(0, driver.controls);
	driver.fail_count = 0;
}

/* Not retried: the kernel's answer to a control command is final. */
static void a_refused_control_command_is_reported(void)
{
	static const struct {
		uint32_t nr;
		const char *text;
		bool is_deleted;
	} cases[] = {
		{UBLK_CMD_ADD_DEV, "cannot add the ublk device: Bad file descriptor", false},
		{UBLK_CMD_SET_PARAMS, "cannot describe the ublk device: Bad file descriptor", true},
		{UBLK_CMD_START_DEV, "cannot start the ublk device: Bad file descriptor", true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		driver.refused = cases[i].nr;
		EXPECT_EQ(-1, live());
		EXPECT_STR(cases[i].text, said);
		EXPECT_STR("", printed);
		EXPECT_EQ(cases[i].is_deleted, (driver.controls >> UBLK_CMD_DEL_DEV & 1) != 0);
	}
	driver.refused = 0;
}

static void another_block_size_ends_the_disk(void)
{
	has_changed = true;
	EXPECT_EQ(-1, live());
	EXPECT_STR("removing the block device; attach the namespace again", said);
	EXPECT(driver.controls >> UBLK_CMD_STOP_DEV & 1);
	EXPECT(driver.controls >> UBLK_CMD_DEL_DEV & 1);
	has_changed = false;
}

int main(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	TAP_RUN(serves_a_read_and_ends_by_signal);
	TAP_RUN(eagain_does_not_end_the_disk);
	TAP_RUN(ebusy_does_not_end_the_disk);
	TAP_RUN(eintr_does_not_end_the_disk);
	TAP_RUN(another_error_ends_it_and_is_reported);
	TAP_RUN(a_refused_control_command_is_reported);
	TAP_RUN(another_block_size_ends_the_disk);
	return tap_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests with a deadline that a submit left behind, because the kernel lacked a resource or took
 * only some. They are checked again before the next submit. The calls into liburing are wrapped
 * (-Wl,--wrap), so that they can fail on demand.
 */
#include "base/clock.h"
#include "reactor/reactor.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int __real_io_uring_submit(struct io_uring *ring);
int __real_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
					    unsigned wait_nr, struct __kernel_timespec *limit,
					    sigset_t *mask);
int __real_io_uring_submit_and_get_events(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
					    unsigned wait_nr, struct __kernel_timespec *limit,
					    sigset_t *mask);
int __wrap_io_uring_submit_and_get_events(struct io_uring *ring);

static struct reactor *r;
static struct reactor_op op;
static struct reactor_msg msg;
static struct reactor_timer timer;
static int fd;
static int op_res;
static bool is_failing;
static unsigned failed;

static int fail(void)
{
	failed++;
	return -EAGAIN;
}

int __wrap_io_uring_submit(struct io_uring *ring)
{
	return is_failing ? fail() : __real_io_uring_submit(ring);
}

int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
					    unsigned wait_nr, struct __kernel_timespec *limit,
					    sigset_t *mask)
{
	return is_failing
		       ? fail()
		       : __real_io_uring_submit_and_wait_timeout(ring, cqe, wait_nr, limit, mask);
}

int __wrap_io_uring_submit_and_get_events(struct io_uring *ring)
{
	return is_failing ? fail() : __real_io_uring_submit_and_get_events(ring);
}

static void on_done(struct reactor_op *done_op, int res)
{
	op_res = res;
	reactor_stop(r);
}

static void on_timer(struct reactor_timer *fired)
{
	is_failing = false;
}

static void start(struct reactor_msg *posted)
{
	static struct iovec out = {(void *)(uintptr_t) "new", 3};

	op.done = on_done;
	op.deadline_ns = reactor_clock_ns(r) + 20 * NS_PER_MS;
	is_failing = true;
	reactor_writev(r, &op, fd, &out, 1, 0, 0);
	reactor_timer_init(r, &timer, on_timer);
	reactor_timer_arm(&timer, reactor_clock_ns(r) + 60 * NS_PER_MS);
}

/* The deadline passes while every submit fails. Writes submitted afterwards are dropped. */
static void what_a_submit_left_behind_is_looked_at_again(void)
{
	struct reactor_config config = {.cpu = -1};
	char path[] = "/tmp/weft-late-XXXXXX";
	char bytes[4] = {0};

	fd = mkstemp(path);
	CHECK(fd >= 0);
	unlink(path);
	CHECK(pwrite(fd, "old", 3, 0) == 3);
	EXPECT_EQ(0, reactor_create(&config, &r));
	reactor_post(r, &msg, start);
	reactor_run(r);
	EXPECT(failed > 0);
	EXPECT_EQ(-ECANCELED, op_res);
	EXPECT_EQ(3, pread(fd, bytes, 3, 0));
	EXPECT(memcmp(bytes, "old", 3) == 0);
	reactor_destroy(r);
	close(fd);
}

int main(void)
{
	TAP_RUN(what_a_submit_left_behind_is_looked_at_again);
	return tap_end();
}

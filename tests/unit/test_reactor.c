/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The io_uring reactor without sockets: timers, messages, deferred functions, files, offload,
 * cancel, stalls, accounting of time, the group.
 *
 * Most cases run one reactor on the test's own thread: requests before reactor_run are queued, and
 * the last callback stops the reactor.
 */
#include "base/clock.h"
#include "reactor/reactor_group.h"
#include "reactor/uring_caps.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static struct reactor *r;

static void open_reactor(uint32_t spin_max_us)
{
	struct reactor_config config = {.index = 0, .cpu = -1, .spin_max_us = spin_max_us};

	CHECK(reactor_create(&config, &r) == 0);
	EXPECT(reactor_current() == NULL);
}

static void run_reactor(void)
{
	reactor_run(r);
	EXPECT(reactor_current() == NULL);
	reactor_destroy(r);
}

/* ---- timers --------------------------------------------------------------------------------- */

#define TIMERS 5

static struct reactor_timer timers[TIMERS];
static unsigned fired[TIMERS], fired_count;

static void on_timer(struct reactor_timer *timer)
{
	EXPECT(reactor_current() == r);
	EXPECT(reactor_now_ns(r) >= timer->deadline_ns);
	EXPECT(reactor_clock_ns(r) >= reactor_now_ns(r));
	fired[fired_count++] = (unsigned)(timer - timers);
	if (timer == &timers[0])
		reactor_timer_cancel(&timers[4]);
	if (timer == &timers[2])
		reactor_stop(r);
}

static void timers_fire_in_order(void)
{
	uint64_t now_ns;

	open_reactor(0);
	fired_count = 0;
	now_ns = reactor_now_ns(r);
	for (unsigned i = 0; i < TIMERS; i++)
		reactor_timer_init(r, &timers[i], on_timer);
	reactor_timer_arm(&timers[2], now_ns + 9 * NS_PER_MS);
	reactor_timer_arm(&timers[4], now_ns + 5 * NS_PER_MS); /* cancelled by 0 */
	reactor_timer_arm(&timers[1], now_ns + 6 * NS_PER_MS);
	reactor_timer_arm(&timers[0], now_ns + 3 * NS_PER_MS);
	reactor_timer_arm(&timers[3], now_ns);
	reactor_timer_arm(&timers[3], now_ns + 8 * NS_PER_MS); /* moved */
	run_reactor();
	EXPECT_EQ(4, fired_count);
	EXPECT(fired[0] == 0 && fired[1] == 1 && fired[2] == 3 && fired[3] == 2);
}

/* ---- deferred functions --------------------------------------------------------------------- */

static struct reactor_defer defers[3];
static unsigned defer_runs[3], defer_msgs;
static struct reactor_msg defer_msg;

static void on_defer(struct reactor_defer *defer)
{
	unsigned i = (unsigned)(defer - defers);

	if (++defer_runs[i] == 1 && i == 0) {
		reactor_defer(r, defer); /* next turn, after the message posted below */
		EXPECT_EQ(1, defer_msgs);
	} else if (i == 0) {
		EXPECT_EQ(2, defer_msgs);
		reactor_stop(r);
	}
}

static void on_defer_msg(struct reactor_msg *msg)
{
	EXPECT_EQ(defer_msgs, defer_runs[0]);
	if (++defer_msgs == 2)
		return;
	reactor_defer(r, &defers[0]);
	reactor_defer(r, &defers[0]);
	reactor_defer(r, &defers[1]);
	reactor_defer(r, &defers[2]);
	reactor_defer_cancel(&defers[2]);
	reactor_post(r, msg, on_defer_msg);
}

static void deferred_run_once_at_the_end_of_the_turn(void)
{
	open_reactor(0);
	memset(defer_runs, 0, sizeof(defer_runs));
	defer_msgs = 0;
	for (unsigned i = 0; i < 3; i++)
		reactor_defer_init(&defers[i], on_defer);
	reactor_post(r, &defer_msg, on_defer_msg);
	run_reactor();
	EXPECT(defer_runs[0] == 2 && defer_runs[1] == 1 && defer_runs[2] == 0);
}

/* ---- messages ------------------------------------------------------------------------------- */

#define BALLS  16
#define ROUNDS 100000

struct ball {
	struct reactor_msg msg;
	struct reactor *at;
	unsigned number;
};

static struct reactor_group *group;
static struct ball balls[BALLS];
static _Atomic unsigned throws, balls_left;
static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done_cond = PTHREAD_COND_INITIALIZER;
static bool is_done;

static void signal_done(void)
{
	pthread_mutex_lock(&done_lock);
	is_done = true;
	pthread_cond_signal(&done_cond);
	pthread_mutex_unlock(&done_lock);
}

static void wait_done(void)
{
	pthread_mutex_lock(&done_lock);
	while (!is_done)
		pthread_cond_wait(&done_cond, &done_lock);
	is_done = false;
	pthread_mutex_unlock(&done_lock);
}

static void on_ball(struct reactor_msg *msg)
{
	struct ball *ball = container_of(msg, struct ball, msg);

	CHECK(reactor_current() == ball->at);
	if (atomic_fetch_add(&throws, 1) >= ROUNDS) {
		if (atomic_fetch_sub(&balls_left, 1) == 1)
			signal_done();
		return;
	}
	ball->at = reactor_group_get(group, ball->number++ % 2);
	reactor_post(ball->at, msg, on_ball);
}

static void throw_balls(uint32_t spin_max_us)
{
	struct reactor_stats stats[2];
	struct reactor_group_config config = {.count = 2, .spin_max_us = spin_max_us};

	EXPECT_EQ(0, reactor_group_start(&config, &group));
	EXPECT_EQ(2, reactor_group_count(group));
	EXPECT_EQ(1, reactor_index(reactor_group_get(group, 1)));
	atomic_store(&throws, 0);
	atomic_store(&balls_left, BALLS);
	for (unsigned i = 0; i < BALLS; i++) {
		balls[i].number = i;
		balls[i].at = reactor_group_get(group, i % 2);
		reactor_post(balls[i].at, &balls[i].msg, on_ball);
	}
	wait_done();
	for (unsigned i = 0; i < 2; i++)
		reactor_get_stats(reactor_group_get(group, i), &stats[i]);
	EXPECT_EQ(ROUNDS + BALLS, stats[0].posts + stats[1].posts);
	reactor_group_stop(group);
}

static void messages_between_sleeping_reactors(void)
{
	throw_balls(0);
}

static void messages_between_spinning_reactors(void)
{
	throw_balls(20);
}

struct numbered {
	struct reactor_msg msg;
	unsigned number;
};

#define NUMBERED 1000

static struct numbered numbered[NUMBERED];
static unsigned next_number;

static void on_numbered(struct reactor_msg *msg)
{
	EXPECT_EQ(next_number, container_of(msg, struct numbered, msg)->number);
	next_number++;
}

static void messages_keep_order_and_beat_stop(void)
{
	EXPECT_EQ(0, reactor_group_start(&(struct reactor_group_config){.count = 1}, &group));
	next_number = 0;
	for (unsigned i = 0; i < NUMBERED; i++) {
		numbered[i].number = i;
		reactor_post(reactor_group_get(group, 0), &numbered[i].msg, on_numbered);
	}
	reactor_group_stop(group);
	EXPECT_EQ(NUMBERED, next_number);
}

static cpu_set_t reactor_cpus;

static void on_ask_cpus(struct reactor_msg *msg)
{
	EXPECT_EQ(0, sched_getaffinity(0, sizeof(reactor_cpus), &reactor_cpus));
	signal_done();
}

/* Returns the CPUs that a reactor of this group may run on. */
static cpu_set_t ask_cpus(const struct reactor_group_config *config)
{
	static struct reactor_msg ask;

	EXPECT_EQ(0, reactor_group_start(config, &group));
	reactor_post(reactor_group_get(group, 0), &ask, on_ask_cpus);
	wait_done();
	reactor_group_stop(group);
	return reactor_cpus;
}

static void reactors_are_pinned_when_told(void)
{
	struct reactor_group_config pinned = {.count = 1, .is_pinned = true};
	struct reactor_group_config unpinned = {.count = 1};
	cpu_set_t ours, theirs;

	EXPECT_EQ(0, sched_getaffinity(0, sizeof(ours), &ours));
	theirs = ask_cpus(&pinned);
	EXPECT_EQ(1, CPU_COUNT(&theirs));
	theirs = ask_cpus(&unpinned);
	EXPECT(CPU_EQUAL(&ours, &theirs));
}

/* ---- files ---------------------------------------------------------------------------------- */

static struct reactor_op file_op;
static int file_fd, file_step, file_results[8];
static char file_in[2][8];
static struct iovec file_iov[2];

static int open_temp(void)
{
	char path[] = "/tmp/weft-test-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	unlink(path);
	return fd;
}

static void on_file(struct reactor_op *op, int res)
{
	EXPECT(op->reactor == reactor_current());
	file_results[file_step++] = res;
	switch (file_step) {
	case 1:
		reactor_fdatasync(r, op, file_fd);
		break;
	case 2:
		file_iov[0] = (struct iovec){file_in[0], 4};
		file_iov[1] = (struct iovec){file_in[1], 8};
		reactor_readv(r, op, file_fd, file_iov, 2, 4096);
		break;
	case 3:
		file_iov[0] = (struct iovec){file_in[0], 5};
		reactor_readv(r, op, file_fd, file_iov, 1, 4098);
		break;
	case 4:
		reactor_fallocate(r, op, file_fd, 0, 0, 65536);
		break;
	case 5:
		file_iov[0] = (struct iovec){(void *)(uintptr_t) "ok", 2};
		reactor_writev(r, op, file_fd, file_iov, 1, 65536, 0);
		break;
	case 6:
		reactor_readv(r, op, -1, file_iov, 1, 0);
		break;
	default:
		reactor_stop(r);
	}
}

static void files_are_read_and_written(void)
{
	struct iovec out[2] = {{(void *)(uintptr_t) "abcd", 4}, {(void *)(uintptr_t) "efghij", 6}};

	open_reactor(0);
	file_fd = open_temp();
	file_step = 0;
	file_op.done = on_file;
	reactor_writev(r, &file_op, file_fd, out, 2, 4096, RWF_DSYNC);
	run_reactor();
	EXPECT_EQ(10, file_results[0]);
	EXPECT_EQ(0, file_results[1]);
	EXPECT_EQ(10, file_results[2]);
	EXPECT(memcmp(file_in[1], "efghij", 6) == 0);
	EXPECT_EQ(5, file_results[3]);
	EXPECT(memcmp(file_in[0], "cdefg", 5) == 0);
	EXPECT_EQ(0, file_results[4]);
	EXPECT_EQ(2, file_results[5]);
	EXPECT_EQ(-EBADF, file_results[6]);
	EXPECT_EQ(65538, lseek(file_fd, 0, SEEK_END));
	close(file_fd);
}

/* ---- deadlines ------------------------------------------------------------------------------ */

enum {
	DATED_WRITE,
	DATED_FALLOCATE,
	DATED_OFFLOAD,
	PATIENT_WRITE,
	UNDATED_WRITE,
	DATED_READ,
	DATED
};

static struct reactor_op dated_ops[DATED];
static int dated_results[DATED];
static unsigned dated_left;
static char dated_in[4];

static void on_dated(struct reactor_op *op, int res)
{
	dated_results[op - dated_ops] = res;
	if (--dated_left == 0)
		reactor_stop(r);
}

static int work_dated(struct reactor_op *op)
{
	return 1;
}

/* Starts all operations, then holds the turn beyond their deadline. */
static void dated_start(struct reactor_msg *msg)
{
	static struct iovec out = {(void *)(uintptr_t) "new", 3};
	static struct iovec in = {dated_in, 3};
	uint64_t soon_ns = reactor_clock_ns(r) + 20 * NS_PER_MS;

	for (unsigned i = 0; i < DATED; i++) {
		dated_ops[i].done = on_dated;
		dated_ops[i].deadline_ns = soon_ns;
	}
	dated_ops[PATIENT_WRITE].deadline_ns = soon_ns + 3600 * NS_PER_S;
	dated_ops[UNDATED_WRITE].deadline_ns = 0;
	reactor_writev(r, &dated_ops[DATED_WRITE], file_fd, &out, 1, 0, 0);
	reactor_fallocate(r, &dated_ops[DATED_FALLOCATE], file_fd, 0, 0, 8192);
	reactor_writev(r, &dated_ops[PATIENT_WRITE], file_fd, &out, 1, 16, 0);
	reactor_writev(r, &dated_ops[UNDATED_WRITE], file_fd, &out, 1, 32, 0);
	reactor_readv(r, &dated_ops[DATED_READ], file_fd, &in, 1, 0);
	while (reactor_clock_ns(r) <= soon_ns)
		continue;
	reactor_offload(r, &dated_ops[DATED_OFFLOAD], work_dated);
}

/* A process that was stopped in a turn: operations that the kernel has not got yet are dropped. */
static void what_is_too_late_is_not_written(void)
{
	char bytes[64] = {0};

	open_reactor(0);
	file_fd = open_temp();
	CHECK(pwrite(file_fd, "old", 3, 0) == 3);
	dated_left = DATED;
	reactor_post(r, &defer_msg, dated_start);
	run_reactor();
	EXPECT_EQ(-ECANCELED, dated_results[DATED_WRITE]);
	EXPECT_EQ(-ECANCELED, dated_results[DATED_FALLOCATE]);
	EXPECT_EQ(-ECANCELED, dated_results[DATED_OFFLOAD]);
	EXPECT_EQ(3, dated_results[PATIENT_WRITE]);
	EXPECT_EQ(3, dated_results[UNDATED_WRITE]);
	EXPECT_EQ(3, dated_results[DATED_READ]);
	EXPECT(memcmp(dated_in, "old", 3) == 0);
	EXPECT_EQ(35, pread(file_fd, bytes, sizeof(bytes), 0));
	EXPECT(memcmp(bytes, "old", 3) == 0);
	EXPECT(memcmp(bytes + 16, "new", 3) == 0 && memcmp(bytes + 32, "new", 3) == 0);
	close(file_fd);
}

/* More requests than submission and completion queue hold. */
#define MANY 20000

static struct reactor_op many_ops[MANY];
static unsigned many_done;

static void on_many(struct reactor_op *op, int res)
{
	EXPECT_EQ(0, res);
	if (++many_done == MANY)
		reactor_stop(r);
}

static void start_many(struct reactor_msg *msg)
{
	for (unsigned i = MANY / 2; i < MANY; i++)
		reactor_readv(r, &many_ops[i], file_fd, file_iov, 1, 0);
}

static void no_request_is_lost(void)
{
	open_reactor(0);
	file_fd = open_temp(); /* empty: every read ends with 0 */
	file_iov[0] = (struct iovec){file_in[0], 1};
	many_done = 0;
	for (unsigned i = 0; i < MANY; i++)
		many_ops[i].done = on_many;
	for (unsigned i = 0; i < MANY / 2; i++)
		reactor_readv(r, &many_ops[i], file_fd, file_iov, 1, 0);
	reactor_post(r, &defer_msg, start_many);
	run_reactor();
	EXPECT_EQ(MANY, many_done);
	close(file_fd);
}

/* ---- cancel and offload --------------------------------------------------------------------- */

static int pipe_fds[2];
static struct reactor_timer cancel_timer;
static int cancel_result;

static void on_cancel_timer(struct reactor_timer *timer)
{
	reactor_op_cancel(&file_op);
}

static void on_cancelled(struct reactor_op *op, int res)
{
	cancel_result = res;
	reactor_stop(r);
}

static void a_waiting_read_is_cancelled(void)
{
	open_reactor(0);
	EXPECT_EQ(0, pipe(pipe_fds));
	file_op.done = on_cancelled;
	file_iov[0] = (struct iovec){file_in[0], 1};
	reactor_readv(r, &file_op, pipe_fds[0], file_iov, 1, (uint64_t)-1);
	reactor_timer_init(r, &cancel_timer, on_cancel_timer);
	reactor_timer_arm(&cancel_timer, reactor_now_ns(r) + NS_PER_MS);
	run_reactor();
	/* A read that waits in a worker thread is interrupted instead. */
	EXPECT(cancel_result == -ECANCELED || cancel_result == -EINTR);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

/* As many operations as there are helper threads. */
#define OFFLOAD_HELD 8
#define OFFLOAD_OPS  (OFFLOAD_HELD + 2)

static struct reactor_op offload_ops[OFFLOAD_OPS];
static int offload_results[OFFLOAD_OPS];
static unsigned offload_left;
static unsigned offload_held;
static unsigned offload_held_then; /* held when the last one ended */

static int work_held(struct reactor_op *op)
{
	char byte;

	return (int)read(pipe_fds[0], &byte, 1);
}

static int work_index(struct reactor_op *op)
{
	return -(int)(op - offload_ops) - 100;
}

static void offload_release(void)
{
	while (offload_held > 0) {
		offload_held--;
		EXPECT_EQ(1, write(pipe_fds[1], "x", 1));
	}
}

static void on_offloaded(struct reactor_op *op, int res)
{
	EXPECT(reactor_current() == r);
	offload_results[op - offload_ops] = res;
	if (op == &offload_ops[OFFLOAD_OPS - 1]) {
		offload_held_then = offload_held;
		offload_release();
	}
	if (--offload_left == 0)
		reactor_stop(r);
}

static void offload_start(unsigned index, int (*work)(struct reactor_op *op))
{
	offload_ops[index].done = on_offloaded;
	offload_left++;
	reactor_offload(r, &offload_ops[index], work);
}

/* Holds all helpers but one. */
static void start_beside_held(struct reactor_msg *msg)
{
	for (offload_held = 0; offload_held < OFFLOAD_HELD - 1; offload_held++)
		offload_start(offload_held, work_held);
	offload_start(OFFLOAD_OPS - 1, work_index);
}

/* A long call (a discard of a large range) does not delay those behind it. */
static void offloaded_work_does_not_wait_for_long_calls(void)
{
	open_reactor(0);
	EXPECT_EQ(0, pipe(pipe_fds));
	reactor_post(r, &defer_msg, start_beside_held);
	run_reactor();
	EXPECT_EQ(OFFLOAD_HELD - 1, offload_held_then);
	EXPECT_EQ(-(OFFLOAD_OPS - 1) - 100, offload_results[OFFLOAD_OPS - 1]);
	for (unsigned i = 0; i < OFFLOAD_HELD - 1; i++)
		EXPECT_EQ(1, offload_results[i]);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

/* Holds all helpers, queues two more calls and cancels the second of these. */
static void start_behind_held(struct reactor_msg *msg)
{
	for (offload_held = 0; offload_held < OFFLOAD_HELD; offload_held++)
		offload_start(offload_held, work_held);
	offload_start(OFFLOAD_HELD, work_index);
	offload_start(OFFLOAD_OPS - 1, work_index);
	reactor_op_cancel(&offload_ops[OFFLOAD_OPS - 1]);
}

static void offloaded_work_that_waits_can_be_cancelled(void)
{
	open_reactor(0);
	EXPECT_EQ(0, pipe(pipe_fds));
	reactor_post(r, &defer_msg, start_behind_held);
	run_reactor();
	EXPECT_EQ(OFFLOAD_HELD, offload_held_then);
	EXPECT_EQ(-ECANCELED, offload_results[OFFLOAD_OPS - 1]);
	EXPECT_EQ(-OFFLOAD_HELD - 100, offload_results[OFFLOAD_HELD]);
	for (unsigned i = 0; i < OFFLOAD_HELD; i++)
		EXPECT_EQ(1, offload_results[i]);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

/* ---- stalls, scratch, capabilities ---------------------------------------------------------- */

static void hold_reactor(struct reactor_msg *msg)
{
	uint64_t start_ns = reactor_clock_ns(r);

	memset(reactor_scratch(r), 0x5a, REACTOR_SCRATCH_BYTES);
	EXPECT_EQ(0, (uintptr_t)reactor_scratch(r) & 4095);
	while (reactor_clock_ns(r) - start_ns <= 2 * NS_PER_MS)
		continue;
	reactor_stop(r);
}

static void a_slow_callback_is_counted(void)
{
	struct reactor_stats stats;

	open_reactor(0);
	reactor_post(r, &defer_msg, hold_reactor);
	reactor_run(r);
	reactor_get_stats(r, &stats);
	EXPECT(stats.stalls >= 1 && stats.turns >= 1);
	EXPECT_EQ(1, stats.posts);
	reactor_destroy(r);
}

/* ---- accounting of time --------------------------------------------------------------------- */

static struct reactor_stats asked_stats;

static void on_wait_over(struct reactor_timer *timer)
{
	if (++fired_count < 2) {
		reactor_timer_arm(timer, reactor_now_ns(r) + 50 * NS_PER_MS);
		return;
	}
	reactor_stop(r);
}

static void run_waiting(uint32_t spin_max_us, struct reactor_stats *ret_stats)
{
	open_reactor(spin_max_us);
	fired_count = 0;
	reactor_timer_init(r, &timers[0], on_wait_over);
	reactor_timer_arm(&timers[0], reactor_now_ns(r) + 50 * NS_PER_MS);
	reactor_run(r);
	reactor_get_stats(r, ret_stats);
	reactor_destroy(r);
}

static void waiting_is_not_busy(void)
{
	struct reactor_stats stats;

	run_waiting(0, &stats);
	EXPECT(stats.run_ns >= 95 * NS_PER_MS);
	EXPECT(stats.busy_ns < stats.run_ns / 4);
	EXPECT_EQ(0, stats.spin_ns); /* sleeps at once */
	run_waiting(10000, &stats);
	EXPECT(stats.busy_ns < stats.run_ns / 4);
	EXPECT(stats.spin_ns > 0);
	EXPECT(stats.busy_ns + stats.spin_ns < stats.run_ns); /* sleeps as well */
}

/* Asks from another thread while the reactor sleeps: the current wait counts as waiting. */
static void *ask_sleeper(void *arg)
{
	uint64_t deadline_ns = clock_monotonic_ns() + 10 * NS_PER_S;

	do {
		reactor_get_stats(r, &asked_stats);
	} while (asked_stats.run_ns < 30 * NS_PER_MS && clock_monotonic_ns() < deadline_ns);
	reactor_stop(r);
	return NULL;
}

static void waiting_under_way_is_not_busy(void)
{
	pthread_t thread;

	open_reactor(0);
	CHECK(pthread_create(&thread, NULL, ask_sleeper, NULL) == 0);
	reactor_run(r);
	pthread_join(thread, NULL);
	EXPECT(asked_stats.run_ns >= 30 * NS_PER_MS);
	EXPECT(asked_stats.busy_ns < asked_stats.run_ns / 2);
	reactor_destroy(r);
}

static void work_a_while(struct reactor_defer *defer)
{
	uint64_t start_ns = reactor_clock_ns(r);

	while (reactor_clock_ns(r) - start_ns < NS_PER_MS)
		continue;
	if (++defer_runs[0] == 50) {
		reactor_stop(r);
		return;
	}
	reactor_defer(r, defer);
}

static void working_is_busy(void)
{
	struct reactor_stats stats;

	open_reactor(1000);
	defer_runs[0] = 0;
	reactor_defer_init(&defers[0], work_a_while);
	reactor_defer(r, &defers[0]);
	reactor_run(r);
	reactor_get_stats(r, &stats);
	EXPECT(stats.run_ns >= 50 * NS_PER_MS);
	/* All but the last turn, which sees the stop, and the time around the turns. */
	EXPECT(stats.busy_ns >= 50 * NS_PER_MS && stats.busy_ns <= stats.run_ns);
	EXPECT(stats.spin_ns <= stats.run_ns - stats.busy_ns);
	reactor_destroy(r);
}

static void capabilities_are_listed(void)
{
	struct uring_caps caps;
	bool has_poll = false;

	EXPECT_EQ(0, uring_caps_probe(&caps));
	for (unsigned i = 0; i < caps.count; i++) {
		printf("# %-26s supported %d used %d\n", caps.items[i].name,
		       caps.items[i].is_supported, caps.items[i].is_used);
		if (strcmp(caps.items[i].name, "POLL_ADD") == 0)
			has_poll = caps.items[i].is_supported && caps.items[i].is_used;
	}
	EXPECT(has_poll);
}

int main(void)
{
	TAP_RUN(timers_fire_in_order);
	TAP_RUN(deferred_run_once_at_the_end_of_the_turn);
	TAP_RUN(messages_between_sleeping_reactors);
	TAP_RUN(messages_between_spinning_reactors);
	TAP_RUN(messages_keep_order_and_beat_stop);
	TAP_RUN(reactors_are_pinned_when_told);
	TAP_RUN(files_are_read_and_written);
	TAP_RUN(what_is_too_late_is_not_written);
	TAP_RUN(no_request_is_lost);
	TAP_RUN(a_waiting_read_is_cancelled);
	TAP_RUN(offloaded_work_does_not_wait_for_long_calls);
	TAP_RUN(offloaded_work_that_waits_can_be_cancelled);
	TAP_RUN(a_slow_callback_is_counted);
	TAP_RUN(waiting_is_not_busy);
	TAP_RUN(waiting_under_way_is_not_busy);
	TAP_RUN(working_is_busy);
	TAP_RUN(capabilities_are_listed);
	return tap_end();
}

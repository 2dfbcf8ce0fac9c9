/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of log lines and its thread. See log_writer.h.
 *
 * Many threads put lines, one thread takes them. Each slot has a turn number: `position` when the
 * slot is free for the line of that position, position + 1 when it holds that line, and position +
 * LOG_WRITER_LINES when it is free again. A thread that is preempted between claiming a position
 * and filling its slot delays the lines after it, which keeps the order, but delays no other
 * thread.
 */
#include "base/log_writer.h"

#include "base/check.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MAX_NS  NS_PER_S
#define WAIT_STEP_NS NS_PER_MS

struct log_slot {
	_Atomic uint64_t turn;
	uint32_t lost_before; /* lines dropped between the previous line and this one */
	uint32_t len_bytes;
	char bytes[LOG_LINE_BYTES];
};

enum log_writer_state {
	WRITER_NONE,     /* each thread writes its own lines */
	WRITER_RUNS,     /* the log writer writes all lines */
	WRITER_GIVEN_UP, /* lines are dropped: the log writer is stuck in a write */
};

static struct {
	_Atomic int state;
	struct log_slot *slots;
	_Atomic uint64_t next;    /* position of the next line */
	_Atomic uint64_t written; /* lines below this position are written; set by the log writer */
	_Atomic uint32_t lost;    /* lines dropped since the last one put into the ring */
	_Atomic bool is_asleep;
	_Atomic bool is_stopping;
	int wake_fd;
	pthread_t thread;
} writer;

/* ---- putting ------------------------------------------------------------------------------- */

static void writer_wake(void)
{
	uint64_t one = 1;

	/* As in reactor_wake: this thread puts its line, then reads is_asleep; the log writer sets
	 * is_asleep, then looks for lines. So neither misses the other. */
	if (atomic_load(&writer.is_asleep) && atomic_exchange(&writer.is_asleep, false))
		CHECK(write(writer.wake_fd, &one, sizeof(one)) == sizeof(one));
}

/* Claims a slot for the calling thread. NULL: the ring is full. */
static struct log_slot *slot_claim(uint64_t *ret_position)
{
	uint64_t position = atomic_load_explicit(&writer.next, memory_order_relaxed);

	for (;;) {
		struct log_slot *slot = &writer.slots[position % LOG_WRITER_LINES];
		uint64_t turn = atomic_load_explicit(&slot->turn, memory_order_acquire);

		if (turn < position)
			return NULL;
		if (turn > position) {
			position = atomic_load_explicit(&writer.next, memory_order_relaxed);
			continue;
		}
		if (atomic_compare_exchange_weak_explicit(&writer.next, &position, position + 1,
							  memory_order_relaxed,
							  memory_order_relaxed)) {
			*ret_position = position;
			return slot;
		}
	}
}

bool log_writer_put(const char *line, size_t len_bytes)
{
	struct log_slot *slot;
	uint64_t position;

	switch (atomic_load_explicit(&writer.state, memory_order_acquire)) {
	case WRITER_NONE:
		return false;
	case WRITER_GIVEN_UP:
		return true;
	default:
		break;
	}
	slot = slot_claim(&position);
	if (!slot) {
		atomic_fetch_add_explicit(&writer.lost, 1, memory_order_relaxed);
		return true;
	}
	slot->lost_before = atomic_exchange_explicit(&writer.lost, 0, memory_order_relaxed);
	slot->len_bytes = (uint32_t)len_bytes;
	memcpy(slot->bytes, line, len_bytes);
	atomic_store(&slot->turn, position + 1);
	writer_wake();
	return true;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void write_all(const char *bytes, size_t len_bytes)
{
	while (len_bytes > 0) {
		ssize_t len = write(STDERR_FILENO, bytes, len_bytes);

		if (len > 0) {
			bytes += len;
			len_bytes -= (size_t)len;
		} else if (len < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			/* Another process that shares standard error has made it non-blocking. */
			struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};

			(void)poll(&room, 1, -1);
		} else if (len == 0 || errno != EINTR) {
			return; /* nowhere is left to complain to */
		}
	}
}

static void write_lost(uint32_t lost)
{
	char line[LOG_LINE_BYTES];

	if (lost == 0)
		return;
	write_all(line, log_format(line, LOG_LEVEL_WARN, "log",
				   "%u line%s lost here: standard error did not take %s in time",
				   lost, lost == 1 ? " was" : "s were", lost == 1 ? "it" : "them"));
}

static bool writer_has_line(uint64_t position)
{
	return atomic_load(&writer.slots[position % LOG_WRITER_LINES].turn) == position + 1;
}

/* Reports lines that were dropped after the last line in the ring. False: more lines came, which
 * must be written before the report. */
static bool writer_tell_lost(uint64_t position)
{
	uint32_t lost = atomic_exchange(&writer.lost, 0);

	if (lost > 0 && writer_has_line(position)) {
		atomic_fetch_add(&writer.lost, lost);
		return false;
	}
	write_lost(lost);
	return true;
}

static void writer_drain(void)
{
	uint64_t position = atomic_load_explicit(&writer.written, memory_order_relaxed);

	for (; writer_has_line(position) || !writer_tell_lost(position); position++) {
		struct log_slot *slot = &writer.slots[position % LOG_WRITER_LINES];

		write_lost(slot->lost_before);
		write_all(slot->bytes, slot->len_bytes);
		atomic_store_explicit(&slot->turn, position + LOG_WRITER_LINES,
				      memory_order_release);
		atomic_store_explicit(&writer.written, position + 1, memory_order_release);
	}
}

static void writer_sleep(void)
{
	uint64_t value;

	atomic_store(&writer.is_asleep, true);
	if (writer_has_line(atomic_load_explicit(&writer.written, memory_order_relaxed)) ||
	    atomic_load(&writer.is_stopping)) {
		/* A thread may have seen is_asleep and written to wake_fd: the next sleep then ends
		 * at once. */
		atomic_store(&writer.is_asleep, false);
		return;
	}
	while (read(writer.wake_fd, &value, sizeof(value)) < 0 && errno == EINTR)
		continue;
}

static void *writer_run(void *arg)
{
	bool is_last;

	pthread_setname_np(pthread_self(), "weft-log");
	do {
		/* Read before draining, so that lines logged before the stop are still written. */
		is_last = atomic_load(&writer.is_stopping);
		writer_drain();
		if (!is_last)
			writer_sleep();
	} while (!is_last);
	return NULL;
}

/* ---- life ---------------------------------------------------------------------------------- */

static int writer_create_thread(void)
{
	sigset_t all, before;
	int res;

	/* Block signals in the new thread: the main thread handles those of the process. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	res = pthread_create(&writer.thread, NULL, writer_run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -res;
}

int log_writer_start(void)
{
	int res;

	CHECK(atomic_load(&writer.state) == WRITER_NONE);
	writer.slots = calloc(LOG_WRITER_LINES, sizeof(*writer.slots));
	if (!writer.slots)
		return -ENOMEM;
	for (uint64_t i = 0; i < LOG_WRITER_LINES; i++)
		atomic_store_explicit(&writer.slots[i].turn, i, memory_order_relaxed);
	atomic_store(&writer.next, 0);
	atomic_store(&writer.written, 0);
	atomic_store(&writer.lost, 0);
	atomic_store(&writer.is_asleep, false);
	atomic_store(&writer.is_stopping, false);
	writer.wake_fd = eventfd(0, EFD_CLOEXEC);
	res = writer.wake_fd < 0 ? -errno : writer_create_thread();
	if (res) {
		if (writer.wake_fd >= 0)
			close(writer.wake_fd);
		free(writer.slots);
		writer.slots = NULL;
		return res;
	}
	atomic_store(&writer.state, WRITER_RUNS);
	/* The lines before a failed CHECK show its cause: write them first. */
	check_set_last_words(log_writer_flush);
	return 0;
}

/* Waits until all lines below `position` are written. False: no line was written for
 * WAIT_MAX_NS. */
static bool writer_await(uint64_t position)
{
	const struct timespec step = {.tv_nsec = WAIT_STEP_NS};
	uint64_t written = atomic_load_explicit(&writer.written, memory_order_acquire);
	uint64_t since_ns = clock_monotonic_ns();

	while (written < position) {
		uint64_t before = written;

		(void)nanosleep(&step, NULL);
		written = atomic_load_explicit(&writer.written, memory_order_acquire);
		if (written != before)
			since_ns = clock_monotonic_ns();
		else if (clock_monotonic_ns() - since_ns > WAIT_MAX_NS)
			return false;
	}
	return true;
}

void log_writer_flush(void)
{
	if (atomic_load(&writer.state) == WRITER_RUNS &&
	    !pthread_equal(pthread_self(), writer.thread))
		(void)writer_await(atomic_load(&writer.next));
}

void log_writer_stop(void)
{
	if (atomic_load(&writer.state) != WRITER_RUNS)
		return;
	atomic_store(&writer.is_stopping, true);
	writer_wake();
	if (!writer_await(atomic_load(&writer.next))) {
		/* The thread may still be inside a write: do not free what it uses. */
		atomic_store(&writer.state, WRITER_GIVEN_UP);
		pthread_detach(writer.thread);
		return;
	}
	pthread_join(writer.thread, NULL);
	atomic_store(&writer.state, WRITER_NONE);
	close(writer.wake_fd);
	free(writer.slots);
	writer.slots = NULL;
}

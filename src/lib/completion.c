/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that have ended, on their way to weft_poll: a stack that any reactor pushes onto and
 * the polling thread empties whole, and an eventfd that tells of it. No lock: a push is one
 * exchange, and only the push onto an empty stack writes the eventfd. The fd is cleared when
 * nothing is left, and what came meanwhile sets it again, so it never says "nothing" wrongly.
 */
#include "base/clock.h"
#include "lib/lib.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

static void event_set(struct weft *weft)
{
	uint64_t one = 1;

	/* A full counter is readable too. */
	CHECK(write(weft->event_fd, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
}

void completion_push(struct weft *weft, struct request_state *state)
{
	struct request_state *head = atomic_load_explicit(&weft->ended, memory_order_relaxed);

	do {
		state->next = head;
	} while (!atomic_compare_exchange_weak_explicit(
		&weft->ended, &head, state, memory_order_release, memory_order_relaxed));
	/* The state may be with its owner already; the instance stays. */
	if (head == NULL)
		event_set(weft);
}

/* Takes all that has ended, oldest first. */
static void ended_take(struct weft *weft)
{
	struct request_state *state =
		atomic_exchange_explicit(&weft->ended, NULL, memory_order_acquire);

	while (state != NULL) {
		struct request_state *next = state->next;

		state->next = weft->ready;
		weft->ready = state;
		state = next;
	}
}

static void event_clear(struct weft *weft)
{
	uint64_t count;

	if (read(weft->event_fd, &count, sizeof(count)) < 0)
		CHECK(errno == EAGAIN || errno == EINTR);
	if (atomic_load_explicit(&weft->ended, memory_order_acquire) != NULL)
		event_set(weft);
}

static unsigned ready_run(struct weft *weft, unsigned max)
{
	unsigned count = 0;

	while (weft->ready != NULL && (max == 0 || count < max)) {
		struct request_state *state = weft->ready;
		struct weft_request *request = request_of(state);

		/* Before done, which may free the request or submit it again. */
		weft->ready = state->next;
		count++;
		request->done(request);
	}
	return count;
}

int weft_poll_fd(struct weft *weft)
{
	return weft->event_fd >= 0 ? weft->event_fd : -EINVAL;
}

int weft_poll(struct weft *weft, unsigned max, int timeout_ms)
{
	uint64_t deadline_ns =
		clock_monotonic_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * NS_PER_MS;
	struct pollfd pollfd = {.fd = weft->event_fd, .events = POLLIN};

	if (weft->callbacks != WEFT_CALLBACKS_POLL)
		return -EINVAL;
	for (;;) {
		uint64_t now_ns;
		unsigned count;

		if (weft->ready == NULL)
			ended_take(weft);
		count = ready_run(weft, max);
		if (weft->ready == NULL)
			event_clear(weft);
		if (count > 0)
			return (int)count;
		now_ns = clock_monotonic_ns();
		if (timeout_ms >= 0 && now_ns >= deadline_ns)
			return 0;
		/* Rounded up, so that the last wait is not a busy one. */
		if (poll(&pollfd, 1,
			 timeout_ms < 0
				 ? -1
				 : (int)((deadline_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS)) < 0)
			return -errno;
	}
}

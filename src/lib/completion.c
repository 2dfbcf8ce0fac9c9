/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ended requests on their way to weft_poll: a stack onto which any reactor pushes and which the
 * polling thread empties whole, and an eventfd that announces requests. No lock: a push is one
 * compare-exchange, and only the push onto an empty stack writes the eventfd. The poller clears the
 * eventfd when no request is left and sets it again if one came meanwhile, so the eventfd is never
 * unreadable while requests wait.
 */
#include "base/clock.h"
#include "lib/lib.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

static void event_set(struct weft *weft)
{
	uint64_t one = 1;

	/* EAGAIN: the counter is full, so the eventfd is readable already. */
	CHECK(write(weft->event_fd, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
}

void completion_push(struct weft *weft, struct request_state *state)
{
	struct request_state *head = atomic_load_explicit(&weft->ended, memory_order_relaxed);

	do {
		state->next = head;
	} while (!atomic_compare_exchange_weak_explicit(
		&weft->ended, &head, state, memory_order_release, memory_order_relaxed));
	/* From here on the owner may have freed the state. The instance stays valid. */
	if (head == NULL)
		event_set(weft);
}

/* Takes all ended requests and orders them oldest first. */
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

		/* Unlink first: done may free the request or submit it again. */
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
		/* Rounded up, so that the last wait does not spin with a time-out of 0. */
		if (poll(&pollfd, 1,
			 timeout_ms < 0
				 ? -1
				 : (int)((deadline_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS)) < 0)
			return -errno;
	}
}

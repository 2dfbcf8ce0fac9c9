/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wait for media that close at the end: see daemon/media_closing.h.
 *
 * `done` is always called from a message of its own. The message is behind the events that the
 * media had raised, so that the last of these is freed before the reactor stops. Control thread.
 */
#include "daemon/media_closing.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>

#define LIMIT_S 5

struct media_closing {
	struct media_count count;
	bool is_released; /* freed with the last medium and the end of the wait */
	/* The wait; done NULL: none, or over. */
	void (*done)(void *arg);
	void *arg;
	struct reactor *control;
	struct reactor_timer limit;
	struct reactor_msg msg;
	bool is_posted;
};

static void closing_maybe_free(struct media_closing *closing)
{
	if (closing->is_released && closing->count.open == 0 && !closing->done)
		free(closing);
}

static void wait_over(struct reactor_msg *msg)
{
	struct media_closing *closing = container_of(msg, struct media_closing, msg);
	void (*done)(void *arg) = closing->done;
	void *arg = closing->arg;

	closing->done = NULL;
	closing_maybe_free(closing);
	done(arg);
}

static void wait_end(struct media_closing *closing)
{
	if (!closing->done || closing->is_posted)
		return;
	closing->is_posted = true;
	reactor_timer_cancel(&closing->limit);
	reactor_post(closing->control, &closing->msg, wait_over);
}

static void limit_due(struct reactor_timer *timer)
{
	struct media_closing *closing = container_of(timer, struct media_closing, limit);

	log_warn("control", "%u media have not closed within %d s: ending without them",
		 closing->count.ending, LIMIT_S);
	wait_end(closing);
}

static void on_ended(struct media_count *count)
{
	struct media_closing *closing = container_of(count, struct media_closing, count);

	if (count->ending == 0)
		wait_end(closing);
	closing_maybe_free(closing);
}

struct media_closing *media_closing_create(void)
{
	struct media_closing *closing = calloc(1, sizeof(*closing));

	if (closing)
		closing->count.ended = on_ended;
	return closing;
}

struct media_count *media_closing_count(struct media_closing *closing)
{
	return &closing->count;
}

void media_closing_release(struct media_closing *closing)
{
	closing->is_released = true;
	closing_maybe_free(closing);
}

void media_closing_wait(struct media_closing *closing, struct reactor *control,
			void (*done)(void *arg), void *arg)
{
	closing->is_released = true;
	closing->control = control;
	closing->done = done;
	closing->arg = arg;
	reactor_timer_init(control, &closing->limit, limit_due);
	if (closing->count.ending == 0)
		wait_end(closing);
	else
		reactor_timer_arm(&closing->limit, reactor_now_ns(control) + LIMIT_S * NS_PER_S);
}

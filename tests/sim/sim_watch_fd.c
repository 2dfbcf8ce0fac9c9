/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated reactor: watches and pollers of reactor/reactor.h. A watch belongs to a channel, a
 * descriptor that a test makes ready; `ready` is called a moment later, if a wanted event still
 * holds. Every turn asks the pollers for work. When none has work they are armed, and the reactor
 * waits for its next event. A poller that had work is asked again after a microsecond, so that time
 * advances.
 */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>

#define READY_DELAY_US 2

struct channel {
	struct list node;
	int fd;
	unsigned events; /* that hold now */
	struct reactor_watch *watch;
	unsigned wanted; /* by the watch, while it is armed */
	struct sim_event *ready_event;
};

/* ---- channels and watches ------------------------------------------------------------------- */

static struct channel *channel_find(struct sim *sim, int fd)
{
	list_for_each(node, &sim->channels) {
		struct channel *channel = list_entry(node, struct channel, node);

		if (channel->fd == fd)
			return channel;
	}
	return NULL;
}

static void ready_run(struct sim_event *event)
{
	struct channel *channel = event->arg;
	struct reactor_watch *watch = channel->watch;
	unsigned events = channel->events & channel->wanted;

	channel->ready_event = NULL;
	if (events == 0)
		return;
	channel->wanted = 0;
	watch->armed = false;
	watch->ready(watch, (int)events);
}

static void channel_kick(struct sim *sim, struct channel *channel)
{
	if ((channel->events & channel->wanted) == 0 || channel->ready_event)
		return;
	channel->ready_event =
		sim_event_add(sim, channel->watch->reactor,
			      sim->now_ns + sim_delay_ns(sim, READY_DELAY_US), ready_run, channel);
}

int sim_channel_open(struct sim *sim)
{
	struct channel *channel = sim_alloc(sizeof(*channel));

	channel->fd = sim_fd_new(sim, NULL);
	list_push_back(&sim->channels, &channel->node);
	return channel->fd;
}

void sim_channel_set(struct sim *sim, int fd, unsigned events)
{
	struct channel *channel = channel_find(sim, fd);

	CHECK(channel);
	channel->events = events;
	channel_kick(sim, channel);
}

void sim_channel_close(struct sim *sim, int fd)
{
	struct channel *channel = channel_find(sim, fd);

	CHECK(channel && !channel->watch);
	list_remove(&channel->node);
	free(channel);
}

unsigned sim_channel_count(const struct sim *sim)
{
	unsigned count = 0;

	list_for_each(node, &sim->channels)
		count++;
	return count;
}

static void channel_unwatch(struct channel *channel)
{
	sim_event_cancel(&channel->ready_event);
	channel->watch = NULL;
	channel->wanted = 0;
}

void sim_channels_bury(struct reactor *reactor)
{
	list_for_each(node, &reactor->sim->channels) {
		struct channel *channel = list_entry(node, struct channel, node);

		if (channel->watch && channel->watch->reactor == reactor)
			channel_unwatch(channel);
	}
}

void sim_channels_free(struct sim *sim)
{
	struct list *node;

	while ((node = list_pop_front(&sim->channels)) != NULL)
		free(list_entry(node, struct channel, node));
}

void reactor_watch_open(struct reactor *reactor, struct reactor_watch *watch, int fd,
			void (*ready)(struct reactor_watch *watch, int events))
{
	struct channel *channel = channel_find(reactor->sim, fd);

	CHECK(channel && !channel->watch);
	memset(watch, 0, sizeof(*watch));
	watch->reactor = reactor;
	watch->fd = fd;
	watch->ready = ready;
	watch->sim = channel;
	channel->watch = watch;
}

void reactor_watch_arm(struct reactor_watch *watch, unsigned events)
{
	struct channel *channel = watch->sim;

	CHECK_OWNER(watch);
	CHECK(!watch->closing);
	if (watch->armed)
		return;
	watch->armed = true;
	channel->wanted = events;
	channel_kick(watch->reactor->sim, channel);
}

static void closed_run(struct sim_event *event)
{
	struct reactor_watch *watch = event->arg;

	event->reactor->sim->ops_under_way--;
	watch->closed(watch);
}

static void closed_drop(struct sim_event *event)
{
	event->reactor->sim->ops_under_way--;
}

void reactor_watch_close(struct reactor_watch *watch, void (*closed)(struct reactor_watch *watch))
{
	struct sim *sim = watch->reactor->sim;

	CHECK_OWNER(watch);
	CHECK(!watch->closing);
	watch->closing = true;
	watch->armed = false;
	watch->closed = closed;
	channel_unwatch(watch->sim);
	sim->ops_under_way++;
	sim_event_add(sim, watch->reactor, sim->now_ns + sim_delay_ns(sim, 5), closed_run, watch)
		->drop = closed_drop;
}

/* ---- pollers -------------------------------------------------------------------------------- */

void reactor_poller_add(struct reactor *reactor, struct reactor_poller *poller)
{
	CHECK(reactor == reactor_current() && poller->poll && poller->arm);
	list_push_back(&reactor->pollers, &poller->node);
}

void reactor_poller_remove(struct reactor_poller *poller)
{
	list_remove(&poller->node);
}

static void another_turn(struct sim_event *event)
{
}

/* As in the real reactor. True: a poller has work. */
static bool pollers_ask(struct reactor *reactor, bool is_poll)
{
	struct list batch, *node;
	bool has_work = false;

	list_init(&batch);
	list_splice_back(&batch, &reactor->pollers);
	while ((node = list_pop_front(&batch)) != NULL) {
		struct reactor_poller *poller = list_entry(node, struct reactor_poller, node);

		list_push_back(&reactor->pollers, node);
		if (sim_process_is_dying(reactor->process))
			continue;
		has_work |= is_poll ? poller->poll(poller) : !poller->arm(poller);
	}
	return has_work;
}

void sim_pollers_run(struct reactor *reactor)
{
	struct sim *sim = reactor->sim;

	if (list_empty(&reactor->pollers))
		return;
	/* An idle reactor runs some turns before it sleeps. */
	if (pollers_ask(reactor, true) || prng_one_in(&sim->prng, 4) || pollers_ask(reactor, false))
		sim_event_add(sim, reactor, sim->now_ns + NS_PER_US, another_turn, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clean end of a target: listeners close, every reactor notifies its hosts and ends its
 * controllers and queues, commands finish and are answered, then every medium is flushed.
 *
 * The steps run on the control reactor, then on the registry (listeners), then on every reactor
 * (queues). A message through the registry follows, so that everything posted to the registry
 * before has been handled. The control reactor then runs the flushes.
 *
 * Commands have grace_ms; those still running then are cancelled. The flushes have the rest of that
 * time, but at least FLUSH_GRACE_MIN_MS, before they are cancelled too. Only an operation that its
 * medium cannot cancel takes longer: a call into the kernel that does not return.
 */
#include "base/clock.h"
#include "base/log.h"
#include "target/local.h"
#include "target/loss.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FLUSHES_MAX        64 /* flushes in flight */
#define FLUSH_GRACE_MIN_MS 2000

struct final_flush {
	struct media_io io;
	struct shutdown *shutdown;
	const struct ns *ns;
	bool is_busy;
};

int shutdown_prepare(struct target *target)
{
	target->shutdown.flushes = calloc(FLUSHES_MAX, sizeof(struct final_flush));
	return target->shutdown.flushes ? 0 : -ENOMEM;
}

void shutdown_release(struct target *target)
{
	free(target->shutdown.flushes);
}

/* The next namespace to flush. NULL after the last one. */
static const struct ns *next_ns(struct shutdown *shutdown)
{
	const struct snapshot *snapshot = shutdown->target->snapshot;

	while (snapshot && shutdown->next_subsystem < snapshot->subsystem_count) {
		const struct subsystem *subsystem = snapshot->subsystems[shutdown->next_subsystem];

		if (shutdown->next_ns < subsystem->ns_count)
			return &subsystem->namespaces[shutdown->next_ns++];
		shutdown->next_subsystem++;
		shutdown->next_ns = 0;
	}
	return NULL;
}

static void flushes_go_on(struct shutdown *shutdown);

/* Draws a loss mark for a namespace that was not flushed. Hosts of other namespaces are not
 * affected, unless the mark could not be kept: then the whole target counts as not flushed. */
static void not_flushed(struct shutdown *shutdown, const struct ns *ns)
{
	if (loss_at_end(shutdown->target, ns) != 0)
		shutdown->is_flushed = false;
}

static void final_flushed(struct media_io *io, int res)
{
	struct final_flush *flush = container_of(io, struct final_flush, io);
	struct shutdown *shutdown = flush->shutdown;

	if (res != 0 || loss_is_news(flush->ns))
		not_flushed(shutdown, flush->ns);
	if (res != 0) {
		/* No peer: at the end of the target. */
		log_error("target", "%s: flush at shutdown failed: %s", io->media->spec,
			  strerror(-res));
	}
	flush->is_busy = false;
	shutdown->flushes_busy--;
	if (!shutdown->is_walking)
		flushes_go_on(shutdown);
}

static void flush_ns(struct shutdown *shutdown, const struct ns *ns)
{
	struct final_flush *flush = shutdown->flushes;

	while (flush->is_busy)
		flush++;
	flush->shutdown = shutdown;
	flush->ns = ns;
	flush->is_busy = true;
	flush->io = (struct media_io){
		.reactor = shutdown->target->control,
		.media = ns->media,
		.kind = MEDIA_FLUSH,
		.done = final_flushed,
	};
	shutdown->flushes_busy++;
	media_submit(&flush->io);
}

static void flushes_go_on(struct shutdown *shutdown)
{
	const struct ns *ns;

	shutdown->is_walking = true;
	while (!shutdown->is_flush_over && shutdown->flushes_busy < FLUSHES_MAX &&
	       (ns = next_ns(shutdown))) {
		if (media_is_lost(ns->media))
			not_flushed(shutdown, ns);
		else
			flush_ns(shutdown, ns);
	}
	while (shutdown->is_flush_over && (ns = next_ns(shutdown)))
		not_flushed(shutdown, ns);
	shutdown->is_walking = false;
	if (shutdown->flushes_busy > 0)
		return;
	reactor_timer_cancel(&shutdown->flush_grace);
	shutdown->is_running = false;
	shutdown->done(shutdown->arg);
}

static void on_flush_grace_over(struct reactor_timer *timer)
{
	struct shutdown *shutdown = container_of(timer, struct shutdown, flush_grace);

	/* No peer: at the end of the target. */
	log_error("target", "media were not flushed in time: unflushed writes may be lost if the "
			    "power fails now");
	shutdown->is_flush_over = true;
	shutdown->is_walking = true;
	for (unsigned i = 0; i < FLUSHES_MAX; i++) {
		struct media_io *io = &shutdown->flushes[i].io;

		if (shutdown->flushes[i].is_busy && io->media->ops->cancel)
			io->media->ops->cancel(io);
	}
	flushes_go_on(shutdown);
}

/* On the control reactor: all connections are closed. */
static void shutdown_flush(struct reactor_msg *msg)
{
	struct shutdown *shutdown = container_of(msg, struct shutdown, msg);

	uint64_t now_ns = reactor_now_ns(shutdown->target->control);
	uint64_t end_ns = shutdown->began_ns + shutdown->grace_ms * NS_PER_MS;
	uint64_t min_ns = now_ns + FLUSH_GRACE_MIN_MS * NS_PER_MS;

	shutdown->next_subsystem = 0;
	shutdown->next_ns = 0;
	shutdown->is_flush_over = false;
	/* A target whose start failed has opened no medium, and has flushed none. */
	shutdown->is_flushed = shutdown->target->snapshot != NULL;
	reactor_timer_init(shutdown->target->control, &shutdown->flush_grace, on_flush_grace_over);
	reactor_timer_arm(&shutdown->flush_grace, end_ns > min_ns ? end_ns : min_ns);
	flushes_go_on(shutdown);
}

/* On the registry: all messages posted to it before have been handled. */
static void shutdown_fence(struct reactor_msg *msg)
{
	struct shutdown *shutdown = container_of(msg, struct shutdown, msg);

	reactor_post(shutdown->target->control, &shutdown->msg, shutdown_flush);
}

void local_on_empty(struct local *local)
{
	struct shutdown *shutdown;

	if (!local->is_stopping || local->is_stopped || !list_empty(&local->queues) ||
	    !list_empty(&local->ctrls) || local->reset_count > 0)
		return;
	/* Closed listeners are freed on the registry's reactor, which must run until then. */
	if (local == target_registry(local->target) && local->target->listener_count > 0)
		return;
	local->is_stopped = true;
	shutdown = &local->target->shutdown;
	reactor_timer_cancel(&local->grace);
	if (atomic_fetch_sub(&shutdown->locals_missing, 1) == 1)
		reactor_post(target_registry(local->target)->reactor, &shutdown->msg,
			     shutdown_fence);
}

static void on_grace_over(struct reactor_timer *timer)
{
	struct local *local = container_of(timer, struct local, grace);

	/* No peer: at the end of the target. */
	log_warn("target", "commands did not finish in time, cancelling them");
	list_for_each(node, &local->queues)
		queue_cancel_all(list_entry(node, struct queue, node));
	list_for_each(node, &local->ctrls)
		ctrl_cancel_flushes(list_entry(node, struct ctrl, node));
}

static void local_stop(struct reactor_msg *msg)
{
	struct local *local = container_of(msg, struct local, stop_msg);

	local->is_stopping = true;
	reactor_timer_init(local->reactor, &local->grace, on_grace_over);
	reactor_timer_arm(&local->grace, reactor_now_ns(local->reactor) +
						 local->target->shutdown.grace_ms * NS_PER_MS);
	list_for_each_safe(node, &local->ctrls) {
		struct ctrl *ctrl = list_entry(node, struct ctrl, node);

		ctrl_event_raise(ctrl, CTRL_EVENT_SHUTDOWN);
		ctrl_end(ctrl, "the target is shutting down");
	}
	list_for_each_safe(node, &local->queues)
		queue_close(list_entry(node, struct queue, node), "the target is shutting down");
	local_on_empty(local);
}

static void shutdown_close_ports(struct reactor_msg *msg)
{
	struct shutdown *shutdown = container_of(msg, struct shutdown, msg);
	struct target *target = shutdown->target;
	struct bound_ports none;

	ports_close_unused(target, NULL, &none);
	for (unsigned i = 0; i < target->local_count; i++)
		reactor_post(target->locals[i].reactor, &target->locals[i].stop_msg, local_stop);
}

bool target_is_flushed(const struct target *target)
{
	return target->shutdown.is_flushed;
}

void target_shutdown(struct target *target, uint32_t grace_ms, void (*done)(void *arg), void *arg)
{
	struct shutdown *shutdown = &target->shutdown;

	CHECK(!shutdown->is_running && !target->apply);
	shutdown->is_running = true;
	applies_stop(target);
	shutdown->target = target;
	shutdown->grace_ms = grace_ms;
	shutdown->began_ns = reactor_now_ns(target->control);
	shutdown->done = done;
	shutdown->arg = arg;
	atomic_init(&shutdown->locals_missing, target->local_count);
	reactor_post(target_registry(target)->reactor, &shutdown->msg, shutdown_close_ports);
}

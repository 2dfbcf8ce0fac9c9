/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clean end of a target: listeners close, every reactor tells its hosts and ends its
 * controllers and queues, commands are finished and answered, then every medium is flushed.
 *
 * Steps go from the control reactor to the registry (listeners), to every reactor (queues), back to
 * the control reactor, once more through the registry so that everything that was on its way there
 * has arrived, and end with the flushes.
 */
#include "base/clock.h"
#include "base/log.h"
#include "target/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct final_flush {
	struct media_io io;
	struct shutdown *shutdown;
};

int shutdown_prepare(struct snapshot *snapshot)
{
	unsigned ns_count = 0;

	for (unsigned i = 0; i < snapshot->subsystem_count; i++)
		ns_count += snapshot->subsystems[i]->ns_count;
	snapshot->flushes = calloc(ns_count + 1, sizeof(*snapshot->flushes));
	return snapshot->flushes ? 0 : -ENOMEM;
}

static void shutdown_step_done(struct shutdown *shutdown)
{
	if (--shutdown->flushes_left > 0)
		return;
	shutdown->is_running = false;
	shutdown->done(shutdown->arg);
}

static void final_flushed(struct media_io *io, int res)
{
	struct final_flush *flush = container_of(io, struct final_flush, io);
	struct shutdown *shutdown = flush->shutdown;

	if (res != 0)
		log_error("target", "%s: flush at shutdown failed: %s", io->media->spec,
			  strerror(-res));
	shutdown_step_done(shutdown);
}

static void flush_ns(struct shutdown *shutdown, struct final_flush *flush, const struct ns *ns)
{
	flush->shutdown = shutdown;
	flush->io = (struct media_io){
		.reactor = shutdown->target->control,
		.media = ns->media,
		.kind = MEDIA_FLUSH,
		.done = final_flushed,
	};
	shutdown->flushes_left++;
	media_submit(&flush->io);
}

/* On the control reactor: nothing is connected any more. */
static void shutdown_flush(struct reactor_msg *msg)
{
	struct shutdown *shutdown = container_of(msg, struct shutdown, msg);
	const struct snapshot *snapshot = shutdown->target->snapshot;
	struct final_flush *flush = snapshot ? snapshot->flushes : NULL;

	shutdown->flushes_left = 1;
	for (unsigned i = 0; snapshot && i < snapshot->subsystem_count; i++) {
		const struct subsystem *subsystem = snapshot->subsystems[i];

		for (unsigned n = 0; n < subsystem->ns_count; n++)
			flush_ns(shutdown, flush++, &subsystem->namespaces[n]);
	}
	shutdown_step_done(shutdown);
}

/* On the registry: whatever was posted here before has been handled. */
static void shutdown_fence(struct reactor_msg *msg)
{
	struct shutdown *shutdown = container_of(msg, struct shutdown, msg);

	reactor_post(shutdown->target->control, &shutdown->msg, shutdown_flush);
}

void local_on_empty(struct local *local)
{
	struct shutdown *shutdown;

	if (!local->is_stopping || local->is_stopped || !list_empty(&local->queues) ||
	    !list_empty(&local->ctrls))
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

	log_warn("target", "commands did not finish in time, cancelling them");
	list_for_each(node, &local->queues)
		queue_cancel_all(list_entry(node, struct queue, node));
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

void target_shutdown(struct target *target, uint32_t grace_ms, void (*done)(void *arg), void *arg)
{
	struct shutdown *shutdown = &target->shutdown;

	CHECK(!shutdown->is_running && !target->apply);
	shutdown->is_running = true;
	shutdown->target = target;
	shutdown->grace_ms = grace_ms;
	shutdown->done = done;
	shutdown->arg = arg;
	atomic_init(&shutdown->locals_missing, target->local_count);
	reactor_post(target_registry(target)->reactor, &shutdown->msg, shutdown_close_ports);
}

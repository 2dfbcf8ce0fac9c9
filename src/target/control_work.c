/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries a slot to the control reactor, through its turn there, and back. See control_work.h.
 *
 * One command is served per message, so that other work of the control reactor gets its turn in
 * between. The slot's queue and controller exist until the slot is back.
 */
#include "target/control_work.h"

#include "target/local.h"

#include <errno.h>

/* ---- the way back --------------------------------------------------------------------------- */

static void slot_is_home(struct reactor_msg *msg)
{
	struct slot *slot = container_of(msg, struct slot, msg);

	slot->wait = SLOT_WAIT_NONE;
	if (slot->read)
		slot->read->home(slot);
	else
		slot_complete(slot, slot->status);
}

static void work_post(struct control_work *work);

void control_work_leave(struct slot *slot)
{
	struct control_work *work = slot->work;

	rota_leave(&work->rota, &slot->turn);
	if (rota_is_ready(&work->rota))
		work_post(work);
}

void control_work_answer(struct slot *slot, nvme_status status)
{
	control_work_leave(slot);
	slot->status = status;
	reactor_post(slot->queue->reactor, &slot->msg, slot_is_home);
}

/* ---- on the control reactor ----------------------------------------------------------------- */

static bool slot_is_unwanted(const struct slot *slot)
{
	return atomic_load_explicit(&slot->is_unwanted, memory_order_relaxed) ||
	       atomic_load_explicit(&slot->queue->is_ending, memory_order_relaxed);
}

/* Called only before a command begins, because it reads the clock. */
static bool slot_is_late(const struct slot *slot)
{
	return !ctrl_is_in_time(slot->queue->ctrl,
				reactor_clock_ns(slot->queue->local->target->control));
}

/* For a cancelled command, slot_complete finds the reason. */
static void slot_drop(struct slot *slot)
{
	bool is_cancelled = atomic_load_explicit(&slot->is_unwanted, memory_order_relaxed);

	control_work_answer(slot,
			    is_cancelled ? NVME_SC_ABORT_REQUESTED : NVME_SC_ABORT_SQ_DELETION);
}

/* An unwanted command gets a turn of its own, which drops it. */
struct slot *control_work_take_also(struct control_work *work,
				    bool (*matches)(const struct slot *slot, const void *arg),
				    const void *arg)
{
	struct rota_entry *entry = rota_peek(&work->rota);
	struct slot *slot = entry ? list_entry(entry, struct slot, turn) : NULL;

	if (!slot || slot_is_unwanted(slot) || slot_is_late(slot) || !matches(slot, arg))
		return NULL;
	rota_take(&work->rota);
	return slot;
}

static void serve_next(struct reactor_msg *msg)
{
	struct control_work *work = container_of(msg, struct control_work, msg);
	struct rota_entry *entry = rota_take(&work->rota);
	struct slot *slot;

	work->is_posted = false;
	if (!entry)
		return;
	slot = list_entry(entry, struct slot, turn);
	if (rota_is_ready(&work->rota))
		work_post(work);
	if (slot_is_unwanted(slot) || slot_is_late(slot))
		slot_drop(slot);
	else
		work->serve(slot);
}

static void work_post(struct control_work *work)
{
	if (work->is_posted)
		return;
	work->is_posted = true;
	reactor_post(work->target->control, &work->msg, serve_next);
}

static void slot_wait(struct slot *slot)
{
	struct control_work *work = slot->work;
	int res = rota_add(&work->rota, slot->queue->ctrl->host_nqn, &slot->turn);

	if (res != 0)
		control_work_answer(slot,
				    res == -EBUSY ? NVME_SC_COMMAND_INTERRUPTED : NVME_SC_INTERNAL);
	else if (slot_is_unwanted(slot))
		slot_drop(slot);
	else if (rota_is_ready(&work->rota))
		work_post(work);
}

static void slot_arrived(struct reactor_msg *msg)
{
	slot_wait(container_of(msg, struct slot, msg));
}

void control_work_again(struct slot *slot)
{
	control_work_leave(slot);
	slot_wait(slot);
}

static bool entry_is_unwanted(const struct rota_entry *entry)
{
	return slot_is_unwanted(list_entry(entry, struct slot, turn));
}

static void sweep(struct reactor_msg *msg)
{
	struct control_work *work = container_of(msg, struct control_work, sweep_msg);
	struct list unwanted;
	struct list *node;

	/* Clear the flag first: a command that becomes unwanted from here on asks for another
	 * sweep. */
	(void)atomic_exchange(&work->is_sweep_posted, false);
	rota_sweep(&work->rota, entry_is_unwanted, &unwanted);
	while ((node = list_pop_front(&unwanted)))
		slot_drop(list_entry(list_entry(node, struct rota_entry, node), struct slot, turn));
}

/* ---- on the slot's reactor ------------------------------------------------------------------ */

/* A command that is being served already ends by itself. */
void control_work_cancel(struct slot *slot)
{
	struct control_work *work = slot->work;

	atomic_store_explicit(&slot->is_unwanted, true, memory_order_relaxed);
	if (!atomic_exchange(&work->is_sweep_posted, true))
		reactor_post(work->target->control, &work->sweep_msg, sweep);
}

static void slot_submit(struct control_work *work, struct slot *slot,
			const struct control_read *read)
{
	slot->work = work;
	slot->read = read;
	slot->wait = SLOT_WAIT_CONTROL;
	atomic_store_explicit(&slot->is_unwanted, slot->is_abort_requested, memory_order_relaxed);
	reactor_post(work->target->control, &slot->msg, slot_arrived);
}

void control_work_submit(struct control_work *work, struct slot *slot)
{
	slot_submit(work, slot, NULL);
}

void control_work_read(struct slot *slot, const struct control_read *read)
{
	slot->status = NVME_SC_SUCCESS;
	slot_submit(&slot->queue->local->target->read_work, slot, read);
}

static void read_serve(struct slot *slot)
{
	slot->read->serve(slot);
}

void control_reads_init(struct target *target)
{
	static const struct rota_limits limits = {
		.running_per_host = 1,
		.waiting_per_host = 1024,
		.waiting_min = 16,
		.waiting_total = 8192,
	};

	control_work_init(&target->read_work, target, &limits, read_serve);
}

void control_work_init(struct control_work *work, struct target *target,
		       const struct rota_limits *limits, void (*serve)(struct slot *slot))
{
	work->target = target;
	work->serve = serve;
	rota_init(&work->rota, limits);
	atomic_init(&work->is_sweep_posted, false);
}

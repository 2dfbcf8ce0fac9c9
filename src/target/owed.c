/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pace of the data that hosts owe. See owed.h for what is overdue and what is slow.
 *
 * Progress is measured as a rate: received bytes advance a clock by the time that they may take at
 * OWED_PACE_BYTES per second. A timer compares the clocks with the time while any data is owed.
 * Runs on the queue's reactor.
 */
#include "target/owed.h"

#include "base/clock.h"
#include "base/log.h"
#include "target/local.h"

#define OWED_PACE_BYTES 16384u         /* bytes per second: less is no progress */
#define OWED_SLOW_NS    NS_PER_S       /* without progress: no borrowing of buffers */
#define OWED_LOOK_NS    (NS_PER_S / 2) /* longest interval of the timer */

/* Advances a clock by the time that the bytes may take, but never beyond now. */
static uint64_t pace_advance(uint64_t clock_ns, uint64_t bytes, uint64_t now_ns)
{
	uint64_t most_ns = now_ns - clock_ns;

	return bytes >= most_ns / (NS_PER_S / OWED_PACE_BYTES)
		       ? now_ns
		       : clock_ns + bytes * NS_PER_S / OWED_PACE_BYTES;
}

/* Returns true when this was a change. */
static bool owed_set_slow(struct owed *owed, bool is_slow)
{
	if (owed->is_slow == is_slow || !owed->queue->share)
		return false;
	owed->is_slow = is_slow;
	local_share_note_slow(owed->queue->share, is_slow);
	return true;
}

static void owed_timer_arm(struct owed *owed)
{
	const struct queue *queue = owed->queue;
	uint64_t limit_ns = queue->local->snapshot->limits.data_timeout_ms * NS_PER_MS;
	uint64_t look_ns = limit_ns / 4 < OWED_LOOK_NS ? limit_ns / 4 : OWED_LOOK_NS;

	reactor_timer_arm(&owed->timer, reactor_now_ns(queue->reactor) + look_ns);
}

/* ---- the timer ------------------------------------------------------------------------------ */

static void owed_listen(struct owed *owed, uint64_t come_bytes, uint64_t now_ns)
{
	uint64_t more_bytes = come_bytes > owed->heard_bytes ? come_bytes - owed->heard_bytes : 0;

	owed->heard_bytes = come_bytes;
	owed->heard_ns = pace_advance(owed->heard_ns, more_bytes, now_ns);
}

static bool slot_is_overdue(const struct owed *owed, const struct slot *slot, uint64_t come_bytes,
			    uint64_t now_ns)
{
	uint64_t limit_ns = owed->queue->local->snapshot->limits.data_timeout_ms * NS_PER_MS;

	if (slot->state != SLOT_FETCHING || now_ns - slot->owed.since_ns < limit_ns)
		return false;
	return now_ns - owed->heard_ns >= limit_ns ||
	       come_bytes > slot->owed.from_bytes + slot->owed.ahead_bytes;
}

static void owed_on_timer(struct reactor_timer *timer)
{
	struct owed *owed = container_of(timer, struct owed, timer);
	struct queue *queue = owed->queue;
	const char *why = "requested data did not arrive in time";
	uint64_t now_ns = reactor_now_ns(queue->reactor);
	uint64_t come_bytes = owed->ops->come_bytes(owed);
	char peer[NET_ADDR_TEXT_BYTES];
	bool is_slow = false;

	owed_listen(owed, come_bytes, now_ns);
	list_for_each(node, &queue->busy) {
		const struct slot *slot = list_entry(node, struct slot, node);

		is_slow |= slot->state == SLOT_FETCHING &&
			   now_ns - slot->owed.since_ns >= OWED_SLOW_NS;
		if (!slot_is_overdue(owed, slot, come_bytes, now_ns))
			continue;
		log_limited(LOG_LEVEL_WARN, "target", "%s: %s", net_addr_format(&queue->peer, peer),
			    why);
		owed->ops->overdue(owed, why);
		return;
	}
	owed_timer_arm(owed);
	if (owed_set_slow(owed, is_slow) && !is_slow)
		buf_pool_serve(queue->local->buffers);
}

/* ---- what transports report ----------------------------------------------------------------- */

void owed_init(struct owed *owed, struct queue *queue, struct reactor *reactor,
	       const struct owed_ops *ops)
{
	owed->queue = queue;
	owed->ops = ops;
	reactor_timer_init(reactor, &owed->timer, owed_on_timer);
}

void owed_begin(struct owed *owed, struct owed_data *data, uint32_t bytes, uint64_t come_bytes)
{
	uint64_t now_ns = reactor_now_ns(owed->queue->reactor);

	owed->bytes += bytes;
	data->since_ns = now_ns;
	data->from_bytes = come_bytes;
	data->ahead_bytes = owed->bytes + owed->ops->unparsed_bytes;
	if (owed->slots++ > 0)
		return;
	owed->heard_bytes = come_bytes;
	owed->heard_ns = now_ns;
	owed_timer_arm(owed);
}

void owed_advance(const struct owed *owed, struct owed_data *data, uint32_t bytes)
{
	data->since_ns = pace_advance(data->since_ns, bytes, reactor_now_ns(owed->queue->reactor));
}

void owed_paid(struct owed *owed)
{
	reactor_timer_cancel(&owed->timer);
	if (owed->is_slow && owed_set_slow(owed, false))
		buf_pool_serve(owed->queue->local->buffers);
}

void owed_stop(struct owed *owed)
{
	reactor_timer_cancel(&owed->timer);
	/* The queue gives its buffers back anyway. */
	(void)owed_set_slow(owed, false);
}

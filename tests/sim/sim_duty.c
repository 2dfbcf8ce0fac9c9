/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated target owes its hosts beyond answers to commands. It ends a controller only
 * when the host was silent for KATO, and then does so. When a reset is answered, no medium works
 * for the reset controller any more. Hosts are notified which namespaces changed. The discovery log
 * has the right generation. One thread; examines the target's state between two events.
 *
 * An answered command proves that the target received it, not before it was begun: ending the
 * controller less than KATO after its start is an error.
 */
#include "sim_op.h"
#include "slot_inspect.h"

#include "base/clock.h"
#include "base/le.h"
#include "target/io.h"
#include "target/local.h"
#include "wire/ctrl_reset.h"
#include "wire/log_page.h"

#include <string.h>

#define LATE_MAX_NS (NS_PER_S / 2) /* longer than a target may take to notice */

static uint32_t maybe(struct prng *prng, uint32_t low, uint32_t high)
{
	return prng_one_in(prng, 2) ? low + (uint32_t)prng_below(prng, high - low + 1) : 0;
}

/* Uses its own random numbers, for some seeds only, so that seeds that found a bug replay
 * unchanged. */
void duty_choose(struct world *world, uint64_t seed)
{
	struct world_plan *plan = &world->plan;
	struct prng prng;

	if (seed % 7 != 1 && seed % 7 != 4 && seed % 7 != 6)
		return;
	prng_seed(&prng, seed * 0x94d049bb133111ebull + 17);
	plan->has_news = true;
	plan->has_large = prng_one_in(&prng, 3);
	plan->misfit_one_in = maybe(&prng, 10, 100);
	plan->idle_one_in = maybe(&prng, 20, 200);
}

/* ---- keep alive ------------------------------------------------------------------------------ */

static void expiry_check(struct world *world, const struct ctrl *ctrl)
{
	uint64_t now_ns = sim_now(world->sim);
	/* KATO by the target's clock, less a microsecond for rounding. */
	uint64_t kato_ns =
		ctrl->kato_ms * NS_PER_MS * 1000000 / (uint64_t)(1000000 + world->wreck.drift_ppm) -
		NS_PER_US;

	for (unsigned i = 0; i < world->host_count; i++) {
		uint64_t proven_ns =
			world->hosts[i] ? sim_host_proven_ns(world->hosts[i], ctrl->cntlid) : 0;

		/* The target's clock may have jumped since. */
		if (proven_ns > world->wreck.jumped_ns && now_ns < proven_ns + kato_ns)
			world_fail(world,
				   "host %u: keep alive of controller %u expired %.3f ms after a "
				   "command, KATO is %u ms",
				   i, ctrl->cntlid, (double)(now_ns - proven_ns) / 1e6,
				   ctrl->kato_ms);
	}
}

/* True: the controller is still live though its host is silent for too long. */
static bool ctrl_is_overdue(const struct world *world, const struct ctrl *ctrl)
{
	uint64_t last_ns = atomic_load(&ctrl->silence.last_ns);
	/* The target may add a quarter of CQT to KATO: target/cmd_keep_alive.c. */
	uint64_t limit_ns = ctrl->kato_ms * NS_PER_MS +
			    ctrl->local->snapshot->limits.quiesce_ms * NS_PER_MS / 4 + LATE_MAX_NS;

	return ctrl->state == CTRL_LIVE && ctrl->kato_ms > 0 && last_ns > 0 &&
	       wreck_clock_ns(world, LATE_MAX_NS) > last_ns + limit_ns;
}

void duty_ctrls(struct world *world)
{
	for (unsigned i = 0; world->target && i < world->target->local_count; i++) {
		list_for_each(node, &world->target->locals[i].ctrls) {
			const struct ctrl *ctrl = list_entry(node, struct ctrl, node);

			if (ctrl->state != CTRL_LIVE && (ctrl->csts & CSTS_CFS) != 0)
				expiry_check(world, ctrl);
			else if (ctrl_is_overdue(world, ctrl))
				world_fail(world,
					   "controller %u has not ended, although its host is "
					   "silent for longer than KATO",
					   ctrl->cntlid);
		}
	}
}

/* ---- Cross-Controller Reset ------------------------------------------------------------------ */

static bool queue_is_of(const struct queue *queue, const struct ctrl_reset_cmd *instance)
{
	/* A detaching queue's controller may be freed, and the queue has no commands any more. */
	return queue->state != QUEUE_DETACHING && queue->ctrl && queue->qid != 0 &&
	       queue->ctrl->cntlid == instance->cntlid &&
	       queue->ctrl->uniquifier == instance->uniquifier &&
	       queue->ctrl->random_number == instance->random_number;
}

static void queue_check_quiet(struct world *world, const struct queue *queue)
{
	list_for_each(node, &queue->busy) {
		const struct slot *slot = list_entry(node, struct slot, node);

		if (slot_is_under_way(slot))
			world_fail(world,
				   "the reset of controller %u was answered while its command %02x "
				   "still ran",
				   queue->ctrl->cntlid, slot->sqe.opcode);
	}
}

void duty_reset_done(struct world *world, const struct ctrl_reset_cmd *instance)
{
	for (unsigned i = 0; world->target && i < world->target->local_count; i++) {
		list_for_each(node, &world->target->locals[i].queues) {
			const struct queue *queue = list_entry(node, struct queue, node);

			if (queue_is_of(queue, instance))
				queue_check_quiet(world, queue);
		}
	}
}

/* ---- news ------------------------------------------------------------------------------------ */

unsigned duty_seen_by(const struct world *world, const struct world_ns *ns)
{
	unsigned hosts = 0;

	for (unsigned i = 0; i < world->plan.hosts; i++)
		hosts |= (unsigned)world_ns_is_seen(ns, i) << i;
	return hosts;
}

void duty_ns_changed(struct world *world, const struct world_ns *ns, unsigned hosts)
{
	for (unsigned i = 0; i < world->plan.hosts; i++) {
		if ((hosts >> i & 1) && sim_host_hears(world->hosts[i]))
			world->duties.news[i] |= 1u << ns->nsid;
	}
}

void duty_session_begun(struct world *world, unsigned host_index)
{
	world->duties.news[host_index] = 0;
}

void duty_changed_log(struct world *world, unsigned host_index, const uint8_t *page,
		      size_t page_bytes)
{
	for (size_t at = 0; at + sizeof(le32) <= page_bytes; at += sizeof(le32)) {
		le32 raw;

		memcpy(&raw, page + at, sizeof(raw));
		if (le32_get(raw) == NVME_NSID_ALL)
			world->duties.news[host_index] = 0;
		else if (le32_get(raw) <= WORLD_NS_MAX)
			world->duties.news[host_index] &= ~(1u << le32_get(raw));
	}
}

bool duty_is_told(const struct world *world, unsigned host_index)
{
	return world->duties.news[host_index] == 0;
}

/* ---- the discovery log ----------------------------------------------------------------------- */

void duty_discovery(struct world *world, uint64_t before, const struct discovery_header *header)
{
	if (header->generation < before || header->generation > world->duties.generation_built)
		world_fail(world, "the discovery log has generation %llu after generation %llu",
			   (unsigned long long)header->generation, (unsigned long long)before);
}

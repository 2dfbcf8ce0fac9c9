/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lives and deaths of the target's process, and what happens to its disks; see sim_wreck.h. One
 * thread; strikes from the target's control reactor. An event that belongs to no reactor starts the
 * target again.
 *
 * While the target is down its memory must not be used: all pointers to it are reset at the death.
 * Commands of its controllers may still land until its disks are opened again.
 */
#include "sim_wreck.h"

#include "sim_world.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

/* Every seed from here on may have these faults; below, one in nine. */
#define WRECK_SEEDS        100000
#define CRASH_MAX          600 /* operations after the trouble */
#define DOWN_MAX_MS        500
#define FREEZE_MAX_MS      4000
#define JUMP_MAX_MS        3000
#define CLOCK_DRIFT_MAX    20000 /* ppm: more than any real clock */
#define CLOCK_OFFSET_MAX_S 100000

static uint32_t maybe(struct prng *prng, uint32_t low, uint32_t high)
{
	return prng_one_in(prng, 3) ? low + (uint32_t)prng_below(prng, high - low + 1) : 0;
}

void wreck_choose(struct world *world, uint64_t seed)
{
	struct wreck *wreck = &world->wreck;
	struct prng *prng = &wreck->prng;

	if (seed < WRECK_SEEDS && seed % 9 != 3)
		return;
	prng_seed(prng, seed * 0x94d049bb133111ebull + 29);
	/* Seeds above must use the old media too. */
	wreck->is_on = seed < WRECK_SEEDS || !prng_one_in(prng, 3);
	if (!wreck->is_on)
		return;
	wreck->crash_one_in = maybe(prng, 3, 30);
	wreck->freeze_one_in = maybe(prng, 5, 40);
	wreck->jump_one_in = maybe(prng, 5, 40);
	wreck->full_one_in = maybe(prng, 2, 20);
	wreck->cut_one_in = maybe(prng, 2, 20);
	wreck->refuse_one_in = maybe(prng, 20, 2000);
	wreck->misdirect_one_in = maybe(prng, 20, 200);
	if (prng_one_in(prng, 2)) {
		wreck->drift_ppm = (int32_t)prng_below(prng, 2 * CLOCK_DRIFT_MAX) - CLOCK_DRIFT_MAX;
		wreck->clock_offset_ns = prng_below(prng, CLOCK_OFFSET_MAX_S) * NS_PER_S;
	}
}

static void figure_shrink(struct world *world, enum wreck_feature feature, uint32_t *figure)
{
	if (!world_feature(world, (enum world_feature)(FEATURE_WRECK + feature), *figure > 0))
		*figure = 0;
}

void wreck_shrink(struct world *world)
{
	struct wreck *wreck = &world->wreck;
	struct world_plan *plan = &world->plan;
	uint32_t clock = wreck->drift_ppm != 0 || wreck->jump_one_in > 0;

	if (!wreck->is_on)
		return;
	figure_shrink(world, WRECK_CRASHES, &wreck->crash_one_in);
	figure_shrink(world, WRECK_FREEZES, &wreck->freeze_one_in);
	figure_shrink(world, WRECK_REFUSALS, &wreck->refuse_one_in);
	figure_shrink(world, WRECK_CLOCK, &clock);
	figure_shrink(world, WRECK_MISDIRECTS, &wreck->misdirect_one_in);
	figure_shrink(world, WRECK_FULL, &wreck->full_one_in);
	figure_shrink(world, WRECK_CUT, &wreck->cut_one_in);
	if (clock == 0) {
		wreck->drift_ppm = 0;
		wreck->jump_one_in = 0;
	}
	/* Reservations are checked in the target's memory, which dies with it. The world of
	 * clusters judges reservations over deaths. */
	if (wreck->crash_one_in > 0)
		plan->has_reservations = plan->is_duel = false;
	/* A Copy of a misdirected read writes blocks with unknown values. */
	if (wreck->misdirect_one_in > 0)
		plan->has_copies = false;
}

/* ---- lives ---------------------------------------------------------------------------------- */

void wreck_enter(struct world *world)
{
	if (world->wreck.is_on)
		sim_process_enter(world->wreck.process);
}

void wreck_leave(struct world *world)
{
	if (world->wreck.is_on)
		sim_process_leave(world->wreck.process);
}

static void on_restart(void *arg)
{
	struct world *world = arg;
	struct wreck *wreck = &world->wreck;

	if (wreck->death == SIM_DEATH_POWER)
		world_disks_lose_power(world);
	wreck_begin(world);
	world_live_again(world);
	wreck->is_down = false;
}

static void on_dead(struct sim_mourner *mourner, struct sim_process *process, enum sim_death how)
{
	struct world *world = container_of(mourner, struct world, wreck.mourner);
	struct wreck *wreck = &world->wreck;

	wreck->refused += sim_process_refused(process);
	if (world->phase == WORLD_LEAVING)
		return;
	wreck->is_down = true;
	wreck->death = how;
	wreck->crashes++;
	world_die(world);
	sim_at(world->sim, sim_now(world->sim) + prng_below(&wreck->prng, DOWN_MAX_MS) * NS_PER_MS,
	       on_restart, world);
}

void wreck_begin(struct world *world)
{
	struct wreck *wreck = &world->wreck;
	char name[32];

	if (!wreck->is_on)
		return;
	snprintf(name, sizeof(name), "target %llu", (unsigned long long)++wreck->lives);
	wreck->process = sim_process_create(world->sim, name);
	wreck->mourner.dead = on_dead;
	sim_process_add_mourner(wreck->process, &wreck->mourner);
	sim_process_set_clock(wreck->process, wreck->clock_offset_ns, wreck->drift_ppm);
	if (wreck->refuse_one_in > 0 && world->phase == WORLD_TROUBLED)
		sim_process_refuse_memory(wreck->process, wreck->refuse_one_in,
					  prng_next(&wreck->prng));
}

void wreck_heal(struct world *world)
{
	struct wreck *wreck = &world->wreck;

	if (!wreck->is_on || wreck->is_down)
		return;
	sim_process_crash_after(wreck->process, 0, SIM_DEATH_KILLED);
	sim_process_refuse_memory(wreck->process, 0, 0);
}

void wreck_end(struct world *world)
{
	struct wreck *wreck = &world->wreck;
	uint64_t left;

	if (!wreck->is_on)
		return;
	left = sim_process_allocations(wreck->process);
	if (left > 0)
		world_fail(world, "the target has ended and still has %llu allocations",
			   (unsigned long long)left);
	sim_process_kill(wreck->process, SIM_DEATH_KILLED);
}

/* ---- troubles ------------------------------------------------------------------------------- */

static bool strikes(struct wreck *wreck, uint32_t one_in)
{
	return one_in > 0 && prng_one_in(&wreck->prng, one_in);
}

static void on_freeze(void *arg)
{
	struct world *world = arg;
	struct wreck *wreck = &world->wreck;

	if (wreck->is_down || world->phase != WORLD_TROUBLED)
		return;
	wreck->freezes++;
	wreck->upset_until_ns =
		sim_now(world->sim) + prng_below(&wreck->prng, FREEZE_MAX_MS) * NS_PER_MS;
	sim_process_freeze(wreck->process, wreck->upset_until_ns);
}

static void on_jump(void *arg)
{
	struct world *world = arg;
	struct wreck *wreck = &world->wreck;

	if (wreck->is_down || world->phase != WORLD_TROUBLED)
		return;
	wreck->jumps++;
	if (wreck->upset_until_ns < sim_now(world->sim))
		wreck->upset_until_ns = sim_now(world->sim);
	wreck->jumped_ns = sim_now(world->sim);
	sim_process_jump_clock(wreck->process, prng_below(&wreck->prng, JUMP_MAX_MS) * NS_PER_MS);
}

static void strike_disk(struct world *world)
{
	struct wreck *wreck = &world->wreck;
	struct world_ns *ns = &world->ns[prng_below(&wreck->prng, world->ns_count)];
	uint64_t cut_at = prng_below(&wreck->prng, ns->block_count);
	bool is_over = prng_one_in(&wreck->prng, 2);

	if (strikes(wreck, wreck->full_one_in) && world_event(world) && ns->disk) {
		sim_disk_set_full(ns->disk, !is_over);
		wreck->fulls += !is_over;
		sim_trace(world->sim, "world: namespace %u is %s", ns->nsid,
			  is_over ? "no longer full" : "full");
	}
	if (strikes(wreck, wreck->cut_one_in) && world_event(world) && ns->disk) {
		sim_disk_cut(ns->disk, is_over ? UINT64_MAX : cut_at);
		wreck->cuts += !is_over;
		sim_trace(world->sim, "world: namespace %u is %s", ns->nsid,
			  is_over ? "whole" : "cut");
	}
}

void wreck_strike(struct world *world)
{
	struct wreck *wreck = &world->wreck;
	uint64_t now_ns = sim_now(world->sim);

	if (!wreck->is_on)
		return;
	strike_disk(world);
	if (strikes(wreck, wreck->crash_one_in)) {
		uint64_t operations = 1 + prng_below(&wreck->prng, CRASH_MAX);
		enum sim_death how =
			prng_one_in(&wreck->prng, 3) ? SIM_DEATH_POWER : SIM_DEATH_KILLED;

		if (world_event(world))
			sim_process_crash_after(wreck->process, operations, how);
	}
	if (strikes(wreck, wreck->freeze_one_in) && world_event(world))
		sim_at(world->sim, now_ns + 1, on_freeze, world);
	if (strikes(wreck, wreck->jump_one_in) && world_event(world))
		sim_at(world->sim, now_ns + 1, on_jump, world);
}

/* ---- disks ---------------------------------------------------------------------------------- */

struct media *wreck_medium_open(struct world *world, struct world_ns *ns,
				const struct sim_disk_options *options)
{
	struct sim_disk_options own;
	struct media *media;
	char name[32];

	if (ns->disk == NULL) {
		own = *options;
		snprintf(name, sizeof(name), "ns%u", ns->nsid);
		own.name = name;
		own.misdirect_one_in = world->wreck.misdirect_one_in;
		ns->disk = sim_disk_create(world->sim, &own);
	}
	CHECK(sim_disk_open(ns->disk, "sim", 0, -1, &media) == 0);
	return media;
}

void wreck_ns_free(struct world_ns *ns)
{
	if (ns->disk)
		sim_disk_destroy(ns->disk);
	ns->disk = NULL;
}

uint64_t wreck_misdirected(const struct world_ns *ns)
{
	return ns && ns->disk ? sim_disk_misdirected(ns->disk) : 0;
}

uint64_t wreck_clock_ns(const struct world *world, uint64_t grace_ns)
{
	const struct wreck *wreck = &world->wreck;

	if (!wreck->is_on)
		return sim_now(world->sim);
	if (wreck->is_down || sim_now(world->sim) < wreck->upset_until_ns + grace_ns)
		return 0;
	return sim_process_clock_ns(wreck->process);
}

bool wreck_can_break(const struct world *world)
{
	const struct wreck *wreck = &world->wreck;

	return wreck->crash_one_in || wreck->freeze_one_in || wreck->jump_one_in ||
	       wreck->refuse_one_in;
}

void wreck_count(const struct world *world)
{
	const struct wreck *wreck = &world->wreck;
	uint64_t misdirected = 0;

	for (unsigned i = 0; i < world->ns_count; i++)
		misdirected += wreck_misdirected(&world->ns[i]);
	sim_counter_add(world->counters, "target_deaths", wreck->crashes);
	sim_counter_add(world->counters, "target_freezes", wreck->freezes);
	sim_counter_add(world->counters, "jumps_of_clocks", wreck->jumps);
	sim_counter_add(world->counters, "times_a_medium_was_full", wreck->fulls);
	sim_counter_add(world->counters, "times_a_medium_was_cut", wreck->cuts);
	sim_counter_add(world->counters, "reads_misdirected", misdirected);
	sim_counter_add(world->counters, "allocations_refused",
			wreck->refused + (wreck->is_on && !wreck->is_down
						  ? sim_process_refused(wreck->process)
						  : 0));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated processes: whose turn it is, clocks, operations and deaths.
 *
 * A process that dies in its own turn (sim_process_crash_after, sim_process_end) runs on to the end
 * of the callback, but its sends, submits and writes have no effect. It is buried when the turn
 * ends, before any other event. One thread.
 */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>

#define PPM_ONE 1000000

static struct sim_process *process_entered;

struct sim_process *sim_process_create(struct sim *sim, const char *name)
{
	struct sim_process *process = sim_alloc(sizeof(*process));

	if (sim_memory_init)
		sim_memory_init();
	process->sim = sim;
	process->name = sim_alloc(strlen(name) + 1);
	memcpy(process->name, name, strlen(name));
	list_init(&process->mourners);
	list_init(&process->allocations);
	list_push_back(&sim->processes, &process->node);
	return process;
}

const char *sim_process_name(const struct sim_process *process)
{
	return process->name;
}

void sim_process_enter(struct sim_process *process)
{
	CHECK(!process_entered && !reactor_current() && !process->is_dead);
	process_entered = process;
}

void sim_process_leave(struct sim_process *process)
{
	CHECK(process_entered == process && !reactor_current());
	process_entered = NULL;
	sim_process_bury_dying(process->sim);
}

struct sim_process *sim_process_current(void)
{
	const struct reactor *reactor = reactor_current();

	return reactor ? reactor->process : process_entered;
}

bool sim_process_is_alive(const struct sim_process *process)
{
	return !process->is_dead && !process->is_dying;
}

/* ---- death --------------------------------------------------------------------------------- */

void sim_process_add_mourner(struct sim_process *process, struct sim_mourner *mourner)
{
	list_push_back(&process->mourners, &mourner->node);
}

void sim_process_remove_mourner(struct sim_mourner *mourner)
{
	list_remove(&mourner->node);
}

static void reactors_bury(struct sim_process *process)
{
	list_for_each_safe(node, &process->sim->reactors) {
		struct reactor *reactor = list_entry(node, struct reactor, node);

		if (reactor->process == process)
			sim_reactor_bury(reactor);
	}
}

void sim_process_kill(struct sim_process *process, enum sim_death how)
{
	struct sim_process *entered = process_entered;
	struct reactor *running;
	struct list *node;

	CHECK(!process->is_dead && sim_process_current() != process);
	sim_trace(process->sim, "process %s dies%s after %llu operations", process->name,
		  how == SIM_DEATH_POWER ? " with its machine" : "",
		  (unsigned long long)process->operations);
	process->is_dead = true;
	process->is_dying = false;
	/* The killer's turn continues afterwards; mourners run outside of it. */
	running = sim_turn_swap(NULL);
	process_entered = NULL;
	while ((node = list_pop_front(&process->mourners)) != NULL) {
		struct sim_mourner *mourner = list_entry(node, struct sim_mourner, node);

		mourner->dead(mourner, process, how);
	}
	sim_net_bury(process->sim, process, how);
	reactors_bury(process);
	if (sim_memory_bury)
		sim_memory_bury(process);
	process_entered = entered;
	sim_turn_swap(running);
}

void sim_process_bury_dying(struct sim *sim)
{
	while (sim->has_dying) {
		sim->has_dying = false;
		list_for_each(node, &sim->processes) {
			struct sim_process *process = list_entry(node, struct sim_process, node);

			if (!process->is_dying)
				continue;
			/* A mourner may start or end a process: search again from the first. */
			sim->has_dying = true;
			sim_process_kill(process, process->how);
			break;
		}
	}
}

void sim_process_end(struct sim_process *process, enum sim_death how)
{
	if (process->is_dead || process->is_dying)
		return;
	process->is_dying = true;
	process->how = how;
	process->sim->has_dying = true;
}

void sim_process_crash_after(struct sim_process *process, uint64_t n, enum sim_death how)
{
	process->crash_at = n ? process->operations + n : 0;
	process->how = how;
}

uint64_t sim_process_operations(const struct sim_process *process)
{
	return process->operations;
}

bool sim_process_operate(struct sim_process *process)
{
	if (!process)
		return true;
	if (process->is_dead || process->is_dying)
		return false;
	process->operations++;
	if (process->operations == process->crash_at)
		sim_process_end(process, process->how);
	return !process->is_dying;
}

void sim_process_free_all(struct sim *sim)
{
	struct list *node;

	while ((node = list_pop_front(&sim->processes)) != NULL) {
		struct sim_process *process = list_entry(node, struct sim_process, node);

		if (sim_memory_bury)
			sim_memory_bury(process);
		free(process->name);
		free(process);
	}
}

void sim_process_freeze(struct sim_process *process, uint64_t until_ns)
{
	if (until_ns > process->frozen_until_ns)
		process->frozen_until_ns = until_ns;
	list_for_each(node, &process->sim->reactors) {
		struct reactor *reactor = list_entry(node, struct reactor, node);

		if (reactor->process == process)
			sim_freeze(reactor, until_ns);
	}
}

uint64_t sim_process_frozen_until(const struct sim_process *process)
{
	return process->frozen_until_ns > process->sim->now_ns ? process->frozen_until_ns : 0;
}

/* ---- clocks -------------------------------------------------------------------------------- */

void sim_process_set_clock(struct sim_process *process, uint64_t offset_ns, int32_t drift_ppm)
{
	list_for_each(node, &process->sim->reactors)
		CHECK(list_entry(node, struct reactor, node)->process != process);
	CHECK(drift_ppm > -PPM_ONE);
	process->clock_offset_ns = offset_ns;
	process->clock_drift_ppm = drift_ppm;
	process->clock_changes++;
}

void sim_process_jump_clock(struct sim_process *process, uint64_t forward_ns)
{
	process->clock_offset_ns += forward_ns;
	process->clock_changes++;
	sim_trace(process->sim, "the clock of %s jumps by %llu ms", process->name,
		  (unsigned long long)(forward_ns / NS_PER_MS));
}

uint64_t sim_process_clock_ns(const struct sim_process *process)
{
	return sim_clock_local(process, process->sim->now_ns);
}

static uint64_t clock_rate(const struct sim_process *process)
{
	return (uint64_t)(PPM_ONE + process->clock_drift_ppm);
}

uint64_t sim_clock_local(const struct sim_process *process, uint64_t now_ns)
{
	if (!process)
		return now_ns;
	if (process->clock_drift_ppm != 0)
		now_ns = (uint64_t)((unsigned __int128)now_ns * clock_rate(process) / PPM_ONE);
	return now_ns + process->clock_offset_ns;
}

uint64_t sim_clock_moment(const struct sim_process *process, uint64_t local_ns)
{
	unsigned __int128 parts;

	if (!process)
		return local_ns;
	if (local_ns <= process->clock_offset_ns)
		return 0;
	local_ns -= process->clock_offset_ns;
	if (process->clock_drift_ppm == 0)
		return local_ns;
	/* Rounded up: a timer never fires early. */
	parts = ((unsigned __int128)local_ns * PPM_ONE + clock_rate(process) - 1) /
		clock_rate(process);
	return parts > UINT64_MAX ? UINT64_MAX : (uint64_t)parts;
}

/* ---- memory that is refused ---------------------------------------------------------------- */

void sim_process_refuse_memory(struct sim_process *process, uint32_t one_in, uint64_t seed)
{
	process->refuse_one_in = one_in;
	prng_seed(&process->refuse_prng, seed);
}

uint64_t sim_process_refused(const struct sim_process *process)
{
	return process->refused;
}

uint64_t sim_process_allocations(const struct sim_process *process)
{
	return process->allocation_count;
}

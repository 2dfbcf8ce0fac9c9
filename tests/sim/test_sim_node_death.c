/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deaths of simulated nodes, at any operation and by power loss: an acknowledged change is kept, a
 * refused one is not, an unanswered one is kept or not. A frozen member is fenced by its peer and
 * writes no more. A dead process leaks nothing.
 */
#include "../unit/tap.h"
#include "node_world.h"
#include "sim_posix.h"
#include "sim_store.h"

#include "base/clock.h"
#include "base/log.h"
#include "wire/ctrl_reset.h"

#include <errno.h>
#include <stdlib.h>

static struct nworld world;

static struct sim_node *node(unsigned index)
{
	return world.nodes[index].node;
}

static int edit_model(json_t *document, const char *text)
{
	return json_object_set_new(nworld_subsystem(document), "model", json_string(text));
}

static int edit_x(json_t *document, void *arg, struct config_errors *errors)
{
	return edit_model(document, "x");
}

static int edit_y(json_t *document, void *arg, struct config_errors *errors)
{
	return edit_model(document, "y");
}

static bool model_is(json_t *document, const char *text)
{
	const char *model = json_string_value(json_object_get(nworld_subsystem(document), "model"));

	return model && strcmp(model, text) == 0;
}

static void cluster_open(const struct sim_disk_options *disk)
{
	nworld_create(&world, 1, 2, disk);
	EXPECT(nworld_cluster_open(&world));
}

/* ---- death at any operation ------------------------------------------------------------------ */

static bool is_over(struct nworld *unused, void *arg)
{
	return ((struct nchange *)arg)->is_done || sim_node_state(node(0)) == SIM_NODE_DOWN;
}

static bool model_is_x(void)
{
	json_t *document = sim_node_document(node(0));
	bool is_x = model_is(document, "x");

	EXPECT_THAT(is_x || model_is(document, "y"), "a model that somebody asked for");
	json_decref(document);
	return is_x;
}

/* The node starts with the document that it kept. */
static void start_again(void)
{
	EXPECT_THAT(nworld_start(&world, 0), "it starts again: %s", world.nodes[0].why);
	EXPECT(nworld_kept_is_in_force(&world, 0));
}

static void one_node_open(uint64_t seed)
{
	struct nchange change;

	nworld_create(&world, seed, 1, NULL);
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_change_wait(&world, 0, &change, edit_x) && change.res == 0);
}

/* Changes the model and dies at this operation, if there are that many. Returns whether it died. */
static bool die_in_change(uint64_t operation, enum sim_death how)
{
	bool was_x = model_is_x();
	unsigned died = world.nodes[0].died;
	struct sim_process *process = sim_node_process(node(0));
	struct nchange change;

	sim_node_crash_after(node(0), operation, how);
	nworld_change(&world, 0, &change, was_x ? edit_y : edit_x);
	EXPECT(nworld_until(&world, is_over, &change, 10000));
	EXPECT(!change.is_done || change.res == 0);
	nworld_run_ms(&world, 20);
	if (world.nodes[0].died == died) {
		EXPECT(change.is_done);
		sim_node_crash_after(node(0), 0, how);
	} else {
		EXPECT_EQ(how, world.nodes[0].how);
		EXPECT_EQ(0, sim_process_allocations(process));
		start_again();
	}
	/* A reported success is true. */
	EXPECT_THAT(model_is_x() != was_x || !change.is_done, "operation %llu: what was told",
		    (unsigned long long)operation);
	return world.nodes[0].died != died;
}

static void die_at_every_operation(uint64_t seed, enum sim_death how)
{
	unsigned deaths = 0, survived = 0;
	uint64_t operation = 0;

	one_node_open(seed);
	while (survived < 3 && operation < 200 && !tap_case_failed) {
		bool has_died = die_in_change(++operation, how);

		deaths += has_died;
		survived = has_died ? 0 : survived + 1;
	}
	EXPECT_THAT(deaths >= 5, "some deaths, got %u", deaths);
	EXPECT_EQ(3, survived);
	EXPECT_EQ(0, nworld_destroy(&world));
}

static void a_kill_at_any_operation_keeps_what_was_told(void)
{
	die_at_every_operation(3, SIM_DEATH_KILLED);
}

static void a_power_loss_at_any_operation_keeps_what_was_told(void)
{
	for (uint64_t seed = 20; seed < 30 && !tap_case_failed; seed++)
		die_at_every_operation(seed, SIM_DEATH_POWER);
}

/* A change refused as "nothing changed" must not appear later, not even after a kill that leaves
 * the failed write in the store's log. Only a change that the store could not undo is open, and
 * reported as such. */
static void a_refused_change_does_not_come_back(void)
{
	unsigned refused = 0, open = 0;

	one_node_open(11);
	for (unsigned i = 0; i < 200 && !tap_case_failed; i++) {
		bool was_x = model_is_x();
		struct nchange change;

		sim_folder_set_errors(sim_node_folder(node(0)), 8);
		EXPECT(nworld_change_wait(&world, 0, &change, was_x ? edit_y : edit_x));
		sim_folder_set_errors(sim_node_folder(node(0)), 0);
		EXPECT_EQ(change.res == 0, model_is_x() != was_x);
		sim_node_kill(node(0), i % 2 ? SIM_DEATH_KILLED : SIM_DEATH_POWER);
		start_again();
		open += change.res == -ENOTRECOVERABLE;
		refused += change.res < 0 && change.res != -ENOTRECOVERABLE;
		if (change.res != -ENOTRECOVERABLE)
			EXPECT_THAT((change.res == 0) == (model_is_x() != was_x),
				    "change %u: %d is true", i, change.res);
	}
	EXPECT_THAT(refused >= 20 && open < refused, "refused for sure, got %u, open %u", refused,
		    open);
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* Dies at each operation of a stop, up to the last write, which marks the store clean. */
static void a_death_during_the_end_does_no_harm(void)
{
	uint64_t operation = 0;
	unsigned stopped = 0;

	one_node_open(12);
	while (stopped == 0 && operation < 100 && !tap_case_failed) {
		sim_node_crash_after(node(0), ++operation, SIM_DEATH_KILLED);
		sim_node_stop(node(0));
		nworld_run_ms(&world, 1000);
		EXPECT_EQ(SIM_NODE_DOWN, sim_node_state(node(0)));
		stopped = world.nodes[0].stopped;
		start_again();
		EXPECT(model_is_x());
	}
	EXPECT_THAT(world.nodes[0].died >= 3, "some deaths, got %u", world.nodes[0].died);
	EXPECT_EQ(1, stopped);
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* From the very first start on: a partly initialised state must never be used as a complete one. */
static void a_death_during_the_start_does_no_harm(void)
{
	unsigned deaths = 0;
	bool serves = false;

	for (unsigned how = 0; how < 2; how++) {
		nworld_create(&world, 4 + how, 1, NULL);
		serves = false;
		for (uint64_t operation = 1; !serves && operation < 300; operation++) {
			sim_node_start(node(0));
			sim_node_crash_after(node(0), operation, (enum sim_death)how);
			nworld_run_ms(&world, 50);
			serves = sim_node_state(node(0)) == SIM_NODE_SERVING;
		}
		EXPECT(serves);
		EXPECT_EQ(0, world.nodes[0].start_res);
		deaths += world.nodes[0].died;
		if (serves) {
			sim_node_crash_after(node(0), 0, SIM_DEATH_KILLED);
			EXPECT(nworld_kept_is_in_force(&world, 0));
		}
		EXPECT_EQ(0, nworld_destroy(&world));
	}
	EXPECT_THAT(deaths >= 20, "deaths at many operations, got %u", deaths);
}

/* The disks lose power with the machine; flushed data must survive. */
static void flushed_data_survives_a_power_loss(void)
{
	static const struct sim_disk_options cached = {.delay_max_us = 20,
						       .has_volatile_cache = true};
	static struct nop nop;

	nworld_create(&world, 6, 1, &cached);
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_connect(&world, 1));
	for (unsigned i = 0; i < 8; i++) {
		nop_write(&world, &nop, i, 200 + i);
		EXPECT(nop_wait(&nop, 1000));
	}
	nop_flush(&world, &nop);
	EXPECT(nop_wait(&nop, 1000));
	sim_node_kill(node(0), SIM_DEATH_POWER);
	for (unsigned i = 0; i < NWORLD_DISKS; i++)
		sim_disk_power_loss(world.disks[i]);
	EXPECT_EQ(1, world.nodes[0].died);
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_until_live(&world, 1, 10000));
	for (unsigned i = 0; i < 8; i++)
		EXPECT_EQ(200 + i, nworld_read(&world, i));
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* A kill closes nothing properly and leaks nothing. */
static void a_kill_leaves_nothing_behind(void)
{
	struct sim_process *processes[2];
	static struct nop nop;

	cluster_open(NULL);
	nop_write(&world, &nop, 1, 11);
	EXPECT(nop_wait(&nop, 1000));
	for (unsigned i = 0; i < 2; i++) {
		processes[i] = sim_node_process(node(i));
		EXPECT(sim_process_allocations(processes[i]) > 0);
		sim_node_kill(node(i), SIM_DEATH_KILLED);
		EXPECT(!sim_process_is_alive(processes[i]));
		EXPECT_EQ(0, sim_process_allocations(processes[i]));
	}
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* ---- fencing --------------------------------------------------------------------------------- */

static const struct sim_disk_options slow = {
	.delay_max_us = 20, .spike_one_in = 2, .spike_max_us = 100000, .cancel_deaf_one_in = 1};

static unsigned landings_after(uint64_t at_ns, const struct sim_process *writer)
{
	unsigned count = 0;

	for (unsigned i = 0; i < world.landing_count; i++)
		count += world.landings[i].at_ns > at_ns && world.landings[i].writer == writer;
	return count;
}

/* The member freezes with writes in flight; the host completes them through the other member. */
static void a_member_that_stands_still_is_fenced(void)
{
	static struct nop nops[8];
	struct sim_process *frozen;
	uint64_t done_ns;

	cluster_open(&slow);
	frozen = sim_node_process(node(0));
	for (unsigned i = 0; i < 8; i++)
		nop_write(&world, &nops[i], i, 300 + i);
	nworld_run_ms(&world, 1);
	sim_node_freeze(node(0), sim_now(world.sim) + 60 * NS_PER_S);
	for (unsigned i = 0; i < 8; i++)
		EXPECT(nop_wait(&nops[i], 10000));
	done_ns = sim_now(world.sim);
	EXPECT_EQ(1, world.nodes[0].died);
	EXPECT_EQ(SIM_DEATH_KILLED, world.nodes[0].how);
	EXPECT_EQ(1, sim_posix_kills());
	EXPECT(nworld_path(&world, 0).fences_by_reset > 0);
	EXPECT_EQ(0, nworld_path(&world, 0).fences_by_time);
	/* Newer values, which no older write may overwrite. */
	for (unsigned i = 0; i < 8; i++) {
		nop_write(&world, &nops[i], i, 400 + i);
		EXPECT(nop_wait(&nops[i], 10000));
	}
	nworld_run_ms(&world, 70000);
	EXPECT_EQ(0, landings_after(done_ns, frozen));
	for (unsigned i = 0; i < 8; i++)
		EXPECT_EQ(400 + i, nworld_block_value(&world, i));
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_until_live(&world, 2, 10000));
	EXPECT(nworld_until_peers(&world, 5000));
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* The control reactor is busy, as with thousands of namespaces or a store sync of seconds. The
 * member must still carry out resets and must not be killed. */
static void a_member_whose_control_is_busy_resets(void)
{
	static struct nop nops[8];

	cluster_open(&slow);
	sim_node_freeze_control(node(0), sim_now(world.sim) + 60 * NS_PER_S);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 8; i++)
			nop_write(&world, &nops[i], i, 300 + 10 * round + i);
		nworld_run_ms(&world, 1);
		sim_net_cut(world.sim, &world.nodes[0].addr);
		for (unsigned i = 0; i < 8; i++)
			EXPECT(nop_wait(&nops[i], 10000));
		EXPECT(nworld_until_live(&world, 2, 10000));
	}
	EXPECT(nworld_path(&world, 0).fences_by_reset > 0);
	EXPECT_EQ(0, nworld_path(&world, 0).fences_by_time);
	EXPECT_EQ(0, world.nodes[0].died);
	EXPECT_EQ(0, sim_posix_kills());
	/* The asking member's control reactor is busy: it must still ask. */
	sim_node_freeze_control(node(1), sim_now(world.sim) + 60 * NS_PER_S);
	for (unsigned i = 0; i < 8; i++)
		nop_write(&world, &nops[i], i, 400 + i);
	nworld_run_ms(&world, 1);
	sim_net_cut(world.sim, &world.nodes[0].addr);
	for (unsigned i = 0; i < 8; i++)
		EXPECT(nop_wait(&nops[i], 10000));
	EXPECT_EQ(0, nworld_path(&world, 0).fences_by_time);
	for (unsigned i = 0; i < 8; i++)
		EXPECT_EQ(400 + i, nworld_block_value(&world, i));
	nworld_run_ms(&world, 70000);
	EXPECT_EQ(0, sim_posix_kills());
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* Its control reactor answers, but commands in one stuck reactor may land at any time. */
static void a_member_with_a_stuck_reactor_is_fenced(void)
{
	static struct nop nops[8];
	struct sim_process *stuck;
	uint64_t done_ns;

	cluster_open(&slow);
	stuck = sim_node_process(node(0));
	for (unsigned i = 0; i < 8; i++)
		nop_write(&world, &nops[i], i, 300 + i);
	nworld_run_ms(&world, 1);
	sim_node_freeze_reactor(node(0), 0, sim_now(world.sim) + 60 * NS_PER_S);
	for (unsigned i = 0; i < 8; i++)
		EXPECT(nop_wait(&nops[i], 10000));
	done_ns = sim_now(world.sim);
	EXPECT_EQ(1, world.nodes[0].died);
	EXPECT_EQ(1, sim_posix_kills());
	EXPECT_EQ(0, sim_posix_live_kills());
	EXPECT_EQ(0, nworld_path(&world, 0).fences_by_time);
	nworld_run_ms(&world, 70000);
	EXPECT_EQ(0, landings_after(done_ns, stuck));
	EXPECT_EQ(0, nworld_destroy(&world));
}

static bool is_over_all(struct nworld *unused, void *arg)
{
	const struct nop *nops = arg;

	for (unsigned i = 0; i < 8; i++)
		if (!nops[i].is_done)
			return false;
	return true;
}

/* The member was killed, and one of its writes does not end: the fence fails and is released. When
 * the member is back, it must be asked for resets again and carry them out. */
static void a_fence_that_failed_is_over(void)
{
	static const struct sim_disk_options stalled = {.delay_max_us = 20,
							.spike_one_in = 1,
							.spike_max_us = 20000000,
							.cancel_deaf_one_in = 1};
	static struct nop nops[8];
	uint64_t by_reset;

	cluster_open(&stalled);
	for (unsigned i = 0; i < 8; i++)
		nop_write(&world, &nops[i], i, 300 + i);
	nworld_run_ms(&world, 1);
	sim_node_freeze(node(0), sim_now(world.sim) + 300 * NS_PER_S);
	nworld_run_ms(&world, 12000);
	EXPECT_EQ(1, sim_posix_kills());
	EXPECT(!is_over_all(&world, nops));
	EXPECT_EQ(0, sim_disk_fence_take(world.disks[0]));
	sim_disk_fence_drop(world.disks[0]);
	sim_disk_heal(world.disks[0]);
	EXPECT(nworld_until(&world, is_over_all, nops, 300000));
	EXPECT_EQ(0, nworld_path(&world, 0).fences_by_reset);
	EXPECT(nworld_path(&world, 0).fences_by_time > 0);
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_until_live(&world, 2, 60000));
	EXPECT(nworld_until_peers(&world, 5000));
	by_reset = nworld_path(&world, 0).fences_by_reset;
	for (unsigned i = 0; i < 8; i++)
		nop_write(&world, &nops[i], i, 400 + i);
	sim_net_cut(world.sim, &world.nodes[0].addr);
	EXPECT(nworld_until(&world, is_over_all, nops, 5000));
	EXPECT(nworld_path(&world, 0).fences_by_reset > by_reset);
	EXPECT_EQ(1, sim_posix_kills());
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* The last reset that a member could not carry out, as read by the host. */
static struct log_ctrl_reset_entry failed_entry;

void __real_log_ctrl_reset_entry_decode(const uint8_t *page, uint32_t index,
					struct log_ctrl_reset_entry *ret_entry);
void __wrap_log_ctrl_reset_entry_decode(const uint8_t *page, uint32_t index,
					struct log_ctrl_reset_entry *ret_entry);

void __wrap_log_ctrl_reset_entry_decode(const uint8_t *page, uint32_t index,
					struct log_ctrl_reset_entry *ret_entry)
{
	__real_log_ctrl_reset_entry_decode(page, index, ret_entry);
	if (ret_entry->state == LOG_CTRL_RESET_FAILED)
		failed_entry = *ret_entry;
}

/* The member answers, but its reset cannot end: the medium keeps a write of the controller. After
 * half a minute the asking member must report to the host that the reset failed, not that the host
 * has no right to it. */
static void a_member_that_works_on_a_reset_for_long_has_failed(void)
{
	static const struct sim_disk_options stalled = {.delay_max_us = 20,
							.spike_one_in = 1,
							.spike_max_us = 2000000000,
							.cancel_deaf_one_in = 1};
	static struct nop write, log;
	struct log_ctrl_reset_entry entry;
	unsigned at;

	memset(&failed_entry, 0, sizeof(failed_entry));
	cluster_open(&stalled);
	nop_write(&world, &write, 1, 300);
	nworld_run_ms(&world, 1);
	sim_disk_heal(world.disks[0]); /* only this write stays in the medium */
	at = nworld_path(&world, 0).in_flight > 0 ? 0 : 1;
	EXPECT_EQ(1, nworld_path(&world, at).in_flight);
	sim_net_cut(world.sim, &world.nodes[at].addr);
	nworld_run_ms(&world, 29000);
	EXPECT_EQ(LOG_CTRL_RESET_IN_PROGRESS, failed_entry.state);
	nworld_run_ms(&world, 3000);
	EXPECT_EQ(0, sim_posix_kills());
	/* The host has read the entry, or reads it now from the remaining member. */
	sim_node_kill(node(at), SIM_DEATH_KILLED);
	nworld_run_ms(&world, 1000);
	nop_log(&world, &log, LOG_CTRL_RESET);
	EXPECT(nop_wait(&log, 10000));
	for (uint32_t i = 0; i < log_ctrl_reset_count(log.data, sizeof(log.data)); i++)
		log_ctrl_reset_entry_decode(log.data, i, &entry);
	EXPECT_EQ(LOG_CTRL_RESET_FAILED, failed_entry.state);
	EXPECT(failed_entry.is_validated);
	EXPECT(nop_wait(&write, 10000));
	nworld_run_ms(&world, 2000000); /* the medium ends the write */
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* ---- the same again -------------------------------------------------------------------------- */

static uint64_t eventful_run(void)
{
	static struct nop nop;
	uint64_t hash = 0;

	cluster_open(&slow);
	for (unsigned i = 0; i < 10; i++) {
		nop_write(&world, &nop, i, 500 + i);
		if (i == 5)
			sim_node_kill(node(0), SIM_DEATH_KILLED);
		EXPECT(nop_wait(&nop, 20000));
		hash = hash * 31 + sim_now(world.sim);
	}
	hash = hash * 31 + sim_net_bytes(world.sim);
	EXPECT_EQ(0, nworld_destroy(&world));
	return hash;
}

static void the_same_seed_gives_the_same_run(void)
{
	uint64_t first = eventful_run();

	EXPECT(first == eventful_run());
}

int main(void)
{
	const char *trace = getenv("TRACE");

	log_set_level(trace != NULL && trace[0] == '1' ? LOG_LEVEL_DEBUG : LOG_LEVEL_OFF);
	TAP_RUN(a_kill_at_any_operation_keeps_what_was_told);
	TAP_RUN(a_power_loss_at_any_operation_keeps_what_was_told);
	TAP_RUN(a_refused_change_does_not_come_back);
	TAP_RUN(a_death_during_the_start_does_no_harm);
	TAP_RUN(a_death_during_the_end_does_no_harm);
	TAP_RUN(flushed_data_survives_a_power_loss);
	TAP_RUN(a_kill_leaves_nothing_behind);
	TAP_RUN(a_member_that_stands_still_is_fenced);
	TAP_RUN(a_member_whose_control_is_busy_resets);
	TAP_RUN(a_member_with_a_stuck_reactor_is_fenced);
	TAP_RUN(a_fence_that_failed_is_over);
	TAP_RUN(a_member_that_works_on_a_reset_for_long_has_failed);
	TAP_RUN(the_same_seed_gives_the_same_run);
	return tap_end();
}

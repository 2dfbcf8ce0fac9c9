/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rare orders of events: a path is removed while its controller is being lost, the path that was
 * asked for a reset is lost before the answer, fences follow each other on one path. Every command
 * must end, and no write may land after a newer one. The real target, on the simulated reactor.
 */
#include "../unit/tap.h"
#include "mpath_world.h"

#include "base/clock.h"
#include "base/log.h"
#include "host/mpath_internal.h"

#include <stdlib.h>

#define BLOCK 5

static struct mworld world;
static const struct sim_options orderly = {.is_orderly = true};

static struct probe *probe(void)
{
	return world.ns[0].probe;
}

static void world_open(uint64_t seed, unsigned paths)
{
	mworld_create(&world, seed, paths, &orderly);
	mworld_connect(&world);
	EXPECT(mworld_until_live(&world, paths, 1000));
}

static bool has_begun(struct mworld *unused, void *arg)
{
	return probe()->writes_begun >= *(unsigned *)arg;
}

static unsigned path_of(const struct mop *mop)
{
	unsigned path = 0;

	while (path < world.port_count && mop->io.path != world.mpath->paths[path])
		path++;
	return path;
}

/* Sends a write that takes delay_ms in the medium; waits until it is there. Returns its path. */
static unsigned write_slowly(struct mop *mop, uint64_t value, uint64_t delay_ms)
{
	unsigned begun = probe()->writes_begun + 1;

	probe()->next_delay_ns = delay_ms * NS_PER_MS;
	mop_write(&world, mop, BLOCK, value);
	EXPECT(mworld_until(&world, has_begun, &begun, 1000));
	return path_of(mop);
}

static void path_remove(unsigned path)
{
	sim_enter(world.reactor);
	EXPECT_EQ(0, mpath_remove_path(world.mpath, &world.path_addrs[path]));
	sim_leave(world.reactor);
}

/* ---- a path that is taken away ----------------------------------------------------------------
 */

/* The removed path waits for its last command, but its controller is lost. */
static void a_removed_path_is_lost_with_a_write(bool is_silent)
{
	struct mop mop = {0};
	uint64_t landed_ns;
	unsigned path;

	world_open(is_silent ? 41 : 40, 2);
	path = write_slowly(&mop, 3, 60000);
	path_remove(path);
	mworld_run_ms(&world, 5);
	EXPECT_EQ(2, mpath_path_count(world.mpath));
	if (is_silent)
		sim_net_partition(world.sim, &world.addrs[path], true);
	else
		sim_net_cut(world.sim, &world.addrs[path]);
	EXPECT(mworld_until_done(&mop, 20000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(1, probe_landed(probe(), 3, &landed_ns));
	mworld_run_ms(&world, 100);
	EXPECT_EQ(1, mpath_path_count(world.mpath));
	if (is_silent)
		sim_net_partition(world.sim, &world.addrs[path], false);
	EXPECT_EQ(0, mworld_destroy(&world));
}

static void a_removed_path_is_cut(void)
{
	a_removed_path_is_lost_with_a_write(false);
}

static void a_removed_path_falls_silent(void)
{
	a_removed_path_is_lost_with_a_write(true);
}

/* The only path is removed with a write in flight, and another path is added later. */
static void the_last_path_is_removed_and_another_comes(void)
{
	struct mop mop = {0};

	world_open(42, 1);
	(void)write_slowly(&mop, 4, 60000);
	path_remove(0);
	sim_net_cut(world.sim, &world.addrs[0]);
	mworld_run_ms(&world, 50);
	EXPECT(!mop.is_done);
	EXPECT_EQ(0, mpath_path_count(world.mpath));
	sim_enter(world.reactor);
	EXPECT_EQ(0, mpath_add_path(world.mpath, &world.path_addrs[0]));
	sim_leave(world.reactor);
	EXPECT(mworld_until_done(&mop, 20000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(4, probe_value(probe(), BLOCK));
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* Without any path commands wait, as they do while all paths are lost. */
static void a_command_waits_for_a_path_to_be_added(void)
{
	struct mop mop = {0};

	world_open(47, 1);
	path_remove(0);
	mworld_run_ms(&world, 100);
	EXPECT_EQ(0, mpath_path_count(world.mpath));
	mop_write(&world, &mop, BLOCK, 9);
	mworld_run_ms(&world, 1000);
	EXPECT(!mop.is_done);
	sim_enter(world.reactor);
	EXPECT_EQ(0, mpath_add_path(world.mpath, &world.path_addrs[0]));
	sim_leave(world.reactor);
	EXPECT(mworld_until_done(&mop, 5000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* ---- the path that was asked ------------------------------------------------------------------
 */

/* The medium ignores cancellations, so the reset takes long. The path that was asked is lost before
 * it can report the end. The third path is asked while the first reset is in progress. It must
 * report the end too, so that the host need not wait for the time rule. */
static void the_asked_path_is_lost_before_the_end(void)
{
	struct mop mop = {0};
	struct path *lost;
	uint64_t landed_ns, first_ns;
	unsigned path, asked;

	world_open(43, 3);
	probe()->is_deaf = true;
	path = write_slowly(&mop, 6, 700);
	lost = mop.io.path;
	sim_net_partition(world.sim, &world.addrs[path], true);
	sim_net_cut(world.sim, &world.addrs[path]);
	/* The path is asked and answers that the end will be in its log. */
	mworld_run_ms(&world, 200);
	asked = path == 0 ? 1 : 0;
	sim_net_partition(world.sim, &world.addrs[asked], true);
	sim_net_cut(world.sim, &world.addrs[asked]);
	EXPECT(mworld_until_done(&mop, 20000));
	EXPECT_EQ(MPATH_OK, mop.io.result);
	EXPECT_EQ(2, probe_landed(probe(), 6, &landed_ns));
	first_ns = probe()->landings[probe()->landing_count - 2].at_ns;
	EXPECT(first_ns < landed_ns);
	EXPECT(landed_ns - first_ns < 150 * NS_PER_MS);
	EXPECT_EQ(1, lost->fences_by_reset);
	EXPECT_EQ(0, lost->fences_by_time);
	sim_net_partition(world.sim, NULL, false);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* ---- again and again --------------------------------------------------------------------------
 */

/* One path is lost with a write in the medium more often than there are uniquifiers (CIU: one
 * byte). */
static void uniquifiers_go_round(void)
{
	struct mop mop = {0};

	world_open(44, 1);
	for (unsigned i = 0; i < 600; i++) {
		(void)write_slowly(&mop, 1000 + i, 60000);
		sim_net_cut(world.sim, NULL);
		EXPECT(mworld_until_done(&mop, 20000));
		EXPECT_EQ(MPATH_OK, mop.io.result);
		EXPECT_EQ(1000 + i, probe_value(probe(), BLOCK));
	}
	EXPECT_EQ(600, mworld_info(&world, 0).losses);
	EXPECT_EQ(0, mworld_info(&world, 0).fences_by_time);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* The namespace is removed while the write waits: the write ends, but only after its fence is
 * clear. */
static void the_namespace_goes_during_a_fence(void)
{
	struct mop mop = {0};

	world_open(45, 2);
	probe()->is_deaf = true;
	sim_net_partition(world.sim, &world.addrs[write_slowly(&mop, 7, 600)], true);
	mworld_run_ms(&world, 450);
	EXPECT(!mop.is_done);
	world.ns[0].is_absent = true;
	mworld_apply(&world);
	mworld_run_ms(&world, 1000);
	/* The lost path's controller may still have the write. */
	EXPECT(!mop.is_done);
	sim_net_partition(world.sim, NULL, false);
	EXPECT(mworld_until_done(&mop, 20000));
	EXPECT_EQ(MPATH_GONE, mop.io.result);
	EXPECT_EQ(0, mworld_destroy(&world));
}

/* ---- news while a path is set up --------------------------------------------------------------
 */

/* ANA states change at every moment of the set-up: a live path must have its namespaces. */
static void a_notice_comes_during_the_set_up(void)
{
	for (unsigned steps = 0; steps < 300; steps++) {
		mworld_create(&world, 48, 1, &orderly);
		mworld_open(&world);
		for (unsigned i = 0; i < steps; i++)
			sim_step(world.sim);
		world.ana[0][0] = ANA_NON_OPTIMIZED;
		sim_enter(world.control);
		mworld_apply_start(&world);
		sim_leave(world.control);
		EXPECT(mworld_until_live(&world, 1, 1000));
		for (uint32_t nsid = 1; nsid <= MWORLD_NS; nsid++)
			EXPECT(mpath_ns_find(world.mpath, nsid) != NULL);
		mworld_run_ms(&world, 50);
		EXPECT_EQ(ANA_NON_OPTIMIZED, mpath_path_ana(world.mpath, 0, 1));
		EXPECT_EQ(0, mworld_destroy(&world));
	}
}

/* ---- bits that change on the wire -------------------------------------------------------------
 */

#define C2H_DATA       0x07
#define DATA_AT        32 /* after the header and its digest */
#define IDENTIFY_PAGES 12 /* more than a path's set-up reads */

struct flip {
	unsigned wanted; /* index of the page to damage */
	unsigned pages;
};

static void on_bytes(void *arg, int fd, uint64_t offset, uint8_t *bytes, size_t len_bytes)
{
	struct flip *flip = arg;

	if (len_bytes < NVME_PAGE_BYTES || bytes[0] != C2H_DATA || ++flip->pages != flip->wanted)
		return;
	bytes[DATA_AT + 100] ^= 0x10;
}

/* Damages each Identify answer in turn: the digest detects it, and the page is read again. */
static void a_spoilt_page_hides_no_namespace(void)
{
	for (unsigned i = 1; i <= IDENTIFY_PAGES; i++) {
		struct flip flip = {.wanted = i};
		struct mop mop = {0};

		mworld_create(&world, 46, 1, &orderly);
		world.config.wants_header_digest = true;
		world.config.wants_data_digest = true;
		sim_net_set_tap(world.sim, on_bytes, &flip);
		mworld_open(&world);
		EXPECT(mworld_until_live(&world, 1, 10000));
		EXPECT(flip.pages >= 4);
		for (uint32_t nsid = 1; nsid <= MWORLD_NS; nsid++)
			EXPECT(mpath_ns_find(world.mpath, nsid) != NULL);
		mop_write(&world, &mop, BLOCK, 8);
		EXPECT(mworld_until_done(&mop, 10000));
		EXPECT_EQ(MPATH_OK, mop.io.result);
		EXPECT_EQ(8, probe_value(probe(), BLOCK));
		sim_net_set_tap(world.sim, NULL, NULL);
		EXPECT_EQ(0, mworld_destroy(&world));
	}
}

int main(void)
{
	const char *trace = getenv("TRACE");

	log_set_level(trace != NULL && trace[0] == '1' ? LOG_LEVEL_DEBUG : LOG_LEVEL_OFF);
	TAP_RUN(a_removed_path_is_cut);
	TAP_RUN(a_removed_path_falls_silent);
	TAP_RUN(the_last_path_is_removed_and_another_comes);
	TAP_RUN(a_command_waits_for_a_path_to_be_added);
	TAP_RUN(the_asked_path_is_lost_before_the_end);
	TAP_RUN(uniquifiers_go_round);
	TAP_RUN(the_namespace_goes_during_a_fence);
	TAP_RUN(a_notice_comes_during_the_set_up);
	TAP_RUN(a_spoilt_page_hides_no_namespace);
	return tap_end();
}

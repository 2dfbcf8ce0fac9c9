/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multipath against two scripted controllers on the simulated reactor: the meaning of each status,
 * long logs, the course of a Cross-Controller Reset; a controller that lies fails only its own
 * path.
 */
#include "liar_world.h"

/* ---- statuses ---------------------------------------------------------------------------------
 */

static void statuses_that_pass_are_waited_for(void)
{
	static const nvme_status statuses[] = {
		NVME_SC_NS_NOT_READY,        NVME_SC_DATA_TRANSFER_ERROR,
		NVME_SC_POWER_LOSS,          NVME_SC_INTERNAL,
		NVME_SC_ABORT_REQUESTED,     NVME_SC_ABORT_SQ_DELETION,
		NVME_SC_COMMAND_INTERRUPTED, NVME_SC_TRANSIENT_TRANSPORT,
	};
	struct lio lio;

	world_create(1);
	world_connect();
	for (unsigned i = 0; i < ARRAY_LEN(statuses); i++) {
		status_both(statuses[i], 1);
		lio_submit(&lio, true);
		run_ms(200);
		EXPECT(lio.is_done);
		EXPECT_EQ(MPATH_OK, lio.io.result);
		EXPECT(lio.io.attempts == 2 || lio.io.attempts == 3);
	}
	/* Retries are limited. */
	status_both(NVME_SC_INTERNAL, 1000);
	lio_submit(&lio, true);
	run_ms(3000);
	EXPECT(lio.is_done);
	EXPECT_EQ(MPATH_STATUS, lio.io.result);
	EXPECT_EQ(6, lio.io.attempts);
	status_both(NVME_SC_INTERNAL, 0);
	world_destroy();
}

static void do_not_retry_is_obeyed(void)
{
	static const nvme_status statuses[] = {NVME_SC_INTERNAL, NVME_SC_COMMAND_INTERRUPTED,
					       NVME_SC_INTERNAL_PATH_ERROR, NVME_SC_WRITE_FAULT};
	struct lio lio;

	world_create(2);
	world_connect();
	for (unsigned i = 0; i < ARRAY_LEN(statuses); i++) {
		status_both(nvme_status_dnr(statuses[i]), 1);
		lio_submit(&lio, true);
		run_ms(5);
		EXPECT(lio.is_done);
		EXPECT_EQ(MPATH_STATUS, lio.io.result);
		EXPECT_EQ(1, lio.io.attempts);
		EXPECT(nvme_status_same(lio.io.status, statuses[i]));
		status_both(NVME_SC_SUCCESS, 0);
	}
	/* Invalid Field may mean that the namespace was removed: the host checks that first. */
	personas[0].ios = personas[1].ios = 0;
	status_both(nvme_status_dnr(NVME_SC_INVALID_FIELD), 1);
	lio_submit(&lio, true);
	run_ms(400);
	EXPECT(lio.is_done);
	EXPECT_EQ(MPATH_STATUS, lio.io.result);
	EXPECT(nvme_status_same(lio.io.status, NVME_SC_INVALID_FIELD));
	EXPECT_EQ(1, lio.io.attempts);
	EXPECT_EQ(1, personas[0].ios + personas[1].ios);
	/* Statuses without a rule go to the caller too. */
	status_both(NVME_SC_WRITE_FAULT, 1);
	lio_submit(&lio, true);
	run_ms(5);
	EXPECT(lio.is_done);
	EXPECT_EQ(1, lio.io.attempts);
	status_both(NVME_SC_SUCCESS, 0);
	world_destroy();
}

static void delays_of_the_controller_are_obeyed(void)
{
	struct lio lio;
	uint64_t begin_ns;

	world_create(3);
	world_connect();
	/* Only hosts that enabled them (ACRE) get delays. */
	EXPECT_EQ(1, personas[0].behaviors_set);
	EXPECT_EQ(1, personas[1].behaviors_set);
	/* CRD 2 selects CRDT2. */
	status_both((nvme_status){(uint16_t)(NVME_SC_COMMAND_INTERRUPTED.value | 2u << 11)}, 1);
	begin_ns = sim_now(sim);
	lio_submit(&lio, true);
	run_ms(690);
	EXPECT(!lio.is_done);
	EXPECT_EQ(1, personas[0].ios + personas[1].ios);
	run_ms(800);
	EXPECT(lio.is_done);
	EXPECT_EQ(MPATH_OK, lio.io.result);
	EXPECT(lio.done_ns - begin_ns >= 700 * NS_PER_MS);
	status_both(NVME_SC_SUCCESS, 0);
	world_destroy();
}

/* One path fails for a reason of its own: the other path is used at once. */
static void path_errors_send_a_command_elsewhere(void)
{
	static const nvme_status statuses[] = {
		NVME_SC_INTERNAL_PATH_ERROR, NVME_SC_ANA_INACCESSIBLE,
		NVME_SC_ANA_PERSISTENT_LOSS, NVME_SC_ANA_TRANSITION,
		NVME_SC_HOST_PATHING_ERROR,  NVME_SC_HOST_ABORTED,
		NVME_STATUS(3, 0x60),
	};
	struct lio lios[4];

	for (unsigned has_ana = 0; has_ana < 2; has_ana++) {
		world_create(4);
		personas[0].has_ana = personas[1].has_ana = has_ana;
		world_connect();
		for (unsigned i = 0; i < ARRAY_LEN(statuses); i++) {
			personas[0].status = statuses[i];
			personas[0].status_count = 1000;
			for (unsigned k = 0; k < ARRAY_LEN(lios); k++)
				lio_submit(&lios[k], true);
			run_ms(5);
			for (unsigned k = 0; k < ARRAY_LEN(lios); k++) {
				EXPECT(lios[k].is_done);
				EXPECT_EQ(MPATH_OK, lios[k].io.result);
			}
			personas[0].status_count = 0;
			/* The next read of the ANA log finds the path usable. */
			run_ms(300);
			EXPECT_EQ(ANA_OPTIMIZED, mpath_path_ana(mpath, 0, 1));
		}
		EXPECT_EQ(0, mpath->paths[0]->losses);
		world_destroy();
	}
}

static void a_line_that_spoils_data_is_not_tried_twice(void)
{
	static const nvme_status statuses[] = {NVME_SC_TRANSIENT_TRANSPORT,
					       NVME_SC_DATA_TRANSFER_ERROR};
	struct lio lio;

	world_create(20);
	config.policy = PATH_POLICY_NUMA; /* prefers one path as long as it works */
	world_connect();
	for (unsigned i = 0; i < 2 * ARRAY_LEN(statuses); i++) {
		personas[0].ios = personas[1].ios = 0;
		personas[0].status = statuses[i / 2];
		personas[0].status_count = 1000;
		lio_submit(&lio, i % 2 == 1);
		run_ms(1000);
		EXPECT(lio.is_done);
		EXPECT_EQ(MPATH_OK, lio.io.result);
		EXPECT_EQ(2, lio.io.attempts);
		EXPECT_EQ(1, personas[0].ios);
		EXPECT_EQ(1, personas[1].ios);
	}
	personas[0].status_count = 0;
	world_destroy();
}

/* Both paths refuse the command, and both ANA logs report that they are usable. */
static void a_contradiction_ends(void)
{
	struct lio lio;

	world_create(5);
	personas[0].has_ana = personas[1].has_ana = true;
	world_connect();
	status_both(NVME_SC_ANA_INACCESSIBLE, 100000);
	lio_submit(&lio, true);
	run_ms(10000);
	EXPECT(lio.is_done);
	EXPECT_EQ(MPATH_STATUS, lio.io.result);
	EXPECT(personas[0].ios + personas[1].ios < 50);
	status_both(NVME_SC_SUCCESS, 0);
	world_destroy();
}

/* ---- lies -------------------------------------------------------------------------------------
 */

/* Path 1 is not used; path 0 works. */
static void expect_only_first(const char *words)
{
	struct lio lio;

	for (unsigned i = 0; i < 4; i++) {
		lio_submit(&lio, true);
		run_ms(5);
		EXPECT(lio.is_done);
		EXPECT_EQ(MPATH_OK, lio.io.result);
	}
	EXPECT_EQ(0, personas[1].ios);
	EXPECT(!mpath->paths[1]->is_usable);
	EXPECT(strstr(said, words) != NULL);
	EXPECT(strstr(mpath->paths[1]->last_error, words) != NULL);
}

static void a_controller_of_another_subsystem_is_not_used(void)
{
	world_create(6);
	personas[1].nqn = "nqn.2026-11.io.weft:other";
	world_connect();
	expect_only_first("not " NQN);
	/* The path is used once it has the right NQN. */
	personas[1].nqn = NQN;
	run_ms(500);
	EXPECT(mpath->paths[1]->is_usable);
	world_destroy();
}

static void path_remove(unsigned index)
{
	const struct host_addr addr = {.net = personas[index].fake->listener.addr};

	sim_enter(reactor);
	CHECK(mpath_remove_path(mpath, &addr) == 0);
	sim_leave(reactor);
}

/* Only the second path is left; it is new, and its questions about the namespace are refused for
 * now. */
static void world_connect_unsure(uint64_t seed, unsigned looks_refused)
{
	struct host_addr addr = {.transport = NULL};

	world_create(seed);
	world_connect();
	path_remove(1);
	run_ms(100);
	personas[1].look_status = NVME_SC_TRANSIENT_TRANSPORT;
	personas[1].looks_refused = looks_refused;
	personas[1].looks = 0;
	path_remove(0);
	addr.net = personas[1].fake->listener.addr;
	sim_enter(reactor);
	CHECK(mpath_add_path(mpath, &addr) == 0);
	sim_leave(reactor);
	run_ms(50);
	EXPECT_EQ(1, mpath_path_count(mpath));
	EXPECT(mpath->paths[0]->is_usable);
}

static void a_namespace_that_cannot_be_asked_about_is_not_gone(void)
{
	struct lio lio;

	world_connect_unsure(21, 4);
	lio_submit(&lio, true);
	EXPECT(!mpath_ns_find(mpath, 1)->is_gone);
	run_ms(20);
	EXPECT(!lio.is_done);
	run_ms(200);
	EXPECT(lio.is_done);
	EXPECT_EQ(MPATH_OK, lio.io.result);
	world_destroy();
}

static void a_namespace_is_not_asked_about_all_the_time(void)
{
	struct lio lio;

	world_connect_unsure(22, 100000);
	lio_submit(&lio, true);
	run_ms(30000);
	EXPECT(!lio.is_done);
	/* Four commands each time: at once, then after 100 ms, 200 ms and so on, at last every 12.8
	 * s. */
	EXPECT(personas[1].looks >= 4 * 8 && personas[1].looks <= 4 * 10);
	personas[1].looks_refused = 0;
	run_ms(13000);
	EXPECT(lio.is_done);
	EXPECT_EQ(MPATH_OK, lio.io.result);
	world_destroy();
}

static void namespaces_have_changed(unsigned index)
{
	struct fake *fake = personas[index].fake;

	CHECK(fake->has_event);
	fake->has_event = false;
	sim_enter(fake->reactor);
	fake_respond(fake->event_conn, fake->event_cid, NVME_SC_SUCCESS,
		     ASYNC_TYPE_NOTICE | ASYNC_NOTICE_NS_ATTRIBUTE << 8 | LOG_CHANGED_NS << 16);
	sim_leave(fake->reactor);
	run_ms(50);
}

/* The controller does not report damaged entries again, but sends notices only after its log was
 * read. */
static void a_list_of_changes_that_was_spoilt_is_read_again(void)
{
	world_create(24);
	world_connect();
	personas[0].looks = 0;
	namespaces_have_changed(0);
	EXPECT_EQ(1, personas[0].changed_reads);
	EXPECT_EQ(0, personas[0].looks); /* the list is empty */
	personas[0].changed_refused = 2;
	namespaces_have_changed(0);
	EXPECT_EQ(4, personas[0].changed_reads);
	EXPECT_EQ(1, personas[0].looks);
	personas[0].changed_refused = 1000;
	namespaces_have_changed(0);
	EXPECT_EQ(8, personas[0].changed_reads);
	EXPECT_EQ(2, personas[0].looks);
	/* The line works again, without a notice of it. */
	personas[0].changed_refused = 0;
	run_ms(1000);
	EXPECT_EQ(9, personas[0].changed_reads);
	EXPECT(mpath->paths[0]->is_usable);
	world_destroy();
}

/* The path was lost, and is back with another namespace under the same NSID. */
static void what_cannot_be_asked_about_is_not_written_to(void)
{
	struct lio lio;

	world_create(23);
	world_connect();
	path_remove(1);
	run_ms(100);
	personas[0].ns_name = "another namespace";
	personas[0].look_status = NVME_SC_INTERNAL;
	personas[0].looks_refused = 4;
	personas[0].ios = 0;
	EXPECT(sim_net_cut(sim, &personas[0].fake->listener.addr) > 0);
	run_ms(1);
	lio_submit(&lio, true);
	run_ms(500);
	EXPECT_EQ(0, personas[0].looks_refused);
	EXPECT(lio.is_done);
	EXPECT_EQ(MPATH_STALE, lio.io.result);
	EXPECT_EQ(0, personas[0].ios);
	world_destroy();
}

static void a_list_out_of_order_is_not_believed(void)
{
	world_create(7);
	memcpy(personas[1].nsids, (uint32_t[4]){5, 3, 1, 0}, sizeof(personas[1].nsids));
	world_connect();
	expect_only_first("list of namespaces");
	world_destroy();
}

static void an_ana_log_that_is_too_long_is_not_believed(void)
{
	world_create(8);
	personas[1].has_ana = true;
	personas[1].group_count = 4;
	personas[1].log_group_count = 5;
	world_connect();
	expect_only_first("ANA log");
	world_destroy();
}

static void a_long_ana_log_is_read_in_pieces(void)
{
	world_create(9);
	personas[1].has_ana = true;
	personas[1].group_count = personas[1].log_group_count = GROUPS_MANY;
	personas[1].state = ANA_NON_OPTIMIZED;
	personas[1].change_count = 1;
	world_connect();
	EXPECT(mpath->paths[1]->is_usable);
	EXPECT_EQ(ANA_NON_OPTIMIZED, mpath_path_ana(mpath, 1, 1));
	/* Four pieces, and one more read of the header. */
	EXPECT_EQ(5, personas[1].ana_reads);
	world_destroy();
}

static void a_log_that_moves_while_it_is_read_is_read_again(void)
{
	world_create(10);
	personas[1].has_ana = true;
	personas[1].group_count = personas[1].log_group_count = GROUPS_MANY;
	personas[1].moves = 2;
	world_connect();
	EXPECT(mpath->paths[1]->is_usable);
	EXPECT_EQ(10, personas[1].ana_reads);
	world_destroy();
	/* Repeats are limited. */
	world_create(11);
	personas[1].has_ana = true;
	personas[1].group_count = personas[1].log_group_count = GROUPS_MANY;
	personas[1].moves = 1000000;
	world_connect();
	EXPECT(mpath->paths[1]->is_usable);
	EXPECT(personas[1].ana_reads < 100);
	world_destroy();
}

static void a_log_that_grows_while_it_is_read_is_read_again(void)
{
	world_create(20);
	personas[1].has_ana = true;
	personas[1].group_count = GROUPS_MANY;
	personas[1].log_group_count = GROUPS_MANY - 3;
	personas[1].state = ANA_NON_OPTIMIZED;
	personas[1].grows = 3;
	world_connect();
	EXPECT(mpath->paths[1]->is_usable);
	EXPECT_EQ(0, mpath->paths[1]->losses);
	EXPECT_EQ(GROUPS_MANY, mpath->paths[1]->ana.group_count);
	EXPECT_EQ(ANA_NON_OPTIMIZED, mpath_path_ana(mpath, 1, 1));
	world_destroy();
	/* A log that hides its size: groups that were never read must not be invented. */
	world_create(21);
	personas[1].has_ana = true;
	personas[1].group_count = GROUPS_MANY;
	personas[1].log_group_count = GROUPS_MANY / 2;
	personas[1].grows = 100000;
	personas[1].is_count_hidden = true;
	world_connect();
	expect_only_first("ANA log");
	world_destroy();
}

/* The host drops the liar's path while it has a write, which the liar may still run. */
static void what_a_liar_was_given_is_fenced(void)
{
	struct lio hung, failed;
	uint64_t begin_ns;

	world_create(18);
	personas[0].has_ana = personas[1].has_ana = true;
	personas[1].state = ANA_NON_OPTIMIZED;
	world_connect();
	personas[0].hangs = 1;
	lio_submit(&hung, true);
	run_ms(2);
	EXPECT_EQ(1, personas[0].ios);
	personas[0].status = NVME_SC_ANA_INACCESSIBLE;
	personas[0].status_count = 1;
	personas[0].log_group_count = 2;
	begin_ns = sim_now(sim);
	lio_submit(&failed, true);
	run_ms(500);
	EXPECT(failed.is_done);
	EXPECT_EQ(1, mpath->paths[0]->losses);
	EXPECT(strstr(said, "ANA log") != NULL);
	EXPECT(!hung.is_done);
	run_ms(2000);
	EXPECT(hung.is_done);
	EXPECT_EQ(MPATH_OK, hung.io.result);
	EXPECT(hung.done_ns - begin_ns >= LOST_BY_TIME_MS * NS_PER_MS);
	EXPECT_EQ(1, mpath->paths[0]->fences_by_time);
	world_destroy();
}

/* ---- Cross-Controller Reset -------------------------------------------------------------------
 */

/* A write hangs on path 0, which is then cut. Returns the time from the cut to the write's end. */
static uint64_t lost_write_ms(void)
{
	struct lio lio;
	uint64_t begin_ns;

	personas[0].reset_limit = personas[1].reset_limit = 4;
	world_connect();
	run_ms(200);
	personas[1].has_ana = false;
	personas[0].fake->lie = LIE_NONE;
	mpath_ns_find(mpath, 1)->on[1].is_avoided = true;
	sim_enter(reactor);
	ns_recompute(mpath_ns_find(mpath, 1));
	sim_leave(reactor);
	personas[0].status_count = 0;
	/* No answer of the fake arrives from here on. */
	sim_net_partition(sim, &personas[0].fake->listener.addr, true);
	lio_submit(&lio, true);
	run_ms(5);
	EXPECT(!lio.is_done);
	mpath_ns_find(mpath, 1)->on[1].is_avoided = false;
	sim_net_cut(sim, &personas[0].fake->listener.addr);
	begin_ns = sim_now(sim);
	run_ms(10000);
	EXPECT(lio.is_done);
	EXPECT_EQ(MPATH_OK, lio.io.result);
	EXPECT_EQ(2, lio.io.attempts);
	sim_net_partition(sim, &personas[0].fake->listener.addr, false);
	return (lio.done_ns - begin_ns) / NS_PER_MS;
}

static void an_immediate_reset_is_enough(void)
{
	world_create(12);
	personas[1].is_reset_immediate = true;
	EXPECT(lost_write_ms() < 20);
	EXPECT_EQ(1, personas[1].resets);
	EXPECT_EQ(1, mpath->paths[0]->fences_by_reset);
	world_destroy();
}

static void a_reset_that_takes_its_time_is_polled_for(void)
{
	uint64_t took_ms;

	world_create(13);
	personas[1].reset_state = LOG_CTRL_RESET_SUCCESS;
	personas[1].polls_until_state = 3;
	took_ms = lost_write_ms();
	EXPECT(took_ms >= 150 && took_ms < 300);
	EXPECT_EQ(1, mpath->paths[0]->fences_by_reset);
	world_destroy();
}

static void a_busy_controller_is_asked_again(void)
{
	uint64_t took_ms;

	world_create(14);
	personas[1].is_reset_immediate = true;
	personas[1].resets_refused = 3;
	personas[1].reset_status = NVME_SC_CTRL_RESET_LIMIT;
	took_ms = lost_write_ms();
	EXPECT(took_ms >= 150 && took_ms < 300);
	EXPECT_EQ(4, personas[1].resets);
	world_destroy();
}

static void a_reset_that_fails_is_no_reset(void)
{
	world_create(15);
	personas[1].reset_state = LOG_CTRL_RESET_FAILED;
	EXPECT(lost_write_ms() >= LOST_BY_TIME_MS);
	EXPECT_EQ(1, personas[1].resets);
	EXPECT_EQ(0, mpath->paths[0]->fences_by_reset);
	EXPECT_EQ(1, mpath->paths[0]->fences_by_time);
	world_destroy();
}

static void a_reset_that_is_refused_is_no_reset(void)
{
	world_create(16);
	personas[1].resets_refused = 100;
	personas[1].reset_status = NVME_SC_INVALID_FIELD;
	EXPECT(lost_write_ms() >= LOST_BY_TIME_MS);
	EXPECT_EQ(1, personas[1].resets);
	EXPECT_EQ(1, mpath->paths[0]->fences_by_time);
	world_destroy();
}

static void a_reset_without_end_is_no_reset(void)
{
	world_create(17);
	personas[1].polls_until_state = 100000;
	EXPECT(lost_write_ms() >= LOST_BY_TIME_MS);
	EXPECT_EQ(0, mpath->paths[0]->fences_by_reset);
	EXPECT_EQ(1, mpath->paths[0]->fences_by_time);
	world_destroy();
}

/* The other controller would confirm that it has no such controller. */
static void one_with_other_namespaces_is_not_asked(void)
{
	struct lio lio;
	uint64_t begin_ns;

	world_create(19);
	personas[1].ns_name = "another namespace";
	personas[1].is_reset_immediate = true;
	personas[0].reset_limit = personas[1].reset_limit = 4;
	/* Nor is path 0 believed when it reconnects and does not know its former controller. */
	personas[0].resets_refused = 100;
	personas[0].reset_status = NVME_SC_INVALID_FIELD;
	/* The path that connects second is the stranger. */
	sim_net_partition(sim, &personas[1].fake->listener.addr, true);
	world_connect();
	sim_net_partition(sim, &personas[1].fake->listener.addr, false);
	run_ms(1500);
	EXPECT(mpath->paths[1]->is_usable);
	EXPECT_EQ(1, mpath->paths[1]->other_count);
	personas[0].hangs = 1;
	lio_submit(&lio, true);
	run_ms(2);
	EXPECT_EQ(1, personas[0].ios);
	sim_net_cut(sim, &personas[0].fake->listener.addr);
	begin_ns = sim_now(sim);
	run_ms(3000);
	EXPECT(lio.is_done);
	EXPECT_EQ(MPATH_OK, lio.io.result);
	EXPECT(lio.done_ns - begin_ns >= LOST_BY_TIME_MS * NS_PER_MS);
	EXPECT_EQ(0, personas[1].resets);
	EXPECT_EQ(0, mpath->paths[0]->fences_by_reset);
	EXPECT_EQ(1, mpath->paths[0]->fences_by_time);
	world_destroy();
}

int main(void)
{
	const char *trace = getenv("TRACE");

	log_set_level(trace != NULL && trace[0] == '1' ? LOG_LEVEL_DEBUG : LOG_LEVEL_OFF);
	TAP_RUN(statuses_that_pass_are_waited_for);
	TAP_RUN(do_not_retry_is_obeyed);
	TAP_RUN(delays_of_the_controller_are_obeyed);
	TAP_RUN(path_errors_send_a_command_elsewhere);
	TAP_RUN(a_line_that_spoils_data_is_not_tried_twice);
	TAP_RUN(a_contradiction_ends);
	TAP_RUN(a_controller_of_another_subsystem_is_not_used);
	TAP_RUN(a_namespace_that_cannot_be_asked_about_is_not_gone);
	TAP_RUN(a_namespace_is_not_asked_about_all_the_time);
	TAP_RUN(what_cannot_be_asked_about_is_not_written_to);
	TAP_RUN(a_list_of_changes_that_was_spoilt_is_read_again);
	TAP_RUN(a_list_out_of_order_is_not_believed);
	TAP_RUN(an_ana_log_that_is_too_long_is_not_believed);
	TAP_RUN(a_long_ana_log_is_read_in_pieces);
	TAP_RUN(a_log_that_moves_while_it_is_read_is_read_again);
	TAP_RUN(a_log_that_grows_while_it_is_read_is_read_again);
	TAP_RUN(what_a_liar_was_given_is_fenced);
	TAP_RUN(an_immediate_reset_is_enough);
	TAP_RUN(a_reset_that_takes_its_time_is_polled_for);
	TAP_RUN(a_busy_controller_is_asked_again);
	TAP_RUN(a_reset_that_fails_is_no_reset);
	TAP_RUN(a_reset_that_is_refused_is_no_reset);
	TAP_RUN(a_reset_without_end_is_no_reset);
	TAP_RUN(one_with_other_namespaces_is_not_asked);
	return tap_end();
}

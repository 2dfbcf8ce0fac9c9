/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The multipath host against scripted controllers of one subsystem, on the simulated reactor: its
 * reaction to answers that weft's own target seldom or never gives. Cross-Controller Resets that
 * fail, fused pairs whose second half is lost, namespaces renamed or removed while they are read,
 * ANA logs read in pieces, endless refusals, and the times of losses. Base 2.3, Rapid Path Failure
 * Recovery; Base 2.1, section 8.1.1.
 */
#include "script_world.h"

#include <stdio.h>
#include <unistd.h>

/* ---- Cross-Controller Reset ------------------------------------------------------------------ */

static void victim_hangs_up(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	actor_hang_up(fc->fake);
}

static unsigned resets_asked(void)
{
	unsigned resets = 0;

	for (unsigned i = 0; i < world.actor_count; i++)
		resets += world.actors[i].resets;
	return resets;
}

static bool is_reset_not_asked(void *arg)
{
	return resets_asked() == 0;
}

/* Sends a write and loses its controller. */
static void lose_a_write(struct script_io *op)
{
	world.victim_opcode = NVME_IO_WRITE;
	world.on_victim = victim_hangs_up;
	io_start(op, true, false);
}

static void failed_reset_is_asked_for_elsewhere(void)
{
	struct script_io op;
	unsigned by_reset = 0;
	char waits[64];

	script_world_create(1, 3);
	for (unsigned i = 0; i < 3; i++) {
		world.actors[i].reset_count = 1;
		world.actors[i].reset_state = LOG_CTRL_RESET_IN_PROGRESS;
	}
	world.listens_for = "wait for its reset through";
	if (script_world_connect()) {
		lose_a_write(&op);
		EXPECT(sim_run_while(world.sim, is_reset_not_asked, NULL, 2 * NS_PER_S));
		snprintf(waits, sizeof(waits), "writes of controller %u wait",
			 world.victim->fake->cntlid);
		EXPECT_THAT(strstr(world.said, waits), "said: %s", world.said);
		run_ms(1000);
		/* One controller was asked, accepted, and is in progress. */
		EXPECT_EQ(1, resets_asked());
		EXPECT(!op.is_done);
		for (unsigned i = 0; i < 3; i++) {
			world.actors[i].reset_state = LOG_CTRL_RESET_FAILED;
			world.actors[i].resets_at_once = true;
		}
		EXPECT(io_ends_within(&op, 2000));
		EXPECT_EQ(2, resets_asked());
		EXPECT_EQ(0, world.victim->resets);
		for (unsigned i = 0; i < 3; i++) {
			EXPECT(world.actors[i].resets <= 1);
			by_reset += info_of(i).fences_by_reset > 0;
		}
		EXPECT_EQ(1, by_reset);
		EXPECT_EQ(MPATH_OK, op.io.result);
	}
	script_world_destroy();
}

/* No other controller can reset the only one: its writes wait for its return or the time. */
static void writes_without_a_reset_wait_for_the_time(void)
{
	struct script_io op;

	script_world_create(6, 1);
	world.listens_for = "or for a path that can reset it";
	if (script_world_connect()) {
		lose_a_write(&op);
		EXPECT(!io_ends_within(&op, 1000));
		EXPECT_THAT(strstr(world.said, "writes of controller 10 wait "), "said: %s",
			    world.said);
		EXPECT_EQ(0, resets_asked());
		EXPECT(io_ends_within(&op, 4 * KATO_MS));
	}
	script_world_destroy();
}

static void entries_behind_the_log_do_not_count(void)
{
	struct script_io op;

	script_world_create(2, 2);
	for (unsigned i = 0; i < 2; i++)
		world.actors[i].reset_state = LOG_CTRL_RESET_SUCCESS;
	if (script_world_connect()) {
		lose_a_write(&op);
		EXPECT(sim_run_while(world.sim, is_reset_not_asked, NULL, 2 * NS_PER_S));
		/* The log has no entry; the bytes behind its end look like one. */
		EXPECT(!io_ends_within(&op, 2000));
		for (unsigned i = 0; i < 2; i++)
			world.actors[i].reset_count = 1;
		EXPECT(io_ends_within(&op, 2000));
		EXPECT_EQ(MPATH_OK, op.io.result);
		EXPECT_EQ(1, resets_asked());
	}
	script_world_destroy();
}

/* ---- fused pairs ----------------------------------------------------------------------------- */

static void victim_answers_the_first_alone(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	fake_respond(fc, le16_get(sqe->cid), nvme_status_dnr(NVME_SC_COMPARE_FAILED), 0);
	actor_hang_up(fc->fake);
}

static void failed_compare_counts_without_its_write(void)
{
	struct script_io op;

	script_world_create(3, 2);
	if (script_world_connect()) {
		world.victim_opcode = NVME_IO_COMPARE;
		world.on_victim = victim_answers_the_first_alone;
		io_start(&op, true, true);
		/* A failed Compare proves that the Write did not run: no fence, no second
		 * attempt. */
		EXPECT(io_ends_within(&op, 2000));
		EXPECT_EQ(MPATH_STATUS, op.io.result);
		EXPECT(nvme_status_same(op.io.status, NVME_SC_COMPARE_FAILED));
		EXPECT_EQ(1, op.io.attempts);
		EXPECT_EQ(0, world.actors[0].fake->writes + world.actors[1].fake->writes);
		EXPECT_EQ(0, resets_asked());
	}
	script_world_destroy();
}

/* ---- namespaces ------------------------------------------------------------------------------ */

static bool victim_loses_its_namespace;

static void victim_says_invalid_field(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	world.victim->lacks_ns = victim_loses_its_namespace;
	fake_respond(fc, le16_get(sqe->cid), nvme_status_dnr(NVME_SC_INVALID_FIELD), 0);
}

static void invalid_field_of_a_namespace(bool is_removed, uint64_t seed)
{
	struct script_io op;

	script_world_create(seed, 2);
	victim_loses_its_namespace = is_removed;
	if (script_world_connect()) {
		world.victim_opcode = NVME_IO_READ;
		world.on_victim = victim_says_invalid_field;
		io_start(&op, false, false);
		EXPECT(io_ends_within(&op, 5000));
		EXPECT_EQ(is_removed ? MPATH_OK : MPATH_STATUS, op.io.result);
		EXPECT_EQ(is_removed ? 2 : 1, op.io.attempts);
		if (!is_removed)
			EXPECT(nvme_status_same(op.io.status, NVME_SC_INVALID_FIELD));
	}
	script_world_destroy();
}

static void invalid_field_stands_where_the_namespace_is(void)
{
	invalid_field_of_a_namespace(false, 4);
}

static void invalid_field_of_a_removed_namespace_goes_elsewhere(void)
{
	invalid_field_of_a_namespace(true, 5);
}

static void victim_interrupts_and_goes(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	fake_respond(fc, le16_get(sqe->cid), NVME_SC_COMMAND_INTERRUPTED, 0);
	actor_hang_up(fc->fake);
	world.is_mute = true;
}

/* A part of the write may have been done before the controller interrupted it. When no path is left
 * to send the write again, the host must not report that the write has not run. */
static void interrupted_write_without_a_path_is_unknown(void)
{
	struct script_io op;

	script_world_create(22, 1);
	world.config.timeouts.fast_io_fail_ms = 300;
	if (script_world_connect()) {
		world.victim_opcode = NVME_IO_WRITE;
		world.on_victim = victim_interrupts_and_goes;
		io_start(&op, true, false);
		EXPECT(io_ends_within(&op, 5000));
		EXPECT_EQ(MPATH_UNKNOWN, op.io.result);
	}
	script_world_destroy();
}

/* As during a Format. The path is lost before its list can be read. */
static void victim_refuses_and_hangs_up(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	fake_respond(fc, le16_get(sqe->cid), NVME_SC_INVALID_NS, 0);
	actor_hang_up(fc->fake);
}

static bool is_nothing_said(void *arg)
{
	return world.said[0] == '\0';
}

/* What a path reported of its namespace is valid until its list differs, also while the path is
 * away: meanwhile a wrong machine must not get the NSID. */
static void refused_command_is_no_word_of_its_path(void)
{
	struct host_addr addr = {.transport = NULL};
	struct mpath_ns *handle;
	struct script_io op;

	script_world_create(21, 2);
	world.actor_count = 1; /* the second controller is not known yet */
	world.actors[1].ns.uuid = (struct uuid){{8, 8}};
	world.config.timeouts.reconnect_min_ms = 2000;
	world.listens_for = "another UUID, NGUID or EUI64";
	if (script_world_connect()) {
		handle = mpath_ns_find(world.mpath, 1);
		world.victim_opcode = NVME_IO_READ;
		world.on_victim = victim_refuses_and_hangs_up;
		io_start(&op, false, false);
		run_ms(100);
		EXPECT(world.victim == &world.actors[0] && info_of(0).state != PATH_LIVE);
		world.actor_count = 2;
		sim_enter(world.reactor);
		addr.net = world.actors[1].fake->listener.addr;
		EXPECT_EQ(0, mpath_add_path(world.mpath, &addr));
		sim_leave(world.reactor);
		EXPECT(sim_run_while(world.sim, is_nothing_said, NULL, NS_PER_S));
		EXPECT(info_of(0).state != PATH_LIVE && !op.is_done);
		EXPECT(io_ends_within(&op, 5000));
		EXPECT_EQ(MPATH_OK, op.io.result);
		EXPECT_EQ(2, op.io.attempts);
		EXPECT_EQ(2, world.io_commands);
		EXPECT_EQ(handle, mpath_ns_find(world.mpath, 1));
	}
	script_world_destroy();
}

static void victim_says_invalid_ns(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	fake_respond(fc, le16_get(sqe->cid), NVME_SC_INVALID_NS, 0);
}

/* After a refusal the listed namespace may be the former one or another. Its identifier decides.
 * Without an identifier no command for the former one is sent to it. */
static void refused_command_of_a_namespace(bool has_uuid, uint64_t seed)
{
	struct mpath_ns *handle;
	struct script_io op;

	script_world_create(seed, 1);
	if (!has_uuid)
		world.actors[0].ns.uuid = (struct uuid){{0}};
	if (script_world_connect()) {
		handle = mpath_ns_find(world.mpath, 1);
		world.victim_opcode = NVME_IO_WRITE;
		world.on_victim = victim_says_invalid_ns;
		io_start(&op, true, false);
		EXPECT(io_ends_within(&op, 5000));
		EXPECT_EQ(has_uuid ? MPATH_OK : MPATH_STALE, op.io.result);
		EXPECT_EQ(has_uuid ? 2 : 1, world.io_commands);
		EXPECT_EQ(has_uuid, mpath_ns_find(world.mpath, 1) == handle);
	}
	script_world_destroy();
}

static void refused_command_waits_for_the_word_of_the_list(void)
{
	refused_command_of_a_namespace(true, 22);
}

static void refused_command_without_identifiers_is_stale(void)
{
	refused_command_of_a_namespace(false, 23);
}

static void namespaces_are_told_apart_by_nguid(void)
{
	static const struct {
		uint8_t a[16], b[16];
		bool is_same;
	} rows[] = {
		{{1, 2}, {1, 2}, true},  {{1, 2}, {1, 3}, false}, {{0xaa}, {0xab}, false},
		{{0, 0, 1}, {0}, false}, {{0}, {1}, false},       {{0}, {0}, true},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		script_world_create(10 + i, 2);
		for (unsigned k = 0; k < 2; k++)
			world.actors[k].ns.uuid = (struct uuid){{0}};
		memcpy(world.actors[0].ns.nguid, rows[i].a, 16);
		memcpy(world.actors[1].ns.nguid, rows[i].b, 16);
		world.listens_for = "another UUID, NGUID or EUI64";
		if (script_world_connect() && rows[i].is_same != (world.said[0] == '\0')) {
			printf("# row %u: said \"%s\"\n", i, world.said);
			EXPECT(!"NGUIDs are compared");
		}
		script_world_destroy();
	}
}

static bool is_ns_gone(void *arg)
{
	struct ns_info info;

	sim_enter(world.reactor);
	mpath_ns_info(mpath_ns_find(world.mpath, 1), &info);
	sim_leave(world.reactor);
	return info.is_gone;
}

/* No event arrives: a command whose namespace is stale makes the paths read it again. */
static void replacement_seen_by_another_reactor_is_looked_for(void)
{
	struct join_ctrl there = {0};
	struct join_ns *joined = NULL;
	struct join_sight sight = {.nsid = 1};
	char why[JOIN_WHY_BYTES];
	struct host_addr addr = {.transport = NULL};
	struct script_io op;
	unsigned looks;

	script_world_create(20, 1);
	world.config.join = join_create();
	if (script_world_connect()) {
		sight.identity = &world.actors[0].ns;
		looks = world.actors[0].looks;
		world.actors[0].ns.uuid = (struct uuid){{8, 8}};
		addr.net = world.actors[0].fake->listener.addr;
		CHECK(join_ctrl_add(world.config.join, &there, &addr) == 0);
		EXPECT_EQ(0, join_ns_see(world.config.join, &there, &sight, &joined, why));
		EXPECT(is_ns_gone(NULL));
		io_start(&op, false, false);
		EXPECT(io_ends_within(&op, 100));
		EXPECT_EQ(MPATH_STALE, op.io.result);
		EXPECT(sim_run_while(world.sim, is_ns_gone, NULL, 10 * NS_PER_S));
		EXPECT_EQ(looks + 1, world.actors[0].looks);
		join_ctrl_remove(world.config.join, &there);
	}
	script_world_destroy();
	join_put(world.config.join);
}

/* Redirects standard error, and so the log, to a file. Returns the former descriptor. */
static int log_take(FILE *file)
{
	int before = dup(STDERR_FILENO);

	CHECK(file && before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
	log_set_level(LOG_LEVEL_WARN);
	return before;
}

/* Restores standard error. True when a line of the log contains the text. */
static bool log_end(FILE *file, int before, const char *text)
{
	char line[LOG_LINE_BYTES];
	bool is_found = false;

	log_set_level(LOG_LEVEL_OFF);
	CHECK(dup2(before, STDERR_FILENO) >= 0 && close(before) == 0);
	rewind(file);
	while (fgets(line, sizeof(line), file))
		is_found |= strstr(line, text) != NULL;
	fclose(file);
	return is_found;
}

static void refusals_of_a_look(void)
{
	static const struct {
		nvme_status status;
		bool is_final;
		unsigned refused, looks;
		bool is_there, is_there_later, is_told;
	} rows[] = {
		/* Removed since the list was read: no retry. */
		{NVME_SC_INVALID_NS, false, 1, 1, false, false, false},
		/* Temporary trouble of this path: an immediate retry does not help. */
		{NVME_SC_ANA_TRANSITION, false, 1, 1, false, true, false},
		/* Any other temporary status is retried at once, */
		{NVME_SC_INTERNAL, false, 1, 2, true, true, false},
		/* and later if that failed. */
		{NVME_SC_INTERNAL, false, 4, 4, false, true, true},
		{NVME_SC_INTERNAL, true, 1, 1, false, false, true},
		{NVME_SC_ANA_TRANSITION, true, 1, 1, false, false, true},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct actor *actor = &world.actors[0];
		FILE *file = tmpfile();
		int before = log_take(file);

		script_world_create(20 + i, 1);
		actor->look_status =
			rows[i].is_final ? nvme_status_dnr(rows[i].status) : rows[i].status;
		actor->looks_refused = rows[i].refused;
		if (script_world_connect()) {
			EXPECT_EQ(rows[i].looks, actor->looks);
			EXPECT_EQ(rows[i].is_there, mpath_ns_find(world.mpath, 1) != NULL);
			run_ms(3000);
			EXPECT_EQ(rows[i].is_there_later, mpath_ns_find(world.mpath, 1) != NULL);
		}
		script_world_destroy();
		EXPECT_THAT(log_end(file, before, "namespace 1 is left out: ") == rows[i].is_told,
			    "row %u: told", i);
	}
}

/* Bytes of LBA format 0: metadata, and the block size as a power of two. */
static void spoil_metadata(uint8_t cns, uint8_t *page)
{
	if (cns == IDENTIFY_NS)
		page[128] = 8;
}

static void spoil_block_size(uint8_t cns, uint8_t *page)
{
	if (cns == IDENTIFY_NS)
		page[130] = 0;
}

static void spoil_length(uint8_t cns, uint8_t *page)
{
	/* The last of these descriptors ends beyond the page. */
	if (cns == IDENTIFY_NS_DESCRIPTORS)
		memset(page, 0xff, NVME_PAGE_BYTES);
}

static void spoil_command_set(uint8_t cns, uint8_t *page)
{
	static const uint8_t zoned[] = {4, 1, 0, 0, NVME_CSI_ZNS};

	if (cns == IDENTIFY_NS_DESCRIPTORS)
		memcpy(page, zoned, sizeof(zoned));
}

/* The path stays in use for its other namespaces. */
static void namespaces_that_cannot_be_used_are_left_out(void)
{
	static const struct {
		void (*spoil)(uint8_t cns, uint8_t *page);
		const char *why;
	} rows[] = {
		{spoil_metadata, "left out: its blocks have metadata"},
		{spoil_block_size, "left out: its identity is invalid"},
		{spoil_length, "left out: its descriptors are invalid"},
		{spoil_command_set, "left out: the namespace has another command set"},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		FILE *file = tmpfile();
		int before = log_take(file);

		script_world_create(70 + i, 1);
		world.actors[0].spoil = rows[i].spoil;
		if (script_world_connect()) {
			EXPECT_EQ(1, world.actors[0].looks);
			EXPECT(mpath_ns_find(world.mpath, 1) == NULL);
		}
		script_world_destroy();
		EXPECT_THAT(log_end(file, before, rows[i].why), "told: %s", rows[i].why);
	}
}

/* ---- ANA ------------------------------------------------------------------------------------- */

static void ana_log_of_pieces(bool moves, unsigned reads)
{
	script_world_create(30 + moves, 1);
	world.actors[0].has_ana = true;
	world.actors[0].ana_count = 40;
	world.actors[0].moves_ana = moves;
	if (script_world_connect()) {
		EXPECT_EQ(reads, world.actors[0].ana_reads);
		EXPECT_EQ(ANA_OPTIMIZED, mpath_path_ana(world.mpath, 0, 1));
	}
	script_world_destroy();
}

static void ana_log_is_read_again_only_when_it_moved(void)
{
	/* Two pieces, and the header again. */
	ana_log_of_pieces(false, 3);
	ana_log_of_pieces(true, 6);
}

/* Identify is not read again: controllers report a move only by the event for the ANA log. */
static void a_move_to_another_group_is_learnt_from_the_log(void)
{
	struct script_io op;

	script_world_create(33, 1);
	world.actors[0].has_ana = true;
	world.actors[0].ns_group = 1;
	world.actors[0].barred_group = 7;
	if (script_world_connect()) {
		EXPECT_EQ(ANA_OPTIMIZED, mpath_path_ana(world.mpath, 0, 1));
		world.actors[0].ns_group = 7;
		actor_notify_ana(&world.actors[0]);
		run_ms(50);
		EXPECT_EQ(ANA_INACCESSIBLE, mpath_path_ana(world.mpath, 0, 1));
		io_start(&op, true, false);
		EXPECT(!io_ends_within(&op, 1000));
		EXPECT_EQ(0, world.io_commands);
		world.actors[0].ns_group = 9;
		actor_notify_ana(&world.actors[0]);
		EXPECT(io_ends_within(&op, 1000));
		EXPECT_EQ(MPATH_OK, op.io.result);
		/* The group that the namespace left no longer matters. */
		world.actors[0].barred_group = 1;
		actor_notify_ana(&world.actors[0]);
		run_ms(50);
		EXPECT_EQ(ANA_OPTIMIZED, mpath_path_ana(world.mpath, 0, 1));
		EXPECT_EQ(1, world.actors[0].looks);
	}
	script_world_destroy();
}

static void a_status_that_contradicts_the_log_has_it_read_again(void)
{
	struct script_io op;

	script_world_create(34, 2);
	for (unsigned i = 0; i < 2; i++) {
		world.actors[i].has_ana = true;
		world.actors[i].ns_group = 1;
	}
	world.actors[1].barred_group = 1;
	if (script_world_connect()) {
		/* No event: 3 is inaccessible on the first path, the former 1 on the second. */
		world.actors[0].ns_group = world.actors[1].ns_group = 3;
		world.actors[0].barred_group = 3;
		io_start(&op, true, false);
		run_ms(500);
		EXPECT_EQ(ANA_INACCESSIBLE, mpath_path_ana(world.mpath, 0, 1));
		actor_notify_ana(&world.actors[1]);
		EXPECT(io_ends_within(&op, 1000));
		EXPECT_EQ(MPATH_OK, op.io.result);
		EXPECT(info_of(1).commands > 0);
	}
	script_world_destroy();
}

static void lists_of_thousands_are_read_in_pieces(void)
{
	static const struct {
		uint32_t crowd;
		bool moves;
		unsigned reads;
	} rows[] = {
		/* 16 + 200 * 32 bytes, then 20000 more; the last list, known only from the last
		 * group; the header again at the end. */
		{0, false, 4},
		{CROWD_MAX, false, 9},
		{CROWD_MAX, true, 18},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		script_world_create(35 + i, 1);
		world.actors[0].has_ana = true;
		world.actors[0].ana_count = 5;
		world.actors[0].crowd = rows[i].crowd;
		world.actors[0].moves_ana = rows[i].moves;
		world.actors[0].ns_group = ANA_GROUPS;
		world.actors[0].barred_group = 1;
		if (script_world_connect()) {
			EXPECT_EQ(rows[i].reads, world.actors[0].ana_reads);
			EXPECT_EQ(ANA_OPTIMIZED, mpath_path_ana(world.mpath, 0, 1));
		}
		script_world_destroy();
	}
}

static void a_log_with_more_namespaces_than_can_be_is_not_believed(void)
{
	script_world_create(39, 1);
	world.actors[0].has_ana = true;
	world.actors[0].lists_too_many = true;
	CHECK(script_world_open() == 0);
	EXPECT(sim_run_while(world.sim, is_not_ready, NULL, 300 * NS_PER_S));
	EXPECT(world.ready_res != 0 && strstr(world.ready_error.text, "more namespaces") != NULL);
	script_world_destroy();
}

/* ---- endless refusals ------------------------------------------------------------------------ */

/* The controller refuses temporarily, and never stops. */
static void refused_read_ends(void)
{
	struct script_io op;

	script_world_create(49, 1);
	world.io_status = NVME_SC_NS_NOT_READY;
	if (script_world_connect()) {
		io_start(&op, false, false);
		EXPECT(io_ends_within(&op, 60000));
		EXPECT_EQ(MPATH_STATUS, op.io.result);
		EXPECT(nvme_status_same(op.io.status, NVME_SC_NS_NOT_READY));
		EXPECT_EQ(6, op.io.attempts); /* the first attempt and five retries */
		EXPECT_EQ(6, world.io_commands);
	}
	script_world_destroy();
}

static void refused_admin_command_ends(void)
{
	static const nvme_status statuses[] = {NVME_SC_ANA_TRANSITION, NVME_SC_NS_NOT_READY};

	for (unsigned i = 0; i < ARRAY_LEN(statuses); i++) {
		struct script_io op = {
			.io = {.sqe = {.opcode = NVME_ADMIN_GET_FEATURES}, .done = on_io_done}};

		script_world_create(50 + i, 1);
		world.actors[0].feature_status = statuses[i];
		if (script_world_connect()) {
			sim_enter(world.reactor);
			mpath_submit_admin(world.mpath, &op.io);
			sim_leave(world.reactor);
			EXPECT(io_ends_within(&op, 60000));
			EXPECT_EQ(MPATH_STATUS, op.io.result);
			EXPECT(nvme_status_same(op.io.status, statuses[i]));
			EXPECT_EQ(6, op.io.attempts);
			EXPECT_EQ(6, world.actors[0].feature_gets);
		}
		script_world_destroy();
	}
}

/* ---- time ------------------------------------------------------------------------------------ */

/* fast_io_fail_ms counts from the latest loss of the last path, not from an earlier one. */
static void every_loss_has_its_own_time(void)
{
	struct script_io op;

	script_world_create(60, 1);
	world.config.timeouts.fast_io_fail_ms = 1000;
	world.config.timeouts.reconnect_min_ms = 500;
	world.config.timeouts.reconnect_max_ms = 500;
	if (script_world_connect()) {
		for (unsigned i = 0; i < 2; i++) {
			run_ms(3000);
			sim_enter(world.actors[0].fake->reactor);
			actor_hang_up(world.actors[0].fake);
			sim_leave(world.actors[0].fake->reactor);
			run_ms(100);
			EXPECT_EQ(PATH_WAITING, info_of(0).state);
			io_start(&op, false, false);
			EXPECT(io_ends_within(&op, 2000));
			EXPECT_EQ(MPATH_OK, op.io.result);
		}
		/* The path does not return this time. */
		sim_net_partition(world.sim, NULL, true);
		sim_net_cut(world.sim, NULL);
		run_ms(100);
		io_start(&op, false, false);
		EXPECT(!io_ends_within(&op, 800));
		EXPECT(io_ends_within(&op, 200));
		EXPECT_EQ(MPATH_NO_PATH, op.io.result);
		sim_net_partition(world.sim, NULL, false);
	}
	script_world_destroy();
}

static void no_connect_time_is_ten_seconds(void)
{
	uint64_t start_ns;

	script_world_create(61, 1);
	world.config.timeouts.connect_ms = 0;
	world.is_mute = true;
	start_ns = sim_now(world.sim);
	CHECK(script_world_open() == 0);
	EXPECT(sim_run_while(world.sim, is_not_ready, NULL, 30 * NS_PER_S));
	EXPECT(sim_now(world.sim) - start_ns >= 10 * NS_PER_S);
	EXPECT(sim_now(world.sim) - start_ns < 12 * NS_PER_S);
	EXPECT_EQ(-ETIMEDOUT, world.ready_res);
	EXPECT_THAT(strstr(world.ready_error.text, "within 10000 ms"), "said: %s",
		    world.ready_error.text);
	script_world_destroy();
}

/* ---- configuration --------------------------------------------------------------------------- */

static void hedge_options_are_checked(void)
{
	static const struct {
		struct mpath_hedge hedge;
		int res;
	} rows[] = {
		{{.percentile = 9900, .extra_percent = 100}, 0},
		{{.percentile = 9900, .extra_percent = 101}, -EINVAL},
		{{.percentile = 9999}, 0},
		{{.percentile = 10000}, -EINVAL},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		script_world_create(40 + i, 1);
		world.config.hedge = rows[i].hedge;
		EXPECT_EQ(rows[i].res, script_world_open());
		script_world_destroy();
	}
}

/* The host refuses the controller, so no status of the controller is reported. */
static void controller_of_another_subsystem_is_refused(void)
{
	script_world_create(62, 1);
	snprintf(world.config.subsystem_nqn, sizeof(world.config.subsystem_nqn), "%s",
		 SUBSYSTEM "-2");
	CHECK(script_world_open() == 0);
	EXPECT(sim_run_while(world.sim, is_not_ready, NULL, 10 * NS_PER_S));
	EXPECT_EQ(-EPROTO, world.ready_res);
	EXPECT(nvme_status_is_ok(world.ready_error.status));
	EXPECT_STR("the controller is of subsystem " SUBSYSTEM ", not " SUBSYSTEM
		   "-2: check the address",
		   world.ready_error.text);
	script_world_destroy();
}

int main(void)
{
	log_set_level(LOG_LEVEL_OFF);
	TAP_RUN(failed_reset_is_asked_for_elsewhere);
	TAP_RUN(writes_without_a_reset_wait_for_the_time);
	TAP_RUN(entries_behind_the_log_do_not_count);
	TAP_RUN(failed_compare_counts_without_its_write);
	TAP_RUN(invalid_field_stands_where_the_namespace_is);
	TAP_RUN(invalid_field_of_a_removed_namespace_goes_elsewhere);
	TAP_RUN(interrupted_write_without_a_path_is_unknown);
	TAP_RUN(refused_command_is_no_word_of_its_path);
	TAP_RUN(refused_command_waits_for_the_word_of_the_list);
	TAP_RUN(refused_command_without_identifiers_is_stale);
	TAP_RUN(namespaces_are_told_apart_by_nguid);
	TAP_RUN(replacement_seen_by_another_reactor_is_looked_for);
	TAP_RUN(refusals_of_a_look);
	TAP_RUN(namespaces_that_cannot_be_used_are_left_out);
	TAP_RUN(ana_log_is_read_again_only_when_it_moved);
	TAP_RUN(a_move_to_another_group_is_learnt_from_the_log);
	TAP_RUN(a_status_that_contradicts_the_log_has_it_read_again);
	TAP_RUN(lists_of_thousands_are_read_in_pieces);
	TAP_RUN(a_log_with_more_namespaces_than_can_be_is_not_believed);
	TAP_RUN(refused_read_ends);
	TAP_RUN(refused_admin_command_ends);
	TAP_RUN(every_loss_has_its_own_time);
	TAP_RUN(no_connect_time_is_ten_seconds);
	TAP_RUN(controller_of_another_subsystem_is_refused);
	TAP_RUN(hedge_options_are_checked);
	return tap_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host side against a scripted controller on the simulated reactor. An honest controller is
 * used correctly. No lie of a dishonest one is believed, crashes the host or leaves a command
 * without its one completion. NVMe/TCP 1.1, sections 3.3 to 3.5; Base 2.1, sections 3.9 and 6.3.
 */
#include "host_world.h"

/* ---- the honest controller ------------------------------------------------------------------ */

static void connects_and_shuts_down(void)
{
	struct world *world = world_create(1);
	struct fake *fake = world->fake;

	world->config.io_queues = 4;
	world->config.io_queue_size = 500;
	world->config.kato_ms = 5000;
	if (world_connect_ok(world)) {
		EXPECT_EQ(FAKE_QUEUES_GIVEN, host_ctrl_io_queues(world->ctrl));
		EXPECT_EQ(63, host_ctrl_io_depth(world->ctrl));
		EXPECT_EQ(5, host_ctrl_cntlid(world->ctrl));
		EXPECT_STR("fake", host_ctrl_identity(world->ctrl)->model);
		EXPECT_EQ(1 + FAKE_QUEUES_GIVEN, fake->connects);
		EXPECT_EQ(5000, fake->kato_ms);
		EXPECT_EQ(1, fake->enables);
		sim_enter(world->reactor);
		host_disconnect(world->ctrl, on_gone, world);
		sim_leave(world->reactor);
		EXPECT(sim_run_while(world->sim, is_settling, world, NS_PER_S) == false ||
		       world->gone_count == 1);
		EXPECT_EQ(1, world->gone_count);
		EXPECT_EQ(1, fake->shutdowns);
	}
	world_destroy(world);
}

static void reads_and_writes(bool has_digests, bool has_success_flag)
{
	struct world *world = world_create(2);

	world->config.io_queues = 2;
	world->config.wants_header_digest = has_digests;
	world->config.wants_data_digest = has_digests;
	world->fake->lies_without_success_flag = !has_success_flag;
	if (world_connect_ok(world)) {
		/* More commands than the queues hold. */
		world_submit(world, CMDS, false, 8);
		world_drain(world);
		expect_status(world, CMDS, NVME_SC_SUCCESS);
		for (unsigned i = 0; i < CMDS; i++)
			EXPECT_EQ(0, memcmp(world->cmds[i].data,
					    world->fake->store + i * FAKE_BLOCK_BYTES,
					    8 * FAKE_BLOCK_BYTES));
		/* Writes in the capsule. */
		memset(world->cmds[3].data, 0xa5, CMD_BYTES);
		for (unsigned i = 0; i < CMDS; i++)
			world->cmds[i].done_count = 0;
		world_submit(world, 4, true, 1);
		world_drain(world);
		expect_status(world, 4, NVME_SC_SUCCESS);
		EXPECT_EQ(0, world->fake->h2c_pdus);
		EXPECT_EQ(0xa5, world->fake->store[3 * FAKE_BLOCK_BYTES + 511]);
		/* A write by R2T, in pieces of MAXH2CDATA. */
		memset(world->cmds[0].data, 0x5a, CMD_BYTES);
		world->cmds[0].done_count = 0;
		world_submit(world, 1, true, 32);
		world_drain(world);
		expect_status(world, 1, NVME_SC_SUCCESS);
		EXPECT_EQ(32 * FAKE_BLOCK_BYTES / FAKE_H2C_MAX, world->fake->h2c_pdus);
		EXPECT_EQ(0x5a, world->fake->store[32 * FAKE_BLOCK_BYTES - 1]);
		for (unsigned i = 0; i < CMDS; i++)
			world->cmds[i].done_count = 0;
	}
	world_destroy(world);
}

static void moves_data_both_ways(void)
{
	reads_and_writes(false, true);
	reads_and_writes(false, false);
	reads_and_writes(true, true);
}

static void status_of_the_controller_reaches_the_caller(void)
{
	struct world *world = world_create(3);

	world->fake->lie = LIE_IO_ERROR;
	if (world_connect_ok(world)) {
		world_submit(world, 3, false, 1);
		world_drain(world);
		expect_status(world, 3, NVME_SC_UNRECOVERED_READ);
		EXPECT_EQ(0, world->lost_count);
	}
	world_destroy(world);
}

static void keep_alive_is_sent_in_time(void)
{
	struct world *world = world_create(4);

	world->config.kato_ms = 1000;
	if (world_connect_ok(world)) {
		sim_run_until(world->sim, sim_now(world->sim) + 10 * NS_PER_S);
		EXPECT(world->fake->keep_alives >= 18);
		EXPECT(world->fake->longest_gap_ns < 1000 * NS_PER_MS);
		EXPECT_EQ(0, world->lost_count);
	}
	world_destroy(world);
}

static void traffic_replaces_keep_alive(void)
{
	struct world *world = world_create(5);

	world->config.kato_ms = 1000;
	world->fake->has_traffic_keep_alive = true;
	if (world_connect_ok(world)) {
		for (unsigned i = 0; i < 50; i++) {
			world->cmds[0].done_count = 0;
			world_submit(world, 1, false, 1);
			sim_run_until(world->sim, sim_now(world->sim) + 100 * NS_PER_MS);
		}
		EXPECT_EQ(0, world->fake->keep_alives);
		sim_run_until(world->sim, sim_now(world->sim) + 2 * NS_PER_S);
		EXPECT(world->fake->keep_alives >= 6);
		EXPECT(world->fake->longest_gap_ns < 1000 * NS_PER_MS);
	}
	world_destroy(world);
}

static void unanswered_keep_alive_loses_the_controller(void)
{
	struct world *world = world_create(6);

	world->config.kato_ms = 1000;
	world->config.command_timeout_ms = 60000;
	if (world_connect_ok(world)) {
		sim_net_partition(world->sim, NULL, true);
		EXPECT(sim_run_while(world->sim, is_not_lost, world, 10 * NS_PER_S));
		EXPECT_EQ(1, world->lost_count);
		EXPECT(strstr(world->error.text, "Keep Alive") != NULL);
		sim_net_partition(world->sim, NULL, false);
	}
	world_destroy(world);
}

static bool refuse_keep_alive(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	if (fc->qid != 0 || sqe->opcode != NVME_ADMIN_KEEP_ALIVE)
		return false;
	fake_respond(fc, le16_get(sqe->cid), NVME_SC_INTERNAL, 0);
	return true;
}

static void refused_keep_alive_loses_the_controller(void)
{
	struct world *world = world_create(16);

	world->config.kato_ms = 1000;
	world->fake->script = refuse_keep_alive;
	if (world_connect_ok(world)) {
		EXPECT(sim_run_while(world->sim, is_not_lost, world, 2 * NS_PER_S));
		EXPECT_EQ(1, world->lost_count);
		EXPECT(strstr(world->error.text, "Keep Alive failed") != NULL);
		/* A command after the loss completes; the loss is not reported again. */
		world_submit(world, 1, false, 1);
		world_drain(world);
		expect_status(world, 1, NVME_SC_HOST_PATHING_ERROR);
		EXPECT_EQ(1, world->lost_count);
	}
	world_destroy(world);
}

/* After a Keep Alive is sent, its answer has a third of silence_timeout_ms, also when the host
 * sends it late because its thread got no turn. */
static void late_question_has_time_for_its_answer(void)
{
	struct world *world = world_create(17);
	uint64_t start_ns;

	world->config.silence_timeout_ms = 3000;
	world->config.command_timeout_ms = 60000;
	world->fake->lie = LIE_SILENT;
	if (world_connect_ok(world)) {
		start_ns = sim_now(world->sim);
		world_submit(world, 1, false, 1);
		/* The first Keep Alive is sent after a second and answered at once. */
		sim_run_until(world->sim, start_ns + 1500 * NS_PER_MS);
		EXPECT_EQ(1, world->fake->keep_alives);
		sim_net_partition(world->sim, NULL, true);
		/* The host looks again after three seconds. */
		sim_freeze(world->reactor, start_ns + 3400 * NS_PER_MS);
		sim_run_until(world->sim, start_ns + 4390 * NS_PER_MS);
		EXPECT_EQ(0, world->lost_count);
		sim_run_until(world->sim, start_ns + 4450 * NS_PER_MS);
		EXPECT_EQ(1, world->lost_count);
		sim_net_partition(world->sim, NULL, false);
	}
	world_destroy(world);
}

static bool is_without_event(void *arg)
{
	return ((struct world *)arg)->event_count == 0;
}

static bool is_without_request(void *arg)
{
	return !((struct world *)arg)->fake->has_event;
}

static void events_are_delivered_and_asked_for_again(void)
{
	struct world *world = world_create(7);
	struct fake *fake = world->fake;
	struct async_event event = {ASYNC_TYPE_NOTICE, ASYNC_NOTICE_NS_ATTRIBUTE, 0x04};

	world->wants_events = true;
	if (world_connect_ok(world)) {
		EXPECT_EQ(ASYNC_MASK_NS_ATTRIBUTE, fake->event_mask);
		/* An event request may be pending for longer than any time-out. */
		sim_run_until(world->sim, sim_now(world->sim) + 10 * NS_PER_S);
		EXPECT_EQ(0, world->lost_count);
		EXPECT(sim_run_while(world->sim, is_without_request, world, NS_PER_S));
		sim_enter(fake->reactor);
		fake->has_event = false;
		fake_respond(fake->event_conn, fake->event_cid, NVME_SC_SUCCESS,
			     async_event_encode(&event));
		sim_leave(fake->reactor);
		EXPECT(sim_run_while(world->sim, is_without_event, world, NS_PER_S));
		EXPECT_EQ(0x04, world->event.log_id);
		EXPECT(sim_run_while(world->sim, is_without_request, world, NS_PER_S));
	}
	world_destroy(world);
}

/* ---- connections that fail ------------------------------------------------------------------ */

static void refusal_names_address_and_remedy(void)
{
	struct world *world = world_create(10);
	char addr[NET_ADDR_TEXT_BYTES];

	sim_enter(world->fake->reactor);
	reactor_listener_close(&world->fake->listener, fake_listener_closed);
	sim_leave(world->fake->reactor);
	sim_run_until(world->sim, sim_now(world->sim) + NS_PER_MS);
	world->fake->listener.fd = -1;
	world_connect(world);
	EXPECT_EQ(-ECONNREFUSED, world->result);
	EXPECT(strstr(world->error.text, "connection refused") != NULL);
	EXPECT(strstr(world->error.text, "weft serve") != NULL);
	EXPECT(strstr(world->error.text, net_addr_format(&world->config.addr.net, addr)) != NULL);
	world_destroy(world);
}

static void rejected_connect_names_status_and_place(void)
{
	static const enum fake_lie lies[] = {LIE_REJECT_CONNECT, LIE_REJECT_IO_CONNECT};

	for (unsigned i = 0; i < ARRAY_LEN(lies); i++) {
		struct world *world = world_create(11);

		world->fake->lie = lies[i];
		world_connect(world);
		EXPECT_EQ(-ECONNREFUSED, world->result);
		EXPECT_EQ(NVME_SC_CONNECT_INVALID_PARAM.value, world->error.status.value & 0x7ff);
		EXPECT(strstr(world->error.text, i == 0 ? "queue 0" : "queue 1") != NULL);
		EXPECT(strstr(world->error.text, "IPO 256") != NULL);
		EXPECT(strstr(world->error.text, "subsystem NQN") != NULL);
		EXPECT(strstr(world->error.text, nvme_status_name(NVME_SC_CONNECT_INVALID_PARAM)) !=
		       NULL);
		world_destroy(world);
	}
}

static void never_ready_ends_after_cap_to(void)
{
	struct world *world = world_create(12);
	uint64_t start_ns;

	start_ns = sim_now(world->sim);
	world->fake->lie = LIE_NEVER_READY;
	world_connect(world);
	EXPECT_EQ(-ETIMEDOUT, world->result);
	EXPECT(strstr(world->error.text, "CAP.TO") != NULL);
	EXPECT(sim_now(world->sim) - start_ns >= NS_PER_S);
	EXPECT(sim_now(world->sim) - start_ns < 2 * NS_PER_S);
	world_destroy(world);
}

static void silence_ends_after_the_connect_timeout(void)
{
	struct world *world = world_create(13);
	uint64_t start_ns = sim_now(world->sim);

	world->config.connect_timeout_ms = 700;
	sim_net_partition(world->sim, NULL, true);
	world_connect(world);
	EXPECT_EQ(-ETIMEDOUT, world->result);
	EXPECT(strstr(world->error.text, "no answer within 700 ms") != NULL);
	EXPECT(sim_now(world->sim) - start_ns < NS_PER_S);
	sim_net_partition(world->sim, NULL, false);
	world_destroy(world);
}

static void disconnect_while_connecting_only_says_gone(void)
{
	struct world *world = world_create(14);
	struct host_callbacks callbacks = {.connected = on_connected, .lost = on_lost};

	sim_enter(world->reactor);
	CHECK(host_connect(world->reactor, &world->config, &callbacks, world, &world->ctrl) == 0);
	sim_leave(world->reactor);
	for (unsigned i = 0; i < 12; i++)
		sim_step(world->sim);
	EXPECT_EQ(0, world->connected_count);
	world_destroy(world);
}

/* ---- lies ----------------------------------------------------------------------------------- */

static void lie_loses_the_controller(enum fake_lie lie, bool is_write, const char *text)
{
	for (uint64_t seed = 20; seed < 30; seed++) {
		struct world *world = world_create(seed);

		world->fake->lie = lie;
		if (world_connect_ok(world)) {
			world_submit(world, 1, is_write, 16);
			expect_loss(world, 1, text);
		}
		world_destroy(world);
	}
}

static void completion_of_a_wrong_cid_ends_the_path(void)
{
	lie_loses_the_controller(LIE_WRONG_CID, false, "not outstanding");
}

static void data_past_the_end_is_not_stored(void)
{
	struct world *world = world_create(20);

	world->fake->lie = LIE_DATA_PAST_END;
	memset(world->cmds[0].data, 0xee, CMD_BYTES);
	if (world_connect_ok(world)) {
		world_submit(world, 1, false, 16);
		expect_loss(world, 1, "beyond the end");
		EXPECT_EQ(0xee, world->cmds[0].data[16 * FAKE_BLOCK_BYTES]);
	}
	world_destroy(world);
	lie_loses_the_controller(LIE_DATA_PAST_END, false, "beyond the end");
}

static void r2t_beyond_the_write_ends_the_path(void)
{
	lie_loses_the_controller(LIE_R2T_BEYOND, true, "beyond the end");
}

static void second_r2t_ends_the_path(void)
{
	/* Both R2Ts must arrive in one piece: after the data of the first, the second is legal. */
	static const struct sim_options orderly = {.is_orderly = true};
	struct world *world = world_create_with(30, &orderly);

	world->fake->lie = LIE_SECOND_R2T;
	if (world_connect_ok(world)) {
		world_submit(world, 1, true, 16);
		expect_loss(world, 1, "MAXR2T");
	}
	world_destroy(world);
}

static void data_for_a_write_ends_the_path(void)
{
	lie_loses_the_controller(LIE_DATA_FOR_WRITE, true, "expects none");
}

static void term_req_ends_the_path(void)
{
	lie_loses_the_controller(LIE_TERM_REQ, false, "TermReq");
}

static void duplicate_completion_ends_the_path_but_completes_once(void)
{
	struct world *world = world_create(31);

	world->fake->lie = LIE_DUPLICATE;
	if (world_connect_ok(world)) {
		world_submit(world, 1, false, 4);
		EXPECT(sim_run_while(world->sim, is_not_lost, world, 10 * NS_PER_S));
		EXPECT_EQ(1, world->cmds[0].done_count);
		expect_status(world, 1, NVME_SC_SUCCESS);
		EXPECT_EQ(1, world->lost_count);
	}
	world_destroy(world);
}

static void success_with_short_data_is_not_believed(void)
{
	struct world *world = world_create(32);

	world->fake->lie = LIE_SHORT_DATA;
	if (world_connect_ok(world)) {
		world_submit(world, 2, false, 4);
		world_drain(world);
		expect_status(world, 2, NVME_SC_DATA_TRANSFER_ERROR);
	}
	world_destroy(world);
}

static void success_of_an_unread_write_is_not_believed(void)
{
	struct world *world = world_create(33);

	world->fake->lie = LIE_WRITE_UNREAD;
	if (world_connect_ok(world)) {
		world_submit(world, 2, true, 16);
		world_drain(world);
		expect_status(world, 2, NVME_SC_DATA_TRANSFER_ERROR);
	}
	world_destroy(world);
}

static void timeout_loses_the_controller(void)
{
	struct world *world = world_create(34);
	uint64_t start_ns;

	world->fake->lie = LIE_SILENT;
	if (world_connect_ok(world)) {
		start_ns = sim_now(world->sim);
		world_submit(world, CMDS, false, 1);
		expect_loss(world, CMDS, "was not answered");
		EXPECT(sim_now(world->sim) - start_ns >= 2 * NS_PER_S);
		EXPECT(sim_now(world->sim) - start_ns < 3 * NS_PER_S);
	}
	world_destroy(world);
}

/* Without pending commands no timer is set: events end. Then a command is watched as before. */
static void idle_controller_sets_no_timer(void)
{
	struct world *world = world_create(36);
	unsigned steps = 0;

	if (world_connect_ok(world)) {
		while (steps < 1000 && sim_step(world->sim))
			steps++;
		EXPECT(steps < 1000);
		world->fake->lie = LIE_SILENT;
		world_submit(world, CMDS, false, 1);
		expect_loss(world, CMDS, "was not answered");
	}
	world_destroy(world);
}

static void flip_tap(void *arg, int fd, uint64_t offset, uint8_t *bytes, size_t len_bytes)
{
	static const uint8_t marker[8] = {0xd1, 0x6e, 0x57, 0xd1, 0x6e, 0x57, 0xd1, 0x6e};
	uint8_t *found = memmem(bytes, len_bytes, marker, sizeof(marker));

	if (found != NULL)
		found[0] ^= 1;
}

static void data_digest_error_fails_only_its_command(void)
{
	static const uint8_t marker[8] = {0xd1, 0x6e, 0x57, 0xd1, 0x6e, 0x57, 0xd1, 0x6e};
	struct world *world = world_create(35);

	world->config.wants_data_digest = true;
	if (world_connect_ok(world)) {
		memcpy(world->fake->store + 100, marker, sizeof(marker));
		sim_net_set_tap(world->sim, flip_tap, NULL);
		world_submit(world, 4, false, 1);
		world_drain(world);
		EXPECT_EQ(NVME_SC_TRANSIENT_TRANSPORT.value, world->cmds[0].cmd.status.value);
		for (unsigned i = 1; i < 4; i++)
			EXPECT_EQ(0, world->cmds[i].cmd.status.value);
		EXPECT_EQ(0, world->lost_count);
	}
	world_destroy(world);
}

/* ---- resets --------------------------------------------------------------------------------- */

static void reset_completes_every_command_once(void)
{
	for (uint64_t seed = 40; seed < 80; seed++) {
		struct world *world = world_create(seed);

		world->config.io_queues = 2;
		world->fake->lie = seed % 2 ? LIE_NONE : LIE_SILENT;
		if (world_connect_ok(world)) {
			unsigned steps = (unsigned)prng_below(sim_prng(world->sim), 60);

			world_submit(world, CMDS, seed % 3 == 0, seed % 3 == 0 ? 32 : 16);
			while (steps-- > 0 && is_busy(world))
				sim_step(world->sim);
			sim_net_cut(world->sim, NULL);
			world_drain(world);
			EXPECT(sim_run_while(world->sim, is_not_lost, world, 10 * NS_PER_S));
			for (unsigned i = 0; i < CMDS; i++) {
				nvme_status status = world->cmds[i].cmd.status;

				EXPECT_EQ(1, world->cmds[i].done_count);
				EXPECT(nvme_status_is_ok(status) ||
				       nvme_status_same(status, NVME_SC_HOST_PATHING_ERROR));
			}
		}
		world_destroy(world);
	}
}

static void commands_after_the_loss_are_completed_too(void)
{
	struct world *world = world_create(81);

	world->fake->lie = LIE_SILENT;
	world->resubmits = true;
	if (world_connect_ok(world)) {
		world_submit(world, 40, false, 1);
		sim_net_cut(world->sim, NULL);
		world_drain(world);
		expect_status(world, 40, NVME_SC_HOST_PATHING_ERROR);
		for (unsigned i = 0; i < 40; i++)
			EXPECT_EQ(2, world->cmds[i].done_count);
		EXPECT(sim_run_while(world->sim, is_not_lost, world, 10 * NS_PER_S));
	}
	world_destroy(world);
}

static void abandon_resets_without_shutdown(void)
{
	struct world *world = world_create(82);

	if (world_connect_ok(world)) {
		sim_enter(world->reactor);
		host_abandon(world->ctrl, on_gone, world);
		sim_leave(world->reactor);
		sim_run_until(world->sim, sim_now(world->sim) + NS_PER_S);
		EXPECT_EQ(1, world->gone_count);
		EXPECT_EQ(0, world->fake->shutdowns);
		EXPECT_EQ(0, world->lost_count);
		EXPECT(!fake_is_connected(world->fake));
	}
	world_destroy(world);
}

int main(void)
{
	log_set_level(LOG_LEVEL_ERROR);
	TAP_RUN(connects_and_shuts_down);
	TAP_RUN(moves_data_both_ways);
	TAP_RUN(status_of_the_controller_reaches_the_caller);
	TAP_RUN(keep_alive_is_sent_in_time);
	TAP_RUN(traffic_replaces_keep_alive);
	TAP_RUN(unanswered_keep_alive_loses_the_controller);
	TAP_RUN(refused_keep_alive_loses_the_controller);
	TAP_RUN(late_question_has_time_for_its_answer);
	TAP_RUN(events_are_delivered_and_asked_for_again);
	TAP_RUN(refusal_names_address_and_remedy);
	TAP_RUN(rejected_connect_names_status_and_place);
	TAP_RUN(never_ready_ends_after_cap_to);
	TAP_RUN(silence_ends_after_the_connect_timeout);
	TAP_RUN(disconnect_while_connecting_only_says_gone);
	TAP_RUN(completion_of_a_wrong_cid_ends_the_path);
	TAP_RUN(data_past_the_end_is_not_stored);
	TAP_RUN(r2t_beyond_the_write_ends_the_path);
	TAP_RUN(second_r2t_ends_the_path);
	TAP_RUN(data_for_a_write_ends_the_path);
	TAP_RUN(term_req_ends_the_path);
	TAP_RUN(duplicate_completion_ends_the_path_but_completes_once);
	TAP_RUN(success_with_short_data_is_not_believed);
	TAP_RUN(success_of_an_unread_write_is_not_believed);
	TAP_RUN(timeout_loses_the_controller);
	TAP_RUN(idle_controller_sets_no_timer);
	TAP_RUN(data_digest_error_fails_only_its_command);
	TAP_RUN(reset_completes_every_command_once);
	TAP_RUN(commands_after_the_loss_are_completed_too);
	TAP_RUN(abandon_resets_without_shutdown);
	return tap_end();
}

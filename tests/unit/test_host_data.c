/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host side promises to its users (host/host.h), against a scripted controller on the
 * simulated reactor: data in pieces, fused pairs, forgotten commands, what may have run when a
 * controller is lost, buffers that are free when done is called, silence, figures of a queue.
 * Buffers have exactly their size, so that ASan sees an access outside.
 */
#include "host_world.h"

#include "host/host_internal.h"

#define BIG_BYTES (128 * 1024)

/* ---- data in pieces ------------------------------------------------------------------------- */

struct pieces {
	struct iovec *iov;
	unsigned count;
};

/* Pieces of 0 to max_bytes, total_bytes together; each has memory of its own. */
static struct pieces pieces_create(struct prng *prng, uint32_t total_bytes, uint32_t max_bytes)
{
	struct pieces pieces = {.iov = calloc(2 * total_bytes + 2, sizeof(struct iovec))};
	uint32_t left = total_bytes;

	CHECK(pieces.iov != NULL);
	while (left > 0) {
		uint32_t len = max_bytes == 1 ? 1 : (uint32_t)prng_below(prng, max_bytes + 1);
		struct iovec *piece = &pieces.iov[pieces.count];

		/* Never two empty pieces in a row, so that the array has room. */
		if (len == 0 && pieces.count > 0 && piece[-1].iov_len == 0)
			len = 1;
		if (len > left)
			len = left;
		*piece = (struct iovec){.iov_base = len > 0 ? malloc(len) : NULL, .iov_len = len};
		CHECK(len == 0 || piece->iov_base != NULL);
		pieces.count++;
		left -= len;
	}
	/* Shrink the array, so that ASan sees a read behind its end. */
	pieces.iov = realloc(pieces.iov, pieces.count * sizeof(struct iovec));
	CHECK(pieces.iov != NULL);
	return pieces;
}

static void pieces_fill(const struct pieces *pieces, uint8_t seed)
{
	uint32_t at = 0;

	for (unsigned i = 0; i < pieces->count; i++)
		for (size_t j = 0; j < pieces->iov[i].iov_len; j++, at++)
			((uint8_t *)pieces->iov[i].iov_base)[j] =
				(uint8_t)(at * 13 + at / 251 + seed);
}

static bool pieces_equal(const struct pieces *pieces, const uint8_t *want)
{
	for (unsigned i = 0; i < pieces->count; i++) {
		if (pieces->iov[i].iov_len > 0 &&
		    memcmp(pieces->iov[i].iov_base, want, pieces->iov[i].iov_len) != 0)
			return false;
		want += pieces->iov[i].iov_len;
	}
	return true;
}

static void pieces_destroy(struct pieces *pieces)
{
	for (unsigned i = 0; i < pieces->count; i++)
		free(pieces->iov[i].iov_base);
	free(pieces->iov);
}

static void world_submit_pieces(struct world *world, bool is_write, const struct pieces *pieces,
				uint32_t total_bytes)
{
	struct host_cmd *cmd = &world->cmds[0].cmd;
	uint32_t blocks = total_bytes / FAKE_BLOCK_BYTES;

	world->cmds[0].done_count = 0;
	sim_enter(world->reactor);
	if (is_write)
		host_cmd_write(cmd, 1, 3, blocks, NULL, total_bytes);
	else
		host_cmd_read(cmd, 1, 3, blocks, NULL, total_bytes);
	cmd->iov = pieces->iov;
	cmd->iov_count = pieces->count;
	cmd_submit(world, 0);
	sim_leave(world->reactor);
	world_drain(world);
	expect_status(world, 1, NVME_SC_SUCCESS);
}

/* Answers a read in PDUs of script_at bytes. */
static bool script_many_pdus(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	uint16_t cid = le16_get(sqe->cid);
	struct io_cmd io;
	struct sgl sgl;
	uint32_t step = fc->fake->script_at;

	if (fc->qid == 0 || sqe->opcode != NVME_IO_READ || step == 0)
		return false;
	io_cmd_decode(sqe, &io);
	EXPECT(nvme_status_is_ok(sgl_decode(sqe, data_bytes, &sgl)));
	for (uint32_t at = 0; at < sgl.len_bytes; at += step) {
		uint32_t len = sgl.len_bytes - at < step ? sgl.len_bytes - at : step;
		bool is_last = at + len == sgl.len_bytes;

		fake_send_data(fc, cid, fc->fake->store + io.first_block * FAKE_BLOCK_BYTES + at,
			       (struct pdu_data_args){.offset = at,
						      .data_bytes = len,
						      .is_last = is_last,
						      .is_success = is_last});
	}
	return true;
}

static void pieces_move(uint64_t seed, bool has_digests, uint32_t total_bytes, uint32_t max_bytes)
{
	static const uint32_t steps[] = {0, 4096, 1020, 40000};
	struct world *world = world_create(seed);
	const uint8_t *stored = world->fake->store + 3 * FAKE_BLOCK_BYTES;

	world->config.wants_header_digest = has_digests;
	world->config.wants_data_digest = has_digests;
	world->fake->script = script_many_pdus;
	if (world_connect_ok(world)) {
		for (unsigned i = 0; i < ARRAY_LEN(steps); i++) {
			struct pieces pieces =
				pieces_create(sim_prng(world->sim), total_bytes, max_bytes);

			world->fake->script_at = steps[i];
			pieces_fill(&pieces, (uint8_t)(seed + i));
			world_submit_pieces(world, true, &pieces, total_bytes);
			EXPECT(pieces_equal(&pieces, stored));
			pieces_fill(&pieces, 0x77);
			world_submit_pieces(world, false, &pieces, total_bytes);
			EXPECT(pieces_equal(&pieces, stored));
			pieces_destroy(&pieces);
		}
		EXPECT_EQ(0, world->lost_count);
	}
	world_destroy(world);
}

static void data_in_pieces_is_gathered_and_scattered(void)
{
	/* In the capsule, by R2T, and long enough to be received in place. */
	static const uint32_t totals[] = {512, 4096, 16384, BIG_BYTES};
	static const uint32_t sizes[] = {3, 700, 9000, BIG_BYTES};

	for (unsigned t = 0; t < ARRAY_LEN(totals); t++)
		for (unsigned s = 0; s < ARRAY_LEN(sizes); s++)
			for (unsigned d = 0; d < 2; d++)
				pieces_move(100 + t * 16 + s * 2 + d, d == 1, totals[t], sizes[s]);
}

static void pieces_of_one_byte_work(void)
{
	pieces_move(201, false, 512, 1);
	pieces_move(202, true, 8192, 1);
	pieces_move(203, false, BIG_BYTES, 1);
}

/* ---- fused pairs ---------------------------------------------------------------------------- */

static struct {
	uint8_t opcode;
	uint8_t fuse;
	uint64_t block;
} seen[4 * CMDS];
static unsigned seen_count;

static bool script_record(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	struct io_cmd io;

	if (fc->qid == 0 || sqe->opcode == NVME_OPCODE_FABRICS || seen_count == ARRAY_LEN(seen))
		return false;
	io_cmd_decode(sqe, &io);
	seen[seen_count].opcode = sqe->opcode;
	seen[seen_count].fuse = sqe->flags & NVME_SQE_FUSE_MASK;
	seen[seen_count++].block = io.first_block;
	return false;
}

/* Submits cmds[first] and the next one, as a fused pair or as two independent commands. */
static void submit_two(struct world *world, unsigned first, bool is_pair)
{
	struct test_cmd *a = &world->cmds[first], *b = &world->cmds[first + 1];

	host_cmd_compare(&a->cmd, 1, first, 1, a->data, FAKE_BLOCK_BYTES);
	host_cmd_write(&b->cmd, 1, first, 1, b->data, FAKE_BLOCK_BYTES);
	b->world = world;
	b->cmd.done = on_done;
	if (is_pair) {
		a->cmd.fused_next = &b->cmd;
		world->submitted_count++;
		cmd_submit(world, first);
	} else {
		cmd_submit(world, first);
		cmd_submit(world, first + 1);
	}
}

static void fused_pairs_are_neighbours(void)
{
	for (uint64_t seed = 300; seed < 320; seed++) {
		struct world *world = world_create(seed);
		unsigned pairs = 0;

		seen_count = 0;
		world->config.io_queue_size = 3 + (unsigned)(seed % 4);
		world->fake->script = script_record;
		if (world_connect_ok(world)) {
			sim_enter(world->reactor);
			for (unsigned i = 0; i < CMDS; i += 2)
				submit_two(world, i, i % 3 == 0);
			sim_leave(world->reactor);
			world_drain(world);
			expect_status(world, CMDS, NVME_SC_SUCCESS);
			EXPECT_EQ(CMDS, seen_count);
			for (unsigned i = 0; i < seen_count; i++) {
				/* No command overtakes a pair that waits for its second slot. */
				EXPECT(i == 0 || seen[i].block >= seen[i - 1].block);
				EXPECT_EQ(seen[i].block % 3 == 0
						  ? seen[i].opcode == NVME_IO_COMPARE ? 1 : 2
						  : 0,
					  seen[i].fuse);
				if (seen[i].fuse != 1)
					continue;
				pairs++;
				EXPECT(i + 1 < seen_count && seen[i + 1].fuse == 2);
				EXPECT_EQ(seen[i].block, seen[i + 1].block);
			}
			EXPECT_EQ(17, pairs);
		}
		world_destroy(world);
	}
}

static void pair_needs_two_slots(void)
{
	struct world *world = world_create(330);

	world->config.io_queue_size = 2;
	if (world_connect_ok(world)) {
		sim_enter(world->reactor);
		submit_two(world, 0, true);
		EXPECT_EQ(0, world->done_count);
		sim_leave(world->reactor);
		world_drain(world);
		expect_status(world, 2, nvme_status_dnr(NVME_SC_FUSED_MISSING));
		EXPECT(!world->cmds[0].cmd.may_have_run);
		EXPECT_EQ(0, world->fake->writes);
	}
	world_destroy(world);
}

/* One slot is free. A command that took it would keep the pair waiting for ever. */
static void nobody_overtakes_a_waiting_pair(void)
{
	struct world *world = world_create(332);
	struct host_queue_stats stats;

	world->config.io_queue_size = 4;
	if (world_connect_ok(world)) {
		sim_enter(world->reactor);
		submit_two(world, 0, false);
		submit_two(world, 2, true);
		submit_two(world, 4, false);
		host_ctrl_queue_stats(world->ctrl, 0, &stats);
		sim_leave(world->reactor);
		EXPECT_EQ(2, stats.in_flight);
		EXPECT_EQ(4, stats.waiting);
		world_drain(world);
		expect_status(world, 6, NVME_SC_SUCCESS);
	}
	world_destroy(world);
}

static void waiting_pairs_are_told_of_the_loss(void)
{
	struct world *world = world_create(331);

	world->config.io_queue_size = 3;
	world->fake->lie = LIE_SILENT;
	if (world_connect_ok(world)) {
		sim_net_partition(world->sim, NULL, true);
		sim_enter(world->reactor);
		for (unsigned i = 0; i < 8; i += 2)
			submit_two(world, i, true);
		sim_leave(world->reactor);
		expect_loss(world, 8, "was not answered");
		for (unsigned i = 2; i < 8; i++)
			EXPECT(!world->cmds[i].cmd.may_have_run);
		sim_net_partition(world->sim, NULL, false);
	}
	world_destroy(world);
}

/* ---- what may have run ---------------------------------------------------------------------- */

static uint64_t tap_first, tap_end_at;

static void count_tap(void *arg, int fd, uint64_t offset, uint8_t *bytes, size_t len_bytes)
{
	if (tap_end_at == 0)
		tap_first = offset;
	tap_end_at = offset + len_bytes;
}

static void only_what_the_kernel_got_may_have_run(void)
{
	const unsigned capsule_bytes = 72 + FAKE_BLOCK_BYTES;

	for (uint64_t seed = 400; seed < 420; seed++) {
		const struct sim_options options = {.window_max_bytes = 3000 + 97 * (uint32_t)seed};
		struct world *world = world_create_with(seed, &options);
		unsigned begun;

		if (world_connect_ok(world)) {
			sim_run_until(world->sim, sim_now(world->sim) + NS_PER_S);
			tap_end_at = 0;
			sim_net_set_tap(world->sim, count_tap, NULL);
			sim_net_partition(world->sim, NULL, true);
			world_submit(world, CMDS, true, 1);
			expect_loss(world, CMDS, "was not answered");
			begun = (unsigned)(tap_end_at - tap_first + capsule_bytes - 1) /
				capsule_bytes;
			EXPECT(begun > 0 && begun < CMDS);
			for (unsigned i = 0; i < CMDS; i++)
				EXPECT_EQ(i < begun, world->cmds[i].cmd.may_have_run);
			EXPECT(host_ctrl_last_sent_ns(world->ctrl) >
			       sim_now(world->sim) - NS_PER_S);
			sim_net_partition(world->sim, NULL, false);
			sim_net_set_tap(world->sim, NULL, NULL);
		}
		world_destroy(world);
	}
}

static bool script_host_status(struct fake_conn *fc, const struct nvme_sqe *sqe,
			       uint32_t data_bytes)
{
	if (fc->qid == 0 || sqe->opcode == NVME_OPCODE_FABRICS)
		return false;
	fake_respond(fc, le16_get(sqe->cid), NVME_SC_HOST_PATHING_ERROR, 0);
	return true;
}

/* Such a write may have run, so it must not be reported as never sent. */
static void pathing_error_from_the_controller_may_have_run(void)
{
	struct world *world = world_create(421);

	world->fake->script = script_host_status;
	if (world_connect_ok(world)) {
		world_submit(world, 1, true, 1);
		world_drain(world);
		expect_status(world, 1, NVME_SC_HOST_PATHING_ERROR);
		EXPECT(world->cmds[0].cmd.may_have_run);
		EXPECT_EQ(0, world->lost_count);
	}
	world_destroy(world);
}

/* Overwrites the buffer in done. The controller must never receive the new bytes. */
static void on_done_scribble(struct host_cmd *cmd)
{
	struct test_cmd *test = container_of(cmd, struct test_cmd, cmd);

	memset(test->data, 0xee, sizeof(test->data));
	on_done(cmd);
}

static void buffers_are_free_when_done_is_called(void)
{
	for (uint64_t seed = 430; seed < 470; seed++) {
		const struct sim_options options = {.zc_hold_max_us = 900};
		struct world *world = world_create_with(seed, &options);
		unsigned steps;

		world->config.zero_copy_min_bytes = 1024;
		if (world_connect_ok(world)) {
			sim_enter(world->reactor);
			for (unsigned i = 0; i < 24; i++) {
				struct test_cmd *test = &world->cmds[i];

				memset(test->data, 0x11, sizeof(test->data));
				host_cmd_write(&test->cmd, 1, 32 * (i % 16), 8 + 24 * (i % 2),
					       test->data, (8 + 24 * (i % 2)) * FAKE_BLOCK_BYTES);
				cmd_submit(world, i);
				test->cmd.done = on_done_scribble;
			}
			sim_leave(world->reactor);
			steps = (unsigned)prng_below(sim_prng(world->sim), 160);
			while (steps-- > 0 && is_busy(world))
				sim_step(world->sim);
			if (seed % 2 == 0)
				sim_net_cut(world->sim, NULL);
			world_drain(world);
			if (seed % 2 == 0)
				EXPECT(sim_run_while(world->sim, is_not_lost, world, NS_PER_S));
			for (size_t i = 0; i < 512 * FAKE_BLOCK_BYTES; i += 64)
				if (world->fake->store[i] == 0xee &&
				    world->fake->store[i + 1] == 0xee) {
					EXPECT(!"a scribbled byte arrived");
					break;
				}
		}
		world_destroy(world);
	}
}

/* ---- commands that are forgotten ------------------------------------------------------------ */

static void forget(struct world *world, unsigned index)
{
	sim_enter(world->reactor);
	host_cmd_forget(world->ctrl, 0, &world->cmds[index].cmd);
	sim_leave(world->reactor);
	world->submitted_count--;
}

static bool has_in_flight(void *arg)
{
	struct world *world = arg;
	struct host_queue_stats stats;
	bool is_lost = world->lost_count > 0;

	sim_enter(world->reactor);
	host_ctrl_queue_stats(world->ctrl, 0, &stats);
	sim_leave(world->reactor);
	return !is_lost && stats.in_flight + stats.waiting > 0;
}

/* Forgets the big read after a number of steps. Its buffer is freed at once. */
static void forget_after(uint64_t seed, unsigned steps, bool has_digests, bool has_pieces)
{
	const struct sim_options options = {.recv_max_bytes = 3000};
	struct world *world = world_create_with(seed, &options);
	struct pieces pieces;
	struct host_cmd *cmd = &world->cmds[0].cmd;
	bool is_forgotten;

	world->config.wants_data_digest = has_digests;
	world->config.io_queue_size = 5;
	pieces = pieces_create(sim_prng(world->sim), BIG_BYTES, has_pieces ? 5000 : BIG_BYTES);
	if (world_connect_ok(world)) {
		sim_enter(world->reactor);
		host_cmd_read(cmd, 1, 0, BIG_BYTES / FAKE_BLOCK_BYTES, NULL, BIG_BYTES);
		cmd->iov = pieces.iov;
		cmd->iov_count = pieces.count;
		cmd_submit(world, 0);
		for (unsigned i = 1; i < 12; i++) {
			host_cmd_read(&world->cmds[i].cmd, 1, i, 8, world->cmds[i].data, 4096);
			cmd_submit(world, i);
		}
		sim_leave(world->reactor);
		for (unsigned i = 0; i < steps && world->cmds[0].done_count == 0; i++)
			sim_step(world->sim);
		is_forgotten = world->cmds[0].done_count == 0;
		if (is_forgotten) {
			forget(world, 0);
			pieces_destroy(&pieces);
		}
		/* The last command waits for a slot, or is done already. */
		if (world->cmds[11].done_count == 0)
			forget(world, 11);
		world_drain(world);
		for (unsigned i = 1; i < 11; i++) {
			EXPECT_EQ(0, world->cmds[i].cmd.status.value);
			EXPECT_EQ(0, memcmp(world->cmds[i].data,
					    world->fake->store + i * FAKE_BLOCK_BYTES, 4096));
		}
		EXPECT_EQ(!is_forgotten, world->cmds[0].done_count);
		EXPECT(sim_run_while(world->sim, has_in_flight, world, NS_PER_S));
		EXPECT_EQ(0, world->lost_count);
		if (!is_forgotten)
			pieces_destroy(&pieces);
	} else {
		pieces_destroy(&pieces);
	}
	world_destroy(world);
}

static void forgotten_reads_touch_nothing(void)
{
	for (unsigned steps = 0; steps < 160; steps += 2)
		forget_after(500 + steps, steps, steps % 4 == 0, steps % 3 == 0);
}

static void forgotten_reads_end_with_the_controller(void)
{
	for (uint64_t seed = 700; seed < 710; seed++) {
		struct world *world = world_create(seed);

		world->config.io_queue_size = 9;
		world->fake->lie = LIE_SILENT;
		if (world_connect_ok(world)) {
			world_submit(world, 20, false, 1);
			for (unsigned i = 0; i < 20; i += 2)
				forget(world, i);
			/* Also when the late commands are forgotten ones. */
			world_drain(world);
			EXPECT(sim_run_while(world->sim, is_not_lost, world, 10 * NS_PER_S));
			EXPECT(strstr(world->error.text, "was not answered") != NULL);
			for (unsigned i = 0; i < 20; i++)
				EXPECT_EQ(i % 2, world->cmds[i].done_count);
		}
		world_destroy(world);
	}
}

/* ---- silence -------------------------------------------------------------------------------- */

static void silent_controller_is_lost_in_time(void)
{
	for (unsigned is_admin = 0; is_admin < 2; is_admin++) {
		struct world *world = world_create(800 + is_admin);
		uint64_t start_ns;
		uint8_t page[NVME_PAGE_BYTES];

		world->config.silence_timeout_ms = 300;
		if (world_connect_ok(world)) {
			sim_run_until(world->sim, sim_now(world->sim) + NS_PER_S);
			start_ns = sim_now(world->sim);
			sim_net_partition(world->sim, NULL, true);
			if (is_admin) {
				sim_enter(world->reactor);
				host_cmd_identify(&world->cmds[0].cmd, 0, IDENTIFY_CTRL, page);
				world->cmds[0].world = world;
				world->cmds[0].cmd.done = on_done;
				world->submitted_count++;
				host_submit_admin(world->ctrl, &world->cmds[0].cmd);
				sim_leave(world->reactor);
			} else {
				world_submit(world, 1, false, 1);
			}
			expect_loss(world, 1, "nothing received");
			EXPECT(sim_now(world->sim) - start_ns >= 300 * NS_PER_MS);
			EXPECT(sim_now(world->sim) - start_ns < 310 * NS_PER_MS);
			sim_net_partition(world->sim, NULL, false);
		}
		world_destroy(world);
	}
}

/* Every answer takes longer than silence_timeout_ms. Only a missing answer means death. */
static void long_way_is_not_a_dead_path(void)
{
	const struct sim_options options = {.is_orderly = true, .latency_us = 200000};
	struct world *world = world_create_with(803, &options);
	uint64_t start_ns;

	world->config.silence_timeout_ms = 300;
	world->config.connect_timeout_ms = 30000;
	world->config.command_timeout_ms = 20000;
	if (world_connect_ok(world)) {
		world_submit(world, 8, false, 1);
		world_drain(world);
		EXPECT_EQ(0, world->lost_count);
		for (unsigned i = 0; i < 8; i++)
			EXPECT(nvme_status_is_ok(world->cmds[i].cmd.status));
		world->cmds[0].done_count = 0;
		sim_run_until(world->sim, sim_now(world->sim) + 2 * NS_PER_S);
		sim_net_partition(world->sim, NULL, true);
		start_ns = sim_now(world->sim);
		world_submit(world, 1, false, 1);
		expect_loss(world, 1, "nothing received");
		/* Four round trips of 400 ms. */
		EXPECT(sim_now(world->sim) - start_ns >= 1600 * NS_PER_MS);
		EXPECT(sim_now(world->sim) - start_ns < 1700 * NS_PER_MS);
		sim_net_partition(world->sim, NULL, false);
	}
	world_destroy(world);
}

static void slow_medium_is_not_a_dead_path(void)
{
	struct world *world = world_create(802);
	uint64_t start_ns;

	world->config.silence_timeout_ms = 300;
	world->fake->lie = LIE_SILENT;
	if (world_connect_ok(world)) {
		start_ns = sim_now(world->sim);
		world_submit(world, 3, false, 1);
		expect_loss(world, 3, "was not answered");
		EXPECT(sim_now(world->sim) - start_ns >= 2 * NS_PER_S);
		/* One Keep Alive in 300 ms at least, while the read is pending. */
		EXPECT(world->fake->keep_alives >= 6 && world->fake->keep_alives <= 20);
	}
	world_destroy(world);
}

/* The link dies during a slow command: silence counts from the last answer on the admin queue. */
static void link_that_dies_under_a_slow_medium_is_noticed(void)
{
	struct world *world = world_create(803);
	uint64_t start_ns;

	world->config.silence_timeout_ms = 300;
	world->config.command_timeout_ms = 20000;
	world->fake->lie = LIE_SILENT;
	if (world_connect_ok(world)) {
		world_submit(world, 3, false, 1);
		sim_run_until(world->sim, sim_now(world->sim) + 1950 * NS_PER_MS);
		EXPECT_EQ(0, world->lost_count);
		start_ns = sim_now(world->sim);
		sim_net_partition(world->sim, NULL, true);
		expect_loss(world, 3, "nothing received");
		EXPECT(sim_now(world->sim) - start_ns > 190 * NS_PER_MS);
		EXPECT(sim_now(world->sim) - start_ns < 310 * NS_PER_MS);
		sim_net_partition(world->sim, NULL, false);
	}
	world_destroy(world);
}

static void nothing_owed_needs_no_timer(void)
{
	struct world *world = world_create(804);
	unsigned steps = 0;

	world->config.silence_timeout_ms = 300;
	if (world_connect_ok(world)) {
		for (unsigned round = 0; round < 2; round++) {
			world->cmds[0].done_count = 0;
			world_submit(world, 1, false, 1);
			world_drain(world);
			for (steps = 0; steps < 1000 && sim_step(world->sim);)
				steps++;
			EXPECT(steps < 1000);
		}
		EXPECT_EQ(0, world->fake->keep_alives);
	}
	world_destroy(world);
}

static bool script_slow_keep_alive(struct fake_conn *fc, const struct nvme_sqe *sqe,
				   uint32_t data_bytes)
{
	if (sqe->opcode != NVME_ADMIN_KEEP_ALIVE || fc->qid != 0)
		return false;
	fake_respond(fc, le16_get(sqe->cid), NVME_SC_INVALID_OPCODE, 0);
	return true;
}

static void refused_question_is_an_answer(void)
{
	struct world *world = world_create(805);

	world->config.silence_timeout_ms = 300;
	world->fake->lie = LIE_SILENT;
	world->fake->script = script_slow_keep_alive;
	if (world_connect_ok(world)) {
		world_submit(world, 1, false, 1);
		expect_loss(world, 1, "was not answered");
	}
	world_destroy(world);
}

/* The reactor's thread was stopped: received bytes are read before silence is judged. */
static void host_that_slept_does_not_blame_the_controller(void)
{
	struct world *world = world_create(806);
	struct reactor_timer *timer;
	uint64_t deadline_ns;

	world->config.silence_timeout_ms = 300;
	if (world_connect_ok(world)) {
		timer = &world->ctrl->silence_timer;
		sim_net_partition(world->sim, NULL, true);
		world_submit(world, 1, false, 1);
		sim_run_until(world->sim, sim_now(world->sim) + 150 * NS_PER_MS);
		EXPECT(world->ctrl->is_keep_alive_busy);
		sim_enter(world->reactor);
		deadline_ns = timer->deadline_ns;
		reactor_timer_cancel(timer);
		sim_leave(world->reactor);
		sim_run_until(world->sim, sim_now(world->sim) + NS_PER_S);
		sim_net_partition(world->sim, NULL, false);
		/* Run the timer late, as the reactor does. */
		sim_enter(world->reactor);
		timer->deadline_ns = deadline_ns;
		timer->fn(timer);
		sim_leave(world->reactor);
		world_drain(world);
		expect_status(world, 1, NVME_SC_SUCCESS);
		EXPECT_EQ(0, world->lost_count);
	}
	world_destroy(world);
}

/* Bytes in the kernel for a lost controller must not be delivered later. */
static void lost_controller_gets_nothing_more(void)
{
	for (uint64_t seed = 810; seed < 830; seed++) {
		struct world *world = world_create(seed);
		unsigned commands;

		world->config.silence_timeout_ms = 300;
		if (world_connect_ok(world)) {
			sim_run_until(world->sim, sim_now(world->sim) + NS_PER_S);
			sim_net_partition(world->sim, NULL, true);
			commands = world->fake->commands;
			world_submit(world, 10, true, 1);
			expect_loss(world, 10, "nothing received");
			EXPECT(world->cmds[0].cmd.may_have_run);
			sim_net_partition(world->sim, NULL, false);
			sim_run_until(world->sim, sim_now(world->sim) + NS_PER_S);
			EXPECT_EQ(commands, world->fake->commands);
			EXPECT(!fake_is_connected(world->fake));
		}
		world_destroy(world);
	}
}

/* ---- figures -------------------------------------------------------------------------------- */

static void queue_tells_what_it_does(void)
{
	struct world *world = world_create(900);
	struct host_queue_stats stats;
	uint64_t start_ns;

	world->config.io_queue_size = 11;
	world->config.kato_ms = 5000;
	if (world_connect_ok(world)) {
		sim_run_until(world->sim, sim_now(world->sim) + NS_PER_S);
		start_ns = sim_now(world->sim);
		world_submit(world, 15, false, 1);
		sim_enter(world->reactor);
		host_ctrl_queue_stats(world->ctrl, 0, &stats);
		sim_leave(world->reactor);
		EXPECT_EQ(10, stats.in_flight);
		EXPECT_EQ(5, stats.waiting);
		EXPECT_EQ(1, stats.commands); /* Connect */
		EXPECT_EQ(start_ns, stats.oldest_ns);
		EXPECT(stats.heard_ns < start_ns);
		EXPECT_EQ(50 * NS_PER_US, stats.rtt_ns);
		world_drain(world);
		sim_enter(world->reactor);
		host_ctrl_queue_stats(world->ctrl, 0, &stats);
		sim_leave(world->reactor);
		EXPECT_EQ(0, stats.in_flight);
		EXPECT_EQ(0, stats.waiting);
		EXPECT_EQ(16, stats.commands);
		EXPECT_EQ(0, stats.oldest_ns);
		EXPECT(stats.heard_ns >= start_ns);
		EXPECT(host_ctrl_last_sent_ns(world->ctrl) >= start_ns);
		EXPECT(host_ctrl_last_sent_ns(world->ctrl) <= sim_now(world->sim));
		EXPECT_EQ(5000, host_ctrl_kato_ms(world->ctrl));
	}
	world_destroy(world);
}

/* A controller with traffic-based keep alive checks once per KATO, so it may live for two. */
static void traffic_keep_alive_doubles_the_time_to_live(void)
{
	struct world *world = world_create(901);

	world->config.kato_ms = 5000;
	world->fake->has_traffic_keep_alive = true;
	if (world_connect_ok(world))
		EXPECT_EQ(10000, host_ctrl_kato_ms(world->ctrl));
	world_destroy(world);
}

int main(void)
{
	log_set_level(LOG_LEVEL_ERROR);
	TAP_RUN(data_in_pieces_is_gathered_and_scattered);
	TAP_RUN(pieces_of_one_byte_work);
	TAP_RUN(fused_pairs_are_neighbours);
	TAP_RUN(pair_needs_two_slots);
	TAP_RUN(nobody_overtakes_a_waiting_pair);
	TAP_RUN(waiting_pairs_are_told_of_the_loss);
	TAP_RUN(only_what_the_kernel_got_may_have_run);
	TAP_RUN(pathing_error_from_the_controller_may_have_run);
	TAP_RUN(buffers_are_free_when_done_is_called);
	TAP_RUN(forgotten_reads_touch_nothing);
	TAP_RUN(forgotten_reads_end_with_the_controller);
	TAP_RUN(silent_controller_is_lost_in_time);
	TAP_RUN(long_way_is_not_a_dead_path);
	TAP_RUN(slow_medium_is_not_a_dead_path);
	TAP_RUN(link_that_dies_under_a_slow_medium_is_noticed);
	TAP_RUN(nothing_owed_needs_no_timer);
	TAP_RUN(refused_question_is_an_answer);
	TAP_RUN(host_that_slept_does_not_blame_the_controller);
	TAP_RUN(lost_controller_gets_nothing_more);
	TAP_RUN(queue_tells_what_it_does);
	TAP_RUN(traffic_keep_alive_doubles_the_time_to_live);
	return tap_end();
}

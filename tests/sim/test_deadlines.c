/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target does when time passes, judged by simulated time: late data of a host, the keep
 * alive time-out and its changes. Also responses of commands with a result and data. One target,
 * one raw host (raw_host.h), all in one thread.
 */
#include "raw_scene.h"

#include "base/log.h"
#include "target/local.h"
#include "target/queue.h"
#include "wire/feature.h"

#define DATA_TIMEOUT_MS 1000
#define QUEUE_SIZE      2
#define FAST            1
#define SLOW            2
#define SLOW_MS         50
#define PIECE_BYTES     (16u * 1024)
#define WRITE_BYTES     (128u * 1024)
#define OTHER_BYTES     (512u * 1024)
#define KATO_MS         1000

static const struct raw_scene_config config = {
	.specs = {"mem:4M,block=512", "fault:delay:op=read:ms=50@mem:1M,block=512"},
	.data_timeout_ms = DATA_TIMEOUT_MS,
	.quiesce_ms = 400,
	.buf_counts = {16, 16, 16},
	.stop_limit_ms = 20000,
};
static struct raw_scene base;
static struct {
	struct raw_queue *admin;
	struct raw_queue *io;
} scene;

static const uint8_t some_data[OTHER_BYTES];

static void run_ms(uint64_t ms)
{
	raw_scene_run_ms(&base, ms);
}

static void set_up(uint32_t kato_ms)
{
	struct connect_args args = {.queue_size = 8,
				    .kato_ms = kato_ms,
				    .cntlid = 0xffff,
				    .subsystem_nqn = TARGET_DEFAULT_NQN,
				    .host_nqn = "nqn.2026-11.io.weft:deadlines",
				    .host_id = {{1}}};

	raw_scene_open(&base, &config);
	scene.admin = sim_alloc(sizeof(*scene.admin));
	scene.io = sim_alloc(sizeof(*scene.io));
	raw_open(base.sim, base.host, scene.admin, &base.addr);
	EXPECT(raw_connect_queue(scene.admin, &args));
	EXPECT(raw_enable(scene.admin));
	args.qid = 1;
	args.queue_size = QUEUE_SIZE;
	args.kato_ms = 0;
	args.wants_no_sq_flow_control = true;
	raw_open(base.sim, base.host, scene.io, &base.addr);
	EXPECT(raw_connect_queue(scene.io, &args));
}

static void tear_down(void)
{
	raw_close(scene.io);
	raw_close(scene.admin);
	raw_scene_close(&base);
	free(scene.admin);
	free(scene.io);
}

/* ---- data that the host owes ----------------------------------------------------------------- */

static void write_start(uint16_t cid, uint64_t first_block, uint32_t len_bytes)
{
	struct io_cmd cmd = {.first_block = first_block, .block_count = len_bytes / 512};
	struct nvme_sqe sqe = {0};

	io_cmd_encode(&sqe, NVME_IO_WRITE, FAST, &cmd);
	raw_submit_by_r2t(scene.io, cid, &sqe, len_bytes);
	EXPECT(raw_wait_r2t(scene.io, cid));
}

/* A second write whose data all follows at once: more than may be queued before the first. */
static void write_others(void)
{
	for (unsigned i = 0; i < 4 && !scene.io->is_closed; i++) {
		write_start(2, 1024, OTHER_BYTES);
		for (uint32_t at = 0; at < OTHER_BYTES; at += WRITE_BYTES)
			raw_send_piece(scene.io, 2, at, some_data + at, WRITE_BYTES);
		EXPECT(raw_wait_done(scene.io, 2));
		EXPECT(raw_is_ok(scene.io, 2));
	}
}

/* Each piece renews the deadline of its own transfer, whatever data comes in between. */
static void data_in_pieces_is_not_late(void)
{
	set_up(0);
	write_start(1, 0, WRITE_BYTES);
	for (uint32_t at = 0; at < WRITE_BYTES && !scene.io->is_closed; at += PIECE_BYTES) {
		raw_send_piece(scene.io, 1, at, some_data, PIECE_BYTES);
		if (at + PIECE_BYTES == WRITE_BYTES)
			break;
		run_ms(DATA_TIMEOUT_MS / 4);
		write_others();
		run_ms(DATA_TIMEOUT_MS / 4);
	}
	EXPECT(!scene.io->is_closed);
	EXPECT(raw_wait_done(scene.io, 1));
	EXPECT(raw_is_ok(scene.io, 1));
	tear_down();
}

/* Other data may overtake a transfer up to the time-out only. */
static void data_that_is_passed_over_is_late(void)
{
	unsigned rounds = 0;

	set_up(0);
	write_start(1, 0, WRITE_BYTES);
	while (!scene.io->is_closed && rounds < 20) {
		run_ms(DATA_TIMEOUT_MS / 4);
		if (!scene.io->is_closed)
			write_others();
		rounds++;
	}
	EXPECT(scene.io->is_closed);
	EXPECT_THAT(rounds >= 4 && rounds <= 7, "four to six rounds, %u were", rounds);
	tear_down();
}

/* No more data comes: the connection ends after the time-out, and not before. */
static void silence_is_late(void)
{
	set_up(0);
	write_start(1, 0, WRITE_BYTES);
	raw_send_piece(scene.io, 1, 0, some_data, PIECE_BYTES);
	run_ms(DATA_TIMEOUT_MS - 100);
	EXPECT(!scene.io->is_closed);
	run_ms(DATA_TIMEOUT_MS);
	EXPECT(scene.io->is_closed);
	tear_down();
}

/* ---- keep alive ------------------------------------------------------------------------------ */

static void set_kato(uint32_t kato_ms)
{
	struct nvme_sqe sqe = {.opcode = NVME_ADMIN_SET_FEATURES,
			       .cdw10 = le32_of(FEATURE_KEEP_ALIVE),
			       .cdw11 = le32_of(kato_ms)};

	raw_submit(scene.admin, 1, &sqe, NULL, 0);
	EXPECT(raw_wait_done(scene.admin, 1));
	EXPECT(raw_is_ok(scene.admin, 1));
}

/* After how many milliseconds of silence the controller ends; 0: not within ten times KATO. */
static uint64_t silence_ms(void)
{
	uint64_t start_ns = sim_now(base.sim);

	for (unsigned i = 0; i < 1000 && !scene.admin->is_closed; i++)
		run_ms(KATO_MS / 100);
	return scene.admin->is_closed ? (sim_now(base.sim) - start_ns) / NS_PER_MS : 0;
}

static void expect_end_after(uint64_t kato_ms)
{
	uint64_t ms = silence_ms();

	EXPECT_THAT(ms >= kato_ms && ms <= kato_ms + 200, "an end after %u ms, not %u",
		    (unsigned)kato_ms, (unsigned)ms);
}

/* From Set Features on only the new time-out counts: shorter, longer, or none. */
static void a_new_time_out_counts_at_once(void)
{
	static const struct {
		uint32_t first_ms, second_ms, end_ms; /* end_ms 0: the controller stays */
	} rows[] = {
		{KATO_MS, KATO_MS, KATO_MS},
		{60 * KATO_MS, KATO_MS, KATO_MS},
		{KATO_MS, 5 * KATO_MS, 5 * KATO_MS},
		{0, KATO_MS, KATO_MS},
		{KATO_MS, 0, 0},
		{60 * KATO_MS, 0, 0},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		set_up(rows[i].first_ms);
		run_ms(rows[i].first_ms == KATO_MS ? KATO_MS / 2 : 100);
		set_kato(rows[i].second_ms);
		if (rows[i].end_ms == 0)
			EXPECT_EQ(0, silence_ms());
		else
			expect_end_after(rows[i].end_ms);
		tear_down();
	}
}

static void talk(struct raw_queue *queue, struct nvme_sqe sqe)
{
	raw_submit(queue, 1, &sqe, NULL, 0);
	EXPECT(raw_wait_done(queue, 1));
	EXPECT(raw_is_ok(queue, 1));
}

/* Every command on any queue restarts the time-out, which is then exact to the millisecond. */
static void any_command_keeps_the_controller(void)
{
	for (unsigned kind = 0; kind < 3; kind++) {
		struct nvme_sqe sqe = {.opcode = NVME_ADMIN_KEEP_ALIVE};
		struct io_cmd read = {.block_count = 8};

		set_up(KATO_MS);
		if (kind == 1) {
			property_get_encode(&sqe, PROPERTY_CSTS, false);
		} else if (kind == 2) {
			io_cmd_encode(&sqe, NVME_IO_READ, FAST, &read);
			sgl_encode_transport(&sqe, 4096);
		}
		for (unsigned i = 0; i < 20; i++) {
			run_ms(KATO_MS - 10);
			EXPECT(!scene.admin->is_closed && !scene.io->is_closed);
			if (scene.admin->is_closed || scene.io->is_closed)
				break;
			talk(kind == 2 ? scene.io : scene.admin, sqe);
		}
		expect_end_after(KATO_MS);
		run_ms(100); /* the I/O queue may be closed after the admin queue */
		EXPECT(scene.io->is_closed);
		tear_down();
	}
}

/* ---- results --------------------------------------------------------------------------------- */

static struct slot *busy_slot(void)
{
	list_for_each(node, &base.target->locals[0].queues) {
		struct queue *queue = list_entry(node, struct queue, node);

		if (queue->qid == 1 && queue->busy_count == 1)
			return list_entry(queue->busy.next, struct slot, node);
	}
	return NULL;
}

/* The SUCCESS flag has no DW0: a result needs a response. */
static void a_result_beside_data_has_a_response(void)
{
	struct io_cmd cmd = {.block_count = 8};
	struct nvme_sqe sqe = {0};

	set_up(0);
	for (unsigned result = 0; result < 2; result++) {
		struct slot *slot;

		io_cmd_encode(&sqe, NVME_IO_READ, SLOW, &cmd);
		sgl_encode_transport(&sqe, 4096);
		raw_submit(scene.io, 1, &sqe, NULL, 0);
		run_ms(SLOW_MS / 2);
		slot = busy_slot();
		EXPECT(slot != NULL);
		if (slot)
			slot->result = result << 16;
		EXPECT(raw_wait_done(scene.io, 1));
		EXPECT_EQ(result == 0, scene.io->by_flag[1]);
		if (result != 0)
			EXPECT_EQ(result << 16, le32_get(scene.io->cqe[1].dw0));
	}
	tear_down();
}

int main(void)
{
	log_set_level(LOG_LEVEL_OFF);
	TAP_RUN(data_in_pieces_is_not_late);
	TAP_RUN(data_that_is_passed_over_is_late);
	TAP_RUN(silence_is_late);
	TAP_RUN(a_new_time_out_counts_at_once);
	TAP_RUN(any_command_keeps_the_controller);
	TAP_RUN(a_result_beside_data_has_a_response);
	return tap_end();
}

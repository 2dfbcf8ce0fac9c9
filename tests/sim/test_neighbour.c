/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target with a hostile host that floods, hoards and drips, judged by simulated time: commands of
 * the other host end within a bound, and so do changes of the configuration, also next to a medium
 * that hangs. One reactor with one pool; raw hosts (raw_host.h), all in one thread.
 */
#include "raw_scene.h"

#include "base/log.h"
#include "target/barrier.h"
#include "target/local.h"

#include <errno.h>

#define DATA_TIMEOUT_MS 3000
#define WRITE_BYTES     4096
#define FILE_NS         1 /* goes through buffers */
#define HUNG_NS         2 /* writes hang for HANG_MS */
#define HANG_MS         60000
#define HOARD_QUEUES    8
#define BOUND_MS        100 /* for a command of the innocent host */
#define STRANGERS       5
#define INNOCENT_NQN    "nqn.2026-11.io.weft:innocent"

static const struct raw_scene_config config = {
	.specs = {"fault:delay:op=read:ms=1@mem:1M,block=512",
		  "fault:stuck:op=write:ms=60000@mem:1M,block=512"},
	.data_timeout_ms = DATA_TIMEOUT_MS,
	/* Fewer than the hostile host requests: 8 queues of 7 commands. */
	.buf_counts = {32, 8, 8},
	.stop_limit_ms = 2 * HANG_MS,
};

/* One host: an admin queue and some I/O queues. */
struct actor {
	struct connect_args args;
	struct raw_queue *admin;
	struct raw_queue *io[HOARD_QUEUES];
	unsigned io_count;
};

static struct raw_scene base;
static struct {
	int drained_res;
	struct actor innocent;
	struct actor hostile;
} scene;

static const uint8_t some_data[WRITE_BYTES];

static void on_applied_first(void *arg, int res, const char *error)
{
	EXPECT_EQ(0, res);
}

static void on_drained(void *arg, int res)
{
	scene.drained_res = res;
	base.is_waiting = false;
}

static void run_ms(uint64_t ms)
{
	raw_scene_run_ms(&base, ms);
}

static struct raw_queue *queue_connect(struct connect_args *args)
{
	struct raw_queue *queue = sim_alloc(sizeof(*queue));

	raw_open(base.sim, base.host, queue, &base.addr);
	EXPECT(raw_connect_queue(queue, args));
	return queue;
}

static void actor_join(struct actor *actor, const char *nqn, uint8_t id, unsigned io_count)
{
	actor->args = (struct connect_args){.queue_size = 8,
					    .cntlid = 0xffff,
					    .subsystem_nqn = TARGET_DEFAULT_NQN,
					    .host_id = {{id}}};
	text_copy(actor->args.host_nqn, sizeof(actor->args.host_nqn), nqn);
	actor->admin = queue_connect(&actor->args);
	EXPECT(raw_enable(actor->admin));
	actor->args.wants_no_sq_flow_control = true;
	actor->io_count = io_count;
	for (unsigned i = 0; i < io_count; i++) {
		actor->args.qid = (uint16_t)(i + 1);
		actor->io[i] = queue_connect(&actor->args);
	}
}

static void actor_leave(struct actor *actor)
{
	for (unsigned i = 0; i < actor->io_count; i++) {
		raw_close(actor->io[i]);
		free(actor->io[i]);
	}
	raw_close(actor->admin);
	free(actor->admin);
}

static void set_up(void)
{
	memset(&scene, 0, sizeof(scene));
	raw_scene_open(&base, &config);
	actor_join(&scene.innocent, INNOCENT_NQN, 1, 1);
	actor_join(&scene.hostile, "nqn.2026-11.io.weft:hostile", 2, HOARD_QUEUES);
}

static void tear_down(void)
{
	actor_leave(&scene.hostile);
	actor_leave(&scene.innocent);
	raw_scene_close(&base);
}

static void write_ask(struct raw_queue *queue, uint16_t cid, uint32_t nsid)
{
	struct io_cmd cmd = {.first_block = 8u * cid, .block_count = WRITE_BYTES / 512};
	struct nvme_sqe sqe = {0};

	io_cmd_encode(&sqe, NVME_IO_WRITE, nsid, &cmd);
	raw_submit_by_r2t(queue, cid, &sqe, WRITE_BYTES);
}

/* Fills the hostile host's queues: more commands than buffers. */
static void flood(void)
{
	for (unsigned i = 0; i < scene.hostile.io_count; i++) {
		for (uint16_t cid = 1; cid < RAW_CIDS; cid++)
			write_ask(scene.hostile.io[i], cid, FILE_NS);
	}
	run_ms(50);
}

static unsigned hoarded(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < scene.hostile.io_count; i++) {
		for (uint16_t cid = 1; cid < RAW_CIDS; cid++)
			count += scene.hostile.io[i]->has_r2t[cid];
	}
	return count;
}

/* Four bytes per R2T. */
static void drip(uint32_t at)
{
	for (unsigned i = 0; i < scene.hostile.io_count; i++) {
		struct raw_queue *queue = scene.hostile.io[i];

		for (uint16_t cid = 1; cid < RAW_CIDS; cid++) {
			if (queue->has_r2t[cid] && !queue->is_closed)
				raw_send_piece(queue, cid, at, some_data, 4);
		}
	}
}

static unsigned hostile_open(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < scene.hostile.io_count; i++)
		count += !scene.hostile.io[i]->is_closed;
	return count;
}

/* Duration of a read and a write of the innocent host, in ms. */
static uint64_t innocent_ms(void)
{
	struct raw_queue *queue = scene.innocent.io[0];
	uint64_t start_ns = sim_now(base.sim);
	struct io_cmd cmd = {.block_count = WRITE_BYTES / 512};
	struct nvme_sqe sqe = {0};

	io_cmd_encode(&sqe, NVME_IO_READ, FILE_NS, &cmd);
	queue->is_done[1] = queue->is_done[2] = queue->has_r2t[2] = false;
	raw_submit_by_r2t(queue, 1, &sqe, WRITE_BYTES);
	write_ask(queue, 2, FILE_NS);
	if (!raw_wait_r2t(queue, 2))
		return UINT64_MAX;
	raw_send_piece(queue, 2, 0, some_data, WRITE_BYTES);
	if (!raw_wait_done(queue, 1) || !raw_wait_done(queue, 2))
		return UINT64_MAX;
	EXPECT(raw_is_ok(queue, 1) && raw_is_ok(queue, 2));
	return (sim_now(base.sim) - start_ns) / NS_PER_MS;
}

/* ---- buffers --------------------------------------------------------------------------------- */

static void others_go_on_beside_a_hoarder(void)
{
	uint64_t worst_ms = 0;

	set_up();
	flood();
	EXPECT_THAT(hoarded() >= 32 && hoarded() < 48, "%u of 48 buffers are held", hoarded());
	for (unsigned round = 0; round < 4 * DATA_TIMEOUT_MS / 250; round++) {
		uint64_t ms = innocent_ms();

		worst_ms = ms > worst_ms ? ms : worst_ms;
		drip(4 * round);
		run_ms(250);
	}
	EXPECT_THAT(worst_ms <= BOUND_MS, "the innocent host waited for %llu ms",
		    (unsigned long long)worst_ms);
	/* Four bytes do not count as progress. */
	EXPECT_EQ(0, hostile_open());
	EXPECT(innocent_ms() <= BOUND_MS);
	tear_down();
}

/* A host whose data is late keeps only its minimum of buffers: freed buffers go to others. */
static void a_slow_host_does_not_borrow(void)
{
	struct local *local;
	unsigned held;

	set_up();
	flood();
	held = hoarded();
	run_ms(1600);
	local = target_registry(base.target);
	list_for_each(node, &local->shares) {
		const struct local_share *share = list_entry(node, struct local_share, node);

		EXPECT_EQ(share->queue_count > 2, share->buffers.may_not_borrow);
	}
	/* One of its writes ends: the buffer stays free. */
	raw_send_piece(scene.hostile.io[0], 1, 0, some_data, WRITE_BYTES);
	EXPECT(raw_wait_done(scene.hostile.io[0], 1));
	run_ms(20);
	EXPECT_EQ(held, hoarded());
	tear_down();
}

/* At the discovery controller. The name is found in no list of allowed hosts, except that of the
 * innocent host. */
static void discoverer_join(struct actor *actor, const char *nqn, uint8_t id)
{
	actor->args = (struct connect_args){.queue_size = 8,
					    .cntlid = 0xffff,
					    .subsystem_nqn = NVME_DISCOVERY_NQN,
					    .host_id = {{id}}};
	text_copy(actor->args.host_nqn, sizeof(actor->args.host_nqn), nqn);
	actor->admin = queue_connect(&actor->args);
}

/* Made-up names get one share together, without borrowing; a host that a subsystem allows keeps a
 * share of its own. */
static void made_up_names_share_one_minimum(void)
{
	struct raw_scene_config restricted = config;
	struct actor strangers[STRANGERS] = {0};
	struct actor allowed = {0};
	unsigned share_count = 0;

	restricted.allowed_host = INNOCENT_NQN;
	raw_scene_open(&base, &restricted);
	for (unsigned i = 0; i < STRANGERS; i++) {
		char nqn[NVME_NQN_BYTES];

		snprintf(nqn, sizeof(nqn), "nqn.2026-11.io.weft:stranger-%u", i);
		discoverer_join(&strangers[i], nqn, (uint8_t)(i + 2));
	}
	discoverer_join(&allowed, INNOCENT_NQN, 1);
	list_for_each(node, &target_registry(base.target)->shares) {
		const struct local_share *share = list_entry(node, struct local_share, node);
		bool is_innocent = strcmp(share->host_nqn, INNOCENT_NQN) == 0;

		EXPECT_EQ(is_innocent ? 1u : STRANGERS, share->queue_count);
		EXPECT_EQ(!is_innocent, share->buffers.may_not_borrow);
		share_count++;
	}
	EXPECT_EQ(2u, share_count);
	for (unsigned i = 0; i < STRANGERS; i++)
		actor_leave(&strangers[i]);
	actor_leave(&allowed);
	EXPECT(list_empty(&target_registry(base.target)->shares));
	raw_scene_close(&base);
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Duration of the barrier of a change to this namespace, in ms. */
static uint64_t change_ms(unsigned index)
{
	uint64_t start_ns = sim_now(base.sim);
	struct target_scope scope = {.uuid_count = 1};
	struct uuid uuid;

	raw_scene_uuid(index, &uuid);
	scope.uuids = &uuid;
	base.is_waiting = true;
	sim_enter(base.control);
	target_apply_and_drain(base.target, raw_scene_snapshot(&base), &scope, on_applied_first,
			       on_drained, NULL);
	sim_leave(base.control);
	EXPECT(sim_run_while(base.sim, raw_scene_is_waiting, &base, 20 * NS_PER_S));
	return (sim_now(base.sim) - start_ns) / NS_PER_MS;
}

static void changes_end_beside_a_hoarder(void)
{
	uint64_t ms;

	set_up();
	flood();
	/* For another namespace: at once. */
	EXPECT(change_ms(HUNG_NS - 1) <= BOUND_MS);
	EXPECT_EQ(0, scene.drained_res);
	/* For its own namespace: late commands end it, or the barrier presses them. */
	ms = change_ms(FILE_NS - 1);
	EXPECT_THAT(ms <= BARRIER_PRESS_S * 1000 + BOUND_MS, "took %llu ms",
		    (unsigned long long)ms);
	EXPECT_EQ(0, scene.drained_res);
	tear_down();
}

static void changes_end_beside_a_hung_medium(void)
{
	struct raw_queue *queue;
	uint64_t ms;

	set_up();
	queue = scene.innocent.io[0];
	write_ask(queue, 3, HUNG_NS);
	EXPECT(raw_wait_r2t(queue, 3));
	raw_send_piece(queue, 3, 0, some_data, WRITE_BYTES);
	run_ms(50);
	EXPECT(change_ms(FILE_NS - 1) <= BOUND_MS);
	EXPECT_EQ(0, scene.drained_res);
	ms = change_ms(HUNG_NS - 1);
	EXPECT_THAT(ms >= BARRIER_END_S * 1000 && ms <= BARRIER_END_S * 1000 + BOUND_MS,
		    "took %llu ms", (unsigned long long)ms);
	EXPECT_EQ(-ETIMEDOUT, scene.drained_res);
	EXPECT(innocent_ms() <= BOUND_MS);
	tear_down();
}

int main(void)
{
	log_set_level(LOG_LEVEL_OFF);
	TAP_RUN(others_go_on_beside_a_hoarder);
	TAP_RUN(a_slow_host_does_not_borrow);
	TAP_RUN(made_up_names_share_one_minimum);
	TAP_RUN(changes_end_beside_a_hoarder);
	TAP_RUN(changes_end_beside_a_hung_medium);
	return tap_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one turn of the target's reactor does for hosts that send much work at once, counted in
 * bytes of a memory medium that change between two events of the simulator: target/turn.h. One
 * reactor; raw hosts (raw_host.h), all in one thread.
 */
#include "raw_scene.h"

#include "base/log.h"
#include "target/local.h"

#define QUEUES       6
#define MEDIUM_BYTES (64u << 20)
#define SAMPLE_BYTES (64u * 1024)
#define SAMPLES      (MEDIUM_BYTES / SAMPLE_BYTES)
#define BLOCK        4096
#define FLOOD_BLOCKS 255 /* of one command: a little less than 1 MiB */
#define COMMANDS     (RAW_CIDS - 1)
/* Commands that arrive, commands that have waited, and one piece of work for each. */
#define TURN_BYTES (4 * 2 * (uint64_t)TURN_TOTAL_NS + 2 * TURN_PIECE_BYTES)

static const struct raw_scene_config config = {
	.specs = {"mem:64M,block=4096", "mem:64M,block=4096"},
	.data_timeout_ms = 3000,
	.buf_counts = {32, 8, 8},
	.stop_limit_ms = 5000,
};

struct actor {
	struct connect_args args;
	struct raw_queue *admin;
	struct raw_queue *io[QUEUES];
	unsigned io_count;
};

static struct raw_scene base;
static struct actor hostile, innocent;
static uint8_t *memory;
static uint64_t set_bytes, most_bytes; /* in all, and at most between two events */
static uint64_t limit_bytes;           /* stop when so much is set */

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
	struct media *media;

	raw_scene_open(&base, &config);
	actor_join(&hostile, "nqn.2026-11.io.weft:hostile", 1, QUEUES);
	actor_join(&innocent, "nqn.2026-11.io.weft:innocent", 2, 1);
	media = ns_backing_media(base.backings[0]);
	memory = media->ops->map(media, 0, MEDIUM_BYTES);
	for (unsigned i = 0; i < SAMPLES; i++)
		memory[(size_t)i * SAMPLE_BYTES] = 1;
	set_bytes = most_bytes = 0;
	limit_bytes = UINT64_MAX;
}

static void tear_down(void)
{
	actor_leave(&hostile);
	actor_leave(&innocent);
	raw_scene_close(&base);
}

static void zeroes_ask(struct raw_queue *queue, uint16_t cid, uint32_t nsid, uint64_t block,
		       uint32_t blocks)
{
	struct io_cmd cmd = {.first_block = block, .block_count = blocks};
	struct nvme_sqe sqe = {0};

	io_cmd_encode(&sqe, NVME_IO_WRITE_ZEROES, nsid, &cmd);
	raw_submit(queue, cid, &sqe, NULL, 0);
}

/* QUEUES x COMMANDS, each for memory of its own. */
static void flood(void)
{
	uint64_t at = 0;

	for (unsigned i = 0; i < hostile.io_count; i++) {
		for (uint16_t cid = 1; cid <= COMMANDS; cid++, at += FLOOD_BLOCKS + 1)
			zeroes_ask(hostile.io[i], cid, 1, at, FLOOD_BLOCKS);
	}
}

/* Called between two events: counts what the event before has set. */
static void count(void)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < SAMPLES; i++) {
		uint8_t *sample = &memory[(size_t)i * SAMPLE_BYTES];

		if (*sample == 0) {
			*sample = 2; /* counted */
			bytes += SAMPLE_BYTES;
		}
	}
	set_bytes += bytes;
	most_bytes = bytes > most_bytes ? bytes : most_bytes;
}

static bool flood_goes_on(void *arg)
{
	count();
	if (set_bytes >= limit_bytes)
		return false;
	for (unsigned i = 0; i < hostile.io_count; i++) {
		for (uint16_t cid = 1; cid <= COMMANDS; cid++) {
			if (!hostile.io[i]->is_done[cid])
				return true;
		}
	}
	return false;
}

/* The work of 42 commands that arrive at the same time is spread over turns. */
static void a_turn_is_short(void)
{
	set_up();
	flood();
	EXPECT(sim_run_while(base.sim, flood_goes_on, NULL, 5 * NS_PER_S));
	for (unsigned i = 0; i < QUEUES; i++) {
		for (uint16_t cid = 1; cid <= COMMANDS; cid++)
			EXPECT(raw_is_ok(hostile.io[i], cid));
	}
	EXPECT_THAT(most_bytes <= TURN_BYTES, "%llu KiB in one turn",
		    (unsigned long long)most_bytes / 1024);
	/* All of it, and nothing twice. */
	EXPECT_EQ((uint64_t)QUEUES * COMMANDS * 16 * SAMPLE_BYTES, set_bytes);
	EXPECT(target_registry(base.target)->turn.waits > 0);
	tear_down();
}

/* ---- the order, without a target ------------------------------------------------------------- */

#define PIECE_NS (TURN_QUANTUM_NS / 4)
#define WAITS    40

/* Hosts A and B; queues 0 and 1 belong to A, queue 2 to B. */
static struct turn turn;
static struct turn_host hosts[2];
static struct turn_queue queues[3];
static struct turn_wait waits[3][WAITS];
static char order[3 * WAITS + 1];
static unsigned ran;

static void on_go(struct turn_wait *wait)
{
	unsigned index = (unsigned)(wait->queue - queues);

	order[ran++] = (char)('0' + index);
	turn_charge(&turn, &hosts[index / 2], PIECE_NS);
}

static bool some_wait(void *arg)
{
	return ran < *(unsigned *)arg;
}

static void fill(unsigned index, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		waits[index][i].go = on_go;
		turn_wait(&turn, &hosts[index / 2], &queues[index], &waits[index][i]);
	}
}

static void hosts_and_connections_take_turns(void)
{
	struct reactor_config config_of_reactor = {.cpu = -1};
	struct sim *sim = sim_create(1, &(struct sim_options){0});
	unsigned all = 2 * WAITS + 8 - 1;
	struct reactor *reactor;

	EXPECT_EQ(0, reactor_create(&config_of_reactor, &reactor));
	sim_enter(reactor);
	turn_init(&turn, reactor);
	for (unsigned i = 0; i < 2; i++)
		turn_host_init(&hosts[i]);
	for (unsigned i = 0; i < 3; i++)
		turn_queue_init(&queues[i]);
	EXPECT(turn_may(&turn, &hosts[1]));
	fill(0, WAITS);
	fill(1, WAITS);
	fill(2, 8);
	EXPECT(!turn_may(&turn, &hosts[1])); /* behind its own commands */
	turn_leave(&waits[1][0]);            /* cancelled */
	sim_leave(reactor);
	EXPECT(sim_run_while(sim, some_wait, &all, NS_PER_S));
	/* A quantum is four pieces. The queues of a host alternate. */
	EXPECT_THAT(strncmp(order, "0101222201012222010101", 22) == 0, "%s", order);
	EXPECT(turn.longest_ns <= TURN_TOTAL_NS + PIECE_NS);
	EXPECT(list_empty(&turn.hosts));
	sim_enter(reactor);
	EXPECT(turn_may(&turn, &hosts[1]));
	turn_stop(&turn);
	sim_leave(reactor);
	sim_destroy(sim);
}

/* ---- the target ------------------------------------------------------------------------------ */

/* Commands that wait end with their connection: nothing more is set. */
static void waiting_commands_end_with_their_host(void)
{
	uint64_t after;

	set_up();
	flood();
	limit_bytes = 4 << 20;
	EXPECT(sim_run_while(base.sim, flood_goes_on, NULL, 5 * NS_PER_S));
	actor_leave(&hostile);
	count();
	after = set_bytes;
	raw_scene_run_ms(&base, 1000);
	count();
	EXPECT_EQ(after, set_bytes);
	EXPECT(list_empty(&target_registry(base.target)->turn.hosts));
	actor_leave(&innocent);
	raw_scene_close(&base);
}

int main(void)
{
	log_set_level(LOG_LEVEL_OFF);
	TAP_RUN(a_turn_is_short);
	TAP_RUN(hosts_and_connections_take_turns);
	TAP_RUN(waiting_commands_end_with_their_host);
	return tap_end();
}

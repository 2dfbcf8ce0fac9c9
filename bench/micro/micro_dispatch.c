/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Micro: commands through the real target, from the decoded capsule to the response, without a
 * network. A stub transport (target/transport.h) connects an admin and an I/O queue with real
 * Connect commands, then submits 4 KiB reads and writes in batches of 32, like one receive, and
 * releases their slots together, like one send. The data itself is not transferred.
 *
 * One real reactor on this thread is control and data reactor. The target ends with the process.
 */
#include "micro.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/prng.h"
#include "base/text.h"
#include "target/local.h"
#include "wire/fabrics.h"
#include "wire/io_cmd.h"
#include "wire/sgl.h"

#include <stdlib.h>
#include <string.h>

#define BATCH    32
#define COMMANDS 1024 /* different commands, in turn */
#define IO_BYTES 4096
#define NS_BYTES "67108864"
#define BLOCKS   (67108864 / IO_BYTES)

enum dispatch_step {
	STEP_CONNECT_ADMIN,
	STEP_ENABLE,
	STEP_CONNECT_IO,
	STEP_MEASURE,
};

struct dispatch {
	struct micro *micro;
	struct reactor *reactor;
	struct target *target;
	struct snapshot *snapshot;
	struct queue admin;
	struct queue io;
	enum dispatch_step step; /* the next one */
	bool is_measuring;
	struct reactor_msg msg;
	uint16_t cntlid;
	struct slot *answered[BATCH];
	unsigned answered_count;
	struct nvme_sqe sqes[COMMANDS];
	uint32_t capsule_bytes; /* of sqes */
};

static struct dispatch dispatch;

/* ---- the transport -------------------------------------------------------------------------- */

static void step_take(struct reactor_msg *msg);

static void fake_respond(struct slot *slot)
{
	CHECK(nvme_status_is_ok(slot->status) && dispatch.answered_count < BATCH);
	dispatch.answered[dispatch.answered_count++] = slot;
	if (!dispatch.is_measuring)
		reactor_post(dispatch.reactor, &dispatch.msg, step_take);
}

static void fake_nothing(struct queue *queue)
{
}

static const struct transport_ops fake_transport = {
	.name = "micro",
	.slot_bytes = sizeof(struct slot),
	.respond = fake_respond,
	.resume = fake_nothing,
};

static void slots_release(void)
{
	for (unsigned i = 0; i < dispatch.answered_count; i++)
		slot_release(dispatch.answered[i]);
	dispatch.answered_count = 0;
}

static void capsule_feed(struct queue *queue, const struct nvme_sqe *sqe, const uint8_t *data,
			 uint32_t data_bytes)
{
	struct slot *slot = slot_take(queue);
	uint32_t granule_bytes;

	CHECK(slot != NULL);
	slot->sqe = *sqe;
	slot->capsule_bytes = data_bytes;
	CHECK(slot_prepare(slot));
	if (data_bytes > 0) {
		uint8_t *dest = slot_capsule_dest(slot, &granule_bytes);

		if (data)
			memcpy(dest, data, data_bytes);
	}
	slot_start(slot, true);
}

/* ---- connecting ----------------------------------------------------------------------------- */

static void connect_feed(struct queue *queue, uint16_t qid)
{
	struct connect_args args = {
		.qid = qid,
		.queue_size = 128,
		.wants_no_sq_flow_control = true,
		.cntlid = qid == 0 ? NVME_CNTLID_ANY : dispatch.cntlid,
	};
	uint8_t data[NVMF_CONNECT_DATA_BYTES];
	struct nvme_sqe sqe = {0};

	text_copy(args.subsystem_nqn, sizeof(args.subsystem_nqn), TARGET_DEFAULT_NQN);
	text_copy(args.host_nqn, sizeof(args.host_nqn), "nqn.2026-11.io.weft:micro");
	uuid_from_name(args.host_nqn, &args.host_id);
	CHECK(queue_init(queue, target_registry(dispatch.target), &fake_transport, 1) == 0);
	connect_encode(&sqe, data, &args);
	sgl_encode_in_capsule(&sqe, sizeof(data));
	capsule_feed(queue, &sqe, data, sizeof(data));
}

static void enable_feed(void)
{
	struct ctrl_config config = {
		.is_enabled = true, .page_shift = 12, .sq_entry_shift = 6, .cq_entry_shift = 4};
	struct nvme_sqe sqe = {0};

	property_set_encode(&sqe, PROPERTY_CC, cc_encode(&config), false);
	sgl_encode_none(&sqe);
	capsule_feed(&dispatch.admin, &sqe, NULL, 0);
}

/* ---- measuring ------------------------------------------------------------------------------ */

static void commands_make(uint8_t opcode, uint32_t nsid)
{
	struct prng prng;

	prng_seed(&prng, 1);
	dispatch.capsule_bytes = opcode == NVME_IO_WRITE ? IO_BYTES : 0;
	for (unsigned i = 0; i < COMMANDS; i++) {
		struct io_cmd cmd = {.first_block = prng_below(&prng, BLOCKS), .block_count = 1};

		dispatch.sqes[i] = (struct nvme_sqe){.cid = le16_of((uint16_t)(i % BATCH))};
		io_cmd_encode(&dispatch.sqes[i], opcode, nsid, &cmd);
		if (opcode == NVME_IO_WRITE)
			sgl_encode_in_capsule(&dispatch.sqes[i], IO_BYTES);
		else
			sgl_encode_transport(&dispatch.sqes[i], IO_BYTES);
	}
}

/* The budget of a turn would make commands wait, because the whole measurement runs in one turn. */
static void turn_renew(struct queue *queue)
{
	queue->local->turn.spent_ns = 0;
	queue->turn_host->spent_ns = 0;
}

static uint64_t commands_run(void *arg, uint64_t count)
{
	uint64_t start_ns = clock_thread_cpu_ns();

	for (uint64_t i = 0; i < count; i++) {
		capsule_feed(&dispatch.io, &dispatch.sqes[i % COMMANDS], NULL,
			     dispatch.capsule_bytes);
		if (dispatch.answered_count == BATCH) {
			slots_release();
			turn_renew(&dispatch.io);
		}
	}
	turn_renew(&dispatch.io);
	slots_release();
	return clock_thread_cpu_ns() - start_ns;
}

static void commands_measure(void)
{
	static const struct {
		const char *name;
		uint8_t opcode;
		uint32_t nsid;
	} rows[] = {
		{"4 KiB read, mem", NVME_IO_READ, 1},
		{"4 KiB write, mem", NVME_IO_WRITE, 1},
		{"4 KiB read, null", NVME_IO_READ, 2},
		{"4 KiB write, null", NVME_IO_WRITE, 2},
	};

	dispatch.io.moves_in_place = true;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct micro_what what = {.group = "dispatch", .name = rows[i].name};

		commands_make(rows[i].opcode, rows[i].nsid);
		micro_measure(dispatch.micro, &what, commands_run, NULL);
	}
}

/* Runs after each answer of the setup; first when the configuration is in force. */
static void step_take(struct reactor_msg *msg)
{
	if (dispatch.step == STEP_ENABLE)
		dispatch.cntlid = (uint16_t)dispatch.answered[0]->result;
	slots_release();
	switch (dispatch.step++) {
	case STEP_CONNECT_ADMIN:
		connect_feed(&dispatch.admin, 0);
		break;
	case STEP_ENABLE:
		enable_feed();
		break;
	case STEP_CONNECT_IO:
		connect_feed(&dispatch.io, 1);
		break;
	case STEP_MEASURE:
		dispatch.is_measuring = true;
		commands_measure();
		reactor_stop(dispatch.reactor);
		break;
	}
}

/* ---- the target ----------------------------------------------------------------------------- */

static void *made(size_t bytes)
{
	void *memory = calloc(1, bytes);

	CHECK(memory != NULL);
	return memory;
}

static void ns_fill(struct ns *ns, uint32_t nsid, const char *spec)
{
	struct media_error error;
	struct ns_backing *backing;
	struct media *media;

	CHECK(media_open(spec, &media, &error) == 0);
	CHECK(ns_backing_create(media, 1, &backing) == 0);
	*ns = (struct ns){
		.nsid = nsid,
		.ana_group = 1,
	};
	ns_bind(ns, backing);
}

static struct snapshot *snapshot_build(void)
{
	struct snapshot *snapshot = snapshot_create();
	struct subsystem *subsystem = made(sizeof(*subsystem));

	CHECK(snapshot != NULL);
	snapshot->subsystem_count = 1;
	snapshot->subsystems = made(sizeof(*snapshot->subsystems));
	snapshot->subsystems[0] = subsystem;
	text_copy(subsystem->nqn, sizeof(subsystem->nqn), TARGET_DEFAULT_NQN);
	text_copy(subsystem->serial, sizeof(subsystem->serial), "MICRO");
	subsystem->allows_any_host = true;
	subsystem->ana_group_max = 1;
	subsystem->ns_count = 2;
	subsystem->namespaces = ns_array_create(2);
	CHECK(subsystem->namespaces);
	ns_fill(&subsystem->namespaces[0], 1, "mem:" NS_BYTES);
	ns_fill(&subsystem->namespaces[1], 2, "null:" NS_BYTES);
	snapshot->port_count = 1;
	snapshot->ports = made(sizeof(*snapshot->ports));
	snapshot->ports[0].id = 1;
	CHECK(net_addr_parse("127.0.0.1:0", 0, &snapshot->ports[0].listen) == 0);
	snapshot->ports[0].subsystems = made(sizeof(struct subsystem *));
	snapshot->ports[0].subsystems[0] = subsystem;
	snapshot->ports[0].subsystem_count = 1;
	return snapshot;
}

static void on_applied(void *arg, int res, const char *error)
{
	CHECK(res == 0);
	step_take(NULL);
}

static void target_start(struct reactor_msg *msg)
{
	struct target_config config = {
		.control = dispatch.reactor, .reactors = &dispatch.reactor, .reactor_count = 1};

	CHECK(target_create(&config, &dispatch.target) == 0);
	dispatch.snapshot = snapshot_build();
	target_apply(dispatch.target, dispatch.snapshot, on_applied, NULL);
}

void micro_dispatch(struct micro *micro)
{
	struct reactor_config config = {.cpu = -1};

	dispatch.micro = micro;
	CHECK(reactor_create(&config, &dispatch.reactor) == 0);
	reactor_post(dispatch.reactor, &dispatch.msg, target_start);
	reactor_run(dispatch.reactor);
}

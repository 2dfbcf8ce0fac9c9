/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross-Controller Reset in states that a live target cannot be forced into: the range of
 * identifiers, controllers of other processes (a stand-in for cluster/peers.c answers, late or
 * never), and resets that control requests. Two controllers of one host on a real target; all on
 * simulated reactors in one thread.
 */
#include "sim.h"

#include "../unit/tap.h"
#include "base/clock.h"
#include "base/text.h"
#include "host/host.h"
#include "media/spec.h"
#include "target/ctrl_reset.h"
#include "target/local.h"

#include <stdlib.h>
#include <string.h>

#define CTRLS      2
#define OURS_FIRST 100
#define OURS_LAST  102
#define PEERS      0x4000 /* first identifier of the peer */
#define WAIT_NS    (5 * NS_PER_S)

struct scene {
	struct sim *sim;
	struct reactor *control;
	struct reactor *data[2];
	struct reactor *host;
	struct target *target;
	struct ns_backing *backing;
	struct net_addr addr;
	unsigned waits; /* pending callbacks */
	struct host_ctrl *ctrls[CTRLS];
	unsigned events;
	struct ctrl_reset *asked; /* the request to the peer */
	bool answers_at_once;
	enum ctrl_reset_result answer;
};

static struct scene scene;

static bool is_waiting(void *arg)
{
	return scene.waits > 0;
}

static void wait_all(void)
{
	EXPECT(sim_run_while(scene.sim, is_waiting, NULL, WAIT_NS));
}

/* ---- the peer -------------------------------------------------------------------------------- */

static bool peer_has(void *arg, uint16_t cntlid)
{
	return cntlid >= PEERS;
}

static void peer_done_here(struct reactor_msg *msg)
{
	struct ctrl_reset *reset = container_of(msg, struct ctrl_reset, msg);

	reset->done(reset, scene.answer);
}

static void peer_answer(enum ctrl_reset_result answer)
{
	scene.answer = answer;
	reactor_post(scene.asked->reactor, &scene.asked->msg, peer_done_here);
	scene.asked = NULL;
}

static void peer_reset(void *arg, struct ctrl_reset *reset)
{
	EXPECT(reactor_current() == scene.control);
	EXPECT_STR("nqn.2026-11.io.weft:resets", reset->host_nqn);
	scene.asked = reset;
	if (scene.answers_at_once)
		peer_answer(scene.answer);
}

/* ---- target and hosts ------------------------------------------------------------------------ */

static struct snapshot *snapshot_make(void)
{
	struct snapshot *snapshot = snapshot_create();
	struct subsystem *subsystem = calloc(1, sizeof(*subsystem));

	snapshot->subsystems = calloc(1, sizeof(*snapshot->subsystems));
	snapshot->subsystems[0] = subsystem;
	snapshot->subsystem_count = 1;
	text_copy(subsystem->nqn, sizeof(subsystem->nqn), TARGET_DEFAULT_NQN);
	text_copy(subsystem->serial, sizeof(subsystem->serial), "RESETS");
	text_copy(subsystem->model, sizeof(subsystem->model), "weft");
	subsystem->allows_any_host = true;
	subsystem->ana_group_max = 1;
	subsystem->namespaces = ns_array_create(1);
	subsystem->ns_count = 1;
	subsystem->namespaces[0] = (struct ns){.nsid = 1, .ana_group = 1, .is_clustered = true};
	ns_bind(&subsystem->namespaces[0], ns_backing_get(scene.backing));
	snapshot->ports = calloc(1, sizeof(*snapshot->ports));
	snapshot->ports[0] = (struct port){.id = 1, .listen = scene.addr, .subsystem_count = 1};
	snapshot->ports[0].subsystems = calloc(1, sizeof(struct subsystem *));
	snapshot->ports[0].subsystems[0] = subsystem;
	snapshot->port_count = 1;
	return snapshot;
}

static void on_applied(void *arg, int res, const char *error)
{
	EXPECT_EQ(0, res);
	scene.waits--;
}

static void on_connected(struct host_ctrl *ctrl, void *arg, int res, const struct host_error *error)
{
	struct host_ctrl **place = arg;

	if (res != 0)
		*place = NULL;
	scene.waits--;
}

static void on_event(struct host_ctrl *ctrl, void *arg, const struct async_event *event)
{
	scene.events += event->info == ASYNC_NOTICE_CTRL_RESET && event->log_id == LOG_CTRL_RESET;
}

static void ctrl_connect(unsigned index)
{
	static const struct host_callbacks callbacks = {.connected = on_connected,
							.event = on_event};
	struct host_config config = {.addr.net = scene.addr, .io_queues = 1, .io_queue_size = 8};

	text_copy(config.subsystem_nqn, sizeof(config.subsystem_nqn), TARGET_DEFAULT_NQN);
	text_copy(config.host_nqn, sizeof(config.host_nqn), "nqn.2026-11.io.weft:resets");
	uuid_from_name(config.host_nqn, &config.host_id);
	scene.waits++;
	sim_enter(scene.host);
	EXPECT_EQ(0, host_connect(scene.host, &config, &callbacks, &scene.ctrls[index],
				  &scene.ctrls[index]));
	sim_leave(scene.host);
	wait_all();
}

static void on_gone(void *arg)
{
	scene.waits--;
}

static void ctrl_drop(unsigned index)
{
	scene.waits++;
	sim_enter(scene.host);
	host_abandon(scene.ctrls[index], on_gone, NULL);
	sim_leave(scene.host);
	wait_all();
	scene.ctrls[index] = NULL;
	/* The target notices the disconnect. */
	sim_run_until(scene.sim, sim_now(scene.sim) + NS_PER_S);
}

static void set_up(void)
{
	struct reactor_config config = {.cpu = -1};
	struct target_config target = {
		.reactor_count = 2,
		.buf_counts = {16, 16, 16},
		.cntlid_first = OURS_FIRST,
		.cntlid_last = OURS_LAST,
		.peers = {.has_cntlid = peer_has, .reset = peer_reset},
		.random_seed = 7,
	};
	struct media_error error;
	struct media *media;

	memset(&scene, 0, sizeof(scene));
	scene.sim = sim_create(1, &(struct sim_options){0});
	EXPECT_EQ(0, reactor_create(&config, &scene.control));
	for (config.index = 1; config.index <= 2; config.index++)
		EXPECT_EQ(0, reactor_create(&config, &scene.data[config.index - 1]));
	EXPECT_EQ(0, reactor_create(&config, &scene.host));
	EXPECT_EQ(0, net_addr_parse("10.0.0.1", 4420, &scene.addr));
	sim_enter(scene.control);
	EXPECT_EQ(0, media_open("mem:1M,block=512", &media, &error));
	EXPECT_EQ(0, ns_backing_create(media, 2, &scene.backing));
	target.control = scene.control;
	target.reactors = scene.data;
	EXPECT_EQ(0, target_create(&target, &scene.target));
	scene.waits++;
	target_apply(scene.target, snapshot_make(), on_applied, NULL);
	sim_leave(scene.control);
	wait_all();
	for (unsigned i = 0; i < CTRLS; i++)
		ctrl_connect(i);
}

static void tear_down(void)
{
	for (unsigned i = 0; i < CTRLS; i++)
		if (scene.ctrls[i])
			ctrl_drop(i);
	scene.waits++;
	sim_enter(scene.control);
	target_shutdown(scene.target, 1000, on_gone, NULL);
	sim_leave(scene.control);
	wait_all();
	sim_run_until(scene.sim, sim_now(scene.sim) + NS_PER_S); /* sockets close afterwards */
	sim_enter(scene.control);
	target_destroy(scene.target);
	ns_backing_put(scene.backing);
	sim_leave(scene.control);
	EXPECT_EQ(0, sim_leaks(scene.sim));
	sim_destroy(scene.sim);
}

static void on_cmd_done(struct host_cmd *cmd)
{
	scene.waits--;
}

static void cmd_start(struct host_cmd *cmd)
{
	cmd->done = on_cmd_done;
	scene.waits++;
	sim_enter(scene.host);
	host_submit_admin(scene.ctrls[0], cmd);
	sim_leave(scene.host);
}

static void reset_start(struct host_cmd *cmd, uint16_t cntlid, const struct ctrl_identity *identity)
{
	memset(cmd, 0, sizeof(*cmd));
	host_cmd_ctrl_reset(cmd, cntlid, identity ? identity->uniquifier : 1,
			    identity ? identity->random_number : 1);
	cmd_start(cmd);
}

/* The newest entry of log 1Eh; false: the log is empty. */
static bool log_last(struct log_ctrl_reset_entry *ret_entry)
{
	uint8_t page[64] = {0};
	struct host_cmd cmd = {0};
	uint32_t count;

	host_cmd_log(&cmd, NVME_NSID_ALL, LOG_CTRL_RESET, 0, page, sizeof(page));
	cmd_start(&cmd);
	wait_all();
	count = log_ctrl_reset_count(page, sizeof(page));
	if (count > 0)
		log_ctrl_reset_entry_decode(page, count - 1, ret_entry);
	return count > 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void identifiers_stay_in_their_range_and_go_round(void)
{
	uint16_t first = host_ctrl_cntlid(scene.ctrls[0]);
	uint16_t second = host_ctrl_cntlid(scene.ctrls[1]);

	EXPECT_EQ(OURS_FIRST, first);
	EXPECT_EQ(OURS_FIRST + 1, second);
	ctrl_drop(1);
	ctrl_connect(1);
	EXPECT_EQ(OURS_FIRST + 2, host_ctrl_cntlid(scene.ctrls[1]));
	EXPECT_EQ(1, host_ctrl_identity(scene.ctrls[1])->uniquifier);
	ctrl_drop(1);
	ctrl_connect(1);
	/* Wrapped: 100 is in use, 101 is free again and gets another uniquifier. */
	EXPECT_EQ(OURS_FIRST + 1, host_ctrl_cntlid(scene.ctrls[1]));
	EXPECT_EQ(2, host_ctrl_identity(scene.ctrls[1])->uniquifier);
}

static void of_a_controller_of_this_process(void)
{
	uint16_t cntlid = host_ctrl_cntlid(scene.ctrls[1]);
	struct ctrl_identity identity = *host_ctrl_identity(scene.ctrls[1]);
	struct host_cmd cmd;

	reset_start(&cmd, cntlid, &identity);
	wait_all();
	EXPECT(nvme_status_is_ok(cmd.status));
	EXPECT(ctrl_reset_result_decode((uint32_t)cmd.result));
	EXPECT(scene.asked == NULL);
	reset_start(&cmd, OURS_LAST + 1, NULL);
	wait_all();
	EXPECT(nvme_status_same(cmd.status, NVME_SC_INVALID_FIELD));
}

static void a_peer_answers_at_once(void)
{
	struct log_ctrl_reset_entry entry;
	struct host_cmd cmd;

	scene.answers_at_once = true;
	scene.answer = CTRL_RESET_DONE;
	reset_start(&cmd, PEERS, NULL);
	wait_all();
	EXPECT(nvme_status_is_ok(cmd.status) && ctrl_reset_result_decode((uint32_t)cmd.result));
	scene.answer = CTRL_RESET_FORBIDDEN;
	reset_start(&cmd, PEERS, NULL);
	wait_all();
	EXPECT(nvme_status_same(cmd.status, NVME_SC_INVALID_FIELD));
	EXPECT(!log_last(&entry));
	scene.answer = CTRL_RESET_FAILED;
	reset_start(&cmd, PEERS + 5, NULL);
	wait_all();
	EXPECT(nvme_status_is_ok(cmd.status) && !ctrl_reset_result_decode((uint32_t)cmd.result));
	EXPECT(log_last(&entry));
	EXPECT_EQ(PEERS + 5, entry.cntlid);
	EXPECT_EQ(LOG_CTRL_RESET_FAILED, entry.state);
}

static void a_peer_answers_late(void)
{
	struct log_ctrl_reset_entry entry;
	struct host_cmd cmd, again;
	uint64_t start_ns = sim_now(scene.sim);

	reset_start(&cmd, PEERS, NULL);
	wait_all();
	EXPECT(nvme_status_is_ok(cmd.status) && !ctrl_reset_result_decode((uint32_t)cmd.result));
	EXPECT(sim_now(scene.sim) - start_ns >= 100 * NS_PER_MS);
	EXPECT(sim_now(scene.sim) - start_ns < 200 * NS_PER_MS);
	EXPECT(log_last(&entry));
	EXPECT_EQ(LOG_CTRL_RESET_IN_PROGRESS, entry.state);
	reset_start(&again, PEERS, NULL);
	wait_all();
	EXPECT(nvme_status_same(again.status, NVME_SC_CTRL_RESET_IN_PROGRESS));
	sim_enter(scene.control);
	peer_answer(CTRL_RESET_DONE);
	sim_leave(scene.control);
	sim_run_until(scene.sim, sim_now(scene.sim) + NS_PER_MS);
	EXPECT(log_last(&entry));
	EXPECT_EQ(LOG_CTRL_RESET_SUCCESS, entry.state);
	EXPECT_EQ(host_ctrl_cntlid(scene.ctrls[0]), entry.asked_cntlid);
}

static void peer_answers(struct ctrl_reset *asked)
{
	scene.asked = asked;
	sim_enter(scene.control);
	peer_answer(CTRL_RESET_DONE);
	sim_leave(scene.control);
	sim_run_until(scene.sim, sim_now(scene.sim) + NS_PER_MS);
}

/* A restarted process creates controllers with the CNTLID and CIU of its predecessor's. */
static void another_instance_of_the_same_name(void)
{
	const struct ctrl_identity first = {.uniquifier = 1, .random_number = 1};
	const struct ctrl_identity second = {.uniquifier = 1, .random_number = 2};
	struct log_ctrl_reset_entry entry;
	struct host_cmd cmd;

	reset_start(&cmd, PEERS, &first);
	wait_all();
	peer_answers(scene.asked);
	EXPECT(log_last(&entry) && entry.state == LOG_CTRL_RESET_SUCCESS);
	reset_start(&cmd, PEERS, &second);
	wait_all();
	EXPECT(nvme_status_is_ok(cmd.status) && !ctrl_reset_result_decode((uint32_t)cmd.result));
	EXPECT(log_last(&entry) && entry.state == LOG_CTRL_RESET_IN_PROGRESS);
	EXPECT_EQ(1, scene.target->ctrls[host_ctrl_cntlid(scene.ctrls[0])]->reset_log_count);
	peer_answers(scene.asked);
	EXPECT(log_last(&entry) && entry.state == LOG_CTRL_RESET_SUCCESS);
}

static void another_instance_while_the_peer_works(void)
{
	const struct ctrl_identity first = {.uniquifier = 1, .random_number = 1};
	const struct ctrl_identity second = {.uniquifier = 1, .random_number = 2};
	struct log_ctrl_reset_entry entry;
	struct ctrl_reset *older, *newer;
	struct host_cmd cmd, next;

	reset_start(&cmd, PEERS, &first);
	sim_run_until(scene.sim, sim_now(scene.sim) + 10 * NS_PER_MS);
	older = scene.asked;
	EXPECT(older != NULL);
	reset_start(&next, PEERS, &second);
	wait_all();
	EXPECT(nvme_status_same(cmd.status, NVME_SC_COMMAND_INTERRUPTED));
	EXPECT(nvme_status_is_ok(next.status) && !ctrl_reset_result_decode((uint32_t)next.result));
	EXPECT(scene.asked != older);
	newer = scene.asked;
	peer_answers(older);
	EXPECT(log_last(&entry) && entry.state == LOG_CTRL_RESET_IN_PROGRESS);
	peer_answers(newer);
	EXPECT(log_last(&entry) && entry.state == LOG_CTRL_RESET_SUCCESS);
	EXPECT_EQ(0, scene.target->locals[0].reset_count + scene.target->locals[1].reset_count);
}

static void the_asker_goes_while_the_peer_works(void)
{
	struct host_cmd cmd;

	reset_start(&cmd, PEERS, NULL);
	sim_run_until(scene.sim, sim_now(scene.sim) + 10 * NS_PER_MS);
	EXPECT(scene.asked != NULL);
	ctrl_drop(0);
	EXPECT(scene.waits == 0 && nvme_status_same(cmd.status, NVME_SC_HOST_PATHING_ERROR));
	/* The peer's answer has no receiver any more, and frees the request. */
	sim_enter(scene.control);
	peer_answer(CTRL_RESET_DONE);
	sim_leave(scene.control);
	sim_run_until(scene.sim, sim_now(scene.sim) + NS_PER_MS);
	EXPECT_EQ(0, scene.target->locals[0].reset_count + scene.target->locals[1].reset_count);
}

struct control_reset {
	struct ctrl_reset reset;
	enum ctrl_reset_result result;
};

static void on_control_reset(struct ctrl_reset *reset, enum ctrl_reset_result result)
{
	EXPECT(reactor_current() == scene.control);
	container_of(reset, struct control_reset, reset)->result = result;
	scene.waits--;
}

static enum ctrl_reset_result control_reset(const char *host_nqn)
{
	const struct ctrl_identity *identity = host_ctrl_identity(scene.ctrls[1]);
	struct control_reset ask = {
		.reset = {.cntlid = host_ctrl_cntlid(scene.ctrls[1]),
			  .uniquifier = identity->uniquifier,
			  .random_number = identity->random_number,
			  .reactor = scene.control,
			  .done = on_control_reset},
		.result = CTRL_RESET_FAILED,
	};

	text_copy(ask.reset.subsystem_nqn, NVME_NQN_BYTES, TARGET_DEFAULT_NQN);
	text_copy(ask.reset.host_nqn, NVME_NQN_BYTES, host_nqn);
	uuid_from_name("nqn.2026-11.io.weft:resets", &ask.reset.host_id);
	scene.waits++;
	sim_enter(scene.control);
	target_ctrl_reset(scene.target, &ask.reset);
	sim_leave(scene.control);
	wait_all();
	return ask.result;
}

static void control_asks(void)
{
	EXPECT_EQ(CTRL_RESET_FORBIDDEN, control_reset("nqn.2026-11.io.weft:other"));
	EXPECT(scene.target->ctrls[host_ctrl_cntlid(scene.ctrls[1])] != NULL);
	EXPECT_EQ(CTRL_RESET_DONE, control_reset("nqn.2026-11.io.weft:resets"));
	EXPECT_EQ(CTRL_RESET_DONE, control_reset("nqn.2026-11.io.weft:resets"));
}

static void (*body)(void);

static void run_in_scene(void)
{
	set_up();
	body();
	tear_down();
}

#define RUN(fn) (body = (fn), tap_run(#fn, run_in_scene))

int main(void)
{
	RUN(identifiers_stay_in_their_range_and_go_round);
	RUN(of_a_controller_of_this_process);
	RUN(a_peer_answers_at_once);
	RUN(a_peer_answers_late);
	RUN(another_instance_of_the_same_name);
	RUN(another_instance_while_the_peer_works);
	RUN(the_asker_goes_while_the_peer_works);
	RUN(control_asks);
	return tap_end();
}

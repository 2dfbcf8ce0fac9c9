/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated nodes that do not die: two of them serve a host as a cluster; changes by operators and
 * hosts are in force and kept; a failing store changes nothing; the discovery client follows the
 * log. Deaths are in test_sim_node_death.c.
 */
#include "../unit/tap.h"
#include "node_world.h"
#include "sim_discovery_client.h"
#include "sim_posix.h"
#include "sim_store.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/uuid.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static struct nworld world;

static struct sim_node *node(unsigned index)
{
	return world.nodes[index].node;
}

/* ---- edits ----------------------------------------------------------------------------------- */

static int edit_ns_add(json_t *document, void *arg, struct config_errors *errors)
{
	json_t *ns =
		json_pack("{s:i, s:s}", "nsid", 2, "media", "file:/disk/two,size=256K,block=4096");

	return json_array_append_new(json_object_get(nworld_subsystem(document), "namespaces"), ns);
}

static int edit_ns_remove(json_t *document, void *arg, struct config_errors *errors)
{
	return json_array_remove(json_object_get(nworld_subsystem(document), "namespaces"), 1);
}

static int edit_ns_grow(json_t *document, void *arg, struct config_errors *errors)
{
	json_t *ns = json_array_get(json_object_get(nworld_subsystem(document), "namespaces"), 0);

	return json_object_set_new(ns, "media", json_string("file:/disk/one,size=512K,block=4096"));
}

static int edit_ana(json_t *document, void *arg, struct config_errors *errors)
{
	json_t *port = json_array_get(json_object_get(document, "ports"), 0);

	return json_object_set_new(port, "ana",
				   json_pack("[{s:i, s:s}]", "group", 1, "state", "non-optimized"));
}

static int edit_revoke(json_t *document, void *arg, struct config_errors *errors)
{
	json_object_set_new(nworld_subsystem(document), "allow_any_host", json_false());
	return json_object_set_new(nworld_subsystem(document), "hosts", json_array());
}

static int edit_allow(json_t *document, void *arg, struct config_errors *errors)
{
	return json_object_set_new(nworld_subsystem(document), "hosts",
				   json_pack("[s]", NWORLD_HOST_NQN));
}

/* Invalid: the NSID is in use. */
static int edit_wrong(json_t *document, void *arg, struct config_errors *errors)
{
	json_t *ns = json_pack("{s:i, s:s}", "nsid", 1, "media", "file:/disk/two,size=256K");

	return json_array_append_new(json_object_get(nworld_subsystem(document), "namespaces"), ns);
}

/* A new reference to the document in force. */
static json_t *document_now(void)
{
	json_t *document = sim_node_document(node(0));

	EXPECT(document != NULL);
	return document;
}

static void change_is_good(int (*edit)(json_t *document, void *arg, struct config_errors *errors))
{
	uint64_t before = sim_node_generation(node(0));
	struct nchange change;

	EXPECT(nworld_change_wait(&world, 0, &change, edit));
	EXPECT_THAT(change.res == 0, "no error, got %d: %s", change.res, change.why);
	EXPECT_EQ(before + 1, change.generation);
	EXPECT_EQ(before + 1, sim_node_generation(node(0)));
	EXPECT(nworld_kept_is_in_force(&world, 0));
}

/* ---- serving --------------------------------------------------------------------------------- */

static void cluster_open(void)
{
	nworld_create(&world, 1, 2, NULL);
	EXPECT(nworld_cluster_open(&world));
}

static void two_nodes_serve_a_host(void)
{
	static struct nop nop;

	cluster_open();
	for (unsigned i = 0; i < 20; i++) {
		nop_write(&world, &nop, i, 100 + i);
		EXPECT(nop_wait(&nop, 1000));
	}
	for (unsigned i = 0; i < 20; i++)
		EXPECT_EQ(100 + i, nworld_read(&world, i));
	EXPECT(nworld_path(&world, 0).commands >= 10);
	EXPECT(nworld_path(&world, 1).commands >= 10);
	EXPECT_EQ(0, nworld_destroy(&world));
	EXPECT_EQ(1, world.nodes[0].stopped);
	EXPECT_EQ(1, world.nodes[1].stopped);
	EXPECT_EQ(0, world.nodes[0].died + world.nodes[1].died);
}

/* The other node serves alone, and writes through either node are there. */
static void an_orderly_restart_loses_nothing(void)
{
	static struct nop nop;

	cluster_open();
	EXPECT(nworld_stop(&world, 0));
	EXPECT_EQ(SIM_NODE_DOWN, sim_node_state(node(0)));
	EXPECT(sim_node_process(node(0)) == NULL);
	nop_write(&world, &nop, 3, 33);
	EXPECT(nop_wait(&nop, 5000));
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_until_live(&world, 2, 10000));
	EXPECT(nworld_stop(&world, 1));
	EXPECT_EQ(33, nworld_read(&world, 3));
	EXPECT_EQ(2, sim_node_lives(node(0)));
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* ---- operators ------------------------------------------------------------------------------- */

static bool has_ns(struct nworld *unused, void *arg)
{
	struct mpath_ns *ns = mpath_ns_find(world.mpath, 2);
	struct ns_info info = {.is_gone = true};

	if (ns)
		mpath_ns_info(ns, &info);
	return !info.is_gone;
}

static bool has_no_ns(struct nworld *unused, void *arg)
{
	return !has_ns(unused, arg);
}

static bool has_grown(struct nworld *unused, void *arg)
{
	struct ns_info info;

	mpath_ns_info(mpath_ns_find(world.mpath, 1), &info);
	return info.identity.block_count == 2 * NWORLD_BLOCKS;
}

static bool is_not_optimized(struct nworld *unused, void *arg)
{
	return mpath_path_ana(world.mpath, 0, 1) == ANA_NON_OPTIMIZED;
}

static bool is_out(struct nworld *unused, void *arg)
{
	return nworld_path(&world, 0).state != PATH_LIVE;
}

static void changes_are_in_force_and_kept(void)
{
	struct nchange change;
	json_t *before, *after;

	nworld_create(&world, 2, 1, NULL);
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_connect(&world, 1));
	change_is_good(edit_ns_add);
	EXPECT(nworld_until(&world, has_ns, NULL, 1000));
	change_is_good(edit_ns_grow);
	EXPECT(nworld_until(&world, has_grown, NULL, 1000));
	change_is_good(edit_ana);
	EXPECT(nworld_until(&world, is_not_optimized, NULL, 1000));
	change_is_good(edit_ns_remove);
	EXPECT(nworld_until(&world, has_no_ns, NULL, 1000));
	change_is_good(edit_revoke);
	EXPECT(nworld_until(&world, is_out, NULL, 1000));
	nworld_run_ms(&world, 3000);
	EXPECT(is_out(&world, NULL));
	change_is_good(edit_allow);
	EXPECT(nworld_until_live(&world, 1, 5000));
	before = document_now();
	EXPECT(nworld_change_wait(&world, 0, &change, edit_wrong));
	EXPECT(change.res < 0 && change.why[0] != 0);
	after = document_now();
	EXPECT(json_equal(before, after));
	json_decref(after);
	EXPECT(nworld_stop(&world, 0));
	EXPECT(nworld_start(&world, 0));
	after = document_now();
	EXPECT(json_equal(before, after));
	EXPECT_EQ(7, sim_node_generation(node(0)));
	EXPECT(nworld_until_live(&world, 1, 5000));
	json_decref(before);
	json_decref(after);
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* ---- hosts that manage ------------------------------------------------------------------------
 */

static bool is_kept_protected(void)
{
	json_t *document = sim_node_kept_document(node(0));
	const json_t *ns =
		json_array_get(json_object_get(nworld_subsystem(document), "namespaces"), 0);
	const char *protect = json_string_value(json_object_get(ns, "write_protect"));
	bool is_protected = protect && strcmp(protect, "protected") == 0;

	json_decref(document);
	return is_protected;
}

/* Set Features (84h) changes the document like an operator does: the change survives a kill. */
static void what_a_host_changes_is_kept(void)
{
	static struct nop nop;
	struct nvme_sqe sqe = {0};

	nworld_create(&world, 8, 1, NULL);
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_connect(&world, 1));
	sqe.nsid = le32_of(1);
	feature_set_encode(&sqe, FEATURE_WRITE_PROTECT, NS_WRITE_PROTECT_ON);
	EXPECT(!is_kept_protected());
	nop_admin(&world, &nop, &sqe);
	EXPECT(nop_wait(&nop, 1000));
	EXPECT(is_kept_protected());
	sim_node_kill(node(0), SIM_DEATH_KILLED);
	EXPECT(nworld_start(&world, 0));
	EXPECT(is_kept_protected());
	EXPECT(nworld_until_live(&world, 1, 10000));
	nop_write(&world, &nop, 1, 1);
	EXPECT(!nop_wait(&nop, 5000));
	EXPECT(nop.is_done && nvme_status_same(nop.io.status, NVME_SC_NS_WRITE_PROTECTED));
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* ---- a store that fails -----------------------------------------------------------------------
 */

/* The node reports why it cannot start, leaks nothing, and starts once there is space. */
static void a_full_store_lets_nothing_start(void)
{
	nworld_create(&world, 9, 1, NULL);
	sim_folder_set_full(sim_node_folder(node(0)), true);
	EXPECT(!nworld_start(&world, 0));
	EXPECT_EQ(-ENOSPC, world.nodes[0].start_res);
	EXPECT(strstr(world.nodes[0].why, "full") != NULL);
	EXPECT_EQ(0, world.nodes[0].died);
	EXPECT(sim_node_process(node(0)) == NULL);
	sim_folder_set_full(sim_node_folder(node(0)), false);
	EXPECT(nworld_start(&world, 0));
	EXPECT_EQ(0, nworld_destroy(&world));
}

static void a_full_store_changes_nothing(void)
{
	struct nchange change;
	json_t *before, *after;

	nworld_create(&world, 10, 1, NULL);
	EXPECT(nworld_start(&world, 0));
	before = document_now();
	sim_folder_set_full(sim_node_folder(node(0)), true);
	EXPECT(nworld_change_wait(&world, 0, &change, edit_ns_add));
	EXPECT_EQ(-ENOSPC, change.res);
	EXPECT(nworld_kept_is_in_force(&world, 0));
	after = document_now();
	EXPECT(json_equal(before, after));
	json_decref(before);
	json_decref(after);
	sim_folder_set_full(sim_node_folder(node(0)), false);
	change_is_good(edit_ns_add);
	EXPECT_EQ(0, nworld_destroy(&world));
}

static int edit_port_add(json_t *document, void *arg, struct config_errors *errors)
{
	return json_array_append_new(
		json_object_get(document, "ports"),
		json_pack("{s:i, s:s, s:s}", "id", 7, "address", "10.9.9.9", "service", "4420"));
}

static int edit_port_remove(json_t *document, void *arg, struct config_errors *errors)
{
	json_t *ports = json_object_get(document, "ports");
	size_t count = json_array_size(ports);

	return count > 1 ? json_array_remove(ports, count - 1) : 0;
}

/* The change cannot be kept, and its port cannot be opened again: the change stays in force. The
 * same change submitted again changes nothing else, but is kept. */
static void what_could_not_be_taken_back_is_kept_with_the_next_change(void)
{
	struct nchange change;

	nworld_create(&world, 14, 1, NULL);
	EXPECT(nworld_start(&world, 0));
	change_is_good(edit_port_add);
	sim_folder_set_full(sim_node_folder(node(0)), true);
	sim_process_refuse_memory(sim_node_process(node(0)), 1, 1);
	EXPECT(nworld_change_wait(&world, 0, &change, edit_port_remove));
	EXPECT_EQ(-ENOSPC, change.res);
	sim_process_refuse_memory(sim_node_process(node(0)), 0, 0);
	EXPECT(!nworld_kept_is_in_force(&world, 0));
	EXPECT(nworld_change_wait(&world, 0, &change, edit_port_remove));
	EXPECT_EQ(-ENOSPC, change.res);
	sim_folder_set_full(sim_node_folder(node(0)), false);
	change_is_good(edit_port_remove);
	EXPECT(nworld_kept_is_in_force(&world, 0));
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* ---- discovery ------------------------------------------------------------------------------- */

static struct sim_discovery_client *client;

static bool is_current(struct nworld *unused, void *arg)
{
	return sim_discovery_client_is_current(client);
}

static unsigned entries_of(const char *nqn)
{
	unsigned count, found = 0;
	const struct discovery_entry *entries = sim_discovery_client_entries(client, &count);

	for (unsigned i = 0; i < count; i++)
		found += strcmp(entries[i].subsystem_nqn, nqn) == 0;
	return found;
}

static int edit_sub_add(json_t *document, void *arg, struct config_errors *errors)
{
	return json_array_append_new(json_object_get(document, "subsystems"),
				     json_pack("{s:s}", "nqn", "nqn.2026-11.io.weft:second"));
}

static bool has_second(struct nworld *unused, void *arg)
{
	return entries_of("nqn.2026-11.io.weft:second") == 1;
}

static bool has_lost(struct nworld *unused, void *arg)
{
	return sim_discovery_client_losses(client) > 0;
}

static void on_client_gone(void *arg)
{
	*(bool *)arg = true;
}

static bool is_true(struct nworld *unused, void *arg)
{
	return *(bool *)arg;
}

static void client_open(void)
{
	struct sim_discovery_options options = {.host_id = world.config.host_id};

	CHECK(net_addr_parse("10.0.0.1:8009", 8009, &options.addr) == 0);
	memcpy(options.host_nqn, world.config.host_nqn, sizeof(options.host_nqn));
	sim_enter(world.reactor);
	client = sim_discovery_client_create(world.reactor, &options);
	sim_leave(world.reactor);
}

static void the_discovery_client_follows_the_log(void)
{
	bool is_gone = false;

	nworld_create(&world, 7, 1, NULL);
	client_open();
	nworld_run_ms(&world, 500);
	EXPECT(!sim_discovery_client_is_current(client));
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_until(&world, is_current, NULL, 5000));
	EXPECT_EQ(1, entries_of(NWORLD_NQN));
	EXPECT_EQ(0, sim_discovery_client_events(client));
	change_is_good(edit_sub_add);
	EXPECT(nworld_until(&world, has_second, NULL, 1000));
	EXPECT_EQ(1, sim_discovery_client_events(client));
	sim_node_kill(node(0), SIM_DEATH_POWER);
	EXPECT(nworld_until(&world, has_lost, NULL, 10000));
	EXPECT(!sim_discovery_client_is_current(client));
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_until(&world, is_current, NULL, 10000));
	EXPECT(has_second(&world, NULL));
	sim_enter(world.reactor);
	sim_discovery_client_destroy(client, on_client_gone, &is_gone);
	sim_leave(world.reactor);
	EXPECT(nworld_until(&world, is_true, &is_gone, 10000));
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* ---- the kernel of simulated processes --------------------------------------------------------
 */

struct answers {
	pid_t pid;
	uint64_t monotonic_ns;
	uint64_t wall_ns;
	struct uuid random;
};

static struct answers ask_as(unsigned index)
{
	struct answers answers;

	sim_process_enter(sim_node_process(node(index)));
	answers.pid = getpid();
	answers.monotonic_ns = clock_monotonic_ns();
	answers.wall_ns = clock_realtime_ns();
	uuid_random(&answers.random);
	sim_process_leave(sim_node_process(node(index)));
	return answers;
}

/* Process IDs, clocks and randomness differ per process, and are equal in every run. */
static void the_kernel_answers_each_process_for_itself(void)
{
	struct answers first[2], again;

	for (unsigned run = 0; run < 2; run++) {
		nworld_create(&world, 13, 2, NULL);
		EXPECT(nworld_cluster_open(&world));
		first[0] = ask_as(0);
		first[1] = ask_as(1);
		if (run == 0)
			again = first[0];
		EXPECT(first[0].pid != first[1].pid && first[0].pid != getpid());
		EXPECT_EQ(sim_now(world.sim) + 1000 * NS_PER_S, first[0].monotonic_ns);
		EXPECT_EQ(sim_now(world.sim) + 2000 * NS_PER_S, first[1].monotonic_ns);
		EXPECT(memcmp(&first[0].random, &first[1].random, sizeof(struct uuid)) != 0);
		sim_posix_jump_wall(sim_node_process(node(0)), 3600 * (int64_t)NS_PER_S);
		EXPECT_EQ(first[0].monotonic_ns, ask_as(0).monotonic_ns);
		EXPECT_EQ(first[0].wall_ns + 3600 * NS_PER_S, ask_as(0).wall_ns);
		EXPECT_EQ(first[1].wall_ns, ask_as(1).wall_ns);
		EXPECT_EQ(0, nworld_destroy(&world));
	}
	EXPECT_EQ(again.pid, first[0].pid);
	EXPECT(memcmp(&again.random, &first[0].random, sizeof(struct uuid)) == 0);
}

int main(void)
{
	const char *trace = getenv("TRACE");

	log_set_level(trace != NULL && trace[0] == '1' ? LOG_LEVEL_DEBUG : LOG_LEVEL_OFF);
	TAP_RUN(two_nodes_serve_a_host);
	TAP_RUN(an_orderly_restart_loses_nothing);
	TAP_RUN(changes_are_in_force_and_kept);
	TAP_RUN(what_a_host_changes_is_kept);
	TAP_RUN(a_full_store_lets_nothing_start);
	TAP_RUN(a_full_store_changes_nothing);
	TAP_RUN(what_could_not_be_taken_back_is_kept_with_the_next_change);
	TAP_RUN(the_discovery_client_follows_the_log);
	TAP_RUN(the_kernel_answers_each_process_for_itself);
	return tap_end();
}

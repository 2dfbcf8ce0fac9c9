/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that are deleted or truncated between the stop of a simulated node and its next start, and
 * nodes that die while a namespace grows. A read never returns zeroes in place of acknowledged
 * data: another member serves it, it waits, or it returns the data. A node always starts again.
 */
#include "../unit/tap.h"
#include "node_world.h"
#include "sim_posix.h"
#include "sim_store.h"

#include "base/log.h"
#include "base/text.h"
#include "daemon/lost_ns.h"

#include <errno.h>
#include <stdlib.h>

#define BLOCKS_WRITTEN 20

static struct nworld world;

static struct sim_node *node(unsigned index)
{
	return world.nodes[index].node;
}

static void write_all(void)
{
	static struct nop nop;

	for (unsigned i = 0; i < BLOCKS_WRITTEN; i++) {
		nop_write(&world, &nop, i * 3, 100 + i);
		EXPECT(nop_wait(&nop, 1000));
	}
}

static void expect_all(const char *when)
{
	for (unsigned i = 0; i < BLOCKS_WRITTEN && !tap_case_failed; i++) {
		uint64_t value = nworld_read(&world, (uint64_t)i * 3);

		EXPECT_THAT(value == 100 + i, "%s: block %u has its data, not %llu", when, i * 3,
			    (unsigned long long)value);
	}
}

/* Blocks left of the image, and how the node ended. */
static const struct {
	uint64_t left;
	bool is_killed;
} losses[] = {
	{0, false}, {0, true}, {1, false}, {NWORLD_BLOCKS / 2, true}, {NWORLD_BLOCKS - 1, false}};

static bool is_down(struct nworld *unused, void *arg)
{
	return sim_node_state(node(0)) == SIM_NODE_DOWN;
}

static void end_node(bool is_killed)
{
	if (!is_killed) {
		EXPECT(nworld_stop(&world, 0));
		return;
	}
	sim_node_kill(node(0), SIM_DEATH_KILLED);
	EXPECT(nworld_until(&world, is_down, NULL, 1000));
}

/* The other member still has the image, through its open descriptor. */
static void a_member_without_its_image_serves_no_zeroes(void)
{
	for (unsigned i = 0; i < ARRAY_LEN(losses) && !tap_case_failed; i++) {
		nworld_create(&world, 11 + i, 2, NULL);
		EXPECT(nworld_cluster_open(&world));
		write_all();
		end_node(losses[i].is_killed);
		sim_disk_lose(world.disks[0], losses[i].left);
		EXPECT_THAT(nworld_start(&world, 0), "it starts: %s", world.nodes[0].why);
		nworld_run_ms(&world, 3000);
		expect_all("while it is lost");
		sim_disk_lose(world.disks[0], UINT64_MAX);
		EXPECT(nworld_stop(&world, 0));
		EXPECT(nworld_start(&world, 0));
		EXPECT(nworld_until_live(&world, 2, 20000));
		expect_all("when it is back");
		EXPECT_EQ(0, nworld_destroy(&world));
	}
}

static struct sim_disk *twin_create(void)
{
	const struct sim_disk_options options = {.name = "twin",
						 .block_bytes = NWORLD_BLOCK_BYTES,
						 .block_count = NWORLD_BLOCKS,
						 .seed = 5};

	return sim_disk_create(world.sim, &options);
}

static bool twin_is_empty(const struct sim_disk *twin)
{
	for (unsigned i = 0; i < NWORLD_BLOCKS; i++) {
		const uint8_t *block = sim_disk_block(twin, i);

		for (unsigned k = 0; k < NWORLD_BLOCK_BYTES; k++) {
			if (block[k] != 0)
				return false;
		}
	}
	return true;
}

/* The member with the right file stops while the other one is refused. Then both stop, and the
 * wrong one starts first. */
static void others_end(bool is_killed)
{
	for (unsigned i = 0; i < 2; i++) {
		if (is_killed)
			sim_node_kill(node(1), SIM_DEATH_KILLED);
		else
			EXPECT(nworld_stop(&world, 1));
		if (i == 1) {
			end_node(is_killed);
			EXPECT(nworld_start(&world, 0));
		}
		nworld_run_ms(&world, 7000);
		EXPECT_THAT(nworld_start(&world, 1), "it starts: %s", world.nodes[1].why);
		EXPECT(nworld_until_live(&world, 2, 20000));
		nworld_run_ms(&world, 3000);
		write_all();
	}
}

/* As in a separate mount namespace: the same name, another file. */
static void a_member_with_another_file_is_refused(void)
{
	for (unsigned i = 0; i < 2 && !tap_case_failed; i++) {
		struct sim_disk *twin;

		nworld_create(&world, 41 + i, 2, NULL);
		twin = twin_create();
		EXPECT(nworld_cluster_open(&world));
		write_all();
		sim_disk_set_twin(world.disks[0], twin,
				  sim_process_name(sim_node_process(node(0))));
		end_node(i == 1);
		EXPECT_THAT(nworld_start(&world, 0), "it starts: %s", world.nodes[0].why);
		nworld_run_ms(&world, 3000);
		EXPECT(nworld_until_live(&world, 2, 20000));
		write_all();
		expect_all("while one member has another file");
		others_end(i == 1);
		expect_all("when the member with the right file is back");
		EXPECT_THAT(twin_is_empty(twin), "nothing was written to the other file");
		sim_disk_set_twin(world.disks[0], NULL, "");
		EXPECT(nworld_stop(&world, 0));
		EXPECT(nworld_start(&world, 0));
		EXPECT(nworld_until_live(&world, 2, 20000));
		expect_all("when both have the same file");
		EXPECT_EQ(0, nworld_destroy(&world));
		sim_disk_destroy(twin);
	}
}

/* The unreachable member may have the file that was served last: the name does not prove which file
 * is right. */
static void a_member_with_another_file_waits_for_one_out_of_reach(void)
{
	static const struct sim_disk_options recorded = {.delay_max_us = 20, .is_recorded = true};

	for (unsigned i = 0; i < 2 && !tap_case_failed; i++) {
		static struct nop nop;
		struct sim_disk *twin;

		nworld_create(&world, 45 + i, 2, &recorded);
		twin = twin_create();
		EXPECT(nworld_cluster_open(&world));
		write_all();
		EXPECT(nworld_stop(&world, 1));
		sim_disk_set_twin(world.disks[0], twin,
				  sim_process_name(sim_node_process(node(0))));
		end_node(i == 1);
		EXPECT_THAT(nworld_start(&world, 0), "it starts: %s", world.nodes[0].why);
		nop_read(&world, &nop, 3);
		EXPECT_THAT(!nop_wait(&nop, 8000), "the other file is not read, got %llu",
			    (unsigned long long)nop_value(&nop));
		EXPECT_THAT(nworld_start(&world, 1), "the other one starts: %s",
			    world.nodes[1].why);
		EXPECT(nop_wait(&nop, 20000) && nop_value(&nop) == 101);
		write_all();
		expect_all("when the member with the right file is back");
		EXPECT_THAT(twin_is_empty(twin), "nothing was written to the other file");
		sim_disk_set_twin(world.disks[0], NULL, "");
		EXPECT_EQ(0, nworld_destroy(&world));
		sim_disk_destroy(twin);
	}
}

static void a_lone_node_without_its_image_waits_for_it(void)
{
	for (unsigned i = 0; i < ARRAY_LEN(losses) && !tap_case_failed; i++) {
		static struct nop nop;

		nworld_create(&world, 31 + i, 1, NULL);
		EXPECT(nworld_start(&world, 0));
		EXPECT(nworld_connect(&world, 1));
		write_all();
		end_node(losses[i].is_killed);
		sim_disk_lose(world.disks[0], losses[i].left);
		EXPECT_THAT(nworld_start(&world, 0), "it starts: %s", world.nodes[0].why);
		nop_read(&world, &nop, 3);
		EXPECT_THAT(!nop_wait(&nop, 3000) || nop_value(&nop) == 101,
			    "a read gives no zeroes, got %llu",
			    (unsigned long long)nop_value(&nop));
		sim_disk_lose(world.disks[0], UINT64_MAX);
		EXPECT(nworld_stop(&world, 0));
		EXPECT(nworld_start(&world, 0));
		EXPECT(nworld_until_live(&world, 1, 20000));
		EXPECT(nop_wait(&nop, 20000) && nop_value(&nop) == 101);
		expect_all("when it is back");
		EXPECT_EQ(0, nworld_destroy(&world));
	}
}

/* ---- growing --------------------------------------------------------------------------------- */

static int edit_grow(json_t *document, void *arg, struct config_errors *errors)
{
	json_t *ns = json_array_get(json_object_get(nworld_subsystem(document), "namespaces"), 0);

	return json_object_set_new(ns, "media", json_string("file:/disk/one,size=512K,block=4096"));
}

static bool is_large(void)
{
	json_t *document = sim_node_document(node(0));
	json_t *ns = json_array_get(json_object_get(nworld_subsystem(document), "namespaces"), 0);
	bool is_so = strstr(json_string_value(json_object_get(ns, "media")), "512K") != NULL;

	json_decref(document);
	return is_so;
}

static bool is_over(struct nworld *unused, void *arg)
{
	return ((struct nchange *)arg)->is_done || sim_node_state(node(0)) == SIM_NODE_DOWN;
}

/* Returns whether the node died at this operation of a growth, in a new world. */
static bool die_in_growth(uint64_t operation, enum sim_death how)
{
	struct nchange change;
	bool has_died;

	nworld_create(&world, 51, 1, NULL);
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_connect(&world, 1));
	write_all();
	sim_node_crash_after(node(0), operation, how);
	nworld_change(&world, 0, &change, edit_grow);
	EXPECT(nworld_until(&world, is_over, &change, 10000));
	nworld_run_ms(&world, 20);
	has_died = sim_node_state(node(0)) == SIM_NODE_DOWN;
	if (has_died)
		EXPECT_THAT(nworld_start(&world, 0), "operation %llu: it starts again: %s",
			    (unsigned long long)operation, world.nodes[0].why);
	else
		sim_node_crash_after(node(0), 0, how);
	EXPECT_THAT(is_large() || !change.is_done, "operation %llu: what was told is kept",
		    (unsigned long long)operation);
	EXPECT(nworld_until_live(&world, 1, 20000));
	expect_all("after the death");
	if (!is_large()) {
		EXPECT(nworld_change_wait(&world, 0, &change, edit_grow));
		EXPECT_THAT(change.res == 0, "it grows then: %s", change.why);
	}
	expect_all("after the growth");
	EXPECT_EQ(0, nworld_destroy(&world));
	return has_died;
}

static void die_at_every_operation_of_a_growth(enum sim_death how)
{
	unsigned deaths = 0, survived = 0;

	for (uint64_t operation = 1; survived < 3 && operation < 200 && !tap_case_failed;
	     operation++) {
		bool has_died = die_in_growth(operation, how);

		deaths += has_died;
		survived = has_died ? 0 : survived + 1;
	}
	EXPECT_THAT(deaths >= 5, "some deaths, got %u", deaths);
}

static void a_kill_at_any_operation_of_a_growth_is_survived(void)
{
	die_at_every_operation_of_a_growth(SIM_DEATH_KILLED);
}

static void a_power_loss_at_any_operation_of_a_growth_is_survived(void)
{
	die_at_every_operation_of_a_growth(SIM_DEATH_POWER);
}

/* ---- giving data up ---------------------------------------------------------------------------
 */

static json_t *only_ns(json_t *document)
{
	return json_array_get(json_object_get(nworld_subsystem(document), "namespaces"), 0);
}

static int edit_recreate(json_t *document, void *arg, struct config_errors *errors)
{
	return lost_ns_edit(sim_node_registry(node(0)), only_ns(document), LOST_NS_RECREATE, false,
			    errors);
}

static void uuid_get(char text[UUID_TEXT_BYTES])
{
	json_t *document = sim_node_document(node(0));

	text_copy(text, UUID_TEXT_BYTES,
		  json_string_value(json_object_get(only_ns(document), "uuid")));
	json_decref(document);
}

static bool has_ended(struct nworld *unused, void *arg)
{
	return ((struct nop *)arg)->is_done;
}

/* Returns whether the node died at this operation of a recreate, in a new world. An unfinished
 * recreate must not leave an empty file that the next start serves as the former data. */
static bool die_in_recreate(uint64_t operation, enum sim_death how, uint64_t left)
{
	char former[UUID_TEXT_BYTES], uuid[UUID_TEXT_BYTES];
	static struct nop nop;
	struct nchange change;
	bool has_died;

	nworld_create(&world, 61, 1, NULL);
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_connect(&world, 1));
	write_all();
	uuid_get(former);
	EXPECT(nworld_stop(&world, 0));
	sim_disk_lose(world.disks[0], left);
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_until_live(&world, 1, 20000));
	sim_node_crash_after(node(0), operation, how);
	nworld_change(&world, 0, &change, edit_recreate);
	EXPECT(nworld_until(&world, is_over, &change, 10000));
	nworld_run_ms(&world, 20);
	has_died = sim_node_state(node(0)) == SIM_NODE_DOWN;
	if (has_died)
		EXPECT_THAT(nworld_start(&world, 0), "operation %llu: it starts again: %s",
			    (unsigned long long)operation, world.nodes[0].why);
	else
		sim_node_crash_after(node(0), 0, how);
	EXPECT(nworld_until_live(&world, 1, 20000));
	uuid_get(uuid);
	if (strcmp(uuid, former) == 0) {
		nop_read(&world, &nop, 3);
		EXPECT_THAT(!nop_wait(&nop, 3000),
			    "operation %llu: no zeroes under the former UUID",
			    (unsigned long long)operation);
		EXPECT(nworld_change_wait(&world, 0, &change, edit_recreate));
		EXPECT_THAT(change.res == 0, "operation %llu: it is made anew then: %s",
			    (unsigned long long)operation, change.why);
		EXPECT(nworld_until(&world, has_ended, &nop, 20000));
	}
	nworld_close(&world);
	EXPECT(nworld_connect(&world, 1));
	EXPECT_EQ(0, nworld_read(&world, 3));
	EXPECT_EQ(0, nworld_destroy(&world));
	return has_died;
}

static void die_at_every_operation_of_a_recreate(enum sim_death how, uint64_t left)
{
	unsigned deaths = 0, survived = 0;

	for (uint64_t operation = 1; survived < 3 && operation < 200 && !tap_case_failed;
	     operation++) {
		bool has_died = die_in_recreate(operation, how, left);

		deaths += has_died;
		survived = has_died ? 0 : survived + 1;
	}
	EXPECT_THAT(deaths >= 5, "some deaths, got %u", deaths);
}

static void a_kill_at_any_operation_of_a_recreate_leaves_no_zeroes(void)
{
	die_at_every_operation_of_a_recreate(SIM_DEATH_KILLED, 0);
	die_at_every_operation_of_a_recreate(SIM_DEATH_KILLED, NWORLD_BLOCKS / 2);
}

static void a_power_loss_at_any_operation_of_a_recreate_leaves_no_zeroes(void)
{
	die_at_every_operation_of_a_recreate(SIM_DEATH_POWER, 0);
	die_at_every_operation_of_a_recreate(SIM_DEATH_POWER, NWORLD_BLOCKS / 2);
}

/* ---- looking again ----------------------------------------------------------------------------
 */

static int edit_recheck(json_t *document, void *arg, struct config_errors *errors)
{
	json_object_set_new(nworld_subsystem(document), "model", json_string("rechecked"));
	return lost_ns_edit(sim_node_registry(node(0)), only_ns(document), LOST_NS_RECHECK, false,
			    errors);
}

static void a_recheck_that_could_not_be_kept_can_be_repeated(void)
{
	struct nchange change;

	nworld_create(&world, 71, 1, NULL);
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_connect(&world, 1));
	write_all();
	EXPECT(nworld_stop(&world, 0));
	sim_disk_lose(world.disks[0], 0);
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_until_live(&world, 1, 20000));
	sim_disk_lose(world.disks[0], UINT64_MAX);
	sim_folder_set_full(sim_node_folder(node(0)), true);
	EXPECT(nworld_change_wait(&world, 0, &change, edit_recheck));
	EXPECT(change.res < 0);
	sim_folder_set_full(sim_node_folder(node(0)), false);
	EXPECT(nworld_change_wait(&world, 0, &change, edit_recheck));
	EXPECT_THAT(change.res == 0, "it is looked at again: %s", change.why);
	expect_all("after the recheck");
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* ---- another UUID -----------------------------------------------------------------------------
 */

static int edit_uuid(json_t *document, void *arg, struct config_errors *errors)
{
	json_object_del(only_ns(document), "nguid");
	return json_object_set_new(only_ns(document), "uuid",
				   json_string("5c1f0a6e-6a3c-4a4e-9d4b-0a2f6f1f7e11"));
}

static void a_file_that_was_made_anew_and_got_another_uuid_is_served_after_a_restart(void)
{
	static const struct sim_disk_options recorded = {.delay_max_us = 20, .is_recorded = true};
	struct nchange change;

	nworld_create(&world, 81, 1, &recorded);
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_stop(&world, 0));
	sim_disk_lose(world.disks[0], 0);
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_change_wait(&world, 0, &change, edit_recreate));
	EXPECT_THAT(change.res == 0, "it is made anew: %s", change.why);
	EXPECT(nworld_change_wait(&world, 0, &change, edit_uuid));
	EXPECT_THAT(change.res == 0, "it gets another UUID: %s", change.why);
	EXPECT(nworld_connect(&world, 1));
	write_all();
	end_node(true);
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_until_live(&world, 1, 20000));
	expect_all("after the restart");
	EXPECT_EQ(0, nworld_destroy(&world));
}

int main(void)
{
	sim_store_init();
	log_set_level(LOG_LEVEL_OFF);
	TAP_RUN(a_member_without_its_image_serves_no_zeroes);
	TAP_RUN(a_member_with_another_file_is_refused);
	TAP_RUN(a_member_with_another_file_waits_for_one_out_of_reach);
	TAP_RUN(a_lone_node_without_its_image_waits_for_it);
	TAP_RUN(a_kill_at_any_operation_of_a_growth_is_survived);
	TAP_RUN(a_power_loss_at_any_operation_of_a_growth_is_survived);
	TAP_RUN(a_kill_at_any_operation_of_a_recreate_leaves_no_zeroes);
	TAP_RUN(a_power_loss_at_any_operation_of_a_recreate_leaves_no_zeroes);
	TAP_RUN(a_recheck_that_could_not_be_kept_can_be_repeated);
	TAP_RUN(a_file_that_was_made_anew_and_got_another_uuid_is_served_after_a_restart);
	return tap_end();
}

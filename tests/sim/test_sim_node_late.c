/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes whose media open late: hosts read while a change waits, changes behind it keep their order,
 * no answer has a deadline, a stop does not wait for it, and a death at any operation or in the
 * middle of the wait leaves the former document or the new one.
 */
#include "../unit/tap.h"
#include "node_world.h"
#include "sim_posix.h"

#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"
#include "daemon/media_registry.h"

#include <errno.h>
#include <stdlib.h>

#define UUID_TWO "6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e40"

static struct nworld world;
static struct nchange changes[3];
static const char *media_two; /* the spec that the edits below give to namespace 2 */

static struct sim_node *node(void)
{
	return world.nodes[0].node;
}

static json_t *namespaces(json_t *document)
{
	return json_object_get(nworld_subsystem(document), "namespaces");
}

static int edit_add(json_t *document, void *arg, struct config_errors *errors)
{
	return json_array_append_new(
		namespaces(document),
		json_pack("{s:i, s:s, s:s}", "nsid", 2, "media", media_two, "uuid", UUID_TWO));
}

static int edit_remove(json_t *document, void *arg, struct config_errors *errors)
{
	return json_array_remove(namespaces(document), 1) < 0 ? -ENOENT : 0;
}

static int edit_media(json_t *document, void *arg, struct config_errors *errors)
{
	return json_object_set_new(json_array_get(namespaces(document), 1), "media",
				   json_string(media_two));
}

static int edit_model(json_t *document, void *arg, struct config_errors *errors)
{
	return json_object_set_new(nworld_subsystem(document), "model", json_string("x"));
}

static bool has_two(void)
{
	json_t *document = sim_node_document(node());
	bool has = json_array_size(namespaces(document)) == 2;

	json_decref(document);
	return has;
}

static struct media *medium_two(void)
{
	struct uuid uuid;

	CHECK(uuid_parse(UUID_TWO, &uuid) == 0);
	return media_registry_find(sim_node_registry(node()), &uuid);
}

static void node_open(uint64_t seed)
{
	nworld_create(&world, seed, 1, NULL);
	EXPECT(nworld_start(&world, 0));
	media_two = "fault:late:op=open:ms=300@file:/disk/two,size=256K,block=4096";
}

/* ---- while a change waits -------------------------------------------------------------------- */

static void hosts_go_on_while_a_change_waits(void)
{
	static struct nop nop;
	uint64_t begun_ns;

	node_open(1);
	EXPECT(nworld_connect(&world, 1));
	nworld_change(&world, 0, &changes[0], edit_add);
	nworld_change(&world, 0, &changes[1], edit_model);
	begun_ns = sim_now(world.sim);
	for (unsigned i = 0; i < 8; i++) {
		nop_write(&world, &nop, i, 100 + i);
		EXPECT(nop_wait(&nop, 100));
		EXPECT_EQ(100 + i, nworld_read(&world, i));
	}
	EXPECT(sim_now(world.sim) < begun_ns + 200 * NS_PER_MS);
	EXPECT(!changes[0].is_done &&
	       !has_two()); /* whoever asks is answered, with the former one */
	nworld_run_ms(&world, 400);
	EXPECT(changes[0].is_done && changes[1].is_done);
	EXPECT_EQ(0, changes[0].res);
	EXPECT_EQ(0, changes[1].res);
	EXPECT(changes[0].generation < changes[1].generation);
	EXPECT(has_two() && !media_is_lost(medium_two()));
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* A removal that comes while the medium opens is next in order. */
static void a_removal_comes_after_the_opening(void)
{
	node_open(2);
	nworld_change(&world, 0, &changes[0], edit_add);
	nworld_run_ms(&world, 100);
	nworld_change(&world, 0, &changes[1], edit_remove);
	nworld_run_ms(&world, 400);
	EXPECT(changes[0].is_done && changes[0].res == 0);
	EXPECT(changes[1].is_done && changes[1].res == 0);
	EXPECT(!has_two() && medium_two() == NULL);
	EXPECT_EQ(0, nworld_destroy(&world));
}

static int edit_add_prompt(json_t *document, void *arg, struct config_errors *errors)
{
	media_two = "file:/disk/two,size=256K,block=4096";
	return edit_add(document, arg, errors);
}

/* Two changes want the same disk: the first one gets no answer, the second one the disk. */
static void a_change_without_an_answer_makes_way(void)
{
	node_open(3);
	media_two = "fault:late:ms=60000@file:/disk/two,size=256K,block=4096";
	nworld_change(&world, 0, &changes[0], edit_add);
	nworld_change(&world, 0, &changes[1], edit_add_prompt);
	nworld_run_ms(&world, 9900);
	EXPECT(!changes[0].is_done && !changes[1].is_done);
	nworld_run_ms(&world, 200);
	EXPECT(changes[0].is_done);
	EXPECT_EQ(-ETIMEDOUT, changes[0].res);
	EXPECT_THAT(strstr(changes[0].why, NWORLD_NQN ", namespace 2 (fault:late:ms=60000@") &&
			    strstr(changes[0].why, "has not opened within 10 s"),
		    "the reason: %s", changes[0].why);
	EXPECT(changes[1].is_done);
	EXPECT_EQ(0, changes[1].res);
	EXPECT(nworld_kept_is_in_force(&world, 0));
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* ---- the end --------------------------------------------------------------------------------- */

static void a_stop_does_not_wait_for_it(void)
{
	node_open(4);
	media_two = "fault:late:ms=60000@file:/disk/two,size=256K,block=4096";
	nworld_change(&world, 0, &changes[0], edit_add);
	nworld_run_ms(&world, 100);
	sim_node_stop(node());
	nworld_run_ms(&world, 500);
	EXPECT_EQ(SIM_NODE_DOWN, sim_node_state(node()));
	EXPECT_EQ(1, world.nodes[0].stopped);
	EXPECT(changes[0].is_done);
	EXPECT_EQ(-ESHUTDOWN, changes[0].res);
	EXPECT(nworld_start(&world, 0));
	EXPECT(!has_two());
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* ---- starts ---------------------------------------------------------------------------------- */

/* Gives the served namespace 2 a spec with which it opens late at the next start. */
static void open_with(uint64_t seed, const char *spec)
{
	node_open(seed);
	EXPECT(nworld_change_wait(&world, 0, &changes[0], edit_add) && changes[0].res == 0);
	media_two = spec;
	EXPECT(nworld_change_wait(&world, 0, &changes[0], edit_media) && changes[0].res == 0);
}

static void a_start_waits_for_its_media(void)
{
	open_with(5, "fault:late:ms=700@file:/disk/two,size=256K,block=4096");
	EXPECT(nworld_stop(&world, 0));
	sim_node_start(node());
	nworld_run_ms(&world, 600);
	EXPECT_EQ(SIM_NODE_STARTING, sim_node_state(node()));
	nworld_run_ms(&world, 200);
	EXPECT_EQ(SIM_NODE_SERVING, sim_node_state(node()));
	EXPECT(!media_is_lost(medium_two()));
	EXPECT_EQ(0, nworld_destroy(&world));
}

static void a_start_serves_the_others_after_the_deadline(void)
{
	struct media_error problem;

	open_with(6, "fault:late:ms=60000@file:/disk/two,size=256K,block=4096");
	sim_node_kill(node(), SIM_DEATH_KILLED);
	sim_node_start(node());
	nworld_run_ms(&world, 10500);
	EXPECT_EQ(SIM_NODE_SERVING, sim_node_state(node()));
	EXPECT(media_is_lost(medium_two()));
	EXPECT_EQ(256 << 10, medium_two()->size_bytes);
	EXPECT(media_problem(medium_two(), &problem));
	EXPECT_THAT(strstr(problem.text, "has not opened within 10 s"), "%s", problem.text);
	EXPECT(nworld_connect(&world, 1));
	EXPECT_EQ(0, nworld_read(&world, 1));
	/* A spec that opens brings it back. */
	media_two = "fault:late:ms=20@file:/disk/two,size=256K,block=4096";
	EXPECT(nworld_change_wait(&world, 0, &changes[0], edit_media) && changes[0].res == 0);
	EXPECT(!media_is_lost(medium_two()));
	EXPECT_EQ(0, nworld_destroy(&world));
}

static void a_death_in_the_wait_of_a_start_does_no_harm(void)
{
	open_with(7, "fault:late:ms=60000@file:/disk/two,size=256K,block=4096");
	sim_node_kill(node(), SIM_DEATH_KILLED);
	sim_node_start(node());
	nworld_run_ms(&world, 1000);
	EXPECT_EQ(SIM_NODE_STARTING, sim_node_state(node()));
	sim_node_kill(node(), SIM_DEATH_KILLED);
	EXPECT_EQ(SIM_NODE_DOWN, sim_node_state(node()));
	sim_node_start(node());
	nworld_run_ms(&world, 10500);
	EXPECT_EQ(SIM_NODE_SERVING, sim_node_state(node()));
	EXPECT_EQ(0, nworld_destroy(&world));
}

/* ---- deaths ---------------------------------------------------------------------------------- */

static bool is_over(struct nworld *unused, void *arg)
{
	return changes[0].is_done || sim_node_state(node()) == SIM_NODE_DOWN;
}

/* Adds or removes the late namespace and dies at this operation, if there are that many. */
static bool die_in_change(uint64_t operation, enum sim_death how)
{
	bool had = has_two();
	unsigned died = world.nodes[0].died;
	struct sim_process *process = sim_node_process(node());

	sim_node_crash_after(node(), operation, how);
	nworld_change(&world, 0, &changes[0], had ? edit_remove : edit_add);
	EXPECT(nworld_until(&world, is_over, NULL, 10000));
	nworld_run_ms(&world, 20);
	if (world.nodes[0].died == died) {
		EXPECT(changes[0].is_done && changes[0].res == 0);
		sim_node_crash_after(node(), 0, how);
	} else {
		EXPECT_EQ(0, sim_process_allocations(process));
		EXPECT_THAT(nworld_start(&world, 0), "it starts again: %s", world.nodes[0].why);
		EXPECT(nworld_kept_is_in_force(&world, 0));
	}
	EXPECT(has_two() != had || !changes[0].is_done);
	EXPECT(!has_two() || !media_is_lost(medium_two()));
	return world.nodes[0].died != died;
}

static void a_death_at_any_operation_leaves_one_document(void)
{
	for (unsigned how = 0; how < 2; how++) {
		unsigned deaths = 0, survived = 0;

		node_open(20 + how);
		for (uint64_t operation = 1; survived < 3 && operation < 200 && !tap_case_failed;
		     operation++) {
			bool has_died = die_in_change(operation, (enum sim_death)how);

			deaths += has_died;
			survived = has_died ? 0 : survived + 1;
		}
		EXPECT_EQ(3, survived);
		EXPECT_THAT(deaths >= 5, "some deaths, got %u", deaths);
		EXPECT_EQ(0, nworld_destroy(&world));
	}
}

/* Dies at a time of the wait, which has no operation. */
static void a_death_in_the_wait_leaves_the_former_document(void)
{
	for (uint64_t ms = 0; ms < 300 && !tap_case_failed; ms += 37) {
		struct sim_process *process;

		node_open(30 + ms);
		process = sim_node_process(node());
		nworld_change(&world, 0, &changes[0], edit_add);
		nworld_run_ms(&world, ms);
		sim_node_kill(node(), SIM_DEATH_KILLED);
		EXPECT_EQ(0, sim_process_allocations(process));
		EXPECT(nworld_start(&world, 0));
		EXPECT(!has_two());
		EXPECT(nworld_change_wait(&world, 0, &changes[0], edit_add) && changes[0].res == 0);
		EXPECT_EQ(0, nworld_destroy(&world));
	}
}

static void a_death_in_a_late_start_does_no_harm(void)
{
	bool serves = false;

	open_with(40, "fault:late:ms=30@file:/disk/two,size=256K,block=4096");
	EXPECT(nworld_stop(&world, 0));
	for (uint64_t operation = 1; !serves && operation < 300; operation++) {
		sim_node_start(node());
		sim_node_crash_after(node(), operation, SIM_DEATH_KILLED);
		nworld_run_ms(&world, 100);
		serves = sim_node_state(node()) == SIM_NODE_SERVING;
	}
	EXPECT(serves);
	EXPECT_THAT(world.nodes[0].died >= 5, "some deaths, got %u", world.nodes[0].died);
	sim_node_crash_after(node(), 0, SIM_DEATH_KILLED);
	EXPECT(has_two() && !media_is_lost(medium_two()));
	EXPECT_EQ(0, nworld_destroy(&world));
}

int main(void)
{
	log_set_level(LOG_LEVEL_OFF);
	TAP_RUN(hosts_go_on_while_a_change_waits);
	TAP_RUN(a_removal_comes_after_the_opening);
	TAP_RUN(a_change_without_an_answer_makes_way);
	TAP_RUN(a_stop_does_not_wait_for_it);
	TAP_RUN(a_start_waits_for_its_media);
	TAP_RUN(a_start_serves_the_others_after_the_deadline);
	TAP_RUN(a_death_in_the_wait_of_a_start_does_no_harm);
	TAP_RUN(a_death_at_any_operation_leaves_one_document);
	TAP_RUN(a_death_in_the_wait_leaves_the_former_document);
	TAP_RUN(a_death_in_a_late_start_does_no_harm);
	return tap_end();
}

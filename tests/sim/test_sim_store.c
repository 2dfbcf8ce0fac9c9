/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real store/store.c on the simulated device. A script of changes is interrupted at each
 * operation, by a kill or by a power loss. The next life must find every acknowledged change, and
 * all or nothing of the change in progress. Full disks and I/O errors change nothing, or
 * everything. One thread.
 */
#include "sim_store.h"
#include "tap.h"

#include "store/store.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#define FOLDER      "/node/a"
#define DOCUMENTS   3
#define STATE_BYTES 4096

/* A process whose store is buried with it. */
struct life {
	struct sim_mourner mourner;
	struct sim_process *process;
	struct store *store;
};

static struct sim *sim;
static struct sim_folder *folder;
static json_t *documents[DOCUMENTS];

static json_t *document_make(unsigned number)
{
	json_t *subsystems = json_array();

	for (unsigned i = 0; i <= number; i++) {
		json_t *namespaces = json_array();

		for (unsigned n = 1; n <= 3; n++)
			json_array_append_new(namespaces,
					      json_pack("{s:i, s:s, s:i}", "nsid", n, "media",
							"mem:1M", "change", number));
		json_array_append_new(subsystems,
				      json_pack("{s:o, s:o}", "nqn",
						json_sprintf("nqn.2026-11.io.weft:sub-%u", i),
						"namespaces", namespaces));
	}
	return json_pack("{s:i, s:o, s:[{s:i, s:s}]}", "version", 1, "subsystems", subsystems,
			 "ports", "id", 1, "address", "127.0.0.1");
}

static void world_begin(uint64_t seed)
{
	sim_store_init();
	sim = sim_create(seed, NULL);
	folder = sim_folder_create(sim, FOLDER, seed);
	for (unsigned i = 0; i < DOCUMENTS; i++)
		documents[i] = document_make(i);
}

static void world_end(void)
{
	for (unsigned i = 0; i < DOCUMENTS; i++)
		json_decref(documents[i]);
	sim_folder_destroy(folder);
	sim_destroy(sim);
}

/* ---- lives ---------------------------------------------------------------------------------- */

static void life_dead(struct sim_mourner *mourner, struct sim_process *process, enum sim_death how)
{
	struct life *life = container_of(mourner, struct life, mourner);

	if (life->store)
		sim_store_bury(life->store);
	life->store = NULL;
	if (how == SIM_DEATH_POWER)
		sim_folder_power_loss(folder);
}

static void life_begin(struct life *life)
{
	*life = (struct life){.process = sim_process_create(sim, "node")};
	life->mourner.dead = life_dead;
	sim_process_add_mourner(life->process, &life->mourner);
	sim_process_enter(life->process);
}

/* Ends the life. True: it did not die; false: it died, also while closing. */
static bool life_end(struct life *life)
{
	bool is_alive;

	if (sim_process_is_alive(life->process)) {
		store_close(life->store);
		life->store = NULL;
	}
	is_alive = sim_process_is_alive(life->process); /* closing writes too */
	sim_process_leave(life->process);
	if (is_alive)
		sim_process_kill(life->process, SIM_DEATH_KILLED);
	return is_alive;
}

static int life_open(struct life *life)
{
	struct store_counters first = {.is_clean = true, .id = {{1, 2, 3}}};
	struct store_error error = {{0}};
	int res = store_open(FOLDER, &first, &life->store, &error);

	EXPECT_THAT(res == 0 || !sim_process_is_alive(life->process) || res == -ENOSPC ||
			    res == -EIO,
		    "a store that opens: %s", error.text);
	return res;
}

/* ---- the script ----------------------------------------------------------------------------- */

static int step_document(struct store *store, unsigned number)
{
	struct store_error error;
	struct store_change change = {
		.before = number > 0 ? documents[number - 1] : NULL,
		.after = documents[number],
		.generation = number + 1,
		.source_hash = number == 0 ? "0123" : NULL,
		.origin = "test",
		.diff = "everything",
	};

	return store_keep_document(store, &change, &error);
}

static int step_batch(struct store *store)
{
	int res = store_batch_begin(store);

	if (res < 0)
		return res;
	(void)store_keep(store, "b", "1", "one", 3);
	(void)store_keep(store, "b", "2", "two", 3);
	(void)store_keep(store, "a", "1", NULL, 0);
	return store_batch_end(store);
}

static int step_run(struct store *store, unsigned step)
{
	struct store_counters counters;
	struct store_error error;
	static char large[3000];

	switch (step) {
	case 0:
		return step_document(store, 0);
	case 1:
		return store_keep(store, "a", "1", "first", 5);
	case 2:
		return step_document(store, 1);
	case 3:
		store_get_counters(store, &counters);
		counters.starts = 17;
		counters.is_clean = false;
		return store_set_counters(store, &counters, &error);
	case 4:
		return step_batch(store);
	case 5:
		memset(large, 'x', sizeof(large));
		return store_keep(store, "a", "2", large, sizeof(large));
	default:
		return step_document(store, 2);
	}
}

#define STEPS 7

static void text_add(char *text, const char *name, const char *value, size_t bytes)
{
	size_t used = strlen(text);

	snprintf(text + used, STATE_BYTES - used, "%s=%zu:%.*s;", name, bytes,
		 (int)(bytes < 20 ? bytes : 20), value);
}

static void audit_count(void *arg, const struct store_audit *audit)
{
	++*(unsigned *)arg;
}

/* The whole content of the store as text. */
static void state_read(struct store *store, char *ret_text)
{
	static const char *const kept[][2] = {{"a", "1"}, {"a", "2"}, {"b", "1"}, {"b", "2"}};
	struct store_counters counters;
	struct store_error error;
	unsigned audits = 0;
	json_t *document;

	ret_text[0] = 0;
	for (unsigned i = 0; i < ARRAY_LEN(kept); i++) {
		size_t bytes;
		void *value;

		if (store_recall(store, kept[i][0], kept[i][1], &value, &bytes) < 0)
			continue;
		text_add(ret_text, kept[i][1], value, bytes);
		free(value);
	}
	store_get_counters(store, &counters);
	EXPECT_EQ(0, store_list_audit(store, 100, audit_count, &audits));
	if (store_load_document(store, &document, &error) == 0) {
		char *json = json_dumps(document, JSON_COMPACT | JSON_SORT_KEYS);

		/* The length suffices; the next line compares the document. */
		text_add(ret_text, "document", json, strlen(json));
		EXPECT(json_equal(document, documents[store_generation(store) - 1]));
		free(json);
		json_decref(document);
	}
	snprintf(ret_text + strlen(ret_text), STATE_BYTES - strlen(ret_text),
		 "generation=%llu;starts=%llu;clean=%d;audits=%u",
		 (unsigned long long)store_generation(store), (unsigned long long)counters.starts,
		 counters.is_clean, audits);
}

/* states[n]: content after n steps. */
static char states[STEPS + 1][STATE_BYTES];

static void states_learn(void)
{
	struct life life;

	world_begin(1);
	life_begin(&life);
	EXPECT_EQ(0, life_open(&life));
	state_read(life.store, states[0]);
	for (unsigned step = 0; step < STEPS; step++) {
		EXPECT_EQ(0, step_run(life.store, step));
		state_read(life.store, states[step + 1]);
	}
	for (unsigned i = 0; i < STEPS; i++)
		EXPECT(strcmp(states[i], states[i + 1]) != 0);
	EXPECT(life_end(&life));
	/* After a clean end a power loss loses nothing. */
	sim_folder_power_loss(folder);
	life_begin(&life);
	EXPECT_EQ(0, life_open(&life));
	if (life.store) {
		char text[STATE_BYTES];

		state_read(life.store, text);
		EXPECT_THAT(strcmp(text, states[STEPS]) == 0, "%s, not %s", states[STEPS], text);
	}
	EXPECT(life_end(&life));
	world_end();
}

/* ---- interrupted ---------------------------------------------------------------------------- */

/* Number of steps kept: acked or acked + 1. -1: any other content. */
static int steps_kept(struct store *store, unsigned acked)
{
	char text[STATE_BYTES];

	state_read(store, text);
	for (unsigned kept = acked; kept <= acked + 1 && kept <= STEPS; kept++) {
		if (strcmp(text, states[kept]) == 0)
			return (int)kept;
	}
	printf("# after %u steps: %s\n# instead of: %s\n", acked, text, states[acked]);
	return -1;
}

/* One life that continues the script and dies at this operation. False: it reached the script's
 * end. */
static bool life_interrupted(uint64_t operation, enum sim_death how, unsigned *acked)
{
	struct life life;

	life_begin(&life);
	sim_process_crash_after(life.process, operation, how);
	if (life_open(&life) == 0) {
		int kept = steps_kept(life.store, *acked);

		EXPECT(kept >= 0);
		*acked = kept > 0 ? (unsigned)kept : 0;
		while (*acked < STEPS && step_run(life.store, *acked) == 0)
			++*acked;
	}
	return !life_end(&life);
}

/* Returns the number of interrupted lives. */
static unsigned script_interrupt(uint64_t seed, uint64_t operation, enum sim_death how)
{
	unsigned lives = 0, acked = 0;
	struct prng prng;

	prng_seed(&prng, seed);
	world_begin(seed);
	while (life_interrupted(operation, how, &acked)) {
		lives++;
		operation = 1 + prng_below(&prng, lives < 4 ? 20 : 200);
	}
	EXPECT_EQ(STEPS, acked);
	world_end();
	return lives;
}

static void kills_at_every_operation_lose_nothing(void)
{
	unsigned at = 1;

	while (script_interrupt(at, at, SIM_DEATH_KILLED) > 0 && !tap_case_failed)
		at++;
	printf("# %u operations\n", at - 1);
	EXPECT(at > 60);
}

static void losses_of_power_at_every_operation_lose_nothing(void)
{
	unsigned at = 1;

	while (script_interrupt(at + 1000, at, SIM_DEATH_POWER) > 0 && !tap_case_failed) {
		for (unsigned i = 1; i < 6; i++)
			script_interrupt(at + 1000 + i * 1000, at, SIM_DEATH_POWER);
		at++;
	}
	EXPECT(at > 60);
}

/* ---- full, and broken ----------------------------------------------------------------------- */

static void a_full_disk_changes_nothing(void)
{
	struct life life;
	char text[STATE_BYTES];

	world_begin(5);
	sim_folder_set_full(folder, true);
	life_begin(&life);
	EXPECT_EQ(-ENOSPC, life_open(&life));
	life_end(&life);
	sim_folder_set_full(folder, false);
	life_begin(&life);
	EXPECT_EQ(0, life_open(&life));
	for (unsigned step = 0; step < STEPS; step++) {
		sim_folder_set_full(folder, true);
		EXPECT_EQ(-ENOSPC, step_run(life.store, step));
		state_read(life.store, text);
		EXPECT(strcmp(text, states[step]) == 0);
		sim_folder_set_full(folder, false);
		EXPECT_EQ(0, step_run(life.store, step));
		state_read(life.store, text);
		EXPECT(strcmp(text, states[step + 1]) == 0);
	}
	EXPECT(life_end(&life));
	world_end();
}

/* Errors are reported, and acknowledged changes stay. A refused change is not visible while the
 * process lives; the next life may find it, because it may have been written partly. */
static void errors_lose_nothing(void)
{
	unsigned refused = 0;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		unsigned acked = 0;
		char text[STATE_BYTES];
		struct life life;

		world_begin(seed);
		life_begin(&life);
		sim_folder_set_errors(folder, 12);
		while (life_open(&life) < 0)
			refused++;
		for (unsigned tries = 0; acked < STEPS && tries < 40; tries++) {
			bool is_done = step_run(life.store, acked) == 0;

			acked += is_done;
			refused += !is_done;
			state_read(life.store, text);
			EXPECT(strcmp(text, states[acked]) == 0);
		}
		sim_folder_set_errors(folder, 0);
		sim_process_crash_after(life.process, 1,
					seed % 2 ? SIM_DEATH_POWER : SIM_DEATH_KILLED);
		if (acked < STEPS)
			EXPECT(step_run(life.store, acked) < 0);
		life_end(&life);
		life_begin(&life);
		EXPECT_EQ(0, life_open(&life));
		if (life.store)
			EXPECT(steps_kept(life.store, acked) >= 0);
		life_end(&life);
		world_end();
	}
	EXPECT(refused > 40);
}

/* A copy has no write-ahead log: a commit to it must be as stable as one to the store itself. */
static void a_copy_that_was_put_back_loses_nothing(void)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct sim_backup *copy;
		struct store_error error;
		struct life life;

		world_begin(seed);
		life_begin(&life);
		EXPECT_EQ(0, life_open(&life));
		EXPECT_EQ(0, step_run(life.store, 0));
		EXPECT_EQ(0, store_copy(life.store, FOLDER "/weft.db.reset-1", &error));
		EXPECT(life_end(&life));
		copy = sim_folder_backup_file(folder, "weft.db.reset-1", STORE_FILE);
		EXPECT(copy != NULL);
		sim_folder_restore(folder, copy);
		free(copy);
		life_begin(&life);
		EXPECT_EQ(0, life_open(&life));
		EXPECT_EQ(0, step_run(life.store, 1));
		sim_process_crash_after(life.process, 1, SIM_DEATH_POWER);
		EXPECT(step_run(life.store, 2) < 0);
		life_end(&life);
		life_begin(&life);
		EXPECT_EQ(0, life_open(&life));
		EXPECT(life.store && steps_kept(life.store, 2) >= 0);
		life_end(&life);
		world_end();
	}
}

int main(void)
{
	TAP_RUN(states_learn);
	TAP_RUN(kills_at_every_operation_lose_nothing);
	TAP_RUN(losses_of_power_at_every_operation_lose_nothing);
	TAP_RUN(a_full_disk_changes_nothing);
	TAP_RUN(errors_lose_nothing);
	TAP_RUN(a_copy_that_was_put_back_loses_nothing);
	return tap_end();
}

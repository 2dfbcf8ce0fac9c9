/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live state of a namespace: views reach every reactor before the change is done, in order; what is
 * kept returns before the namespace is served; a change that cannot be kept has not happened. A
 * target without a configuration on three simulated reactors, and a keeper in memory that fails on
 * demand.
 */
#include "tap.h"

#include "../sim/sim.h"
#include "base/boot_id.h"
#include "base/check.h"
#include "base/clock.h"
#include "ns/bad_blocks.h"
#include "ns/reservation.h"
#include "target/local.h"
#include "target/reservation_command.h"

#include <errno.h>
#include <stdlib.h>

#define REACTORS 3

static struct sim *sim;
static struct reactor *control;
static struct reactor *data[REACTORS];
static struct target *target;
static struct ns_live *live;
static const struct uuid ns_uuid = {{0xaa, 1, 2, 3}};

/* ---- a keeper -------------------------------------------------------------------------------- */

static struct {
	char kind[32];
	char key[40];
	uint8_t value[4096];
	size_t bytes;
	bool is_there;
} kept[4];
static int keep_error;
static int recall_error;
static unsigned keep_count;

static int kept_find(const char *kind, const char *key)
{
	for (int i = 0; i < (int)ARRAY_LEN(kept); i++)
		if (kept[i].is_there && strcmp(kept[i].kind, kind) == 0 &&
		    strcmp(kept[i].key, key) == 0)
			return i;
	return -1;
}

static int keep(void *arg, const char *kind, const char *key, const void *value, size_t bytes)
{
	int at = kept_find(kind, key);

	keep_count++;
	if (keep_error != 0)
		return keep_error;
	for (int i = 0; at < 0 && i < (int)ARRAY_LEN(kept); i++)
		if (!kept[i].is_there)
			at = i;
	CHECK(at >= 0 && bytes <= sizeof(kept[at].value));
	kept[at].is_there = value != NULL;
	snprintf(kept[at].kind, sizeof(kept[at].kind), "%s", kind);
	snprintf(kept[at].key, sizeof(kept[at].key), "%s", key);
	if (value)
		memcpy(kept[at].value, value, bytes);
	kept[at].bytes = bytes;
	return 0;
}

static int recall(void *arg, const char *kind, const char *key, void **ret_value, size_t *ret_bytes)
{
	int at = kept_find(kind, key);

	if (recall_error != 0)
		return recall_error;
	if (at < 0)
		return -ENOENT;
	*ret_value = malloc(kept[at].bytes + 1);
	CHECK(*ret_value);
	memcpy(*ret_value, kept[at].value, kept[at].bytes);
	*ret_bytes = kept[at].bytes;
	return 0;
}

static const struct keeper keeper = {.keep = keep, .recall = recall};

static bool is_kept(const char *kind)
{
	char key[UUID_TEXT_BYTES];

	return kept_find(kind, uuid_format(&ns_uuid, key)) >= 0;
}

/* ---- the scene ------------------------------------------------------------------------------- */

static void live_open(void)
{
	CHECK(ns_live_create(REACTORS, &live) == 0);
}

static void set_up(void)
{
	struct target_config config = {
		.reactors = data, .reactor_count = REACTORS, .keeper = keeper};

	memset(kept, 0, sizeof(kept));
	keep_error = 0;
	recall_error = 0;
	keep_count = 0;
	sim = sim_create(1, &(struct sim_options){0});
	for (unsigned i = 0; i <= REACTORS; i++)
		CHECK(reactor_create(&(struct reactor_config){.index = i, .cpu = -1},
				     i == 0 ? &control : &data[i - 1]) == 0);
	config.control = control;
	sim_enter(control);
	CHECK(target_create(&config, &target) == 0);
	live_open();
	CHECK(ns_live_recall(live, &ns_uuid, &keeper) == 0);
}

static void tear_down(void)
{
	ns_live_put(live);
	target_destroy(target);
	sim_leave(control);
	EXPECT_EQ(0, sim_leaks(sim));
	sim_destroy(sim);
}

/* Runs the reactors until all is quiet. The test itself is a turn of the control reactor. */
static void settle(void)
{
	sim_leave(control);
	while (sim_step(sim))
		;
	sim_enter(control);
}

static struct reservation *changed(struct reservation *now, uint8_t number, bool persists)
{
	struct uuid host_id = {{number}};
	struct register_cmd cmd = {REGISTER_KEY, false, persists ? PERSIST_ON : PERSIST_OFF, 0,
				   number};
	struct reservation_outcome outcome;
	struct reservation *next;

	CHECK(nvme_status_is_ok(reservation_register(now, &host_id, &cmd, &outcome)));
	next = reservation_get(outcome.next);
	reservation_outcome_free(&outcome);
	return next;
}

/* Returns a reservation held by host 1 with `number` registered too. */
static struct reservation *held(uint8_t number, bool persists)
{
	struct uuid holder = {{1}};
	struct acquire_cmd cmd = {ACQUIRE_RESERVATION, false, RESERVATION_WRITE_EXCLUSIVE, 1, 0};
	struct reservation *first = changed(NULL, 1, persists);
	struct reservation *both = changed(first, number, persists);
	struct reservation_outcome outcome;
	struct reservation *next;

	CHECK(nvme_status_is_ok(reservation_acquire(both, &holder, &cmd, &outcome)));
	next = reservation_get(outcome.next);
	reservation_outcome_free(&outcome);
	reservation_put(first);
	reservation_put(both);
	return next;
}

static unsigned done_count;
static struct reservation *done_with[8];

/* When a change is done, every reactor must use the same view. */
static void on_done(void *arg)
{
	const struct ns_local *locals = ns_live_locals(live);
	struct reservation *common = locals[0].view ? locals[0].view->reservation : NULL;

	EXPECT(reactor_current() == control);
	for (unsigned i = 0; i < REACTORS; i++)
		EXPECT((locals[i].view ? locals[i].view->reservation : NULL) == common);
	EXPECT_EQ((intptr_t)arg, done_count);
	done_with[done_count++] = common;
}

static int replace(struct reservation *next, unsigned number)
{
	return reservation_replace(target, live, next, on_done, (void *)(intptr_t)number);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* Sets up a scene with a reservation in flight to the reactors. */
static struct reservation *set_up_held(bool persists)
{
	struct reservation *next;

	set_up();
	done_count = 0;
	next = held(2, persists);
	EXPECT_EQ(0, replace(next, 0));
	return next;
}

static void every_reactor_has_the_view_when_it_is_done(void)
{
	struct reservation *next = set_up_held(false);

	EXPECT_EQ(0, done_count);
	EXPECT(ns_live_reservation(live) == next);
	EXPECT(!ns_live_locals(live)[0].view);
	settle();
	EXPECT_EQ(1, done_count);
	EXPECT(done_with[0] == next);
	reservation_put(next);
	EXPECT_EQ(0, keep_count);
	tear_down();
}

static void changes_are_published_in_order(void)
{
	struct reservation *next[5];

	set_up();
	done_count = 0;
	for (unsigned i = 0; i < 5; i++) {
		/* The last one has no holder: reactors then need no view. */
		next[i] = i < 4 ? held((uint8_t)(2 + i), false) : changed(NULL, 9, false);
		EXPECT_EQ(0, replace(next[i], i));
	}
	settle();
	EXPECT_EQ(5, done_count);
	for (unsigned i = 0; i < 4; i++)
		EXPECT(done_with[i] == next[i]);
	EXPECT(!done_with[4] && !ns_live_locals(live)[1].view);
	EXPECT(ns_live_reservation(live) == next[4]);
	for (unsigned i = 0; i < 5; i++)
		reservation_put(next[i]);
	tear_down();
}

static void a_publication_holds_the_live(void)
{
	struct reservation *next = set_up_held(false);

	reservation_put(next);
	/* Drop the last reference to the namespace. */
	ns_live_put(live);
	settle();
	EXPECT_EQ(1, done_count);
	live_open();
	tear_down();
}

static void what_is_kept_is_in_force_before_anybody_serves_it(void)
{
	struct reservation *next = set_up_held(true);
	struct bad_blocks *bad;

	EXPECT(is_kept(NS_LIVE_KEPT_RESERVATION));
	settle();
	bad = bad_blocks_create();
	EXPECT_EQ(0, bad_blocks_mark(bad, 7, 1));
	ns_live_set_bad_blocks(live, bad);
	size_t bytes;
	uint8_t *value = bad_blocks_encode(bad, &bytes);

	EXPECT_EQ(0, ns_live_keep(&target->keeper, live, NS_LIVE_KEPT_BAD_BLOCKS, value, bytes));
	free(value);
	ns_live_put(live);

	live_open();
	EXPECT_EQ(0, ns_live_recall(live, &ns_uuid, &keeper));
	EXPECT(uuid_equal(&ns_uuid, ns_live_uuid(live)));
	for (unsigned i = 0; i < REACTORS; i++) {
		const struct ns_view *view = ns_live_locals(live)[i].view;
		uint64_t block;

		EXPECT(view && view->reservation && view->bad);
		if (!view)
			break;
		EXPECT(view->reservation->count == 2 && view->reservation->persists);
		EXPECT(bad_view_find(view->bad, 0, 10, &block) && block == 7);
	}
	EXPECT_EQ(0, ns_live_forget(live, &keeper));
	EXPECT(!is_kept(NS_LIVE_KEPT_RESERVATION) && !is_kept(NS_LIVE_KEPT_BAD_BLOCKS));
	reservation_put(next);
	tear_down();
}

static void what_cannot_be_kept_has_not_happened(void)
{
	struct reservation *first = set_up_held(true);
	struct reservation *second = held(3, true);
	struct reservation_outcome outcome;

	settle();
	keep_error = -ENOSPC;
	EXPECT_EQ(-ENOSPC, replace(second, 1));
	settle();
	EXPECT_EQ(1, done_count);
	EXPECT(ns_live_reservation(live) == first);
	EXPECT(ns_live_locals(live)[2].view->reservation == first);
	reservation_set_persist(first, false, &outcome);
	EXPECT_EQ(-ENOSPC, replace(outcome.next, 1));
	EXPECT(ns_live_reservation(live)->persists);
	EXPECT_EQ(-ENOSPC, ns_live_forget(live, &keeper));
	keep_error = 0;
	EXPECT_EQ(0, replace(outcome.next, 1));
	settle();
	EXPECT(!ns_live_reservation(live)->persists && !is_kept(NS_LIVE_KEPT_RESERVATION));
	EXPECT_EQ(0, replace(first, 2));
	settle();
	EXPECT(is_kept(NS_LIVE_KEPT_RESERVATION));
	reservation_outcome_free(&outcome);
	reservation_put(first);
	reservation_put(second);
	tear_down();
}

/* A mark of another process counts here and is not passed on. */
static void marks_of_lost_writes(void)
{
	static const struct uuid other_kernel = {{0xbb}}, none = {{0}};
	uint64_t own, mark;
	struct uuid kernel;

	set_up();
	boot_id_read(&kernel);
	EXPECT_EQ(0, ns_live_recall(live, &ns_uuid, &keeper));
	EXPECT_EQ(0, ns_live_loss_own(live, &kernel));
	EXPECT_EQ(0, ns_live_hear_loss(live, &ns_uuid, &keeper));
	mark = ns_live_loss_mark(live);
	EXPECT(mark != 0);
	EXPECT_EQ(0, ns_live_loss_own(live, &kernel));

	EXPECT_EQ(0, ns_live_note_loss(live, 5, &keeper));
	own = ns_live_loss_own(live, &kernel);
	EXPECT(own != 0 && own == ns_live_loss_mark(live) && own != mark);
	EXPECT_EQ(5, ns_live_loss_noted(live));
	EXPECT_EQ(0, ns_live_loss_own(live, &other_kernel));
	EXPECT_EQ(0, ns_live_loss_own(live, &none));

	/* Not in force: the mark counts when the namespace returns; its own mark stays. */
	EXPECT_EQ(0, ns_live_hear_loss(NULL, &ns_uuid, &keeper));
	EXPECT_EQ(own, ns_live_loss_mark(live));
	ns_live_put(live);
	live_open();
	EXPECT_EQ(0, ns_live_recall(live, &ns_uuid, &keeper));
	EXPECT(ns_live_loss_mark(live) != own && ns_live_loss_mark(live) != 0);
	EXPECT_EQ(own, ns_live_loss_own(live, &kernel));
	keep_error = -ENOSPC;
	EXPECT_EQ(-ENOSPC, ns_live_hear_loss(live, &ns_uuid, &keeper));
	tear_down();
}

static int clear_res;

static void on_cleared(void *arg, int res)
{
	clear_res = res;
}

static void an_administrator_clears(void)
{
	struct reservation *next = set_up_held(true);
	struct reservation_info info;

	settle();
	reservation_describe(live, &info);
	EXPECT(info.has_holder && info.holder.bytes[0] == 1 && info.registrant_count == 2);
	EXPECT_STR("write-exclusive", reservation_type_name(info.type));
	keep_error = -EIO;
	clear_res = 1;
	reservation_clear_by_admin(target, live, on_cleared, NULL);
	settle();
	EXPECT_EQ(-EIO, clear_res);
	EXPECT(ns_live_reservation(live) == next);
	keep_error = 0;
	clear_res = 1;
	reservation_clear_by_admin(target, live, on_cleared, NULL);
	EXPECT_EQ(1, clear_res);
	settle();
	EXPECT_EQ(0, clear_res);
	reservation_describe(live, &info);
	EXPECT(!info.has_holder && info.registrant_count == 0 && info.persists);
	EXPECT_STR("none", reservation_type_name(info.type));
	EXPECT(!ns_live_locals(live)[0].view);
	reservation_put(next);
	tear_down();
}

static void damage_is_refused(void)
{
	struct reservation *next = set_up_held(true);

	settle();
	ns_live_put(live);
	kept[0].value[20] ^= 1;
	live_open();
	EXPECT_EQ(-EPROTO, ns_live_recall(live, &ns_uuid, &keeper));
	ns_live_put(live);
	recall_error = -EIO;
	live_open();
	EXPECT_EQ(-EIO, ns_live_recall(live, &ns_uuid, &keeper));
	ns_live_put(live);
	live_open();
	EXPECT_EQ(0, ns_live_recall(live, &ns_uuid, NULL));
	EXPECT(!ns_live_locals(live)[0].view);
	reservation_put(next);
	tear_down();
}

int main(void)
{
	TAP_RUN(every_reactor_has_the_view_when_it_is_done);
	TAP_RUN(changes_are_published_in_order);
	TAP_RUN(a_publication_holds_the_live);
	TAP_RUN(what_is_kept_is_in_force_before_anybody_serves_it);
	TAP_RUN(what_cannot_be_kept_has_not_happened);
	TAP_RUN(marks_of_lost_writes);
	TAP_RUN(an_administrator_clears);
	TAP_RUN(damage_is_refused);
	return tap_end();
}

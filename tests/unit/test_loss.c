/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acknowledged writes that a target lost with its power: which writes a flush covers, which boots
 * have ended, and which users get the error. Two threads at the end.
 */
#include "tap.h"

#include "base/text.h"
#include "host/join.h"
#include "host/loss.h"

#include <pthread.h>

static struct loss_ns ns;
static struct loss_book book;
static LOSS_CACHE_BITS lost;

static void setup(void)
{
	memset(&ns, 0, sizeof(ns));
	memset(&book, 0, sizeof(book));
	lost = 0;
}

static struct ctrl_identity booted(uint8_t boot, bool is_clustered)
{
	struct ctrl_identity identity = {.has_volatile_cache = true, .is_clustered = is_clustered};

	identity.boot[15] = boot;
	return identity;
}

static unsigned enter(unsigned addr, uint8_t boot)
{
	struct ctrl_identity identity = booted(boot, false);

	return loss_enter(&book, addr, &identity, &lost);
}

static unsigned enter_member(unsigned addr, uint8_t boot)
{
	struct ctrl_identity identity = booted(boot, true);

	return loss_enter(&book, addr, &identity, &lost);
}

static LOSS_CACHE_BITS bit(unsigned cache)
{
	return (LOSS_CACHE_BITS)1 << cache;
}

/* ---- what a flush covers -------------------------------------------------------------------- */

static bool flush_now(uint64_t *told)
{
	return loss_flush_end(&ns, loss_flush_begin(&ns), 0, told);
}

static void a_flush_covers_what_was_acknowledged_before_it(void)
{
	uint64_t told = 0, flush;

	setup();
	EXPECT(!loss_ns_judge(&ns, bit(1)));
	loss_write_acked(&ns, 1, loss_seen(&ns));
	EXPECT(flush_now(&told));
	EXPECT(!loss_ns_judge(&ns, bit(1)));
	loss_write_acked(&ns, 1, loss_seen(&ns));
	flush = loss_flush_begin(&ns);
	EXPECT(loss_flush_end(&ns, flush, 0, &told));
	/* Acknowledged while the flush was in flight: the flush may have run before the write. */
	flush = loss_flush_begin(&ns);
	loss_write_acked(&ns, 1, loss_seen(&ns));
	EXPECT(loss_flush_end(&ns, flush, 0, &told));
	EXPECT(loss_ns_judge(&ns, bit(1)));
	EXPECT(!loss_ns_judge(&ns, bit(1)));
	EXPECT(!flush_now(&told));
	EXPECT_EQ(1, told);
	EXPECT(flush_now(&told));
}

static void a_mark_that_changes_tells_of_a_loss(void)
{
	uint64_t told = 0;

	setup();
	loss_write_acked(&ns, 1, loss_seen(&ns));
	EXPECT(!loss_ns_see(&ns, 7, 0));
	EXPECT(!loss_ns_see(&ns, 7, 0));
	/* Each member of a cluster has marks of its own. */
	EXPECT(!loss_ns_see(&ns, 8, 55));
	EXPECT(!loss_ns_see(&ns, 7, 0));
	EXPECT(loss_ns_see(&ns, 7, 100));
	EXPECT(!loss_ns_see(&ns, 7, 100));
	EXPECT(!flush_now(&told));
	EXPECT(flush_now(&told));
	/* Without unflushed writes nothing is lost. */
	EXPECT(!loss_ns_see(&ns, 8, 56));
	loss_write_acked(&ns, 2, loss_seen(&ns));
	EXPECT(flush_now(&told));
	EXPECT(!loss_ns_see(&ns, 7, 101));
	/* The mark of any member counts. */
	loss_write_acked(&ns, 2, loss_seen(&ns));
	EXPECT(loss_ns_see(&ns, 7, 102));
}

static void a_write_that_is_answered_after_the_mark_may_be_lost(void)
{
	uint64_t told = 0, seen;

	setup();
	EXPECT(!loss_ns_see(&ns, 7, 0));
	seen = loss_seen(&ns);
	/* The write ran before the loss; its answer is in transit when the mark is read. */
	EXPECT(!loss_ns_see(&ns, 7, 100));
	loss_write_acked(&ns, 1, seen);
	EXPECT(!flush_now(&told));
	EXPECT(flush_now(&told));
	/* This write was sent after the mark was read. */
	loss_write_acked(&ns, 1, loss_seen(&ns));
	EXPECT(flush_now(&told));
}

static void a_flush_tells_the_mark_that_was_judged(void)
{
	uint64_t mark = 0;

	setup();
	EXPECT(!loss_ns_mark(&ns, 7, &mark));
	(void)loss_ns_see(&ns, 7, 100);
	(void)loss_ns_see(&ns, 8, 5);
	EXPECT(loss_ns_mark(&ns, 7, &mark));
	EXPECT_EQ(100, mark);
	(void)loss_ns_see(&ns, 7, 101);
	EXPECT(loss_ns_mark(&ns, 7, &mark));
	EXPECT_EQ(101, mark);
	EXPECT(loss_ns_mark(&ns, 8, &mark));
	EXPECT_EQ(5, mark);
	EXPECT(!loss_ns_mark(&ns, 9, &mark));
}

static void a_source_that_makes_room_may_have_lost_writes(void)
{
	setup();
	for (uint64_t source = 1; source <= LOSS_SOURCES; source++)
		EXPECT(!loss_ns_see(&ns, source, 0));
	loss_write_acked(&ns, 1, loss_seen(&ns));
	EXPECT(!loss_ns_see(&ns, LOSS_SOURCES, 0));
	EXPECT(loss_ns_see(&ns, LOSS_SOURCES + 1, 0));
	EXPECT(!loss_ns_see(&ns, LOSS_SOURCES, 0));
}

static void a_user_whose_flush_failed_has_been_told(void)
{
	uint64_t told = 0, others = 0, failed;

	setup();
	loss_write_acked(&ns, 1, loss_seen(&ns));
	failed = loss_flush_begin(&ns);
	EXPECT(loss_ns_judge(&ns, bit(1)));
	EXPECT(loss_flush_end(&ns, loss_flush_begin(&ns), failed, &told));
	EXPECT_EQ(1, told);
	EXPECT(!flush_now(&others));
	/* A write acknowledged after the failed flush is a new loss. */
	loss_write_acked(&ns, 1, loss_seen(&ns));
	EXPECT(loss_ns_judge(&ns, bit(1)));
	EXPECT(!loss_flush_end(&ns, loss_flush_begin(&ns), failed, &told));
}

static void what_reached_nobody_is_told_to_the_next_user(void)
{
	uint64_t gone = 0, bystander = 0, newcomer, untold, again;

	setup();
	loss_write_acked(&ns, 1, loss_seen(&ns));
	EXPECT(loss_ns_judge(&ns, bit(1)));
	EXPECT(!flush_now(&gone));
	EXPECT_EQ(1, loss_told(&ns, &untold));
	EXPECT_EQ(0, untold);
	loss_repeat(&ns, 0);
	loss_repeat(&ns, 5);
	/* An earlier user gets the error too, but did not make the write. */
	EXPECT(!flush_now(&bystander));
	EXPECT_EQ(0, loss_told(&ns, &untold));
	newcomer = loss_told(&ns, &untold);
	EXPECT(!flush_now(&newcomer));
	EXPECT_EQ(0, loss_told(&ns, &again));
	loss_told_late(&ns, untold);
	EXPECT_EQ(1, loss_told(&ns, &again));
	EXPECT_EQ(0, again);
	loss_told_late(&ns, again);
	/* The newcomer's answer was lost, too. */
	loss_repeat(&ns, 0);
	EXPECT_EQ(0, loss_told(&ns, &again));
}

static void flushes_end_in_any_order(void)
{
	uint64_t told = 0, first, second;

	setup();
	first = loss_flush_begin(&ns);
	loss_write_acked(&ns, 1, loss_seen(&ns));
	second = loss_flush_begin(&ns);
	EXPECT(loss_flush_end(&ns, second, 0, &told));
	/* An earlier flush that ends later undoes nothing. */
	EXPECT(loss_flush_end(&ns, first, 0, &told));
	EXPECT(!loss_ns_judge(&ns, bit(1)));
	/* A failed flush covers nothing. */
	loss_write_acked(&ns, 1, loss_seen(&ns));
	(void)loss_flush_begin(&ns);
	EXPECT(loss_ns_judge(&ns, bit(1)));
}

static void a_flush_through_any_controller_covers_all_caches(void)
{
	uint64_t told = 0;

	setup();
	loss_write_acked(&ns, 1, loss_seen(&ns));
	loss_write_acked(&ns, 2, loss_seen(&ns));
	EXPECT(flush_now(&told));
	EXPECT(!loss_ns_judge(&ns, bit(1) | bit(2)));
	loss_write_acked(&ns, 2, loss_seen(&ns));
	EXPECT(!loss_ns_judge(&ns, bit(1)));
	/* Two caches lost at once are one loss. */
	loss_write_acked(&ns, 1, loss_seen(&ns));
	EXPECT(loss_ns_judge(&ns, bit(1) | bit(2)));
	EXPECT_EQ(1, atomic_load(&ns.losses));
}

static void every_user_is_told_once(void)
{
	uint64_t first = 0, second = 0, both[2], newcomer, untold, flush;

	setup();
	loss_write_acked(&ns, 1, loss_seen(&ns));
	flush = loss_flush_begin(&ns);
	both[0] = both[1] = first;
	EXPECT(loss_ns_judge(&ns, bit(1)));
	/* No user has got the error yet, so a new user gets it. */
	newcomer = loss_told(&ns, &untold);
	EXPECT(!flush_now(&newcomer));
	/* Flushes of one user that are in flight together both fail. */
	EXPECT(!loss_flush_end(&ns, flush, 0, &both[0]));
	EXPECT(!loss_flush_end(&ns, loss_flush_begin(&ns), 0, &both[1]));
	first = both[0];
	EXPECT(flush_now(&first));
	EXPECT(!flush_now(&second));
	EXPECT(flush_now(&second));
	newcomer = loss_told(&ns, &untold);
	EXPECT(flush_now(&newcomer));
}

/* ---- which boots have ended ----------------------------------------------------------------- */

static void another_boot_ends_the_former_one(void)
{
	unsigned one, two;

	setup();
	one = enter(0, 1);
	EXPECT(one != LOSS_UNKNOWN);
	EXPECT_EQ(one, enter(1, 1));
	EXPECT_EQ(0, lost);
	/* The process was killed: the boot is the same. */
	EXPECT_EQ(0, loss_leave(&book, one));
	EXPECT_EQ(0, loss_leave(&book, one));
	EXPECT_EQ(one, enter(0, 1));
	EXPECT_EQ(0, lost);
	EXPECT_EQ(0, loss_leave(&book, one));
	/* At an address that is new. */
	two = enter(5, 2);
	EXPECT_EQ(bit(one), lost);
	EXPECT(two != one);
	/* A boot is judged once. */
	(void)enter(0, 2);
	EXPECT_EQ(0, lost);
}

static void members_have_boots_of_their_own(void)
{
	unsigned a, b;

	setup();
	a = enter_member(0, 1);
	b = enter_member(1, 2);
	EXPECT(a != b && lost == 0);
	EXPECT_EQ(0, loss_leave(&book, b));
	/* The second machine comes back; the first has lost nothing. */
	b = enter_member(1, 3);
	EXPECT(lost != 0 && (lost & bit(a)) == 0);
	/* The first machine is lost; a third machine is no evidence of its end. */
	EXPECT_EQ(0, loss_leave(&book, a));
	(void)enter_member(2, 4);
	EXPECT_EQ(0, lost);
	(void)enter_member(0, 5);
	EXPECT_EQ(bit(a), lost);
}

/* One reactor knows that the machine is back, another one has not noticed its absence. */
static void a_boot_that_ended_is_judged_again_with_its_last_controller(void)
{
	unsigned one;

	setup();
	one = enter_member(0, 1);
	EXPECT_EQ(one, enter_member(0, 1));
	EXPECT_EQ(0, loss_leave(&book, one));
	(void)enter_member(0, 2);
	EXPECT_EQ(bit(one), lost);
	EXPECT_EQ(bit(one), loss_leave(&book, one));
	/* An address moves between members: the first member stayed alive. */
	setup();
	one = enter_member(0, 1);
	(void)enter_member(1, 1);
	EXPECT_EQ(0, loss_leave(&book, one));
	(void)enter_member(0, 2);
	EXPECT_EQ(bit(one), lost);
	EXPECT_EQ(one, enter_member(2, 1));
	EXPECT_EQ(0, loss_leave(&book, one));
	EXPECT_EQ(0, loss_leave(&book, one));
}

static void without_a_boot_nothing_is_known(void)
{
	struct ctrl_identity identity = booted(1, false);
	unsigned one;

	setup();
	EXPECT_EQ(LOSS_UNKNOWN, enter(0, 0));
	EXPECT_EQ(0, loss_leave(&book, LOSS_UNKNOWN));
	identity.has_volatile_cache = false;
	EXPECT_EQ(LOSS_UNKNOWN, loss_enter(&book, 0, &identity, &lost));
	one = enter(0, 1);
	EXPECT_EQ(0, loss_leave(&book, one));
	/* Another vendor's target, or an older version, in between. */
	EXPECT_EQ(LOSS_UNKNOWN, enter(0, 0));
	EXPECT_EQ(0, lost);
	(void)enter(0, 2);
	EXPECT_EQ(bit(one), lost);
}

static void a_full_book_gives_up_what_is_away_longest_known(void)
{
	unsigned first;

	setup();
	first = enter_member(0, 1);
	for (uint8_t i = 2; i < LOSS_CACHES; i++) {
		EXPECT(enter_member(i, i) != LOSS_UNKNOWN);
		EXPECT_EQ(0, lost);
	}
	EXPECT_EQ(LOSS_UNKNOWN, enter_member(40, 100));
	EXPECT_EQ(0, loss_leave(&book, first));
	EXPECT_EQ(first, enter_member(40, 100));
	EXPECT_EQ(bit(first), lost);
	/* The entry now belongs to another boot, for which the former address is no evidence. */
	(void)enter_member(0, 2);
	EXPECT_EQ(0, lost);
	/* An index that was reassigned to another address is no evidence either. */
	loss_addr_forget(&book, 2);
	(void)enter_member(2, 3);
	EXPECT_EQ(0, lost);
}

/* ---- in a join ------------------------------------------------------------------------------ */

static struct join_ns *see(struct join *join, const struct join_ctrl *ctrl, uint32_t nsid)
{
	struct ns_identity identity = {.block_bytes = 512, .block_count = 100};
	struct join_sight sight = {.nsid = nsid, .identity = &identity};
	struct join_ns *seen = NULL;
	char why[JOIN_WHY_BYTES];

	identity.uuid.bytes[0] = (uint8_t)nsid;
	EXPECT_EQ(0, join_ns_see(join, ctrl, &sight, &seen, why));
	return seen;
}

/* The path is removed, and made again when discovery finds the machine again. */
static void a_path_that_is_made_again_finds_its_loss(void)
{
	struct ctrl_identity identity = booted(1, true);
	struct join *join = join_create();
	char text[JOIN_WHY_BYTES];
	struct join_ctrl ctrl;
	struct join_ns *one, *two;
	struct host_addr addr = {.transport = NULL};
	uint64_t told = 0;

	EXPECT_EQ(0, net_addr_parse("10.0.0.1:4420", 0, &addr.net));
	EXPECT_EQ(0, join_ctrl_add(join, &ctrl, &addr));
	identity.instance[0] = 1;
	EXPECT_EQ(0, join_ctrl_enter(join, &ctrl, &identity, text));
	one = see(join, &ctrl, 1);
	two = see(join, &ctrl, 7);
	loss_write_acked(&one->loss, ctrl.cache, loss_seen(&one->loss));
	loss_write_acked(&two->loss, ctrl.cache, loss_seen(&two->loss));
	EXPECT(loss_flush_end(&one->loss, loss_flush_begin(&one->loss), 0, &told));
	join_ctrl_remove(join, &ctrl);
	EXPECT(!join_loss_take(join, text));
	EXPECT_EQ(0, join_ctrl_add(join, &ctrl, &addr));
	identity.boot[15] = 2;
	identity.instance[0] = 2;
	EXPECT_EQ(0, join_ctrl_enter(join, &ctrl, &identity, text));
	EXPECT(join_loss_take(join, text));
	EXPECT(strstr(text, "1 namespace (7)") != NULL);
	EXPECT(!join_loss_take(join, text));
	EXPECT(loss_flush_end(&one->loss, loss_flush_begin(&one->loss), 0, &told));
	EXPECT(!loss_flush_end(&two->loss, loss_flush_begin(&two->loss), 0, &told));
	join_ctrl_remove(join, &ctrl);
	join_put(join);
}

/* ---- threads -------------------------------------------------------------------------------- */

#define ROUNDS 100000

static void *writer(void *arg)
{
	for (unsigned i = 0; i < ROUNDS; i++)
		loss_write_acked(&ns, 1, loss_seen(&ns));
	return arg;
}

static void marks_of_two_threads_never_fall(void)
{
	pthread_t thread;
	uint64_t told = 0, last = 0;

	setup();
	EXPECT_EQ(0, pthread_create(&thread, NULL, writer, NULL));
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t mark;

		EXPECT(flush_now(&told));
		loss_write_acked(&ns, 1, loss_seen(&ns));
		mark = atomic_load(&ns.acked[1]);
		if (mark < last || mark != i + 2)
			break;
		last = mark;
	}
	EXPECT_EQ(ROUNDS + 1, last);
	pthread_join(thread, NULL);
	EXPECT_EQ(ROUNDS + 1, atomic_load(&ns.acked[1]));
}

int main(void)
{
	TAP_RUN(a_flush_covers_what_was_acknowledged_before_it);
	TAP_RUN(a_mark_that_changes_tells_of_a_loss);
	TAP_RUN(a_write_that_is_answered_after_the_mark_may_be_lost);
	TAP_RUN(a_flush_tells_the_mark_that_was_judged);
	TAP_RUN(a_source_that_makes_room_may_have_lost_writes);
	TAP_RUN(a_user_whose_flush_failed_has_been_told);
	TAP_RUN(what_reached_nobody_is_told_to_the_next_user);
	TAP_RUN(flushes_end_in_any_order);
	TAP_RUN(a_flush_through_any_controller_covers_all_caches);
	TAP_RUN(every_user_is_told_once);
	TAP_RUN(another_boot_ends_the_former_one);
	TAP_RUN(members_have_boots_of_their_own);
	TAP_RUN(a_boot_that_ended_is_judged_again_with_its_last_controller);
	TAP_RUN(without_a_boot_nothing_is_known);
	TAP_RUN(a_full_book_gives_up_what_is_away_longest_known);
	TAP_RUN(a_path_that_is_made_again_finds_its_loss);
	TAP_RUN(marks_of_two_threads_never_fall);
	return tap_end();
}

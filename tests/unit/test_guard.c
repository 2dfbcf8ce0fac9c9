/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/block_guard.c and reactor/range_guard.c: words, ranges of memory, queues of holds, and both
 * under two threads. The users of shared memory check it themselves: a page of two stamps, or a
 * granule with a writer and any other user, fails the test. Meson runs it under the thread
 * sanitizer too.
 */
#include "base/block_guard.h"
#include "base/prng.h"
#include "reactor/range_guard.h"

#include "tap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE BLOCK_GUARD_BYTES

/* ---- words --------------------------------------------------------------------------------- */

static void words_are_shared_or_exclusive(void)
{
	struct block_guard *guard = block_guard_create();
	atomic_uint *word = block_guard_word(guard, 5);

	EXPECT(block_guard_try_shared(word) && block_guard_try_shared(word));
	EXPECT(!block_guard_try_exclusive(word));
	EXPECT(!block_guard_release_shared(word) && !block_guard_release_shared(word));
	EXPECT(block_guard_try_exclusive(word));
	EXPECT(!block_guard_try_shared(word) && !block_guard_try_exclusive(word));
	atomic_fetch_or(word, BLOCK_GUARD_WAITERS);
	EXPECT(block_guard_release_exclusive(word));
	EXPECT(!block_guard_try_shared(word) && !block_guard_try_exclusive(word));
	EXPECT(block_guard_word(guard, 5 + BLOCK_GUARD_WORDS) == word);
	free(guard);
}

static void ranges_are_taken_as_far_as_they_are_free(void)
{
	struct block_guard *guard = block_guard_create();
	uint8_t *page = (uint8_t *)((uintptr_t)0x7000000000 + 512);
	size_t got;

	got = block_guard_take_exclusive(guard, page, 3 * PAGE);
	EXPECT(got == 3 * PAGE);
	EXPECT(block_guard_take_shared(guard, page, 512, false) == 0);
	EXPECT(block_guard_take_shared(guard, page + 3 * PAGE - 512, 512, false) == 0);
	got = block_guard_take_shared(guard, page - 2 * PAGE, 4 * PAGE, false);
	EXPECT(got == 2 * PAGE - 512);
	block_guard_drop_shared(guard, page - 2 * PAGE, got);
	block_guard_drop_exclusive(guard, page, 3 * PAGE);
	got = block_guard_take_exclusive(guard, page - 2 * PAGE, 6 * PAGE);
	EXPECT(got == 6 * PAGE);
	block_guard_drop_exclusive(guard, page - 2 * PAGE, got);
	/* Around the end of the table, then all of it. */
	got = block_guard_take_exclusive(guard, page, (size_t)BLOCK_GUARD_WORDS * PAGE - PAGE);
	EXPECT(got == (size_t)BLOCK_GUARD_WORDS * PAGE - PAGE);
	block_guard_drop_exclusive(guard, page, got);
	free(guard);
}

/* ---- memory under two threads -------------------------------------------------------------- */

#define MEM_PAGES  8
#define MEM_ROUNDS 20000

struct mem_world {
	struct block_guard *guard;
	uint8_t *pages;
	atomic_uint torn;
};

static bool page_is_whole(const uint8_t *page)
{
	return memcmp(page, page + 1, PAGE - 1) == 0;
}

static void *mem_worker(void *arg)
{
	struct mem_world *world = arg;
	uint8_t *copy = malloc(MEM_PAGES * PAGE);
	struct prng prng;

	prng_seed(&prng, (uintptr_t)&prng);
	for (unsigned i = 0; i < MEM_ROUNDS; i++) {
		unsigned first = (unsigned)prng_below(&prng, MEM_PAGES);
		unsigned count = 1 + (unsigned)prng_below(&prng, MEM_PAGES - first);
		uint8_t *at = world->pages + (size_t)first * PAGE;
		size_t bytes = (size_t)count * PAGE, got;

		switch (prng_below(&prng, 6)) {
		case 0:
			memset(copy, (int)i, bytes);
			block_guard_copy_in(world->guard, at, copy, bytes);
			break;
		case 1:
			block_guard_zero(world->guard, at, bytes);
			break;
		case 2:
			got = block_guard_take_exclusive(world->guard, at, bytes);
			memset(at, (int)i, got);
			block_guard_drop_exclusive(world->guard, at, got);
			break;
		case 3:
			got = block_guard_take_shared(world->guard, at, bytes, true);
			memcpy(copy, at, got);
			block_guard_drop_shared(world->guard, at, got);
			for (size_t n = 0; n < got; n += PAGE)
				world->torn += !page_is_whole(copy + n);
			break;
		default:
			block_guard_copy_out(world->guard, copy, at, bytes);
			for (size_t n = 0; n < bytes; n += PAGE)
				world->torn += !page_is_whole(copy + n);
			break;
		}
	}
	free(copy);
	return NULL;
}

static void no_thread_sees_half_a_page(void)
{
	struct mem_world world = {.guard = block_guard_create()};
	pthread_t threads[3];
	unsigned held = 0;

	world.pages = mmap(NULL, MEM_PAGES * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, mem_worker, &world);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	EXPECT(world.torn == 0);
	for (unsigned i = 0; i < BLOCK_GUARD_WORDS; i++)
		held += atomic_load(&world.guard->words[i]) != 0;
	EXPECT(held == 0);
	munmap(world.pages, MEM_PAGES * PAGE);
	free(world.guard);
}

/* ---- holds on one reactor: order, cancel, the end of the table ----------------------------- */

struct named_hold {
	struct range_hold hold;
	char name;
};

static char order[32];

static void note(char name)
{
	order[strlen(order)] = name;
}

static void note_granted(struct range_hold *hold)
{
	note(container_of(hold, struct named_hold, hold)->name);
}

struct script {
	struct reactor *reactor;
	struct range_guard *guard;
	struct named_hold holds[8];
	struct reactor_msg msg;
	unsigned step;
	bool is_idle; /* every second step waits for the messages of the first */
};

/* Hold n takes granules [first, first + count). Logs the name at once when it is granted. */
static bool script_take(struct script *script, unsigned n, uint64_t first, unsigned count,
			bool is_exclusive)
{
	struct named_hold *named = &script->holds[n];

	named->name = (char)('a' + n);
	named->hold.is_exclusive = is_exclusive;
	named->hold.granted = note_granted;
	return range_hold_take(&named->hold, script->guard, first * PAGE, (uint64_t)count * PAGE);
}

static void script_drop(struct script *script, unsigned n)
{
	range_hold_drop(&script->holds[n].hold);
}

/* Hold 1 has the first 2048 granules of the script's guard. */
static void expect_stores_apart(struct script *script)
{
	struct range_guard *other = range_guard_create();
	struct range_hold *holds[] = {&script->holds[2].hold, &script->holds[3].hold,
				      &script->holds[4].hold, &script->holds[5].hold};

	for (unsigned i = 0; i < 4; i++)
		holds[i]->is_exclusive = i == 0 || i == 3;
	EXPECT(range_hold_take(holds[0], other, 0, 2048ull * PAGE));
	/* A gate is no granule, and belongs to one store, too. */
	EXPECT(range_hold_take_gate(holds[1], script->guard));
	EXPECT(range_hold_take_gate(holds[2], script->guard));
	EXPECT(range_hold_take_gate(holds[3], other));
	range_hold_drop(holds[2]);
	holds[2]->is_exclusive = true;
	EXPECT(!range_hold_take_gate(holds[2], script->guard));
	EXPECT(!range_guard_try_gate(script->guard));
	EXPECT(range_hold_cancel(holds[2]));
	EXPECT(range_guard_try_gate(script->guard));
	range_hold_drop(holds[1]);
	holds[2]->is_exclusive = true;
	EXPECT(!range_hold_take_gate(holds[2], script->guard));
	EXPECT(range_hold_cancel(holds[2]));
	range_guard_drop_gate(script->guard);
	EXPECT(range_hold_take_gate(holds[2], script->guard));
	EXPECT(!range_guard_try_gate(script->guard));
	for (unsigned i = 0; i < 4; i++)
		range_hold_drop(holds[i]);
	EXPECT(!range_guard_put(range_guard_get(other)));
	EXPECT(range_guard_put(other));
}

static void script_step(struct reactor_msg *msg)
{
	struct script *script = container_of(msg, struct script, msg);
	const uint64_t end = RANGE_GUARD_WORDS;

	script->is_idle = !script->is_idle;
	if (!script->is_idle) {
		reactor_post(script->reactor, msg, script_step);
		return;
	}
	switch (script->step++) {
	case 0:
		EXPECT(script_take(script, 0, end - 2, 4, true));
		EXPECT(!script_take(script, 1, 1, 1, false));
		EXPECT(!script_take(script, 2, end - 1, 1, true));
		EXPECT(!script_take(script, 3, 1, 1, false));
		EXPECT(!script_take(script, 4, 1, 2, true));
		EXPECT(!script_take(script, 5, 1, 1, false));
		script_drop(script, 0);
		break;
	case 1:
		EXPECT(strcmp(order, "bdc") == 0);
		EXPECT(range_hold_cancel(&script->holds[4].hold));
		break;
	case 2:
		EXPECT(strcmp(order, "bdcf") == 0);
		script_drop(script, 1);
		script_drop(script, 2);
		script_drop(script, 3);
		script_drop(script, 5);
		EXPECT(script_take(script, 0, 10, 1, false));
		EXPECT(!script_take(script, 1, 8, 4, true));
		EXPECT(!script_take(script, 2, 9, 1, false));
		EXPECT(!script_take(script, 3, 10, 1, false));
		EXPECT(script_take(script, 4, 11, 1, false));
		script_drop(script, 4);
		script_drop(script, 0);
		/* b has its word now, and its message is in flight. */
		EXPECT(!range_hold_cancel(&script->holds[1].hold));
		break;
	case 3:
		EXPECT(strcmp(order, "bdcfbcd") == 0);
		EXPECT(script->holds[1].hold.state == RANGE_HOLD_NONE);
		script_drop(script, 2);
		script_drop(script, 3);
		EXPECT(script_take(script, 1, 0, 2048, true));
		expect_stores_apart(script);
		script_drop(script, 1);
		reactor_stop(script->reactor);
		return;
	}
	/* Posted behind the messages that this step has caused. */
	reactor_post(script->reactor, msg, script_step);
}

static void holds_queue_in_order_and_can_leave(void)
{
	struct reactor_config config = {.cpu = -1};
	struct script script = {.guard = range_guard_create()};

	reactor_create(&config, &script.reactor);
	reactor_post(script.reactor, &script.msg, script_step);
	reactor_run(script.reactor);
	reactor_destroy(script.reactor);
	range_guard_put(script.guard);
}

/* ---- holds on two reactors ----------------------------------------------------------------- */

#define CROWD_HOLDS    24
#define CROWD_ROUNDS   20000
#define CROWD_GRANULES 48

struct crowd {
	struct range_guard *guard;
	atomic_int users[CROWD_GRANULES]; /* readers, or -1 for a writer */
	atomic_uint clashes;
	atomic_uint cancelled;
};

struct member {
	struct crowd_reactor *home;
	struct range_hold hold;
	unsigned first;
	unsigned count;
	unsigned turns_left;
	bool is_waiting;
	bool is_cancelled;
	struct reactor_msg msg;
};

struct crowd_reactor {
	struct crowd *crowd;
	struct reactor *reactor;
	pthread_t thread;
	struct prng prng;
	unsigned rounds_left;
	unsigned members_left;
	struct member members[CROWD_HOLDS];
};

static void member_turn(struct reactor_msg *msg);

static void member_use(struct member *member, int add_shared)
{
	struct crowd *crowd = member->home->crowd;

	for (unsigned i = member->first; i < member->first + member->count; i++) {
		int before, after;

		if (member->hold.is_exclusive) {
			before = atomic_exchange(&crowd->users[i], add_shared > 0 ? -1 : 0);
			after = add_shared > 0 ? 0 : -1;
			crowd->clashes += before != after;
		} else {
			before = atomic_fetch_add(&crowd->users[i], add_shared);
			crowd->clashes += before < 0;
		}
	}
}

static void member_granted(struct range_hold *hold)
{
	struct member *member = container_of(hold, struct member, hold);

	member->is_waiting = false;
	if (!member->is_cancelled)
		member_use(member, 1);
	reactor_post(member->home->reactor, &member->msg, member_turn);
}

static void member_take(struct member *member)
{
	struct crowd_reactor *home = member->home;
	uint64_t place;

	if (home->rounds_left == 0) {
		if (--home->members_left == 0)
			reactor_stop(home->reactor);
		return;
	}
	home->rounds_left--;
	member->first = (unsigned)prng_below(&home->prng, CROWD_GRANULES);
	member->count = 1 + (unsigned)prng_below(&home->prng, CROWD_GRANULES - member->first);
	member->turns_left = (unsigned)prng_below(&home->prng, 3);
	member->is_cancelled = false;
	member->is_waiting = true;
	member->hold.is_exclusive = prng_below(&home->prng, 3) == 0;
	member->hold.granted = member_granted;
	/* The range of all holds spans the end of the table. */
	place = RANGE_GUARD_WORDS - CROWD_GRANULES / 2 + member->first;
	if (range_hold_take(&member->hold, home->crowd->guard, place * PAGE,
			    (uint64_t)member->count * PAGE)) {
		member_granted(&member->hold);
	} else if (prng_below(&home->prng, 8) == 0) {
		/* Cancels another hold of this reactor if it waits. */
		struct member *other = &home->members[prng_below(&home->prng, CROWD_HOLDS)];

		if (!other->is_waiting || other->is_cancelled)
			return;
		other->is_cancelled = true;
		home->crowd->cancelled++;
		if (range_hold_cancel(&other->hold))
			member_granted(&other->hold);
	}
}

static void member_turn(struct reactor_msg *msg)
{
	struct member *member = container_of(msg, struct member, msg);

	if (!member->is_cancelled && member->turns_left-- > 0) {
		reactor_post(member->home->reactor, msg, member_turn);
		return;
	}
	if (!member->is_cancelled && member->hold.state == RANGE_HOLD_HELD) {
		member_use(member, -1);
		range_hold_drop(&member->hold);
	}
	member_take(member);
}

static void member_begin(struct reactor_msg *msg)
{
	member_take(container_of(msg, struct member, msg));
}

static void *crowd_run(void *arg)
{
	struct crowd_reactor *home = arg;

	reactor_run(home->reactor);
	return NULL;
}

static void two_reactors_never_clash(void)
{
	static struct crowd_reactor homes[2];
	struct crowd crowd = {.guard = range_guard_create()};
	unsigned in_use = 0;

	for (unsigned i = 0; i < 2; i++) {
		struct reactor_config config = {.index = i, .cpu = -1};

		homes[i].crowd = &crowd;
		homes[i].rounds_left = CROWD_ROUNDS;
		homes[i].members_left = CROWD_HOLDS;
		prng_seed(&homes[i].prng, i + 1);
		reactor_create(&config, &homes[i].reactor);
		for (unsigned j = 0; j < CROWD_HOLDS; j++) {
			homes[i].members[j].home = &homes[i];
			reactor_post(homes[i].reactor, &homes[i].members[j].msg, member_begin);
		}
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&homes[i].thread, NULL, crowd_run, &homes[i]);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(homes[i].thread, NULL);
	for (unsigned i = 0; i < 2; i++)
		reactor_destroy(homes[i].reactor);
	for (unsigned i = 0; i < CROWD_GRANULES; i++)
		in_use += crowd.users[i] != 0;
	EXPECT(crowd.clashes == 0);
	EXPECT(in_use == 0);
	EXPECT(crowd.cancelled > 0);
	range_guard_put(crowd.guard);
}

int main(void)
{
	TAP_RUN(words_are_shared_or_exclusive);
	TAP_RUN(ranges_are_taken_as_far_as_they_are_free);
	TAP_RUN(no_thread_sees_half_a_page);
	TAP_RUN(holds_queue_in_order_and_can_leave);
	TAP_RUN(two_reactors_never_clash);
	return tap_end();
}

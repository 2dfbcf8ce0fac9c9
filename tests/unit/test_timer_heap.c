/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timer heap against a model: an array that is searched for its least member.
 *
 * Random inserts, removals and pops from fixed seeds; after each step the first deadline must be
 * the model's, and every timer must come out exactly once.
 */
#include "base/prng.h"
#include "reactor/timer_heap.h"
#include "tap.h"

#define TIMER_COUNT 500

static struct reactor_timer timers[TIMER_COUNT];

static uint64_t model_first(void)
{
	uint64_t first = UINT64_MAX;

	for (unsigned i = 0; i < TIMER_COUNT; i++) {
		if (timers[i].armed && timers[i].deadline_ns < first)
			first = timers[i].deadline_ns;
	}
	return first;
}

static void agrees_with_a_model(void)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct reactor_timer *root = NULL;
		struct prng prng;

		prng_seed(&prng, seed);
		memset(timers, 0, sizeof(timers));
		for (unsigned step = 0; step < 5000; step++) {
			struct reactor_timer *timer = &timers[prng_below(&prng, TIMER_COUNT)];
			uint64_t first;

			if (timer->armed) {
				timer_heap_remove(&root, timer);
			} else {
				/* Few distinct deadlines, so that equal ones are common. */
				timer->deadline_ns = prng_below(&prng, 200);
				timer_heap_insert(&root, timer);
			}
			if (prng_one_in(&prng, 5)) {
				first = model_first();
				timer = timer_heap_pop_due(&root, first);
				EXPECT(!timer || timer->deadline_ns == first);
				EXPECT_EQ(first == UINT64_MAX, timer == NULL);
			}
			first = model_first();
			EXPECT_EQ(first, root ? root->deadline_ns : UINT64_MAX);
		}
	}
}

static void pops_in_order_and_only_when_due(void)
{
	struct reactor_timer *root = NULL, *timer;
	uint64_t last = 0;
	unsigned popped = 0;
	struct prng prng;

	prng_seed(&prng, 99);
	memset(timers, 0, sizeof(timers));
	for (unsigned i = 0; i < TIMER_COUNT; i++) {
		timers[i].deadline_ns = 1000 + prng_below(&prng, 1000);
		timer_heap_insert(&root, &timers[i]);
	}
	EXPECT(!timer_heap_pop_due(&root, 999));
	while ((timer = timer_heap_pop_due(&root, 1499))) {
		EXPECT(timer->deadline_ns >= last && timer->deadline_ns <= 1499);
		last = timer->deadline_ns;
		popped++;
	}
	EXPECT(popped > 0 && popped < TIMER_COUNT && model_first() >= 1500);
	while ((timer = timer_heap_pop_due(&root, UINT64_MAX))) {
		EXPECT(timer->deadline_ns >= last && !timer->armed);
		last = timer->deadline_ns;
		popped++;
	}
	EXPECT_EQ(TIMER_COUNT, popped);
	EXPECT(!root);
}

int main(void)
{
	TAP_RUN(agrees_with_a_model);
	TAP_RUN(pops_in_order_and_only_when_due);
	return tap_end();
}

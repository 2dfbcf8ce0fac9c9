/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target/turn.h: the measurement of work without credit. The end of one piece of work may begin the
 * next piece of its command inside, and may end the host. Real time, so only sums are compared.
 */
#include "base/clock.h"
#include "target/turn.h"

#include "tap.h"

#define WORK_NS 200000

static struct turn turn;
static struct turn_host host;

static void set_up(void)
{
	turn_init(&turn, NULL);
	turn_host_init(&host);
	host.spent_ns = 0;
}

static void work(void)
{
	uint64_t until_ns = clock_monotonic_ns() + WORK_NS;

	while (clock_monotonic_ns() < until_ns)
		;
}

static void work_inside_is_charged_once_and_to_its_host(void)
{
	uint64_t began_ns = clock_monotonic_ns();
	struct turn_measure outer, inner;

	set_up();
	turn_measure_begin(&turn, &outer, &host);
	work();
	turn_measure_begin(&turn, &inner, &host);
	work();
	turn_measure_end(&turn, &inner, 0);
	work();
	turn_measure_end(&turn, &outer, 0);
	EXPECT(turn.spent_ns >= 3 * WORK_NS);
	EXPECT(turn.spent_ns <= clock_monotonic_ns() - began_ns);
	EXPECT_EQ(turn.spent_ns, host.spent_ns);
	EXPECT(turn.measured == NULL);
}

static void work_of_a_host_that_ends_counts_for_the_turn(void)
{
	struct turn_measure outer, inner;

	set_up();
	turn_measure_begin(&turn, &outer, &host);
	turn_measure_begin(&turn, &inner, &host);
	work();
	turn_host_end(&turn, &host);
	turn_measure_end(&turn, &inner, 0);
	turn_measure_end(&turn, &outer, 0);
	EXPECT(turn.spent_ns >= WORK_NS);
	EXPECT_EQ(0, host.spent_ns);
}

int main(void)
{
	TAP_RUN(work_inside_is_charged_once_and_to_its_host);
	TAP_RUN(work_of_a_host_that_ends_counts_for_the_turn);
	return tap_end();
}

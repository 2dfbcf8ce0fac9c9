/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection ends after the Nth byte that the host sends, and after the Nth that the target
 * sends: by a reset, a half close, or silence. Every command completes once, the target frees the
 * connection, a new one works and finds what was acknowledged. One thread.
 */
#include "scene.h"
#include "tap.h"

#include "base/log.h"

/* Every byte of the first exchange, then larger steps, so that the loop stays short. */
static uint64_t next_point(uint64_t n)
{
	if (n < 300)
		return n + 1;
	if (n < 12000)
		return n + 97;
	return n + 1361;
}

static uint64_t expiries;

/* False when the script ended before the break. */
static bool play(const struct sim_net_break *net_break, uint64_t seed, bool is_orderly)
{
	static const char *const kinds[] = {"reset", "half close", "stall"};
	struct scene_options options = {.seed = seed,
					.sim = {.is_orderly = is_orderly},
					.has_digests = !is_orderly,
					.has_break = true,
					.net_break = *net_break};
	struct scene_figures figures;
	char label[96];
	unsigned harm;

	snprintf(label, sizeof(label), "%s behind byte %" PRIu64 " of the %s, seed %" PRIu64,
		 kinds[net_break->kind], net_break->after_bytes,
		 net_break->is_by_server ? "target" : "host", seed);
	EXPECT_EQ(0, scene_play(&options, label, &figures));
	EXPECT_EQ(0, figures.setup_failures);
	EXPECT_EQ(0, figures.wrong_reads);
	EXPECT_EQ(0, figures.compare_misses);
	EXPECT_EQ(0, figures.cmd_failures);
	expiries += figures.keep_alive_expiries;
	harm = figures.connect_failures + figures.losses;
	/* One connection was broken: at most one controller is lost. */
	EXPECT(harm <= 1);
	return figures.is_broken;
}

static void loop(enum sim_net_break_kind kind, bool is_by_server)
{
	struct sim_net_break net_break = {
		.kind = kind, .is_by_server = is_by_server, .after_bytes = 1};
	unsigned runs = 1;

	while (play(&net_break, 1, true)) {
		net_break.after_bytes = next_point(net_break.after_bytes);
		runs++;
	}
	printf("# %u runs, %" PRIu64 " bytes\n", runs, net_break.after_bytes);
	EXPECT(net_break.after_bytes > 150000);
}

static void the_host_is_reset_at_any_byte(void)
{
	loop(SIM_NET_RESET, false);
}

static void the_target_is_reset_at_any_byte(void)
{
	loop(SIM_NET_RESET, true);
}

/* Points in ICReq, Connect, the set-up, commands, data, the disconnect. */
static const uint64_t points[] = {1,     64,    128,   129,    200,    1224,  1300,
				  2000,  2500,  3000,  4000,   5000,   12000, 20000,
				  40000, 70000, 90000, 120000, 140000, 150000};

static void breaks_at_points(enum sim_net_break_kind kind)
{
	struct sim_net_break net_break = {.kind = kind, .stall_us = 60000000};

	for (unsigned i = 0; i < ARRAY_LEN(points); i++) {
		for (unsigned side = 0; side < 2; side++) {
			net_break.is_by_server = side == 1;
			net_break.after_bytes = points[i];
			EXPECT(play(&net_break, 1, true));
			play(&net_break, 100 + i, false);
		}
	}
}

static void a_stream_ends_at_some_byte(void)
{
	breaks_at_points(SIM_NET_HALF_CLOSE);
}

/* The host's command time-out ends the connection there, the keep alive time-out at the target. */
static void a_connection_goes_silent_at_some_byte(void)
{
	expiries = 0;
	breaks_at_points(SIM_NET_STALL);
	EXPECT(expiries > 0);
}

static void resets_on_a_random_network(void)
{
	breaks_at_points(SIM_NET_RESET);
}

int main(void)
{
	log_set_level(LOG_LEVEL_OFF);
	TAP_RUN(the_host_is_reset_at_any_byte);
	TAP_RUN(the_target_is_reset_at_any_byte);
	TAP_RUN(a_stream_ends_at_some_byte);
	TAP_RUN(a_connection_goes_silent_at_some_byte);
	TAP_RUN(resets_on_a_random_network);
	return tap_end();
}

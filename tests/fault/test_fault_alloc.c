/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Nth allocation of target, host, media and transport fails, for N = 1, 2, … until no
 * allocation of the script fails; no run leaks. One thread. See alloc_wrap.h.
 */
#include "alloc_wrap.h"
#include "scene.h"
#include "tap.h"

#include "base/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the loop ------------------------------------------------------------------------------- */

static void play(const struct scene_options *options, unsigned n, struct scene_figures *figures)
{
	char label[64];

	snprintf(label, sizeof(label), "allocation %u fails, seed %" PRIu64, n, options->seed);
	/* Each play starts with zeroes. */
	if (options->file)
		unlink(options->file);
	alloc_wrap_begin(n);
	EXPECT_EQ(0, scene_play(options, label, figures));
	EXPECT_EQ(0, alloc_wrap_end(label));
	EXPECT_EQ(0, figures->wrong_reads);
	EXPECT_EQ(0, figures->compare_misses);
	/* Lack of memory is reported as a temporary error, without DNR. */
	EXPECT_EQ(0, figures->odd_failures);
}

static void loop(const struct scene_options *options)
{
	struct scene_figures figures;
	unsigned n = 0, effects = 0;

	do {
		play(options, ++n, &figures);
		effects += figures.setup_failures + figures.connect_failures + figures.losses +
				   figures.cmd_failures >
			   0;
	} while (alloc_wrap_has_failed() && n < 2000);
	printf("# %u allocations, %u of their failures were seen by a user\n", n - 1, effects);
	EXPECT(!alloc_wrap_has_failed());
	/* Without an injected failure nothing fails. */
	EXPECT_EQ(0, figures.setup_failures + figures.connect_failures + figures.losses +
			     figures.cmd_failures);
	EXPECT_EQ(1, figures.aborted);
	EXPECT(effects > n / 2);
}

static void any_allocation_fails(void)
{
	static const struct scene_options options = {.seed = 1, .sim = {.is_orderly = true}};

	loop(&options);
}

/* Short sends and receives: the paths that keep bytes for the next send or receive. */
static void any_allocation_fails_on_a_narrow_network(void)
{
	struct scene_options options = {.seed = 2,
					.sim = {.window_max_bytes = 9000, .recv_max_bytes = 5000}};

	loop(&options);
	options.has_digests = true;
	loop(&options);
}

/* A volatile cache, flushed when the host shuts the controller down and at the end. */
static void any_allocation_fails_with_a_file(void)
{
	char file[] = "/tmp/weft-fault-alloc-XXXXXX";
	struct scene_options options = {.seed = 3, .sim = {.is_orderly = true}, .file = file};
	int fd = mkstemp(file);

	CHECK(fd >= 0 && close(fd) == 0 && unlink(file) == 0);
	loop(&options);
	unlink(file);
}

int main(void)
{
	log_set_level(LOG_LEVEL_OFF);
	TAP_RUN(any_allocation_fails);
	TAP_RUN(any_allocation_fails_on_a_narrow_network);
	TAP_RUN(any_allocation_fails_with_a_file);
	return tap_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Nth operation of a namespace's medium fails, tears or returns a wrong bit, for N = 0, 1, …
 * until the script runs without a failure. The host gets the right status, SMART and the error log
 * count the error, the blocks hold what the rule promises, and later commands work. One thread.
 */
#include "scene.h"
#include "tap.h"

#include "base/clock.h"
#include "base/log.h"
#include "wire/status.h"

#include <stdlib.h>
#include <unistd.h>

static void play(const char *rule, unsigned n, enum scene_write_fault write_fault,
		 struct scene_figures *figures)
{
	struct scene_options options = {
		.seed = 1 + n, .sim = {.is_orderly = n % 2 == 0}, .write_fault = write_fault};
	char rules[96];

	snprintf(rules, sizeof(rules), "%s:after=%u:count=1", rule, n);
	options.rules = rules;
	EXPECT_EQ(0, scene_play(&options, rules, figures));
	/* A failing medium must not end a connection. */
	EXPECT_EQ(0, figures->setup_failures + figures->connect_failures + figures->losses);
}

static nvme_status media_status(uint8_t opcode)
{
	return opcode == NVME_IO_READ || opcode == NVME_IO_COMPARE ? NVME_SC_UNRECOVERED_READ
								   : NVME_SC_WRITE_FAULT;
}

/* One command has failed, and host, SMART and error log have each counted it once. */
static void expect_one_failure(const struct scene_figures *figures, nvme_status want)
{
	EXPECT_EQ(1, figures->cmd_failures);
	EXPECT(nvme_status_same(want, figures->last_failure));
	EXPECT_EQ(0, figures->wrong_reads);
	EXPECT_EQ(1, figures->media_errors);
	EXPECT_EQ(1, figures->logged_faults);
	EXPECT(nvme_status_same(want, figures->logged_status));
	EXPECT_EQ(2, figures->logged_nsid);
}

/* Runs in a row without a failure that end the loop. The host does not see two operations fail: the
 * zeroing that is aborted anyway, and the flush when the target shuts down. */
#define CLEAN_RUNS 3u

/* Returns the number of runs in which a command failed. */
static unsigned loop_fail(const char *rule, enum scene_write_fault write_fault)
{
	struct scene_figures figures;
	unsigned seen = 0, clean = 0;

	for (unsigned n = 0; clean < CLEAN_RUNS; n++) {
		play(rule, n, write_fault, &figures);
		EXPECT_EQ(0, figures.wrong_reads);
		if (figures.cmd_failures > 0) {
			expect_one_failure(&figures, media_status(figures.last_failure_opcode));
			seen++;
			clean = 0;
			continue;
		}
		EXPECT_EQ(0, figures.media_errors);
		EXPECT_EQ(0, figures.logged_faults);
		clean++;
	}
	return seen;
}

/* Twelve writes, two reads, a Compare, a Deallocate, and two reads at the end. */
static void any_operation_fails(void)
{
	EXPECT_EQ(18, loop_fail("fail", SCENE_FAULT_NOTHING_DONE));
}

static void any_read_fails(void)
{
	EXPECT_EQ(5, loop_fail("fail:op=read", SCENE_FAULT_NOTHING_DONE));
}

static void any_write_fails(void)
{
	EXPECT_EQ(12, loop_fail("fail:op=write", SCENE_FAULT_NOTHING_DONE));
}

static void any_write_tears(void)
{
	EXPECT_EQ(12, loop_fail("tear", SCENE_FAULT_HALF_DONE));
}

static void a_discard_fails(void)
{
	EXPECT_EQ(1, loop_fail("fail:op=discard", SCENE_FAULT_NOTHING_DONE));
}

static void a_full_medium_is_told_as_such(void)
{
	struct scene_figures figures;

	play("fail:op=write:errno=ENOSPC", 0, SCENE_FAULT_UNKNOWN, &figures);
	EXPECT_EQ(1, figures.cmd_failures);
	EXPECT(nvme_status_same(NVME_SC_CAPACITY_EXCEEDED, figures.last_failure));
	EXPECT_EQ(0, figures.wrong_reads);
	/* No data was lost. */
	EXPECT_EQ(0, figures.media_errors);
}

/* The target cannot detect a wrong bit, so it counts nothing; the reader sees the bit. */
static void any_read_returns_a_wrong_bit(void)
{
	struct scene_figures figures;
	unsigned n = 0;

	for (;; n++) {
		play("corrupt", n, SCENE_FAULT_NOTHING_DONE, &figures);
		EXPECT_EQ(0, figures.cmd_failures);
		EXPECT_EQ(0, figures.media_errors);
		if (figures.wrong_reads + figures.compare_misses == 0)
			break;
		EXPECT_EQ(1, figures.wrong_reads + figures.compare_misses);
	}
	EXPECT_EQ(5, n);
}

/* The controller ends its I/O queues first. The host must not take this for a loss. */
static void a_farewell_waits_for_the_flush(void)
{
	char file[] = "/tmp/weft-fault-media-XXXXXX";
	struct scene_options options = {.seed = 1, .rules = "delay:op=flush:ms=50", .file = file};
	struct scene_figures figures;
	int fd = mkstemp(file);

	CHECK(fd >= 0 && close(fd) == 0 && unlink(file) == 0);
	EXPECT_EQ(0, scene_play(&options, "flushes are slow", &figures));
	EXPECT_EQ(0, figures.losses + figures.cmd_failures + figures.wrong_reads);
	EXPECT(figures.farewell_ns >= 50 * NS_PER_MS);
	unlink(file);
}

int main(void)
{
	log_set_level(LOG_LEVEL_OFF);
	TAP_RUN(any_operation_fails);
	TAP_RUN(any_read_fails);
	TAP_RUN(any_write_fails);
	TAP_RUN(any_write_tears);
	TAP_RUN(a_discard_fails);
	TAP_RUN(a_full_medium_is_told_as_such);
	TAP_RUN(any_read_returns_a_wrong_bit);
	TAP_RUN(a_farewell_waits_for_the_flush);
	return tap_end();
}

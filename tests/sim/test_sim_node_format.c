/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Format NVM with a medium that hangs during the erase, on the simulated clock. The piece is
 * cancelled after 60 s, the host is answered after 70 s at the latest, and the namespace refuses
 * I/O until the medium ends the erase: a late erase must not hit data written since. docs/adr/0028.
 */
#include "../unit/tap.h"
#include "node_world.h"

#include "base/clock.h"
#include "wire/status.h"

#define FORMAT_ERASE (1u << 9 | 1) /* SES 1, LBA format 1: 4096 bytes */
#define CANCEL_MS    60000
#define GIVE_UP_MS   70000
#define SLACK_MS     1000

static struct nworld world;
static const char *fault; /* fault rule of the medium */

static int edit_medium(json_t *document, void *arg, struct config_errors *errors)
{
	json_t *ns =
		json_pack("{s:i, s:o}", "nsid", 1, "media",
			  json_sprintf("fault:%s@mem:%u,block=%u", fault,
				       NWORLD_BLOCKS * NWORLD_BLOCK_BYTES, NWORLD_BLOCK_BYTES));
	json_t *subsystem = nworld_subsystem(document);

	json_object_set_new(subsystem, "rights", json_pack("{s:[s]}", "any", "format"));
	return json_array_set_new(json_object_get(subsystem, "namespaces"), 0, ns);
}

static void open_with(uint64_t seed, const char *rule)
{
	struct nchange change;

	fault = rule;
	nworld_create(&world, seed, 1, NULL);
	/* The host's time-out is longer than the target works on a Format. */
	world.config.timeouts.command_ms = 10 * GIVE_UP_MS;
	EXPECT(nworld_start(&world, 0));
	EXPECT(nworld_change_wait(&world, 0, &change, edit_medium));
	EXPECT_EQ(0, change.res);
	EXPECT(nworld_connect(&world, 1));
}

static uint64_t now_ms(void)
{
	return sim_now(world.sim) / NS_PER_MS;
}

static void format_begin(struct nop *format)
{
	static const struct nvme_sqe sqe = {.opcode = NVME_ADMIN_FORMAT_NVM};
	struct nvme_sqe erase = sqe;

	erase.nsid = le32_of(1);
	erase.cdw10 = le32_of(FORMAT_ERASE);
	nop_admin(&world, format, &erase);
}

/* The status of one read, without the host's retries. */
static nvme_status read_status(void)
{
	static struct nop nop;

	nop_read(&world, &nop, 1);
	CHECK(nop_wait(&nop, 5000) || nop.is_done);
	return nop.io.status;
}

/* The Format begun at began_ms must end with a Write Fault after after_ms. */
static void expect_fault_at(struct nop *format, uint64_t began_ms, uint64_t after_ms)
{
	(void)nop_wait(format, 2 * GIVE_UP_MS);
	EXPECT(format->is_done);
	EXPECT(nvme_status_same(format->io.status, NVME_SC_WRITE_FAULT));
	EXPECT(now_ms() >= began_ms + after_ms);
	EXPECT(now_ms() < began_ms + after_ms + SLACK_MS);
}

static void expect_io(void)
{
	static struct nop nop;

	nop_write(&world, &nop, 1, 7);
	EXPECT(nop_wait(&nop, 5000));
	EXPECT_EQ(7, nworld_read(&world, 1));
}

static void a_medium_that_can_be_cancelled_is_given_back_after_a_minute(void)
{
	static struct nop format;
	uint64_t began_ms;

	open_with(1, "delay:op=zero:ms=300000:count=1");
	expect_io();
	began_ms = now_ms();
	format_begin(&format);
	nworld_run_ms(&world, 1000);
	EXPECT(nvme_status_same(read_status(), NVME_SC_FORMAT_IN_PROGRESS));
	expect_fault_at(&format, began_ms, CANCEL_MS);
	expect_io();
	EXPECT_EQ(0, nworld_destroy(&world));
}

static void one_that_ends_late_is_a_failure_all_the_same(void)
{
	static struct nop format;
	uint64_t began_ms;

	open_with(2, "stuck:op=zero:ms=65000:count=1");
	began_ms = now_ms();
	format_begin(&format);
	expect_fault_at(&format, began_ms, 65000);
	expect_io();
	EXPECT_EQ(0, nworld_destroy(&world));
}

static void one_that_hangs_is_answered_and_keeps_the_namespace_closed(void)
{
	static struct nop format;
	uint64_t began_ms;

	open_with(3, "stuck:op=zero:ms=200000:count=1");
	expect_io();
	began_ms = now_ms();
	format_begin(&format);
	expect_fault_at(&format, began_ms, GIVE_UP_MS);
	EXPECT(nvme_status_same(read_status(), NVME_SC_FORMAT_IN_PROGRESS));
	/* A second Format is refused while the first is in progress. */
	format_begin(&format);
	(void)nop_wait(&format, 5000);
	EXPECT(format.is_done && nvme_status_same(format.io.status, NVME_SC_FORMAT_IN_PROGRESS));
	nworld_run_ms(&world, began_ms + 199000 - now_ms());
	EXPECT(nvme_status_same(read_status(), NVME_SC_FORMAT_IN_PROGRESS));
	nworld_run_ms(&world, began_ms + 201000 - now_ms());
	expect_io();
	/* The next Format has a working medium. */
	format_begin(&format);
	EXPECT(nop_wait(&format, 5000));
	EXPECT_EQ(0, nworld_read(&world, 1));
	EXPECT_EQ(0, nworld_destroy(&world));
}

static void a_target_that_ends_meanwhile_ends(void)
{
	static struct nop format;

	open_with(4, "stuck:op=zero:ms=20000:count=1");
	format_begin(&format);
	nworld_run_ms(&world, 1000);
	EXPECT_EQ(0, nworld_destroy(&world));
}

int main(void)
{
	TAP_RUN(a_medium_that_can_be_cancelled_is_given_back_after_a_minute);
	TAP_RUN(one_that_ends_late_is_a_failure_all_the_same);
	TAP_RUN(one_that_hangs_is_answered_and_keeps_the_namespace_closed);
	TAP_RUN(a_target_that_ends_meanwhile_ends);
	return tap_end();
}

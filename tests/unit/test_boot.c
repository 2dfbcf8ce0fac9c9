/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boot that a target reports: unchanged after a kill and after an orderly restart of the
 * machine, new when unflushed writes may be lost.
 */
#include "tap.h"

#include "base/boot_id.h"
#include "daemon/boot.h"

static const struct uuid kernels[] = {{{1}}, {{2}}, {{3}}};

static bool is_same(const struct boot_record *a, const struct boot_record *b)
{
	return memcmp(a->boot, b->boot, sizeof(a->boot)) == 0;
}

static void a_kill_keeps_the_boot(void)
{
	struct boot_record first, again, moved;

	boot_decide(NULL, &kernels[0], false, &first);
	boot_decide(&first, &kernels[0], false, &again);
	EXPECT(is_same(&first, &again) && !again.is_flushed);
	/* Also without a state store. */
	boot_decide(NULL, &kernels[0], false, &again);
	EXPECT(is_same(&first, &again));
	boot_decide(&first, &kernels[1], false, &moved);
	EXPECT(!is_same(&first, &moved));
}

static void an_orderly_end_keeps_the_boot_over_a_restart_of_the_machine(void)
{
	struct boot_record first, second, third, fourth;

	boot_decide(NULL, &kernels[0], false, &first);
	first.is_flushed = true;
	boot_decide(&first, &kernels[1], false, &second);
	EXPECT(is_same(&first, &second) && !second.is_flushed);
	/* Killed, and started again under the same kernel. */
	boot_decide(&second, &kernels[1], false, &third);
	EXPECT(is_same(&first, &third) && !third.is_flushed);
	boot_decide(&third, &kernels[2], false, &fourth);
	EXPECT(!is_same(&first, &fourth));
	/* The first kernel's ID is not reported for a later boot. */
	boot_decide(&fourth, &kernels[0], false, &second);
	EXPECT(!is_same(&fourth, &second));
}

static void the_boot_id_of_the_machine_is_not_disclosed(void)
{
	static const uint8_t none[IDENTIFY_BOOT_BYTES];
	struct boot_record record;
	struct uuid kernel;

	boot_decide(NULL, &kernels[0], false, &record);
	EXPECT(memcmp(record.boot, kernels[0].bytes, sizeof(record.boot)) != 0);
	EXPECT(memcmp(record.boot, none, sizeof(none)) != 0);
	boot_id_read(&kernel);
	EXPECT(!uuid_is_nil(&kernel));
}

static void without_a_boot_id_hosts_are_told_nothing(void)
{
	static const uint8_t none[IDENTIFY_BOOT_BYTES];
	static const struct uuid nil;
	struct boot_record first, record, next;

	boot_decide(NULL, &kernels[0], false, &first);
	first.is_flushed = true;
	boot_decide(&first, &nil, false, &record);
	EXPECT(memcmp(record.boot, none, sizeof(none)) == 0);
	EXPECT(!record.is_flushed);
	/* The next boot is derived from its kernel. */
	record.is_flushed = true;
	boot_decide(&record, &kernels[0], false, &next);
	EXPECT(memcmp(next.boot, none, sizeof(none)) != 0);
}

/* Another member may write through the same page cache after this member has ended. */
static void a_member_of_a_cluster_has_the_boot_of_its_kernel(void)
{
	struct boot_record alone, carried, member, again, next;

	boot_decide(NULL, &kernels[0], false, &alone);
	alone.is_flushed = true;
	boot_decide(&alone, &kernels[1], false, &carried);
	boot_decide(NULL, &kernels[1], true, &member);
	/* All members under one kernel report one boot. */
	boot_decide(&carried, &kernels[1], true, &again);
	EXPECT(is_same(&member, &again) && !is_same(&carried, &again));
	member.is_flushed = true;
	boot_decide(&member, &kernels[1], true, &again);
	EXPECT(is_same(&member, &again));
	boot_decide(&member, &kernels[2], true, &next);
	EXPECT(!is_same(&member, &next));
}

/* Also when a state folder was copied for another member. */
static void each_member_is_a_source_of_its_own(void)
{
	uint64_t alone = boot_loss_source(&kernels[0], NULL);
	uint64_t b = boot_loss_source(&kernels[0], "b");
	uint64_t z = boot_loss_source(&kernels[0], "z");

	EXPECT(alone != 0 && b != 0 && z != 0);
	EXPECT(alone != b && alone != z && b != z);
	EXPECT_EQ(b, boot_loss_source(&kernels[0], "b"));
	EXPECT(b != boot_loss_source(&kernels[1], "b"));
}

int main(void)
{
	TAP_RUN(each_member_is_a_source_of_its_own);
	TAP_RUN(a_kill_keeps_the_boot);
	TAP_RUN(an_orderly_end_keeps_the_boot_over_a_restart_of_the_machine);
	TAP_RUN(a_member_of_a_cluster_has_the_boot_of_its_kernel);
	TAP_RUN(the_boot_id_of_the_machine_is_not_disclosed);
	TAP_RUN(without_a_boot_id_hosts_are_told_nothing);
	return tap_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which controllers are one subsystem, and which namespace an NSID means: equal CNTLIDs, different
 * serial numbers, identifiers that change, are missing, or are reported by one side only.
 */
#include "tap.h"

#include "base/text.h"
#include "host/host_transport.h"
#include "host/join.h"

#include <errno.h>

static struct join *join;
static struct join_ctrl ctrls[4]; /* 0 and 3: paths of two reactors to one address */
static char why[JOIN_WHY_BYTES];

static void setup(void)
{
	static const char *const addrs[] = {"10.0.0.1:4420", "10.0.0.2:4420", "[fd00::3]:4420",
					    "10.0.0.1:4420"};

	join = join_create();
	for (unsigned i = 0; i < 4; i++) {
		struct host_addr addr = {.transport = NULL};

		EXPECT_EQ(0, net_addr_parse(addrs[i], 0, &addr.net));
		EXPECT_EQ(0, join_ctrl_add(join, &ctrls[i], &addr));
	}
}

static void teardown(void)
{
	for (unsigned i = 0; i < 4; i++)
		join_ctrl_remove(join, &ctrls[i]);
	join_put(join);
}

static int enter(unsigned index, const char *serial, uint16_t cntlid)
{
	struct ctrl_identity identity = {.model = "m", .cntlid = cntlid};

	text_copy(identity.serial, sizeof(identity.serial), serial);
	why[0] = '\0';
	return join_ctrl_enter(join, &ctrls[index], &identity, why);
}

static int enter_instance(unsigned index, uint16_t cntlid, uint8_t instance, bool is_clustered)
{
	struct ctrl_identity identity = {
		.serial = "A", .cntlid = cntlid, .is_clustered = is_clustered};

	identity.instance[15] = instance;
	why[0] = '\0';
	return join_ctrl_enter(join, &ctrls[index], &identity, why);
}

static struct ns_identity named(uint8_t uuid, uint8_t nguid, uint8_t eui64)
{
	struct ns_identity identity = {.block_bytes = 512, .block_count = 100};

	identity.uuid.bytes[15] = uuid;
	identity.nguid[3] = nguid;
	identity.eui64[7] = eui64;
	return identity;
}

/* Returns the namespace that NSID 1 means at this address; NULL when refused. */
static struct join_ns *see_event(unsigned index, struct ns_identity identity, bool is_event)
{
	struct join_sight sight = {.nsid = 1, .identity = &identity, .is_event = is_event};
	struct join_ns *ns = NULL;

	why[0] = '\0';
	if (join_ns_see(join, &ctrls[index], &sight, &ns, why) != 0)
		return NULL;
	return ns;
}

static struct join_ns *see(unsigned index, struct ns_identity identity)
{
	return see_event(index, identity, false);
}

static void equal_cntlids_are_two_subsystems(void)
{
	setup();
	EXPECT_EQ(0, enter(0, "A", 1));
	EXPECT_EQ(-EUCLEAN, enter(1, "A", 1));
	EXPECT(strstr(why, "10.0.0.1:4420") != NULL && strstr(why, "10.0.0.2:4420") != NULL);
	/* Another CNTLID at the next attempt proves nothing. */
	EXPECT_EQ(-EUCLEAN, enter(1, "A", 2));
	EXPECT(join_ctrl_is_barred(join, &ctrls[1]) && !join_ctrl_is_barred(join, &ctrls[2]));
	/* The other controller has ended, so the target may have reassigned its CNTLID before. */
	join_ctrl_leave(join, &ctrls[0]);
	EXPECT_EQ(0, enter(1, "A", 3));
	EXPECT_EQ(0, enter(2, "A", 1));
	teardown();
}

static void a_cntlid_of_the_same_address_is_waited_for(void)
{
	setup();
	EXPECT_EQ(0, enter(0, "A", 1));
	EXPECT_EQ(-EBUSY, enter(3, "A", 1));
	join_ctrl_leave(join, &ctrls[0]);
	EXPECT_EQ(0, enter(3, "A", 1));
	teardown();
}

static void another_serial_number_is_another_subsystem(void)
{
	setup();
	EXPECT_EQ(0, enter(0, "A", 1));
	EXPECT_EQ(-EUCLEAN, enter(1, "B", 2));
	EXPECT(strstr(why, "10.0.0.1:4420") != NULL && strstr(why, "10.0.0.2:4420") != NULL);
	EXPECT(strstr(why, "\"A\"") != NULL && strstr(why, "\"B\"") != NULL);
	/* The first controller's serial number counts while its path is away. */
	join_ctrl_leave(join, &ctrls[0]);
	EXPECT_EQ(-EUCLEAN, enter(1, "B", 2));
	EXPECT_EQ(0, enter(0, "A", 3));
	teardown();
}

/* Both addresses lead to a replaced target: neither may block the other for good. */
static void a_replaced_target_is_taken_once_nobody_speaks_against_it(void)
{
	setup();
	EXPECT_EQ(0, enter(0, "A", 1));
	EXPECT_EQ(0, enter(1, "A", 2));
	EXPECT_EQ(0, enter(3, "A", 3));
	for (unsigned i = 0; i < 4; i++)
		join_ctrl_leave(join, &ctrls[i]);
	EXPECT_EQ(-EUCLEAN, enter(0, "B", 1));
	EXPECT_EQ(-EUCLEAN, enter(3, "B", 2));
	EXPECT_EQ(0, enter(1, "B", 3));
	EXPECT_EQ(0, enter(0, "B", 4));
	EXPECT_EQ(0, enter(3, "B", 5));
	teardown();
}

/* A copy of the target: all identifiers are equal except CNTLID and instance. */
static void two_instances_are_two_subsystems(void)
{
	setup();
	EXPECT_EQ(0, enter_instance(0, 1, 1, false));
	EXPECT_EQ(0, enter_instance(2, 2, 1, false));
	EXPECT_EQ(-EUCLEAN, enter_instance(1, 3, 2, false));
	EXPECT(strstr(why, "10.0.0.1:4420") != NULL && strstr(why, "10.0.0.2:4420") != NULL);
	EXPECT(join_ctrl_is_barred(join, &ctrls[1]));
	/* Behind a load balancer the address of ctrls[0] may lead to either instance. */
	EXPECT_EQ(-EUCLEAN, enter_instance(3, 4, 2, false));
	/* A restarted target may give any CNTLID, so an equal one is no evidence. */
	EXPECT_EQ(-EUCLEAN, enter_instance(1, 1, 2, false));
	EXPECT(strstr(why, "another target process") != NULL);
	/* After a restart of the target all former controllers end first. */
	join_ctrl_leave(join, &ctrls[0]);
	EXPECT(join_ctrl_is_barred(join, &ctrls[1]));
	EXPECT_EQ(-EUCLEAN, enter_instance(0, 5, 2, false));
	join_ctrl_leave(join, &ctrls[2]);
	EXPECT(!join_ctrl_is_barred(join, &ctrls[1]));
	EXPECT_EQ(0, enter_instance(1, 6, 2, false));
	EXPECT_EQ(0, enter_instance(0, 7, 2, false));
	EXPECT_EQ(-EUCLEAN, enter_instance(2, 8, 1, false));
	teardown();
}

static void members_of_a_cluster_and_other_makes_have_any_instance(void)
{
	setup();
	EXPECT_EQ(0, enter_instance(0, 1, 1, true));
	EXPECT_EQ(0, enter_instance(1, 2, 2, true));
	/* This Identify Controller is older than the first clustered namespace. */
	EXPECT_EQ(0, enter_instance(2, 3, 3, false));
	for (unsigned i = 0; i < 3; i++)
		join_ctrl_leave(join, &ctrls[i]);
	EXPECT_EQ(0, enter_instance(0, 4, 1, false));
	EXPECT_EQ(0, enter_instance(1, 5, 0, false));
	EXPECT_EQ(0, enter_instance(2, 6, 0, false));
	EXPECT(!join_ctrl_is_barred(join, &ctrls[1]));
	teardown();
}

static void an_nsid_of_another_uuid_replaces_everywhere(void)
{
	struct join_ns *first, *second;

	setup();
	first = see(0, named(1, 0, 0));
	EXPECT(first != NULL && first == see(1, named(1, 0, 0)));
	EXPECT(see(0, named(2, 0, 0)) == NULL);
	EXPECT(strstr(why, "10.0.0.1:4420") != NULL && strstr(why, "10.0.0.2:4420") != NULL);
	EXPECT(!join_ns_is_replaced(first));
	second = see(1, named(2, 0, 0));
	EXPECT(second != NULL && second != first && join_ns_is_replaced(first));
	EXPECT(second == see(0, named(2, 0, 0)) && second == see(3, named(2, 0, 0)));
	/* The replacement is permanent. */
	EXPECT(see(0, named(1, 0, 0)) == NULL);
	EXPECT(see(1, named(1, 0, 0)) != first && join_ns_is_replaced(first));
	EXPECT(join_ns_is_replaced(second));
	teardown();
}

static void two_reactors_are_one_word_of_an_address(void)
{
	struct join_ns *first;

	setup();
	first = see(0, named(1, 0, 0));
	EXPECT(first == see(3, named(1, 0, 0)));
	EXPECT(see(3, named(2, 0, 0)) != NULL && join_ns_is_replaced(first));
	teardown();
}

static void a_namespace_that_returns_is_itself(void)
{
	struct join_ns *first;

	setup();
	first = see(0, named(1, 0, 0));
	join_ns_unsee(join, &ctrls[0], first);
	join_ns_gone(join, first);
	EXPECT(!join_ns_is_replaced(first));
	EXPECT(see(1, named(1, 0, 0)) == first);
	teardown();
}

static void every_identifier_that_both_report_counts(void)
{
	struct join_ns *first;

	setup();
	first = see(0, named(1, 1, 0));
	EXPECT(see(1, named(0, 1, 0)) == first);
	EXPECT(see(1, named(1, 0, 7)) == first);
	EXPECT(see(1, named(1, 2, 0)) == NULL);
	EXPECT(see(1, named(0, 0, 8)) == NULL);
	EXPECT(see(1, named(0, 0, 7)) == first);
	EXPECT(see(1, named(0, 0, 0)) == NULL);
	/* An identifier that is no longer reported is remembered. */
	EXPECT(see(0, named(0, 1, 0)) == first);
	EXPECT(see(1, named(2, 1, 0)) == NULL);
	teardown();
}

static void eui64_alone_is_an_identity(void)
{
	struct join_ns *first;

	setup();
	first = see(0, named(0, 0, 1));
	EXPECT(see_event(0, named(0, 0, 1), true) == first);
	EXPECT(see(0, named(0, 0, 2)) != first && join_ns_is_replaced(first));
	teardown();
}

/* Without identifiers only continuity shows that a namespace is the same. */
static void without_identifiers_any_sign_of_a_change_replaces(void)
{
	struct ns_identity grown = named(0, 0, 0);
	struct join_ns *ns, *next;

	grown.block_count++;
	setup();
	EXPECT_EQ(0, enter(0, "A", 1));
	ns = see(0, named(0, 0, 0));
	EXPECT(see(0, named(0, 0, 0)) == ns && see(1, named(0, 0, 0)) == ns);
	next = see_event(0, named(0, 0, 0), true);
	EXPECT(next != ns && next != NULL && join_ns_is_replaced(ns));
	ns = see(0, grown);
	EXPECT(ns != next && join_ns_is_replaced(next));
	join_ns_unsee(join, &ctrls[0], ns);
	join_ns_gone(join, ns);
	EXPECT(join_ns_is_replaced(ns));
	next = see(0, grown);
	EXPECT(next != NULL && !join_ns_is_replaced(next));
	/* Another target has the address. */
	join_ctrl_leave(join, &ctrls[0]);
	EXPECT_EQ(0, enter(0, "B", 1));
	ns = see(0, grown);
	EXPECT(ns != next && ns != NULL && join_ns_is_replaced(next));
	EXPECT(see(0, grown) == ns && !join_ns_is_replaced(ns));
	teardown();
}

static void a_removed_address_speaks_no_more(void)
{
	struct host_addr addr = {.transport = NULL};
	struct join_ns *first;

	setup();
	first = see(1, named(1, 0, 0));
	join_ctrl_remove(join, &ctrls[1]);
	EXPECT(see(0, named(2, 0, 0)) != NULL && join_ns_is_replaced(first));
	EXPECT_EQ(0, net_addr_parse("10.0.0.9:1", 0, &addr.net));
	EXPECT_EQ(0, join_ctrl_add(join, &ctrls[1], &addr));
	teardown();
}

/* One IP address and port number over two transports is two addresses: each has its own word and
 * its own controllers. */
static void transports_have_addresses_of_their_own(void)
{
	static const struct host_transport verbs = {.name = "rdma", .trtype = DISCOVERY_RDMA};
	struct host_addr addr = {.transport = NULL};
	struct ctrl_identity identity = {.serial = "S1", .cntlid = 3};
	struct join_ctrl tcp, again, rdma;

	join = join_create();
	EXPECT_EQ(0, net_addr_parse("10.0.0.1:4420", 0, &addr.net));
	EXPECT_EQ(0, join_ctrl_add(join, &tcp, &addr));
	EXPECT_EQ(0, join_ctrl_add(join, &again, &addr));
	addr.transport = &verbs;
	EXPECT_EQ(0, join_ctrl_add(join, &rdma, &addr));
	EXPECT(tcp.addr_index == again.addr_index && tcp.addr_index != rdma.addr_index);
	EXPECT_EQ(0, join_ctrl_enter(join, &tcp, &identity, why));
	EXPECT_EQ(-EBUSY, join_ctrl_enter(join, &again, &identity, why));
	EXPECT(strstr(why, "another connection to 10.0.0.1:4420") != NULL);
	EXPECT_EQ(-EUCLEAN, join_ctrl_enter(join, &rdma, &identity, why));
	EXPECT(strstr(why,
		      "10.0.0.1:4420 and rdma 10.0.0.1:4420 both have a controller with ID 3"));
	join_ctrl_leave(join, &tcp);
	identity.cntlid = 4;
	EXPECT_EQ(0, join_ctrl_enter(join, &rdma, &identity, why));
	join_ctrl_remove(join, &tcp);
	join_ctrl_remove(join, &again);
	join_ctrl_remove(join, &rdma);
	join_put(join);
}

int main(void)
{
	TAP_RUN(equal_cntlids_are_two_subsystems);
	TAP_RUN(a_cntlid_of_the_same_address_is_waited_for);
	TAP_RUN(another_serial_number_is_another_subsystem);
	TAP_RUN(a_replaced_target_is_taken_once_nobody_speaks_against_it);
	TAP_RUN(two_instances_are_two_subsystems);
	TAP_RUN(members_of_a_cluster_and_other_makes_have_any_instance);
	TAP_RUN(an_nsid_of_another_uuid_replaces_everywhere);
	TAP_RUN(two_reactors_are_one_word_of_an_address);
	TAP_RUN(a_namespace_that_returns_is_itself);
	TAP_RUN(every_identifier_that_both_report_counts);
	TAP_RUN(eui64_alone_is_an_identity);
	TAP_RUN(without_identifiers_any_sign_of_a_change_replaces);
	TAP_RUN(a_removed_address_speaks_no_more);
	TAP_RUN(transports_have_addresses_of_their_own);
	return tap_end();
}

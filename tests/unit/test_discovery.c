/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The discovery log over hand-built snapshots: the entries that a host sees, the addresses in them,
 * and that reading in pieces at any offset gives the same bytes as reading at once.
 */
#include "discovery/discovery.h"

#include "base/text.h"
#include "tap.h"

#define HOST_A "nqn.2014-08.org.example:host-a"
#define HOST_B "nqn.2014-08.org.example:host-b"

static char hosts_of_private[1][NVME_NQN_BYTES] = {HOST_A};
static struct subsystem open_subsystem = {
	.nqn = "nqn.2026-11.io.weft:open", .allows_any_host = true, .ana_group_max = 1};
static struct subsystem private_subsystem = {.nqn = "nqn.2026-11.io.weft:private",
					     .host_nqns = hosts_of_private,
					     .host_count = 1,
					     .ana_group_max = 1};
static struct subsystem *all[] = {&open_subsystem, &private_subsystem};
static const struct subsystem *both[] = {&open_subsystem, &private_subsystem};
static struct port ports[3];
static struct snapshot snapshot;

static struct net_addr address(const char *text)
{
	struct net_addr addr = {0};

	EXPECT_EQ(0, net_addr_parse(text, 4420, &addr));
	return addr;
}

/* Port 1 at `listen` with both subsystems, port 2 fixed with one, 8009 for discovery. */
static void build(const char *listen)
{
	memset(ports, 0, sizeof(ports));
	memset(&snapshot, 0, sizeof(snapshot));
	ports[0] = (struct port){
		.id = 1, .listen = address(listen), .subsystems = both, .subsystem_count = 2};
	ports[1] = (struct port){.id = 2,
				 .listen = address("192.0.2.7:4421"),
				 .subsystems = both,
				 .subsystem_count = 1};
	ports[2] = (struct port){
		.id = 8009, .listen = address("0.0.0.0:8009"), .is_discovery_only = true};
	snapshot.discovery_generation = 42;
	snapshot.subsystems = all;
	snapshot.subsystem_count = 2;
	snapshot.ports = ports;
	snapshot.port_count = 3;
	snapshot.limits.queue_size_max = 128;
}

static uint8_t page[16 * 1024];

static struct discovery_header read_log(unsigned port, const char *host, const char *local_text)
{
	struct net_addr local = address(local_text);
	struct discovery_header header;
	uint64_t size;

	size = discovery_log_read(&(struct discovery_asker){&snapshot, &ports[port], host, &local},
				  0, page, sizeof(page));
	log_discovery_header_decode(page, &header);
	EXPECT_EQ(1024 * (header.entry_count + 1), size);
	return header;
}

static struct discovery_entry entry(unsigned index)
{
	struct discovery_entry found;

	log_discovery_entry_decode(page + 1024 * (index + 1), &found);
	return found;
}

static void lists_what_the_host_may_use(void)
{
	struct discovery_header header;
	struct discovery_entry e;

	build("127.0.0.1:4420");
	header = read_log(0, HOST_A, "127.0.0.1:4420");
	EXPECT_EQ(42, header.generation);
	EXPECT_EQ(0, header.record_format);
	EXPECT_EQ(4, header.entry_count);
	e = entry(0);
	EXPECT_EQ(DISCOVERY_CURRENT, e.subtype);
	EXPECT_EQ(DISCOVERY_FLAG_EPCSD, e.flags);
	EXPECT_EQ(1, e.port_id);
	EXPECT_STR(NVME_DISCOVERY_NQN, e.subsystem_nqn);
	e = entry(1);
	EXPECT_EQ(DISCOVERY_TCP, e.transport);
	EXPECT_EQ(DISCOVERY_IPV4, e.family);
	EXPECT_EQ(DISCOVERY_NVM, e.subtype);
	EXPECT_EQ(0, e.secure_channel);
	EXPECT_EQ(true, e.can_disable_sq_flow_control);
	EXPECT_EQ(1, e.port_id);
	EXPECT_EQ(0xffff, e.cntlid);
	EXPECT_EQ(32, e.admin_queue_size);
	EXPECT_EQ(0, e.flags);
	EXPECT_STR("127.0.0.1", e.address);
	EXPECT_STR("4420", e.service);
	EXPECT_STR("nqn.2026-11.io.weft:open", e.subsystem_nqn);
	EXPECT_STR("nqn.2026-11.io.weft:private", entry(2).subsystem_nqn);
	e = entry(3);
	EXPECT_EQ(2, e.port_id);
	EXPECT_STR("192.0.2.7", e.address);
	EXPECT_STR("4421", e.service);
}

static void hides_what_the_host_may_not_use(void)
{
	build("127.0.0.1:4420");
	EXPECT_EQ(3, read_log(0, HOST_B, "127.0.0.1:4420").entry_count);
	EXPECT_STR("nqn.2026-11.io.weft:open", entry(1).subsystem_nqn);
	EXPECT_EQ(2, entry(2).port_id);
}

static void answers_on_the_discovery_port(void)
{
	struct discovery_entry e;

	build("127.0.0.1:4420");
	EXPECT_EQ(4, read_log(2, HOST_A, "10.0.0.5:8009").entry_count);
	e = entry(0);
	EXPECT_EQ(8009, e.port_id);
	EXPECT_STR("10.0.0.5", e.address);
	EXPECT_STR("8009", e.service);
	EXPECT_EQ(1, entry(1).port_id);
}

static void tells_the_address_that_was_reached(void)
{
	struct discovery_entry e;

	build("0.0.0.0:4420");
	read_log(0, HOST_B, "10.0.2.2:4420");
	EXPECT_STR("10.0.2.2", entry(1).address);
	build("[::]:4420");
	read_log(0, HOST_B, "[2001:db8::1]:4420");
	e = entry(1);
	EXPECT_STR("2001:db8::1", e.address);
	EXPECT_EQ(DISCOVERY_IPV6, e.family);
	/* IPv4 through a dual-stack listener is reported as IPv4. */
	read_log(0, HOST_B, "[::ffff:10.1.2.3]:4420");
	e = entry(1);
	EXPECT_STR("10.1.2.3", e.address);
	EXPECT_EQ(DISCOVERY_IPV4, e.family);
	/* The target's interface number is useless to the host. */
	read_log(0, HOST_B, "[fe80::1%7]:4420");
	EXPECT_STR("fe80::1", entry(1).address);
}

static void advertises_what_was_configured(void)
{
	struct discovery_entry e;

	build("127.0.0.1:4420");
	text_copy(ports[0].advertise_address, sizeof(ports[0].advertise_address), "10.0.2.2");
	read_log(0, HOST_B, "127.0.0.1:4420");
	EXPECT_STR("10.0.2.2", entry(1).address);
	text_copy(ports[0].advertise_address, sizeof(ports[0].advertise_address), "2001:db8::9");
	read_log(0, HOST_B, "127.0.0.1:4420");
	e = entry(1);
	EXPECT_STR("2001:db8::9", e.address);
	EXPECT_EQ(DISCOVERY_IPV6, e.family);
}

static void leaves_out_what_it_cannot_name(void)
{
	build("0.0.0.0:4420");
	/* An IPv6 host gets no address of a listener that accepts only IPv4. */
	ports[1].listen = address("[::]:4421");
	EXPECT_EQ(3, read_log(2, HOST_B, "10.0.0.5:8009").entry_count);
	EXPECT_EQ(2, read_log(1, HOST_B, "[2001:db8::1]:4421").entry_count);
	EXPECT_EQ(2, entry(0).port_id);
	EXPECT_EQ(2, entry(1).port_id);
	/* The number of a port "0" is known only from the connection. */
	build("127.0.0.1:0");
	read_log(0, HOST_B, "127.0.0.1:39999");
	EXPECT_STR("39999", entry(1).service);
	EXPECT_EQ(2, read_log(2, HOST_B, "10.0.0.5:8009").entry_count);
}

static void small_queues_bound_the_admin_queue(void)
{
	build("127.0.0.1:4420");
	snapshot.limits.queue_size_max = 16;
	read_log(0, HOST_B, "127.0.0.1:4420");
	EXPECT_EQ(16, entry(1).admin_queue_size);
}

static void reads_alike_in_pieces(void)
{
	static uint8_t pieces[sizeof(page)];
	struct net_addr local = address("127.0.0.1:4420");
	static const uint32_t steps[] = {4, 1000, 1024, 1028, 4096};
	uint64_t size;

	build("127.0.0.1:4420");
	read_log(0, HOST_A, "127.0.0.1:4420");
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		uint64_t at = 0;

		memset(pieces, 0xee, sizeof(pieces));
		do {
			size = discovery_log_read(
				&(struct discovery_asker){&snapshot, &ports[0], HOST_A, &local}, at,
				pieces + at, steps[i]);
			at += steps[i];
		} while (at < size);
		EXPECT_EQ(5 * 1024, size);
		EXPECT(memcmp(page, pieces, size) == 0);
	}
}

static void survives_odd_offsets(void)
{
	struct net_addr local = address("127.0.0.1:4420");
	uint8_t small[8];
	static const uint64_t offsets[] = {5 * 1024, 1 << 20, UINT64_MAX - 4, UINT64_MAX};

	build("127.0.0.1:4420");
	for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		memset(small, 0xee, sizeof(small));
		EXPECT_EQ(5 * 1024,
			  discovery_log_read(
				  &(struct discovery_asker){&snapshot, &ports[0], HOST_A, &local},
				  offsets[i], small, sizeof(small)));
		EXPECT_EQ(0, small[0] | small[7]);
	}
	EXPECT_EQ(5 * 1024, discovery_log_read(
				    &(struct discovery_asker){&snapshot, &ports[0], HOST_A, &local},
				    0, NULL, 0));
}

int main(void)
{
	TAP_RUN(lists_what_the_host_may_use);
	TAP_RUN(hides_what_the_host_may_not_use);
	TAP_RUN(answers_on_the_discovery_port);
	TAP_RUN(tells_the_address_that_was_reached);
	TAP_RUN(advertises_what_was_configured);
	TAP_RUN(leaves_out_what_it_cannot_name);
	TAP_RUN(small_queues_bound_the_admin_queue);
	TAP_RUN(reads_alike_in_pieces);
	TAP_RUN(survives_odd_offsets);
	return tap_end();
}

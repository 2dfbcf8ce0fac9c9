/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lies of a link of the torture test: forged segments are those that the receiver expects next,
 * with correct checksums; a corrupted byte keeps the checksum correct and never hits the start of a
 * stream. One thread.
 */
#include "../torture/relay_flow.h"
#include "tap.h"

#include <string.h>

#define HEADERS 40
#define FIN     0x01
#define SYN     0x02
#define RST     0x04
#define ACK     0x10

static struct flow_table table;
static uint8_t packet[256];
static uint8_t forged[FLOW_SEGMENT_BYTES];

static void put(uint8_t *at, uint32_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

static uint32_t get(const uint8_t *at, unsigned bytes)
{
	uint32_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

/* Ones' complement sum of these bytes: 0xffff when their checksum is correct. */
static uint32_t sum(const uint8_t *bytes, size_t len_bytes, uint32_t start)
{
	for (size_t i = 0; i < len_bytes; i++)
		start += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
	while (start >> 16 != 0)
		start = (start & 0xffff) + (start >> 16);
	return start;
}

static bool is_sound(const uint8_t *bytes)
{
	size_t tcp_bytes = get(bytes + 2, 2) - 20;

	return sum(bytes, 20, 0) == 0xffff &&
	       sum(bytes + 20, tcp_bytes, sum(bytes + 12, 8, 6 + (uint32_t)tcp_bytes)) == 0xffff;
}

/* A segment of the flow 10.0.0.1:1000 (side 0), 10.0.0.2:4420 (side 1), with checksums. */
static size_t segment(int from, uint8_t flags, uint32_t seq, uint32_t ack, size_t payload_bytes)
{
	size_t len_bytes = HEADERS + payload_bytes;

	memset(packet, 0, sizeof(packet));
	packet[0] = 0x45;
	put(packet + 2, (uint32_t)len_bytes, 2);
	packet[9] = 6;
	put(packet + 12, 0x0a000001u + (uint32_t)from, 4);
	put(packet + 16, 0x0a000002u - (uint32_t)from, 4);
	put(packet + 10, 0xffff - sum(packet, 20, 0), 2);
	put(packet + 20, from == 0 ? 1000 : 4420, 2);
	put(packet + 22, from == 0 ? 4420 : 1000, 2);
	put(packet + 24, seq, 4);
	put(packet + 28, ack, 4);
	packet[32] = 5 << 4;
	packet[33] = flags;
	for (size_t i = 0; i < payload_bytes; i++)
		packet[HEADERS + i] = (uint8_t)i;
	put(packet + 36,
	    0xffff - sum(packet + 20, len_bytes - 20,
			 sum(packet + 12, 8, 6 + (uint32_t)len_bytes - 20)),
	    2);
	return len_bytes;
}

static void see(int from, uint8_t flags, uint32_t seq, uint32_t ack, size_t payload_bytes)
{
	size_t len_bytes = segment(from, flags, seq, ack, payload_bytes);

	flow_table_see(&table, from, packet, len_bytes);
}

/* Starts a flow whose sequence numbers soon wrap. */
static void begin_anew(void)
{
	memset(&table, 0, sizeof(table));
	see(0, SYN, 0xfffffff0u, 0, 0);
	see(1, SYN | ACK, 700, 0xfffffff1u, 0);
	see(0, ACK, 0xfffffff1u, 701, 0);
}

static void expect_forged(int to, uint8_t flags, uint32_t seq, uint32_t ack)
{
	EXPECT(is_sound(forged));
	EXPECT_EQ(0x0a000002u - (uint32_t)to, get(forged + 12, 4));
	EXPECT_EQ(to == 1 ? 1000 : 4420, get(forged + 20, 2));
	EXPECT_EQ(to == 1 ? 4420 : 1000, get(forged + 22, 2));
	EXPECT_EQ(seq, get(forged + 24, 4));
	EXPECT_EQ(ack, get(forged + 28, 4));
	EXPECT_EQ(flags | ACK, forged[33]);
}

static void lie_is_what_the_receiver_expects_next(void)
{
	begin_anew();
	see(0, ACK, 0xfffffff1u, 701, 100);
	see(1, ACK, 701, 0x55, 30);
	see(0, ACK, 0x55, 731, 0);
	EXPECT(flow_forge(&table.flows[0], 1, FLOW_FIN, forged));
	expect_forged(1, FIN, 0x55, 731);

	begin_anew();
	see(1, ACK, 701, 0xfffffff1u, 30);
	EXPECT(flow_forge(&table.flows[0], 0, FLOW_RST, forged));
	expect_forged(0, RST, 731, 0xfffffff1u);
}

static void segment_that_comes_again_moves_nothing_back(void)
{
	begin_anew();
	see(0, ACK, 0xfffffff1u, 701, 100);
	see(0, ACK, 0xfffffff1u, 701, 40);
	EXPECT(flow_forge(&table.flows[0], 1, FLOW_RST, forged));
	expect_forged(1, RST, 0x55, 701);
}

static void connection_that_is_over_is_left_alone(void)
{
	begin_anew();
	EXPECT(flow_forge(&table.flows[0], 1, FLOW_FIN, forged));
	EXPECT(!flow_forge(&table.flows[0], 0, FLOW_FIN, forged));

	begin_anew();
	see(1, FIN | ACK, 701, 0xfffffff1u, 0);
	EXPECT(!flow_forge(&table.flows[0], 0, FLOW_RST, forged));

	/* Nor for a flow whose start was not seen. */
	memset(&table, 0, sizeof(table));
	see(0, ACK, 5000, 701, 10);
	EXPECT(!flow_forge(&table.flows[0], 1, FLOW_RST, forged));
}

static void ports_that_are_used_again_are_a_new_connection(void)
{
	begin_anew();
	EXPECT(flow_forge(&table.flows[0], 1, FLOW_RST, forged));
	see(0, SYN, 9000, 0, 0);
	see(1, SYN | ACK, 3000, 9001, 0);
	EXPECT(flow_forge(&table.flows[0], 1, FLOW_RST, forged));
	expect_forged(1, RST, 9001, 0);
}

static void flows_that_are_over_make_room(void)
{
	memset(&table, 0, sizeof(table));
	for (uint32_t i = 0; i < 3 * FLOWS_MAX; i++) {
		size_t len_bytes = segment(0, SYN, 100, 0, 0);

		put(packet + 20, 2000 + i, 2);
		flow_table_see(&table, 0, packet, len_bytes);
	}
	see(0, SYN, 0xfffffff0u, 0, 0);
	see(1, SYN | ACK, 700, 0xfffffff1u, 0);
	for (unsigned i = 0; i < FLOWS_MAX; i++) {
		if (flow_forge(&table.flows[i], 1, FLOW_RST, forged)) {
			expect_forged(1, RST, 0xfffffff1u, 0);
			return;
		}
	}
	EXPECT(false);
}

static void corrupted_byte_has_a_right_checksum(void)
{
	uint8_t before[sizeof(packet)];
	size_t len_bytes;

	begin_anew();
	for (uint64_t luck = 0; luck < 2000; luck++) {
		unsigned differ = 0;

		len_bytes = segment(0, ACK, 0xfffffff1u + 1000, 701, 99);
		EXPECT(is_sound(packet));
		memcpy(before, packet, sizeof(packet));
		EXPECT(flow_corrupt(&table, 0, packet, len_bytes, 128, luck));
		EXPECT(is_sound(packet));
		for (size_t i = HEADERS; i < len_bytes; i++)
			differ += packet[i] != before[i];
		EXPECT_EQ(1, differ);
	}
}

static void start_of_a_stream_is_spared(void)
{
	uint8_t before[sizeof(packet)];
	size_t len_bytes;

	begin_anew();
	len_bytes = segment(0, ACK, 0xfffffff1u, 701, 128);
	EXPECT(!flow_corrupt(&table, 0, packet, len_bytes, 128, 7));
	len_bytes = segment(0, ACK, 0xfffffff1u + 100, 701, 30);
	memcpy(before, packet, sizeof(packet));
	for (uint64_t luck = 0; luck < 64; luck++)
		EXPECT(flow_corrupt(&table, 0, packet, len_bytes, 128, luck));
	EXPECT_EQ(0, memcmp(packet + HEADERS, before + HEADERS, 28));
	/* Only a header; not TCP; a wrong length. */
	len_bytes = segment(0, ACK, 5000, 701, 0);
	EXPECT(!flow_corrupt(&table, 0, packet, len_bytes, 128, 7));
	len_bytes = segment(0, ACK, 5000, 701, 50);
	packet[9] = 17;
	EXPECT(!flow_corrupt(&table, 0, packet, len_bytes, 128, 7));
	len_bytes = segment(0, ACK, 5000, 701, 50);
	EXPECT(!flow_corrupt(&table, 0, packet, len_bytes - 1, 128, 7));
	EXPECT(!flow_corrupt(&table, 0, packet, 10, 128, 7));
}

int main(void)
{
	TAP_RUN(lie_is_what_the_receiver_expects_next);
	TAP_RUN(segment_that_comes_again_moves_nothing_back);
	TAP_RUN(connection_that_is_over_is_left_alone);
	TAP_RUN(ports_that_are_used_again_are_a_new_connection);
	TAP_RUN(flows_that_are_over_make_room);
	TAP_RUN(corrupted_byte_has_a_right_checksum);
	TAP_RUN(start_of_a_stream_is_spared);
	return tap_end();
}

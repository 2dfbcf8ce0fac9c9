/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See relay_flow.h. A forged segment has no TCP options; receivers accept it without a time stamp.
 * Its sequence number is the one that the receiver expects, so it takes effect at once. Later
 * segments of the other side meet a closed connection, as behind a middlebox that gave up.
 */
#include "relay_flow.h"

#include <arpa/inet.h>
#include <string.h>

#define IP_HEADER_BYTES  20
#define TCP_HEADER_BYTES 20
#define PROTOCOL_TCP     6

enum tcp_flags {
	TCP_FIN = 0x01,
	TCP_SYN = 0x02,
	TCP_RST = 0x04,
	TCP_ACK = 0x10,
};

/* Where the parts of a packet are. */
struct segment {
	uint32_t addr[2]; /* from, to */
	uint16_t port[2];
	uint32_t seq;
	uint32_t ack;
	uint8_t flags;
	size_t tcp_at;
	size_t payload_at;
	size_t end;
};

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t get32(const uint8_t *at)
{
	return (uint32_t)get16(at) << 16 | get16(at + 2);
}

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, (uint16_t)(value >> 16));
	put16(at + 2, (uint16_t)value);
}

static bool is_after(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

static bool segment_parse(const uint8_t *packet, size_t len_bytes, struct segment *ret)
{
	const uint8_t *tcp;

	if (len_bytes < IP_HEADER_BYTES || packet[0] >> 4 != 4 || packet[9] != PROTOCOL_TCP)
		return false;
	ret->tcp_at = (size_t)(packet[0] & 15) * 4;
	ret->end = get16(packet + 2);
	if (ret->end > len_bytes || ret->tcp_at + TCP_HEADER_BYTES > ret->end)
		return false;
	tcp = packet + ret->tcp_at;
	ret->payload_at = ret->tcp_at + (size_t)(tcp[12] >> 4) * 4;
	if (ret->payload_at > ret->end)
		return false;
	ret->addr[0] = get32(packet + 12);
	ret->addr[1] = get32(packet + 16);
	ret->port[0] = get16(tcp);
	ret->port[1] = get16(tcp + 2);
	ret->seq = get32(tcp + 4);
	ret->ack = get32(tcp + 8);
	ret->flags = tcp[13];
	return true;
}

/* ---- checksums ------------------------------------------------------------------------------ */

static uint32_t sum_bytes(uint32_t sum, const uint8_t *bytes, size_t len_bytes)
{
	for (size_t i = 0; i + 1 < len_bytes; i += 2)
		sum += get16(bytes + i);
	if (len_bytes % 2 != 0)
		sum += (uint32_t)bytes[len_bytes - 1] << 8;
	return sum;
}

static uint16_t sum_fold(uint32_t sum)
{
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void set_tcp_checksum(uint8_t *packet, size_t tcp_at, size_t end)
{
	uint32_t sum = PROTOCOL_TCP + (uint32_t)(end - tcp_at);

	sum = sum_bytes(sum, packet + 12, 8);
	put16(packet + tcp_at + 16, 0);
	put16(packet + tcp_at + 16, sum_fold(sum_bytes(sum, packet + tcp_at, end - tcp_at)));
}

/* ---- flows ---------------------------------------------------------------------------------- */

static bool flow_is_of(const struct flow *flow, int from, const struct segment *segment)
{
	const struct flow_side *a = &flow->sides[from], *b = &flow->sides[!from];

	return flow->is_used && a->addr == segment->addr[0] && a->port == segment->port[0] &&
	       b->addr == segment->addr[1] && b->port == segment->port[1];
}

static struct flow *flow_find(struct flow_table *table, int from, const struct segment *segment)
{
	for (unsigned i = 0; i < FLOWS_MAX; i++) {
		if (flow_is_of(&table->flows[i], from, segment))
			return &table->flows[i];
	}
	return NULL;
}

/* Reuses the flow that has ended, or been quiet, for the longest time. */
static struct flow *flow_new(struct flow_table *table, int from, const struct segment *segment)
{
	struct flow *found = &table->flows[0];

	for (unsigned i = 0; i < FLOWS_MAX; i++) {
		struct flow *flow = &table->flows[i];

		if (!flow->is_used || (flow->is_over && !found->is_over) ||
		    (flow->is_over == found->is_over && flow->seen < found->seen))
			found = flow;
		if (!found->is_used)
			break;
	}
	*found = (struct flow){.is_used = true};
	for (int i = 0; i < 2; i++) {
		found->sides[i == 0 ? from : !from].addr = segment->addr[i];
		found->sides[i == 0 ? from : !from].port = segment->port[i];
	}
	return found;
}

void flow_table_see(struct flow_table *table, int from, const uint8_t *packet, size_t len_bytes)
{
	struct segment segment;
	struct flow *flow;
	struct flow_side *side;
	uint32_t end;

	if (!segment_parse(packet, len_bytes, &segment))
		return;
	flow = flow_find(table, from, &segment);
	if (segment.flags == TCP_SYN && flow && flow->sides[from].start != segment.seq + 1)
		flow->is_used = false; /* a new connection with the same ports */
	if (!flow || !flow->is_used)
		flow = flow_new(table, from, &segment);
	side = &flow->sides[from];
	flow->seen = table->segments++;
	if (segment.flags & TCP_SYN) {
		side->start = side->next = segment.seq + 1;
		side->has_start = true;
	}
	end = segment.seq + (uint32_t)(segment.end - segment.payload_at);
	if (is_after(end, side->next))
		side->next = end;
	if (segment.flags & TCP_ACK && (side->ack == 0 || is_after(segment.ack, side->ack)))
		side->ack = segment.ack;
	if (segment.flags & (TCP_FIN | TCP_RST))
		flow->is_over = true;
}

bool flow_forge(struct flow *flow, int to, enum flow_lie lie, uint8_t segment[FLOW_SEGMENT_BYTES])
{
	const struct flow_side *from_side = &flow->sides[!to], *to_side = &flow->sides[to];
	uint8_t *tcp = segment + IP_HEADER_BYTES;

	if (!flow->is_used || flow->is_over || !from_side->has_start || !to_side->has_start)
		return false;
	memset(segment, 0, FLOW_SEGMENT_BYTES);
	segment[0] = 0x45;
	put16(segment + 2, FLOW_SEGMENT_BYTES);
	segment[8] = 64;
	segment[9] = PROTOCOL_TCP;
	put32(segment + 12, from_side->addr);
	put32(segment + 16, to_side->addr);
	put16(segment + 10, sum_fold(sum_bytes(0, segment, IP_HEADER_BYTES)));
	put16(tcp, from_side->port);
	put16(tcp + 2, to_side->port);
	put32(tcp + 4, from_side->next);
	put32(tcp + 8, from_side->ack);
	tcp[12] = TCP_HEADER_BYTES / 4 << 4;
	tcp[13] = (lie == FLOW_FIN ? TCP_FIN : TCP_RST) | TCP_ACK;
	put16(tcp + 14, 0xffff);
	set_tcp_checksum(segment, IP_HEADER_BYTES, FLOW_SEGMENT_BYTES);
	flow->is_over = true;
	return true;
}

bool flow_corrupt(struct flow_table *table, int from, uint8_t *packet, size_t len_bytes,
		  uint32_t keep_bytes, uint64_t luck)
{
	struct segment segment;
	const struct flow *flow;
	uint32_t into;
	size_t first;

	if (!segment_parse(packet, len_bytes, &segment))
		return false;
	flow = flow_find(table, from, &segment);
	if (!flow || !flow->sides[from].has_start)
		return false;
	into = segment.seq - flow->sides[from].start;
	first = segment.payload_at + (into < keep_bytes ? keep_bytes - into : 0);
	if (first >= segment.end)
		return false;
	packet[first + (luck >> 3) % (segment.end - first)] ^= (uint8_t)(1u << (luck & 7));
	set_tcp_checksum(packet, segment.tcp_at, segment.end);
	return true;
}

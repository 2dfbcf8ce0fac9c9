/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP connections that pass a link, so that the relay can forge segments in their name: a FIN
 * or RST that one side receives while the other does not know, and a changed byte of the stream
 * under a right checksum. IPv4 without fragments, which is all that a link of the tests carries.
 * Pure; the relay's one thread.
 *
 * Sides are 0 (a) and 1 (b). A segment enters the table when it is delivered, because it determines
 * what the receiver expects next.
 */
#ifndef WEFT_TORTURE_RELAY_FLOW_H
#define WEFT_TORTURE_RELAY_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLOWS_MAX          128
#define FLOW_SEGMENT_BYTES 40 /* IP and TCP header of a forged segment */

struct flow_side {
	uint32_t addr; /* as on the wire */
	uint16_t port;
	bool has_start;
	uint32_t start; /* sequence number of the first byte of its stream */
	uint32_t next;  /* after the last delivered byte */
	uint32_t ack;   /* its last acknowledgement */
};

struct flow {
	struct flow_side sides[2];
	bool is_used;
	bool is_over;  /* a FIN or RST has passed, or was forged */
	uint64_t seen; /* order of the last segment */
};

struct flow_table {
	struct flow flows[FLOWS_MAX];
	uint64_t segments;
};

/* A packet from side `from` was delivered to the other side. */
void flow_table_see(struct flow_table *table, int from, const uint8_t *packet, size_t len_bytes);

enum flow_lie {
	FLOW_FIN,
	FLOW_RST,
};
/*
 * Forges a segment that tells side `to` that the other one has ended the connection. False: the
 * flow has ended already, or was not seen from its start. The flow then counts as ended.
 */
bool flow_forge(struct flow *flow, int to, enum flow_lie lie, uint8_t segment[FLOW_SEGMENT_BYTES]);

/*
 * Flips one bit of the payload, at `luck`, and corrects the checksum. False, and nothing changed:
 * no payload, or none of it is after the first keep_bytes of the stream.
 */
bool flow_corrupt(struct flow_table *table, int from, uint8_t *packet, size_t len_bytes,
		  uint32_t keep_bytes, uint64_t luck);

#endif

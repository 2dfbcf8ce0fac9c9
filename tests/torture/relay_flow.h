/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP connections that pass a link, so that it can lie in their name: a segment that ends one
 * direction (FIN) or the whole connection (RST) for one side while the other knows nothing, and a
 * byte of the stream that is changed under a right checksum. IPv4 without fragments, which is all
 * that a link of the tests carries. Pure; the relay's one thread.
 *
 * Sides are 0 (a) and 1 (b); a segment is told to the table when it is delivered, because what the
 * receiver expects next follows from that.
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
	uint32_t next;  /* behind the last byte that was delivered */
	uint32_t ack;   /* what it has acknowledged last */
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

/* A packet from that side was delivered to the other one. */
void flow_table_see(struct flow_table *table, int from, const uint8_t *packet, size_t len_bytes);

enum flow_lie {
	FLOW_FIN,
	FLOW_RST,
};
/*
 * A segment that tells side `to` that the other one has ended the connection. False: it is over
 * already, or not known from its start. The flow counts as over then.
 */
bool flow_forge(struct flow *flow, int to, enum flow_lie lie, uint8_t segment[FLOW_SEGMENT_BYTES]);

/*
 * Flips one bit of the payload, at `luck`, and makes the checksum right. False, and nothing done:
 * no payload, or nothing of it is behind the first keep_bytes of the stream.
 */
bool flow_corrupt(struct flow_table *table, int from, uint8_t *packet, size_t len_bytes,
		  uint32_t keep_bytes, uint64_t luck);

#endif

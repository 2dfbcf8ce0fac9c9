/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pace of the data that hosts owe: data that a transport has requested and not received. Ends
 * connections whose host does not send the data, and keeps slow hosts from borrowing buffers.
 *
 * A slow network is no reason to end a connection: requested data may wait behind the data of every
 * other command of the queue. A command's data is overdue when it has made no progress for
 * data_timeout_ms, and in addition one of two things is true: the whole connection has made no
 * progress for as long, or more owed data has arrived than could precede the end of the command's
 * data, so that the host has skipped the command. Long before, while the data of any command is
 * behind by OWED_SLOW_NS, the host may not borrow buffers of others (local_share.h).
 *
 * Transports report what they request and receive. All functions run on the queue's reactor.
 */
#ifndef WEFT_TARGET_OWED_H
#define WEFT_TARGET_OWED_H

#include "base/check.h"
#include "reactor/reactor.h"

#include <stdbool.h>
#include <stdint.h>

struct owed;
struct queue;

struct owed_ops {
	/* Owed data received so far on the connection, including what is not complete yet. */
	uint64_t (*come_bytes)(const struct owed *owed);
	/* Ends the connection: its host does not send what it owes. */
	void (*overdue)(struct owed *owed, const char *why);
	/* Data that may be received and not parsed yet. Other data in there, such as capsules,
	 * counts as owed data until it is parsed. */
	uint32_t unparsed_bytes;
};

/* Part of a transport's queue. */
struct owed {
	struct queue *queue;
	const struct owed_ops *ops;
	uint32_t slots; /* slots whose data the host owes */
	uint64_t bytes; /* data requested and not received yet */
	struct reactor_timer timer;
	uint64_t heard_bytes; /* owed data received when the timer last ran */
	uint64_t heard_ns;    /* advances with owed data: see owed.c */
	bool is_slow;         /* counted in the share's slow_queues */
};

/* Part of a slot. */
struct owed_data {
	uint64_t since_ns;   /* advances with the slot's data: see owed.c */
	uint64_t from_bytes; /* owed data received on the connection before this request */
	/* The most owed data that can be received up to the end of this slot's data. */
	uint64_t ahead_bytes;
};

void owed_init(struct owed *owed, struct queue *queue, struct reactor *reactor,
	       const struct owed_ops *ops);
/* The transport requests `bytes` of data of a slot. come_bytes is what ops->come_bytes would
 * return. */
void owed_begin(struct owed *owed, struct owed_data *data, uint32_t bytes, uint64_t come_bytes);
/* For owed_arrived: more of the slot's data is owed. */
void owed_advance(const struct owed *owed, struct owed_data *data, uint32_t bytes);
/* For owed_arrived: no data is owed any more. */
void owed_paid(struct owed *owed);
/* `bytes` more of a slot's data have been received. is_all: no more is owed for this slot, which is
 * in FETCHING no longer than the caller runs. */
static inline void owed_arrived(struct owed *owed, struct owed_data *data, uint32_t bytes,
				bool is_all)
{
	owed->bytes -= bytes;
	if (!is_all) {
		owed_advance(owed, data, bytes);
		return;
	}
	CHECK(owed->slots > 0);
	if (--owed->slots == 0)
		owed_paid(owed);
}

/* The queue closes: nothing is overdue any more. */
void owed_stop(struct owed *owed);

#endif

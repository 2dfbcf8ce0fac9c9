/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The share of a host, in a subsystem, of the data buffers of one reactor (reactor/buf_pool.h).
 *
 * What is kept is split evenly among the subsystems that have hosts here, and then among their
 * hosts: neither a host with many queues nor a subsystem with many hosts can take what others need.
 * Connections that are not of a host yet have one share together, beside the subsystems. Slots need
 * no share: a queue has its own.
 *
 * Owned by one reactor.
 */
#ifndef WEFT_TARGET_LOCAL_SHARE_H
#define WEFT_TARGET_LOCAL_SHARE_H

#include "reactor/buf_pool.h"
#include "wire/nvme.h"

struct local;

struct local_share {
	struct buf_share buffers;
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
	unsigned queue_count;
	/* Whose data does not come at the pace at which it was asked for: the host may not borrow
	 * buffers meanwhile. */
	unsigned slow_queues;
	struct list node; /* in local->shares */
};

/* Found or made, for one more queue. NULL without memory. */
struct local_share *local_share_get(struct local *local, const char *subsystem_nqn,
				    const char *host_nqn);
/* For one queue less; NULL: nothing. */
void local_share_put(struct local *local, struct local_share *share);
/* A queue has become slow, or is it no longer. To be followed by buf_pool_serve, unless the queue
 * closes and gives its buffers back anyway. */
void local_share_note_slow(struct local_share *share, bool is_slow);

#endif

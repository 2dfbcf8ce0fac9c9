/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The share of a host, in a subsystem, of the data buffers of one reactor (reactor/buf_pool.h), and
 * of the reactor's time (turn.h). Owned by that reactor.
 *
 * The guaranteed minimum is split evenly among the subsystems that have hosts on this reactor, and
 * then among the hosts of each subsystem. Neither a host with many queues nor a subsystem with many
 * hosts can take what others need. All connections before their Connect have one share together,
 * which counts like a subsystem. Hosts that no subsystem allows have one share of the discovery
 * controller together. Slots need no share, because each queue has its own slots.
 */
#ifndef WEFT_TARGET_LOCAL_SHARE_H
#define WEFT_TARGET_LOCAL_SHARE_H

#include "reactor/buf_pool.h"
#include "target/turn.h"
#include "wire/nvme.h"

struct local;

struct local_share {
	struct buf_share buffers;
	struct turn_host turn; /* the host's part of the budget of a turn */
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
	unsigned queue_count;
	/* Queues whose data arrives slower than the pace at which it was requested. While there are
	 * any, the host may not borrow buffers. */
	unsigned slow_queues;
	struct list node; /* in local->shares */
};

/* In place of a host NQN: the hosts of the discovery controller that no subsystem allows. Their
 * share never gets more than its minimum. */
#define SHARE_OF_STRANGERS ""

/* Finds or creates the share, for one more queue. NULL when out of memory. */
struct local_share *local_share_get(struct local *local, const char *subsystem_nqn,
				    const char *host_nqn);
/* The share has one queue less; with the last queue the share is freed. NULL does nothing. */
void local_share_put(struct local *local, struct local_share *share);
/* A queue has become slow, or is no longer slow. Call buf_pool_serve afterwards, unless the queue
 * closes and gives its buffers back anyway. */
void local_share_note_slow(struct local_share *share, bool is_slow);

#endif

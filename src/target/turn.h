/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget of a turn: how long the commands of one host, and of all hosts together, may keep the
 * CPU of a reactor in one turn. Counts the work that a reactor does itself: setting, copying,
 * comparing and releasing memory for media that work inside submit (media.works_in_submit). Owned
 * by one reactor.
 *
 * A command asks before each piece of such work (turn_may). Beyond the budget the command waits.
 * Waiting commands run at the end of this turn and of the next ones: hosts take turns, and so do
 * the connections of a host. A command with much work asks again for each piece (target/steps.h).
 * The budget allocates nothing. docs/adr/0041.
 */
#ifndef WEFT_TARGET_TURN_H
#define WEFT_TARGET_TURN_H

#include "base/clock.h"
#include "base/list.h"
#include "reactor/reactor.h"

#include <stdbool.h>
#include <stdint.h>

/* Per turn: twice TURN_TOTAL_NS at most (commands that arrive, commands that have waited), and one
 * piece of work more. */
#define TURN_HOST_NS  (200 * NS_PER_US)
#define TURN_TOTAL_NS (400 * NS_PER_US)
/* How long a host runs before the next host that waits. */
#define TURN_QUANTUM_NS (50 * NS_PER_US)
/* Reads and writes take credit, by their length alone, because reading the clock for each costs too
 * much. The credit of a host is charged as a whole. */
#define TURN_CREDIT_BYTES (128u * 1024)
/* The largest piece of work. */
#define TURN_PIECE_BYTES (64u * 1024)

/* One host's part, in its share of the reactor (local_share.h). */
struct turn_host {
	uint64_t at_ns;        /* the turn of spent_ns, by its reactor_now_ns */
	uint64_t spent_ns;     /* in that turn */
	uint64_t credit_bytes; /* charged and not used yet */
	struct list node;      /* in turn->hosts, while commands of the host wait */
	struct list queues;
};

/* One connection's part. */
struct turn_queue {
	struct list node; /* in host->queues, while commands wait */
	struct list waits;
	struct turn_host *host; /* while commands wait */
};

struct turn_wait {
	struct list node;
	struct turn_queue *queue;
	/* The command may run: does the work and charges it. */
	void (*go)(struct turn_wait *wait);
};

/* One piece of work while it is measured. Its end may begin the next piece of its command. */
struct turn_measure {
	struct turn_measure *outer;
	struct turn_host *host; /* NULL: ended meanwhile */
	uint64_t began_ns;
	uint64_t inner_ns; /* of pieces inside, which are charged by themselves */
};

struct turn {
	struct reactor *reactor;
	uint64_t at_ns;
	uint64_t spent_ns;
	struct list hosts; /* struct turn_host with commands that wait, the next one first */
	struct reactor_defer defer;
	struct turn_measure *measured; /* the innermost work under way, on the stack; NULL: none */
	uint64_t waits;                /* commands that had to wait, ever */
	uint64_t longest_ns;           /* most time spent between two resets of spent_ns */
};

void turn_init(struct turn *turn, struct reactor *reactor);
void turn_stop(struct turn *turn);
void turn_host_init(struct turn_host *host);
void turn_queue_init(struct turn_queue *queue);
/* The host has no queue any more. */
void turn_host_end(struct turn *turn, struct turn_host *host);

/* True when a read or write of this length may work now, without being measured. */
static inline bool turn_take_credit(struct turn_host *host, uint64_t len_bytes)
{
	if (len_bytes > host->credit_bytes)
		return false;
	host->credit_bytes -= len_bytes;
	return true;
}

/* True when a command of the host may work now. Otherwise the caller calls turn_wait. */
bool turn_may(struct turn *turn, struct turn_host *host);
void turn_charge(struct turn *turn, struct turn_host *host, uint64_t spent_ns);
/* Charges TURN_CREDIT_BYTES, of which used_bytes are used at once. */
void turn_charge_credit(struct turn *turn, struct turn_host *host, uint64_t used_bytes);
/* Work without credit is measured from turn_measure_begin to turn_measure_end, which nest. The work
 * may end the host. */
void turn_measure_begin(struct turn *turn, struct turn_measure *measure, struct turn_host *host);
/* Charges the time beyond charged_ns, which is charged already. */
void turn_measure_end(struct turn *turn, struct turn_measure *measure, uint64_t charged_ns);

/* Waits behind other commands of the queue; wait->go is called at the end of a turn. */
void turn_wait(struct turn *turn, struct turn_host *host, struct turn_queue *queue,
	       struct turn_wait *wait);
/* Ends a wait without calling wait->go. */
void turn_leave(struct turn_wait *wait);

/*
 * Time that this many bytes take at least, in ns, as copies and as memory released to the kernel.
 * Fresh memory takes several times longer, which is measured.
 */
static inline uint64_t turn_copy_ns(uint64_t len_bytes)
{
	return len_bytes / 4;
}

static inline uint64_t turn_release_ns(uint64_t len_bytes)
{
	return len_bytes / 16;
}

#endif

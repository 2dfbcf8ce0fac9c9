/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that wait for a later turn, and the order in which they run. See turn.h. Runs on the
 * reactor that owns the budget.
 *
 * Two levels take turns: the hosts, each for TURN_QUANTUM_NS, and the queues of a host, one piece
 * of work each. A host or a queue is linked while it has commands that wait.
 */
#include "target/turn.h"

#include "base/check.h"

static void turn_run(struct reactor_defer *defer);

void turn_init(struct turn *turn, struct reactor *reactor)
{
	*turn = (struct turn){.reactor = reactor};
	list_init(&turn->hosts);
	reactor_defer_init(&turn->defer, turn_run);
}

void turn_stop(struct turn *turn)
{
	CHECK(list_empty(&turn->hosts));
	reactor_defer_cancel(&turn->defer);
}

void turn_host_init(struct turn_host *host)
{
	list_init(&host->node);
	list_init(&host->queues);
}

void turn_queue_init(struct turn_queue *queue)
{
	list_init(&queue->node);
	list_init(&queue->waits);
}

void turn_host_end(struct turn *turn, struct turn_host *host)
{
	CHECK(list_empty(&host->queues));
	for (struct turn_measure *measure = turn->measured; measure; measure = measure->outer)
		if (measure->host == host)
			measure->host = NULL;
}

bool turn_may(struct turn *turn, struct turn_host *host)
{
	uint64_t now_ns = reactor_now_ns(turn->reactor);

	/* The first work in this turn begins the account. */
	if (turn->at_ns != now_ns) {
		turn->at_ns = now_ns;
		turn->spent_ns = 0;
	}
	if (host->at_ns != now_ns) {
		host->at_ns = now_ns;
		host->spent_ns = 0;
	}
	return host->spent_ns < TURN_HOST_NS && turn->spent_ns < TURN_TOTAL_NS &&
	       list_empty(&host->queues);
}

void turn_charge(struct turn *turn, struct turn_host *host, uint64_t spent_ns)
{
	turn->spent_ns += spent_ns;
	host->spent_ns += spent_ns;
	if (turn->spent_ns > turn->longest_ns)
		turn->longest_ns = turn->spent_ns;
}

void turn_charge_credit(struct turn *turn, struct turn_host *host, uint64_t used_bytes)
{
	CHECK(used_bytes <= TURN_CREDIT_BYTES);
	turn_charge(turn, host, turn_copy_ns(TURN_CREDIT_BYTES));
	host->credit_bytes = TURN_CREDIT_BYTES - used_bytes;
}

void turn_measure_begin(struct turn *turn, struct turn_measure *measure, struct turn_host *host)
{
	*measure = (struct turn_measure){
		.outer = turn->measured,
		.host = host,
		.began_ns = reactor_clock_ns(turn->reactor),
	};
	turn->measured = measure;
}

void turn_measure_end(struct turn *turn, struct turn_measure *measure, uint64_t charged_ns)
{
	struct turn_host ended = {0}; /* in place of a host that has ended */
	uint64_t took_ns = reactor_clock_ns(turn->reactor) - measure->began_ns;
	uint64_t own_ns = took_ns > measure->inner_ns ? took_ns - measure->inner_ns : 0;

	CHECK(turn->measured == measure);
	turn->measured = measure->outer;
	if (measure->outer)
		measure->outer->inner_ns += took_ns;
	if (own_ns > charged_ns)
		turn_charge(turn, measure->host ? measure->host : &ended, own_ns - charged_ns);
}

void turn_wait(struct turn *turn, struct turn_host *host, struct turn_queue *queue,
	       struct turn_wait *wait)
{
	/* A queue keeps its host while it runs commands. */
	CHECK(list_empty(&queue->waits) || queue->host == host);
	host->credit_bytes = 0; /* no command overtakes those that wait */
	wait->queue = queue;
	queue->host = host;
	list_push_back(&queue->waits, &wait->node);
	if (!list_linked(&queue->node))
		list_push_back(&host->queues, &queue->node);
	if (!list_linked(&host->node))
		list_push_back(&turn->hosts, &host->node);
	turn->waits++;
	reactor_defer(turn->reactor, &turn->defer);
}

void turn_leave(struct turn_wait *wait)
{
	struct turn_queue *queue = wait->queue;

	list_remove(&wait->node);
	if (!list_empty(&queue->waits))
		return;
	list_remove(&queue->node);
	if (list_empty(&queue->host->queues))
		list_remove(&queue->host->node);
}

/* The next command of the first host, and of the host's first queue, which goes to the end. */
static struct turn_wait *turn_take(struct turn_host *host)
{
	struct turn_queue *queue = list_entry(host->queues.next, struct turn_queue, node);
	struct turn_wait *wait = list_entry(queue->waits.next, struct turn_wait, node);

	list_remove(&queue->node);
	list_push_back(&host->queues, &queue->node);
	turn_leave(wait);
	return wait;
}

/* At the end of a turn. A command that runs here may end its host: the host is looked up anew. */
static void turn_run(struct reactor_defer *defer)
{
	struct turn *turn = container_of(defer, struct turn, defer);
	uint64_t now_ns = reactor_now_ns(turn->reactor);

	turn->at_ns = now_ns;
	turn->spent_ns = 0;
	while (!list_empty(&turn->hosts) && turn->spent_ns < TURN_TOTAL_NS) {
		struct turn_host *host = list_entry(turn->hosts.next, struct turn_host, node);
		uint64_t until_ns = turn->spent_ns + TURN_QUANTUM_NS;
		struct turn_wait *wait;

		/* For commands that arrive later in this turn. */
		host->at_ns = now_ns;
		host->spent_ns = 0;
		list_remove(&host->node);
		list_push_back(&turn->hosts, &host->node);
		do {
			wait = turn_take(host);
			wait->go(wait);
		} while (turn->hosts.prev == &host->node && turn->spent_ns < until_ns);
	}
	if (!list_empty(&turn->hosts))
		reactor_defer(turn->reactor, &turn->defer);
}

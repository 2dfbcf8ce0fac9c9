/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What commands and snapshots report to the health of subsystems (ns/health.h). Private to target/.
 * health_note_busy is on the path of every I/O command, on the queue's reactor, and touches shared
 * memory at most once a second per namespace and reactor.
 */
#ifndef WEFT_TARGET_HEALTH_NOTE_H
#define WEFT_TARGET_HEALTH_NOTE_H

#include "ns/health.h"
#include "target/local.h"
#include "target/queue.h"

/* Counts every namespace of the snapshot for its subsystem's health. Called on the control reactor
 * when the snapshot comes into force. */
void health_adopt(const struct snapshot *snapshot);
/* Sums up the counters of the namespaces, for a subsystem without live state. Any reactor. */
void health_sum_namespaces(const struct subsystem *subsystem, struct log_smart *smart);

#define HEALTH_NS_PER_SECOND (1000ull * 1000 * 1000)

static inline uint32_t health_second(uint64_t now_ns)
{
	return (uint32_t)(now_ns / HEALTH_NS_PER_SECOND) + 1;
}

/* Called when an I/O command begins, on the queue's reactor. */
static inline void health_note_busy(const struct queue *queue, struct ns_local *counters)
{
	uint32_t second = health_second(reactor_now_ns(queue->reactor));

	if (counters->busy_second == second)
		return;
	counters->busy_second = second;
	if (queue->subsystem && queue->subsystem->live)
		subsystem_live_note_busy(queue->subsystem->live, second, second);
}

/* Called when an I/O command ends. A command of over a second counts as busy time from start to
 * end. */
static inline void health_note_end(const struct queue *queue, uint64_t started_ns)
{
	uint64_t now_ns = reactor_now_ns(queue->reactor);

	if (now_ns - started_ns >= HEALTH_NS_PER_SECOND && queue->subsystem &&
	    queue->subsystem->live)
		subsystem_live_note_busy(queue->subsystem->live, health_second(started_ns),
					 health_second(now_ns));
}

/* Called when a command for all namespaces begins. Such commands are rare. */
static inline void health_note_busy_all(const struct queue *queue)
{
	struct ns_local none = {.busy_second = 0};

	health_note_busy(queue, &none);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health of a subsystem (SMART, log page 02h) and the object that keeps it: struct
 * subsystem_live, one per subsystem NQN, counted by snapshots. It outlives snapshots and restarts:
 * what was counted before is recalled from the keeper, what is counted now is the sum of its
 * namespaces' counters, and a namespace that goes leaves its share behind.
 *
 * Control reactor only, but for health_note_busy, which is on the path of every I/O command and
 * touches nothing shared but once a second. Without a struct subsystem_live nothing is kept.
 */
#ifndef WEFT_TARGET_HEALTH_H
#define WEFT_TARGET_HEALTH_H

#include "base/list.h"
#include "target/local.h"
#include "target/ns_live.h"
#include "target/queue.h"

#define HEALTH_TEMPERATURE_K 298 /* a program has no sensor: room temperature */

struct event_log; /* target/event_log.h */

struct health_counters {
	uint64_t bytes_read;
	uint64_t bytes_written;
	uint64_t read_commands;
	uint64_t write_commands;
	uint64_t media_errors;
};

/* The part of a namespace in the health of its subsystem; embedded in struct ns_live. */
struct health_share {
	struct subsystem_live *owner; /* counted; NULL: none yet */
	struct list node;             /* in owner's shares */
	struct ns_live *live;
	struct health_counters before; /* counted for a former owner */
};

/* 0 or -ENOMEM. */
int subsystem_live_create(struct subsystem_live **ret_live);
struct subsystem_live *subsystem_live_get(struct subsystem_live *live);
void subsystem_live_put(struct subsystem_live *live);
/* Names it, reads back what was kept and notes the start in its event log; before it is in a
 * snapshot. 0 or -errno. */
int subsystem_live_recall(struct subsystem_live *live, const char *nqn,
			  const struct target_keeper *keeper);
/* Keeps what has changed since the last time: once a minute. 0 or -errno of the first failure. */
int subsystem_live_keep(struct subsystem_live *live, const struct target_keeper *keeper);
/* The event log alone, when it has changed. */
int subsystem_live_keep_events(struct subsystem_live *live, const struct target_keeper *keeper);
/* The keeper took it and lost it again, as ns_live_set_unkept: the next keep writes everything. */
void subsystem_live_set_unkept(struct subsystem_live *live);
/* The orderly end: notes the health in the event log and keeps everything. */
int subsystem_live_end(struct subsystem_live *live, const struct target_keeper *keeper);
/* The subsystem is gone for good. */
int subsystem_live_forget(struct subsystem_live *live, const struct target_keeper *keeper);
struct event_log *subsystem_live_events(struct subsystem_live *live);
const char *subsystem_live_nqn(const struct subsystem_live *live);

/* ns_live.c: embedded there. */
struct health_share *ns_live_health(struct ns_live *live);
/* Counts the namespace for this subsystem from now on; harmless when it does already. */
void subsystem_live_adopt(struct subsystem_live *live, struct ns_live *ns);
/* The snapshot is in force: every namespace counts for its subsystem. */
void health_adopt(const struct snapshot *snapshot);
/* ns_live.c: the namespace's counters go, their owner keeps the sum. */
void health_share_end(struct health_share *share);

/* Fills in what is counted for the subsystem; the rest of *smart is the caller's. */
void subsystem_live_smart(const struct subsystem_live *live, struct log_smart *smart);
/* The same of a subsystem of which nothing is kept; any reactor. */
void health_sum_namespaces(const struct subsystem *subsystem, struct log_smart *smart);
/* What every controller says: a program has no sensor and does not wear. */
void health_smart_init(const struct target *target, struct log_smart *smart);

/* Any reactor: there was an I/O command in each second from `first` to `last`, counted from 1. */
void subsystem_live_note_busy(struct subsystem_live *live, uint32_t first, uint32_t last);

#define HEALTH_NS_PER_SECOND (1000ull * 1000 * 1000)

static inline uint32_t health_second(uint64_t now_ns)
{
	return (uint32_t)(now_ns / HEALTH_NS_PER_SECOND) + 1;
}

/* When an I/O command begins, on the queue's reactor. */
static inline void health_note_busy(const struct queue *queue, struct ns_local *counters)
{
	uint32_t second = health_second(reactor_now_ns(queue->reactor));

	if (counters->busy_second == second)
		return;
	counters->busy_second = second;
	if (queue->subsystem && queue->subsystem->live)
		subsystem_live_note_busy(queue->subsystem->live, second, second);
}

/* When an I/O command ends: one that took long kept its controller busy all the while. */
static inline void health_note_end(const struct queue *queue, uint64_t started_ns)
{
	uint64_t now_ns = reactor_now_ns(queue->reactor);

	if (now_ns - started_ns >= HEALTH_NS_PER_SECOND && queue->subsystem &&
	    queue->subsystem->live)
		subsystem_live_note_busy(queue->subsystem->live, health_second(started_ns),
					 health_second(now_ns));
}

/* For commands of all namespaces, which are rare. */
static inline void health_note_busy_all(const struct queue *queue)
{
	struct ns_local none = {.busy_second = 0};

	health_note_busy(queue, &none);
}

#endif

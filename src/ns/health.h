/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health of a subsystem (SMART, log page 02h) and the object that keeps it: struct
 * subsystem_live, one per subsystem NQN, counted by snapshots. It outlives snapshots and restarts:
 * what was counted before is recalled from the keeper, what is counted now is the sum of its
 * namespaces' counters, and a namespace that goes leaves its share behind.
 *
 * Control reactor only, but for subsystem_live_note_busy, which the path of I/O commands calls once
 * a second (target/health_note.h). Without a struct subsystem_live nothing is kept.
 */
#ifndef WEFT_NS_HEALTH_H
#define WEFT_NS_HEALTH_H

#include "base/list.h"
#include "ns/ns_live.h"
#include "wire/log_page.h"
#include "wire/nvme.h"

#define HEALTH_TEMPERATURE_K 298 /* a program has no sensor: room temperature */

struct event_log; /* ns/event_log.h */
struct subsystem_live;

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
			  const struct keeper *keeper);
/* Keeps what has changed since the last time: once a minute. 0 or -errno of the first failure. */
int subsystem_live_keep(struct subsystem_live *live, const struct keeper *keeper);
/* The event log alone, when it has changed. */
int subsystem_live_keep_events(struct subsystem_live *live, const struct keeper *keeper);
/* The keeper took it and lost it again, as ns_live_set_unkept: the next keep writes everything. */
void subsystem_live_set_unkept(struct subsystem_live *live);
/* The orderly end: notes the health in the event log and keeps everything. */
int subsystem_live_end(struct subsystem_live *live, const struct keeper *keeper);
/* The subsystem is gone for good. */
int subsystem_live_forget(struct subsystem_live *live, const struct keeper *keeper);
struct event_log *subsystem_live_events(struct subsystem_live *live);
const char *subsystem_live_nqn(const struct subsystem_live *live);

/* ns_live.c: embedded there. */
struct health_share *ns_live_health(struct ns_live *live);
/* Counts the namespace for this subsystem from now on; harmless when it does already. */
void subsystem_live_adopt(struct subsystem_live *live, struct ns_live *ns);
/* ns_live.c: the namespace's counters go, their owner keeps the sum. */
void health_share_end(struct health_share *share);

/* Fills in what is counted for the subsystem; the rest of *smart is the caller's. */
void subsystem_live_smart(const struct subsystem_live *live, struct log_smart *smart);
/* Adds what is counted for one namespace. Any reactor. */
void health_smart_add(struct log_smart *smart, struct ns_live *ns);
/* What every controller says: a program has no sensor and does not wear. */
void health_smart_init(struct log_smart *smart);

/* Any reactor: there was an I/O command in each second from `first` to `last`, counted from 1. */
void subsystem_live_note_busy(struct subsystem_live *live, uint32_t first, uint32_t last);

#endif

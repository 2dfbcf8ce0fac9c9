/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health of a subsystem (SMART, log page 02h) in struct subsystem_live: one per subsystem NQN,
 * referenced by snapshots. It outlives snapshots and restarts: earlier counts are recalled from the
 * keeper, present counts are the sum over the subsystem's namespaces, and the counts of a removed
 * namespace are added to the subsystem.
 *
 * Control reactor only, except subsystem_live_note_busy, which I/O commands call once a second
 * (target/health_note.h). A subsystem without a struct subsystem_live keeps nothing.
 */
#ifndef WEFT_NS_HEALTH_H
#define WEFT_NS_HEALTH_H

#include "base/list.h"
#include "ns/ns_live.h"
#include "wire/log_page.h"
#include "wire/nvme.h"

#define HEALTH_TEMPERATURE_K 298 /* room temperature: a program has no sensor */

struct event_log; /* ns/event_log.h */
struct subsystem_live;

struct health_counters {
	uint64_t bytes_read;
	uint64_t bytes_written;
	uint64_t read_commands;
	uint64_t write_commands;
	uint64_t media_errors;
};

/* The share of a namespace in the health of its subsystem; embedded in struct ns_live. */
struct health_share {
	struct subsystem_live *owner; /* holds a reference; NULL: no owner yet */
	struct list node;             /* in owner's shares */
	struct ns_live *live;
	struct health_counters before; /* counted before, for a former owner */
};

/* 0 or -ENOMEM. */
int subsystem_live_create(struct subsystem_live **ret_live);
struct subsystem_live *subsystem_live_get(struct subsystem_live *live);
void subsystem_live_put(struct subsystem_live *live);
/* Sets the NQN, loads the kept values and adds the start to the event log. Call before a snapshot
 * has the subsystem. 0 or -errno. */
int subsystem_live_recall(struct subsystem_live *live, const char *nqn,
			  const struct keeper *keeper);
/* Keeps what has changed since the last call; called once a minute. 0 or the first -errno. */
int subsystem_live_keep(struct subsystem_live *live, const struct keeper *keeper);
/* Keeps only the event log, if it has changed. 0 or -errno. */
int subsystem_live_keep_events(struct subsystem_live *live, const struct keeper *keeper);
/* After a transaction of the keeper was lost (see ns_live_set_unkept): the next keep writes all. */
void subsystem_live_set_unkept(struct subsystem_live *live);
/* At an orderly shutdown: adds the health to the event log and keeps everything. 0 or -errno. */
int subsystem_live_end(struct subsystem_live *live, const struct keeper *keeper);
/* Deletes the kept values of a removed subsystem. 0 or -errno. */
int subsystem_live_forget(struct subsystem_live *live, const struct keeper *keeper);
struct event_log *subsystem_live_events(struct subsystem_live *live);
const char *subsystem_live_nqn(const struct subsystem_live *live);

/* In ns_live.c: the share embedded in live. */
struct health_share *ns_live_health(struct ns_live *live);
/* Counts the namespace for this subsystem from now on. No effect if it already does. */
void subsystem_live_adopt(struct subsystem_live *live, struct ns_live *ns);
/* For ns_live.c, before the namespace's counters are freed: adds them to their owner. */
void health_share_end(struct health_share *share);

/* Fills in the counters of the subsystem; the caller fills the rest of *smart. */
void subsystem_live_smart(const struct subsystem_live *live, struct log_smart *smart);
/* Adds the counters of one namespace. Any reactor. */
void health_smart_add(struct log_smart *smart, struct ns_live *ns);
/* Sets the values that every controller reports: a program has no sensor and does not wear. */
void health_smart_init(struct log_smart *smart);

/* Any reactor: counts the seconds from `first` to `last`, numbered from 1, as busy with I/O. */
void subsystem_live_note_busy(struct subsystem_live *live, uint32_t first, uint32_t last);

#endif

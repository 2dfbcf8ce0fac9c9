/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller: what a host has connected to. Lives on the reactor of its admin queue; I/O queues
 * on other reactors reach it only by messages and by the fields marked atomic.
 *
 * Connect of an I/O queue: queue's reactor -> registry (first reactor) -> controller's reactor ->
 * back. End: the controller asks each queue's reactor to close its queue, waits for all, leaves
 * the registry, and is freed; a Connect that crosses this is answered by the dying controller.
 */
#ifndef WEFT_TARGET_CTRL_H
#define WEFT_TARGET_CTRL_H

#include "reactor/reactor.h"
#include "target/target.h"
#include "wire/fabrics.h"
#include "wire/feature.h"
#include "wire/identify.h"

#define CTRL_AER_MAX            4 /* outstanding Asynchronous Event Requests */
#define CTRL_ABORT_MAX          4 /* concurrent Aborts */
#define CTRL_ERROR_LOG_ENTRIES  64
#define CTRL_KEEP_ALIVE_STEP_MS 100
#define CTRL_READY_TIMEOUT_MS   15000 /* CAP.TO */

enum ctrl_state {
	CTRL_REGISTERING, /* waits for its identifier */
	CTRL_LIVE,
	CTRL_DYING,   /* queues are closing */
	CTRL_LEAVING, /* left the registry; waits for its answer, then freed */
};

/* Events waiting to be reported; one bit each, so that a burst is one event. */
enum ctrl_event {
	CTRL_EVENT_NS_ATTRIBUTE = 1 << 0,
	CTRL_EVENT_ANA_CHANGE = 1 << 1,
	CTRL_EVENT_DISCOVERY_CHANGE = 1 << 2,
	CTRL_EVENT_SHUTDOWN = 1 << 3,
};

struct ctrl {
	struct reactor *reactor;
	struct local *local;
	struct target *target;
	enum ctrl_state state;
	enum ctrl_type type;
	uint16_t cntlid;
	uint16_t port_id;
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
	struct uuid host_id;
	struct net_addr local_addr;
	const struct subsystem *subsystem; /* in local->snapshot; NULL when it was removed */
	const struct port *port;

	/* properties */
	uint32_t cc;
	uint32_t csts;
	bool is_disabling;     /* CC.EN went to 0, queues are closing */
	bool is_shutting_down; /* CC.SHN set, queues are closing, media are being flushed */
	uint32_t flushes_left;

	/* queues */
	struct queue *admin;
	struct queue **io_queues; /* by qid, 1.. io_queues_max */
	uint32_t io_queues_max;
	uint32_t io_queue_count;
	uint32_t io_queues_granted; /* Set Features 07h; io_queues_max before */

	/* keep alive */
	uint32_t kato_ms;
	struct reactor_timer keep_alive;
	atomic_bool has_traffic; /* any queue, any reactor: a command arrived in this interval */

	/* asynchronous events: event.c */
	uint32_t event_mask;      /* feature 0Bh */
	uint32_t events;          /* pending enum ctrl_event */
	uint32_t events_reported; /* reported, not yet cleared by reading the log page */
	struct slot *aer_slots[CTRL_AER_MAX]; /* held requests, oldest first */
	uint32_t aer_count;
	uint32_t changed_nsids[LOG_CHANGED_NS_MAX];
	uint32_t changed_count;
	bool has_changed_overflow;

	/* error log: error_log.c; newest at (error_count - 1) % entries */
	struct log_error_entry *error_log;
	uint64_t error_count;

	uint32_t aborts_running;
	uint8_t host_behavior[512];
	const char *end_why;
	struct list node; /* in local->ctrls */
	struct reactor_msg msg;
	struct slot *connect_slot; /* the Connect that made it, until answered */
	struct connect_args *connect_args;
};

/* ---- ctrl.c: life ------------------------------------------------------------------------------
 */

/* Admin Connect: makes a controller and answers the slot when it is registered. */
void ctrl_create(struct slot *slot, const struct connect_args *args);
/* I/O Connect: carries the slot to the controller's reactor and back, then answers it. */
void ctrl_attach(struct slot *slot, const struct connect_args *args);
/* The controller ends: queues close, then it is freed. `why` is for the log. */
void ctrl_end(struct ctrl *ctrl, const char *why);
/* Asks every I/O queue to close; each answers with a detach. */
void ctrl_close_io_queues(struct ctrl *ctrl);
/* The last flush of a shutdown came back. */
void ctrl_flushed(struct ctrl *ctrl);
/* The queue is drained and its connection closed; post from the queue's reactor. */
void ctrl_detach(struct reactor_msg *detach_msg);
/* Points ctrl->subsystem and ->port into a new snapshot, raises events, ends orphans. */
void ctrl_rebind(struct ctrl *ctrl, const struct snapshot *old, const struct snapshot *snapshot);
/* ---- ctrl_property.c: CC, CSTS and what they set going ------------------------------------- */
uint64_t ctrl_cap(const struct ctrl *ctrl);
void ctrl_set_cc(struct ctrl *ctrl, uint32_t cc);
/* A queue went away: goes on with disable or shutdown. */
void ctrl_property_on_detach(struct ctrl *ctrl);
/* ---- ctrl_keep_alive.c ------------------------------------------------------------------------
 */
void ctrl_keep_alive_start(struct ctrl *ctrl);
void ctrl_keep_alive_stop(struct ctrl *ctrl);

static inline bool ctrl_is_ready(const struct ctrl *ctrl)
{
	return (ctrl->csts & CSTS_RDY) != 0;
}

/* Any thread: a command arrived. */
static inline void ctrl_note_traffic(struct ctrl *ctrl)
{
	if (!atomic_load_explicit(&ctrl->has_traffic, memory_order_relaxed))
		atomic_store_explicit(&ctrl->has_traffic, true, memory_order_relaxed);
}

/* ---- event.c ------------------------------------------------------------------------------------
 */
void ctrl_events_init(struct ctrl *ctrl);
/* Raises an event; reported at once when a request is held and the host unmasked it. */
void ctrl_event_raise(struct ctrl *ctrl, enum ctrl_event event);
/* The log page that clears an event was read without RAE; from its start, or a later part. */
void ctrl_event_clear(struct ctrl *ctrl, uint8_t log_id, bool is_from_start);
/* Reports what is pending, unmasked and not yet reported, as far as requests are held. */
void ctrl_events_report(struct ctrl *ctrl);
/* Feature 0Bh: the events that this controller knows. */
uint32_t ctrl_events_supported(const struct ctrl *ctrl);
void ctrl_event_note_changed_ns(struct ctrl *ctrl, uint32_t nsid);
/* Compares what this host sees in two snapshots and raises what changed. */
void ctrl_events_compare(struct ctrl *ctrl, const struct snapshot *old, const struct snapshot *now);
/* Completes every held request with `status` (reset, shutdown, end). */
void ctrl_events_flush(struct ctrl *ctrl, nvme_status status);
/* True when the slot was one of the held requests, which is then completed as aborted. */
bool ctrl_event_abort(struct ctrl *ctrl, uint16_t cid);
/* CC.EN 1 to 0: masks, pending events and features go back to their defaults. */
void ctrl_events_reset(struct ctrl *ctrl);

/* ---- error_log.c
 * --------------------------------------------------------------------------------- */
int ctrl_error_log_init(struct ctrl *ctrl);
void ctrl_error_log_free(struct ctrl *ctrl);
/* On the controller's reactor. Fills the entry from the slot (sqid, cid, status, location, …). */
void ctrl_error_log_add(struct ctrl *ctrl, const struct slot *slot);

#endif

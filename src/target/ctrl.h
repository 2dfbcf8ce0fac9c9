/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller: what a host has connected to. The reactor of the admin queue owns the controller.
 * I/O queues on other reactors use only messages and the fields marked atomic.
 *
 * Connect of an I/O queue: queue's reactor, registry (first reactor), controller's reactor, and
 * back. End: the controller asks each queue's reactor to close its queue, waits for all, leaves the
 * registry, and is freed. A Connect that arrives meanwhile is answered by the controller that ends.
 */
#ifndef WEFT_TARGET_CTRL_H
#define WEFT_TARGET_CTRL_H

#include "base/silence.h"
#include "reactor/reactor.h"
#include "target/target.h"
#include "wire/ctrl_reset.h"
#include "wire/fabrics.h"
#include "wire/feature.h"
#include "wire/identify.h"

#define CTRL_AER_MAX            4 /* outstanding Asynchronous Event Requests */
#define CTRL_ABORT_MAX          4 /* concurrent Aborts */
#define CTRL_ERROR_LOG_ENTRIES  64
#define CTRL_KEEP_ALIVE_STEP_MS 100
#define CTRL_TRAFFIC_STEP_NS    (10 * 1000 * 1000) /* granularity of the time of the last command */
#define CTRL_RESET_MAX          4     /* CCRL: Cross-Controller Resets under way at a time */
#define CTRL_RESET_LOG_MAX      32    /* entries of log 1Eh, finished or not */
#define CTRL_LOST_MAX           32    /* entries of log 1Fh; the newest are kept */
#define CTRL_READY_TIMEOUT_MS   15000 /* CAP.TO */
#define CTRL_WARN_TEMPERATURE_K 343   /* WCTEMP, and the default threshold */
#define CTRL_CRIT_TEMPERATURE_K 353   /* CCTEMP */

enum ctrl_state {
	CTRL_REGISTERING, /* waits for its identifier */
	CTRL_LIVE,
	CTRL_DYING,   /* queues are closing */
	CTRL_LEAVING, /* left the registry; waits for its answer, then is freed */
};

/* Pending events. One bit each, so that a burst is one event. */
enum ctrl_event {
	CTRL_EVENT_NS_ATTRIBUTE = 1 << 0,
	CTRL_EVENT_ANA_CHANGE = 1 << 1,
	CTRL_EVENT_DISCOVERY_CHANGE = 1 << 2,
	CTRL_EVENT_SHUTDOWN = 1 << 3,
	CTRL_EVENT_RESERVATION = 1 << 4,
	CTRL_EVENT_TEMPERATURE = 1 << 5, /* a threshold of feature 04h was crossed */
	CTRL_EVENT_CTRL_RESET = 1 << 6,  /* a reset ended after its command was answered */
	CTRL_EVENT_LOST_HOST = 1 << 7,   /* another controller of this host was lost */
};

/* Features of a controller. They are not saved: a reset restores the defaults. feature_*.c */
struct ctrl_features {
	uint32_t arbitration;   /* 01h: CDW11 */
	uint32_t workload_hint; /* 02h: WH */
	uint32_t coalescing;    /* 08h: CDW11 */
	uint32_t temperature_over_k;
	uint32_t temperature_under_k;
	bool has_atomicity_waived; /* 0Ah: DN */
	bool is_timestamp_set;
	uint64_t timestamp_ms;    /* 0Eh, as of timestamp_at_ns */
	uint64_t timestamp_at_ns; /* on the reactor's clock */
	uint64_t reset_at_ns;
};

struct host_share;

struct ctrl {
	struct reactor *reactor;
	struct local *local;
	struct target *target;
	enum ctrl_state state;
	enum ctrl_type type;
	uint16_t cntlid;
	uint16_t port_id;
	uint8_t uniquifier;     /* CIU: differs from that of the last controller with this CNTLID */
	uint64_t random_number; /* CIRN */
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
	struct uuid host_id;
	struct net_addr local_addr;
	struct net_addr peer_addr;
	/* Owned by the registry, while the controller is registered. */
	struct host_share *share_of_addr;
	struct host_share *share_of_nqn;
	const char *refused_why;           /* set by the registry instead of a CNTLID */
	const struct subsystem *subsystem; /* in local->snapshot; NULL when it was removed */
	const struct port *port;
	uint32_t host_index; /* index of the host in struct ns_mask */
	uint32_t rights;     /* enum host_right of the host in this subsystem */
	/* Formats and identities that the host knows: those of the snapshot of born_generation, and
	 * those in the table (ctrl_known.c). I/O queues on any reactor read these fields. */
	uint64_t born_generation;
	struct known_table *_Atomic known;
	atomic_bool has_known_identities; /* the table has identities */
	struct reactor_timer settle_timer;
	uint64_t connected_ns; /* reactor_now_ns at Connect */
	/* A swap under way (delta.h): what it changes for this controller, until ctrl_tell has
	 * run. */
	uint32_t host_index_before;
	const struct subsystem_delta *subsystem_delta;
	const struct port_delta *port_delta;
	struct list swap_node;   /* in local->swap_ctrls */
	uint64_t ana_count_base; /* subtracted: the ANA log's change count is 0 after a reset */

	/* properties */
	uint32_t cc;
	uint32_t csts;
	bool is_disabling;     /* CC.EN went to 0, queues are closing */
	bool is_shutting_down; /* CC.SHN set, queues are closing, media are being flushed */
	uint32_t flushes_left; /* in flight */
	uint32_t flushed_nsid; /* the last NSID that the shutdown has visited */
	bool is_flushing;      /* the loop that submits flushes is on the stack */
	struct list flushes;   /* struct shutdown_flush of ctrl_property.c */

	/* queues */
	struct queue *admin;
	struct queue **io_queues; /* by qid, 1.. io_queues_max */
	uint32_t io_queues_max;
	uint32_t io_queue_count;
	uint32_t io_queues_granted; /* by Set Features 07h; before: io_queues_max */

	/* keep alive */
	uint32_t kato_ms;
	uint32_t idle_max_ms; /* without keep alive: limits.idle_timeout_ms in use */
	struct reactor_timer keep_alive;
	/* Written by any queue on any reactor when a command of the host arrives, at most once per
	 * CTRL_TRAFFIC_STEP_NS. */
	struct silence silence;
	atomic_bool is_silent; /* the host was silent for too long */
	struct reactor_msg silent_msg;

	/* quiescence: ctrl.c */
	uint32_t running_queue_count; /* attached queues whose commands may run */
	bool is_quiesced;       /* the controller ends, and none of its commands reaches a medium */
	bool is_quiesced_known; /* the registry's copy of is_quiesced */
	uint32_t resets_waiting; /* the registry's: resets of this controller under way */
	uint64_t ended_ns;       /* reactor_now_ns when the end began */
	struct reactor_msg quiesce_msg;

	/* Resets of other controllers that this controller was asked for: cmd_ctrl_reset.c */
	struct list reset_requests; /* under way */
	uint32_t reset_request_count;
	struct list reset_log; /* log 1Eh, oldest first */
	uint32_t reset_log_count;

	/* Other controllers of this host that were lost: lost_host.c; oldest first */
	struct log_lost_host_entry lost[CTRL_LOST_MAX];
	uint32_t lost_count;

	/* asynchronous events: cmd_async_event.c */
	uint32_t event_mask;      /* feature 0Bh */
	uint32_t events;          /* pending enum ctrl_event */
	uint32_t events_reported; /* reported, not yet cleared by reading the log page */
	struct slot *aer_slots[CTRL_AER_MAX]; /* held requests, oldest first */
	uint32_t aer_count;
	uint32_t changed_nsids[LOG_CHANGED_NS_MAX];
	uint32_t changed_count;
	bool has_changed_overflow;
	struct notices *notices; /* reservation_notice.c; NULL: no notices and no masks */

	/* error log: log_error.c; newest at (error_count - 1) % entries */
	struct log_error_entry *error_log;
	uint64_t error_count;

	struct ctrl_features features;
	struct timestamp_note *timestamp_note; /* feature_host.c; NULL: the time was never set */
	uint8_t *event_page; /* the persistent event log that the host reads; NULL: none */
	size_t event_page_bytes;

	uint32_t aborts_running;
	uint8_t host_behavior[512];
	atomic_uint copy_formats; /* CDFE of host_behavior; queues on any reactor read it */
	const char *end_why;
	struct list node; /* in local->ctrls */
	struct reactor_msg msg;
	struct slot *connect_slot; /* the Connect that created the controller, until answered */
	struct connect_args *connect_args;
};

/* ---- ctrl.c: creation and end --------------------------------------------------------------- */

/* Admin Connect: creates a controller and answers the slot when the controller is registered. */
void ctrl_create(struct slot *slot, const struct connect_args *args);
/* I/O Connect: carries the slot to the controller's reactor and back, then answers it. */
void ctrl_attach(struct slot *slot, const struct connect_args *args);
/* Ends the controller: its queues close, then the controller is freed. `why` is for the log. */
void ctrl_end(struct ctrl *ctrl, const char *why);
/* Asks every I/O queue to close. Each queue answers with ctrl_detach. */
void ctrl_close_io_queues(struct ctrl *ctrl);
/* Asks the running commands of the I/O queues to end early, because the host is gone or no longer
 * wants its commands. Call ctrl_close_io_queues first. */
void ctrl_cancel_io_queues(struct ctrl *ctrl);
/* Asks the flushes of a shutdown by the host (CC.SHN) to end early. */
void ctrl_cancel_flushes(struct ctrl *ctrl);
/* Call when the last flush of a shutdown has ended. */
void ctrl_flushed(struct ctrl *ctrl);
/* The queue is drained and its connection closed. Posted from the queue's reactor. */
void ctrl_detach(struct reactor_msg *detach_msg);
/* The closing queue has no running command. Posted from the queue's reactor, before ctrl_detach. */
void ctrl_on_queue_quiet(struct reactor_msg *quiet_msg);
struct delta;
/* ---- ctrl_config.c: the controller's place in the configuration ----------------------------- */
/* Finds the place of a new controller. Ends the controller when the place was removed after its
 * Connect was judged. */
void ctrl_bind(struct ctrl *ctrl, const struct snapshot *snapshot);
/* Moves ctrl->subsystem and ctrl->port to the new snapshot of a swap. ctrl_tell must follow. */
void ctrl_swap(struct ctrl *ctrl, const struct delta *delta);
/* Raises the events of a swap, or ends the controller when it has lost its place. */
void ctrl_tell(struct ctrl *ctrl, const struct delta *delta);
/* The namespace with this NSID if the host sees it, else NULL. */
const struct ns *ctrl_find_ns(const struct ctrl *ctrl, uint32_t nsid);
/* The change count in the header of the ANA log. The controller must have a port and a
 * subsystem. */
uint64_t ctrl_ana_change_count(const struct ctrl *ctrl);
/* ---- ctrl_known.c: what the host knows of changed namespaces -------------------------------- */
/* Notes that the host reads the namespace's page (is_page, CNS 00h) or its identifiers (CNS 03h). 0
 * or -ENOMEM. */
int ctrl_known_note(struct ctrl *ctrl, const struct ns *ns, bool is_page);
/* The slow half of ctrl_knows_format. */
bool ctrl_format_is_noted(const struct ctrl *ctrl, const struct ns *ns);
/* The slow half of ctrl_check_identity. */
nvme_status ctrl_judge_identity(const struct ctrl *ctrl, const struct ns *ns);
/* The controller ends: cancels the timer of identities that settle. */
void ctrl_known_stop(struct ctrl *ctrl);
void ctrl_known_free(struct ctrl *ctrl);

/* Any queue's reactor: whether the host knows the block size of the namespace. */
static inline bool ctrl_knows_format(const struct ctrl *ctrl, const struct ns *ns)
{
	if (atomic_load_explicit(&ctrl->known, memory_order_relaxed))
		return ctrl_format_is_noted(ctrl, ns);
	return ns->format_generation <= ctrl->born_generation;
}

/* Any queue's reactor: whether the host means the namespace that has the NSID now. Reads nothing of
 * the namespace when no NSID of the subsystem was given to another namespace since the controller
 * connected. */
static inline nvme_status
ctrl_check_identity(const struct ctrl *ctrl, const struct subsystem *subsystem, const struct ns *ns)
{
	if (subsystem->identity_generation <= ctrl->born_generation &&
	    !atomic_load_explicit(&ctrl->has_known_identities, memory_order_relaxed))
		return NVME_SC_SUCCESS;
	return ctrl_judge_identity(ctrl, ns);
}

/* ---- ctrl_property.c: CC, CSTS and what they start ------------------------------------------ */
uint64_t ctrl_cap(const struct ctrl *ctrl);
uint32_t ctrl_crto(const struct ctrl *ctrl);
void ctrl_set_cc(struct ctrl *ctrl, uint32_t cc);
/* A queue has detached: continues a reset or a shutdown. */
void ctrl_property_on_detach(struct ctrl *ctrl);
/* ---- cmd_keep_alive.c ----------------------------------------------------------------------- */
void ctrl_keep_alive_start(struct ctrl *ctrl);
/* After a change of the configuration: applies a new idle limit to a host without keep alive. */
void ctrl_idle_limit_changed(struct ctrl *ctrl);
void ctrl_keep_alive_stop(struct ctrl *ctrl);

static inline bool ctrl_is_ready(const struct ctrl *ctrl)
{
	return (ctrl->csts & CSTS_RDY) != 0;
}

/* Call after any change of host_behavior: publishes the enabled Copy formats to the queues. */
static inline void ctrl_note_host_behavior(struct ctrl *ctrl)
{
	atomic_store_explicit(&ctrl->copy_formats,
			      ctrl->host_behavior[4] | (unsigned)ctrl->host_behavior[5] << 8,
			      memory_order_relaxed);
}

/* The slow half of ctrl_note_traffic. */
bool ctrl_note_traffic_after(struct ctrl *ctrl, uint64_t now_ns, uint64_t last_ns);
/* The slow half of ctrl_is_in_time. */
bool ctrl_is_late(struct ctrl *ctrl);

/* Any queue's reactor: false when KATO has expired. The controller is then about to end, and
 * nothing more of its host may begin. */
static inline bool ctrl_is_in_time(struct ctrl *ctrl, uint64_t now_ns)
{
	return !silence_is_too_long(&ctrl->silence, now_ns) || !ctrl_is_late(ctrl);
}

/* The time until which a command that has begun may reach a medium. 0: no limit. */
static inline uint64_t ctrl_deadline_ns(const struct ctrl *ctrl)
{
	uint64_t max_ns = atomic_load_explicit(&ctrl->silence.max_ns, memory_order_relaxed);

	return max_ns == 0 ? 0
			   : max_ns + atomic_load_explicit(&ctrl->silence.last_ns,
							   memory_order_relaxed);
}

/* Any queue's reactor: notes the arrival of a command. False: too late, as in ctrl_is_in_time. */
static inline bool ctrl_note_traffic(struct ctrl *ctrl, uint64_t now_ns)
{
	uint64_t last_ns = atomic_load_explicit(&ctrl->silence.last_ns, memory_order_relaxed);

	return now_ns - last_ns < CTRL_TRAFFIC_STEP_NS ||
	       ctrl_note_traffic_after(ctrl, now_ns, last_ns);
}

/* ---- cmd_async_event.c ---------------------------------------------------------------------- */
void ctrl_events_init(struct ctrl *ctrl);
/* Raises an event. Reports the event at once when a request is held and the host has enabled it. */
void ctrl_event_raise(struct ctrl *ctrl, enum ctrl_event event);
/* The host has read the log page of an event without RAE, from the start or from a later part. */
void ctrl_event_clear(struct ctrl *ctrl, uint8_t log_id, bool is_from_start);
/* Reports pending events that the host has enabled and that are not reported yet, as far as
 * requests are held. */
void ctrl_events_report(struct ctrl *ctrl);
/* Feature 0Bh: the events that this controller supports. */
uint32_t ctrl_events_supported(const struct ctrl *ctrl);
void ctrl_event_note_changed_ns(struct ctrl *ctrl, uint32_t nsid);
/* Raises the events for what a swap changes for this host. */
void ctrl_events_of_swap(struct ctrl *ctrl, const struct delta *delta);
/* Completes every held request with `status` (reset, shutdown, end). */
void ctrl_events_flush(struct ctrl *ctrl, nvme_status status);
/* CC.EN 1 to 0: resets masks, pending events and features to their defaults. */
void ctrl_events_reset(struct ctrl *ctrl);

/* feature_ctrl.c: when the controller is created, and when CC.EN goes from 1 to 0. */
void ctrl_features_reset(struct ctrl *ctrl);
/* feature_host.c: for the SMART log. */
bool ctrl_has_temperature_warning(const struct ctrl *ctrl);
/* feature_host.c: the controller ends. */
void ctrl_timestamp_note_release(struct ctrl *ctrl);
/* log_persistent_event.c: frees the context of the persistent event log. */
void ctrl_event_page_release(struct ctrl *ctrl);

/* ---- cmd_ctrl_reset.c ----------------------------------------------------------------------- */
/* The controller ends or is reset: completes held commands and empties the log. Resets under way
 * continue without the controller. */
void ctrl_resets_release(struct ctrl *ctrl);

/* ---- lost_host.c ---------------------------------------------------------------------------- */
enum lost_host_reason {
	LOST_HOST_KEEP_ALIVE = 1, /* keep alive expired */
	LOST_HOST_CONNECTION = 2, /* its connection ended, without a shutdown */
};

/* The controller has lost its host: notifies the other controllers of the host. */
void ctrl_tell_lost(struct ctrl *ctrl, enum lost_host_reason reason);

/* ---- log_error.c ---------------------------------------------------------------------------- */
int ctrl_error_log_init(struct ctrl *ctrl);
void ctrl_error_log_free(struct ctrl *ctrl);
/* On the controller's reactor. Fills the entry from the slot (sqid, cid, status, location and
 * others). */
void ctrl_error_log_add(struct ctrl *ctrl, const struct slot *slot);

/* Whether a controller of this process has, or had, this CIRN. False: it is of a former process. */
bool target_is_own_cirn(const struct target *target, uint64_t random_number);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the target keeps per reactor (struct local) and for the process (struct target). Only the
 * owning reactor touches a local. The target's own fields are set before the reactors start, or are
 * atomic, or belong to the control reactor or to the registry (the first reactor), as marked.
 */
#ifndef WEFT_TARGET_LOCAL_H
#define WEFT_TARGET_LOCAL_H

#include "base/block_guard.h"
#include "base/cache_line.h"
#include "base/prng.h"
#include "ns/ns_live.h"
#include "reactor/buf_pool.h"
#include "reactor/range_guard.h"
#include "target/control_work.h"
#include "target/ctrl.h"
#include "target/local_share.h"
#include "target/queue.h"
#include "target/target.h"
#include "target/turn.h"

/* Begins a cache line, so that reactors do not write to each other's lines. */
struct local {
	_Alignas(CACHE_LINE_BYTES) struct reactor *reactor;
	struct target *target;
	unsigned index;
	struct snapshot *snapshot;
	/* Rises with the snapshot and with every view (ns_live.h) that comes into force on this
	 * reactor. */
	uint64_t rules;
	struct buf_pool *buffers;
	struct buf_share strangers; /* share of `buffers` for connections before their Connect */
	struct list shares;         /* struct local_share, grouped by subsystem */
	struct turn turn;
	struct turn_host turn_strangers; /* queues without a share */
	struct list queues;
	struct list ctrls; /* controllers whose admin queue is on this reactor */
	atomic_uint queue_count;
	atomic_uint
		admin_count; /* of queue_count: known admin queues, which cost next to nothing */
	bool is_stopping;
	bool is_stopped;
	struct reactor_msg swap_msg;
	struct reactor_msg retire_msg;
	struct list swap_queues; /* queues that the swap under way has to close */
	struct list swap_ctrls;  /* controllers that the swap under way has not notified yet */
	struct list barriers;    /* barrier.c: steps that wait for marked commands to end */
	uint32_t reset_count; /* cmd_ctrl_reset.c: resets requested on this reactor and under way */
	struct reactor_msg stop_msg;
	struct reactor_timer grace;
	atomic_ulong commands;
};

/* State of target_shutdown. Owned by the control reactor, except locals_missing. Embedded in the
 * target, because a shutdown must not fail. */
struct shutdown {
	struct reactor_msg msg;
	struct target *target;
	bool is_running;
	atomic_uint locals_missing;
	uint32_t grace_ms;
	/* A few flushes run at a time. next_subsystem and next_ns are the position of the walk over
	 * all namespaces. */
	struct final_flush *flushes;
	unsigned flushes_busy;
	unsigned next_subsystem;
	unsigned next_ns;
	bool is_walking;
	bool is_flush_over; /* the time for flushes has run out */
	bool is_flushed;    /* every flush has succeeded, or its namespace has a new loss mark */
	uint64_t began_ns;
	struct reactor_timer flush_grace;
	void (*done)(void *arg);
	void *arg;
};

/* Where listeners are bound. A port number that the kernel chose is known only after binding. */
struct bound_ports {
	unsigned count;
	uint16_t ids[TARGET_PORTS_MAX];
	struct net_addr addrs[TARGET_PORTS_MAX];
};

struct target {
	struct reactor *control;
	struct local *locals;
	unsigned local_count;
	target_discovery_log_fn discovery_log;
	uint64_t power_cycles;
	uint64_t unsafe_shutdowns;
	uint64_t started_ns; /* monotonic, for power-on hours */
	struct keeper keeper;
	/* Keeps commands of different reactors apart, by address, for memory media. NULL with one
	 * reactor, which has no rival. Other media have a guard of their store
	 * (reactor/range_guard.h). */
	struct block_guard *guard;
	void (*manage)(void *arg, struct manage_request *request);
	void *manage_arg;
	/* manage.c, control reactor only. */
	struct list manage_requests; /* struct manage_request, in order of arrival */
	struct list manage_stops;    /* struct manage_stop */
	struct rota manage_rota;
	uint64_t manage_serial;
	bool is_manage_starting; /* requests_start is on the stack */
	struct control_work reservation_work;
	struct control_work bad_blocks_work;
	struct control_work read_work;
	uint16_t cntlid_first;
	uint16_t cntlid_last;
	struct target_peers cluster; /* other processes that serve the same subsystems */

	/* Control reactor only. */
	struct snapshot *snapshot;
	uint64_t next_generation;
	struct apply *apply; /* the apply under way, or NULL */
	struct list retired; /* snapshots that commands still use, ascending generation */
	struct reactor_timer retire_timer;
	struct reactor_msg retire_msg;
	/* Reactors that still have to release commands. 0: no round is running. */
	atomic_uint retires_missing;
	struct bound_ports bound; /* as of the last apply */
	/* Set by the control reactor before it posts the shutdown to any reactor. */
	struct shutdown shutdown;

	/* Registry only (first reactor). */
	struct ctrl **ctrls; /* by cntlid */
	uint32_t ctrl_count;
	uint32_t ctrls_max;
	uint16_t next_cntlid;
	uint8_t *uniquifiers; /* by cntlid: CIU of its last controller; 0: none */
	struct prng prng;     /* for CIRN */
	uint64_t cirn_key;    /* for CIRN too: see target_is_own_cirn */
	uint8_t instance[IDENTIFY_INSTANCE_BYTES];
	uint8_t boot[IDENTIFY_BOOT_BYTES];
	uint64_t loss_source;
	bool was_flushed;
	struct list resets; /* struct ctrl_reset whose controller has not quiesced yet */
	struct list listeners;
	unsigned listener_count; /* including closing ones */
	struct list shares;      /* struct host_share of hosts that are connected */
	struct list idle_shares; /* struct host_share of other hosts, oldest first */
	unsigned idle_share_count;
	uint32_t discovery_ctrl_count; /* part of ctrl_count */
	unsigned next_local;

	/* For target_get_stats. */
	atomic_uint connections_now;
	atomic_uint ctrls_now;
	atomic_ulong connections_refused;
	atomic_ulong protocol_errors;
	atomic_ulong keep_alive_expiries;
};

/* apply.c: called when no command of this reactor uses a former snapshot any more. */
void local_snapshot_idle(struct snapshot *snapshot);
/* Releases the slot's snapshot: the slot must use nothing of the snapshot afterwards. For commands
 * that may wait for long or for a change of the configuration, so that they do not keep the
 * snapshot in use. */
void slot_leave_snapshot(struct slot *slot);
/* As slot_leave_snapshot, for any user that is counted in snapshot->inflight. */
void local_leave_snapshot(struct local *local, struct snapshot *snapshot);
void applies_init(struct target *target);
/* Called when the target ends. Stops looking after retired snapshots. */
void applies_stop(struct target *target);
/* shutdown.c: allocates what the flushes at the end need. 0 or -ENOMEM. */
int shutdown_prepare(struct target *target);
void shutdown_release(struct target *target);
/* ctrl_reset.c, on the registry: called when nothing of this controller can reach a medium any
 * more. */
void registry_on_quiesced(struct ctrl *ctrl);
/* shutdown.c: called when a queue or controller has gone. Continues a shutdown. */
void local_on_empty(struct local *local);

/* port.c, on the registry. Opens the listeners of `snapshot` that are not open yet. Returns 0, or
 * -errno with a message in `error`; then no listener was opened. */
int ports_open(struct target *target, const struct snapshot *snapshot, char *error,
	       size_t error_bytes);
/* Closes the listeners that `snapshot` does not name, or all of them when `snapshot` is NULL.
 * *ret_bound: where the remaining listeners are bound. */
void ports_close_unused(struct target *target, const struct snapshot *snapshot,
			struct bound_ports *ret_bound);
/* The connection of this queue has ended: updates the counts and frees the queue. */
void port_on_queue_end(struct reactor_msg *port_msg);

/*
 * Prefetch what arrived commands will need before they begin. Best effort: NSIDs are not checked
 * and are assumed to be numbered from 1 without gaps.
 */
#define PREFETCH_NS_MIN 64 /* fewer namespaces stay in the cache anyway */

static inline bool queue_wants_prefetch(const struct queue *queue)
{
	return queue->subsystem && queue->subsystem->ns_count >= PREFETCH_NS_MIN;
}

static inline void queue_prefetch_ns(const struct queue *queue, uint32_t nsid)
{
	if (nsid - 1 < queue->subsystem->ns_count)
		__builtin_prefetch(&queue->subsystem->namespaces[nsid - 1], 0);
}

/* Reads the namespace, so prefetch that first with queue_prefetch_ns. */
static inline void queue_prefetch_counters(const struct queue *queue, uint32_t nsid)
{
	const struct ns *namespaces = queue->subsystem->namespaces;

	if (nsid - 1 < queue->subsystem->ns_count)
		__builtin_prefetch(&namespaces[nsid - 1].locals[queue->local->index], 1);
}

static inline struct local *target_registry(struct target *target)
{
	return &target->locals[0];
}

#endif

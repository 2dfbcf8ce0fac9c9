/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the target keeps per reactor (struct local) and for the process (struct target). Only the
 * owner of a local touches it; the target's own fields are set before the reactors see it, or are
 * atomic, or belong to the control reactor or to the registry (the first reactor), as marked.
 */
#ifndef WEFT_TARGET_LOCAL_H
#define WEFT_TARGET_LOCAL_H

#include "base/block_guard.h"
#include "base/cache_line.h"
#include "base/prng.h"
#include "ns/ns_live.h"
#include "reactor/buf_pool.h"
#include "target/control_work.h"
#include "target/ctrl.h"
#include "target/local_share.h"
#include "target/queue.h"
#include "target/range_guard.h"
#include "target/target.h"

/* Begins a cache line, so that reactors do not write to each other's. */
struct local {
	_Alignas(CACHE_LINE_BYTES) struct reactor *reactor;
	struct target *target;
	unsigned index;
	struct snapshot *snapshot;
	uint64_t rules; /* rises with the snapshot and with every view (ns_live.h) in force here */
	struct buf_pool *buffers;
	struct buf_share strangers; /* of its buffers: connections before their Connect */
	struct list shares;         /* struct local_share: together by subsystem */
	struct list queues;
	struct list ctrls; /* whose admin queue is here */
	atomic_uint queue_count;
	atomic_uint admin_count; /* of them: known to be admin queues, which cost next to nothing */
	bool is_stopping;
	bool is_stopped;
	struct reactor_msg swap_msg;
	struct reactor_msg retire_msg;
	struct list swap_queues; /* that a swap under way has to close */
	struct list swap_ctrls;  /* that a swap under way has not been told to yet */
	struct list barriers;    /* barrier.c: steps that wait for marked commands to end */
	uint32_t reset_count;    /* cmd_ctrl_reset.c: asked for here and under way */
	struct reactor_msg stop_msg;
	struct reactor_timer grace;
	atomic_ulong commands;
};

/* target_shutdown under way: the control reactor's, but for the count. Embedded in the target, for
 * a shutdown cannot fail. */
struct shutdown {
	struct reactor_msg msg;
	struct target *target;
	bool is_running;
	atomic_uint locals_missing;
	uint32_t grace_ms;
	/* The flushes, some at a time: where the walk over all namespaces is. */
	struct final_flush *flushes;
	unsigned flushes_busy;
	unsigned next_subsystem;
	unsigned next_ns;
	bool is_walking;
	bool is_flush_over; /* no time for more */
	bool is_flushed;    /* every flush has succeeded, or its namespace has another mark */
	uint64_t began_ns;
	struct reactor_timer flush_grace;
	void (*done)(void *arg);
	void *arg;
};

/* Where listeners stand: known only after binding when a port asked for any. */
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
	/* What keeps commands of different reactors apart: by address for media in memory, NULL
	 * with one reactor, which is alone with them; by range for all others. The gates, one per
	 * namespace, keep large deallocations out of fused pairs. */
	struct block_guard *guard;
	struct range_guard *range_guard;
	struct range_guard *gate_guard;
	void (*manage)(void *arg, struct manage_request *request);
	void *manage_arg;
	/* manage.c, the control reactor's. */
	struct list manage_requests; /* struct manage_request, as they arrived */
	struct list manage_stops;    /* struct manage_stop */
	struct rota manage_rota;
	uint64_t manage_serial;
	bool is_manage_starting; /* requests_start is on the stack */
	struct control_work reservation_work;
	struct control_work bad_blocks_work;
	uint16_t cntlid_first;
	uint16_t cntlid_last;
	struct target_peers cluster; /* other processes */

	/* The control reactor's. */
	struct snapshot *snapshot;
	uint64_t next_generation;
	struct apply *apply; /* the one under way */
	struct list retired; /* snapshots that commands still use, ascending generation */
	struct reactor_timer retire_timer;
	struct reactor_msg retire_msg;
	atomic_uint retires_missing; /* reactors that have not looked yet; 0: none is asked */
	struct bound_ports bound;    /* as of the last apply */
	/* Set by the control reactor before any reactor hears of it. */
	struct shutdown shutdown;

	/* The registry's (first reactor). */
	struct ctrl **ctrls; /* by cntlid */
	uint32_t ctrl_count;
	uint32_t ctrls_max;
	uint16_t next_cntlid;
	uint8_t *uniquifiers; /* by cntlid: of the last controller that had it; 0: none had */
	struct prng prng;     /* for CIRN */
	uint64_t cirn_key;    /* likewise: see target_is_own_cirn */
	uint8_t instance[IDENTIFY_INSTANCE_BYTES];
	uint8_t boot[IDENTIFY_BOOT_BYTES];
	uint64_t loss_source;
	bool was_flushed;
	struct list resets; /* struct ctrl_reset that wait for their controller to quiesce */
	struct list listeners;
	unsigned listener_count; /* with those that are closing */
	struct list shares;      /* struct host_share of hosts that are connected */
	struct list idle_shares; /* of others, the oldest one first */
	unsigned idle_share_count;
	uint32_t discovery_ctrl_count; /* of ctrl_count */
	unsigned next_local;

	/* For target_get_stats. */
	atomic_uint connections_now;
	atomic_uint ctrls_now;
	atomic_ulong connections_refused;
	atomic_ulong protocol_errors;
	atomic_ulong keep_alive_expiries;
};

/* apply.c: no command on this reactor uses the old snapshot any more. */
void local_snapshot_idle(struct snapshot *snapshot);
/* A command that may wait for long, or for a change of the configuration, must not keep a snapshot
 * from going: it uses nothing of it from here on. */
void slot_leave_snapshot(struct slot *slot);
/* The same for whoever is counted in it. */
void local_leave_snapshot(struct local *local, struct snapshot *snapshot);
void applies_init(struct target *target);
/* No more snapshots are looked after: the target ends. */
void applies_stop(struct target *target);
/* shutdown.c: what the flushes at the end will need. 0 or -ENOMEM. */
int shutdown_prepare(struct target *target);
void shutdown_release(struct target *target);
/* ctrl_reset.c, on the registry: nothing of this controller reaches a medium any more. */
void registry_on_quiesced(struct ctrl *ctrl);
/* shutdown.c: a queue or controller went away; goes on with a shutdown. */
void local_on_empty(struct local *local);

/* port.c, on the registry's reactor. Opens the listeners that `snapshot` needs and does not have;
 * 0 or -errno with a text in `error`, in which case none was opened. */
int ports_open(struct target *target, const struct snapshot *snapshot, char *error,
	       size_t error_bytes);
/* Closes the listeners that `snapshot` does not name, all of them when it is NULL, and tells where
 * the others stand. */
void ports_close_unused(struct target *target, const struct snapshot *snapshot,
			struct bound_ports *ret_bound);
/* The connection of this queue ended: forgets it and frees the queue. */
void port_on_queue_end(struct reactor_msg *port_msg);

/*
 * Fetching from memory what commands will need that have arrived and not begun. Guesses: NSIDs are
 * not checked, and taken as numbered without gaps.
 */
#define PREFETCH_NS_MIN 64 /* fewer stay in the cache by themselves */

static inline bool queue_wants_prefetch(const struct queue *queue)
{
	return queue->subsystem && queue->subsystem->ns_count >= PREFETCH_NS_MIN;
}

static inline void queue_prefetch_ns(const struct queue *queue, uint32_t nsid)
{
	if (nsid - 1 < queue->subsystem->ns_count)
		__builtin_prefetch(&queue->subsystem->namespaces[nsid - 1], 0);
}

/* Reads the namespace, so that it should have been prefetched. */
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

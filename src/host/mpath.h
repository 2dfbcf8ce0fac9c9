/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many paths to one subsystem, used as one. An mpath belongs to one reactor, with all its paths:
 * each path is a controller of its own (host/host.h), so reactors share nothing, and a process that
 * uses several opens one mpath on each (ADR 0020).
 *
 * A command goes to a path that policy picks among those whose ANA state is best. When its path is
 * lost it follows the rules of host/resend.h: what changes nothing is sent again at once, what
 * changes data only when the first copy cannot run any more. That is certain when the buffers have
 * come back from the kernel, and a Cross-Controller Reset through another path has succeeded or
 * KATO + CQT have passed since the last byte went to the lost controller; see docs/failover.md.
 *
 * Files: mpath.c (life), mpath_ns.c (namespaces), mpath_io.c (submit, pick, retry), path.c (one
 * path: connect, back-off, damping), path_scan.c (reads its namespaces), path_ana.c (ANA log and
 * states), fence.c (the rule above), hedge.c and mpath_hedge.c (hedged reads), join.c (which
 * controllers and namespaces belong together), loss.c (writes that a target lost with its power).
 * All callbacks run on the reactor, never from inside the call that they answer.
 */
#ifndef WEFT_HOST_MPATH_H
#define WEFT_HOST_MPATH_H

#include "host/host.h"
#include "host/join.h"
#include "host/path_policy.h"
#include "host/timeouts.h"

#define MPATH_PATHS_MAX 32

struct mpath;
struct mpath_ns;
struct path;

struct mpath_hedge {
	/* A read without an answer after this percentile of recent reads (in hundredths of a
	 * percent: 9900 is p99) is sent on a second path too. 0: off. */
	uint32_t percentile;
	uint32_t min_us;        /* but never earlier */
	uint32_t extra_percent; /* at most so many of a hundred reads; 5 when 0 */
};

struct mpath_config {
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
	struct uuid host_id;
	struct host_timeouts timeouts;
	enum path_policy policy;
	struct mpath_hedge hedge;
	unsigned io_queues;     /* of each path; 1 when 0 */
	unsigned io_queue_size; /* entries; 128 when 0 */
	bool wants_header_digest;
	bool wants_data_digest;
	uint32_t zero_copy_min_bytes; /* writes of so many bytes leave without a copy; 0: never */
	int numa_node;                /* of the thread, or -1; see mpath_set_path_numa */
	uint64_t seed;                /* jitter and policies */
	/* Shared by all mpaths of a process to this subsystem; NULL: there is but this one. */
	struct join *join;
	/* For tests alone: commands are sent again at once, which loses data. */
	bool is_fencing_off;
};

enum path_state {
	PATH_CONNECTING,
	PATH_LIVE,
	PATH_WAITING, /* for the next attempt */
	PATH_CLOSING,
};

/* How a lost controller was made certain to be dead, newest first in reports. */
enum fence_kind {
	FENCE_NONE,
	FENCE_RESET, /* Cross-Controller Reset */
	FENCE_TIME,  /* KATO + CQT */
};

/* A path as people see it. */
struct path_info {
	struct net_addr addr;
	enum path_state state;
	bool is_stable;      /* false: damped, used only when there is no other */
	bool is_given_up;    /* ctrl_loss_ms passed; still tried now and then */
	uint16_t cntlid;     /* while live */
	bool has_reset;      /* the controller takes part in Cross-Controller Reset */
	uint32_t quiesce_ms; /* its CQT, or the profile's */
	int numa_node;       /* of the network card; -1: unknown */
	uint32_t in_flight;
	uint64_t latency_ns; /* mean of late */
	uint64_t rtt_ns;     /* of the transport; 0: unknown */
	uint64_t commands;
	uint64_t answered_ns; /* what they took, in all */
	uint64_t losses;      /* how often it was lost */
	uint64_t fences_by_reset;
	uint64_t fences_by_time;
	uint32_t queue_count; /* while live */
	uint32_t queue_depth; /* commands that one of them holds, as negotiated; while live */
	char last_error[256]; /* why it is not live, or was lost last; empty: never */
	/* Why its controller, or a namespace of it, is not joined with those of the other paths;
	 * empty: it is. */
	char refusal[JOIN_WHY_BYTES];
};

struct ns_info {
	uint32_t nsid;
	struct ns_identity identity;
	bool is_gone;           /* removed from the subsystem, or replaced; the handle stays */
	struct join_ns *joined; /* which namespace it is, on all reactors */
};

struct mpath_callbacks {
	/* Once: res 0 when the first path is live and its namespaces are known; -errno when no path
	 * could be connected within connect_ms (mpath_close is still needed, and attempts go on).
	 */
	void (*ready)(struct mpath *mpath, void *arg, int res, const struct host_error *error);
	/* A namespace appeared, changed, went or was replaced. NULL: it is logged. */
	void (*ns_changed)(struct mpath *mpath, void *arg, uint32_t nsid);
	/* A path came, went or changed its ANA states. For the log of people, which is the caller's
	 * then: NULL leaves it to the engine. */
	void (*path_changed)(struct mpath *mpath, void *arg, unsigned path, const char *what);
};

/* 0 or -errno (-ENOMEM, -EINVAL); `ready` follows. */
int mpath_open(struct reactor *reactor, const struct mpath_config *config,
	       const struct net_addr *addrs, unsigned addr_count,
	       const struct mpath_callbacks *callbacks, void *arg, struct mpath **ret_mpath);
/* While open: 0, -EEXIST, -ENOSPC, -ENOMEM; -ENOENT. */
int mpath_add_path(struct mpath *mpath, const struct net_addr *addr);
int mpath_remove_path(struct mpath *mpath, const struct net_addr *addr);
/* Of the network card that the path leaves by, for policy numa; distance 0: the thread's own node.
 * Unknown (-1, 0) until told; host/numa.h finds them. 0 or -ENOENT. */
int mpath_set_path_numa(struct mpath *mpath, const struct net_addr *addr, int node,
			uint32_t distance);
/* Every command must be done. Disconnects in good order; `gone` is the last callback. */
void mpath_close(struct mpath *mpath, void (*gone)(void *arg), void *arg);

unsigned mpath_path_count(const struct mpath *mpath);
void mpath_path_info(const struct mpath *mpath, unsigned index, struct path_info *ret_info);

/* One I/O queue of a live path. */
struct path_queue_info {
	uint32_t in_flight;
	uint64_t latency_ns; /* mean of late; 0: nothing was answered yet */
	uint64_t commands;   /* answered */
};
/* queue: below queue_count of the path's info. */
void mpath_path_queue_info(const struct mpath *mpath, unsigned index, unsigned queue,
			   struct path_queue_info *ret_info);
/* The ANA state of a namespace's group on that path. */
enum ana_state mpath_path_ana(const struct mpath *mpath, unsigned index, uint32_t nsid);
enum path_policy mpath_policy(const struct mpath *mpath);
struct mpath_hedge_stats {
	uint64_t reads;        /* answered */
	uint64_t twins;        /* sent */
	uint64_t wins;         /* twins that answered first */
	uint64_t threshold_ns; /* UINT64_MAX: too little is known yet */
};
/* Zeroes when reads are not hedged. */
void mpath_hedge_stats(const struct mpath *mpath, struct mpath_hedge_stats *ret_stats);
/* Of the first live controller; NULL before `ready`. */
const struct ctrl_identity *mpath_identity(const struct mpath *mpath);

/* The namespace that has the NSID now, or NULL. Valid until mpath_close; when another namespace
 * gets the NSID, commands for this one end with MPATH_STALE. */
struct mpath_ns *mpath_ns_find(struct mpath *mpath, uint32_t nsid);
/* The first namespace above nsid (0: from the start), or NULL. */
struct mpath_ns *mpath_ns_next(struct mpath *mpath, uint32_t nsid);
void mpath_ns_info(const struct mpath_ns *ns, struct ns_info *ret_info);

enum mpath_result {
	MPATH_OK,
	MPATH_STATUS, /* the controller said no: io->status */
	/* There was no usable path for fast_io_fail_ms; it has not run and will not. What may have
	 * run before, on a path that was lost, ends with MPATH_UNKNOWN then. */
	MPATH_NO_PATH,
	MPATH_UNKNOWN, /* it may have run, or not, and will not run any more (RESEND_NEVER) */
	MPATH_GONE,    /* the namespace is not there any more */
	/* Another namespace has its NSID now: it is sent to that one never, and may have run on the
	 * one that it was meant for. Or it was made for another block size than the namespace has:
	 * it has not run. */
	MPATH_STALE,
	/* A flush, which the controller has answered with success: the target lost writes before it
	 * that were acknowledged. Once for each user; see losses_told. */
	MPATH_LOST,
};

/* One command, embedded in the caller's object, busy from submit until done. */
struct mpath_io {
	struct nvme_sqe sqe; /* opcode and CDWs; NSID is filled in */
	/* Fused with this one, which is the Compare: both go to one queue, one after the other;
	 * done of this one comes when both have ended. Only the first is given to mpath_submit. */
	struct mpath_io *fused_write;
	enum host_data_direction direction;
	const struct iovec *iov; /* stays valid, with what it points at, until done */
	unsigned iov_count;
	uint32_t data_bytes;
	/* Block size that LBAs and counts in sqe are made for; 0: the command names no blocks. A
	 * namespace that was formatted meanwhile means other bytes by the same LBAs. */
	uint32_t block_bytes;
	/* Of a flush: the latest loss of writes that its user has been told of (loss_told at the
	 * beginning). Valid in done with MPATH_LOST: the one that the user is told of now. */
	uint64_t losses_told;
	uint64_t flush_failed; /* likewise the number of the latest one that failed; 0: none */
	void (*done)(struct mpath_io *io);
	/* Valid in done. */
	enum mpath_result result;
	nvme_status status;
	uint64_t dwords;  /* DW0 and DW1 of the completion */
	uint8_t attempts; /* 1: the first one was answered */
	uint64_t flush;   /* of a flush: its number; host/loss.h */
	uint64_t seen;    /* of others: loss_seen when it was sent */
	/* The engine's. */
	struct mpath_ns *ns;
	struct path *path;
	struct host_cmd cmd;
	struct list node;
	struct mpath_io *fused_first; /* of a fused_write */
	uint64_t submitted_ns;
	uint64_t sent_ns;
	uint64_t retry_at_ns;
	uint8_t retries_left;
	uint8_t path_tries; /* answers that sent it to another path */
	uint8_t cmds_busy;  /* 2 for a fused pair */
	uint8_t shun_slot;  /* of the path whose line spoilt it; MPATH_PATHS_MAX: none */
	uint16_t queue;     /* of the path */
	bool may_have_run;
	bool is_looking;        /* delayed until the path's namespaces have been looked at */
	bool is_hedged;         /* has had a twin */
	struct hedge *hedge;    /* the twin while it is under way */
	struct list hedge_node; /* reads that wait for one */
};

/* Never fails from inside; done is not called from inside. */
void mpath_submit(struct mpath_ns *ns, struct mpath_io *io);
/* An admin command on any live path; likewise by the rules of resend.h. ns may be NULL in done. */
void mpath_submit_admin(struct mpath *mpath, struct mpath_io *io);

#endif

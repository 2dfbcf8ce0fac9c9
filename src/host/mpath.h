/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many paths to one subsystem, used as one. An mpath belongs to one reactor, with all its paths.
 * Each path is a controller of its own (host/host.h), so reactors share no path, and a process that
 * uses several reactors opens one mpath on each (ADR 0020).
 *
 * A command is sent on a path that the policy picks among those with the best ANA state. When its
 * path is lost, the command follows the rules of host/resend.h: a command that changes nothing is
 * sent again at once, a command that changes data only when the first copy cannot run any more.
 * That is certain when the kernel has released the buffers, and either a Cross-Controller Reset
 * through another path has succeeded or KATO + CQT have passed since the last byte was sent to the
 * lost controller; see docs/failover.md.
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
	/* Percentile of recent reads, in hundredths of a percent (9900 is p99): a read that waits
	 * longer for its answer is sent on a second path too. 0: reads are not hedged. */
	uint32_t percentile;
	uint32_t min_us;        /* least wait before the second copy */
	uint32_t extra_percent; /* most extra reads, in percent of reads; 0: 5 */
};

struct mpath_config {
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
	struct uuid host_id;
	struct host_timeouts timeouts;
	enum path_policy policy;
	struct mpath_hedge hedge;
	unsigned io_queues;     /* of each path; 0: 1 */
	unsigned io_queue_size; /* entries; 0: 128 */
	bool wants_header_digest;
	bool wants_data_digest;
	uint32_t zero_copy_min_bytes; /* smallest write that is sent without a copy; 0: never */
	int numa_node;                /* of the thread, or -1; see mpath_set_path_numa */
	uint64_t seed;                /* for jitter and policies */
	/* Shared by all mpaths of a process to this subsystem. NULL: this is the only mpath. */
	struct join *join;
	/* For tests only: commands are sent again without waiting for a fence, which loses data. */
	bool is_fencing_off;
};

enum path_state {
	PATH_CONNECTING,
	PATH_LIVE,
	PATH_WAITING, /* until the next attempt */
	PATH_CLOSING,
};

/* How it became certain that a lost controller is dead. */
enum fence_kind {
	FENCE_NONE,
	FENCE_RESET, /* Cross-Controller Reset */
	FENCE_TIME,  /* KATO + CQT */
};

/* State of a path, for people. */
struct path_info {
	struct host_addr addr;
	enum path_state state;
	bool is_stable;      /* false: damped, used only when no stable path is usable */
	bool is_given_up;    /* down for ctrl_loss_ms; still tried every reconnect_max_ms */
	uint16_t cntlid;     /* while live */
	bool has_reset;      /* the controller supports Cross-Controller Reset */
	uint32_t quiesce_ms; /* the controller's CQT, or the profile's value */
	int numa_node;       /* of the network card; -1: unknown */
	uint32_t in_flight;
	uint64_t latency_ns; /* mean of recent commands; 0: no answer yet */
	uint64_t rtt_ns;     /* round trip of the transport; 0: unknown */
	uint64_t commands;
	uint64_t answered_ns; /* total time of all answered commands */
	uint64_t losses;      /* how often the path was lost */
	uint64_t fences_by_reset;
	uint64_t fences_by_time;
	uint32_t queue_count; /* number of I/O queues; while live */
	uint32_t queue_depth; /* commands that one queue holds, as negotiated; while live */
	/* The latest error since the path was last live. Empty: none. */
	char last_error[256];
	/* Why the path's controller, or one of its namespaces, is not joined with those of the
	 * other paths. Empty: all are joined. */
	char refusal[JOIN_WHY_BYTES];
};

struct ns_info {
	uint32_t nsid;
	struct ns_identity identity;
	bool is_gone;           /* removed or replaced; the handle stays valid */
	struct join_ns *joined; /* which namespace this is, on all reactors */
};

struct mpath_callbacks {
	/* Called once. res 0: the first path is live and its namespaces are known. -errno: no path
	 * could be connected within connect_ms. Attempts continue, and mpath_close must still be
	 * called. */
	void (*ready)(struct mpath *mpath, void *arg, int res, const struct host_error *error);
	/* A namespace appeared, changed, was removed or was replaced. NULL: the engine logs the
	 * change. */
	void (*ns_changed)(struct mpath *mpath, void *arg, uint32_t nsid);
	/* A path came, went or changed its ANA states. `what` is a line for people, which the
	 * caller must log. NULL: the engine logs the line. */
	void (*path_changed)(struct mpath *mpath, void *arg, unsigned path, const char *what);
};

/* Opens an mpath. 0 or -errno (-ENOMEM, -EINVAL). `ready` follows. */
int mpath_open(struct reactor *reactor, const struct mpath_config *config,
	       const struct host_addr *addrs, unsigned addr_count,
	       const struct mpath_callbacks *callbacks, void *arg, struct mpath **ret_mpath);
/* Add or remove a path while the mpath is open. Add: 0, -EEXIST, -ENOSPC, -ENOMEM. Remove: 0,
 * -ENOENT. */
int mpath_add_path(struct mpath *mpath, const struct host_addr *addr);
int mpath_remove_path(struct mpath *mpath, const struct host_addr *addr);
/* Sets the memory node of the network card that the path uses, for policy numa. distance 0: the
 * node of the thread. Until this call the values are unknown (-1, 0). host/numa.h finds them. 0 or
 * -ENOENT. */
int mpath_set_path_numa(struct mpath *mpath, const struct host_addr *addr, int node,
			uint32_t distance);
/* Disconnects in good order and frees the mpath. No command may be in flight. `gone` is the last
 * callback. */
void mpath_close(struct mpath *mpath, void (*gone)(void *arg), void *arg);

unsigned mpath_path_count(const struct mpath *mpath);
void mpath_path_info(const struct mpath *mpath, unsigned index, struct path_info *ret_info);

/* State of one I/O queue of a live path. */
struct path_queue_info {
	uint32_t in_flight;
	uint64_t latency_ns; /* mean of recent commands; 0: no answer yet */
	uint64_t commands;   /* answered commands */
};
/* The path must be live. queue: below queue_count of path_info. */
void mpath_path_queue_info(const struct mpath *mpath, unsigned index, unsigned queue,
			   struct path_queue_info *ret_info);
/* The ANA state on that path of the group that the namespace is in. */
enum ana_state mpath_path_ana(const struct mpath *mpath, unsigned index, uint32_t nsid);
enum path_policy mpath_policy(const struct mpath *mpath);
struct mpath_hedge_stats {
	uint64_t reads;        /* answered reads */
	uint64_t twins;        /* twins that were sent */
	uint64_t wins;         /* twins that answered first */
	uint64_t threshold_ns; /* UINT64_MAX: too few reads are known yet */
};
/* All zero if reads are not hedged. */
void mpath_hedge_stats(const struct mpath *mpath, struct mpath_hedge_stats *ret_stats);
/* Identity of the first controller that became live. NULL before `ready`. */
const struct ctrl_identity *mpath_identity(const struct mpath *mpath);

/* The namespace that has the NSID now, or NULL. Valid until mpath_close. When another namespace
 * gets the NSID, commands for this one end with MPATH_STALE. */
struct mpath_ns *mpath_ns_find(struct mpath *mpath, uint32_t nsid);
/* The namespace with the lowest NSID above nsid (0: the first), or NULL. */
struct mpath_ns *mpath_ns_next(struct mpath *mpath, uint32_t nsid);
void mpath_ns_info(const struct mpath_ns *ns, struct ns_info *ret_info);

enum mpath_result {
	MPATH_OK,
	MPATH_STATUS, /* the controller reported an error: io->status */
	/* No usable path for fast_io_fail_ms: the command has not run and will not run. A command
	 * that may have changed something before, on a path that was lost, ends with MPATH_UNKNOWN
	 * instead. */
	MPATH_NO_PATH,
	MPATH_UNKNOWN, /* outcome unknown: may have run, will not run any more */
	MPATH_GONE,    /* the namespace was removed */
	/* Another namespace has the NSID now. The command was not sent to the new namespace; it may
	 * have run on the old one. Or the command was made for another block size than the
	 * namespace has: then it has not run. */
	MPATH_STALE,
	/* Of a flush that the controller has answered with success: the target had lost
	 * acknowledged writes before the flush. Reported once to each user; see losses_told. */
	MPATH_LOST,
};

/* One command, embedded in the caller's object. The mpath owns it from submit until done. */
struct mpath_io {
	struct nvme_sqe sqe; /* opcode and CDWs; the mpath fills in NSID */
	/* The Write that is fused to this Compare. Both are sent on one queue, one after the other.
	 * done of the Compare is called when both have ended; the Write's done is not called. Only
	 * the Compare is given to mpath_submit. */
	struct mpath_io *fused_write;
	enum host_data_direction direction;
	const struct iovec *iov; /* the array and its memory stay valid until done */
	unsigned iov_count;
	uint32_t data_bytes;
	/* The block size for which the LBAs and counts in sqe were computed. 0: the command names
	 * no blocks. After a format with another block size the same LBAs name other bytes. */
	uint32_t block_bytes;
	/* Of a flush: the latest loss of writes that the user was notified of, at first the result
	 * of loss_told. In done with MPATH_LOST: the loss that the user is notified of now. */
	uint64_t losses_told;
	uint64_t flush_failed; /* of a flush: number of the user's latest failed one; 0: none */
	void (*done)(struct mpath_io *io);
	/* Valid in done. */
	enum mpath_result result;
	nvme_status status;
	uint64_t dwords;  /* DW0 and DW1 of the completion */
	uint8_t attempts; /* 1: the first attempt was answered */
	uint64_t flush;   /* of a flush: its number, see host/loss.h */
	uint64_t seen;    /* result of loss_seen when it was sent */
	/* The fields below are used by the engine only. */
	struct mpath_ns *ns;
	struct path *path;
	struct host_cmd cmd;
	struct list node;
	struct mpath_io *fused_first; /* of a fused_write: its Compare */
	uint64_t submitted_ns;
	uint64_t sent_ns;
	uint64_t retry_at_ns;
	uint8_t retries_left;
	uint8_t path_tries; /* answers that sent the command to another path */
	uint8_t cmds_busy;  /* commands in flight; 2 for a fused pair */
	uint8_t shun_slot;  /* slot of the path that corrupted the data, or MPATH_PATHS_MAX */
	uint16_t queue;     /* index of the path's I/O queue */
	bool may_have_run;
	bool is_looking;        /* delayed until the path has rescanned its namespaces */
	bool is_hedged;         /* has had a twin */
	struct hedge *hedge;    /* the twin while it is in flight */
	struct list hedge_node; /* in the list of reads that may get a twin */
};

/* Submits a command. Errors are reported through done, never from inside this call. */
void mpath_submit(struct mpath_ns *ns, struct mpath_io *io);
/* Submits an admin command on any live path, by the rules of resend.h. ns may be NULL in done. */
void mpath_submit_admin(struct mpath *mpath, struct mpath_io *io);

#endif

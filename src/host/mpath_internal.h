/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the multipath engine: an mpath, its paths, its namespaces, its fences. All
 * of it belongs to the reactor given to mpath_open and is touched only by that reactor's thread.
 *
 * A command (struct mpath_io) is at one of five places, by its node: in flight on a path, held by a
 * fence, waiting at its namespace for a usable path, delayed until a retry, or ended and waiting
 * for the end of the turn. A path keeps its slot (a small number) as long as it exists. Namespaces
 * store their state of a path by its slot.
 */
#ifndef WEFT_HOST_MPATH_INTERNAL_H
#define WEFT_HOST_MPATH_INTERNAL_H

#include "host/mpath.h"

/* Of one subsystem. A controller that lists more is faulty. */
#define MPATH_NS_MAX        65536
#define MPATH_IO_QUEUES_MAX 64
#define IO_RETRIES          5  /* retries after statuses that ask for a retry */
#define IO_BLIND_DELAY_MS   10 /* retry interval of a command that waits for a scan */
/* Least time before a log or list that a status contradicts is read again. */
#define PATH_REREAD_MS 100
#define PATH_ANATT_MS  10000 /* if the controller reports no ANATT */

struct fence;
struct hedge_engine;

/* One ANA group as one path reports it. */
struct path_group {
	uint32_t id;
	enum ana_state state;
	uint64_t since_ns; /* when the state was set; used for ANA_CHANGE */
	/* In ANA_CHANGE for longer than ANATT: counts as inaccessible until another state is
	 * reported. */
	bool is_overdue;
};

/* State of reading the ANA log; see path_ana.c. */
struct path_ana {
	struct path_group *groups; /* ascending by id; group_count used of group_room */
	unsigned group_count;
	unsigned group_room;
	uint8_t *log; /* log_bytes long; grows with the lists of namespaces */
	uint32_t log_bytes;
	uint32_t first_bytes; /* length of the first piece */
	/* Result of walking the pieces read so far: number of descriptors and of NSIDs, and the
	 * offset of the next descriptor. */
	uint32_t walked_groups;
	uint32_t walked_nsids;
	uint32_t walked_bytes;
	uint32_t offset; /* of the piece that is being read */
	uint32_t wanted_bytes;
	uint64_t change_count;
	bool is_busy;
	bool is_again;  /* another reading was requested during this one */
	bool is_check;  /* the header is being read again, to detect changes */
	unsigned moves; /* consecutive readings during which the log changed */
	struct host_cmd cmd;
	struct reactor_timer transition_timer;
	struct reactor_timer reread_timer;
	uint64_t read_ns; /* when a reading was last started */
};

/* State of reading the namespaces; see path_scan.c. */
enum scan_step {
	SCAN_IDLE,
	SCAN_BEHAVIOR, /* set Host Behavior Support: enable retry delays */
	SCAN_CHANGED,  /* read log 04h */
	SCAN_LIST,     /* read the list, CNS 02h */
	SCAN_LOOKING   /* identify namespaces, CNS 00h and 03h, several at once */
};

struct path_scan {
	enum scan_step step;
	bool is_all;   /* identify every namespace, not only changed ones */
	bool is_again; /* a notice came during the scan: scan again */
	struct host_cmd cmd;
	uint32_t nsids[1024]; /* present page of the list; index: the next to look at */
	uint32_t count;
	uint32_t index;
	uint32_t changed[1024];
	uint32_t changed_count;
	uint8_t changed_tries; /* failed reads of log 04h */
	bool has_unread_log;   /* log 04h reports a change and could not be read */
	/* The controller did not identify a namespace that it lists. */
	bool has_left_out;
	uint8_t again_doublings; /* doublings of the wait until the next attempt */
	uint32_t ns_seen;
	uint32_t number;          /* of this scan: a namespace that it did not see is gone */
	uint32_t refused_unknown; /* refused namespaces without an mpath_ns here */
	uint8_t page[NVME_PAGE_BYTES];
	struct scan_look *looks; /* NULL between scans */
	struct list idle_looks;
	unsigned looks_busy;
	struct reactor_timer again_timer;
};

struct path {
	struct mpath *mpath;
	struct host_addr addr;
	char name[HOST_ADDR_TEXT_BYTES];
	unsigned slot;
	enum path_state state;
	bool is_usable; /* live, and not known to be ending */
	bool is_stable;
	bool is_given_up;
	bool is_removed; /* mpath_remove_path or mpath_close was called */
	bool is_leaving; /* host_disconnect or host_abandon was called */
	bool was_live;   /* ctrl was live, and its loss is not settled */
	bool has_told_reset;
	bool is_barred; /* the last attempt was refused for a live controller */
	struct host_ctrl *ctrl;
	struct ctrl_identity identity; /* of ctrl */
	uint32_t kato_ms;              /* of ctrl; as host_ctrl_kato_ms */
	uint32_t generation;           /* how often the path became live */
	uint64_t live_since_ns;
	uint64_t down_since_ns;
	uint32_t backoff_ms;
	uint64_t retry_at_ns;
	struct reactor_timer retry_timer;
	struct reactor_timer stable_timer;
	char last_error[256];
	struct join_ctrl joined;
	char refusal[JOIN_WHY_BYTES]; /* as in path_info */
	struct fence *fence;          /* for the loss of ctrl; allocated before ctrl is used */
	unsigned other_count;         /* namespaces that differ from those of the other paths */

	struct list in_flight; /* oldest first; without admin commands */
	uint32_t in_flight_count;
	uint32_t admin_count;
	unsigned queue_count;
	unsigned queue_turn;
	uint32_t queue_in_flight[MPATH_IO_QUEUES_MAX];
	/* Used only with more than one queue. With one queue the path's latency holds. */
	struct path_latency queue_latency[MPATH_IO_QUEUES_MAX];
	struct path_latency latency;
	uint64_t picked_ns;
	uint64_t commands;
	uint64_t answered_ns; /* total time of all answered commands */
	uint64_t losses;
	uint64_t fences_by_reset;
	uint64_t fences_by_time;
	int numa_node;
	uint32_t numa_distance;

	struct path_ana ana;
	struct path_scan scan;
};

/* State of a namespace on one path. */
struct ns_on_path {
	bool is_there;
	bool is_unsure; /* listed but not asked about yet: neither there nor gone */
	/* Named by a notice, or a command was refused, and not asked about since. */
	bool is_doubted;
	bool is_other; /* another namespace has this NSID there */
	/* Path error of a controller without ANA: not used until the next path_ana_read. */
	bool is_avoided;
	/* Source of the marks of lost writes that the controller reports. 0: none. */
	uint64_t loss_source;
	uint32_t ana_group;
	uint32_t scan_number;
	/* The block size that this path reported last. Targets that share a namespace adopt a new
	 * format one after the other. */
	uint32_t block_bytes;
};

struct mpath_ns {
	struct mpath *mpath;
	uint32_t nsid; /* 0: stands for the admin queues */
	struct ns_identity identity;
	bool is_gone;
	bool has_rescanned; /* paths were rescanned because the namespace is stale */
	bool has_doubted_mark;
	/* The mark of lost writes in the failed flush that last caused a rescan. */
	uint64_t doubted_mark;
	struct join_ns *joined; /* NULL: stands for the admin queues */
	struct ns_on_path on[MPATH_PATHS_MAX];
	/* By path slot: commands in flight for which io_is_blind holds. */
	uint32_t blind_counts[MPATH_PATHS_MAX];
	/* The usable paths of the best class. Recomputed when a path or its state changes. */
	struct path *candidates[MPATH_PATHS_MAX];
	unsigned candidate_count;
	struct path_policy_state policy;
	struct list waiting;
	struct list waiting_node; /* in mpath->starved while a command waits */
	uint64_t no_path_since_ns;
	struct list retired_node;
};

struct mpath {
	struct reactor *reactor;
	struct mpath_config config;
	struct mpath_callbacks callbacks;
	void *arg;
	struct join *join;
	struct prng prng;
	bool is_ready_told;
	bool is_closing;
	void (*gone)(void *arg);
	void *gone_arg;
	struct path *paths[MPATH_PATHS_MAX]; /* path_count, in the order of their addition */
	unsigned path_count;
	struct ctrl_identity identity;
	bool has_identity;
	struct mpath_ns **ns; /* ascending NSIDs; ns_count used of ns_room */
	unsigned ns_count;
	unsigned ns_room;
	struct list retired; /* namespaces whose NSID another namespace has now */
	struct mpath_ns admin;
	struct list starved; /* namespaces with waiting commands */
	struct list delayed;
	struct list ended;
	struct list fences;
	struct hedge_engine *hedge; /* NULL: reads are not hedged */
	/* Scratch memory of ns_pick. A member, because clearing a local array costs more than the
	 * choice of the path. */
	struct path_sample samples[MPATH_PATHS_MAX];
	unsigned asks;           /* commands of fences in flight */
	struct host_error error; /* of the last path that could not be connected */
	int error_res;
	struct reactor_defer settle; /* calls done of ended commands; completes a close */
	struct reactor_timer ready_timer;
	struct reactor_timer starve_timer;
	struct reactor_timer delay_timer;
};

/* mpath.c */
void mpath_say(struct mpath *mpath, const struct path *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void mpath_on_path_live(struct path *path);
void mpath_on_path_failed(struct path *path, int res, const struct host_error *error);
/* The path has ended for good and is freed in this call. */
void mpath_on_path_gone(struct path *path);

/* mpath_ns.c */
int ns_init(struct mpath *mpath);
void ns_free_all(struct mpath *mpath);
void ns_recompute(struct mpath_ns *ns);
void ns_recompute_all(struct mpath *mpath);
enum ana_state ns_path_state(const struct mpath_ns *ns, const struct path *path);
/* A notice names this namespace: the path is not used for it until the path has seen it again. */
void ns_doubt(struct path *path, uint32_t nsid);
void ns_doubt_all(struct path *path);
/* Whether another namespace has the NSID, on this reactor or another one. */
static inline bool ns_is_stale(const struct mpath_ns *ns)
{
	return ns->joined != NULL && join_ns_is_replaced(ns->joined);
}
/* A command found the namespace stale: rescan all paths, so that this reactor finds the namespace
 * that has the NSID now. */
void ns_on_stale(struct mpath_ns *ns);
/* A path has seen this namespace. 0; -ENOMEM; -EUCLEAN: another path has another namespace under
 * this NSID. */
int ns_seen(struct path *path, uint32_t nsid, const struct ns_identity *identity, uint32_t number);
/* The path's ANA log lists the namespace in this group. */
void ns_set_group(struct path *path, uint32_t nsid, uint32_t group);
/* The path still has the namespace, unchanged. */
void ns_still_there(struct path *path, uint32_t nsid, uint32_t number);
/* The path lists the namespace and could not ask about it: it may be another namespace than
 * before. */
void ns_unsure(struct path *path, uint32_t nsid, uint32_t number);
/* The path's scan has ended: a namespace that the scan did not see is not there. */
void ns_sweep(struct path *path, uint32_t number);
/* The controller has refused a command as if the namespace did not exist: the path is scanned again
 * to find out. */
void ns_missing(struct mpath_ns *ns, struct path *path);
void ns_forget_path(struct path *path);
void ns_stop_avoiding(struct path *path);

/* mpath_io.c */
void io_send(struct mpath_io *io);
void io_end(struct mpath_io *io, enum mpath_result result, nvme_status status);
void io_wake(struct mpath_ns *ns);
void io_starve_arm(struct mpath *mpath);
void io_init(struct mpath *mpath);
/* Picks the queue of the path for the next I/O command. */
unsigned io_queue_pick(struct path *path);
/* Whether the command came back because its controller was lost. */
bool io_is_lost(const struct host_cmd *cmd, const struct path *path);
/* Calls done with the status of io->cmd. */
void io_end_answered(struct mpath_io *io);
/* The fence of the command's lost controller has ended. is_certain: the first copy cannot run any
 * more. */
void io_after_fence(struct mpath_io *io, bool is_certain);

/* mpath_hedge.c */
int hedge_open(struct mpath *mpath);
void hedge_close(struct mpath *mpath);
/* A command was given to its path. A read may get a twin later. */
void hedge_on_sent(struct mpath_io *io);
/* The first copy is back. True: its controller was lost, and the twin decides the result. */
bool hedge_on_back(struct mpath_io *io, bool is_lost);

/* path.c */
int path_create(struct mpath *mpath, const struct host_addr *addr, unsigned slot,
		struct path **ret_path);
void path_connect(struct path *path);
/* Removes the path: `mpath_on_path_gone` follows, not from inside. */
void path_leave(struct path *path);
void path_free(struct path *path);
/* A command came back because the controller is being lost: the path gets no more commands. */
void path_losing(struct path *path);
/* Logs which acknowledged writes were found to be lost, if any. */
void path_losses_tell(const struct path *path);
/* Gives the path's controller up, for the reason in the formatted text. */
void path_fail(struct path *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The namespaces and states of the path are known. */
void path_setup_done(struct path *path);
/* Call after each command that ended. A path that was removed disconnects after its last
 * command. */
void path_command_ended(struct path *path);

/* path_scan.c */
void path_scan_init(struct path *path);
void path_scan_start(struct path *path, bool is_all);
void path_scan_later(struct path *path);
/* Looks at as many namespaces of the list as possible. At the end of the page reads the next page,
 * or ends the scan. */
void path_scan_go_on(struct path *path);
/* The namespace is being identified, or will be in this scan. */
bool path_scan_looks_at(const struct path *path, uint32_t nsid);
void path_scan_stop(struct path *path);
/* No command of the scan may be in flight. */
void path_scan_free(struct path *path);

/* path_ana.c */
void path_ana_init(struct path *path);
void path_ana_free(struct path *path);
/* Reads the log. The first reading of a connection ends with path_setup_done. */
void path_ana_read(struct path *path);
void path_ana_read_later(struct path *path);
void path_ana_stop(struct path *path);
enum ana_state path_ana_state(const struct path *path, uint32_t group);
/* A status reported this state, which counts until the log is read again. True: the state has
 * changed. */
bool path_ana_set(struct path *path, uint32_t group, enum ana_state state);

/* fence.c */
int fence_create(struct path *path);
void fence_hold(struct path *path, struct mpath_io *io);
/* The controller is lost, all its commands are back, and nothing more is sent to it. */
void fence_start(struct path *path, uint64_t last_sent_ns);
void fence_on_path_live(struct mpath *mpath);
void fence_on_path_lost(struct path *path);
void fence_on_path_gone(struct path *path);
void fence_on_event(struct path *path);
/* No command may be waiting for them. */
void fence_free_all(struct mpath *mpath);
void fence_free(struct fence *fence);

#endif

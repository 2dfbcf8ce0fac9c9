/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the multipath engine share: an mpath, its paths, its namespaces, its fences.
 * All of it belongs to the reactor given to mpath_open and is touched only by its thread.
 *
 * A command (struct mpath_io) is at one of five places, by its node: in flight on a path, held by
 * a fence, waiting at its namespace for a usable path, delayed until a retry, or ended and waiting
 * for the end of the turn. A path keeps its slot (a small number) as long as it exists; namespaces
 * keep what they know of a path by its slot.
 */
#ifndef WEFT_HOST_MPATH_INTERNAL_H
#define WEFT_HOST_MPATH_INTERNAL_H

#include "host/mpath.h"

#define MPATH_NS_MAX        65536 /* of one subsystem; a controller that lists more is not believed */
#define MPATH_IO_QUEUES_MAX 64
#define IO_RETRIES          5     /* of statuses that say "try again" */
#define IO_BLIND_DELAY_MS   10    /* until a command is tried again that must wait for a scan */
#define PATH_REREAD_MS      100   /* least time between two looks at what a status contradicts */
#define PATH_ANATT_MS       10000 /* when the controller reports no ANATT */

struct fence;
struct hedge_engine;

/* One ANA group on one path. */
struct path_group {
	uint32_t id;
	enum ana_state state;
	uint64_t since_ns; /* of ANA_CHANGE */
	bool is_overdue;   /* in change for longer than ANATT: inaccessible until it is not */
};

/* Reading the ANA log; path_ana.c. */
struct path_ana {
	struct path_group *groups; /* ascending by id; group_count of group_room */
	unsigned group_count;
	unsigned group_room;
	uint8_t *log; /* log_bytes, which grow with the lists of namespaces */
	uint32_t log_bytes;
	uint32_t first_bytes; /* of the first piece */
	/* What the pieces say of those that follow: whole descriptors, and where the next begins.
	 */
	uint32_t walked_groups;
	uint32_t walked_nsids;
	uint32_t walked_bytes;
	uint32_t offset; /* of the piece that is being read */
	uint32_t wanted_bytes;
	uint64_t change_count;
	bool is_busy;
	bool is_again;  /* something changed while it was read */
	bool is_check;  /* the header is read once more */
	unsigned moves; /* how often in a row it changed under our hands */
	struct host_cmd cmd;
	struct reactor_timer transition_timer;
	struct reactor_timer reread_timer;
	uint64_t read_ns; /* when it was last asked for */
};

/* Reading the namespaces; path_scan.c. */
enum scan_step {
	SCAN_IDLE,
	SCAN_BEHAVIOR, /* Host Behavior Support: delays of retries are wanted */
	SCAN_CHANGED,  /* log 04h */
	SCAN_LIST,     /* CNS 02h */
	SCAN_LOOKING   /* CNS 00h and 03h, of many at once */
};

struct path_scan {
	enum scan_step step;
	bool is_all;   /* every namespace is identified, not only those that changed */
	bool is_again; /* a notice came meanwhile */
	struct host_cmd cmd;
	uint32_t nsids[1024]; /* of the list's page; index is the next one to look at */
	uint32_t count;
	uint32_t index;
	uint32_t changed[1024];
	uint32_t changed_count;
	uint8_t changed_tries;   /* of reading log 04h */
	bool has_unread_log;     /* log 04h, in which a change is told */
	bool has_left_out;       /* the controller would not tell about one that it lists */
	uint8_t again_doublings; /* of the time until it is asked again */
	uint32_t ns_seen;
	uint32_t number;          /* of this scan: what it did not see is gone */
	uint32_t refused_unknown; /* namespaces not joined, of which no path here knows more */
	uint8_t page[NVME_PAGE_BYTES];
	struct scan_look *looks; /* NULL between scans */
	struct list idle_looks;
	unsigned looks_busy;
	struct reactor_timer again_timer;
};

struct path {
	struct mpath *mpath;
	struct net_addr addr;
	char name[NET_ADDR_TEXT_BYTES];
	unsigned slot;
	enum path_state state;
	bool is_usable; /* live, and nothing says that it is being lost */
	bool is_stable;
	bool is_given_up;
	bool is_removed; /* mpath_remove_path, or mpath_close */
	bool is_leaving; /* host_disconnect or host_abandon was called */
	bool was_live;   /* ctrl was: its loss is not settled */
	bool has_told_reset;
	bool is_barred; /* the last attempt was refused for a live controller */
	struct host_ctrl *ctrl;
	struct ctrl_identity identity; /* of ctrl */
	uint32_t kato_ms;              /* of ctrl; as host_ctrl_kato_ms */
	uint32_t generation;           /* counts how often it became live */
	uint64_t live_since_ns;
	uint64_t down_since_ns;
	uint32_t backoff_ms;
	uint64_t retry_at_ns;
	struct reactor_timer retry_timer;
	struct reactor_timer stable_timer;
	char last_error[256];
	struct join_ctrl joined;
	char refusal[JOIN_WHY_BYTES]; /* as in path_info */
	struct fence *fence;          /* for the loss of ctrl; made before anything is sent */
	unsigned other_count;         /* namespaces that are not those of the other paths */

	struct list in_flight; /* oldest first; no admin commands */
	uint32_t in_flight_count;
	uint32_t admin_count;
	unsigned queue_count;
	unsigned queue_turn;
	uint32_t queue_in_flight[MPATH_IO_QUEUES_MAX];
	/* Only with more than one queue: else it is that of the path. */
	struct path_latency queue_latency[MPATH_IO_QUEUES_MAX];
	struct path_latency latency;
	uint64_t picked_ns;
	uint64_t commands;
	uint64_t answered_ns; /* what they took, in all */
	uint64_t losses;
	uint64_t fences_by_reset;
	uint64_t fences_by_time;
	int numa_node;
	uint32_t numa_distance;

	struct path_ana ana;
	struct path_scan scan;
};

/* What a namespace knows of one path. */
struct ns_on_path {
	bool is_there;
	bool is_unsure;  /* not is_there, but listed, and was not asked about yet: not gone */
	bool is_doubted; /* a notice named it, or a command was refused, and it was not asked about
			    since */
	bool is_other;   /* another namespace has this NSID there */
	bool is_avoided; /* an error of the path without ANA; until the next look */
	/* Whose marks of lost writes the controller reports; 0: it does not. */
	uint64_t loss_source;
	uint32_t ana_group;
	uint32_t scan_number;
	/* Targets that share a namespace take on a new format one after the other. */
	uint32_t block_bytes;
};

struct mpath_ns {
	struct mpath *mpath;
	uint32_t nsid; /* 0: the admin queues */
	struct ns_identity identity;
	bool is_gone;
	bool has_rescanned; /* because it was found replaced */
	bool has_doubted_mark;
	uint64_t doubted_mark; /* of lost writes: paths were asked again after a flush had failed */
	struct join_ns *joined; /* NULL: the admin queues */
	struct ns_on_path on[MPATH_PATHS_MAX];
	uint32_t blind_counts[MPATH_PATHS_MAX]; /* io_is_blind, in flight, by path */
	/* The best class of usable paths; recomputed when something changes. */
	struct path *candidates[MPATH_PATHS_MAX];
	unsigned candidate_count;
	struct path_policy_state policy;
	struct list waiting;
	struct list waiting_node; /* on mpath->starved while something waits */
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
	struct path *paths[MPATH_PATHS_MAX]; /* path_count, in the order they were added */
	unsigned path_count;
	struct ctrl_identity identity;
	bool has_identity;
	struct mpath_ns **ns; /* ascending by NSID; ns_count of ns_room */
	unsigned ns_count;
	unsigned ns_room;
	struct list retired; /* namespaces whose NSID is another one's now */
	struct mpath_ns admin;
	struct list starved; /* namespaces with commands that wait */
	struct list delayed;
	struct list ended;
	struct list fences;
	struct hedge_engine *hedge; /* NULL: reads are not hedged */
	/* For the choice of a path; here, because clearing a local one costs more than the choice.
	 */
	struct path_sample samples[MPATH_PATHS_MAX];
	unsigned asks;           /* commands of fences under way */
	struct host_error error; /* of the last path that could not be connected */
	int error_res;
	struct reactor_defer settle; /* done of ended commands; the end of a close */
	struct reactor_timer ready_timer;
	struct reactor_timer starve_timer;
	struct reactor_timer delay_timer;
};

/* mpath.c */
void mpath_say(struct mpath *mpath, const struct path *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void mpath_on_path_live(struct path *path);
void mpath_on_path_failed(struct path *path, int res, const struct host_error *error);
/* The path has ended for good; it is freed. */
void mpath_on_path_gone(struct path *path);

/* mpath_ns.c */
int ns_init(struct mpath *mpath);
void ns_free_all(struct mpath *mpath);
void ns_recompute(struct mpath_ns *ns);
void ns_recompute_all(struct mpath *mpath);
enum ana_state ns_path_state(const struct mpath_ns *ns, const struct path *path);
/* A notice names this namespace: not used there until the path has seen it again. */
void ns_doubt(struct path *path, uint32_t nsid);
void ns_doubt_all(struct path *path);
/* Another namespace has its NSID: on this reactor or another one. */
static inline bool ns_is_stale(const struct mpath_ns *ns)
{
	return ns->joined != NULL && join_ns_is_replaced(ns->joined);
}
/* A command found it stale: this reactor looks for what has its NSID now. */
void ns_on_stale(struct mpath_ns *ns);
/* A path has seen this namespace. -ENOMEM, or -EUCLEAN: it is another one than elsewhere. */
int ns_seen(struct path *path, uint32_t nsid, const struct ns_identity *identity, uint32_t number);
/* The ANA log has it in this group. */
void ns_set_group(struct path *path, uint32_t nsid, uint32_t group);
/* It is known from before and has not changed. */
void ns_still_there(struct path *path, uint32_t nsid, uint32_t number);
/* It is listed, and could not be asked about: perhaps it is another one than before. */
void ns_unsure(struct path *path, uint32_t nsid, uint32_t number);
/* A scan has ended: what it did not see is not there. */
void ns_sweep(struct path *path, uint32_t number);
/* The controller has refused a command as if there were no such namespace: its list will tell. */
void ns_missing(struct mpath_ns *ns, struct path *path);
void ns_forget_path(struct path *path);
void ns_stop_avoiding(struct path *path);

/* mpath_io.c */
void io_send(struct mpath_io *io);
void io_end(struct mpath_io *io, enum mpath_result result, nvme_status status);
void io_wake(struct mpath_ns *ns);
void io_starve_arm(struct mpath *mpath);
void io_init(struct mpath *mpath);
/* For commands of I/O queues: which queue of the path takes the next one. */
unsigned io_queue_pick(struct path *path);
/* It came back because its controller was lost. */
bool io_is_lost(const struct host_cmd *cmd, const struct path *path);
/* Calls done with what io->cmd says. */
void io_end_answered(struct mpath_io *io);
/* The fence of its lost controller is clear. */
void io_after_fence(struct mpath_io *io, bool is_certain);

/* mpath_hedge.c */
int hedge_open(struct mpath *mpath);
void hedge_close(struct mpath *mpath);
/* A command was given to its path; reads may get a twin later. */
void hedge_on_sent(struct mpath_io *io);
/* The first copy is back. True: its controller was lost and the twin goes on alone. */
bool hedge_on_back(struct mpath_io *io, bool is_lost);

/* path.c */
int path_create(struct mpath *mpath, const struct net_addr *addr, unsigned slot,
		struct path **ret_path);
void path_connect(struct path *path);
/* Ends: `mpath_on_path_gone` follows, not from inside. */
void path_leave(struct path *path);
void path_free(struct path *path);
/* A command came back because the controller is being lost: no more of them there. */
void path_losing(struct path *path);
/* Says which acknowledged writes were found to be lost. */
void path_losses_tell(const struct path *path);
/* Gives the controller up: it makes no sense. */
void path_fail(struct path *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Its namespaces and states are known. */
void path_setup_done(struct path *path);
/* After a command has ended: a path that leaves waits for the last one. */
void path_command_ended(struct path *path);

/* path_scan.c */
void path_scan_init(struct path *path);
void path_scan_start(struct path *path, bool is_all);
void path_scan_later(struct path *path);
/* Asks about as many namespaces as it may; behind the last one of the list, for more of it. */
void path_scan_go_on(struct path *path);
/* The namespace's page is being read, or will be by this scan. */
bool path_scan_looks_at(const struct path *path, uint32_t nsid);
void path_scan_stop(struct path *path);
/* No command of it is under way. */
void path_scan_free(struct path *path);

/* path_ana.c */
void path_ana_init(struct path *path);
void path_ana_free(struct path *path);
/* The first reading ends with path_setup_done. */
void path_ana_read(struct path *path);
void path_ana_read_later(struct path *path);
void path_ana_stop(struct path *path);
enum ana_state path_ana_state(const struct path *path, uint32_t group);
/* A status told: counts until the log is read again. True: it is news. */
bool path_ana_set(struct path *path, uint32_t group, enum ana_state state);

/* fence.c */
int fence_create(struct path *path);
void fence_hold(struct path *path, struct mpath_io *io);
/* The controller is lost, all its commands are back, nothing more is sent to it. */
void fence_start(struct path *path, uint64_t last_sent_ns);
void fence_on_path_live(struct mpath *mpath);
void fence_on_path_lost(struct path *path);
void fence_on_path_gone(struct path *path);
void fence_on_event(struct path *path);
/* Nothing waits for them any more. */
void fence_free_all(struct mpath *mpath);
void fence_free(struct fence *fence);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of lib/ share. libweft is a thin coat over host/mpath.h: an instance has reactors
 * on threads of its own, a subsystem has a part on each of them, and a part has one mpath. A
 * request is posted to its reactor inside the caller's own memory and delivered from there.
 *
 * Threads: a part belongs to its reactor. What calls of other threads need of a subsystem, its
 * namespaces and their sizes, is under a lock that no request takes, or atomic.
 */
#ifndef WEFT_LIB_LIB_H
#define WEFT_LIB_LIB_H

#include "host/mpath.h"
#include "weft/weft.h"
#include "wire/copy.h"
#include "wire/io_cmd.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- an instance ---------------------------------------------------------------------------- */

struct lib_reactor {
	struct weft *weft;
	struct reactor *reactor;
	pthread_t thread;
	bool is_placed; /* moved near a network card; the reactor's own */
};

struct request_state;

struct weft {
	enum weft_callbacks callbacks;
	bool is_numa_aware;
	bool has_cpus; /* chosen by the user */
	char *sysfs;
	void (*log)(void *arg, int level, const char *line);
	void *log_arg;
	char host_nqn[NVME_NQN_BYTES];
	struct uuid host_id;
	_Atomic unsigned subsystem_count;
	/* WEFT_CALLBACKS_POLL: requests that have ended, newest first; any reactor pushes, the
	 * thread in weft_poll takes them all and keeps what it has not run in `ready`. */
	int event_fd;
	struct request_state *_Atomic ended;
	struct request_state *ready;
	unsigned reactor_count;
	struct lib_reactor reactors[];
};

/* One line to the instance's log callback; level as in base/log.h. */
void lib_log(const struct weft *weft, int level, const char *line);
/* The instance whose reactor runs on this thread, or NULL. */
struct weft *lib_of_thread(void);
/* Text and status into *error, which may be NULL. Returns res. */
int lib_fail(struct weft_error *error, int res, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- a subsystem ---------------------------------------------------------------------------- */

#define PART_CHILDREN      64 /* pieces of split requests under way on one reactor */
#define PART_RANGE_BUFS    4
#define CHILD_IOV_MAX      64
#define RANGE_BUF_BYTES    (NVME_COPY_RANGES_MAX * NVME_COPY_RANGE_BYTES)
#define RANGE_INLINE_BYTES 256

/* A piece of a request that is longer than one command may be. */
struct split_child {
	struct mpath_io io;
	struct request_state *state;
	struct list node; /* free ones */
	uint8_t range[NVME_DSM_RANGE_BYTES];
	struct iovec iov[CHILD_IOV_MAX];
};

/* Encoded ranges that do not fit into the request. */
struct range_buf {
	struct list node;
	uint8_t bytes[RANGE_BUF_BYTES];
};

/* Most blocks of one command; of a subsystem, known once it is open. */
struct lib_limits {
	uint32_t transfer_max_bytes;
	uint32_t write_zeroes_max_bytes; /* 0: as many as the field says */
	uint32_t verify_max_bytes;
	uint32_t deallocate_blocks_max; /* of one range; 0: no limit */
	uint32_t compare_write_blocks;  /* the controller's, where the namespace says nothing */
	bool has_copy;
	bool has_lba_status; /* which blocks are allocated */
};

struct part_ask;

/* A subsystem on one reactor. */
struct part {
	struct reactor *reactor;
	struct weft_subsystem *subsystem;
	unsigned index;
	struct mpath *mpath;
	struct list free_children;
	struct list free_bufs;
	struct list split_waiting; /* request_state.node: for a child */
	struct list range_waiting; /* request_state.node: for a buffer */
	struct split_child *children;
	struct range_buf *bufs;
	struct lib_limits limits;
	/* The question of another thread that is being answered. */
	struct reactor_msg msg;
	struct part_ask *ask;
	int answer;
	struct host_error error;
	struct mpath_io identify_io;
	struct iovec identify_iov;
	uint8_t identify_page[NVME_PAGE_BYTES];
};

/* A namespace of a subsystem, by its identity: another one that gets its NSID is another lib_ns.
 * Lives as long as the subsystem. */
struct lib_ns {
	uint32_t nsid;
	struct join_ns *joined;
	struct lib_ns *older; /* the one that had the NSID before */
	_Atomic uint32_t block_bytes;
	_Atomic uint64_t block_count;
	/* Under the subsystem's lock. */
	struct ns_info info;
};

struct weft_subsystem {
	struct weft *weft;
	struct join *join; /* what the parts know together */
	struct mpath_config config;
	struct net_addr *addrs; /* of weft_open */
	unsigned addr_count;
	int home_node; /* memory node that the reactors are to run on, or -1 */
	void (*event)(void *arg, const char *line);
	void *event_arg;
	struct lib_limits limits;
	pthread_mutex_t ask_lock; /* one question at a time */
	pthread_mutex_t ns_lock;
	struct lib_ns **nss; /* ascending NSIDs; those that have them now */
	unsigned ns_count;
	unsigned part_count;
	struct part parts[];
};

struct weft_ns {
	struct weft_subsystem *subsystem;
	struct lib_ns *ns;
	/* Of the namespace when the handle was opened: what the caller computes LBAs with. */
	uint32_t block_bytes;
	/* The latest loss of acknowledged writes that a flush of this handle has reported. */
	_Atomic uint64_t losses_told;
	uint64_t losses_at_open;       /* what it counted as told when it was opened */
	uint64_t untold_at_open;       /* of loss_told */
	_Atomic uint64_t flush_failed; /* number of its latest flush that failed at the medium */
	/* By reactor, which finds it when it needs it first: the namespace that the handle was
	 * opened for, whatever has its NSID by then. */
	struct mpath_ns *at[];
};

/* Runs fn on the reactor of every part at once, with part->ask->arg at hand, and waits until each
 * has called part_answer. Any thread but a reactor's. */
struct part_ask {
	void (*fn)(struct part *part, void *arg);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t all_answered;
	unsigned left;
};
void subsystem_ask(struct weft_subsystem *subsystem, void (*fn)(struct part *part, void *arg),
		   void *arg);
void part_answer(struct part *part, int res);

/* On the caller's thread: pools. 0 or -ENOMEM. */
int part_init(struct part *part, struct weft_subsystem *subsystem, unsigned index);
void part_free(struct part *part);
/* For subsystem_ask: opens the mpath, closes it. */
void part_open(struct part *part, void *arg);
void part_close(struct part *part, void *arg);

/* What stands in the options, into the subsystem: names, time-outs, addresses. 0 or -errno with a
 * text. */
int open_args_take(struct weft_subsystem *subsystem, const struct weft_open_options *options,
		   struct weft_error *error);
int open_args_resolve(const struct weft_path *path, uint16_t default_port,
		      struct net_addr *ret_addr, struct weft_error *error);
/* Copies an options struct of another version: what the caller has not got stays zero. 0, or
 * -EINVAL when it is not initialised, -E2BIG when it sets what this library does not know. */
int lib_struct_take(void *to, size_t to_bytes, const void *from, size_t from_bytes);

/* Memory nodes; nothing when nobody asked for them. The caller's thread: */
void placement_prepare(struct weft_subsystem *subsystem);
/* The reactor: moves it, and tells the mpath how far its paths are. Reads sysfs, once. */
void placement_apply(struct part *part);
void placement_tell(struct part *part, const struct net_addr *addr);

/* The namespace is new, has changed or has gone. */
void lib_ns_update(struct weft_subsystem *subsystem, const struct ns_info *info);
void lib_ns_free_all(struct weft_subsystem *subsystem);

/* ---- requests ------------------------------------------------------------------------------- */

enum request_plan {
	REQUEST_PLAIN,  /* one command, ready to go */
	REQUEST_SPLIT,  /* several: lib/split.c */
	REQUEST_RANGES, /* one command that needs a buffer for its ranges */
	REQUEST_ADMIN,  /* one command, for the admin queue of any path */
};

struct split {
	uint64_t block;
	uint32_t blocks_left; /* not yet given to a child */
	uint32_t child_blocks;
	unsigned iov_index;
	size_t iov_offset;
	unsigned in_flight;
	enum mpath_result result; /* the first that is not MPATH_OK */
	nvme_status status;
	uint8_t attempts;
};

struct sleeper {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool has_ended;
};

/* weft_request.private_words. */
struct request_state {
	struct reactor_msg msg;
	struct weft_ns *ns;
	struct part *part;
	struct sleeper *sleeper; /* of weft_run; NULL: done is called */
	struct request_state *next;
	struct list node;
	struct range_buf *buf;
	struct iovec iov; /* of encoded data */
	enum request_plan plan;
	uint32_t block_bytes; /* the handle's: requests for another format are refused */
	struct mpath_io io;
	union {
		struct mpath_io write; /* of a fused pair */
		struct split split;
		uint8_t data[RANGE_INLINE_BYTES];
	};
};
_Static_assert(sizeof(struct request_state) <= sizeof(((struct weft_request *)0)->private_words),
	       "private_words of weft.h are too few");

static inline struct request_state *request_state_of(struct weft_request *request)
{
	return (struct request_state *)(void *)request->private_words;
}

static inline struct weft_request *request_of(struct request_state *state)
{
	return container_of(state, struct weft_request, private_words);
}

/* 0, or -EINVAL. state->ns and state->block_bytes are set. */
int request_check(const struct request_state *state, const struct weft_request *request);
/* Fills state->io and says how the request travels. Any thread. */
void request_encode(struct request_state *state);
/* Ranges into state->buf or state->data, and the rest of the command. */
void request_encode_ranges(struct request_state *state, uint8_t *bytes);
int request_submit(struct weft_ns *ns, struct weft_request *request, struct sleeper *sleeper);
/* The namespace of the handle on the part's own reactor, or NULL: the reactor has not heard of it,
 * or has another one under its NSID. */
struct mpath_ns *request_ns(struct request_state *state);
/* Result and status into the request, and the news of it to whom it concerns. */
void request_end(struct request_state *state, int result, nvme_status status, uint8_t attempts);

/* On the reactor. */
void split_start(struct request_state *state);
/* Most blocks of one command of this request. */
uint32_t split_blocks_max(const struct request_state *state, const struct weft_request *request);

#define COMMAND_BLOCKS_MAX 65536 /* the field has no more */

/* Whether one command can carry it; what is short is found without a division. */
static inline bool split_is_needed(const struct request_state *state,
				   const struct weft_request *request)
{
	uint64_t bytes = (uint64_t)request->block_count * state->block_bytes;

	if (request->op <= WEFT_WRITE && request->block_count <= COMMAND_BLOCKS_MAX &&
	    bytes <= state->ns->subsystem->limits.transfer_max_bytes)
		return false;
	return request->block_count > split_blocks_max(state, request);
}

/* The one place where outcomes become errnos; the list is in weft.h. */
int lib_result(enum mpath_result result, nvme_status status);

/* Hands an ended request to the thread in weft_poll. */
void completion_push(struct weft *weft, struct request_state *state);

#endif

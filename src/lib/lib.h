/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of lib/ share. libweft is a thin layer over host/mpath.h: an instance has reactors
 * on threads of its own, a subsystem has a part on each reactor, and a part has one mpath. A
 * request is posted to its reactor inside the caller's own memory and delivered from there.
 *
 * Threads: a part belongs to its reactor. The data of a subsystem that calls on other threads need
 * (its namespaces and their sizes) is atomic or under a lock that no request takes.
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
	bool is_placed; /* moved near a network card; touched only by its reactor */
};

struct request_state;

struct weft {
	enum weft_callbacks callbacks;
	bool is_numa_aware;
	bool has_cpus; /* the user has chosen the CPUs */
	char *sysfs;
	void (*log)(void *arg, int level, const char *line);
	void *log_arg;
	char host_nqn[NVME_NQN_BYTES];
	struct uuid host_id;
	_Atomic unsigned subsystem_count;
	/* WEFT_CALLBACKS_POLL: ended requests, newest first. Any reactor pushes onto `ended`. The
	 * thread in weft_poll takes all of them and keeps those it has not run yet in `ready`. */
	int event_fd;
	struct request_state *_Atomic ended;
	struct request_state *ready;
	unsigned reactor_count;
	struct lib_reactor reactors[];
};

/* Passes one line to the instance's log callback. level as in base/log.h. */
void lib_log(const struct weft *weft, int level, const char *line);
/* The instance whose reactor runs on this thread, or NULL. */
struct weft *lib_of_thread(void);
/* Formats the text of *error, which may be NULL. Returns res. */
int lib_fail(struct weft_error *error, int res, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- a subsystem ---------------------------------------------------------------------------- */

#define PART_CHILDREN      64 /* children in flight on one reactor */
#define PART_RANGE_BUFS    4
#define CHILD_IOV_MAX      64
#define RANGE_BUF_BYTES    (NVME_COPY_RANGES_MAX * NVME_COPY_RANGE_BYTES)
#define RANGE_INLINE_BYTES 256

/* One command of a request that is longer than one command may be. */
struct split_child {
	struct mpath_io io;
	struct request_state *state;
	struct list node; /* in part.free_children */
	uint8_t range[NVME_DSM_RANGE_BYTES];
	struct iovec iov[CHILD_IOV_MAX];
};

/* Encoded ranges that do not fit into the request. */
struct range_buf {
	struct list node;
	uint8_t bytes[RANGE_BUF_BYTES];
};

/* Most blocks or bytes of one command to a subsystem, known once the subsystem is open. */
struct lib_limits {
	uint32_t transfer_max_bytes;
	uint32_t write_zeroes_max_bytes; /* 0: as many as the field of the command holds */
	uint32_t verify_max_bytes;
	uint32_t deallocate_blocks_max; /* in one range; 0: no limit */
	/* The controller's limit, used where the namespace reports none. */
	uint32_t compare_write_blocks;
	bool has_copy;
	bool has_lba_status; /* can report which blocks are allocated */
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
	struct list split_waiting; /* request_state.node: requests that wait for a child */
	struct list range_waiting; /* request_state.node: requests that wait for a buffer */
	struct split_child *children;
	struct range_buf *bufs;
	struct lib_limits limits;
	/* The question of another thread that this part is answering. */
	struct reactor_msg msg;
	struct part_ask *ask;
	int answer;
	struct host_error error;
	struct mpath_io identify_io;
	struct iovec identify_iov;
	uint8_t identify_page[NVME_PAGE_BYTES];
};

/* A namespace of a subsystem, by its identity: another namespace that gets the NSID is another
 * lib_ns. Freed with the subsystem. */
struct lib_ns {
	uint32_t nsid;
	struct join_ns *joined;
	struct lib_ns *older; /* the namespace that had the NSID before */
	_Atomic uint32_t block_bytes;
	_Atomic uint64_t block_count;
	/* Under the subsystem's ns_lock. */
	struct ns_info info;
};

struct weft_subsystem {
	struct weft *weft;
	struct join *join; /* what all parts know together */
	struct mpath_config config;
	struct host_addr *addrs; /* given to weft_open */
	unsigned addr_count;
	int home_node; /* memory node for the reactors, or -1 */
	void (*event)(void *arg, const char *line);
	void *event_arg;
	struct lib_limits limits;
	pthread_mutex_t ask_lock; /* one question at a time */
	pthread_mutex_t ns_lock;
	struct lib_ns **nss; /* ascending NSIDs; the present namespace of each NSID */
	unsigned ns_count;
	unsigned part_count;
	struct part parts[];
};

struct weft_ns {
	struct weft_subsystem *subsystem;
	struct lib_ns *ns;
	/* The namespace's block size when the handle was opened. The caller computes LBAs with this
	 * size. */
	uint32_t block_bytes;
	/* The latest loss of acknowledged writes that a flush of this handle has reported. */
	_Atomic uint64_t losses_told;
	uint64_t losses_at_open;       /* result of loss_told at open */
	uint64_t untold_at_open;       /* *ret_untold of loss_told at open */
	_Atomic uint64_t flush_failed; /* number of the latest flush that failed at the medium */
	/* By reactor: the namespace that the handle was opened for, even if another namespace has
	 * its NSID now. Each reactor fills in its entry at first use. */
	struct mpath_ns *at[];
};

/* A question to all parts. subsystem_ask runs fn with arg on the reactors of all parts at once, and
 * waits until each part has called part_answer. Any thread but a reactor's may ask. */
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

/* Allocates the pools, on the caller's thread. 0 or -ENOMEM. */
int part_init(struct part *part, struct weft_subsystem *subsystem, unsigned index);
void part_free(struct part *part);
/* For subsystem_ask: open and close the part's mpath. */
void part_open(struct part *part, void *arg);
void part_close(struct part *part, void *arg);

/* Takes the options over into the subsystem: names, time-outs, addresses. 0 or -errno with *error
 * filled in. */
int open_args_take(struct weft_subsystem *subsystem, const struct weft_open_options *options,
		   struct weft_error *error);
/* The address is one of TCP. */
int open_args_resolve(const struct weft_path *path, uint16_t default_port,
		      struct host_addr *ret_addr, struct weft_error *error);
/* Copies an options struct of another library version. Fields that the caller's version lacks stay
 * zero. 0, -EINVAL when the caller did not initialise the struct, or -E2BIG when the caller sets a
 * field that this library does not know. */
int lib_struct_take(void *to, size_t to_bytes, const void *from, size_t from_bytes);

/* Finds the memory node for the reactors. Does nothing unless NUMA placement is wanted. On the
 * caller's thread. */
void placement_prepare(struct weft_subsystem *subsystem);
/* On the reactor: moves the reactor's thread to that node, and informs the mpath of the distance of
 * each path. Reads sysfs. */
void placement_apply(struct part *part);
void placement_tell(struct part *part, const struct host_addr *addr);

/* The namespace is new, has changed or is gone. */
void lib_ns_update(struct weft_subsystem *subsystem, const struct ns_info *info);
void lib_ns_free_all(struct weft_subsystem *subsystem);

/* ---- requests ------------------------------------------------------------------------------- */

enum request_plan {
	REQUEST_PLAIN,  /* one command, encoded */
	REQUEST_SPLIT,  /* several: lib/split.c */
	REQUEST_RANGES, /* one command that needs a buffer for its ranges */
	REQUEST_ADMIN,  /* one command for the admin queue of any path */
};

struct split {
	uint64_t block;
	uint32_t blocks_left; /* not yet given to a child */
	uint32_t child_blocks;
	unsigned iov_index;
	size_t iov_offset;
	unsigned in_flight;
	enum mpath_result result; /* the first result that is not MPATH_OK */
	nvme_status status;
	uint8_t attempts;
};

struct sleeper {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool has_ended;
};

/* The layout of weft_request.private_words. */
struct request_state {
	struct reactor_msg msg;
	struct weft_ns *ns;
	struct part *part;
	struct sleeper *sleeper; /* thread in weft_run that waits; NULL: call done */
	struct request_state *next;
	struct list node;
	struct range_buf *buf;
	struct iovec iov; /* of data that the library encoded */
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

/* Checks the request. state->ns and state->block_bytes must be set. 0 or -EINVAL. */
int request_check(const struct request_state *state, const struct weft_request *request);
/* Fills in state->io and state->plan. Any thread. */
void request_encode(struct request_state *state);
/* Encodes the ranges into bytes (state->buf or state->data), and the rest of the command. */
void request_encode_ranges(struct request_state *state, uint8_t *bytes);
int request_submit(struct weft_ns *ns, struct weft_request *request, struct sleeper *sleeper);
/* The handle's namespace on the part's own reactor. NULL: the reactor does not know the namespace
 * yet, or another namespace has its NSID. */
struct mpath_ns *request_ns(struct request_state *state);
/* Stores result, status and attempts in the request, then wakes the sleeper, queues the request for
 * weft_poll or calls done. */
void request_end(struct request_state *state, int result, nvme_status status, uint8_t attempts);

/* Runs on the reactor. */
void split_start(struct request_state *state);
/* Most blocks of one command of this request. */
uint32_t split_blocks_max(const struct request_state *state, const struct weft_request *request);

#define COMMAND_BLOCKS_MAX 65536 /* the NLB field holds no more */

/* Whether one command cannot carry the request. The common short request is decided without a
 * division. */
static inline bool split_is_needed(const struct request_state *state,
				   const struct weft_request *request)
{
	uint64_t bytes = (uint64_t)request->block_count * state->block_bytes;

	if (request->op <= WEFT_WRITE && request->block_count <= COMMAND_BLOCKS_MAX &&
	    bytes <= state->ns->subsystem->limits.transfer_max_bytes)
		return false;
	return request->block_count > split_blocks_max(state, request);
}

/* The only place where outcomes become errnos. weft.h lists the errnos. */
int lib_result(enum mpath_result result, nvme_status status);

/* Hands an ended request to the thread in weft_poll. */
void completion_push(struct weft *weft, struct request_state *state);

#endif

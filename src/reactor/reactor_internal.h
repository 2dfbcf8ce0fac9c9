/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the io_uring reactor, for reactor_uring*.c and reactor_offload.c only.
 *
 * Everything is the reactor's thread's, but for the block marked as shared. Before reactor_run the
 * creating thread may call anything: the ring is still disabled, so requests only queue in the
 * backlog, and reactor_run submits them in order.
 */
#ifndef WEFT_REACTOR_REACTOR_INTERNAL_H
#define WEFT_REACTOR_REACTOR_INTERNAL_H

#include "reactor/reactor.h"
#include "reactor/spin_policy.h"

#include <liburing.h>
#include <sched.h>

#define REACTOR_SQ_ENTRIES      1024u
#define REACTOR_CQ_ENTRIES      8192u
#define REACTOR_CQE_BUDGET      256u /* completions, and timers, per turn */
#define REACTOR_HOT_SCAN_MAX    4u   /* with more hot sockets, poll instead of trying each one */
#define REACTOR_FILES_PER_SPIN  8u   /* file operations under way that lengthen a spin once */
#define REACTOR_STALL_NS        1000000u
#define REACTOR_LATE_NS         10000000u /* a turn so long may have met a deadline */
#define REACTOR_STALL_GROUP     8u        /* callbacks between two looks at the clock */
#define REACTOR_BACKLOG_ENTRIES 64u

/* Requests that the ring has no room for yet, in order. */
struct reactor_backlog {
	struct reactor_backlog *next;
	unsigned head;
	unsigned count;
	struct io_uring_sqe sqes[REACTOR_BACKLOG_ENTRIES];
};

struct reactor_offload;

/* Time spent in a state: single writer (the reactor), read by anyone. */
struct reactor_span {
	_Atomic uint64_t since_ns; /* 0: not in it now */
	_Atomic uint64_t total_ns; /* of the times that are over */
};

struct reactor {
	struct io_uring ring;
	struct reactor_config config;
	uint64_t now_ns;
	bool has_multishot_accept;
	uint32_t cqe_flags; /* of the completion whose callback runs */
	uint8_t *scratch;

	struct reactor_backlog *backlog_first;
	struct reactor_backlog *backlog_last;

	struct reactor_timer *timers;
	struct list deferred;
	struct list hot; /* struct reactor_sock.hot_node */
	unsigned hot_count;
	struct list pollers;

	/* Idleness. `work` counts what this turn found to do. */
	unsigned work;
	/* A reactor that waits for its disks is idle for other stretches than one that waits for
	 * its hosts, so each has a policy; `spin` is the one of this idle stretch. */
	struct spin_policy spin_for_hosts;
	struct spin_policy spin_for_files;
	struct spin_policy *spin;
	uint64_t spin_max_ns;
	unsigned file_ops;  /* under way */
	unsigned dated_ops; /* with a deadline, since the last submit */
	bool has_left;      /* the last submit left requests behind: the kernel took not all */
	bool is_idle;
	bool has_slept; /* since is_idle */
	uint64_t last_work_ns;
	uint64_t spin_window_ns; /* of this idle stretch */
	uint64_t spin_until_ns;
	uint64_t found_ns; /* the turn that found nothing until its flush did; 0: none */

	/* Stall measurement: callbacks since the clock was last read, and what it said. */
	unsigned stall_callbacks;
	uint64_t stall_mark_ns;

	struct reactor_op wake_op;
	uint64_t wake_value;
	struct reactor_offload *offload;
	cpu_set_t creator_cpus; /* where the helper thread may run */

	/* Single writer (the reactor), read by anyone. */
	_Atomic uint64_t turns;
	_Atomic uint64_t sleeps;
	_Atomic uint64_t stalls;
	_Atomic uint64_t posts;
	struct reactor_span run_span;
	struct reactor_span idle_span; /* turns that found no work, sleep included */
	struct reactor_span spin_span; /* of it, up to the first sleep */

	/* Shared with other threads. */
	_Alignas(64) struct reactor_msg *_Atomic post_head; /* newest first */
	_Atomic bool sleeping;
	_Atomic bool stopping;
	_Atomic bool running;
	int wake_fd;
};

static inline void reactor_counter_add(_Atomic uint64_t *counter, uint64_t more)
{
	uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);

	atomic_store_explicit(counter, value + more, memory_order_relaxed);
}

/* On the reactor's thread, or before it runs. */
void reactor_check_thread(const struct reactor *reactor);
/* Accounts for one finished callback. */
void reactor_callback_done(struct reactor *reactor);

/* In sock->armed beside READ and WRITE: the connect is under way, aux_op is its; a zero-copy send
 * is under way, and its result has to come before the file may go. */
#define SOCK_CONNECTING 4u
#define SOCK_SENDING    8u
/* reactor_uring_sock.c: a request of the socket ended. True: it is closing, stop. */
bool reactor_sock_disarm(struct reactor_sock *sock, unsigned event);
/* The last zero-copy send was released: ends a socket whose file is closed already. */
void reactor_sock_released(struct reactor_sock *sock);

/* reactor_uring_ring.c: a request to fill in; never NULL, never lost. user_data: op, or NULL. */
struct io_uring_sqe *reactor_sqe(struct reactor *reactor);
void reactor_sqe_cancel(struct reactor *reactor, struct reactor_op *op);
/* A file operation that the kernel shall not see: its op ends with -ECANCELED. */
void reactor_sqe_drop(struct io_uring_sqe *sqe);
void reactor_backlog_drain(struct reactor *reactor);
void reactor_backlog_free(struct reactor *reactor);
/* Submits what is queued and collects what the kernel holds back, without waiting. */
void reactor_ring_flush(struct reactor *reactor);
/* The same, and waits for one completion or for `timeout_ns` (UINT64_MAX: for ever). */
void reactor_ring_wait(struct reactor *reactor, uint64_t timeout_ns);
/* Runs the callbacks of at most REACTOR_CQE_BUDGET completions. */
void reactor_ring_reap(struct reactor *reactor);

/* reactor_uring_sock.c */
void reactor_hot_run(struct reactor *reactor);
/* Arms the poll of every hot socket, before sleep. */
void reactor_hot_cool_all(struct reactor *reactor);
/* What every TCP connection gets, accepted or made: no delay, and TCP's keep alive. */
void reactor_fd_set_options(int fd);

/* reactor_uring_watch.c */
/* Asks every poller once; what they find is work of this turn. */
void reactor_pollers_run(struct reactor *reactor);
/* Before sleep. False: one of them has work. */
bool reactor_pollers_arm(struct reactor *reactor);

/* reactor_offload.c */
void reactor_offload_destroy(struct reactor *reactor);
void reactor_offload_cancel(struct reactor_op *op);

#endif

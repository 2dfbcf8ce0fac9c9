/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the io_uring reactor, for reactor_uring*.c and reactor_offload.c only.
 *
 * Everything belongs to the reactor's thread, except the block marked as shared. Before reactor_run
 * the creating thread may call any function: the ring is still disabled, so requests only queue in
 * the backlog, and reactor_run submits them in order.
 */
#ifndef WEFT_REACTOR_REACTOR_INTERNAL_H
#define WEFT_REACTOR_REACTOR_INTERNAL_H

#include "reactor/reactor.h"
#include "reactor/spin_policy.h"

#include <liburing.h>
#include <sched.h>

#define REACTOR_SQ_ENTRIES      1024u
#define REACTOR_CQ_ENTRIES      8192u
#define REACTOR_WORKERS_MAX     1024u /* of the kernel, for operations on files that block */
#define REACTOR_CQE_BUDGET      256u  /* completions per turn; the same for timers */
#define REACTOR_HOT_SCAN_MAX    4u    /* with more hot sockets, an empty one goes cold at once */
#define REACTOR_FILES_PER_SPIN  8u    /* file operations in flight per unit of spin scale */
#define REACTOR_STALL_NS        1000000u
#define REACTOR_LATE_NS         10000000u /* a deadline may have passed during a turn this long */
#define REACTOR_STALL_GROUP     8u        /* callbacks between two reads of the clock */
#define REACTOR_BACKLOG_ENTRIES 64u

/* Requests that do not fit into the ring yet, in order. */
struct reactor_backlog {
	struct reactor_backlog *next;
	unsigned head;
	unsigned count;
	struct io_uring_sqe sqes[REACTOR_BACKLOG_ENTRIES];
};

struct reactor_offload;

/* Time spent in a state. Written by the reactor, read by any thread. */
struct reactor_span {
	_Atomic uint64_t since_ns; /* 0: not in this state now */
	_Atomic uint64_t total_ns; /* of completed stays in this state */
};

struct reactor {
	struct io_uring ring;
	struct reactor_config config;
	uint64_t now_ns;
	bool has_multishot_accept;
	uint32_t cqe_flags; /* of the completion whose callback is running */
	uint8_t *scratch;

	struct reactor_backlog *backlog_first;
	struct reactor_backlog *backlog_last;

	struct reactor_timer *timers;
	struct list deferred;
	struct list hot; /* struct reactor_sock.hot_node */
	unsigned hot_count;
	struct list pollers;

	/* Idleness. `work` counts the work found in this turn. */
	unsigned work;
	/* Disks and hosts have different idle times, so each has its own policy. `spin` is the
	 * policy of this idle stretch. */
	struct spin_policy spin_for_hosts;
	struct spin_policy spin_for_files;
	struct spin_policy *spin;
	uint64_t spin_max_ns;
	unsigned file_ops;  /* file operations in flight */
	unsigned dated_ops; /* operations with a deadline since the last submit */
	bool has_left;      /* the kernel did not take all requests of the last submit */
	bool is_idle;
	bool has_slept; /* since is_idle was set */
	uint64_t last_work_ns;
	uint64_t spin_window_ns; /* the longest spin of this idle stretch */
	uint64_t spin_until_ns;
	uint64_t found_ns; /* start of a turn that found no work, if its flush did; otherwise 0 */

	/* Stall measurement: callbacks since the clock was last read, and its value. */
	unsigned stall_callbacks;
	uint64_t stall_mark_ns;

	struct reactor_op wake_op;
	uint64_t wake_value;
	struct reactor_offload *offload;
	cpu_set_t creator_cpus; /* CPUs where helper threads may run */

	/* Written by the reactor, read by any thread. */
	_Atomic uint64_t turns;
	_Atomic uint64_t sleeps;
	_Atomic uint64_t stalls;
	_Atomic uint64_t posts;
	struct reactor_span run_span;
	struct reactor_span idle_span; /* idle stretches, including sleep */
	struct reactor_span spin_span; /* idle stretches up to the first sleep */

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
/* Accounts for one callback that has returned. */
void reactor_callback_done(struct reactor *reactor);

/* Further bits of sock->armed. SOCK_CONNECTING: a connect is in progress and uses aux_op.
 * SOCK_SENDING: a zero-copy send is in progress, whose result must arrive before the file is
 * closed. */
#define SOCK_CONNECTING 4u
#define SOCK_SENDING    8u
/* reactor_uring_sock.c: clears `event` after a request of the socket ended. True: the socket is
 * closing, and the caller must stop. */
bool reactor_sock_disarm(struct reactor_sock *sock, unsigned event);
/* After the last zero-copy send was released: finishes a socket whose file is closed already. */
void reactor_sock_released(struct reactor_sock *sock);

/* reactor_uring_ring.c: returns a request to fill in, never NULL; the request is never lost. Set
 * user_data to the op, or NULL. */
struct io_uring_sqe *reactor_sqe(struct reactor *reactor);
void reactor_sqe_cancel(struct reactor *reactor, struct reactor_op *op);
/* Replaces a file operation so that the kernel does not execute it; its op ends with -ECANCELED. */
void reactor_sqe_drop(struct io_uring_sqe *sqe);
void reactor_backlog_drain(struct reactor *reactor);
void reactor_backlog_free(struct reactor *reactor);
/* Submits queued requests and collects completions that the kernel holds back, without waiting. */
void reactor_ring_flush(struct reactor *reactor);
/* Submits queued requests, then waits for one completion or for `timeout_ns` (UINT64_MAX: no
 * limit). */
void reactor_ring_wait(struct reactor *reactor, uint64_t timeout_ns);
/* Runs the callbacks of at most REACTOR_CQE_BUDGET completions. */
void reactor_ring_reap(struct reactor *reactor);

/* reactor_uring_sock.c */
void reactor_hot_run(struct reactor *reactor);
/* Arms the poll of every hot socket, before sleep. */
void reactor_hot_cool_all(struct reactor *reactor);
/* Sets the options of every TCP connection, accepted or connected: no delay, and keep alive of
 * TCP. */
void reactor_fd_set_options(int fd);

/* reactor_uring_watch.c */
/* Asks every poller once; their work counts as work of this turn. */
void reactor_pollers_run(struct reactor *reactor);
/* Before sleep: arms every poller. False: a poller has work. */
bool reactor_pollers_arm(struct reactor *reactor);

/* reactor_offload.c */
void reactor_offload_destroy(struct reactor *reactor);
void reactor_offload_cancel(struct reactor_op *op);

#endif

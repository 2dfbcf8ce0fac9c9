/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: one reactor is one thread with one io_uring.
 *
 * This header has two implementations, chosen at link time: reactor/reactor_uring*.c for machines,
 * tests/sim/reactor_sim.c for the simulator. All other code uses only this header.
 *
 * A turn: deliver completions of the kernel, messages of other threads and due timers by running
 * their callbacks; ask the pollers; run the deferred functions (one gathered send per connection);
 * submit, and spin or sleep. All callbacks run on the reactor's thread. Only reactor_post and
 * reactor_stop may be called from other threads.
 *
 * Objects given to the reactor (ops, timers, sockets, watches, messages) are embedded in the
 * caller's objects. They must stay valid until their last callback, which each comment names.
 */
#ifndef WEFT_REACTOR_REACTOR_H
#define WEFT_REACTOR_REACTOR_H

#include "base/check.h"
#include "base/list.h"
#include "base/net_addr.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct reactor;

/* ---- life ------------------------------------------------------------------------------- */

struct reactor_config {
	unsigned index;       /* a small number, unique in the process */
	const char *name;     /* of the thread, at most 15 characters; NULL: weft-rINDEX */
	int cpu;              /* CPU to run on; -1: any */
	uint32_t spin_max_us; /* longest busy wait before sleeping; 0: sleep at once */
};

int reactor_create(const struct reactor_config *config, struct reactor **ret_reactor);
/*
 * Runs turns until reactor_stop. The calling thread is the reactor's thread from then on. Before
 * this call the creating thread may open, arm, post and submit; requests queue until the first
 * turn.
 */
void reactor_run(struct reactor *reactor);
/* From any thread. The turn that sees the stop is the last one. */
void reactor_stop(struct reactor *reactor);
/* Call after reactor_run returned, from the thread that created the reactor. No other thread may
 * still be inside reactor_post or reactor_stop: join posting threads first. */
void reactor_destroy(struct reactor *reactor);

/* The reactor whose callback is running on this thread, or NULL. */
struct reactor *reactor_current(void);
unsigned reactor_index(const struct reactor *reactor);
/* Monotonic time, read once per turn. */
uint64_t reactor_now_ns(const struct reactor *reactor);
/* Monotonic time, read now, for measuring. In the simulator the same as reactor_now_ns. */
uint64_t reactor_clock_ns(const struct reactor *reactor);

/*
 * Memory that is valid during one callback: holds what a socket receives until the bytes are
 * parsed. Shared by all connections of the reactor, so an idle connection needs no receive buffer.
 */
#define REACTOR_SCRATCH_BYTES (512 * 1024)
uint8_t *reactor_scratch(struct reactor *reactor);

#define CHECK_OWNER(obj) CHECK((obj)->reactor == reactor_current())

struct reactor_stats {
	uint64_t turns;
	uint64_t sleeps;
	uint64_t stalls; /* groups of up to eight callbacks that took over 1 ms */
	uint64_t posts;
	/* Time since reactor_run, including the present state. The simulator leaves these fields
	 * 0. */
	uint64_t run_ns;
	uint64_t busy_ns; /* part of run_ns in which the reactor had work */
	uint64_t spin_ns; /* part of run_ns spent spinning: waiting for work without sleeping */
};

/* Call on any thread. The values may be inconsistent with each other on other threads; good enough
 * for display. */
void reactor_get_stats(const struct reactor *reactor, struct reactor_stats *ret_stats);

/* ---- messages between reactors ----------------------------------------------------------- */

struct reactor_msg {
	struct reactor_msg *_Atomic next;
	void (*fn)(struct reactor_msg *msg);
};

/* From any thread; cannot fail. The reactor owns `msg` until it calls fn with `msg`. */
void reactor_post(struct reactor *dst, struct reactor_msg *msg,
		  void (*fn)(struct reactor_msg *msg));

/* ---- deferred to the end of the turn ----------------------------------------------------- */

struct reactor_defer {
	struct list node;
	void (*fn)(struct reactor_defer *defer);
};

void reactor_defer_init(struct reactor_defer *defer, void (*fn)(struct reactor_defer *defer));
/* Runs fn once at the end of this turn. A second call in the same turn has no effect. */
void reactor_defer(struct reactor *reactor, struct reactor_defer *defer);
void reactor_defer_cancel(struct reactor_defer *defer);

/* ---- timers -------------------------------------------------------------------------------- */

struct reactor_timer {
	struct reactor *reactor;
	void (*fn)(struct reactor_timer *timer);
	uint64_t deadline_ns;
	/* Links of the pairing heap, owned by the reactor. */
	struct reactor_timer *child;
	struct reactor_timer *next;
	struct reactor_timer *prev;
	bool armed;
};

void reactor_timer_init(struct reactor *reactor, struct reactor_timer *timer,
			void (*fn)(struct reactor_timer *timer));
/* One shot. Arming an armed timer moves it. Never fires before its deadline. */
void reactor_timer_arm(struct reactor_timer *timer, uint64_t deadline_ns);
/* fn is not called after this. No effect when not armed. */
void reactor_timer_cancel(struct reactor_timer *timer);

/* ---- files ---------------------------------------------------------------------------------- */

struct reactor_op {
	struct reactor *reactor;
	/* The last callback. res: the kernel's result, >= 0 or -errno. */
	void (*done)(struct reactor_op *op, int res);
	/* An operation that changes a file is not submitted to the kernel after this time of
	 * reactor_clock_ns and ends with -ECANCELED instead, in case the process was stopped. 0: no
	 * deadline. */
	uint64_t deadline_ns;
	/* Owned by the reactor. */
	int (*work)(struct reactor_op *op);
	bool is_file; /* a file operation in progress */
	bool is_late; /* the deadline passed before the operation reached the kernel */
	uint64_t private_bits;
	struct reactor_msg msg;
};

/* iov must stay valid until done. A result may be short. rw_flags: 0 or flags of pwritev2, such as
 * RWF_DSYNC. */
void reactor_readv(struct reactor *reactor, struct reactor_op *op, int fd, const struct iovec *iov,
		   unsigned iov_count, uint64_t offset);
void reactor_writev(struct reactor *reactor, struct reactor_op *op, int fd, const struct iovec *iov,
		    unsigned iov_count, uint64_t offset, int rw_flags);
void reactor_fdatasync(struct reactor *reactor, struct reactor_op *op, int fd);
void reactor_fallocate(struct reactor *reactor, struct reactor_op *op, int fd, int mode,
		       uint64_t offset, uint64_t len_bytes);
/* Runs `work` (a call that blocks, such as an ioctl) on a helper thread; several run at the same
 * time. `done` gets its result. */
void reactor_offload(struct reactor *reactor, struct reactor_op *op,
		     int (*work)(struct reactor_op *op));
/* Asks the operation to end early. `done` is still called, with -ECANCELED or the real result. */
void reactor_op_cancel(struct reactor_op *op);

/* ---- any descriptor ------------------------------------------------------------------------- */

/* Readiness of descriptors that other code reads and writes, such as an event channel of a device
 * or a netlink socket. */
struct reactor_watch {
	struct reactor *reactor;
	int fd; /* owned by the caller; must stay open at least until `closed` */
	/* Called once per arm with the ready events of poll(2), or -errno. */
	void (*ready)(struct reactor_watch *watch, int events);
	void (*closed)(struct reactor_watch *watch);
	/* Owned by the reactor. */
	struct reactor_op op;
	bool armed;
	bool closing;
	void *sim;
};

/* Arms nothing yet. */
void reactor_watch_open(struct reactor *reactor, struct reactor_watch *watch, int fd,
			void (*ready)(struct reactor_watch *watch, int events));
/* Calls `ready` once when one of these events of poll(2) is ready, never from inside this call. No
 * effect on an armed watch. */
void reactor_watch_arm(struct reactor_watch *watch, unsigned events);
/* `closed` is the last callback and is not called from inside this call. `ready` is not called
 * after this. The descriptor stays open. */
void reactor_watch_close(struct reactor_watch *watch, void (*closed)(struct reactor_watch *watch));

/* ---- pollers -------------------------------------------------------------------------------- */

/*
 * Work that the kernel does not report, such as completions of a device in memory. A poller is
 * asked once per turn. While it has work, the reactor neither spins nor sleeps. Before the reactor
 * sleeps, `arm` must make sure that new work wakes the reactor, for example by a watch.
 */
struct reactor_poller {
	struct list node;
	/* Does the pending work, within the poller's own budget. False: there was no work. */
	bool (*poll)(struct reactor_poller *poller);
	/* False: work has arrived since the last poll, and the reactor does not sleep. */
	bool (*arm)(struct reactor_poller *poller);
};

/* poll and arm must be set. */
void reactor_poller_add(struct reactor *reactor, struct reactor_poller *poller);
/* poll and arm are not called after this. May be called from inside either. */
void reactor_poller_remove(struct reactor_poller *poller);

/* ---- sockets -------------------------------------------------------------------------------- */

enum reactor_sock_event {
	REACTOR_SOCK_READ = 1,  /* data, end of stream or error pending: call reactor_sock_recv */
	REACTOR_SOCK_WRITE = 2, /* there is space to send again after -EAGAIN */
};

struct reactor_sock {
	struct reactor *reactor;
	int fd; /* -1 when closed */
	void (*ready)(struct reactor_sock *sock, unsigned events);
	void (*connected)(struct reactor_sock *sock, int res);
	void (*closed)(struct reactor_sock *sock);
	/* Owned by the reactor. */
	unsigned wanted;
	unsigned armed;
	bool drained;
	bool closing;
	unsigned zc_held; /* number of zero-copy sends that are not released */
	uint64_t hot_until_ns;
	struct list hot_node;
	struct reactor_op poll_op;
	struct reactor_op aux_op;
	void *sim;
};

/*
 * Takes over a connected socket and starts to deliver REACTOR_SOCK_READ. `ready` is called in every
 * turn in which data may be available. `ready` should receive until -EAGAIN or until its budget is
 * used up; in the latter case `ready` is called again in the next turn.
 */
void reactor_sock_open(struct reactor *reactor, struct reactor_sock *sock, int taken_fd,
		       void (*ready)(struct reactor_sock *sock, unsigned events));
/*
 * Starts a connection. `connected` is called once, with 0 or -errno, never from inside this call.
 * After 0 the socket behaves as after reactor_sock_open. After an error the socket is closed,
 * without `closed`.
 */
void reactor_sock_connect(struct reactor *reactor, struct reactor_sock *sock,
			  const struct net_addr *addr,
			  void (*connected)(struct reactor_sock *sock, int res),
			  void (*ready)(struct reactor_sock *sock, unsigned events));
/*
 * Sets the events that `ready` is called for. Clear READ for back-pressure. Set WRITE after
 * -EAGAIN; `ready` is then called repeatedly until WRITE is cleared.
 */
void reactor_sock_want(struct reactor_sock *sock, unsigned events);
/*
 * Returns bytes > 0, 0 at the end of the stream, -EAGAIN when nothing is available, or -errno.
 * Never blocks. 0 and -errno other than -EAGAIN clear READ, so that the end is reported once.
 */
ssize_t reactor_sock_recv(struct reactor_sock *sock, const struct iovec *iov, unsigned iov_count);
ssize_t reactor_sock_send(struct reactor_sock *sock, const struct iovec *iov, unsigned iov_count);
/* Bytes that recv would return without waiting. 0: none, or unknown. */
size_t reactor_sock_available(const struct reactor_sock *sock);
/* Ends sending; the peer sees the end of the stream. */
void reactor_sock_shutdown_send(struct reactor_sock *sock);
/*
 * Closes the socket. `closed` is the last callback and is not called from inside this call.
 * `connected` is not called after this. Zero-copy sends are not cut short: their callbacks come
 * before `closed`, see below.
 */
void reactor_sock_close(struct reactor_sock *sock, void (*closed)(struct reactor_sock *sock));
/* Makes the close discard unsent data and send a reset. */
void reactor_sock_set_abort(struct reactor_sock *sock);
/*
 * Ends the connection with -ETIMEDOUT when the peer's machine acknowledges no sent data for
 * unacked_ms (TCP_USER_TIMEOUT), and makes the kernel probe an idle peer every second. A peer that
 * keeps its window closed for that time counts as gone too. Only for connected sockets. The
 * simulator ignores this call.
 */
void reactor_sock_set_timeout(struct reactor_sock *sock, uint32_t unacked_ms);
/* The smoothed round-trip time that the kernel measures. 0: unknown. Costs a system call. */
uint64_t reactor_sock_rtt_ns(const struct reactor_sock *sock);
int reactor_sock_peer(const struct reactor_sock *sock, struct net_addr *ret_addr);
int reactor_sock_local(const struct reactor_sock *sock, struct net_addr *ret_addr);

/*
 * Sends without copying: the kernel reads the bytes in place when the network card needs them, and
 * again for retransmissions. Two callbacks follow, each once, in this order, never from inside the
 * call.
 *
 * `sent`: the number of bytes taken (may be short), or -errno; -EAGAIN as from reactor_sock_send.
 * Between the call and `sent` nothing else may be sent, and the sending side must not be shut down.
 * The next send, of either kind, may follow at once.
 *
 * `released`: the last callback, also after an error. The bytes must not change before it.
 * was_copied: the kernel copied some of them anyway, as on a loopback device.
 *
 * iov itself must stay valid until `sent`. Several sends may wait for `released`, which comes in
 * any order. Closing the socket does not end them: `sent` and `released` still come, and `closed`
 * after the last of them. A peer that acknowledges nothing is given up 10 s after the close.
 */
struct reactor_send {
	void (*sent)(struct reactor_send *send, int res);
	void (*released)(struct reactor_send *send, bool was_copied);
	/* Owned by the reactor. */
	struct reactor_sock *sock;
	struct reactor_op op;
	struct msghdr msg;
	bool has_bytes; /* the kernel took some bytes */
	void *sim;
};

/* Whether this kernel supports zero-copy sends and reports copies: Linux 6.2. */
bool reactor_can_send_zc(const struct reactor *reactor);
void reactor_sock_send_zc(struct reactor_sock *sock, struct reactor_send *send,
			  const struct iovec *iov, unsigned iov_count);

struct reactor_listener {
	struct reactor *reactor;
	int fd;
	struct net_addr addr; /* as bound, with the real port when port 0 was requested */
	/* Reports a new connection. The callee owns fd: it opens fd on any reactor, or calls
	 * reactor_refuse_fd. */
	void (*accepted)(struct reactor_listener *listener, int taken_fd,
			 const struct net_addr *peer);
	void (*closed)(struct reactor_listener *listener);
	/* Owned by the reactor. */
	struct reactor_op accept_op;
	struct reactor_timer retry_timer; /* waits until file descriptors may be available again */
	bool closing;
	void *sim;
};

int reactor_listener_open(struct reactor *reactor, struct reactor_listener *listener,
			  const struct net_addr *addr,
			  void (*accepted)(struct reactor_listener *listener, int taken_fd,
					   const struct net_addr *peer));
void reactor_listener_close(struct reactor_listener *listener,
			    void (*closed)(struct reactor_listener *listener));
/* Closes an accepted socket that is not used, with a reset. */
void reactor_refuse_fd(int taken_fd);

#endif

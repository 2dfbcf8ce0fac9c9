/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: one reactor = one thread = one io_uring = one CPU.
 *
 * Two implementations of this header exist and are chosen at link time: reactor/reactor_uring*.c
 * for machines, tests/sim/reactor_sim.c for the simulator. Everything above sees only this file.
 *
 * A turn is: deliver what the kernel completed, timers that fell due and messages of other
 * reactors; run the callbacks; ask the pollers; then the deferred functions (one gathered send per
 * connection); then submit, and spin or sleep. All callbacks run on the reactor's thread; only
 * reactor_post and reactor_stop may be called from another one.
 *
 * Objects given to the reactor (ops, timers, sockets, watches, messages) are embedded in the
 * caller's and stay the caller's memory; they must live until their last callback, which each
 * comment names.
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
	unsigned index;       /* small number, unique in the process */
	const char *name;     /* of the thread, at most 15 characters; NULL: weft-r and the index */
	int cpu;              /* CPU to run on, or -1 */
	uint32_t spin_max_us; /* longest busy wait before sleeping; 0 sleeps at once */
};

int reactor_create(const struct reactor_config *config, struct reactor **ret_reactor);
/*
 * Runs turns until reactor_stop; the calling thread is the reactor's thread from then on. Before
 * it, the creating thread may open, arm, post and submit; everything queues until the first turn.
 */
void reactor_run(struct reactor *reactor);
/* From any thread. The turn that sees it is the last one. */
void reactor_stop(struct reactor *reactor);
/* After reactor_run returned, from the thread that created it; no other thread may still be inside
 * reactor_post or reactor_stop: join those that post first. */
void reactor_destroy(struct reactor *reactor);

/* The reactor whose callback is running on this thread, or NULL. */
struct reactor *reactor_current(void);
unsigned reactor_index(const struct reactor *reactor);
/* Monotonic; read once per turn. */
uint64_t reactor_now_ns(const struct reactor *reactor);
/* Monotonic; read now, for measuring. In the simulator the same as reactor_now_ns. */
uint64_t reactor_clock_ns(const struct reactor *reactor);

/*
 * Memory for the length of one callback: what a socket receives before it is parsed. Shared by
 * all connections of the reactor, so an idle connection costs no receive buffer.
 */
#define REACTOR_SCRATCH_BYTES (512 * 1024)
uint8_t *reactor_scratch(struct reactor *reactor);

#define CHECK_OWNER(obj) CHECK((obj)->reactor == reactor_current())

struct reactor_stats {
	uint64_t turns;
	uint64_t sleeps;
	uint64_t stalls; /* runs of up to eight callbacks that held the reactor for over 1 ms */
	uint64_t posts;
	/* Since reactor_run, what is under way included. The simulator, which has no time of its
	 * own, leaves them 0. */
	uint64_t run_ns;
	uint64_t busy_ns; /* of run_ns: not waiting for work, neither awake nor asleep */
	uint64_t spin_ns; /* of run_ns: waiting for work awake, which burns CPU for nothing */
};

/* Racy when read from another thread; good enough to show to people. */
void reactor_get_stats(const struct reactor *reactor, struct reactor_stats *ret_stats);

/* ---- messages between reactors ----------------------------------------------------------- */

struct reactor_msg {
	struct reactor_msg *_Atomic next;
	void (*fn)(struct reactor_msg *msg);
};

/* From any thread; cannot fail. `msg` belongs to the reactor until fn is called with it. */
void reactor_post(struct reactor *dst, struct reactor_msg *msg,
		  void (*fn)(struct reactor_msg *msg));

/* ---- deferred to the end of the turn ----------------------------------------------------- */

struct reactor_defer {
	struct list node;
	void (*fn)(struct reactor_defer *defer);
};

void reactor_defer_init(struct reactor_defer *defer, void (*fn)(struct reactor_defer *defer));
/* Runs fn once at the end of this turn; asking twice in one turn is asking once. */
void reactor_defer(struct reactor *reactor, struct reactor_defer *defer);
void reactor_defer_cancel(struct reactor_defer *defer);

/* ---- timers -------------------------------------------------------------------------------- */

struct reactor_timer {
	struct reactor *reactor;
	void (*fn)(struct reactor_timer *timer);
	uint64_t deadline_ns;
	/* Pairing heap links, the reactor's. */
	struct reactor_timer *child;
	struct reactor_timer *next;
	struct reactor_timer *prev;
	bool armed;
};

void reactor_timer_init(struct reactor *reactor, struct reactor_timer *timer,
			void (*fn)(struct reactor_timer *timer));
/* One shot; arming an armed timer moves it. Never fires before its deadline. */
void reactor_timer_arm(struct reactor_timer *timer, uint64_t deadline_ns);
/* After it, fn is not called. Harmless when not armed. */
void reactor_timer_cancel(struct reactor_timer *timer);

/* ---- files ---------------------------------------------------------------------------------- */

struct reactor_op {
	struct reactor *reactor;
	/* The last callback: res is the kernel's result, >= 0 or -errno. */
	void (*done)(struct reactor_op *op, int res);
	/* What changes a file, by this struct, is not given to the kernel after that time of
	 * reactor_clock_ns, but ends with -ECANCELED: its process may have stood still. 0: never
	 * too late. */
	uint64_t deadline_ns;
	/* The reactor's. */
	int (*work)(struct reactor_op *op);
	bool is_file; /* a file operation that is under way */
	bool is_late; /* it never went to the kernel */
	uint64_t private_bits;
	struct reactor_msg msg;
};

/* iov must stay valid until done; a result may be short. rw_flags: RWF_DSYNC or 0. */
void reactor_readv(struct reactor *reactor, struct reactor_op *op, int fd, const struct iovec *iov,
		   unsigned iov_count, uint64_t offset);
void reactor_writev(struct reactor *reactor, struct reactor_op *op, int fd, const struct iovec *iov,
		    unsigned iov_count, uint64_t offset, int rw_flags);
void reactor_fdatasync(struct reactor *reactor, struct reactor_op *op, int fd);
void reactor_fallocate(struct reactor *reactor, struct reactor_op *op, int fd, int mode,
		       uint64_t offset, uint64_t len_bytes);
/* Runs work (a call that blocks, such as an ioctl) on a helper thread, beside others; done gets its
 * result. */
void reactor_offload(struct reactor *reactor, struct reactor_op *op,
		     int (*work)(struct reactor_op *op));
/* Asks for an early end; done still comes, with -ECANCELED or with the true result. */
void reactor_op_cancel(struct reactor_op *op);

/* ---- any descriptor ------------------------------------------------------------------------- */

/* For descriptors that others read and write: an event channel of a device, a netlink socket. */
struct reactor_watch {
	struct reactor *reactor;
	int fd; /* the caller's, until `closed` at least */
	/* Once for each arm: events of poll(2) that hold, or -errno. */
	void (*ready)(struct reactor_watch *watch, int events);
	void (*closed)(struct reactor_watch *watch);
	/* The reactor's. */
	struct reactor_op op;
	bool armed;
	bool closing;
	void *sim;
};

/* Nothing is awaited yet. */
void reactor_watch_open(struct reactor *reactor, struct reactor_watch *watch, int fd,
			void (*ready)(struct reactor_watch *watch, int events));
/* Calls `ready` once when one of these events of poll(2) holds, never from inside this call. Arming
 * an armed watch changes nothing. */
void reactor_watch_arm(struct reactor_watch *watch, unsigned events);
/* `closed` is the last callback and is not called from inside this call; `ready` is not called any
 * more. The descriptor is left open. */
void reactor_watch_close(struct reactor_watch *watch, void (*closed)(struct reactor_watch *watch));

/* ---- pollers -------------------------------------------------------------------------------- */

/*
 * Work that the kernel does not report: completions of a device in memory, for example. A poller is
 * asked once in every turn; while it has work the reactor neither spins nor sleeps. Before the
 * reactor sleeps, `arm` has to make sure that work wakes it, by a watch for example.
 */
struct reactor_poller {
	struct list node;
	/* Does what there is to do, within a budget of its own. False: there was nothing. */
	bool (*poll)(struct reactor_poller *poller);
	/* False: work has come since the last poll, and the reactor does not sleep. */
	bool (*arm)(struct reactor_poller *poller);
};

/* poll and arm are set. */
void reactor_poller_add(struct reactor *reactor, struct reactor_poller *poller);
/* After it, neither is called; also from inside one of them. */
void reactor_poller_remove(struct reactor_poller *poller);

/* ---- sockets -------------------------------------------------------------------------------- */

enum reactor_sock_event {
	REACTOR_SOCK_READ = 1,  /* data, end of stream or an error waits: call reactor_sock_recv */
	REACTOR_SOCK_WRITE = 2, /* room again after a send answered -EAGAIN */
};

struct reactor_sock {
	struct reactor *reactor;
	int fd; /* -1 when closed */
	void (*ready)(struct reactor_sock *sock, unsigned events);
	void (*connected)(struct reactor_sock *sock, int res);
	void (*closed)(struct reactor_sock *sock);
	/* The reactor's. */
	unsigned wanted;
	unsigned armed;
	bool drained;
	bool closing;
	unsigned zc_held; /* zero-copy sends that are not released */
	uint64_t hot_until_ns;
	struct list hot_node;
	struct reactor_op poll_op;
	struct reactor_op aux_op;
	void *sim;
};

/*
 * Takes a connected socket over and delivers REACTOR_SOCK_READ from now on. `ready` is called in
 * every turn in which there may be data; it should receive until -EAGAIN or until its budget is
 * spent (it is then called again in the next turn).
 */
void reactor_sock_open(struct reactor *reactor, struct reactor_sock *sock, int taken_fd,
		       void (*ready)(struct reactor_sock *sock, unsigned events));
/*
 * Starts a connection; `connected` is called once, with 0 or -errno, never from inside this call.
 * On 0 the socket behaves as after reactor_sock_open; on error it is closed without `closed`.
 */
void reactor_sock_connect(struct reactor *reactor, struct reactor_sock *sock,
			  const struct net_addr *addr,
			  void (*connected)(struct reactor_sock *sock, int res),
			  void (*ready)(struct reactor_sock *sock, unsigned events));
/*
 * Which events `ready` shall hear of. READ off is back-pressure; WRITE on after -EAGAIN, and it is
 * told again and again until switched off.
 */
void reactor_sock_want(struct reactor_sock *sock, unsigned events);
/*
 * > 0 bytes, 0 end of stream, -EAGAIN nothing now, or -errno. Never blocks. 0 and -errno (not
 * -EAGAIN) switch READ off: the end is told once.
 */
ssize_t reactor_sock_recv(struct reactor_sock *sock, const struct iovec *iov, unsigned iov_count);
ssize_t reactor_sock_send(struct reactor_sock *sock, const struct iovec *iov, unsigned iov_count);
/* Bytes that a recv would return without waiting; 0 when unknown. */
size_t reactor_sock_available(const struct reactor_sock *sock);
/* No more sends; the peer sees the end of the stream. */
void reactor_sock_shutdown_send(struct reactor_sock *sock);
/*
 * Ends everything; `closed` is the last callback and may not be called from inside this call.
 * While connecting, `connected` is then not called any more. Zero-copy sends are not cut short:
 * their callbacks come first, see below.
 */
void reactor_sock_close(struct reactor_sock *sock, void (*closed)(struct reactor_sock *sock));
/* Drop unsent data and send a reset when closed (an abrupt end). */
void reactor_sock_set_abort(struct reactor_sock *sock);
/*
 * Ends the connection with -ETIMEDOUT when the peer's machine acknowledges nothing of what was sent
 * for so long (TCP_USER_TIMEOUT), and lets the kernel ask an idle peer every second whether it is
 * there. A peer that keeps its window shut for so long counts as gone too. Connected sockets alone.
 * The simulator ignores it.
 */
void reactor_sock_set_timeout(struct reactor_sock *sock, uint32_t unacked_ms);
/* The smoothed round-trip time as the kernel measures it; 0: unknown. A system call. */
uint64_t reactor_sock_rtt_ns(const struct reactor_sock *sock);
int reactor_sock_peer(const struct reactor_sock *sock, struct net_addr *ret_addr);
int reactor_sock_local(const struct reactor_sock *sock, struct net_addr *ret_addr);

/*
 * A send that does not copy: the kernel reads the bytes where they are, when the network card
 * wants them and again when they have to be repeated. Two callbacks, each once, in this order,
 * never from inside the call:
 *
 *   sent      bytes taken (may be short), or -errno; -EAGAIN as from reactor_sock_send. From the
 *             call until here nothing else may be sent, nor the sending side be shut. The next
 *             send, of either kind, may follow at once.
 *   released  the last one, after an error too: until here the bytes must stay as they are.
 *             was_copied: some of them were copied all the same, as on a loopback device.
 *
 * iov itself must stay until sent. Several sends may wait to be released; they are released in any
 * order. Closing the socket ends nothing of this: `sent` and `released` still come (a peer that
 * acknowledges nothing any more is given up 10 s later), and `closed` after the last of them.
 */
struct reactor_send {
	void (*sent)(struct reactor_send *send, int res);
	void (*released)(struct reactor_send *send, bool was_copied);
	/* The reactor's. */
	struct reactor_sock *sock;
	struct reactor_op op;
	struct msghdr msg;
	bool has_bytes; /* the kernel took some */
	void *sim;
};

/* Whether this kernel can, and tells when it copied: Linux 6.2. */
bool reactor_can_send_zc(const struct reactor *reactor);
void reactor_sock_send_zc(struct reactor_sock *sock, struct reactor_send *send,
			  const struct iovec *iov, unsigned iov_count);

struct reactor_listener {
	struct reactor *reactor;
	int fd;
	struct net_addr addr; /* as bound: the port is known even when 0 was asked for */
	/* A new connection. The callee owns fd; it may open it on any reactor, or refuse_fd. */
	void (*accepted)(struct reactor_listener *listener, int taken_fd,
			 const struct net_addr *peer);
	void (*closed)(struct reactor_listener *listener);
	/* The reactor's. */
	struct reactor_op accept_op;
	struct reactor_timer retry_timer; /* waits out a lack of file descriptors */
	bool closing;
	void *sim;
};

int reactor_listener_open(struct reactor *reactor, struct reactor_listener *listener,
			  const struct net_addr *addr,
			  void (*accepted)(struct reactor_listener *listener, int taken_fd,
					   const struct net_addr *peer));
void reactor_listener_close(struct reactor_listener *listener,
			    void (*closed)(struct reactor_listener *listener));
/* Closes an accepted socket that nobody wants, with a reset. */
void reactor_refuse_fd(int taken_fd);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator: reactors, a clock, a network and files in one thread, all decided by one seed.
 *
 * One simulation exists at a time; reactor_create makes reactors of it. Time moves only in
 * sim_step. Code that a test calls from outside a callback runs between sim_enter and sim_leave,
 * which is a turn of that reactor. TRACE=1 in the environment prints what happens, with the
 * simulated time. The same seed and the same calls give the same run, byte for byte.
 */
#ifndef WEFT_TESTS_SIM_H
#define WEFT_TESTS_SIM_H

#include "base/list.h"
#include "base/net_addr.h"
#include "base/prng.h"
#include "reactor/reactor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_FIRST_FD 1000000

struct sim;

/* Chances are in millionths; 0 is never. */
struct sim_faults {
	uint32_t reset_ppm;      /* per send: the connection is reset, bytes in flight are lost */
	uint32_t stall_ppm;      /* per send: the direction stands still for up to stall_max_us */
	uint32_t half_close_ppm; /* per send: the peer sees the end of the stream after it */
	uint32_t refuse_ppm;     /* per connect: -ECONNREFUSED */
	uint32_t flip_ppm;       /* per send: one bit arrives changed */
	/* Per receive: it gets a byte or two, however much is there; not of what
	 * reactor_sock_available promised. */
	uint32_t slow_ppm;
	uint32_t stall_max_us;
};

/* Every member may be 0, which takes the default in brackets. */
struct sim_options {
	uint32_t latency_max_us;    /* of a segment [50] */
	uint32_t latency_us;        /* of every segment when is_orderly [1] */
	uint32_t post_max_us;       /* of a message between reactors [5] */
	uint32_t file_max_us;       /* of a file operation or offloaded work [200] */
	uint32_t window_max_bytes;  /* most bytes a direction holds; each draws its own [256 KiB] */
	uint32_t segment_max_bytes; /* a send is cut into pieces of at most this [unlimited] */
	uint32_t recv_max_bytes;    /* a receive returns at most this [unlimited] */
	uint32_t connect_timeout_us; /* into a partition [10 s] */
	uint32_t file_short_one_in;  /* reads and writes that end early [never] */
	uint32_t zc_hold_max_us;     /* zero-copy sends: until released, at least half [400] */
	uint32_t zc_refuse_one_in;   /* -ENOMEM or -ENOBUFS [never] */
	uint32_t zc_copied_one_in;   /* copied all the same [never] */
	bool has_no_zc;              /* the kernel is too old for it */
	bool is_orderly;             /* no random cutting: only the limits above and cut_at */
	bool has_cut;                /* each direction's bytes from cut_at on arrive 1 ms later */
	uint64_t cut_at;
	struct sim_faults faults;
};

struct sim *sim_create(uint64_t seed, const struct sim_options *options);
/* Frees everything, reactors too if the test did not destroy them. */
void sim_destroy(struct sim *sim);
/* Open sockets and listeners, armed timers, operations and messages under way. */
unsigned sim_leaks(const struct sim *sim);

uint64_t sim_now(const struct sim *sim);
uint64_t sim_seed(const struct sim *sim);
struct prng *sim_prng(struct sim *sim);

/* Runs the earliest event (with everything that is due for that reactor then). False: none. */
bool sim_step(struct sim *sim);
/* Runs what is due up to that time and leaves the clock there. */
void sim_run_until(struct sim *sim, uint64_t deadline_ns);
/* Runs while pred says so; true when pred ended it, false when limit_ns passed or nothing is left.
 */
bool sim_run_while(struct sim *sim, bool (*pred)(void *arg), void *arg, uint64_t limit_ns);

/*
 * The reactor gets no turn until then, as a process that is stopped: what falls due for it
 * meanwhile waits, and its sockets fill. Files and the network go on. From any other reactor's
 * turn.
 */
void sim_freeze(struct reactor *reactor, uint64_t until_ns);
/* Of nobody's: runs at that time, whoever is frozen. Not from inside; once. */
void sim_at(struct sim *sim, uint64_t at_ns, void (*fn)(void *arg), void *arg);

void sim_enter(struct reactor *reactor);
void sim_leave(struct reactor *reactor);

/* Zeroed; never fail. Given back with free. See sim_alloc.c. */
void *sim_alloc(size_t len_bytes);
void *sim_realloc(void *memory, size_t len_bytes);

void sim_trace(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- processes ------------------------------------------------------------------------------
 *
 * A process owns reactors, sockets and memory, has a clock of its own and can end at any moment.
 * What was made between sim_process_enter and sim_process_leave, and in every turn of its reactors,
 * is its own: reactors, sockets, and what malloc and its kin gave (sim_memory.c), so that all of it
 * goes when the process is killed. A test's own state that must outlive a process comes from
 * sim_alloc. Reactors made outside of any belong to no process and live by the simulation's clock.
 */

struct sim_process;

enum sim_death {
	SIM_DEATH_KILLED, /* the kernel closes its sockets: peers get what was sent, then the end */
	SIM_DEATH_POWER, /* its machine is off: nobody is told; what is sent to it later is reset */
};

/* `name` is copied. Lives until sim_destroy, killed or not; start a new one for the next life. */
struct sim_process *sim_process_create(struct sim *sim, const char *name);
const char *sim_process_name(const struct sim_process *process);
/* Not nested, not inside a turn. */
void sim_process_enter(struct sim_process *process);
void sim_process_leave(struct sim_process *process);
/* Whose turn it is, or who was entered; NULL: nobody. */
struct sim_process *sim_process_current(void);
/* False from the operation on at which it dies, in its last turn already. */
bool sim_process_is_alive(const struct sim_process *process);
/*
 * Its reactors, timers, messages, sockets, listeners and memory are gone when this returns. Outside
 * of its own turns only; from another's turn is well. What it had given to disks is the disks' to
 * decide (`dead` below).
 */
void sim_process_kill(struct sim_process *process, enum sim_death how);
/*
 * Dies at its nth operation from now on (1: the next one). An operation is what others can see: a
 * send, a receive, connect, accept, close, a submit to a medium, a write or sync of a store. That
 * one and all that follow in the same turn have no effect; the process is killed when the turn
 * ends. n 0: it does not.
 */
void sim_process_crash_after(struct sim_process *process, uint64_t n, enum sim_death how);
/* The same at once, from its own turn: what follows in the turn has no effect. As of _exit. */
void sim_process_end(struct sim_process *process, enum sim_death how);
uint64_t sim_process_operations(const struct sim_process *process);
/* For media and stores of the simulator: counts one operation. False: the process is dying, and
 * this has no effect. `process` NULL: always true. */
bool sim_process_operate(struct sim_process *process);
/* Called in a death, before memory goes, in the order of adding; in nobody's turn. Each is off the
 * list by then. Not called by sim_destroy. */
struct sim_mourner {
	struct list node;
	void (*dead)(struct sim_mourner *mourner, struct sim_process *process, enum sim_death how);
};
void sim_process_add_mourner(struct sim_process *process, struct sim_mourner *mourner);
void sim_process_remove_mourner(struct sim_mourner *mourner);
/* All its reactors, as sim_freeze. */
void sim_process_freeze(struct sim_process *process, uint64_t until_ns);
/* When it goes on; 0: it is not frozen. */
uint64_t sim_process_frozen_until(const struct sim_process *process);

/*
 * The process' clock reads offset + (1 + drift_ppm / 1,000,000) * the simulation's; set before its
 * first reactor. It never goes back; a jump moves it on at once.
 */
void sim_process_set_clock(struct sim_process *process, uint64_t offset_ns, int32_t drift_ppm);
void sim_process_jump_clock(struct sim_process *process, uint64_t forward_ns);
/* What it reads now: what reactor_now_ns says in a turn of it. */
uint64_t sim_process_clock_ns(const struct sim_process *process);

/* One allocation in so many is refused from now on, decided by this seed; 0: none is. In turns of
 * its reactors alone, and never of control reactors (index SIM_CONTROL_INDEX or above): what cannot
 * be told there ends the process by design. Needs sim_memory.c. */
#define SIM_CONTROL_INDEX 1000
#define SIM_PEERS_INDEX   1001
void sim_process_refuse_memory(struct sim_process *process, uint32_t one_in, uint64_t seed);
uint64_t sim_process_refused(const struct sim_process *process);
/* Allocations that it holds now; 0 without sim_memory.c. */
uint64_t sim_process_allocations(const struct sim_process *process);

/* ---- network -------------------------------------------------------------------------------
 *
 * AF_UNIX addresses are compared as bytes; their connections have delays and short counts, and no
 * faults: "all" below means TCP.
 */

void sim_net_set_faults(struct sim *sim, const struct sim_faults *faults);
/* Resets every connection to that server address (NULL: all). Returns how many. */
unsigned sim_net_cut(struct sim *sim, const struct net_addr *server);
/*
 * A silent partition from a server address (NULL: all): nothing moves, nobody is told. When it is
 * healed what was sent arrives, as TCP would send it again. Healing ends those of one direction
 * too, and those of all.
 */
void sim_net_partition(struct sim *sim, const struct net_addr *server, bool is_cut);
/* The same in one direction alone: to_server holds what clients send to it, else what it sends. */
void sim_net_partition_one_way(struct sim *sim, const struct net_addr *server, bool to_server,
			       bool is_cut);
/* Each connection to that server (NULL: all) moves at most so many bytes a second, each way; 0: no
 * limit. From the next send on. */
void sim_net_limit(struct sim *sim, const struct net_addr *server, uint64_t bytes_per_s);
/* Ends one direction of every connection to that server: to_server, the server reads the end of the
 * stream; else the clients do. What was sent before arrives. Returns how many. */
unsigned sim_net_half_close(struct sim *sim, const struct net_addr *server, bool to_server);

/*
 * Sees, and may change, every byte that enters the network: `fd` sends len_bytes at this offset of
 * its stream.
 */
typedef void (*sim_net_tap_fn)(void *arg, int fd, uint64_t offset, uint8_t *bytes,
			       size_t len_bytes);
void sim_net_set_tap(struct sim *sim, sim_net_tap_fn fn, void *arg);

enum sim_net_break_kind {
	SIM_NET_RESET,      /* the receiver gets the bytes so far, then the reset */
	SIM_NET_HALF_CLOSE, /* likewise, then the end of the stream */
	SIM_NET_STALL,      /* nothing moves either way for stall_us, nobody is told */
};

/* One connection ends, once: right behind this many bytes (1 or more) of all that clients sent, or
 * servers, over all connections. */
struct sim_net_break {
	enum sim_net_break_kind kind;
	bool is_by_server;
	uint64_t after_bytes;
	uint64_t stall_us;
};
void sim_net_set_break(struct sim *sim, const struct sim_net_break *net_break);
/* A break that was set has not happened yet. */
bool sim_net_has_break(const struct sim *sim);

/* Who has the other end of this socket, dead or alive; NULL: nobody, or it was never connected. */
struct sim_process *sim_net_peer_process(struct sim *sim, int fd);

/* Sockets that are open now (both ends count), and bytes that sockets accepted so far. */
unsigned sim_net_open_count(const struct sim *sim);
unsigned sim_net_listener_count(const struct sim *sim);
uint64_t sim_net_bytes(const struct sim *sim);

/* ---- descriptors beside sockets ------------------------------------------------------------
 *
 * A channel is a descriptor that a test makes ready: what a device's event channel is on a machine.
 * reactor_watch takes no other descriptor here.
 */

int sim_channel_open(struct sim *sim);
/* The events of poll(2) that hold from now on; from anywhere. */
void sim_channel_set(struct sim *sim, int fd, unsigned events);
/* Nobody watches it any more. */
void sim_channel_close(struct sim *sim, int fd);

#endif

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

/* Probabilities in millionths; 0: never. */
struct sim_faults {
	uint32_t reset_ppm;      /* per send: the connection is reset, bytes in flight are lost */
	uint32_t stall_ppm;      /* per send: the direction stalls for up to stall_max_us */
	uint32_t half_close_ppm; /* per send: then the peer reads the end of the stream */
	uint32_t refuse_ppm;     /* per connect: -ECONNREFUSED */
	uint32_t flip_ppm;       /* per send: one bit arrives changed */
	/* Per receive: returns 1 or 2 bytes, however many arrived; at least what
	 * reactor_sock_available promised. */
	uint32_t slow_ppm;
	uint32_t stall_max_us;
};

/* 0 in a member selects the default in brackets. */
struct sim_options {
	uint32_t latency_max_us;     /* of a segment [50] */
	uint32_t latency_us;         /* of every segment when is_orderly [1] */
	uint32_t post_max_us;        /* of a message between reactors [5] */
	uint32_t file_max_us;        /* of a file operation or offloaded work [200] */
	uint32_t window_max_bytes;   /* capacity of a direction; each draws its own [256 KiB] */
	uint32_t segment_max_bytes;  /* a send is cut into pieces of at most this [unlimited] */
	uint32_t recv_max_bytes;     /* a receive returns at most this [unlimited] */
	uint32_t connect_timeout_us; /* for a connect into a partition [10 s] */
	uint32_t file_short_one_in;  /* reads and writes that end short [never] */
	uint32_t zc_hold_max_us;     /* from a zero-copy send to its release; at least half [400] */
	uint32_t zc_refuse_one_in;   /* zero-copy sends: -ENOMEM or -ENOBUFS [never] */
	uint32_t zc_copied_one_in;   /* zero-copy sends whose bytes are copied anyway [never] */
	bool has_no_zc;              /* as on a kernel without zero-copy sends */
	bool is_orderly;             /* no random splitting: only the limits above and cut_at */
	bool has_cut;                /* bytes of each direction from cut_at on arrive 1 ms later */
	uint64_t cut_at;
	struct sim_faults faults;
};

struct sim *sim_create(uint64_t seed, const struct sim_options *options);
/* Frees everything, also reactors that the test did not destroy. */
void sim_destroy(struct sim *sim);
/* Number of open sockets and listeners, armed timers, operations and messages in flight. */
unsigned sim_leaks(const struct sim *sim);

uint64_t sim_now(const struct sim *sim);
uint64_t sim_seed(const struct sim *sim);
struct prng *sim_prng(struct sim *sim);

/* Runs the earliest event and all others of its reactor that are due then. False: no event left. */
bool sim_step(struct sim *sim);
/* Runs all events up to deadline_ns and leaves the clock there. */
void sim_run_until(struct sim *sim, uint64_t deadline_ns);
/* Runs while pred returns true. Returns false after limit_ns, or when no event is left. */
bool sim_run_while(struct sim *sim, bool (*pred)(void *arg), void *arg, uint64_t limit_ns);

/* The reactor gets no turn until until_ns, like a stopped process: its events wait and its sockets
 * fill. Files and the network continue. Call from another reactor's turn. */
void sim_freeze(struct reactor *reactor, uint64_t until_ns);
/* Calls fn once at at_ns, outside of any reactor and process, also while all are frozen. Not to be
 * called inside a turn. */
void sim_at(struct sim *sim, uint64_t at_ns, void (*fn)(void *arg), void *arg);

void sim_enter(struct reactor *reactor);
void sim_leave(struct reactor *reactor);

/* Zeroed memory; never fails. Release with free. See sim_alloc.c. */
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
	SIM_DEATH_KILLED, /* the kernel closes its sockets: peers get what was sent, then its end */
	SIM_DEATH_POWER,  /* machine off: peers get no notice; what they send later is reset */
};

/* `name` is copied. The object stays valid until sim_destroy, also after a kill; create a new one
 * for the next life. */
struct sim_process *sim_process_create(struct sim *sim, const char *name);
const char *sim_process_name(const struct sim_process *process);
/* Not nested, not inside a turn. */
void sim_process_enter(struct sim_process *process);
void sim_process_leave(struct sim_process *process);
/* The process whose turn runs or that was entered; NULL: none. */
struct sim_process *sim_process_current(void);
/* False from the operation on at which the process dies, also in the rest of that turn. */
bool sim_process_is_alive(const struct sim_process *process);
/* On return the process' reactors, timers, messages, sockets, listeners and memory are gone. Call
 * outside of the process' own turns; another process' turn is fine. Operations already submitted to
 * disks are decided by the disk (`dead` below). */
void sim_process_kill(struct sim_process *process, enum sim_death how);
/*
 * The process dies at its nth operation from now on (1: the next one; 0: never). An operation is
 * what others can see: a send, a receive, connect, accept, close, a submit to a medium, a write or
 * sync of a store. The nth operation and all later ones of the same turn have no effect; the
 * process is killed when the turn ends.
 */
void sim_process_crash_after(struct sim_process *process, uint64_t n, enum sim_death how);
/* Ends the process now, from its own turn, like _exit: the turn's later operations are void. */
void sim_process_end(struct sim_process *process, enum sim_death how);
uint64_t sim_process_operations(const struct sim_process *process);
/* For simulated media and stores: counts one operation. False: the process is dying and the
 * operation must have no effect. `process` NULL: always true. */
bool sim_process_operate(struct sim_process *process);
/* Called when a process dies, before its memory is freed, in the order of adding and outside of any
 * turn. The mourner is already off the list. Not called by sim_destroy. */
struct sim_mourner {
	struct list node;
	void (*dead)(struct sim_mourner *mourner, struct sim_process *process, enum sim_death how);
};
void sim_process_add_mourner(struct sim_process *process, struct sim_mourner *mourner);
void sim_process_remove_mourner(struct sim_mourner *mourner);
/* sim_freeze for all reactors of the process. */
void sim_process_freeze(struct sim_process *process, uint64_t until_ns);
/* When the process continues; 0: it is not frozen. */
uint64_t sim_process_frozen_until(const struct sim_process *process);

/* The process' clock reads offset_ns + (1 + drift_ppm / 1,000,000) * simulation time. Set it before
 * the first reactor is created. It never goes back; a jump moves it forward at once. */
void sim_process_set_clock(struct sim_process *process, uint64_t offset_ns, int32_t drift_ppm);
void sim_process_jump_clock(struct sim_process *process, uint64_t forward_ns);
/* The process' clock now: what reactor_now_ns returns in its turns. */
uint64_t sim_process_clock_ns(const struct sim_process *process);

/* From now on one allocation in one_in fails, chosen by `seed`; 0: none. Applies to turns of the
 * process' data reactors only: control reactors (index SIM_CONTROL_INDEX or above) end the process
 * when an allocation fails. Needs sim_memory.c. */
#define SIM_CONTROL_INDEX 1000
#define SIM_PEERS_INDEX   1001
void sim_process_refuse_memory(struct sim_process *process, uint32_t one_in, uint64_t seed);
uint64_t sim_process_refused(const struct sim_process *process);
/* Number of allocations that the process holds now; 0 without sim_memory.c. */
uint64_t sim_process_allocations(const struct sim_process *process);

/* ---- network -------------------------------------------------------------------------------
 *
 * AF_UNIX addresses are compared as bytes; their connections have delays and short counts, and no
 * faults: "all" below means TCP.
 */

void sim_net_set_faults(struct sim *sim, const struct sim_faults *faults);
/* Resets every connection to this server address (NULL: all). Returns their number. */
unsigned sim_net_cut(struct sim *sim, const struct net_addr *server);
/* A silent partition from a server address (NULL: all): no byte moves and no side gets an error.
 * After healing, what was sent arrives, as TCP would retransmit it. Healing also ends one-way
 * partitions, and healing all ends those of single addresses. */
void sim_net_partition(struct sim *sim, const struct net_addr *server, bool is_cut);
/* A partition of one direction: to_server holds what clients send, else what the server sends. */
void sim_net_partition_one_way(struct sim *sim, const struct net_addr *server, bool to_server,
			       bool is_cut);
/* Limits each connection to this server (NULL: all) to bytes_per_s in each direction; 0: no limit.
 * Applies from the next send on. */
void sim_net_limit(struct sim *sim, const struct net_addr *server, uint64_t bytes_per_s);
/* Ends one direction of every connection to this server. to_server: the server reads the end of the
 * stream; otherwise the clients do. Bytes sent before arrive. Returns the number of connections. */
unsigned sim_net_half_close(struct sim *sim, const struct net_addr *server, bool to_server);

/* Called for every byte range that enters the network, and may change it: `fd` sends len_bytes at
 * `offset` of its stream. */
typedef void (*sim_net_tap_fn)(void *arg, int fd, uint64_t offset, uint8_t *bytes,
			       size_t len_bytes);
void sim_net_set_tap(struct sim *sim, sim_net_tap_fn fn, void *arg);

enum sim_net_break_kind {
	SIM_NET_RESET,      /* the receiver gets the bytes up to here, then a reset */
	SIM_NET_HALF_CLOSE, /* the receiver gets the bytes up to here, then the end of the stream */
	SIM_NET_STALL,      /* no byte moves either way for stall_us; no error is reported */
};

/* One connection breaks once: right after this many bytes (1 or more) sent by all clients, or by
 * all servers, over all connections together. */
struct sim_net_break {
	enum sim_net_break_kind kind;
	bool is_by_server;
	uint64_t after_bytes;
	uint64_t stall_us;
};
void sim_net_set_break(struct sim *sim, const struct sim_net_break *net_break);
/* True: the break that was set has not happened yet. */
bool sim_net_has_break(const struct sim *sim);

/* The process that owns the other end of this socket, dead or alive; NULL: none, or never
 * connected. */
struct sim_process *sim_net_peer_process(struct sim *sim, int fd);

/* Open sockets (both ends count), open listeners, and bytes that sockets accepted so far. */
unsigned sim_net_open_count(const struct sim *sim);
unsigned sim_net_listener_count(const struct sim *sim);
uint64_t sim_net_bytes(const struct sim *sim);

/* ---- descriptors beside sockets ------------------------------------------------------------
 *
 * A channel is a descriptor that a test makes ready: what a device's event channel is on a machine.
 * reactor_watch takes no other descriptor here.
 */

int sim_channel_open(struct sim *sim);
/* Sets the poll(2) events of the channel. Call from anywhere. */
void sim_channel_set(struct sim *sim, int fd, unsigned events);
/* The channel must have no watch. */
void sim_channel_close(struct sim *sim, int fd);

#endif

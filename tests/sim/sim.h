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

/* ---- network ------------------------------------------------------------------------------- */

void sim_net_set_faults(struct sim *sim, const struct sim_faults *faults);
/* Resets every connection to that server address (NULL: all). Returns how many. */
unsigned sim_net_cut(struct sim *sim, const struct net_addr *server);
/* Resets the connection that this socket is one end of. */
void sim_net_cut_fd(struct sim *sim, int fd);
/*
 * A silent partition from a server address (NULL: all): nothing moves, nobody is told. When it is
 * healed what was sent arrives, as TCP would send it again.
 */
void sim_net_partition(struct sim *sim, const struct net_addr *server, bool is_cut);
/* Holds what this socket receives for so long. */
void sim_net_stall_fd(struct sim *sim, int fd, uint64_t duration_us);

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

/* Sockets that are open now (both ends count), and bytes that sockets accepted so far. */
unsigned sim_net_open_count(const struct sim *sim);
unsigned sim_net_listener_count(const struct sim *sim);
uint64_t sim_net_bytes(const struct sim *sim);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the simulator's files: event heaps, reactors and the ends of connections. One thread.
 * Only (time, sequence number) decides the order, never addresses.
 */
#ifndef WEFT_TESTS_SIM_INTERNAL_H
#define WEFT_TESTS_SIM_INTERNAL_H

#include "sim.h"

#include "base/clock.h"
#include "base/list.h"

struct sim_event {
	uint64_t at_ns;
	uint64_t sequence;
	void (*fn)(struct sim_event *event); /* NULL: cancelled */
	/* Called instead of fn when the receiving process is dead. May be NULL. */
	void (*drop)(struct sim_event *event);
	void *arg;
	void *arg2;
	struct reactor *reactor;
};

struct sim_heap {
	struct sim_event **events;
	size_t count;
	size_t room;
};

struct sim_process {
	struct sim *sim;
	struct list node; /* sim->processes, in order of creation */
	char *name;
	bool is_dying; /* buried when the turn ends */
	bool is_dead;
	enum sim_death how;
	uint64_t operations;
	uint64_t crash_at; /* this operation has no effect; 0: no crash */
	struct list mourners;
	uint64_t frozen_until_ns; /* 0: never frozen */

	uint64_t clock_offset_ns;
	int32_t clock_drift_ppm;
	uint64_t clock_changes; /* marks timer times computed before a clock jump as stale */

	/* sim_memory.c */
	struct list allocations; /* oldest first */
	uint64_t allocation_count;
	uint32_t refuse_one_in;
	struct prng refuse_prng;
	uint64_t refused;
};

struct reactor {
	struct sim *sim;
	struct sim_process *process; /* NULL: none */
	struct list node;
	unsigned index;
	bool is_stopped;
	uint64_t frozen_until_ns; /* 0: not frozen */
	struct sim_heap heap;
	struct reactor_timer *timers; /* reactor/timer_heap.h */
	unsigned timers_armed;
	/* Simulation time at which the process' clock reads timer_local_ns, for timer_changes clock
	 * changes. */
	uint64_t timer_local_ns;
	uint64_t timer_at_ns;
	uint64_t timer_changes;
	struct list deferred;
	struct list pollers;
	uint64_t last_post_ns;
	uint8_t *scratch;
	struct reactor_stats stats;
};

enum sim_seg_kind {
	SIM_SEG_DATA,
	SIM_SEG_FIN,
	SIM_SEG_RST,
};

struct sim_seg {
	struct list node;
	enum sim_seg_kind kind;
	uint64_t arrive_ns;
	size_t len_bytes;
	size_t done_bytes;
	uint8_t bytes[];
};

/* One end of a connection: its receiving state. Its sending state is in the peer. */
struct sim_end {
	struct sim *sim;
	struct sim_process *process; /* NULL: none */
	int fd;
	struct sim_end *peer;
	struct reactor_sock *sock; /* NULL before opening and after closing */
	struct net_addr local;
	struct net_addr remote;
	struct net_addr server;
	struct list inflight; /* bytes in flight to this end */
	struct list arrived;
	size_t inflight_bytes;
	size_t arrived_bytes;
	size_t window_bytes;
	size_t promised_bytes; /* what reactor_sock_available last returned */
	uint64_t sent_offset;  /* by this end */
	uint64_t last_arrive_ns;
	uint64_t line_free_ns; /* of a limited line to this end: when it can carry the next byte */
	uint64_t stalled_until_ns;
	struct sim_event *deliver_event;
	struct sim_event *ready_event;
	int error;
	bool has_eof;
	bool is_server; /* a listener's side */
	bool is_local;  /* AF_UNIX: no network faults */
	bool is_connecting;
	bool is_closed; /* by its user */
	bool is_fin_sent;
	bool is_abort;
	bool is_zc_sending; /* a zero-copy send is in flight: later bytes must wait */
};

struct sim_listener {
	struct list node;
	struct reactor_listener *listener;
	struct net_addr addr;
};

enum sim_direction {
	SIM_TO_CLIENT,
	SIM_TO_SERVER,
};

struct sim_partition {
	struct list node;
	bool is_all;
	bool is_cut[2]; /* by enum sim_direction */
	struct net_addr server;
};

struct sim_limit {
	struct list node; /* newest first */
	bool is_all;
	struct net_addr server;
	uint64_t bytes_per_s; /* 0: none */
};

struct sim {
	uint64_t seed;
	struct prng prng;
	struct sim_options options;
	uint64_t now_ns;
	uint64_t sequence;
	bool is_traced;
	struct list reactors;
	struct list processes;
	bool has_dying; /* some process must be buried */
	struct sim_heap net_heap;
	unsigned ops_under_way;
	unsigned posts_under_way;

	struct sim_end **ends; /* by fd - SIM_FIRST_FD; NULL for listeners */
	size_t end_count;
	size_t end_room;
	struct list listeners;
	struct list channels;
	struct list partitions;
	struct list limits;
	uint16_t next_port;
	uint16_t next_client_port;
	uint64_t net_bytes;
	sim_net_tap_fn tap;
	void *tap_arg;
	struct sim_net_break net_break;
	uint64_t break_left_bytes; /* 0: no break is set, or it has happened */
};

extern struct sim *sim_now_running;

/* reactor NULL: an event of the network, outside any turn. */
struct sim_event *sim_event_add(struct sim *sim, struct reactor *reactor, uint64_t at_ns,
				void (*fn)(struct sim_event *event), void *arg);
void sim_event_cancel(struct sim_event **event);
/* Random whole microseconds in 0..max, in ns: several events then sometimes share a turn. */
uint64_t sim_delay_ns(struct sim *sim, uint32_t max_us);
bool sim_chance(struct sim *sim, uint32_t ppm);
/* Sets the reactor whose turn runs, NULL: none. Returns the former one, to be restored. */
struct reactor *sim_turn_swap(struct reactor *reactor);
/* Drops all events of a dead process' reactor and frees it. */
void sim_reactor_bury(struct reactor *reactor);

/* The clock of reactors of this process (NULL: none) at simulation time now_ns. */
uint64_t sim_clock_local(const struct sim_process *process, uint64_t now_ns);
/* The earliest simulation time at which that clock reads at least local_ns. */
uint64_t sim_clock_moment(const struct sim_process *process, uint64_t local_ns);
/* Buries processes that died in the turn that ended. */
void sim_process_bury_dying(struct sim *sim);
void sim_process_free_all(struct sim *sim);
static inline bool sim_process_is_dying(const struct sim_process *process)
{
	return process && process->is_dying;
}

/* sim_memory.c, if the program is linked with it. */
void sim_memory_init(void) __attribute__((weak));
void sim_memory_bury(struct sim_process *process) __attribute__((weak));

/* sim_watch_fd.c */

/* Asks the pollers for work and arms them before the reactor waits: schedules another turn when one
 * of them has work. */
void sim_pollers_run(struct reactor *reactor);
unsigned sim_channel_count(const struct sim *sim);
/* Frees the reactor's watches. */
void sim_channels_bury(struct reactor *reactor);
void sim_channels_free(struct sim *sim);

int sim_fd_new(struct sim *sim, struct sim_end *end);
struct sim_end *sim_end_create(struct sim *sim, struct sim_process *process,
			       const struct net_addr *server);
struct sim_end *sim_end_find(struct sim *sim, int fd);
void sim_end_deliver_schedule(struct sim_end *end);
/* True: bytes in this direction are held by a partition. */
bool sim_net_is_held(const struct sim *sim, const struct net_addr *server,
		     enum sim_direction direction);
/* True: clients cannot connect, because either direction is held. */
bool sim_net_is_partitioned(const struct sim *sim, const struct net_addr *server);
uint64_t sim_net_limit_of(const struct sim *sim, const struct sim_end *end);
/* How many of len_bytes this end may send before the pending break. */
size_t sim_net_break_allows(const struct sim_end *end, size_t len_bytes);
/* Counts len_bytes sent by this end. */
void sim_net_break_count(struct sim_end *end, size_t len_bytes);
bool sim_addr_is_unix(const struct net_addr *addr);
bool sim_addr_same(const struct net_addr *a, const struct net_addr *b);
void sim_addr_set_port(struct net_addr *addr, uint16_t port);
ssize_t sim_end_send(struct sim_end *end, const struct iovec *iov, unsigned iov_count);
ssize_t sim_end_recv(struct sim_end *end, const struct iovec *iov, unsigned iov_count);
void sim_end_send_fin(struct sim_end *end);
void sim_end_send_reset(struct sim_end *end);
/* Close by the user: the peer gets an end of stream or a reset. */
void sim_end_close(struct sim_end *end);
/* The end's process is dead. */
void sim_end_bury(struct sim_end *end, enum sim_death how);
void sim_end_reset_both(struct sim_end *end);
size_t sim_end_room(const struct sim_end *end);
/* Schedules `ready` if an event holds that the user wants. */
void sim_end_kick(struct sim_end *end);
/* Ends and listeners of a dead process. */
void sim_net_bury(struct sim *sim, struct sim_process *process, enum sim_death how);
void sim_net_free(struct sim *sim);

#endif

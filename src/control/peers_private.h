/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the cluster share: peers.c (the whole, and what other members ask us),
 * peer_ask.c (what we ask one peer), peer_fence.c (whether it is dead, and making it so),
 * peer_process.c (whether its process runs), peer_pulse.c (whether our own reactors run) and
 * peer_shares.c (the files that we share). Reactor of the peers, but for what says "control".
 */
#ifndef WEFT_CONTROL_PEERS_PRIVATE_H
#define WEFT_CONTROL_PEERS_PRIVATE_H

#include "base/unix_socket.h"
#include "control/peer_link.h"
#include "target/ctrl_reset.h"

#define PEER_ASKED_MAX       32 /* requests that one peer works on at a time */
#define PEER_SHARED_UNSERVED (-1)

/* A request that the peer has. */
struct peer_asked {
	struct ctrl_reset *reset; /* NULL: free */
	uint64_t id;
};

/* ---- peer_process.c -------------------------------------------------------------------------- */

/* The threads of another process that its data path and its answers need, at one moment. */
struct peer_process {
	uint64_t switches;   /* how often any of them was given a CPU, or gave it back */
	unsigned runnable;   /* have a CPU, or wait for one */
	unsigned sleeping;   /* reactors that wait for work */
	unsigned held;       /* reactors that no work would wake: stopped, frozen, in the kernel */
	bool is_answer_held; /* the thread that answers waits for the kernel: a page, a file system
			      */
};

/* 0, or -errno when this process cannot be seen: it is over, or of another PID namespace. */
int peer_process_look(int pidfd, struct peer_process *ret_process);
/* Whether anything of it ran between two looks, or could run if it got a CPU. */
bool peer_process_runs(const struct peer_process *before, const struct peer_process *after);

struct peer {
	struct peers *peers;
	const struct peer_config *config;
	struct peer_link link; /* ours to it */
	struct reactor_timer timer;
	uint64_t dial_ns;       /* when it is tried next */
	uint32_t backoff_ms;    /* how long after the next failure */
	uint64_t down_since_ns; /* of the link */
	uint64_t pinged_ns;
	bool is_silent; /* up, and does not answer */
	/* The process that the last good link led to; stays when that link is gone. -1: unknown. */
	int pidfd;
	uint32_t pid;
	struct list waiting; /* ctrl_reset.node: not sent yet */
	struct peer_asked asked[PEER_ASKED_MAX];
	uint64_t next_id;
	uint64_t owed_since_ns;  /* since when an answer is owed */
	uint64_t stepped_ns;     /* when it was last looked at */
	struct peer_pulse pulse; /* as of its last answer */
	/* Its process, when it was silent for half of answer_ms, and from then on. */
	struct peer_process process;
	uint64_t process_seen_ns; /* 0: not looked at */
	/* Fencing. */
	bool is_killed;
	bool holds_fence;
	bool waits_for_fence;
	uint64_t fence_began_ns;
	struct peer_info info;
};

/* ---- peer_shares.c --------------------------------------------------------------------------- */

/* A file that a subsystem shares with other members. */
struct peer_shared {
	struct peer_share *share; /* control's */
	int fd;                   /* for media/member_lock.h; -1: its locks cannot be asked */
	int subsystem;            /* index of its name, or PEER_SHARED_UNSERVED */
	bool is_writable;
};

/* Immutable once published. */
struct peer_shares {
	struct list node; /* control's: peers->tables */
	struct reactor *control;
	struct reactor_msg msg;
	char (*names)[NVME_NQN_BYTES]; /* of subsystems; one may come twice */
	unsigned name_count;
	unsigned count;
	struct peer_shared entries[];
};

/* Control. */
void peers_shares_free(struct peers *peers);

/* ---- peer_pulse.c ---------------------------------------------------------------------------- */

/* A message to one of our reactors, to see whether it takes it. */
struct peer_probe {
	struct reactor_msg msg;
	struct reactor *reactor;
	_Atomic bool is_out; /* posted, and not taken yet */
	uint64_t waited_ns;  /* how long it has been out, as far as we ran ourselves */
};

struct peer_probes {
	struct reactor_timer timer; /* armed while one is out */
	uint64_t counted_ns;        /* up to when waited_ns counts */
	unsigned count;
	struct peer_probe *probes; /* of the data reactors, in order */
};

int peer_probes_init(struct peers *peers, struct reactor *const *reactors, unsigned count);
void peer_probes_free(struct peers *peers);
/* What our reactors are doing; asks them again. */
void peer_probes_ask(struct peers *peers, struct peer_pulse *ret_pulse);
bool peer_probes_are_out(const struct peers *peers);

struct peers {
	struct reactor *reactor; /* of the peers: a thread that does nothing else */
	struct reactor *control;
	struct reactor *registry; /* the first data reactor */
	struct peers_config config;
	struct peer_self self;
	struct peer_shares *_Atomic shares; /* NULL: nothing is known of any file */

	/* Control's. */
	struct target *target;
	struct list files;  /* struct peer_share.node */
	struct list tables; /* struct peer_shares.node: published, or on the way back */
	void (*started)(void *arg, int res, const char *error);
	void *started_arg;
	char start_error[256];
	int start_res;
	void (*gone)(void *arg);
	void *gone_arg;
	void (*target_over)(void *arg);
	void *target_over_arg;
	struct reactor_msg start_msg, deaf_msg, leave_msg, end_msg;

	/* Of the reactor of the peers. */
	struct target *served; /* the target, while it answers */
	struct reactor_listener listener;
	bool is_listening;
	struct unix_name name; /* of the Unix socket that it listens on */
	struct list incoming;  /* struct incoming.node */
	unsigned incoming_count;
	unsigned served_count; /* requests of others that the target works on */
	struct peer_probes probes;
	bool asks_no_more;
	bool is_target_over; /* it has shut down: none of its controllers is left */
	bool has_told_over;  /* control knows that the target has nothing of ours */
	bool is_stopping;
	bool has_posted_gone;
	struct peer peers[PEERS_MAX];
};

/* ---- peer_ask.c ------------------------------------------------------------------------------ */

void peer_init(struct peer *peer, struct peers *peers, const struct peer_config *config);
void peer_begin(struct peer *peer);
void peer_fail_all(struct peer *peer);
/* peers_maybe_gone follows. */
void peer_stop(struct peer *peer);
bool peer_is_stopped(const struct peer *peer);
void peer_ask_reset(struct peer *peer, struct ctrl_reset *reset);
/* Tells who asked, on the reactor that asked. */
void peer_reset_end(struct ctrl_reset *reset, enum ctrl_reset_result result);
void peer_error(struct peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- peer_fence.c ---------------------------------------------------------------------------- */

enum peer_evidence {
	PEER_EVIDENCE_NONE,  /* nothing tells: another machine, or no file that both serve */
	PEER_EVIDENCE_ALIVE, /* it can still write */
	PEER_EVIDENCE_DEAD,  /* no write of it can come any more */
};

/* By the locks on the files of this subsystem. */
enum peer_evidence peer_evidence(const struct peer *peer, const char *subsystem_nqn);
/* The process that we knew is over. */
bool peer_process_is_over(const struct peer *peer);
/* One step of killing it: 0 when it was killed, -EAGAIN: ask again, or -errno: it cannot be. */
int peer_fence_step(struct peer *peer);
void peer_fence_end(struct peer *peer);

/* ---- peers.c --------------------------------------------------------------------------------- */

void peers_maybe_gone(struct peers *peers);

#endif

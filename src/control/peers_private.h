/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the cluster share: peers.c (the whole, and what others ask us), peer_ask.c
 * (what we ask one peer), peer_fence.c (whether it is dead, and making it so) and peer_watch.c
 * (files that we have shared). Control reactor only.
 */
#ifndef WEFT_CONTROL_PEERS_PRIVATE_H
#define WEFT_CONTROL_PEERS_PRIVATE_H

#include "control/peer_link.h"
#include "target/ctrl_reset.h"

#define PEER_ASKED_MAX 32 /* requests that one peer works on at a time */

/* A request that the peer has. */
struct peer_asked {
	struct ctrl_reset *reset; /* NULL: free */
	uint64_t id;
	uint64_t sent_ns;
};

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
	uint64_t owed_since_ns; /* since when an answer is owed */
	uint64_t stepped_ns;    /* when it was last looked at */
	/* Fencing. */
	bool is_killed;
	bool holds_fence;
	bool waits_for_fence;
	uint64_t fence_began_ns;
	struct peer_info info;
};

struct peers {
	struct reactor *reactor;
	struct peers_config config;
	struct peer_self self;
	struct target *target; /* NULL: not yet, or not any more */
	struct reactor_listener listener;
	bool is_listening;
	struct list watches;  /* struct peer_watch.node */
	struct list incoming; /* struct incoming.node */
	unsigned incoming_count;
	unsigned served_count; /* requests of others that the target works on */
	bool asks_no_more;
	bool is_target_over;            /* it has shut down: none of its controllers is left */
	void (*target_over)(void *arg); /* NULL: nobody waits until it has nothing of ours */
	void *target_over_arg;
	bool is_stopping;
	void (*gone)(void *arg);
	void *gone_arg;
	struct reactor_msg gone_msg;
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

/* ---- peer_watch.c ---------------------------------------------------------------------------- */

/* It holds a file that we have shared and do not serve any more. */
bool peer_can_write_elsewhere(const struct peer *peer);
void peers_watch_free(struct peers *peers);

/* ---- peers.c --------------------------------------------------------------------------------- */

void peers_maybe_gone(struct peers *peers);

#endif

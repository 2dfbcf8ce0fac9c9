/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the cluster share: peers.c (the whole, and what other members ask us),
 * peer_ask.c (what we ask one peer), peer_fence.c (whether it is dead, and making it so),
 * peer_process.c (whether its process runs), peer_pulse.c (whether our own reactors run),
 * peer_shares.c (the files that we share), peer_tell.c (lists of shared namespaces, to and from
 * peers), peer_compare.c (whether all members have the same file under one UUID) and peer_refusal.c
 * (which files were refused, over restarts). Reactor of the peers, but for what says "control".
 */
#ifndef WEFT_CLUSTER_PEERS_PRIVATE_H
#define WEFT_CLUSTER_PEERS_PRIVATE_H

#include "base/unix_socket.h"
#include "cluster/peer_link.h"
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

enum peer_reach {
	PEER_REACH_UNTRIED, /* our first attempt to connect has no result yet */
	PEER_REACH_DOWN,
	PEER_REACH_UP,
};

/* What comes over one link. */
struct peer_listener {
	uint64_t link;          /* its number, in either direction */
	struct peer_told *list; /* the list that is not complete */
};

#define PEER_LINKS 2 /* with one peer: ours to it, and its to us */

/* Up to which list of one link we have compared. */
struct peer_compared {
	_Atomic uint64_t link; /* 0: none. Written by control, as is the generation */
	_Atomic uint64_t generation;
	uint64_t acked_link, acked_generation; /* the same, as the peer knows it */
};

struct peer {
	struct peers *peers;
	const struct peer_config *config;
	struct peer_link link;         /* ours to it */
	struct peer_listener listener; /* of its list, when that comes back over ours */
	struct peer_link *back_link;   /* the newest that it has made; NULL: none is up */
	uint64_t back_number;          /* of that link */
	struct reactor_timer timer;
	uint64_t dial_ns;       /* when it is tried next */
	uint32_t backoff_ms;    /* how long after the next failure */
	uint64_t down_since_ns; /* of the link */
	uint64_t pinged_ns;
	bool is_silent; /* while up: does not answer */
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
	/* Our list of shared namespaces on its way to the peer (peer_tell.c). */
	uint64_t tell_link;       /* number of the link that it goes over */
	uint64_t tell_generation; /* 0: none on this link yet */
	uint32_t tell_next;       /* the first entry that is not sent */
	bool has_told;            /* all of it is sent */
	/* Its list that came last, while a link has been up ever since. */
	uint64_t heard_generation; /* 0: none */
	struct uuid heard_boot_id;
	/* Written by the reactor of the peers, read by control. */
	_Atomic int reach;                /* enum peer_reach */
	_Atomic unsigned links_up;        /* in both directions */
	_Atomic uint64_t heard_ns;        /* when a message came over any of them last */
	_Atomic uint64_t list_link;       /* link that brought its list; 0: that link is down */
	_Atomic uint64_t list_heard_ns;   /* when a message came over that link last */
	_Atomic uint64_t seen_generation; /* of our list, as the peer has compared it */
	/* Lists of the peer that we have compared, of the links that brought the last two: a list
	 * may come over both, and the peer waits for the answer over one of them. */
	struct peer_compared compared[PEER_LINKS];
	unsigned compared_last; /* control's: index of the latest */
};

/* ---- peer_shares.c --------------------------------------------------------------------------- */

/* Why hosts may not use a shared namespace through this member; the weightier the later. */
enum peer_hold {
	PEER_HOLD_NONE,
	PEER_HOLD_PENDING, /* not compared with all members yet */
	PEER_HOLD_UNASKED, /* not the file of before, which a member out of reach may have open */
	PEER_HOLD_FORMAT,  /* another member serves it with another size or block size */
	PEER_HOLD_FILE,    /* another member has another file under the UUID */
};

/* One file. Control reactor. */
struct peer_share {
	struct list node;
	unsigned refs;    /* one of the list, and one of each table */
	struct uuid uuid; /* of the namespace */
	int fd;
	bool is_writable;
	unsigned pass; /* of this look in which it was found last; 0: nothing serves it */
	/* ---- peer_compare.c ---- */
	struct member_file file;
	bool is_in_force; /* of the configuration in force */
	bool is_served;   /* and hosts may use it */
	bool has_served;  /* it was compared with all members once */
	bool is_another;  /* than the file that this member served last */
	/* Members (bits by index) for which another file that this member had under the UUID was
	 * refused, and that have not been asked about this one. */
	uint16_t doubters;
	/* Members (bits by index) that came first with another file: held until one of them has
	 * this file, or the operator decides. */
	uint16_t refusers;
	bool is_refused;          /* one of them served */
	bool is_forgiven;         /* the operator says that this file is the right one */
	uint64_t told_from;       /* generation of the first list that has it; 0: none has */
	uint64_t told_ns;         /* when that list was made */
	struct peer_served entry; /* as told: format in force, and since when */
	enum peer_hold hold;
	unsigned hold_peer;
	uint16_t differs;              /* members (bits by index) that have another file */
	uint16_t has_lock;             /* peers whose lock was seen on this file */
	uint64_t unseen_ns[PEERS_MAX]; /* since when the lock of a peer is missed; 0: not */
	/* ---- peer_refusal.c ---- */
	uint64_t inode, born_ns; /* of the file, as after a restart; 0: not known */
	bool has_kept;           /* the store has a refusal of this UUID, maybe of another file */
	uint16_t kept_refusers;  /* as the store has it of this file */
	bool kept_is_refused;
	/* ---- peer_loss.c ---- */
	struct ns_live *live; /* counted: of the namespace in force or about to be; NULL: none */
	bool has_heard;       /* `heard` was recalled */
	bool has_asked;       /* peer_loss_ask has judged it since it was opened */
	uint64_t heard[PEERS_MAX]; /* by peer: the last mark of its own that was judged; 0: none */
};

/* A file that a subsystem shares with other members. */
struct peer_shared {
	struct peer_share *share; /* control's */
	int fd;                   /* for media/member_lock.h; -1: its locks cannot be asked */
	int subsystem;            /* index of its name, or PEER_SHARED_UNSERVED */
	bool is_writable;
	uint16_t differs; /* members (bits by index) that have another file: its locks tell nothing
			   */
};

/* Immutable once published. */
struct peer_shares {
	struct list node; /* control's: peers->tables */
	struct peers *peers;
	struct reactor_msg msg;
	char (*names)[NVME_NQN_BYTES]; /* of subsystems; one may come twice */
	unsigned name_count;
	/* What peers are told; of a configuration that is about to be applied nothing is. */
	uint64_t generation; /* 0: nothing new */
	struct peer_served *told;
	unsigned told_count;
	unsigned count;
	struct peer_shared entries[];
};

/* Control. */
void peers_shares_free(struct peers *peers);
/* The share of this namespace and its medium; added when there is none. NULL: its file cannot be
 * watched. */
struct peer_share *peers_share_of(struct peers *peers, const struct ns *ns);
/* The table again, because what is told of files has changed. */
void peers_shares_renew(struct peers *peers);

/* ---- peer_tell.c ----------------------------------------------------------------------------- */

/* The list of a peer; sorted by UUID once it is control's. */
struct peer_told {
	struct reactor_msg msg;
	struct peers *peers;
	struct peer *peer;
	uint64_t link;       /* that brought it */
	struct uuid boot_id; /* of the peer's kernel */
	uint64_t generation;
	uint32_t total;
	uint32_t count;
	struct peer_served entries[];
};

#define PEER_LIST_OVER UINT64_MAX /* generation of the list of a member that serves no more */

/* Sends what the peer does not know of our list. False: more is to be sent soon. */
bool peer_tell(struct peer *peer);
/* The same, and sees to the rest. */
void peer_tell_now(struct peer *peer);
/* From the first entry on: the peer may know an older list by now. */
void peer_tell_again(struct peer *peer);
/* A PEER_SEEN of this peer, over the link of this number. */
void peer_seen(struct peer *peer, uint64_t number, struct peer_link *link,
	       const struct peer_frame *frame);
/* A link with it came up, or one that was up is closed, in either direction. */
void peer_linked(struct peer *peer);
void peer_unlinked(struct peer *peer);
/* A PEER_SERVED of this peer; false: the link was closed for it. */
bool peer_hear(struct peer *peer, struct peer_listener *listener, struct peer_link *link,
	       const struct peer_frame *frame);
/* A message came over this link. */
void peer_listener_heard(struct peer *peer, const struct peer_listener *listener);
void peer_listener_end(struct peer *peer, struct peer_listener *listener);
/* Answers PEER_SEEN when control has compared what came over this link. */
void peer_ack(struct peer *peer, const struct peer_listener *listener, struct peer_link *link);
void peer_set_reach(struct peer *peer, enum peer_reach reach);

/* ---- peer_told.c: control -------------------------------------------------------------------- */

/* That a peer may say nothing, and is waited for. */
uint64_t peers_silence_max_ns(const struct peers *peers);
/* NULL: it has told nothing over a link that is up and brings its heartbeats. */
const struct peer_told *peer_told_of(const struct peers *peers, unsigned peer);
/* By UUID, for qsort. */
int peer_served_order(const void *a, const void *b);
/* The entry of the list; NULL: it has none. */
const struct peer_served *peer_told_entry(const struct peer_told *told, const struct uuid *uuid);
/* The peer runs under our kernel. */
bool peer_told_is_near(const struct peers *peers, const struct peer_told *told);

/* ---- peer_compare.c: control ----------------------------------------------------------------- */

void peers_compare_init(struct peers *peers);
/* Something of peers has changed: any reactor. */
void peers_notice(struct peers *peers);
/* A configuration is in force; its shares follow, then the end. */
void peers_compare_look_begin(struct peers *peers);
void peers_compare_look(struct peers *peers, struct peer_share *share, const struct ns *ns);
void peers_compare_look_end(struct peers *peers);
/* The target ends: marks that it has drawn are told before the end of the list is. */
void peers_compare_losses(struct peers *peers);
/* The list of a peer came; takes it over. */
void peers_compare_told(struct reactor_msg *msg);
/* The members that can be reached are waited for, then `started` is called. */
void peers_compare_start(struct peers *peers);
void peers_compare_stop(struct peers *peers);
void peers_compare_free(struct peers *peers);

/* ---- peer_refusal.c: control ----------------------------------------------------------------- */

/* A share that comes into force: what the store knows of this UUID and file. */
void peer_refusal_recall(struct peers *peers, struct peer_share *share, const struct media *media);
/* Keeps what has changed of it; what fails is logged, and tried with the next comparison. */
void peer_refusal_keep(struct peers *peers, struct peer_share *share);

/* ---- peer_loss.c: control -------------------------------------------------------------------- */

/* Whether a peer has run under our kernel and has not ended in order since, as the store has it. */
enum peer_near {
	PEER_NEAR_UNREAD,
	PEER_NEAR_NOT,
	PEER_NEAR_OPEN,
};

/* The namespace that the share is of; live NULL: it is in force no more. */
void peer_loss_bind(struct peer_share *share, struct ns_live *live);
/* Draws a mark for each loss of a peer under this kernel that is not known here. */
void peer_loss_hear(struct peers *peers, struct peer_share *share);
/* The list of this peer has come. */
void peer_loss_told(struct peers *peers, unsigned peer);
/* Before hosts may use a file that was opened anew: draws a mark when a member that may have heard
 * of a loss cannot be asked. */
void peer_loss_ask(struct peers *peers, struct peer_share *share, const struct media *media);
/* Takes our own mark into the entry of the list. True: it has changed. */
bool peer_loss_note(const struct peers *peers, struct peer_share *share);

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
	struct peers_hooks hooks;
	struct keeper keeper;
	char start_error[256];
	int start_res;
	void (*gone)(void *arg);
	void *gone_arg;
	void (*target_over)(void *arg);
	void *target_over_arg;
	struct reactor_msg start_msg, deaf_msg, leave_msg, end_msg;
	/* peer_compare.c. */
	struct peer_told *told[PEERS_MAX]; /* what peers told last; NULL: nothing */
	struct list *share_cursor;         /* where the next namespace's share may be; NULL */
	struct uuid forgiven;              /* of the recheck under way; nil: none */
	enum peer_near near[PEERS_MAX];    /* peer_loss.c */
	/* Of the last list that was made; higher than those of processes before this one. */
	uint64_t list_generation;
	struct reactor_timer compare_timer;
	struct reactor_msg notice_msg;
	_Atomic bool is_notice_out;
	uint64_t compared_ns; /* when control looked last */
	uint64_t started_ns;  /* when it began to compare */
	uint64_t logged_ns;   /* since when logged_count counts */
	unsigned logged_count;
	bool is_applying;            /* between peers_will_apply and peers_look */
	bool is_rebuilding;          /* peers_on_rebuilt is to come */
	bool is_starting;            /* `started` is owed */
	bool is_over;                /* nothing is compared any more */
	struct reactor_msg kick_msg; /* to the reactor of the peers */
	_Atomic bool is_kick_out;

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
	uint64_t link_count; /* that were accepted: their numbers */
	bool has_told_over;  /* control knows that the target has nothing of ours */
	bool is_stopping;
	bool has_posted_gone;
	struct peer peers[PEERS_MAX];
};

/* ---- peer_ask.c ------------------------------------------------------------------------------ */

void peer_init(struct peer *peer, struct peers *peers, const struct peer_config *config);
void peer_begin(struct peer *peer);
/* It has connected to us, so it can be reached. */
void peer_dial_now(struct peer *peer);
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
/* From control: tells peers what they do not know yet. */
void peers_kick(struct peers *peers);

/* Of a peer, by its place in the configuration, in sets of members. */
static inline uint16_t peer_bit(const struct peers *peers, unsigned peer)
{
	return (uint16_t)(1u << peers->config.peers[peer].index);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the cluster share: peers.c (the whole, and requests from other members),
 * peer_ask.c (requests to one peer), peer_fence.c (whether a peer is dead, and killing it),
 * peer_process.c (whether a peer's process runs), peer_pulse.c (whether our own reactors run),
 * peer_files.c (the shared files), peer_tell.c (lists of shared namespaces, sent and received),
 * peer_told.c (what received lists contain), peer_compare.c (whether all members have the same file
 * under one UUID), peer_refusal.c (refused files, over restarts) and peer_loss.c (marks of lost
 * writes). Everything runs on the reactor of the peers, unless marked "control".
 */
#ifndef WEFT_CLUSTER_PEERS_PRIVATE_H
#define WEFT_CLUSTER_PEERS_PRIVATE_H

#include "base/unix_socket.h"
#include "cluster/peer_link.h"
#include "target/ctrl_reset.h"

#define PEER_ASKED_MAX     32 /* requests in flight to one peer */
#define PEER_FILE_UNSERVED (-1)

/* A request sent to the peer and not answered. */
struct peer_asked {
	struct ctrl_reset *reset; /* NULL: free */
	uint64_t id;
};

/* ---- peer_process.c -------------------------------------------------------------------------- */

/* The threads of another process that its data path and its answers need, at one moment. */
struct peer_process {
	uint64_t switches; /* context switches of these threads, summed */
	unsigned runnable; /* threads that have a CPU or wait for one */
	unsigned sleeping; /* reactors that wait for work */
	unsigned held;     /* reactors that no work would wake: stopped, frozen or in the kernel */
	bool is_answer_held; /* the answering thread waits in the kernel: a page, a file system */
};

/* 0, or -errno when the process cannot be seen: it has ended, or is in another PID namespace. */
int peer_process_look(int pidfd, struct peer_process *ret_process);
/* Whether any thread ran between two looks, or could run if it got a CPU. */
bool peer_process_runs(const struct peer_process *before, const struct peer_process *after);

enum peer_reach {
	PEER_REACH_UNTRIED, /* our first attempt to connect has no result yet */
	PEER_REACH_DOWN,
	PEER_REACH_UP,
};

/* Receiving state of one link. */
struct peer_listener {
	uint64_t link;          /* number of the link, in either direction */
	struct peer_told *list; /* the list that is being received; NULL: none */
};

#define PEER_LINKS 2 /* links with one peer: dialled by us, and dialled by the peer */

/* The latest list that arrived over one link and was compared. */
struct peer_compared {
	_Atomic uint64_t link; /* 0: none. Control writes link and generation */
	_Atomic uint64_t generation;
	uint64_t acked_link, acked_generation; /* what PEER_SEEN has acknowledged to the peer */
};

struct peer {
	struct peers *peers;
	const struct peer_config *config;
	struct peer_link link;         /* dialled by us */
	struct peer_listener listener; /* of the peer's list, when it arrives over `link` */
	struct peer_link *back_link;   /* the newest link that the peer dialled; NULL: none is up */
	uint64_t back_number;          /* number of back_link */
	struct reactor_timer timer;
	uint64_t dial_ns;       /* time of the next attempt to connect */
	uint32_t backoff_ms;    /* delay after the next failure */
	uint64_t down_since_ns; /* since when the link is down */
	uint64_t pinged_ns;
	bool is_silent; /* the link is up, but the peer does not answer */
	/* Process at the far end of the last good link; kept when that link closes. -1: unknown. */
	int pidfd;
	uint32_t pid;
	struct list waiting; /* ctrl_reset.node: resets not sent yet */
	struct peer_asked asked[PEER_ASKED_MAX];
	uint64_t next_id;
	uint64_t owed_since_ns;  /* since when the peer owes an answer */
	uint64_t stepped_ns;     /* time of the last step of its resets */
	struct peer_pulse pulse; /* as of the peer's last answer */
	/* The peer's process, looked at once the peer is silent for half of answer_ms. */
	struct peer_process process;
	uint64_t process_seen_ns; /* time of that look; 0: none */
	/* Fencing. */
	bool is_killed;
	bool holds_fence;
	bool waits_for_fence;
	uint64_t fence_began_ns;
	struct peer_info info;
	/* Progress of sending our list of shared namespaces to the peer (peer_tell.c). */
	uint64_t tell_link;       /* number of the link that carries the list */
	uint64_t tell_generation; /* 0: no list sent on this link yet */
	uint32_t tell_next;       /* index of the first entry not sent yet */
	bool has_told;            /* the whole list is sent */
	/* The peer's list received last; forgotten when no link is up. */
	uint64_t heard_generation; /* 0: none */
	struct uuid heard_boot_id;
	/* Written by the reactor of the peers, read by control. */
	_Atomic int reach;                /* enum peer_reach */
	_Atomic unsigned links_up;        /* in both directions */
	_Atomic uint64_t heard_ns;        /* time of the last message over any link */
	_Atomic uint64_t list_link;       /* link that brought the peer's list; 0: it is down */
	_Atomic uint64_t list_heard_ns;   /* time of the last message over list_link */
	_Atomic uint64_t seen_generation; /* of our list, as last compared by the peer */
	/* Lists of the peer that were compared, one for each of the last two links that brought
	 * one. A list may arrive over both links, and the peer waits for the answer on one of
	 * them. */
	struct peer_compared compared[PEER_LINKS];
	unsigned compared_last; /* control's: index of the latest entry */
};

/* ---- peer_files.c --------------------------------------------------------------------------- */

/* Why hosts may not use a shared namespace through this member, in ascending weight. */
enum peer_withhold {
	PEER_WITHHOLD_NONE,
	PEER_WITHHOLD_PENDING, /* not compared with all members yet */
	PEER_WITHHOLD_UNASKED, /* not the former file, which a member out of reach may have open */
	PEER_WITHHOLD_FORMAT,  /* another member serves it with another size or block size */
	PEER_WITHHOLD_FILE,    /* another member has another file under the UUID */
};

/* One shared file. Owned by the control reactor. */
struct peer_file {
	struct list node;
	unsigned refs;    /* one held by the list `files`, one by each table */
	struct uuid uuid; /* of the namespace */
	int fd;
	bool is_writable;
	unsigned pass; /* pass of this look that found the file last; 0: none */
	/* ---- peer_compare.c ---- */
	struct member_file identity;
	bool is_in_force; /* in the configuration in force */
	bool is_served;   /* in force, and hosts may use it */
	bool has_served;  /* served at some time since it came into force */
	bool is_another;  /* not the file that this member served last */
	/* Members (bits by index) for which another file that this member had under the UUID was
	 * refused, and that have not been asked about this file. */
	uint16_t doubters;
	/* Members (bits by index) that came first with another file. The namespace is withheld
	 * until one of them has this file, or the operator decides. */
	uint16_t refusers;
	bool is_refused;          /* one of the refusers served */
	bool is_forgiven;         /* the operator declared this file the right one */
	uint64_t told_from;       /* generation of our first list that contains it; 0: none */
	uint64_t told_ns;         /* when that list was made */
	struct peer_served entry; /* as sent to peers: format in force, and since when */
	enum peer_withhold withhold;
	unsigned withhold_peer;
	uint16_t differs;  /* members (bits by index) that have another file */
	uint16_t has_lock; /* members (bits by index) whose lock was seen on this file */
	uint64_t unseen_ns[PEERS_MAX]; /* by peer: since when its lock is missing; 0: not missing */
	/* ---- peer_refusal.c ---- */
	uint64_t inode, born_ns; /* identity of the file, valid over restarts; 0: unknown */
	bool has_kept;           /* the store has a refusal for this UUID, maybe of another file */
	uint16_t kept_refusers;  /* refusers of this file, as stored */
	bool kept_is_refused;
	/* ---- peer_loss.c ---- */
	struct ns_live *live;      /* a counted reference: in force or about to be; NULL: none */
	bool has_heard;            /* `heard` was read from the store */
	bool has_asked;            /* peer_loss_ask has judged the file since it was opened */
	uint64_t heard[PEERS_MAX]; /* by peer: the last mark of its own that was handled; 0: none */
};

/* An entry of the table: a file that a subsystem shares with other members. */
struct peer_file_entry {
	struct peer_file *file; /* control's */
	int fd;                 /* for media/member_lock.h; -1: its locks cannot be read */
	int subsystem;          /* index into names, or PEER_FILE_UNSERVED */
	bool is_writable;
	uint16_t differs; /* members (bits by index) with another file: their locks prove nothing */
};

/* A table of shared files. Immutable once published. */
struct peer_file_table {
	struct list node; /* control's: peers->tables */
	struct peers *peers;
	struct reactor_msg msg;
	char (*names)[NVME_NQN_BYTES]; /* NQNs of subsystems; one may appear twice */
	unsigned name_count;
	/* The list for peers. Not made for a configuration that is about to be applied. */
	uint64_t generation; /* 0: no list */
	struct peer_served *told;
	unsigned told_count;
	unsigned count;
	struct peer_file_entry entries[];
};

/* Control. */
void peers_files_free(struct peers *peers);
/* The shared file of this namespace and its medium, added when missing. NULL: the file cannot be
 * watched. */
struct peer_file *peers_file_of(struct peers *peers, const struct ns *ns);
/* Builds and publishes the table again, because the entries for peers have changed. */
void peers_files_renew(struct peers *peers);

/* ---- peer_tell.c ----------------------------------------------------------------------------- */

/* The list of a peer; sorted by UUID once control owns it. */
struct peer_told {
	struct reactor_msg msg;
	struct peers *peers;
	struct peer *peer;
	uint64_t link;       /* number of the link that brought it */
	struct uuid boot_id; /* of the peer's kernel */
	uint64_t generation;
	uint32_t total;
	uint32_t count;
	struct peer_served entries[];
};

#define PEER_LIST_OVER UINT64_MAX /* generation of a stopping member's list */

/* Sends the part of our list that the peer does not have. False: call again soon. */
bool peer_tell(struct peer *peer);
/* As peer_tell. Arms the timer when a rest of the list is left. */
void peer_tell_now(struct peer *peer);
/* Sends the list again from its first entry: the peer may have an older list by now. */
void peer_tell_again(struct peer *peer);
/* Handles PEER_SEEN of this peer, received over link `number`. */
void peer_seen(struct peer *peer, uint64_t number, struct peer_link *link,
	       const struct peer_frame *frame);
/* A link with the peer came up; or one that was up has closed. Either direction. */
void peer_linked(struct peer *peer);
void peer_unlinked(struct peer *peer);
/* Handles PEER_SERVED of this peer. False: the link was closed because of an error. */
bool peer_hear(struct peer *peer, struct peer_listener *listener, struct peer_link *link,
	       const struct peer_frame *frame);
/* Any message arrived over this link. */
void peer_listener_heard(struct peer *peer, const struct peer_listener *listener);
void peer_listener_end(struct peer *peer, struct peer_listener *listener);
/* Sends PEER_SEEN when control has compared the list that this link brought. */
void peer_ack(struct peer *peer, const struct peer_listener *listener, struct peer_link *link);
void peer_set_reach(struct peer *peer, enum peer_reach reach);

/* ---- peer_told.c: control -------------------------------------------------------------------- */

/* How long a silent peer is waited for, in ns. */
uint64_t peers_silence_max_ns(const struct peers *peers);
/* The peer's list, or NULL when the link that brought it is down or silent. */
const struct peer_told *peer_told_of(const struct peers *peers, unsigned peer);
/* Orders by UUID, for qsort and bsearch. */
int peer_served_order(const void *a, const void *b);
/* The entry of this UUID; NULL: not in the list. */
const struct peer_served *peer_told_entry(const struct peer_told *told, const struct uuid *uuid);
/* Whether the peer runs under our kernel. */
bool peer_told_is_near(const struct peers *peers, const struct peer_told *told);

/* ---- peer_compare.c: control ----------------------------------------------------------------- */

void peers_compare_init(struct peers *peers);
/* Asks control to compare again, because the state of a peer has changed. Any reactor. */
void peers_notice(struct peers *peers);
/* A configuration is in force: begin, then one call for each of its shared files, then end. */
void peers_compare_look_begin(struct peers *peers);
void peers_compare_look(struct peers *peers, struct peer_file *file, const struct ns *ns);
void peers_compare_look_end(struct peers *peers);
/* The target ends: puts marks drawn by this member into the list before PEER_LIST_OVER is sent. */
void peers_compare_losses(struct peers *peers);
/* The list of a peer arrived; takes it over. */
void peers_compare_told(struct reactor_msg *msg);
/* Waits for the members that can be reached, then calls `started`. */
void peers_compare_start(struct peers *peers);
void peers_compare_stop(struct peers *peers);
void peers_compare_free(struct peers *peers);

/* ---- peer_refusal.c: control ----------------------------------------------------------------- */

/* A shared file comes into force: reads what the store holds about this UUID and file. */
void peer_refusal_recall(struct peers *peers, struct peer_file *file, const struct media *media);
/* Stores changes of the refusal. A failure is logged, and retried with the next comparison. */
void peer_refusal_keep(struct peers *peers, struct peer_file *file);

/* ---- peer_loss.c: control -------------------------------------------------------------------- */

/* Whether a peer has run under our kernel without an orderly end since, as stored. */
enum peer_near {
	PEER_NEAR_UNREAD,
	PEER_NEAR_NOT,
	PEER_NEAR_OPEN,
};

/* Sets the live state of the file's namespace; NULL: not in force any more. */
void peer_loss_bind(struct peer_file *file, struct ns_live *live);
/* Draws a mark for each loss of a peer under this kernel that is unknown here. */
void peer_loss_hear(struct peers *peers, struct peer_file *file);
/* The list of this peer has arrived. */
void peer_loss_told(struct peers *peers, unsigned peer);
/* Call before hosts may use a file that was opened anew. Draws a mark when a member that may have
 * been notified of a loss cannot be asked. */
void peer_loss_ask(struct peers *peers, struct peer_file *file, const struct media *media);
/* Copies our own mark into the list entry. True: the mark has changed. */
bool peer_loss_note(const struct peers *peers, struct peer_file *file);

/* ---- peer_pulse.c ---------------------------------------------------------------------------- */

/* A message posted to one of our data reactors, to check that the reactor takes messages. */
struct peer_probe {
	struct reactor_msg msg;
	struct reactor *reactor;
	_Atomic bool is_out; /* posted and not taken yet */
	uint64_t waited_ns;  /* time that it is out while this thread ran */
};

struct peer_probes {
	struct reactor_timer timer; /* armed while a probe is out */
	uint64_t counted_ns;        /* the time up to which waited_ns is counted */
	unsigned count;
	struct peer_probe *probes; /* one for each data reactor, in order */
};

int peer_probes_init(struct peers *peers, struct reactor *const *reactors, unsigned count);
void peer_probes_free(struct peers *peers);
/* Returns the state of our data reactors, and posts new probes. */
void peer_probes_ask(struct peers *peers, struct peer_pulse *ret_pulse);
bool peer_probes_are_out(const struct peers *peers);

struct peers {
	struct reactor *reactor; /* of the peers, on a thread of its own */
	struct reactor *control;
	struct reactor *registry; /* the first data reactor */
	struct peers_config config;
	struct peer_self self;
	struct peer_file_table *_Atomic file_table; /* NULL: no file is known */

	/* Owned by control. */
	struct target *target;
	struct list files;  /* struct peer_file.node */
	struct list tables; /* struct peer_file_table.node: published, or being returned */
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
	struct peer_told *told[PEERS_MAX]; /* latest list of each peer; NULL: none */
	struct list *file_cursor;          /* likely node of the next namespace's file; or NULL */
	struct uuid forgiven;              /* UUID of the recheck under way; nil: none */
	enum peer_near near[PEERS_MAX];    /* peer_loss.c */
	/* Of our latest list. Starts at the kernel's clock, so above the generations of former
	 * processes. */
	uint64_t list_generation;
	struct reactor_timer compare_timer;
	struct reactor_msg notice_msg;
	_Atomic bool is_notice_out;
	uint64_t compared_ns; /* time of the last comparison */
	uint64_t started_ns;  /* when comparing began */
	uint64_t logged_ns;   /* start of the second that logged_count counts */
	unsigned logged_count;
	bool is_applying;            /* between peers_will_apply and peers_look */
	bool is_rebuilding;          /* peers_on_rebuilt is pending */
	bool is_starting;            /* the call of `started` is pending */
	bool is_over;                /* comparing has ended */
	struct reactor_msg kick_msg; /* to the reactor of the peers */
	_Atomic bool is_kick_out;

	/* Owned by the reactor of the peers. */
	struct target *served; /* the target while it takes requests from peers; else NULL */
	struct reactor_listener listener;
	bool is_listening;
	struct unix_name name; /* of the Unix socket listened on */
	struct list incoming;  /* struct incoming.node */
	unsigned incoming_count;
	unsigned served_count; /* requests from peers that the target works on */
	struct peer_probes probes;
	bool asks_no_more;
	bool is_target_over; /* the target has shut down: none of its controllers is left */
	uint64_t link_count; /* last number given to a link, dialled or accepted */
	bool has_told_over;  /* target_over was posted to control */
	bool is_stopping;
	bool has_posted_gone;
	struct peer peers[PEERS_MAX];
};

/* ---- peer_ask.c ------------------------------------------------------------------------------ */

void peer_init(struct peer *peer, struct peers *peers, const struct peer_config *config);
void peer_begin(struct peer *peer);
/* The peer has connected to us, so it can be reached: dial without delay. */
void peer_dial_now(struct peer *peer);
void peer_fail_all(struct peer *peer);
/* The caller calls peers_maybe_gone afterwards. */
void peer_stop(struct peer *peer);
bool peer_is_stopped(const struct peer *peer);
void peer_ask_reset(struct peer *peer, struct ctrl_reset *reset);
/* Posts the result to the reactor that asked. */
void peer_reset_end(struct ctrl_reset *reset, enum ctrl_reset_result result);
void peer_error(struct peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- peer_fence.c ---------------------------------------------------------------------------- */

enum peer_evidence {
	PEER_EVIDENCE_NONE,  /* unknown: another machine, or no file that both serve */
	PEER_EVIDENCE_ALIVE, /* the peer can still write */
	PEER_EVIDENCE_DEAD,  /* no write of the peer can arrive any more */
};

/* Judges by the locks on the files of this subsystem. */
enum peer_evidence peer_evidence(const struct peer *peer, const char *subsystem_nqn);
/* Whether the process of pidfd has ended. */
bool peer_process_is_over(const struct peer *peer);
/* One step of killing the peer: 0: killed, -EAGAIN: call again, other -errno: impossible. */
int peer_fence_step(struct peer *peer);
void peer_fence_end(struct peer *peer);

/* ---- peers.c --------------------------------------------------------------------------------- */

void peers_maybe_gone(struct peers *peers);
/* Called by control: sends lists and answers that peers do not have yet. */
void peers_kick(struct peers *peers);

/* The peer's bit in sets of members. */
static inline uint16_t peer_bit(const struct peers *peers, unsigned peer)
{
	return (uint16_t)(1u << peers->config.peers[peer].index);
}

#endif

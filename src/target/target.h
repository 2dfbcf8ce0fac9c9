/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target as the rest of the process sees it: build a configuration, apply it, shut down.
 *
 * A target runs on a set of data reactors and is steered from a control reactor, which may block.
 * Configuration is an immutable struct snapshot with a generation: the control reactor builds one
 * and gives it to target_apply; every data reactor swaps to it between two turns, tells its hosts
 * what changed, and acknowledges when no command uses the old one any more; then the old one is
 * freed on the control reactor, and media that nobody refers to are closed.
 */
#ifndef WEFT_TARGET_TARGET_H
#define WEFT_TARGET_TARGET_H

#include "base/list.h"
#include "base/net_addr.h"
#include "base/uuid.h"
#include "media/media.h"
#include "ns/keeper.h"
#include "ns/ns_store.h"
#include "reactor/reactor.h"
#include "wire/identify.h"
#include "wire/log_page.h"
#include "wire/nvme.h"

#include <stdatomic.h>

#define TARGET_DEFAULT_NQN            "nqn.2026-11.io.weft:default"
#define TARGET_PORTS_MAX              64
#define TARGET_WRITE_ZEROES_MAX_BYTES (4u << 20)  /* so that memory is not set for over 1 ms */
#define TARGET_VERIFY_MAX_BYTES       (16u << 20) /* VSL */
#define TARGET_COPY_RANGES_MAX        128         /* MSRC + 1 */
#define TARGET_COPY_RANGE_BLOCKS_MAX  8192        /* MSSRL */
#define TARGET_COPY_BLOCKS_MAX        65536       /* MCL */
#define TARGET_COPY_FORMATS           0x5u        /* OCFS: descriptor formats 0 and 2 */
#define TARGET_RESERVATION_CAPS       0xffu       /* RESCAP: all types, persistence, IEKEY */
/* Hosts size their tables by these at connect, so that they do not follow the configuration. */
#define TARGET_NSID_MAX      16384 /* NN and MNAN */
#define TARGET_ANA_GROUP_MAX 1025  /* ANAGRPMAX and NANAGRPID */
/* Namespaces whose medium is lost, or that are held: inaccessible on every port. Documents may use
 * those below. */
#define TARGET_ANA_GROUP_LOST   TARGET_ANA_GROUP_MAX
#define TARGET_NS_LABEL_BYTES   256 /* feature 1Fh */
#define TARGET_ANA_TRANSITION_S 10  /* ANATT: the longest that a group is in change */

/* ---- the snapshot: immutable once given to target_apply -------------------------------------- */

struct nsid_former;
/* Health and events of a subsystem, kept over restarts (ns/health.h). */
struct subsystem_live;

/* Feature 84h. */
enum ns_write_protect {
	NS_WRITE_PROTECT_NONE,
	NS_WRITE_PROTECT_ON,
	NS_WRITE_PROTECT_UNTIL_POWER_CYCLE,
	NS_WRITE_PROTECT_PERMANENT,
};

/*
 * Which hosts see a namespace: a bit for each host of snapshot->mask_hosts, and one for all others.
 * Immutable, shared by the namespaces of a snapshot, which owns it.
 */
#define NS_MASK_HOST_OTHER UINT32_MAX
struct ns_mask {
	bool has_others;
	uint32_t host_count;
	uint64_t words[];
};

static inline bool ns_mask_has(const struct ns_mask *mask, uint32_t host_index)
{
	if (!mask)
		return true;
	if (host_index >= mask->host_count)
		return mask->has_others;
	return (mask->words[host_index / 64] >> (host_index % 64) & 1) != 0;
}

/*
 * What a command of memory media reads is in the first cache line, so that thousands of namespaces
 * cost a command one line each, and one of counters.
 */
struct ns {
	uint32_t nsid;
	uint32_t block_shift; /* 9 or 12 */
	uint64_t block_count;
	uint8_t *mapped;            /* the whole medium, when it is in memory; else NULL */
	struct ns_local *locals;    /* live's, one per reactor */
	struct media *media;        /* store's */
	struct ns_store *store;     /* counted */
	uint32_t ana_group;         /* 1.. */
	bool is_read_only;          /* by configuration, by protection, or the medium is */
	bool is_formatting;         /* Format NVM under way: no I/O */
	uint8_t write_protect;      /* enum ns_write_protect */
	bool is_private;            /* NMIC 0: one host at a time */
	const struct ns_mask *mask; /* snapshot's; NULL: every host of the subsystem sees it */
	struct uuid uuid;
	uint8_t nguid[16];
	const char *label; /* snapshot's; NULL: none */
	/* Another process serves the same medium: no reservations and no fused pairs, because
	 * nothing between processes is atomic. */
	bool is_clustered;
	bool is_held;       /* by control: no host may use it through this process now */
	uint8_t pad_end[6]; /* so that every one of an array begins a line */
	/* The target's: of the snapshot since which this NSID stands for this block size. */
	uint64_t format_generation;
	/* The target's: of the snapshot since which this NSID does not stand for another namespace;
	 * 0: it never did. */
	uint64_t identity_generation;
};

/* A zeroed array that begins a cache line, for free(); NULL when out of memory. */
struct ns *ns_array_create(unsigned count);
/* Takes the store over and fills in what follows from it; the rest is the caller's. */
void ns_bind(struct ns *ns, struct ns_store *taken_store);

/*
 * What a host may change of state that it shares with other hosts. Reading, writing and
 * reservations need no right: they are what a namespace is shared for.
 */
enum host_right {
	HOST_RIGHT_WRITE_PROTECT = 1 << 0, /* feature 84h */
	HOST_RIGHT_FORMAT = 1 << 1,        /* Format NVM */
	HOST_RIGHT_LABEL = 1 << 2,         /* feature 1Fh */
	HOST_RIGHT_NAMESPACES = 1 << 3,    /* Namespace Management and Attachment */
};
#define HOST_RIGHTS_ALL 0xfu

struct host_rights {
	char host_nqn[NVME_NQN_BYTES];
	uint32_t rights; /* of enum host_right */
};

struct subsystem {
	char nqn[NVME_NQN_BYTES];
	char serial[NVME_SERIAL_BYTES + 1];
	char model[NVME_MODEL_BYTES + 1];
	bool allows_any_host;
	char (*host_nqns)[NVME_NQN_BYTES];
	unsigned host_count;
	uint32_t rights_of_all;          /* of enum host_right: what every host may do */
	struct host_rights *host_rights; /* ascending NQN: what one host may do beyond that */
	unsigned host_rights_count;
	struct ns *namespaces; /* ascending NSID; where speed matters, of ns_array_create */
	unsigned ns_count;
	uint32_t ana_group_max;         /* largest group in use, at least 1 */
	struct subsystem_live *live;    /* counted; NULL: nothing is kept */
	uint64_t capacity_bytes;        /* TNVMCAP: the pool, and the namespaces outside of it */
	uint64_t capacity_unused_bytes; /* UNVMCAP: what is left of the pool */
	/* The target's, made when it is applied. */
	unsigned index;               /* in snapshot->subsystems */
	uint64_t identity_generation; /* the latest of its namespaces */
	struct nsid_former *formers;  /* target/nsid_history.h; ascending NSID */
	unsigned former_count;
	struct ana_index *ana;      /* target/ana_index.h */
	uint64_t ana_change_count;  /* rises when who is in which group, for whom, has changed */
	bool has_ordered_host_nqns; /* ascending */
};

struct ana_group_state {
	uint32_t group;
	enum ana_state state;
};

struct transport_ops;

/* Whether large payload that nobody can change is sent without a copy. */
enum zero_copy {
	ZERO_COPY_OFF,
	ZERO_COPY_AUTO, /* until the kernel reports that it copies all the same */
	ZERO_COPY_ON,
};

#define TARGET_ZERO_COPY_MIN_BYTES 65536 /* below it pinning pages costs more than copying them */

struct port {
	uint16_t id;
	/* How hosts reach it; NULL: TCP. */
	const struct transport_ops *transport;
	struct net_addr listen;     /* where connections are accepted */
	char advertise_address[64]; /* what discovery tells; empty: the address the host reached */
	const struct subsystem **subsystems; /* offered here; the discovery service always is */
	unsigned subsystem_count;
	struct ana_group_state *ana; /* groups that are not optimized here, ascending */
	unsigned ana_count;
	bool is_discovery_only; /* the well-known port 8009 */
	enum zero_copy zero_copy;
	uint32_t zero_copy_min_bytes; /* payload of a PDU */
	/* The target's, made when it is applied. */
	uint64_t *offers;           /* a bit for each subsystem's index */
	uint64_t ana_change_count;  /* rises when the state of a group has changed here */
	uint64_t *ana_group_counts; /* by group: what it was then; NULL: none ever has */
};

struct target_limits {
	uint32_t connections_max;          /* in total */
	uint32_t connections_per_host_max; /* per peer address */
	uint32_t ctrls_max;                /* for I/O, and once more as many for discovery */
	uint32_t ctrls_per_host_max;       /* likewise, of one address and of one host NQN */
	uint32_t io_queues_max;            /* per controller */
	uint32_t queue_size_max;           /* entries */
	uint32_t in_capsule_bytes;         /* I/O queues: 8192 */
	uint32_t transfer_max_bytes;       /* MDTS: 512 KiB by default */
	uint32_t ic_timeout_ms;
	uint32_t connect_timeout_ms;
	uint32_t data_timeout_ms; /* longest silence of a host that owes what an R2T asked for, and
				     wait for one that does not read what it is sent */
	uint32_t quiesce_ms;      /* CQT: commands of a lost host have ended so long after KATO */
	uint32_t kato_max_ms;     /* longest keep alive time-out a host may ask for; 0: any */
	uint32_t idle_timeout_ms; /* a controller without keep alive ends after so long without a
				     command; 0: never */
	bool allows_header_digest;
	bool allows_data_digest;
};

void target_limits_default(struct target_limits *limits);

/* Commands of one reactor that use a snapshot; written for each of them, so a line of its own. */
struct inflight {
	uint32_t count;
	uint8_t pad[60];
};

struct snapshot {
	uint64_t generation;           /* set by target_apply */
	uint64_t discovery_generation; /* GENCTR: changes when the discovery log may have */
	struct subsystem **subsystems; /* ascending NQN */
	unsigned subsystem_count;
	struct port *ports; /* ascending id */
	unsigned port_count;
	struct target_limits limits;
	char (*mask_hosts)[NVME_NQN_BYTES]; /* hosts that masks name, ascending */
	unsigned mask_host_count;
	struct ns_mask **masks; /* owned; namespaces point at them */
	unsigned mask_count;
	char **labels; /* owned likewise */
	unsigned label_count;
	/* The target's: commands that use it, per reactor, and what is left to acknowledge. */
	struct inflight *inflight;
	atomic_uint acks_missing;
	struct reactor_msg free_msg;
	struct target *target;
	struct list node; /* in target->retired, ascending generation */
};

/* An empty snapshot with default limits. NULL when out of memory. */
struct snapshot *snapshot_create(void);
/* For snapshots never applied; frees everything it refers to and puts its stores. */
void snapshot_destroy(struct snapshot *snapshot);
const struct subsystem *snapshot_find_subsystem(const struct snapshot *snapshot, const char *nqn);
const struct port *snapshot_find_port(const struct snapshot *snapshot, uint16_t port_id);
/* The place of the first namespace above this NSID; ns_count when there is none. */
unsigned subsystem_ns_after(const struct subsystem *subsystem, uint32_t nsid);
/* The slow half of subsystem_find_ns. */
const struct ns *subsystem_search_ns(const struct subsystem *subsystem, uint32_t nsid);

/* The namespace with this NSID, or NULL. */
static inline const struct ns *subsystem_find_ns(const struct subsystem *subsystem, uint32_t nsid)
{
	unsigned at = nsid - 1;

	/* Namespaces numbered from 1 without gaps are the rule: look there first. */
	if (at < subsystem->ns_count && subsystem->namespaces[at].nsid == nsid)
		return &subsystem->namespaces[at];
	return subsystem_search_ns(subsystem, nsid);
}
/* Seen by this host, or by none: made and not attached yet, so that anyone may attach it. */
bool ns_is_allocated_for(const struct ns *ns, uint32_t host_index);
bool subsystem_allows_host(const struct subsystem *subsystem, const char *host_nqn);
/* enum host_right, of all hosts and of this one together. */
uint32_t subsystem_rights_of(const struct subsystem *subsystem, const char *host_nqn);
/* Place in mask_hosts, or NS_MASK_HOST_OTHER. */
uint32_t snapshot_host_index(const struct snapshot *snapshot, const char *host_nqn);
bool port_offers(const struct port *port, const struct subsystem *subsystem);
enum ana_state port_ana_state(const struct port *port, uint32_t group);
/*
 * The status of a command about a namespace of this group, on this port: success where the group
 * is accessible. DNR stays clear in every state, for a host fails over by it: the command may
 * succeed on another path. CRD is 0: no CRDT is set. Base 2.1, sections 8.1.1.4 to 8.1.1.8.
 */
nvme_status port_ana_status(const struct port *port, uint32_t group);

/* ---- the target -------------------------------------------------------------------------------
 */

struct target;

/* Who asks for the discovery log, where, under which configuration. */
struct discovery_asker {
	const struct snapshot *snapshot;
	const struct port *port;
	const char *host_nqn;
	const struct net_addr *local; /* the address that the host reached */
};

/*
 * Writes the discovery log of one host on one port: given by control, so that target/ does not
 * depend on discovery/. Fills up to len_bytes from offset of the log; returns the log's full size.
 */
typedef uint64_t (*target_discovery_log_fn)(const struct discovery_asker *asker, uint64_t offset,
					    uint8_t *buf, uint32_t len_bytes);

struct manage_request; /* target/manage.h */
struct ctrl_reset;     /* target/ctrl_reset.h */

/* Identifiers of controllers are unique in a subsystem: processes that serve the same one have
 * ranges of their own. */
#define TARGET_CNTLID_MAX 0xffef

/* A controller that has lost its host, as the other controllers of that host are told: log 1Fh. */
struct lost_host {
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
	struct uuid host_id;
	uint16_t cntlid;
	uint8_t uniquifier; /* CIU */
	uint8_t reason;     /* enum lost_host_reason */
};

/* Other processes that serve the same subsystems. */
struct target_peers {
	/* Calls `reset` and `tell_lost`; outlives the target. NULL: the control reactor. */
	struct reactor *reactor;
	/* Whether a peer has this identifier in its range. Any reactor. */
	bool (*has_cntlid)(void *arg, uint16_t cntlid);
	/* Has it reset there, or fences that peer; ends with reset->done on reset->reactor. */
	void (*reset)(void *arg, struct ctrl_reset *reset);
	/* Tells them, as far as they can be reached. */
	void (*tell_lost)(void *arg, const struct lost_host *lost);
	/* On control: a mark was drawn for a medium of this target that has lost writes. May be
	 * NULL. */
	void (*note_loss)(void *arg);
	void *arg;
};

struct target_config {
	struct reactor *control;
	struct reactor *const *reactors; /* data reactors; the first one owns ports and registry */
	unsigned reactor_count;
	target_discovery_log_fn discovery_log;
	uint64_t power_cycles; /* for SMART: starts of this target so far */
	uint64_t unsafe_shutdowns;
	struct keeper keeper;
	/* Commands of hosts that change the configuration, on the control reactor; ends with
	 * manage_done. NULL: they are refused. */
	void (*manage)(void *arg, struct manage_request *request);
	void *manage_arg;
	uint16_t cntlid_first; /* 0, 0: 1 to TARGET_CNTLID_MAX */
	uint16_t cntlid_last;
	struct target_peers peers; /* zeroed: there are none */
	uint64_t random_seed;      /* for CIRN: another one at each start */
	/* Random, another one at each start: tells hosts a copy of the target from a second path
	 * to the target. All zero: not reported. */
	uint8_t instance[IDENTIFY_INSTANCE_BYTES];
	/* Another one when writes of before this start that were not flushed may be lost; see
	 * daemon/boot.h. All zero: not reported. */
	uint8_t boot[IDENTIFY_BOOT_BYTES];
	/* Whose marks of lost writes (target/loss.h) they are: of the state that the keeper has. 0:
	 * marks are not reported. */
	uint64_t loss_source;
	bool was_flushed; /* the process before has left no write that was not flushed */
	unsigned
		buf_counts[3]; /* data buffers per reactor: 8 KiB, 128 KiB, 1 MiB; 0,0,0: default */
};

/* A controller of a peer has lost its host: the controllers of that host here are told. Any
 * reactor. */
void target_tell_lost(struct target *target, const struct lost_host *lost);

/* Control reactor: the mark of this namespace has changed for a reason outside of the target, and
 * hosts are to read it (target/loss.h). */
void target_tell_loss(struct target *target, const struct ns_live *live);

/* On the control thread, before or while the reactors run. 0 or -errno. */
int target_create(const struct target_config *config, struct target **ret_target);

/*
 * Swaps to a new configuration; control reactor only, one at a time: `applied` is called there
 * with 0 once every reactor uses it and the listeners stand, or with -errno and a text when a
 * listener could not be opened, in which case nothing has changed and the snapshot is destroyed.
 * Takes the snapshot over in either case.
 */
void target_apply(struct target *target, struct snapshot *taken_snapshot,
		  void (*applied)(void *arg, int res, const char *error), void *arg);
/* The snapshot in force; control reactor only. NULL before the first apply. */
const struct snapshot *target_snapshot(const struct target *target);
/* As the listener of this port was bound (the port number when 0 was asked for). 0 or -ENOENT. */
int target_port_addr(const struct target *target, uint16_t port_id, struct net_addr *ret_addr);

/*
 * Clean end: no new connections, hosts that asked are told, commands finish and are answered,
 * connections close, media are flushed. `done` is called on the control reactor; then
 * target_destroy. Commands that do not finish within grace_ms are cancelled, and so are the flushes
 * at the end, for which there are at least two seconds.
 */
void target_shutdown(struct target *target, uint32_t grace_ms, void (*done)(void *arg), void *arg);
/* After target_shutdown: every medium was flushed with success, or what could not be flushed is
 * told to its hosts by another mark. */
bool target_is_flushed(const struct target *target);
void target_destroy(struct target *target);

/* The commands that a change concerns: those of some namespaces, or of an ANA group on a port. */
struct target_scope {
	const struct uuid *uuids;
	unsigned uuid_count;
	uint16_t port_id;
	uint32_t ana_group; /* 0: none */
};

/*
 * As target_apply, and tells in addition when no command that the change concerns and that was
 * judged under a former configuration can reach a medium any more: at the earliest right after
 * `applied`, not at all when that got an error. For changes in two steps, such as ANA transitions
 * and Format NVM. `drained` gets 0, or -ETIMEDOUT when such a command hangs in its medium
 * (target/barrier.h). The scope is copied.
 */
void target_apply_and_drain(struct target *target, struct snapshot *taken_snapshot,
			    const struct target_scope *scope,
			    void (*applied)(void *arg, int res, const char *error),
			    void (*drained)(void *arg, int res), void *arg);

/* A controller as people see it. */
struct ctrl_info {
	uint16_t cntlid;
	uint16_t port_id;
	bool is_discovery;
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
	struct uuid host_id;
	struct net_addr peer;
	uint32_t kato_ms;
	uint32_t io_queue_count;
	uint64_t connected_ns; /* how long ago */
};

/* Control reactor; `done` is called there with a list that it frees, or NULL without memory. */
void target_list_ctrls(struct target *target,
		       void (*done)(void *arg, struct ctrl_info *taken_infos, unsigned count),
		       void *arg);

struct target_stats {
	uint32_t connections;
	uint32_t ctrls;
	uint64_t connections_refused;
	uint64_t commands;
	uint64_t protocol_errors;
	uint64_t keep_alive_expiries;
	uint32_t buffers_in_use;
};

/* From any thread; the figures are each true but not of one instant. */
void target_get_stats(const struct target *target, struct target_stats *ret_stats);

#endif

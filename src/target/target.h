/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target as the rest of the process sees it: build a configuration, apply it, shut down.
 *
 * A target runs on a set of data reactors and is controlled from a control reactor, which may
 * block. The configuration is an immutable struct snapshot with a generation. The control reactor
 * builds a snapshot and gives it to target_apply. Every data reactor swaps to the snapshot between
 * two turns, notifies its hosts of the changes, and acknowledges when no command uses the former
 * snapshot any more. Then the control reactor frees the former snapshot and closes media without
 * users.
 */
#ifndef WEFT_TARGET_TARGET_H
#define WEFT_TARGET_TARGET_H

#include "base/list.h"
#include "base/net_addr.h"
#include "base/uuid.h"
#include "media/media.h"
#include "ns/keeper.h"
#include "ns/ns_backing.h"
#include "reactor/reactor.h"
#include "wire/identify.h"
#include "wire/log_page.h"
#include "wire/nvme.h"

#include <stdatomic.h>

#define TARGET_DEFAULT_NQN            "nqn.2026-11.io.weft:default"
#define TARGET_PORTS_MAX              64
#define TARGET_WRITE_ZEROES_MAX_BYTES (4u << 20)  /* WZSL */
#define TARGET_VERIFY_MAX_BYTES       (16u << 20) /* VSL */
#define TARGET_COPY_RANGES_MAX        128         /* MSRC + 1 */
#define TARGET_COPY_RANGE_BLOCKS_MAX  8192        /* MSSRL */
#define TARGET_COPY_BLOCKS_MAX        65536       /* MCL */
#define TARGET_COPY_FORMATS           0x5u        /* OCFS: descriptor formats 0 and 2 */
#define TARGET_RESERVATION_CAPS       0xffu       /* RESCAP: all types, persistence, IEKEY */
/* Hosts size their tables by these limits at Connect, so the limits must not change with the
 * configuration. */
#define TARGET_NSID_MAX      16384 /* NN and MNAN */
#define TARGET_ANA_GROUP_MAX 1025  /* ANAGRPMAX and NANAGRPID */
/* For namespaces whose medium is lost, and withheld namespaces: inaccessible on every port.
 * Documents may use the groups below this one. */
#define TARGET_ANA_GROUP_LOST   TARGET_ANA_GROUP_MAX
#define TARGET_NS_LABEL_BYTES   256 /* feature 1Fh */
#define TARGET_ANA_TRANSITION_S 10  /* ANATT: longest time that a group is in the Change state */

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
 * Which hosts see a namespace: a bit for each host of snapshot->mask_hosts, and one for all other
 * hosts. Immutable. Owned by the snapshot and shared by its namespaces.
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
 * All that an I/O command on memory media reads is in the first cache line. Even with thousands of
 * namespaces, a command thus reads one line here and one line of counters.
 */
struct ns {
	uint32_t nsid;
	uint32_t block_shift; /* 9 or 12 */
	uint64_t block_count;
	uint8_t *mapped;            /* the whole medium when it is in memory, else NULL */
	struct ns_local *locals;    /* of the live state, one per reactor */
	struct media *media;        /* owned by backing */
	struct ns_backing *backing; /* holds a reference */
	uint32_t ana_group;         /* from 1 */
	bool is_read_only;          /* by configuration, by protection, or the medium is */
	bool is_formatting;         /* Format NVM under way: no I/O */
	uint8_t write_protect;      /* enum ns_write_protect */
	bool is_private;            /* NMIC 0: one host at a time */
	const struct ns_mask *mask; /* owned by snapshot; NULL: all hosts of the subsystem see it */
	struct uuid uuid;
	uint8_t nguid[16];
	const char *label; /* owned by the snapshot; NULL: none */
	/* Another process serves the same medium. Reservations and fused pairs are not offered,
	 * because nothing is atomic between processes. */
	bool is_clustered;
	bool is_withheld;   /* set by control: no host may use the namespace here now */
	uint8_t pad_end[6]; /* so that each element of an array begins a cache line */
	/* Set by the target: generation of the snapshot since which this NSID has had this block
	 * size. */
	uint64_t format_generation;
	/* Set by the target: generation of the first snapshot in which this NSID no longer named
	 * another namespace. 0: the NSID never named another one. */
	uint64_t identity_generation;
};

/* Allocates a zeroed array that begins a cache line. The caller frees it with free(). NULL when out
 * of memory. */
struct ns *ns_array_create(unsigned count);
/* Takes over the backing and fills in the fields that follow from it. The caller fills in the
 * rest. */
void ns_bind(struct ns *ns, struct ns_backing *taken_backing);

/*
 * What a host may change of state that hosts share. Reading, writing and reservations need no
 * right: namespaces are shared for this purpose.
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
	uint32_t rights; /* bits of enum host_right */
};

struct subsystem {
	char nqn[NVME_NQN_BYTES];
	char serial[NVME_SERIAL_BYTES + 1];
	char model[NVME_MODEL_BYTES + 1];
	bool allows_any_host;
	char (*host_nqns)[NVME_NQN_BYTES];
	unsigned host_count;
	uint32_t rights_of_all;          /* enum host_right: rights of every host */
	struct host_rights *host_rights; /* ascending NQN: further rights of single hosts */
	unsigned host_rights_count;
	struct ns *namespaces; /* ascending NSID; for speed, from ns_array_create */
	unsigned ns_count;
	uint32_t ana_group_max;         /* largest group in use, at least 1 */
	struct subsystem_live *live;    /* holds a reference; NULL: nothing is kept */
	uint64_t capacity_bytes;        /* TNVMCAP: the pool, and the namespaces outside the pool */
	uint64_t capacity_unused_bytes; /* UNVMCAP: the unused part of the pool */
	/* Set by the target when the snapshot is applied. */
	unsigned index;               /* index in snapshot->subsystems */
	uint64_t identity_generation; /* the highest of its namespaces */
	struct nsid_former *formers;  /* target/nsid_history.h; ascending NSID */
	unsigned former_count;
	struct ana_index *ana;      /* target/ana_index.h */
	uint64_t ana_change_count;  /* rises when the members of a group change for any host */
	bool has_ordered_host_nqns; /* host_nqns is ascending */
};

struct ana_group_state {
	uint32_t group;
	enum ana_state state;
};

struct transport_ops;

/* Whether large payload that cannot change any more is sent without a copy. */
enum zero_copy {
	ZERO_COPY_OFF,
	ZERO_COPY_AUTO, /* until the kernel reports that it copies anyway */
	ZERO_COPY_ON,
};

#define TARGET_ZERO_COPY_MIN_BYTES 65536 /* below: copying costs less than pinning pages */

struct port {
	uint16_t id;
	/* The transport of the port. NULL: TCP, for snapshots that tests make. */
	const struct transport_ops *transport;
	struct net_addr listen; /* where connections are accepted */
	/* The address that discovery reports. Empty: the address that the host has reached. */
	char advertise_address[64];
	/* Subsystems offered on this port. The discovery service is always offered. */
	const struct subsystem **subsystems;
	unsigned subsystem_count;
	struct ana_group_state *ana; /* ascending; other groups are optimized on this port */
	unsigned ana_count;
	bool is_discovery_only; /* the well-known port 8009, discovery only */
	enum zero_copy zero_copy;
	uint32_t zero_copy_min_bytes; /* smallest payload of a PDU to send without a copy */
	/* Set by the target when the snapshot is applied. */
	uint64_t *offers;           /* one bit per subsystem, by its index */
	uint64_t ana_change_count;  /* rises when the state of a group on this port changes */
	uint64_t *ana_group_counts; /* by group: count at its last change; NULL: none yet */
};

struct target_limits {
	uint32_t connections_max;          /* in total */
	uint32_t connections_per_host_max; /* per peer address */
	uint32_t ctrls_max;                /* for I/O; discovery has the same number again */
	/* For I/O, and the same number again for discovery. Per address and per host NQN. */
	uint32_t ctrls_per_host_max;
	uint32_t io_queues_max;      /* per controller */
	uint32_t queue_size_max;     /* entries */
	uint32_t in_capsule_bytes;   /* for I/O queues; default 8192 */
	uint32_t transfer_max_bytes; /* MDTS; default 512 KiB */
	uint32_t ic_timeout_ms;
	uint32_t connect_timeout_ms;
	/* How long a host may leave requested data (R2T) without progress, and how long it may not
	 * read what is sent to it. */
	uint32_t data_timeout_ms;
	/* CQT: time after KATO within which the commands of a lost host have ended. */
	uint32_t quiesce_ms;
	/* Longest keep alive time-out that a host may ask for. 0: any. */
	uint32_t kato_max_ms;
	/* A controller without keep alive ends after this time without a command. 0: never. */
	uint32_t idle_timeout_ms;
	bool allows_header_digest;
	bool allows_data_digest;
};

void target_limits_default(struct target_limits *limits);

/* Commands of one reactor that use a snapshot. Each command writes the count, so each reactor has a
 * cache line of its own. */
struct inflight {
	uint32_t count;
	uint8_t pad[60];
};

struct snapshot {
	uint64_t generation;           /* set by target_apply */
	uint64_t discovery_generation; /* GENCTR: changes when the discovery log may have changed */
	struct subsystem **subsystems; /* ascending NQN */
	unsigned subsystem_count;
	struct port *ports; /* ascending port ID */
	unsigned port_count;
	struct target_limits limits;
	char (*mask_hosts)[NVME_NQN_BYTES]; /* the hosts that masks name, ascending */
	unsigned mask_host_count;
	struct ns_mask **masks; /* owned; namespaces point to them */
	unsigned mask_count;
	char **labels; /* owned; namespaces point to them */
	unsigned label_count;
	/* Set by the target: commands that use the snapshot, per reactor, and how many reactors
	 * still have to acknowledge. */
	struct inflight *inflight;
	atomic_uint acks_missing;
	struct reactor_msg free_msg;
	struct target *target;
	struct list node; /* in target->retired, ascending generation */
};

/* An empty snapshot with default limits. NULL when out of memory. */
struct snapshot *snapshot_create(void);
/* For snapshots never applied. Frees the snapshot and everything it owns, and drops its references
 * to backings. */
void snapshot_destroy(struct snapshot *snapshot);
const struct subsystem *snapshot_find_subsystem(const struct snapshot *snapshot, const char *nqn);
const struct port *snapshot_find_port(const struct snapshot *snapshot, uint16_t port_id);
/* The index of the first namespace with a higher NSID, or ns_count when there is none. */
unsigned subsystem_ns_after(const struct subsystem *subsystem, uint32_t nsid);
/* The slow path of subsystem_find_ns. */
const struct ns *subsystem_search_ns(const struct subsystem *subsystem, uint32_t nsid);

/* The namespace with this NSID, or NULL. */
static inline const struct ns *subsystem_find_ns(const struct subsystem *subsystem, uint32_t nsid)
{
	unsigned at = nsid - 1;

	/* Usually namespaces are numbered from 1 without gaps: look there first. */
	if (at < subsystem->ns_count && subsystem->namespaces[at].nsid == nsid)
		return &subsystem->namespaces[at];
	return subsystem_search_ns(subsystem, nsid);
}
/* True when this host sees the namespace, or when no host does: any host may attach a namespace
 * that is not attached. */
bool ns_is_allocated_for(const struct ns *ns, uint32_t host_index);
bool subsystem_allows_host(const struct subsystem *subsystem, const char *host_nqn);
/* True when any subsystem allows the host. */
bool snapshot_allows_host(const struct snapshot *snapshot, const char *host_nqn);
/* Bits of enum host_right: the rights of all hosts and those of this host together. */
uint32_t subsystem_rights_of(const struct subsystem *subsystem, const char *host_nqn);
/* Index in mask_hosts, or NS_MASK_HOST_OTHER. */
uint32_t snapshot_host_index(const struct snapshot *snapshot, const char *host_nqn);
bool port_offers(const struct port *port, const struct subsystem *subsystem);
enum ana_state port_ana_state(const struct port *port, uint32_t group);
/*
 * The status of a command for a namespace of this group on this port: success where the group is
 * accessible. DNR is clear in every state, because hosts fail over by that: the command may succeed
 * on another path. CRD is 0, because no CRDT is set. Base 2.1, sections 8.1.1.4 to 8.1.1.8.
 */
nvme_status port_ana_status(const struct port *port, uint32_t group);

/* ---- the target ---------------------------------------------------------------------------- */

struct target;

/* The host that asks for the discovery log, where, and the snapshot in force there. */
struct discovery_asker {
	const struct snapshot *snapshot;
	const struct port *port;
	const char *host_nqn;
	const struct net_addr *local; /* the address that the host has reached */
};

/*
 * Writes the discovery log of one host on one port. Provided by control, so that target/ does not
 * depend on discovery/. Fills up to len_bytes from offset of the log. Returns the full size of the
 * log.
 */
typedef uint64_t (*target_discovery_log_fn)(const struct discovery_asker *asker, uint64_t offset,
					    uint8_t *buf, uint32_t len_bytes);

struct manage_request; /* target/manage.h */
struct ctrl_reset;     /* target/ctrl_reset.h */

/* Controller identifiers are unique in a subsystem. Processes that serve the same subsystem have
 * disjoint ranges. */
#define TARGET_CNTLID_MAX 0xffef

/* A controller that has lost its host, as reported to the other controllers of that host: log
 * 1Fh. */
struct lost_host {
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
	struct uuid host_id;
	uint16_t cntlid;
	uint8_t uniquifier; /* CIU */
	uint8_t reason;     /* enum lost_host_reason */
};

/* Other processes that serve the same subsystems (peers). */
struct target_peers {
	/* Calls `reset` and `tell_lost`. Outlives the target. NULL: the control reactor. */
	struct reactor *reactor;
	/* True when a peer has this identifier in its range. Any reactor. */
	bool (*has_cntlid)(void *arg, uint16_t cntlid);
	/* Has the peer reset the controller, or fences the peer. Ends with reset->done on
	 * reset->reactor. */
	void (*reset)(void *arg, struct ctrl_reset *reset);
	/* Reports a lost controller to all peers that can be reached. */
	void (*tell_lost)(void *arg, const struct lost_host *lost);
	/* On the control reactor: a loss mark was drawn for a medium of this target. May be
	 * NULL. */
	void (*note_loss)(void *arg);
	void *arg;
};

struct target_config {
	struct reactor *control;
	struct reactor *const *reactors; /* data reactors; the first one is the registry */
	unsigned reactor_count;
	target_discovery_log_fn discovery_log;
	uint64_t power_cycles; /* for SMART: number of starts of this target */
	uint64_t unsafe_shutdowns;
	struct keeper keeper;
	/* Starts a host's command that changes the configuration, on the control reactor. Ends with
	 * manage_done. NULL: such commands are refused. */
	void (*manage)(void *arg, struct manage_request *request);
	void *manage_arg;
	uint16_t cntlid_first; /* first and last 0: 1 to TARGET_CNTLID_MAX */
	uint16_t cntlid_last;
	struct target_peers peers; /* zeroed: no peers */
	uint64_t random_seed;      /* for CIRN; different at each start */
	/* Random, different at each start. Hosts distinguish a copy of the target from a second
	 * path to the target by this number. All zero: not reported. */
	uint8_t instance[IDENTIFY_INSTANCE_BYTES];
	/* Changes when writes from before this start that were not flushed may be lost: see
	 * daemon/boot.h. All zero: not reported. */
	uint8_t boot[IDENTIFY_BOOT_BYTES];
	/* The source of loss marks (target/loss.h): a number of the state that the keeper holds. 0:
	 * marks are not reported. */
	uint64_t loss_source;
	bool was_flushed; /* the previous process left no unflushed write */
	/* Data buffers per reactor: 8 KiB, 128 KiB, 1 MiB. 0, 0, 0: default. */
	unsigned buf_counts[3];
};

/* A controller of a peer has lost its host: notifies the controllers of that host here. Any
 * reactor. */
void target_tell_lost(struct target *target, const struct lost_host *lost);

/* The loss mark of this namespace was changed outside of the target: notifies its hosts, which then
 * read the mark (target/loss.h). Control reactor. */
void target_tell_loss(struct target *target, const struct ns_live *live);

/* On the control thread, before the reactors run or while they run. 0 or -errno. */
int target_create(const struct target_config *config, struct target **ret_target);

/*
 * Swaps to a new configuration. Control reactor only, one call at a time. Takes over the snapshot
 * in every case. `applied` is called on the control reactor. res 0: every reactor uses the snapshot
 * and the listeners are open. -errno with a message: a listener could not be opened, nothing has
 * changed, and the snapshot was destroyed.
 */
void target_apply(struct target *target, struct snapshot *taken_snapshot,
		  void (*applied)(void *arg, int res, const char *error), void *arg);
/* The snapshot in force, or NULL before the first apply. Control reactor only. */
const struct snapshot *target_snapshot(const struct target *target);
/* The address to which the listener of this port is bound, with the real port number when the
 * configuration asked for 0. 0 or -ENOENT. */
int target_port_addr(const struct target *target, uint16_t port_id, struct net_addr *ret_addr);

/*
 * Clean end: refuses new connections, notifies the hosts that asked for events, lets commands
 * finish and answers them, closes connections and flushes media. Calls `done` on the control
 * reactor; the caller then calls target_destroy. Commands that do not finish within grace_ms are
 * cancelled. So are the final flushes, which have at least two seconds.
 */
void target_shutdown(struct target *target, uint32_t grace_ms, void (*done)(void *arg), void *arg);
/* After target_shutdown: true when every medium was flushed, or a new loss mark reports each medium
 * that could not be flushed. */
bool target_is_flushed(const struct target *target);
void target_destroy(struct target *target);

/* The commands that a change concerns: those of some namespaces, or those of an ANA group on a
 * port. */
struct target_scope {
	const struct uuid *uuids;
	unsigned uuid_count;
	uint16_t port_id;
	uint32_t ana_group; /* 0: none */
};

/*
 * As target_apply. In addition, calls `drained` when no command that the change concerns, and that
 * was judged under a former configuration, can reach a medium any more. `drained` is called after
 * `applied`, and not at all when `applied` got an error. For changes in two steps, such as ANA
 * transitions and Format NVM. res of `drained`: 0, or -ETIMEDOUT when a medium does not complete
 * such a command (target/barrier.h). The scope is copied.
 *
 * scope NULL: the change concerns the commands from which the change takes the right to what they
 * do: their namespace was hidden from their host or write protected, or their host may no longer
 * connect.
 */
void target_apply_and_drain(struct target *target, struct snapshot *taken_snapshot,
			    const struct target_scope *scope,
			    void (*applied)(void *arg, int res, const char *error),
			    void (*drained)(void *arg, int res), void *arg);

/* A controller, for people. */
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
	uint64_t connected_ns; /* time since Connect */
};

/* Control reactor. Calls `done` there with a list that `done` must free, or NULL when out of
 * memory. */
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

/* Any thread. Each figure is exact, but the figures are not of the same instant. */
void target_get_stats(const struct target *target, struct target_stats *ret_stats);

#endif

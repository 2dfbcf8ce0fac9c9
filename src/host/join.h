/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which controllers are one subsystem, and which namespace an NSID means: what all mpaths of a
 * process know together of one subsystem. Every reactor has an mpath of its own (ADR 0020). Without
 * a join one reactor could go on writing to an NSID whose namespace was replaced, because another
 * reactor learned of the change first.
 *
 * Controllers are joined by NQN and serial number, and two of them never have the same CNTLID. The
 * model number is no identity: the members of a cluster change it one after the other. Two
 * processes (instances) of weft's target are one subsystem only if they report that they are
 * clustered. Otherwise one of them is a copy of the other, with data of its own. A namespace is
 * identified by its UUID, NGUID and EUI64, never by its NSID: see join_ns_see.
 *
 * A join also records which acknowledged writes a target has lost with its power: host/loss.h.
 *
 * Threads: any, under a lock that no I/O command takes. join_ns_is_replaced takes no lock.
 */
#ifndef WEFT_HOST_JOIN_H
#define WEFT_HOST_JOIN_H

#include "base/list.h"
#include "host/host_addr.h"
#include "host/loss.h"
#include "wire/identify.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOIN_WHY_BYTES 384

struct join;

/* One namespace under one NSID. Freed with the join. */
struct join_ns {
	uint32_t nsid;
	/* Another namespace has the NSID. Never reset: a namespace that returns to its NSID
	 * afterwards is a new join_ns. */
	_Atomic bool is_replaced;
	struct loss_ns loss; /* writes that are not flushed, and lost writes */
	/* The fields below are used by the join only. */
	struct ns_identity identity;
	uint32_t epoch;    /* join.epoch when the namespace was first seen */
	uint64_t vouchers; /* bits by address index: where it was last seen */
	struct list node;  /* in join.replaced */
};

static inline bool join_ns_is_replaced(const struct join_ns *ns)
{
	return atomic_load_explicit(&ns->is_replaced, memory_order_acquire);
}

/* A path's entry in the join, embedded in the path. */
struct join_ctrl {
	struct list node;
	unsigned addr_index;
	bool is_live;
	uint16_t cntlid; /* while live */
	/* While live, or after a refusal. All zero: not reported. */
	uint8_t instance[IDENTIFY_INSTANCE_BYTES];
	bool is_clustered;
	/* The cache (host/loss.h) of the writes that the live controller acknowledges. While none
	 * is live: the cache of the last controller. */
	unsigned cache;
	/* The serial number that the address reported last. Kept while the address has no
	 * controller. */
	bool has_word;
	char serial[NVME_SERIAL_BYTES + 1];
};

/* join_create returns NULL when memory runs out. The caller owns a reference, which join_put
 * releases. join_get takes another one. */
struct join *join_create(void);
struct join *join_get(struct join *join);
void join_put(struct join *join);

/* Registers a path to this address. 0, or -ENOSPC: too many addresses. */
int join_ctrl_add(struct join *join, struct join_ctrl *ctrl, const struct host_addr *addr);
void join_ctrl_remove(struct join *join, struct join_ctrl *ctrl);
/* The path's controller is connected. 0, or an error with the reason in why. -EUCLEAN: the
 * controller belongs to another subsystem than the controller of another address, or to another
 * instance than a live controller. -EBUSY: the same address still has a controller with this
 * CNTLID, which must end first. */
int join_ctrl_enter(struct join *join, struct join_ctrl *ctrl, const struct ctrl_identity *identity,
		    char why[JOIN_WHY_BYTES]);
/* Call before the controller is used. 0, or -EUCLEAN as for join_ctrl_enter, because of what other
 * reactors have seen at the address since the controller entered. */
int join_ctrl_confirm(struct join *join, struct join_ctrl *ctrl, char why[JOIN_WHY_BYTES]);
/* Whether the last refused controller would still be refused, because of a live controller of
 * another instance or with the same CNTLID. If the target was restarted, that live controller is
 * dead, and its path will find out. */
bool join_ctrl_is_barred(struct join *join, const struct join_ctrl *ctrl);
/* The path's controller has ended or is lost. */
void join_ctrl_leave(struct join *join, struct join_ctrl *ctrl);
/* Takes the text about lost writes that were found since the last call, for the log. False, and "":
 * none were found. */
bool join_loss_take(struct join *join, char text[JOIN_WHY_BYTES]);
/* Whether both controllers report the same subsystem. */
bool join_same_subsystem(const struct ctrl_identity *a, const struct ctrl_identity *b);

/* A namespace as a controller reports it. */
struct join_sight {
	uint32_t nsid;
	const struct ns_identity *identity;
	bool is_event; /* a notice has named the NSID since it was last identified */
};

/* Records that the controller has this namespace.
 *
 * Two namespaces are the same if every identifier (UUID, NGUID, EUI64) that both report is equal,
 * and both report at least one. A namespace without identifiers is the same as long as the
 * subsystem, the block size and the size are the same, no notice has named it and it was never
 * gone.
 *
 * 0 with *ret_ns; -ENOMEM; -EUCLEAN with the reason in why: another address has another namespace
 * under this NSID. If no other address vouches for the former namespace, the former namespace is
 * replaced, on every reactor at once. */
int join_ns_see(struct join *join, const struct join_ctrl *ctrl, const struct join_sight *sight,
		struct join_ns **ret_ns, char why[JOIN_WHY_BYTES]);
/* The controller no longer has the namespace, or cannot identify it. */
void join_ns_unsee(struct join *join, const struct join_ctrl *ctrl, struct join_ns *ns);
/* No path has the namespace. */
void join_ns_gone(struct join *join, struct join_ns *ns);

#endif

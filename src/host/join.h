/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which controllers are one subsystem, and which namespace an NSID means: what all mpaths of a
 * process know together of one subsystem. Every reactor has an mpath of its own (ADR 0020), so
 * without a join one reactor could go on writing to an NSID whose namespace was replaced, because
 * another reactor heard of it first.
 *
 * Controllers are joined by NQN and serial number, and two of them never have one CNTLID. The model
 * number is no identity: the members of a cluster change it one after the other. Two processes
 * (instances) of weft's target are one subsystem only when they say that they are clustered: else
 * one of them is a copy of the other, with data of its own. A namespace is
 * known by its UUID, NGUID and EUI64, never by its NSID: see join_ns_see.
 *
 * A join also knows which acknowledged writes a target has lost with its power: host/loss.h.
 *
 * Threads: any; a lock that no I/O command takes. join_ns_is_replaced takes none.
 */
#ifndef WEFT_HOST_JOIN_H
#define WEFT_HOST_JOIN_H

#include "base/list.h"
#include "base/net_addr.h"
#include "host/loss.h"
#include "wire/identify.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOIN_WHY_BYTES 384

struct join;

/* One namespace under one NSID. Lives as long as the join. */
struct join_ns {
	uint32_t nsid;
	/* Another namespace has the NSID. Never taken back: a namespace that returns to its NSID
	 * afterwards is a new join_ns. */
	_Atomic bool is_replaced;
	struct loss_ns loss; /* writes that are not flushed, and those that are lost */
	/* The rest is the join's own. */
	struct ns_identity identity;
	uint32_t epoch;    /* of the subsystem's identity when it was seen first */
	uint64_t vouchers; /* by address index: where it was seen last */
	struct list node;  /* on the join's list of replaced ones */
};

static inline bool join_ns_is_replaced(const struct join_ns *ns)
{
	return atomic_load_explicit(&ns->is_replaced, memory_order_acquire);
}

/* A path's place in the join; embedded in the path. */
struct join_ctrl {
	struct list node;
	unsigned addr_index;
	bool is_live;
	uint16_t cntlid; /* while live */
	/* While live, and of a refused one; all zero: not reported. */
	uint8_t instance[IDENTIFY_INSTANCE_BYTES];
	bool is_clustered;
	/* Where the writes are that it acknowledges; that of the last one while none is live. */
	unsigned cache;
	/* What its address said last, kept while the controller is away. */
	bool has_word;
	char serial[NVME_SERIAL_BYTES + 1];
};

/* NULL: out of memory. The caller owns a reference. */
struct join *join_create(void);
struct join *join_get(struct join *join);
void join_put(struct join *join);

/* A path to this address exists. 0, or -ENOSPC: too many addresses. */
int join_ctrl_add(struct join *join, struct join_ctrl *ctrl, const struct net_addr *addr);
void join_ctrl_remove(struct join *join, struct join_ctrl *ctrl);
/* Its controller is connected. 0, or with the reason in why: -EUCLEAN: it is of another subsystem
 * than the controller of another address, or of another instance than a live controller; -EBUSY:
 * the same address has a controller with its CNTLID, which must end first. */
int join_ctrl_enter(struct join *join, struct join_ctrl *ctrl, const struct ctrl_identity *identity,
		    char why[JOIN_WHY_BYTES]);
/* Before the controller is used: 0, or -EUCLEAN as above, from what other reactors have seen at its
 * address since it entered. */
int join_ctrl_confirm(struct join *join, struct join_ctrl *ctrl, char why[JOIN_WHY_BYTES]);
/* The controller that was refused last is refused still, for a live one of another instance or with
 * its CNTLID. When the target was started anew, that one is dead, and its path will notice. */
bool join_ctrl_is_barred(struct join *join, const struct join_ctrl *ctrl);
/* Its controller has ended or is lost. */
void join_ctrl_leave(struct join *join, struct join_ctrl *ctrl);
/* The text of the losses of writes that were found since the last call, for the log of people; ""
 * and false: there are none. */
bool join_loss_take(struct join *join, char text[JOIN_WHY_BYTES]);
/* Both are of one subsystem as far as they tell. */
bool join_same_subsystem(const struct ctrl_identity *a, const struct ctrl_identity *b);

/* A namespace that a controller has. */
struct join_sight {
	uint32_t nsid;
	const struct ns_identity *identity;
	bool is_event; /* a notice named the NSID since it was looked at last */
};

/* The controller has this namespace.
 *
 * Two namespaces are the same when every identifier (UUID, NGUID, EUI64) that both report is equal,
 * and both report one. A namespace without any is the same as long as the subsystem, block size and
 * size are, no notice has named it and it was never gone.
 *
 * 0 with *ret_ns; -ENOMEM; -EUCLEAN with the reason in why: another address has another namespace
 * under this NSID. Where no other address vouches for the namespace of before, that one is
 * replaced, on every reactor at once. */
int join_ns_see(struct join *join, const struct join_ctrl *ctrl, const struct join_sight *sight,
		struct join_ns **ret_ns, char why[JOIN_WHY_BYTES]);
/* The controller has it no longer, or cannot tell. */
void join_ns_unsee(struct join *join, const struct join_ctrl *ctrl, struct join_ns *ns);
/* No path has it. */
void join_ns_gone(struct join *join, struct join_ns *ns);

#endif

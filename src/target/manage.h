/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of hosts that change the configuration: Namespace Management and Attachment, Format NVM,
 * write protection, labels. They are carried to the control reactor, where control makes of them a
 * change like any other (checked, kept, applied to every reactor), and back with a status.
 *
 * A request may wait on the control reactor behind other changes. It is therefore judged twice: by
 * the controller's reactor when the command arrives, and by manage_judge when its change begins,
 * against the configuration and the reservations in force then. It is cancelled when its controller
 * ends or is reset, by Abort, and by Preempt and Abort: one that has not begun ends at once, one
 * that has begun ends as early as it can. docs/adr/0034 has the reasons.
 */
#ifndef WEFT_TARGET_MANAGE_H
#define WEFT_TARGET_MANAGE_H

#include "base/list.h"
#include "reactor/reactor.h"
#include "target/rota.h"
#include "target/target.h"

struct queue;
struct slot;

enum manage_kind {
	MANAGE_NS_CREATE,
	MANAGE_NS_DELETE, /* nsid NVME_NSID_ALL: all that were judged */
	MANAGE_NS_ATTACH,
	MANAGE_NS_DETACH,
	MANAGE_FORMAT, /* nsid NVME_NSID_ALL: all that were judged and that the host sees */
	MANAGE_WRITE_PROTECT,
	MANAGE_NS_LABEL,
};

/* The requester's: it lives until done. */
struct manage_request {
	enum manage_kind kind;
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES]; /* who asks */
	struct uuid host_id;
	uint16_t port_id; /* of the controller */
	uint32_t nsid;
	struct uuid uuid;   /* of the namespace that was judged; zeroes: none or all */
	struct uuid *uuids; /* NVME_NSID_ALL: those that were judged; the requester's */
	unsigned uuid_count;
	uint64_t block_count;              /* CREATE */
	uint32_t block_bytes;              /* CREATE, FORMAT */
	bool is_private;                   /* CREATE */
	uint32_t ana_group;                /* CREATE; 0: the target's choice */
	bool erases;                       /* FORMAT: user data reads as zeroes afterwards */
	char (*host_nqns)[NVME_NQN_BYTES]; /* ATTACH, DETACH; the requester's */
	unsigned host_count;
	enum ns_write_protect write_protect;
	char label[TARGET_NS_LABEL_BYTES + 1];

	/* The answer. */
	nvme_status status;
	uint32_t result_nsid; /* CREATE */

	/* The requester's reactor's. */
	void (*done)(struct manage_request *request);
	struct reactor *reactor;
	struct target *target;
	struct slot *slot;
	bool is_submitted;
	bool is_answered;
	bool is_cancel_out; /* cancel_msg is on its way: the request must stay until it is back */
	struct reactor_msg msg;
	struct reactor_msg cancel_msg;

	/* The control reactor's, from manage_submit to manage_done. */
	struct list node;          /* in target->manage_requests */
	struct rota_entry turn;    /* waits until target->manage has the request, then runs */
	uint64_t serial;           /* requests are numbered as they arrive */
	nvme_status cancel_status; /* not success: it was cancelled, and ends with this */
	/* Set by target->manage; may be NULL. Called once when the request is cancelled; may call
	 * manage_done. */
	void (*cancel)(struct manage_request *request);
	void *job; /* for target->manage alone */
};

/* ---- on the reactor of the admin queue -------------------------------------------------------
 */

/* For the command in `slot`: who asks, and for which NSID. The rest is the caller's to fill in. */
void manage_request_init(struct manage_request *request, struct slot *slot, enum manage_kind kind);
/* `done` follows, never from inside this call. A request whose slot was cancelled meanwhile comes
 * back without having been with control. */
void manage_submit(struct manage_request *request);
/* Instead of manage_submit: `done` follows with this status. */
void manage_refuse_here(struct manage_request *request, nvme_status status);
/* Cancels all requests of an admin queue: its controller ends or is reset. */
void manage_cancel_queue(struct queue *queue);
/* Whether requests of this admin queue have not been answered yet. */
bool manage_is_busy(const struct queue *queue);

/* ---- on the control reactor ------------------------------------------------------------------
 */

/*
 * Requests of one host that are with target->manage at a time. The others wait in a rota, so that
 * hosts take turns whatever one of them sends. One that finds the rota full is answered with
 * Command Interrupted. A request that waits takes about 12 KB: 1.5 MB of a host, 12 MB in all.
 */
#define MANAGE_RUNNING_PER_HOST 4
#define MANAGE_WAITING_PER_HOST 128
#define MANAGE_WAITING_MIN      8
#define MANAGE_WAITING_TOTAL    1024

void manage_init(struct target *target);

/* request->status is the answer. */
void manage_done(struct manage_request *request);
/*
 * Whether the request may begin now: it was not cancelled, its host may still connect and was not
 * silent for too long, the namespaces are those that were judged, the host sees and reaches them,
 * and no reservation is against it. Rights and write protection are judged in the document.
 */
nvme_status manage_judge(const struct manage_request *request);
/* Whether this namespace is one that the command was judged for. */
bool manage_is_judged(const struct manage_request *request, const struct uuid *uuid);
/* Whether the request changes this namespace in a way that reservations forbid to others. */
bool manage_is_reserved_against(const struct manage_request *request, const struct uuid *uuid);

/* Ends requests early and waits for their end. */
struct manage_stop {
	struct target *target;
	bool (*touches)(const struct manage_request *request, const void *arg);
	const void *touches_arg;
	nvme_status status; /* that they end with */
	/* 0, or -ETIMEDOUT when requests still run after BARRIER_END_S. May be called from inside
	 * manage_stop_start. */
	void (*done)(void *arg, int res);
	void *arg;

	/* manage.c's. */
	struct list node; /* in target->manage_stops */
	uint64_t before;  /* requests that arrive later are judged by what is in force by now */
	struct reactor_timer timer;
};

void manage_stop_start(struct manage_stop *stop);

#endif

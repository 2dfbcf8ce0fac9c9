/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of hosts that change the configuration: Namespace Management and Attachment, Format NVM,
 * write protection, labels. A request is carried to the control reactor, where target->manage makes
 * an ordinary change of it (checked, kept, applied to every reactor), and back with a status.
 *
 * A request may wait on the control reactor behind other changes. It is therefore judged twice: by
 * the controller's reactor when the command arrives, and by manage_judge when its change begins,
 * against the configuration and the reservations in force then. A request is cancelled when its
 * controller ends or is reset, by Abort, and by Preempt and Abort. A request that has not begun
 * then ends at once; one that has begun ends as early as possible. docs/adr/0034 has the reasons.
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
	MANAGE_NS_DELETE, /* NVME_NSID_ALL: all that were judged */
	MANAGE_NS_ATTACH,
	MANAGE_NS_DETACH,
	MANAGE_FORMAT, /* NVME_NSID_ALL: all that were judged and that the host sees */
	MANAGE_WRITE_PROTECT,
	MANAGE_NS_LABEL,
};

/* Owned by the requester, which keeps it until `done` is called. */
struct manage_request {
	enum manage_kind kind;
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES]; /* the host that sent the command */
	struct uuid host_id;
	uint16_t port_id; /* of the controller */
	uint32_t nsid;
	struct uuid uuid;   /* the namespace that was judged; zeroes: none or all */
	struct uuid *uuids; /* NVME_NSID_ALL: those that were judged; owned by the requester */
	unsigned uuid_count;
	uint64_t block_count;              /* CREATE */
	uint32_t block_bytes;              /* CREATE, FORMAT */
	bool is_private;                   /* CREATE */
	uint32_t ana_group;                /* CREATE; 0: the target's choice */
	bool erases;                       /* FORMAT: user data reads as zeroes afterwards */
	char (*host_nqns)[NVME_NQN_BYTES]; /* ATTACH, DETACH; owned by the requester */
	unsigned host_count;
	enum ns_write_protect write_protect;
	char label[TARGET_NS_LABEL_BYTES + 1];

	/* The answer. */
	nvme_status status;
	uint32_t result_nsid; /* CREATE */

	/* Owned by the requester's reactor. */
	void (*done)(struct manage_request *request);
	struct reactor *reactor;
	struct target *target;
	struct slot *slot;
	bool is_submitted;
	bool is_answered;
	bool is_cancel_out; /* cancel_msg is in flight: the request must not be freed */
	struct reactor_msg msg;
	struct reactor_msg cancel_msg;

	/* Owned by the control reactor, from manage_submit to manage_done. */
	struct list node;       /* in target->manage_requests */
	struct rota_entry turn; /* waits until target->manage takes the request, then runs */
	uint64_t serial;        /* number of the request, in order of arrival */
	/* Not success: the request was cancelled, and ends with this status. */
	nvme_status cancel_status;
	/* Set by target->manage, or NULL. Called once when the request is cancelled. May call
	 * manage_done. */
	void (*cancel)(struct manage_request *request);
	void *job; /* private to target->manage */
};

/* ---- on the reactor of the admin queue ----------------------------------------------------- */

/* Fills in the requester and the NSID from the command in `slot`. The caller fills in the rest. */
void manage_request_init(struct manage_request *request, struct slot *slot, enum manage_kind kind);
/* Submits the request. `done` is called later, never from inside this call. When the slot was
 * cancelled before, the request is refused without going to the control reactor. */
void manage_submit(struct manage_request *request);
/* Answers the request without submitting it: `done` is called later, with this status. */
void manage_refuse_here(struct manage_request *request, nvme_status status);
/* For slot_wait.c. */
void manage_cancel(struct slot *slot);
/* Cancels all requests of an admin queue, when its controller is reset. */
void manage_cancel_queue(struct queue *queue);
/* True while requests of this admin queue are unanswered. */
bool manage_is_busy(const struct queue *queue);

/* ---- on the control reactor ---------------------------------------------------------------- */

/*
 * Bounds of the rota. MANAGE_RUNNING_PER_HOST requests of one host are with target->manage at a
 * time. The others wait in the rota, so that hosts take turns, however many requests one of them
 * sends. A request that finds the rota full is answered with Command Interrupted. A waiting request
 * takes about 12 KB: at most 1.5 MB per host and 12 MB in all.
 */
#define MANAGE_RUNNING_PER_HOST 4
#define MANAGE_WAITING_PER_HOST 128
#define MANAGE_WAITING_MIN      8
#define MANAGE_WAITING_TOTAL    1024

void manage_init(struct target *target);

/* Sends request->status to the requester as the answer. */
void manage_done(struct manage_request *request);
/*
 * Success when the request may begin now: it was not cancelled, its host may still connect and was
 * not silent for too long, the namespaces are those that were judged, the host sees and reaches
 * them, and no reservation excludes the host. Rights and write protection are checked by the edit
 * of the document.
 */
nvme_status manage_judge(const struct manage_request *request);
/* As manage_judge, by the configuration and the reservations alone: a request that was cancelled,
 * or whose host was silent for too long, is judged like any other. */
nvme_status manage_judge_config(const struct manage_request *request);
/* Calls `look` for each request that is not answered yet. `look` must not end a request. */
void manage_each(struct target *target, void (*look)(struct manage_request *request, void *arg),
		 void *arg);
/* True when the command was judged for this namespace. */
bool manage_is_judged(const struct manage_request *request, const struct uuid *uuid);
/* True when the request changes this namespace in a way that a reservation forbids to other
 * hosts. */
bool manage_is_reserved_against(const struct manage_request *request, const struct uuid *uuid);

/* Cancels requests and waits until they have ended. */
struct manage_stop {
	struct target *target;
	bool (*touches)(const struct manage_request *request, const void *arg);
	const void *touches_arg;
	nvme_status status; /* status of the cancelled requests */
	/* res: 0, or -ETIMEDOUT when requests still run after BARRIER_END_S. May be called from
	 * inside manage_stop_start. */
	void (*done)(void *arg, int res);
	void *arg;

	/* Private to manage.c. */
	struct list node; /* in target->manage_stops */
	uint64_t before;  /* serial: later requests are judged by what is in force now */
	struct reactor_timer timer;
};

void manage_stop_start(struct manage_stop *stop);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of hosts that change the configuration: Namespace Management and Attachment, Format NVM,
 * write protection, labels. They are carried to the control reactor, where control makes of them a
 * change like any other (checked, kept, applied to every reactor), and back with a status.
 */
#ifndef WEFT_TARGET_MANAGE_H
#define WEFT_TARGET_MANAGE_H

#include "target/target.h"

enum manage_kind {
	MANAGE_NS_CREATE,
	MANAGE_NS_DELETE, /* nsid NVME_NSID_ALL: all of the subsystem */
	MANAGE_NS_ATTACH,
	MANAGE_NS_DETACH,
	MANAGE_FORMAT, /* nsid NVME_NSID_ALL: all that the host sees */
	MANAGE_WRITE_PROTECT,
	MANAGE_NS_LABEL,
};

/* The requester's: it lives until done. */
struct manage_request {
	enum manage_kind kind;
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES]; /* who asks */
	uint32_t nsid;
	struct uuid uuid;     /* of the namespace that was judged; zeroes: none or all */
	uint64_t block_count; /* CREATE */
	uint32_t block_bytes; /* CREATE, FORMAT */
	bool is_private;      /* CREATE */
	uint32_t ana_group;   /* CREATE; 0: the target's choice */
	bool erases;          /* FORMAT: user data reads as zeroes afterwards */
	char (*host_nqns)[NVME_NQN_BYTES]; /* ATTACH, DETACH; the requester's */
	unsigned host_count;
	enum ns_write_protect write_protect;
	char label[TARGET_NS_LABEL_BYTES + 1];

	/* The answer. */
	nvme_status status;
	uint32_t result_nsid; /* CREATE */

	/* On the requester's reactor. */
	void (*done)(struct manage_request *request);
	struct reactor *reactor;
	struct target *target;
	struct reactor_msg msg;
};

/* From the requester's reactor; done follows, never from inside this call. */
void manage_submit(struct target *target, struct manage_request *request);
/* Control reactor: request->status is the answer. */
void manage_done(struct manage_request *request);

#endif

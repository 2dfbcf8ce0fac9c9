/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespace behind an attachment, and its changes while it is served. An NBD client or a block
 * device knows a size and a block size. When these change, clients must reconnect and the device
 * must end. Shared by the NBD server and the ublk device. Main thread.
 */
#ifndef WEFT_ATTACH_NS_H
#define WEFT_ATTACH_NS_H

#include "client/ns_handle.h"

struct attach_ns {
	const char *command;     /* the sub-command, for messages */
	struct ns_handle handle; /* handle.info: as it is served now */
	int event_fd;            /* readable: check the namespace */
	bool is_stale;           /* a request ended with -ESTALE: check the namespace */
	bool has_told_replaced;
};

enum attach_news {
	ATTACH_SAME,
	ATTACH_GREW,    /* handle.info has the new size */
	ATTACH_CHANGED, /* another block size, or smaller: the known values are invalid */
	ATTACH_GONE,
};

/* Whether the event descriptor or a stale request requires a check. */
bool attach_ns_must_look(const struct attach_ns *attached);
/* Compares the namespace with handle.info. Prints a message for ATTACH_CHANGED, and for a replaced
 * namespace. */
enum attach_news attach_ns_look(struct attach_ns *attached);
/* Opens the namespace again with its present format. Call after ATTACH_CHANGED, with no request in
 * flight. 0 or -errno, after a message. */
int attach_ns_reopen(struct attach_ns *attached);

#endif

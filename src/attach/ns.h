/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespace behind an attachment, and what becomes of it while it is served. An NBD client or a
 * block device was told a size and a block size; when those no longer hold, the client must be told
 * anew and the device must end. Shared by the NBD server and the ublk device. Main thread.
 */
#ifndef WEFT_ATTACH_NS_H
#define WEFT_ATTACH_NS_H

#include "client/ns_handle.h"

struct attach_ns {
	const char *command;     /* the sub-command, for messages */
	struct ns_handle handle; /* handle.info: as it is served */
	int event_fd;            /* readable: look again */
	bool is_stale;           /* a request ended with -ESTALE: look again */
	bool has_told_replaced;
};

enum attach_news {
	ATTACH_SAME,
	ATTACH_GREW,    /* handle.info has the new size */
	ATTACH_CHANGED, /* another block size, or smaller: what was told does not hold any more */
	ATTACH_GONE,
};

/* Whether the event descriptor or a stale request asks for a look. */
bool attach_ns_must_look(const struct attach_ns *attached);
/* Compares the namespace with what is served. Prints a line for ATTACH_CHANGED. */
enum attach_news attach_ns_look(struct attach_ns *attached);
/* After ATTACH_CHANGED, with no request under way: serves the namespace as it is now. 0 or -errno,
 * after a message. */
int attach_ns_reopen(struct attach_ns *attached);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A namespace as a disk of this machine: the library behind `weft attach`.
 */
#ifndef WEFT_ATTACH_ATTACH_H
#define WEFT_ATTACH_ATTACH_H

#include "client/ns_handle.h"

struct attach_options {
	struct ns_options ns; /* event_fd is set by attach_run */
	struct ns_where where;
	const char *nbd_socket;  /* NULL: not NBD */
	const char *export_name; /* of NBD */
	bool is_ublk;
	int ublk_id; /* N of /dev/ublkbN; -1: chosen by the kernel */
	bool is_read_only;
};

/*
 * Opens the namespace and serves it as an NBD export or a ublk device until SIGTERM or SIGINT. Call
 * on the main thread before other threads start: it blocks these signals and reads them itself. 0,
 * or -1 after a message.
 */
int attach_run(struct attach_options *options);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block device of `weft attach --ublk`: one queue of the kernel's ublk driver (Linux 6.4 or
 * newer), served through libweft. Everything runs on the main thread, with an io_uring of its own;
 * libweft's callbacks run on it too, in weft_poll.
 */
#ifndef WEFT_ATTACH_UBLK_H
#define WEFT_ATTACH_UBLK_H

#include "attach/ns.h"

struct ublk_options {
	const char *command;     /* the sub-command, for messages */
	const char *description; /* of the namespace */
	int id;                  /* N of /dev/ublkbN; -1: chosen by the kernel */
	bool is_read_only;
	struct weft *weft; /* created with WEFT_CALLBACKS_POLL */
	struct attach_ns *attached;
};

/* Whether this machine has ublk and this process may use it. 0 or -errno, after a message. */
int ublk_check(const char *command);
/* Serves until SIGTERM or SIGINT, which the caller must block before. 0, or -1 after a message. */
int ublk_serve(const struct ublk_options *options);

#endif

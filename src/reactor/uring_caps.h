/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this kernel's io_uring can do, found out at run time, in this one place.
 *
 * weft builds against liburing 2.3 and runs on kernels from 6.1 up; whatever is younger is asked
 * of the kernel here, and nobody compares version numbers.
 */
#ifndef WEFT_REACTOR_URING_CAPS_H
#define WEFT_REACTOR_URING_CAPS_H

#include <liburing.h>
#include <stdbool.h>
#include <stddef.h>

/* Younger than liburing 2.3. */
#define URING_SEND_ZC_REPORT_USAGE  (1u << 3)  /* in ioprio of the request */
#define URING_NOTIF_USAGE_ZC_COPIED (1u << 31) /* in the result of its notification */

struct uring_cap {
	const char *name;
	bool is_supported; /* by the running kernel */
	bool is_used;      /* by weft, where supported */
};

#define URING_CAPS_MAX 24

struct uring_caps {
	unsigned count;
	struct uring_cap items[URING_CAPS_MAX];
};

/* Asks the kernel; opens and closes a small ring. 0 or -errno when io_uring is not to be had. */
int uring_caps_probe(struct uring_caps *ret_caps);

/*
 * Opens a ring with the best set of flags that the kernel takes, disabled: the thread that calls
 * io_uring_enable_rings becomes its only user. 0 or -errno.
 */
int uring_caps_open_ring(unsigned sq_entries, unsigned cq_entries, struct io_uring *ret_ring);
/* Multishot accept came with cooperative task running, which such a ring has. */
bool uring_caps_has_multishot_accept(const struct io_uring *ring);

/*
 * Sends without a copy that report whether the kernel copied all the same (IORING_OP_SENDMSG_ZC is
 * of Linux 6.1, the report of 6.2). Opens a small ring the first time it is asked.
 */
bool uring_caps_has_send_zc(void);

#endif

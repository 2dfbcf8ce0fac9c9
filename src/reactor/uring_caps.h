/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The capabilities of the running kernel's io_uring, probed at run time, only here.
 *
 * weft builds against liburing 2.3 and runs on kernels from 6.1 on. Newer features are probed here,
 * so no code compares version numbers.
 */
#ifndef WEFT_REACTOR_URING_CAPS_H
#define WEFT_REACTOR_URING_CAPS_H

#include <liburing.h>
#include <stdbool.h>
#include <stddef.h>

/* Newer than liburing 2.3. */
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

/* Probes the kernel with a small ring that is opened and closed. 0, or -errno when io_uring is not
 * available. */
int uring_caps_probe(struct uring_caps *ret_caps);

/*
 * Opens a ring with the best set of flags that the kernel accepts, disabled: the thread that calls
 * io_uring_enable_rings becomes its only user. 0 or -errno.
 */
int uring_caps_open_ring(unsigned sq_entries, unsigned cq_entries, struct io_uring *ret_ring);
/*
 * On the ring's thread: lets the kernel run up to `count` operations on files that block, each on a
 * worker thread that exists only while there is work. The kernel's own limit is 4 for each CPU,
 * which a single store that hangs would use up.
 */
void uring_caps_set_workers(struct io_uring *ring, unsigned count);
/* Kernels with TASKRUN_FLAG, which came with cooperative task running, have multishot accept. */
bool uring_caps_has_multishot_accept(const struct io_uring *ring);

/*
 * Whether zero-copy sends can report that the kernel copied anyway (IORING_OP_SENDMSG_ZC: Linux
 * 6.1, the report: 6.2). Opens a small ring at the first call.
 */
bool uring_caps_has_send_zc(void);

#endif

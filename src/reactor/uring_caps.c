/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes io_uring at run time: ring flags by trying them, opcodes by the kernel's probe, register
 * calls by passing a bad address (a kernel that knows the call returns -EFAULT, others -EINVAL).
 *
 * Any thread. Used when a reactor is created and by `weft info`.
 */
#include "reactor/uring_caps.h"

#include "base/check.h"
#include "base/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* Register opcodes that are newer than liburing 2.3. */
#define URING_REGISTER_NAPI       27 /* Linux 6.9 */
#define URING_REGISTER_MEM_REGION 34 /* Linux 6.13: registered waits */

#define URING_FLAGS_DEFER                                                                          \
	(IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_TASKRUN_FLAG |     \
	 IORING_SETUP_SUBMIT_ALL)
#define URING_FLAGS_COOP                                                                           \
	(IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL)

/* Best first. Every kernel with disabled rings (5.10) accepts the last one. */
static const unsigned uring_flag_sets[] = {URING_FLAGS_DEFER, URING_FLAGS_COOP, 0};

int uring_caps_open_ring(unsigned sq_entries, unsigned cq_entries, struct io_uring *ret_ring)
{
	int res = -EINVAL;

	for (size_t i = 0; i < ARRAY_LEN(uring_flag_sets) && res == -EINVAL; i++) {
		struct io_uring_params params = {
			.flags = uring_flag_sets[i] | IORING_SETUP_R_DISABLED |
				 IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
			.cq_entries = cq_entries,
		};

		memset(ret_ring, 0, sizeof(*ret_ring));
		res = io_uring_queue_init_params(sq_entries, ret_ring, &params);
	}
	return res;
}

void uring_caps_set_workers(struct io_uring *ring, unsigned count)
{
	unsigned limits[2] = {count, 0}; /* of files and block devices; of all others: unchanged */
	int res = io_uring_register_iowq_max_workers(ring, limits);

	if (res < 0)
		log_warn("reactor",
			 "cannot set the limit of io_uring's workers: %s; a file or "
			 "device that hangs may stop flushes of others",
			 strerror(-res));
}

bool uring_caps_has_multishot_accept(const struct io_uring *ring)
{
	return ring->flags & IORING_SETUP_TASKRUN_FLAG;
}

static bool uring_takes_flags(unsigned flags)
{
	struct io_uring ring;

	if (io_uring_queue_init(4, &ring, flags))
		return false;
	io_uring_queue_exit(&ring);
	return true;
}

static bool uring_knows_register(const struct io_uring *ring, unsigned opcode)
{
	const void *bad_address = (const void *)(uintptr_t)1;

	return io_uring_register((unsigned)ring->ring_fd, opcode, bad_address, 1) == -EFAULT;
}

/*
 * The kernel checks flags before it looks up the file: -EBADF means that the kernel knows the
 * flags. The request is never issued. The caller destroys the ring, and with it the remaining
 * completions.
 */
static bool uring_knows_send_zc(struct io_uring *ring)
{
	struct msghdr msg = {0};
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct io_uring_cqe *cqe;

	io_uring_prep_sendmsg_zc(sqe, -1, &msg, MSG_DONTWAIT);
	sqe->ioprio |= URING_SEND_ZC_REPORT_USAGE;
	if (io_uring_submit(ring) != 1 || io_uring_wait_cqe(ring, &cqe))
		return false;
	return cqe->res == -EBADF;
}

bool uring_caps_has_send_zc(void)
{
	static atomic_int answer; /* 0: not probed yet; the kernel's answer never changes */
	struct io_uring ring;
	int known = atomic_load_explicit(&answer, memory_order_relaxed);

	if (known == 0) {
		known = -1;
		if (io_uring_queue_init(4, &ring, 0) == 0) {
			known = uring_knows_send_zc(&ring) ? 1 : -1;
			io_uring_queue_exit(&ring);
		}
		atomic_store_explicit(&answer, known, memory_order_relaxed);
	}
	return known > 0;
}

static void uring_caps_add(struct uring_caps *caps, const char *name, bool is_supported,
			   bool is_used)
{
	CHECK(caps->count < URING_CAPS_MAX);
	caps->items[caps->count++] = (struct uring_cap){name, is_supported, is_used};
}

static void uring_caps_add_flags(struct uring_caps *caps)
{
	bool has_coop = uring_takes_flags(IORING_SETUP_COOP_TASKRUN);
	bool has_defer = uring_takes_flags(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);

	uring_caps_add(caps, "DEFER_TASKRUN", has_defer, true);
	uring_caps_add(caps, "SINGLE_ISSUER", uring_takes_flags(IORING_SETUP_SINGLE_ISSUER), true);
	/* Used only without DEFER_TASKRUN. */
	uring_caps_add(caps, "COOP_TASKRUN", has_coop, !has_defer);
	uring_caps_add(caps, "SUBMIT_ALL", uring_takes_flags(IORING_SETUP_SUBMIT_ALL), true);
	uring_caps_add(caps, "multishot accept", has_coop, true);
}

static void uring_caps_add_opcodes(struct uring_caps *caps, const struct io_uring_probe *probe)
{
	static const struct {
		const char *name;
		int opcode;
		bool is_used;
	} opcodes[] = {
		{"POLL_ADD", IORING_OP_POLL_ADD, true},
		{"ASYNC_CANCEL", IORING_OP_ASYNC_CANCEL, true},
		{"READV", IORING_OP_READV, true},
		{"WRITEV", IORING_OP_WRITEV, true},
		{"FSYNC", IORING_OP_FSYNC, true},
		{"FALLOCATE", IORING_OP_FALLOCATE, true},
		{"MSG_RING", IORING_OP_MSG_RING, false},
		{"URING_CMD", IORING_OP_URING_CMD, false},
		{"SEND_ZC", IORING_OP_SEND_ZC, false},
		{"SENDMSG_ZC", IORING_OP_SENDMSG_ZC, true},
	};

	for (size_t i = 0; i < ARRAY_LEN(opcodes); i++)
		uring_caps_add(caps, opcodes[i].name,
			       io_uring_opcode_supported(probe, opcodes[i].opcode),
			       opcodes[i].is_used);
}

int uring_caps_probe(struct uring_caps *ret_caps)
{
	struct io_uring_probe *probe;
	struct io_uring ring;
	int res = io_uring_queue_init(4, &ring, 0);

	if (res)
		return res;
	memset(ret_caps, 0, sizeof(*ret_caps));
	uring_caps_add_flags(ret_caps);
	probe = io_uring_get_probe_ring(&ring);
	if (probe) {
		uring_caps_add_opcodes(ret_caps, probe);
		io_uring_free_probe(probe);
	}
	uring_caps_add(ret_caps, "timeout in the wait call", ring.features & IORING_FEAT_EXT_ARG,
		       true);
	uring_caps_add(ret_caps, "zero-copy usage reports", uring_caps_has_send_zc(), true);
	uring_caps_add(ret_caps, "NAPI busy poll", uring_knows_register(&ring, URING_REGISTER_NAPI),
		       false);
	uring_caps_add(ret_caps, "registered waits",
		       uring_knows_register(&ring, URING_REGISTER_MEM_REGION), false);
	io_uring_queue_exit(&ring);
	return 0;
}

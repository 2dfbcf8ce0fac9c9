/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libweft: NVMe over TCP from user space, over several paths that fail over without losing a write.
 *
 * An instance (struct weft) runs reactors on threads of its own. No state is global: a process may
 * have several instances. A subsystem (struct weft_subsystem) is opened by address, by a set of
 * paths or by discovery. A namespace of a subsystem is used through a handle (struct weft_ns). A
 * request (struct weft_request) is memory of the caller: the caller fills in the operation and
 * submits the request from any thread. libweft calls `done` when the request has ended. The
 * instance's options choose whether `done` runs on libweft's threads or on the caller's thread
 * inside weft_poll.
 *
 * Functions return 0 or a negative errno. Counts and offsets are logical blocks where the name has
 * "block", else bytes. libweft needs neither root nor a kernel module. See libweft(7),
 * weft_open(3), weft_submit(3), and examples/.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_API __attribute__((visibility("default")))

struct weft;
struct weft_subsystem;
struct weft_ns;

/* Why a call failed, for people: the text names the cause and the remedy. */
struct weft_error {
	char text[512];
	uint16_t status; /* NVMe status: SCT in bits 10:8, SC in bits 7:0; 0: no NVMe error */
};

/* The version of the library that runs, for example "0.1.0". */
WEFT_API const char *weft_version(void);
/* Describes a result of libweft (0, or a negative errno) in one line. The string stays valid for
 * ever. Any thread. */
WEFT_API const char *weft_strerror(int result);

/* ---- an instance ------------------------------------------------------------------------------
 */

enum weft_callbacks {
	WEFT_CALLBACKS_REACTOR, /* on libweft's threads; they must not block */
	WEFT_CALLBACKS_POLL,    /* inside weft_poll */
};

struct weft_options {
	size_t size;       /* sizeof(struct weft_options): lets the struct grow */
	unsigned reactors; /* number of threads; 0: 1 */
	/* One CPU for each reactor, or NULL: the kernel places the threads, or with is_numa_aware
	 * libweft places them near the network card. */
	const int *cpus;
	/* Move the reactors to CPUs near the network card, which sysfs names. */
	bool is_numa_aware;
	uint32_t spin_us; /* longest busy wait for an answer before sleeping; 0: sleep at once */
	enum weft_callbacks callbacks;
	const char *host_nqn; /* NULL: as nvme-cli finds it, or derived from the machine */
	const char *host_id;  /* a UUID; NULL: as nvme-cli finds it, or derived from the machine */
	/* Receives log lines for people: level 0 error, 1 warning, 2 information, 3 debugging.
	 * NULL: no log. Called on libweft's threads, and by weft_open on its caller's, with lines
	 * about this instance only. libweft writes nothing to standard error. */
	void (*log)(void *arg, int level, const char *line);
	void *log_arg;
	const char *sysfs; /* folder that contains class/ and devices/; NULL: /sys */
};

/* Fills in the defaults and size. */
WEFT_API void weft_options_init(struct weft_options *options);
WEFT_API int weft_create(const struct weft_options *options, struct weft **ret_weft,
			 struct weft_error *error);
/* Ends the threads. Every subsystem must be closed. Not on libweft's threads. */
WEFT_API void weft_destroy(struct weft *weft);

/* For WEFT_CALLBACKS_POLL: runs the callbacks of up to max ended requests (0: of all). Waits up to
 * timeout_ms for the first ended request (-1: for ever). Returns the number of callbacks run, or
 * -errno: -EINTR after a signal, -EINVAL without WEFT_CALLBACKS_POLL. One thread at a time, and not
 * from a callback. */
WEFT_API int weft_poll(struct weft *weft, unsigned max, int timeout_ms);
/* A descriptor for poll(2) and similar calls: readable while weft_poll has callbacks to run, and
 * sometimes when weft_poll has none. The library owns the descriptor: do not read or close it.
 * -EINVAL without WEFT_CALLBACKS_POLL. */
WEFT_API int weft_poll_fd(struct weft *weft);

/* ---- a subsystem ------------------------------------------------------------------------------
 */

struct weft_path {
	const char *address; /* of the target: an IP address or a host name */
	const char *service; /* port number; NULL: 4420 (discovery: 8009) */
};

struct weft_open_options {
	size_t size;
	const char *subsystem_nqn; /* NULL with discovery: the only subsystem offered */
	const struct weft_path *paths;
	unsigned path_count;
	/* A discovery service to ask for paths, in addition to `paths` or instead of them. NULL:
	 * none. */
	const struct weft_path *discovery;
	const char *profile; /* "default", "training" or "database"; NULL: default */
	/* "name=value,...": overrides the profile. See weft-explain-timeouts(1). */
	const char *timeouts;
	const char *policy; /* "numa", "round-robin", "queue-depth", "latency"; NULL: queue-depth */
	/* I/O queues of each path, over all reactors. 0: one for each reactor. */
	unsigned queues;
	unsigned queue_size; /* entries of each queue; 0: 128 */
	bool header_digest;
	bool data_digest;
	uint32_t hedge_percentile;    /* hundredths of a percent; 0: reads are not hedged */
	uint32_t hedge_extra_percent; /* limit of the extra reads, in percent of all reads; 0: 5 */
	uint32_t zero_copy_bytes;     /* smallest write that is sent without a copy; 0: never */
	/* Receives a line for people when a path was connected or lost, or a namespace changed. May
	 * be NULL. Called on libweft's threads. */
	void (*event)(void *arg, const char *line);
	void *event_arg;
};

WEFT_API void weft_open_options_init(struct weft_open_options *options);
/*
 * Connects, and waits until every reactor has a path and knows the namespaces. Fails when a reactor
 * has no path within the connect time-out.
 *
 * Calls that wait (weft_open, weft_path_*, weft_paths, weft_queues, weft_run, weft_read, weft_write
 * and weft_flush) return -EDEADLK on libweft's own threads. weft_close must not be called there.
 */
WEFT_API int weft_open(struct weft *weft, const struct weft_open_options *options,
		       struct weft_subsystem **ret_subsystem, struct weft_error *error);
/* Disconnects in good order. No request may be in flight. */
WEFT_API void weft_close(struct weft_subsystem *subsystem);

/* Adds or removes a path of an open subsystem, on all reactors. -EEXIST, -ENOENT, -ENOSPC (32
 * paths). */
WEFT_API int weft_path_add(struct weft_subsystem *subsystem, const struct weft_path *path,
			   struct weft_error *error);
WEFT_API int weft_path_remove(struct weft_subsystem *subsystem, const struct weft_path *path,
			      struct weft_error *error);

/* A path of one reactor. */
struct weft_path_info {
	size_t size; /* sizeof(struct weft_path_info), set by the caller at least in infos[0] */
	unsigned reactor;
	char address[64];
	char state[16];     /* "live", "connecting", "waiting", "closing" */
	char ana_state[24]; /* "optimized", ...: state of the namespace nsid */
	bool is_stable;
	/* Fails over by Cross-Controller Reset, else by waiting. */
	bool has_reset;
	uint16_t cntlid;
	uint32_t quiesce_ms; /* the controller's CQT, or the profile's value */
	int numa_node;       /* of the network card; -1: unknown, or not looked up */
	uint32_t in_flight;
	uint64_t latency_ns; /* mean of the last tenths of a second; 0: no answer yet */
	uint64_t rtt_ns;     /* round trip of the transport; 0: unknown */
	uint64_t commands;   /* answered commands */
	uint64_t losses;     /* how often the path was lost */
	char last_error[256];
};
/* Fills in up to max paths. Returns the number of paths of all reactors, or -errno. nsid: the
 * namespace whose ANA state is reported; 0: none. */
WEFT_API int weft_paths(struct weft_subsystem *subsystem, uint32_t nsid,
			struct weft_path_info *infos, unsigned max);

/* An I/O queue of a live path of one reactor. */
struct weft_queue_info {
	size_t size; /* sizeof(struct weft_queue_info), set by the caller at least in infos[0] */
	unsigned reactor;
	char address[64];
	unsigned queue; /* QID: 1, 2, ... */
	/* Commands that the queue holds at once, as agreed with the controller. */
	uint32_t depth;
	uint32_t in_flight;
	uint64_t latency_ns; /* mean of the last tenths of a second; 0: no answer yet */
	uint64_t commands;   /* answered commands, including the queue's Connect */
};
/* Fills in up to max queues. Returns the number of I/O queues of all live paths, or -errno. */
WEFT_API int weft_queues(struct weft_subsystem *subsystem, struct weft_queue_info *infos,
			 unsigned max);

/* ---- namespaces -------------------------------------------------------------------------------
 */

struct weft_ns_info {
	size_t size; /* sizeof(struct weft_ns_info), set by the caller */
	uint32_t nsid;
	uint32_t block_bytes;
	uint64_t block_count;
	uint32_t transfer_max_bytes; /* of one command; a longer request is split */
	bool is_read_only;
	bool is_shared;
	uint8_t uuid[16];
	uint8_t nguid[16];
	/* WEFT_COMPARE_WRITE: most blocks of one request. */
	uint32_t compare_write_blocks_max;
	/* WEFT_COPY: most ranges, most blocks in one range, most blocks in all ranges. 0: cannot
	 * copy. */
	uint32_t copy_ranges_max;
	uint32_t copy_range_blocks_max;
	uint32_t copy_blocks_max;
	bool is_gone; /* the namespace was removed: requests end with -ENXIO */
	/* The namespace is gone and another namespace has its NSID: requests end with -ESTALE for
	 * good. */
	bool is_stale;
	/* The controller supports WEFT_LBA_STATUS, and blocks without data read as zeroes. */
	bool reports_allocated;
};

/* Fills in up to max NSIDs in ascending order. Returns the number of namespaces. */
WEFT_API int weft_ns_list(struct weft_subsystem *subsystem, uint32_t *nsids, unsigned max);
/* Opens the namespace that has the NSID now. The handle stands for this namespace, identified by
 * its UUID, NGUID or EUI64, and never for another namespace that gets the NSID later. -ENOENT,
 * -ENOMEM. */
WEFT_API int weft_ns_open(struct weft_subsystem *subsystem, uint32_t nsid, struct weft_ns **ret_ns,
			  struct weft_error *error);
/* Opens another handle of the same namespace, even if another namespace has the NSID now. When the
 * target loses acknowledged writes, a flush fails once for each handle. A server therefore uses one
 * handle for each client. 0 or -ENOMEM. */
WEFT_API int weft_ns_dup(const struct weft_ns *ns, struct weft_ns **ret_ns);
/* For a handle whose flush has failed with -EIO and whose user is gone: if the flush reported a
 * loss of writes, handles that are opened later report the loss again. */
WEFT_API void weft_ns_repeat_loss(struct weft_ns *ns);
WEFT_API void weft_ns_close(struct weft_ns *ns);
/* Returns the present state: a namespace may grow. -ESTALE: the namespace was formatted with
 * another block size since the handle was opened. The handle is then useless: close it and open the
 * namespace again. */
WEFT_API int weft_ns_info(struct weft_ns *ns, struct weft_ns_info *ret_info);

/* ---- requests ---------------------------------------------------------------------------------
 */

enum weft_op {
	WEFT_READ,
	WEFT_WRITE,
	WEFT_FLUSH,
	WEFT_WRITE_ZEROES,
	WEFT_DEALLOCATE, /* up to 256 ranges, or the range block, block_count */
	WEFT_COMPARE,    /* -EILSEQ: the data differs */
	/* Fused: write_iov is written if the blocks equal iov. */
	WEFT_COMPARE_WRITE,
	WEFT_COPY, /* the ranges, one after the other, to block */
	WEFT_VERIFY,
	/* Register, Acquire and Release use the fields from action to new_key. */
	WEFT_RESERVATION_REGISTER,
	WEFT_RESERVATION_ACQUIRE,
	WEFT_RESERVATION_RELEASE,
	/* Into iov, in the extended form: host identifiers of 128 bits. */
	WEFT_RESERVATION_REPORT,
	/* Which blocks of the range are allocated: iov receives the controller's LBA Status
	 * Descriptor List (NVM Command Set 1.1, section 4.2.1). Blocks that are missing from the
	 * list read as zeroes. -EOPNOTSUPP unless weft_ns_info sets reports_allocated. */
	WEFT_LBA_STATUS,
};

enum weft_flags {
	WEFT_FUA = 1 << 0,           /* data is on stable media before done */
	WEFT_DEALLOCATE_OK = 1 << 1, /* Write Zeroes may free the blocks */
	WEFT_IGNORE_KEY = 1 << 2,    /* reservations: IEKEY, ignore the key */
};

struct weft_range {
	uint64_t block;
	uint32_t block_count;
};

/*
 * Memory of the caller, zeroed before its first use. From weft_submit until done, the request, the
 * iovs, the ranges and the memory they point to must not change. A request may be submitted again
 * in its own done.
 */
struct weft_request {
	enum weft_op op;
	uint32_t flags; /* enum weft_flags */
	uint64_t block;
	uint32_t block_count;
	/* Data to read or write: block_count blocks in total. When the request is longer than
	 * transfer_max_bytes, any 63 consecutive pieces must hold at least one block. */
	const struct iovec *iov;
	unsigned iov_count;
	const struct iovec *write_iov; /* WEFT_COMPARE_WRITE: data to write */
	unsigned write_iov_count;
	const struct weft_range *ranges;
	unsigned range_count;
	uint8_t action;           /* reservations: RREGA, RACQA or RRELA */
	uint8_t reservation_type; /* RTYPE, of Acquire and Release */
	uint8_t persist;          /* CPTPL, of Register */
	uint64_t key;             /* CRKEY */
	uint64_t new_key;         /* NRKEY of Register, PRKEY of Acquire */
	unsigned reactor;         /* carries the request, modulo the number of reactors */
	void (*done)(struct weft_request *request);
	void *arg; /* for the caller's use */
	/*
	 * Valid in done. 0, or -errno:
	 * -EILSEQ: a compare found a difference.
	 * -ENODATA: a block cannot be read.
	 * -ENOSPC: no space is left.
	 * -EROFS: the namespace is write protected.
	 * -EBADE: another host holds a reservation.
	 * -ENXIO: the namespace is gone.
	 * -ESTALE: another namespace has the NSID. libweft does not knowingly send a request to
	 * that namespace. Or the block size differs from when the handle was opened, so that block
	 * and block_count would name other bytes. Open the namespace again.
	 * -ENOTCONN: no path for longer than fast-io-fail. The request has not run and will not.
	 * -EREMOTEIO: the outcome is unknown; the request will not run any more. Fused pairs,
	 * reservations and copies onto their own source end so when their path was lost. Any
	 * request that changes data ends so when no path came back within fast-io-fail afterwards.
	 * -EOPNOTSUPP: the controller does not support the command.
	 * -EIO: any other error.
	 *
	 * A flush that ends with -EIO and status 0: the target lost its power with acknowledged
	 * writes that were not flushed. The loss fails every flush of the handle that is in flight,
	 * or else the next one, once.
	 *
	 * status is the controller's status, 0 without one. A split request that failed may have
	 * run in part.
	 */
	int result;
	uint16_t status;
	uint8_t attempts; /* 1: no path was lost on the way */
	/* Used by libweft only. */
	uint64_t private_words[128];
};

/* From any thread. 0: done will be called, never from inside weft_submit. Otherwise nothing was
 * started. -EINVAL: the request is invalid (pieces that are not block_count blocks in total, a
 * range behind the end, a flag of another operation, ...). -ESTALE: the block size has changed, see
 * result. */
WEFT_API int weft_submit(struct weft_ns *ns, struct weft_request *request);

/* ---- calls that wait --------------------------------------------------------------------------
 */

/* These calls wait for the result and must not be made from a callback. 0: all blocks were moved,
 * else -errno. */
WEFT_API int weft_read(struct weft_ns *ns, void *buf, uint64_t block, uint32_t block_count);
WEFT_API int weft_write(struct weft_ns *ns, const void *buf, uint64_t block, uint32_t block_count,
			uint32_t flags);
WEFT_API int weft_flush(struct weft_ns *ns);
/* Runs any request and waits for it. Returns request->result. request->done is not called. */
WEFT_API int weft_run(struct weft_ns *ns, struct weft_request *request);

#ifdef __cplusplus
}
#endif

#endif

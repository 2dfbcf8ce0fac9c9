/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libweft: NVMe over TCP from user space, over several paths that fail over without losing a write.
 *
 * An instance (struct weft) runs reactors on threads of its own; nothing is global, and a process
 * may have several. A subsystem (struct weft_subsystem) is opened by address, by a set of paths or
 * by discovery; its namespaces are handles (struct weft_ns). A request is memory of the caller's:
 * fill in what to do, submit it from any thread, and `done` is called when it has ended. Whether
 * that happens on libweft's threads or in weft_poll of the caller's is chosen once, for the
 * instance.
 *
 * Functions return 0 or a negative errno. Units are logical blocks where it says blocks, else
 * bytes. No root, no kernel module. See libweft(7), weft_open(3), weft_submit(3), and examples/.
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

/* Why a call failed, for people: names the thing and the remedy. */
struct weft_error {
	char text[512];
	uint16_t status; /* NVMe: SCT in bits 10:8, SC in bits 7:0; 0 when it was something else */
};

/* "0.1.0", of the library that runs. */
WEFT_API const char *weft_version(void);
/* What a result of libweft means (0, or a negative errno): one line that lives for ever. Any
 * thread. */
WEFT_API const char *weft_strerror(int result);

/* ---- an instance ------------------------------------------------------------------------------
 */

enum weft_callbacks {
	WEFT_CALLBACKS_REACTOR, /* on libweft's threads; they must not block */
	WEFT_CALLBACKS_POLL,    /* inside weft_poll */
};

struct weft_options {
	size_t size;        /* sizeof(struct weft_options): lets the struct grow */
	unsigned reactors;  /* threads; 1 when 0 */
	const int *cpus;    /* one for each reactor, or NULL: where the kernel likes, or near the
			       network card when is_numa_aware */
	bool is_numa_aware; /* reactors move near the network card, by what sysfs says */
	uint32_t spin_us;   /* longest busy wait for an answer before sleeping; 0 sleeps at once */
	enum weft_callbacks callbacks;
	const char *host_nqn; /* NULL: as nvme-cli finds it, or made from the machine */
	const char *host_id;  /* a UUID; NULL: likewise */
	/* Lines for people: level 0 error, 1 warning, 2 information, 3 debugging. NULL: none.
	 * Called on libweft's threads with what concerns this instance; libweft writes nothing to
	 * standard error itself. */
	void (*log)(void *arg, int level, const char *line);
	void *log_arg;
	const char *sysfs; /* folder that holds class/ and devices/; NULL: /sys */
};

/* Fills in defaults, and size. */
WEFT_API void weft_options_init(struct weft_options *options);
WEFT_API int weft_create(const struct weft_options *options, struct weft **ret_weft,
			 struct weft_error *error);
/* Every subsystem must be closed. Ends the threads. */
WEFT_API void weft_destroy(struct weft *weft);

/* WEFT_CALLBACKS_POLL: runs the callbacks of up to max requests that have ended (0: all); waits up
 * to timeout_ms for the first (-1: for ever). How many, or -errno: -EINTR after a signal, -EINVAL
 * with the other kind of callbacks. One thread at a time, and not from a callback. */
WEFT_API int weft_poll(struct weft *weft, unsigned max, int timeout_ms);
/* Readable while weft_poll has something to do (and now and then when it has not); for poll(2) and
 * its relatives. The library's: do not read or close it. */
WEFT_API int weft_poll_fd(struct weft *weft);

/* ---- a subsystem ------------------------------------------------------------------------------
 */

struct weft_path {
	const char *address; /* of the target: a number or a name */
	const char *service; /* port; NULL: 4420 (discovery: 8009) */
};

struct weft_open_options {
	size_t size;
	const char *subsystem_nqn; /* NULL with discovery: the only one that there is */
	const struct weft_path *paths;
	unsigned path_count;
	/* A discovery service to ask for the paths, besides or instead; NULL: none. */
	const struct weft_path *discovery;
	const char *profile;  /* "default", "training" or "database"; NULL: default */
	const char *timeouts; /* "name=value,..." over the profile; see weft-explain-timeouts(1) */
	const char *policy; /* "numa", "round-robin", "queue-depth", "latency"; NULL: queue-depth */
	unsigned queues;    /* in all, over the reactors; 0: one for each reactor */
	unsigned queue_size; /* entries; 0: 128 */
	bool header_digest;
	bool data_digest;
	uint32_t hedge_percentile;    /* hundredths of a percent; 0: no hedged reads */
	uint32_t hedge_extra_percent; /* most extra reads; 0: 5 */
	uint32_t zero_copy_bytes;     /* writes of so many bytes leave without a copy; 0: never */
	/* A path came or went, or a namespace changed; for people. May be NULL. Libweft's threads.
	 */
	void (*event)(void *arg, const char *line);
	void *event_arg;
};

WEFT_API void weft_open_options_init(struct weft_open_options *options);
/*
 * Waits until every reactor has a path and knows the namespaces, or one has none within the connect
 * time-out. Calls that wait (weft_open, weft_close, weft_path_*, weft_paths, weft_queues and the
 * waiting ones below) answer -EDEADLK on libweft's own threads; weft_close must not be called
 * there.
 */
WEFT_API int weft_open(struct weft *weft, const struct weft_open_options *options,
		       struct weft_subsystem **ret_subsystem, struct weft_error *error);
/* No request may be under way. Disconnects in good order. */
WEFT_API void weft_close(struct weft_subsystem *subsystem);

/* While open; on all reactors. -EEXIST, -ENOENT, -ENOSPC (32 paths). */
WEFT_API int weft_path_add(struct weft_subsystem *subsystem, const struct weft_path *path,
			   struct weft_error *error);
WEFT_API int weft_path_remove(struct weft_subsystem *subsystem, const struct weft_path *path,
			      struct weft_error *error);

/* A path of one reactor. */
struct weft_path_info {
	size_t size; /* set by the caller, in infos[0] at least: sizeof(struct weft_path_info) */
	unsigned reactor;
	char address[64];
	char state[16];     /* "live", "connecting", "waiting", "closing" */
	char ana_state[24]; /* "optimized", ...; of nsid */
	bool is_stable;
	bool has_reset; /* fails over by Cross-Controller Reset, else by time */
	uint16_t cntlid;
	uint32_t quiesce_ms; /* the controller's CQT, or the profile's */
	int numa_node;       /* of the network card; -1: unknown, or nobody asked */
	uint32_t in_flight;
	uint64_t latency_ns; /* mean of the last tenths of a second; 0: nothing came back yet */
	uint64_t rtt_ns;     /* of the transport; 0: unknown */
	uint64_t commands;   /* answered */
	uint64_t losses;     /* how often it was lost */
	char last_error[256];
};
/* How many there are in all; fills in up to max. nsid: whose ANA state; 0: none. */
WEFT_API int weft_paths(struct weft_subsystem *subsystem, uint32_t nsid,
			struct weft_path_info *infos, unsigned max);

/* An I/O queue of a live path of one reactor. */
struct weft_queue_info {
	size_t size; /* set by the caller, in infos[0] at least: sizeof(struct weft_queue_info) */
	unsigned reactor;
	char address[64];
	unsigned queue; /* QID: 1, 2, ... */
	uint32_t depth; /* requests that it holds at once, as agreed with the controller */
	uint32_t in_flight;
	uint64_t latency_ns; /* mean of the last tenths of a second; 0: nothing came back yet */
	uint64_t commands;   /* answered, with the Connect that made it */
};
/* How many there are in all; fills in up to max. */
WEFT_API int weft_queues(struct weft_subsystem *subsystem, struct weft_queue_info *infos,
			 unsigned max);

/* ---- namespaces -------------------------------------------------------------------------------
 */

struct weft_ns_info {
	size_t size; /* set by the caller: sizeof(struct weft_ns_info) */
	uint32_t nsid;
	uint32_t block_bytes;
	uint64_t block_count;
	uint32_t transfer_max_bytes; /* of one request; a longer one is split */
	bool is_read_only;
	bool is_shared;
	uint8_t uuid[16];
	uint8_t nguid[16];
	/* WEFT_COMPARE_WRITE: most blocks of one. */
	uint32_t compare_write_blocks_max;
	/* WEFT_COPY: most ranges, blocks in one of them and blocks in all; 0: cannot copy. */
	uint32_t copy_ranges_max;
	uint32_t copy_range_blocks_max;
	uint32_t copy_blocks_max;
	bool is_gone; /* removed from the subsystem: requests end with -ENXIO */
	/* Gone, and another namespace has its NSID: requests end with -ESTALE for good. */
	bool is_stale;
	/* WEFT_LBA_STATUS is known, and blocks without data read as zeroes. */
	bool tells_allocated;
};

/* NSIDs in ascending order: how many there are, up to max are filled in. */
WEFT_API int weft_ns_list(struct weft_subsystem *subsystem, uint32_t *nsids, unsigned max);
/* The namespace that has the NSID now. The handle is for that namespace, by its UUID, NGUID or
 * EUI64, never for another one that gets the NSID later. */
WEFT_API int weft_ns_open(struct weft_subsystem *subsystem, uint32_t nsid, struct weft_ns **ret_ns,
			  struct weft_error *error);
/* Another handle of the same namespace, whatever has its NSID now: a user of its own, whose flush
 * fails once when acknowledged writes are lost. For servers: one for each client. 0 or -ENOMEM. */
WEFT_API int weft_ns_dup(const struct weft_ns *ns, struct weft_ns **ret_ns);
/* A flush of this handle has failed with -EIO, and the one whom that concerns is gone: the loss of
 * writes that the flush told of, if it did, is told to handles that are opened later. */
WEFT_API void weft_ns_untell(struct weft_ns *ns);
WEFT_API void weft_ns_close(struct weft_ns *ns);
/* As of now: a namespace may grow. -ESTALE: it was formatted with another block size since the
 * handle was opened. The handle is of no use then: close it and open the namespace again. */
WEFT_API int weft_ns_info(struct weft_ns *ns, struct weft_ns_info *ret_info);

/* ---- requests ---------------------------------------------------------------------------------
 */

enum weft_op {
	WEFT_READ,
	WEFT_WRITE,
	WEFT_FLUSH,
	WEFT_WRITE_ZEROES,
	WEFT_DEALLOCATE,    /* up to 256 ranges, or one range from block and block_count */
	WEFT_COMPARE,       /* -EILSEQ: differs */
	WEFT_COMPARE_WRITE, /* fused: iov is compared, write_iov is written when it was the same */
	WEFT_COPY,          /* ranges, one behind the other, to block */
	WEFT_VERIFY,
	WEFT_RESERVATION_REGISTER, /* the four: action, key, new_key, reservation_type */
	WEFT_RESERVATION_ACQUIRE,
	WEFT_RESERVATION_RELEASE,
	WEFT_RESERVATION_REPORT, /* into iov; the extended form, host identifiers of 128 bits */
	/* Which blocks of the range are allocated, into iov as the controller writes it: an LBA
	 * Status Descriptor List (NVM Command Set 1.1, section 4.2.1). Blocks that it does not list
	 * read as zeroes. -EOPNOTSUPP unless weft_ns_info says tells_allocated. */
	WEFT_LBA_STATUS,
};

enum weft_flags {
	WEFT_FUA = 1 << 0,           /* on stable media before done */
	WEFT_DEALLOCATE_OK = 1 << 1, /* Write Zeroes may free the blocks */
	WEFT_IGNORE_KEY = 1 << 2,    /* reservations: IEKEY */
};

struct weft_range {
	uint64_t block;
	uint32_t block_count;
};

/*
 * Memory of the caller's, zeroed before its first use; it, the iovs, the ranges and what they point
 * at must stay as they are from weft_submit until done. A request may be submitted again in its own
 * done.
 */
struct weft_request {
	enum weft_op op;
	uint32_t flags; /* enum weft_flags */
	uint64_t block;
	uint32_t block_count;
	/* What is read or written: block_count blocks in all. When the request is longer than
	 * transfer_max_bytes, any 63 pieces in a row must hold a block. */
	const struct iovec *iov;
	unsigned iov_count;
	const struct iovec *write_iov; /* WEFT_COMPARE_WRITE */
	unsigned write_iov_count;
	const struct weft_range *ranges;
	unsigned range_count;
	uint8_t action;           /* reservations: RREGA, RACQA or RRELA */
	uint8_t reservation_type; /* RTYPE, of Acquire and Release */
	uint8_t persist;          /* CPTPL, of Register */
	uint64_t key;             /* CRKEY */
	uint64_t new_key;         /* NRKEY of Register, PRKEY of Acquire */
	unsigned reactor;         /* which one carries it: modulo the number of reactors */
	void (*done)(struct weft_request *request);
	void *arg; /* the caller's own */
	/*
	 * Valid in done. 0, or -errno: -EILSEQ a compare found a difference; -ENODATA a block that
	 * cannot be read; -ENOSPC; -EROFS; -EBADE a reservation of somebody else; -ENXIO the
	 * namespace is gone; -ESTALE another namespace has its NSID, and this request was not sent
	 * to that one knowingly, or it has another block size than when the handle was opened, so
	 * that block and block_count name other bytes: open it again; -ENOTCONN no path for longer
	 * than fast-io-fail allows: it has not run and will not; -EREMOTEIO the outcome is not
	 * known, it will not run any more (fused pairs, reservations and copies onto their own
	 * source when their path died; any that changes something when no path came back within
	 * fast-io-fail afterwards); -EOPNOTSUPP the controller does not know the command; -EIO
	 * else, and with status 0 of a flush: the target lost its power with acknowledged writes
	 * that were not flushed. That fails every flush of the handle that is under way then, or
	 * else the next one, once. status is the controller's own word, 0 when it had none. A
	 * request that was split may have run in part when it failed.
	 */
	int result;
	uint16_t status;
	uint8_t attempts; /* 1: no path was lost on the way */
	/* Libweft's. */
	uint64_t private_words[128];
};

/* From any thread. 0: done will be called, never from inside. -EINVAL with nothing begun: the
 * request makes no sense (pieces that are not block_count blocks in all, a range behind the end, a
 * flag of another command, ...); -ESTALE likewise, as above. */
WEFT_API int weft_submit(struct weft_ns *ns, struct weft_request *request);

/* ---- the same, waiting ------------------------------------------------------------------------
 */

/* Not from a callback. What was moved is all of it, or an error. */
WEFT_API int weft_read(struct weft_ns *ns, void *buf, uint64_t block, uint32_t block_count);
WEFT_API int weft_write(struct weft_ns *ns, const void *buf, uint64_t block, uint32_t block_count,
			uint32_t flags);
WEFT_API int weft_flush(struct weft_ns *ns);
/* Any request, waiting; request->done is not called. */
WEFT_API int weft_run(struct weft_ns *ns, struct weft_request *request);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backing stores: where the blocks of a namespace are kept. Knows bytes and -errno, nothing of
 * NVMe.
 *
 * A struct media is opened and closed on the control thread (both may block) and is immutable in
 * between, so any reactor may submit to the medium. Each media_io belongs to the reactor that
 * submits it and completes there. To grow, a second medium is opened over the same store; I/O on
 * the first one drains, then it is closed.
 */
#ifndef WEFT_MEDIA_MEDIA_H
#define WEFT_MEDIA_MEDIA_H

#include "base/block_guard.h"
#include "reactor/reactor.h"

#include <stdbool.h>
#include <stdint.h>

enum media_kind {
	MEDIA_READ,
	MEDIA_WRITE,
	MEDIA_FLUSH,        /* makes all writes acknowledged before the flush durable */
	MEDIA_WRITE_ZEROES, /* the range reads as zeroes afterwards */
	/* Advice. media->reads_zero_after_discard: whether the range reads as zeroes afterwards. */
	MEDIA_DISCARD,
	/* Lists where the range has data; the rest of the range reads as zeroes. iov is one entry,
	 * an array of struct media_extent, and `result` is the number of entries filled. When the
	 * array is full, more data may follow the last extent. Submit only if media->knows_extents;
	 * -EOPNOTSUPP is still possible and means that the extents are unknown. */
	MEDIA_EXTENTS,
};

/* Ascending; extents neither overlap nor touch. */
struct media_extent {
	uint64_t offset;
	uint64_t len_bytes;
};

/* Space in each struct media_io for the medium's context; MEDIA_IO_FITS checks the size. */
#define MEDIA_IO_CONTEXT_BYTES 168
#define MEDIA_IO_FITS(type)                                                                        \
	_Static_assert(sizeof(type) <= MEDIA_IO_CONTEXT_BYTES && _Alignof(type) <= 8,              \
		       "fits a struct media_io")

struct media_io {
	struct reactor *reactor; /* of the submitter */
	struct media *media;
	enum media_kind kind;
	bool is_fua;             /* WRITE, WRITE_ZEROES: durable before done */
	bool may_discard;        /* WRITE_ZEROES: the medium may release the space */
	uint64_t offset;         /* bytes, a multiple of block_bytes */
	uint64_t len_bytes;      /* in bytes, a multiple of block_bytes; 0 for FLUSH */
	const struct iovec *iov; /* READ, WRITE: buffers aligned to buffer_align_bytes */
	unsigned iov_count;
	/* An operation that changes data is not started after this time of reactor_clock_ns and
	 * ends with -ECANCELED instead. 0: no deadline. Used by media that other processes write to
	 * as well. */
	uint64_t deadline_ns;
	/* The last callback: 0 or -errno; may be called from inside submit. */
	void (*done)(struct media_io *io, int res);
	/* MEDIA_EXTENTS: the number of extents found. Reserved for future kinds: where the medium
	 * put the data. */
	uint64_t result;
	/* Owned and laid out by the medium from submit to done. A medium that needs more bytes
	 * stores a pointer to them here. */
	_Alignas(8) uint8_t context[MEDIA_IO_CONTEXT_BYTES];
};

struct media;
struct media_spec;
struct media_error;

struct media_record;

/*
 * The operations of a kind of medium. submit and close are required. Each other entry may be NULL;
 * its comment gives the result in that case. Called on the control thread, and may block, unless a
 * comment names another thread.
 */
struct media_ops {
	const char *name;
	/* Submitter's reactor. Starts io and reports failure only through done. media_submit has
	 * checked the range. */
	void (*submit)(struct media_io *io);
	/* Submitter's reactor. Asks io to end early; done is still called. NULL: io runs to its
	 * end. */
	void (*cancel)(struct media_io *io);
	/* Memory media: the address of [offset, offset + len), so that a caller can send from and
	 * copy into the memory without a buffer. NULL entry or NULL result: use submit instead. */
	void *(*map)(struct media *media, uint64_t offset, uint64_t len_bytes);
	/* No io is in flight, and no reactor has state. Frees media. */
	void (*close)(struct media *media);
	/* Bytes of state per reactor (media/state.h). 0: no state; attach and detach are not
	 * called. */
	size_t state_bytes;
	/* Called inside media_state when a reactor first uses the medium. 0 or -errno. */
	int (*attach)(struct media *media, struct reactor *reactor, void *state);
	/* Called on each reactor with state, after its last io. Must call media_detached(state),
	 * now or later. NULL: the state is freed at once. */
	void (*detach)(struct media *media, struct reactor *reactor, void *state);
	/* Opens another medium over the same store, with the size and block size of spec. Both
	 * media stay open until each is closed. NULL: not supported. */
	int (*reopen)(struct media *media, const struct media_spec *spec, struct media **ret_media,
		      struct media_error *ret_error);
	/* As media_sync, for media of this kind. NULL: nothing to sync. */
	int (*sync)(struct media *const *media, unsigned count, struct media_error *ret_error);
	/* As the media_* function of the same name. The trailing comment is the result when the
	 * entry is NULL. */
	bool (*undo)(struct media *media);             /* nothing, true */
	bool (*is_current)(const struct media *media); /* true */
	bool (*get_record)(const struct media *media, struct media_record *ret_record); /* false */
	bool (*is_another)(const struct media *media);                                  /* false */
	bool (*is_nameless)(const struct media *media);                                 /* false */
	bool (*is_buffered)(const struct media *media);                                 /* false */
	void (*note_known)(struct media *media, const char *path,
			   const struct media_record *known); /* nothing */
	int (*member)(const struct media *media);             /* -1 */
	/* The descriptor that holds the locks of a shared store. -1: not shared. */
	int (*lock_fd)(const struct media *media);
	uint64_t (*used_bytes)(struct media *media);                           /* size_bytes */
	bool (*problem)(struct media *media, struct media_error *ret_problem); /* false */
	bool (*is_cut)(struct media *media);                                   /* false */
	bool (*has_lost_writes)(const struct media *media);                    /* false */
	uint64_t (*loss)(const struct media *media);                           /* 0. Any reactor. */
	void (*forgive)(struct media *media);                                  /* nothing */
};

/*
 * Counts open media for their owner, who waits with it until media that are closing have closed.
 * The count outlives the media in it. Control thread.
 */
struct media_count {
	unsigned open;   /* media in the count, and openings of such media */
	unsigned ending; /* of these: media that are closing, and openings */
	/* After one of them has ended; `open` is 0 after the last one. May free the count. */
	void (*ended)(struct media_count *count);
};

struct media {
	const struct media_ops *ops;
	char *spec; /* as opened, for log and error messages */
	/* The media that this medium is made of; media_close closes them after this medium. */
	struct media **children;
	unsigned child_count;
	/* From the driver. The medium has one child, and media_store returns the child's store,
	 * which answers questions for the wrapper. Any other medium is a store. */
	bool is_wrapper;
	struct media_states *_Atomic states;   /* owned by media/state.c */
	struct media_channel *_Atomic channel; /* owned by media/event.c */
	struct media_count *count;             /* set by media_count_add; NULL: not counted */
	/* The guard of the store, for media without map(). Set and owned by the backing
	 * (ns/ns_backing.h). NULL without a backing. */
	struct range_guard *range_guard;
	/* The properties, down to boundary_bytes. media_inherit has a line for each of them. */
	uint64_t size_bytes;
	uint32_t block_bytes;        /* 512 or 4096 */
	uint32_t buffer_align_bytes; /* 1: any pointer is allowed */
	bool has_volatile_cache;     /* acknowledged writes may be lost without a flush */
	bool is_read_only;
	bool is_thin;
	bool can_discard;
	bool reads_zero_after_discard;
	bool knows_extents;        /* MEDIA_EXTENTS is supported */
	bool works_in_submit;      /* submit itself copies or sets memory: it takes CPU time */
	uint32_t optimal_io_bytes; /* 0: unknown; also for the next two fields */
	uint32_t write_granularity_bytes;
	uint32_t discard_granularity_bytes;
	/* I/O that crosses a multiple of this is slow; 0: no known boundary */
	uint32_t boundary_bytes;
	/* For media with map(), when several reactors use the medium; set before the first io.
	 * Every thread that touches the medium's memory, including the medium itself, takes
	 * granules of this guard. NULL: only one reactor uses the medium. */
	struct block_guard *guard;
};

struct media_error {
	char text[256]; /* names the failing thing and the remedy */
};

/*
 * Opens a medium for callers that cannot wait. A driver that opens asynchronously is refused with
 * -EAGAIN.
 *
 * spec: "file:PATH[,size=10G][,block=4096][,readonly]" | "mem:SIZE[,block=...][,huge]" |
 * "null:SIZE[,block=...]" | "fault:RULE[+RULE...]@SPEC". The default block size is 4096 for files,
 * mem and null; block devices use at least their logical block size. Fault rules: see
 * volume/fault.c.
 *
 * Returns 0 or -errno with ret_error filled.
 */
int media_open(const char *spec, struct media **ret_media, struct media_error *ret_error);
#define MEDIA_DEVICE_ID_BYTES 192
/* Record of a file or block device, made when the store was last served. */
struct media_record {
	uint64_t size_bytes;  /* at least this size; 0: unknown */
	uint32_t block_bytes; /* 0: unknown */
	bool has_type;        /* is_block_device is valid */
	bool is_block_device;
	uint64_t inode;   /* identifies the file; 0: unknown */
	uint64_t born_ns; /* time of birth since 1970; 0: unknown */
	/* Identity of the block device, without spaces. "": unknown. */
	char device_id[MEDIA_DEVICE_ID_BYTES];
	/* The data of this namespace were given up: the file at the path may be an empty one that
	 * was made for another namespace. */
	bool is_given_up;
};
/* How a store is opened, beside what its spec states. */
struct media_terms {
	bool is_shared; /* this process is `member` of the cluster, as in media_open_shared */
	unsigned member;
	/* Record of a store that was served before. Such a store is neither created when it is
	 * missing nor grown when it is smaller than recorded. The file may be larger than size=
	 * after an unfinished growth; only size= is served then. NULL: a new store. With a record,
	 * a store that is made of files fails with -EOPNOTSUPP: its files have no records. */
	const struct media_record *known;
	/* The old data are given up: a new file of this size is made, and the old file is renamed
	 * to PATH.lost. Regular files only. */
	bool is_recreated;
	/* Set while hosts are served: a store that another process holds is refused at once.
	 * Otherwise opening blocks until the last operations of a killed target have ended. */
	bool must_not_wait;
	/* In: the ID of a block device that differs from the known one and that the operator has
	 * accepted by a recheck. Out: the ID of the device found, when another one is refused.
	 * NULL: no other device is accepted. */
	char *told; /* MEDIA_DEVICE_ID_BYTES long */
};
int media_open_on(const char *spec, const struct media_terms *terms, struct media **ret_media,
		  struct media_error *ret_error);
/*
 * Opens a medium for callers that can wait. `done` is called once, inside media_open_begin or later
 * on the same thread. The request, the terms and everything they point to stay valid until then.
 */
struct media_open_request {
	void (*done)(struct media_open_request *request, int res); /* 0 or -errno */
	struct media *media;      /* set with 0; owned by the caller from then on */
	struct media_error error; /* set with -errno */
	struct open_tree *tree;   /* owned by opening.c */
};
void media_open_begin(struct media_open_request *request, const char *spec,
		      const struct media_terms *terms);
/* Before `done`: asks the opening to end early. `done` is still called. */
void media_open_cancel(struct media_open_request *request);
/* After media_open_on failed with res: true when the store is lost, false when it is in use, the
 * spec is wrong or resources are short. */
bool media_is_loss(int res);
/* Opens a placeholder for a lost store. It has the recorded size and fails every operation. */
int media_open_lost(const char *spec, const struct media_terms *terms,
		    const struct media_error *problem, struct media **ret_media);
bool media_is_lost(const struct media *media);
/* The `told` of struct media_terms for the next attempt to open a lost store, owned by the medium.
 * NULL: the medium is not lost. Control thread. */
char *media_lost_told(struct media *media);
/* Records why the last attempt to open a lost store failed; media_problem reports it. */
void media_lost_note(struct media *media, const struct media_error *problem);
/* The data of a lost store at `path` were given up: as is_given_up of struct media_record. Only a
 * recreation opens the store. Control thread. */
void media_lost_give_up(struct media *media, const char *path);
/* Fills the record to pass as `known` at the next start. False: nothing to record (memory). */
bool media_get_record(const struct media *media, struct media_record *ret_record);
/* Fills a record of the file or device at `path` without opening it: identity, no size. Control
 * thread, because the lookup of a path may wait for its file system. 0 or -errno. */
int media_path_record(const char *path, struct media_record *ret_record);
/* Whether two records are of the same file or device. */
enum media_sameness {
	MEDIA_SAME,
	MEDIA_ANOTHER,
	MEDIA_SAME_UNKNOWN
};
enum media_sameness media_record_compare(const struct media_record *a,
					 const struct media_record *b);
/*
 * Opens a file or block device that other processes serve at the same time; `member` is the number
 * of this process (member_lock_number). Neither a failed opening nor media_undo removes or cuts the
 * file, because other members may already use it.
 */
int media_open_shared(const char *spec, unsigned member, struct media **ret_media,
		      struct media_error *ret_error);
/* The member number of this process for a shared store. -1: the store is not shared. */
int media_member(const struct media *media);
/* Opens a descriptor of a shared store for the functions of media/member_lock.h. Usable on any
 * thread, also after this medium is closed. Close it with member_lock_unwatch. A descriptor or
 * -errno. */
int media_member_watch(const struct media *media);
/* Whether watch_fd is of this medium's store. A medium of the same path may have another file. */
bool media_member_is_watched(const struct media *media, int watch_fd);
/* Checks the syntax of a spec. Opens nothing. */
int media_check_spec(const char *spec, struct media_error *ret_error);
/* No io may be in flight. Closes the medium before it returns, unless reactors have state of the
 * medium (media/state.h). With state, the medium is closed later, on the calling reactor, which
 * must keep running. */
void media_close(struct media *media);
/* Counts the medium until it has closed. Its children are counted while they close. */
void media_count_add(struct media_count *count, struct media *media);
/* An opening of a medium that is to be counted. */
void media_count_begin(struct media_count *count);
void media_count_end(struct media_count *count);
/* The innermost medium under wrappers, which answers questions about the store. Returns the medium
 * itself when it wraps no other. */
struct media *media_store(const struct media *media);

/*
 * Opens a second medium over the same store. The spec must name the same store; it may ask for a
 * larger size, another block size, readonly or writable, other fault rules. Nothing shrinks. The
 * first medium is unchanged. The caller closes both. 0 or -errno with ret_error filled; -EBUSY for
 * a store that is made of other media.
 */
int media_reopen(struct media *media, const char *spec, struct media **ret_media,
		 struct media_error *ret_error);
/*
 * Makes files that were created or grown by opening these media durable. Call before any other
 * party learns of the media. One call for all is many times faster than one call for each. 0 or
 * -errno with ret_error filled.
 */
int media_sync(struct media *const *media, unsigned count, struct media_error *ret_error);
/* Whether media_reopen with this spec would give an identical medium: same spec, and the store has
 * no new size to take up. */
bool media_is_current(const struct media *media, const char *spec);
/* Space that the store takes, at most its size: the allocated part of a sparse file. The full size
 * where the space is not cheap to find out (memory, block devices). */
uint64_t media_used_bytes(struct media *media);
/* Checks the store for problems beyond errors of single operations, such as a file cut short or
 * deleted, or a block device removed or shrunk, while it is served. True with ret_problem filled,
 * or false. */
bool media_problem(struct media *media, struct media_error *ret_problem);
/* Checks the store now: whether bytes of it are missing. */
bool media_is_cut(struct media *media);
/* Whether the path names another file than the one served last, for example a copy. */
bool media_is_another(const struct media *media);
/* I/O is buffered: acknowledged writes may be only in the kernel's page cache. */
bool media_is_buffered(const struct media *media);
/* Whether the file was deleted, or another renamed over it, since it was opened. Its data are lost
 * when the last process that has it open closes it. */
bool media_is_nameless(const struct media *media);
/* Sets the record that media_is_another compares with: what was served last under the UUID of the
 * namespace, at any path. Call before the medium is used. `path` is for the log. */
void media_note_known(struct media *media, const char *path, const struct media_record *known);
/* Whether a flush has failed, so that acknowledged data were lost. Every flush and every durable
 * write fails until media_forgive. */
bool media_has_lost_writes(const struct media *media);
/* Number of the latest such failure, forgiven or not; unique in this process. 0: no failure. Any
 * reactor. */
uint64_t media_loss(const struct media *media);
void media_forgive(struct media *media);
/*
 * Undoes what opening did to the store: removes a file that was created, cuts a file that was
 * grown. Call before the last close. False: the file stays, because hosts wrote what would be lost:
 * anything in a file that was created, or beyond the former end of a file that was grown. Such
 * writes fail once opening is undone.
 */
bool media_undo(struct media *media);

/* The caller has checked the range. The CHECK protects memory of other media, which may follow
 * directly after this medium's. */
static inline void media_submit(struct media_io *io)
{
	CHECK(io->len_bytes <= io->media->size_bytes &&
	      io->offset <= io->media->size_bytes - io->len_bytes);
	io->media->ops->submit(io);
}

#endif

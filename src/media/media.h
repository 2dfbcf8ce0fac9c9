/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backing stores: what a namespace's blocks live on. Knows bytes and -errno, nothing of NVMe.
 *
 * A struct media is opened and closed on the control thread (both may block) and is immutable in
 * between, so any reactor may submit to it; each media_io belongs to the reactor that submits it
 * and completes there. To grow, a second medium is opened over the same store; I/O on the first one
 * drains, then it is closed.
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
	MEDIA_FLUSH,        /* everything acknowledged before it is on stable storage after it */
	MEDIA_WRITE_ZEROES, /* the range reads as zeroes afterwards */
	MEDIA_DISCARD, /* advice; what the range reads as is in media->reads_zero_after_discard */
	/* Where in the range data is, into the one iov, an array of struct media_extent; the rest
	 * reads as zeroes. `result` is how many were found; as many as fit: there may be more
	 * behind the last. Only where media->knows_extents; -EOPNOTSUPP all the same: not known. */
	MEDIA_EXTENTS,
};

/* Ascending, apart from each other. */
struct media_extent {
	uint64_t offset;
	uint64_t len_bytes;
};

/* Room in each struct media_io for the medium's context, which MEDIA_IO_FITS checks. */
#define MEDIA_IO_CONTEXT_BYTES 168
#define MEDIA_IO_FITS(type)                                                                        \
	_Static_assert(sizeof(type) <= MEDIA_IO_CONTEXT_BYTES && _Alignof(type) <= 8,              \
		       "fits a struct media_io")

struct media_io {
	struct reactor *reactor; /* the submitter's */
	struct media *media;
	enum media_kind kind;
	bool is_fua;             /* WRITE, WRITE_ZEROES: stable before done */
	bool may_discard;        /* WRITE_ZEROES: releasing the space is welcome */
	uint64_t offset;         /* bytes, a multiple of block_bytes */
	uint64_t len_bytes;      /* likewise; 0 for FLUSH */
	const struct iovec *iov; /* READ, WRITE: buffers aligned to buffer_align_bytes */
	unsigned iov_count;
	/* What changes data does not begin after that time of reactor_clock_ns: -ECANCELED. 0: it
	 * may. Of media that other processes write to as well. */
	uint64_t deadline_ns;
	/* The last callback: 0 or -errno; may be called from inside submit. */
	void (*done)(struct media_io *io, int res);
	/* MEDIA_EXTENTS: how many were found. Of kinds to come: where the medium put the data. */
	uint64_t result;
	/* The medium's own from submit to done, laid out by the medium. A medium that needs more
	 * bytes keeps a pointer to them here. */
	_Alignas(8) uint8_t context[MEDIA_IO_CONTEXT_BYTES];
};

struct media;
struct media_spec;
struct media_error;

struct media_record;

/*
 * What a kind of medium can do. submit and close are required; without another entry the answer in
 * its comment holds. Control thread, and may block, unless a comment names another thread.
 */
struct media_ops {
	const char *name;
	/* The submitter's reactor. Starts io; fails only through done. media_submit has checked the
	 * range. */
	void (*submit)(struct media_io *io);
	/* The submitter's reactor. Asks for an early end of io; done still comes. NULL: io runs to
	 * its end. */
	void (*cancel)(struct media_io *io);
	/* Memory media: where [offset, offset + len) is mapped, so that it can be sent from and
	 * copied into without a buffer. NULL entry or NULL result: submit instead. */
	void *(*map)(struct media *media, uint64_t offset, uint64_t len_bytes);
	/* No io is in flight any more, and no reactor has state. Frees media. */
	void (*close)(struct media *media);
	/* Bytes of state per reactor (media/state.h); 0: none, and the next two are not called. */
	size_t state_bytes;
	/* On a reactor that uses the medium for the first time, inside media_state: 0 or -errno. */
	int (*attach)(struct media *media, struct reactor *reactor, void *state);
	/* On a reactor with state, after its last io: media_detached(state), now or later. NULL:
	 * nothing to do. */
	void (*detach)(struct media *media, struct reactor *reactor, void *state);
	/* Another medium over the same store, with the size and block size that the spec asks for;
	 * both live until each is closed. NULL: not possible. */
	int (*reopen)(struct media *media, const struct media_spec *spec, struct media **ret_media,
		      struct media_error *ret_error);
	/* As media_sync, for media of this kind. NULL: nothing to sync. */
	int (*sync)(struct media *const *media, unsigned count, struct media_error *ret_error);
	/* As the functions media_* of these names; behind each the answer without it. */
	void (*undo)(struct media *media);             /* nothing */
	bool (*is_current)(const struct media *media); /* true */
	bool (*get_record)(const struct media *media, struct media_record *ret_record); /* false */
	bool (*is_another)(const struct media *media);                                  /* false */
	bool (*is_nameless)(const struct media *media);                                 /* false */
	bool (*is_buffered)(const struct media *media);                                 /* false */
	void (*note_known)(struct media *media, const char *path,
			   const struct media_record *known); /* nothing */
	int (*member)(const struct media *media);             /* -1 */
	/* The descriptor that holds the locks of a shared store; -1: not shared. */
	int (*lock_fd)(const struct media *media);
	uint64_t (*used_bytes)(struct media *media);                           /* all */
	bool (*problem)(struct media *media, struct media_error *ret_problem); /* false */
	bool (*is_cut)(struct media *media);                                   /* false */
	bool (*has_lost_writes)(const struct media *media);                    /* false */
	uint64_t (*loss)(const struct media *media);                           /* 0; any reactor */
	void (*forgive)(struct media *media);                                  /* nothing */
};

struct media {
	const struct media_ops *ops;
	char *spec; /* as opened, for people */
	/* The media that it is made of; media_close closes them after it. Of one alone it is a
	 * wrapper: media_store is the child's, and answers questions instead. */
	struct media **children;
	unsigned child_count;
	struct media_states *_Atomic states;   /* media/state.c's */
	struct media_channel *_Atomic channel; /* media/event.c's */
	uint64_t size_bytes;
	uint32_t block_bytes;        /* 512 or 4096 */
	uint32_t buffer_align_bytes; /* 1 when any pointer will do */
	bool has_volatile_cache;     /* acknowledged writes may be lost without a flush */
	bool is_read_only;
	bool is_thin;
	bool can_discard;
	bool reads_zero_after_discard;
	bool knows_extents;        /* MEDIA_EXTENTS may be asked */
	uint32_t optimal_io_bytes; /* 0: not known; likewise the next ones */
	uint32_t write_granularity_bytes;
	uint32_t discard_granularity_bytes;
	uint32_t boundary_bytes; /* I/O that crosses a multiple of it is slow; 0: none is known */
	/* Of media with map(), set before the first io when several reactors use it: everybody who
	 * touches its memory does so under this, the medium too. NULL: one reactor is alone. */
	struct block_guard *guard;
};

struct media_error {
	char text[256]; /* names the thing and the remedy */
};

/*
 * The callers of these functions do not wait: a kind of medium that takes its time to open is
 * refused with -EAGAIN.
 * spec: "file:PATH[,size=10G][,block=4096][,readonly]" | "mem:SIZE[,block=…][,huge]" |
 * "null:SIZE[,block=…]" | "fault:RULE[+RULE…]@SPEC". Block size default 4096 for new files, mem
 * and null; block devices use at least their own logical size.
 * Fault rules: see volume/fault.c. 0 or -errno with ret_error filled.
 */
int media_open(const char *spec, struct media **ret_media, struct media_error *ret_error);
#define MEDIA_DEVICE_ID_BYTES 192
/* What is known of a file or block device from when it was served last. */
struct media_record {
	uint64_t size_bytes;  /* at least; 0: not known */
	uint32_t block_bytes; /* 0: not known */
	bool has_type;        /* is_block_device counts */
	bool is_block_device;
	uint64_t inode;   /* which file it was; 0: not known */
	uint64_t born_ns; /* likewise: since 1970 */
	/* Which block device it was, in one word; "": not known. */
	char device_id[MEDIA_DEVICE_ID_BYTES];
	/* Its data were given up: an empty file may have its name, which is another namespace's. */
	bool is_given_up;
};
/* How a store is opened, beside what its spec says. */
struct media_terms {
	bool is_shared; /* as media_open_shared */
	unsigned member;
	/* Data were served from it: it is not made when it is missing, and not grown when it is
	 * smaller than it was. It may be larger than size=, when a growth was not finished; only
	 * size= is served then. NULL: a new one. */
	const struct media_record *known;
	/* Data are given up: a file of this size takes its place, and what is left of the former
	 * one is renamed to PATH.lost. Of files alone. */
	bool is_recreated;
	/* Hosts are served meanwhile: a store that another process holds is refused at once.
	 * Without, opening blocks until the last operations of a killed target have ended. */
	bool must_not_wait;
	/* The block device that the operator was told of and has asked for, although it is not the
	 * known one. When another one is refused: which one that is. NULL: nobody has said a
	 * word. */
	char *told; /* MEDIA_DEVICE_ID_BYTES */
};
int media_open_on(const char *spec, const struct media_terms *terms, struct media **ret_media,
		  struct media_error *ret_error);
/*
 * The same for callers that wait. `done` is called once, inside media_open_begin or later on the
 * same thread. The request, the terms and what they point to stay valid until then.
 */
struct media_open_request {
	void (*done)(struct media_open_request *request, int res); /* 0 or -errno */
	struct media *media;      /* with 0: the caller's from now on */
	struct media_error error; /* otherwise */
	struct open_tree *tree;   /* opening.c's */
};
void media_open_begin(struct media_open_request *request, const char *spec,
		      const struct media_terms *terms);
/* Before `done`: asks for an early end, which still is `done`. */
void media_open_cancel(struct media_open_request *request);
/* After media_open_on failed: whether the store is lost, rather than in use or badly named. */
bool media_is_loss(int res);
/* A medium in place of one that is lost: of the size that is known, every operation fails. */
int media_open_lost(const char *spec, const struct media_terms *terms,
		    const struct media_error *problem, struct media **ret_media);
bool media_is_lost(const struct media *media);
/* Of a lost one: as `told` of struct media_terms, for the next look at it; control thread. NULL: it
 * is not lost. */
char *media_lost_told(struct media *media);
/* The last look at a lost one found this. */
void media_lost_note(struct media *media, const struct media_error *problem);
/* To be given as `known` at the next start. False: there is nothing to know (memory). */
bool media_get_record(const struct media *media, struct media_record *ret_record);
/* The same of what has this name, without opening it: which file or device it is, no size. Control
 * thread: looking a name up may wait for its file system. 0 or -errno. */
int media_path_record(const char *path, struct media_record *ret_record);
/* Whether two records are of one file or device. */
enum media_sameness {
	MEDIA_SAME,
	MEDIA_ANOTHER,
	MEDIA_SAME_UNKNOWN
};
enum media_sameness media_record_compare(const struct media_record *a,
					 const struct media_record *b);
/*
 * The same for a file or block device that other processes serve at the same time: this process is
 * the given member of them (member_lock_number). Opening takes nothing back when it is
 * undone, because the others may use what was made.
 */
int media_open_shared(const char *spec, unsigned member, struct media **ret_media,
		      struct media_error *ret_error);
/* Which member this process is of those that share the store; -1: it is not shared. */
int media_member(const struct media *media);
/* For the functions of media/member_lock.h on a shared store, on any thread, also after this medium
 * is closed; member_lock_unwatch ends it. A descriptor or -errno. */
int media_member_watch(const struct media *media);
/* Whether this watch is of the store of this medium: a medium of the same name may have another. */
bool media_member_is_watched(const struct media *media, int watch_fd);
/* Checks the text alone, opens nothing. */
int media_check_spec(const char *spec, struct media_error *ret_error);
/* No io is in flight any more. The medium is closed when it returns, unless reactors have state of
 * it (media/state.h): then it is closed later, on the calling reactor, which must go on running. */
void media_close(struct media *media);
/* The medium that questions go to: the innermost one of media that wrap one other. */
struct media *media_store(const struct media *media);

/*
 * A second medium over the store of the first, by a spec that names the same store: larger, with
 * another block size, read-only or not, inside other fault rules. Nothing shrinks. The first one
 * stays as it is; both are closed one day. 0 or -errno with ret_error filled.
 */
int media_reopen(struct media *media, const char *spec, struct media **ret_media,
		 struct media_error *ret_error);
/*
 * What opening these did to their stores, files that were made or grown, is stable afterwards: 0 or
 * -errno with ret_error filled. All at once, because one after the other takes many times as long.
 * Before anybody is told of them.
 */
int media_sync(struct media *const *media, unsigned count, struct media_error *ret_error);
/* Whether media_reopen with this spec would give the same: the text, and the store's own size. */
bool media_is_current(const struct media *media, const char *spec);
/* Space that the store takes, at most its size: of a sparse file what is allocated. All of it where
 * that is not cheaply known (memory, block devices). */
uint64_t media_used_bytes(struct media *media);
/* What is wrong with the store beyond errors of single operations: a file that was cut short or
 * deleted, or a block device that was removed or shrank, while it is served. Looks at it. False:
 * nothing is. */
bool media_problem(struct media *media, struct media_error *ret_problem);
/* Of those, whether bytes of the store are missing. Looks at it. */
bool media_is_cut(struct media *media);
/* Another file than the one that was served last has its name: a copy of it, or something else. */
bool media_is_another(const struct media *media);
/* Acknowledged writes may be in the page cache of the kernel: no direct I/O. */
bool media_is_buffered(const struct media *media);
/* Whether its file was deleted, or another renamed over it, since it was opened: its data are gone
 * with the last process that has it open. */
bool media_is_nameless(const struct media *media);
/* What was served last under the UUID of its namespace, by whatever name: from now on that decides
 * whether it is another. Before anybody uses the medium; `path` is for the log. */
void media_note_known(struct media *media, const char *path, const struct media_record *known);
/* A flush has failed, and with it data that were acknowledged: every flush and every durable write
 * fails until media_forgive. */
bool media_has_lost_writes(const struct media *media);
/* Number of the latest such failure, which no other one has in this process, forgiven or not; 0:
 * there was none. Any reactor. */
uint64_t media_loss(const struct media *media);
void media_forgive(struct media *media);
/* Before the last close of a medium that was never served: takes back what opening it did to the
 * store, a file that was made, or grown. */
void media_undo(struct media *media);

/* The caller has checked the range. Behind the end of a medium may be the memory of another one. */
static inline void media_submit(struct media_io *io)
{
	CHECK(io->len_bytes <= io->media->size_bytes &&
	      io->offset <= io->media->size_bytes - io->len_bytes);
	io->media->ops->submit(io);
}

#endif

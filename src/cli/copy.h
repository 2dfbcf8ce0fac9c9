/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `weft copy` share. A copy goes in pieces of one size; workers, a thread each,
 * take them in order and do one at a time: read, then write what is not zero and erase what is. The
 * main thread shows progress, writes the journal and takes signals.
 *
 * Everything behind a lock is in struct copy; an end is used by all workers at once.
 */
#ifndef WEFT_CLI_COPY_H
#define WEFT_CLI_COPY_H

#include "cli/ns_args.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#define COPY_DEPTH_MAX      256
#define COPY_PIECE_MAX      (64u << 20)
#define COPY_GRAIN_BYTES    65536u /* zeroes are looked for in units of this */
#define COPY_IDENTITY_BYTES 512
#define COPY_ID_BYTES       37 /* a UUID */
#define COPY_CHECKPOINT_NS  (2ull * 1000000000)

struct copy_options {
	struct ns_options ns;
	const char *from;
	const char *to;
	unsigned depth;
	uint32_t piece_bytes;
	uint64_t rate; /* bytes a second; 0: as fast as it goes */
	const char *journal;
	bool does_verify;
	bool is_sparse;
	bool has_progress; /* lines, also without a terminal */
	bool is_quiet;
};

/* Returns true to go on, or false with the exit status in *ret_exit. */
bool copy_args(int argc, char **argv, struct copy_options *options, int *ret_exit);

/* ---- ends ----------------------------------------------------------------------------------- */

enum copy_role {
	COPY_FROM,
	COPY_TO,
	COPY_TO_AGAIN, /* a journal tells of it: it must be there */
};

/* A file, a block device, a namespace, or standard input or output ("-"). */
struct copy_end {
	const char *command;
	const char *name; /* as the user gave it */
	bool is_source;
	bool is_ns;
	bool is_regular; /* a file, not a device */
	bool is_stream;  /* once, in order; copy_stream.c. size_bytes is UINT64_MAX */
	bool does_wait;  /* the stream may not be ready for more */
	int fd;
	struct ns_handle handle;
	uint64_t size_bytes;
	uint32_t block_bytes;  /* what is read and written is a multiple; 1 for a file */
	struct timespec mtime; /* of a source that is a file, when it was opened */
	_Atomic bool cannot_zero;
	char identity[COPY_IDENTITY_BYTES]; /* for the journal: the same thing, if it is equal */
};

/* All: 0 or -errno. copy_end_open has printed a message. */
int copy_end_open(struct copy_end *end, struct weft *weft, const struct copy_options *options,
		  enum copy_role role);
void copy_end_close(struct copy_end *end);
/* A file that is written to gets its size; what was in it goes, unless is_resumed. */
int copy_end_size(struct copy_end *end, uint64_t bytes, bool is_resumed);
/* Behind the end that a file had there are zeroes. -ESTALE: it ends earlier now. */
int copy_end_read(const struct copy_end *end, void *buf, uint64_t offset, size_t bytes);
int copy_end_write(const struct copy_end *end, const void *buf, uint64_t offset, size_t bytes);
/* Zeroes without data: a hole, or Write Zeroes that may deallocate. -EOPNOTSUPP: write them. */
int copy_end_zero(struct copy_end *end, uint64_t offset, size_t bytes);
int copy_end_flush(const struct copy_end *end);
/* Whether a file is known to have no data there; false when that cannot be known. A file that was
 * cut has none behind its new end: check the size after it. */
bool copy_end_is_hole(const struct copy_end *end, uint64_t offset, size_t bytes);
/* What is read from now on comes from the medium. */
void copy_end_forget(const struct copy_end *end);

/* Any thread. 0, or -ESTALE: it is not as large as it was. */
int copy_end_check_size(const struct copy_end *end);
/* Main thread. 0, or -ESTALE after a message: it is not what it was when the copy began. */
int copy_end_check(const struct copy_end *end);
/* Whether both ends are certainly one and the same namespace. */
bool copy_end_is_same(const struct copy_end *a, const struct copy_end *b);

/* Opens a file or a block device, and keeps targets and other copies off it: copy_file.c. */
int copy_file_open(struct copy_end *end, const struct copy_options *options, enum copy_role role);

/* Fill in identity: copy_identity.c. */
void copy_identify_ns(struct copy_end *end, const char *nqn);
void copy_identify_file(struct copy_end *end, const struct stat *info, bool is_source);
void copy_identify_device(struct copy_end *end, const struct stat *info);

bool copy_stream_is_named(const char *name);
int copy_stream_open(struct copy_end *end, bool is_source);
/* Less than `bytes` only at the end. -ECANCELED: stop_fd became readable. */
int copy_stream_read(const struct copy_end *end, int stop_fd, uint8_t *buf, size_t bytes,
		     size_t *ret_bytes);
int copy_stream_write(const struct copy_end *end, int stop_fd, const uint8_t *buf, size_t bytes);
int copy_stream_flush(const struct copy_end *end);

struct copy;

/* ---- the journal ---------------------------------------------------------------------------- */

struct copy_journal {
	bool is_there;          /* a file has it, and the copy goes on from done_bytes */
	char id[COPY_ID_BYTES]; /* random, of the copy */
	bool is_tagged;         /* the destination file has the ID as an extended attribute */
	char from[COPY_IDENTITY_BYTES];
	char to[COPY_IDENTITY_BYTES];
	uint64_t total_bytes;
	uint64_t done_bytes; /* up to here all is on stable media */
};

/* 0; -ENOENT: there is none; -EINVAL: it is no journal; -EPROTONOSUPPORT: of an earlier version;
 * another -errno. */
int copy_journal_load(const char *path, struct copy_journal *ret_journal);
/* In one step: after a crash it is the old one or this one. */
int copy_journal_save(const char *path, const struct copy_journal *journal);
/* The names in the folder of this file reach stable media. */
int copy_folder_sync(const char *path);

/* Before the destination is opened: reads the journal, if there is one. 0 or -errno, after a
 * message. */
int copy_resume_load(const struct copy_options *options, struct copy_journal *ret_journal);
/* With both ends open: sees that they are those of the journal, or begins a journal. Nothing is
 * written to the destination before. 0 or -errno, after a message. */
int copy_resume_begin(const struct copy *copy, struct copy_journal *journal);
/* The copy is done, or must not go on: removes the journal. */
void copy_resume_end(const struct copy *copy);

/* ---- workers -------------------------------------------------------------------------------- */

enum copy_phase {
	COPY_COPYING,
	COPY_VERIFYING
};

struct copy_worker {
	struct copy *copy;
	pthread_t thread;
	uint64_t at; /* the piece it works on, or UINT64_MAX */
	uint8_t *buf;
	uint8_t *other; /* of the destination, when it verifies */
};

struct copy {
	const struct copy_options *options;
	struct copy_end from;
	struct copy_end to;
	uint64_t total_bytes; /* UINT64_MAX: nobody knows before its end */
	enum copy_phase phase;
	int done_fd; /* readable when the last worker has ended */
	int stop_fd; /* readable once it is stopped */
	struct copy_worker *workers;
	unsigned worker_count;
	pthread_mutex_t lock;
	pthread_cond_t stopped;
	pthread_mutex_t stream_lock; /* whose turn it is to read standard input */
	bool has_stream_ended;       /* under it */
	pthread_cond_t written;      /* stream_bytes has changed */
	/* Under the lock. */
	uint64_t stream_bytes; /* of standard output: written */
	unsigned running;
	bool is_stopped; /* by a failure or a signal */
	uint64_t next_bytes;
	uint64_t done_bytes; /* in all, this run */
	uint64_t zero_bytes;
	uint64_t rate_ns; /* when the next piece may begin */
	int result;       /* the first failure, and where and at what */
	uint64_t failed_at;
	const char *failed_doing;
};

/* Starts the workers on [first_bytes, total_bytes). 0 or -errno. */
int copy_workers_start(struct copy *copy, enum copy_phase phase, uint64_t first_bytes);
/* After done_fd. */
void copy_workers_join(struct copy *copy);
void copy_workers_stop(struct copy *copy);
/* Everything before this is done. */
uint64_t copy_workers_watermark(struct copy *copy);

/* ---- what people see ------------------------------------------------------------------------ */

struct copy_progress {
	uint64_t begin_ns;
	uint64_t shown_ns;
	uint64_t first_bytes;
	bool is_terminal;
};

void copy_progress_begin(struct copy_progress *progress, const struct copy *copy,
			 uint64_t first_bytes);
/* When it is time for it. */
void copy_progress_show(struct copy_progress *progress, struct copy *copy);
/* Leaves the terminal's line; then the sum on standard output, unless it failed. */
void copy_progress_end(struct copy_progress *progress, struct copy *copy);

#endif

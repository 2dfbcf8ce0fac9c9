/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a copy from start to end: opens both ends, checks that they fit, lets the workers copy and
 * then, if asked, compare. Main thread: waits for the workers and for signals, and writes the
 * journal.
 *
 * The journal records completed progress, never more than was flushed: the offset is read first,
 * then the destination is flushed, then the offset is saved.
 */
#include "base/clock.h"
#include "base/tool_error.h"
#include "copy/journal.h"
#include "copy/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define TICK_MS       250
#define CHECKPOINT_NS (2 * NS_PER_S)

struct run {
	struct copy copy;
	const struct copy_options *options;
	struct copy_progress progress;
	int signal_fd;
	bool is_interrupted;
	struct copy_journal journal;
	uint64_t checkpoint_ns;
	uint64_t checkpoint_bytes;
};

/* ---- preparing ------------------------------------------------------------------------------ */

/* Determines how much to copy and checks that it fits. 0 or -errno, after a message. */
static int run_measure(struct run *run)
{
	const struct copy_end *from = &run->copy.from, *to = &run->copy.to;
	uint64_t bytes = from->size_bytes;
	uint64_t rest = bytes % to->block_bytes;

	/* The workers detect the end of the stream. */
	if (from->is_stream) {
		run->copy.total_bytes = UINT64_MAX;
		return 0;
	}
	/* A file may end within a block; the rest of the block is filled with zeroes. A namespace
	 * must match. */
	if (rest != 0 && from->is_ns) {
		tool_error(to->command,
			   "%s has blocks of %" PRIu32 " bytes, and the %" PRIu64
			   " bytes of %s are not a multiple of that",
			   to->name, to->block_bytes, bytes, from->name);
		return -EINVAL;
	}
	if (rest != 0)
		bytes += to->block_bytes - rest;
	if (!to->is_regular && bytes > to->size_bytes) {
		tool_error(to->command,
			   "%s is too small: %" PRIu64 " bytes, and %s has %" PRIu64
			   "; make it larger by %" PRIu64,
			   to->name, to->size_bytes, from->name, from->size_bytes,
			   bytes - to->size_bytes);
		return -ENOSPC;
	}
	run->copy.total_bytes = bytes;
	return 0;
}

/* Refuses to copy a namespace onto itself: writes of other hosts during the copy would be lost. 0
 * or -errno, after a message. */
static int run_check_same(const struct run *run)
{
	const struct copy_end *from = &run->copy.from, *to = &run->copy.to;

	if (!copy_end_is_same(from, to))
		return 0;
	tool_error(to->command,
		   "%s and %s are the same namespace: their UUIDs are equal. Name another "
		   "destination, or give the destination another UUID",
		   from->name, to->name);
	return -EINVAL;
}

static int run_open(struct run *run, struct weft *weft)
{
	struct copy *copy = &run->copy;
	int res = copy_resume_load(run->options, &run->journal);

	if (res == 0)
		res = copy_end_open(&copy->from, weft, run->options, COPY_FROM);
	if (res == 0)
		res = copy_end_open(&copy->to, weft, run->options,
				    run->journal.is_there ? COPY_TO_AGAIN : COPY_TO);
	if (res == 0)
		res = run_check_same(run);
	if (res == 0)
		res = run_measure(run);
	if (res == 0)
		res = copy_resume_begin(copy, &run->journal);
	if (res == 0) {
		res = copy_end_size(&copy->to, copy->total_bytes, run->journal.done_bytes > 0);
		if (res != 0)
			tool_error(copy->to.command, "%s: %s", copy->to.name, strerror(-res));
	}
	return res;
}

/* ---- while copying -------------------------------------------------------------------------- */

/* 0 or -errno, after a message. A failed flush does not report which writes are lost, so everything
 * after the last successful flush counts as lost. */
static int run_flush(const struct run *run)
{
	const struct copy_end *to = &run->copy.to;
	int res = copy_end_flush(to);

	if (res == 0)
		return 0;
	tool_error(
		run->options->ns.command,
		"cannot flush %s: %s. What was copied %s may be lost: run the same command again%s",
		to->name, to->is_ns ? weft_strerror(res) : strerror(-res),
		run->options->journal != NULL ? "since the last flush" : "so far",
		run->options->journal != NULL ? ", which continues from there" : "");
	return res;
}

/* Flushes the destination and saves the journal if there is progress. 0 or -errno, after a
 * message. */
static int run_checkpoint(struct run *run)
{
	uint64_t mark = copy_workers_watermark(&run->copy);
	int res;

	run->checkpoint_ns = clock_monotonic_ns();
	if (run->options->journal == NULL || mark == run->checkpoint_bytes)
		return 0;
	res = run_flush(run);
	if (res != 0)
		return res;
	run->journal.done_bytes = mark;
	res = copy_journal_save(run->options->journal, &run->journal);
	if (res != 0)
		tool_error(run->options->ns.command, "cannot write the journal %s: %s",
			   run->options->journal, strerror(-res));
	else
		run->checkpoint_bytes = mark;
	return res;
}

static void run_signal(struct run *run)
{
	struct signalfd_siginfo info;

	if (read(run->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (run->is_interrupted)
		_exit(EXIT_FAILURE);
	run->is_interrupted = true;
	copy_workers_stop(&run->copy);
}

/* Waits until the last worker has ended. 0 or -errno, after a message. */
static int run_wait(struct run *run)
{
	struct pollfd polls[] = {
		{.fd = run->copy.done_fd, .events = POLLIN},
		{.fd = run->signal_fd, .events = POLLIN},
	};
	int res = 0;

	while (poll(polls, 2, TICK_MS) <= 0 || polls[0].revents == 0) {
		uint64_t now_ns = clock_monotonic_ns();

		if (polls[1].revents)
			run_signal(run);
		copy_progress_show(&run->progress, &run->copy);
		if (run->copy.phase != COPY_COPYING || res != 0 ||
		    now_ns - run->checkpoint_ns < CHECKPOINT_NS)
			continue;
		res = run_checkpoint(run);
		if (res != 0)
			copy_workers_stop(&run->copy);
	}
	return res;
}

static void run_complain(const struct run *run)
{
	const struct copy *copy = &run->copy;
	const char *command = run->options->ns.command;
	bool at_source = strcmp(copy->failed_doing, "reading") == 0;

	if (copy->result == -ESTALE && copy_end_check(at_source ? &copy->from : &copy->to) != 0)
		return;
	if (copy->result == -EILSEQ && copy->phase == COPY_COMPARING)
		tool_error(command,
			   "%s differs from %s between byte %" PRIu64 " and %" PRIu64
			   ": one side was written to or formatted since the copy was interrupted. "
			   "Remove the journal %s to copy everything again",
			   copy->to.name, copy->from.name, copy->failed_at,
			   copy->failed_at + run->options->piece_bytes, run->options->journal);
	else if (copy->result == -EILSEQ)
		tool_error(command,
			   "%s differs from %s between byte %" PRIu64 " and %" PRIu64
			   ": FROM or TO was written to during the copy, or data was corrupted",
			   copy->to.name, copy->from.name, copy->failed_at,
			   copy->failed_at + run->options->piece_bytes);
	else if (copy->result == -EFBIG && copy->from.is_stream)
		tool_error(command,
			   "%s is longer than %s, which has %" PRIu64 " bytes; the first %" PRIu64
			   " were written",
			   copy->from.name, copy->to.name, copy->to.size_bytes, copy->failed_at);
	else if (copy->result == -EPIPE && copy->to.is_stream)
		tool_error(command,
			   "the reader of standard output closed it after %" PRIu64 " bytes",
			   copy->stream_bytes);
	else
		tool_error(command, "%s %s at byte %" PRIu64 ": %s", copy->failed_doing,
			   at_source ? copy->from.name : copy->to.name, copy->failed_at,
			   strerror(-copy->result));
}

static void run_tell_resume(const struct run *run)
{
	const char *command = run->options->ns.command;

	if (run->copy.phase == COPY_VERIFYING)
		tool_error(command, "interrupted: the copy is complete, the comparison is not");
	else if (run->copy.from.is_stream || run->copy.to.is_stream)
		tool_error(command, "interrupted");
	else if (run->options->journal != NULL)
		tool_error(command, "interrupted: the same command continues from here (%s)",
			   run->options->journal);
	else
		tool_error(command, "interrupted: use --resume JOURNAL to make a copy resumable");
}

/* One pass over [first_bytes, end_bytes). 0 or -errno, after a message. */
static int run_pass(struct run *run, enum copy_phase phase, uint64_t first_bytes,
		    uint64_t end_bytes)
{
	struct copy *copy = &run->copy;
	int res = copy_workers_start(copy, phase, first_bytes, end_bytes);
	int saved;

	if (res != 0) {
		tool_error(run->options->ns.command, "cannot start: %s", strerror(-res));
		return res;
	}
	copy_progress_begin(&run->progress, copy, first_bytes);
	run->checkpoint_ns = clock_monotonic_ns();
	res = run_wait(run);
	/* Also after a failure, so that completed pieces need not be copied again. */
	saved = phase == COPY_COPYING && res == 0 ? run_checkpoint(run) : 0;
	if (phase == COPY_COPYING && res == 0 && saved == 0 && copy->result == 0)
		saved = run_flush(run);
	copy_workers_join(copy);
	copy_progress_end(&run->progress, copy);
	if (copy->result != 0)
		run_complain(run);
	else if (run->is_interrupted)
		run_tell_resume(run);
	if (res == 0)
		res = copy->result != 0 ? copy->result : (run->is_interrupted ? -EINTR : saved);
	return res;
}

/* ---- the whole copy ------------------------------------------------------------------------- */

/* 0 or -errno, after a message. */
static int run_check_ends(const struct run *run)
{
	int res = copy_end_check(&run->copy.from);

	return res != 0 ? res : copy_end_check(&run->copy.to);
}

/* Before an interrupted copy continues: whether the copied part is still equal at both ends. 0 or
 * -errno, after a message. */
static int run_compare(struct run *run)
{
	if (!copy_resume_must_compare(&run->copy, &run->journal))
		return 0;
	copy_end_forget(&run->copy.to);
	return run_pass(run, COPY_COMPARING, 0, run->journal.done_bytes);
}

static int run_copy(struct run *run)
{
	uint64_t done_bytes = run->journal.done_bytes, total_bytes = run->copy.total_bytes;
	int res = run_compare(run);

	/* Nothing was written, and the operator removes the journal. */
	if (res != 0)
		return res;
	res = run_pass(run, COPY_COPYING, done_bytes, total_bytes);
	if (res == 0 && run->options->does_verify) {
		copy_end_forget(&run->copy.to);
		res = run_pass(run, COPY_VERIFYING, 0, total_bytes);
	}
	if (res == 0)
		res = run_check_ends(run);
	/* Remove the journal of a complete copy, and of an invalid one, which must start again. */
	if (res == 0 || res == -EILSEQ || res == -ESTALE)
		copy_resume_end(&run->copy);
	return res;
}

static int run_init(struct run *run)
{
	pthread_condattr_t attr;
	sigset_t set;

	run->copy.options = run->options;
	run->copy.from.fd = -1;
	run->copy.to.fd = -1;
	pthread_mutex_init(&run->copy.lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&run->copy.stopped, &attr);
	pthread_cond_init(&run->copy.written, NULL);
	pthread_mutex_init(&run->copy.stream_lock, NULL);
	pthread_condattr_destroy(&attr);
	/* Before any thread starts: all threads inherit the mask and leave the signals to this
	 * one. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	run->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	run->copy.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return run->signal_fd >= 0 && run->copy.stop_fd >= 0 ? 0 : -errno;
}

int copy_run(const struct copy_options *options)
{
	struct run run = {.options = options};
	struct weft *weft;
	int res = run_init(&run);

	if (res != 0) {
		tool_error(options->ns.command, "cannot wait for signals: %s", strerror(-res));
		return res;
	}
	res = ns_instance_create(&options->ns, WEFT_CALLBACKS_REACTOR, &weft);
	if (res != 0)
		return res;
	res = run_open(&run, weft);
	if (res == 0)
		res = run_copy(&run);
	copy_end_close(&run.copy.from);
	copy_end_close(&run.copy.to);
	weft_destroy(weft);
	close(run.signal_fd);
	close(run.copy.stop_fd);
	return res;
}

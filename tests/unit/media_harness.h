/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of media: a reactor on a thread of its own, operations that the test's thread submits
 * there and waits for, and a folder that is empty at the start and removed at the end. Header only,
 * included once by a program.
 */
#ifndef WEFT_TESTS_MEDIA_HARNESS_H
#define WEFT_TESTS_MEDIA_HARNESS_H

#include "media/media.h"

#include <ftw.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct harness {
	struct reactor *reactor;
	pthread_t thread;
};

struct harness_io {
	struct media_io io;
	struct reactor_msg msg;
	struct reactor_msg cancel_msg;
	sem_t ended;
	sem_t cancelled;
	bool is_over;
	int res;
	unsigned calls; /* calls of done; must be 1 */
};

static struct harness harness;

static void *harness_main(void *arg)
{
	reactor_run(harness.reactor);
	return NULL;
}

__attribute__((unused)) static void harness_start(void)
{
	struct reactor_config config = {.index = 0, .cpu = -1, .spin_max_us = 0};

	CHECK(reactor_create(&config, &harness.reactor) == 0);
	CHECK(pthread_create(&harness.thread, NULL, harness_main, NULL) == 0);
}

__attribute__((unused)) static void harness_stop(void)
{
	reactor_stop(harness.reactor);
	pthread_join(harness.thread, NULL);
	reactor_destroy(harness.reactor);
}

static void harness_done(struct media_io *io, int res)
{
	struct harness_io *hio = container_of(io, struct harness_io, io);

	CHECK(reactor_current() == io->reactor);
	hio->res = res;
	hio->is_over = true;
	hio->calls++;
	sem_post(&hio->ended);
}

static void harness_submit_on_reactor(struct reactor_msg *msg)
{
	media_submit(&container_of(msg, struct harness_io, msg)->io);
}

static void harness_cancel_on_reactor(struct reactor_msg *msg)
{
	struct harness_io *hio = container_of(msg, struct harness_io, cancel_msg);

	if (!hio->is_over && hio->io.media->ops->cancel)
		hio->io.media->ops->cancel(&hio->io);
	sem_post(&hio->cancelled);
}

/* The caller sets kind, offset, iov… in hio->io; this function sets the rest. */
static void harness_submit(struct harness_io *hio, struct media *media)
{
	hio->io.reactor = harness.reactor;
	hio->io.media = media;
	hio->io.done = harness_done;
	hio->is_over = false;
	hio->calls = 0;
	sem_init(&hio->ended, 0, 0);
	sem_init(&hio->cancelled, 0, 0);
	reactor_post(harness.reactor, &hio->msg, harness_submit_on_reactor);
}

static int harness_wait(struct harness_io *hio)
{
	while (sem_wait(&hio->ended) != 0)
		continue;
	return hio->res;
}

__attribute__((unused)) static void harness_cancel(struct harness_io *hio)
{
	reactor_post(harness.reactor, &hio->cancel_msg, harness_cancel_on_reactor);
	while (sem_wait(&hio->cancelled) != 0)
		continue;
}

static int harness_iov(struct media *media, enum media_kind kind, uint64_t offset,
		       const struct iovec *iov, unsigned iov_count, bool is_fua)
{
	struct harness_io hio = {
		.io = {.kind = kind,
		       .offset = offset,
		       .iov = iov,
		       .iov_count = iov_count,
		       .is_fua = is_fua},
	};

	for (unsigned i = 0; i < iov_count; i++)
		hio.io.len_bytes += iov[i].iov_len;
	harness_submit(&hio, media);
	return harness_wait(&hio);
}

__attribute__((unused)) static int harness_read(struct media *media, uint64_t offset, void *buf,
						size_t len_bytes)
{
	struct iovec iov = {buf, len_bytes};

	return harness_iov(media, MEDIA_READ, offset, &iov, 1, false);
}

__attribute__((unused)) static int harness_write(struct media *media, uint64_t offset,
						 const void *buf, size_t len_bytes)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len_bytes};

	return harness_iov(media, MEDIA_WRITE, offset, &iov, 1, false);
}

struct harness_range {
	enum media_kind kind;
	uint64_t offset;
	uint64_t len_bytes;
	bool is_fua;
	bool may_discard;
};

/* FLUSH, WRITE_ZEROES or DISCARD. */
__attribute__((unused)) static int harness_range(struct media *media, struct harness_range range)
{
	struct harness_io hio = {
		.io = {.kind = range.kind,
		       .offset = range.offset,
		       .len_bytes = range.len_bytes,
		       .is_fua = range.is_fua,
		       .may_discard = range.may_discard},
	};

	harness_submit(&hio, media);
	return harness_wait(&hio);
}

static char harness_folder[64];

__attribute__((unused)) static void harness_folder_make(const char *parent)
{
	snprintf(harness_folder, sizeof(harness_folder), "%s/weft-media-XXXXXX", parent);
	CHECK(mkdtemp(harness_folder) != NULL);
}

static int harness_remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

__attribute__((unused)) static void harness_folder_remove(void)
{
	nftw(harness_folder, harness_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies one namespace onto another with many requests in flight, without a thread of its own: the
 * callbacks run inside weft_poll. A worker is a request that reads, then writes what it has read,
 * then continues with the next piece, all in its own callback.
 *
 *     async_copy ADDRESS PORT NQN FROM_NSID TO_NSID
 *
 * Build: cc async_copy.c $(pkg-config --cflags --libs weft)
 */
#include <weft/weft.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS     32
#define PIECE_BYTES (128 * 1024)

struct copy {
	struct weft_ns *from;
	struct weft_ns *to;
	uint64_t block_count;
	uint32_t block_bytes;
	uint64_t next_block;
	unsigned busy; /* workers */
	int result;    /* the first failure */
};

struct worker {
	struct weft_request request;
	struct copy *copy;
	struct iovec iov;
	uint8_t bytes[PIECE_BYTES];
};

static void worker_submit(struct worker *worker, struct weft_ns *ns)
{
	int res = weft_submit(ns, &worker->request);

	if (res != 0) {
		worker->copy->result = res;
		worker->copy->busy--;
	}
}

/* Starts the next piece, or ends the worker. */
static void worker_go_on(struct worker *worker)
{
	struct weft_request *request = &worker->request;
	struct copy *copy = worker->copy;
	uint64_t left = copy->block_count - copy->next_block;
	uint32_t most = PIECE_BYTES / copy->block_bytes;

	if (left == 0 || copy->result != 0) {
		copy->busy--;
		return;
	}
	request->op = WEFT_READ;
	request->block = copy->next_block;
	request->block_count = left < most ? (uint32_t)left : most;
	worker->iov.iov_len = (size_t)request->block_count * copy->block_bytes;
	copy->next_block += request->block_count;
	worker_submit(worker, copy->from);
}

static void worker_done(struct weft_request *request)
{
	struct worker *worker = request->arg;
	struct copy *copy = worker->copy;

	if (request->result != 0) {
		fprintf(stderr, "async_copy: %s at block %" PRIu64 ": %s\n",
			request->op == WEFT_READ ? "reading" : "writing", request->block,
			weft_strerror(request->result));
		copy->result = request->result;
		copy->busy--;
	} else if (request->op == WEFT_READ) {
		request->op = WEFT_WRITE;
		worker_submit(worker, copy->to);
	} else {
		worker_go_on(worker);
	}
}

static int copy_run(struct weft *weft, struct copy *copy)
{
	struct worker *workers = calloc(WORKERS, sizeof(*workers));

	if (workers == NULL)
		return -1;
	for (unsigned i = 0; i < WORKERS; i++) {
		struct worker *worker = &workers[i];

		worker->copy = copy;
		worker->iov.iov_base = worker->bytes;
		worker->request.iov = &worker->iov;
		worker->request.iov_count = 1;
		worker->request.reactor = i;
		worker->request.done = worker_done;
		worker->request.arg = worker;
		copy->busy++;
		worker_go_on(worker);
	}
	while (copy->busy > 0)
		weft_poll(weft, 0, -1);
	free(workers);
	return copy->result != 0 ? copy->result : weft_flush(copy->to);
}

static int copy_prepare(struct weft_subsystem *subsystem, char **nsids, struct copy *copy)
{
	struct weft_ns_info from = {.size = sizeof(from)}, to = {.size = sizeof(to)};
	struct weft_error error;

	if (weft_ns_open(subsystem, (uint32_t)strtoul(nsids[0], NULL, 0), &copy->from, &error) ||
	    weft_ns_open(subsystem, (uint32_t)strtoul(nsids[1], NULL, 0), &copy->to, &error)) {
		fprintf(stderr, "async_copy: %s\n", error.text);
		return -1;
	}
	weft_ns_info(copy->from, &from);
	weft_ns_info(copy->to, &to);
	if (from.block_bytes != to.block_bytes || from.block_count > to.block_count) {
		fprintf(stderr,
			"async_copy: the namespaces do not fit: their blocks differ, or the "
			"second is smaller\n");
		return -1;
	}
	copy->block_bytes = from.block_bytes;
	copy->block_count = from.block_count;
	return 0;
}

int main(int argc, char **argv)
{
	struct weft_open_options open_options;
	struct weft_subsystem *subsystem = NULL;
	struct weft_options options;
	struct copy copy = {0};
	struct weft_error error;
	struct weft_path path;
	struct weft *weft;
	int res;

	if (argc != 6) {
		fprintf(stderr, "usage: async_copy ADDRESS PORT NQN FROM_NSID TO_NSID\n");
		return 2;
	}
	weft_options_init(&options);
	options.callbacks = WEFT_CALLBACKS_POLL;
	res = weft_create(&options, &weft, &error);
	if (res != 0) {
		fprintf(stderr, "async_copy: %s\n", error.text);
		return 1;
	}
	path = (struct weft_path){.address = argv[1], .service = argv[2]};
	weft_open_options_init(&open_options);
	open_options.subsystem_nqn = argv[3];
	open_options.paths = &path;
	open_options.path_count = 1;
	res = weft_open(weft, &open_options, &subsystem, &error);
	if (res != 0)
		fprintf(stderr, "async_copy: %s\n", error.text);
	else
		res = copy_prepare(subsystem, &argv[4], &copy);
	if (res == 0)
		res = copy_run(weft, &copy);
	if (res == 0)
		printf("copied %" PRIu64 " blocks of %" PRIu32 " bytes\n", copy.block_count,
		       copy.block_bytes);
	weft_ns_close(copy.from);
	weft_ns_close(copy.to);
	weft_close(subsystem);
	weft_destroy(weft);
	return res == 0 ? 0 : 1;
}

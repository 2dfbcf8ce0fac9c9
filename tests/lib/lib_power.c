/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user of libweft with several handles of one namespace, for test_power.py: executes the commands
 * on standard input and prints the result of each line.
 *
 *     open               opens another handle; prints its number
 *     write HANDLE R F   writes block 0 on reactor R with flags F
 *     flush HANDLE R     flushes on reactor R
 *     both HANDLE        submits a flush on each of two reactors, and prints both results once
 *                        both have ended
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#define HANDLES_MAX 8
#define BLOCK_BYTES 4096

static struct weft_subsystem *subsystem;
static struct weft_ns *handles[HANDLES_MAX];
static unsigned handle_count;

static int request_run(unsigned handle, enum weft_op op, unsigned reactor, unsigned flags)
{
	static char block[BLOCK_BYTES];
	struct iovec iov = {block, sizeof(block)};
	struct weft_request request = {.op = op, .reactor = reactor, .flags = flags};

	memset(block, 'w', sizeof(block));
	if (op == WEFT_WRITE) {
		request.block_count = 1;
		request.iov = &iov;
		request.iov_count = 1;
	}
	return weft_run(handles[handle], &request);
}

static struct weft *weft;
static unsigned ended;

static void flush_done(struct weft_request *request)
{
	(void)request;
	ended++;
}

/* Submitted together, so that neither flush knows the other's result. */
static void both_run(unsigned handle)
{
	struct weft_request requests[2] = {{.op = WEFT_FLUSH, .done = flush_done},
					   {.op = WEFT_FLUSH, .done = flush_done, .reactor = 1}};

	ended = 0;
	for (unsigned i = 0; i < 2; i++) {
		if (weft_submit(handles[handle], &requests[i]) != 0)
			exit(1);
	}
	printf("submitted\n");
	fflush(stdout);
	while (ended < 2)
		(void)weft_poll(weft, 0, -1);
	printf("%d %d\n", requests[0].result, requests[1].result);
}

static void line_run(const char *line)
{
	unsigned handle = 0, reactor = 0, flags = 0;

	if (strncmp(line, "open", 4) == 0) {
		struct weft_error error;

		if (weft_ns_open(subsystem, 1, &handles[handle_count], &error) != 0) {
			printf("%s\n", error.text);
			exit(1);
		}
		printf("%u\n", handle_count++);
	} else if (sscanf(line, "write %u %u %u", &handle, &reactor, &flags) == 3) {
		printf("%d\n", request_run(handle, WEFT_WRITE, reactor, flags));
	} else if (sscanf(line, "flush %u %u", &handle, &reactor) == 2) {
		printf("%d\n", request_run(handle, WEFT_FLUSH, reactor, 0));
	} else if (sscanf(line, "both %u", &handle) == 1) {
		both_run(handle);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct weft_path path = {.address = "127.0.0.1", .service = argc > 1 ? argv[1] : NULL};
	struct weft_open_options open_options;
	struct weft_options options;
	struct weft_error error;
	char line[128];

	weft_options_init(&options);
	options.reactors = 2;
	options.callbacks = WEFT_CALLBACKS_POLL;
	weft_open_options_init(&open_options);
	open_options.subsystem_nqn = argc > 2 ? argv[2] : NULL;
	open_options.paths = &path;
	open_options.path_count = 1;
	if (weft_create(&options, &weft, &error) != 0 ||
	    weft_open(weft, &open_options, &subsystem, &error) != 0) {
		printf("%s\n", error.text);
		return 1;
	}
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL)
		line_run(line);
	for (unsigned i = 0; i < handle_count; i++)
		weft_ns_close(handles[i]);
	weft_close(subsystem);
	weft_destroy(weft);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the two sides of the raw ceiling, beside the bytes: the gathered send with its partial
 * sends, and helpers of their command lines. One thread each.
 */
#ifndef WEFT_BENCH_ECHO_H
#define WEFT_BENCH_ECHO_H

#include "echo_wire.h"

#include "base/net_addr.h"

#include <stdbool.h>
#include <stddef.h>

int echo_server_main(int argc, char **argv);
int echo_client_main(int argc, char **argv);

/* One header and the data behind it. */
struct echo_piece {
	uint8_t header[sizeof(struct echo_request)];
	uint32_t header_bytes;
	uint32_t data_bytes;
	const uint8_t *data; /* stays valid until it is sent */
};

/* The data that a connection has to send: a ring, so that the loop allocates nothing. */
struct echo_gather {
	struct echo_piece pieces[ECHO_DEPTH_MAX];
	unsigned head;
	unsigned count;
	size_t head_done_bytes; /* of the first piece */
};

/* False when ECHO_DEPTH_MAX pieces wait already. */
bool echo_gather_push(struct echo_gather *gather, const void *header, uint32_t header_bytes,
		      const uint8_t *data, uint32_t data_bytes);
/* Sends everything that waits, up to 1 MiB. What does not fit the socket stays. 0 or -errno. */
int echo_gather_flush(struct echo_gather *gather, int fd);

/* Raises the limit of open files to the maximum: a connection is one file. */
void echo_raise_file_limit(void);
/* Prints "echo: TEXT" and a hint to --help; returns the exit status of wrong usage. */
int echo_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

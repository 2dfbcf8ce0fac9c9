/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the echo client: echo_client.c has the command line, the loop and the report,
 * echo_client_conn.c one connection with its requests and the parsing of answers. One thread.
 */
#ifndef WEFT_BENCH_ECHO_CLIENT_H
#define WEFT_BENCH_ECHO_CLIENT_H

#include "echo.h"

#include "base/histogram.h"
#include "base/prng.h"

struct client_options {
	struct net_addr addr;
	bool is_write;
	bool is_random;
	bool is_sleeping;
	bool wants_verify;
	uint64_t io_bytes;
	uint64_t size_bytes;
	uint64_t depth; /* per connection */
	uint64_t connections;
	uint64_t rate; /* requests per second over all connections; 0: as many as possible */
	uint64_t time_ms;
	uint64_t warmup_ms;
};

/* One request in flight; its index is its tag. */
struct client_slot {
	uint64_t offset;
	uint64_t start_ns; /* when it was sent, or should have been sent when paced */
	enum echo_op op;
	bool is_busy;
	uint8_t *data; /* of writes */
};

struct client_conn {
	int fd;
	struct client_slot *slots;
	uint32_t *free_tags; /* a stack */
	unsigned free_count;
	/* The answer being received. */
	struct echo_response response;
	uint32_t header_bytes;
	uint32_t data_done_bytes;
	uint32_t data_left_bytes;
	struct echo_gather out;
};

struct client {
	struct client_options options;
	struct client_conn *conns;
	uint8_t *bulk;
	struct prng prng;
	uint64_t next_offset; /* sequential */
	uint64_t now_ns;
	bool is_issuing;      /* an answer is followed by the next request */
	bool is_reading_back; /* --verify: all data must be as written */
	uint8_t *written;     /* --verify: per block, 1 where this client wrote */
	unsigned under_way;
	/* Measured. */
	uint64_t ios;
	struct histogram latency;
	char error[128]; /* why the run failed */
};

int client_conn_open(struct client *client, struct client_conn *conn);
void client_conn_close(const struct client *client, struct client_conn *conn);
/* Puts one request into the next send; a slot must be free. */
void client_conn_ask(struct client *client, struct client_conn *conn, enum echo_op op,
		     uint64_t offset, uint64_t start_ns);
/* The next offset of the pattern. */
uint64_t client_next_offset(struct client *client);
/* One receive, the answers in it, and one send of what follows. 0 or -errno, with client->error. */
int client_conn_turn(struct client *client, struct client_conn *conn);

#endif
